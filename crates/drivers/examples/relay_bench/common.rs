//! Parts shared by the measurements: nodes in a row, flows with stamps at both ends, printing.

use std::net::{Ipv4Addr, UdpSocket};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use constel_drivers::Links;
use constel_drivers::relay::{Priority, Relay, RelayConfig, RelayHandle, RelayStats};
use constel_host::netlink::{AddressSpec, IpPrefix, Route};
use constel_host::netns::NetNs;
use constel_link::{EdgeUpdate, Histogram, PortId};

use crate::redirect;
use crate::support::*;
use crate::transit;
use crate::witness::Passage;

pub(crate) const MS: u64 = crate::support::MS;

/// Command-line options.
#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) json: bool,
    /// Length of one measurement, if not the default.
    pub(crate) seconds: Option<f64>,
    /// Number of measurements of each case, if the median counts.
    pub(crate) rounds: usize,
    pub(crate) only: Option<String>,
    /// Delay errors with the other core idle or busy only.
    pub(crate) load: Option<String>,
    /// Throughput over this number of hops only.
    pub(crate) hops: Option<usize>,
    /// Throughput of this path only, by its name in the output.
    pub(crate) path: Option<String>,
    /// TCP with this round trip only.
    pub(crate) rtt_ms: Option<u64>,
    /// TCP with these congestion controls.
    pub(crate) controls: Vec<String>,
    /// Seed of the losses.
    pub(crate) seed: u64,
    pub(crate) priority: Priority,
    pub(crate) lead_ns: u64,
    /// Number of the relay's threads.
    pub(crate) threads: usize,
    /// Whether the time of nodes' stacks is deducted from links.
    pub(crate) deduct_stacks: bool,
}

impl Options {
    /// Whether to measure the throughput of the path of this name.
    pub(crate) fn takes(&self, path: &str) -> bool {
        self.path.as_deref().is_none_or(|asked| asked == path)
    }

    /// Length of a measurement whose default is `usual`.
    pub(crate) fn seconds_or(&self, usual: f64) -> f64 {
        self.seconds.unwrap_or(usual)
    }
}

/// Default length of most measurements, seconds.
pub(crate) const SHORT_S: f64 = 1.5;

/// Text goes to stdout, or to stderr when stdout is for JSON.
pub(crate) fn say(options: &Options, text: &str) {
    if options.json {
        eprintln!("{text}");
    } else {
        println!("{text}");
    }
}

pub(crate) fn us(ns: u64) -> String {
    format!("{:.1}", ns as f64 / 1000.0)
}

/// Share of a core that the relay's thread used between two measurements, percent.
pub(crate) fn relay_cpu(before: &RelayStats, after: &RelayStats) -> f64 {
    (after.cpu_ns - before.cpu_ns) as f64 * 100.0 / (after.at_ns - before.at_ns) as f64
}

/// CPU time of this process: senders, receivers and the relay with all the kernel does for them.
pub(crate) fn process_cpu_ns() -> u64 {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a local.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Nodes in a row, each link a subnet 10.1.i.0/24 with .1 on the left and .2 on the right.
pub(crate) struct Row {
    pub(crate) nodes: Vec<Node>,
    pub(crate) relay: Option<(Relay, RelayHandle)>,
    /// Namespace of the redirection, if there is one.
    _switch: NetNs,
}

/// Implementation of a row's links.
#[derive(Clone, Copy)]
pub(crate) enum Path {
    /// Bare veth pairs, with or without super-frames.
    Veth { gso: bool },
    /// Two veth pairs each, joined by the kernel's own redirection.
    Redirect { gso: bool },
    /// The relay; whether its nodes send TCP's super-frames, and whether it joins frames that are due together.
    Relay { delay_ns: u64, gso: bool, gro: bool },
    /// The relay, with nodes in between that have no stack.
    Forward { delay_ns: u64, gso: bool, gro: bool },
}

impl Path {
    pub(crate) fn delay_ns(self) -> u64 {
        match self {
            Path::Relay { delay_ns, .. } | Path::Forward { delay_ns, .. } => delay_ns,
            _ => 0,
        }
    }
}

/// Stops the calling thread's namespace from sending frames by itself once addresses are resolved: no IPv6, and no new
/// requests for a known neighbour. At 64 kbit/s such frames would occupy the link for tens of milliseconds.
fn only_what_is_measured() {
    std::fs::write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1").unwrap();
    for interface in std::fs::read_dir("/proc/sys/net/ipv4/neigh").unwrap() {
        let hour_ms = "3600000";
        std::fs::write(
            interface.unwrap().path().join("base_reachable_time_ms"),
            hour_ms,
        )
        .unwrap();
    }
}

pub(crate) fn address(link: usize, side: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 1, link as u8, side)
}

impl Row {
    /// Links of the relay with this delay, or bare veth pairs.
    pub(crate) fn new(options: &Options, links: usize, delay_ns: Option<u64>, gso: bool) -> Row {
        let path = delay_ns.map_or(Path::Veth { gso }, |delay_ns| Path::Relay {
            delay_ns,
            gso,
            gro: true,
        });
        Row::of(options, links, path).unwrap()
    }

    /// # Errors
    /// Missing tools of this host.
    pub(crate) fn of(options: &Options, links: usize, path: Path) -> Result<Row, String> {
        let nodes: Vec<Node> = (0..=links).map(|_| Node::new()).collect();
        let forward = matches!(path, Path::Forward { .. });
        let relay = if let Path::Relay { gro, .. } | Path::Forward { gro, .. } = path {
            let config = RelayConfig {
                priority: options.priority,
                lead_ns: options.lead_ns,
                gro,
                threads: options.threads,
                deduct_stacks: options.deduct_stacks,
                nodes: (0..2 * links as u32).map(|port| port.div_ceil(2)).collect(),
                transit: forward.then(|| transit::table(links)).flatten(),
                ..RelayConfig::new("bench", 2 * links as u32, 1)
            };
            Some(Relay::new(config).map_err(|e| e.to_string())?)
        } else {
            None
        };
        let switch = NetNs::new().map_err(|e| e.to_string())?;
        for link in 0..links {
            // A node's first interface looks left, except the leftmost one's.
            let left_nth = u32::from(link > 0);
            let (left, right) = (&nodes[link], &nodes[link + 1]);
            match (path, &relay) {
                (Path::Veth { gso }, _) => left.wire(left_nth, right, 0, gso),
                (Path::Redirect { gso }, _) => {
                    let (left, right) = ((left, left_nth), (right, 0));
                    redirect::join(&switch, link as u32, left, right, gso)?;
                }
                (Path::Relay { gso, .. }, Some(relay)) => {
                    left.plug(relay, PortId(2 * link as u32), left_nth, gso);
                    right.plug(relay, PortId(2 * link as u32 + 1), 0, gso);
                }
                (Path::Forward { gso, .. }, Some(relay)) => {
                    if link == 0 {
                        left.plug(relay, PortId(0), 0, gso);
                    }
                    if link + 1 == links {
                        right.plug(relay, PortId(2 * link as u32 + 1), 0, gso);
                    }
                }
                (Path::Relay { .. } | Path::Forward { .. }, None) => {}
            }
        }
        let at_the_end = |k: usize| k == 0 || k == links;
        for (k, node) in nodes
            .iter()
            .enumerate()
            .filter(|(k, _)| !forward || at_the_end(*k))
        {
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
            node.run(|| {
                only_what_is_measured();
                for (name, value) in [
                    ("ip_forward", "1"),
                    // Room for 25 Gbit/s over 10 ms.
                    ("tcp_rmem", "4096 131072 134217728"),
                    ("tcp_wmem", "4096 131072 134217728"),
                ] {
                    std::fs::write(format!("/proc/sys/net/ipv4/{name}"), value).unwrap();
                }
            });
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
        if forward {
            transit::introduce(&nodes[0], &nodes[links], links);
        }
        let relay = relay.map(|relay| {
            let handle = relay.start_relay().unwrap();
            let changes = (0..links as u32)
                .flat_map(|l| link(2 * l, 2 * l + 1, path.delay_ns()))
                .collect();
            handle.apply(EdgeUpdate { changes }, None).unwrap();
            (relay, handle)
        });
        Ok(Row {
            nodes,
            relay,
            _switch: switch,
        })
    }

    /// One link on ports 0 and 1 of a relay that is not started yet.
    pub(crate) fn around(relay: &Relay) -> Row {
        let nodes = vec![Node::new(), Node::new()];
        for (n, node) in nodes.iter().enumerate() {
            node.plug(relay, PortId(n as u32), 0, false);
            let prefix = IpPrefix::new(address(0, n as u8 + 1).into(), 24).unwrap();
            node.netlink(|batch| {
                batch
                    .link_up(1)
                    .add_address(&AddressSpec::new(ETH0, prefix))
                    .link_up(ETH0);
            });
            node.run(only_what_is_measured);
        }
        Row {
            nodes,
            relay: None,
            _switch: NetNs::new().unwrap(),
        }
    }

    pub(crate) fn ends(&self) -> (&Node, &Node, Ipv4Addr, Ipv4Addr) {
        let last = self.nodes.len() - 1;
        (
            &self.nodes[0],
            &self.nodes[last],
            address(0, 1),
            address(last - 1, 2),
        )
    }

    pub(crate) fn handle(&self) -> Option<&RelayHandle> {
        self.relay.as_ref().map(|(_, handle)| handle)
    }

    /// A connected pair of sockets at the two ends, with addresses resolved on the way.
    pub(crate) fn sockets(&self) -> (UdpSocket, UdpSocket) {
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
pub(crate) struct Flow {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) took: Duration,
    pub(crate) errors: Histogram,
    /// The frames that arrived, of a flow with a rate.
    pub(crate) passages: Vec<Passage>,
    pub(crate) early: u64,
}

impl Flow {
    pub(crate) fn pps(&self) -> f64 {
        self.received as f64 / self.took.as_secs_f64()
    }

    pub(crate) fn loss(&self) -> f64 {
        1.0 - self.received as f64 / self.sent.max(1) as f64
    }
}

/// Send frames of this length on the wire (Ethernet header included) at a rate (0: as fast as
/// possible), in bursts every 200 us at most.
pub(crate) fn flow(
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
    let mut arrived: Vec<(u64, u64)> = Vec::new();
    let begun = real_ns();
    thread::scope(|scope| {
        let send = scope.spawn(|| {
            // At full speed the sender must not starve other threads.
            if rate > 0 {
                go_before_normal_threads();
            }
            let mut buffer = vec![0; payload];
            let burst = (rate / 5000).max(1);
            let pause =
                Duration::from_nanos((1_000_000_000 * burst).checked_div(rate).unwrap_or(0));
            // Stored where it does not affect the measurement.
            let mut calls = Vec::with_capacity((rate as f64 * seconds * 1.1) as usize);
            let start = Instant::now();
            let mut next = start;
            let mut sent = 0;
            while start.elapsed().as_secs_f64() < seconds {
                for _ in 0..burst {
                    let before = real_ns();
                    buffer[..8].copy_from_slice(&before.to_be_bytes());
                    buffer[8..16].copy_from_slice(&calls.len().to_be_bytes());
                    // A full queue of the sender's own device is no one's error.
                    sent += u64::from(sender.send(&buffer).is_ok());
                    if rate > 0 {
                        calls.push(before..real_ns());
                    }
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
            (sent, took, calls)
        });
        many_until(&sending, receiver, |[sent, number], at| {
            // A frame of an earlier flow that was held up: it does not count for this one.
            if sent >= begun {
                if rate > 0 {
                    arrived.push((number, at));
                }
                let error = at as i64 - sent as i64 - delay_ns as i64;
                result.received += 1;
                result.early += u64::from(error < 0);
                result.errors.record(error.max(0) as u64);
            }
        });
        let calls: Vec<Range<u64>>;
        (result.sent, result.took, calls) = send.join().unwrap();
        let passage = |(number, at): (u64, u64)| {
            let sent = calls.get(number as usize)?.clone();
            Some(Passage { sent, at })
        };
        result.passages = arrived.into_iter().filter_map(passage).collect();
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

    /// Returns the first two numbers and the time stamp of the received frames. False when there was none; with `wait`,
    /// that is after the socket's timeout.
    fn receive(
        &mut self,
        socket: &UdpSocket,
        wait: bool,
        each: &mut impl FnMut([u64; 2], u64),
    ) -> bool {
        let flags = if wait {
            libc::MSG_WAITFORONE
        } else {
            libc::MSG_DONTWAIT
        };
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
                flags,
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
            let (numbers, _) = self.buffers[i].as_chunks();
            each([numbers[0], numbers[1]].map(u64::from_be_bytes), at);
        }
        n > 0
    }
}

/// Receives until the sender has stopped and all frames are read.
pub(crate) fn many_until(
    sending: &AtomicBool,
    socket: &UdpSocket,
    mut each: impl FnMut([u64; 2], u64),
) {
    let mut many = Many::new();
    while sending.load(Ordering::Relaxed) {
        many.receive(socket, true, &mut each);
    }
    while many.receive(socket, false, &mut each) {}
}
