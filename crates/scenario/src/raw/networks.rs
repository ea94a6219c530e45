//! `networks`: named sets of nodes with one more port each, and the law of the edges between them.

use constel_units::{DataRate, Decibels, FigureOfMerit, Frequency, Length, Power, Ratio, TimeSpan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::constellations::no_time;
use super::link::no_loss;
use super::radio::{no_decibels, twenty_percent};
use super::{Name, RawLink, RawModcod};

/// A network: each of its members has one port in it, `net0` for its first network. Frames go to the member that the
/// destination's MAC is of; broadcasts and multicasts to every member that the sender has an edge to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Network")]
pub struct RawNetwork {
    /// Nodes of any kind, by name; `*` stands for any characters and `?` for one. Their order is that of the list, then that of
    /// names. A node is a member once, and of at most 16 networks.
    #[schemars(length(min = 1, max = 10_000), inner(length(min = 1, max = 64)))]
    pub members: Vec<String>,
    /// Members that are not in it yet when the lab starts, by name or pattern: they have the port and no edges until
    /// `constel network join` brings them in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10_000), inner(length(min = 1, max = 64)))]
    pub away: Vec<String>,
    /// What joins them.
    #[serde(default)]
    pub medium: NetworkMedium,
    /// Which edges there are, and with what delay. Required but with `medium: switched`, and not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub law: Option<RawLaw>,
    /// Rate, queue and loss of each edge; with `medium: shared` rate and queue are those of each member's radio. Required but with
    /// `medium: switched`, and not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<RawLink>,
    /// How members share the channel. Only with `medium: shared`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<RawChannel>,
    /// Gives each member one more port, `mgmt0`, by which this machine and the member reach each other, for commands and
    /// telemetry. Nothing of it is emulated, no route of the lab leads over it, and members do not reach each other by it. Its
    /// addresses are of `addresses.management`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub management: bool,
}

/// What joins the members of a network.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkMedium {
    /// Each edge is a link of its own, with its own rate and queue: a member that sends to two others at once sends to
    /// each at the whole rate, and a broadcast costs each edge its time.
    #[default]
    Links,
    /// One radio channel. A frame takes the air once, at `link`'s rate or that of `by_range`, however many hear it; a broadcast goes
    /// at the rate that all in reach can follow. A member is deaf while it sends, and where two frames overlap at a receiver both
    /// are lost there. Only `driver: relay` knows it.
    Shared,
    /// A learning switch without limits: every member reaches every other at once, without rate, queue, loss and delay. Further Ethernet
    /// addresses behind a port are learned with `driver: relay`, 1,024 a port.
    Switched,
}

/// How members share a channel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Channel")]
pub struct RawChannel {
    /// When a member may send.
    #[serde(default)]
    pub access: ChannelAccess,
    /// Length of a slot. Required with `slotted-aloha` and `tdma`, where a frame with its guard must fit in one; default `20 us`
    /// with `csma`; not with `aloha`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "1 us", "x-maximum" = "10 s"))]
    pub slot: Option<TimeSpan>,
    /// How many slots a member draws its wait from, for each frame. Only with `csma`; default 32.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65_536))]
    pub window: Option<u32>,
    /// What goes before the bits of each frame.
    #[serde(default = "no_time")]
    #[schemars(extend("x-minimum" = "0 s", "x-maximum" = "1 s"))]
    pub preamble: TimeSpan,
    /// How long a member leaves the channel alone after a frame of its own; with `csma`, after anybody's.
    #[serde(default = "no_time")]
    #[schemars(extend("x-minimum" = "0 s", "x-maximum" = "1 s"))]
    pub guard: TimeSpan,
    /// Chance that a bit is wrong. A frame with a wrong bit is lost, so that long ones are lost more often.
    #[serde(default = "no_loss")]
    pub bit_errors: Ratio,
}

/// When a member of a channel may send.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum ChannelAccess {
    /// When it has heard nothing for `guard` and then for a number of slots that it draws for each frame. Nobody acknowledges, so
    /// nobody tries again.
    #[default]
    Csma,
    /// In its own slots, which go round in the order of the members.
    Tdma,
    /// At once.
    Aloha,
    /// At the beginning of the next slot.
    SlottedAloha,
}

/// The law of a network's edges. Exactly one of `matrix`, `range` and `over`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(
    rename = "Law",
    extend("oneOf" = [{"required": ["matrix"]}, {"required": ["range"]}, {"required": ["over"]}])
)]
pub struct RawLaw {
    /// A CSV file of one-way delays, relative to the scenario file, of at most 1,100,000 edges. Either a square: the first line
    /// is `delay_ms` and the members' names as receivers, each line after it a sender's name and its delays; a cell that
    /// is empty is no edge, so that what is sent between those two goes over other members. Or a table with the columns
    /// `from`, `to`, `delay_ms` and perhaps `rate_bit_per_s`, `loss_ratio` (instead of `link`'s where the cell is not empty)
    /// and `t_s`: lab time from which on the lines with it hold alone, in order of time; before the first there is no edge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub matrix: Option<String>,
    /// There is an edge between members that are at most this far apart and see each other; its delay is light's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-exclusive-minimum" = "0 km", "x-maximum" = "1000000 km"))]
    pub range: Option<Length>,
    /// Members are joined by the shortest paths over this constellation, looked for at each step: an edge has the delays of its
    /// path's links together, and the least of their rates and of `link`'s. There are no hops on the way. Members are on the
    /// ground; each uses the satellites that the constellation's `gsl` would have a station use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<Name>,
    /// How high the line of sight between two members must stay above the Earth, a sphere of the equator's radius;
    /// less where one of them is lower itself. Only with `range`; default `0 km`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "0 km", "x-maximum" = "1000 km"))]
    pub atmosphere: Option<Length>,
    /// Rate and loss by distance, looked at each step, nearest first; nearer than the first, `link` holds. Only with `range`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub by_range: Vec<RawRangeStep>,
    /// Rate and loss by link budget, looked at each step: what modulation and coding the distance leaves room for, up to `link.rate`;
    /// where none is left there is no edge. Only with `range`, and instead of `by_range`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub radio: Option<RawCrosslink>,
}

/// The radio of every member, sender and receiver alike, in free space.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Crosslink")]
pub struct RawCrosslink {
    /// Of the carrier.
    #[schemars(extend("x-minimum" = "0.01 GHz", "x-maximum" = "300 GHz"))]
    pub frequency: Frequency,
    /// Equivalent isotropically radiated power of the sender.
    #[schemars(extend("x-minimum" = "-100 dBW", "x-maximum" = "200 dBW"))]
    pub eirp: Power,
    /// Figure of merit of the receiver.
    #[schemars(extend("x-minimum" = "-100 dB/K", "x-maximum" = "100 dB/K"))]
    pub g_over_t: FigureOfMerit,
    /// Bandwidth, all of it for one frame.
    #[schemars(extend("x-minimum" = "1 kHz", "x-maximum" = "10 GHz"))]
    pub bandwidth: Frequency,
    /// Pointing, polarisation, implementation.
    #[serde(default = "no_decibels")]
    #[schemars(extend("x-minimum" = "0 dB", "x-maximum" = "100 dB"))]
    pub losses: Decibels,
    /// How bits become symbols.
    #[serde(default)]
    pub modcod: RawModcod,
    /// With `modcod: dvb-s2`: always this one instead of the best, such as `8PSK 3/4`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub fixed: Option<String>,
    /// Bandwidth on top of the symbol rate.
    #[serde(default = "twenty_percent")]
    pub roll_off: Ratio,
    /// Signal to noise kept in reserve.
    #[serde(default = "no_decibels")]
    #[schemars(extend("x-minimum" = "0 dB", "x-maximum" = "100 dB"))]
    pub margin: Decibels,
}

/// What an edge is like from a distance on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "RangeStep")]
pub struct RawRangeStep {
    /// From this distance up to that of the next step. Farther than that of the step before.
    #[schemars(extend("x-exclusive-minimum" = "0 km", "x-maximum" = "1000000 km"))]
    pub beyond: Length,
    /// Bits per second on the wire.
    #[schemars(extend("x-minimum" = "1 kbit/s", "x-maximum" = "400 Gbit/s"))]
    pub rate: DataRate,
    /// Chance that a frame is lost.
    #[serde(default = "no_loss")]
    pub loss: Ratio,
}
