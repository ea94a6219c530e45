//! What was seen in lab time.

use std::collections::BTreeMap;

use constel_observe::verdict::Software;
use constel_topology::NodeId;

use crate::life::losses::{Back, Losses};
use crate::nodes::own_stack::Spans;
use crate::watch::changes::{Baseline, Row, Watches};
use crate::watch::paths::Paths;
use crate::watch::rows::Rows;
use crate::watch::summary::{ChangeRow, HandoverRow};

/// So many failures are kept.
const FAILURES: usize = 1_000;

/// What was seen in lab time.
#[derive(Default)]
pub(crate) struct Observed {
    pub(crate) handovers: Rows<HandoverRow>,
    pub(crate) changes: Rows<ChangeRow>,
    pub(crate) watches: Watches,
    /// Whether no machine knows alone when routes stand again, as other machines have the rest of ways.
    is_part: bool,
    /// Machines that are lost, as far as that is planned.
    pub(crate) lost: Losses,
    /// Nodes that were made anew and have their links soon.
    pub(crate) coming: Vec<Back>,
    pub(crate) paths: Paths,
    /// Whether the link plane tells which frames were late.
    pub(crate) tells_lateness: bool,
    /// Nodes whose programs changed the node's stack.
    pub(crate) stacks: BTreeMap<NodeId, Spans>,
    /// Parts of the emulator that failed: they make the figures untrustworthy.
    pub(crate) failures: Vec<String>,
    /// Software of the lab that failed, which says nothing about the figures.
    pub(crate) software: Software,
    pub(crate) lab_time_ns: u64,
    /// Share of lab time in which programs waited for a processor.
    pub(crate) processor_wait_ratio: Option<f64>,
}

impl Observed {
    /// Nothing yet; what is followed, and whether no machine knows alone when routes stand again.
    pub(crate) fn begin(paths: Paths, is_part: bool) -> Self {
        Self {
            paths,
            is_part,
            ..Self::default()
        }
    }

    /// Notes a change and, unless it is known, watches for its end.
    pub(crate) fn change(&mut self, change: ChangeRow, steady_ns: u64, before: Option<Baseline>) {
        let (t_ns, stood) = (change.t_ns, change.routes_stood_after_ns);
        let row = self.changes.push(change).map_or(Row::None, Row::Change);
        if stood.is_none() {
            self.watch(row, t_ns, steady_ns, before);
        }
    }

    /// The same for a handover.
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
        if !self.is_part {
            self.watches.add(row, t_ns, steady_ns, before);
        }
    }

    /// Notes something that makes the figures untrustworthy. Of very many the first are kept.
    pub(crate) fn fail(&mut self, failure: String) {
        if self.failures.len() < FAILURES {
            self.failures.push(failure);
        } else if self.failures.len() == FAILURES {
            self.failures.push("and more, in events.ndjson".to_owned());
        }
    }
}
