//! `access` of links to the ground.

use constel_units::{DataRate, Decibels, RainRate, Ratio, TimeSpan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::link::no_loss;

/// The access of terminals: the name of a preset, or parts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
#[schemars(rename = "Access")]
pub enum RawAccess {
    /// A preset as it is.
    Preset(#[schemars(extend("enum" = constel_link::access::preset_names()))] String),
    /// Parts, or a preset with changes.
    Parts(Box<RawAccessParts>),
}

/// A part of the access that can be switched off.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum AccessPart {
    /// The load of the cell by hour and slot.
    Cell,
    /// The delay that differs from slot to slot.
    Step,
    /// The gap at the beginning of a slot with another satellite.
    Handover,
    /// Gaps within slots.
    Relink,
    /// Slots without service.
    Blockage,
    /// Signal and rain, which scale the rates.
    Sky,
    /// Constant delays of modem, gateway and network.
    Processing,
    /// Turns in a frame.
    Turns,
    /// Requests and grants.
    Grants,
    /// Retransmission at the link layer.
    Retransmission,
    /// Rates.
    Rate,
}

/// The parts of the access. A part that is given replaces that of the preset. Without a preset, all others are off.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "AccessParts")]
pub struct RawAccessParts {
    /// The preset that the parts change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = constel_link::access::preset_names()))]
    pub preset: Option<String>,
    /// Parts of the preset that are switched off.
    #[serde(default)]
    #[schemars(length(max = 11))]
    pub without: Vec<AccessPart>,
    /// Slots of the scheduler. Default: 15 s, from second 12 of each minute of UTC on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<RawAccessSlots>,
    /// The cell that the terminal shares with others. Without it, each poll serves the terminal, and it has the whole rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<RawCell>,
    /// A delay up that is constant within a slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<RawSlotStep>,
    /// A gap at the beginning of a slot, as when the terminal gets another satellite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handover: Option<RawGap>,
    /// A gap at any instant of a slot: the terminal loses its link and finds it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relink: Option<RawGap>,
    /// Slots without service, such as behind a tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blockage: Option<RawBlockage>,
    /// Signal and rain, which scale the rates. Not with `gsl.radio`, which computes both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sky: Option<RawSky>,
    /// From the terminal to the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up: Option<RawLeg>,
    /// From the network to the terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down: Option<RawLeg>,
}

/// Slots of the scheduler: all terminals get new satellites at the same instants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "AccessSlots")]
pub struct RawAccessSlots {
    /// Length of a slot.
    #[schemars(extend("x-minimum" = "1 ms", "x-maximum" = "1 h"))]
    pub period: TimeSpan,
    /// Beginning of a slot after a full minute of UTC; less than `period`.
    #[schemars(extend("x-minimum" = "0 s", "x-maximum" = "1 h"))]
    pub phase: TimeSpan,
}

/// A cell that many terminals share. The load is the probability that a poll serves another terminal. Exactly one of `load`
/// and `load_by_hour` is given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(
    rename = "AccessCell",
    extend("oneOf" = [{"required": ["load"]}, {"required": ["load_by_hour"]}])
)]
pub struct RawCell {
    /// Median load of slots at all hours, at most 98 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<Ratio>,
    /// Median load at each full hour of local mean solar time, from 0 h on, at most 98 %; linear in between.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 24, max = 24))]
    pub load_by_hour: Option<Vec<Ratio>>,
    /// Standard deviation of a slot's load, in units of `ln(load / (1 - load))`.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 5.0))]
    pub spread: f64,
    /// Changes of the load within a slot. The rate has the load of the slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<RawLoadChanges>,
}

/// Changes of a cell's load within a slot. Between two of them the load is constant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "AccessChanges")]
pub struct RawLoadChanges {
    /// Time from one change to the next.
    #[schemars(extend("x-minimum" = "1 ms", "x-maximum" = "10 s"))]
    pub every: TimeSpan,
    /// Standard deviation of the load around that of the slot, in units of `ln(load / (1 - load))`.
    #[schemars(range(min = 0.0, max = 5.0))]
    pub spread: f64,
}

/// A delay that is constant within a slot, or changes once in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "AccessStep")]
pub struct RawSlotStep {
    /// Largest delay of most slots; they are uniform from 0.
    #[schemars(extend("x-minimum" = "0 s", "x-maximum" = "10 s"))]
    pub spread: TimeSpan,
    /// Chance that a slot has a long delay.
    #[serde(default = "no_loss")]
    pub long: Ratio,
    /// Least long delay.
    #[serde(default = "no_delay")]
    #[schemars(extend("x-minimum" = "0 s", "x-maximum" = "10 s"))]
    pub long_min: TimeSpan,
    /// Largest long delay; they are uniform in between.
    #[serde(default = "no_delay")]
    #[schemars(extend("x-minimum" = "0 s", "x-maximum" = "10 s"))]
    pub long_max: TimeSpan,
    /// Chance that a slot draws its delay again, once, at any instant.
    #[serde(default = "no_loss")]
    pub change: Ratio,
}

fn no_delay() -> TimeSpan {
    TimeSpan::from_ns(0)
}

/// An interval in which the link carries nothing, in both directions. Frames that are sent close to its end wait for it,
/// earlier ones are lost. It ends with its slot at the latest. At a handover, frames in transit when it begins are lost, too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "AccessGap")]
pub struct RawGap {
    /// Chance that a slot has the gap.
    pub chance: Ratio,
    /// Median length.
    #[schemars(extend("x-minimum" = "0 s", "x-maximum" = "10 s"))]
    pub median: TimeSpan,
    /// Standard deviation of the natural logarithm of the length.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 5.0))]
    pub spread: f64,
    /// Longest time for which a frame waits. Each gap has its own, uniform from 0 to this.
    #[serde(default = "no_delay")]
    #[schemars(extend("x-minimum" = "0 s", "x-maximum" = "10 s"))]
    pub hold: TimeSpan,
}

/// Slots without service, a chain of two states.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "AccessBlockage")]
pub struct RawBlockage {
    /// Chance that a blocked slot follows a free one.
    pub begin: Ratio,
    /// Chance that a free slot follows a blocked one. Together with `begin` at most 100 %.
    pub end: Ratio,
    /// Service in parts of a blocked slot. Without it, blocked slots have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<RawPartial>,
}

/// Service that comes and goes within a blocked slot: a chain of two states in time (Gilbert 1960).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "AccessPartial")]
pub struct RawPartial {
    /// Chance that a blocked slot has service in parts.
    pub chance: Ratio,
    /// Mean length of an interval without service.
    #[schemars(extend("x-minimum" = "10 ms", "x-maximum" = "1 h"))]
    pub blocked: TimeSpan,
    /// Mean length of an interval with service.
    #[schemars(extend("x-minimum" = "10 ms", "x-maximum" = "1 h"))]
    pub clear: TimeSpan,
    /// Longest time for which a frame waits for service. Each interval has its own, uniform from 0 to this.
    #[serde(default = "no_delay")]
    #[schemars(extend("x-minimum" = "0 s", "x-maximum" = "10 s"))]
    pub hold: TimeSpan,
}

/// Signal of a terminal, and its loss in rain. Rates are proportional to Shannon's `log2(1 + SNR)`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "AccessSky")]
pub struct RawSky {
    /// Ratio of signal to noise with the satellite in the zenith of a clear sky.
    #[schemars(extend("x-minimum" = "-20 dB", "x-maximum" = "60 dB"))]
    pub snr: Decibels,
    /// Largest attenuation by rain, with the wet antenna.
    #[schemars(extend("x-minimum" = "0 dB", "x-maximum" = "60 dB"))]
    pub rain_max: Decibels,
    /// Rain rate at which the attenuation is 63 % of the largest.
    #[schemars(extend("x-minimum" = "0.01 mm/h", "x-maximum" = "1000 mm/h"))]
    pub rain: RainRate,
}

/// One direction of the access. A key that is absent has the preset's value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "AccessLeg")]
pub struct RawLeg {
    /// Constant delay of modem, gateway and network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "0 s", "x-maximum" = "10 s"))]
    pub processing: Option<TimeSpan>,
    /// Time from one turn of the terminal to the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "100 us", "x-maximum" = "10 s"))]
    pub turns: Option<TimeSpan>,
    /// Requests and grants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grants: Option<RawGrants>,
    /// Retransmission at the link layer. Frames stay in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retransmission: Option<RawRetransmission>,
    /// Rate. Without it, the link's rate applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RawAccessRate>,
}

/// Requests and grants: a terminal requests in its turn, and gets a grant at a poll after that.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "AccessGrants")]
pub struct RawGrants {
    /// Time from a request to the first poll that can answer it.
    #[schemars(extend("x-minimum" = "0 s", "x-maximum" = "10 s"))]
    pub request: TimeSpan,
    /// Time from one poll to the next.
    #[schemars(extend("x-minimum" = "100 us", "x-maximum" = "10 s"))]
    pub period: TimeSpan,
}

/// Retransmission at the link layer. All frames of one turn share their fate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "AccessRetransmission")]
pub struct RawRetransmission {
    /// Chance that a transmission fails.
    pub chance: Ratio,
    /// Time that each further transmission takes.
    #[schemars(extend("x-minimum" = "0 s", "x-maximum" = "10 s"))]
    pub again: TimeSpan,
    /// Number of transmissions after which a frame is lost.
    #[schemars(range(min = 1, max = 16))]
    pub transmissions: u32,
}

/// The rate of one direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "AccessRate")]
pub struct RawAccessRate {
    /// Rate of a terminal that is alone in its cell, with the satellite in the zenith of a clear sky.
    #[schemars(extend("x-minimum" = "1 kbit/s", "x-maximum" = "400 Gbit/s"))]
    pub alone: DataRate,
    /// Standard deviation of the natural logarithm of a slot's rate, in addition to the cell's load.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 5.0))]
    pub spread: f64,
}
