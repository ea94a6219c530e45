//! The file of rules of a box: matches of frames, and actions on them.

use std::borrow::Cow;

use constel_link::{Effects, Reorder};
use constel_units::{DataRate, DataSize, Ratio, TimeSpan};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::aqm::RawAqm;
use super::constellations::no_time;
use super::kinds::Name;
use super::link::{
    RawDelayTrace, RawJitter, RawLossLaw, RawRateLaw, RawReorder, no_loss, with_effects,
};
use super::via::RawVia;

/// Rules of a box, in their order: the first rule that matches a frame determines its action.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Box")]
pub struct RawRuleFile {
    /// Seed of every random choice.
    #[serde(default = "first_seed", skip_serializing_if = "is_first_seed")]
    pub seed: u64,
    /// The rules, at most 4,096. Frames that no rule matches pass unchanged.
    #[serde(default)]
    #[schemars(length(max = 4096))]
    pub rules: Vec<RawRule>,
}

pub(crate) fn first_seed() -> u64 {
    1
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde asks for a reference"
)]
fn is_first_seed(seed: &u64) -> bool {
    *seed == first_seed()
}

/// A rule. It applies to both directions (`both`), or to one or each separately (`forward`, `reverse`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Rule")]
pub struct RawRule {
    /// The rule's name, which no other rule has. Default: `rule-` and its number, counted from 1.
    pub name: Option<Name>,
    /// The frames that the rule matches, in the forward direction: from the box's first interface to its
    /// second. In reverse `in` and `out`, `src` and `dst`, `sport` and `dport`, `smac` and `dmac` change
    /// places. Without it, all frames.
    #[serde(
        rename = "match",
        default,
        skip_serializing_if = "RawMatch::is_everything"
    )]
    pub matching: RawMatch,
    /// The action on matching frames in both directions: `pass`, `drop`, or a path.
    pub both: Option<RawAction>,
    /// The action on forward frames. Without it, and without `both`, the rule does not match forward frames.
    pub forward: Option<RawAction>,
    /// The action on reverse frames.
    pub reverse: Option<RawAction>,
}

/// One text, or a list of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OneOrMore(pub Vec<String>);

impl OneOrMore {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for OneOrMore {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [one] => one.serialize(serializer),
            more => more.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for OneOrMore {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            One(String),
            More(Vec<String>),
        }
        Ok(Self(match Written::deserialize(deserializer)? {
            Written::One(one) => vec![one],
            Written::More(more) => more,
        }))
    }
}

impl JsonSchema for OneOrMore {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "OneOrMore".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        // The length is bounded, so that 4,096 rules have a bounded size.
        let text = json_schema!({"type": "string", "minLength": 1});
        json_schema!({"anyOf": [
            text, {"type": "array", "items": text, "minItems": 1, "maxItems": 16}
        ]})
    }
}

/// The match of a rule: frames that have one of the values of each key. Each key takes one value or a list of
/// up to 16. Frames without such a field do not match (a port of ARP, or of a fragment that is not its packet's
/// first).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Match")]
pub struct RawMatch {
    /// Ingress interface of the box, or the machine plugged into it. Not with a router, which does not know it.
    #[serde(rename = "in", default, skip_serializing_if = "OneOrMore::is_empty")]
    pub input: OneOrMore,
    /// Egress interface. Frames that leave on several interfaces (a hub's broadcasts, and frames for an unknown
    /// address) have none.
    #[serde(rename = "out", default, skip_serializing_if = "OneOrMore::is_empty")]
    pub output: OneOrMore,
    /// Source address: one, or a block such as `10.0.0.0/8` or `2001:db8::/32`.
    #[serde(default, skip_serializing_if = "OneOrMore::is_empty")]
    pub src: OneOrMore,
    /// Destination address: one, or a block.
    #[serde(default, skip_serializing_if = "OneOrMore::is_empty")]
    pub dst: OneOrMore,
    /// Protocol of IP: `icmp`, `tcp`, `udp`, `sctp`, `dccp`, `udplite`, `icmpv6`, `gre`, `esp`, `ah`, `ospf`, `igmp`, `ipip`,
    /// `ipv6`, or a number up to 255.
    #[serde(default, skip_serializing_if = "OneOrMore::is_empty")]
    pub protocol: OneOrMore,
    /// Source port of TCP, UDP, SCTP, DCCP and UDP-Lite: one, or a range such as `5000-5010`.
    #[serde(default, skip_serializing_if = "OneOrMore::is_empty")]
    pub sport: OneOrMore,
    /// Destination port: one, or a range.
    #[serde(default, skip_serializing_if = "OneOrMore::is_empty")]
    pub dport: OneOrMore,
    /// Differentiated services code point: `ef`, `cs0` to `cs7`, `af11` to `af43`, `be`, `le`, `va`, or 0 to 63.
    #[serde(default, skip_serializing_if = "OneOrMore::is_empty")]
    pub dscp: OneOrMore,
    /// The whole traffic class (in IPv4: type of service), ECN's bits among them: 0 to 255, or `0x00` to `0xff`.
    #[serde(default, skip_serializing_if = "OneOrMore::is_empty")]
    pub traffic_class: OneOrMore,
    /// VLAN of the outermost tag (802.1Q or 802.1ad), 0 to 4095; or `untagged`. All other keys match the fields
    /// after that tag.
    #[serde(default, skip_serializing_if = "OneOrMore::is_empty")]
    pub vlan: OneOrMore,
    /// Ethernet address at either end, such as `02:00:00:00:00:01`.
    #[serde(default, skip_serializing_if = "OneOrMore::is_empty")]
    pub mac: OneOrMore,
    /// Ethernet address of the source.
    #[serde(default, skip_serializing_if = "OneOrMore::is_empty")]
    pub smac: OneOrMore,
    /// Ethernet address of the destination.
    #[serde(default, skip_serializing_if = "OneOrMore::is_empty")]
    pub dmac: OneOrMore,
    /// EtherType: `ipv4`, `ipv6`, `arp`, `vlan`, `qinq`, `mpls`, `pppoe`, `lldp`, `ptp`, or a number such as `0x88b5`.
    #[serde(default, skip_serializing_if = "OneOrMore::is_empty")]
    pub ethertype: OneOrMore,
}

impl RawMatch {
    pub(crate) fn is_everything(&self) -> bool {
        *self == Self::default()
    }
}

/// The action on frames: a word, or a path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RawAction {
    /// A word.
    Word(PassOrDrop),
    /// A path.
    Path(Box<RawPath>),
}

/// The action on frames, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PassOrDrop {
    /// The frames pass on at once, unchanged.
    Pass,
    /// The frames are dropped.
    Drop,
}

impl JsonSchema for RawAction {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Action".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let path = generator.subschema_for::<RawPath>();
        json_schema!({"anyOf": [{"const": "pass"}, {"const": "drop"}, path]})
    }
}

with_effects! {
(, skip_serializing_if = "is_none")
/// The effect of a path on frames in one direction: a queue, service at a rate, then propagation, with loss,
/// jitter and damage. The keys are those of a link of a scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Path")]
pub struct RawPath {
    /// Delay. Without it and without `preset`, none.
    #[schemars(extend("x-minimum" = "0 s", "x-maximum" = "60 s"))]
    pub delay: Option<TimeSpan>,
    /// The delay of a kind of orbit.
    pub preset: Option<PathPreset>,
    /// A path through a constellation, instead of `delay`.
    pub via: Option<RawVia>,
    /// Bits per second on the wire, Ethernet header included. Without it and without `rate_law`, frames are not
    /// queued.
    #[schemars(extend("x-minimum" = "1 kbit/s", "x-maximum" = "400 Gbit/s"))]
    pub rate: Option<DataRate>,
    /// A rate that changes over time.
    pub rate_law: Option<RawRateLaw>,
    /// Framing bytes that each frame takes in addition to its own; at most 64 KiB.
    #[schemars(extend("x-minimum" = "0 B", "x-maximum" = "64 KiB"))]
    pub overhead: Option<DataSize>,
    /// Bytes that may wait to be sent; a frame that does not fit is dropped. Default `128 KiB`.
    #[schemars(extend("x-minimum" = "1514 B", "x-maximum" = "1 GiB"))]
    pub queue: Option<DataSize>,
    /// Frames that may wait to be sent, besides the limit in bytes. Without it there is no such limit.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub queue_frames: Option<u32>,
    /// Queue discipline. Without it the queue is first in, first out, and drops at its limits only.
    pub aqm: Option<RawAqm>,
    /// Chance that a frame is lost, each frame by itself.
    #[serde(default = "no_loss", skip_serializing_if = "is_none")]
    pub loss: Ratio,
    /// A loss law with memory, instead of `loss`.
    pub loss_law: Option<RawLossLaw>,
    /// A recording of delays, instead of `delay`.
    pub delay_trace: Option<RawDelayTrace>,
    /// Random addition to the delay of each frame. Frames stay in order.
    pub jitter: Option<RawJitter>,
}
}

fn is_none(ratio: &Ratio) -> bool {
    *ratio == no_loss()
}

impl RawPath {
    pub(crate) fn delay_of(&self) -> TimeSpan {
        let preset = || self.preset.map(PathPreset::delay);
        self.delay.or_else(preset).unwrap_or_else(no_time)
    }
}

/// Delays by kind of orbit: half of the round trips with which Mehta et al. (2023) emulated satellite links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PathPreset {
    /// 150 ms.
    Leo,
    /// 200 ms.
    Meo,
    /// 250 ms.
    Geo,
}

impl PathPreset {
    /// One way.
    #[must_use]
    pub fn delay(self) -> TimeSpan {
        TimeSpan::from_ns(match self {
            Self::Leo => 150_000_000,
            Self::Meo => 200_000_000,
            Self::Geo => 250_000_000,
        })
    }
}
