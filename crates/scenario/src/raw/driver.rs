//! Which driver carries the frames, how exactly, and how late they may be.

use constel_link::DriverKind;
use constel_units::TimeSpan;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
}

impl Default for RawLinks {
    fn default() -> Self {
        Self {
            driver: DriverChoice::default(),
            grain: None,
            max_lateness: one_millisecond(),
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
    /// One thread moves all frames: every effect, the most exact. Linux 6.8 or newer.
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
