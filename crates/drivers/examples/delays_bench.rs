//! Delays of many links change at once ("OpenSN", Fig. 14b): from the command until a frame takes the new delay.
//!
//!     cargo run --release -p constel-drivers --example delays_bench -- [--pause-us N] [relay] [edt] [netem] [tc]
//!
//! 1, 10, 100 and 1,000 links, both directions of all of them in one update. A frame with its sending time crosses the
//! last link every `--pause-us` (50 by default). The result is how long after the command the first frame was sent that
//! had the new delay. `tc` is the method of emulators without a link plane: veth pairs with the kernel's netem, and one
//! command for each interface. Drivers that need no interface for a port get interfaces for the last link only.

#[path = "../tests/support/plane.rs"]
mod plane;
#[path = "../tests/support/mod.rs"]
mod support;

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use constel_drivers::{DriverKind, Links, Plane, PlaneConfig, make_plane};
use constel_link::{EdgeUpdate, PortId, mac_of};
use plane::plug_ports;
use std::sync::Arc;
use support::*;

/// An EtherType for experiments (IEEE 802).
const ODD: u16 = 0x88b5;
const COUNTS: [u32; 4] = [1, 10, 100, 1000];
const TRIES: usize = 5;
const SHORT_NS: u64 = MS;
/// Larger than the lateness of any frame, so that no late frame is mistaken for one with the new delay.
const LONG_NS: u64 = 400 * MS;
/// If one count took longer with a method, more links are not tried.
const LIMIT: Duration = Duration::from_secs(60);
/// Shorter pauses are spun instead of slept.
const SPIN: Duration = Duration::from_micros(200);

fn main() {
    let usage = || -> ! {
        eprintln!("usage: delays_bench [--pause-us N] [relay] [edt] [netem] [tc]");
        std::process::exit(2);
    };
    let mut pause = Duration::from_micros(50);
    let mut ways = Vec::new();
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let kind = DriverKind::ALL.into_iter().find(|kind| kind.name() == arg);
        match (arg.as_str(), kind) {
            ("--pause-us", _) => match args.next().and_then(|n| n.parse().ok()) {
                Some(us) => pause = Duration::from_micros(us),
                None => usage(),
            },
            ("tc", _) => ways.push(None),
            (_, Some(kind)) => ways.push(Some(kind)),
            _ => usage(),
        }
    }
    if ways.is_empty() {
        ways.push(Some(DriverKind::Relay));
    }
    let _stamped = stamps_begin();
    for way in ways {
        for count in COUNTS {
            let begun = Instant::now();
            let links = Pairs::new(way, count);
            let mut times = links.times(pause);
            times.sort_unstable();
            let ms = |ns: u64| ns as f64 / 1e6;
            let row = serde_json::json!({
                "by": way.map_or("tc", DriverKind::name), "links": count,
                "p50_ms": ms(times[TRIES / 2]), "max_ms": ms(times[TRIES - 1]), "tries": TRIES,
            });
            println!("{row}");
            if begun.elapsed() > LIMIT {
                break;
            }
        }
    }
}

/// Links 2n -- 2n + 1 between two nodes; interfaces are called `eth<port>`.
struct Pairs {
    count: u32,
    near: Node,
    far: Node,
    /// `None`: veth pairs with netem at both ends.
    plane: Option<(Arc<dyn Links>, Box<dyn Plane>)>,
}

impl Pairs {
    fn new(way: Option<DriverKind>, count: u32) -> Pairs {
        let (near, far) = (Node::new(), Node::new());
        let plane = way.map(|kind| {
            let config = PlaneConfig::new("bench", 2 * count, 1);
            let plane = make_plane(kind, &config).unwrap();
            let all = kind == DriverKind::Netem;
            let links = if all { 0..count } else { count - 1..count };
            for (node, side) in [(&near, 0), (&far, 1)] {
                let ports: Vec<PortId> = links.clone().map(|n| PortId(2 * n + side)).collect();
                plug_ports(plane.as_ref(), node, &ports);
            }
            (plane.start().unwrap(), plane)
        });
        let links = Pairs {
            count,
            near,
            far,
            plane,
        };
        if links.plane.is_none() {
            for n in 0..count {
                links.near.wire(2 * n, &links.far, 2 * n + 1, false);
            }
            for (node, side) in links.ends() {
                node.netlink(|batch| {
                    for n in 0..count {
                        batch.link_up(ETH0 + 2 * n + side);
                    }
                });
            }
            links.batch("add", SHORT_NS);
        } else {
            links.update(SHORT_NS);
        }
        links
    }

    fn ends(&self) -> [(&Node, u32); 2] {
        [(&self.near, 0), (&self.far, 1)]
    }

    /// The driver that is measured.
    fn update(&self, delay_ns: u64) {
        let Some((handle, _)) = &self.plane else {
            for n in 0..self.count {
                for (node, side) in self.ends() {
                    let words = netem("change", 2 * n + side, delay_ns);
                    let mut command = Command::new("tc");
                    command.args(words.split(' '));
                    let status = node.run(move || command.status().unwrap());
                    assert!(status.success(), "tc {words}");
                }
            }
            return;
        };
        let changes = (0..self.count).flat_map(|n| link(2 * n, 2 * n + 1, delay_ns));
        let changes = changes.collect();
        handle.apply(EdgeUpdate { changes }, None).unwrap();
    }

    /// Does the same as [`Pairs::update`], as fast as possible.
    fn reset(&self, delay_ns: u64) {
        if self.plane.is_some() {
            self.update(delay_ns);
        } else {
            self.batch("change", delay_ns);
        }
    }

    /// All interfaces of a node in one command.
    fn batch(&self, verb: &str, delay_ns: u64) {
        for (node, side) in self.ends() {
            let lines: String = (0..self.count)
                .map(|n| netem(verb, 2 * n + side, delay_ns) + "\n")
                .collect();
            node.run(|| {
                let mut command = Command::new("tc");
                command.args(["-batch", "-"]).stdin(Stdio::piped());
                let mut tc = command.spawn().unwrap();
                let mut stdin = tc.stdin.take().unwrap();
                stdin.write_all(lines.as_bytes()).unwrap();
                drop(stdin);
                assert!(tc.wait().unwrap().success(), "tc -batch");
            });
        }
    }

    /// Nanoseconds from the command to the sending of the first frame with the new delay, for each try.
    fn times(&self, pause: Duration) -> Vec<u64> {
        let last = 2 * (self.count - 1);
        let sender = self.near.run(|| Raw::on(ETH0 + last, 0));
        let receiver = self.far.run(|| Raw::on(ETH0 + last + 1, ODD));
        stamp(&receiver);
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let (to, from) = (mac_of(PortId(last + 1)), mac_of(PortId(last)));
                while !stop.load(Ordering::Relaxed) {
                    let next = Instant::now() + pause;
                    sender.try_send(&frame(to, from, ODD, &stamped(real_ns())));
                    if pause >= SPIN {
                        thread::sleep(pause);
                    }
                    while Instant::now() < next {
                        std::hint::spin_loop();
                    }
                }
            });
            let times = (0..TRIES)
                .map(|_| {
                    // Wait until all frames with the long delay have arrived.
                    self.reset(SHORT_NS);
                    thread::sleep(Duration::from_nanos(LONG_NS + 100 * MS));
                    receiver.drain();
                    let first = scope.spawn(|| first_slow(&receiver));
                    let command = real_ns();
                    self.update(LONG_NS);
                    first.join().unwrap().saturating_sub(command)
                })
                .collect();
            stop.store(true, Ordering::Relaxed);
            times
        })
    }
}

/// Arguments of `tc` for an interface.
fn netem(verb: &str, port: u32, delay_ns: u64) -> String {
    let delay_us = delay_ns / 1000;
    format!("qdisc {verb} dev eth{port} root netem delay {delay_us}us limit 100000")
}

/// The shortest frame's payload, beginning with the time.
fn stamped(now: u64) -> [u8; 46] {
    let mut payload = [0; 46];
    payload[..8].copy_from_slice(&now.to_be_bytes());
    payload
}

/// Sending time of the first frame that had the long delay.
fn first_slow(receiver: &Raw) -> u64 {
    loop {
        let (frame, at) = receiver.next().expect("frames arrive all the time");
        let sent = frame[14..22].try_into().map_or(0, u64::from_be_bytes);
        if at >= sent + LONG_NS {
            return sent;
        }
    }
}
