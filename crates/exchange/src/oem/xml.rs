//! Messages as XML: an `oem` element, or several in an `ndm` element.

use constel_units::instant;
use roxmltree::{Document, Node, ParsingOptions};

use super::{Meta, Objects, known_version, state};
use crate::ephemeris::{EphemerisFile, State};
use crate::states::{Bad, Track};
use crate::text::{Findings, ReadErrors, number, shown};

/// Most elements and texts of a document: some 300,000 states.
const MOST_NODES: u32 = 6_000_000;

/// The numbers of a state, in order: position in km, velocity in km/s.
const COMPONENTS: [&str; 6] = ["X", "Y", "Z", "X_DOT", "Y_DOT", "Z_DOT"];

pub(super) fn read(text: &str) -> Result<EphemerisFile, ReadErrors> {
    let options = ParsingOptions {
        allow_dtd: false,
        nodes_limit: MOST_NODES,
        ..ParsingOptions::default()
    };
    let document = match Document::parse_with_options(text, options) {
        Ok(document) => document,
        Err(error) => {
            let mut findings = Findings::default();
            findings.push(error.pos().row as usize, format!("not XML: {error}"));
            return Bad::default().file(Vec::new(), findings);
        }
    };
    let mut reader = Reader {
        lines: Lines {
            starts: line_starts(text),
        },
        objects: Objects::default(),
    };
    for message in document.descendants().filter(|node| named(node, "oem")) {
        let version = message.attribute("version").unwrap_or("");
        if !known_version(version) {
            let line = reader.lines.of(&message);
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

fn line_starts(text: &str) -> Vec<usize> {
    let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
    std::iter::once(0)
        .chain(ends.map(|(at, _)| at + 1))
        .collect()
}

/// The offsets of lines. The XML parser finds a line by counting from the top, which is quadratic for a file of
/// errors.
struct Lines {
    starts: Vec<usize>,
}

impl Lines {
    fn of(&self, node: &Node<'_, '_>) -> usize {
        let at = node.range().start;
        self.starts.partition_point(|start| *start <= at)
    }
}

struct Reader {
    lines: Lines,
    objects: Objects,
}

impl Reader {
    fn segment(&mut self, segment: Node<'_, '_>) {
        let mut meta = Meta::new(self.lines.of(&segment));
        let metadata = segment.children().find(|node| named(node, "metadata"));
        for entry in metadata.iter().flat_map(|node| node.children()) {
            let name = entry.tag_name().name();
            if entry.is_element() && !name.eq_ignore_ascii_case("COMMENT") {
                let value = entry.text().unwrap_or("").trim();
                self.objects
                    .meta(&mut meta, self.lines.of(&entry), name, value);
            }
        }
        for reason in meta.missing().collect::<Vec<_>>() {
            self.objects.findings.push(meta.line, reason);
        }
        let mut track = Track::default();
        for vector in segment.descendants().filter(|n| named(n, "stateVector")) {
            let line = self.lines.of(&vector);
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
    let epoch = child("EPOCH").and_then(|node| node.text()).unwrap_or("");
    let at = instant(epoch).map_err(|error| error.to_string())?;
    let mut numbers = Vec::with_capacity(6);
    for name in COMPONENTS {
        let Some(node) = child(name) else { continue };
        // CCSDS allows km and km/s alone; another unit would be read as these.
        let unit = node.attribute("units").unwrap_or("km");
        if !["km", "km/s"].contains(&unit) {
            return Err(format!("{name} is in {}, not in km", shown(unit)));
        }
        numbers.push(number(node.text().unwrap_or(""))?);
    }
    state(at, &numbers).ok_or_else(|| {
        "a stateVector needs X, Y, Z and perhaps all of X_DOT, Y_DOT, Z_DOT".to_owned()
    })
}
