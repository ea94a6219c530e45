//! The existing edges and their parameters, for drivers whose edges themselves are in the kernel.

use std::collections::HashMap;

use constel_link::{
    Applied, ChangeError, CheckedEffects, CheckedUpdate, EdgeChange, Effects, EffectsChange,
    Impairment, PortId, UpdateError,
};

use crate::update::KnownEffects;

/// An edge, as (from, to).
pub(crate) type Edge = (u32, u32);

/// The existing edges, and the effects on top.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    edges: HashMap<Edge, Impairment>,
    profiles: HashMap<u16, Effects>,
    port_effects: HashMap<u32, Effects>,
    edge_effects: HashMap<Edge, Effects>,
}

impl Ledger {
    /// Makes all changes, or none.
    ///
    /// # Errors
    /// All edges to be removed that do not exist, and all unknown profiles.
    pub(crate) fn apply(&mut self, update: &CheckedUpdate) -> Result<Applied, UpdateError> {
        let mut errors = Vec::new();
        for change in update.changes() {
            let (from, to) = change.edge();
            if let EdgeChange::Set { impairment, .. } = change
                && impairment.profile != 0
                && !self.profiles.contains_key(&impairment.profile)
            {
                let profile = impairment.profile;
                errors.push(ChangeError::NoSuchProfile { from, to, profile });
            }
            if matches!(change, EdgeChange::Remove { .. })
                && !self.edges.contains_key(&(from.0, to.0))
            {
                errors.push(ChangeError::NoSuchEdge { from, to });
            }
        }
        if !errors.is_empty() {
            return Err(UpdateError { errors });
        }
        // The ledger is unchanged up to this line, and no change fails behind it.
        let mut applied = Applied::default();
        for change in update.changes() {
            let (from, to) = change.edge();
            match change {
                EdgeChange::Set { impairment, .. } => {
                    match self.edges.insert((from.0, to.0), *impairment) {
                        Some(_) => applied.changed += 1,
                        None => applied.added += 1,
                    }
                }
                EdgeChange::Remove { .. } => {
                    self.edges.remove(&(from.0, to.0));
                    applied.removed += 1;
                }
            }
        }
        Ok(applied)
    }

    /// Changes effects. Returns the existing edges that they affect.
    pub(crate) fn apply_effects(&mut self, changes: &CheckedEffects) -> Vec<Edge> {
        let mut touched = Vec::new();
        for change in changes.changes() {
            match change.clone() {
                EffectsChange::Profile { number, effects } => {
                    match effects {
                        Some(effects) => self.profiles.insert(number, effects),
                        None => self.profiles.remove(&number),
                    };
                    let of_profile = self.edges.iter().filter(|(_, i)| i.profile == number);
                    touched.extend(of_profile.map(|(edge, _)| *edge));
                }
                EffectsChange::Port { port, effects } => {
                    match effects {
                        Some(effects) => self.port_effects.insert(port.0, effects),
                        None => self.port_effects.remove(&port.0),
                    };
                    touched.extend(self.edges.keys().filter(|edge| edge.0 == port.0));
                }
                EffectsChange::Edge { from, to, effects } => {
                    let edge = (from.0, to.0);
                    match effects {
                        Some(effects) => self.edge_effects.insert(edge, effects),
                        None => self.edge_effects.remove(&edge),
                    };
                    touched.extend(self.edges.contains_key(&edge).then_some(edge));
                }
            }
        }
        // An edge may be affected by several of the changes.
        touched.sort_unstable();
        touched.dedup();
        touched
    }

    /// Returns the effects of an edge, existing or not.
    pub(crate) fn effects(&self, from: PortId, to: PortId) -> KnownEffects {
        let own = self
            .edge_effects
            .get(&(from.0, to.0))
            .cloned()
            .unwrap_or_default();
        let profile = self
            .edges
            .get(&(from.0, to.0))
            .and_then(|impairment| self.profiles.get(&impairment.profile));
        // The order of precedence, lowest first: profile, port, the edge itself.
        let below = [profile, self.port_effects.get(&from.0)];
        let in_force = below
            .into_iter()
            .flatten()
            .chain([&own])
            .fold(Effects::default(), |sum, effects| sum.merged(effects));
        KnownEffects { in_force, own }
    }

    /// Returns an existing edge, with its effects.
    pub(crate) fn edge(&self, edge: Edge) -> Option<(&Impairment, Effects)> {
        let base = self.edges.get(&edge)?;
        Some((base, self.effects(PortId(edge.0), PortId(edge.1)).in_force))
    }

    /// Returns all existing edges, sorted.
    pub(crate) fn edges(&self) -> Vec<Edge> {
        let mut edges: Vec<Edge> = self.edges.keys().copied().collect();
        edges.sort_unstable();
        edges
    }

    /// Number of edges.
    pub(crate) fn len(&self) -> usize {
        self.edges.len()
    }
}

#[cfg(test)]
mod tests {
    use constel_link::{EdgeTable, EdgeUpdate};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::memory::NoFrames;

    const PORTS: u32 = 3;

    fn change() -> impl Strategy<Value = EdgeChange> {
        let ends = (0..PORTS, 0..PORTS, 0..4u16, 1..5u64, any::<bool>());
        ends.prop_map(|(from, to, profile, delay_ns, there)| {
            let (from, to) = (PortId(from), PortId(to));
            let impairment = Impairment {
                profile,
                ..Impairment::delay_only(delay_ns)
            };
            if there {
                EdgeChange::Set {
                    from,
                    to,
                    impairment,
                }
            } else {
                EdgeChange::Remove { from, to }
            }
        })
    }

    fn effects() -> impl Strategy<Value = EffectsChange> {
        let given = proptest::option::of(1..9u64).prop_map(|rate| {
            rate.map(|rate| Effects {
                rate_bps: Some(rate),
                ..Effects::default()
            })
        });
        (0..3u8, 0..PORTS, 1..PORTS, given).prop_map(|(kind, a, b, effects)| match kind {
            0 => EffectsChange::Profile {
                number: b as u16,
                effects,
            },
            1 => EffectsChange::Port {
                port: PortId(a),
                effects,
            },
            _ => EffectsChange::Edge {
                from: PortId(a),
                to: PortId(b),
                effects,
            },
        })
    }

    proptest! {
        /// The drivers in the kernel keep the same book as the relay's table.
        #[test]
        fn agrees_with_the_table(steps in vec((vec(change(), 1..4), vec(effects(), 0..3)), 1..12)) {
            let mut ledger = Ledger::default();
            let mut table = EdgeTable::<()>::new(PORTS, 1);
            for (changes, effects) in steps {
                let effects = CheckedEffects::new(effects, PORTS).unwrap();
                ledger.apply_effects(&effects);
                table.apply_effects(0, &effects, &mut NoFrames).unwrap();
                if let Ok(update) = (EdgeUpdate { changes }).check(PORTS) {
                    prop_assert_eq!(ledger.apply(&update), table.apply(0, &update, &mut NoFrames));
                }
                let open = table.all_stats();
                let open = open.iter().filter(|e| e.impairment.is_some());
                let open: Vec<Edge> = open.map(|e| (e.from.0, e.to.0)).collect();
                prop_assert_eq!(ledger.edges(), open);
                for (from, to) in (0..PORTS).flat_map(|a| (0..PORTS).map(move |b| (PortId(a), PortId(b)))) {
                    let known = ledger.effects(from, to);
                    let in_force = table.effects(from, to);
                    prop_assert_eq!(known.in_force, in_force.as_deref().cloned().unwrap_or_default());
                    prop_assert_eq!(known.own, table.own_effects(from, to).cloned().unwrap_or_default());
                }
            }
        }
    }
}
