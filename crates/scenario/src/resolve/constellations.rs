//! Constellations: Walker's arithmetic, shells, links.

use constel_units::{Length, TimeSpan};

use super::inputs::Inputs;
use super::link::link_of;
use crate::diagnostic::Diagnostics;
use crate::model::{
    Constellation, ElementSet, ElevationStep, Gsl, Isl, Link, Name, Orbits, Pairing, PlusGrid,
    Policy, Shell, Walker, WalkerPattern,
};
use crate::parse::Parsed;
use crate::presets;
use crate::raw::{
    GslPolicy, IslPattern, OrNone, RawConstellation, RawElements, RawGsl, RawIsl, RawLink,
    RawWalker,
};
use crate::text_file::TextFile;
use crate::walk::Seg::{self, Index, Key};

/// Most satellites of a scenario.
const MOST_SATELLITES: u64 = 100_000;

/// A constellation and whether its names are known.
pub(super) struct Found {
    pub(super) resolved: Constellation,
    /// The Walker numbers make sense, so the names of its satellites are known.
    pub(super) names_known: bool,
}

pub(super) fn resolve(
    parsed: &Parsed,
    inputs: &mut Inputs<'_>,
    errors: &mut Diagnostics,
) -> Vec<Found> {
    let raw = &parsed.raw.constellations;
    if raw.is_empty() {
        let path = [Key("constellations")];
        let error = parsed
            .error_at(
                &path,
                "empty-list",
                "`constellations` needs at least one entry",
            )
            .with_reason("without satellites there is nothing to emulate");
        errors.push(error);
    }
    let mut found = Vec::new();
    for (name, constellation) in raw {
        let mut one = One {
            parsed,
            name,
            errors,
        };
        found.extend(one.resolve(constellation, inputs));
    }
    let satellites = |c: &RawConstellation| match (&c.walker, c.preset) {
        (Some(walker), _) => walker.satellites,
        (None, Some(preset)) => presets::walker(preset).satellites,
        (None, None) => 0,
    };
    let total: u64 = raw.values().map(|c| u64::from(satellites(c))).sum();
    if total > MOST_SATELLITES {
        errors.push(parsed.error_at(
            &[Key("constellations")],
            "out-of-range",
            format!("{total} satellites; at most {MOST_SATELLITES} in a scenario"),
        ));
    }
    agree_on_handover(parsed, errors);
    found
}

/// A station has one antenna and may use every constellation, so it can have only one habit.
fn agree_on_handover(parsed: &Parsed, errors: &mut Diagnostics) {
    let raw = parsed.raw.constellations.iter();
    let mut all = raw.filter_map(|(name, c)| Some((name, c.gsl.as_ref()?)));
    let Some((first_name, first)) = all.next() else {
        return;
    };
    for (name, other) in all {
        let differing = if other.policy != first.policy {
            "policy"
        } else if other.hysteresis != first.hysteresis {
            "hysteresis"
        } else if other.slot != first.slot {
            "slot"
        } else if other.handover != first.handover {
            "handover"
        } else {
            continue;
        };
        let path = [
            Key("constellations"),
            Key(name.as_str()),
            Key("gsl"),
            Key(differing),
        ];
        let error = parsed
            .error_at(
                &path,
                "disagreement",
                format!("`gsl.{differing}` of `{name}` and `{first_name}` differ"),
            )
            .with_reason("a station has one antenna for all constellations, so one rule for it");
        errors.push(error);
    }
}

struct One<'a> {
    parsed: &'a Parsed,
    name: &'a Name,
    errors: &'a mut Diagnostics,
}

impl One<'_> {
    fn path<'p>(&'p self, tail: &[Seg<'p>]) -> Vec<Seg<'p>> {
        let mut path = vec![Key("constellations"), Key(self.name.as_str())];
        path.extend_from_slice(tail);
        path
    }

    fn error(
        &mut self,
        tail: &[Seg<'_>],
        code: &'static str,
        message: String,
        reason: impl Into<String>,
        hint: Option<String>,
    ) {
        let mut path = vec![Key("constellations"), Key(self.name.as_str())];
        path.extend_from_slice(tail);
        let mut error = self
            .parsed
            .error_at(&path, code, message)
            .with_reason(reason);
        if let Some(hint) = hint {
            error = error.with_suggestion(hint);
        }
        self.errors.push(error);
    }

    fn resolve(&mut self, raw: &RawConstellation, inputs: &mut Inputs<'_>) -> Option<Found> {
        let mut names_known = false;
        let (orbits, has_star) = if let Some(walker) = &raw.walker {
            names_known = self.check_walker(walker);
            let star = walker.pattern == WalkerPattern::Star;
            (Some(Orbits::Walker(walker_of(walker))), star)
        } else if let Some(preset) = raw.preset {
            names_known = true;
            let walker = presets::walker(preset);
            let star = walker.pattern == WalkerPattern::Star;
            (Some(Orbits::Walker(walker)), star)
        } else {
            let (raw, key) = match (&raw.tle, &raw.omm) {
                (Some(tle), _) => (tle, "tle"),
                (None, Some(omm)) => (omm, "omm"),
                // The schema asks for exactly one of them.
                (None, None) => return None,
            };
            let star = raw
                .shells
                .iter()
                .any(|shell| shell.pattern == WalkerPattern::Star);
            let set = self.elements(raw, key, inputs);
            let kind = if key == "tle" {
                Orbits::Tle
            } else {
                Orbits::Omm
            };
            (set.map(kind), star)
        };
        let isl = self.isl(&raw.isl, has_star, inputs);
        let gsl = self.gsl(raw, inputs);
        let resolved = Constellation {
            name: self.name.clone(),
            orbits: orbits?,
            isl: isl?,
            gsl: gsl?,
        };
        Some(Found {
            resolved,
            names_known,
        })
    }

    fn check_walker(&mut self, walker: &RawWalker) -> bool {
        let RawWalker {
            satellites: t,
            planes: p,
            phasing: f,
            ..
        } = *walker;
        let mut good = true;
        if t % p != 0 {
            good = false;
            let (below, above) = (t / p * p, (t / p + 1) * p);
            let near = if below == 0 {
                above.to_string()
            } else {
                format!("{below} or {above}")
            };
            self.error(
                &[Key("walker"), Key("satellites")],
                "walker",
                format!("{t} satellites do not fill {p} planes evenly"),
                format!(
                    "{t} / {p} leaves {}; every plane of a Walker pattern has the same number",
                    t % p
                ),
                Some(format!("{near} satellites would do with {p} planes")),
            );
        }
        if f >= p {
            good = false;
            self.error(
                &[Key("walker"), Key("phasing")],
                "walker",
                format!("phasing is {f}, but must be less than the number of planes, {p}"),
                "Walker's F counts steps of 360 deg / T from 0 to P - 1",
                Some(format!("0 to {} would do", p - 1)),
            );
        }
        good
    }

    fn elements(
        &mut self,
        raw: &RawElements,
        key: &'static str,
        inputs: &mut Inputs<'_>,
    ) -> Option<ElementSet> {
        let path = [
            Key("constellations"),
            Key(self.name.as_str()),
            Key(key),
            Key("file"),
        ];
        let input = inputs.text(&raw.file, &path, self.errors);
        for (index, shell) in raw.shells.iter().enumerate() {
            if raw.shells[..index]
                .iter()
                .any(|earlier| earlier.name == shell.name)
            {
                self.error(
                    &[Key(key), Key("shells"), Index(index), Key("name")],
                    "duplicate-name",
                    format!("two shells are called `{}`", shell.name),
                    "satellites are named after their shell",
                    None,
                );
            }
        }
        let input = input?;
        let named_path = crate::walk::Path(&self.path(&[Key(key), Key("file")])).to_string();
        let file = TextFile::new(
            &raw.file,
            &input.shown,
            input.sha256.clone(),
            &input.text,
            self.parsed.source().clone(),
            self.parsed.place(&path, false),
            named_path,
        );
        let shells = raw.shells.iter().map(|shell| Shell {
            name: shell.name.clone(),
            pattern: shell.pattern,
            altitude: shell.altitude,
            inclination: shell.inclination,
            altitude_tolerance: shell.altitude_tolerance,
            inclination_tolerance: shell.inclination_tolerance,
            planes: shell.planes,
            serves_ground: shell.serves_ground,
        });
        Some(ElementSet {
            file,
            shells: shells.collect(),
        })
    }

    /// The link of a section.
    fn link(&mut self, section: &str, raw: &RawLink, inputs: &mut Inputs<'_>) -> Link {
        let path = [
            Key("constellations"),
            Key(self.name.as_str()),
            Key(section),
            Key("link"),
        ];
        link_of(self.parsed, &path, raw, inputs, self.errors)
    }

    /// Links to the ground; the inner `None`: by choice there are none.
    fn gsl(&mut self, raw: &RawConstellation, inputs: &mut Inputs<'_>) -> Option<Option<Gsl>> {
        let set = raw.tle.as_ref().or(raw.omm.as_ref());
        let shells = set.map(|set| set.shells.as_slice()).unwrap_or_default();
        let some_shell = shells.is_empty() || shells.iter().any(|shell| shell.serves_ground);
        match (&raw.gsl, raw.serves_ground) {
            (Some(gsl), true) if some_shell => self.gsl_of(gsl, inputs).map(Some),
            (None, false) => {
                for (index, shell) in shells.iter().enumerate().filter(|(_, s)| !s.serves_ground) {
                    let key = if raw.tle.is_some() { "tle" } else { "omm" };
                    let tail = [Key(key), Key("shells"), Index(index), Key("serves_ground")];
                    self.error(
                        &tail,
                        "no-effect",
                        format!("`serves_ground` of shell `{}` has no effect", shell.name),
                        "the whole constellation has `serves_ground: false`",
                        Some("remove it from the shell".into()),
                    );
                }
                Some(None)
            }
            (Some(_), _) => {
                self.error(
                    &[Key("gsl")],
                    "no-effect",
                    "`gsl` has no effect where no satellite serves the ground".into(),
                    "what would be ignored is an error, so that no result misleads",
                    Some("remove `gsl`, or let one shell serve the ground".into()),
                );
                None
            }
            (None, true) => {
                self.error(
                    &[],
                    "missing-key",
                    "missing key `gsl`".into(),
                    "satellites serve the ground unless it is said that they do not",
                    Some(
                        "add `gsl: {min_elevation: 25 deg, link: {rate: 100 Mbit/s}}`, \
                         or `serves_ground: false`"
                            .into(),
                    ),
                );
                None
            }
        }
    }

    fn isl(&mut self, raw: &RawIsl, has_star: bool, inputs: &mut Inputs<'_>) -> Option<Isl> {
        if raw.pattern == IslPattern::None {
            for key in [
                "seam",
                "polar_cutoff",
                "max_range",
                "atmosphere",
                "nearest",
                "pairs",
                "max_slew_per_second",
                "acquisition",
                "link",
            ] {
                let path = self.path(&[Key("isl"), Key(key)]);
                if self.parsed.is_written(&path) {
                    self.error(
                        &[Key("isl"), Key(key)],
                        "no-effect",
                        format!("`isl.{key}` has no effect with `pattern: none`"),
                        "what would be ignored is an error, so that no result misleads",
                        Some(format!("remove `{key}`")),
                    );
                }
            }
            return Some(Isl::None);
        }
        let pairing = self.pairing(raw);
        if raw.seam.is_some() && !has_star {
            self.error(
                &[Key("isl"), Key("seam")],
                "no-effect",
                "`isl.seam` has no effect on a delta pattern".into(),
                "only in a star pattern the first and the last plane fly in opposite directions",
                Some("remove `seam`".into()),
            );
        }
        let Some(link) = &raw.link else {
            self.error(
                &[Key("isl")],
                "missing-key",
                "missing key `link`".into(),
                "the pattern makes links, and their rate must be said",
                Some("add `link: {rate: 100 Mbit/s}`".into()),
            );
            return None;
        };
        Some(Isl::PlusGrid(PlusGrid {
            seam: raw.seam.unwrap_or(false),
            polar_cutoff: raw.polar_cutoff.and_then(OrNone::into_option),
            max_range: raw.max_range.and_then(OrNone::into_option),
            atmosphere: raw.atmosphere.unwrap_or(Length::from_m(80_000.0)),
            pairing: pairing?,
            max_slew_per_second: raw.max_slew_per_second.and_then(OrNone::into_option),
            acquisition: raw.acquisition.unwrap_or(TimeSpan::from_ns(0)),
            link: self.link("isl", link, inputs),
        }))
    }
}

impl One<'_> {
    /// Keys that belong to other patterns are errors.
    fn pairing(&mut self, raw: &RawIsl) -> Option<Pairing> {
        let of = |pattern| raw.pattern == pattern;
        let wrong = [
            (
                "nearest",
                raw.nearest.is_some() && !of(IslPattern::Nearest),
                "nearest",
            ),
            (
                "pairs",
                raw.pairs.is_some() && !of(IslPattern::List),
                "list",
            ),
            (
                "seam",
                raw.seam.is_some() && !of(IslPattern::PlusGrid),
                "plus-grid",
            ),
            (
                "polar_cutoff",
                raw.polar_cutoff.is_some() && of(IslPattern::Ring),
                "plus-grid",
            ),
        ];
        for (key, wrong, pattern) in wrong {
            if wrong {
                self.error(
                    &[Key("isl"), Key(key)],
                    "no-effect",
                    format!("`isl.{key}` has no effect with this pattern"),
                    "what would be ignored is an error, so that no result misleads",
                    Some(format!("remove `{key}`, or set `pattern: {pattern}`")),
                );
            }
        }
        match (raw.pattern, raw.nearest, &raw.pairs) {
            (IslPattern::PlusGrid | IslPattern::None, ..) => Some(Pairing::Grid),
            (IslPattern::Ring, ..) => Some(Pairing::Ring),
            (IslPattern::Nearest, Some(most), _) => Some(Pairing::Nearest(most)),
            (IslPattern::List, _, Some(pairs)) => Some(Pairing::List(
                pairs
                    .iter()
                    .map(|p| (p.from.clone(), p.to.clone()))
                    .collect(),
            )),
            (IslPattern::Nearest, None, _) => {
                self.missing(
                    "isl",
                    "nearest",
                    "how many links a satellite has must be said",
                    "nearest: 3",
                );
                None
            }
            (IslPattern::List, _, None) => {
                let reason = "which satellites are linked must be said";
                self.missing("isl", "pairs", reason, "pairs: [{from: ..., to: ...}]");
                None
            }
        }
    }

    fn missing(&mut self, section: &'static str, key: &str, reason: &str, example: &str) {
        self.error(
            &[Key(section)],
            "missing-key",
            format!("missing key `{key}`"),
            reason,
            Some(format!("add `{example}`")),
        );
    }

    fn gsl_of(&mut self, raw: &RawGsl, inputs: &mut Inputs<'_>) -> Option<Gsl> {
        let wrong = [
            (
                "hysteresis",
                raw.hysteresis.is_some() && raw.policy != GslPolicy::Hysteresis,
                "hysteresis",
            ),
            (
                "slot",
                raw.slot.is_some() && raw.policy != GslPolicy::Scheduler,
                "scheduler",
            ),
        ];
        for (key, wrong, policy) in wrong {
            if wrong {
                self.error(
                    &[Key("gsl"), Key(key)],
                    "no-effect",
                    format!("`gsl.{key}` has no effect with this policy"),
                    "what would be ignored is an error, so that no result misleads",
                    Some(format!("remove `{key}`, or set `policy: {policy}`")),
                );
            }
        }
        let policy = match (raw.policy, raw.hysteresis) {
            (GslPolicy::Nearest, _) => Policy::Nearest,
            (GslPolicy::HighestElevation, _) => Policy::HighestElevation,
            (GslPolicy::LongestVisible, _) => Policy::LongestVisible,
            (GslPolicy::Hysteresis, Some(gain)) => Policy::Hysteresis(gain),
            (GslPolicy::Hysteresis, None) => {
                let reason = "by how much another satellite must be higher must be said";
                self.missing("gsl", "hysteresis", reason, "hysteresis: 5 deg");
                return None;
            }
            (GslPolicy::LeastLoaded, _) => Policy::LeastLoaded,
            (GslPolicy::Scheduler, _) => {
                Policy::Scheduler(raw.slot.unwrap_or(TimeSpan::from_ns(15_000_000_000)))
            }
        };
        let unordered = raw
            .by_elevation
            .windows(2)
            .position(|w| w[1].above.deg() <= w[0].above.deg());
        if let Some(index) = unordered {
            self.error(
                &[
                    Key("gsl"),
                    Key("by_elevation"),
                    Index(index + 1),
                    Key("above"),
                ],
                "order",
                "steps must go upwards".into(),
                "each step holds from its elevation up to that of the next",
                None,
            );
        }
        for (key, written) in [
            ("rate_law", raw.link.rate_law.is_some()),
            ("loss_law", raw.link.loss_law.is_some()),
        ] {
            if written && !raw.by_elevation.is_empty() {
                self.error(
                    &[Key("gsl"), Key("by_elevation")],
                    "no-effect",
                    format!("`by_elevation` has no effect with `link.{key}`"),
                    "the law holds at every elevation",
                    Some(format!("remove `by_elevation`, or `link.{key}`")),
                );
            }
        }
        let steps = raw.by_elevation.iter().map(|s| ElevationStep {
            above: s.above,
            rate: s.rate,
            loss: s.loss,
        });
        Some(Gsl {
            min_elevation: raw.min_elevation,
            policy,
            handover_outage: raw.handover.outage,
            handover_kind: raw.handover.kind,
            beams: raw.beams,
            gso_avoidance: raw.gso_avoidance,
            by_elevation: steps.collect(),
            link: self.link("gsl", &raw.link, inputs),
        })
    }
}

fn walker_of(raw: &RawWalker) -> Walker {
    Walker {
        pattern: raw.pattern,
        inclination: raw.inclination,
        satellites: raw.satellites,
        planes: raw.planes,
        phasing: raw.phasing,
        altitude: raw.altitude,
        raan0: raw.raan0,
    }
}
