//! A link: its current state, and its manual settings.

use std::fmt;

use constel_link::{EdgeStats, Effects, Loss, PortId};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Catalogued, NodeForwarding};
use crate::request::NodeChange;

/// To [`Read::Link`](crate::Read::Link).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkShown {
    /// One end's node.
    pub a: String,
    /// The other end's node.
    pub b: String,
    /// Whether any edge exists between the two.
    pub up: bool,
    /// The reason why it is up or down, for users.
    pub why: String,
    /// The edges from `a` to `b`, then those back.
    pub edges: Vec<EdgeShown>,
    /// Lab time, nanoseconds; `None` while the clock is held.
    pub t_ns: Option<u64>,
    /// Catalogue names of the satellites named above. Absent if none is from a catalogue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub catalogued: Vec<Catalogued>,
    /// The packet counters, over all links, of those of the two nodes that have no network stack. Absent if both have one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forwarding: Vec<NodeForwarding>,
}

/// One direction of a link, with all effects in force.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EdgeShown {
    /// Source of the edge, as `NODE/PORT`.
    pub from: String,
    /// Destination of the edge, as `NODE/PORT`.
    pub to: String,
    /// Propagation delay now, nanoseconds.
    pub delay_ns: Option<u64>,
    /// Change of the delay, nanoseconds per second; negative when the ends approach.
    pub slope_ns_per_s: Option<i64>,
    /// Service rate, bit/s; of a rate that changes in time the mean. `None`: service takes no time.
    pub rate_bps: Option<u64>,
    /// Bytes that may wait for service.
    pub queue_bytes: Option<u64>,
    /// Loss by the scenario's link budget, without that of `effects`.
    pub loss: Option<Loss>,
    /// Effects that the scenario and manual changes add to the geometry.
    pub effects: BriefEffects,
    /// Counters of the link driver. `null` for an edge that the driver has never had.
    pub counters: Option<EdgeStats>,
    /// Frames of the whole port `from` that were dropped because the port was flooded, which the scenario did not request.
    /// `null` for drivers that cannot count this.
    pub dropped_share: Option<u64>,
}

/// To [`Write::SetLink`](crate::Write::SetLink).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkSet {
    /// When it took effect, `CLOCK_MONOTONIC`.
    pub at_mono_ns: u64,
    /// Both directions, with all that is set on each now; of a port, all edges that leave it at this moment.
    pub edges: Vec<EdgeSet>,
    /// The port it was set on, as `NODE/PORT`; absent for a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,
    /// The state of routes after the change.
    #[serde(default)]
    pub routes: RoutesAfter,
}

/// The current state of a network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkShown {
    /// Its name.
    pub network: String,
    /// Members of the network, in order.
    pub members: Vec<MemberShown>,
}

/// A member of a network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemberShown {
    /// Its node.
    pub node: String,
    /// Port of the member in the network.
    pub port: String,
    /// Whether it is in it now.
    pub joined: bool,
    /// How many other members it has an edge to.
    pub edges: usize,
}

/// To [`Write::SetMember`](crate::Write::SetMember).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemberSet {
    /// When it took effect, `CLOCK_MONOTONIC`.
    pub at_mono_ns: u64,
    /// The network.
    pub network: String,
    /// The member.
    pub node: String,
    /// Whether it is in it now.
    pub joined: bool,
    /// Whether that is new.
    pub changed: bool,
    /// The state of routes after the change.
    pub routes: RoutesAfter,
}

/// To [`Write::SetNodes`](crate::Write::SetNodes).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodesSet {
    /// The change.
    pub change: NodeChange,
    /// The nodes that it changed.
    pub nodes: Vec<String>,
    /// The nodes that were so already.
    pub unchanged: Vec<String>,
    /// When links failed or processes were signalled, `CLOCK_MONOTONIC`.
    pub at_mono_ns: u64,
    /// Lab time by which links that heal are there again, nanoseconds: the beginning of a step. Absent if none heals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub links_from_ns: Option<u64>,
    /// How many processes got a signal.
    pub processes: usize,
    /// The state of routes after the change.
    pub routes: RoutesAfter,
}

/// To [`Write::SetDelays`](crate::Write::SetDelays).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DelaysSet {
    /// When it took effect, `CLOCK_MONOTONIC`.
    pub at_mono_ns: u64,
    /// The network.
    pub network: String,
    /// How many edges it changed.
    pub edges: usize,
}

/// The delay of one edge of a network, set by hand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DelaySet {
    /// The sending member.
    pub from: String,
    /// The receiving member.
    pub to: String,
    /// One way, nanoseconds.
    pub delay_ns: u64,
}

/// The range of several delays, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DelayRange {
    /// The least.
    pub min_ns: u64,
    /// The median; of an even number, the mean of the two in the middle.
    pub median_ns: u64,
    /// The greatest.
    pub max_ns: u64,
}

impl DelayRange {
    /// Returns the range of delays, nanoseconds; `None` without delays.
    #[must_use]
    pub fn of(mut delays_ns: Vec<u64>) -> Option<Self> {
        delays_ns.sort_unstable();
        let upper = *delays_ns.get(delays_ns.len() / 2)?;
        let lower = delays_ns[(delays_ns.len() - 1) / 2];
        Some(Self {
            min_ns: *delays_ns.first()?,
            median_ns: lower + (upper - lower) / 2,
            max_ns: *delays_ns.last()?,
        })
    }
}

/// The state of routes after a manual change of a link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum RoutesAfter {
    /// No link failed or recovered, so routes are as before.
    #[default]
    Untouched,
    /// All kernels have routes around the failure.
    Converged {
        /// Counted from when the change took effect, nanoseconds.
        after_ns: u64,
    },
    /// Not all kernels have them yet, or the lab ends.
    NotYet {
        /// How long they were waited for, nanoseconds.
        waited_ns: u64,
    },
    /// The request has the option not to wait.
    NotAwaited,
    /// Constel does not make routes that all nodes know at once: routing daemons, messages between nodes, or users do.
    NotOurs,
}

/// The manual settings of one edge.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EdgeSet {
    /// Source of the edge.
    pub from: PortId,
    /// Destination of the edge.
    pub to: PortId,
    /// The settings.
    pub effects: BriefEffects,
}

/// [`Effects`] in brief: the same JSON, except that lists of more than 32 values, which are recordings, become the text `N
/// values`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BriefEffects(Map<String, Value>);

impl BriefEffects {
    /// Longer lists than this are recordings.
    const LONGEST: usize = 32;

    /// Shortens.
    #[must_use]
    pub fn of(effects: &Effects) -> Self {
        match serde_json::to_value(effects) {
            Ok(Value::Object(mut map)) => {
                map.values_mut().for_each(shorten);
                Self(map)
            }
            // `Effects` is a structure of plain values: it always is an object.
            _ => Self::default(),
        }
    }

    /// Whether nothing is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The effects themselves; `None` when a recording was shortened.
    #[must_use]
    pub fn effects(&self) -> Option<Effects> {
        Effects::deserialize(Value::Object(self.0.clone())).ok()
    }
}

fn shorten(value: &mut Value) {
    match value {
        Value::Array(list) if list.len() > BriefEffects::LONGEST => {
            *value = json!(format!("{} values", list.len()));
        }
        Value::Array(list) => list.iter_mut().for_each(shorten),
        Value::Object(map) => map.values_mut().for_each(shorten),
        _ => {}
    }
}

impl fmt::Display for BriefEffects {
    /// As one line of JSON.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = serde_json::to_string(&self.0).map_err(|_| fmt::Error)?;
        f.write_str(&text)
    }
}

impl JsonSchema for BriefEffects {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "BriefEffects".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "description": "Effects, but lists of more than 32 values stand as the text `N values`.",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use constel_link::LossLaw;

    #[test]
    fn only_recordings_are_shortened() {
        let lost = |count| Effects {
            loss: Some(LossLaw::Trace {
                lost: vec![true; count],
            }),
            delay_ns: Some(5),
            ..Effects::default()
        };
        let long = BriefEffects::of(&lost(33));
        assert_eq!(
            long.to_string(),
            r#"{"delay_ns":5,"loss":{"trace":{"lost":"33 values"}}}"#
        );
        assert_eq!(long.effects(), None);
        assert_eq!(BriefEffects::of(&lost(32)).effects(), Some(lost(32)));
        assert!(BriefEffects::of(&Effects::default()).is_empty());
    }

    #[test]
    fn a_range_has_the_median_whatever_the_order() {
        let range = |delays: &[u64]| {
            DelayRange::of(delays.to_vec()).map(|r| (r.min_ns, r.median_ns, r.max_ns))
        };
        assert_eq!(range(&[]), None);
        assert_eq!(range(&[7]), Some((7, 7, 7)));
        assert_eq!(range(&[9, 1, 4]), Some((1, 4, 9)));
        assert_eq!(range(&[u64::MAX, 4, 0, 10]), Some((0, 7, u64::MAX)));
    }
}
