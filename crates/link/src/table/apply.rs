//! Updates of the table: edges are added, changed and removed at one instant.

use serde::Serialize;

use super::frames::Frames;
use super::keys::key;
use super::{EdgeTable, Entry};
use crate::edge::Edge;
use crate::rng::Rng;
use crate::types::{Impairment, Nanos, PortId};
use crate::update::{ChangeError, CheckedUpdate, EdgeChange, UpdateError};

/// Number of edges of an update that are looked up together before any of them is changed. The processor then fetches
/// their memory in parallel instead of one after the other.
const LOOKED_UP_TOGETHER: usize = 32;

/// Result of an update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Applied {
    /// Edges that exist now and did not before.
    pub added: usize,
    /// Existing edges that got a new impairment.
    pub changed: usize,
    /// Edges that were removed.
    pub removed: usize,
}

impl<F> EdgeTable<F> {
    /// Makes all changes at `now`, or none.
    ///
    /// # Errors
    /// All edges to be removed that do not exist; or an update checked for a table with more ports. The table is then
    /// unchanged.
    pub fn apply(
        &mut self,
        now: Nanos,
        update: &CheckedUpdate,
        frames: &mut impl Frames<F>,
    ) -> Result<Applied, UpdateError> {
        self.can_apply(update)?;
        let mut applied = Applied::default();
        for batch in update.changes().chunks(LOOKED_UP_TOGETHER) {
            let plain = self.plain_changes(batch);
            for (change, plain) in batch.iter().zip(plain) {
                self.apply_one(now, change, plain, frames, &mut applied);
            }
        }
        Ok(applied)
    }

    /// Returns for each of at most [`LOOKED_UP_TOGETHER`] changes the number of its edge, if the change only assigns
    /// another impairment to an existing edge. Almost all changes of almost all updates are of this kind. An update
    /// names each edge once, so the result for one edge stays valid while the others change.
    fn plain_changes(&self, batch: &[EdgeChange]) -> [Option<u32>; LOOKED_UP_TOGETHER] {
        let mut ids = [None; LOOKED_UP_TOGETHER];
        for (id, change) in ids.iter_mut().zip(batch) {
            let (from, to) = change.edge();
            *id = self.index.get(&key(from.0, to.0)).copied();
        }
        // A second loop: the index lookups above are independent of each other, and so are these reads of the entries.
        for (id, change) in ids.iter_mut().zip(batch) {
            let entry = id.and_then(|id| self.entries[id as usize].as_ref());
            let plain = matches!(change, EdgeChange::Set { impairment, .. }
                if entry.is_some_and(|e| e.open && e.edge.takes_plainly(impairment)));
            *id = id.filter(|_| plain);
        }
        ids
    }

    fn apply_one(
        &mut self,
        now: Nanos,
        change: &EdgeChange,
        plain: Option<u32>,
        frames: &mut impl Frames<F>,
        applied: &mut Applied,
    ) {
        match *change {
            EdgeChange::Set {
                from,
                to,
                ref impairment,
            } => {
                if let Some(entry) = plain.and_then(|id| self.entries[id as usize].as_mut()) {
                    entry.edge.take_plainly(impairment);
                    applied.changed += 1;
                } else if self.set(now, from.0, to.0, impairment, frames) {
                    applied.added += 1;
                } else {
                    applied.changed += 1;
                }
            }
            EdgeChange::Remove { from, to } => {
                self.remove(now, from.0, to.0, frames);
                applied.removed += 1;
            }
        }
    }

    /// Checks whether the table accepts this update at the moment.
    ///
    /// # Errors
    /// As [`EdgeTable::apply`].
    pub fn can_apply(&self, update: &CheckedUpdate) -> Result<(), UpdateError> {
        let ports = self.ports();
        let is_open = |&(from, to): &(PortId, PortId)| self.open_entry(from.0, to.0).is_some();
        let is_known = |&profile: &u16| self.profile(profile).is_some();
        if update.ports() <= ports
            && update.profiles().iter().all(is_known)
            && update.removals().iter().all(is_open)
        {
            return Ok(());
        }
        // The common case allocates nothing. Only a refused update is searched for its errors.
        let mut errors = Vec::new();
        for change in update.changes() {
            let (from, to) = change.edge();
            if update.ports() > ports {
                for port in [from, to].into_iter().filter(|p| p.0 >= ports) {
                    errors.push(ChangeError::NoSuchPort {
                        from,
                        to,
                        port,
                        ports,
                    });
                }
            }
            if let EdgeChange::Set { impairment, .. } = change
                && impairment.profile != 0
                && self.profile(impairment.profile).is_none()
            {
                let profile = impairment.profile;
                errors.push(ChangeError::NoSuchProfile { from, to, profile });
            }
            if matches!(change, EdgeChange::Remove { .. })
                && self.open_entry(from.0, to.0).is_none()
            {
                errors.push(ChangeError::NoSuchEdge { from, to });
            }
        }
        // Empty if the update was checked for more ports than the table has but names none of these.
        if errors.is_empty() {
            Ok(())
        } else {
            Err(UpdateError { errors })
        }
    }

    /// Adds or changes an edge. Returns true if the edge is new.
    fn set(
        &mut self,
        now: Nanos,
        from: u32,
        to: u32,
        impairment: &Impairment,
        frames: &mut impl Frames<F>,
    ) -> bool {
        if let Some(&id) = self.index.get(&key(from, to))
            && let Some(entry) = self.entries[id as usize].as_mut()
        {
            if entry.open {
                let same_profile = entry.edge.profile() == impairment.profile;
                self.change_edge(id, frames, |edge, mut out| {
                    edge.reconfigure(now, impairment, &mut out);
                });
                if same_profile {
                    self.rearm(id);
                } else {
                    self.put_effects(now, id, frames);
                }
                return false;
            }
            // The edge was removed, but its last frames are still in flight. It continues in the same entry, so that
            // they arrive before those of its new life.
            let past = self.past.entry(key(from, to)).or_default();
            let rng = Rng::for_edge(self.seed, from, to, past.lives);
            entry.edge.reborn(*impairment, rng);
            self.open(id, from);
            self.put_effects(now, id, frames);
            return true;
        }
        let lives = self.past.get(&key(from, to)).map_or(0, |p| p.lives);
        let mut edge = Edge::new(*impairment, self.seed, from, to, lives);
        edge.come_out_ahead(self.ahead_ns(to));
        let entry = Some(Entry {
            edge,
            from,
            to,
            position: 0,
            open: false,
            behind: false,
            together: 0,
            late_since_ns: None,
        });
        // Numbers of freed entries are used again, because entries and the wheel's items are arrays.
        let id = if let Some(id) = self.free.pop() {
            self.entries[id as usize] = entry;
            id
        } else {
            self.entries.push(entry);
            self.wheel.reserve_items(self.entries.len());
            self.entries.len() as u32 - 1
        };
        self.index.insert(key(from, to), id);
        self.open(id, from);
        self.put_effects(now, id, frames);
        true
    }

    fn open(&mut self, id: u32, from: u32) {
        let list = &mut self.ports[from as usize];
        if let Some(entry) = self.entries[id as usize].as_mut() {
            entry.position = list.len() as u32;
            entry.open = true;
        }
        list.push(id);
        self.open += 1;
    }

    fn remove(&mut self, now: Nanos, from: u32, to: u32, frames: &mut impl Frames<F>) {
        let Some(&id) = self.index.get(&key(from, to)) else {
            return;
        };
        self.change_edge(id, frames, |edge, mut out| edge.close(now, &mut out));
        let Some(entry) = self.entries[id as usize].as_mut() else {
            return;
        };
        entry.open = false;
        let position = entry.position as usize;
        let drained = entry.edge.held() == 0;
        let list = &mut self.ports[from as usize];
        // The last edge of the list takes the freed place: record its new position.
        list.swap_remove(position);
        if let Some(&moved) = list.get(position)
            && let Some(moved) = self.entries[moved as usize].as_mut()
        {
            moved.position = position as u32;
        }
        self.open -= 1;
        // The next life of the edge has other random numbers.
        self.past.entry(key(from, to)).or_default().lives += 1;
        if drained {
            self.forget(id);
        } else {
            self.rearm(id);
        }
    }
}
