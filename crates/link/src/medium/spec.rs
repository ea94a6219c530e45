//! What a channel is.

use crate::PortId;
use serde::{Deserialize, Serialize};

/// A channel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// Bits per second of frames that name no rate of their own; at least 1.
    pub rate_bps: u64,
    /// What goes before the bits of each frame, ns.
    pub preamble_ns: u64,
    /// How long a port leaves the channel alone after a frame of its own, and with [`Access::Csma`] after anybody's, ns.
    pub guard_ns: u64,
    /// When a port may send.
    pub access: Access,
    /// Bytes that may wait at each port; a frame that does not fit is refused.
    pub queue_bytes: u64,
    /// Of backoffs and losses.
    pub seed: u64,
}

/// A channel of a lab.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shared {
    /// What it is.
    pub spec: Spec,
    /// Who is on it, in the order of their places; each port is on one channel at most.
    pub ports: Vec<PortId>,
    /// Chance that a bit is wrong, for everyone; 0..=1.
    pub bit_error_ratio: f64,
}

/// When a port may send a frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// At once.
    Aloha,
    /// At the next beginning of a slot.
    SlottedAloha {
        /// Length of a slot, ns.
        slot_ns: u64,
    },
    /// When it has heard nothing for the guard and then for a number of slots that it draws for each frame, 0 to `window - 1`. A
    /// busy time counts as one slot (Bianchi, "Performance analysis of the IEEE 802.11 distributed coordination function", JSAC
    /// 2000, with one window for all tries; nobody acknowledges, so nobody tries again).
    Csma {
        /// Length of a slot, ns.
        slot_ns: u64,
        /// How many slots it draws from; at least 1.
        window: u32,
    },
    /// In its own slots only, frame after frame while they fit in one, guard included.
    Tdma {
        /// Length of a slot, ns.
        slot_ns: u64,
        /// Whose each slot is, over and over; slot 0 begins at 0.
        order: Vec<usize>,
    },
}

/// Why a [`Spec`] is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// Nothing could ever be sent.
    #[error("the rate must be at least 1 bit/s")]
    NoRate,
    /// Time would stand still.
    #[error("a slot must be longer than nothing")]
    NoSlot,
    /// Nothing to draw from.
    #[error("the window must have at least one slot")]
    NoWindow,
    /// A slot of nobody's.
    #[error("slot {slot} is of port {port}, and there are {ports}")]
    NoPort {
        /// Its place.
        slot: usize,
        /// Whose it is said to be.
        port: usize,
        /// How many ports there are.
        ports: usize,
    },
    /// No slots at all.
    #[error("there must be at least one slot")]
    NoOrder,
}

impl Spec {
    /// Whether it makes sense with so many ports.
    ///
    /// # Errors
    /// What does not.
    pub fn check(&self, ports: usize) -> Result<(), SpecError> {
        if self.rate_bps == 0 {
            return Err(SpecError::NoRate);
        }
        match &self.access {
            Access::Aloha => Ok(()),
            Access::SlottedAloha { slot_ns: 0 }
            | Access::Csma { slot_ns: 0, .. }
            | Access::Tdma { slot_ns: 0, .. } => Err(SpecError::NoSlot),
            Access::SlottedAloha { .. } => Ok(()),
            Access::Csma { window, .. } => match window {
                0 => Err(SpecError::NoWindow),
                _ => Ok(()),
            },
            Access::Tdma { order, .. } if order.is_empty() => Err(SpecError::NoOrder),
            Access::Tdma { order, .. } => match order.iter().position(|port| *port >= ports) {
                Some(slot) => Err(SpecError::NoPort {
                    slot,
                    port: order[slot],
                    ports,
                }),
                None => Ok(()),
            },
        }
    }

    /// How long a frame takes the channel: preamble and bits, ns.
    #[must_use]
    pub fn airtime_ns(&self, frame: &Frame) -> u64 {
        let rate_bps = frame.rate_bps.unwrap_or(self.rate_bps).max(1);
        let bits_ns = u128::from(frame.bytes) * 8_000_000_000;
        let ns = bits_ns.div_ceil(u128::from(rate_bps));
        self.preamble_ns
            .saturating_add(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

/// A frame to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// What the caller knows it by.
    pub id: u64,
    /// Its length, all headers included.
    pub bytes: u32,
    /// The rate it is sent at; `None`: the channel's.
    pub rate_bps: Option<u64>,
}

/// How one port hears another.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Hearing {
    /// On the way, ns.
    pub delay_ns: u64,
    /// Chance that a frame is lost, whatever its length; 0..=1.
    pub loss_ratio: f64,
    /// Chance that a bit is wrong; a frame with one wrong bit is lost. 0..=1.
    pub bit_error_ratio: f64,
}

impl Hearing {
    /// Chance that a frame of so many bytes is not understood.
    #[must_use]
    pub fn loss_of(&self, bytes: u32) -> f64 {
        let right = (1.0 - self.bit_error_ratio).powf(f64::from(bytes) * 8.0);
        1.0 - (1.0 - self.loss_ratio) * right
    }
}

/// Why a receiver did not get a frame that reached it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lost {
    /// Another frame was there at the same time.
    Collision,
    /// It was sending itself.
    Deaf,
    /// It was not understood.
    Noise,
}
