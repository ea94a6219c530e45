//! Constellations: Walker's arithmetic, shells, links.

use super::inputs::Inputs;
use super::no_effect;
use super::spacecraft;
use crate::diagnostic::Diagnostics;
use crate::model::{
    Chosen, Constellation, ElementSet, Name, NodesNamed, Orbits, Positions, Walker, WalkerPattern,
};
use crate::parse::Parsed;
use crate::presets;
use crate::raw::{IslPattern, RawConstellation, RawElements, RawOrbits};
use crate::text_file::TextFile;
use crate::walk::Seg::{self, Index, Key};

/// Most satellites of a scenario.
const MOST_SATELLITES: u64 = 100_000;

/// A constellation and whether its names are known.
pub(super) struct Found {
    pub(super) resolved: Constellation,
    /// The Walker numbers make sense, so the names of its satellites are known.
    pub(super) names_known: bool,
    /// Whether the constellation's satellites are nodes.
    pub(super) nodes: bool,
}

pub(super) fn resolve(
    parsed: &Parsed,
    inputs: &mut Inputs<'_>,
    errors: &mut Diagnostics,
) -> Vec<Found> {
    let raw = &parsed.raw.constellations;
    let mut found = Vec::new();
    for (name, constellation) in raw {
        let mut resolver = Resolver {
            parsed,
            name,
            errors,
        };
        found.extend(resolver.resolve(constellation, inputs));
    }
    let satellites = |c: &RawConstellation| match c.orbits {
        RawOrbits::Walker(walker) => walker.satellites,
        RawOrbits::Preset(preset) => presets::walker(preset).satellites,
        _ => 0,
    };
    let total: u64 = raw.values().map(|c| u64::from(satellites(c))).sum();
    found.extend(spacecraft::resolve(parsed, inputs, errors));
    if total > MOST_SATELLITES {
        errors.push(parsed.error_at(
            &[Key("constellations")],
            "out-of-range",
            format!("{total} satellites; at most {MOST_SATELLITES} in a scenario"),
        ));
    }
    found
}

/// Resolves one constellation from the file's text to its model.
pub(super) struct Resolver<'a> {
    pub(super) parsed: &'a Parsed,
    pub(super) name: &'a Name,
    pub(super) errors: &'a mut Diagnostics,
}

impl Resolver<'_> {
    pub(super) fn path<'p>(&'p self, tail: &[Seg<'p>]) -> Vec<Seg<'p>> {
        let mut path = vec![Key("constellations"), Key(self.name.as_str())];
        path.extend_from_slice(tail);
        path
    }

    pub(super) fn error(
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
        let (orbits, has_star) = match &raw.orbits {
            RawOrbits::Walker(walker) => {
                names_known = self.check_walker(walker);
                let star = walker.pattern == WalkerPattern::Star;
                (Some(Orbits::Walker(*walker)), star)
            }
            RawOrbits::Preset(preset) => {
                names_known = true;
                let walker = presets::walker(*preset);
                let star = walker.pattern == WalkerPattern::Star;
                (Some(Orbits::Walker(walker)), star)
            }
            RawOrbits::Ephemeris(ephemeris) => {
                let file = self.file(&ephemeris.file, "ephemeris", inputs);
                let chosen = self.chosen("ephemeris", &ephemeris.only, &ephemeris.except);
                let strict = ephemeris.strict;
                let positions = file.map(|file| Positions {
                    file,
                    chosen,
                    strict,
                });
                (positions.map(Orbits::Ephemeris), false)
            }
            RawOrbits::Tle(elements) => {
                let (set, star) = self.elements(elements, "tle", &raw.isl.pattern, inputs);
                (set.map(Orbits::Tle), star)
            }
            RawOrbits::Omm(elements) => {
                let (set, star) = self.elements(elements, "omm", &raw.isl.pattern, inputs);
                (set.map(Orbits::Omm), star)
            }
        };
        let is_walker = raw.orbits.is_walker();
        if !raw.nodes && raw.node.is_some() {
            let path = [Key("constellations"), Key(self.name.as_str()), Key("node")];
            no_effect(self.parsed, self.errors, &path, "nodes: true");
        }
        let isl = self.isl(&raw.isl, (has_star, is_walker), inputs);
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
            nodes: raw.nodes,
        })
    }

    fn check_walker(&mut self, walker: &Walker) -> bool {
        let Walker {
            satellites: t,
            planes: p,
            phasing: f,
            plane_spacing,
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
        if plane_spacing.is_some() && walker.pattern == WalkerPattern::Delta {
            self.error(
                &[Key("walker"), Key("plane_spacing")],
                "walker",
                "planes of a delta pattern are evenly spread".into(),
                "every plane has two neighbours that fly alongside",
                Some("remove `plane_spacing`, or set `pattern: star`".into()),
            );
        } else if let Some(spacing) = plane_spacing
            && spacing.deg() * f64::from(p - 1) >= 180.0
        {
            self.error(
                &[Key("walker"), Key("plane_spacing")],
                "walker",
                format!("{p} planes do not fit {} deg apart", spacing.deg()),
                "a star's planes are within 180 deg of the first: what is left is at the seam",
                Some(format!(
                    "less than {} deg would do",
                    180.0 / f64::from(p - 1)
                )),
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

    /// Returns an element set, and whether one of its shells is a star.
    fn elements(
        &mut self,
        raw: &RawElements,
        key: &'static str,
        pattern: &IslPattern,
        inputs: &mut Inputs<'_>,
    ) -> (Option<ElementSet>, bool) {
        let file = self.file(&raw.file, key, inputs);
        let shells = raw.shells();
        let mut patterns = shells.iter().map(|shell| shell.pattern);
        let has_star = patterns.any(|pattern| pattern == WalkerPattern::Star);
        for (index, shell) in shells.iter().enumerate() {
            if shells[..index]
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
        let chosen = self.chosen(key, &raw.only, &raw.except);
        self.pattern_without_planes(pattern, raw);
        let set = file.map(|file| ElementSet {
            file,
            shells: shells.to_vec(),
            chosen,
            max_age: raw.max_age,
            strict: raw.strict,
        });
        (set, has_star)
    }

    /// Objects that fly as they are have no planes, so no pattern of links that needs them.
    fn pattern_without_planes(&mut self, pattern: &IslPattern, raw: &RawElements) {
        let needs_planes = matches!(pattern, IslPattern::PlusGrid | IslPattern::Ring);
        if needs_planes && raw.shells.is_none() {
            self.error(
                &[Key("isl"), Key("pattern")],
                "missing-key",
                "this pattern links satellites by their planes, and an element file has planes only with `shells`".into(),
                "without `shells` objects fly as they are, in the order of the file",
                Some("add `shells`, or set `pattern: {nearest: 3}`, `{list: ...}` or `none`".into()),
            );
        }
    }

    /// `only` and `except` under `key`.
    fn chosen(
        &self,
        key: &'static str,
        only: &Option<Vec<String>>,
        except: &Option<Vec<String>>,
    ) -> Chosen {
        let named = |word: &'static str, texts: &[String]| -> Vec<NodesNamed> {
            let at = |(index, text): (usize, &String)| {
                let path = self.path(&[Key(key), Key(word), Index(index)]);
                NodesNamed::written(self.parsed, &path, text)
            };
            texts.iter().enumerate().map(at).collect()
        };
        Chosen {
            only: only.as_ref().map(|texts| named("only", texts)),
            except: named("except", except.as_deref().unwrap_or_default()),
        }
    }

    /// The file of `<key>.file`, passed on unread.
    fn file(&mut self, name: &str, key: &'static str, inputs: &mut Inputs<'_>) -> Option<TextFile> {
        let own = self.name.as_str();
        let path = [Key("constellations"), Key(own), Key(key), Key("file")];
        inputs.records(name, &path, self.errors)
    }
}
