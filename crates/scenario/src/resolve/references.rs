//! Misspelt nodes in a file whose form has other errors: reported at once, not after the other errors are
//! corrected.

use serde_json::{Map, Value as Json, json};

use super::inputs::Inputs;
use super::nodes::Nodes;
use super::{constellations, ground, resolve};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::files::Files;
use crate::model::Scenario;
use crate::parse::{Document, Parsed, parse_bytes, text_of};
use crate::raw::{Name, RawScenario};
use crate::schema::SCENARIO;
use crate::source::Source;
use crate::tree;
use crate::walk::{named, references};

/// Parses and resolves a scenario file. Errors of form are reported together with names that no node has, as
/// far as the names of nodes are known then.
///
/// # Errors
/// Those of [`parse_bytes`] and [`resolve`].
pub fn read_scenario(
    file_name: &str,
    bytes: &[u8],
    files: &dyn Files,
) -> Result<Scenario, Diagnostics> {
    match parse_bytes(file_name, bytes) {
        Ok(parsed) => resolve(&parsed, files),
        Err(mut errors) => {
            // A form that cannot be read at all has no references to check.
            if let Some(unknown) = misspelt(file_name, bytes, files) {
                unknown.into_iter().for_each(|error| errors.push(error));
                errors.sort();
            }
            Err(errors)
        }
    }
}

/// Returns the references to missing nodes; `None` if the names of the nodes are unknown.
fn misspelt(file_name: &str, bytes: &[u8], files: &dyn Files) -> Option<Vec<Diagnostic>> {
    let text = text_of(file_name, bytes).ok()?;
    let source = Source::new(file_name, text);
    let root = tree::read(&source).ok()?;
    let mut skeleton = Map::new();
    for (key, value) in [
        ("constel", json!(1)),
        ("name", json!("x")),
        ("seed", json!(1)),
        ("start", json!("2026-01-01T00:00:00Z")),
        ("duration", json!("1 s")),
    ] {
        skeleton.insert(key.to_owned(), value);
    }
    let tree::Value::Mapping(entries) = &root.value else {
        return None;
    };
    // All keys that give nodes their names.
    for key in ["constellations", "ground", "spacecraft"] {
        if entries.iter().any(|entry| entry.key == key) {
            skeleton.insert(key.to_owned(), named(&source, &SCENARIO, &root, key)?);
        }
    }
    let found = references(&source, &SCENARIO, &root);
    let mut raw: RawScenario = serde_json::from_value(Json::Object(skeleton)).ok()?;
    // Names that two hosts claim are reported only if the form is valid.
    drop(raw.ground.count_hosts());
    let parsed = Parsed::new(raw, Document::new(source, root));
    let mut others = Diagnostics::new();
    let mut inputs = Inputs::new(&parsed, files);
    let constellations = constellations::resolve(&parsed, &mut inputs, &mut others);
    let stations = ground::resolve(&parsed, &constellations, &mut inputs, &mut others);
    let nodes = Nodes::new(&parsed, &constellations, &stations, &mut others);
    let unknown = found.iter().filter_map(|reference| {
        let name = Name::of_node(&reference.text).ok()?;
        let error = |code, message| {
            Diagnostic::new(parsed.source(), reference.span, code, message)
                .with_path(reference.path.clone())
        };
        nodes.unknown(&name, error)
    });
    Some(unknown.collect())
}
