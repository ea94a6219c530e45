//! Constel's own programs that run in nodes on the path and help flows: placed, started, supervised.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use constel_api::summary::HelpersRow;
use constel_host::process::Supervisor;
use constel_measure::quantiles::Quantiles;
use constel_measure::results::Results;
use constel_scenario::model::{Action, Flow, Midnodes, PathFunctions, SplitTcp, TransferProtocol};
use constel_topology::NodeId;
use leotp_core::wire::DEFAULT_PORT;

use crate::error::EngineError;
use crate::nodes::launcher::Launcher;
use crate::progress::Stage;
use crate::traffic::gateways::{self, key_file, make_key};
use crate::traffic::{TRANSFER, exit_words, output, said};
use constel_plan::{Blueprint, LocalNodes};

/// The program of midnodes and gateways, which is installed with Constel.
pub(crate) const LEOTP: &str = "leotp";

/// The kind name of TCP gateways.
const GATEWAY: &str = "leotp-gateway";

/// The time, after the start of the last helper, within which every helper must report that it is ready.
const READY_WITHIN: Duration = Duration::from_secs(20);

/// The time for all helpers together to end.
const GRACE: Duration = Duration::from_secs(5);

/// A program to start in a node.
#[derive(Debug, Clone, PartialEq)]
struct Helper {
    kind: &'static str,
    node: NodeId,
    argv: Vec<String>,
    /// The beginning of the output line that reports that it is ready.
    ready: &'static str,
}

/// The helpers of a lab.
pub(crate) struct Helpers {
    all: Vec<Helper>,
    logs: Vec<PathBuf>,
    running: Supervisor<usize>,
    /// Helpers of nodes that users have stopped.
    halted: BTreeSet<usize>,
}

/// A helper that ended by itself.
pub(crate) struct Death {
    pub(crate) node: String,
    pub(crate) how: String,
}

/// Returns Constel's own programs that the scenario's helpers need.
pub(crate) fn programs(transport: &PathFunctions) -> &'static [&'static str] {
    match (&transport.leotp, &transport.split_tcp) {
        (Some(_), Some(_)) => &[LEOTP, TRANSFER],
        (Some(_), None) => &[LEOTP],
        (None, Some(_)) => &[TRANSFER],
        (None, None) => &[],
    }
}

impl Helpers {
    /// Creates the state without helpers.
    pub(crate) fn none() -> Self {
        Self {
            all: Vec::new(),
            logs: Vec::new(),
            running: Supervisor::new(),
            halted: BTreeSet::new(),
        }
    }

    /// Forgets the helpers of a node that a user stops: their end is no failure.
    pub(crate) fn halt(&mut self, node: NodeId) {
        let own = (0..self.all.len()).filter(|index| self.all[*index].node == node);
        self.halted.extend(own);
    }

    /// Starts the helpers of a stopped node again.
    ///
    /// # Errors
    /// When one cannot be started.
    pub(crate) fn begin(&mut self, launcher: &Launcher, node: NodeId) -> Result<(), EngineError> {
        let own = |index: &usize| self.all[*index].node == node;
        let again: Vec<usize> = self.halted.iter().copied().filter(own).collect();
        for index in again {
            self.halted.remove(&index);
            let log = &self.logs[index];
            let child = launcher.start(node, &self.all[index].argv, log, log)?;
            self.running.add(index, child);
        }
        Ok(())
    }

    /// Returns the number of helpers on this machine.
    pub(crate) fn planned(blueprint: &Blueprint, ours: &LocalNodes) -> usize {
        plan(blueprint, ours, Path::new("")).len()
    }

    /// Starts all helpers and waits until each reports that it is ready.
    ///
    /// # Errors
    /// When one cannot be started, ends, or is not ready in time; the error has its last output.
    pub(crate) fn start(
        blueprint: &Blueprint,
        launcher: &Launcher,
        results: &Results,
        stage: &Stage<'_>,
    ) -> Result<Self, EngineError> {
        let folder = results.dir().join("transport");
        fs::create_dir_all(&folder).map_err(|source| EngineError::Io {
            what: format!("make {}", folder.display()),
            source,
        })?;
        let key = key_file(&launcher.lab_dir);
        let mut helpers = Self {
            all: plan(blueprint, &launcher.kernels.ours(), &key),
            ..Self::none()
        };
        // The key must exist before the first gateway starts.
        if helpers.all.iter().any(|helper| helper.kind == GATEWAY) {
            make_key(&key)?;
        }
        for (index, helper) in helpers.all.iter().enumerate() {
            let name = &blueprint.lab.layout.node(helper.node).name;
            let log = folder.join(format!("{}-{name}.log", helper.kind));
            let child = launcher.start(helper.node, &helper.argv, &log, &log)?;
            helpers.running.add(index, child);
            helpers.logs.push(log);
        }
        // All are started before the first is waited for, so that their start-up overlaps.
        let end = Instant::now() + READY_WITHIN;
        for (index, helper) in helpers.all.iter().enumerate() {
            let log = &helpers.logs[index];
            while !said(log, helper.ready) {
                let child = helpers.running.get(&index);
                // The log is read once more after the end: the line may have been written just before.
                let gone = child.is_none_or(|child| !matches!(child.try_wait(), Ok(None)));
                if (gone && !said(log, helper.ready)) || Instant::now() > end {
                    return Err(not_ready(blueprint, helper, log));
                }
                std::thread::sleep(Duration::from_millis(2));
            }
            stage.reach(index as u64 + 1);
        }
        Ok(helpers)
    }

    /// Returns the helpers that have ended since the last call.
    ///
    /// # Errors
    /// When they cannot be waited for.
    pub(crate) fn deaths(&mut self, blueprint: &Blueprint) -> Result<Vec<Death>, EngineError> {
        if self.running.is_empty() {
            return Ok(Vec::new());
        }
        let gone = self.running.wait(Duration::ZERO)?;
        let death = |gone: constel_host::process::Exited<usize>| Death {
            node: blueprint
                .lab
                .layout
                .node(self.all[gone.key].node)
                .name
                .clone(),
            how: exit_words(gone.exit),
        };
        let by_itself =
            |gone: &constel_host::process::Exited<usize>| !self.halted.contains(&gone.key);
        Ok(gone.into_iter().filter(by_itself).map(death).collect())
    }

    /// Ends all helpers and summarises their last output.
    ///
    /// # Errors
    /// When one does not end.
    pub(crate) fn stop(mut self, launcher: &Launcher) -> Result<Vec<HelpersRow>, EngineError> {
        // Helpers print their statistics when they end, so that they get time for it.
        self.running
            .terminate_all(GRACE, || launcher.cgroups.thaw())?;
        let blueprint = &launcher.kernels.blueprint;
        let kinds: BTreeSet<&'static str> = self.all.iter().map(|helper| helper.kind).collect();
        Ok(kinds
            .into_iter()
            .map(|kind| self.row(blueprint, kind))
            .collect())
    }

    fn row(&self, blueprint: &Blueprint, kind: &'static str) -> HelpersRow {
        let of_kind = || {
            let pairs = self.all.iter().zip(&self.logs);
            pairs.filter(|(helper, _)| helper.kind == kind)
        };
        // The statistics are the last JSON line of each log.
        let words: Vec<serde_json::Value> =
            of_kind().filter_map(|(_, log)| last_object(log)).collect();
        let quantiles = |key: &str| {
            let samples = words.iter().filter_map(|words| words[key].as_f64());
            Quantiles::of(&mut samples.collect::<Vec<_>>())
        };
        HelpersRow {
            kind: kind.to_owned(),
            nodes: of_kind()
                .map(|(helper, _)| blueprint.lab.layout.node(helper.node).name.clone())
                .collect(),
            cpu_s: quantiles("cpu_s"),
            peak_rss_bytes: quantiles("peak_rss_bytes"),
        }
    }
}

fn not_ready(blueprint: &Blueprint, helper: &Helper, log: &Path) -> EngineError {
    let words = output::end(log);
    EngineError::Unable {
        what: format!(
            "the {} in {} does not work: {}",
            helper.kind,
            blueprint.lab.layout.node(helper.node).name,
            words.trim()
        ),
        remedy: format!("its command was: {}", helper.argv.join(" ")),
    }
}

/// Returns the last line of a file that is a JSON object.
fn last_object(log: &Path) -> Option<serde_json::Value> {
    let text = output::end(log);
    let line = text.lines().rev().find(|line| line.starts_with('{'))?;
    serde_json::from_str(line).ok()
}

/// Returns the scenario's helpers on this machine, in node order within each kind, gateways in the order of the
/// file. `key` is the file of the gateways' key.
fn plan(blueprint: &Blueprint, ours: &LocalNodes, key: &Path) -> Vec<Helper> {
    let transport = &blueprint.lab.scenario.transport;
    let mut all = Vec::new();
    if let Some(midnodes) = &transport.leotp {
        let gateway = |(node, argv)| Helper {
            kind: GATEWAY,
            node,
            argv,
            ready: "gateway for TCP ports",
        };
        let gateways = gateways::plan(blueprint, midnodes, key).into_iter();
        all.extend(gateways.map(gateway));
        all.extend(plan_midnodes(blueprint, midnodes));
    }
    if let Some(split) = &transport.split_tcp {
        all.extend(plan_splits(blueprint, split));
    }
    all.retain(|helper| ours.has(helper.node));
    all
}

fn plan_midnodes(blueprint: &Blueprint, midnodes: &Midnodes) -> Vec<Helper> {
    // Midnodes serve the ports of all LEOTP transfers.
    let flows = blueprint.lab.scenario.traffic.iter();
    let ports = flows.filter_map(|flow| match &flow.action {
        Action::Transfer(own) if matches!(own.over, TransferProtocol::Leotp(_)) => Some(own.port),
        _ => None,
    });
    let last = ports.fold(DEFAULT_PORT, u16::max);
    let mut argv = vec![LEOTP, "mid", "--json", "--port"]
        .into_iter()
        .map(str::to_owned)
        .collect::<Vec<_>>();
    argv.push(format!("{DEFAULT_PORT}-{last}"));
    argv.extend(midnodes.settings.arguments());
    let nodes = blueprint.lab.midnodes(midnodes).into_iter();
    nodes
        .map(|node| Helper {
            kind: "leotp-midnode",
            node,
            argv: argv.clone(),
            ready: "midnode for UDP port",
        })
        .collect()
}

fn plan_splits(blueprint: &Blueprint, split: &SplitTcp) -> Vec<Helper> {
    let flows = &blueprint.lab.scenario.traffic;
    let ports = || flows.iter().filter_map(Flow::tcp_port);
    let (Some(first), Some(last)) = (ports().min(), ports().max()) else {
        // There are no connections to split.
        return Vec::new();
    };
    let ports = format!("{first}-{last}");
    let argv = [
        TRANSFER,
        "split",
        "--ports",
        &ports,
        "--congestion",
        &split.congestion,
    ];
    let nodes = blueprint.lab.proxies(split).into_iter();
    nodes
        .map(|node| Helper {
            kind: "split-tcp",
            node,
            argv: argv.map(str::to_owned).to_vec(),
            ready: "splitting TCP ports",
        })
        .collect()
}
