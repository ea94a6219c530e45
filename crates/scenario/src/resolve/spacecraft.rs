//! Formations: which keys go with which source, and how many craft there are.

use super::constellations::Found;
use super::inputs::Inputs;
use super::no_effect;
use crate::diagnostic::Diagnostics;
use crate::model::{Constellation, Formation, FormationSource, Isl, Name, Orbits};
use crate::parse::Parsed;
use crate::raw::{FormationPreset, RawFormation, RawPositions, TWO_WEEKS};
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
        let preset = match &raw.from {
            RawPositions::Preset(preset) => Some(*preset),
            _ => None,
        };
        let of_tle = matches!(raw.from, RawPositions::Tle(_));
        let of_file = of_tle || matches!(raw.from, RawPositions::Ephemeris(_));
        let of_any = preset.is_some_and(|preset| {
            use FormationPreset::{Circumnavigation, StringOfPearls};
            matches!(preset, StringOfPearls | Circumnavigation)
        });
        self.key(
            "orbit",
            raw.orbit.is_some(),
            !of_file,
            "preset`, `relative` or `elements",
        );
        self.key(
            "craft",
            raw.craft.is_some(),
            of_any || of_file,
            "preset: string-of-pearls`, `preset: circumnavigation`, `tle` or `ephemeris",
        );
        self.key(
            "strict",
            raw.strict,
            of_file && raw.strict,
            "tle` or `ephemeris",
        );
        self.key(
            "max_age",
            raw.max_age.is_some(),
            of_tle && raw.max_age.is_some(),
            "tle",
        );
        let needed = preset.is_some_and(|preset| preset != FormationPreset::Starling);
        self.key(
            "size",
            raw.size.is_some(),
            needed || (preset.is_some() && raw.size.is_some()),
            "preset",
        );
        Some(match &raw.from {
            RawPositions::Tle(file) => {
                let max_age = raw.max_age.unwrap_or(TWO_WEEKS);
                FormationSource::Tle(self.file("tle", file, inputs)?, max_age)
            }
            RawPositions::Ephemeris(file) => {
                FormationSource::Ephemeris(self.file("ephemeris", file, inputs)?)
            }
            RawPositions::Relative(states) => FormationSource::Relative(raw.orbit?, states.clone()),
            RawPositions::Elements(elements) => {
                FormationSource::Elements(raw.orbit?, elements.clone())
            }
            RawPositions::Preset(preset) => {
                let size = match (raw.size, preset) {
                    (None, FormationPreset::Starling) => STARLING,
                    (size, _) => size?,
                };
                FormationSource::Preset(raw.orbit?, *preset, size)
            }
        })
    }

    fn file(&mut self, key: &str, name: &str, inputs: &mut Inputs<'_>) -> Option<TextFile> {
        let path = [Key("spacecraft"), Key(self.name.as_str()), Key(key)];
        inputs.records(name, &path, self.errors)
    }
}
