//! The file of rules of a box: which frames are meant, and what happens to them.

use std::borrow::Cow;

use constel_units::{DataRate, DataSize, Ratio, TimeSpan};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::aqm::RawAqm;
use super::constellations::no_time;
use super::kinds::Name;
use super::link::{RawDelayTrace, RawJitter, RawLossLaw, RawRateLaw, RawReorder, no_loss};
use super::via::RawVia;

/// Rules of a box, in their order: the first that takes a frame says what happens to it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Box")]
pub struct RawRuleFile {
    /// Seed of every random choice.
    #[serde(default = "first_seed", skip_serializing_if = "is_first_seed")]
    pub seed: u64,
    /// The rules, at most 4,096. Frames that none takes go on untouched.
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

/// A rule. It is about both directions (`both`), or about one or each by itself (`forward`, `reverse`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Rule")]
pub struct RawRule {
    /// Its name, which no other rule has. Default: `rule-` and its place, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Name>,
    /// The frames it is about, as they go forward, from the box's first interface to its second. In reverse `in` and
    /// `out`, `src` and `dst`, `sport` and `dport`, `smac` and `dmac` change places. Without it, all frames.
    #[serde(
        rename = "match",
        default,
        skip_serializing_if = "RawMatch::is_everything"
    )]
    pub matching: RawMatch,
    /// What happens to them in both directions: `pass`, `drop`, or a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub both: Option<RawAction>,
    /// What happens to them on the way forward. Without it, and without `both`, the rule is not about that way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward: Option<RawAction>,
    /// What happens to them on the way back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
        // Bounded, so that 4,096 rules are of a bounded size.
        let text = json_schema!({"type": "string", "minLength": 1});
        json_schema!({"anyOf": [
            text, {"type": "array", "items": text, "minItems": 1, "maxItems": 16}
        ]})
    }
}

/// The frames a rule is about: those that have one of the values of each key. Each key takes one value or a list of up to
/// 16. Frames without such a field (a port of ARP, or of a fragment that is not its packet's first) are not meant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Match")]
pub struct RawMatch {
    /// Interface of the box that they come in at, or the machine plugged into it. Not with a router, which does not know it.
    #[serde(rename = "in", default, skip_serializing_if = "OneOrMore::is_empty")]
    pub input: OneOrMore,
    /// Interface that they go out on. What goes out on several (a hub's broadcasts, and frames for somebody unknown) has none.
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
    /// VLAN of the outermost tag (802.1Q or 802.1ad), 0 to 4095; or `untagged`. All other keys look behind that tag.
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

/// What happens to frames: a word, or a path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RawAction {
    /// A word.
    Word(PassOrDrop),
    /// A path.
    Path(Box<RawPath>),
}

/// What happens to frames, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PassOrDrop {
    /// They go on at once, untouched.
    Pass,
    /// None arrives.
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

/// What a path does to frames in one direction: service at a rate, a queue in front of it, then the way, with loss, jitter
/// and damage. The keys are those of a link of a scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Path")]
pub struct RawPath {
    /// Delay. Without it and without `preset`, none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "0 s", "x-maximum" = "60 s"))]
    pub delay: Option<TimeSpan>,
    /// The delay of a kind of orbit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<PathPreset>,
    /// A way through a constellation, instead of `delay`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<RawVia>,
    /// Bits per second on the wire, Ethernet header included. Without it and without `rate_law`, nothing waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "1 kbit/s", "x-maximum" = "400 Gbit/s"))]
    pub rate: Option<DataRate>,
    /// A rate that changes in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_law: Option<RawRateLaw>,
    /// Bytes that each frame takes besides its own, for framing; at most 64 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "0 B", "x-maximum" = "64 KiB"))]
    pub overhead: Option<DataSize>,
    /// Bytes that may wait to be sent; a frame that does not fit is dropped. Default `128 KiB`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "1514 B", "x-maximum" = "1 GiB"))]
    pub queue: Option<DataSize>,
    /// Frames that may wait to be sent, besides the limit in bytes. Without it there is no such limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub queue_frames: Option<u32>,
    /// Queue discipline. Without it the queue is first in, first out, and drops at its limits only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aqm: Option<RawAqm>,
    /// Chance that a frame is lost, each frame by itself.
    #[serde(default = "no_loss", skip_serializing_if = "is_none")]
    pub loss: Ratio,
    /// A loss law with memory, instead of `loss`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_law: Option<RawLossLaw>,
    /// A recording of delays, instead of `delay`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_trace: Option<RawDelayTrace>,
    /// What is added to the delay, frame by frame. Frames stay in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<RawJitter>,
    /// Some frames are held back, so that others overtake them. Nothing else changes their order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reorder: Option<RawReorder>,
    /// Chance that a frame arrives twice.
    #[serde(default = "no_loss", skip_serializing_if = "is_none")]
    pub duplicate: Ratio,
    /// Chance that one bit of a frame, behind its Ethernet header, is flipped.
    #[serde(default = "no_loss", skip_serializing_if = "is_none")]
    pub corrupt: Ratio,
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
