//! The reference page of the scenario file, printed from its schema.

use std::fmt::Write as _;

use serde_json::Value;

use crate::bounds::bounds;
use crate::schema::{BOX, RULES, Resolved, follow, schema};
use crate::walk::format_words;

/// The page shipped as `docs/reference/scenario.md`.
pub fn reference_page() -> String {
    page(schema(), HEAD)
}

/// The page of the keys of a file of rules, shipped as `docs/reference/box-rules.md`.
pub fn rules_reference_page() -> String {
    page(&RULES.schema, RULES_HEAD)
}

/// The page of the keys of a scenario that is a box, shipped as `docs/reference/box-scenario.md`.
pub fn box_reference_page() -> String {
    page(&BOX.schema, BOX_HEAD)
}

fn page(root: &Value, head: &str) -> String {
    let mut page = String::from(head);
    let mut sections = vec![("the top level".to_owned(), root)];
    // Sections in the order in which a reader of the file meets them.
    let mut next = 0;
    while let Some((_, section)) = sections.get(next) {
        for name in references(section) {
            let definition = root.get("$defs").and_then(|defs| defs.get(&name));
            let has_keys = definition.is_some_and(|d| d.get("properties").is_some());
            if let Some(definition) = definition
                && has_keys
                && !sections.iter().any(|(known, _)| *known == name)
            {
                sections.push((name, definition));
            }
        }
        next += 1;
    }
    for (name, section) in &sections {
        write_section(&mut page, root, name, section);
    }
    page
}

const HEAD: &str = "\
<!-- Generated from the types of crates/scenario; a test keeps it in sync. Do not edit. -->

# The scenario file

A scenario is one YAML 1.2 document. `constel check FILE` checks it and `constel plan FILE` shows
what it means, both without touching the host. The JSON schema for editors is
[scenario.schema.json](scenario.schema.json); put this in the first line of a file to use it:

```yaml
# yaml-language-server: $schema=docs/reference/scenario.schema.json
```

- Every quantity carries its unit: `550 km`, `53 deg`, `12 ms`, `1 Gbit/s`, `256 KiB`, `0.1 %`.
  A bare number is an error.
- Unknown keys are errors, and so are keys that would have no effect.
- Names are made of `a-z`, `0-9` and `-`, at most 48 characters.
- Satellites are called `<constellation>-p<plane>-s<slot>`, counted from 0 with at least two
  digits; those of an element file `<constellation>-<shell>-p<plane>-s<slot>`.
- Where a key wants a node, it is named by its name. A satellite of an element file or ephemeris may
  be named by what that calls it, written as there (`'ISS (ZARYA)'`), and one of an element file by
  its catalogue number (`25544`). In one file a node is called by one name.
- Paths are relative to the scenario file.

Units:

| quantity | units |
|---|---|
| length | `m`, `km` |
| angle | `deg`, `rad` |
| span of time | `ns`, `us`, `ms`, `s`, `min`, `h`, `d` |
| data rate | `bit/s`, `kbit/s`, `Mbit/s`, `Gbit/s`, `Tbit/s` |
| data size | `B`, `kB`, `MB`, `GB`, `TB`, `KiB`, `MiB`, `GiB`, `TiB` |
| ratio | `%`, `ppm` |
| frequency | `Hz`, `kHz`, `MHz`, `GHz` |
| power | `dBW`, `dBm` |
| decibels | `dB` |
| figure of merit | `dB/K` |
| temperature | `K`, `degC` |
| rain rate | `mm/h` |
";

const RULES_HEAD: &str = "\
<!-- Generated from the types of crates/scenario; a test keeps it in sync. Do not edit. -->

# The rules of a box

One YAML 1.2 document. What they mean, and how a box is run, is in [box.md](box.md). The JSON schema for editors is
[box.schema.json](box.schema.json). Quantities carry their units, and unknown keys and keys without effect are errors,
as in [scenarios](scenario.md).
";

const BOX_HEAD: &str = "\
<!-- Generated from the types of crates/scenario; a test keeps it in sync. Do not edit. -->

# A scenario that is a box

One YAML 1.2 document with the key `box`; `constel run FILE` runs it, and `constel check FILE` checks it. What a box is, is in
[box.md](box.md); `scenarios/box.yaml` is one. The JSON schema for editors is
[box-scenario.schema.json](box-scenario.schema.json). Quantities carry their units, and unknown keys and keys without effect
are errors, as in [other scenarios](scenario.md).
";

/// Names of the definitions that a section's keys refer to, in order.
fn references(section: &Value) -> Vec<String> {
    fn collect(value: &Value, into: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                for (key, inner) in map {
                    match (key.as_str(), inner.as_str()) {
                        ("$ref", Some(reference)) => {
                            into.extend(reference.strip_prefix("#/$defs/").map(str::to_owned));
                        }
                        ("$defs", _) => {}
                        _ => collect(inner, into),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| collect(item, into)),
            _ => {}
        }
    }
    let mut names = Vec::new();
    collect(section, &mut names);
    names
}

fn write_section(page: &mut String, root: &Value, name: &str, section: &Value) {
    let section = follow(root, section);
    let _ = writeln!(page, "\n## {name}\n");
    if let Some(description) = section.text("description") {
        let _ = writeln!(page, "{description}\n");
    }
    let required: Vec<&str> = section
        .get("required")
        .and_then(Value::as_array)
        .map(|keys| keys.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let one_of = section.exactly_one_key().unwrap_or_default();
    let _ = writeln!(
        page,
        "| key | value | default | meaning |\n|---|---|---|---|"
    );
    for (key, schema) in section
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let schema = follow(root, schema);
        let default = if required.contains(&key.as_str()) {
            "required".to_owned()
        } else if one_of.contains(&key.as_str()) {
            "one of these".to_owned()
        } else {
            schema
                .get("default")
                .map_or_else(|| "see there".to_owned(), show)
        };
        let meaning = schema.text("description").unwrap_or("").replace('\n', " ");
        let value = value_words(root, schema);
        let _ = writeln!(
            page,
            "| `{key}` | {} | {default} | {} |",
            cell(&value),
            cell(&meaning)
        );
    }
    for (key, schema) in section
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        write_words(page, root, key, follow(root, schema));
    }
}

/// The words of an enumeration with their meanings.
fn write_words(page: &mut String, root: &Value, key: &str, schema: Resolved<'_>) {
    let words = |schema: Resolved<'_>| -> Option<Vec<(String, String)>> {
        let alternatives = schema.get("oneOf")?.as_array()?;
        alternatives
            .iter()
            .map(|alternative| {
                let word = alternative.get("const")?.as_str()?.to_owned();
                let meaning = alternative.get("description").and_then(Value::as_str);
                Some((word, meaning.unwrap_or("").replace('\n', " ")))
            })
            .collect()
    };
    let item = schema.get("items").map(|item| follow(root, item));
    let Some(words) = words(schema).or_else(|| item.and_then(words)) else {
        return;
    };
    let _ = writeln!(page, "\nWords of `{key}`:\n");
    for (word, meaning) in words {
        let _ = writeln!(page, "- `{word}`: {meaning}");
    }
}

/// Returns the allowed values in words, with their bounds.
fn value_words(root: &Value, schema: Resolved<'_>) -> String {
    let base = if let Some(words) = schema.words() {
        let words: Vec<String> = words.iter().map(|word| show(word)).collect();
        words.join(" or ")
    } else if let Some(alternatives) = schema.get("anyOf").and_then(Value::as_array) {
        let parts: Vec<String> = alternatives
            .iter()
            .map(|alternative| match alternative.get("const") {
                Some(word) => show(word),
                None => value_words(root, follow(root, alternative)),
            })
            .collect();
        parts.join(" or ")
    } else {
        kind_words(root, schema)
    };
    let mut limits: Vec<String> = bounds(schema).map(|bound| bound.to_string()).collect();
    for (keyword, words) in [("minimum", "at least"), ("maximum", "at most")] {
        let edge = schema.get(keyword).filter(|_| schema.words().is_none());
        limits.extend(edge.map(|edge| format!("{words} {edge}")));
    }
    limits.extend(schema.get("maxItems").map(|edge| format!("at most {edge}")));
    if limits.is_empty() {
        base
    } else {
        format!("{base}, {}", limits.join(", "))
    }
}

fn kind_words(root: &Value, schema: Resolved<'_>) -> String {
    match (schema.text("type"), schema.text("format")) {
        (Some("object"), _) => {
            let values = schema
                .get("patternProperties")
                .and_then(Value::as_object)
                .and_then(|patterns| patterns.values().next());
            let keys = schema.get("properties").and_then(Value::as_object);
            match (values, schema.text("$ref"), keys) {
                (Some(values), _, _) => {
                    let keys = match schema.text("x-keys") {
                        Some("variable") => "variables",
                        _ => "names",
                    };
                    format!("{keys} with {} each", reference_words(root, values))
                }
                (None, Some(reference), _) => link(reference),
                (None, None, Some(keys)) => {
                    let keys: Vec<String> = keys.keys().map(|key| format!("{key}: ...")).collect();
                    format!("`{{{}}}`", keys.join(", "))
                }
                (None, None, None) => "keys".to_owned(),
            }
        }
        (Some("array"), _) => {
            let items = schema
                .get("items")
                .map(|items| reference_words(root, items));
            format!("list of {}", items.unwrap_or_default())
        }
        (Some("integer"), _) => "whole number".to_owned(),
        (Some("number"), _) => "number".to_owned(),
        (Some("boolean"), _) => "`true` or `false`".to_owned(),
        (_, Some("constel-name")) => "name".to_owned(),
        (_, Some("constel-node")) => "node".to_owned(),
        (_, Some("constel-destination")) => "node, or `NODE.PAIR.PATH`".to_owned(),
        (_, Some("utc")) => "instant such as `2026-11-21T00:00:00Z`".to_owned(),
        (_, Some(format)) => {
            let words = format_words(format);
            words
                .strip_prefix("a ")
                .or(words.strip_prefix("an "))
                .unwrap_or(words)
                .to_owned()
        }
        (Some("string"), None) => "text".to_owned(),
        _ => "keys".to_owned(),
    }
}

/// A link to the section of a definition, or its words where it has no section.
fn reference_words(root: &Value, schema: &Value) -> String {
    let resolved = follow(root, schema);
    match schema.get("$ref").and_then(Value::as_str) {
        Some(reference) if resolved.get("properties").is_some() => link(reference),
        _ => value_words(root, resolved),
    }
}

fn link(reference: &str) -> String {
    let name = reference.strip_prefix("#/$defs/").unwrap_or(reference);
    format!("[{name}](#{})", name.to_lowercase())
}

/// A value as the user writes it, in backquotes.
fn show(value: &Value) -> String {
    match value {
        Value::String(text) if text.is_empty() => "empty".to_owned(),
        Value::String(text) => format!("`{text}`"),
        Value::Array(items) if items.is_empty() => "none".to_owned(),
        Value::Object(map) if map.is_empty() => "none".to_owned(),
        other => format!("`{}`", flow(other)),
    }
}

/// A value in YAML's flow style.
fn flow(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => format!(
            "[{}]",
            items.iter().map(flow).collect::<Vec<_>>().join(", ")
        ),
        Value::Object(map) => {
            let parts: Vec<String> = map
                .iter()
                .map(|(key, value)| format!("{key}: {}", flow(value)))
                .collect();
            format!("{{{}}}", parts.join(", "))
        }
        other => other.to_string(),
    }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
