//! Requests to container engines outside a running lab: their version, and the removal of containers that crashed labs left.

use std::path::Path;
use std::time::Duration;

use constel_containers::engine::{Address, Engine, Listed};
use constel_host::claim::LabName;
use constel_host::clean::{Beyond, CleanReport, Removed};
use constel_host::ident::ProcessIdent;
use constel_lab::engine_of;

/// An engine removes a container in a tenth of a second, and takes longer when it has much to do.
const GONE_WITHIN: Duration = Duration::from_secs(60);

/// An engine that does not answer a mere query within this time counts as broken.
const LOOK_WITHIN: Duration = Duration::from_secs(5);

/// Returns the engine at the usual address, with its version, as text.
///
/// # Errors
/// The reason as text if there is no engine.
pub(crate) fn usual() -> Result<String, String> {
    let address = Address::find()?;
    let engine = Engine::at(address.socket).patience(LOOK_WITHIN);
    let version = engine.version().map_err(|error| error.to_string())?;
    let (major, minor) = version.api;
    Ok(format!(
        "{} {} (API {major}.{minor}) at {}",
        version.kind,
        version.version,
        engine.socket().display()
    ))
}

/// Removes containers of dead labs from the engines that these had, or else from the usual one.
pub(crate) struct Engines;

impl Beyond for Engines {
    fn orphans(&self) -> Vec<LabName> {
        let Ok(address) = Address::find() else {
            return Vec::new();
        };
        let engine = Engine::at(address.socket).patience(LOOK_WITHIN);
        let listed = engine.containers(None).unwrap_or_default();
        let orphans = listed.iter().filter(|one| is_orphan(one));
        orphans.filter_map(|one| one.lab.parse().ok()).collect()
    }

    fn remove(&self, lab: &LabName, dir: Option<&Path>, report: &mut CleanReport) {
        let recorded = dir.and_then(engine_of);
        let socket = match (&recorded, Address::find()) {
            (Some(socket), _) => socket.clone(),
            (None, Ok(address)) => address.socket,
            (None, Err(_)) => return,
        };
        let engine = Engine::at(socket).patience(GONE_WITHIN);
        let listed = match engine.containers(Some(lab.as_str())) {
            Ok(listed) => listed,
            // It may have nothing of the lab.
            Err(_) if recorded.is_none() => return,
            Err(error) => {
                let left = "containers of the lab may be left there";
                report.problems.push(format!("{error}; {left}"));
                return;
            }
        };
        for one in listed.into_iter().filter(is_orphan) {
            match engine.remove(&one.id, GONE_WITHIN) {
                Ok(()) => report.removed.push(Removed::Container {
                    id: one.id,
                    engine: engine.socket().to_owned(),
                    node: one.node,
                }),
                Err(error) => report.problems.push(error.to_string()),
            }
        }
    }
}

/// Returns whether the process that owns a container has ended. A container without our mark does not belong to Constel.
fn is_orphan(one: &Listed) -> bool {
    let mark = one.owner.as_deref().unwrap_or_default();
    let owner = ProcessIdent::from_mark(mark).ok().flatten();
    owner.is_some_and(|owner| matches!(owner.is_alive(), Ok(false)))
}
