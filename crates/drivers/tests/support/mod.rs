//! Nodes and ports around a relay, for tests and measurements. Everything lives in namespaces
//! made here and goes with them.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "a module of each test; each uses its own part"
)]

use std::io;
use std::mem::size_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use constel_drivers::relay::{
    GSO_MAX_SEGS, Relay, RelayConfig, RelayHandle, send_single_frames, send_tcp_gso,
};
use constel_drivers::{Links, Plane, host_ifindex};
use constel_host::netlink::{AddressSpec, Batch, IpPrefix, LinkChange, Mac, Socket, VethEnd};
use constel_host::netns::NetNs;
use constel_link::{EdgeChange, EdgeUpdate, Impairment, PortId, mac_of};

pub const MS: u64 = 1_000_000;
/// Index of a node's first interface.
pub const ETH0: u32 = 64;

pub fn v4(n: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, n)
}

pub fn v6(n: u8) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, n.into())
}

/// A node: a namespace with ports.
pub struct Node {
    pub ns: NetNs,
}

impl Node {
    pub fn new() -> Node {
        Node {
            ns: NetNs::new().unwrap(),
        }
    }

    /// Give the node a port as `eth<nth>` with addresses 10.0.0.n/24 and fd00::n/64.
    pub fn port(&self, relay: &Relay, port: PortId, nth: u32, n: u8) {
        self.plug(relay, port, nth, true);
        self.addresses(ETH0 + nth, n);
    }

    /// Give the node a port as `eth<nth>`, without addresses.
    pub fn plug(&self, relay: &Relay, port: PortId, nth: u32, gso: bool) {
        let mut batch = Batch::new();
        let index = relay.host_ifindex(port).unwrap();
        let node_name = self.veth_at(&mut batch, port, index, nth);
        let mut socket = Socket::open_in(relay.shard_ns(port).unwrap()).unwrap();
        socket.send(&mut batch).unwrap();
        self.run(|| {
            if gso {
                send_tcp_gso(&node_name).unwrap();
            } else {
                send_single_frames(&node_name).unwrap();
            }
        });
        relay.attach(&[port]).unwrap();
    }

    /// Ask for a port's pair: `h<port>` where the link plane is, `eth<nth>` in the node, which is the name returned.
    pub fn veth(&self, batch: &mut Batch, port: PortId, nth: u32) -> String {
        self.veth_at(batch, port, host_ifindex(port), nth)
    }

    /// Makes a port whose host end has this index.
    pub fn veth_at(&self, batch: &mut Batch, port: PortId, index: u32, nth: u32) -> String {
        let (host_name, node_name) = (format!("h{}", port.0), format!("eth{nth}"));
        let host = VethEnd {
            name: &host_name,
            ifindex: Some(index),
            up: true,
            ..VethEnd::default()
        };
        let node = VethEnd {
            name: &node_name,
            netns: Some(self.ns.fd()),
            ifindex: Some(ETH0 + nth),
            mac: Some(Mac(mac_of(port))),
            gso_max_segs: Some(GSO_MAX_SEGS),
            ..VethEnd::default()
        };
        batch.create_veth(&host, &node).unwrap();
        node_name
    }

    /// A plain veth pair between two nodes, for comparison.
    pub fn wire(&self, nth: u32, other: &Node, other_nth: u32, gso: bool) {
        let names = [format!("eth{nth}"), format!("eth{other_nth}")];
        let near = VethEnd {
            name: &names[0],
            ifindex: Some(ETH0 + nth),
            ..VethEnd::default()
        };
        let far = VethEnd {
            name: &names[1],
            netns: Some(other.ns.fd()),
            ifindex: Some(ETH0 + other_nth),
            ..VethEnd::default()
        };
        let mut batch = Batch::new();
        batch.create_veth(&near, &far).unwrap();
        Socket::open_in(&self.ns).unwrap().send(&mut batch).unwrap();
        if !gso {
            self.run(|| send_single_frames(&names[0]).unwrap());
            other.run(|| send_single_frames(&names[1]).unwrap());
        }
    }

    /// Send a batch of requests in the node.
    pub fn netlink(&self, f: impl FnOnce(&mut Batch)) {
        let mut batch = Batch::new();
        f(&mut batch);
        Socket::open_in(&self.ns).unwrap().send(&mut batch).unwrap();
    }

    pub fn addresses(&self, ifindex: u32, n: u8) {
        let mut batch = Batch::new();
        for (addr, len) in [(IpAddr::from(v4(n)), 24), (IpAddr::from(v6(n)), 64)] {
            batch.add_address(&AddressSpec::new(
                ifindex,
                IpPrefix::new(addr, len).unwrap(),
            ));
        }
        batch
            .change_link(&LinkChange {
                ifindex,
                up: Some(true),
                ..LinkChange::default()
            })
            .unwrap();
        batch.link_up(1);
        Socket::open_in(&self.ns).unwrap().send(&mut batch).unwrap();
    }

    pub fn run<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        self.ns.run(f).unwrap()
    }
}

/// A relay with nodes 1, 2, ... whose only ports are 0, 1, ...
pub struct Lab {
    pub relay: Relay,
    pub handle: RelayHandle,
    pub nodes: Vec<Node>,
}

impl Lab {
    /// One node per port number.
    pub fn new(ports: &[u32]) -> Lab {
        let max = ports.iter().max().unwrap() + 1;
        Lab::with(
            RelayConfig {
                slots: 16_384,
                ..RelayConfig::new("test", max, 1)
            },
            ports,
        )
    }

    pub fn with(config: RelayConfig, ports: &[u32]) -> Lab {
        let relay = Relay::new(config).unwrap();
        let nodes: Vec<Node> = ports
            .iter()
            .enumerate()
            .map(|(i, &port)| {
                let node = Node::new();
                node.port(&relay, PortId(port), 0, i as u8 + 1);
                node
            })
            .collect();
        let handle = relay.start_relay().unwrap();
        Lab {
            relay,
            handle,
            nodes,
        }
    }

    pub fn apply(&self, changes: Vec<EdgeChange>) {
        self.handle.apply(EdgeUpdate { changes }, None).unwrap();
    }
}

pub fn set(from: u32, to: u32, impairment: Impairment) -> EdgeChange {
    EdgeChange::Set {
        from: PortId(from),
        to: PortId(to),
        impairment,
    }
}

pub fn remove(from: u32, to: u32) -> EdgeChange {
    EdgeChange::Remove {
        from: PortId(from),
        to: PortId(to),
    }
}

/// Both directions, delay only.
pub fn link(a: u32, b: u32, delay_ns: u64) -> Vec<EdgeChange> {
    let impairment = Impairment::delay_only(delay_ns);
    vec![set(a, b, impairment), set(b, a, impairment)]
}

/// Keep trying until `f` gives something. The time limit only recognises what hangs.
pub fn eventually<T>(what: &str, mut f: impl FnMut() -> Option<T>) -> T {
    let end = std::time::Instant::now() + Duration::from_secs(240);
    loop {
        if let Some(value) = f() {
            return value;
        }
        assert!(
            std::time::Instant::now() < end,
            "{what}: did not happen within 240 s"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// `CLOCK_REALTIME`, the clock of the kernel's receive time stamps.
pub fn real_ns() -> u64 {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a local.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Set a socket option.
pub fn set_option<T>(socket: &impl AsRawFd, level: i32, option: i32, value: T) {
    // SAFETY: pointer and length describe a local.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<T>() as u32,
        )
    };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
}

/// Ask for the time at which the kernel received each packet.
pub fn stamp(socket: &impl AsRawFd) {
    set_option(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1i32);
}

/// While no socket wants time stamps the kernel takes none, and begins with it some time after the first one does; until
/// then a frame is stamped when it is read. To be held for as long as stamps are to be right.
pub fn stamps_begin() -> std::net::UdpSocket {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    stamp(&socket);
    let own = socket.local_addr().expect("an address");
    eventually("the kernel stamps what arrives", || {
        socket.send_to(&[0], own).expect("a datagram");
        std::thread::sleep(Duration::from_millis(2));
        let read = real_ns();
        let (_, at) = receive(&socket, &mut [0; 8])?;
        (at + 1_000_000 < read).then_some(())
    });
    socket
}

/// Keep the calling thread on one processor: what it sends from another may go before what it sent before.
pub fn stay_on_one_processor() {
    // SAFETY: an all-zero set is valid; the calls are about the calling thread.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(libc::sched_getcpu() as usize, &mut set);
        let result = libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
        assert_eq!(result, 0, "{}", io::Error::last_os_error());
    }
}

/// The calling thread goes before normal ones, if it may, and its timers are exact.
pub fn go_before_normal_threads() {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: about the calling thread, with a local.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0);
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority);
    }
}

/// Room for everything a test sends, however slow its receiver.
pub fn roomy(socket: &impl AsRawFd) {
    set_option(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 64i32 << 20);
}

/// A packet and when the kernel got it (0 without [`stamp`]), or `None` on timeout.
pub fn receive(socket: &impl AsRawFd, buffer: &mut [u8]) -> Option<(usize, u64)> {
    let mut control = [0u64; 16];
    let mut iov = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: plain old data; the pointers are to locals that outlive the call.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut iov;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of::<[u64; 16]>();
    // SAFETY: as above.
    let len = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) };
    if len < 0 {
        let error = io::Error::last_os_error();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}");
        return None;
    }
    let mut at = 0;
    // SAFETY: walks the control messages the kernel wrote into `control`.
    unsafe {
        let mut c = libc::CMSG_FIRSTHDR(&raw const message);
        while !c.is_null() {
            if (*c).cmsg_level == libc::SOL_SOCKET && (*c).cmsg_type == libc::SO_TIMESTAMPNS {
                let t = libc::CMSG_DATA(c).cast::<libc::timespec>().read_unaligned();
                at = t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64;
            }
            c = libc::CMSG_NXTHDR(&raw const message, c);
        }
    }
    Some((len as usize, at))
}

/// A packet socket on `eth0`, for frames of one EtherType (`ETH_P_ALL` 3 for every frame). Must be
/// called inside the node.
pub struct Raw {
    fd: OwnedFd,
}

impl AsRawFd for Raw {
    fn as_raw_fd(&self) -> i32 {
        self.fd.as_raw_fd()
    }
}

impl Raw {
    pub fn new(ether_type: u16) -> Raw {
        Raw::on(ETH0, ether_type)
    }

    pub fn on(ifindex: u32, ether_type: u16) -> Raw {
        let protocol = i32::from(ether_type.to_be());
        // SAFETY: plain system call, checked.
        let fd = unsafe {
            libc::socket(
                libc::AF_PACKET,
                libc::SOCK_RAW | libc::SOCK_CLOEXEC,
                protocol,
            )
        };
        assert!(fd >= 0, "{}", io::Error::last_os_error());
        // SAFETY: fresh and ours; address is a local.
        unsafe {
            let mut address: libc::sockaddr_ll = std::mem::zeroed();
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_protocol = ether_type.to_be();
            address.sll_ifindex = ifindex as i32;
            let len = size_of::<libc::sockaddr_ll>() as u32;
            assert_eq!(libc::bind(fd, (&raw const address).cast(), len), 0);
            let raw = Raw {
                fd: OwnedFd::from_raw_fd(fd),
            };
            raw.timeout(Duration::from_secs(2));
            roomy(&raw);
            raw
        }
    }

    pub fn timeout(&self, t: Duration) {
        let t = libc::timeval {
            tv_sec: t.as_secs() as i64,
            tv_usec: t.subsec_micros().into(),
        };
        set_option(self, libc::SOL_SOCKET, libc::SO_RCVTIMEO, t);
    }

    pub fn send(&self, frame: &[u8]) {
        // SAFETY: pointer and length describe `frame`.
        let n = unsafe { libc::send(self.fd.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        assert_eq!(n, frame.len() as isize, "{}", io::Error::last_os_error());
    }

    /// As [`Raw::send`], for frames that may find no room: false then.
    pub fn try_send(&self, frame: &[u8]) -> bool {
        // SAFETY: pointer and length describe `frame`.
        let n = unsafe { libc::send(self.fd.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        n == frame.len() as isize
    }

    /// Discards the frames received so far.
    pub fn drain(&self) {
        let mut byte = 0u8;
        // SAFETY: one byte into a local; longer frames are cut off.
        while unsafe {
            libc::recv(
                self.fd.as_raw_fd(),
                (&raw mut byte).cast(),
                1,
                libc::MSG_DONTWAIT,
            ) >= 0
        } {}
    }

    /// The next frame that came in (not one sent here), with the kernel's time.
    pub fn next(&self) -> Option<(Vec<u8>, u64)> {
        let mut buffer = vec![0; 4096];
        let (len, at) = receive(self, &mut buffer)?;
        buffer.truncate(len);
        Some((buffer, at))
    }
}

/// An Ethernet frame.
pub fn frame(to: [u8; 6], from: [u8; 6], ether_type: u16, payload: &[u8]) -> Vec<u8> {
    [&to[..], &from[..], &ether_type.to_be_bytes(), payload].concat()
}

/// A counter of `/proc/net/snmp` or `snmp6` style files in the calling thread's namespace.
pub fn snmp(group: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
    let mut lines = text.lines().filter(|l| l.starts_with(&format!("{group}:")));
    let names = lines.next().unwrap().split_whitespace();
    let values = lines.next().unwrap().split_whitespace();
    names
        .zip(values)
        .find(|(n, _)| *n == name)
        .unwrap()
        .1
        .parse()
        .unwrap()
}
