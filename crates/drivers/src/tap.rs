//! Taps: reading frames of some ports one by one as they pass.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use constel_link::{DropCause, Nanos, PortId};

use crate::error::DriverError;

/// Number of frames, and of bytes, kept for a reader that is slower than they come; further ones are counted as lost.
const KEPT: usize = 16_384;
const KEPT_BYTES: u64 = 64 << 20;

/// Selection of the tapped frames.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TapFilter {
    /// Frames that enter the edges of these ports, and those of them that are dropped.
    pub enters: Vec<PortId>,
    /// Frames that have passed edges from these ports.
    pub leaves_from: Vec<PortId>,
    /// Frames that have passed edges to these ports.
    pub leaves_to: Vec<PortId>,
}

impl TapFilter {
    fn lists(&mut self) -> [&mut Vec<PortId>; 3] {
        [&mut self.enters, &mut self.leaves_from, &mut self.leaves_to]
    }
}

/// Event at which a frame is tapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TapPoint {
    /// It entered its port's edges.
    Enters,
    /// It has passed an edge to this port.
    Leaves(PortId),
    /// It was dropped.
    Dropped(DropCause),
}

/// A tapped frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tapped {
    /// The instant, on `CLOCK_MONOTONIC`.
    pub at_ns: Nanos,
    /// When it entered its port's edges, if frames were tapped at that time already.
    pub entered_ns: Option<Nanos>,
    /// The port whose edge it takes, or has passed.
    pub from: PortId,
    /// The event.
    pub sight: TapPoint,
    /// For a frame steered between interfaces of the host: the interface at which it came in and the one on which it
    /// goes out. Both are the same if it goes out on all others.
    pub passage: Option<(u8, u8)>,
    /// All bytes of the frame, Ethernet header first. A super-frame that the kernel has not cut up yet is included as
    /// one.
    pub bytes: Vec<u8>,
}

/// Counters shared by both sides of a tap.
#[derive(Debug, Default)]
struct Counts {
    lost: AtomicU64,
    /// Bytes of frames that wait for the reader.
    bytes: AtomicU64,
}

/// A tap of frames as they pass. It ends when this is dropped.
#[derive(Debug)]
pub struct Tapping {
    number: u64,
    frames: Receiver<Tapped>,
    counts: Arc<Counts>,
}

impl Tapping {
    /// Returns the number that identifies the tap.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the next frame; `None`: no frame came within this time.
    ///
    /// # Errors
    /// [`DriverError::Stopped`] once the driver has been stopped, and all frames were returned.
    pub fn next(&self, within: Duration) -> Result<Option<Tapped>, DriverError> {
        match self.frames.recv_timeout(within) {
            Ok(frame) => {
                let len = frame.bytes.len() as u64;
                self.counts.bytes.fetch_sub(len, Ordering::Relaxed);
                Ok(Some(frame))
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(DriverError::Stopped),
        }
    }

    /// Returns the number of selected frames that were lost because they came faster than they were read.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.counts.lost.load(Ordering::Relaxed)
    }
}

/// The driver's side of one tap; each of its threads has one.
#[derive(Clone, Debug)]
pub(crate) struct Tap {
    number: u64,
    wanted: TapFilter,
    frames: SyncSender<Tapped>,
    counts: Arc<Counts>,
}

impl Tap {
    pub(crate) fn new(wanted: TapFilter) -> (Tap, Tapping) {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let (sender, frames) = sync_channel(KEPT);
        let counts = Arc::<Counts>::default();
        let mut tap = Tap {
            number,
            wanted: TapFilter::default(),
            frames: sender,
            counts: Arc::clone(&counts),
        };
        tap.want_also(wanted);
        let tapping = Tapping {
            number,
            frames,
            counts,
        };
        (tap, tapping)
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Adds ports.
    pub(crate) fn want_also(&mut self, mut more: TapFilter) {
        for (all, more) in self.wanted.lists().into_iter().zip(more.lists()) {
            all.append(more);
            all.sort_unstable();
            all.dedup();
        }
    }

    pub(crate) fn wants(&self, from: PortId, sight: TapPoint) -> bool {
        // `want_also` keeps the lists sorted.
        let has = |ports: &[PortId], port| ports.binary_search(&port).is_ok();
        match sight {
            TapPoint::Enters | TapPoint::Dropped(_) => has(&self.wanted.enters, from),
            TapPoint::Leaves(to) => {
                has(&self.wanted.leaves_from, from) || has(&self.wanted.leaves_to, to)
            }
        }
    }

    /// Passes a frame to the reader. Returns false when there is no reader any more.
    pub(crate) fn show(&self, frame: Tapped) -> bool {
        let len = frame.bytes.len() as u64;
        // The bytes are counted before the frame is sent, because the reader subtracts them as soon as it has the
        // frame.
        if self.counts.bytes.fetch_add(len, Ordering::Relaxed) + len <= KEPT_BYTES {
            match self.frames.try_send(frame) {
                Ok(()) => return true,
                Err(TrySendError::Disconnected(_)) => return false,
                Err(TrySendError::Full(_)) => {}
            }
        }
        self.counts.bytes.fetch_sub(len, Ordering::Relaxed);
        self.counts.lost.fetch_add(1, Ordering::Relaxed);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(n: u64, len: usize) -> Tapped {
        Tapped {
            passage: None,
            at_ns: n,
            entered_ns: None,
            from: PortId(3),
            sight: TapPoint::Enters,
            bytes: vec![0; len],
        }
    }

    #[test]
    fn what_is_wanted_is_told_by_port_and_sight() {
        let (mut tap, tapping) = Tap::new(TapFilter {
            enters: vec![PortId(9), PortId(3)],
            leaves_from: vec![PortId(9)],
            leaves_to: vec![PortId(3)],
        });
        assert!(tap.wants(PortId(3), TapPoint::Enters));
        assert!(tap.wants(PortId(3), TapPoint::Dropped(DropCause::Loss)));
        assert!(!tap.wants(PortId(4), TapPoint::Enters));
        assert!(tap.wants(PortId(9), TapPoint::Leaves(PortId(1))));
        assert!(tap.wants(PortId(4), TapPoint::Leaves(PortId(3))));
        assert!(!tap.wants(PortId(3), TapPoint::Leaves(PortId(4))));
        tap.want_also(TapFilter {
            enters: vec![PortId(4), PortId(3)],
            ..TapFilter::default()
        });
        assert!(tap.wants(PortId(4), TapPoint::Enters) && tap.wants(PortId(9), TapPoint::Enters));
        assert_eq!(tap.number(), tapping.number());
    }

    #[test]
    fn a_slow_reader_loses_frames_and_is_told_how_many() {
        let (tap, tapping) = Tap::new(TapFilter::default());
        for n in 0..KEPT as u64 + 5 {
            assert!(tap.show(frame(n, 60)));
        }
        assert_eq!(tapping.lost(), 5);
        assert_eq!(tapping.next(Duration::ZERO).unwrap(), Some(frame(0, 60)));
        drop(tap);
        let rest = std::iter::from_fn(|| tapping.next(Duration::ZERO).ok().flatten());
        assert_eq!(rest.count(), KEPT - 1);
        assert!(matches!(
            tapping.next(Duration::ZERO),
            Err(DriverError::Stopped)
        ));
        let (tap, tapping) = Tap::new(TapFilter::default());
        drop(tapping);
        assert!(!tap.show(frame(0, 60)), "nobody looks any more");
    }

    #[test]
    fn super_frames_are_not_kept_beyond_a_bound_of_bytes() {
        let (tap, tapping) = Tap::new(TapFilter::default());
        let fit = KEPT_BYTES as usize / 65_536;
        for n in 0..fit as u64 + 3 {
            assert!(tap.show(frame(n, 65_536)));
        }
        assert_eq!(tapping.lost(), 3);
        assert!(tapping.next(Duration::ZERO).unwrap().is_some());
        assert!(tap.show(frame(0, 65_536)));
        assert_eq!(tapping.lost(), 3, "one was taken, so one fits");
    }
}
