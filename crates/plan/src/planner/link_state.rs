//! Nodes that can predict the topology, and learn of failures through link-state advertisements instead of at once:
//! `routing.reaction`.

use std::collections::BTreeMap;
use std::sync::Arc;

use constel_routing::link_state::{LinkStateProtocol, LsaCount, LsdbDigest, Reaction};
use constel_routing::{Routes, Rule};
use constel_topology::{Layout, NodeId, Snapshot, Stepper};

use crate::blueprint::Blueprint;
use crate::failed::FailedEdges;

/// The topology that the nodes of a lab predict, and their databases. The protocol itself is [`LinkStateProtocol`];
/// this type keeps the predicted topology in step with the actual one.
pub(super) struct LinkState {
    stepper: Stepper,
    /// The prediction for the step in force; `ahead` is that for the step in preparation.
    now: Snapshot,
    ahead: Option<Snapshot>,
    protocol: LinkStateProtocol,
    /// The routes of the views met so far, by step, as long as neither topology changes.
    computed: BTreeMap<u64, BTreeMap<LsdbDigest, Routes>>,
    /// The number of changes of any node's database.
    database_changes: u64,
    /// The version of the edges failed by command that has been detected.
    by_hand: u64,
}

impl LinkState {
    /// Creates the state without a prediction.
    pub(super) fn new(blueprint: &Blueprint, reaction: Reaction) -> Self {
        Self {
            stepper: blueprint.lab.stepper().foreseen(),
            now: Snapshot::default(),
            ahead: None,
            protocol: LinkStateProtocol::new(&blueprint.lab.layout, reaction),
            computed: BTreeMap::new(),
            database_changes: 0,
            by_hand: 0,
        }
    }

    /// Predicts with another layout of the same shape from now on.
    pub(super) fn adopt(&mut self, layout: &Arc<Layout>) {
        self.stepper.adopt(Arc::clone(layout));
        self.computed.clear();
    }

    /// Predicts the next step.
    pub(super) fn foresee(&mut self) {
        self.ahead = Some(self.stepper.advance());
    }

    /// Returns the number of changes of any node's database.
    pub(super) fn database_changes(&self) -> u64 {
        self.database_changes
    }

    /// Returns the number of LSAs so far.
    pub(super) fn lsa_count(&self) -> LsaCount {
        self.protocol.lsa_count()
    }

    /// Returns the lab time at which the next LSA is handled.
    pub(super) fn next_ns(&self) -> Option<u64> {
        self.protocol.next_ns()
    }

    /// Brings the step that was predicted last into force, and detects differences from the actual topology.
    pub(super) fn begin(&mut self, layout: &Layout, actual: &Snapshot, failed: &FailedEdges) {
        self.arrive();
        self.detect(layout, actual, actual.t_ns, failed);
    }

    /// As [`LinkState::begin`], but before lab time runs: all nodes know of failures at that time.
    pub(super) fn begin_knowing(
        &mut self,
        layout: &Layout,
        actual: &Snapshot,
        failed: &FailedEdges,
    ) {
        self.arrive();
        self.detect(layout, actual, 0, failed);
        self.receive(u64::MAX);
    }

    fn arrive(&mut self) {
        if let Some(ahead) = self.ahead.take() {
            self.now = ahead;
        }
        let step = self.now.step;
        self.computed.retain(|of, _| *of >= step);
    }

    /// Detects links that were failed or repaired by command, and handles LSAs that have arrived by lab time
    /// `now_ns`.
    pub(super) fn react(
        &mut self,
        layout: &Layout,
        actual: &Snapshot,
        now_ns: u64,
        failed: &FailedEdges,
    ) {
        if self.by_hand != failed.version() {
            self.detect(layout, actual, now_ns, failed);
        }
        self.receive(now_ns);
    }

    fn detect(&mut self, layout: &Layout, actual: &Snapshot, now_ns: u64, failed: &FailedEdges) {
        if self.by_hand != failed.version() {
            self.by_hand = failed.version();
            self.computed.clear();
        }
        let rest = failed.without(actual);
        let actual = rest.as_ref().unwrap_or(actual);
        self.protocol.detect(layout, &self.now, actual, now_ns);
    }

    fn receive(&mut self, now_ns: u64) {
        self.database_changes += u64::from(self.protocol.receive(now_ns));
    }

    /// Returns every node's routes by its own view, for the step in force or the one predicted last.
    pub(super) fn routes(
        &mut self,
        layout: &Layout,
        actual: &Snapshot,
        destinations: &[NodeId],
        rule: Rule,
    ) -> Routes {
        let ahead = self.ahead.as_ref();
        let foreseen = ahead.filter(|s| s.step == actual.step).unwrap_or(&self.now);
        let known = self.computed.entry(foreseen.step).or_default();
        self.protocol
            .routes(layout, (foreseen, actual), destinations, rule, known)
    }
}
