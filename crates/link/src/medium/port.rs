//! One port of a channel: its queue, the frames that reach it, and its counters.

use std::collections::VecDeque;

use crate::Rng;
use serde::{Deserialize, Serialize};

use crate::medium::spec::{Frame, ReceptionLoss};

/// Counters of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counters {
    /// Frames that it began to send.
    pub sent: u64,
    /// Time for which it has occupied the channel, ns, including the frame that it is sending now.
    pub airtime_ns: u64,
    /// Frames that it has received.
    pub heard: u64,
    /// Frames that reached it and overlapped with another.
    pub collisions: u64,
    /// Frames that reached it while it was sending.
    pub deaf: u64,
    /// Frames lost to noise at this port.
    pub noise: u64,
    /// Frames that did not fit in its queue.
    pub refused_full: u64,
    /// Frames longer than its slots.
    pub refused_long: u64,
}

impl Counters {
    pub(crate) fn lost(&mut self, why: ReceptionLoss) {
        *match why {
            ReceptionLoss::Collision => &mut self.collisions,
            ReceptionLoss::Deaf => &mut self.deaf,
            ReceptionLoss::Noise => &mut self.noise,
        } += 1;
    }
}

/// Reason why a port refuses a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The frame does not fit in the queue.
    #[error("the queue is full")]
    Full,
    /// The frame is longer than a slot: it could never be sent.
    #[error("the frame is longer than a slot")]
    Long,
}

/// A frame that is reaching a port.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) number: u64,
    pub(crate) spoiled: Option<ReceptionLoss>,
}

/// A port.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) queue: VecDeque<Frame>,
    pub(crate) queued_bytes: u64,
    pub(crate) arrivals: Vec<Arrival>,
    /// When its own frame will have left it.
    pub(crate) sending_until_ns: Option<u64>,
    /// Until when it leaves the channel alone after its own frame.
    pub(crate) guard_until_ns: u64,
    /// Since when it has neither heard nor sent a frame.
    pub(crate) quiet_since_ns: u64,
    /// Remaining backoff slots of the frame at the head of the queue.
    pub(crate) backoff: Option<u32>,
    /// Instant at which its countdown starts, while it counts.
    pub(crate) counts_from_ns: Option<u64>,
    /// Whether the instant at which it may send is decided, unless an arrival interrupts.
    pub(crate) decided: bool,
    /// Number of the present decision: earlier decisions are void.
    pub(crate) decision: u64,
    pub(crate) rng: Rng,
    pub(crate) counters: Counters,
}

impl Port {
    pub(crate) fn new(seed: u64, number: usize) -> Self {
        Self {
            queue: VecDeque::new(),
            queued_bytes: 0,
            arrivals: Vec::new(),
            sending_until_ns: None,
            guard_until_ns: 0,
            quiet_since_ns: 0,
            backoff: None,
            counts_from_ns: None,
            decided: false,
            decision: 0,
            // No port has the number `u32::MAX`, so the generator differs from those of all edges.
            rng: Rng::for_edge(seed, number as u32, u32::MAX, 0),
            counters: Counters::default(),
        }
    }

    /// Voids the present decision.
    pub(crate) fn undecide(&mut self) {
        self.decided = false;
        // Decisions that are already scheduled carry the old number and are ignored.
        self.decision += 1;
    }

    /// Returns whether the port hears or sends a frame.
    pub(crate) fn is_busy(&self) -> bool {
        self.sending_until_ns.is_some() || !self.arrivals.is_empty()
    }
}
