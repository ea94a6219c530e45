//! Several threads: transfer of frames from the thread that captures them to the one that serves their edge.
//!
//! A thread captures the frames that its own nodes send, and serves the edges that lead to its own nodes
//! ([`super::owners`]). A frame for another thread's edge is passed on over a bounded ring, with the instant at which
//! it was sent: the edge serves it as if there were one thread. If the ring is full, or one port would use the room
//! that others need, the frame is refused and counted as overload of its own edge.
//!
//! The slots of a frame still belong to the thread that captured it, and are returned there ([`super::homes`]).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use constel_link::{DropCause, Frames, Nanos, PortId, mac_of};

use super::command::Signals;
use super::gso::GsoFrame;
use super::instant::Instants;
use super::intake::INTAKE;
use super::layout::SlotRef;
use super::object::Loaded;
use super::owners::Owners;
use super::spsc::{Consumer, Producer, ring};
use super::thread::{INTAKES_PER_TURN, Thread};
use super::ways::{EdgeChoice, PortEdges};
use crate::clock::mono_ns;

/// Maximum number of frames in transit from one thread to another.
const RING: usize = 4096;
/// Part of the ring kept for items that are not frames.
const RESERVE: usize = 64;
/// A ring longer than this is emptied before edges that are behind get their turn.
const LONG: usize = 512;
const GROUP: [u8; 6] = [0xff; 6];

/// A frame for an edge of another thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handed {
    ts_ns: Nanos,
    from: PortId,
    /// `None`: all edges of `from` that belong to the other thread.
    to: Option<PortId>,
    /// The port that its slots are charged to, by its number among interfaces.
    owner: u32,
    frame: SlotRef,
}

/// Items that threads pass to each other.
#[derive(Debug)]
pub(crate) enum Item {
    Frame(Handed),
    Gso(Handed, Box<GsoFrame>),
    /// Numbers of frames for which there was no room.
    Refused(Edge, Refused),
    /// End of the frames sent before the next change; the flag states whether the sending thread can make the change.
    Mark(bool),
}

type Edge = (PortId, Option<PortId>);

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Refused {
    frames: u64,
    bytes: u64,
}

/// The ring to another thread.
#[derive(Debug)]
struct Outbound {
    ring: Producer<Item>,
    refused: HashMap<Edge, Refused>,
    /// Whether items were pushed since the thread was last woken.
    news: bool,
    signals: Arc<Signals>,
}

/// One thread's part of the transfer, if there are several threads.
#[derive(Debug)]
pub(crate) struct Across {
    me: usize,
    loaded: Arc<Loaded>,
    owners: Arc<Owners>,
    pub(super) ways: PortEdges,
    /// By thread.
    out: Vec<Option<Outbound>>,
    sources: Vec<Option<Consumer<Item>>>,
    /// Number of frames passed on so far, by port; each thread writes those of its own ports. `taken` counts how many
    /// of them the receivers have taken.
    handed: Vec<u32>,
    taken: Arc<[AtomicU32]>,
    pub(super) instants: Instants,
}

impl Across {
    /// Creates the parts of all threads, which wake each other by these signals.
    pub(crate) fn all(
        loaded: &Arc<Loaded>,
        owners: &Arc<Owners>,
        ports: u32,
        signals: &[Arc<Signals>],
        instants: impl Fn() -> Instants,
    ) -> Vec<Across> {
        let taken: Arc<[AtomicU32]> = (0..ports).map(|_| AtomicU32::new(0)).collect();
        let threads = signals.len();
        let mut all: Vec<Across> = (0..threads)
            .map(|me| Across {
                me,
                loaded: loaded.clone(),
                owners: owners.clone(),
                ways: PortEdges::new(ports),
                out: Vec::new(),
                sources: Vec::new(),
                handed: vec![0; ports as usize],
                taken: taken.clone(),
                instants: instants(),
            })
            .collect();
        for from in 0..threads {
            for to in 0..threads {
                let (out, source) = (from != to).then(|| ring(RING)).unzip();
                let out = out.map(|ring| Outbound {
                    ring,
                    refused: HashMap::new(),
                    news: false,
                    signals: signals[to].clone(),
                });
                all[from].out.push(out);
                all[to].sources.push(source);
            }
        }
        all
    }

    /// Returns whether there is room for one more frame of this port. A port that floods leaves room for others.
    fn has_room(&mut self, thread: usize, from: PortId) -> bool {
        let Some(out) = self.out.get_mut(thread).and_then(Option::as_mut) else {
            return false;
        };
        let room = out.ring.room().saturating_sub(RESERVE);
        if room >= RING / 2 {
            return true;
        }
        // Above half full, a port may have at most as many frames in the ring as there is room left, so each further
        // flooding port gets a smaller share.
        let port = from.0 as usize;
        let waiting = self.handed[port].wrapping_sub(self.taken[port].load(Ordering::Relaxed));
        room > 0 && (waiting as usize) < room
    }

    fn push(&mut self, thread: usize, item: Item) -> bool {
        let Some(out) = self.out.get_mut(thread).and_then(Option::as_mut) else {
            return false;
        };
        out.news = true;
        out.ring.push(item).is_ok()
    }

    fn refuse(&mut self, thread: usize, edge: Edge, bytes: u64) {
        if let Some(out) = self.out.get_mut(thread).and_then(Option::as_mut) {
            let refused = out.refused.entry(edge).or_default();
            refused.frames += 1;
            refused.bytes += bytes;
        }
    }

    /// Passes the counts of refused frames to the other threads as soon as there is room.
    fn tell_refused(&mut self) {
        for out in self.out.iter_mut().flatten() {
            while !out.refused.is_empty() && out.ring.room() > RESERVE / 2 {
                let Some(&edge) = out.refused.keys().next() else {
                    break;
                };
                let refused = out.refused.remove(&edge).unwrap_or_default();
                out.news = true;
                let told = out.ring.push(Item::Refused(edge, refused));
                debug_assert!(told.is_ok(), "there was room");
            }
        }
    }

    /// Pushes a mark for every other thread, or for none if one ring has no room. Returns whether it did.
    pub(super) fn push_marks(&mut self, can: bool) -> bool {
        let mut others = self.out.iter_mut().flatten();
        if !others.all(|out| out.ring.room() > 0) {
            return false;
        }
        for thread in 0..self.out.len() {
            if thread != self.me {
                self.push(thread, Item::Mark(can));
            }
        }
        true
    }

    /// Wakes sleeping threads for which there are new items.
    pub(super) fn knock(&mut self) {
        for (thread, out) in self.out.iter_mut().enumerate() {
            let Some(out) = out.as_mut().filter(|out| out.news) else {
                continue;
            };
            out.news = false;
            // The push must be visible before the flag is read. A thread that falls asleep does it in the reverse
            // order: it sets the flag, then checks the rings.
            fence(Ordering::SeqCst);
            let asleep = &self.loaded.told(thread).asleep;
            if asleep.load(Ordering::Relaxed) != 0 && asleep.swap(0, Ordering::SeqCst) != 0 {
                out.signals.ring();
            }
        }
    }

    /// Takes the next item from another thread. Frames sent after its mark wait until the change is made here.
    fn next(&mut self, source: usize) -> Option<Item> {
        let ring = self.sources.get_mut(source)?.as_mut()?;
        // Counts of refused frames need not wait: no frame comes with them.
        if self.instants.has_mark(source) && !matches!(ring.peek()?, Item::Refused(..)) {
            return None;
        }
        ring.pop()
    }

    /// Returns whether another thread has sent an item.
    pub(super) fn has_news(&mut self) -> bool {
        let mut sources = self.sources.iter_mut().flatten();
        sources.any(Consumer::has_some)
    }

    fn is_long(&self) -> bool {
        let mut sources = self.sources.iter().flatten();
        sources.any(|source| source.waiting() > LONG)
    }

    /// Returns the number of this port's edges for each thread.
    fn spread(&self, from: PortId) -> [u32; super::layout::THREADS_MAX] {
        let mut counts = [0; super::layout::THREADS_MAX];
        for to in self.ways.far(from) {
            counts[self.owners.of(*to)] += 1;
        }
        counts
    }
}

impl Thread {
    /// Passes a frame to the edges of its port. Returns the number of frames to which the work amounts.
    #[inline]
    pub(super) fn enter(
        &mut self,
        ts_ns: Nanos,
        from: PortId,
        destination: [u8; 6],
        frame: SlotRef,
    ) -> usize {
        if self.across.is_some() {
            self.enter_anywhere(ts_ns, from, destination, frame)
        } else {
            self.enter_here(ts_ns, from, destination, frame)
        }
    }

    /// Does the same if all edges belong to this thread.
    #[inline(always)]
    fn enter_here(
        &mut self,
        ts_ns: Nanos,
        from: PortId,
        destination: [u8; 6],
        frame: SlotRef,
    ) -> usize {
        if frame.is_gso() {
            return self.take_gso(ts_ns, from, destination, frame);
        }
        let len = u32::from(frame.len);
        self.pool.enters(ts_ns, from, frame);
        self.table
            .arrive(ts_ns, from, destination, len, frame, &mut self.pool)
    }

    #[inline(never)]
    fn enter_anywhere(
        &mut self,
        ts_ns: Nanos,
        from: PortId,
        destination: [u8; 6],
        frame: SlotRef,
    ) -> usize {
        let Some(across) = &mut self.across else {
            return 1;
        };
        match across.ways.of(from, destination) {
            EdgeChoice::One(to) => {
                let owner = across.owners.of(to);
                if owner == across.me {
                    self.enter_here(ts_ns, from, destination, frame)
                } else {
                    self.hand_over(owner, ts_ns, (from, Some(to)), frame);
                    1
                }
            }
            EdgeChoice::All => self.each_frame(frame, |relay, frame| {
                relay.enter_all(ts_ns, from, frame);
            }),
            EdgeChoice::None => {
                self.pool.enters(ts_ns, from, frame);
                self.table.no_way(from, frame, &mut self.pool);
                1
            }
        }
    }

    /// Passes on a frame for all edges of its port: each thread that has some of them gets a copy.
    fn enter_all(&mut self, ts_ns: Nanos, from: PortId, frame: SlotRef) {
        let Some(across) = &self.across else {
            return;
        };
        let (me, counts) = (across.me, across.spread(from));
        self.pool.enters(ts_ns, from, frame);
        let others = |thread: &usize| *thread != me && counts[*thread] > 0;
        let here = counts[me] > 0;
        let mut others: Vec<usize> = (0..counts.len()).filter(others).collect();
        // One receiver gets the frame itself instead of a copy.
        let last = if here { None } else { others.pop() };
        for thread in others {
            match self.pool.duplicate(&frame) {
                Some(copy) => self.hand_over(thread, ts_ns, (from, None), copy),
                // The copy would have taken all edges of that thread.
                None => self.state.no_slot += u64::from(counts[thread]),
            }
        }
        if let Some(thread) = last {
            self.hand_over(thread, ts_ns, (from, None), frame);
        } else {
            let len = u32::from(frame.len);
            self.table
                .arrive(ts_ns, from, GROUP, len, frame, &mut self.pool);
        }
    }

    /// Passes a frame to the thread that has the edge. The frame is refused if there is no room.
    fn hand_over(&mut self, thread: usize, ts_ns: Nanos, edge: Edge, frame: SlotRef) {
        let Some(across) = &mut self.across else {
            return;
        };
        let (from, to) = edge;
        if !across.has_room(thread, from) {
            let gso = self.pool.gso(frame).map(|gso| u64::from(gso.len));
            across.refuse(thread, edge, gso.unwrap_or(frame.len.into()));
            // A frame for all edges was recorded by `enter_all` before.
            if to.is_some() {
                self.pool.enters(ts_ns, from, frame);
            }
            self.pool.discard(frame, DropCause::Overload);
            return;
        }
        let handed = |owner| Handed {
            ts_ns,
            from,
            to,
            owner,
            frame,
        };
        let item = if frame.is_gso() {
            let Some(gso) = self.pool.hand_out_gso(frame) else {
                return;
            };
            let owner = self.pool.owner(gso.slots[0]);
            gso.slots.iter().for_each(|&slot| self.pool.hand_out(slot));
            Item::Gso(handed(owner), Box::new(gso))
        } else {
            let owner = self.pool.owner(frame.slot);
            self.pool.hand_out(frame.slot);
            Item::Frame(handed(owner))
        };
        let count = &mut across.handed[from.0 as usize];
        *count = count.wrapping_add(1);
        let pushed = across.push(thread, item);
        debug_assert!(pushed, "there was room");
    }

    /// Takes the items that other threads sent for edges of this one. Returns whether there were any.
    pub(super) fn take_handed(&mut self) -> bool {
        if self.across.is_none() {
            return false;
        }
        let mut any = self.take_some();
        // A thread that fills a ring must not delay frames that are due on other edges, so those are sent between two
        // intakes.
        for _ in 0..INTAKES_PER_TURN {
            let long = self.across.as_ref().is_some_and(|across| across.is_long());
            if !long || !self.take_some() {
                break;
            }
            any = true;
            self.send_punctual(mono_ns());
        }
        if let Some(across) = &mut self.across {
            across.tell_refused();
            across.knock();
        }
        self.pool.collect_returned();
        any
    }

    fn take_some(&mut self) -> bool {
        let sources = self
            .across
            .as_ref()
            .map_or(0, |across| across.sources.len());
        let mut any = false;
        for source in 0..sources {
            // Each source gets a share of the turn, so that no thread keeps the others waiting.
            let mut work = 0;
            while work < INTAKE
                && let Some(across) = &mut self.across
                && let Some(item) = across.next(source)
            {
                any = true;
                work += match item {
                    Item::Frame(handed) => {
                        self.pool.adopt(handed.frame.slot, handed.owner);
                        self.take_one(handed, handed.frame)
                    }
                    Item::Gso(handed, gso) => {
                        let flags = handed.frame.flags;
                        let frame = self.pool.adopt_gso(*gso, handed.owner, flags);
                        self.take_one(handed, frame)
                    }
                    Item::Refused((from, to), refused) => {
                        self.table
                            .turned_away(from, to, refused.frames, refused.bytes);
                        1
                    }
                    Item::Mark(can) => {
                        across.instants.mark(source, can);
                        1
                    }
                }
                .max(1);
            }
        }
        if any {
            self.state.frames(mono_ns());
        }
        any
    }

    /// Handles a frame that another thread captured.
    fn take_one(&mut self, handed: Handed, frame: SlotRef) -> usize {
        let Handed {
            ts_ns, from, to, ..
        } = handed;
        if let Some(across) = &self.across {
            across.taken[from.0 as usize].fetch_add(1, Ordering::Relaxed);
        }
        match to {
            Some(to) if self.table.has(from, to) => self.enter_here(ts_ns, from, mac_of(to), frame),
            // The edge was removed while the frame was in transit between the threads.
            Some(_) => {
                self.pool.enters(ts_ns, from, frame);
                self.table.no_way(from, frame, &mut self.pool);
                1
            }
            None => {
                self.pool.came(ts_ns, from, frame);
                let len = u32::from(frame.len);
                let (table, pool) = (&mut self.table, &mut self.pool);
                table.arrive(ts_ns, from, GROUP, len, frame, pool)
            }
        }
    }
}
