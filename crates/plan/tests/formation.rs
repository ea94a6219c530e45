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
