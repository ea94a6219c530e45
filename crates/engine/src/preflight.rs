//! What can be known to fail before anything is made.

use std::ffi::OsStr;

use constel_drivers::{Chosen, DriverKind};
use constel_host::process::find_command;
use constel_plan::Lab;
use constel_scenario::model::{Action, DriverChoice, Flow};

use crate::error::EngineError;
use crate::launcher::{missing_own, missing_programs, search_path};
use crate::{congestion, daemons, helpers, traffic};

/// Refuses a scenario that this host cannot run: programs, commands and kernel features it asks for. With
/// `run_traffic` false, flows ask for nothing.
///
/// # Errors
/// [`EngineError::Unable`] with all that is missing of the first kind of thing that is missing.
pub(crate) fn preflight(lab: &Lab, run_traffic: bool) -> Result<(), EngineError> {
    let flows: &[Flow] = if run_traffic {
        &lab.scenario.traffic
    } else {
        &[]
    };
    let mut needed: Vec<_> = flows.iter().flat_map(traffic::programs).copied().collect();
    let routing = &lab.scenario.routing;
    if let Some(asked) = routing.mode.daemons() {
        needed.extend(daemons::programs(lab, asked));
    }
    let mut own = helpers::programs(&lab.scenario.transport).to_vec();
    if flows
        .iter()
        .any(|flow| matches!(flow.action, Action::Transfer(_)))
    {
        own.push(traffic::TRANSFER);
    }
    let missing = missing_programs(&needed)
        .or_else(|| missing_own(&own))
        .or_else(|| missing_commands(flows))
        .or_else(|| congestion::missing(&lab.scenario, flows));
    missing.map_or(Ok(()), Err)
}

/// The link driver for this lab on this host: the one the scenario names, or the first that works.
///
/// # Errors
/// [`EngineError::Unable`] when it, or none, works here.
pub(crate) fn choose(lab: &Lab) -> Result<Chosen, EngineError> {
    let wanted = match lab.scenario.driver {
        DriverChoice::Auto => None,
        DriverChoice::Relay => Some(DriverKind::Relay),
        DriverChoice::Edt => Some(DriverKind::Edt),
        DriverChoice::Netem => Some(DriverKind::Netem),
    };
    constel_drivers::choose(wanted).map_err(|error| EngineError::Unable {
        what: error.to_string(),
        remedy: "`constel doctor` says what each driver lacks here".to_owned(),
    })
}

/// Commands of flows that cannot be found, the way they will be looked for when their time comes.
fn missing_commands(flows: &[Flow]) -> Option<EngineError> {
    let path = search_path();
    let lacks = flows.iter().filter_map(|flow| match &flow.action {
        Action::Run(run) => {
            let error = find_command(OsStr::new(run.command.first()?), &path).err()?;
            Some(format!("flow {}: {error}", flow.name))
        }
        _ => None,
    });
    let lacks: Vec<String> = lacks.collect();
    (!lacks.is_empty()).then(|| EngineError::Unable {
        what: lacks.join("\n  "),
        remedy: "install it, or correct the flow's `command`".to_owned(),
    })
}
