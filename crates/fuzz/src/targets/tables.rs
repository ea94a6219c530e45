//! Tables that a scenario names, read to their end by a small lab: choices, switched links, chosen routes, places, tracks.

use std::sync::Arc;

use constel_plan::{Blueprint, FailedEdges, Lab, Planner};
use constel_scenario::{Diagnostics, Files, read_scenario};

use super::Target;

pub(super) fn targets() -> Vec<Target> {
    vec![
        Target::new("choices", choices, |bytes| planned(CHOICES, bytes)),
        Target::new("switched-links", switched, |bytes| planned(SWITCHED, bytes)),
        Target::new("chosen-routes", routes, |bytes| planned(ROUTES, bytes)),
        Target::new("places", places, |bytes| planned(PLACES, bytes)),
        Target::new("track", tracks, |bytes| planned(TRACK, bytes)),
    ]
}

const HEAD: &str = "\
constel: 1
name: x
start: 2026-11-21T00:00:00Z
duration: 100 s
step: 20 s
";

const SKY: &str = "\
constellations:
  k:
    walker: {pattern: star, altitude: 780 km, inclination: 86.4 deg, satellites: 12, planes: 3, phasing: 2}
    isl: {pattern: none}
    gsl: {min_elevation: 1 deg, link: {rate: 10 Mbit/s}}
";

const CHOICES: &str = "\
ground:
  choices: given.csv
  stations:
    tokyo: {latitude: 35.7 deg, longitude: 139.7 deg}
    london: {latitude: 51.5 deg, longitude: -0.1 deg, antennas: 2}
";

const SWITCHED: &str = "\
links: {choices: given.csv}
ground:
  stations:
    tokyo: {latitude: 35.7 deg, longitude: 139.7 deg}
  hosts:
    server: {latitude: 35.7 deg, longitude: 139.7 deg}
  cables: [{from: tokyo, to: server, delay: 1 ms, link: {rate: 10 Mbit/s}}]
";

const ROUTES: &str = "\
routing: {choices: given.csv}
ground:
  hosts:
    a: {latitude: 0 deg, longitude: 0 deg}
    b: {latitude: 1 deg, longitude: 1 deg}
    c: {latitude: 0 deg, longitude: 2 deg}
  cables:
    - {from: a, to: b, delay: 1 ms, link: {rate: 10 Mbit/s}}
    - {from: b, to: c, delay: 1 ms, link: {rate: 10 Mbit/s}}
    - {from: a, to: c, delay: 1 ms, link: {rate: 10 Mbit/s}}
";

const PLACES: &str = "\
ground:
  from:
    - {file: given.csv, names: [Paris, Tokyo]}
";

const TRACK: &str = "\
ground:
  stations:
    ship: {track_file: given.csv}
";

/// The file of the scenario.
struct Given<'a>(&'a [u8]);

impl Files for Given<'_> {
    fn read(&self, path: &str) -> std::io::Result<Vec<u8>> {
        match path {
            "given.csv" => Ok(self.0.to_vec()),
            _ => Err(std::io::ErrorKind::NotFound.into()),
        }
    }
}

/// Plans the first steps of a lab with this file, or checks that the errors are bounded, name a file, and are no commands to a
/// terminal.
fn planned(rest: &str, bytes: &[u8]) -> bool {
    let sky = if rest == ROUTES { "" } else { SKY };
    let text = format!("{HEAD}{sky}{rest}");
    match blueprint(&text, bytes) {
        Ok(blueprint) => {
            let failed = FailedEdges::default();
            let mut planner = Planner::new(blueprint);
            let mut step = planner.first(&failed);
            for _ in 0..3 {
                planner.installed(step, &failed);
                step = planner.advance();
                planner.route(&mut step, &failed);
            }
            true
        }
        Err(errors) => {
            assert!(!errors.is_empty() && errors.len() <= 200);
            let text = errors.to_string();
            assert!(!text.chars().any(|c| c.is_control() && c != '\n'));
            let named = ["given.csv", "f.yaml"]
                .iter()
                .any(|file| text.contains(file));
            assert!(named, "no file: {text}");
            false
        }
    }
}

fn blueprint(text: &str, bytes: &[u8]) -> Result<Arc<Blueprint>, Diagnostics> {
    let scenario = read_scenario("f.yaml", text.as_bytes(), &Given(bytes))?;
    let blueprint = Blueprint::new(Lab::new(scenario)?);
    Ok(Arc::new(blueprint.expect("a lab of a few nodes")))
}

fn choices() -> Vec<Vec<u8>> {
    vec![
        b"t_s,station,satellites\n0,tokyo,k-p00-s00 k-p00-s01\n0,london,\n20,tokyo,k-p01-s02\n40.5,london,k-p02-s03 k-p00-s00 k-p01-s01\n".to_vec(),
        b"t_s,station,satellites\r\n0,tokyo,k-p02-s03 k-p00-s00 k-p01-s01\r\n".to_vec(),
    ]
}

fn switched() -> Vec<Vec<u8>> {
    vec![
        b"t_s,a,b,up\n0,tokyo,server,0\n20,server,tokyo,1\n20,k-p00-s00,k-p00-s01,0\n".to_vec(),
        b"t_s,a,b,up\r\n0.5,k-p00-s00,k-p01-s00,1\r\n".to_vec(),
    ]
}

fn routes() -> Vec<Vec<u8>> {
    vec![
        b"t_s,node,destination,next\n0,a,c,b\n0,b,c,c\n40,a,c,\n40,b,c,c\n".to_vec(),
        b"t_s,node,destination,next\r\n0,a,b,c\r\n0,c,b,a\r\n".to_vec(),
    ]
}

fn places() -> Vec<Vec<u8>> {
    vec![
        b"name,latitude_deg,longitude_deg,altitude_m\nParis,48.85,2.35,35\nTokyo,35.7,139.7,\nAl-Qahirah-(Cairo),30,31.2,\n".to_vec(),
        b"id,Name,longitude_deg,latitude_deg\n1,\"Paris\",2.35,48.85\n2,Tokyo,139.7,35.7\n3,Paris,0,0\n".to_vec(),
    ]
}

fn tracks() -> Vec<Vec<u8>> {
    vec![
        b"t_s,latitude_deg,longitude_deg,altitude_m\n0,1,2,0\n30,1.01,2.01,10\n60,1.02,2.02,0\n"
            .to_vec(),
        b"t_s,latitude_deg,longitude_deg\n0,89.9,179.99\n100,89.9,-179.99\n".to_vec(),
    ]
}
