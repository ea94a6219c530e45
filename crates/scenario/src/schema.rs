//! The JSON schema of the scenario file, made from the raw types.

use std::sync::LazyLock;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::raw::{RawBoxScenario, RawRuleFile, RawScenario};

/// A file format.
pub(crate) struct Format {
    /// The schema that files are checked against.
    pub(crate) schema: Value,
    /// The reference page, named in hints.
    pub(crate) reference: &'static str,
    /// The content of a file, in words.
    pub(crate) what: &'static str,
}

pub(crate) static SCENARIO: LazyLock<Format> = LazyLock::new(|| Format {
    schema: generate::<RawScenario>("Constel scenario"),
    reference: "docs/reference/scenario/",
    what: "scenario",
});

pub(crate) static RULES: LazyLock<Format> = LazyLock::new(|| Format {
    schema: generate::<RawRuleFile>("Constel box"),
    reference: "docs/reference/box-rules.md",
    what: "rules",
});

pub(crate) static BOX: LazyLock<Format> = LazyLock::new(|| Format {
    schema: generate::<RawBoxScenario>("Constel box scenario"),
    reference: "docs/reference/box-scenario.md",
    what: "scenario",
});

/// The schema (JSON Schema 2020-12) that every scenario file is checked against; editors can use
/// it too.
///
/// Beyond the standard keywords it has `x-minimum`, `x-maximum`, `x-exclusive-minimum` and
/// `x-exclusive-maximum`: bounds of quantities, written as quantities.
pub fn schema() -> &'static Value {
    &SCENARIO.schema
}

/// [`schema`] as text, as shipped in `docs/reference/scenario.schema.json`.
pub fn schema_json() -> String {
    pretty(schema())
}

/// The schema of files of rules as text, as shipped in `docs/reference/box.schema.json`.
pub fn rules_schema_json() -> String {
    pretty(&RULES.schema)
}

/// The schema of scenarios that are a box as text, as shipped in `docs/reference/box-scenario.schema.json`.
pub fn box_schema_json() -> String {
    pretty(&BOX.schema)
}

fn pretty(schema: &Value) -> String {
    let mut text = serde_json::to_string_pretty(schema).unwrap_or_default();
    text.push('\n');
    text
}

fn generate<T: JsonSchema>(title: &str) -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut value = generator.into_root_schema_for::<T>().to_value();
    drop_null(&mut value);
    merge_choices(&mut value);
    if let Some(root) = value.as_object_mut() {
        root.insert("title".into(), json!(title));
    }
    value
}

/// An optional key may be left out, but not written without a value: removes `null` from the values that the
/// derived schema allows.
fn drop_null(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(drop_null),
        Value::Object(map) => {
            if map.get("default").is_some_and(Value::is_null) {
                map.shift_remove("default");
            }
            map.get_mut("default").into_iter().for_each(drop_missing);
            if let Some(Value::Array(types)) = map.get_mut("type") {
                types.retain(|t| t != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    map.insert("type".into(), only);
                }
            }
            if let Some(Value::Array(values)) = map.get_mut("enum") {
                values.retain(|v| !v.is_null());
            }
            if let Some(Value::Array(alternatives)) = map.get_mut("anyOf") {
                alternatives.retain(|a| a.get("type").is_none_or(|t| t != "null"));
                if let [Value::Object(only)] = alternatives.as_slice() {
                    let only = only.clone();
                    map.shift_remove("anyOf");
                    for (key, value) in only {
                        map.entry(key).or_insert(value);
                    }
                }
            }
            map.values_mut().for_each(drop_null);
        }
        _ => {}
    }
}

/// Writes the variants of enums as files are checked: mappings of one key each become one mapping with all these keys, of
/// which exactly one is given. Words stay beside it; a variant whose keys all have defaults is a word, too.
fn merge_choices(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(merge_choices),
        Value::Object(map) => {
            // An enum whose last variant is a list of words has `anyOf`.
            for list in ["oneOf", "anyOf"] {
                if let Some(Value::Array(all)) = map.get(list)
                    && all.iter().any(|one| choice(one).is_some())
                {
                    let all = all.clone();
                    map.shift_remove(list);
                    merge(map, all);
                    break;
                }
            }
            map.values_mut().for_each(merge_choices);
        }
        _ => (),
    }
}

/// Adds the alternatives of an enum to its schema.
fn merge(map: &mut Map<String, Value>, alternatives: Vec<Value>) {
    let mut choices = Map::new();
    let (mut words, mut any) = (Vec::new(), Vec::new());
    for one in alternatives {
        match choice(&one) {
            Some((key, form)) => {
                choices.insert(key, form);
            }
            None if one.get("const").is_some() => words.push(one),
            None => any.push(one),
        }
    }
    let keys = choices.keys().map(|key| json!({"required": [key]}));
    let keys: Vec<Value> = keys.collect();
    if words.is_empty() && any.is_empty() {
        map.entry("type").or_insert_with(|| json!("object"));
        match map.get_mut("properties").and_then(Value::as_object_mut) {
            Some(own) => own.extend(choices),
            None => _ = map.insert("properties".into(), Value::Object(choices)),
        }
        map.shift_remove("unevaluatedProperties");
        map.insert("additionalProperties".into(), json!(false));
        map.insert("oneOf".into(), Value::Array(keys));
        return;
    }
    let alone = choices.iter().filter(|(_, form)| has_defaults(form));
    words.extend(alone.map(
        |(key, form)| json!({"description": form["description"], "type": "string", "const": key}),
    ));
    if !words.is_empty() {
        any.push(json!({"type": "string", "oneOf": words}));
    }
    any.push(json!({
        "type": "object", "properties": choices, "additionalProperties": false, "oneOf": keys
    }));
    map.insert("anyOf".into(), Value::Array(any));
}

/// Returns whether a schema is a mapping whose keys all have defaults.
pub(crate) fn has_defaults(form: &Value) -> bool {
    form.get("type").is_some_and(|kind| kind == "object") && form.get("required").is_none()
}

/// Returns the key of an enum's variant and the schema of its value.
fn choice(one: &Value) -> Option<(String, Value)> {
    let keys = one.get("properties")?.as_object()?;
    let (key, schema) = keys.iter().next().filter(|_| keys.len() == 1)?;
    let mut schema = schema.as_object()?.clone();
    if let Some(meaning) = one.get("description") {
        schema.insert("description".into(), meaning.clone());
    }
    Some((key.clone(), Value::Object(schema)))
}

/// Returns a value as it would be written to a file.
pub(crate) fn as_written(value: &impl Serialize) -> Value {
    let mut value = serde_json::to_value(value).unwrap_or_default();
    drop_missing(&mut value);
    value
}

/// Removes the keys without a value, or with an empty one, from a mapping and from all mappings in it.
fn drop_missing(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(drop_missing),
        Value::Object(map) => {
            map.values_mut().for_each(drop_missing);
            let empty = [json!(null), json!({}), json!([])];
            map.retain(|_, value| !empty.contains(value));
        }
        _ => (),
    }
}

/// Follows a `$ref`; keywords beside it (a field's own description, default, bounds) win.
pub(crate) fn follow<'a>(root: &'a Value, schema: &'a Value) -> Resolved<'a> {
    let own = schema.as_object();
    let target = own
        .and_then(|map| map.get("$ref"))
        .and_then(Value::as_str)
        .and_then(|reference| reference.strip_prefix("#/$defs/"))
        .and_then(|name| root.get("$defs")?.get(name))
        .and_then(Value::as_object);
    Resolved { own, target }
}

/// A schema after its `$ref` was followed.
#[derive(Clone, Copy)]
pub(crate) struct Resolved<'a> {
    own: Option<&'a Map<String, Value>>,
    target: Option<&'a Map<String, Value>>,
}

impl<'a> Resolved<'a> {
    /// A keyword's value.
    pub(crate) fn get(&self, keyword: &str) -> Option<&'a Value> {
        self.own
            .and_then(|map| map.get(keyword))
            .or_else(|| self.target.and_then(|map| map.get(keyword)))
    }

    /// A keyword's value as text.
    pub(crate) fn text(&self, keyword: &str) -> Option<&'a str> {
        self.get(keyword).and_then(Value::as_str)
    }

    /// The words an enumeration allows: `enum`, or `oneOf`/`anyOf` of `const` where the variants
    /// carry their own descriptions.
    pub(crate) fn words(&self) -> Option<Vec<&'a Value>> {
        if let Some(values) = self.get("enum").and_then(Value::as_array) {
            return Some(values.iter().collect());
        }
        let alternatives = self.get("oneOf").and_then(Value::as_array)?;
        let mut words = Vec::new();
        for alternative in alternatives {
            match (
                alternative.get("const"),
                alternative.get("enum").and_then(Value::as_array),
            ) {
                (Some(word), _) => words.push(word),
                (None, Some(values)) => words.extend(values),
                (None, None) => return None,
            }
        }
        Some(words)
    }

    /// The keys of which exactly one must be there (`oneOf` of `required`).
    pub(crate) fn exactly_one_key(&self) -> Option<Vec<&'a str>> {
        self.get("oneOf")?
            .as_array()?
            .iter()
            .map(|alternative| alternative.get("required")?.as_array()?.first()?.as_str())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use constel_link::Effects;

    /// The table of effects names the key that sets each.
    #[test]
    fn every_effect_has_a_key() {
        let keys = |format: &Format, name: &str| -> Vec<String> {
            let keys = format.schema["$defs"][name]["properties"].as_object();
            keys.unwrap().keys().cloned().collect()
        };
        assert!(keys(&SCENARIO, "Gsl").contains(&"access".to_owned()));
        let link = keys(&SCENARIO, "Link");
        let path = keys(&RULES, "Path");
        for field in Effects::FIELDS {
            // Geometry gives the delay of a link; a link that is down is a failure. An access belongs to terminals, so it is a
            // key of ground links beside `link`.
            let in_link = !["down", "delay", "access"].contains(&field.key);
            let in_path = !["down", "extra_delay", "access"].contains(&field.key);
            let key = field.key.to_owned();
            assert_eq!(
                (link.contains(&key), path.contains(&key)),
                (in_link, in_path),
                "{key}"
            );
        }
    }
}
