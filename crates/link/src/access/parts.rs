//! The parts of an access and their values.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sky::Sky;

/// Hours of a day, for curves by hour.
pub const HOURS: usize = 24;

/// The direction of a frame on the access link.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the terminal to the network.
    Up,
    /// From the network to the terminal.
    Down,
}

/// The access of a terminal. The default has no part: frames have the delay of geometry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Access {
    /// Slots of the scheduler.
    pub slots: Slots,
    /// The cell that the terminal shares with others. Without it grants come at the first poll.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cell: Option<Cell>,
    /// A further delay that differs from slot to slot, up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<Step>,
    /// The gap at the beginning of a slot whose satellite is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handover: Option<Gap>,
    /// A gap within a slot: the link is lost and found again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relink: Option<Gap>,
    /// Slots without service, because something blocks the sky.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blockage: Option<Blockage>,
    /// Signal and rain, which scale the rates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sky: Option<Sky>,
    /// From the terminal to the network.
    pub up: Leg,
    /// From the network to the terminal.
    pub down: Leg,
}

/// Slots of the scheduler: all terminals get new satellites at the same instants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Slots {
    /// Length of a slot, nanoseconds.
    pub period_ns: u64,
    /// Beginning of a slot after a full minute of UTC, nanoseconds; less than the period.
    pub phase_ns: u64,
}

impl Default for Slots {
    fn default() -> Slots {
        Slots {
            period_ns: 15_000_000_000,
            phase_ns: 0,
        }
    }
}

/// A cell that many terminals share. The load is the probability that a poll gives the grant to another terminal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// Median load at each full hour of local mean solar time, 0 to 0.98, linear in between.
    pub load_by_hour: [f64; HOURS],
    /// Standard deviation of a slot's load, in units of `ln(load / (1 - load))`.
    pub spread: f64,
    /// Changes of the load within a slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Changes>,
}

/// Changes of a cell's load within a slot. Between two changes the load is constant, so that frames of that time have
/// similar waits. The rate has the load of the slot.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Changes {
    /// Time from one change to the next, nanoseconds. The correlation of two loads falls linearly to 0 over this time.
    pub every_ns: u64,
    /// Standard deviation of the load around that of the slot, in units of `ln(load / (1 - load))`.
    pub spread: f64,
}

/// A delay that is constant within a slot, or changes once in it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Largest delay of most slots, nanoseconds; they are uniform from 0.
    pub spread_ns: u64,
    /// Probability of a slot with a long delay, 0 to 1.
    pub long_ratio: f64,
    /// Least long delay, nanoseconds.
    pub long_least_ns: u64,
    /// Largest long delay, nanoseconds; they are uniform in between.
    pub long_most_ns: u64,
    /// Probability that a slot draws its delay again, 0 to 1: once, at a uniform instant.
    #[serde(default)]
    pub change_ratio: f64,
}

/// An interval in which the link carries nothing, in both directions. A frame that is sent close to the end of the gap
/// waits for it, an earlier frame is lost. At a handover, frames that are in transit when the gap begins are lost, too.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Gap {
    /// Probability that a slot has the gap, 0 to 1.
    pub ratio: f64,
    /// Median length, nanoseconds. A gap ends with its slot at the latest.
    pub median_ns: u64,
    /// Standard deviation of the logarithm of the length.
    pub spread: f64,
    /// Longest time for which a frame waits, nanoseconds. Each gap has its own, uniform from 0 to this.
    pub hold_ns: u64,
}

/// Slots without service, a chain of two states.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Blockage {
    /// Probability that a blocked slot follows a free one, 0 to 1.
    pub begin_ratio: f64,
    /// Probability that a free slot follows a blocked one, 0 to 1. Together with `begin_ratio` at most 1.
    pub end_ratio: f64,
    /// Service in parts of a blocked slot. Without it, blocked slots have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<Partial>,
}

/// Service that comes and goes within a blocked slot: a chain of two states in time (Gilbert 1960).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Partial {
    /// Probability that a blocked slot has service in parts, 0 to 1.
    pub ratio: f64,
    /// Mean length of an interval without service, nanoseconds.
    pub blocked_ns: u64,
    /// Mean length of an interval with service, nanoseconds.
    pub clear_ns: u64,
    /// Longest time for which a frame waits for service, nanoseconds. Each interval has its own, uniform from 0 to this.
    pub hold_ns: u64,
}

/// One direction of the access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Leg {
    /// Constant delay of modem, gateway and network, nanoseconds.
    pub processing_ns: u64,
    /// Time from one turn of the terminal to the next, nanoseconds; 0: it may send at any time.
    pub turn_ns: u64,
    /// Requests and grants.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grants: Option<Grants>,
    /// Retransmission at the link layer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retransmission: Option<Retransmission>,
    /// Rate; without it the link's rate applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
}

/// Requests and grants: a terminal requests in its turn, and gets a grant at a poll after that.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Grants {
    /// Time from a request to the first poll that can answer it, nanoseconds.
    pub request_ns: u64,
    /// Time from one poll to the next, nanoseconds.
    pub period_ns: u64,
}

/// Retransmission at the link layer. All frames of one turn share their fate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Retransmission {
    /// Probability that a transmission fails, 0 to 1.
    pub ratio: f64,
    /// Time that each further transmission takes, nanoseconds.
    pub again_ns: u64,
    /// Number of transmissions after which a frame is lost, 1 to 16.
    pub transmissions: u32,
}

/// The rate of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// Rate of a terminal that is alone in its cell, with the satellite in the zenith of a clear sky, bit/s.
    pub alone_bps: u64,
    /// Standard deviation of the logarithm of a slot's rate, in addition to the cell's load.
    pub spread: f64,
}

impl Access {
    /// Returns the leg of a direction.
    #[must_use]
    pub fn leg(&self, direction: Direction) -> &Leg {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }

    /// Returns whether no part changes a frame.
    #[must_use]
    pub fn is_ideal(&self) -> bool {
        *self
            == Access {
                slots: self.slots,
                ..Access::default()
            }
    }
}
