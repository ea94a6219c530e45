//! How a station chooses its satellites. Some rules are built in; the trait is the door for more.

use std::cmp::Ordering;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::node::NodeId;

/// Makes [`PlainPolicy`] from one table: the description of a rule for users, its name, and its word in scenarios. The law
/// with that name is below.
macro_rules! plain_policies {
    ($($(#[$doc:meta])* $name:ident $word:literal,)*) => {
        /// The rules that have no settings. Ties go to the lower node number.
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize,
            JsonSchema,
        )]
        pub enum PlainPolicy {
            $(
                $(#[$doc])*
                #[serde(rename = $word)]
                $name,
            )*
        }

        impl PlainPolicy {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Returns the word in scenarios.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)*
                }
            }

            fn law(self) -> Box<dyn Policy> {
                match self {
                    $(Self::$name => Box::new($name),)*
                }
            }
        }
    };
}

plain_policies! {
    /// The visible satellite at the shortest distance.
    #[default]
    Nearest "nearest",
    /// The satellite highest above the horizon.
    HighestElevation "highest-elevation",
    /// Keeps its satellite as long as possible; then takes the one that will stay longest.
    LongestVisible "longest-visible",
    /// Keeps its satellite as long as possible; then takes the one that serves the fewest stations.
    LeastLoaded "least-loaded",
    /// The nearest satellite of the part of the constellations that most stations can use at that time. Parts
    /// are connected by lasers: with `isl.pattern: ring` each plane is one, and stations on different planes
    /// cannot reach each other.
    MostReachable "most-reachable",
}

/// The rules built in. [`Policy`] is the door for others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum GslPolicy {
    /// A rule without settings.
    Plain(PlainPolicy),
    /// Keeps its satellite until another is at least `gain_deg` higher.
    Hysteresis {
        /// Degrees, 0..=90.
        gain_deg: f64,
    },
    /// All stations are assigned at once at the start of every slot, in node order, each to the highest
    /// satellite that stays usable until the slot ends; between slots nothing changes. This is Starlink's
    /// global scheduler, with slots of 15 s: Tanveer et al., "Making sense of constellations", CoNEXT 2023.
    Scheduler {
        /// Length of a slot, ns.
        period_ns: u64,
        /// When a slot begins, ns after the start of the lab; less than `period_ns`.
        phase_ns: u64,
    },
}

impl Default for GslPolicy {
    fn default() -> Self {
        Self::Plain(PlainPolicy::default())
    }
}

/// Returns the words of the policies whose choice does not depend on earlier ones, or not on much earlier ones.
pub(crate) fn memoryless() -> String {
    let plain = PlainPolicy::ALL.iter();
    let plain = plain.filter(|policy| policy.law().memoryless());
    let words: Vec<&str> = plain
        .map(|policy| policy.word())
        .chain(["scheduler"])
        .collect();
    words.join(", ")
}

/// A satellite a station could use now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// Which.
    pub satellite: NodeId,
    /// How far, metres.
    pub range_m: f64,
    /// Sine of its elevation.
    pub sin_elevation: f64,
    /// How many links to the ground it has, those of the choosing antenna not counted.
    pub load: u32,
    /// How long it will stay above the mask, seconds, estimated from its present motion along a great circle.
    /// Only for policies that want it; infinite for others.
    pub remaining_s: f64,
    /// The part of the constellations that it is in: those satellites that chains of laser pairs join with it. A grid is one
    /// part, and rings without links between planes are one each.
    pub part: u32,
    /// How many stations, the choosing one included, can use a satellite of that part now. Only for policies that want it;
    /// 0 for others.
    pub stations: u32,
}

impl Candidate {
    /// The candidate's elevation, degrees.
    #[must_use]
    pub fn elevation_deg(&self) -> f64 {
        self.sin_elevation.clamp(-1.0, 1.0).asin().to_degrees()
    }
}

/// The information that an antenna has when it chooses.
#[derive(Debug, Clone, Copy)]
pub struct Choice<'a> {
    /// Step number.
    pub step: u64,
    /// Length of a step, ns.
    pub step_ns: u64,
    /// The station.
    pub station: NodeId,
    /// The satellite it used in the step before, if the station still can use it; `None` when dark or at the start.
    pub serving: Option<NodeId>,
    /// True when no antenna has chosen yet: the start of the lab.
    pub first: bool,
    /// The satellites that it can use, by node number: those with a beam free, not used by the station's other
    /// antennas.
    pub candidates: &'a [Candidate],
}

/// A rule of choice. Must be a pure function of its argument, ties broken by something deterministic.
///
/// This is the door for rules that are not built in: give one to
/// [`Stepper::with_policy`](crate::Stepper::with_policy). Masks, obstacles, the geostationary arc, radio, failures,
/// beams, feeders and what a change costs are seen to by the stepper; a rule only picks from what is left.
///
/// ```
/// use constel_topology::{Choice, NodeId, Policy};
///
/// /// The lowest satellite that stays at least 30 s: spares the high ones for others.
/// struct Lowest;
///
/// impl Policy for Lowest {
///     fn choose(&self, choice: &Choice<'_>) -> Option<NodeId> {
///         let stays = choice.candidates.iter().filter(|c| c.remaining_s >= 30.0);
///         stays
///             .min_by(|a, b| a.sin_elevation.total_cmp(&b.sin_elevation).then(a.satellite.cmp(&b.satellite)))
///             .map(|c| c.satellite)
///     }
///
///     fn memoryless(&self) -> bool {
///         true
///     }
///
///     fn wants_remaining(&self) -> bool {
///         true
///     }
/// }
/// ```
pub trait Policy: Send + Sync {
    /// The satellite to use in this step; `None` leaves the antenna dark. Must be one of the candidates.
    fn choose(&self, choice: &Choice<'_>) -> Option<NodeId>;

    /// True when `choose` ignores `serving`, so that a step can be computed without those before it.
    fn memoryless(&self) -> bool;

    /// How long before a step its decisions can begin, ns; `None`: at the start of the lab.
    fn look_back_ns(&self) -> Option<u64> {
        self.memoryless().then_some(0)
    }

    /// Whether it reads [`Candidate::remaining_s`].
    fn wants_remaining(&self) -> bool {
        false
    }

    /// Whether it reads [`Candidate::stations`].
    fn wants_stations(&self) -> bool {
        false
    }

    /// Whether it reads [`Candidate::load`]. Otherwise stations that share no beams choose independently, and
    /// their state long after the start is found without walking there.
    fn heeds_load(&self) -> bool {
        true
    }
}

/// [`PlainPolicy::Nearest`].
#[derive(Debug, Clone, Copy)]
pub struct Nearest;

impl Policy for Nearest {
    fn choose(&self, choice: &Choice<'_>) -> Option<NodeId> {
        least(choice.candidates, |c| c.range_m)
    }

    fn memoryless(&self) -> bool {
        true
    }

    fn heeds_load(&self) -> bool {
        false
    }
}

/// [`PlainPolicy::HighestElevation`].
#[derive(Debug, Clone, Copy)]
pub struct HighestElevation;

impl Policy for HighestElevation {
    fn choose(&self, choice: &Choice<'_>) -> Option<NodeId> {
        least(choice.candidates, |c| -c.sin_elevation)
    }

    fn memoryless(&self) -> bool {
        true
    }

    fn heeds_load(&self) -> bool {
        false
    }
}

/// [`PlainPolicy::LongestVisible`].
#[derive(Debug, Clone, Copy)]
pub struct LongestVisible;

impl Policy for LongestVisible {
    fn choose(&self, choice: &Choice<'_>) -> Option<NodeId> {
        kept(choice).or_else(|| least(choice.candidates, |c| -c.remaining_s))
    }

    fn memoryless(&self) -> bool {
        false
    }

    fn wants_remaining(&self) -> bool {
        true
    }

    fn heeds_load(&self) -> bool {
        false
    }
}

/// [`GslPolicy::Hysteresis`].
#[derive(Debug, Clone, Copy)]
pub struct Hysteresis {
    /// How much higher another satellite must be, degrees.
    pub gain_deg: f64,
}

impl Policy for Hysteresis {
    fn choose(&self, choice: &Choice<'_>) -> Option<NodeId> {
        let best = HighestElevation.choose(choice);
        let of = |id: NodeId| choice.candidates.iter().find(|c| c.satellite == id);
        match (kept(choice).and_then(of), best.and_then(of)) {
            (Some(own), Some(best))
                if best.elevation_deg() < own.elevation_deg() + self.gain_deg =>
            {
                Some(own.satellite)
            }
            (_, best) => best.map(|c| c.satellite),
        }
    }

    fn memoryless(&self) -> bool {
        false
    }

    fn heeds_load(&self) -> bool {
        false
    }
}

/// [`PlainPolicy::LeastLoaded`].
#[derive(Debug, Clone, Copy)]
pub struct LeastLoaded;

impl Policy for LeastLoaded {
    fn choose(&self, choice: &Choice<'_>) -> Option<NodeId> {
        let fewest = choice.candidates.iter().map(|c| c.load).min()?;
        let free = choice.candidates.iter().filter(|c| c.load == fewest);
        kept(choice).or_else(|| least(free, |c| c.range_m))
    }

    fn memoryless(&self) -> bool {
        false
    }
}

/// [`PlainPolicy::MostReachable`].
#[derive(Debug, Clone, Copy)]
pub struct MostReachable;

impl Policy for MostReachable {
    fn choose(&self, choice: &Choice<'_>) -> Option<NodeId> {
        let most = choice.candidates.iter().map(|c| c.stations).max()?;
        // If several parts are equal, all stations choose the same one; otherwise their choices would not
        // match.
        let best = choice.candidates.iter().filter(|c| c.stations == most);
        let part = best.map(|c| c.part).min()?;
        least(choice.candidates.iter().filter(|c| c.part == part), |c| {
            c.range_m
        })
    }

    fn memoryless(&self) -> bool {
        true
    }

    fn wants_stations(&self) -> bool {
        true
    }
}

/// [`GslPolicy::Scheduler`].
#[derive(Debug, Clone, Copy)]
pub struct Scheduler {
    /// Length of a slot, ns.
    pub period_ns: u64,
    /// When a slot begins, ns after the start of the lab.
    pub phase_ns: u64,
}

impl Scheduler {
    /// The number of the slot at `t_ns`, the one at the start of the lab being 0 or 1.
    fn slot(&self, t_ns: u64) -> u64 {
        (t_ns + self.period_ns - self.phase_ns) / self.period_ns
    }
}

impl Policy for Scheduler {
    fn choose(&self, choice: &Choice<'_>) -> Option<NodeId> {
        let t_ns = choice.step * choice.step_ns;
        let slot = self.slot(t_ns);
        let begins =
            choice.first || t_ns < choice.step_ns || self.slot(t_ns - choice.step_ns) != slot;
        if !begins {
            return kept(choice);
        }
        let end_ns = slot * self.period_ns + self.phase_ns;
        let rest_s = end_ns.saturating_sub(t_ns) as f64 / 1e9;
        let stays = choice.candidates.iter().filter(|c| c.remaining_s >= rest_s);
        least(stays, |c| -c.sin_elevation).or_else(|| least(choice.candidates, |c| -c.remaining_s))
    }

    fn memoryless(&self) -> bool {
        false
    }

    fn look_back_ns(&self) -> Option<u64> {
        // A walk that begins within a slot is right from the next slot on, and has the right history from the
        // one after that.
        Some(2 * self.period_ns)
    }

    fn wants_remaining(&self) -> bool {
        true
    }

    fn heeds_load(&self) -> bool {
        false
    }
}

/// The satellite in use, if it still can be.
fn kept(choice: &Choice<'_>) -> Option<NodeId> {
    let serving = choice.serving?;
    choice
        .candidates
        .iter()
        .any(|c| c.satellite == serving)
        .then_some(serving)
}

fn least<'a>(
    candidates: impl IntoIterator<Item = &'a Candidate>,
    cost: impl Fn(&Candidate) -> f64,
) -> Option<NodeId> {
    let order = |a: &&Candidate, b: &&Candidate| -> Ordering {
        cost(a)
            .total_cmp(&cost(b))
            .then(a.satellite.cmp(&b.satellite))
    };
    candidates.into_iter().min_by(order).map(|c| c.satellite)
}

/// The rule a spec names.
#[must_use]
pub fn built_in(policy: GslPolicy) -> Box<dyn Policy> {
    match policy {
        GslPolicy::Plain(plain) => plain.law(),
        GslPolicy::Hysteresis { gain_deg } => Box::new(Hysteresis { gain_deg }),
        GslPolicy::Scheduler {
            period_ns,
            phase_ns,
        } => Box::new(Scheduler {
            period_ns,
            phase_ns,
        }),
    }
}
