//! Checks before anything is created.

use std::collections::BTreeSet;
use std::ffi::OsStr;

use constel_drivers::{Chosen, DriverKind};
use constel_host::process::find_command;
use constel_link::Effects;
use constel_measure::verdict::Bounds;
use constel_plan::Lab;
use constel_scenario::model::{Action, Flow, Threads};

use crate::error::EngineError;
use crate::life::manifest::bounds;
use crate::life::threads;
use crate::life::together::not_on_several;
use crate::nodes::launcher::{missing_own, missing_programs, search_path};
use crate::routing::router::Router;
use crate::traffic::{self, congestion, helpers};

/// Refuses a scenario that this host cannot run because of missing programs, commands or kernel features. With
/// `run_traffic` false, flows need nothing.
///
/// # Errors
/// [`EngineError::Unable`] with everything that is missing of the first missing kind.
pub(crate) fn preflight(lab: &Lab, run_traffic: bool) -> Result<(), EngineError> {
    let flows: &[Flow] = if run_traffic {
        &lab.scenario.traffic
    } else {
        &[]
    };
    needs(lab, flows)
}

/// Refuses a lab with these flows if this host lacks programs, commands or kernel features for it.
///
/// # Errors
/// As [`preflight`].
pub(crate) fn needs(lab: &Lab, flows: &[Flow]) -> Result<(), EngineError> {
    let mut needed: Vec<_> = flows.iter().flat_map(traffic::programs).copied().collect();
    needed.extend(Router::of(&lab.scenario).programs(lab));
    let mut own = helpers::programs(&lab.scenario.transport).to_vec();
    own.extend(flows.iter().filter_map(traffic::own_programs));
    own.sort_unstable();
    own.dedup();
    let missing = missing_programs(&needed)
        .or_else(|| missing_own(&own))
        .or_else(|| missing_commands(lab, flows))
        .or_else(|| congestion::missing(&lab.scenario, flows));
    missing.map_or(Ok(()), Err)
}

/// Returns the link driver for this lab on this host: the one in the scenario, or the first that works.
///
/// # Errors
/// [`EngineError::Unable`] when it, or none, works here, or when the first that works lacks something that the
/// scenario needs.
pub(crate) fn choose(lab: &Lab) -> Result<Chosen, EngineError> {
    let wanted = lab.scenario.driver.kind();
    let chosen = constel_drivers::choose(wanted).map_err(|error| EngineError::Unable {
        what: error.to_string(),
        remedy: "`constel doctor` prints what each driver lacks here".to_owned(),
    })?;
    let lacks = shortcomings(lab, chosen.kind);
    // In virtual time the relay is the last to be tried, and has every effect.
    if wanted.is_none()
        && !lacks.is_empty()
        && let Ok(relay) = constel_drivers::choose(Some(DriverKind::Relay))
        && shortcomings(lab, relay.kind).is_empty()
    {
        let why = format!("`auto`: {} lacks what the scenario needs", chosen.kind);
        return Ok(Chosen {
            kind: relay.kind,
            why,
        });
    }
    if lacks.is_empty() {
        return Ok(chosen);
    }
    Err(EngineError::Unable {
        what: lacks.join("\n  "),
        remedy: format!(
            "`constel doctor` prints why only driver {} works here; or use fewer properties of links",
            chosen.kind
        ),
    })
}

/// Returns everything that the scenario needs and this driver does not have.
fn shortcomings(lab: &Lab, driver: DriverKind) -> Vec<String> {
    let mut lacks = lacks(driver, &lab.profiles);
    // Each driver has a maximum frame size, so that the widest port decides.
    let widest = lab.layout.ports().iter().map(|port| port.mtu_bytes).max();
    lacks.extend(widest.and_then(|mtu| driver.capabilities().mtu_refusal(mtu)));
    if bounds(&lab.scenario) != Bounds::default() {
        lacks.extend(driver.capabilities().lateness_refusal());
    }
    // Only the relay has channels, forwarding without a stack, threads and captured interfaces. All reasons are
    // collected for one message.
    if driver != DriverKind::Relay
        && let Some((name, _)) = lab.channels().first()
    {
        lacks.push(format!(
            "network `{name}` is a channel that members share; driver {driver} knows none"
        ));
    }
    if driver != DriverKind::Relay
        && let Some(node) = lab.forwarders().next()
    {
        lacks.push(format!(
            "`{}` only forwards (`runtime: forward`); driver {driver} leaves that to kernels",
            lab.layout.node(node).name
        ));
    }
    if driver == DriverKind::Relay {
        lacks.extend(threads::refusal(lab.scenario.threads));
    } else if let Threads::Count(count @ 2..) = lab.scenario.threads {
        lacks.push(format!(
            "`links.threads` is {count}; driver {driver} has no threads that move frames"
        ));
    }
    let attached = lab.scenario.hosts.iter().find(|host| host.attach.is_some());
    if driver != DriverKind::Relay
        && let Some(host) = attached
    {
        lacks.push(format!(
            "host `{}` is attached to an interface of the machine; driver {driver} takes none",
            host.name
        ));
    }
    lacks
}

/// Refuses a part of a lab that cannot be on several machines.
///
/// # Errors
/// [`EngineError::Unable`] with all reasons.
pub(crate) fn may_be_on_several(lab: &Lab) -> Result<(), EngineError> {
    let why = not_on_several(lab);
    if why.is_empty() {
        return Ok(());
    }
    Err(EngineError::Unable {
        what: why.join("\n  "),
        remedy: "or run it on one machine".to_owned(),
    })
}

/// Returns the effects of links that this driver does not have, each kind once.
pub(crate) fn lacks(driver: DriverKind, profiles: &[Effects]) -> Vec<String> {
    let capabilities = driver.capabilities();
    let lacks = profiles.iter().flat_map(|e| capabilities.refusals(e));
    let lacks: BTreeSet<String> = lacks.map(|refusal| refusal.why).collect();
    lacks.into_iter().collect()
}

/// Returns an error for commands of flows that cannot be found, with the search path that flows will use.
fn missing_commands(lab: &Lab, flows: &[Flow]) -> Option<EngineError> {
    let path = search_path();
    // The commands in an image are not known outside the container.
    let inside: BTreeSet<&str> = lab
        .containers()
        .map(|(node, _)| lab.layout.node(node).name.as_str())
        .collect();
    let lacks = flows.iter().filter_map(|flow| match &flow.action {
        Action::Run(run) if !inside.contains(run.node.as_str()) => {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_driver_that_works_lacks_is_said_once() {
        let effects = |corrupt| Effects {
            corrupt_ratio: Some(corrupt),
            overhead_bytes: Some(20),
            ..Effects::default()
        };
        let profiles = [effects(0.1), effects(0.2)];
        assert_eq!(lacks(DriverKind::Relay, &profiles), [""; 0]);
        let said = lacks(DriverKind::Edt, &profiles);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("corrupt_ratio") && said[0].contains("relay"));
    }
}
