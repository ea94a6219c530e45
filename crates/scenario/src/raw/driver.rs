//! Which driver carries the frames, how exactly, and how late they may be.

use std::borrow::Cow;

use constel_link::DriverKind;
use constel_units::TimeSpan;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How links are made real.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Links")]
pub struct RawLinks {
    /// Which driver carries the frames.
    #[serde(default)]
    pub driver: DriverChoice,
    /// Frames leave when they are due or at the next whole multiple of this time, all together: up to so much later
    /// each, but the processors that thousands of nodes need are not spent on exactness. Counted as lateness. Only
    /// with `driver: relay`; default `0 s`: each at its own time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "0 s", "x-maximum" = "1 ms"))]
    pub grain: Option<TimeSpan>,
    /// How much later than due the emulator may let frames go: a run in which more than one frame of a hundred was later
    /// is not trustworthy. Not less than `grain`. Say in the scenario why more than the default does no harm. Not with
    /// `driver: netem`, which cannot know.
    #[serde(default = "one_millisecond")]
    #[schemars(extend("x-minimum" = "1 us", "x-maximum" = "10 ms"))]
    pub max_lateness: TimeSpan,
    /// Threads of the relay, which divide the nodes among them: 1 to 8, and no more than the machine has processors for the lab;
    /// or `auto`: one on a machine of up to 3 processors and for a lab on several machines, else a quarter of the processors and
    /// one more, 4 at most. Paths, losses and delays are the same with any number. Only with `driver: relay`; each
    /// machine of a lab on several has so many.
    #[serde(default, skip_serializing_if = "Threads::is_auto")]
    pub threads: Threads,
    /// What becomes of the time that a node's network stack takes to pass a frame on. Only with `driver: relay`.
    #[serde(default, skip_serializing_if = "StackTime::is_deducted")]
    pub stack_time: StackTime,
}

/// What becomes of the time that nodes' network stacks take.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum StackTime {
    /// A frame that a node passes on enters its next link at the instant at which it was due at the node: paths of many hops take
    /// as long as their links say. Where the stack took longer than the link takes, the frame is late, and counted so.
    #[default]
    Deducted,
    /// It comes on top of what links take, hop by hop.
    Added,
}

impl StackTime {
    pub(crate) fn is_deducted(&self) -> bool {
        *self == StackTime::Deducted
    }
}

/// How many threads the relay has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Threads {
    /// As the machine allows.
    #[default]
    Auto,
    /// So many.
    Count(u8),
}

impl Threads {
    pub(crate) fn is_auto(&self) -> bool {
        *self == Threads::Auto
    }
}

impl Serialize for Threads {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Threads::Auto => serializer.serialize_str("auto"),
            Threads::Count(count) => serializer.serialize_u8(*count),
        }
    }
}

impl<'de> Deserialize<'de> for Threads {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Count(u8),
            Word(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Count(count) => Ok(Threads::Count(count)),
            Written::Word(word) if word == "auto" => Ok(Threads::Auto),
            Written::Word(word) => Err(D::Error::custom(format!("`{word}` is not `auto`"))),
        }
    }
}

impl JsonSchema for Threads {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Threads".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [
            {"const": "auto"}, {"type": "integer", "minimum": 1, "maximum": 8}
        ]})
    }
}

impl Default for RawLinks {
    fn default() -> Self {
        Self {
            driver: DriverChoice::default(),
            grain: None,
            max_lateness: one_millisecond(),
            threads: Threads::Auto,
            stack_time: StackTime::Deducted,
        }
    }
}

fn one_millisecond() -> TimeSpan {
    TimeSpan::from_ns(1_000_000)
}

/// Which driver carries the frames.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum DriverChoice {
    /// The best this host can do; the run's manifest says which and why.
    #[default]
    Auto,
    /// Threads of Constel move all frames: every effect, the most exact. Linux 6.8 or newer.
    Relay,
    /// The kernel moves all frames: departure times by BPF, kept by fq. Linux 6.1 or newer with `sch_fq`; no jitter,
    /// reordering, duplication, bit errors, and Bernoulli loss only.
    Edt,
    /// The kernel's own emulator, to compare with. What `edt` lacks; and delays stay as they are for a step, changes
    /// are made link by link, and losses do not follow from the seed. Needs `sch_netem` and `sch_htb`.
    Netem,
}

impl DriverChoice {
    /// The driver asked for; `None`: any.
    #[must_use]
    pub fn kind(self) -> Option<DriverKind> {
        match self {
            DriverChoice::Auto => None,
            DriverChoice::Relay => Some(DriverKind::Relay),
            DriverChoice::Edt => Some(DriverKind::Edt),
            DriverChoice::Netem => Some(DriverKind::Netem),
        }
    }
}
