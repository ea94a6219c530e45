//! Labs for the tests of this crate.

use crate::{Blueprint, Lab};

/// The shipped Iridium lab.
pub(crate) fn iridium() -> Blueprint {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/iridium.yaml");
    let text = std::fs::read_to_string(path).unwrap();
    let parsed = constel_scenario::parse(path, &text).unwrap_or_else(|e| panic!("{e}"));
    let files = constel_scenario::DiskFiles::beside(path);
    let scenario = constel_scenario::resolve(&parsed, &files).unwrap_or_else(|e| panic!("{e}"));
    let lab = Lab::new(scenario).unwrap_or_else(|e| panic!("{e}"));
    Blueprint::new(lab).unwrap_or_else(|e| panic!("{e}"))
}
