//! The removal of the fabric, in reverse order of its creation.

use std::sync::Arc;
use std::time::Duration;

use crate::error::EngineError;
use crate::life::bring_up::Fabric;
use crate::life::site::Site;
use crate::progress::{Progress, Stage};
use constel_drivers::{BACKLOG, PlaneStats};

/// The wait for frames that were between the trunk and the nodes when the counters were read; one round of the
/// kernel's backlog.
const SETTLE: Duration = Duration::from_millis(5);

/// Returns the counters of the link plane once frames in the kernel's backlog have arrived, so that they do not
/// count as lost.
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
        // A difference that remains is a loss. Newer frames may be in flight during the wait.
        stats.settle_backlog(&later);
    }
    let lost = fabric.plane.lost_before_capture()?;
    stats.add_lost_before_capture(lost.saturating_sub(fabric.lost_before_start));
    Ok(stats)
}

/// Removes nodes, ports and the link plane, and waits until the kernel has completed it.
///
/// # Errors
/// When interfaces remain, or settings cannot be restored.
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
    // The machine's own interfaces are released first.
    drop(attached);
    drop(management);
    drop(between);
    handle.stop();
    drop(launcher);
    drop(runtime);
    // This function holds the last reference: threads and views have ended. The nodes are dropped one by one, so
    // that the kernel removes the first ones while this thread still enters the others.
    let mut nodes = Arc::into_inner(kernels).map(|kernels| kernels.nodes);
    let mut plane = Some(plane);
    site.hurried(&mut || {
        for node in nodes.take().into_iter().flatten() {
            // The connections of ended programs would go on retransmitting, and keep their namespace, for minutes.
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
