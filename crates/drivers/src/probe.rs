//! Capabilities of this host: every feature that the drivers need, tried in practice.

use constel_host::clock;
use constel_host::netlink::{Batch, FIRST_OWN_IFINDEX, Mac, Socket, VethEnd};
use constel_host::netns::NetNs;
use constel_link::{EdgeChange, EdgeUpdate, Impairment, PortId, mac_of};
use serde::Serialize;

use crate::DriverKind;
use crate::config::PlaneConfig;
use crate::error::DriverError;
use crate::plane::make_plane;
use crate::ports::host_ifindex;
use crate::relay::{Priority, Relay, RelayConfig};
use crate::traits::{Links, Plane};

/// One feature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Feature {
    /// Name of the feature.
    pub name: &'static str,
    /// Whether it worked.
    pub works: bool,
    /// The kernel's error, when it did not work.
    pub detail: String,
    /// Feature or package to install or enable in that case.
    pub remedy: &'static str,
}

/// Result of probing one driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DriverReport {
    /// The driver.
    pub driver: DriverKind,
    /// Whether it can be used.
    pub works: bool,
    /// All features tried, in the order in which they are needed. The list may end with the first feature that failed.
    pub features: Vec<Feature>,
}

impl DriverReport {
    /// Returns in one line why the driver does not work.
    #[must_use]
    pub fn why_not(&self) -> String {
        let missing = self
            .features
            .iter()
            // Real-time scheduling is optional, so its lack is no reason.
            .find(|f| !f.works && f.name != REAL_TIME);
        let text = |f: &Feature| {
            // Only the first line: a verifier's log is long.
            let said = f.detail.lines().next().unwrap_or_default();
            format!("{}: {said}", f.name)
        };
        missing.map_or_else(String::new, text)
    }
}

/// The driver chosen for a run, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Chosen {
    /// The driver.
    pub kind: DriverKind,
    /// The reason.
    pub why: String,
}

/// Returns the drivers in the order in which they are tried. In virtual time the kernel's own are as exact as the relay, whose
/// threads make many system calls.
fn order() -> [DriverKind; 3] {
    match clock::waits() {
        true => [DriverKind::Edt, DriverKind::Netem, DriverKind::Relay],
        false => DriverKind::ALL,
    }
}

/// Chooses the requested driver, or with `None` the first that works here. Every chosen driver has been tried.
///
/// # Errors
/// [`DriverError::Unable`] with the missing features.
pub fn choose(wanted: Option<DriverKind>) -> Result<Chosen, DriverError> {
    if let Some(kind) = wanted {
        let report = probe(kind);
        return if report.works {
            let why = "the scenario asks for it".into();
            Ok(Chosen { kind, why })
        } else {
            let why = report.why_not();
            Err(DriverError::Unable(format!(
                "driver {kind} does not work here: {why}"
            )))
        };
    }
    let mut tried: Vec<String> = Vec::new();
    let order = order();
    for kind in order {
        let report = probe(kind);
        if report.works {
            let names = order.map(|kind| kind.to_string()).join(", ");
            let mut why = format!("`auto`: the first that works, of {names}");
            for reason in &tried {
                why.push_str(reason);
            }
            return Ok(Chosen { kind, why });
        }
        tried.push(format!("; {kind} does not: {}", report.why_not()));
    }
    let why = tried.concat();
    Err(DriverError::Unable(format!(
        "no link driver works here{why}"
    )))
}

/// Tries everything that a driver needs, in temporary namespaces. It takes some tenths of a second and leaves nothing
/// behind.
#[must_use]
pub fn probe(driver: DriverKind) -> DriverReport {
    let mut features = Vec::new();
    let works = try_all(driver, &mut features).is_some();
    DriverReport {
        driver,
        works,
        features,
    }
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

/// Requirements for a driver to be created, to start and to move a frame: names and remedies.
struct Needs {
    made: (&'static str, &'static str),
    started: (&'static str, &'static str),
    moves: (&'static str, &'static str),
}

const RELAY_NEEDS: Needs = Needs {
    made: (
        "BPF programs, veth and tcx",
        "Linux 6.6 or newer with CONFIG_BPF_SYSCALL, CONFIG_BPF_JIT, CONFIG_VETH, \
         CONFIG_NET_XGRESS, and CAP_BPF, CAP_NET_ADMIN",
    ),
    started: (
        "AF_XDP with TX metadata",
        "Linux 6.8 or newer with CONFIG_XDP_SOCKETS",
    ),
    moves: (
        "frames through the relay",
        "Linux 5.10 or newer (bpf_redirect_peer); no other program may claim the relay's \
         interfaces",
    ),
};

const EDT_NEEDS: Needs = Needs {
    made: (
        "BPF programs, veth, clsact and fq",
        "Linux 6.1 or newer with CONFIG_BPF_SYSCALL, CONFIG_VETH, and the modules sch_fq, \
         sch_ingress, cls_bpf (Debian's kernels have them)",
    ),
    started: ("the driver's thread", "room for one more thread"),
    moves: (
        "frames through fq",
        "Linux 6.1 or newer (bpf_ktime_get_tai_ns, bpf_loop, bpf_redirect_peer)",
    ),
};

const NETEM_NEEDS: Needs = Needs {
    made: ("a namespace", "run as root (CAP_SYS_ADMIN)"),
    started: ("the driver's thread", "room for one more thread"),
    moves: (
        "frames through netem",
        "the modules sch_netem, sch_htb, sch_ingress, cls_flower, cls_fw, cls_matchall, \
         act_mirred, act_skbedit, act_gact (Debian's kernels have them)",
    ),
};

fn try_all(driver: DriverKind, features: &mut Vec<Feature>) -> Option<()> {
    note(
        features,
        "network namespaces",
        "run as root (CAP_SYS_ADMIN) on a kernel with CONFIG_NET_NS",
        NetNs::new(),
    )?;
    let needs = match driver {
        DriverKind::Relay => RELAY_NEEDS,
        DriverKind::Edt => EDT_NEEDS,
        DriverKind::Netem => NETEM_NEEDS,
    };
    // netem has no BPF programs, which need the type information.
    if driver != DriverKind::Netem {
        note(
            features,
            "kernel type information",
            "a kernel with CONFIG_DEBUG_INFO_BTF (Debian's have it)",
            std::fs::metadata("/sys/kernel/btf/vmlinux"),
        )?;
    }
    let plane = note(features, needs.made.0, needs.made.1, small(driver))?;
    let handle = note(features, needs.started.0, needs.started.1, plane.start())?;
    let nodes = note(
        features,
        "ports",
        match driver {
            DriverKind::Netem => NETEM_NEEDS.moves.1,
            DriverKind::Relay | DriverKind::Edt => "a kernel with CONFIG_VETH",
        },
        make_pair(plane.as_ref()),
    )?;
    let moved = exchange(handle.as_ref(), &nodes);
    note(features, needs.moves.0, needs.moves.1, moved)?;
    if driver == DriverKind::Relay {
        note(features, REAL_TIME, RT_REMEDY, try_real_time());
    }
    Some(())
}

/// A constant, because `why_not` must recognise it as optional.
const REAL_TIME: &str = "real-time scheduling (optional)";

const RT_REMEDY: &str = "CAP_SYS_NICE, and real-time runtime for the cgroup where \
                         CONFIG_RT_GROUP_SCHED is set; without it the relay uses nice -20";

/// Returns a minimal link plane for two ports.
fn small(driver: DriverKind) -> Result<Box<dyn Plane>, DriverError> {
    if driver == DriverKind::Relay {
        let config = RelayConfig {
            slots: 1024,
            priority: Priority::Nice,
            ..RelayConfig::new("probe", 2, 0)
        };
        return Ok(Box::new(Relay::new(config)?));
    }
    let config = PlaneConfig {
        edges: 16,
        ..PlaneConfig::new("probe", 2, 0)
    };
    make_plane(driver, &config)
}

fn make_pair(plane: &dyn Plane) -> Result<Vec<NetNs>, String> {
    let text = |e: &dyn std::fmt::Display| e.to_string();
    let mut nodes = Vec::new();
    for port in [PortId(0), PortId(1)] {
        let node = NetNs::new().map_err(|e| text(&e))?;
        let host = VethEnd {
            name: &format!("h{}", port.0),
            ifindex: Some(host_ifindex(port)),
            up: true,
            ..VethEnd::default()
        };
        let end = VethEnd {
            name: "eth0",
            netns: Some(node.fd()),
            ifindex: Some(FIRST_OWN_IFINDEX),
            mac: Some(Mac(mac_of(port))),
            ..VethEnd::default()
        };
        let mut batch = Batch::new();
        batch.create_veth(&host, &end).map_err(|e| text(&e))?;
        let shard = plane.shard_ns(port).map_err(|e| text(&e))?;
        let mut socket = Socket::open_in(shard).map_err(|e| text(&e))?;
        socket.send(&mut batch).map_err(|e| text(&e))?;
        // The node's end is in another namespace, so another socket sets it up.
        let mut batch = Batch::new();
        batch.link_up(FIRST_OWN_IFINDEX);
        let mut socket = Socket::open_in(&node).map_err(|e| text(&e))?;
        socket.send(&mut batch).map_err(|e| text(&e))?;
        nodes.push(node);
    }
    plane
        .attach(&[PortId(0), PortId(1)])
        .map_err(|e| text(&e))?;
    Ok(nodes)
}

/// Sends one broadcast frame of an experimental EtherType from the first node to the second.
fn exchange(handle: &dyn Links, nodes: &[NetNs]) -> Result<(), String> {
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

/// Local experimental EtherType (IEEE 802).
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
    address.sll_ifindex = FIRST_OWN_IFINDEX as i32;
    // The probe must not wait for ever if the frame is lost.
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

/// Tries real-time scheduling on a separate thread, whose priority ends with it.
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
