//! The results of a box: manifest, summary, and its rules with their counters.

use std::io;
use std::time::SystemTime;

use constel_api::answers::{BoxShown, LabState};
use constel_api::manifest::command_line;
use constel_api::summary::{Convergence, DOCUMENTS, FlowRow, Size, StepRows, Summary, Times};
use constel_drivers::mono_ns;
use constel_link::PlaneReport;
use constel_measure::results::Results;
use constel_measure::verdict::{Bounds, Fidelity, Software};
use constel_scenario::model::{BoxEnds, RuleFile};
use constel_units::Utc;
use serde::Serialize;
use serde_json::Value;

use crate::options::Options;
use constel_lab::wires::Wire;

/// `manifest.json` of a box.
#[derive(Debug, Serialize)]
struct Manifest<'a> {
    version: u32,
    constel: &'static str,
    /// Distinguishes it from the manifest of a lab.
    kind: &'static str,
    lab: &'a str,
    scenario: &'a str,
    seed: u64,
    /// The UTC at which it came up.
    start: Utc,
    mode: &'static str,
    interfaces: Vec<Interface<'a>>,
    rules: usize,
    inputs: Value,
    bounds: Bounds,
    kernel: Option<String>,
    command_line: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Interface<'a> {
    name: &'a str,
    mac: String,
    mtu: u32,
    addresses: &'a [std::net::IpAddr],
}

/// Writes the values that are known before the first frame.
///
/// # Errors
/// When the folder cannot be written.
pub(crate) fn write_manifest(
    results: &Results,
    options: &Options,
    wires: &[Wire],
) -> io::Result<()> {
    let file = &options.rules;
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok();
    let manifest = Manifest {
        version: DOCUMENTS,
        constel: env!("CARGO_PKG_VERSION"),
        kind: "box",
        lab: options.name.as_str(),
        scenario: file.source.file(),
        seed: file.seed,
        // A box has no lab clock of its own.
        start: SystemTime::now().into(),
        mode: if options.exclusive {
            "exclusive"
        } else {
            "shared"
        },
        interfaces: wires
            .iter()
            .map(|wire| Interface {
                name: &wire.name,
                mac: constel_link::rules::words::mac_text(wire.mac),
                mtu: wire.mtu,
                addresses: &wire.own,
            })
            .collect(),
        rules: file.rules.len(),
        inputs: serde_json::to_value(&file.inputs)?,
        bounds: Bounds::default(),
        kernel: kernel.map(|text| text.trim().to_owned()),
        command_line: command_line(),
    };
    results.write_json("manifest.json", &manifest)?;
    let name = match options.ends {
        BoxEnds::Interfaces(_) => "rules.yaml",
        BoxEnds::Machines(_) => "scenario.yaml",
    };
    results.write(name, file.source.text().as_bytes())
}

/// The data of a box that has ended.
pub(crate) struct EndedBox {
    pub(crate) stats: PlaneReport,
    /// The rules at the end.
    pub(crate) shown: BoxShown,
    pub(crate) file: RuleFile,
    pub(crate) began_ns: u64,
    pub(crate) bring_up_s: f64,
    pub(crate) failures: Vec<String>,
    pub(crate) interrupted: bool,
    pub(crate) flows: Vec<FlowRow>,
}

/// Writes the outcome of the box.
///
/// # Errors
/// When the folder cannot be written.
pub(crate) fn write_summary(
    results: &Results,
    options: &Options,
    seen: EndedBox,
) -> io::Result<Summary> {
    let refused: u64 = seen.shown.interfaces.iter().map(|wire| wire.refused).sum();
    let mut fidelity = Fidelity {
        failures: seen.failures,
        ..Fidelity::from(&seen.stats)
    };
    let drops = &mut fidelity.emulator_drops;
    drops.push(("interface".to_owned(), refused));
    let bounds = Bounds::default();
    let mut software = Software::default();
    let failed = seen.flows.iter().filter_map(FlowRow::failure);
    failed.for_each(|failure| software.fail(failure));
    let summary = Summary {
        version: DOCUMENTS,
        lab: options.name.to_string(),
        scenario: options.rules.source.file().to_owned(),
        seed: seen.file.seed,
        interrupted: seen.interrupted,
        lab_time_ns: mono_ns().saturating_sub(seen.began_ns),
        size: Size {
            nodes: seen.shown.lab.nodes,
            containers: 0,
            ports: seen.shown.interfaces.len(),
            edges: seen.shown.lab.edges,
            memory_per_node_bytes: 0,
        },
        times: Times {
            bring_up_s: seen.bring_up_s,
            ..Times::default()
        },
        routing: None,
        convergence: Convergence::default(),
        converged: None,
        link_state: None,
        disjoint: Vec::new(),
        channels: Vec::new(),
        daemons: Vec::new(),
        transport: Vec::new(),
        handovers: Vec::new(),
        further_handovers: 0,
        changes: Vec::new(),
        further_changes: 0,
        stacks: Vec::new(),
        flows: seen.flows,
        steps: StepRows {
            count: 0,
            rows: std::collections::BTreeMap::new(),
        },
        relay: seen.stats,
        lateness_by_class: Vec::new(),
        plans: None,
        policies: Vec::new(),
        crossed: Vec::new(),
        machines: Vec::new(),
        verdict: fidelity.judge(bounds),
        software,
        fidelity,
        bounds,
    };
    let mut shown = seen.shown;
    shown.lab.state = LabState::Stopping;
    results.write_json("rules.json", &shown)?;
    results.write_json("summary.json", &summary)?;
    Ok(summary)
}
