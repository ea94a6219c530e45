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

use constel_link::{Nanos, PortId};

use super::bell::Signals;
use super::gso::GsoFrame;
use super::instant::Instants;
use super::layout::SlotRef;
use super::object::Loaded;
use super::owners::Owners;
use super::spsc::{Consumer, Producer, ring};
use super::ways::PortEdges;

/// Maximum number of frames in transit from one thread to another.
const RING: usize = 4096;
/// Part of the ring kept for items that are not frames.
const RESERVE: usize = 64;
/// A ring longer than this is emptied before edges that are behind get their turn.
const LONG: usize = 512;

/// A frame for an edge of another thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handed {
    pub(super) ts_ns: Nanos,
    pub(super) from: PortId,
    /// `None`: all edges of `from` that belong to the other thread.
    pub(super) to: Option<PortId>,
    /// The port that its slots are charged to, by its number among interfaces.
    pub(super) owner: u32,
    pub(super) frame: SlotRef,
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

pub(super) type Edge = (PortId, Option<PortId>);

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Refused {
    pub(super) frames: u64,
    pub(super) bytes: u64,
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
    pub(super) me: usize,
    loaded: Arc<Loaded>,
    pub(super) owners: Arc<Owners>,
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
        // A ring for each ordered pair of threads, so that each has one writer and one reader and needs no lock.
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
    pub(super) fn has_room(&mut self, thread: usize, from: PortId) -> bool {
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

    /// Passes a frame of this port on, which has [room](Across::has_room).
    pub(super) fn hand_over(&mut self, thread: usize, from: PortId, item: Item) {
        let count = &mut self.handed[from.0 as usize];
        *count = count.wrapping_add(1);
        let pushed = self.push(thread, item);
        debug_assert!(pushed, "there was room");
    }

    /// Counts a frame of this port, of another thread, that was taken here.
    pub(super) fn took(&self, from: PortId) {
        self.taken[from.0 as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of threads that send items to this one, itself included.
    pub(super) fn sources(&self) -> usize {
        self.sources.len()
    }

    fn push(&mut self, thread: usize, item: Item) -> bool {
        let Some(out) = self.out.get_mut(thread).and_then(Option::as_mut) else {
            return false;
        };
        out.news = true;
        out.ring.push(item).is_ok()
    }

    pub(super) fn refuse(&mut self, thread: usize, edge: Edge, bytes: u64) {
        if let Some(out) = self.out.get_mut(thread).and_then(Option::as_mut) {
            let refused = out.refused.entry(edge).or_default();
            refused.frames += 1;
            refused.bytes += bytes;
        }
    }

    /// Passes the counts of refused frames to the other threads as soon as there is room.
    pub(super) fn tell_refused(&mut self) {
        for out in self.out.iter_mut().flatten() {
            // The counts of refused frames use a reserve of the ring that frames may not use.
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
    pub(super) fn next(&mut self, source: usize) -> Option<Item> {
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

    pub(super) fn is_long(&self) -> bool {
        let mut sources = self.sources.iter().flatten();
        sources.any(|source| source.waiting() > LONG)
    }

    /// Returns the number of this port's edges for each thread.
    pub(super) fn spread(&self, from: PortId) -> [u32; super::layout::THREADS_MAX] {
        let mut counts = [0; super::layout::THREADS_MAX];
        for to in self.ways.far(from) {
            counts[self.owners.of(*to)] += 1;
        }
        counts
    }
}
