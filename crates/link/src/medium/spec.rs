//! Specification of a channel.

use crate::PortId;
use serde::{Deserialize, Serialize};

/// A channel's parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// Rate in bit/s of frames that have no rate of their own; at least 1.
    pub rate_bps: u64,
    /// Duration of the preamble before the bits of each frame, ns.
    pub preamble_ns: u64,
    /// How long a port leaves the channel alone after a frame of its own, ns. With [`Access::Csma`] this holds after
    /// every frame that it hears, too.
    pub guard_ns: u64,
    /// When a port may send.
    pub access: Access,
    /// Bytes that may wait at each port; a frame that does not fit is refused.
    pub queue_bytes: u64,
    /// Seed of backoffs and losses.
    pub seed: u64,
}

/// A channel of a lab.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shared {
    /// The channel's parameters.
    pub spec: Spec,
    /// Ports on it, in the order of their places. Each port is on one channel at most.
    pub ports: Vec<PortId>,
    /// Probability that a bit is wrong, for all receivers; 0..=1.
    pub bit_error_ratio: f64,
}

/// When a port may send a frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// At once.
    Aloha,
    /// At the beginning of the next slot.
    SlottedAloha {
        /// Length of a slot, ns.
        slot_ns: u64,
    },
    /// After it has heard no frame for the guard time and then for a number of slots that it draws for each frame, 0 to
    /// `window - 1`. A busy period counts as one slot. This is the model of Bianchi, "Performance analysis of the IEEE
    /// 802.11 distributed coordination function", JSAC 2000, with one window for all attempts; there are no
    /// acknowledgements and thus no retransmissions.
    Csma {
        /// Length of a slot, ns.
        slot_ns: u64,
        /// Number of slots from which it draws; at least 1.
        window: u32,
    },
    /// In its own slots only, frame after frame while they fit in one, guard included.
    Tdma {
        /// Length of a slot, ns.
        slot_ns: u64,
        /// Port of each slot, repeated; slot 0 begins at 0.
        order: Vec<usize>,
    },
}

/// Reason why a [`Spec`] is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// No frame could ever be sent.
    #[error("the rate must be at least 1 bit/s")]
    NoRate,
    /// A slot of length 0.
    #[error("a slot must be longer than nothing")]
    NoSlot,
    /// A window without slots.
    #[error("the window must have at least one slot")]
    NoWindow,
    /// A slot of a port that does not exist.
    #[error("slot {slot} is of port {port}, and there are {ports}")]
    NoPort {
        /// The slot's place.
        slot: usize,
        /// The port that it names.
        port: usize,
        /// Number of ports.
        ports: usize,
    },
    /// No slots.
    #[error("there must be at least one slot")]
    NoOrder,
}

impl Spec {
    /// Checks the parameters for a channel with `ports` ports.
    ///
    /// # Errors
    /// The first parameter that is not valid.
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

    /// Returns the time for which a frame occupies the channel: preamble and bits, ns.
    #[must_use]
    pub fn airtime_ns(&self, frame: &Frame) -> u64 {
        let rate_bps = frame.rate_bps.unwrap_or(self.rate_bps).max(1);
        // bytes * 8 * 1e9 exceeds 64 bits from 2.3 GB on, hence the wide arithmetic; a partial nanosecond is rounded
        // up.
        let bits_ns = u128::from(frame.bytes) * 8_000_000_000;
        let ns = bits_ns.div_ceil(u128::from(rate_bps));
        self.preamble_ns
            .saturating_add(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

/// A frame to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// The caller's identifier.
    pub id: u64,
    /// Length in bytes, including all headers.
    pub bytes: u32,
    /// The rate at which it is sent; `None`: the channel's.
    pub rate_bps: Option<u64>,
}

/// Quality of reception of one port's frames at another.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Reception {
    /// Propagation delay, ns.
    pub delay_ns: u64,
    /// Probability that a frame is lost, whatever its length; 0..=1.
    pub loss_ratio: f64,
    /// Probability that a bit is wrong; a frame with one wrong bit is lost. 0..=1.
    pub bit_error_ratio: f64,
}

impl Reception {
    /// Returns the probability that a frame of `bytes` is lost.
    #[must_use]
    pub fn loss_of(&self, bytes: u32) -> f64 {
        // The frame arrives if no bit is wrong and the independent loss spares it.
        let right = (1.0 - self.bit_error_ratio).powf(f64::from(bytes) * 8.0);
        1.0 - (1.0 - self.loss_ratio) * right
    }
}

/// Reason why a receiver lost a frame that reached it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReceptionLoss {
    /// Another frame overlapped with it.
    Collision,
    /// The receiver was sending.
    Deaf,
    /// Noise: wrong bits, or the independent loss.
    Noise,
}
