//! Networks: sets of nodes and the law of the edges between them.

use constel_units::{DataRate, Decibels, Length, Ratio, TimeSpan};
use serde::Serialize;

use super::{Carrier, Link, Modcod, Name, NodesNamed, TextFile};

/// A network.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Network {
    /// Its name.
    pub name: Name,
    /// Its members; whether there are such nodes is known when the plan is made.
    pub members: Vec<NodesNamed>,
    /// Those of them that join later.
    pub away: Vec<NodesNamed>,
    /// What its edges are.
    pub medium: Medium,
    /// Whether the machine reaches them beside it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub management: bool,
}

/// What joins the members of a network.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Medium {
    /// Every edge by itself.
    Links {
        /// Which there are.
        law: Law,
        /// What they do.
        link: Link,
    },
    /// One channel for all.
    Shared {
        /// Who hears whom.
        law: Law,
        /// Rate and queue of each radio, and what happens on the way.
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
    /// What goes before the bits of each frame.
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

/// Which edges there are.
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

/// What an edge is like from a distance on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RangeStep {
    /// The distance.
    pub beyond: Length,
    /// At least 1 kbit/s.
    pub rate: DataRate,
    /// Chance that a frame is lost.
    pub loss: Ratio,
}
