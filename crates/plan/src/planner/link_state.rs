//! Nodes that know the sky ahead and learn of what breaks by link-state advertisements instead of at once: `routing.reaction`.

use std::collections::BTreeMap;

use constel_routing::link_state::{LinkStateProtocol, LsaCount, LsdbDigest, Reaction};
use constel_routing::{Routes, Rule};
use constel_topology::{Layout, NodeId, Snapshot, Stepper};

use crate::blueprint::Blueprint;
use crate::failed::FailedEdges;

/// What the nodes of a lab foresaw and what their databases hold. The protocol itself is [`LinkStateProtocol`]; this keeps the
/// topology that was foreseen in step with the one that is.
pub(super) struct LinkState {
    stepper: Stepper,
    /// As foreseen for the step in force, and for the one that is being prepared.
    now: Snapshot,
    ahead: Option<Snapshot>,
    protocol: LinkStateProtocol,
    /// Routes of the views met so far, by step, while neither topology changes.
    computed: BTreeMap<u64, BTreeMap<LsdbDigest, Routes>>,
    /// How often some node's database has changed.
    database_changes: u64,
    /// Changes of links failed by hand that have been detected.
    by_hand: u64,
}

impl LinkState {
    /// Nothing foreseen yet.
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

    /// Foresees the next step.
    pub(super) fn foresee(&mut self) {
        self.ahead = Some(self.stepper.advance());
    }

    /// How often some node's database has changed.
    pub(super) fn database_changes(&self) -> u64 {
        self.database_changes
    }

    /// LSAs so far.
    pub(super) fn lsa_count(&self) -> LsaCount {
        self.protocol.lsa_count()
    }

    /// Lab time at which the next LSA is handled.
    pub(super) fn next_ns(&self) -> Option<u64> {
        self.protocol.next_ns()
    }

    /// The step that was foreseen last is in force: what is otherwise is detected.
    pub(super) fn begin(&mut self, layout: &Layout, actual: &Snapshot, failed: &FailedEdges) {
        self.arrive();
        self.detect(layout, actual, actual.t_ns, failed);
    }

    /// As [`LinkState::begin`] before lab time runs: what is broken then is known to all.
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

    /// Links failed or healed by hand since are detected, and LSAs handled that have arrived by lab time `now_ns`.
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

    /// Every node's routes by its own view, for the step in force or the one foreseen last.
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
