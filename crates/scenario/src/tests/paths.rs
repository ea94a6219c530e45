//! Every path in the source, such as `[Key("routing"), Key("timers")]`, leads to a value that the schemas have. An error with
//! a misspelled path would point to the section around the value, and no golden would need to notice.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::schema::{BOX, RULES, SCENARIO};

/// One step of a path in the source.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Step<'a> {
    Key(&'a str),
    AnyKey,
    AnyIndex,
}

/// A schema with the root that its references refer to.
type Node = (&'static Value, &'static Value);

/// Returns the schema and the alternatives in it.
fn alternatives((root, schema): Node) -> Vec<Node> {
    let mut all = vec![(root, schema)];
    let reference = schema.get("$ref").and_then(Value::as_str);
    let referred = reference.and_then(|reference| root.pointer(reference.strip_prefix('#')?));
    let lists = ["anyOf", "oneOf"].map(|key| schema.get(key).and_then(Value::as_array));
    let inner = referred
        .into_iter()
        .chain(lists.into_iter().flatten().flatten());
    all.extend(inner.flat_map(|inner| alternatives((root, inner))));
    all
}

fn below(node: Node, step: Step<'_>) -> Vec<Node> {
    let mut found = Vec::new();
    for (root, schema) in alternatives(node) {
        let keys = |name: &str| schema.get(name).and_then(Value::as_object);
        let inner: Vec<&'static Value> = match step {
            Step::Key(key) => keys("properties")
                .and_then(|keys| keys.get(key))
                .into_iter()
                .collect(),
            Step::AnyIndex => schema.get("items").into_iter().collect(),
            Step::AnyKey => {
                let maps = ["properties", "patternProperties"].map(keys);
                maps.into_iter()
                    .flatten()
                    .flat_map(|map| map.values())
                    .collect()
            }
        };
        found.extend(inner.into_iter().map(|inner| (root, inner)));
    }
    found
}

fn everything((root, schema): Node, all: &mut Vec<Node>) {
    all.push((root, schema));
    let inner: Vec<&'static Value> = match schema {
        Value::Object(map) => map.values().collect(),
        Value::Array(items) => items.iter().collect(),
        _ => Vec::new(),
    };
    inner
        .into_iter()
        .for_each(|inner| everything((root, inner), all));
}

/// Returns the text after an opening bracket up to the closing one.
fn bracketed(text: &str) -> &str {
    let mut depth = 1;
    let end = text.find(|c| {
        depth += i32::from(c == '[') - i32::from(c == ']');
        depth == 0
    });
    &text[..end.unwrap_or(text.len())]
}

/// Returns the steps of a list, from its first literal key on. After a part that is neither key nor index
/// the path begins again, because the value of the part is not known here.
fn steps(list: &str) -> Vec<Step<'_>> {
    let mut depth = 0;
    let parts = list.split(|c| {
        depth += i32::from("([{".contains(c)) - i32::from(")]}".contains(c));
        c == ',' && depth == 0
    });
    let mut steps = Vec::new();
    for part in parts.map(|part| part.trim().trim_start_matches("Seg::")) {
        match (part.strip_prefix("Key("), part.starts_with("Index(")) {
            (Some(key), _) => match key.strip_prefix('"').and_then(|key| key.split_once('"')) {
                Some((key, _)) => steps.push(Step::Key(key)),
                None if steps.is_empty() => {}
                None => steps.push(Step::AnyKey),
            },
            (None, true) if !steps.is_empty() => steps.push(Step::AnyIndex),
            (None, true) => {}
            (None, false) if part.is_empty() => {}
            (None, false) => steps.clear(),
        }
    }
    steps
}

fn sources(folder: &Path, all: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("tests") {
            sources(&path, all);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let lines = text
                .lines()
                .map(|line| line.split("//").next().unwrap_or_default());
            all.push((
                path.display().to_string(),
                lines.collect::<Vec<_>>().join("\n"),
            ));
        }
    }
}

#[test]
fn paths_lead_to_values_of_the_schemas() {
    let mut schemas = Vec::new();
    for format in [&SCENARIO, &RULES, &BOX] {
        everything((&format.schema, &format.schema), &mut schemas);
    }
    let leads = |steps: &[Step<'_>]| {
        let mut nodes = schemas.clone();
        for step in steps {
            nodes = nodes
                .into_iter()
                .flat_map(|node| below(node, *step))
                .collect();
        }
        !nodes.is_empty()
    };
    let mut files = Vec::new();
    sources(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut files,
    );
    let mut checked = 0;
    for (file, text) in &files {
        for (at, _) in text.match_indices('[') {
            let steps = steps(bracketed(&text[at + 1..]));
            checked += steps.len();
            assert!(
                steps.is_empty() || leads(&steps),
                "{file}: no schema has {steps:?}"
            );
        }
    }
    assert!(checked > 300, "{checked}");
    let [timers, dead] = ["timers", "dead"].map(Step::Key);
    assert!(leads(&[timers, dead]) && !leads(&[dead, timers]));
}
