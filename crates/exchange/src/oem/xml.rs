//! Messages as XML: an `oem` element, or several in an `ndm` element.

use constel_units::instant;
use roxmltree::Node;

use super::{Meta, Objects, known_version, state};
use crate::ephemeris::{EphemerisFile, State};
use crate::states::{Bad, Track};
use crate::text::{Lines, ReadErrors, number, shown};
use crate::xml;

/// Most elements and texts of a document: some 300,000 states.
const MOST_NODES: u32 = 6_000_000;

/// The numbers of a state, in order: position in km, velocity in km/s.
const COMPONENTS: [&str; 6] = ["X", "Y", "Z", "X_DOT", "Y_DOT", "Z_DOT"];

pub(super) fn read(text: &str) -> Result<EphemerisFile, ReadErrors> {
    let document = match xml::parse(text, MOST_NODES) {
        Ok(document) => document,
        Err(findings) => return Bad::default().file(Vec::new(), findings),
    };
    let mut reader = Reader {
        lines: Lines::new(text),
        objects: Objects::default(),
    };
    for message in document.descendants().filter(|node| named(node, "oem")) {
        let version = message.attribute("version").unwrap_or("");
        if !known_version(version) {
            let line = reader.lines.at(message.range().start);
            let reason = format!("version {} of OEM is not known", shown(version));
            reader.objects.findings.push(line, reason);
        }
        for segment in message.descendants().filter(|node| named(node, "segment")) {
            reader.segment(segment);
            if reader.objects.findings.is_full() {
                break;
            }
        }
    }
    reader.objects.finish()
}

fn named(node: &Node<'_, '_>, name: &str) -> bool {
    node.is_element() && node.tag_name().name().eq_ignore_ascii_case(name)
}

struct Reader {
    lines: Lines,
    objects: Objects,
}

impl Reader {
    fn segment(&mut self, segment: Node<'_, '_>) {
        let mut meta = Meta::new(self.lines.at(segment.range().start));
        let metadata = segment.children().find(|node| named(node, "metadata"));
        for entry in metadata.iter().flat_map(|node| node.children()) {
            let name = entry.tag_name().name();
            if entry.is_element() && !name.eq_ignore_ascii_case("COMMENT") {
                let line = self.lines.at(entry.range().start);
                let value = xml::content(entry);
                self.objects.meta(&mut meta, line, name, value.trim());
            }
        }
        for reason in meta.missing().collect::<Vec<_>>() {
            self.objects.findings.push(meta.line, reason);
        }
        let mut track = Track::default();
        for vector in segment.descendants().filter(|n| named(n, "stateVector")) {
            let line = self.lines.at(vector.range().start);
            match read_state(vector) {
                Ok(state) => track.state(line, state),
                Err(reason) => track.bad(&meta.object, line, reason, &mut self.objects.bad),
            }
        }
        self.objects.close(meta, track);
    }
}

fn read_state(vector: Node<'_, '_>) -> Result<State, String> {
    let child = |name: &str| vector.children().find(|node| named(node, name));
    let epoch = child("EPOCH").map(xml::content).unwrap_or_default();
    let at = instant(&epoch).map_err(|error| error.to_string())?;
    let mut numbers = Vec::with_capacity(6);
    for name in COMPONENTS {
        let Some(node) = child(name) else { continue };
        // CCSDS allows km and km/s alone; another unit would be read as these.
        let unit = node.attribute("units").unwrap_or("km");
        if !["km", "km/s"].contains(&unit) {
            return Err(format!("{name} is in {}, not in km", shown(unit)));
        }
        numbers.push(number(&xml::content(node))?);
    }
    state(at, &numbers).ok_or_else(|| {
        "a stateVector needs X, Y, Z and perhaps all of X_DOT, Y_DOT, Z_DOT".to_owned()
    })
}
