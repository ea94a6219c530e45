//! Effects in the table: of profiles, ports and single edges, one on top of the other.

use std::sync::Arc;

use super::EdgeTable;
use super::frames::Frames;
use super::keys::key;
use crate::effects::{CheckedEffects, Effects, EffectsChange};
use crate::types::{Nanos, PortId};
use crate::update::{ChangeError, UpdateError};

impl<F> EdgeTable<F> {
    pub(super) fn profile(&self, number: u16) -> Option<&Arc<Effects>> {
        let place = usize::from(number).checked_sub(1)?;
        self.profiles.get(place)?.as_ref()
    }

    /// Makes all changes of effects at `now`. They apply to existing edges and to edges added later, whatever updates
    /// change.
    ///
    /// # Errors
    /// When the changes were checked for a table with more ports: no change is made.
    pub fn apply_effects(
        &mut self,
        now: Nanos,
        checked: &CheckedEffects,
        frames: &mut impl Frames<F>,
    ) -> Result<(), UpdateError> {
        let ports = self.ports();
        if checked.ports > ports {
            let mut errors = Vec::new();
            for named in checked.changes.iter().map(EffectsChange::ports) {
                for &port in named.iter().filter(|p| p.0 >= ports) {
                    let (from, to) = (named[0], named[named.len() - 1]);
                    errors.push(ChangeError::NoSuchPort {
                        from,
                        to,
                        port,
                        ports,
                    });
                }
            }
            if !errors.is_empty() {
                return Err(UpdateError { errors });
            }
        }
        for change in &checked.changes {
            match change {
                EffectsChange::Profile { number, effects } => {
                    let place = usize::from(number.saturating_sub(1));
                    if self.profiles.len() <= place {
                        self.profiles.resize(place + 1, None);
                    }
                    self.profiles[place] = effects.clone().map(Arc::new);
                    for id in 0..self.entries.len() {
                        let entry = self.entries[id].as_ref();
                        if entry.is_some_and(|e| e.open && e.edge.profile() == *number) {
                            self.put_effects(now, id as u32, frames);
                        }
                    }
                }
                EffectsChange::Port { port, effects } => {
                    self.port_effects[port.0 as usize] = effects.clone().map(Arc::new);
                    // The loop uses indices, because `put_effects` borrows the whole table.
                    for i in 0..self.ports[port.0 as usize].len() {
                        self.put_effects(now, self.ports[port.0 as usize][i], frames);
                    }
                }
                EffectsChange::Edge { from, to, effects } => {
                    let k = key(from.0, to.0);
                    match effects.clone() {
                        Some(effects) => self.edge_effects.insert(k, Arc::new(effects)),
                        None => self.edge_effects.remove(&k),
                    };
                    if self.open_entry(from.0, to.0).is_some() {
                        self.put_effects(now, self.index[&k], frames);
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the effects of an edge, existing or not, on top of its impairment.
    #[must_use]
    pub fn effects(&self, from: PortId, to: PortId) -> Option<Arc<Effects>> {
        let profile = self.open_entry(from.0, to.0).map(|e| e.edge.profile());
        let levels = [
            profile.and_then(|number| self.profile(number)),
            self.port_effects
                .get(from.0 as usize)
                .and_then(Option::as_ref),
            self.edge_effects.get(&key(from.0, to.0)),
        ];
        // Almost all edges have effects on one level only, and these share them without a copy.
        levels
            .into_iter()
            .flatten()
            .cloned()
            .reduce(|below, above| Arc::new(below.merged(&above)))
    }

    /// Returns the effects of this edge alone, without its port's.
    #[must_use]
    pub fn own_effects(&self, from: PortId, to: PortId) -> Option<&Effects> {
        self.edge_effects.get(&key(from.0, to.0)).map(|e| &**e)
    }

    /// Applies the present effects to an open edge.
    pub(super) fn put_effects(&mut self, now: Nanos, id: u32, frames: &mut impl Frames<F>) {
        let Some(entry) = self.entries[id as usize].as_ref() else {
            return;
        };
        let effects = self.effects(PortId(entry.from), PortId(entry.to));
        self.change_edge(id, frames, |edge, mut out| {
            edge.set_effects(now, effects, &mut out);
        });
        self.rearm(id);
    }
}
