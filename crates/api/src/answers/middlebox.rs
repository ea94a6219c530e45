//! Replies of a box: its interfaces, and its rules with their counters.

use std::collections::BTreeMap;

use constel_link::{EdgeCounters, PlaneReport, Quantiles};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::LabRow;

/// To [`Read::Rules`](crate::Read::Rules).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BoxShown {
    /// As `state` answers.
    #[serde(flatten)]
    pub lab: LabRow,
    /// `shared`: the host's own frames on the interfaces stay the host's; `exclusive`: all frames go through the box.
    pub mode: String,
    /// Seed of every random choice.
    pub seed: u64,
    /// The interfaces; forward is from the first to the second.
    pub interfaces: Vec<WireShown>,
    /// The rules, in their order.
    pub rules: Vec<RuleShown>,
    /// Frames that no rule takes; they go on untouched.
    pub unmatched: BTreeMap<String, DirectionCounters>,
    /// Frames that matched rules which no longer exist, or which were changed and then removed.
    pub removed: EdgeCounters,
    /// Seconds until the box takes itself down unless a user confirms it. Absent if no confirmation is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm_within_s: Option<f64>,
    /// The link plane. Absent until it exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relay: Option<PlaneReport>,
}

/// An interface of a box.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WireShown {
    /// Name of the interface.
    pub name: String,
    /// Ethernet address.
    pub mac: String,
    /// MTU, bytes.
    pub mtu: u32,
    /// Frames that it sent.
    pub sent: u64,
    /// Frames that it refused because its link was down or its queue was full.
    pub refused: u64,
}

/// A rule with its counters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RuleShown {
    /// Its name.
    pub name: String,
    /// The rule as it is written.
    pub rule: Value,
    /// Counters by direction: `forward`, `reverse`.
    pub directions: BTreeMap<String, DirectionCounters>,
}

/// Counters of a rule in one direction. The first eight are the columns of NIST Net.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DirectionCounters {
    /// Frames that matched.
    pub frames: u64,
    /// Bytes of these frames, with Ethernet headers.
    pub bytes: u64,
    /// Number of these frames that were dropped, for any cause.
    pub drops: u64,
    /// Copies that were made.
    pub duplicates: u64,
    /// Frames inside at the moment: waiting or delayed.
    pub queue_frames: u64,
    /// Bits per second since its first frame.
    pub average_bps: f64,
    /// Bits per second in the last whole second.
    pub present_bps: f64,
    /// How long ago its last frame came, seconds; `None`: none came.
    pub last_frame_s: Option<f64>,
    /// Bytes that wait for service.
    pub queue_bytes: u64,
    /// How long frames were inside, from their arrival until they were sent; of the rule as it is since it last changed.
    /// Absent where none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inside: Option<Quantiles>,
    /// Lateness of these frames: the delay that the host added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness: Option<Quantiles>,
    /// Everything that its edge counts.
    pub counters: EdgeCounters,
    /// The current path through a constellation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<ViaShown>,
}

/// A path through a constellation at a moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ViaShown {
    /// One-way delay, nanoseconds. `null`: there is no path at the moment.
    pub delay_ns: Option<u64>,
    /// The satellites it leads over, in their order.
    pub satellites: Vec<String>,
    /// Rate that the radio allows, bits per second. Absent without radio, and without a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub radio_bps: Option<u64>,
}

/// To [`Write::ChangeRules`](crate::Write::ChangeRules).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RulesChanged {
    /// The names of all rules, in their order, as they are now.
    pub rules: Vec<String>,
    /// Warnings about rules that no packet can reach now.
    pub warnings: Vec<String>,
    /// Time from the request to the first frame under the new rules, nanoseconds.
    pub took_ns: u64,
}
