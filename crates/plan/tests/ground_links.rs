//! Scenarios with radio, weather, recordings, ephemerides and bent pipes, from text to plan.

use std::collections::BTreeMap;
use std::io;

use constel_plan::{Document, Lab};
use constel_scenario::{Diagnostics, Files, parse, resolve};
use constel_units::TimeSpan;

/// Files in memory.
struct Memory(BTreeMap<&'static str, String>);

impl Files for Memory {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        let text = self.0.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(text.clone().into_bytes())
    }
}

fn lab(scenario: &str, files: &[(&'static str, &str)]) -> Result<Lab, Diagnostics> {
    let files = files.iter().map(|(name, text)| (*name, (*text).to_owned()));
    let files = Memory(files.collect());
    let parsed = parse("test.yaml", scenario)?;
    Lab::new(resolve(&parsed, &files)?)
}

fn scenario(constellation: &str, rest: &str) -> String {
    format!(
        "constel: 1\nname: test\nstart: 2022-09-14T12:00:00Z\nduration: 60 s\nconstellations:\n  sky:\n\
         {constellation}\n{rest}"
    )
}

const RADIO: &str = "    preset: starlink-shell1
    isl: {pattern: none}
    gsl:
      min_elevation: 25 deg
      link: {rate: 1 Gbit/s}
      radio:
        up: {frequency: 14.25 GHz, eirp: 38 dBW, g_over_t: 9 dB/K, bandwidth: 60 MHz}
        down: {frequency: 11.7 GHz, eirp: 36 dBW, g_over_t: 9 dB/K, bandwidth: 240 MHz}
        system_temperature: 200 K
        margin: 1 dB";

fn rates_of(document: &Document, station: &str) -> (u64, u64) {
    let up = document
        .edges
        .iter()
        .find(|e| e.from_node == station)
        .unwrap();
    let down = document
        .edges
        .iter()
        .find(|e| e.to_node == station)
        .unwrap();
    (up.rate_bps.unwrap(), down.rate_bps.unwrap())
}

#[test]
fn rain_from_a_file_fades_one_station() {
    let rest = "weather: [{stations: [paris], file: rain.csv}]\nground:\n  stations:\n    \
                paris: {latitude: 48.86 deg, longitude: 2.35 deg}\n    \
                ghent: {latitude: 51.05 deg, longitude: 3.72 deg}\n";
    let rain = "t_s,rain_mm_per_h\n20,60\n40,0\n";
    let lab = lab(&scenario(RADIO, rest), &[("rain.csv", rain)]).unwrap();
    let at = |s: i64| Document::at(&lab, TimeSpan::from_ns(s * 1_000_000_000)).unwrap();
    let (before, wet, after) = (at(19), at(20), at(40));
    let paris = [&before, &wet, &after].map(|d| rates_of(d, "paris").1);
    assert!(paris[1] < paris[0] && paris[1] < paris[2], "{paris:?}");
    let ghent = [&before, &wet].map(|d| rates_of(d, "ghent"));
    assert_eq!(ghent[0], ghent[1]);
    // 60 MHz up carries less than 240 MHz down.
    assert!(ghent[0].0 < ghent[0].1);
    assert!(lab.scenario.inputs.iter().any(|i| i.path == "rain.csv"));
}

#[test]
fn an_ephemeris_is_an_orbit() {
    // Two spacecraft 500 km above Paris's meridian, one in each format, standing still in the ITRF.
    let (x, y, z) = (4_525_000.0, 185_000.0, 5_160_000.0);
    let mut csv = "t_utc,sat_id,x_m,y_m,z_m,frame\n".to_owned();
    for minute in 0..9 {
        for (id, dx) in [("one", 0.0), ("two", 100e3)] {
            csv += &format!("2022-09-14T12:0{minute}:00Z,{id},{},{y},{z},itrf\n", x + dx);
        }
    }
    let constellation = "    ephemeris: {file: two.csv}\n    isl: {pattern: {nearest: 1}, link: {rate: 1 Gbit/s}}\n    \
                         gsl: {min_elevation: 25 deg, link: {rate: 1 Gbit/s}}";
    let rest = "ground:\n  stations:\n    paris: {latitude: 48.86 deg, longitude: 2.35 deg}\n";
    let text = scenario(constellation, rest);
    let own = lab(&text, &[("two.csv", &csv)]).unwrap();
    let document = Document::at(&own, TimeSpan::from_ns(30_000_000_000)).unwrap();
    let at = |name: &str| {
        let node = document.nodes.iter().find(|n| n.name == name).unwrap();
        node.position_itrf_m.unwrap()
    };
    let (one, two) = (at("sky-p00-s00"), at("sky-p00-s01"));
    assert!((one[0] - x).abs() < 1e-3 && (two[0] - x - 100e3).abs() < 1e-3);
    let laser = document.edges.iter().find(|e| e.kind == "isl").unwrap();
    // 100 km at the speed of light.
    assert!(laser.delay_ns.abs_diff(333_564) <= 1, "{}", laser.delay_ns);
    assert!(document.edges.iter().any(|e| e.kind == "gsl"));
    assert!(own.ages.is_empty());
    // Data that ends early is reported; data that begins late is an error; so is a file without data.
    let early: String = csv
        .lines()
        .take(1 + 2 * 2)
        .map(|l| format!("{l}\n"))
        .collect();
    let early = early.replace("12:01:00", "12:00:50");
    let ages = lab(&text, &[("two.csv", &early)]).unwrap().ages;
    let warning = ages[0].warning.as_deref().unwrap();
    assert!(
        warning.contains("positions until 2022-09-14T12:00:50Z only"),
        "{warning}"
    );
    let late = csv.replace("2022-09-14T12", "2022-09-14T13");
    let error = lab(&text, &[("two.csv", &late)]).err().unwrap().to_string();
    assert!(
        error.contains("not at the start of the scenario"),
        "{error}"
    );
    let error = lab(&text, &[("two.csv", "x,y\n")])
        .err()
        .unwrap()
        .to_string();
    assert!(error.starts_with("two.csv:1:1: error: "), "{error}");
}

#[test]
fn stale_elements_are_warned_about() {
    let tle = include_str!("../../../scenarios/data/starlink-2022-09-14.tle");
    let constellation = "    tle:\n      file: x.tle\n      shells: [{name: s1, altitude: 550 km, inclination: 53.05 deg, \
                         altitude_tolerance: 5 km, inclination_tolerance: 0.1 deg, planes: 72}]\n    \
                         isl: {pattern: none}\n    gsl: {min_elevation: 25 deg, link: {rate: 1 Gbit/s}}";
    let text = scenario(constellation, "");
    let fresh = lab(&text, &[("x.tle", tle)]).unwrap();
    let age = &fresh.ages[0];
    assert!(age.median_days.unwrap().abs() < 2.0, "{age:?}");
    let stale = text.replace("2022-09-14T12", "2022-09-20T12");
    let stale = lab(&stale, &[("x.tle", tle)]).unwrap();
    let warning = stale.ages[0].warning.as_deref().unwrap();
    assert!(warning.contains("more than 2 days"), "{warning}");
}

#[test]
fn gateways_come_from_a_file_of_places() {
    let csv = include_str!("../../../scenarios/data/starlink-gateways.csv");
    let constellation = RADIO.replace("      radio:", "      bent_pipe: true\n      radio:");
    let rest = "ground:\n  from: [{file: gateways.csv, first: 200, feeder: true, antennas: 8}]\n  stations:\n    \
                paris: {latitude: 48.86 deg, longitude: 2.35 deg}\n    \
                midway: {latitude: 28.2 deg, longitude: -177.35 deg}\n";
    let lab = lab(&scenario(&constellation, rest), &[("gateways.csv", csv)]).unwrap();
    let document = Document::at(&lab, TimeSpan::from_ns(0)).unwrap();
    let gateways: Vec<_> = lab.scenario.stations.iter().filter(|s| s.feeder).collect();
    assert_eq!(gateways.len(), 200);
    let satellite = |name: &str| {
        let edge = document.edges.iter().find(|e| e.from_node == name)?;
        Some(edge.to_node.clone())
    };
    let own = satellite("paris").expect("Europe has gateways");
    assert!(
        document.edges.iter().any(|e| {
            e.from_node == own && gateways.iter().any(|g| g.name.as_str() == e.to_node)
        })
    );
}
