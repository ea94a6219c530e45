//! Files of one format at the key of another: one error that has the file's format and the key that reads it.

use crate::given::{Given, lab};

const TLE: &str = "BIRD\n1 12345U 26001A   26325.00000000  .00000000  00000+0  00000+0 0  9990\n\
                   2 12345  53.0000  10.0000 0001000   0.0000   0.0000 15.05000000    19\n";
const OMM_KEYS: [(&str, &str); 10] = [
    ("OBJECT_NAME", "BIRD"),
    ("OBJECT_ID", "2026-001A"),
    ("EPOCH", "2026-11-21T00:00:00"),
    ("MEAN_MOTION", "15.05"),
    ("ECCENTRICITY", "0.0001"),
    ("INCLINATION", "53"),
    ("RA_OF_ASC_NODE", "10"),
    ("ARG_OF_PERICENTER", "0"),
    ("MEAN_ANOMALY", "0"),
    ("BSTAR", "0"),
];

fn omm(form: &str) -> String {
    let join =
        |with: &dyn Fn((&str, &str)) -> String, between: &str| OMM_KEYS.map(with).join(between);
    match form {
        "json" => format!(
            "[{{{}}}]",
            join(&|(k, v)| format!("\"{k}\": \"{v}\""), ", ")
        ),
        "csv" => format!(
            "{}\n{}\n",
            join(&|(k, _)| k.to_owned(), ","),
            join(&|(_, v)| v.to_owned(), ",")
        ),
        "xml" => format!(
            "<?xml version=\"1.0\"?>\n<ndm><omm id=\"CCSDS_OMM_VERS\" version=\"2.0\"><body>{}</body></omm></ndm>",
            join(&|(k, v)| format!("<{k}>{v}</{k}>"), "\n")
        ),
        _ => format!(
            "CCSDS_OMM_VERS = 2.0\n{}\n",
            join(&|(k, v)| format!("{k} = {v}"), "\n")
        ),
    }
}

fn instants(row: impl Fn(u32) -> String) -> String {
    (0..13).map(|hour| row(hour) + "\n").collect()
}

/// The name of a kind in messages, the key that reads it, and a file.
fn files() -> Vec<(&'static str, Option<&'static str>, String)> {
    let oem = format!(
        "CCSDS_OEM_VERS = 2.0\nCREATION_DATE = 2026-11-20T00:00:00\nORIGINATOR = ME\nMETA_START\nOBJECT_NAME = BIRD\n\
         OBJECT_ID = 2026-001A\nCENTER_NAME = EARTH\nREF_FRAME = ITRF\nTIME_SYSTEM = UTC\n\
         START_TIME = 2026-11-21T00:00:00\nSTOP_TIME = 2026-11-21T12:00:00\nMETA_STOP\n{}",
        instants(|hour| format!("2026-11-21T{hour:02}:00:00 7000 {hour} 0 0 0 0"))
    );
    let sp3 = format!(
        "#cP2026 11 21  0  0  0.00000000      13 ORBIT ITRF  HLM  IGS\n##  2400 518400.00000000  3600.00000000 61365 0.0000000000000\n\
         +    1   G01\n%c G  cc UTC ccc cccc cccc cccc cccc ccccc ccccc ccccc ccccc\n{}EOF\n",
        instants(|hour| format!(
            "*  2026 11 21 {hour:2}  0  0.00000000\nPG01  26000.000000     {hour:2}.000000      0.000000 999999.999999"
        ))
    );
    let stk = format!(
        "stk.v.11.0\nBEGIN Ephemeris\nNumberOfEphemerisPoints 13\nScenarioEpoch 21 Nov 2026 00:00:00.000\nCentralBody Earth\n\
         CoordinateSystem Fixed\nEphemerisTimePos\n{}END Ephemeris\n",
        instants(|hour| format!("{} 7000000 {hour} 0", hour * 3600))
    );
    let csv = format!(
        "t_utc,sat_id,x_m,y_m,z_m,frame\n{}",
        instants(|hour| format!("2026-11-21T{hour:02}:00:00Z,BIRD,7000000,{hour},0,itrf"))
    );
    let element = "an Orbit Mean-Elements Message (OMM)";
    vec![
        ("a file of two-line elements (TLE)", Some("tle"), TLE.to_owned()),
        ("a file of two-line elements (TLE)", Some("tle"), format!("1 1\n{TLE}")),
        (element, Some("omm"), omm("json")),
        (element, Some("omm"), omm("csv")),
        (element, Some("omm"), omm("xml")),
        (element, Some("omm"), omm("kvn")),
        (element, Some("omm"), format!("COMMENT of a catalogue\n{}", omm("kvn").to_lowercase())),
        ("an Orbit Ephemeris Message (OEM)", Some("ephemeris"), oem.clone()),
        ("an Orbit Ephemeris Message (OEM)", Some("ephemeris"), oem.to_lowercase()),
        ("an ephemeris in SP3", Some("ephemeris"), sp3),
        ("an ephemeris of STK", Some("ephemeris"), stk),
        ("a CSV file of positions", Some("ephemeris"), csv.clone()),
        ("a CSV file of positions", Some("ephemeris"), csv.replacen("t_utc,sat_id,x_m", "T_UTC,Sat_ID,X_M", 1)),
        ("an Orbit Parameter Message (OPM)", None, "CCSDS_OPM_VERS = 2.0\nX = 1\n".to_owned()),
        ("an Orbit Comprehensive Message (OCM)", None, "<?xml version=\"1.0\"?><ocm id=\"x\"/>".to_owned()),
        ("a message of CCSDS (CDM)", None, "CCSDS_CDM_VERS = 1.0\n".to_owned()),
        (
            "a Modified ITC ephemeris (MEME)",
            None,
            "created:2026-11-21 00:00:00 UTC\nephemeris_source:blend\nUVW\n2026325000000.000 -5094.8 4606.1 1 2 3 4\n".to_owned(),
        ),
        ("a CZML scene", None, "[{\"id\": \"document\", \"version\": \"1.0\"}]".to_owned()),
        ("a web page", None, "<!DOCTYPE html>\n<html><body>403</body></html>".to_owned()),
        ("a file of RINEX", None, "     3.04           N: GNSS NAV DATA    G: GPS              RINEX VERSION / TYPE\n".to_owned()),
        ("an XML file", None, "<kml><Document/></kml>".to_owned()),
        ("a JSON file", None, "{\"a\": 1}".to_owned()),
    ]
}

#[test]
fn a_file_at_the_key_of_another_format_is_named_with_the_key_that_reads_it() {
    for (name, key, text) in files() {
        for given in ["tle", "omm", "ephemeris"] {
            let scenario = format!(
                "constellations:\n  c: {{{given}: {{file: a.txt}}, isl: {{pattern: none}}, gsl: {{min_elevation: 5 deg, \
                 link: {{rate: 1 Mbit/s}}}}}}\nground: {{stations: {{gs: {{latitude: 0 deg, longitude: 0 deg}}}}}}\n"
            );
            let read = lab(&scenario, &Given(vec![("a.txt", text.clone())]));
            if key == Some(given) {
                read.unwrap_or_else(|errors| panic!("{given}: {text}\n{errors}"));
                continue;
            }
            let errors = read.err().unwrap_or_default();
            // JSON and XML are notations of OMM, so its reader has errors of its own.
            if given == "omm" && ["an XML file", "a JSON file"].contains(&name) {
                continue;
            }
            assert_eq!(
                errors.matches("error: ").count(),
                1,
                "{given}: {text}\n{errors}"
            );
            assert!(
                errors.contains(&format!("this is {name}")),
                "{given}: {errors}"
            );
            if let Some(key) = key {
                assert!(errors.contains(&format!("`{key}` ")), "{errors}");
            }
        }
    }
    // A text of no known kind has the formats that the key reads.
    let scenario = "constellations:\n  c: {ephemeris: {file: a.txt}, isl: {pattern: none}, gsl: {min_elevation: 5 deg, link: {rate: 1 Mbit/s}}}\n";
    let errors = lab(
        scenario,
        &Given(vec![("a.txt", "time;x;y;z\n0;1;2;3\n".to_owned())]),
    );
    let errors = errors.err().unwrap_or_default();
    for format in ["CCSDS_OEM_VERS", "SP3", "stk.v.", "t_utc,sat_id"] {
        assert!(errors.contains(format), "{errors}");
    }
}
