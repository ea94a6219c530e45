//! Other simulators' files become scenarios that are valid, and fly what the files say.

use constel_exchange::draft::{Draft, Shell, Station};
use std::path::Path;

use constel_exchange::{celestial, hypatia, opensn, starperf, starrynet};
use constel_orbit::{Satellite, tle};
use constel_plan::Lab;
use constel_scenario::{DiskFiles, parse, resolve};
use constel_units::{TimeSpan, Utc};

/// The scenario of a draft, laid out.
fn lab(draft: &Draft) -> Lab {
    let yaml = draft.yaml();
    let parsed = parse("imported.yaml", &yaml).unwrap_or_else(|e| panic!("{e}\n{yaml}"));
    let scenario = resolve(&parsed, &DiskFiles::beside("imported.yaml"))
        .unwrap_or_else(|e| panic!("{e}\n{yaml}"));
    Lab::new(scenario).unwrap_or_else(|e| panic!("{e}\n{yaml}"))
}

#[test]
fn starrynet() {
    let draft = starrynet::parse(include_str!("data/starrynet.json")).unwrap();
    let of = lab(&draft);
    assert_eq!(of.layout.satellite_count(), 25);
    assert_eq!(of.scenario.duration, TimeSpan::from_ns(100_000_000_000));
    assert_eq!(of.scenario.step, TimeSpan::from_ns(10_000_000_000));
    assert_eq!(
        of.layout.spec().constellations[0].gsl_class.loss_ratio,
        0.01
    );
    let notes = draft.notes.join("\n");
    assert!(
        notes.contains("ground stations")
            && notes.contains("antenna number")
            && notes.contains("phase factor 1")
            && !notes.contains("IP version")
    );
    assert!(draft.yaml().contains("routing: {families: [ipv4]}"));
    // As the release writes it, whatever the case.
    let text = include_str!("data/starrynet.json").replace(
        "\"antenna number\"",
        "\"Satellite link\": \"grid\", \"Intra-AS routing\": \"OSPF\", \"antenna number\"",
    );
    let ospf = starrynet::parse(&text).unwrap();
    assert!(!ospf.notes.join("\n").contains("+Grid was taken"));
    assert!(
        ospf.yaml()
            .contains("routing: {daemon: bird, families: [ipv4]}")
    );
    lab(&ospf);
    let draft = starrynet::parse(include_str!("data/starrynet-shells.json")).unwrap();
    assert_eq!(lab(&draft).layout.satellite_count(), 72 * 22 + 6 * 58);
}

#[test]
fn celestial() {
    let draft = celestial::parse(include_str!("data/celestial.toml"), "quick start").unwrap();
    let of = lab(&draft);
    assert_eq!(of.layout.satellite_count(), 66 + 1584);
    assert!(of.layout.find("berlin").is_some() && of.layout.find("new-york").is_some());
    let notes = draft.notes.join("\n");
    assert!(notes.contains("bbox") && notes.contains("compute_params") && notes.contains("`all`"));
}

#[test]
fn what_celestials_file_has_and_a_scenario_has_not_is_noted_or_an_error() {
    let text = include_str!("data/celestial.toml");
    let more = text.replace("duration = 900", "duration = 3").replace(
        "[[ground_station]]\nname = \"New York\"",
        "[[ground_station]]\nname = \"berlin\"",
    );
    let more = more.replace(
        "[network_params]",
        "[network_params]\nisl_propagation = 0.5",
    );
    let draft = celestial::parse(&more, "quick start").unwrap();
    let notes = draft.all_notes().join("\n");
    for words in [
        "the duration of 3 s became 5 s, a multiple of the step of 5 s",
        "`network_params.isl_propagation` was not carried over",
        "station `berlin` is called `berlin-2`",
    ] {
        assert!(notes.contains(words), "{notes}");
    }
    assert!(draft.yaml().contains("became 5 s") && !notes.contains("`Berlin` is called"));
    // Half a plane is an error in its line, though another shell could fly.
    let errors = celestial::parse(&text.replace("planes = 72", "planes = 71.5"), "x").unwrap_err();
    assert_eq!(errors.0[0].line, 24, "{errors}");
    assert_eq!(
        errors.0[0].reason,
        "`planes` is 71.5, which is no whole number"
    );
}

/// Celestial has no phasing: at lab time zero the first satellite of each plane is at its ascending node, and the nodes are
/// as far apart as planes of a half circle (star) or of a circle are.
#[test]
fn celestials_planes_begin_at_their_nodes() {
    let draft = celestial::parse(include_str!("data/celestial.toml"), "quick start").unwrap();
    let of = lab(&draft);
    let mut places = Vec::new();
    assert!(of.sky.positions_itrf_m(0, &mut places).is_empty());
    for (number, shell) in draft.shells.iter().enumerate() {
        let satellites = of.layout.nodes()[..of.layout.satellite_count()].iter();
        let first = satellites.filter(|node| {
            let seat = node.seat.unwrap();
            usize::from(seat.constellation) == number && seat.slot == 0
        });
        let first: Vec<_> = first.map(|node| places[node.id.index()]).collect();
        assert_eq!(first.len(), shell.planes as usize);
        let circle_deg = if shell.star { 180.0 } else { 360.0 };
        let apart_deg = circle_deg / f64::from(shell.planes);
        for (plane, place) in first.iter().enumerate() {
            assert!(
                place.z.abs() < 1_000.0,
                "shell {number} plane {plane}: {place:?}"
            );
            let angle_deg = |place: &constel_orbit::DVec3| place.y.atan2(place.x).to_degrees();
            let from_first_deg = (angle_deg(place) - angle_deg(&first[0])).rem_euclid(360.0);
            let off_deg = (from_first_deg - plane as f64 * apart_deg).abs();
            assert!(
                !(0.01..=359.99).contains(&off_deg),
                "shell {number} plane {plane}: {off_deg}"
            );
        }
    }
}

#[test]
fn opensn() {
    let text = include_str!("data/opensn.json");
    assert!(opensn::is_one(text) && !opensn::is_one(include_str!("data/starrynet.json")));
    let draft = opensn::parse(text, "emulation").unwrap();
    let nodes = "
nodes:
  satellites:
    image: \"docker.io/example/satellite-router:latest\"
    env: {\"ROLE\": \"satellite\", \"AREA\": \"0\"}
    capabilities: {add: [NET_ADMIN, SYS_ADMIN]}
    limits: {cpu: 0.01, memory: 25165824 B}
  stations:
    image: \"ground-router\"
    capabilities: {add: [NET_ADMIN, SYS_ADMIN]}
    limits: {cpu: 0.5}

routing: {mode: none, families: [ipv4]}
information: [{opensn: true}]
";
    assert!(draft.yaml().ends_with(nodes), "{}", draft.yaml());
    // The form of its store has the types one level deeper.
    let stored = format!(r#"{{"running": false, "type_config": {text}}}"#);
    assert!(opensn::is_one(&stored));
    let same = opensn::parse(&stored, "emulation").unwrap();
    assert_eq!(same.yaml(), draft.yaml());
    let of = lab(&draft);
    assert_eq!(of.containers().count(), 66 + 1);
    let notes = draft.notes.join("\n");
    for said in [
        "`UserEquipment` was not carried over",
        "`resource_limit.io` of `GroundStation` was not carried over",
        "no orbits",
        "no stations",
        "privileged",
    ] {
        assert!(notes.contains(said), "{said}: {notes}");
    }
}

#[test]
fn what_is_wrong_in_opensns_file_is_said_at_once() {
    let text = r#"{"Satellite": {"image": "", "container_envs": ["A=b"], "resource_limit": {"nano_cpu": "1K",
        "memory_byte": "24MB"}}, "ground_station": {"image": "g", "container_envs": {"A": null}}}"#;
    let wrong = opensn::parse(text, "x").unwrap_err().to_string();
    for said in [
        "`Satellite` has no `image`",
        "`container_envs` of `Satellite` is not an object",
        "`nano_cpu` of `Satellite` is \"1K\"",
        "`memory_byte` of `Satellite` is \"24MB\"",
        "the variable `A` of `ground_station` is no text",
    ] {
        assert!(wrong.contains(said), "{said}: {wrong}");
    }
    assert!(opensn::parse("{}", "x").is_err() && opensn::parse("[", "x").is_err());
}

#[test]
fn starperf_there_and_back() {
    let mut draft = starperf::parse_constellation(include_str!("data/starperf.xml"), "x").unwrap();
    let out = starperf::write_constellation(&draft.shells, |_| 5731.0);
    assert_eq!(
        starperf::parse_constellation(&out, "x").unwrap().shells,
        draft.shells
    );
    assert!(draft.shells[1].star && !draft.shells[0].star);
    draft.stations = vec![Station {
        name: "A & B <c>".into(),
        latitude_deg: -1.5,
        longitude_deg: 2.25,
        altitude_m: 0.0,
    }];
    assert_eq!(
        starperf::parse_stations(&starperf::write_stations(&draft.stations)).unwrap(),
        draft.stations
    );
    assert_eq!(lab(&draft).layout.satellite_count(), 72 * 22 + 18 * 40);
}

fn shell1() -> Shell {
    Shell {
        star: false,
        altitude_m: 550e3,
        inclination_deg: 53.0,
        planes: 72,
        per_plane: 22,
        phasing: 65,
        raan0_deg: 10.0,
        isl: true,
        min_elevation_deg: None,
    }
}

fn start() -> Utc {
    "2026-11-21T06:30:00Z".parse().unwrap()
}

#[test]
fn hypatia_there_and_back() {
    for shell in [
        shell1(),
        Shell {
            star: true,
            inclination_deg: 86.4,
            planes: 6,
            per_plane: 11,
            phasing: 2,
            altitude_m: 780e3,
            ..shell1()
        },
    ] {
        let tles = hypatia::write_tles("c", &[shell], start()).unwrap();
        let total = (shell.planes * shell.per_plane) as usize;
        let links: Vec<(u32, u32)> = (0..2 * total as u32)
            .map(|n| (n % total as u32, (n + 1) % total as u32))
            .collect();
        let stations = vec![Station {
            name: "Tokyo".into(),
            latitude_deg: 35.6895,
            longitude_deg: 139.69171,
            altitude_m: 0.0,
        }];
        let files = hypatia::Files {
            tles: &tles,
            tles_path: "tles.txt",
            isls: Some(&hypatia::write_isls(&links)),
            stations: Some(&hypatia::write_stations(&stations)),
            gsl_interfaces: Some(&hypatia::write_gsl_interfaces(total + 1)),
            description: Some(&hypatia::write_description(1_089_686.0, 5_016_591.0)),
        };
        let draft = hypatia::parse(&files, "there and back").unwrap_or_else(|e| panic!("{e}"));
        let back = draft.shells[0];
        assert!((back.altitude_m - shell.altitude_m).abs() < 2.0, "{back:?}");
        assert!((back.raan0_deg - shell.raan0_deg).abs() < 1e-4);
        let same = |s: Shell| {
            (
                s.star,
                s.inclination_deg.to_bits(),
                s.planes,
                s.per_plane,
                s.phasing,
                s.isl,
            )
        };
        assert_eq!(same(back), same(shell));
        assert_eq!(draft.start, start());
        assert_eq!(draft.stations, stations);
        assert_eq!(lab(&draft).layout.satellite_count(), total);
    }
}

/// SGP4 on the elements written flies with the scenario's own satellites: what is left between them is J2's
/// short-period swing.
#[test]
fn hypatia_elements_fly_like_the_scenario() {
    let mut draft = Draft::new("a test", "x");
    draft.start = start();
    draft.shells = vec![shell1()];
    let lab = lab(&draft);
    let tles = hypatia::write_tles("c", &draft.shells, start()).unwrap();
    let sets = tle::parse(tles.split_once('\n').unwrap().1).unwrap();
    let satellites: Vec<Satellite> = sets
        .iter()
        .map(|s| Satellite::from_elements(s).unwrap())
        .collect();
    let mut worst = 0.0_f64;
    for minutes in [0, 17, 100, 600] {
        let span = TimeSpan::from_ns(minutes * 60_000_000_000);
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        assert!(
            lab.sky
                .positions_itrf_m(span.ns() as u64, &mut ours)
                .is_empty()
        );
        assert!(
            constel_orbit::positions_itrf_m(&satellites, start() + span, &mut theirs).is_empty()
        );
        for (a, b) in ours.iter().zip(&theirs) {
            worst = worst.max(a.distance(*b));
        }
    }
    println!(
        "Walker and SGP4 on the exported elements are at most {:.1} km apart in 10 hours",
        worst / 1e3
    );
    assert!(worst < 25e3, "{worst}");
}

#[test]
fn hypatia_phase_diff_is_a_walker_pattern() {
    // As its generator makes them: every second plane half a slot ahead, epoch 2000.
    let mut tles = String::from("4 3\n");
    for p in 0..4_u32 {
        for s in 0..3_u32 {
            let shift = if p % 2 == 1 { 60.0 } else { 0.0 };
            let lines = [
                format!(
                    "1 {:05}U 00000ABC 00001.00000000  .00000000  00000-0  00000+0 0    0",
                    p * 3 + s + 1
                ),
                format!(
                    "2 {:05}  53.0000 {:8.4} 0000001   0.0000 {:8.4} 15.19000000    0",
                    p * 3 + s + 1,
                    f64::from(p) * 90.0,
                    shift + f64::from(s) * 120.0
                ),
            ];
            tles += &format!("x {}\n", p * 3 + s);
            for line in lines {
                let sum: u32 = line
                    .chars()
                    .map(|c| c.to_digit(10).unwrap_or(u32::from(c == '-')))
                    .sum();
                tles += &format!("{line}{}\n", sum % 10);
            }
        }
    }
    let draft = hypatia::parse(
        &hypatia::Files {
            tles: &tles,
            ..hypatia::Files::default()
        },
        "h",
    )
    .unwrap();
    assert_eq!(draft.shells[0].phasing, 2);
    assert_eq!(lab(&draft).layout.satellite_count(), 12);
    // Elements in no pattern fly as they are: here a plane that stands elsewhere, and one satellite less.
    let moved = tles.replace("53.0000  90.0000", "53.0000  81.0000");
    let fewer = tles.replacen("4 3", "11 1", 1);
    let fewer: Vec<&str> = fewer.lines().collect();
    let fewer = fewer[..fewer.len() - 3].join("\n");
    for (text, satellites) in [(moved, 12), (fewer, 11)] {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("tles: {satellites}.txt"));
        std::fs::write(&path, &text).unwrap();
        let draft = hypatia::parse(
            &hypatia::Files {
                tles: &text,
                tles_path: path.to_str().unwrap(),
                isls: Some("0 1\n1 2\n2 7\n"),
                ..hypatia::Files::default()
            },
            "h",
        )
        .unwrap();
        assert!(draft.shells.is_empty() && draft.notes[0].contains("no Walker pattern"));
        let lab = lab(&draft);
        assert_eq!(lab.layout.satellite_count(), satellites);
        let yaml = draft.yaml();
        assert!(
            yaml.contains("{from: satellites-p00-s02, to: satellites-p00-s07}"),
            "{yaml}"
        );
    }
}
