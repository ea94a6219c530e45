//! The driver that carries the frames, its exactness, and the allowed lateness.

use std::borrow::Cow;

use constel_link::DriverKind;
use constel_units::TimeSpan;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The driver of the links and its settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Links")]
pub struct RawLinks {
    /// The driver that carries the frames.
    #[serde(default)]
    pub driver: DriverChoice,
    /// Frames leave when they are due or at the next whole multiple of this time, all together. Each is later
    /// by up to this time, but the emulator saves the processor time that exactness costs with thousands of
    /// nodes. It counts as lateness. Only with `driver: relay`; default `0 s`: each frame leaves at its own
    /// time.
    #[schemars(extend("x-minimum" = "0 s", "x-maximum" = "1 ms"))]
    pub grain: Option<TimeSpan>,
    /// Largest allowed lateness of frames: a run in which more than 1 % of the frames were later is not
    /// trustworthy. Not less than `grain`. A value above the default needs a reason in the scenario why it does
    /// no harm. Not with `driver: netem`, which cannot measure lateness.
    #[serde(default = "one_millisecond")]
    #[schemars(extend("x-minimum" = "1 us", "x-maximum" = "10 ms"))]
    pub max_lateness: TimeSpan,
    /// Threads of the relay, which divide the nodes among them: 1 to 8, and no more than the machine has
    /// processors for the lab. `auto` is one on a machine of up to 3 processors and for a lab on several
    /// machines, else a quarter of the processors and one more, 4 at most. Paths, losses and delays do not
    /// depend on the number. Only with `driver: relay`; each machine of a lab on several has this number.
    #[serde(default)]
    pub threads: Threads,
    /// Whether the time that a node's network stack takes to pass a frame on is deducted. Only with `driver:
    /// relay`.
    #[serde(default)]
    pub stack_time: StackTime,
    /// Whether interfaces of nodes lose their carrier when their link is down.
    #[serde(default)]
    pub carrier: PortCarrier,
    /// A CSV file of lasers and cables that are switched off and on, by your own controller or recorded from a live policy. Columns:
    /// `t_s` (lab time), `a`, `b` (the nodes at its ends), `up` (`1` on, `0` off). A row holds until the next one of its link. A
    /// link that is on is up as far as orbits and failures allow. Relative to the scenario file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub choices: Option<String>,
}

/// The carrier of nodes' interfaces.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum PortCarrier {
    /// Interfaces always have their carrier, and frames over a link that is down are dropped. Software notices by timeouts.
    #[default]
    Always,
    /// An interface without a link has no carrier, within 20 ms: of lasers, cables, and the ground radio of stations and terminals.
    /// A handover leaves the station's radio its carrier. Ground radios of satellites and interfaces of networks, which have several
    /// far ends, always have it.
    Follows,
}

/// The accounting of the time that nodes' network stacks take.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum StackTime {
    /// A frame that a node passes on enters its next link at the instant at which it was due at the node. The
    /// delay of a path is therefore the sum of its links' delays, whatever the number of hops. If the stack takes longer
    /// than the link, the frame is late and counted as late.
    #[default]
    Deducted,
    /// The time of the stack is added to the delays of the links, hop by hop.
    Added,
}

/// The number of the relay's threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Threads {
    /// A number that fits the machine.
    #[default]
    Auto,
    /// So many.
    Count(u8),
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
            carrier: PortCarrier::Always,
            choices: None,
        }
    }
}

fn one_millisecond() -> TimeSpan {
    TimeSpan::from_ns(1_000_000)
}

/// The driver that carries the frames.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum DriverChoice {
    /// The best driver that this host supports; the run's manifest names it and the reason.
    #[default]
    Auto,
    /// Threads of Constel move all frames: every effect, the most exact. Linux 6.8 or newer.
    Relay,
    /// The kernel moves all frames: departure times by BPF, kept by fq. Linux 6.1 or newer with `sch_fq`. It
    /// has no jitter, reordering, duplication or bit errors, and Bernoulli loss only.
    Edt,
    /// The kernel's own emulator, for comparison. It lacks the effects that `edt` lacks. Also, delays are
    /// constant during a step, changes are made link by link, and losses do not follow from the seed. Needs
    /// `sch_netem` and `sch_htb`.
    Netem,
}

impl DriverChoice {
    /// The driver that the scenario names; `None`: any.
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
