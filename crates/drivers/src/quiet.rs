//! Settings that namespaces of all drivers share.

use std::fs;
use std::io;

use constel_host::netlink::{Tc, handle};
use constel_host::netns::NetNs;

use crate::error::{DriverError, Result};

/// Creates a namespace in which the kernel sends no frames of its own; see [`be_silent`].
pub(crate) fn silent_ns() -> Result<NetNs> {
    let ns = NetNs::new()?;
    ns.run(be_silent)?.map_err(|source| DriverError::Os {
        what: "turn IPv6 off".into(),
        source,
    })?;
    Ok(ns)
}

/// Stops the kernel from sending frames of its own on interfaces created from now on in the calling thread's namespace.
/// An IPv6 stack would send router solicitations and multicast reports into the nodes.
pub(crate) fn be_silent() -> io::Result<()> {
    for scope in ["all", "default"] {
        match fs::write(format!("/proc/sys/net/ipv6/conf/{scope}/disable_ipv6"), "1") {
            // This kernel has no IPv6 and is silent already.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            other => other?,
        }
    }
    Ok(())
}

/// Returns the clsact discipline, to which ingress and egress filters of an interface attach.
pub(crate) fn clsact(ifindex: u32) -> Tc<'static> {
    Tc {
        ifindex,
        handle: handle(0xffff, 0),
        parent: Tc::CLSACT,
        kind: "clsact",
        ..Tc::default()
    }
}

/// Makes these interfaces of the calling thread's namespace distribute received frames over the CPUs flow by flow
/// (RPS).
///
/// Without it, two frames of a flow that were sent on different CPUs are received on different CPUs, and the second may
/// overtake the first. The calling thread gets a file system view of its own, so it must end soon.
pub(crate) fn flow_by_flow(interfaces: &[String]) -> Result<()> {
    const CPUS_MAX: usize = 32;
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get().min(CPUS_MAX));
    // The kernel's mask has one bit per CPU, in hexadecimal.
    let mask = format!("{:x}", u32::MAX >> (CPUS_MAX - cpus));
    // sysfs shows the interfaces of the namespace in which it was mounted, so it is mounted again here.
    let (root, sys, kind) = (c"/", c"/sys", c"sysfs");
    let private = libc::MS_REC | libc::MS_PRIVATE;
    // SAFETY: strings that live; no data is passed.
    let mounted = unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(
                std::ptr::null(),
                root.as_ptr(),
                std::ptr::null(),
                private,
                std::ptr::null(),
            ) == 0
            && libc::mount(
                kind.as_ptr(),
                sys.as_ptr(),
                kind.as_ptr(),
                0,
                std::ptr::null(),
            ) == 0
    };
    if !mounted {
        return Err(DriverError::last_os("see interfaces in sysfs"));
    }
    for interface in interfaces {
        let path = format!("/sys/class/net/{interface}/queues/rx-0/rps_cpus");
        match fs::write(&path, &mask) {
            // A kernel for one processor does not have it, and does not need it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            written => written.map_err(|source| DriverError::Os {
                what: format!("write {path}"),
                source,
            })?,
        }
    }
    Ok(())
}

/// Returns the number of frames that these interfaces of the calling thread's namespace could not pass to their peers.
pub(crate) fn tx_dropped(names: impl Iterator<Item = String>) -> Result<u64> {
    let names: Vec<String> = names.collect();
    // The first eight columns describe reception; then follow bytes, packets, errors and dropped.
    interface_counter(11, |name| names.iter().any(|wanted| wanted == name))
}

/// Returns the number of frames that nodes sent and that host ends in the calling thread's namespace did not receive:
/// the processor's queue was full, or they exceeded the link's MTU. The drivers' programs see received frames only, so
/// they cannot count these.
pub(crate) fn lost_before_capture() -> Result<u64> {
    let host_end = |name: &str| {
        let number = name.strip_prefix('h').filter(|number| !number.is_empty());
        number.is_some_and(|number| number.bytes().all(|digit| digit.is_ascii_digit()))
    };
    interface_counter(3, host_end)
}

/// Returns the sum of a column of the counters of those interfaces of the calling thread's namespace.
fn interface_counter(column: usize, wanted: impl Fn(&str) -> bool) -> Result<u64> {
    let path = "/proc/thread-self/net/dev";
    let text = fs::read_to_string(path).map_err(|source| DriverError::Os {
        what: format!("read {path}"),
        source,
    })?;
    let of_line = |line: &str| {
        let (name, counters) = line.split_once(':')?;
        wanted(name.trim()).then_some(())?;
        counters.split_whitespace().nth(column)?.parse::<u64>().ok()
    };
    Ok(text.lines().filter_map(of_line).sum())
}
