//! All edges between all ports: where a frame goes, what is due next, and updates in one instant.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use serde::Serialize;

use crate::counters::EdgeCounters;
use crate::edge::{Edge, Released};
use crate::effects::{CheckedEffects, Effects, EffectsChange};
use crate::laws::Marks;
use crate::mac::{is_group, port_of_mac};
use crate::packet::Traits;
use crate::rng::Rng;
use crate::types::{DropCause, Impairment, Nanos, PortId};
use crate::update::{ChangeError, CheckedUpdate, EdgeChange, UpdateError};
use crate::wheel::Wheel;

/// What the table asks of whoever owns the frames.
pub trait Frames<F> {
    /// A second frame with the same content, for a further edge of a multicast frame. `None` when
    /// there is no room; the table counts that.
    fn duplicate(&mut self, frame: &F) -> Option<F>;

    /// The frame goes no further.
    fn discard(&mut self, frame: F, cause: DropCause);

    /// Flip one bit of the frame behind its Ethernet header, number `draw` modulo the bits there
    /// are, so that the receiver's checksum sees it.
    fn flip_bit(&mut self, frame: &mut F, draw: u64);

    /// What a queue discipline wants to know of the frame; asked only where an edge has one. As it
    /// stands here: all frames are one flow, and none can be marked.
    fn traits(&mut self, _: &F) -> Traits {
        Traits::default()
    }

    /// Set the frame's ECN field to "congestion experienced" ([`packet::mark_ce`]). Only frames
    /// that [`Frames::traits`] called capable are marked.
    ///
    /// [`packet::mark_ce`]: crate::packet::mark_ce
    fn mark_ce(&mut self, _: &mut F) {}
}

/// A frame that has reached the far end of its edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery<F> {
    /// Port it left.
    pub from: PortId,
    /// Port it reaches.
    pub to: PortId,
    /// When it should reach it.
    pub due_ns: Nanos,
    /// Its length.
    pub len_bytes: u32,
    /// The frame.
    pub frame: F,
}

/// What an update did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Applied {
    /// Edges that exist now and did not before.
    pub added: usize,
    /// Edges that were given a new impairment.
    pub changed: usize,
    /// Edges that do not exist any more.
    pub removed: usize,
}

/// One edge, as it stands.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct EdgeStats {
    /// Edge start.
    pub from: PortId,
    /// Edge end.
    pub to: PortId,
    /// Its impairment, if it exists at the moment.
    pub impairment: Option<Impairment>,
    /// Counts over all lives of the edge.
    pub counters: EdgeCounters,
    /// Frames inside.
    pub held: usize,
    /// Bytes waiting for service.
    pub queue_bytes: u64,
}

/// Sums over the whole table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Edges that exist.
    pub edges: usize,
    /// All counters of all edges, past ones included.
    pub counters: EdgeCounters,
    /// Frames that found no edge to take.
    pub dropped_no_edge: u64,
    /// Frames inside.
    pub held: usize,
}

#[derive(Debug)]
struct Entry<F> {
    edge: Edge<F>,
    from: u32,
    to: u32,
    /// Place in the port's list, while open.
    position: u32,
    /// False while the last frames of a removed edge are still in flight.
    open: bool,
    /// Waits in the table's list of those behind, not in the wheel.
    behind: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Past {
    lives: u32,
    counters: EdgeCounters,
}

/// Multiply-and-fold hashing of the 64-bit edge key; the tables are only ever looked up or, for
/// statistics, sorted, so the order inside does not show.
#[derive(Clone, Default, Debug)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.write_u64(u64::from(b));
        }
    }
    fn write_u64(&mut self, key: u64) {
        let wide = u128::from(self.0 ^ key ^ 0x243f_6a88_85a3_08d3)
            * u128::from(0x9e37_79b9_7f4a_7c15_u64);
        self.0 = (wide >> 64) as u64 ^ wide as u64;
    }
}

type KeyMap<V> = HashMap<u64, V, BuildHasherDefault<KeyHasher>>;

fn key(from: u32, to: u32) -> u64 {
    (u64::from(from) << 32) | u64::from(to)
}

/// The edges of a lab.
#[derive(Debug)]
pub struct EdgeTable<F> {
    seed: u64,
    /// Open edges of each port.
    ports: Vec<Vec<u32>>,
    /// Frames of each port that found no edge.
    no_edge: Vec<u64>,
    entries: Vec<Option<Entry<F>>>,
    free: Vec<u32>,
    index: KeyMap<u32>,
    past: KeyMap<Past>,
    /// Effects by number from 1 on.
    profiles: Vec<Option<Arc<Effects>>>,
    /// Effects of all edges of a port; of single edges, on top.
    port_effects: Vec<Option<Arc<Effects>>>,
    edge_effects: KeyMap<Arc<Effects>>,
    open: usize,
    held: usize,
    /// Kept along the way: asking costs nothing, however many edges there are.
    sum: EdgeCounters,
    sum_no_edge: u64,
    wheel: Wheel,
    /// Edges that had more than one frame due when it was their turn.
    behind: VecDeque<u32>,
}

/// The owner of the frames, with the drops counted on the way.
struct Counting<'a, S> {
    frames: &'a mut S,
    sum: &'a mut EdgeCounters,
}

impl<S> Counting<'_, S> {
    fn discard<F>(&mut self, frame: F, cause: DropCause)
    where
        S: Frames<F>,
    {
        self.sum.count_drop(cause);
        self.frames.discard(frame, cause);
    }
}

impl<F> EdgeTable<F> {
    /// A table of `ports` ports without edges. The seed decides all random draws of all edges.
    #[must_use]
    pub fn new(ports: u32, seed: u64) -> EdgeTable<F> {
        EdgeTable {
            seed,
            ports: (0..ports).map(|_| Vec::new()).collect(),
            no_edge: vec![0; ports as usize],
            entries: Vec::new(),
            free: Vec::new(),
            index: KeyMap::default(),
            past: KeyMap::default(),
            profiles: Vec::new(),
            port_effects: vec![None; ports as usize],
            edge_effects: KeyMap::default(),
            open: 0,
            held: 0,
            sum: EdgeCounters::default(),
            sum_no_edge: 0,
            wheel: Wheel::new(),
            behind: VecDeque::new(),
        }
    }

    /// Number of ports.
    #[must_use]
    pub fn ports(&self) -> u32 {
        self.ports.len() as u32
    }

    /// Make all changes at `now`, or none of them.
    ///
    /// # Errors
    /// Edges to be removed that do not exist, all of them; or an update checked for a table with
    /// more ports. The table is as before.
    pub fn apply(
        &mut self,
        now: Nanos,
        update: &CheckedUpdate,
        frames: &mut impl Frames<F>,
    ) -> Result<Applied, UpdateError> {
        self.can_apply(update)?;
        let mut applied = Applied::default();
        for change in update.changes() {
            match *change {
                EdgeChange::Set {
                    from,
                    to,
                    ref impairment,
                } => {
                    if self.set(now, from.0, to.0, impairment, frames) {
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
        Ok(applied)
    }

    /// Whether the table would take this update as it stands.
    ///
    /// # Errors
    /// As [`EdgeTable::apply`].
    pub fn can_apply(&self, update: &CheckedUpdate) -> Result<(), UpdateError> {
        let ports = self.ports();
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
        if errors.is_empty() {
            Ok(())
        } else {
            Err(UpdateError { errors })
        }
    }

    fn profile(&self, number: u16) -> Option<&Arc<Effects>> {
        let place = usize::from(number).checked_sub(1)?;
        self.profiles.get(place)?.as_ref()
    }

    fn open_entry(&self, from: u32, to: u32) -> Option<&Entry<F>> {
        let id = *self.index.get(&key(from, to))?;
        self.entries[id as usize].as_ref().filter(|e| e.open)
    }

    /// Make all changes of effects at `now`. They hold for edges that exist and for those that
    /// come later, whatever updates do to them.
    ///
    /// # Errors
    /// When the changes were checked for a table with more ports: nothing was changed.
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

    /// What holds for an edge, existing or not, on top of its impairment.
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
        // Shared as they are where there is only one, which is so of almost all edges.
        levels
            .into_iter()
            .flatten()
            .cloned()
            .reduce(|below, above| Arc::new(below.merged(&above)))
    }

    /// Effects of this edge alone, without its port's.
    #[must_use]
    pub fn own_effects(&self, from: PortId, to: PortId) -> Option<&Effects> {
        self.edge_effects.get(&key(from.0, to.0)).map(|e| &**e)
    }

    /// Give an open edge the effects that hold for it.
    fn put_effects(&mut self, now: Nanos, id: u32, frames: &mut impl Frames<F>) {
        let Some(entry) = self.entries[id as usize].as_ref() else {
            return;
        };
        let effects = self.effects(PortId(entry.from), PortId(entry.to));
        let Some(entry) = self.entries[id as usize].as_mut() else {
            return;
        };
        let before = entry.edge.held();
        let mut frames = Counting {
            frames,
            sum: &mut self.sum,
        };
        entry.edge.set_effects(now, effects, &mut |frame, cause| {
            frames.discard(frame, cause)
        });
        self.held -= before - entry.edge.held();
        self.rearm(id);
    }

    /// True when the edge is new.
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
                let before = entry.edge.held();
                let same_profile = entry.edge.profile() == impairment.profile;
                let mut counting = Counting {
                    frames: &mut *frames,
                    sum: &mut self.sum,
                };
                entry.edge.reconfigure(now, impairment, &mut |f, cause| {
                    counting.discard(f, cause);
                });
                self.held -= before - entry.edge.held();
                if same_profile {
                    self.rearm(id);
                } else {
                    self.put_effects(now, id, frames);
                }
                return false;
            }
            let past = self.past.entry(key(from, to)).or_default();
            let rng = Rng::for_edge(self.seed, from, to, past.lives);
            entry.edge.reborn(*impairment, rng);
            self.open(id, from);
            self.put_effects(now, id, frames);
            return true;
        }
        let lives = self.past.get(&key(from, to)).map_or(0, |p| p.lives);
        let edge = Edge::new(*impairment, self.seed, from, to, lives);
        let entry = Some(Entry {
            edge,
            from,
            to,
            position: 0,
            open: false,
            behind: false,
        });
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
        let Some(entry) = self.entries[id as usize].as_mut() else {
            return;
        };
        let before = entry.edge.held();
        let mut frames = Counting {
            frames,
            sum: &mut self.sum,
        };
        entry
            .edge
            .close(now, &mut |frame, cause| frames.discard(frame, cause));
        self.held -= before - entry.edge.held();
        entry.open = false;
        let position = entry.position as usize;
        let drained = entry.edge.held() == 0;
        let list = &mut self.ports[from as usize];
        list.swap_remove(position);
        if let Some(&moved) = list.get(position)
            && let Some(moved) = self.entries[moved as usize].as_mut()
        {
            moved.position = position as u32;
        }
        self.open -= 1;
        self.past.entry(key(from, to)).or_default().lives += 1;
        if drained {
            self.forget(id);
        } else {
            self.rearm(id);
        }
    }

    /// The last frame of a removed edge is gone.
    fn forget(&mut self, id: u32) {
        self.wheel.remove(id);
        if let Some(entry) = self.entries[id as usize].take() {
            let k = key(entry.from, entry.to);
            self.index.remove(&k);
            self.past
                .entry(k)
                .or_default()
                .counters
                .add(entry.edge.counters());
            self.free.push(id);
        }
    }

    fn rearm(&mut self, id: u32) {
        let Some(entry) = self.entries[id as usize].as_ref() else {
            return;
        };
        if entry.behind {
            return;
        }
        match entry.edge.next_event() {
            Some(at) => self.wheel.set(id, at),
            None => self.wheel.remove(id),
        }
    }

    /// A frame leaves `from` at `now`. Multicast and broadcast take every edge of the port;
    /// unicast takes the edge to the port that owns `dst_mac`, or the only edge of the port
    /// whatever the address. Returns how many edges accepted it.
    pub fn arrive(
        &mut self,
        now: Nanos,
        from: PortId,
        dst_mac: [u8; 6],
        len_bytes: u32,
        frame: F,
        frames: &mut impl Frames<F>,
    ) -> usize {
        let edges = self.ports.get(from.0 as usize).map_or(0, Vec::len);
        if edges == 1 {
            let id = self.ports[from.0 as usize][0];
            return usize::from(self.offer(id, now, len_bytes, frame, frames));
        }
        if edges == 0 {
            return self.refuse(from, frame, frames);
        }
        if !is_group(dst_mac) {
            let id = port_of_mac(dst_mac).and_then(|to| {
                let id = *self.index.get(&key(from.0, to.0))?;
                self.entries[id as usize]
                    .as_ref()
                    .filter(|e| e.open)
                    .map(|_| id)
            });
            return match id {
                Some(id) => usize::from(self.offer(id, now, len_bytes, frame, frames)),
                None => self.refuse(from, frame, frames),
            };
        }
        let mut accepted = 0;
        for i in 0..edges - 1 {
            let id = self.ports[from.0 as usize][i];
            match frames.duplicate(&frame) {
                Some(copy) => {
                    accepted += usize::from(self.offer(id, now, len_bytes, copy, frames));
                }
                None => {
                    if let Some(entry) = self.entries[id as usize].as_mut() {
                        for counters in [entry.edge.counters_mut(), &mut self.sum] {
                            counters.offered += 1;
                            counters.offered_bytes += u64::from(len_bytes);
                            counters.count_drop(DropCause::NoBuffer);
                        }
                    }
                }
            }
        }
        let id = self.ports[from.0 as usize][edges - 1];
        accepted + usize::from(self.offer(id, now, len_bytes, frame, frames))
    }

    /// Whether the edge that a frame from `from` to `dst_mac` takes may be given many frames as one
    /// of `len_bytes`: it has no law that acts on single frames, and serves them all within
    /// `within_ns`. True as well when there is no such edge.
    #[must_use]
    pub fn takes_trains(
        &self,
        from: PortId,
        dst_mac: [u8; 6],
        len_bytes: u32,
        within_ns: Nanos,
    ) -> bool {
        let Some(edges) = self.ports.get(from.0 as usize) else {
            return true;
        };
        let id = match edges[..] {
            [only] => Some(only),
            _ if is_group(dst_mac) => return false,
            _ => port_of_mac(dst_mac).and_then(|to| self.index.get(&key(from.0, to.0)).copied()),
        };
        let entry = id.and_then(|id| self.entries[id as usize].as_ref());
        entry.is_none_or(|entry| entry.edge.takes_trains(len_bytes, within_ns))
    }

    fn refuse(&mut self, from: PortId, frame: F, frames: &mut impl Frames<F>) -> usize {
        if let Some(count) = self.no_edge.get_mut(from.0 as usize) {
            *count += 1;
        }
        self.sum_no_edge += 1;
        frames.discard(frame, DropCause::NoEdge);
        0
    }

    fn offer(
        &mut self,
        id: u32,
        now: Nanos,
        len_bytes: u32,
        frame: F,
        frames: &mut impl Frames<F>,
    ) -> bool {
        let Some(entry) = self.entries[id as usize].as_mut() else {
            return false;
        };
        self.sum.offered += 1;
        self.sum.offered_bytes += u64::from(len_bytes);
        let traits = if entry.edge.wants_traits() {
            frames.traits(&frame)
        } else {
            Traits::default()
        };
        let mut frames = Counting {
            frames,
            sum: &mut self.sum,
        };
        let before = entry.edge.held();
        let edge = &mut entry.edge;
        let result = edge.arrive_as(now, frame, len_bytes, traits, &mut |f, cause| {
            frames.discard(f, cause);
        });
        self.held = self.held + entry.edge.held() - before;
        if !entry.behind {
            match entry.edge.next_event() {
                Some(at) => self.wheel.set(id, at),
                None => self.wheel.remove(id),
            }
        }
        match result {
            Ok(()) => true,
            Err(refused) => {
                frames.discard(refused.frame, refused.cause);
                false
            }
        }
    }

    /// The next frame due by `now`, in order of due time over all edges.
    pub fn pop_due(&mut self, now: Nanos, frames: &mut impl Frames<F>) -> Option<Delivery<F>> {
        loop {
            let id = match self.wheel.pop_due(now) {
                Some((_, id)) => id,
                None => self.next_behind()?,
            };
            if let Some(delivery) = self.release(id, now, None, frames) {
                return Some(delivery);
            }
        }
    }

    /// As [`EdgeTable::pop_due`], but fair when more is due than the caller can send: an edge gets
    /// one frame, and those with more due wait in turn behind all that had none. An edge with
    /// little to send is then not delayed by others that flood. Frames of one edge stay in order.
    pub fn pop_due_fairly(
        &mut self,
        now: Nanos,
        frames: &mut impl Frames<F>,
    ) -> Option<Delivery<F>> {
        loop {
            let id = match self.wheel.pop_due(now) {
                Some((_, id)) => id,
                None => self.next_behind()?,
            };
            if let Some(delivery) = self.release(id, now, Some(now), frames) {
                return Some(delivery);
            }
        }
    }

    /// The first of the edges that wait for their turn.
    fn next_behind(&mut self) -> Option<u32> {
        while let Some(id) = self.behind.pop_front() {
            // Its place may be another edge's meanwhile.
            if let Some(entry) = self.entries[id as usize].as_mut()
                && entry.behind
            {
                entry.behind = false;
                return Some(id);
            }
        }
        None
    }

    /// One frame of an edge that is neither in the wheel nor behind; it goes behind when its next
    /// is due by `turn`, if given, else into the wheel.
    fn release(
        &mut self,
        id: u32,
        now: Nanos,
        turn: Option<Nanos>,
        frames: &mut impl Frames<F>,
    ) -> Option<Delivery<F>> {
        let entry = self.entries[id as usize].as_mut()?;
        let before = entry.edge.held();
        let mut counting = Counting {
            frames: &mut *frames,
            sum: &mut self.sum,
        };
        let mut released = entry
            .edge
            .pop_due(now, &mut |f, cause| counting.discard(f, cause));
        if let Some(r) = &mut released
            && r.marks != Marks::default()
        {
            if r.marks.congestion {
                frames.mark_ce(&mut r.frame);
                self.sum.marked += 1;
            }
            if let Some(draw) = r.marks.corrupt {
                frames.flip_bit(&mut r.frame, draw);
                self.sum.corrupted += 1;
            }
            if r.marks.duplicate {
                let copy = frames.duplicate(&r.frame).map(|frame| Released {
                    marks: Marks::default(),
                    frame,
                    ..*r
                });
                self.sum.duplicated += 1;
                self.sum.dropped_no_buffer += u64::from(copy.is_none());
                entry.edge.again(copy);
            }
        }
        let held = entry.edge.held();
        self.held = self.held + held - before;
        let (from, to) = (PortId(entry.from), PortId(entry.to));
        if let Some(at) = entry.edge.next_event() {
            if turn.is_some_and(|turn| at <= turn) {
                entry.behind = true;
                self.behind.push_back(id);
            } else {
                self.wheel.set(id, at);
            }
        } else if !entry.open && held == 0 {
            self.forget(id);
        }
        let Released {
            due_ns,
            len_bytes,
            frame,
            ..
        } = released?;
        self.sum.delivered += 1;
        self.sum.delivered_bytes += u64::from(len_bytes);
        Some(Delivery {
            from,
            to,
            due_ns,
            len_bytes,
            frame,
        })
    }

    /// When to call [`EdgeTable::pop_due`] next (it may then find nothing, if the frame is lost).
    pub fn next_event(&mut self) -> Option<Nanos> {
        if self.behind.is_empty() {
            self.wheel.next_deadline()
        } else {
            Some(0)
        }
    }

    /// Frames inside all edges.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held
    }

    /// Frames of this port that found no edge.
    #[must_use]
    pub fn no_edge(&self, port: PortId) -> u64 {
        self.no_edge.get(port.0 as usize).copied().unwrap_or(0)
    }

    /// One edge; `None` if there never was one.
    #[must_use]
    pub fn edge_stats(&self, from: PortId, to: PortId) -> Option<EdgeStats> {
        let k = key(from.0, to.0);
        let past = self.past.get(&k);
        let entry = self
            .index
            .get(&k)
            .and_then(|&id| self.entries[id as usize].as_ref());
        if past.is_none() && entry.is_none() {
            return None;
        }
        let mut stats = EdgeStats {
            from,
            to,
            impairment: None,
            counters: past.map_or_else(EdgeCounters::default, |p| p.counters),
            held: 0,
            queue_bytes: 0,
        };
        if let Some(entry) = entry {
            stats.counters.add(entry.edge.counters());
            stats.impairment = entry.open.then(|| *entry.edge.impairment());
            stats.held = entry.edge.held();
            stats.queue_bytes = entry.edge.queue_bytes();
        }
        Some(stats)
    }

    /// Every edge that exists or ever did, sorted by (from, to).
    #[must_use]
    pub fn all_stats(&self) -> Vec<EdgeStats> {
        let mut keys: Vec<u64> = self.index.keys().chain(self.past.keys()).copied().collect();
        keys.sort_unstable();
        keys.dedup();
        keys.into_iter()
            .filter_map(|k| self.edge_stats(PortId((k >> 32) as u32), PortId(k as u32)))
            .collect()
    }

    /// The existing edges among the `count` places from `start` on, appended to `out`. False when
    /// there are no places after these. For reading a large table bit by bit; edges that come or
    /// go meanwhile may be missed.
    pub fn stats_of_places(&self, start: usize, count: usize, out: &mut Vec<EdgeStats>) -> bool {
        let end = start.saturating_add(count).min(self.entries.len());
        let places = self.entries.get(start..end).unwrap_or_default();
        out.extend(
            places
                .iter()
                .flatten()
                .filter(|e| e.open)
                .filter_map(|e| self.edge_stats(PortId(e.from), PortId(e.to))),
        );
        end < self.entries.len()
    }

    /// Sums over all edges.
    #[must_use]
    pub fn totals(&self) -> Totals {
        Totals {
            edges: self.open,
            counters: self.sum,
            dropped_no_edge: self.sum_no_edge,
            held: self.held,
        }
    }
}
