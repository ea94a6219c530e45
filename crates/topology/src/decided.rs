//! Decisions over time that replace the rules of a spec: the satellites of stations, and links that are switched off.
//!
//! Decisions come from a spec, or during a run from a live policy. Both have the same effect, so that a run repeats from its recorded decisions.

use std::collections::BTreeMap;

use crate::node::NodeId;
use crate::spec::{Chosen, Spec, Switched};

/// Both ends of a link, the lower node number first.
pub(crate) type Ends = (NodeId, NodeId);

/// All decisions so far, each list in order of time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Decided {
    /// The satellites of each station; shorter than the list of stations if no later one has any.
    satellites: Vec<Vec<Chosen>>,
    /// The instants from which links are on or off, nanoseconds.
    links: BTreeMap<Ends, Vec<(u64, bool)>>,
}

impl Decided {
    /// Returns the decisions of a spec.
    pub(crate) fn of(spec: &Spec) -> Self {
        let stations = spec.stations.iter();
        let mut decided = Self {
            satellites: stations.map(|station| station.choices.clone()).collect(),
            links: BTreeMap::new(),
        };
        for switched in &spec.switched {
            decided.switch(*switched);
        }
        decided
    }

    /// Returns the decisions about links of a spec, without those about satellites.
    pub(crate) fn links_of(spec: &Spec) -> Self {
        Self {
            satellites: Vec::new(),
            ..Self::of(spec)
        }
    }

    /// Returns the satellites for a station, by its place in the spec, at an instant. `None`: nothing is decided, and its rule chooses.
    pub(crate) fn satellites(&self, station: usize, t_ns: u64) -> Option<&[NodeId]> {
        let own = self.satellites.get(station)?;
        let next = own.partition_point(|chosen| chosen.t_ns <= t_ns);
        let chosen = own.get(next.checked_sub(1)?)?;
        Some(&chosen.satellites)
    }

    /// Adds a decision about a station, later than its others.
    pub(crate) fn choose(&mut self, station: usize, chosen: Chosen) {
        if self.satellites.len() <= station {
            self.satellites.resize(station + 1, Vec::new());
        }
        self.satellites[station].push(chosen);
    }

    /// Adds a decision about a link, later than its others.
    pub(crate) fn switch(&mut self, switched: Switched) {
        let Switched { t_ns, a, b, up } = switched;
        let ends = (a.min(b), a.max(b));
        self.links.entry(ends).or_default().push((t_ns, up));
    }

    /// Fills `off` with the links that are switched off at an instant, in order.
    pub(crate) fn off_at(&self, t_ns: u64, off: &mut Vec<Ends>) {
        off.clear();
        for (ends, changes) in &self.links {
            let next = changes.partition_point(|(at_ns, _)| *at_ns <= t_ns);
            if next > 0 && !changes[next - 1].1 {
                off.push(*ends);
            }
        }
    }
}

/// Whether a link is in a sorted list of links.
pub(crate) fn is_among(off: &[Ends], a: NodeId, b: NodeId) -> bool {
    !off.is_empty() && off.binary_search(&(a.min(b), a.max(b))).is_ok()
}
