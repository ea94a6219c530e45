//! Links of satellites: to each other, and to the ground.

use constel_topology::{LaserPairing, Radio};
use constel_units::{Length, TimeSpan};

use super::constellations::Resolver;
use super::inputs::Inputs;
use super::link::link_of;
use super::radio;
use super::terminals::rule;
use crate::model::{Gsl, Isl, Link, PlusGrid};
use crate::raw::{IslPattern, OrNone, RawConstellation, RawGsl, RawIsl, RawLink, RawRadio};
use crate::walk::Seg::{Index, Key};

impl Resolver<'_> {
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

    /// Links to the ground; the inner `None`: the scenario sets none.
    pub(super) fn gsl(
        &mut self,
        raw: &RawConstellation,
        inputs: &mut Inputs<'_>,
    ) -> Option<Option<Gsl>> {
        let (key, shells) = match raw.orbits.elements() {
            Some((key, set)) => (key, set.shells()),
            None => ("", &[][..]),
        };
        let some_shell = shells.is_empty() || shells.iter().any(|shell| shell.serves_ground);
        match (&raw.gsl, raw.serves_ground) {
            (Some(gsl), true) if some_shell => self.gsl_of(raw, gsl, inputs).map(Some),
            (None, false) => {
                for (index, shell) in shells.iter().enumerate().filter(|(_, s)| !s.serves_ground) {
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
                    "satellites serve the ground by default",
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

    pub(super) fn isl(
        &mut self,
        raw: &RawIsl,
        (has_star, is_walker): (bool, bool),
        inputs: &mut Inputs<'_>,
    ) -> Option<Isl> {
        if raw.pattern == IslPattern::None {
            for key in [
                "seam",
                "slots_ahead",
                "polar_cutoff",
                "max_range",
                "atmosphere",
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
        if raw.slots_ahead.is_some() && !is_walker {
            self.error(
                &[Key("isl"), Key("slots_ahead")],
                "no-effect",
                "`isl.slots_ahead` has no effect on real satellites".into(),
                "where slots are not even, the nearest of the next plane are linked",
                Some("remove `slots_ahead`".into()),
            );
        }
        let Some(link) = &raw.link else {
            self.error(
                &[Key("isl")],
                "missing-key",
                "missing key `link`".into(),
                "the pattern makes links, which need a rate",
                Some("add `link: {rate: 100 Mbit/s}`".into()),
            );
            return None;
        };
        Some(Isl::PlusGrid(PlusGrid {
            seam: raw.seam.unwrap_or(false),
            slots_ahead: raw.slots_ahead.unwrap_or(0),
            polar_cutoff: raw.polar_cutoff.and_then(OrNone::into_option),
            max_range: raw.max_range.and_then(OrNone::into_option),
            atmosphere: raw.atmosphere.unwrap_or(Length::from_m(80_000.0)),
            pairing,
            max_slew_per_second: raw.max_slew_per_second.and_then(OrNone::into_option),
            acquisition: raw.acquisition.unwrap_or(TimeSpan::from_ns(0)),
            link: self.link("isl", link, inputs),
        }))
    }
}

impl Resolver<'_> {
    /// Keys that belong to other patterns are errors.
    fn pairing(&mut self, raw: &RawIsl) -> LaserPairing {
        let grid = raw.pattern == IslPattern::PlusGrid;
        for (key, wrong) in [
            ("seam", raw.seam.is_some() && !grid),
            ("slots_ahead", raw.slots_ahead.is_some() && !grid),
            (
                "polar_cutoff",
                raw.polar_cutoff.is_some() && raw.pattern == IslPattern::Ring,
            ),
        ] {
            if wrong {
                self.error(
                    &[Key("isl"), Key(key)],
                    "no-effect",
                    format!("`isl.{key}` has no effect with this pattern"),
                    "what would be ignored is an error, so that no result misleads",
                    Some(format!("remove `{key}`, or set `pattern: plus-grid`")),
                );
            }
        }
        match &raw.pattern {
            IslPattern::PlusGrid | IslPattern::None => LaserPairing::Grid,
            IslPattern::Ring => LaserPairing::Ring,
            IslPattern::Nearest(most) => LaserPairing::Nearest(*most),
            IslPattern::List(pairs) => {
                let names = pairs.iter().map(|p| (p.from.to_string(), p.to.to_string()));
                LaserPairing::List(names.collect())
            }
        }
    }

    fn gsl_of(
        &mut self,
        whole: &RawConstellation,
        raw: &RawGsl,
        inputs: &mut Inputs<'_>,
    ) -> Option<Gsl> {
        self.check_gsl_laws(raw);
        let radio = match &raw.radio {
            None => None,
            Some(radio) => Some(self.gsl_radio(radio)?),
        };
        let access = self.gsl_access(whole, raw);
        Some(Gsl {
            radio,
            access,
            bent_pipe: raw.bent_pipe,
            min_elevation: raw.min_elevation,
            rule: rule(raw.policy, &raw.handover, self.parsed.raw.start),
            beams: raw.beams,
            capacity: raw.capacity,
            gso_avoidance: raw.gso_avoidance,
            by_elevation: raw.by_elevation.clone(),
            link: self.link("gsl", &raw.link, inputs),
        })
    }

    /// Reports settings that exclude each other in the rates and losses of links to the ground.
    fn check_gsl_laws(&mut self, raw: &RawGsl) {
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
            if written && key == "rate_law" && raw.capacity.is_some() {
                self.error(
                    &[Key("gsl"), Key("capacity")],
                    "no-effect",
                    "`gsl.capacity` has no effect with `link.rate_law`".into(),
                    "the law is each link's own",
                    Some("remove `capacity`, or `link.rate_law`".into()),
                );
            }
            if written && raw.radio.is_some() {
                self.error(
                    &[Key("gsl"), Key("radio")],
                    "no-effect",
                    format!("`gsl.radio` does not go with `link.{key}`"),
                    "both set what links carry",
                    Some(format!("remove `radio`, or `link.{key}`")),
                );
            }
        }
        if raw.radio.is_some() && !raw.by_elevation.is_empty() {
            self.error(
                &[Key("gsl"), Key("by_elevation")],
                "no-effect",
                "`gsl.by_elevation` has no effect with `gsl.radio`".into(),
                "what links carry then follows from the radio",
                Some("remove one of them".into()),
            );
        }
    }

    fn gsl_radio(&mut self, raw: &RawRadio) -> Option<Radio> {
        let mut report = |key, code, message, why: &str, allowed: &[&'static str]| {
            let path = self.path(&[Key("gsl"), Key("radio"), Key(key)]);
            let mut error = self.parsed.error_at(&path, code, message);
            if !why.is_empty() {
                error = error.with_reason(why);
            }
            if !allowed.is_empty() {
                error = error.with_allowed(allowed.iter().copied());
            }
            self.errors.push(error);
        };
        radio::radio(raw, &mut report)
    }
}
