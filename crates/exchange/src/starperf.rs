//! StarPerf 2's XML files: a constellation (`config/XML_constellation/*.xml`) and ground stations
//! (`config/ground_stations/*.xml`).
//!
//! A constellation holds `number_of_shells` and `shell1`, `shell2`, ... with altitude (km), inclination (degrees),
//! `phase_shift` (Walker's F), `number_of_orbit` and `number_of_satellite_per_orbit`; `orbit_cycle` (the period in
//! seconds) follows from the altitude and is not read.

use std::fmt::Write;

use crate::draft::{Draft, Shell, Station};
use crate::text::{Findings, ReadErrors, number, shown};
use crate::xml::{Element, escaped, parse as parse_xml};

/// Reads a constellation file into a draft without stations.
///
/// # Errors
/// Everything found wrong, with its line.
pub fn parse_constellation(text: &str, name: &str) -> Result<Draft, ReadErrors> {
    let root = parse_xml(text)?;
    let mut findings = Findings::default();
    let mut draft = Draft::new("a StarPerf constellation", name);
    if root.name != "constellation" {
        let found = format!(
            "not recognised: the root element is <{}>, and that of StarPerf's files <constellation>",
            shown(&root.name)
        );
        findings.push(root.line, found);
        return findings.or(draft);
    }
    let count = value(&root, "number_of_shells", &mut findings).unwrap_or(0.0);
    if !(1.0..=100.0).contains(&count) || count.fract() != 0.0 {
        findings.push(root.line, format!("{count} shells: 1 to 100 are read"));
        return findings.or(draft);
    }
    for n in 1..=count as u32 {
        let Some(element) = root.child(&format!("shell{n}")) else {
            findings.push(root.line, format!("no <shell{n}>"));
            continue;
        };
        let mut get = |key| value(element, key, &mut findings);
        let values = (
            get("altitude"),
            get("inclination"),
            get("phase_shift"),
            get("number_of_orbit"),
            get("number_of_satellite_per_orbit"),
        );
        let (Some(altitude_km), Some(inclination_deg), Some(shift), Some(planes), Some(per_plane)) =
            values
        else {
            continue;
        };
        let whole =
            |v: f64| (v.fract() == 0.0 && (0.0..=10_000.0).contains(&v)).then_some(v as u32);
        let (Some(shift), Some(planes), Some(per_plane)) =
            (whole(shift), whole(planes), whole(per_plane))
        else {
            findings.push(
                element.line,
                "counts and phase shift are whole numbers up to 10,000",
            );
            continue;
        };
        if planes == 0 || per_plane == 0 {
            findings.push(element.line, "no satellites in this shell");
            continue;
        }
        draft.shells.push(Shell {
            // StarPerf spreads the nodes of polar shells over 180 degrees, those of others over 360.
            star: (80.0..100.0).contains(&inclination_deg),
            altitude_m: altitude_km * 1e3,
            inclination_deg,
            planes,
            per_plane,
            phasing: shift % planes,
            raan0_deg: 0.0,
            isl: true,
            min_elevation_deg: None,
        });
    }
    draft.note("StarPerf's constellation files say nothing of rates, losses and elevation: 10 Mbit/s, 0 % and 25 deg were taken");
    draft.note("shells inclined 80 to 100 degrees become `star`, as StarPerf spreads their planes over 180 degrees");
    draft.note("StarPerf chooses ISLs by a plug-in at run time: the +Grid was taken");
    findings.or(draft)
}

/// Reads a ground station file. Antennas and frequencies are not read.
///
/// # Errors
/// Everything found wrong, with its line.
pub fn parse_stations(text: &str) -> Result<Vec<Station>, ReadErrors> {
    let root = parse_xml(text)?;
    let mut findings = Findings::default();
    if root.name != "GSs" {
        findings.push(root.line, "the root element is not <GSs>");
    }
    let mut stations = Vec::new();
    for element in &root.children {
        let latitude_deg = value(element, "Latitude", &mut findings);
        let longitude_deg = value(element, "Longitude", &mut findings);
        let name = element
            .child("Description")
            .map_or(element.name.as_str(), |d| d.text.as_str());
        if let (Some(latitude_deg), Some(longitude_deg)) = (latitude_deg, longitude_deg) {
            stations.push(Station {
                name: name.to_owned(),
                latitude_deg,
                longitude_deg,
                altitude_m: 0.0,
            });
        }
        if findings.is_full() {
            break;
        }
    }
    findings.or(stations)
}

fn value(element: &Element, key: &str, findings: &mut Findings) -> Option<f64> {
    let Some(child) = element.child(key) else {
        findings.push(
            element.line,
            format!("<{}> has no <{key}>", crate::text::shown(&element.name)),
        );
        return None;
    };
    number(&child.text)
        .map_err(|reason| findings.push(child.line, reason))
        .ok()
}

/// Writes a constellation file. `period_s` gives a shell's orbital period.
pub fn write_constellation(shells: &[Shell], period_s: impl Fn(&Shell) -> f64) -> String {
    let mut out = format!(
        "<constellation>\n    <number_of_shells>{}</number_of_shells>\n",
        shells.len()
    );
    for (n, shell) in shells.iter().enumerate() {
        let n = n + 1;
        // Writing into a string cannot fail.
        let _ = write!(
            out,
            "    <shell{n}>\n        <altitude>{}</altitude>\n        <orbit_cycle>{:.0}</orbit_cycle>\n        \
             <inclination>{}</inclination>\n        <phase_shift>{}</phase_shift>\n        \
             <number_of_orbit>{}</number_of_orbit>\n        \
             <number_of_satellite_per_orbit>{}</number_of_satellite_per_orbit>\n    </shell{n}>\n",
            shell.altitude_m / 1e3,
            period_s(shell),
            shell.inclination_deg,
            shell.phasing,
            shell.planes,
            shell.per_plane
        );
    }
    out + "</constellation>\n"
}

/// Writes a ground station file.
pub fn write_stations(stations: &[Station]) -> String {
    let mut out = String::from("<GSs>\n");
    for (n, station) in stations.iter().enumerate() {
        let n = n + 1;
        let _ = write!(
            out,
            "  <GS{n}>\n    <Latitude>{}</Latitude>\n    <Longitude>{}</Longitude>\n    \
             <Description>{}</Description>\n  </GS{n}>\n",
            station.latitude_deg,
            station.longitude_deg,
            escaped(&station.name)
        );
    }
    out + "</GSs>\n"
}
