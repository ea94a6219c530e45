//! The congestion controls of a scenario: a check of what the kernel lacks, and the installation of Constel's own.

use std::collections::BTreeMap;

use constel_drivers::congestion::{NAMES, Provided, kernel_has, provide};
use constel_scenario::model::{Action, Flow, Scenario, TransferProtocol, Transport};

use crate::error::EngineError;

/// The list of this kernel's congestion controls, separated by blanks.
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// Returns the requested names, each with its first user.
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
            TransferProtocol::Tcp { congestion } => Some(congestion),
            TransferProtocol::Leotp(_) | TransferProtocol::Vivace => None,
        },
        Action::Ping(_) | Action::Http(_) | Action::Run(_) => None,
    }
}

/// Returns an error for congestion controls that neither this kernel nor Constel has. The check requests each on a
/// socket: a kernel with modules then loads it, while the list of available ones lacks modules that are not loaded.
pub(crate) fn missing(scenario: &Scenario, flows: &[Flow]) -> Option<EngineError> {
    // Constel's own controls count as present, because they are installed when the lab comes up.
    let lacks: Vec<String> = wanted(scenario, flows)
        .into_iter()
        .filter(|(name, _)| !NAMES.contains(name) && !kernel_has(name))
        .map(|(name, who)| {
            // PCC is no kernel module; the message names its replacement.
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

/// Installs missing congestion controls in the kernel, for as long as the result exists.
///
/// # Errors
/// When the kernel does not accept congestion controls.
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
