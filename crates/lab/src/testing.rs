//! Labs for the tests of this crate.

use constel_plan::{Blueprint, Lab};

/// The lab of a scenario's text.
pub(crate) fn lab(text: &str) -> Lab {
    // Beside the shipped scenarios, whose data it may name.
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/test.yaml");
    let parsed = constel_scenario::parse(path, text).unwrap_or_else(|e| panic!("{e}"));
    let files = constel_scenario::DiskFiles::beside(path);
    let scenario = constel_scenario::resolve(&parsed, &files).unwrap_or_else(|e| panic!("{e}"));
    Lab::new(scenario).unwrap_or_else(|e| panic!("{e}"))
}

/// The text of a shipped scenario.
pub(crate) fn shipped(name: &str) -> String {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/");
    std::fs::read_to_string(format!("{root}{name}.yaml")).unwrap()
}

/// The text of the shipped Iridium with computed routes.
pub(crate) fn computed_iridium() -> String {
    let text = shipped("iridium").replace("mode: bird", "mode: computed");
    text.replace("  ospf: {hello: 1 s, dead: 4 s}\n", "")
}

/// The blueprint of a scenario's text.
pub(crate) fn blueprint(text: &str) -> Blueprint {
    Blueprint::new(lab(text)).unwrap_or_else(|e| panic!("{e}"))
}

/// The shipped Iridium lab.
pub(crate) fn iridium() -> Blueprint {
    blueprint(&shipped("iridium"))
}
