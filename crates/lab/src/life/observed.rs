//! The observations of lab time.

use std::collections::BTreeMap;

use constel_observe::verdict::Software;
use constel_topology::NodeId;

use crate::life::losses::{Back, Losses};
use crate::nodes::own_stack::Spans;
use crate::watch::changes::{Baseline, Row, Watches};
use crate::watch::paths::Paths;
use crate::watch::rows::Rows;
use crate::watch::summary::{ChangeRow, HandoverRow};

/// The number of failures that are kept.
const FAILURES: usize = 1_000;

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
    pub(crate) lab_time_ns: u64,
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
        let (t_ns, stood) = (change.t_ns, change.routes_stood_after_ns);
        // Beyond the kept rows a change is only counted, but still watched.
        let row = self.changes.push(change).map_or(Row::None, Row::Change);
        if stood.is_none() {
            self.watch(row, t_ns, steady_ns, before);
        }
    }

    /// Records a handover in the same way.
    pub(crate) fn handover(&mut self, handover: HandoverRow, before: Option<Baseline>) {
        let (t_ns, stood) = (handover.t_ns, handover.routes_stood_after_ns);
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

    /// Records a reason that makes the run untrustworthy. Only the first reasons are kept.
    pub(crate) fn fail(&mut self, failure: String) {
        if self.failures.len() < FAILURES {
            self.failures.push(failure);
        } else if self.failures.len() == FAILURES {
            self.failures.push("and more, in events.ndjson".to_owned());
        }
    }
}
