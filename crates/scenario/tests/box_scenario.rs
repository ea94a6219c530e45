//! Scenarios that are a box: what is wrong with a file, all at once (`tests/boxes/X.yaml` gives `X.stderr`, written again
//! with `CONSTEL_BLESS=1`), and what a good one means.

use constel_scenario::model::{BoxEnds, BoxScenario};
use constel_scenario::{Diagnostics, DiskFiles, box_schema_json, is_box, read_box};

fn read(name: &str, text: &str) -> Result<BoxScenario, Diagnostics> {
    read_box(name, text.as_bytes(), &DiskFiles::in_folder("tests/boxes"))
}

fn compare(file: &str, seen: &str) {
    if std::env::var_os("CONSTEL_BLESS").is_some() {
        std::fs::write(file, seen).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(file).unwrap_or_default(),
        seen,
        "{file}"
    );
}

#[test]
fn every_error_reads_as_agreed() {
    for case in ["form", "values", "interfaces", "joined", "router", "names"] {
        let text = std::fs::read_to_string(format!("tests/boxes/{case}.yaml")).unwrap();
        assert!(is_box(text.as_bytes()), "{case}");
        let errors = read(&format!("{case}.yaml"), &text).unwrap_err();
        compare(&format!("tests/boxes/{case}.stderr"), &errors.to_string());
    }
}

#[test]
fn the_shipped_schema_is_that_of_the_code() {
    let pages = "../../docs/reference";
    compare(
        &format!("{pages}/box-scenario.schema.json"),
        &box_schema_json(),
    );
}

#[test]
fn the_shipped_one_means_what_it_says() {
    let text = std::fs::read_to_string("../../scenarios/box.yaml").unwrap();
    let scenario = read("box.yaml", &text).unwrap_or_else(|errors| panic!("{errors}"));
    let BoxEnds::Machines(machines) = &scenario.ends else {
        panic!("machines: {:?}", scenario.ends)
    };
    let [client, server] = &machines[..] else {
        panic!("two machines")
    };
    assert_eq!(
        [client.name.as_str(), server.name.as_str()],
        ["client", "server"]
    );
    assert_eq!(client.addresses, [("10.20.0.1".parse().unwrap(), 24)]);
    assert!(scenario.rules.warnings.is_empty());
    let starts: Vec<i64> = scenario.commands.iter().map(|c| c.at.ns()).collect();
    assert!(starts.is_sorted(), "{starts:?}");
    assert_eq!(
        scenario.commands[0].machine, 1,
        "the server is there before its clients"
    );
}

#[test]
fn other_scenarios_are_none() {
    let iridium = std::fs::read("../../scenarios/iridium.yaml").unwrap();
    assert!(!is_box(&iridium));
    assert!(!is_box(b"box: ["));
    assert!(!is_box(b"\xff"));
}
