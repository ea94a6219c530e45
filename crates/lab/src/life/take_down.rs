//! Everything that the fabric is made of goes, in reverse.

use std::collections::BTreeMap;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use constel_drivers::{BACKLOG, LinkPlane, PlaneStats};
use constel_host::globals::{Globals, Owner};
use constel_host::netlink::{Socket, destroy_tcp};
use constel_host::rcu::Expedited;
use constel_link::PortId;

use crate::error::EngineError;
use crate::life::bring_up::Fabric;
use crate::progress::{Progress, Stage};

/// Interfaces of a dead namespace are removed by the kernel in its own time; not longer than this.
const REMOVED_WITHIN: Duration = Duration::from_secs(120);

/// Frames between the trunk and the nodes at the moment of a look; one round of the kernel's backlog.
const SETTLE: Duration = Duration::from_millis(5);

/// Counters of the link plane once frames on their last inch have arrived: frames just handed to the kernel
/// are not lost.
///
/// # Errors
/// When the link plane has stopped by itself.
pub(crate) fn settled_stats(fabric: &Fabric) -> Result<PlaneStats, EngineError> {
    let mut stats = fabric.handle.snapshot()?;
    for _ in 0..20 {
        if stats.lost_to(BACKLOG) == 0 {
            break;
        }
        std::thread::sleep(SETTLE);
        let later = fabric.handle.snapshot()?;
        // What stays is lost; newer frames may be on their way meanwhile.
        stats.settle_backlog(&later);
    }
    let lost = fabric.plane.lost_before_capture()?;
    stats.add_lost_before_capture(lost.saturating_sub(fabric.lost_before_start));
    Ok(stats)
}

/// Removes nodes, ports, link plane, and waits until the kernel has really done it.
///
/// # Errors
/// When interfaces do not go, or settings cannot be given back.
pub(crate) fn take_down(
    fabric: Fabric,
    globals: &Globals,
    owner: &Owner,
    progress: &dyn Progress,
) -> Result<(), EngineError> {
    let Fabric {
        wiring,
        plane,
        handle,
        nodes,
        launcher,
        ..
    } = fabric;
    let stage = Stage::begin(progress, "taking down", nodes.len() as u64);
    handle.stop();
    drop(launcher);
    // Removing thousands of interfaces waits for RCU grace periods again and again.
    let expedited = Expedited::hold(globals, owner)?;
    let count = nodes.len() as u64;
    // The last one to hold them is this function: threads and views have ended. One by one, so that the kernel
    // removes the first ones while we still look into the others.
    for node in Arc::into_inner(nodes).into_iter().flatten() {
        // Dead programs' connections would go on retransmitting, and keep their namespace, for minutes.
        destroy_tcp(&node.ns)?;
    }
    let removed = wait_removed(
        &wiring
            .lab
            .layout
            .ports()
            .iter()
            .map(|p| p.id)
            .collect::<Vec<_>>(),
        &plane,
    );
    drop(plane);
    expedited.finish()?;
    removed?;
    stage.reach(count);
    stage.end("");
    Ok(())
}

/// Waits until no host end is left: the far ends went with their nodes.
fn wait_removed(ports: &[PortId], plane: &LinkPlane) -> Result<(), EngineError> {
    let mut shards = BTreeMap::new();
    for &port in ports {
        let shard = plane.shard_ns(port)?;
        if let std::collections::btree_map::Entry::Vacant(entry) = shards.entry(shard.as_raw_fd()) {
            entry.insert(Socket::open_in(shard)?);
        }
    }
    let end = u32::try_from(ports.len()).unwrap_or(u32::MAX);
    let host_ends = LinkPlane::host_ifindex(PortId(0))..LinkPlane::host_ifindex(PortId(end));
    let end = Instant::now() + REMOVED_WITHIN;
    for socket in shards.values_mut() {
        let mut pause = Duration::from_millis(1);
        while socket
            .links()?
            .iter()
            .any(|link| host_ends.contains(&link.ifindex))
        {
            if Instant::now() > end {
                return Err(EngineError::Io {
                    what: "the kernel does not remove the lab's interfaces".to_owned(),
                    source: std::io::ErrorKind::TimedOut.into(),
                });
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }
    Ok(())
}
