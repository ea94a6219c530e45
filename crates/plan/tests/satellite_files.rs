//! Scenarios with files of satellites: the objects that fly, the ones left out and why, and unreadable files.

use crate::given;

use constel_plan::Lab;
use constel_scenario::read_scenario;
use given::Given;

/// An OMM of these objects: name, number, epoch, inclination, node, mean anomaly, eccentricity.
struct Object<'a>(&'a str, u64, &'a str, f64, f64, f64, f64);

const START: &str = "2026-11-21T00:00:00";

fn json(objects: &[Object<'_>]) -> String {
    let records = objects.iter().map(|Object(name, number, epoch, i, node, anomaly, e)| {
        format!(
            r#"{{"OBJECT_NAME": "{name}", "NORAD_CAT_ID": {number}, "EPOCH": "{epoch}", "MEAN_MOTION": 15.05,
                "ECCENTRICITY": {e}, "INCLINATION": {i}, "RA_OF_ASC_NODE": {node}, "ARG_OF_PERICENTER": 0,
                "MEAN_ANOMALY": {anomaly}, "BSTAR": 0.00001}}"#
        )
    });
    format!("[{}]", records.collect::<Vec<_>>().join(",\n"))
}

/// Six in two planes, a dead one between them, and one that is far from a circle.
fn constellation() -> String {
    let living = |n: u64| {
        let (plane, slot) = (n / 3, n % 3);
        (n, 90.0 * plane as f64, 120.0 * slot as f64)
    };
    let names: Vec<String> = (0..6).map(|n| format!("BIRD {n}")).collect();
    let mut objects: Vec<Object<'_>> = (0..6)
        .map(living)
        .map(|(n, node, anomaly)| {
            Object(
                &names[n as usize],
                40_000 + n,
                START,
                53.0,
                node,
                anomaly,
                1e-4,
            )
        })
        .collect();
    objects.push(Object("BIRD DEAD", 40_009, START, 53.0, 40.0, 10.0, 1e-4));
    objects.push(Object("LONG SHOT", 40_010, START, 53.0, 0.0, 10.0, 0.01));
    json(&objects)
}

const SHELL: &str = "shells: [{name: s, altitude: 550 km, inclination: 53 deg, altitude_tolerance: 50 km, inclination_tolerance: 1 deg, planes: 2}]";

fn lab(
    orbits: &str,
    isl: &str,
    file: (&'static str, &str),
) -> Result<Lab, constel_scenario::Diagnostics> {
    let text = format!(
        "constel: 1\nname: files\nstart: 2026-11-21T00:00:00Z\nduration: 60 s\nconstellations:\n  c:\n    {orbits}\n    \
         isl: {isl}\n    gsl: {{min_elevation: 10 deg, link: {{rate: 10 Mbit/s}}}}\nground:\n  stations:\n    \
         gs: {{latitude: 10 deg, longitude: 20 deg}}\n"
    );
    let files = Given(vec![(file.0, file.1.to_owned())]);
    read_scenario("files.yaml", text.as_bytes(), &files).and_then(Lab::new)
}

const NO_ISL: &str = "{pattern: none}";

fn names(lab: &Lab) -> Vec<String> {
    let named = lab
        .catalogue
        .all()
        .map(|(_, own)| own.catalogue_name.clone());
    named.map(Option::unwrap_or_default).collect()
}

#[test]
fn objects_are_chosen_by_name_number_and_pattern() {
    let omm = constellation();
    let with = |keys: &str, shells: &str| {
        lab(
            &format!("omm: {{file: c.json, {keys}{shells}}}"),
            NO_ISL,
            ("c.json", &omm),
        )
    };
    // The dead one hides the planes: that is an error, and how to leave it out is what the keys are for.
    let errors = with("", SHELL).err().unwrap().to_string();
    assert!(errors.contains("do not fall into 2 planes"), "{errors}");
    let birds: Vec<String> = (0..6).map(|n| format!("BIRD {n}")).collect();
    for keys in [
        "only: ['bird ?'], ",
        "except: [40009], ",
        "except: ['BIRD D*'], ",
        "only: [40000, 4000?, 'BIRD 5'], except: ['*9'], ",
    ] {
        let lab = with(keys, SHELL).unwrap_or_else(|errors| panic!("{keys}: {errors}"));
        let mut flying = names(&lab);
        flying.sort();
        assert_eq!(flying, birds, "{keys}");
        let dead = lab
            .left_out
            .iter()
            .find(|out| out.catalogue_number == Some(40_009));
        assert_eq!(dead.map(|out| out.kind), Some("not chosen"), "{keys}");
    }
    let errors = with("only: ['BIRT 5'], ", SHELL).err().unwrap().to_string();
    assert!(
        errors.contains("no object of the file is called `BIRT 5`") && errors.contains("`BIRD 5`?"),
        "{errors}"
    );
}

/// Two-line elements print numbers in five columns, so a number is also chosen in that form.
#[test]
fn numbers_are_chosen_as_two_line_elements_print_them() {
    for (number, forms) in [
        (5, ["5", "00005", "0000?"]),
        (40_009, ["40009", "4000?", "*09"]),
        (100_001, ["100001", "A0001", "a000?"]),
        (339_999, ["339999", "Z9999", "z*"]),
    ] {
        let objects = [
            Object("BIRD", number, START, 53.0, 0.0, 0.0, 1e-4),
            Object("OTHER", 77_777, START, 53.0, 0.0, 50.0, 1e-4),
        ];
        for form in forms {
            let keys = format!("omm: {{file: c.json, only: ['{form}']}}");
            let lab = lab(&keys, NO_ISL, ("c.json", &json(&objects)));
            let lab = lab.unwrap_or_else(|errors| panic!("{form}: {errors}"));
            assert_eq!(names(&lab), ["BIRD"], "{form}");
        }
    }
}

/// Objects that are left out for their orbit or by choice have errors with the reason and with the keys that change it.
#[test]
fn errors_without_satellites_have_the_reason_and_the_key() {
    let omm = constellation();
    let errors = |keys: &str| {
        let keys = format!("omm: {{file: c.json, {keys}}}");
        let errors = lab(&keys, NO_ISL, ("c.json", &omm)).err();
        errors.unwrap_or_else(|| panic!("{keys}")).to_string()
    };
    for keys in ["except: ['*']", "only: ['BIRD *'], except: ['BIRD *']"] {
        for shells in ["", SHELL] {
            let found = errors(&format!("{keys}, {shells}"));
            assert!(
                found.contains("`only` and `except` leave none of the 8 objects"),
                "{found}"
            );
            assert!(
                found.contains("not chosen") && found.contains("`except` has"),
                "{found}"
            );
        }
    }
    let none = SHELL.replace("550 km", "5500 km");
    let elliptic = format!("only: ['LONG SHOT'], {SHELL}");
    for keys in [none.as_str(), elliptic.as_str(), SHELL] {
        let found = errors(keys);
        let hint = "choose objects by `only` and `except`, or leave `shells` out";
        assert!(found.contains(hint), "{found}");
    }
    let old = errors(&format!(
        "max_age: 0 s, {}",
        SHELL.replace("550 km", "5500 km")
    ));
    assert!(
        old.contains("leave `shells` out"),
        "at the epoch itself nothing is old: {old}"
    );
}

#[test]
fn a_file_flies_as_it_is() {
    let omm = constellation();
    let orbits = "omm: {file: c.json}";
    for isl in [NO_ISL, "{pattern: {nearest: 2}, link: {rate: 10 Mbit/s}}"] {
        let lab = lab(orbits, isl, ("c.json", &omm)).unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(
            names(&lab).len(),
            8,
            "also the one that is far from a circle"
        );
        assert_eq!(lab.layout.nodes()[7].name, "c-p00-s07");
        assert_eq!(
            lab.layout.find("gs").map(|node| node.class.flies),
            Some(false)
        );
        assert_eq!(*lab.left_out, []);
    }
}

#[test]
fn one_bad_record_does_not_refuse_the_others() {
    let omm = constellation().replacen("\"INCLINATION\": 53", "\"INCLINATION\": 530", 1);
    let with = |keys: &str| {
        lab(
            &format!("omm: {{file: c.json{keys}}}"),
            NO_ISL,
            ("c.json", &omm),
        )
    };
    let good = with("").unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(names(&good).len(), 7);
    let out = &good.left_out[0];
    assert_eq!(out.object.as_deref(), Some("BIRD 0"));
    assert!(
        out.reason.starts_with("line 1: inclination: 530 must lie"),
        "{}",
        out.reason
    );
    let warnings: Vec<&String> = good
        .ages
        .iter()
        .filter_map(|age| age.warning.as_ref())
        .collect();
    assert!(
        warnings[0].starts_with("1 of 8 records cannot be read"),
        "{warnings:?}"
    );
    let errors = with(", strict: true").err().unwrap().to_string();
    assert!(
        errors.contains("c.json:1:1: error: BIRD 0: inclination"),
        "{errors}"
    );
}

/// Forty thousand bad pairs, which took 51 s: each error read the file from its beginning.
#[test]
fn a_large_file_of_errors_is_refused_quickly() {
    let pair = "1 25544U 98067A   08264.51782528 -.00002182  00000-0 -11606-4 0  2928\n\
                2 25544  51.6416 247.4627 0006703 130.5360 325.0288 15.72125391563538\n";
    let begin = std::time::Instant::now();
    let errors = lab(
        "tle: {file: a.tle}",
        NO_ISL,
        ("a.tle", &pair.repeat(40_000)),
    )
    .err()
    .unwrap();
    let took = begin.elapsed();
    assert!(errors.len() <= 200, "{}", errors.len());
    assert!(took.as_secs() < 20, "{took:?}");
}

/// An error of sorting has the true reasons, and all objects that were left out.
#[test]
fn reasons_survive_when_sorting_fails() {
    let old = constellation().replace(START, "2022-09-14T00:00:00");
    let errors = lab(
        &format!("omm: {{file: c.json, {SHELL}}}"),
        NO_ISL,
        ("c.json", &old),
    )
    .err()
    .unwrap();
    assert_eq!(errors.left_out().len(), 8);
    let text = errors.to_string();
    assert!(
        text.contains(
            "7 with elements too old or too new (BIRD 0: its elements are 1529.0 days from the requested instant"
        ),
        "{text}"
    );
    assert!(text.contains("1 not circular enough"), "{text}");
    assert!(text.contains("hint: set `start` near the epochs"), "{text}");
    // The objects still fly if the scenario requests it.
    let lab = lab(
        "omm: {file: c.json, max_age: 2000 d}",
        NO_ISL,
        ("c.json", &old),
    );
    assert_eq!(
        names(&lab.unwrap_or_else(|errors| panic!("{errors}"))).len(),
        8
    );
}

#[test]
fn a_byte_order_mark_is_no_part_of_a_name() {
    let tle = "\u{feff}ALPHA ONE\r\n1 12345U 26001A   26325.00000000  .00000000  00000+0  00000+0 0  9990\r\n\
               2 12345  53.0000  10.0000 0001000   0.0000   0.0000 15.05000000    19\r\n";
    let lab = lab("tle: {file: a.tle}", NO_ISL, ("a.tle", tle))
        .unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(names(&lab), ["ALPHA ONE"]);
    assert!(lab.find("alpha one").is_ok());
}

const POSITIONS: &str = "t_utc,sat_id,x_m,y_m,z_m,frame\n\
    2026-11-21T00:00:00Z,G01,26000000,0,0,itrf\n2026-11-21T00:00:20Z,G01,26000000,1000,0,itrf\n\
    2026-11-21T00:00:21Z,G01,,,,itrf\n\
    2026-11-21T00:00:40Z,G01,26000000,2000,0,itrf\n2026-11-21T00:01:00Z,G01,26000000,3000,0,itrf\n\
    2026-11-21T00:00:00Z,R01,26000000,0,0,itrf\n2026-11-21T00:01:00Z,R01,26000000,3000,0,itrf\n";

#[test]
fn holes_of_an_ephemeris_are_said_and_objects_of_it_are_chosen() {
    let all = lab("ephemeris: {file: a.csv}", NO_ISL, ("a.csv", POSITIONS))
        .unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(names(&all), ["G01", "R01"]);
    let warnings: Vec<&String> = all
        .ages
        .iter()
        .filter_map(|age| age.warning.as_ref())
        .collect();
    assert_eq!(
        warnings,
        [
            "`G01` has no position between 2026-11-21T00:00:20Z and 2026-11-21T00:00:40Z: it has no links there"
        ]
    );
    let mut positions = Vec::new();
    let lost = all.sky.positions_itrf_m(30_000_000_000, &mut positions);
    assert_eq!(lost.len(), 1);
    assert!(all.sky.is_interrupted(0, 10_000_000_000, 50_000_000_000));
    assert!(!all.sky.is_interrupted(0, 0, 20_000_000_000));
    assert!(!all.sky.is_interrupted(1, 10_000_000_000, 50_000_000_000));
    let one = lab(
        "ephemeris: {file: a.csv, except: ['R*']}",
        NO_ISL,
        ("a.csv", POSITIONS),
    );
    assert_eq!(
        names(&one.unwrap_or_else(|errors| panic!("{errors}"))),
        ["G01"]
    );
}

fn warnings(lab: &Lab) -> Vec<&str> {
    let warnings = lab.ages.iter().filter_map(|age| age.warning.as_deref());
    warnings.collect()
}

#[test]
fn one_bad_state_does_not_refuse_the_others() {
    let row = |name: &str, second: u32, x: &str| {
        format!(
            "2026-11-21T00:{:02}:{:02}Z,{name},{x},0,0,itrf\n",
            second / 60,
            second % 60
        )
    };
    let mut text = "t_utc,sat_id,x_m,y_m,z_m,frame\n".to_owned();
    for n in 0..7 {
        text += &row("G01", 10 * n, if n == 3 { "nan" } else { "26000000" });
        text += &row("G02", 10 * n, if n == 0 { "26000" } else { "26000000" });
        text += &row("G03", 10 * n, "x");
        text += &row("G04", 10 * n, "26000000");
    }
    let with = |keys: &str| {
        lab(
            &format!("ephemeris: {{file: a.csv{keys}}}"),
            NO_ISL,
            ("a.csv", &text),
        )
    };
    let good = with("").unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(names(&good), ["G01", "G04"]);
    assert_eq!(
        warnings(&good),
        [
            "9 of 28 states cannot be used and leave holes, the first for line 3: G02: the position is inside the Earth, \
             26.000 km from its centre (`strict: true` refuses such a file)",
            "`G01` has no position between 2026-11-21T00:00:20Z and 2026-11-21T00:00:40Z: it has no links there",
        ]
    );
    let out: Vec<(Option<&str>, &str)> = good
        .left_out
        .iter()
        .map(|out| (out.object.as_deref(), out.reason.as_str()))
        .collect();
    assert_eq!(
        out,
        [
            (Some("G03"), "line 4: `x` is not a number; and 6 more"),
            (
                Some("G02"),
                "`G02` has positions from 2026-11-21T00:00:10Z to 2026-11-21T00:01:00Z, not at the start of the scenario, \
                 2026-11-21T00:00:00Z"
            ),
        ]
    );
    let mut positions = Vec::new();
    let lost = good.sky.positions_itrf_m(30_000_000_000, &mut positions);
    assert_eq!(lost.len(), 1);
    // A refusal by `strict` has every error.
    let errors = with(", strict: true").err().unwrap().to_string();
    for words in [
        "a.csv:3:1: error: the position is inside",
        "a.csv:14:1: error: `nan` is not a number",
        "a.csv:28:1: error: `x`",
    ] {
        assert!(errors.contains(words), "{words}: {errors}");
    }
    // A requested object without a good state is reported.
    let errors = with(", only: [G03, G04]").err().unwrap().to_string();
    assert!(
        errors.contains("`G03` cannot be read: line 4: `x` is not a number"),
        "{errors}"
    );
    // An object that is not chosen may be anywhere.
    let late = text
        .replace("2026-11-21T00:00:00Z,G04", "2026-11-20T00:00:00Z,G05")
        .replace("G04", "G05");
    let late = late
        .replace("2026-11-21T00:00", "2026-11-21T10:00")
        .replace("2026-11-21T00:01", "2026-11-21T10:01");
    assert!(
        lab(
            "ephemeris: {file: a.csv, only: [G05]}",
            NO_ISL,
            ("a.csv", &late)
        )
        .is_ok()
    );
}

/// A file without a good object: every reason is given, `strict` or not.
#[test]
fn a_file_of_bad_states_is_refused_with_its_reasons() {
    let text = POSITIONS.replace("26000000", "26000");
    let errors = lab("ephemeris: {file: a.csv}", NO_ISL, ("a.csv", &text))
        .err()
        .unwrap();
    assert_eq!(errors.len(), 6);
    assert!(
        errors
            .to_string()
            .contains("a.csv:7:1: error: the position is inside the Earth"),
        "{errors}"
    );
}

/// A formation of four from a file of two-line elements with `more` after them.
fn formation(keys: &str, file: (&'static str, &str)) -> Result<Lab, constel_scenario::Diagnostics> {
    let text = format!(
        "constel: 1\nname: files\nstart: 2026-11-21T00:00:00Z\nduration: 60 s\nspacecraft:\n  f: {{craft: 2, {keys}}}\n"
    );
    let files = Given(vec![(file.0, file.1.to_owned())]);
    read_scenario("files.yaml", text.as_bytes(), &files).and_then(Lab::new)
}

#[test]
fn a_formation_needs_its_own_records_only() {
    let tle = |name: &str, line_1: &str| {
        format!(
            "{name}\n{line_1}\n2 12345  53.0000  10.0000 0001000   0.0000   0.0000 15.05000000    19\n"
        )
    };
    let (good, bad) = (
        "1 12345U 26001A   26325.00000000  .00000000  00000+0  00000+0 0  9990",
        "1 12345U 26001A   26325.0000x000  .00000000  00000+0  00000+0 0  9990",
    );
    let three = [tle("ONE", good), tle("TWO", bad), tle("THREE", good)].concat();
    let file = ("a.tle", three.as_str());
    let flown = formation("tle: a.tle", file).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(names(&flown), ["ONE", "THREE"]);
    assert!(
        warnings(&flown)[0].starts_with("1 of 3 records cannot be read"),
        "{:?}",
        flown.ages
    );
    assert_eq!(flown.left_out.len(), 1);
    let errors = formation("tle: a.tle, strict: true", file)
        .err()
        .unwrap()
        .to_string();
    assert!(errors.contains("a.tle:5:1: error: "), "{errors}");
    // One that is missed is named.
    let two = [tle("ONE", good), tle("TWO", bad)].concat();
    let errors = formation("tle: a.tle", ("a.tle", &two))
        .err()
        .unwrap()
        .to_string();
    assert!(errors.contains("a.tle:5:1: error: "), "{errors}");
    assert!(
        errors.contains("this file has 1 objects, and `craft` is 2"),
        "{errors}"
    );
    // Positions likewise.
    let spoilt = POSITIONS.replace("00:00:40Z,G01,26000000", "00:00:40Z,G01,x");
    let flown = formation("ephemeris: a.csv", ("a.csv", &spoilt))
        .unwrap_or_else(|errors| panic!("{errors}"));
    assert!(
        warnings(&flown)[0].starts_with("1 of 6 states cannot be used"),
        "{:?}",
        flown.ages
    );
    let errors = formation("ephemeris: a.csv, strict: true", ("a.csv", &spoilt))
        .err()
        .unwrap()
        .to_string();
    assert!(
        errors.contains("a.csv:5:1: error: `x` is not a number"),
        "{errors}"
    );
    let lost = POSITIONS.replace("R01,26000000", "R01,x");
    let errors = formation("ephemeris: a.csv", ("a.csv", &lost))
        .err()
        .unwrap()
        .to_string();
    assert!(
        errors.contains("`R01` cannot be read: line 7: `x` is not a number; and 1 more"),
        "{errors}"
    );
}

/// In how many of 20 looks, half a minute apart, two stations with one antenna each use satellites of one plane.
fn looks_in_one_plane(policy: &str) -> usize {
    let text = format!(
        "constel: 1\nname: reach\nstart: 2026-11-21T00:00:00Z\nduration: 10 min\nstep: 5 s\nconstellations:\n  c:\n    \
         preset: starlink-shell1\n    isl: {{pattern: ring, link: {{rate: 10 Mbit/s}}}}\n    \
         gsl: {{min_elevation: 25 deg, policy: {policy}, link: {{rate: 10 Mbit/s}}}}\nground:\n  stations:\n    \
         zurich: {{latitude: 47.4 deg, longitude: 8.5 deg}}\n    madrid: {{latitude: 40.4 deg, longitude: -3.7 deg}}\n"
    );
    let scenario = read_scenario("reach.yaml", text.as_bytes(), &Given::default());
    let lab = scenario
        .and_then(Lab::new)
        .unwrap_or_else(|errors| panic!("{errors}"));
    let stations = ["zurich", "madrid"].map(|name| lab.layout.find(name).unwrap().id);
    let mut stepper = lab.stepper();
    (0..20)
        .filter(|look| {
            let snapshot = stepper.at_step(look * 6);
            let plane = |station| {
                let own = snapshot
                    .edges
                    .iter()
                    .find(|edge| lab.layout.port(edge.from).node == station);
                let satellite = own.map(|edge| lab.layout.port(edge.to).node);
                satellite
                    .and_then(|id| lab.layout.node(id).seat)
                    .map(|seat| seat.plane)
            };
            let planes = stations.map(plane);
            planes[0].is_some() && planes[0] == planes[1]
        })
        .count()
}

/// With rings alone, stations reach each other on one plane only: a policy that heeds that finds it with one antenna, where
/// eight antennas by distance find it in 17 of these looks.
#[test]
fn stations_choose_a_plane_that_both_can_use() {
    assert!(looks_in_one_plane("nearest") <= 2);
    let found = looks_in_one_plane("most-reachable");
    assert!(found >= 17, "{found} of 20");
}

/// Four geostationary satellites, each with a node of its own: a ring links each with both its neighbours.
#[test]
fn a_ring_near_the_equator_links_neighbours() {
    let given = [
        (0.02, 80.0, 280.0),
        (0.05, 85.0, 5.0),
        (0.01, 300.0, 240.0),
        (0.03, 95.0, 175.0),
    ];
    let records: Vec<String> = given
        .iter()
        .enumerate()
        .map(|(n, (i, node, anomaly))| {
            format!(
                r#"{{"OBJECT_NAME": "GEO {n}", "NORAD_CAT_ID": {n}, "EPOCH": "{START}", "MEAN_MOTION": 1.00271,
                    "ECCENTRICITY": 0.0001, "INCLINATION": {i}, "RA_OF_ASC_NODE": {node}, "ARG_OF_PERICENTER": 0,
                    "MEAN_ANOMALY": {anomaly}, "BSTAR": 0}}"#
            )
        })
        .collect();
    let omm = format!("[{}]", records.join(","));
    let shell = "shells: [{name: s, altitude: 35786 km, inclination: 0 deg, altitude_tolerance: 200 km, inclination_tolerance: 5 deg, planes: 1}]";
    let lab = lab(
        &format!("omm: {{file: c.json, {shell}}}"),
        "{pattern: ring, link: {rate: 10 Mbit/s}}",
        ("c.json", &omm),
    );
    let lab = lab.unwrap_or_else(|errors| panic!("{errors}"));
    let links = lab.layout.isl_links();
    assert_eq!(links.len(), 4);
    for link in links {
        let [a, b] = [link.a, link.b].map(|port| lab.layout.port(port).node.0);
        assert!(
            [1, 3].contains(&a.abs_diff(b)),
            "{a} {b}: slots are in order of flight"
        );
    }
    // All four are up: two across the Earth would not be.
    let up = lab
        .stepper()
        .at_step(0)
        .edges
        .iter()
        .filter(|edge| edge.from < edge.to)
        .count();
    assert!(up >= 4, "{up}");
}
