//! What can be known to fail before anything is made.

use std::collections::BTreeMap;
use std::ffi::OsStr;

use constel_host::process::find_command;
use constel_plan::Lab;
use constel_scenario::model::{Action, Flow, Transport};
use rustix::net::{AddressFamily, SocketType, socket, sockopt};

use crate::error::EngineError;
use crate::launcher::{missing_programs, search_path};
use crate::{daemons, traffic};

/// Congestion controls of this kernel, one word each.
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

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
        needed.extend(daemons::programs(asked, routing.families));
    }
    let missing = missing_programs(&needed)
        .or_else(|| missing_commands(flows))
        .or_else(|| missing_congestion_controls(flows));
    missing.map_or(Ok(()), Err)
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

/// Congestion controls that this kernel does not have. Found out by asking for each on a socket: that makes a
/// kernel with modules load them, which its list of available ones does not.
fn missing_congestion_controls(flows: &[Flow]) -> Option<EngineError> {
    let mut wanted: BTreeMap<&str, &str> = BTreeMap::new();
    for flow in flows {
        if let Action::Iperf3(iperf3) = &flow.action
            && let Transport::Tcp { congestion } = &iperf3.transport
        {
            wanted.entry(congestion).or_insert(flow.name.as_str());
        }
    }
    let lacks: Vec<String> = wanted
        .into_iter()
        .filter(|(congestion, _)| !kernel_has(congestion))
        .map(|(congestion, flow)| {
            format!("flow {flow}: this kernel has no congestion control '{congestion}'")
        })
        .collect();
    (!lacks.is_empty()).then(|| {
        let has = std::fs::read_to_string(AVAILABLE).unwrap_or_default();
        EngineError::Unable {
            what: lacks.join("\n  "),
            remedy: format!("it has: {}", has.trim()),
        }
    })
}

/// Whether a TCP socket may use it. What cannot be found out is left for the flow to say.
fn kernel_has(congestion: &str) -> bool {
    let Ok(socket) = socket(AddressFamily::INET, SocketType::STREAM, None) else {
        return true;
    };
    sockopt::set_tcp_congestion(&socket, congestion) != Err(rustix::io::Errno::NOENT)
}

#[cfg(test)]
mod tests {
    use super::kernel_has;

    #[test]
    fn the_kernel_is_asked() {
        // Every Linux has it: it is built in and cannot be left out.
        assert!(kernel_has("reno"));
        assert!(!kernel_has("no-such-cc"));
    }
}
