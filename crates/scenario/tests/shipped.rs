//! The shipped scenarios resolve, and the shipped schema is that of the code.

use std::collections::BTreeSet;

use constel_scenario::model::{Action, Isl, Orbits, Scenario};
use constel_scenario::{DiskFiles, parse, resolve, schema_json};

fn shipped(name: &str) -> Scenario {
    let path = format!("../../scenarios/{name}.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    parse(&path, &text)
        .and_then(|parsed| resolve(&parsed, &DiskFiles::beside(&path)))
        .unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn iridium_is_what_the_main_job_asks_for() {
    let scenario = shipped("iridium");
    let [iridium] = scenario.constellations.as_slice() else {
        panic!("one constellation")
    };
    let Orbits::Walker(walker) = &iridium.orbits else {
        panic!("a Walker pattern")
    };
    assert_eq!(
        (walker.satellites, walker.planes, walker.phasing),
        (66, 6, 2)
    );
    assert_eq!(
        walker.satellite_names("iridium").last().unwrap(),
        "iridium-p05-s10"
    );
    assert!(matches!(&iridium.isl, Isl::PlusGrid(grid) if !grid.seam));
    assert!(scenario.stations.len() >= 12);
    let kinds: BTreeSet<&str> = scenario
        .traffic
        .iter()
        .map(|flow| match &flow.action {
            Action::Ping(_) => "ping",
            Action::Iperf3(iperf3) => match iperf3.transport {
                constel_scenario::model::Transport::Tcp { .. } => "tcp",
                constel_scenario::model::Transport::Udp { .. } => "udp",
            },
            Action::Http(_) => "http",
            Action::Transfer(_) => "transfer",
            Action::Run(_) => "run",
        })
        .collect();
    for kind in ["ping", "tcp", "udp", "http"] {
        assert!(kinds.contains(kind), "no {kind}");
    }
    assert_eq!(scenario.inputs.len(), 2);
}

#[test]
fn shell1_has_1584_satellites_and_20_cities() {
    let scenario = shipped("starlink-shell1");
    let Orbits::Walker(walker) = &scenario.constellations[0].orbits else {
        panic!()
    };
    let names: BTreeSet<String> = walker.satellite_names("shell1").collect();
    assert_eq!(names.len(), 1584);
    assert_eq!(names.first().unwrap(), "shell1-p00-s00");
    assert_eq!(names.last().unwrap(), "shell1-p71-s21");
    assert_eq!(scenario.stations.len(), 20);
}

#[test]
fn the_real_starlink_carries_its_file() {
    let scenario = shipped("starlink-tle");
    let Orbits::Tle(set) = &scenario.constellations[0].orbits else {
        panic!()
    };
    assert_eq!(set.shells.len(), 4);
    assert!(set.file.text().starts_with("STARLINK-24"));
    let error = set.file.error(3, 5, 2, "tle", "bad").to_string();
    assert!(
        error.starts_with("../../scenarios/data/starlink-2022-09-14.tle:3:5: error: bad\n"),
        "{error}"
    );
}

/// Editors find the schema by the first line; a path that leads elsewhere would leave them silent.
#[test]
fn every_shipped_scenario_names_the_schema() {
    let root = std::fs::canonicalize("../..").unwrap();
    let reference = root.join("docs/reference");
    let mut seen = 0;
    for folder in [
        "scenarios",
        "scenarios/tests",
        "experiments/opensn",
        "experiments/sky",
        "tools/kernels",
    ] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|e| e != "yaml") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let named = text
                .lines()
                .next()
                .and_then(|l| l.strip_prefix("# yaml-language-server: $schema="))
                .unwrap_or_else(|| panic!("{}: the first line names no schema", path.display()));
            let found = path.parent().unwrap().join(named).canonicalize();
            let schema = match text.lines().any(|line| line.starts_with("box:")) {
                true => "box-scenario.schema.json",
                false => "scenario.schema.json",
            };
            let schema = reference.join(schema);
            assert_eq!(found.ok(), Some(schema), "{}", path.display());
            seen += 1;
        }
    }
    assert!(seen >= 18, "only {seen} scenarios found");
}

#[test]
fn the_shipped_schema_is_in_sync() {
    let (path, text) = ("../../docs/reference/scenario.schema.json", schema_json());
    if std::env::var_os("CONSTEL_BLESS").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    assert!(
        std::fs::read_to_string(path).unwrap_or_default() == text,
        "{path} is out of date; run `CONSTEL_BLESS=1 cargo test -p constel-scenario`"
    );
}
