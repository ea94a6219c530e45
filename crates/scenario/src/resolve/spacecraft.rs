//! Formations: which keys go with which source, and how many craft there are.

use super::constellations::Found;
use super::inputs::Inputs;
use super::no_effect;
use crate::diagnostic::Diagnostics;
use crate::model::{
    Chief, Constellation, Formation, FormationSource, Isl, Name, Orbits, RelativeElements,
    RelativeState,
};
use crate::parse::Parsed;
use crate::raw::{
    FormationPreset, RawChief, RawFormation, RawRelative, RawRelativeElements, TWO_WEEKS,
};
use crate::text_file::TextFile;
use crate::walk::Seg::Key;
use constel_units::Length;

/// The distance of Starling's craft in orbit: some 64 km from craft to craft.
const STARLING: Length = Length::from_m(64_000.0);

/// Formations join the constellations behind them: they fly, but have no lasers and do not serve the ground.
pub(super) fn resolve(
    parsed: &Parsed,
    inputs: &mut Inputs<'_>,
    errors: &mut Diagnostics,
) -> Vec<Found> {
    let mut found = Vec::new();
    for (name, raw) in &parsed.raw.spacecraft {
        if parsed.raw.constellations.contains_key(name) {
            let message = format!("a constellation and a formation are called `{name}`");
            let path = [Key("spacecraft"), Key(name.as_str())];
            errors.push(parsed.error_at_key(&path, "duplicate-name", message));
        }
        let source = Source {
            parsed,
            name,
            raw,
            errors,
        }
        .resolve(inputs);
        if let (Some(from), Some(count)) = (source, raw.count()) {
            found.push(Found {
                resolved: Constellation {
                    name: name.clone(),
                    orbits: Orbits::Formation(Formation {
                        count,
                        from,
                        strict: raw.strict,
                    }),
                    isl: Isl::None,
                    gsl: None,
                },
                nodes: true,
                names_known: true,
            });
        }
    }
    found
}

/// Resolves one formation from the file's text to its model.
struct Source<'a> {
    parsed: &'a Parsed,
    name: &'a Name,
    raw: &'a RawFormation,
    errors: &'a mut Diagnostics,
}

impl Source<'_> {
    /// `key` is there if and only if it is `wanted`.
    fn key(&mut self, key: &str, there: bool, wanted: bool, with: &str) {
        if there && !wanted {
            let parsed = self.parsed;
            let path = [Key("spacecraft"), Key(self.name.as_str()), Key(key)];
            no_effect(parsed, self.errors, &path, with);
        } else if wanted && !there {
            let path = [Key("spacecraft"), Key(self.name.as_str())];
            let message = format!("formation `{}` needs `{key}`", self.name);
            let error = self.parsed.error_at_key(&path, "missing-key", message);
            self.errors
                .push(error.with_suggestion(format!("`{key}` is required with `{with}`")));
        }
    }

    fn resolve(&mut self, inputs: &mut Inputs<'_>) -> Option<FormationSource> {
        let raw = self.raw;
        let by_chief = raw.preset.is_some() || raw.relative.is_some() || raw.elements.is_some();
        let of_any = raw.preset.is_some_and(|preset| {
            use FormationPreset::{Circumnavigation, StringOfPearls};
            matches!(preset, StringOfPearls | Circumnavigation)
        });
        let counted = of_any || raw.tle.is_some() || raw.ephemeris.is_some();
        self.key(
            "orbit",
            raw.orbit.is_some(),
            by_chief,
            "preset`, `relative` or `elements",
        );
        self.key(
            "craft",
            raw.craft.is_some(),
            counted,
            "preset: string-of-pearls`, `preset: circumnavigation`, `tle` or `ephemeris",
        );
        let of_file = raw.tle.is_some() || raw.ephemeris.is_some();
        self.key(
            "strict",
            raw.strict,
            of_file && raw.strict,
            "tle` or `ephemeris",
        );
        self.key(
            "max_age",
            raw.max_age.is_some(),
            raw.tle.is_some() && raw.max_age.is_some(),
            "tle",
        );
        let sized = raw.preset.is_some();
        let needed = sized && raw.preset != Some(FormationPreset::Starling);
        self.key(
            "size",
            raw.size.is_some(),
            needed || (sized && raw.size.is_some()),
            "preset",
        );
        if let Some(file) = &raw.tle {
            let max_age = raw.max_age.unwrap_or(TWO_WEEKS);
            let file = self.file("tle", file, inputs)?;
            return Some(FormationSource::Tle(file, max_age));
        }
        if let Some(file) = &raw.ephemeris {
            let file = self.file("ephemeris", file, inputs);
            return file.map(FormationSource::Ephemeris);
        }
        let chief = chief_of(raw.orbit.as_ref()?);
        if let Some(states) = &raw.relative {
            let states = states.iter().map(relative_of).collect();
            return Some(FormationSource::Relative(chief, states));
        }
        if let Some(elements) = &raw.elements {
            let elements = elements.iter().map(elements_of).collect();
            return Some(FormationSource::Elements(chief, elements));
        }
        let preset = raw.preset?;
        let size = match (raw.size, preset) {
            (None, FormationPreset::Starling) => STARLING,
            (size, _) => size?,
        };
        Some(FormationSource::Preset(chief, preset, size))
    }

    fn file(&mut self, key: &str, name: &str, inputs: &mut Inputs<'_>) -> Option<TextFile> {
        let path = [Key("spacecraft"), Key(self.name.as_str()), Key(key)];
        inputs.records(name, &path, self.errors)
    }
}

fn chief_of(raw: &RawChief) -> Chief {
    Chief {
        altitude: raw.altitude,
        inclination: raw.inclination,
        raan: raw.raan,
        latitude_argument: raw.latitude_argument,
    }
}

fn relative_of(raw: &RawRelative) -> RelativeState {
    RelativeState {
        radial: raw.radial,
        along: raw.along,
        cross: raw.cross,
        radial_speed: raw.radial_speed,
        along_speed: raw.along_speed,
        cross_speed: raw.cross_speed,
    }
}

fn elements_of(raw: &RawRelativeElements) -> RelativeElements {
    RelativeElements {
        a: raw.a,
        lambda: raw.lambda,
        ex: raw.ex,
        ey: raw.ey,
        ix: raw.ix,
        iy: raw.iy,
    }
}
