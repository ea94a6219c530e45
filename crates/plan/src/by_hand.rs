//! Effects that users set on a running lab by command, and the topology with these effects.

use std::collections::BTreeMap;
use std::sync::Arc;

use constel_link::{Effects, EffectsChange, PortId};
use constel_topology::Snapshot;

/// The effects set by command on single edges and on ports, as the link plane has them. All code that reports the
/// topology in force uses [`ManualEffects::over`], never the scenario's snapshot alone.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ManualEffects {
    edges: BTreeMap<(PortId, PortId), Effects>,
    ports: BTreeMap<PortId, Effects>,
}

impl ManualEffects {
    /// Records a change that the link plane has made. Changes of profiles are skipped: profiles come from the
    /// scenario.
    pub fn record(&mut self, change: EffectsChange) {
        match change {
            EffectsChange::Profile { .. } => {}
            EffectsChange::Port { port, effects } => match effects {
                Some(effects) => drop(self.ports.insert(port, effects)),
                None => drop(self.ports.remove(&port)),
            },
            EffectsChange::Edge { from, to, effects } => match effects {
                Some(effects) => drop(self.edges.insert((from, to), effects)),
                None => drop(self.edges.remove(&(from, to))),
            },
        }
    }

    /// Returns the effects of a port, which hold for all edges that leave it.
    #[must_use]
    pub fn port(&self, port: PortId) -> Effects {
        self.ports.get(&port).cloned().unwrap_or_default()
    }

    /// Returns the effects of an edge itself.
    #[must_use]
    pub fn edge(&self, edge: (PortId, PortId)) -> Effects {
        self.edges.get(&edge).cloned().unwrap_or_default()
    }

    /// Returns the edges that are down.
    pub fn down(&self) -> impl Iterator<Item = (PortId, PortId)> + '_ {
        let down = |(edge, effects): (&_, &Effects)| (effects.down == Some(true)).then_some(*edge);
        self.edges.iter().filter_map(down)
    }

    /// Returns a step's topology with these effects: without the edges that are down, the others with their present
    /// delay, rate, queue and loss. `profiles` are the scenario's kinds of links, by their number less one.
    #[must_use]
    pub fn over(&self, profiles: &[Effects], snapshot: &Arc<Snapshot>) -> Arc<Snapshot> {
        self.applied(profiles, snapshot)
            .map_or_else(|| Arc::clone(snapshot), Arc::new)
    }

    /// Returns a step's topology as [`ManualEffects::over`] does; `None` if there are no effects.
    #[must_use]
    pub fn applied(&self, profiles: &[Effects], snapshot: &Snapshot) -> Option<Snapshot> {
        if self.edges.is_empty() && self.ports.is_empty() {
            return None;
        }
        let mut now = snapshot.clone();
        now.edges.retain_mut(|edge| {
            let own = self.edges.get(&(edge.from, edge.to));
            let levels = [self.ports.get(&edge.from), own];
            if levels.iter().all(Option::is_none) {
                return true;
            }
            // The order is that of the link plane: an edge's own effects override its port's, and those override
            // its profile's.
            let number = usize::from(edge.impairment.profile);
            let profile = number.checked_sub(1).and_then(|at| profiles.get(at));
            let levels = [profile, levels[0], levels[1]].into_iter().flatten();
            let effects = levels.fold(Effects::default(), |below, above| below.merged(above));
            edge.impairment = effects.over(&edge.impairment);
            effects.down != Some(true)
        });
        Some(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use constel_link::Impairment;
    use constel_topology::{CABLE, Edge};

    fn snapshot() -> Arc<Snapshot> {
        let edge = |from, to| Edge {
            from: PortId(from),
            to: PortId(to),
            class: &CABLE,
            impairment: Impairment::delay_only(5_000_000),
        };
        Arc::new(Snapshot {
            edges: vec![edge(0, 1), edge(1, 0), edge(2, 3)],
            ..Snapshot::default()
        })
    }

    fn edge(from: u32, to: u32, effects: Effects) -> EffectsChange {
        EffectsChange::Edge {
            from: PortId(from),
            to: PortId(to),
            effects: (!effects.is_empty()).then_some(effects),
        }
    }

    #[test]
    fn what_is_down_is_gone_and_delays_are_those_set() {
        let (mut by_hand, plan) = (ManualEffects::default(), snapshot());
        assert!(Arc::ptr_eq(&by_hand.over(&[], &plan), &plan));
        by_hand.record(edge(0, 1, Effects::failed(true)));
        by_hand.record(EffectsChange::Port {
            port: PortId(2),
            effects: Some(Effects {
                extra_delay_ns: Some(1_000_000),
                ..Effects::default()
            }),
        });
        by_hand.record(edge(
            2,
            3,
            Effects {
                delay_ns: Some(100_000_000),
                ..Effects::default()
            },
        ));
        let now = by_hand.over(&[], &plan);
        let ends: Vec<_> = now.edges.iter().map(|e| (e.from.0, e.to.0)).collect();
        assert_eq!(ends, [(1, 0), (2, 3)]);
        // The edge's own delay is in place of the geometry's, the port's is on top of it.
        assert_eq!(now.edges[1].impairment.delay.at(7), 101_000_000);
        assert_eq!(now.edges[0], plan.edges[1]);
        // Healed and reset, it is the scenario's again.
        by_hand.record(edge(0, 1, Effects::default()));
        by_hand.record(edge(2, 3, Effects::default()));
        by_hand.record(EffectsChange::Port {
            port: PortId(2),
            effects: None,
        });
        assert!(Arc::ptr_eq(&by_hand.over(&[], &plan), &plan));
    }
}
