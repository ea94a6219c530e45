//! Formations against positions worked out apart from Constel (`data/formation-reference.py`, with forces that Constel leaves
//! out), and craft from files.

use crate::given;

use constel_orbit::DVec3;
use constel_plan::Lab;
use given::{Given, lab, lasting};

fn craft(formations: &str, files: &Given) -> Result<Lab, String> {
    lab(&format!("spacecraft:\n{formations}"), files)
}

fn positions(lab: &Lab, t_s: u64) -> Vec<DVec3> {
    let mut out = Vec::new();
    let lost = lab.sky.positions_itrf_m(t_s * 1_000_000_000, &mut out);
    assert_eq!(lost, []);
    out
}

#[test]
fn two_orbits_on_ranges_are_those_of_an_independent_propagator() {
    let orbit =
        "orbit: {altitude: 500 km, inclination: 97.4 deg, raan: 30 deg, latitude_argument: 40 deg}";
    let lab = craft(
        &format!(
            "  tetra: {{{orbit}, preset: tetrahedron, size: 10 km}}\n  \
               ring: {{{orbit}, preset: circumnavigation, craft: 4, size: 10 km}}\n  \
               free:\n    {orbit}\n    relative:\n      - {{along_speed: 0 m/s}}\n      \
               - {{radial: 1 km, along: 10 km, cross: -2 km, radial_speed: 1.5 m/s, along_speed: -2 m/s, cross_speed: 3 m/s}}\n      \
               - {{radial: -500 m, along: -10 km, cross: 4 km}}\n"
        ),
        &Given::default(),
    )
    .unwrap();
    let reference = include_str!("data/formation-reference.csv");
    let mut worst_m = 0.0_f64;
    let mut rows = 0;
    for row in reference.lines().skip(1) {
        let cells: Vec<&str> = row.split(',').collect();
        let craft = [cells[1], cells[2]].map(|n| {
            let name = format!("{}-{n}", cells[0]);
            lab.layout.find(&name).unwrap().id.index()
        });
        let at = positions(&lab, cells[3].parse().unwrap());
        let range_m = at[craft[0]].distance(at[craft[1]]);
        let said_m: f64 = cells[4].parse().unwrap();
        let off_m = (range_m - said_m).abs();
        // 5 m at 10 km, and in proportion beyond: forces that turn with the Earth pull farther craft further apart.
        assert!(off_m < 5.0 * (said_m / 10e3).max(1.0), "{row}: {range_m}");
        worst_m = worst_m.max(off_m);
        rows += 1;
    }
    assert_eq!(rows, 300);
    println!("largest difference of a range in two orbits: {worst_m:.3} m");
}

#[test]
fn names_have_as_many_digits_as_the_last() {
    let orbit = "orbit: {altitude: 500 km, inclination: 53 deg}";
    let lab = craft(
        &format!("  s: {{{orbit}, preset: string-of-pearls, craft: 100, size: 1 km}}\n  t: {{{orbit}, preset: starling}}\n"),
        &Given::default(),
    )
    .unwrap();
    let names: Vec<&str> = lab.layout.nodes().iter().map(|n| n.name.as_str()).collect();
    assert_eq!((names[0], names[99], names[100]), ("s-00", "s-99", "t-0"));
    assert_eq!(
        (names.len(), lab.layout.nodes()[0].class.name),
        (104, "spacecraft")
    );
    let at = positions(&lab, 0);
    assert!((at[100].distance(at[101]) - 64e3).abs() < 100.0);
}

#[test]
fn craft_come_from_files_in_their_order() {
    let orbits = "t_utc,sat_id,x_m,y_m,z_m,frame\n";
    let row =
        |h: u32, id: &str, z: i32| format!("2026-11-21T{h:02}:00:00Z,{id},7000000,0,{z},itrf\n");
    let rows: String = (0..6)
        .flat_map(|h| [row(h, "b", 100), row(h, "a", 0)])
        .collect();
    let tle = "1 00001U 22001A   26325.00000000  .00000000  00000-0  00000-0 0    18\n\
               2 00001  53.0000 100.0000 0000001   0.0000   0.0000 15.05000000    15\n\
               1 00002U 22001B   26325.00000000  .00000000  00000-0  00000-0 0    19\n\
               2 00002  53.0000 100.0000 0000001   0.0000   1.0000 15.05000000    17\n";
    let files = Given(vec![
        ("e.csv", format!("{orbits}{rows}")),
        ("two.tle", tle.to_owned()),
    ]);
    let made = craft(
        "  e: {ephemeris: e.csv, craft: 2}\n  t: {tle: two.tle, craft: 2}\n",
        &files,
    )
    .unwrap();
    assert_eq!(
        made.find("00002").or(made.find("2")),
        Ok(made.layout.find("t-1").unwrap().id)
    );
    let at = positions(&made, 3600);
    assert!(
        (at[0].z - 100.0).abs() < 1e-6 && at[1].z.abs() < 1e-6,
        "{at:?}"
    );
    let refused = craft("  t: {tle: two.tle, craft: 3}\n", &files)
        .err()
        .unwrap();
    assert!(
        refused.contains("this file has 2 objects, and `craft` is 3"),
        "{refused}"
    );
}

#[test]
fn a_lab_too_long_for_its_craft_is_refused() {
    let text = "  s: {orbit: {altitude: 500 km, inclination: 53 deg}, preset: string-of-pearls, craft: 100, size: 1 km}\n";
    let refused = lasting("20 d", &format!("spacecraft:\n{text}"), &Given::default())
        .err()
        .unwrap();
    assert!(refused.contains("at most 2000000"), "{refused}");
}

/// Two-line elements of an object, with checksums.
fn elements(name: &str, epoch: &str, drag: &str, motion: &str) -> String {
    let lines = [
        format!("1 70001U 26001A   {epoch}.00000000  .00000000  00000+0 {drag} 0  999"),
        format!("2 70001  53.0000 110.0000 0014000 269.0000  91.0000 {motion}    1"),
    ];
    let with_sum = |line: String| {
        let value = |byte: u8| match byte {
            b'0'..=b'9' => u32::from(byte - b'0'),
            b'-' => 1,
            _ => 0,
        };
        let sum: u32 = line.bytes().map(value).sum();
        format!("{line}{}\n", sum % 10)
    };
    format!("{name}\n{}", lines.map(with_sum).concat())
}

/// An object that a constellation leaves out cannot be a formation's craft: one error with its name, at the file's key.
#[test]
fn craft_are_checked_as_the_objects_of_a_constellation_are() {
    const STEADY: &str = " 00000+0";
    let steady = elements("STEADY", "26325", STEADY, "15.05000000");
    // Epochs on the day of the start, and years and weeks before and after it; then an object that falls.
    for (name, epoch, drag, motion, why) in [
        (
            "OLD",
            "22100",
            STEADY,
            "15.05000000",
            "its elements are 1686.0 days from",
        ),
        (
            "NEW",
            "27100",
            STEADY,
            "15.05000000",
            "its elements are 140.0 days from",
        ),
        (
            "WEEKS",
            "26310",
            STEADY,
            "15.05000000",
            "its elements are 15.0 days from",
        ),
        ("FALLING", "26318", " 45000-1", "16.20000000", "decayed"),
        (
            "BEFORE",
            "26332",
            " 45000-1",
            "15.92000000",
            "SGP4 gives no plausible",
        ),
    ] {
        let file = steady.clone() + &elements(name, epoch, drag, motion);
        let files = || Given(vec![("two.tle", file.clone())]);
        let errors = craft("  t: {tle: two.tle, craft: 2}\n", &files())
            .err()
            .unwrap_or_default();
        assert_eq!(errors.matches("error: ").count(), 1, "{errors}");
        let place = format!("x.yaml:6:12: error: `{name}, 70001` cannot fly: ");
        assert!(errors.contains(&place) && errors.contains(why), "{errors}");
        let text = "constellations:\n  c: {tle: {file: two.tle}, isl: {pattern: none}, gsl: {min_elevation: 5 deg, link: {rate: 1 Mbit/s}}}\n\
                ground: {stations: {gs: {latitude: 0 deg, longitude: 0 deg}}}\n";
        let lab = lab(text, &files()).unwrap_or_else(|errors| panic!("{errors}"));
        let out: Vec<_> = lab
            .left_out
            .iter()
            .filter_map(|out| out.object.clone())
            .collect();
        assert_eq!(out, [name]);
        let allowed = "  t: {tle: two.tle, craft: 2, max_age: 36500 d}\n";
        let flown = craft(allowed, &files());
        let stale = errors.contains("`max_age` to fly them");
        assert_eq!(flown.is_ok(), stale, "{name}");
        if let Ok(lab) = flown {
            let warning = lab.ages.iter().find_map(|age| age.warning.clone());
            let warning = warning.unwrap_or_default();
            assert!(
                warning.contains("elements of 1 of 2 satellites are more than 2 days"),
                "{warning}"
            );
        }
    }
    let misplaced =
        "  s: {orbit: {altitude: 500 km, inclination: 53 deg}, preset: starling, max_age: 3 d}\n";
    let errors = craft(misplaced, &Given::default())
        .err()
        .unwrap_or_default();
    assert!(
        errors.contains("`spacecraft.s.max_age` has an effect only with `tle`"),
        "{errors}"
    );
}

/// `check` reports an object that comes down within the lab, in a constellation and in a formation; nothing else.
#[test]
fn an_object_that_comes_down_within_the_lab_is_reported() {
    let falling = |name: &str| elements(name, "26325", " 50000-2", "16.45000000");
    let steady = elements("STEADY", "26325", " 00000+0", "15.05000000");
    let warnings = |file: String, keys: &str, duration: &str| {
        let files = Given(vec![("two.tle", file)]);
        let lab = lasting(duration, keys, &files).unwrap_or_else(|errors| panic!("{errors}"));
        let ages: Vec<_> = lab
            .ages
            .iter()
            .filter_map(|age| age.warning.clone())
            .collect();
        ages
    };
    let formation = "spacecraft:\n  t: {tle: two.tle, craft: 2}\n";
    let as_is = "constellations:\n  c: {tle: {file: two.tle}, isl: {pattern: none}, gsl: {min_elevation: 5 deg, link: {rate: 1 Mbit/s}}}\n\
                ground: {stations: {gs: {latitude: 0 deg, longitude: 0 deg}}}\n";
    let shells = "constellations:\n  c: {tle: {file: two.tle, shells: [{name: s, altitude: 350 km, altitude_tolerance: 300 km, \
                  inclination: 53 deg, inclination_tolerance: 1 deg, planes: 1}]}, isl: {pattern: none}, gsl: {min_elevation: 5 deg, \
                  link: {rate: 1 Mbit/s}}}\nground: {stations: {gs: {latitude: 0 deg, longitude: 0 deg}}}\n";
    for keys in [formation, as_is, shells] {
        let one = falling("FALLER") + &steady;
        let said = warnings(one.clone(), keys, "12 h");
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(
            said[0].starts_with("`FALLER, 70001` comes down (")
                && said[0].contains("it has no position from 2026-11-21T0"),
            "{said:?}"
        );
        assert!(
            warnings(one, keys, "10 min").is_empty(),
            "not within a short lab"
        );
        assert!(
            warnings(
                steady.clone() + &steady.replace("STEADY", "OTHER"),
                keys,
                "12 h"
            )
            .is_empty()
        );
        let two = warnings(falling("A") + &falling("B"), keys, "12 h");
        assert!(two[0].ends_with("and no links; 1 more after it"), "{two:?}");
    }
}
