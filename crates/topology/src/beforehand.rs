//! Satellites that were chosen beforehand for stations.

use crate::layout::Layout;
use crate::node::NodeId;
use crate::policy::{Choice, Policy};
use std::sync::Arc;

/// A policy that follows [`Station::choices`](crate::Station::choices), and another rule at stations and times
/// without choices.
pub(crate) struct Beforehand {
    layout: Arc<Layout>,
    rule: Arc<dyn Policy>,
}

impl Beforehand {
    /// Returns the policy over `rule`, or `rule` itself if no station has choices.
    pub(crate) fn over(layout: &Arc<Layout>, rule: Arc<dyn Policy>) -> Arc<dyn Policy> {
        let mut stations = layout.spec().stations.iter();
        if stations.all(|station| station.choices.is_empty()) {
            return rule;
        }
        let layout = Arc::clone(layout);
        Arc::new(Self { layout, rule })
    }
}

impl Policy for Beforehand {
    fn choose(&self, choice: &Choice<'_>) -> Option<NodeId> {
        let place = choice.station.index() - self.layout.satellite_count();
        let station = &self.layout.spec().stations[place];
        let Some(wanted) = station.chosen_at(choice.step * choice.step_ns) else {
            return self.rule.choose(choice);
        };
        let usable =
            |satellite: &&NodeId| choice.candidates.iter().any(|c| c.satellite == **satellite);
        wanted.iter().find(usable).copied()
    }

    fn memoryless(&self) -> bool {
        self.rule.memoryless()
    }

    fn look_back_ns(&self) -> Option<u64> {
        self.rule.look_back_ns()
    }

    fn wants_remaining(&self) -> bool {
        self.rule.wants_remaining()
    }

    fn heeds_load(&self) -> bool {
        self.rule.heeds_load()
    }
}
