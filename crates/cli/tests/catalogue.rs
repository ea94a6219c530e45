//! Satellites of a catalogue are known, and named, by what it calls them, in a running lab and in its scenario.

use crate::support;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use support::host::Host;
use support::lab::Lab;
use support::{constel, json as document, scenario, stderr, stdout, until};

/// Two of Iridium and two pieces of one rocket, which have one name: elements of the public catalogue of 2022-09-14 as
/// CelesTrak distributes it, copied from the shared `data/tle` (`scenarios/data/README.md` says more).
const ELEMENTS: &str = "IRIDIUM 7 [-]
1 24793U 97020B   22257.50747357  .00000297  00000+0  98432-4 0  9996
2 24793  86.3944 238.2679 0002181  91.8042 268.3404 14.34536528327510
IRIDIUM 4 [-]
1 24796U 97020E   22257.43232856  .00000311  00000+0  10131-3 0  9990
2 24796  86.3944 235.8465 0002024  85.5318 274.6110 14.35441007327984
FALCON 9 DEB
1 48607U 21041BG  22257.06441202  .00001590  00000+0  15335-3 0  9994
2 48607  53.0386 120.9178 0012325 313.9017  46.0950 14.98470569 72856
FALCON 9 DEB
1 48608U 21041BH  22257.01197648  .00001616  00000+0  15903-3 0  9992
2 48608  53.0350 123.8665 0012249 329.3012  30.7255 14.97563604 72807
";

fn lab(dir: &Path) -> PathBuf {
    fs::write(dir.join("el.tle"), ELEMENTS).unwrap();
    let text = "constel: 1
name: catalogue
start: 2022-09-14T14:00:00Z
duration: 60 s
constellations:
  sat:
    tle:
      file: el.tle
      shells:
        - {name: iri, altitude: 780 km, inclination: 86.4 deg, altitude_tolerance: 20 km, inclination_tolerance: 0.5 deg, planes: 1}
        - {name: deb, altitude: 575 km, inclination: 53.04 deg, altitude_tolerance: 20 km, inclination_tolerance: 0.1 deg, planes: 1}
    isl: {pattern: none}
    gsl: {min_elevation: 5 deg, link: {rate: 10 Mbit/s}}
ground:
  stations:
    west: {latitude: 0 deg, longitude: 0 deg}
routing: {mode: computed, destinations: all}
failures:
  - {name: spent, at: 1 s, nodes: [24796]}
traffic:
  - {name: inside, at: 1 s, for: 2 s, run: {node: 'IRIDIUM 7 [-]', command: [printenv, CONSTEL_NODE]}}
";
    scenario::write(dir, "catalogue.yaml", text)
}

#[test]
fn satellites_are_known_and_named_by_their_catalogue() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let mut lab = Lab::up("catalogue", &lab(dir.path()), dir.path(), &[]);
    let name = lab.name.clone();
    let exec = |node: &str| constel(["exec", &name, node, "--", "printenv", "CONSTEL_NODE"]);
    for node in ["IRIDIUM 7 [-]", "iridium 7 [-]", "24793", "sat-iri-p00-s00"] {
        assert_eq!(stdout(&exec(node)), "sat-iri-p00-s00\n", "{node}");
    }
    let refused = exec("FALCON 9 DEB");
    assert_eq!(refused.status.code(), Some(2));
    let said = stderr(&refused);
    for candidate in [
        "sat-deb-p00-s00 (FALCON 9 DEB, 48608)",
        "sat-deb-p00-s01 (FALCON 9 DEB, 48607)",
    ] {
        assert!(said.contains(candidate), "{said}");
    }
    let unknown = exec("IRIDIUM 8 [-]");
    assert_eq!(unknown.status.code(), Some(2));
    assert!(
        stderr(&unknown).contains("'IRIDIUM 7 [-]'"),
        "{}",
        stderr(&unknown)
    );

    let own =
        json!({"node": "sat-iri-p00-s00", "catalogue_name": "IRIDIUM 7 [-]", "norad_id": 24793});
    let other =
        json!({"node": "sat-iri-p00-s01", "catalogue_name": "IRIDIUM 4 [-]", "norad_id": 24796});
    let link = document(&constel([
        "link",
        &name,
        "24793",
        "IRIDIUM 4 [-]",
        "--json",
    ]));
    assert_eq!((&link["a"], &link["b"]), (&own["node"], &other["node"]));
    assert_eq!(link["catalogued"], json!([own, other]));
    let routes = document(&constel(["routes", &name, "24793", "--json"]));
    assert_eq!(routes["node"], own["node"]);
    assert_eq!(routes["catalogued"], json!([own]));
    let shown = document(&constel(["show", &name, "--json"]));
    let nodes = shown["node_list"].as_array().unwrap();
    assert_eq!(
        (&nodes[0]["norad_id"], &nodes[0]["catalogue_name"]),
        (&own["norad_id"], &own["catalogue_name"])
    );
    assert!(nodes.last().unwrap().get("norad_id").is_none());
    let table = stdout(&constel(["show", &name]));
    assert!(
        table.contains("NORAD  CATALOGUE NAME") && table.contains("24793  IRIDIUM 7 [-]"),
        "{table}"
    );

    let events = lab.results.join("events.ndjson");
    let failure = until("the satellite breaks", || {
        let text = fs::read_to_string(&events).ok()?;
        let line = text.lines().find(|line| line.contains("\"failure\""))?;
        serde_json::from_str::<Value>(line).ok()
    });
    assert_eq!(failure["objects"], json!(["sat-iri-p00-s01"]));
    assert_eq!(failure["catalogued"], json!([other]));
    let inside = lab.results.join("flows/inside.out");
    until("the command is over", || {
        let text = fs::read_to_string(&inside).ok()?;
        (text == "sat-iri-p00-s00\n").then_some(())
    });
    let manifest = fs::read(lab.results.join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    let catalogued = manifest["catalogued"].as_array().unwrap();
    assert_eq!(catalogued.len(), 4);
    assert_eq!(catalogued[..2], [own, other]);
    lab.interrupt();
    host.assert_as_before("catalogue");
}
