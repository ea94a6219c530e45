//! Readers never panic, and what writers write, readers read.

use constel_exchange::ephemeris::{Ephemeris, Frame, Method, Segment, State};
use constel_exchange::{
    celestial, compose, csv, hypatia, oem, opensn, sp3, starperf, starrynet, stk,
};
use constel_orbit::DVec3;
use constel_units::{TimeSpan, Utc};
use proptest::prelude::*;

const OEM: &str = "CCSDS_OEM_VERS = 2.0\nCREATION_DATE = 2026-11-21T00:00:00\nORIGINATOR = X\n\nMETA_START\nOBJECT_NAME = A\nOBJECT_ID = 2026-001A\nCENTER_NAME = EARTH\nREF_FRAME = ITRF2000\nTIME_SYSTEM = UTC\nSTART_TIME = 2026-11-21T00:00:00\nSTOP_TIME = 2026-11-21T00:02:00\nINTERPOLATION = LAGRANGE\nINTERPOLATION_DEGREE = 2\nMETA_STOP\n2026-11-21T00:00:00.000 7000.1 0.0 -1e1\n2026-11-21T00:01:00 6900 400 0 -1.67 6.67 0\n2026-325T00:02:00 6800 800 0\nCOVARIANCE_START\nx\nCOVARIANCE_STOP\n";
const CSV: &str = "t_utc,sat_id,x_m,y_m,z_m,vx_mps,vy_mps,vz_mps,frame\n2026-11-21T00:00:00Z,a,7000000,0,0,0,7500,0,itrf\n2026-11-21T00:01:00Z,a,6990000,450000,0,-10,7490,0,itrf\n";
const TLES: &str = "1 1\nStarlink 0\n1 00001U 00000ABC 00001.00000000  .00000000  00000-0  00000+0 0    04\n2 00001  53.0000   0.0000 0000001   0.0000   0.0000 15.19000000    08\n";
const OEM_XML: &str = include_str!("data/ephemeris/gcrf-utc.xml");
const SP3: &str = include_str!("data/ephemeris/moving.sp3");
const STK: &str = include_str!("data/ephemeris/low-j2000.e");
const STARRYNET: &str = include_str!("data/starrynet.json");
const OPENSN: &str = include_str!("data/opensn.json");
const COMPOSE: &str = include_str!("data/compose.yaml");
const CELESTIAL: &str = include_str!("data/celestial.toml");
const STARPERF: &str = include_str!("data/starperf.xml");

/// All readers on one text.
fn read_everything(text: &str) {
    let _ = oem::parse(text).map_err(|e| e.to_string());
    let _ = csv::parse(text).map_err(|e| e.to_string());
    let _ = sp3::parse(text).map_err(|e| e.to_string());
    let _ = stk::parse(text, text).map_err(|e| e.to_string());
    let files = hypatia::Files {
        tles: text,
        tles_path: text,
        isls: Some(text),
        stations: Some(text),
        gsl_interfaces: Some(text),
        description: Some(text),
    };
    let _ = hypatia::parse(&files, text).map(|d| d.yaml());
    for part in 0..4 {
        let mut files = hypatia::Files {
            tles: TLES,
            ..hypatia::Files::default()
        };
        match part {
            0 => files.isls = Some(text),
            1 => files.stations = Some(text),
            2 => files.gsl_interfaces = Some(text),
            _ => files.description = Some(text),
        }
        let _ = hypatia::parse(&files, "x").map(|d| d.yaml());
    }
    let _ = starrynet::parse(text).map(|d| d.yaml());
    let _ = opensn::is_one(text);
    let _ = opensn::parse(text, text).map(|d| d.yaml());
    let _ = compose::is_one(text);
    let _ = compose::parse(text, text, &|_| Ok(Some(text.to_owned()))).map(|d| d.yaml());
    let _ = celestial::parse(text, text).map(|d| d.yaml());
    let _ = starperf::parse_constellation(text, text).map(|d| d.yaml());
    let _ = starperf::parse_stations(text);
}

/// A good file with bytes changed, cut and doubled.
fn broken() -> impl Strategy<Value = String> {
    let good = prop::sample::select(vec![
        OEM, OEM_XML, SP3, STK, CSV, TLES, STARRYNET, OPENSN, COMPOSE, CELESTIAL, STARPERF,
    ]);
    let edits = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4_u8), 1..12);
    (good, edits).prop_map(|(good, edits)| {
        let mut bytes = good.as_bytes().to_vec();
        for (at, byte, kind) in edits {
            if bytes.is_empty() {
                break;
            }
            let at = at.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => drop(bytes.remove(at)),
                2 => bytes.insert(at, byte),
                _ => bytes.truncate(at),
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_text_makes_a_reader_panic(text in "\\PC{0,400}") {
        read_everything(&text);
    }

    #[test]
    fn no_broken_file_makes_a_reader_panic(text in broken()) {
        read_everything(&text);
    }

    #[test]
    fn ephemerides_survive_the_way_out_and_in(
        steps_ms in prop::collection::vec(1_i64..10_000, 4..20),
        start in prop::array::uniform3(5e6..1e7_f64),
        velocity in prop::array::uniform3(-3e3..3e3_f64),
        velocities in any::<bool>(),
        teme in any::<bool>(),
    ) {
        let mut at = Utc::from_unix_ns(1_795_219_200_000_000_000);
        // Readers take states that contradict each other for holes: these fly straight on.
        let (mut position_m, velocity) = (DVec3::from_array(start), DVec3::from_array(velocity));
        let states: Vec<State> = steps_ms.into_iter().map(|step_ms| {
            at = at + TimeSpan::from_ns(step_ms * 1_000_000);
            position_m += velocity * step_ms as f64 / 1e3;
            State { at, position_m, velocity_m_per_s: velocities.then_some(velocity) }
        }).collect();
        let frame = if teme { Frame::Teme } else { Frame::Itrf };
        let (method, degree) = Segment::suited(&states);
        let segment = Segment::new(frame, method, degree, states.clone(), None).unwrap();
        let object = Ephemeris { object: "a b".into(), object_id: "2026-001A".into(), segments: vec![segment] };
        let created = Utc::from_unix_ns(0);
        for read in [oem::parse(&oem::write(std::slice::from_ref(&object), created, "me")).unwrap(), csv::parse(&csv::write(std::slice::from_ref(&object))).unwrap()] {
            prop_assert_eq!(read.len(), 1);
            prop_assert_eq!(&read[0].object, "a b");
            let segment = &read[0].segments[0];
            prop_assert_eq!(segment.method(), (method, degree));
            prop_assert_eq!(segment.frame(), frame);
            prop_assert_eq!(segment.states().len(), states.len());
            for (a, b) in segment.states().iter().zip(&states) {
                prop_assert_eq!(a.at, b.at);
                prop_assert!((a.position_m - b.position_m).length() < 2e-3);
                prop_assert_eq!(a.velocity_m_per_s.is_some(), velocities);
            }
        }
    }

    #[test]
    fn interpolation_is_finite_within_its_span(
        gaps in prop::collection::vec(1_i64..1_000_000_000_000, 8..20), share in 0.0..1.0_f64,
    ) {
        let mut at = Utc::from_unix_ns(0);
        let states: Vec<State> = gaps.iter().map(|ns| {
            at = at + TimeSpan::from_ns(*ns);
            State { at, position_m: DVec3::new(7e6, 1.0, 2.0), velocity_m_per_s: None }
        }).collect();
        let span = (states[0].at.unix_ns(), at.unix_ns());
        let segment = Segment::new(Frame::Itrf, Method::Lagrange, 7, states, None).unwrap();
        let object = Ephemeris { object: String::new(), object_id: String::new(), segments: vec![segment] };
        let ask = Utc::from_unix_ns(span.0 + ((span.1 - span.0) as f64 * share) as i64);
        prop_assert!(object.position_itrf_m(ask).unwrap().is_finite());
    }
}

#[test]
fn the_good_files_are_good() {
    let read = oem::parse(OEM).unwrap();
    assert_eq!(read[0].segments[0].states().len(), 3);
    assert_eq!(
        read[0].segments[0].states()[0].position_m,
        DVec3::new(7_000_100.0, 0.0, -10_000.0)
    );
    assert_eq!(
        csv::parse(CSV).unwrap()[0].segments[0].method(),
        (Method::Hermite, 3)
    );
    assert!(
        hypatia::parse(
            &hypatia::Files {
                tles: TLES,
                ..hypatia::Files::default()
            },
            "x"
        )
        .is_ok()
    );
}

#[test]
fn errors_name_their_lines_and_come_together() {
    let text = OEM
        .replace("EARTH", "MOON")
        .replace("= UTC", "= UT1")
        .replace("6900 400 0", "6900 400");
    let errors = oem::parse(&text).unwrap_err().0;
    let lines: Vec<usize> = errors.iter().map(|e| e.line).collect();
    assert!([8, 10, 17].iter().all(|l| lines.contains(l)), "{errors:?}");
    let text = CSV
        .replace("a,6990000", "a,x")
        .replace(",itrf\n2026", ",mars\n2026");
    let lines: Vec<usize> = csv::parse(&text)
        .unwrap_err()
        .0
        .iter()
        .map(|e| e.line)
        .collect();
    assert_eq!(lines[..2.min(lines.len())], [2, 3][..], "{lines:?}");
}
