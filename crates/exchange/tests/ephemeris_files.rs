//! Files of positions in every format, frame and time scale, against skyfield. See `oracle/ephemeris_oracle.py`.

use std::collections::BTreeMap;

use constel_exchange::ephemeris::{Ephemeris, EphemerisFile};
use constel_exchange::position_files::{Format, read};
use constel_exchange::{csv, oem, sp3, stk};
use constel_orbit::DVec3;
use constel_units::{TimeSpan, Utc};
use serde_json::Value;

fn start() -> Utc {
    "2026-11-21T00:00:00Z".parse().unwrap()
}

fn after(seconds: f64) -> Utc {
    start() + TimeSpan::from_secs_f64(seconds)
}

fn file(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/ephemeris");
    std::fs::read_to_string(format!("{folder}/{name}")).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// The position of each orbit at each instant, ITRF metres.
fn oracle() -> BTreeMap<String, Vec<(Utc, DVec3)>> {
    let all: Value = serde_json::from_str(&file("expected.json")).unwrap();
    let row = |row: &Value| {
        let at = row["utc"].as_str().unwrap();
        let p = |n: usize| row["itrf_m"][n].as_f64().unwrap();
        (
            constel_units::instant(at).unwrap(),
            DVec3::new(p(0), p(1), p(2)),
        )
    };
    let orbits = all["orbits"].as_object().unwrap().iter();
    orbits
        .map(|(name, rows)| {
            (
                name.clone(),
                rows.as_array().unwrap().iter().map(row).collect(),
            )
        })
        .collect()
}

/// Largest distance from the oracle, metres, and how often there is no position.
fn worst(object: &Ephemeris, orbit: &[(Utc, DVec3)]) -> (f64, usize) {
    let mut worst = (0.0_f64, 0);
    for (at, truth) in orbit {
        match object.position_itrf_m(*at) {
            Ok(position) => worst.0 = worst.0.max((position - *truth).length()),
            Err(_) => worst.1 += 1,
        }
    }
    worst
}

#[test]
fn every_format_frame_and_scale_is_where_skyfield_says() {
    let oracle = oracle();
    for (name, format) in [
        ("icrf-utc.oem", Format::Oem),
        ("gcrf-tt.oem", Format::Oem),
        ("eme2000-utc.oem", Format::Oem),
        ("eme2000-tai.oem", Format::Oem),
        ("tod-gps.oem", Format::Oem),
        ("mod-utc.oem", Format::Oem),
        ("teme-utc.oem", Format::Oem),
        ("itrf-gps.oem", Format::Oem),
        ("gcrf-utc.xml", Format::Oem),
        ("igs.sp3", Format::Sp3),
        ("moving.sp3", Format::Sp3),
        ("low-icrf.e", Format::Stk),
        ("low-j2000.e", Format::Stk),
        ("low-tod.e", Format::Stk),
        ("geo-fixed.e", Format::Stk),
    ] {
        let text = file(name);
        // Saved by a Windows tool as well.
        let marked = format!("\u{feff}{}", text.replace('\n', "\r\n"));
        assert_eq!(Format::of(&marked), format, "{name}");
        let own = name.split('-').next().unwrap().to_uppercase();
        let objects = read(&text, &own).unwrap_or_else(|errors| panic!("{name}: {errors}"));
        assert_eq!(read(&marked, &own).as_ref(), Ok(&objects), "{name}");
        assert_eq!(objects.bad, [], "{name}");
        for object in &objects.objects {
            let orbit = match object.object.as_str() {
                "G01" | "G02" => &oracle["GEO"],
                other => &oracle[other],
            };
            let (off_m, nowhere) = worst(object, orbit);
            println!(
                "{name} {}: {off_m:.2e} m, {nowhere} times nowhere",
                object.object
            );
            // Velocities turn with MOD and TOD here and not in the oracle, which moves what is interpolated by 1e-9 of the
            // distance. TEME is skyfield's by its own mean sidereal time, another definition.
            let radius_m = orbit[0].1.length();
            let bound_m = match name.starts_with("teme") {
                true => radius_m * 2e-8,
                false => radius_m * 1.5e-9 + 0.002,
            };
            assert!(off_m < bound_m, "{name} {}: {off_m}", object.object);
            assert_eq!(
                nowhere > 0,
                object.object == "G02",
                "{name} {}",
                object.object
            );
        }
    }
}

/// Every reader that is new takes hundreds of spoilt files without a panic, and says where they are wrong.
#[test]
fn spoilt_files_are_refused_with_their_lines() {
    for (name, from, to, line, words) in [
        (
            "igs.sp3",
            "PG01  25654.731828",
            "PG01  x5654.731828",
            11,
            "is not a number",
        ),
        ("igs.sp3", "cc GPS ccc", "cc XYZ ccc", 5, "time system XYZ"),
        (
            "igs.sp3",
            "  0  5  0.00000000",
            "  0  0  0.00000000",
            14,
            "not later",
        ),
        ("low-icrf.e", "ICRF", "B1950", 11, "frame B1950"),
        (
            "low-icrf.e",
            "21 Nov 2026",
            "31 Nov 2026",
            7,
            "no such date",
        ),
        (
            "low-icrf.e",
            "     Earth",
            "     Moon",
            10,
            "central body Moon",
        ),
        (
            "low-icrf.e",
            "EphemerisTimePosVel",
            "EphemerisLLATimePos",
            13,
            "is not supported",
        ),
        (
            "gcrf-utc.xml",
            "<X units=\"km\">",
            "<X units=\"m\">",
            7,
            "not in km",
        ),
        ("gcrf-utc.xml", ">GCRF<", ">MARS<", 5, "frame MARS"),
        ("gcrf-utc.xml", "</oem>", "</omm>", 0, "not XML"),
        ("icrf-utc.oem", "ICRF", "B1950", 9, "frame B1950"),
        ("icrf-utc.oem", "= UTC", "= UT1", 10, "time system UT1"),
        ("icrf-utc.oem", "EARTH", "MOON", 8, "centre MOON"),
        (
            "icrf-utc.oem",
            "META_STOP",
            "REF_FRAME = EME2000\nMETA_STOP",
            0,
            "REF_FRAME is given twice",
        ),
        (
            "gcrf-utc.xml",
            "</metadata>",
            "<TIME_SYSTEM>TAI</TIME_SYSTEM></metadata>",
            0,
            "TIME_SYSTEM is given twice",
        ),
        (
            "low-icrf.e",
            "BEGIN Ephemeris",
            "BEGIN Ephemeris\nTimeFormat UTCG",
            0,
            "only as seconds after ScenarioEpoch",
        ),
        (
            "low-icrf.e",
            "BEGIN Ephemeris",
            "BEGIN Ephemeris\nTimeScale TAI",
            0,
            "time scale TAI",
        ),
    ] {
        let text = file(name);
        assert!(text.contains(from), "{name}: {from}");
        let spoilt = read(&text.replacen(from, to, 1), "x");
        let errors = spoilt.and_then(EphemerisFile::all).unwrap_err().0;
        let found = errors
            .iter()
            .any(|e| (line == 0 || e.line == line) && e.reason.contains(words));
        assert!(found, "{name}: {errors:?}");
    }
    for text in [
        "",
        "#cP",
        "stk.v.11.0\nBEGIN Ephemeris\n",
        "<ndm/>",
        "CCSDS_OEM_VERS = 2.0",
    ] {
        assert!(read(text, "x").is_err(), "{text:?}");
    }
}

/// A segment that ends before the next begins: what is written and read again has the hole.
#[test]
fn holes_survive_being_written() {
    let objects = sp3::parse(&file("igs.sp3")).unwrap();
    let holed = &objects[1];
    let holes = holed.holes();
    assert_eq!(
        holes,
        [(after(11.0 * 300.0 - 18.0), after(16.0 * 300.0 - 18.0))]
    );
    let middle = after(13.0 * 300.0);
    for (form, again) in [
        ("oem", oem::parse(&oem::write(&objects, start(), "ME"))),
        ("csv", csv::parse(&csv::write(&objects))),
    ] {
        let again = again.unwrap_or_else(|errors| panic!("{form}: {errors}"));
        assert_eq!(again.len(), 2, "{form}");
        let error = again[1].position_itrf_m(middle).unwrap_err();
        assert!(
            error.hole && error.to_string().contains("hole"),
            "{form}: {error}"
        );
        assert!(again[0].position_itrf_m(middle).is_ok(), "{form}");
        assert_eq!(again[1].holes(), holes, "{form}");
    }
}

#[test]
fn segments_of_stk_meet_at_their_boundaries() {
    let text = "stk.v.12.0\nBEGIN Ephemeris\nScenarioEpoch 1 Jan 2026 00:00:00.0\nCoordinateSystem Fixed\n\
                BEGIN SegmentBoundaryTimes\n 20\nEND SegmentBoundaryTimes\nEphemerisTimePos\n\
                0 7e6 0 0\n10 7e6 1e4 0\n20 7e6 2e4 0\n30 7e6 2e4 1e4\n40 7e6 2e4 2e4\nEND Ephemeris\n";
    let objects = stk::parse(text, "craft").unwrap();
    assert_eq!(objects[0].object, "craft");
    let usable: Vec<_> = objects[0].segments.iter().map(|s| s.usable()).collect();
    let at = |s: i64| Utc::from_unix_ns(1_767_225_600_000_000_000 + s * 1_000_000_000);
    assert_eq!(usable, [(at(0), at(20)), (at(20), at(40))]);
    assert!(objects[0].holes().is_empty());
    // Straight before the turn, straight after it.
    let position = objects[0].position_itrf_m(at(15)).unwrap();
    assert!(
        (position - DVec3::new(7e6, 1.5e4, 0.0)).length() < 1e-6,
        "{position}"
    );
}

#[test]
fn csv_follows_rfc_4180_and_marks_holes() {
    let text = "\"t_utc\",\"sat_id\",\"x_m\",\"y_m\",\"z_m\",\"frame\"\r\n\
                2026-11-21 00:00:00,\"a, b\",7000000,0,0,itrf\r\n\
                2026-11-21T00:01:00Z,\"a, b\",7000000,10,0,ITRF\r\n\
                2026-325T00:02:00,\"a, b\",,,,itrf\r\n\
                2026-11-21T00:05:00Z,\"a, b\",7000000,50,0,itrf\r\n\
                2026-11-21T00:06:00Z,\"a, b\",7000000,60,0,itrf\r\n";
    let objects = csv::parse(text).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(objects[0].object, "a, b");
    assert_eq!(objects[0].holes(), [(after(60.0), after(300.0))]);
    let again = csv::parse(&csv::write(&objects)).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(again[0].object, "a, b");
    assert_eq!(again[0].holes(), objects[0].holes());
}

/// Comments, copies of rows, and values that mean "unknown" leave the other positions as they are without them.
#[test]
fn comments_copies_and_unknown_values_bend_no_orbit() {
    let text = csv::write(&sp3::parse(&file("igs.sp3")).unwrap());
    let plain = csv::parse(&text).unwrap();
    let (head, rows) = text.split_once('\n').unwrap();
    let half = rows.lines().count() / 2;
    let first: String = rows
        .lines()
        .take(half)
        .map(|row| format!("{row}\n# note\n"))
        .collect();
    // The second file begins before the end of the first.
    let second: String = rows
        .lines()
        .skip(half - 7)
        .map(|row| format!("{row}\n"))
        .collect();
    let joined =
        csv::parse(&format!("{head}\n{first}{second}")).unwrap_or_else(|errors| panic!("{errors}"));
    let middle = after(6.5 * 300.0);
    for (joined, plain) in joined.iter().zip(&plain) {
        assert_eq!(joined.holes(), plain.holes());
        assert_eq!(
            joined.position_itrf_m(middle).unwrap(),
            plain.position_itrf_m(middle).unwrap()
        );
    }
    let text = file("igs.sp3");
    let row = text.lines().find(|line| line.starts_with("PG01")).unwrap();
    let unknown = format!("PG01{}", " 999999.999999".repeat(4));
    let read = sp3::read(&text.replace(row, &unknown)).unwrap();
    assert!(read.bad.is_empty(), "{:?}", read.bad);
    let later = after(20.5 * 300.0);
    let whole = sp3::parse(&text).unwrap()[0]
        .position_itrf_m(later)
        .unwrap();
    let off = read.objects[0].position_itrf_m(later).unwrap() - whole;
    assert!(off.length() < 1.0, "{off}");
}

/// A file in which one state was changed, in each format: how many holes there are then, and the good states' positions.
#[test]
fn one_bad_state_is_a_hole_and_not_the_end_of_the_file() {
    for (name, from, to, line, words) in [
        (
            "igs.sp3",
            "PG01  25654.731828",
            "PG01  x5654.731828",
            11,
            "is not a number",
        ),
        (
            "igs.sp3",
            "  0  5  0.00000000",
            "  0  0  0.00000000",
            14,
            "not later",
        ),
        (
            "low-icrf.e",
            "3.00000000000000e+02",
            "3.0x",
            20,
            "is not a number",
        ),
        (
            "low-icrf.e",
            "3.00000000000000e+02",
            "1.0e+02",
            20,
            "not later",
        ),
        (
            "gcrf-utc.xml",
            "2026-325T00:05:00",
            "2026-399T00:05:00",
            12,
            "",
        ),
        (
            "icrf-utc.oem",
            "\n2026-11-21T00:05:00",
            "\n2026-11-20T00:05:00",
            0,
            "not later",
        ),
        (
            "icrf-utc.oem",
            "\n2026-11-21T00:05:00.000000 ",
            "\n2026-11-21T00:05:00.000000 nan ",
            0,
            "is not a number",
        ),
    ] {
        let text = file(name);
        assert!(text.contains(from), "{name}: {from}");
        let whole = read(&text, "x").unwrap();
        let spoilt = text.replacen(from, to, 1);
        let read = read(&spoilt, "x").unwrap_or_else(|errors| panic!("{name}: {errors}"));
        assert_eq!(read.objects.len(), whole.objects.len(), "{name}");
        assert_eq!(read.states, whole.states, "{name}");
        let first = &read.bad[0].first;
        assert!(
            (line == 0 || first.line == line) && first.reason.contains(words),
            "{name}: {first}"
        );
        for (object, whole) in read.objects.iter().zip(&whole.objects) {
            let own = read.bad.iter().find(|own| own.object == object.object);
            let bad = own.map_or(0, |own| own.count);
            let states = |object: &Ephemeris| -> Vec<_> {
                let segments = object.segments.iter();
                segments.flat_map(|s| s.states().to_vec()).collect()
            };
            let (left, all) = (states(object), states(whole));
            // Besides the bad one, no more are lost than one that is alone before it.
            let lost = all.iter().filter(|state| !left.contains(state)).count();
            assert!((bad..=2 * bad).contains(&lost), "{name}: {lost} of {bad}");
            let (from, to) = object.span();
            let inside = object.holes().len() - whole.holes().len();
            let at_ends = usize::from((from, to) != whole.span());
            assert_eq!(inside + at_ends, bad, "{name}");
            for state in &left {
                assert_eq!(
                    object.position_itrf_m(state.at).is_ok(),
                    whole.position_itrf_m(state.at).is_ok(),
                    "{name}"
                );
            }
        }
    }
}

#[test]
fn rows_of_csv_are_bad_one_by_one() {
    let row = |name: &str, minute: u32, x: &str| {
        format!("2026-11-21T00:{minute:02}:00Z,{name},{x},0,0,itrf\n")
    };
    let mut text = format!("{}\n", csv::HEADER_WITHOUT_VELOCITY);
    for minute in 0..10 {
        text += &row("a", minute, if minute == 4 { "7000" } else { "7000000" });
        text += &row("b", minute, if minute % 2 == 0 { "x" } else { "7000000" });
        text += &row("c", minute, "7000000");
        if minute == 6 {
            text += "torn\n";
        }
    }
    let found = read(&text, "").unwrap_or_else(|errors| panic!("{errors}"));
    let names: Vec<&str> = found.objects.iter().map(|o| o.object.as_str()).collect();
    assert_eq!(names, ["a", "c"], "`b` has no two positions in a row");
    let bad: Vec<(&str, usize, usize)> = found
        .bad
        .iter()
        .map(|own| (own.object.as_str(), own.count, own.first.line))
        .collect();
    assert_eq!(bad, [("b", 5, 3), ("a", 1, 14), ("", 1, 23)]);
    assert_eq!(found.states, 31);
    let minute = |m: u32| after(f64::from(m) * 60.0);
    let holes = |n: usize| found.objects[n].holes();
    assert_eq!(
        holes(0),
        [(minute(3), minute(5)), (minute(6), minute(7))],
        "its own, and the row that may be of anything"
    );
    assert_eq!(holes(1), [(minute(6), minute(7))]);
    let errors = csv::parse(&text).unwrap_err().0;
    let lines: Vec<usize> = errors.iter().map(|e| e.line).collect();
    assert_eq!(lines, [3, 9, 14, 15, 21, 23, 28]);
}

/// Metadata that holes have no part in: a degree that is too high for what is left, and a span that ends outside of it.
#[test]
fn what_holes_leave_of_a_segment_is_interpolated() {
    let begin = "CCSDS_OEM_VERS = 2.0\nCREATION_DATE = 2026-11-21T00:00:00\nORIGINATOR = X\nMETA_START\nOBJECT_NAME = A\n\
                 OBJECT_ID = 2026-001A\nCENTER_NAME = EARTH\nREF_FRAME = ITRF2000\nTIME_SYSTEM = UTC\n\
                 START_TIME = 2026-11-21T00:00:00\nSTOP_TIME = 2026-11-21T00:07:00\nINTERPOLATION = HERMITE\n\
                 INTERPOLATION_DEGREE = 7\nMETA_STOP\n";
    let lines = (0..8).map(|n| match n {
        0 => "2026-11-21T00:00:00 7000 0 0 0 inf 0\n".to_owned(),
        3 => "2026-11-21T00:03:00 7000 3 0\n".to_owned(),
        _ => format!("2026-11-21T00:0{n}:00 7000 {n} 0 0 {} 0\n", 1.0 / 60.0),
    });
    let text = format!("{begin}{}", lines.collect::<String>());
    let found = read(&text, "").unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(found.bad[0].count, 2);
    let object = &found.objects[0];
    let minute = |m: f64| after(m * 60.0);
    assert_eq!(object.span(), (minute(1.0), minute(7.0)));
    assert_eq!(object.holes(), [(minute(2.0), minute(4.0))]);
    let middle = object.position_itrf_m(minute(1.5)).unwrap();
    assert!(
        (middle - DVec3::new(7e6, 1.5e3, 0.0)).length() < 1e-3,
        "{middle}"
    );
    assert!(read(&text.replace("META_STOP", "META_STPO"), "").is_err());
    let misspelt = text.replace("2026-11-21T00:05:00 7000", "META_STRAT\nx");
    assert!(
        read(&misspelt, "").is_err(),
        "what follows is perhaps of another object"
    );
}
