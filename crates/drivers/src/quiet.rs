//! What namespaces of drivers have in common.

use std::fs;
use std::io;

use constel_host::netlink::{Tc, handle};
use constel_host::netns::NetNs;

use crate::error::{DriverError, Result};

/// A namespace in which the kernel sends nothing of its own: an IPv6 stack would send router solicitations and
/// multicast reports into the nodes.
pub(crate) fn silent_ns() -> Result<NetNs> {
    let ns = NetNs::new()?;
    ns.run(|| {
        for scope in ["all", "default"] {
            let path = format!("/proc/sys/net/ipv6/conf/{scope}/disable_ipv6");
            match fs::write(&path, "1") {
                Ok(()) => {}
                // No IPv6 in this kernel: silent already.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(source) => {
                    return Err(DriverError::Os {
                        what: format!("write {path}"),
                        source,
                    });
                }
            }
        }
        Ok(())
    })??;
    Ok(ns)
}

/// The place on an interface where filters see what it receives and is about to send.
pub(crate) fn clsact(ifindex: u32) -> Tc<'static> {
    Tc {
        ifindex,
        handle: handle(0xffff, 0),
        parent: Tc::CLSACT,
        kind: "clsact",
        ..Tc::default()
    }
}

/// Frames that these interfaces of the calling thread's namespace could not hand to their peers.
pub(crate) fn tx_dropped(names: impl Iterator<Item = String>) -> Result<u64> {
    let path = "/proc/thread-self/net/dev";
    let text = fs::read_to_string(path).map_err(|source| DriverError::Os {
        what: format!("read {path}"),
        source,
    })?;
    let names: Vec<String> = names.collect();
    let of_line = |line: &str| {
        let (name, counters) = line.split_once(':')?;
        names
            .iter()
            .any(|wanted| wanted == name.trim())
            .then_some(())?;
        // Eight columns for what was received, then bytes, packets, errors, dropped.
        counters.split_whitespace().nth(11)?.parse::<u64>().ok()
    };
    Ok(text.lines().filter_map(of_line).sum())
}
