//! What this host can do: every feature the drivers need, tried for real.

use std::sync::Arc;

use constel_host::netlink::{Batch, Mac, Socket, VethEnd};
use constel_host::netns::NetNs;
use constel_link::{EdgeChange, EdgeUpdate, Impairment, PortId, mac_of};
use serde::Serialize;

use crate::relay::{self, Priority, Relay, RelayConfig};

/// One feature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Feature {
    /// What was tried.
    pub name: &'static str,
    /// Whether it worked.
    pub works: bool,
    /// What the kernel said, when it did not.
    pub detail: String,
    /// What to install or enable then.
    pub remedy: &'static str,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProbeReport {
    /// The relay driver can be used.
    pub relay: bool,
    /// Everything tried, in the order of need. Features after a failing one may not have been
    /// tried; they are then missing here.
    pub features: Vec<Feature>,
}

/// Try everything the relay driver needs, in namespaces of its own. Takes some tenths of a second
/// and leaves nothing behind.
#[must_use]
pub fn probe() -> ProbeReport {
    let mut features = Vec::new();
    let relay = try_all(&mut features).is_some();
    ProbeReport { relay, features }
}

fn note<T, E: ToString>(
    features: &mut Vec<Feature>,
    name: &'static str,
    remedy: &'static str,
    result: Result<T, E>,
) -> Option<T> {
    let detail = result.as_ref().err().map(E::to_string).unwrap_or_default();
    features.push(Feature {
        name,
        works: result.is_ok(),
        detail,
        remedy,
    });
    result.ok()
}

fn try_all(features: &mut Vec<Feature>) -> Option<()> {
    note(
        features,
        "network namespaces",
        "run as root (CAP_SYS_ADMIN) on a kernel with CONFIG_NET_NS",
        NetNs::new(),
    )?;
    note(
        features,
        "kernel type information",
        "a kernel with CONFIG_DEBUG_INFO_BTF (Debian's have it)",
        std::fs::metadata("/sys/kernel/btf/vmlinux"),
    )?;
    let config = RelayConfig {
        slots: 1024,
        priority: Priority::Nice,
        ..RelayConfig::new("probe", 2, 0)
    };
    let relay = note(
        features,
        "BPF programs, veth and tcx",
        "Linux 6.6 or newer with CONFIG_BPF_SYSCALL, CONFIG_BPF_JIT, CONFIG_VETH, \
         CONFIG_NET_XGRESS, and CAP_BPF, CAP_NET_ADMIN",
        Relay::new(config),
    )?;
    let handle = note(
        features,
        "AF_XDP with TX metadata",
        "Linux 6.8 or newer with CONFIG_XDP_SOCKETS",
        relay.start(),
    )?;
    let pair = note(
        features,
        "ports",
        "a kernel with CONFIG_VETH",
        make_pair(&relay),
    )?;
    let remedy = "Linux 5.10 or newer (bpf_redirect_peer); no other program may claim the relay's \
                  interfaces";
    note(
        features,
        "frames through the relay",
        remedy,
        exchange(&handle, &pair),
    )?;
    note(
        features,
        "real-time scheduling (optional)",
        RT_REMEDY,
        try_real_time(),
    );
    Some(())
}

const RT_REMEDY: &str = "CAP_SYS_NICE, and real-time runtime for the cgroup where \
                         CONFIG_RT_GROUP_SCHED is set; without it the relay uses nice -20";

fn make_pair(relay: &Relay) -> Result<Vec<Arc<NetNs>>, String> {
    let text = |e: &dyn std::fmt::Display| e.to_string();
    let mut nodes = Vec::new();
    for port in [PortId(0), PortId(1)] {
        let node = NetNs::new().map_err(|e| text(&e))?;
        let host = VethEnd {
            name: &format!("h{}", port.0),
            ifindex: Some(relay::host_ifindex(port)),
            up: true,
            ..VethEnd::default()
        };
        let end = VethEnd {
            name: "eth0",
            netns: Some(node.fd()),
            ifindex: Some(2),
            mac: Some(Mac(mac_of(port))),
            ..VethEnd::default()
        };
        let mut batch = Batch::new();
        batch.create_veth(&host, &end).map_err(|e| text(&e))?;
        let shard = relay.shard_ns(port).map_err(|e| text(&e))?;
        let mut socket = Socket::open_in(shard).map_err(|e| text(&e))?;
        socket.send(&mut batch).map_err(|e| text(&e))?;
        let mut batch = Batch::new();
        batch.link_up(2);
        let mut socket = Socket::open_in(&node).map_err(|e| text(&e))?;
        socket.send(&mut batch).map_err(|e| text(&e))?;
        nodes.push(Arc::new(node));
    }
    relay
        .attach(&[PortId(0), PortId(1)])
        .map_err(|e| text(&e))?;
    Ok(nodes)
}

/// One broadcast frame of an experimental EtherType from the first node to the second.
fn exchange(handle: &relay::RelayHandle, nodes: &[Arc<NetNs>]) -> Result<(), String> {
    let impairment = Impairment::delay_only(100_000);
    let (from, to) = (PortId(0), PortId(1));
    let update = EdgeUpdate {
        changes: vec![EdgeChange::Set {
            from,
            to,
            impairment,
        }],
    };
    handle.apply(update, None).map_err(|e| e.to_string())?;
    let receiver = nodes[1].run(raw_socket).map_err(|e| e.to_string())??;
    let sender = nodes[0].run(raw_socket).map_err(|e| e.to_string())??;
    let mut frame = [0u8; 60];
    frame[..6].fill(0xff);
    frame[6..12].copy_from_slice(&mac_of(from));
    frame[12..14].copy_from_slice(&PROBE_TYPE.to_be_bytes());
    sender.send(&frame).map_err(|e| format!("send: {e}"))?;
    let mut buffer = [0u8; 128];
    let len = receiver
        .receive(&mut buffer)
        .map_err(|e| format!("nothing arrived: {e}"))?;
    if buffer[..len] == frame {
        Ok(())
    } else {
        Err("the frame arrived damaged".into())
    }
}

/// Experimental (IEEE 802).
const PROBE_TYPE: u16 = 0x88b6;

struct RawSocket(std::os::fd::OwnedFd);

fn raw_socket() -> Result<RawSocket, String> {
    use std::os::fd::FromRawFd;
    let text = |what: &str| format!("{what}: {}", std::io::Error::last_os_error());
    let protocol = i32::from(PROBE_TYPE.to_be());
    // SAFETY: plain system call, checked.
    let fd = unsafe {
        libc::socket(
            libc::AF_PACKET,
            libc::SOCK_RAW | libc::SOCK_CLOEXEC,
            protocol,
        )
    };
    if fd < 0 {
        return Err(text("open a packet socket"));
    }
    // SAFETY: fresh and ours.
    let socket = RawSocket(unsafe { std::os::fd::OwnedFd::from_raw_fd(fd) });
    // SAFETY: plain old data.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = PROBE_TYPE.to_be();
    address.sll_ifindex = 2;
    let patience = libc::timeval {
        tv_sec: 1,
        tv_usec: 0,
    };
    // SAFETY: pointers and lengths describe locals.
    let ok = unsafe {
        libc::bind(
            fd,
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as u32,
        ) == 0
            && libc::setsockopt(
                fd,
                libc::SOL_SOCKET,
                libc::SO_RCVTIMEO,
                (&raw const patience).cast(),
                size_of::<libc::timeval>() as u32,
            ) == 0
    };
    if ok {
        Ok(socket)
    } else {
        Err(text("set the packet socket up"))
    }
}

impl RawSocket {
    fn send(&self, frame: &[u8]) -> std::io::Result<()> {
        use std::os::fd::AsRawFd;
        // SAFETY: pointer and length describe `frame`.
        let n = unsafe { libc::send(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        if n < 0 {
            Err(std::io::Error::last_os_error())
        } else {
            Ok(())
        }
    }

    fn receive(&self, buffer: &mut [u8]) -> std::io::Result<usize> {
        use std::os::fd::AsRawFd;
        let at = buffer.as_mut_ptr().cast();
        // SAFETY: pointer and length describe `buffer`.
        let n = unsafe { libc::recv(self.0.as_raw_fd(), at, buffer.len(), 0) };
        usize::try_from(n).map_err(|_| std::io::Error::last_os_error())
    }
}

/// On a thread of its own, which ends with it.
fn try_real_time() -> Result<(), String> {
    std::thread::spawn(|| {
        let param = libc::sched_param { sched_priority: 1 };
        // SAFETY: about the calling thread, with a local.
        let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const param) };
        if result < 0 {
            Err(std::io::Error::last_os_error().to_string())
        } else {
            Ok(())
        }
    })
    .join()
    .unwrap_or_else(|_| Err("the thread panicked".into()))
}
