//! Buffers and counters of a relay thread's data path.

use std::collections::VecDeque;

use constel_link::{Histogram, Nanos};

use super::awake::Awake;
use super::instant::Scheduled;
use super::late::LateFrames;
use super::layout::SlotRef;
use super::stalls::Stalls;
use super::tx_batch::TxBatch;
use super::warm_up::WarmUp;
use crate::clock::mono_ns;

/// Assumed duration of one sending before it was measured.
const SENDING_NS: Nanos = 2_000;

/// Edges of a kind, by the port that they leave.
#[derive(Clone)]
pub(crate) struct Class {
    pub(super) name: String,
    pub(super) lateness: Histogram,
    pub(super) own_lateness: Histogram,
}

impl Class {
    pub(super) fn new(name: String) -> Class {
        Class {
            name,
            lateness: Histogram::new(),
            own_lateness: Histogram::new(),
        }
    }
}

/// Bookkeeping of the data path.
pub(crate) struct State {
    pub(super) scheduled: VecDeque<Scheduled>,
    /// The batch being sent; kept to reuse its memory.
    pub(super) batch: TxBatch,
    pub(super) lateness: Histogram,
    pub(super) own_lateness: Histogram,
    /// Classes of ports; those beyond the end are of class 0.
    pub(super) class_of: Vec<u8>,
    pub(super) classes: Vec<Class>,
    pub(super) stalls: Box<Stalls>,
    pub(super) late: LateFrames,
    pub(super) early: u64,
    /// Descriptors that the kernel took, including those of warm-up packets, and super-frames.
    pub(super) taken: u64,
    /// Frames sent as parts of super-frames joined here.
    pub(super) joined: u64,
    pub(super) warm_up: WarmUp,
    pub(super) awake: Awake,
    /// Whether frames arrived or left since the flag was last taken.
    pub(super) worked: bool,
    /// When frames of nodes last arrived.
    pub(super) took_in_ns: Nanos,
    pub(super) trunk_stalls: u64,
    /// Recent duration of one sending of a batch.
    pub(super) sending_ns: Nanos,
    /// Lateness of the last frame.
    pub(super) last_late_ns: Nanos,
    /// Frames cut out of GSO frames for which no slot was free, or that exceeded their port's share; GSO frames that
    /// the kernel refused.
    pub(super) no_slot: u64,
    pub(super) over_share: u64,
    pub(super) gso_refused: u64,
    /// Frames of a GSO frame that was cut up; kept to reuse its memory.
    pub(super) cut: Vec<SlotRef>,
    pub(super) updates: u64,
    pub(super) longest_update_ns: Nanos,
    pub(super) started_ns: Nanos,
}

impl State {
    pub(crate) fn new() -> State {
        State {
            scheduled: VecDeque::new(),
            batch: TxBatch::default(),
            lateness: Histogram::new(),
            own_lateness: Histogram::new(),
            class_of: Vec::new(),
            classes: vec![Class::new("edge".into())],
            stalls: Box::new(Stalls::new()),
            late: LateFrames::new(),
            early: 0,
            taken: 0,
            joined: 0,
            warm_up: WarmUp::default(),
            awake: Awake::new(),
            worked: false,
            took_in_ns: 0,
            trunk_stalls: 0,
            sending_ns: SENDING_NS,
            last_late_ns: 0,
            no_slot: 0,
            over_share: 0,
            gso_refused: 0,
            cut: Vec::new(),
            updates: 0,
            longest_update_ns: 0,
            started_ns: mono_ns(),
        }
    }

    /// Called when frames arrive or leave.
    pub(super) fn frames(&mut self, now: Nanos) {
        self.awake.frames(now);
        self.worked = true;
    }
}
