//! Measures the relay next to bare veth pairs, in one run.
//!
//!     cargo run --release -p constel-drivers --example relay_bench -- [--json] [--seconds N]
//!         [--only accuracy|udp|tcp|update] [--nice] [--lead-us N]
//!
//! *Delay error*: kernel receive stamp (`SO_TIMESTAMPNS`) minus the time taken just before `send`,
//! minus the configured delay. It includes the sender's system call and its share of a burst.
//! *Hops* are links one after the other, with forwarding namespaces in between.

#[path = "../tests/support/mod.rs"]
mod support;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use constel_drivers::relay::{Priority, Relay, RelayConfig, RelayHandle};
use constel_host::netlink::{AddressSpec, IpPrefix, Route};
use constel_link::{EdgeChange, EdgeUpdate, Histogram, Impairment, PortId};
use serde_json::{Value, json};
use support::*;

const MS: u64 = support::MS;

struct Options {
    json: bool,
    seconds: f64,
    only: Option<String>,
    priority: Priority,
    lead_ns: u64,
}

fn main() {
    let mut options = Options {
        json: false,
        seconds: 3.0,
        only: None,
        priority: Priority::RealTime,
        lead_ns: 80_000,
    };
    let mut args = std::env::args().skip(1);
    let fail = |text: String| -> ! {
        eprintln!("relay_bench: {text}");
        std::process::exit(2);
    };
    while let Some(arg) = args.next() {
        let mut value = || {
            args.next()
                .unwrap_or_else(|| fail(format!("{arg} needs a value")))
        };
        match arg.as_str() {
            "--json" => options.json = true,
            "--seconds" => options.seconds = value().parse().unwrap_or(3.0),
            "--only" => options.only = Some(value()),
            "--nice" => options.priority = Priority::Nice,
            "--lead-us" => options.lead_ns = value().parse().unwrap_or(80) * 1000,
            other => fail(format!("unknown argument {other}")),
        }
    }
    let wanted = |name: &str| options.only.as_deref().is_none_or(|only| only == name);
    let mut results = Vec::new();
    if wanted("accuracy") {
        results.extend(accuracy(&options));
    }
    if wanted("udp") {
        results.extend(udp_throughput(&options));
    }
    if wanted("tcp") {
        results.extend(tcp_throughput(&options));
    }
    if wanted("update") {
        results.extend(updates(&options));
    }
    if options.json {
        println!("{}", serde_json::to_string_pretty(&results).unwrap());
    }
}

fn say(options: &Options, text: &str) {
    if options.json {
        eprintln!("{text}");
    } else {
        println!("{text}");
    }
}

/// Nodes in a row, each link a subnet 10.1.i.0/24 with .1 on the left and .2 on the right.
struct Row {
    nodes: Vec<Node>,
    relay: Option<(Relay, RelayHandle)>,
}

fn address(link: usize, side: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 1, link as u8, side)
}

impl Row {
    /// Links of the relay with this delay, or bare veth pairs.
    fn new(options: &Options, links: usize, delay_ns: Option<u64>, gso: bool) -> Row {
        let nodes: Vec<Node> = (0..=links).map(|_| Node::new()).collect();
        let relay = delay_ns.map(|_| {
            let config = RelayConfig {
                priority: options.priority,
                lead_ns: options.lead_ns,
                ..RelayConfig::new("bench", 2 * links as u32, 1)
            };
            Relay::new(config).unwrap()
        });
        for link in 0..links {
            // A node's first interface looks left, except the leftmost one's.
            let left_nth = u32::from(link > 0);
            let (left, right) = (&nodes[link], &nodes[link + 1]);
            if let Some(relay) = &relay {
                left.plug(relay, PortId(2 * link as u32), left_nth);
                right.plug(relay, PortId(2 * link as u32 + 1), 0);
            } else {
                left.wire(left_nth, right, 0, gso);
            }
        }
        for (k, node) in nodes.iter().enumerate() {
            let near = |ifindex, addr: Ipv4Addr| {
                AddressSpec::new(ifindex, IpPrefix::new(addr.into(), 24).unwrap())
            };
            node.netlink(|batch| {
                batch.link_up(1);
                if k > 0 {
                    batch
                        .add_address(&near(ETH0, address(k - 1, 2)))
                        .link_up(ETH0);
                }
                if k < links {
                    let ifindex = ETH0 + u32::from(k > 0);
                    batch
                        .add_address(&near(ifindex, address(k, 1)))
                        .link_up(ifindex);
                }
            });
            node.run(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap());
            node.netlink(|batch| {
                for link in 0..links {
                    let dst = IpPrefix::new(address(link, 0).into(), 24).unwrap();
                    if link > k {
                        let ifindex = ETH0 + u32::from(k > 0);
                        let route = Route::via(dst, ifindex, address(k, 2).into());
                        batch.add_route(&route).unwrap();
                    } else if link + 1 < k {
                        let route = Route::via(dst, ETH0, address(k - 1, 1).into());
                        batch.add_route(&route).unwrap();
                    }
                }
            });
        }
        let relay = relay.map(|relay| {
            let handle = relay.start().unwrap();
            let changes = (0..links as u32)
                .flat_map(|l| link(2 * l, 2 * l + 1, delay_ns.unwrap_or(0)))
                .collect();
            handle.apply(EdgeUpdate { changes }, None).unwrap();
            (relay, handle)
        });
        Row { nodes, relay }
    }

    fn ends(&self) -> (&Node, &Node, Ipv4Addr, Ipv4Addr) {
        let last = self.nodes.len() - 1;
        (
            &self.nodes[0],
            &self.nodes[last],
            address(0, 1),
            address(last - 1, 2),
        )
    }

    fn handle(&self) -> Option<&RelayHandle> {
        self.relay.as_ref().map(|(_, handle)| handle)
    }

    /// A connected pair of sockets at the two ends, with addresses resolved on the way.
    fn sockets(&self) -> (UdpSocket, UdpSocket) {
        let (near, far, from, to) = self.ends();
        let receiver = far.run(|| UdpSocket::bind((to, 9000)).unwrap());
        let sender = near.run(|| UdpSocket::bind((from, 9000)).unwrap());
        sender.connect((to, 9000)).unwrap();
        receiver
            .set_read_timeout(Some(Duration::from_millis(300)))
            .unwrap();
        stamp(&receiver);
        roomy(&receiver);
        eventually("the path works", || {
            sender.send(&[0; 8]).unwrap();
            receive(&receiver, &mut [0; 64])
        });
        while receive(&receiver, &mut [0; 64]).is_some() {}
        (sender, receiver)
    }
}

#[derive(Default)]
struct Flow {
    sent: u64,
    received: u64,
    took: Duration,
    errors: Histogram,
    early: u64,
    earliest_ns: i64,
}

impl Flow {
    fn pps(&self) -> f64 {
        self.received as f64 / self.took.as_secs_f64()
    }

    fn loss(&self) -> f64 {
        1.0 - self.received as f64 / self.sent.max(1) as f64
    }
}

/// Send frames of this length on the wire (Ethernet header included) at a rate (0: as fast as
/// possible), in bursts every 200 us at most.
fn flow(
    sockets: &(UdpSocket, UdpSocket),
    length: usize,
    rate: u64,
    seconds: f64,
    delay_ns: u64,
) -> Flow {
    let (sender, receiver) = sockets;
    let payload = length - 42;
    let sending = AtomicBool::new(true);
    let mut result = Flow::default();
    thread::scope(|scope| {
        let send = scope.spawn(|| {
            // SAFETY: about the calling thread: timers at once, not 50 us later.
            unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0) };
            let mut buffer = vec![0; payload];
            let burst = (rate / 5000).max(1);
            let pause =
                Duration::from_nanos((1_000_000_000 * burst).checked_div(rate).unwrap_or(0));
            let start = Instant::now();
            let mut next = start;
            let mut sent = 0;
            while start.elapsed().as_secs_f64() < seconds {
                for _ in 0..burst {
                    buffer[..8].copy_from_slice(&real_ns().to_be_bytes());
                    // A full queue of the sender's own device is no one's error.
                    sent += u64::from(sender.send(&buffer).is_ok());
                }
                if rate > 0 {
                    next += pause;
                    let left = next.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        // Too slow for this rate: do not catch up in one burst.
                        next = Instant::now();
                    }
                    thread::sleep(left);
                }
            }
            let took = start.elapsed();
            thread::sleep(Duration::from_nanos(delay_ns) + Duration::from_millis(100));
            sending.store(false, Ordering::Relaxed);
            (sent, took)
        });
        let mut many = Many::new();
        while sending.load(Ordering::Relaxed) {
            many.receive(receiver, |bytes, at| {
                let sent = u64::from_be_bytes(bytes);
                let error = at as i64 - sent as i64 - delay_ns as i64;
                result.received += 1;
                result.early += u64::from(error < 0);
                result.earliest_ns = result.earliest_ns.min(error);
                result.errors.record(error.max(0) as u64);
            });
        }
        (result.sent, result.took) = send.join().unwrap();
    });
    result
}

/// `recvmmsg` with time stamps.
struct Many {
    buffers: Box<[[u8; 64]]>,
    control: Box<[[u64; 8]]>,
}

impl Many {
    const N: usize = 64;

    fn new() -> Many {
        Many {
            buffers: Box::new([[0; 64]; Many::N]),
            control: Box::new([[0; 8]; Many::N]),
        }
    }

    /// The first eight bytes and the time stamp of what is there; waits up to the socket's timeout.
    fn receive(&mut self, socket: &UdpSocket, mut each: impl FnMut([u8; 8], u64)) {
        let mut iovs: Vec<libc::iovec> = self
            .buffers
            .iter_mut()
            .map(|b| libc::iovec {
                iov_base: b.as_mut_ptr().cast(),
                iov_len: 64,
            })
            .collect();
        let mut messages: Vec<libc::mmsghdr> = iovs
            .iter_mut()
            .zip(&mut self.control)
            .map(|(iov, control)| {
                // SAFETY: plain old data.
                let mut m: libc::mmsghdr = unsafe { std::mem::zeroed() };
                m.msg_hdr.msg_iov = &raw mut *iov;
                m.msg_hdr.msg_iovlen = 1;
                m.msg_hdr.msg_control = control.as_mut_ptr().cast();
                m.msg_hdr.msg_controllen = 64;
                m
            })
            .collect();
        // SAFETY: all pointers are to memory that outlives the call.
        let n = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                messages.as_mut_ptr(),
                Many::N as u32,
                libc::MSG_WAITFORONE,
                std::ptr::null_mut(),
            )
        };
        for (i, message) in messages.iter().enumerate().take(n.max(0) as usize) {
            let mut at = 0;
            // SAFETY: walks what the kernel wrote.
            unsafe {
                let c = libc::CMSG_FIRSTHDR(&raw const message.msg_hdr);
                if !c.is_null() && (*c).cmsg_type == libc::SO_TIMESTAMPNS {
                    let t = libc::CMSG_DATA(c).cast::<libc::timespec>().read_unaligned();
                    at = t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64;
                }
            }
            each(self.buffers[i][..8].try_into().unwrap(), at);
        }
    }
}

fn us(ns: u64) -> String {
    format!("{:.1}", ns as f64 / 1000.0)
}

fn accuracy(options: &Options) -> Vec<Value> {
    say(
        options,
        "delay error in us (one link; target of the relay: 5 ms)",
    );
    say(
        options,
        &format!(
            "{:>8} {:>6} {:>6} | {:>9} {:>7} {:>7} {:>7} {:>8} {:>9} {:>7} {:>6} | {:>8} {:>8}",
            "",
            "fps",
            "bytes",
            "got fps",
            "p50",
            "p90",
            "p99",
            "p99.9",
            "max",
            "loss %",
            "early",
            "late p99",
            "cpu %"
        ),
    );
    let mut results = Vec::new();
    let bare = Row::new(options, 1, None, false);
    let relay = Row::new(options, 1, Some(5 * MS), false);
    let rows = [
        ("veth", &bare, bare.sockets(), 0),
        ("relay", &relay, relay.sockets(), 5 * MS),
    ];
    for rate in [1_000, 10_000, 50_000, 100_000] {
        for length in [64, 1400] {
            for (name, row, sockets, delay) in &rows {
                let before = row.handle().map(|h| {
                    h.clear_lateness().unwrap();
                    h.snapshot().unwrap()
                });
                let f = flow(sockets, length, rate, options.seconds, *delay);
                let after = row.handle().map(|h| h.snapshot().unwrap());
                let q = f.errors.quantiles();
                let (late, cpu, unintended) = match (&before, &after) {
                    (Some(b), Some(a)) => (
                        us(a.lateness.p99_ns),
                        (a.cpu_ns - b.cpu_ns) as f64 * 100.0 / (a.at_ns - b.at_ns) as f64,
                        a.unintended.total() - b.unintended.total(),
                    ),
                    _ => (String::new(), 0.0, 0),
                };
                say(
                    options,
                    &format!(
                        "{name:>8} {rate:>6} {length:>6} | {:>9.0} {:>7} {:>7} {:>7} {:>8} {:>9} {:>7.3} {:>6} | {late:>8} {cpu:>8.1}",
                        f.pps(),
                        us(q.p50_ns),
                        us(q.p90_ns),
                        us(q.p99_ns),
                        us(q.p999_ns),
                        us(q.max_ns),
                        f.loss() * 100.0,
                        f.early
                    ),
                );
                results.push(json!({
                    "what": "delay_error", "path": name, "rate_fps": rate, "length_bytes": length,
                    "delay_ns": delay, "received_fps": f.pps(), "loss_ratio": f.loss(),
                    "early": f.early, "error": q, "relay_cpu_percent": cpu,
                    "unintended": unintended,
                    "lateness": after.map(|a| a.lateness),
                }));
            }
        }
    }
    results
}

fn udp_throughput(options: &Options) -> Vec<Value> {
    say(
        options,
        "\nUDP, as many as arrive (and most with < 0.1 % lost), one sender, no delay",
    );
    say(
        options,
        &format!(
            "{:>8} {:>5} {:>6} | {:>10} {:>8} {:>7} | {:>13} | {:>8}",
            "", "hops", "bytes", "frames/s", "Gbit/s", "lost %", "lossless fps", "cpu %"
        ),
    );
    let mut results = Vec::new();
    for hops in [1, 5] {
        for (name, delay) in [("veth", None), ("relay", Some(0))] {
            let row = Row::new(options, hops, delay, false);
            let sockets = row.sockets();
            for length in [64, 1400] {
                let before = row.handle().map(|h| h.snapshot().unwrap());
                let f = flow(&sockets, length, 0, options.seconds, MS);
                let after = row.handle().map(|h| h.snapshot().unwrap());
                let cpu = match (&before, &after) {
                    (Some(b), Some(a)) => {
                        (a.cpu_ns - b.cpu_ns) as f64 * 100.0 / (a.at_ns - b.at_ns) as f64
                    }
                    _ => 0.0,
                };
                let mut lossless = 0.0;
                for step in 1..=16 {
                    let rate = step * 25_000;
                    let f = flow(&sockets, length, rate, 0.5, MS);
                    let offered = f.sent as f64 / f.took.as_secs_f64();
                    if f.loss() > 0.001 || offered < 0.8 * rate as f64 {
                        break;
                    }
                    lossless = f.pps();
                }
                if let (Some(a), Some(b)) = (&after, &before)
                    && a.unintended.total() > b.unintended.total()
                {
                    say(
                        options,
                        &format!("{:>24}: {:?}", "lost by the relay", a.unintended),
                    );
                }
                let gbps = f.pps() * length as f64 * 8.0 / 1e9;
                say(
                    options,
                    &format!(
                        "{name:>8} {hops:>5} {length:>6} | {:>10.0} {gbps:>8.2} {:>7.1} | {lossless:>13.0} | {cpu:>8.1}",
                        f.pps(),
                        f.loss() * 100.0
                    ),
                );
                results.push(json!({
                    "what": "udp", "path": name, "hops": hops, "length_bytes": length,
                    "delivered_fps": f.pps(), "gbps": gbps, "loss_ratio": f.loss(),
                    "lossless_fps": lossless, "relay_cpu_percent": cpu,
                    "unintended": after.map(|a| a.unintended),
                }));
            }
        }
    }
    results
}

/// Goodput of one stream over `seconds`, after a second to get going, and segments sent again.
fn tcp(row: &Row, seconds: f64) -> (f64, u64) {
    let (near, far, _, to) = row.ends();
    let listener = far.run(|| TcpListener::bind((to, 9001)).unwrap());
    let mut stream = near.run(|| {
        TcpStream::connect_timeout(&SocketAddr::new(to.into(), 9001), Duration::from_secs(5))
            .unwrap()
    });
    // SAFETY: pointer and length describe a constant.
    unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            b"cubic".as_ptr().cast(),
            5,
        );
    }
    let (mut accepted, _) = listener.accept().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let sending = {
        let stop = stop.clone();
        thread::spawn(move || {
            let buffer = vec![0u8; 256 << 10];
            while !stop.load(Ordering::Relaxed) && stream.write_all(&buffer).is_ok() {}
        })
    };
    let mut buffer = vec![0u8; 1 << 20];
    let start = Instant::now();
    let (mut bytes, mut from) = (0u64, None);
    loop {
        let n = accepted.read(&mut buffer).unwrap();
        if let Some(from) = from {
            bytes += n as u64;
            let took = Instant::now().duration_since(from).as_secs_f64();
            if took >= seconds {
                stop.store(true, Ordering::Relaxed);
                drop(accepted);
                let _ = sending.join();
                let again = near.run(|| snmp("Tcp", "RetransSegs"));
                return (bytes as f64 * 8.0 / took / 1e9, again);
            }
        } else if start.elapsed() > Duration::from_secs(1) {
            from = Some(Instant::now());
        }
    }
}

fn tcp_throughput(options: &Options) -> Vec<Value> {
    say(
        options,
        "\nTCP goodput in Gbit/s, one stream (cubic where allowed), frames of MTU size",
    );
    let mut results = Vec::new();
    for hops in [1, 5] {
        for (name, delay, gso) in [
            ("veth, super-frames", None, true),
            ("veth, MTU frames", None, false),
            ("relay, no delay", Some(0), false),
            ("relay, 10 ms round trip", Some(5 * MS / hops as u64), false),
        ] {
            let row = Row::new(options, hops, delay, gso);
            let (gbps, again) = tcp(&row, options.seconds);
            let unintended = row.handle().map(|h| h.snapshot().unwrap().unintended);
            say(
                options,
                &format!("{name:>24} {hops} hops: {gbps:>7.2}  ({again} segments sent again)"),
            );
            results.push(json!({
                "what": "tcp", "path": name, "hops": hops, "gbps": gbps,
                "retransmitted": again, "unintended": unintended,
            }));
        }
    }
    results
}

/// Time of one update on an idle relay.
fn updates(options: &Options) -> Vec<Value> {
    say(options, "\none update of the edge table");
    let mut results = Vec::new();
    for edges in [10u32, 1_000, 10_000, 60_000] {
        let config = RelayConfig {
            slots: 1024,
            ..RelayConfig::new("bench", edges + 1, 1)
        };
        let relay = Relay::new(config).unwrap();
        let handle = relay.start().unwrap();
        let all = |delay_ns| EdgeUpdate {
            changes: (0..edges)
                .map(|n| EdgeChange::Set {
                    from: PortId(n),
                    to: PortId(n + 1),
                    impairment: Impairment::delay_only(delay_ns),
                })
                .collect(),
        };
        let added = handle.apply(all(MS), None).unwrap().took_ns;
        let mut took: Vec<u64> = (0..20)
            .map(|n| handle.apply(all(n), None).unwrap().took_ns)
            .collect();
        took.sort_unstable();
        let (p50, max) = (took[10], took[19]);
        let text = format!(
            "{edges:>6} edges: new {} us, changed p50 {} us, max {} us",
            us(added),
            us(p50),
            us(max)
        );
        say(options, &text);
        results.push(json!({
            "what": "update", "edges": edges, "added_ns": added, "changed_p50_ns": p50,
            "changed_max_ns": max,
        }));
    }
    results
}
