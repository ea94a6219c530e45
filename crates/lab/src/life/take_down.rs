//! Everything that the fabric is made of goes, in reverse.

use std::sync::Arc;
use std::time::Duration;

use crate::error::EngineError;
use crate::life::bring_up::Fabric;
use crate::life::site::Site;
use crate::progress::{Progress, Stage};
use constel_drivers::{BACKLOG, PlaneStats};

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
    site: &dyn Site,
    progress: &dyn Progress,
) -> Result<(), EngineError> {
    let Fabric {
        blueprint,
        plane,
        attached,
        management,
        handle,
        between,
        kernels,
        launcher,
        runtime,
        ..
    } = fabric;
    let count = kernels.count() as u64;
    let stage = Stage::begin(progress, "taking down", count);
    // The machine's own interfaces are let go first.
    drop(attached);
    drop(management);
    drop(between);
    handle.stop();
    drop(launcher);
    drop(runtime);
    // The last one to hold them is this function: threads and views have ended. One by one, so that the kernel
    // removes the first ones while we still look into the others.
    let mut nodes = Arc::into_inner(kernels).map(|kernels| kernels.nodes);
    let mut plane = Some(plane);
    site.hurried(&mut || {
        for node in nodes.take().into_iter().flatten() {
            // Dead programs' connections would go on retransmitting, and keep their namespace, for minutes.
            node.end_connections()?;
        }
        let Some(plane) = plane.take() else {
            return Ok(());
        };
        let ports = blueprint.lab.wired_ports().map(|port| port.id);
        let ports: Vec<_> = ports.collect();
        site.ports(plane.as_ref(), false, None).wait_removed(&ports)
    })?;
    stage.reach(count);
    stage.end("");
    Ok(())
}
