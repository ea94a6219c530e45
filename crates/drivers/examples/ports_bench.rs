//! Cost of many edges on one port ("Network Emulation in Large-Scale Virtual Edge Testbeds", Figs. 1-7).
//!
//!     cargo run --release -p constel-drivers --example ports_bench -- DRIVER [EDGES...]
//!
//! For each number of edges that leave one port:
//!
//! - time to configure them in one update;
//! - delay added by the driver to a frame on one of them (kernel receive stamp minus time before `send` minus delay:
//!   median and 99 %);
//! - delivered frames of 1,400 bytes per second;
//! - time of an update that changes all edges, in total and from the first frame under the new table to the last under
//!   the old one (`switch`);
//! - the same with half of them replaced.
//!
//! netem needs an interface for every far port; the other drivers do not.
//!
//!     ports_bench hold DRIVER EDGES
//!
//! holds such a port without delay, with an edge back from port 1, until its input ends. It prints the time of the update and the
//! files of both namespaces, so that other programs can send over the edge (`experiments/edt/run`).

#[path = "../tests/support/plane.rs"]
mod plane;
#[path = "../tests/support/mod.rs"]
mod support;

use std::io::Read;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use constel_drivers::{DriverKind, Links, PlaneConfig, make_plane};
use constel_link::{EdgeChange, EdgeUpdate, Impairment, PortId, mac_of};
use plane::plug_ports;
use support::*;

/// An EtherType for experiments (IEEE 802).
const ODD: u16 = 0x88b5;
const DELAY_NS: u64 = 2 * MS;
const PROBES: u32 = 300;
const FLOOD: Duration = Duration::from_secs(1);

fn main() {
    let mut args = std::env::args().skip(1).peekable();
    let is_held = args.next_if(|word| word == "hold").is_some();
    let name = args.next().unwrap_or_else(|| "relay".into());
    let Some(kind) = DriverKind::ALL.into_iter().find(|kind| kind.name() == name) else {
        eprintln!("usage: ports_bench [hold] relay|edt|netem [EDGES...]");
        std::process::exit(2);
    };
    let mut counts: Vec<u32> = args
        .map(|n| n.parse().expect("a number of edges"))
        .collect();
    if counts.is_empty() {
        counts = vec![1, 10, 100, 1_000, 10_000, 65_000];
    }
    for edges in counts {
        if is_held {
            hold(kind, edges);
        } else {
            measure(kind, edges);
        }
    }
}

struct Timed {
    all: Duration,
    switch: Duration,
}

fn timed(handle: &dyn Links, changes: Vec<EdgeChange>) -> Timed {
    let start = Instant::now();
    let applied = handle.apply(EdgeUpdate { changes }, None).unwrap();
    Timed {
        all: start.elapsed(),
        switch: Duration::from_nanos(applied.took_ns),
    }
}

/// The plane of a port that some edges leave; `ports` are the port itself and those that the edges lead to.
fn plane_of(ports: u32) -> PlaneConfig {
    PlaneConfig {
        edges: 131_072,
        ..PlaneConfig::new("bench", ports.min(65_536), 1)
    }
}

/// Holds a port with edges that add nothing, until the input ends.
fn hold(kind: DriverKind, edges: u32) {
    let plane = make_plane(kind, &plane_of(edges + 1)).unwrap();
    let (near, far) = (Node::new(), Node::new());
    for (node, port) in [(&near, 0), (&far, 1)] {
        plug_ports(plane.as_ref(), node, &[PortId(port)]);
    }
    let handle = plane.start().unwrap();
    let there = (1..=edges).map(|to| set(0, to, Impairment::delay_only(0)));
    let back = [set(1, 0, Impairment::delay_only(0))];
    let configured = timed(handle.as_ref(), there.chain(back).collect());
    let file = |node: &Node| {
        let (process, fd) = (std::process::id(), node.ns.fd().as_raw_fd());
        format!("/proc/{process}/fd/{fd}")
    };
    let row = serde_json::json!({
        "driver": kind.name(), "edges": edges, "configure_ms": configured.all.as_secs_f64() * 1e3,
        "near": file(&near), "far": file(&far),
    });
    println!("{row}");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    handle.stop();
}

fn measure(kind: DriverKind, edges: u32) {
    // The measured edge leads to port 1; half as many others can be added for the replacement.
    let ports = edges + edges / 2 + 2;
    let config = plane_of(ports);
    let plane = make_plane(kind, &config).unwrap();
    let (near, far) = (Node::new(), Node::new());
    plug_ports(plane.as_ref(), &near, &[PortId(0)]);
    let with_interface = if kind == DriverKind::Netem { ports } else { 2 };
    plug_ports(
        plane.as_ref(),
        &far,
        &(1..with_interface).map(PortId).collect::<Vec<_>>(),
    );
    let handle = plane.start().unwrap();
    let wire = Impairment::delay_only(DELAY_NS);
    let all = |delay_ns| {
        (1..=edges)
            .map(|to| set(0, to, Impairment::delay_only(delay_ns)))
            .collect()
    };

    let configured = timed(handle.as_ref(), all(DELAY_NS));
    let mut added = delays(&near, &far);
    added.sort_unstable();
    let at = |share: f64| added[((added.len() - 1) as f64 * share) as usize] as f64 / 1e3;
    let rate = flood(handle.as_ref(), &near);
    let updated = timed(handle.as_ref(), all(2 * DELAY_NS));
    let half = (edges / 2).min(65_536 - edges - 1);
    let replaced = (half > 0).then(|| {
        let gone = (2..2 + half).map(|to| remove(0, to));
        let new = (edges + 1..edges + 1 + half).map(|to| set(0, to, wire));
        timed(
            handle.as_ref(),
            gone.chain(new).take_while(|_| edges > half).collect(),
        )
    });
    let ms = |d: Duration| d.as_secs_f64() * 1e3;
    let us = |d: Duration| d.as_secs_f64() * 1e6;
    let row = serde_json::json!({
        "driver": kind.name(), "edges": edges, "configure_ms": ms(configured.all),
        "added_p50_us": at(0.5), "added_p99_us": at(0.99), "frames_per_s": rate,
        "update_ms": ms(updated.all), "update_switch_us": us(updated.switch),
        "replaced_edges": half, "replace_ms": replaced.as_ref().map(|t| ms(t.all)),
        "replace_switch_us": replaced.as_ref().map(|t| us(t.switch)),
        "early": handle.snapshot().unwrap().early.unwrap_or(0),
    });
    println!("{row}");
    handle.stop();
}

fn frame_of(number: u32, len: usize) -> Vec<u8> {
    let mut payload = number.to_be_bytes().to_vec();
    payload.resize(len - 14, 0x55);
    frame(mac_of(PortId(1)), mac_of(PortId(0)), ODD, &payload)
}

/// Time that frames took beyond the delay, ns.
fn delays(near: &Node, far: &Node) -> Vec<u64> {
    let receiver = far.run(|| Raw::on(ETH0 + 1, ODD));
    stamp(&receiver);
    let sender = near.run(|| Raw::new(0));
    (0..PROBES)
        .map(|n| {
            let sent = real_ns();
            sender.send(&frame_of(n, 64));
            let (_, at) = receiver.next().expect("the frame arrives");
            std::thread::sleep(Duration::from_millis(1));
            (at - sent).saturating_sub(DELAY_NS)
        })
        .collect()
}

/// Frames a second that get through, by the driver's count.
fn flood(handle: &dyn Links, near: &Node) -> f64 {
    let sender = near.run(|| Raw::new(0));
    let whole = frame_of(0, 1400);
    let before = handle.snapshot().unwrap().totals.counters.delivered;
    let start = Instant::now();
    while start.elapsed() < FLOOD {
        for _ in 0..16 {
            sender.send(&whole);
        }
    }
    let took = start.elapsed();
    std::thread::sleep(Duration::from_millis(50));
    let after = handle.snapshot().unwrap().totals.counters.delivered;
    (after - before) as f64 / took.as_secs_f64()
}
