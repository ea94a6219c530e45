//! Which edges exist and what they are asked to do, for drivers whose edges themselves are in the kernel.

use std::collections::HashMap;

use constel_link::{
    Applied, ChangeError, CheckedUpdate, EdgeChange, Effects, EffectsChange, Impairment, PortId,
    UpdateError,
};

use crate::relay::KnownEffects;

/// An edge, by its ends.
pub(crate) type Edge = (u32, u32);

/// The edges there are, and the effects on top.
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
    /// Edges to be removed that do not exist and profiles never told of, all of them.
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

    /// Makes changes of effects; gives the existing edges they are about.
    pub(crate) fn apply_effects(&mut self, changes: Vec<EffectsChange>) -> Vec<Edge> {
        let mut touched = Vec::new();
        for change in changes {
            match change {
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
        touched.sort_unstable();
        touched.dedup();
        touched
    }

    /// What holds for an edge, existing or not.
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
        let below = [profile, self.port_effects.get(&from.0)];
        let in_force = below
            .into_iter()
            .flatten()
            .chain([&own])
            .fold(Effects::default(), |sum, effects| sum.merged(effects));
        KnownEffects { in_force, own }
    }

    /// An existing edge, with the effects in force.
    pub(crate) fn edge(&self, edge: Edge) -> Option<(&Impairment, Effects)> {
        let base = self.edges.get(&edge)?;
        Some((base, self.effects(PortId(edge.0), PortId(edge.1)).in_force))
    }

    /// All existing edges, sorted.
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
