//! StarPerf 2's XML files: a constellation (`config/XML_constellation/*.xml`) and ground stations
//! (`config/ground_stations/*.xml`).
//!
//! A constellation holds `number_of_shells` and `shell1`, `shell2`, ... with altitude (km), inclination (degrees),
//! `phase_shift` (Walker's F), `number_of_orbit` and `number_of_satellite_per_orbit`; `orbit_cycle` (the period in
//! seconds) follows from the altitude and is not read.

use std::fmt::Write;

use roxmltree::{Document, Node};

use crate::draft::{Draft, Shell, Station};
use crate::text::{Findings, Lines, ReadErrors, number, shown};
use crate::xml::{self, escaped};

/// Most elements and texts of a document: some 80,000 stations.
const MOST_NODES: u32 = 1_000_000;

/// The numbers of a document, and the errors found in it.
struct Reader {
    lines: Lines,
    findings: Findings,
}

/// Reads a constellation file into a draft without stations.
///
/// # Errors
/// Everything found wrong, with its line.
pub fn parse_constellation(text: &str, name: &str) -> Result<Draft, ReadErrors> {
    let mut draft = Draft::new("a StarPerf constellation", name);
    let (document, mut reader) = match open(text) {
        Ok(opened) => opened,
        Err(findings) => return findings.or(draft),
    };
    let root = document.root_element();
    if !root.has_tag_name("constellation") {
        let found = format!(
            "not recognised: the root element is <{}>, and that of StarPerf's files <constellation>",
            shown(root.tag_name().name())
        );
        reader.wrong(root, found);
        return reader.findings.or(draft);
    }
    let count = reader.value(root, "number_of_shells").unwrap_or(0.0);
    if !(1.0..=100.0).contains(&count) || count.fract() != 0.0 {
        reader.wrong(root, format!("{count} shells: 1 to 100 are read"));
        return reader.findings.or(draft);
    }
    for n in 1..=count as u32 {
        let Some(element) = child(root, &format!("shell{n}")) else {
            reader.wrong(root, format!("no <shell{n}>"));
            continue;
        };
        let mut get = |key| reader.value(element, key);
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
            reader.wrong(
                element,
                "counts and phase shift are whole numbers up to 10,000",
            );
            continue;
        };
        if planes == 0 || per_plane == 0 {
            reader.wrong(element, "no satellites in this shell");
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
    reader.findings.or(draft)
}

/// Reads a ground station file. Antennas and frequencies are not read.
///
/// # Errors
/// Everything found wrong, with its line.
pub fn parse_stations(text: &str) -> Result<Vec<Station>, ReadErrors> {
    let mut stations = Vec::new();
    let (document, mut reader) = match open(text) {
        Ok(opened) => opened,
        Err(findings) => return findings.or(stations),
    };
    let root = document.root_element();
    if !root.has_tag_name("GSs") {
        reader.wrong(root, "the root element is not <GSs>");
    }
    for element in root.children().filter(Node::is_element) {
        let latitude_deg = reader.value(element, "Latitude");
        let longitude_deg = reader.value(element, "Longitude");
        let name = child(element, "Description").map(xml::content);
        let name = name.as_deref().unwrap_or(element.tag_name().name()).trim();
        if let (Some(latitude_deg), Some(longitude_deg)) = (latitude_deg, longitude_deg) {
            stations.push(Station {
                name: name.to_owned(),
                latitude_deg,
                longitude_deg,
                altitude_m: 0.0,
            });
        }
        if reader.findings.is_full() {
            break;
        }
    }
    reader.findings.or(stations)
}

fn open(text: &str) -> Result<(Document<'_>, Reader), Findings> {
    let reader = Reader {
        lines: Lines::new(text),
        findings: Findings::default(),
    };
    Ok((xml::parse(text, MOST_NODES)?, reader))
}

fn child<'a, 'input>(element: Node<'a, 'input>, name: &str) -> Option<Node<'a, 'input>> {
    element.children().find(|child| child.has_tag_name(name))
}

impl Reader {
    fn wrong(&mut self, element: Node<'_, '_>, reason: impl Into<String>) {
        let line = self.lines.at(element.range().start);
        self.findings.push(line, reason);
    }

    /// Returns the number in a child of an element.
    fn value(&mut self, element: Node<'_, '_>, key: &str) -> Option<f64> {
        let Some(child) = child(element, key) else {
            let name = shown(element.tag_name().name());
            self.wrong(element, format!("<{name}> has no <{key}>"));
            return None;
        };
        let read = number(&xml::content(child));
        read.map_err(|reason| self.wrong(child, reason)).ok()
    }
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
