//! Reading TLE and OMM files: good ones, and every kind of bad one.

use constel_orbit::{omm, tle};
use proptest::prelude::*;

const STARLINK: &str = include_str!("../../../scenarios/data/starlink-2022-09-14.tle");
const VERIFICATION: &str = include_str!("data/sgp4-verification.tle");

const NAME: &str = "ISS (ZARYA)";
const LINE_1: &str = "1 25544U 98067A   08264.51782528 -.00002182  00000-0 -11606-4 0  2927";
const LINE_2: &str = "2 25544  51.6416 247.4627 0006703 130.5360 325.0288 15.72125391563537";

const OMM: &str = r#"{
    "OBJECT_NAME": "ISS (ZARYA)", "OBJECT_ID": "1998-067A",
    "EPOCH": "2008-09-20T12:25:40.104192",
    "MEAN_MOTION": 15.72125391, "ECCENTRICITY": 0.0006703, "INCLINATION": 51.6416,
    "RA_OF_ASC_NODE": 247.4627, "ARG_OF_PERICENTER": 130.536, "MEAN_ANOMALY": 325.0288,
    "EPHEMERIS_TYPE": 0, "CLASSIFICATION_TYPE": "U", "NORAD_CAT_ID": 25544,
    "ELEMENT_SET_NO": 292, "REV_AT_EPOCH": 56353, "BSTAR": -1.1606e-5,
    "MEAN_MOTION_DOT": -2.182e-5, "MEAN_MOTION_DDOT": 0
}"#;

fn reasons(text: impl AsRef<[u8]>) -> Vec<String> {
    tle::parse(text)
        .expect_err("bad")
        .0
        .iter()
        .map(ToString::to_string)
        .collect()
}

/// `line` with `text` from `column` (from 1) on, and the checksum made right again.
fn edited(line: &str, column: usize, text: &str) -> String {
    let mut line = line.to_owned();
    line.replace_range(column - 1..column - 1 + text.len(), text);
    let sum: u32 = line[..68]
        .chars()
        .map(|character| {
            if character == '-' {
                1
            } else {
                character.to_digit(10).unwrap_or(0)
            }
        })
        .sum();
    line.replace_range(68.., &(sum % 10).to_string());
    line
}

#[test]
fn reads_every_field() {
    let sets =
        tle::parse(format!("{NAME}             \r\n{LINE_1}\r\n{LINE_2}\r\n")).expect("good");
    let [set] = sets.as_slice() else {
        panic!("one set")
    };
    assert_eq!(set.name(), Some(NAME));
    assert_eq!(set.catalogue_number(), Some(25_544));
    // Day 264 of 2008 is 20 September; .51782528 of a day is 12:25:40.104192 to the nanosecond.
    assert_eq!(set.epoch().to_string(), "2008-09-20T12:25:40.104192Z");
    let from_omm = omm::parse(OMM).expect("good");
    assert_eq!(
        from_omm.as_slice(),
        sets.as_slice(),
        "both formats say the same"
    );
}

#[test]
fn reads_two_and_three_lines_mixed() {
    let text = format!("{LINE_1}\n{LINE_2}\n\n0 {NAME}\n{LINE_1}\n{LINE_2}");
    let sets = tle::parse(text).expect("good");
    assert_eq!(sets.len(), 2);
    assert_eq!((sets[0].name(), sets[1].name()), (None, Some(NAME)));
}

#[test]
fn reads_whole_real_files() {
    let sets = tle::parse(STARLINK).expect("good");
    assert_eq!(sets.len(), STARLINK.lines().count() / 3);
    let named = |prefix: &str| {
        sets.iter()
            .filter(|set| set.name().is_some_and(|name| name.starts_with(prefix)))
            .count()
    };
    assert_eq!(
        named("STARLINK-") + named("FALCON 9 DEB") + named("SHERPA-LTC2"),
        sets.len()
    );
    // The sgp4 crate's reader says the same, but for roundings: it works out the epoch and powers of
    // ten in floating point.
    let lines: Vec<&str> = STARLINK.lines().collect();
    for (set, three) in sets.iter().zip(lines.chunks_exact(3)) {
        let theirs =
            sgp4::Elements::from_tle(None, three[1].trim().as_bytes(), three[2].trim().as_bytes())
                .expect("good");
        let off = (theirs.datetime - set.elements().datetime)
            .num_nanoseconds()
            .unwrap_or(i64::MAX);
        assert!(off.abs() <= 100, "{off} ns");
        let mut ours = set.elements().clone();
        for (ours, theirs) in [
            (&mut ours.drag_term, theirs.drag_term),
            (&mut ours.mean_motion_ddot, theirs.mean_motion_ddot),
        ] {
            assert!(
                (*ours - theirs).abs() <= 1e-15 * theirs.abs(),
                "{ours} {theirs}"
            );
            *ours = theirs;
        }
        (ours.datetime, ours.object_name) = (theirs.datetime, None);
        assert_eq!(ours, theirs);
    }
}

#[test]
fn alpha_5_numbers_are_whole() {
    let lines = [edited(LINE_1, 3, "Z9999"), edited(LINE_2, 3, "Z9999")];
    assert_eq!(
        tle::parse(lines.join("\n")).expect("good")[0].catalogue_number(),
        Some(339_999)
    );
    let lines = [edited(LINE_1, 3, "I9999"), edited(LINE_2, 3, "Z9999")];
    assert_eq!(
        reasons(lines.join("\n")),
        ["line 1: columns 3-7 (catalogue number): \"I9999\" is not a number or Alpha-5"]
    );
}

/// Hypatia's `tles.txt` begins with two numbers.
#[test]
fn the_head_of_hypatias_file_is_no_record() {
    let with = |head: &str| tle::read([head, NAME, LINE_1, LINE_2].join("\n"));
    assert_eq!(with("72 22").all().unwrap().len(), 1);
    assert_eq!(with("1 6").all().unwrap().len(), 1);
    for head in ["1 6 7", "1 6\n1 6", "STRAY\n72 22"] {
        assert!(with(head).all().is_err(), "{head}");
    }
}

#[test]
fn every_bad_line_is_named_at_once() {
    let text = [
        NAME,
        &LINE_1.replace("2927", "2928"),
        &LINE_2[..60],
        "STRAY",
        NAME,
        LINE_1,
        &edited(LINE_2, 3, "25545"),
        LINE_2,
        LINE_1,
        LINE_1,
        &edited(LINE_2, 9, "251.6416"),
        &edited(LINE_1, 21, "367.51782528"),
        &edited(LINE_2, 17, "x"),
        "LAST",
    ]
    .join("\n");
    assert_eq!(
        reasons(text),
        [
            "line 2: checksum is '8', but the line adds up to 7",
            "line 3: an element line has 69 columns, this one has 60",
            "line 4: neither an element line nor a name with element lines after it",
            "line 7: catalogue number 25545 differs from 25544 in line 1 (line 6 of the file)",
            "line 8: element line 2 does not follow a line 1",
            "line 9: element line 1 is not followed by its line 2",
            "line 11: inclination: 251.6416 must lie between 0 and 180 degrees",
            "line 12: columns 21-32 (epoch day): \"367.51782528\" is not a day of the year like \
             257.46316094",
            "line 13: columns 17-17 (separator): \"x\" is not a blank",
            "line 14: neither an element line nor a name with element lines after it",
        ]
    );
}

#[test]
fn bad_fields_are_refused() {
    for (line, column, text, expected) in [
        (1, 8, "X", "columns 8-8 (classification)"),
        (
            1,
            10,
            "9x067A  ",
            "columns 10-17 (international designator)",
        ),
        (1, 19, "0x", "columns 19-20 (epoch year)"),
        (1, 21, "000.00000000", "columns 21-32 (epoch day)"),
        (1, 21, "1e2.00000000", "columns 21-32 (epoch day)"),
        (
            1,
            34,
            "       inf",
            "columns 34-43 (first derivative of mean motion)",
        ),
        (
            1,
            45,
            " 00000 0",
            "columns 45-52 (second derivative of mean motion)",
        ),
        (1, 54, "-1160.-4", "columns 54-61 (drag term)"),
        (1, 63, "x", "columns 63-63 (ephemeris type)"),
        (1, 65, "-292", "columns 65-68 (element set number)"),
        (2, 9, "-51.6416", "columns 9-16 (inclination)"),
        (2, 18, "     NaN", "columns 18-25 (right ascension)"),
        (2, 18, "361.0000", "right ascension: 361 must lie"),
        (2, 27, "-006703", "columns 27-33 (eccentricity)"),
        (2, 35, "1e2.0000", "columns 35-42 (argument of perigee)"),
        (2, 44, "        ", "columns 44-51 (mean anomaly)"),
        (2, 53, "00.00000000", "mean motion: 0 must lie"),
        (2, 53, "99.00000000", "mean motion: 99 must lie"),
        (2, 64, "5.353", "columns 64-68 (revolution number)"),
    ] {
        let lines = match line {
            1 => [edited(LINE_1, column, text), LINE_2.to_owned()],
            _ => [LINE_1.to_owned(), edited(LINE_2, column, text)],
        };
        let found = reasons(lines.join("\n"));
        assert_eq!(found.len(), 1, "{text:?}: {found:?}");
        assert!(
            found[0].starts_with(&format!("line {line}: {expected}")),
            "{found:?}"
        );
    }
    // 2007 has no day 366; only line 2 completes the set, so it is reported there.
    let lines = [edited(LINE_1, 19, "07366.00000000"), LINE_2.to_owned()];
    assert_eq!(
        reasons(lines.join("\n")),
        ["line 2: epoch: 2007 has no day 366"]
    );
}

#[test]
fn unreadable_bytes_are_placed() {
    assert_eq!(reasons(""), ["line 1: no element sets"]);
    assert_eq!(reasons("\n \n"), ["line 1: no element sets"]);
    assert_eq!(
        reasons(b"GOOD\xff\n"),
        ["line 1: unprintable character in column 5"],
    );
    let mut bytes = format!("{LINE_1}\n{LINE_2}").into_bytes();
    bytes[20] = 0xe9;
    assert_eq!(
        reasons(&bytes),
        ["line 1: unprintable character in column 21"]
    );
}

#[test]
fn omm_takes_lists_text_numbers_and_wide_catalogue_numbers() {
    let wide = OMM.replace("25544", "\"18446744073709551615\"");
    let sets = omm::parse(format!("[{OMM},{wide}]")).expect("good");
    assert_eq!(sets[1].catalogue_number(), Some(u64::MAX));
}

const OMM_CSV: &str = "\
OBJECT_NAME,OBJECT_ID,EPOCH,MEAN_MOTION,ECCENTRICITY,INCLINATION,RA_OF_ASC_NODE,ARG_OF_PERICENTER,MEAN_ANOMALY,\
EPHEMERIS_TYPE,CLASSIFICATION_TYPE,NORAD_CAT_ID,ELEMENT_SET_NO,REV_AT_EPOCH,BSTAR,MEAN_MOTION_DOT,MEAN_MOTION_DDOT
ISS (ZARYA),1998-067A,2008-09-20T12:25:40.104192,15.72125391,.0006703,51.6416,247.4627,130.5360,325.0288,\
0,U,25544,292,56353,-.11606E-4,-.2182E-4,0
";

#[test]
fn omm_csv_says_the_same_as_json() {
    assert_eq!(omm::parse(OMM_CSV), omm::parse(OMM));
    let marked = format!("\u{feff}{}", OMM_CSV.replace('\n', "\r\n"));
    assert_eq!(omm::parse(marked), omm::parse(OMM));
    let quoted = OMM_CSV.replace("ISS (ZARYA)", "\"ISS, \"\"ZARYA\"\"\"");
    let sets = omm::parse(quoted).expect("good");
    assert_eq!(sets[0].name(), Some("ISS, \"ZARYA\""));
}

#[test]
fn omm_csv_errors_name_line_or_object() {
    let texts = |text: &str| -> Vec<String> {
        let errors = omm::parse(text).expect_err("bad").0;
        errors.iter().map(ToString::to_string).collect()
    };
    assert!(
        texts("NAME,X\n1,2\n")[0].starts_with("line 1: this is no orbit mean-elements message")
    );
    let short = format!("{OMM_CSV}ISS,1998-067A\nopen,\"1,2\n");
    assert_eq!(
        texts(&short),
        [
            "line 3: 2 values, but 17 columns",
            "line 4: a quotation mark is not closed"
        ]
    );
    let bad = OMM_CSV.replace("51.6416", "190");
    assert_eq!(
        texts(&bad),
        ["line 2: ISS (ZARYA): inclination: 190 must lie between 0 and 180 degrees"]
    );
}

#[test]
fn omm_errors_in_the_epoch_name_it() {
    let bad = OMM.replace("2008-09-20T12:25:40.104192", "yesterday");
    let errors = omm::parse(bad).expect_err("bad").0;
    let text = errors[0].to_string();
    assert!(text.starts_with("line 1: ISS (ZARYA): EPOCH: "), "{text}");
}

#[test]
fn omm_errors_name_the_object() {
    let texts = |text: &str| -> Vec<String> {
        omm::parse(text)
            .expect_err("bad")
            .0
            .iter()
            .map(ToString::to_string)
            .collect()
    };
    assert_eq!(texts("[]"), ["line 1: no element sets"]);
    assert!(texts("3")[0].starts_with("line 1: this is no orbit mean-elements message"));
    assert_eq!(
        texts("[\n{]"),
        ["line 2: not JSON: key must be a string, column 2"]
    );
    let one_line = OMM.replace('\n', " ");
    let list = [
        one_line.clone(),
        one_line.replace("\"INCLINATION\": 51.6416", "\"INCLINATION\": 190"),
        one_line.replace("\"BSTAR\": -1.1606e-5,", ""),
        one_line.replace(
            "\"EPHEMERIS_TYPE\": 0",
            "\"EPHEMERIS_TYPE\": 4, \"REF_FRAME\": \"GCRF\"",
        ),
        one_line.replace("25544", "-1"),
        one_line.replace("\"MEAN_MOTION\": 15.72125391", "\"MEAN_MOTION\": \"NaN\""),
        "[7]".to_owned(),
    ];
    assert_eq!(
        texts(&format!("[{}]", list.join(",\n"))),
        [
            "line 2: ISS (ZARYA): inclination: 190 must lie between 0 and 180 degrees",
            "line 3: ISS (ZARYA): BSTAR is missing",
            "line 4: ISS (ZARYA): REF_FRAME is \"GCRF\", expected \"TEME\"",
            "line 4: ISS (ZARYA): ephemeris type: 4 (SGP4-XP) is another theory's, expected 0 (SGP4)",
            "line 5: ISS (ZARYA): NORAD_CAT_ID: `-1` is not a whole number",
            "line 6: ISS (ZARYA): MEAN_MOTION: `NaN` is not a number",
            "line 7: this is no object with the keywords of a message",
        ]
    );
}

/// CCSDS 502.0-B-3, table 4-3: all of them are optional, and publishers leave the first four out as well.
#[test]
fn omm_needs_what_the_standard_and_sgp4_need() {
    let whole = omm::parse(OMM).expect("good");
    let without = |keyword: &str| {
        let mut object: serde_json::Value = serde_json::from_str(OMM).expect("JSON");
        let fields = object.as_object_mut().expect("an object");
        assert!(fields.remove(keyword).is_some(), "{keyword}");
        omm::parse(object.to_string())
    };
    for keyword in [
        "OBJECT_NAME",
        "OBJECT_ID",
        "REV_AT_EPOCH",
        "ELEMENT_SET_NO",
        "CLASSIFICATION_TYPE",
        "EPHEMERIS_TYPE",
        "MEAN_MOTION_DOT",
        "MEAN_MOTION_DDOT",
        "NORAD_CAT_ID",
    ] {
        let sets = without(keyword).unwrap_or_else(|errors| panic!("{keyword}: {errors}"));
        let state = |set| {
            let orbit = constel_orbit::Satellite::from_elements(set).expect("propagates");
            orbit.teme(set.epoch()).expect("a state")
        };
        assert_eq!(
            state(&sets[0]),
            state(&whole[0]),
            "{keyword} is not of the orbit"
        );
        let number = (keyword != "NORAD_CAT_ID").then_some(25_544);
        assert_eq!(sets[0].catalogue_number(), number);
    }
    for keyword in [
        "EPOCH",
        "MEAN_MOTION",
        "ECCENTRICITY",
        "INCLINATION",
        "RA_OF_ASC_NODE",
        "ARG_OF_PERICENTER",
        "MEAN_ANOMALY",
        "BSTAR",
    ] {
        let errors = without(keyword).expect_err(keyword).to_string();
        assert!(
            errors.contains(&format!("{keyword} is missing")),
            "{errors}"
        );
    }
}

#[test]
fn good_records_are_read_beside_bad_ones() {
    let bad = LINE_1.replace("2927", "2928");
    let text = format!(
        "\u{feff}{NAME}\r\n{LINE_1}\r\n{LINE_2}\r\nSPOILT\r\n{bad}\r\n{LINE_2}\r\nX\r\n{LINE_1}\r\n{LINE_2}\r\n"
    );
    let file = tle::read(&text);
    let names: Vec<_> = file.sets.iter().map(|set| set.name()).collect();
    assert_eq!(names, [Some(NAME), Some("X")], "no mark before the name");
    assert_eq!(file.errors.len(), 1);
    assert_eq!((file.errors[0].line, file.errors[0].record), (5, 4));
    let list = format!("[{OMM},{},{OMM}]", OMM.replace("51.6416", "190"));
    let file = omm::read(list);
    assert_eq!((file.sets.len(), file.errors.len()), (2, 1));
    let csv = format!("{OMM_CSV}short\n{}", OMM_CSV.lines().last().unwrap_or(""));
    let file = omm::read(csv);
    assert_eq!((file.sets.len(), file.errors.len()), (2, 1));
    // A file in another notation than that of its name is reported.
    assert!(tle::parse(OMM).is_err());
    let error = omm::parse(format!("{LINE_1}\n{LINE_2}\n"))
        .expect_err("no OMM")
        .to_string();
    assert!(error.contains("two-line elements"), "{error}");
}

#[test]
fn elements_of_sgp4_xp_are_refused_in_every_format() {
    let lines = format!("{}\n{LINE_2}", edited(LINE_1, 63, "4"));
    let as_omm = OMM.replace("\"EPHEMERIS_TYPE\": 0", "\"EPHEMERIS_TYPE\": 4");
    for errors in [tle::parse(lines), omm::parse(as_omm)] {
        let text = errors.expect_err("refused").to_string();
        assert!(text.contains("ephemeris type: 4 (SGP4-XP)"), "{text}");
    }
    for kind in ["0", " ", "2", "3"] {
        let lines = format!("{}\n{LINE_2}", edited(LINE_1, 63, kind));
        assert!(tle::parse(lines).is_ok(), "{kind:?}");
    }
}

/// Deep nesting, entities and long files end in an error, quickly.
#[test]
fn hostile_messages_are_refused() {
    let deep = format!("{}{}", "<a>".repeat(200_000), "</a>".repeat(200_000));
    let laughs = "<!DOCTYPE ndm [<!ENTITY a \"b\">]><ndm>&a;</ndm>";
    for text in [
        &deep,
        laughs,
        &"[".repeat(200_000),
        &"\"".repeat(200_000),
        "<ndm/>",
    ] {
        assert!(omm::parse(text).is_err());
    }
}

/// A valid file with some bytes replaced, removed or inserted.
fn mutated(valid: &'static str) -> impl Strategy<Value = Vec<u8>> {
    let change = (any::<prop::sample::Index>(), 0..4u8, any::<u8>());
    prop::collection::vec(change, 1..6).prop_map(move |changes| {
        let mut bytes = valid.as_bytes().to_vec();
        for (at, kind, byte) in changes {
            if bytes.is_empty() {
                break;
            }
            let at = at.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => bytes[at] = b" 0123456789+-.eU\n"[usize::from(byte) % 17],
                2 => drop(bytes.remove(at)),
                _ => bytes.insert(at, byte),
            }
        }
        bytes
    })
}

/// Every set that is read must also be propagated, or refused, without a panic.
fn propagate_all(sets: Vec<constel_orbit::ElementSet>) {
    for set in sets {
        if let Ok(satellite) = constel_orbit::Satellite::from_elements(&set) {
            for minutes in [-1e5, 0.0, 90.0, 1e6] {
                let at = constel_units::TimeSpan::from_secs_f64(minutes * 60.0);
                if let Some(at) = set.epoch().checked_add(at)
                    && let Ok(state) = satellite.teme(at)
                {
                    assert!(state.position_teme_m.is_finite());
                }
            }
        }
    }
}

/// A case of the verification set without its times, deep space and near Earth.
fn verification_lines() -> Vec<String> {
    VERIFICATION
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line[..69].to_owned())
        .collect()
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = tle::parse(&bytes);
        let _ = omm::parse(&bytes);
    }

    #[test]
    fn mutated_tle_never_panics(bytes in mutated(concat!(
        "ISS (ZARYA)\n",
        "1 25544U 98067A   08264.51782528 -.00002182  00000-0 -11606-4 0  2927\n",
        "2 25544  51.6416 247.4627 0006703 130.5360 325.0288 15.72125391563537\n",
    ))) {
        if let Ok(sets) = tle::parse(&bytes) {
            propagate_all(sets);
        }
    }

    #[test]
    fn mutated_omm_csv_never_panics(bytes in mutated(OMM_CSV)) {
        let _ = omm::parse(&bytes);
    }

    #[test]
    fn mutated_omm_never_panics(bytes in mutated(OMM)) {
        if let Ok(sets) = omm::parse(&bytes) {
            propagate_all(sets);
        }
    }

    /// Checksums made right after the change, so that the fields behind them are reached.
    #[test]
    fn mutated_fields_never_panic(
        case in 0..33usize,
        changes in prop::collection::vec((0..2usize, 1..68usize, "[ 0-9A-Za-z.+-]"), 1..8),
    ) {
        let lines = verification_lines();
        let mut pair = [lines[2 * case].clone(), lines[2 * case + 1].clone()];
        for (line, column, text) in changes {
            pair[line] = edited(&pair[line], column + 1, &text);
        }
        if let Ok(sets) = tle::parse(pair.join("\n")) {
            propagate_all(sets);
        }
    }
}

/// Two values for one keyword are no orbit: neither the first nor the last is known to be meant.
#[test]
fn a_keyword_with_two_values_is_refused_in_every_notation() {
    let twice = "INCLINATION is given twice, as `51.6416` and `97`";
    let json = OMM.replace(
        "\"INCLINATION\": 51.6416",
        "\"INCLINATION\": 51.6416, \"inclination\": 97",
    );
    let row = OMM_CSV.lines().nth(1).unwrap();
    let csv = OMM_CSV.replace("INCLINATION", "INCLINATION,INCLINATION");
    let csv = csv.replace(row, &row.replace(",51.6416,", ",51.6416,97,"));
    let xml = "<ndm><omm><body><segment><data><INCLINATION>51.6416</INCLINATION><INCLINATION>97</INCLINATION>\
               </data></segment></body></omm></ndm>";
    for text in [&json, &csv, xml] {
        let errors = omm::parse(text).expect_err("two values").to_string();
        assert!(errors.contains(twice), "{errors}");
    }
    // A value that is repeated is one, and comments and parameters of users are as many as there are.
    let same = OMM.replace(
        "\"INCLINATION\"",
        "\"COMMENT\": \"a\", \"COMMENT\": \"b\", \"INCLINATION\": 51.6416, \"INCLINATION\"",
    );
    assert_eq!(
        omm::parse(&same).expect("good"),
        omm::parse(OMM).expect("good")
    );
}

#[test]
fn what_people_put_around_element_lines_is_no_part_of_them() {
    let plain = tle::parse(format!("{NAME}\n{LINE_1}\n{LINE_2}\n")).expect("good");
    for text in [
        format!("# fetched today\n{NAME}\n{LINE_1}\n# between\n{LINE_2}\n"),
        format!("    {NAME}\n    {LINE_1}\n\t{LINE_2} \n"),
        format!("{NAME}\n{}\n{LINE_2}\n", edited(LINE_1, 8, "u")),
        format!("{NAME}\n{}\n{LINE_2}\n", edited(LINE_1, 8, " ")),
    ] {
        let sets = tle::parse(&text).unwrap_or_else(|errors| panic!("{text}: {errors}"));
        assert_eq!(sets, plain, "{text}");
    }
    let packed = b"\x1f\x8b\x08\0\0\0\0\0\x02\xff";
    let errors = [
        tle::parse(packed).unwrap_err(),
        omm::parse(packed).unwrap_err(),
    ];
    let words = "this is a gzip file, not text: unpack it first";
    assert!(
        errors.iter().all(|error| error.to_string().contains(words)),
        "{errors:?}"
    );
}

/// Comments may be set off by tabs in keyword notation.
#[test]
fn comments_of_the_keyword_notation_may_have_tabs() {
    let object: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(OMM).expect("JSON");
    let line = |(key, value): (&String, &serde_json::Value)| {
        format!(
            "{key}\t=\t{}\nCOMMENT\tx = 1\n",
            value.to_string().trim_matches('"')
        )
    };
    let text: String = object.iter().map(line).collect();
    let text = format!("COMMENT\tbegins so\nCCSDS_OMM_VERS = 2.0\n{text}");
    assert_eq!(
        omm::parse(&text).expect("good"),
        omm::parse(OMM).expect("good")
    );
}
