//! Limits of the host that a large lab needs to be higher. Each is recorded and restored.

use std::collections::BTreeMap;

use constel_api::manifest::HostSetting;
use constel_host::globals::{Globals, Owner, RequiredValue};
use constel_host::sysctl;

use crate::error::EngineError;

/// The number of neighbour entries that a port may need: its far end in two families, and its multicast groups.
const NEIGHBOURS_PER_PORT: u64 = 16;
/// The number of frames per port that may wait at a time for the processor on which they were sent. The kernel's
/// default is 1,000 for all interfaces of a host together. Nodes whose timers fire in the same tick, or a
/// connection that may send a whole window at once, fill that queue, and then frames of others are lost.
const BACKLOG_PER_PORT: u64 = 4;
const BACKLOG_LEAST: u64 = 16_384;

/// Returns the minimum values for a lab with this many ports, of the settings that exist here. Neighbour tables and
/// the processors' queues of received frames (`netdev_max_backlog`) are shared by all namespaces of a host.
fn needed(ports: usize) -> Vec<(String, u64)> {
    let ports = ports as u64;
    let entries = (ports * NEIGHBOURS_PER_PORT).max(1024);
    let mut needed = vec![(
        "net/core/netdev_max_backlog".to_owned(),
        (ports * BACKLOG_PER_PORT).max(BACKLOG_LEAST),
    )];
    // In this order the three thresholds never cross while they are raised.
    for family in ["ipv4", "ipv6"] {
        for threshold in ["gc_thresh3", "gc_thresh2", "gc_thresh1"] {
            needed.push((format!("net/{family}/neigh/default/{threshold}"), entries));
        }
    }
    needed.retain(|(key, _)| sysctl::exists(key));
    needed
}

/// Raises the limits for a lab with this many ports.
///
/// # Errors
/// When a limit exists but cannot be raised: neighbour entries or frames would be lost later without a message.
pub(crate) fn raise(globals: &Globals, owner: &Owner, ports: usize) -> Result<(), EngineError> {
    for (key, least) in needed(ports) {
        globals.set(owner, &sysctl::path_of(&key), RequiredValue::AtLeast(least))?;
    }
    Ok(())
}

/// Returns the same values for the manifest: each setting before the lab, and its minimum while the lab is up.
pub(crate) fn raised(ports: usize) -> BTreeMap<String, HostSetting> {
    let rows = needed(ports).into_iter().map(|(key, least)| {
        let before = sysctl::read_as::<u64>(&key).ok();
        let setting = HostSetting {
            before,
            at_least: least,
        };
        (sysctl::path_of(&key).display().to_string(), setting)
    });
    rows.collect()
}
