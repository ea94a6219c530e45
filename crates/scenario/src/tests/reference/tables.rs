//! One section of a reference page: the keys of a definition as a table, with the words of its enumerations.

use std::fmt::Write as _;

use serde_json::Value;

use super::Places;
use crate::bounds::bounds;
use crate::schema::{Resolved, follow, has_defaults};
use crate::walk::format_words;

/// The location of a section: its links depend on it.
pub(super) struct Section<'a> {
    /// The format, an index into `FORMATS`.
    pub(super) format: usize,
    /// The path of the page, below `docs/reference`.
    pub(super) page: &'a str,
    /// The schema of the format.
    pub(super) root: &'a Value,
    /// The pages of all definitions.
    pub(super) places: &'a Places<'a>,
}

impl Section<'_> {
    /// Writes the section of `definition` below the heading `name`.
    pub(super) fn write(&self, page: &mut String, name: &str, definition: &Value) {
        let section = follow(self.root, definition);
        let _ = writeln!(page, "## {name}\n");
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
            let schema = follow(self.root, schema);
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
            let value = self.value_words(schema);
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
            self.write_words(page, key, follow(self.root, schema));
        }
    }

    /// Writes the words of an enumeration with their meanings.
    fn write_words(&self, page: &mut String, key: &str, schema: Resolved<'_>) {
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
        let item = schema.get("items").map(|item| follow(self.root, item));
        let listed = words(schema).or_else(|| item.and_then(words));
        let any = schema.get("anyOf").and_then(Value::as_array);
        let any = any.map(|any| any.iter().map(|one| follow(self.root, one)));
        let forms = any.clone().and_then(|mut any| {
            any.find(|one| one.text("$ref").is_none() && one.exactly_one_key().is_some())
        });
        let listed = listed.or_else(|| any.filter(|_| forms.is_some())?.find_map(words));
        let Some(listed) = listed else {
            return;
        };
        let forms = forms.and_then(|forms| forms.get("properties")?.as_object());
        let is_form = |word: &str| forms.is_some_and(|forms| forms.contains_key(word));
        let _ = writeln!(page, "\nWords of `{key}`:\n");
        for (word, meaning) in listed.iter().filter(|(word, _)| !is_form(word)) {
            let _ = writeln!(page, "- `{word}`: {meaning}");
        }
        for (word, form) in forms.into_iter().flatten() {
            self.write_form(page, word, form);
        }
    }

    /// Writes a word that has a value.
    fn write_form(&self, page: &mut String, word: &str, form: &Value) {
        let alone = match has_defaults(form) {
            true => format!("`{word}` or "),
            false => String::new(),
        };
        let form = follow(self.root, form);
        let meaning = form.text("description").unwrap_or("").replace('\n', " ");
        let keys = form.get("properties").and_then(Value::as_object);
        let Some(keys) = keys.filter(|_| form.text("$ref").is_none()) else {
            let value = self.value_words(form);
            let _ = writeln!(page, "- `{{{word}: ...}}` ({value}): {meaning}");
            return;
        };
        let names: Vec<String> = keys.keys().map(|key| format!("{key}: ...")).collect();
        let names = names.join(", ");
        let _ = writeln!(page, "- {alone}`{{{word}: {{{names}}}}}`: {meaning}");
        for (key, schema) in keys {
            let schema = follow(self.root, schema);
            let value = self.value_words(schema);
            let meaning = schema.text("description").unwrap_or("").replace('\n', " ");
            let default = schema.get("default").map(show);
            let default = default.map_or(String::new(), |default| format!("; default {default}"));
            let _ = writeln!(page, "  - `{key}` ({value}{default}): {meaning}");
        }
    }

    /// Returns the allowed values in words, with their bounds.
    fn value_words(&self, schema: Resolved<'_>) -> String {
        let base = if let Some(words) = schema.words() {
            let words: Vec<String> = words.iter().map(|word| show(word)).collect();
            words.join(" or ")
        } else if let Some(alternatives) = schema.get("anyOf").and_then(Value::as_array) {
            let parts: Vec<String> = alternatives
                .iter()
                .map(|alternative| match alternative.get("const") {
                    Some(word) => show(word),
                    None => self.value_words(follow(self.root, alternative)),
                })
                .collect();
            parts.join(" or ")
        } else {
            self.kind_words(schema)
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

    fn kind_words(&self, schema: Resolved<'_>) -> String {
        match (schema.text("type"), schema.text("format")) {
            (Some("object"), _)
                if schema.text("$ref").is_none() && schema.exactly_one_key().is_some() =>
            {
                let keys = schema.exactly_one_key().unwrap_or_default();
                let forms: Vec<String> =
                    keys.iter().map(|key| format!("`{{{key}: ...}}`")).collect();
                forms.join(" or ")
            }
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
                        format!("{keys} with {} each", self.reference_words(values))
                    }
                    (None, Some(reference), _) => self.link(reference),
                    (None, None, Some(keys)) => {
                        let keys: Vec<String> =
                            keys.keys().map(|key| format!("{key}: ...")).collect();
                        format!("`{{{}}}`", keys.join(", "))
                    }
                    (None, None, None) => "keys".to_owned(),
                }
            }
            (Some("array"), _) => {
                let items = schema.get("items").map(|items| self.reference_words(items));
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

    /// Returns a link to the section of a definition, or its words if it has no section.
    fn reference_words(&self, schema: &Value) -> String {
        let resolved = follow(self.root, schema);
        match schema.get("$ref").and_then(Value::as_str) {
            Some(reference) if resolved.get("properties").is_some() => self.link(reference),
            _ => self.value_words(resolved),
        }
    }

    /// Returns a link to the section of a definition, on whichever page it is.
    fn link(&self, reference: &str) -> String {
        let name = reference.strip_prefix("#/$defs/").unwrap_or(reference);
        let page = match self.places.page_of(self.format, name) {
            Some(page) if page != self.page => super::relative(self.page, page),
            _ => String::new(),
        };
        format!("[{name}]({page}#{})", name.to_lowercase())
    }
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
