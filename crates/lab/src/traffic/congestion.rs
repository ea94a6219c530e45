//! Congestion controls that the scenario asks for: which the kernel lacks, and providing those that Constel has.

use std::collections::BTreeMap;

use constel_congestion::{NAMES, Provided, kernel_has, provide};
use constel_scenario::model::{Action, Flow, Over, Scenario, Transport};

use crate::error::EngineError;

/// Congestion controls of this kernel, one word each.
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// Names asked for, each with who asks first.
fn wanted<'a>(scenario: &'a Scenario, flows: &'a [Flow]) -> BTreeMap<&'a str, String> {
    let mut wanted = BTreeMap::new();
    for name in &scenario.transport.congestion {
        wanted.insert(name.as_str(), "transport.congestion".to_owned());
    }
    if let Some(split) = &scenario.transport.split_tcp {
        wanted
            .entry(split.congestion.as_str())
            .or_insert_with(|| "transport.split_tcp".to_owned());
    }
    for flow in flows {
        if let Some(name) = of_flow(flow) {
            wanted
                .entry(name)
                .or_insert_with(|| format!("flow {}", flow.name));
        }
    }
    wanted
}

fn of_flow(flow: &Flow) -> Option<&str> {
    match &flow.action {
        Action::Iperf3(iperf3) => match &iperf3.transport {
            Transport::Tcp { congestion } => Some(congestion),
            Transport::Udp { .. } => None,
        },
        Action::Transfer(transfer) => match &transfer.over {
            Over::Tcp { congestion } => Some(congestion),
            Over::Leotp(_) | Over::Vivace => None,
        },
        Action::Ping(_) | Action::Http(_) | Action::Run(_) => None,
    }
}

/// Says which congestion controls neither this kernel nor Constel has. Found out by asking for each on a socket:
/// that makes a kernel with modules load them, which its list of available ones does not.
pub(crate) fn missing(scenario: &Scenario, flows: &[Flow]) -> Option<EngineError> {
    let lacks: Vec<String> = wanted(scenario, flows)
        .into_iter()
        .filter(|(name, _)| !NAMES.contains(name) && !kernel_has(name))
        .map(|(name, who)| {
            let instead = if ["pcc", "vivace"].contains(&name) {
                "; PCC Vivace runs in user space: `vivace:` in place of `tcp:`"
            } else {
                ""
            };
            format!("{who}: this kernel has no congestion control '{name}'{instead}")
        })
        .collect();
    (!lacks.is_empty()).then(|| {
        let has = std::fs::read_to_string(AVAILABLE).unwrap_or_default();
        EngineError::Unable {
            what: lacks.join("\n  "),
            remedy: format!("it has: {}; Constel has: {}", has.trim(), NAMES.join(" ")),
        }
    })
}

/// Gives the kernel what it lacks, for as long as the result lives.
///
/// # Errors
/// When the kernel takes no congestion controls.
pub(crate) fn provide_wanted(
    scenario: &Scenario,
    flows: &[Flow],
) -> Result<Vec<Provided>, EngineError> {
    wanted(scenario, flows)
        .into_keys()
        .filter(|name| NAMES.contains(name))
        .map(|name| {
            provide(name).map_err(|error| EngineError::Unable {
                what: error.to_string(),
                remedy: "it takes BPF struct_ops and type information (CONFIG_DEBUG_INFO_BTF)"
                    .to_owned(),
            })
        })
        .collect()
}
