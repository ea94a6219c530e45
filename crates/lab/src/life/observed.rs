//! The observations of lab time.

use std::collections::BTreeMap;

use constel_api::summary::{ClientEnd, FlowStatus, PolicyRow};
use constel_host::process::Exit;
use constel_measure::verdict::{Software, SoftwareFailure};
use constel_topology::NodeId;
use rustix::process::Signal;

use crate::life::losses::{Back, Losses};
use crate::nodes::own_stack::Spans;
use crate::watch::changes::{Baseline, Row, Watches};
use crate::watch::paths::Paths;
use crate::watch::rows::Rows;
use crate::watch::summary::{ChangeRow, FlowRow, HandoverRow};

/// The number of failures that are kept.
const FAILURES: usize = 1_000;

/// The most time between the observed ends of a container and of the programs in it, nanoseconds.
const TOGETHER_NS: u64 = 1_000_000_000;

/// A container that ended.
pub(crate) struct ContainerEnd {
    pub(crate) node: NodeId,
    /// The lab time at which this was observed, nanoseconds; 0 before lab time zero.
    pub(crate) t_ns: u64,
    pub(crate) how: String,
    /// The failure, if the program failed and is not started again.
    pub(crate) failure: Option<SoftwareFailure>,
}

/// Adds the cause to the reason of a flow that failed because its client was killed.
pub(crate) fn explain_killed(row: &mut FlowRow, cause: &str) {
    let killed = Exit::Signal(Signal::KILL.as_raw()).shell_code();
    let is_killed = matches!(row.end, Some(ClientEnd::ByItself { exit, .. }) if exit == killed);
    if is_killed && row.status == FlowStatus::Failed {
        let reason = row.reason.take().unwrap_or_default();
        row.reason = Some(format!("{reason}, since {cause}"));
    }
}

/// The observations of lab time.
#[derive(Default)]
pub(crate) struct Observed {
    pub(crate) handovers: Rows<HandoverRow>,
    pub(crate) changes: Rows<ChangeRow>,
    pub(crate) watches: Watches,
    /// Whether this machine alone cannot determine when routes have converged, because other machines have parts of
    /// the paths.
    is_part: bool,
    /// The lost machines, as far as their losses are planned.
    pub(crate) lost: Losses,
    /// The nodes that were created again and have their links soon.
    pub(crate) coming: Vec<Back>,
    pub(crate) paths: Paths,
    /// Whether the link plane reports which frames were late.
    pub(crate) tells_lateness: bool,
    /// The nodes whose programs changed the node's stack.
    pub(crate) stacks: BTreeMap<NodeId, Spans>,
    /// The parts of the emulator that failed: the run is then not trustworthy.
    pub(crate) failures: Vec<String>,
    /// The software of the lab that failed. It does not affect the measurements.
    pub(crate) software: Software,
    /// The ends of containers by node: the lab time in nanoseconds, and how.
    container_ends: BTreeMap<NodeId, Vec<(u64, String)>>,
    pub(crate) lab_time_ns: u64,
    /// The programs that decided live.
    pub(crate) policies: Vec<PolicyRow>,
    /// The share of lab time in which programs waited for a processor.
    pub(crate) processor_wait_ratio: Option<f64>,
}

impl Observed {
    /// Creates empty observations, with the paths to follow, and whether this machine alone cannot determine
    /// convergence.
    pub(crate) fn begin(paths: Paths, is_part: bool) -> Self {
        Self {
            paths,
            is_part,
            ..Self::default()
        }
    }

    /// Records a change and, if its convergence time is not known, watches for it.
    pub(crate) fn change(&mut self, change: ChangeRow, steady_ns: u64, before: Option<Baseline>) {
        let (t_ns, stood) = (change.t_ns, change.converged_after_ns);
        // Beyond the kept rows a change is only counted, but still watched.
        let row = self.changes.push(change).map_or(Row::None, Row::Change);
        if stood.is_none() {
            self.watch(row, t_ns, steady_ns, before);
        }
    }

    /// Records a handover in the same way.
    pub(crate) fn handover(&mut self, handover: HandoverRow, before: Option<Baseline>) {
        let (t_ns, stood) = (handover.t_ns, handover.converged_after_ns);
        let row = self
            .handovers
            .push(handover)
            .map_or(Row::None, Row::Handover);
        if stood.is_none() {
            self.watch(row, t_ns, 0, before);
        }
    }

    fn watch(&mut self, row: Row, t_ns: u64, steady_ns: u64, before: Option<Baseline>) {
        // On several machines the convergence is computed after the run, from the records of all.
        if !self.is_part {
            self.watches.add(row, t_ns, steady_ns, before);
        }
    }

    /// Records that a container ended. Only the first ends of each node are kept.
    pub(crate) fn container_ended(&mut self, end: ContainerEnd) {
        if let Some(failure) = end.failure {
            self.software.fail(failure);
        }
        let ends = self.container_ends.entry(end.node).or_default();
        if ends.len() < FAILURES {
            ends.push((end.t_ns, end.how));
        }
    }

    /// Adds the end of a node's container to the reason of a flow whose client was killed by it. The kernel kills all
    /// processes of a container when its first process ends.
    pub(crate) fn explain_killed(&self, row: &mut FlowRow, client: NodeId) {
        let Some(ClientEnd::ByItself { t_ns, .. }) = row.end else {
            return;
        };
        let ends = self.container_ends.get(&client).into_iter().flatten();
        // The client and the container are waited for separately, so their ends have slightly different times.
        let mut ends = ends.filter(|(end_ns, _)| end_ns.abs_diff(t_ns) <= TOGETHER_NS);
        if let Some((_, how)) = ends.next() {
            explain_killed(row, &format!("the container of its node ended ({how})"));
        }
    }

    /// Records a reason that makes the run untrustworthy. Only the first reasons are kept.
    pub(crate) fn fail(&mut self, failure: String) {
        if self.failures.len() < FAILURES {
            self.failures.push(failure);
        // A lab of thousands of nodes may fail in each of them, and the summary must stay readable.
        } else if self.failures.len() == FAILURES {
            self.failures.push("and more, in events.ndjson".to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(exit: i32) -> FlowRow {
        let end =
            json!({"how": "by-itself", "t_ns": 5_000_000_000_u64, "exit": exit, "early": true});
        let row = json!({
            "name": "f", "kind": "run", "from": "west", "to": null, "at_ns": 0, "status": "failed", "reason": "signal 9",
            "end": end, "handovers": 0, "paths": []
        });
        serde_json::from_value(row).unwrap()
    }

    #[test]
    fn a_program_killed_with_its_container_says_so() {
        let mut seen = Observed::default();
        let west = NodeId(3);
        seen.container_ended(ContainerEnd {
            node: west,
            t_ns: 5_100_000_000,
            how: "signal 9".to_owned(),
            failure: None,
        });
        let explained = |exit: i32, client: NodeId| {
            let mut row = row(exit);
            seen.explain_killed(&mut row, client);
            row.reason.unwrap()
        };
        assert_eq!(
            explained(137, west),
            "signal 9, since the container of its node ended (signal 9)"
        );
        // One that failed by itself, and one elsewhere.
        assert_eq!(explained(7, west), "signal 9");
        assert_eq!(explained(137, NodeId(4)), "signal 9");
        // Long before the end of the container.
        let mut early = row(137);
        early.end = Some(ClientEnd::ByItself {
            t_ns: 1_000_000_000,
            exit: 137,
            early: true,
        });
        seen.explain_killed(&mut early, west);
        assert_eq!(early.reason.as_deref(), Some("signal 9"));
        assert!(
            !seen.software.failed,
            "one that is started again is no failure"
        );
    }
}
