//! The removal of the fabric, in reverse order of its creation.

use std::sync::Arc;
use std::time::Duration;

use crate::error::EngineError;
use crate::life::bring_up::Fabric;
use crate::life::site::Site;
use crate::progress::{Progress, Stage};
use constel_drivers::{BACKLOG, CAPTURE, settle_backlog};
use constel_link::PlaneReport;

/// The wait for frames that were between the trunk and the nodes when the counters were read; one round of the
/// kernel's backlog.
const SETTLE: Duration = Duration::from_millis(5);

/// Returns the counters of the link plane once frames in the kernel's backlog have arrived, so that they do not
/// count as lost.
///
/// # Errors
/// When the link plane has stopped by itself.
pub(crate) fn settled_stats(fabric: &Fabric) -> Result<PlaneReport, EngineError> {
    let mut stats = fabric.handle.snapshot()?;
    for _ in 0..20 {
        if stats.emulator_drops.get(BACKLOG) == 0 {
            break;
        }
        std::thread::sleep(SETTLE);
        let later = fabric.handle.snapshot()?;
        // A difference that remains is a loss. Newer frames may be in flight during the wait.
        settle_backlog(&mut stats, &later);
    }
    let lost = fabric.plane.lost_before_capture()?;
    let lost = lost.saturating_sub(fabric.lost_before_start);
    stats.emulator_drops.set(CAPTURE, lost);
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
        let nodes = nodes.take().into_iter().flatten();
        end_nodes(nodes, |node| node.end_connections(), progress)?;
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

/// Drops nodes, each after its connections. The connections of ended programs would go on retransmitting, and keep their
/// namespace, for minutes. A kernel that cannot end connections keeps such a namespace, but not its interfaces.
fn end_nodes<N>(
    nodes: impl Iterator<Item = N>,
    end_connections: impl Fn(&N) -> constel_host::Result<()>,
    progress: &dyn Progress,
) -> Result<(), EngineError> {
    let mut kept = 0;
    for node in nodes {
        match end_connections(&node) {
            Ok(()) => {}
            Err(error) if error.is_unsupported() => kept += 1,
            Err(error) => return Err(error.into()),
        }
    }
    if kept > 0 {
        progress.say(&format!(
            "this kernel cannot end TCP connections (CONFIG_INET_DIAG_DESTROY): those of {kept} nodes end within minutes"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use constel_host::Error;

    use super::*;

    #[derive(Default)]
    struct Said(Mutex<Vec<String>>);

    impl Progress for Said {
        fn stage(&self, _: &str, _: u64, _: u64, _: &str) {}

        fn say(&self, line: &str) {
            self.0.lock().unwrap().push(line.to_owned());
        }
    }

    #[test]
    fn a_kernel_that_cannot_end_connections_is_reported_once_and_no_error() {
        let said = Said::default();
        let refused = |errno: i32| {
            let source = std::io::Error::from_raw_os_error(errno);
            Err(Error::os("end TCP connections", source))
        };
        let ended = end_nodes(
            0..3,
            |node| match node {
                1 => Ok(()),
                _ => refused(rustix::io::Errno::OPNOTSUPP.raw_os_error()),
            },
            &said,
        );
        assert!(ended.is_ok(), "{ended:?}");
        let lines = said.0.lock().unwrap().clone();
        assert!(
            lines.len() == 1 && lines[0].contains("those of 2 nodes"),
            "{lines:?}"
        );
        assert!(
            end_nodes(
                0..3,
                |_| refused(rustix::io::Errno::PERM.raw_os_error()),
                &said
            )
            .is_err()
        );
        assert!(end_nodes(0..3, |_| Ok(()), &said).is_ok());
        assert_eq!(said.0.lock().unwrap().len(), 1);
    }
}
