//! Nodes that know the sky ahead and learn of what breaks by messages instead of at once: `routing.reaction`.

use std::collections::BTreeMap;

use constel_routing::foresight::{Foresight, Heard, Reaction, Told};
use constel_routing::{Routes, Rule};
use constel_topology::{Layout, NodeId, Snapshot, Stepper};

use crate::blueprint::Blueprint;
use crate::failed::FailedEdges;

/// What the nodes of a lab foresaw and what they have heard. The protocol itself is [`Foresight`]; this keeps the
/// topology that was foreseen in step with the one that is.
pub(super) struct LinkState {
    stepper: Stepper,
    /// As foreseen for the step in force, and for the one that is being prepared.
    now: Snapshot,
    ahead: Option<Snapshot>,
    state: Foresight,
    /// Routes of the views met so far, by step, while neither topology changes.
    computed: BTreeMap<u64, BTreeMap<Heard, Routes>>,
    /// Counts what changed some node's view.
    heard: u64,
    /// Changes of links failed by hand that have been noticed.
    by_hand: u64,
}

impl LinkState {
    /// Nothing foreseen yet.
    pub(super) fn new(blueprint: &Blueprint, reaction: Reaction) -> Self {
        Self {
            stepper: blueprint.lab.stepper().foreseen(),
            now: Snapshot::default(),
            ahead: None,
            state: Foresight::new(&blueprint.lab.layout, reaction),
            computed: BTreeMap::new(),
            heard: 0,
            by_hand: 0,
        }
    }

    /// Foresees the next step.
    pub(super) fn foresee(&mut self) {
        self.ahead = Some(self.stepper.advance());
    }

    /// How often some view has changed.
    pub(super) fn heard(&self) -> u64 {
        self.heard
    }

    /// Messages so far.
    pub(super) fn told(&self) -> Told {
        self.state.told()
    }

    /// Lab time at which the next message is handled.
    pub(super) fn next_ns(&self) -> Option<u64> {
        self.state.next_ns()
    }

    /// The step that was foreseen last is in force: what is otherwise gets noticed.
    pub(super) fn begin(&mut self, layout: &Layout, actual: &Snapshot, failed: &FailedEdges) {
        self.arrive();
        self.notice(layout, actual, actual.t_ns, failed);
    }

    /// As [`LinkState::begin`] before lab time runs: what is broken then is known to all.
    pub(super) fn begin_knowing(
        &mut self,
        layout: &Layout,
        actual: &Snapshot,
        failed: &FailedEdges,
    ) {
        self.arrive();
        self.notice(layout, actual, 0, failed);
        self.hear(u64::MAX);
    }

    fn arrive(&mut self) {
        if let Some(ahead) = self.ahead.take() {
            self.now = ahead;
        }
        let step = self.now.step;
        self.computed.retain(|of, _| *of >= step);
    }

    /// Links failed or healed by hand since are noticed, and messages handled that have arrived by lab time `now_ns`.
    pub(super) fn react(
        &mut self,
        layout: &Layout,
        actual: &Snapshot,
        now_ns: u64,
        failed: &FailedEdges,
    ) {
        if self.by_hand != failed.version() {
            self.notice(layout, actual, now_ns, failed);
        }
        self.hear(now_ns);
    }

    fn notice(&mut self, layout: &Layout, actual: &Snapshot, now_ns: u64, failed: &FailedEdges) {
        if self.by_hand != failed.version() {
            self.by_hand = failed.version();
            self.computed.clear();
        }
        let rest = failed.without(actual);
        let actual = rest.as_ref().unwrap_or(actual);
        self.state.notice(layout, &self.now, actual, now_ns);
    }

    fn hear(&mut self, now_ns: u64) {
        self.heard += u64::from(self.state.hear(now_ns));
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
        self.state
            .routes(layout, (foreseen, actual), destinations, rule, known)
    }
}
