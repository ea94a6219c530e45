//! `networks`: named sets of nodes with one additional port each, and the rule of the edges between them.

use constel_topology::radio::Budget;
use constel_units::{DataRate, Decibels, FigureOfMerit, Frequency, Length, Power, Ratio, TimeSpan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::constellations::no_time;
use super::link::no_loss;
use super::radio::{no_decibels, twenty_percent};
use super::{Name, RawCarrier, RawLink, RawModcod};

/// A network: each of its members has one port in it, `net0` for its first network. A frame goes to the member
/// with the destination's MAC address; broadcasts and multicasts go to every member that the sender has an edge
/// to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Network")]
pub struct RawNetwork {
    /// Nodes of any kind, by name; `*` stands for any characters and `?` for one. Members are in the order of the list, then in that of
    /// names. A node is a member once, and of at most 16 networks.
    #[schemars(length(min = 1, max = 10_000), inner(length(min = 1, max = 64)))]
    pub members: Vec<String>,
    /// Members that are not in the network when the lab starts, by name or pattern: they have the port and no
    /// edges until `constel network join` adds them.
    #[serde(default)]
    #[schemars(length(max = 10_000), inner(length(min = 1, max = 64)))]
    pub away: Vec<String>,
    /// The medium that joins the members.
    #[serde(default)]
    pub medium: NetworkMedium,
    /// The rule that determines the edges and their delays. Required with every `medium` but `switched`, which
    /// excludes it.
    pub law: Option<RawLaw>,
    /// Rate, queue and loss of each edge; with `medium: shared` rate and queue are those of each member's
    /// radio. Required with every `medium` but `switched`, which excludes it.
    pub link: Option<RawLink>,
    /// How members share the channel. Only with `medium: shared`.
    pub channel: Option<Channel>,
    /// Gives each member one more port, `mgmt0`, by which this machine and the member reach each other, for
    /// commands and telemetry. It is not emulated, no route of the lab uses it, and members do not reach each
    /// other by it. The addresses are from `addresses.management`.
    #[serde(default)]
    pub management: bool,
}

/// The medium that joins the members of a network.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkMedium {
    /// Each edge is a link with its own rate and queue. A member that sends to two others at once sends to each
    /// at the full rate, and a broadcast occupies each edge for its time.
    #[default]
    Links,
    /// One radio channel. A frame occupies the channel once, at `link`'s rate or that of `by_range`, however
    /// many members receive it; a broadcast is sent at the rate that all members within reach can receive. A
    /// member cannot receive while it sends, and if two frames overlap at a receiver, both are lost there. Only
    /// `driver: relay` supports it.
    Shared,
    /// A learning switch without limits: every member reaches every other at once, without rate, queue, loss
    /// and delay. Further Ethernet addresses behind a port are learned with `driver: relay`, 1,024 per port.
    Switched,
}

/// How members share the channel.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("x-instead" = {
    "slot": "write it in `access`, for example `access: {tdma: {slot: VALUE}}`",
    "window": "write `access: {csma: {window: VALUE}}`"
}))]
pub struct Channel {
    /// When a member may send.
    #[serde(default)]
    pub access: Access,
    /// Duration of the preamble before the bits of each frame.
    #[serde(default = "no_time")]
    #[schemars(extend("x-minimum" = "0 s", "x-maximum" = "1 s"))]
    pub preamble: TimeSpan,
    /// How long a member leaves the channel idle after a frame of its own; with `csma`, after a frame of any
    /// member.
    #[serde(default = "no_time")]
    #[schemars(extend("x-minimum" = "0 s", "x-maximum" = "1 s"))]
    pub guard: TimeSpan,
    /// Chance that a bit is wrong. A frame with a wrong bit is lost, and a long frame therefore more often.
    #[serde(default = "no_loss")]
    pub bit_errors: Ratio,
}

/// When a member of a channel may send.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(rename = "ChannelAccess")]
pub enum Access {
    /// At once.
    Aloha,
    /// When the channel has been idle for `guard` and then for a number of slots that the member draws for each
    /// frame. There are no acknowledgements and so no retransmissions.
    Csma {
        /// Length of a slot. The default is that of 802.11b.
        #[serde(default = "csma_slot")]
        #[schemars(extend("x-minimum" = "1 us", "x-maximum" = "10 s"))]
        slot: TimeSpan,
        /// The number of slots from which a member draws its wait, for each frame.
        #[serde(default = "csma_window")]
        #[schemars(range(min = 1, max = 65_536))]
        window: u32,
    },
    /// In its own slots; slots go round in the order of the members.
    Tdma {
        /// Length of a slot. A frame with its guard must fit in one.
        #[schemars(extend("x-minimum" = "1 us", "x-maximum" = "10 s"))]
        slot: TimeSpan,
    },
    /// At the beginning of the next slot.
    SlottedAloha {
        /// Length of a slot. A frame with its guard must fit in one.
        #[schemars(extend("x-minimum" = "1 us", "x-maximum" = "10 s"))]
        slot: TimeSpan,
    },
}

impl Default for Access {
    fn default() -> Self {
        Self::Csma {
            slot: csma_slot(),
            window: csma_window(),
        }
    }
}

fn csma_slot() -> TimeSpan {
    TimeSpan::from_ns(20_000)
}

fn csma_window() -> u32 {
    32
}

/// The rule of a network's edges. Exactly one of `matrix`, `range` and `over`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(
    rename = "Law",
    extend("oneOf" = [{"required": ["matrix"]}, {"required": ["range"]}, {"required": ["over"]}])
)]
pub struct RawLaw {
    /// A CSV file of one-way delays, relative to the scenario file, of at most 1,100,000 edges. It is a
    /// square or a table. The first line of a square is `delay_ms` (or an empty cell, as R and pandas write it) and the
    /// members' names as receivers. Each line after it is a sender's name and its delays. An empty cell, `NA` or
    /// `NaN` means no edge, so that packets between those two go over other members. A table has the columns `from`,
    /// `to`, `delay_ms` and optionally `rate_bit_per_s` and `loss_ratio`, which replace `link`'s if the cell is not
    /// empty. Its optional column `t_s` is the lab time from which lines hold and replace the earlier ones, in order
    /// of time. Before the first time no edge exists. The letter case of the columns' names does not matter.
    #[schemars(length(min = 1))]
    pub matrix: Option<String>,
    /// Members that are at most this far apart and in line of sight have an edge; its delay is the light time.
    #[schemars(extend("x-exclusive-minimum" = "0 km", "x-maximum" = "1000000 km"))]
    pub range: Option<Length>,
    /// Members are joined by the shortest paths over this constellation, computed at each step: an edge has the
    /// sum of the delays of its path's links, and the least of their rates and of `link`'s. The satellites on
    /// the path are no hops. Members are on the ground; each uses the satellites that the constellation's `gsl`
    /// would select for a station.
    pub over: Option<Name>,
    /// Least height of the line of sight between two members above the Earth, a sphere of the equator's radius;
    /// less if one of them is lower itself. Only with `range`; default `0 km`.
    #[schemars(extend("x-minimum" = "0 km", "x-maximum" = "1000 km"))]
    pub atmosphere: Option<Length>,
    /// Rate and loss by distance, evaluated at each step, nearest first; nearer than the first, `link` holds.
    /// Only with `range`.
    #[serde(default)]
    #[schemars(length(max = 100))]
    pub by_range: Vec<RangeStep>,
    /// Rate and loss by link budget, evaluated at each step: the rate of the modulation and coding that the
    /// distance allows, up to `link.rate`; if it allows none there is no edge. Only with `range`, and instead
    /// of `by_range`.
    pub radio: Option<RawCrosslink>,
}

/// The radio of every member, sender and receiver alike, in free space.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Crosslink")]
pub struct RawCrosslink {
    /// Carrier frequency.
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
    /// Modulation and coding.
    #[serde(default)]
    pub modcod: RawModcod,
    /// With `modcod: dvb-s2`: always this MODCOD instead of the best, such as `8PSK 3/4`.
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

impl RawCrosslink {
    pub(crate) fn budget(&self) -> Budget {
        let Self {
            frequency,
            eirp,
            g_over_t,
            bandwidth,
            losses,
            ..
        } = *self;
        let carrier = RawCarrier {
            frequency,
            eirp,
            g_over_t,
            bandwidth,
            losses,
        };
        carrier.budget()
    }
}

/// The properties of an edge from a distance on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "RangeStep")]
pub struct RangeStep {
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
