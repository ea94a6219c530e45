//! Presets: an access with its numbers, the measurement that they were fitted to, and the residuals.

use serde::{Deserialize, Serialize};

use super::parts::Access;

/// A preset: a data file of this crate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// The measurements that its numbers were fitted to, and where numbers that are no fit come from.
    pub fitted_to: Vec<String>,
    /// The remaining differences between the model and the measurements.
    pub residuals: Vec<Residual>,
    /// The access.
    pub access: Access,
}

/// A figure of a measurement beside that of the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Residual {
    /// The figure, with its unit.
    pub figure: String,
    /// The measured value.
    pub measured: f64,
    /// The value by the model.
    pub model: f64,
}

/// Names of the presets, with their files.
pub const PRESETS: [(&str, &str); 4] = [
    ("ideal", include_str!("presets/ideal.json")),
    ("oneweb-2024", include_str!("presets/oneweb-2024.json")),
    ("starlink-2023", include_str!("presets/starlink-2023.json")),
    ("starlink-2025", include_str!("presets/starlink-2025.json")),
];

/// Returns the names of the presets.
#[must_use]
pub fn preset_names() -> [&'static str; PRESETS.len()] {
    PRESETS.map(|(name, _)| name)
}

/// Returns the preset with this name, if there is one.
#[must_use]
pub fn preset(name: &str) -> Option<Preset> {
    let (_, text) = PRESETS.iter().find(|(known, _)| *known == name)?;
    // The tests read every file, so a file that cannot be read never ships.
    serde_json::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_can_be_read_and_is_valid() {
        for (name, text) in PRESETS {
            let preset: Preset =
                serde_json::from_str(text).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(preset.access.check(), Ok(()), "{name}");
            assert_eq!(preset.access.is_ideal(), name == "ideal");
            assert_eq!(preset.fitted_to.is_empty(), name == "ideal", "{name}");
        }
        assert!(super::preset("starlink").is_none());
    }
}
