//! One port: its queue, what it hears, what it counts.

use std::collections::VecDeque;

use crate::Rng;
use serde::{Deserialize, Serialize};

use crate::medium::spec::{Frame, Lost};

/// What a port has counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counters {
    /// Frames it has begun to send.
    pub sent: u64,
    /// How long it has taken the channel, ns, with what it is sending now.
    pub airtime_ns: u64,
    /// Frames it has got.
    pub heard: u64,
    /// Frames that reached it and overlapped with another.
    pub collisions: u64,
    /// Frames that reached it while it sent.
    pub deaf: u64,
    /// Frames that it did not understand.
    pub noise: u64,
    /// Frames that did not fit in its queue.
    pub refused_full: u64,
    /// Frames longer than its slots.
    pub refused_long: u64,
}

impl Counters {
    pub(crate) fn lost(&mut self, why: Lost) {
        *match why {
            Lost::Collision => &mut self.collisions,
            Lost::Deaf => &mut self.deaf,
            Lost::Noise => &mut self.noise,
        } += 1;
    }
}

/// Why a port does not take a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It does not fit in the queue.
    #[error("the queue is full")]
    Full,
    /// It is longer than a slot: it could never be sent.
    #[error("the frame is longer than a slot")]
    Long,
}

/// A frame that is reaching a port.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) number: u64,
    pub(crate) spoiled: Option<Lost>,
}

/// A port.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) queue: VecDeque<Frame>,
    pub(crate) queued_bytes: u64,
    pub(crate) arrivals: Vec<Arrival>,
    /// When its own frame will have left it.
    pub(crate) sending_until_ns: Option<u64>,
    /// Before this it leaves the channel alone.
    pub(crate) guard_until_ns: u64,
    /// Since when it has heard and sent nothing.
    pub(crate) quiet_since_ns: u64,
    /// Slots left to wait, of the frame at the head of the queue.
    pub(crate) backoff: Option<u32>,
    /// Until when its countdown stands still, while it counts.
    pub(crate) counts_from_ns: Option<u64>,
    /// Whether it is decided when it may send, unless something comes between.
    pub(crate) decided: bool,
    /// Its decisions before that: they do not count any more.
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
            rng: Rng::for_edge(seed, number as u32, u32::MAX, 0),
            counters: Counters::default(),
        }
    }

    /// What was decided does not count any more.
    pub(crate) fn undecide(&mut self) {
        self.decided = false;
        self.decision += 1;
    }

    /// Whether it hears or sends something.
    pub(crate) fn is_busy(&self) -> bool {
        self.sending_until_ns.is_some() || !self.arrivals.is_empty()
    }
}
