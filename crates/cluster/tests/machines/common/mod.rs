//! Code that these tests share.

use constel_plan::Lab;

/// A shipped scenario.
pub(crate) fn lab(file: &str) -> Lab {
    let path = format!(
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/{}"),
        file
    );
    let text = std::fs::read_to_string(&path).unwrap();
    let parsed = constel_scenario::parse(&path, &text).unwrap_or_else(|e| panic!("{e}"));
    let files = constel_scenario::DiskFiles::beside(&path);
    let scenario = constel_scenario::resolve(&parsed, &files).unwrap_or_else(|e| panic!("{e}"));
    Lab::new(scenario).unwrap_or_else(|e| panic!("{e}"))
}
