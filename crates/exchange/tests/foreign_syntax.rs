//! Syntax of TOML and XML that other tools may write, and errors with the line that they are in.

use constel_exchange::{ReadErrors, celestial, starperf};

const SHELL: &str = "[[shell]]\nplanes = 6\nsats = 11\naltitude_km = 780\ninclination = 86.4\n";

fn lines(errors: ReadErrors) -> Vec<usize> {
    errors.0.iter().map(|error| error.line).collect()
}

#[test]
fn toml_of_every_form_is_read() {
    let text = format!(
        "duration = 1_000\nepoch = 2026-01-01T00:00:00Z\n\"bbox\" = [[0.5,\n 1], []]\nnetwork_params = {{ bandwidth_kbits = 0x10, \
         min_elevation = 2.5e1 }}\nnote = '''\nx # [[shell]]\n'''\nhost.count = +1\n{SHELL}[[ground_station]]\n\
         name = \"S\\u00e3o\"\nlat = -23.5\nlong = -4.66e1\n"
    );
    let draft = celestial::parse(&text, "x").unwrap();
    assert_eq!((draft.duration_s, draft.isl_bps), (1_000.0, 16_000));
    assert_eq!((draft.shells.len(), draft.min_elevation_deg), (1, 25.0));
    let station = &draft.stations[0];
    assert_eq!(
        (station.name.as_str(), station.longitude_deg),
        ("São", -46.6)
    );
    let notes = draft.notes.join("\n");
    for key in ["bbox", "epoch", "host", "note"] {
        assert!(notes.contains(&format!("`{key}`")), "{key}: {notes}");
    }
}

#[test]
fn each_error_of_a_configuration_has_its_line() {
    let values = format!(
        "duration = 0.5\nresolution = true\n[network_params]\nmin_elevation = inf\n{SHELL}\
         eccentricity = 0b11\n[[ground_station]]\nlat = 91\nlong = 9999999999999999999\n"
    );
    let errors = celestial::parse(&values, "x").unwrap_err();
    assert!(
        errors.0[3].reason.contains("`eccentricity` is 0b11"),
        "{errors}"
    );
    assert_eq!(lines(errors), [1, 2, 4, 10, 12, 13]);

    for (text, line) in [
        ("\na\n", 2),
        ("\nb = \n", 2),
        ("\nc = [1 2]\n", 2),
        ("d = 1\n\nd = 2\n", 3),
        ("[[shell]]\n[shell]\n", 2),
        ("\n\n\"", 3),
    ] {
        let errors = celestial::parse(text, "x").unwrap_err();
        let all = errors
            .0
            .iter()
            .all(|e| e.reason.starts_with("not TOML: ") && e.line == line);
        assert!(all, "{text:?}: {errors}");
    }
    assert_eq!(lines(celestial::parse("", "x").unwrap_err()), [1]);
}

/// Hostile files: an error, in time and memory that the file's size bounds.
#[test]
fn a_configuration_that_is_too_much_is_refused() {
    let within = 1 << 20;
    for text in [
        "x".repeat(within + 1),
        "[".repeat(within),
        "a=[".to_owned() + &"[".repeat(within - 3),
        "a.".repeat(within / 2),
        "a={".repeat(within / 3),
        "\n".repeat(within - 1) + "!",
        "=\n".repeat(within / 2),
        "\"".repeat(within),
        format!("{SHELL}name = {}", "[".repeat(79) + &"]".repeat(79)),
    ] {
        let errors = celestial::parse(&text, "x");
        if let Err(errors) = errors {
            assert!((1..=100).contains(&errors.0.len()) && errors.0[0].line <= within);
        }
    }
}

#[test]
fn xml_of_every_form_is_read() {
    let text = "\u{feff}<?xml version=\"1.0\"?>\n<!-- a --><constellation v='1'>\n<number_of_shells>1</number_of_shells><shell1 \
                id=\"x\"><altitude><![CDATA[550]]></altitude><inclination>5<!-- b -->3</inclination><phase_shift> 1 \
                </phase_shift><number_of_orbit>&#52;</number_of_orbit>\
                <number_of_satellite_per_orbit>3</number_of_satellite_per_orbit><other/></shell1></constellation>";
    let shell = starperf::parse_constellation(text, "x").unwrap().shells[0];
    assert_eq!((shell.altitude_m, shell.inclination_deg), (550e3, 53.0));
    assert_eq!((shell.planes, shell.per_plane, shell.phasing), (4, 3, 1));
}

#[test]
fn each_error_of_a_constellation_has_its_line() {
    let shell = "<altitude>x</altitude>\n<inclination>53</inclination>\n<phase_shift>1</phase_shift>\n\
                 <number_of_satellite_per_orbit>3</number_of_satellite_per_orbit>";
    let text = format!(
        "<constellation>\n<number_of_shells>2</number_of_shells>\n<shell1>\n{shell}\n</shell1>\n</constellation>"
    );
    let errors = starperf::parse_constellation(&text, "x").unwrap_err();
    assert_eq!(lines(errors), [1, 3, 4]);
    for (text, line) in [
        ("", 1),
        ("no XML", 1),
        ("<a>\n<b></a>", 2),
        ("<constellation>\n\n", 1),
        ("<a/>\n<b/>", 2),
        ("<!DOCTYPE a [<!ENTITY b 'c'>]>\n<constellation/>", 1),
    ] {
        let errors = starperf::parse_constellation(text, "x").unwrap_err();
        assert_eq!(lines(errors), [line], "{text}");
    }
    let many = "<GSs>".to_owned() + &"<a/>".repeat(1_000_001);
    assert!(starperf::parse_stations(&many).is_err());
}
