//! Networks: sets of nodes and the law of the edges between them.

use constel_units::{DataRate, Decibels, Length, Ratio, TimeSpan};
use serde::Serialize;

use super::{Carrier, Link, Modcod, Name, NodesNamed, TextFile};

/// A network.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Network {
    /// Its name.
    pub name: Name,
    /// The network's members; whether such nodes exist is known when the plan is made.
    pub members: Vec<NodesNamed>,
    /// Members that join later.
    pub away: Vec<NodesNamed>,
    /// The medium that joins the members.
    pub medium: Medium,
    /// Whether the host reaches the members over a management network besides.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub management: bool,
}

/// The medium that joins the members of a network.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Medium {
    /// Every edge by itself.
    Links {
        /// The rule that determines the edges.
        law: Law,
        /// The properties of each edge.
        link: Link,
    },
    /// One channel for all.
    Shared {
        /// The rule that determines who receives from whom.
        law: Law,
        /// Rate and queue of each radio, and the propagation.
        link: Link,
        /// How they share it.
        channel: Channel,
    },
    /// A bridge without limits.
    Switched,
}

/// How members share a channel.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Channel {
    /// When a member may send.
    pub access: Access,
    /// The duration of the preamble before the bits of each frame.
    pub preamble: TimeSpan,
    /// How long a member leaves the channel alone after a frame.
    pub guard: TimeSpan,
    /// Chance that a bit is wrong.
    pub bit_errors: Ratio,
}

/// When a member of a channel may send.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// After listening, and waiting for up to `window` slots.
    Csma {
        /// Length of a slot, at least 1 us.
        slot: TimeSpan,
        /// At least 1.
        window: u32,
    },
    /// In its own slots.
    Tdma {
        /// Length of a slot: a frame of the MTU fits.
        slot: TimeSpan,
    },
    /// At once.
    Aloha,
    /// At the beginning of a slot.
    SlottedAloha {
        /// Length of a slot: a frame of the MTU fits.
        slot: TimeSpan,
    },
}

/// The rule that determines a network's edges.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Law {
    /// Delays of a file. Its text is passed on unread.
    Matrix(TextFile),
    /// Between members in reach.
    Range {
        /// How far that is.
        most: Length,
        /// How high the line of sight stays.
        atmosphere: Length,
        /// By distance, nearest first.
        steps: Vec<RangeStep>,
        /// By link budget; then there are no steps.
        radio: Option<Crosslink>,
    },
    /// Along the shortest paths over a constellation that serves the ground.
    Over(Name),
}

/// The radio of every member.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Crosslink {
    /// Power, antenna, bandwidth.
    pub carrier: Carrier,
    /// How bits become symbols.
    pub modcod: Modcod,
    /// Bandwidth on top of the symbol rate.
    pub roll_off: Ratio,
    /// Signal to noise kept in reserve.
    pub margin: Decibels,
}

/// The properties of an edge from a distance on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RangeStep {
    /// The distance.
    pub beyond: Length,
    /// At least 1 kbit/s.
    pub rate: DataRate,
    /// Chance that a frame is lost.
    pub loss: Ratio,
}
