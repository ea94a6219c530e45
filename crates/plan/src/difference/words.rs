//! Keys and values of a scenario in words.

use serde_json::Value;

/// The longest value that is printed, characters.
const LONGEST: usize = 72;

/// Parts of paths that are names of variants in the resolved form, and no keys of the file.
const VARIANTS: [&str; 2] = ["plus-grid", "walker"];

/// Keys of the resolved form that have another place in the file.
const PLACES: [(&str, &str); 15] = [
    ("stations", "ground.stations"),
    ("hosts", "ground.hosts"),
    ("cables", "ground.cables"),
    ("choices", "ground.choices"),
    ("clock_hold", "clock.hold"),
    ("clock_time", "clock.time"),
    ("has_end", "duration"),
    ("driver", "links.driver"),
    ("grain", "links.grain"),
    ("threads", "links.threads"),
    ("stack_time", "links.stack_time"),
    ("carrier", "links.carrier"),
    ("max_lateness", "links.max_lateness"),
    ("node_rules", "nodes"),
    ("sampling", "sample"),
];

/// Returns a path of the resolved form as a key of the file.
pub(super) fn key_of(path: &[String]) -> String {
    let mut parts = path.iter().map(String::as_str);
    let first = parts.next().unwrap_or_default();
    let place = PLACES.iter().find(|(resolved, _)| *resolved == first);
    let mut key = place.map_or(first, |(_, key)| key).to_owned();
    for part in parts.filter(|part| !VARIANTS.contains(part)) {
        key.push('.');
        key.push_str(part);
    }
    key
}

/// Returns a value in words, cut if it is long.
pub(super) fn words(value: &Value) -> String {
    let mut text = String::new();
    add(value, &mut text);
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{} ...", text[..at].trim_end()),
        None => text,
    }
}

fn add(value: &Value, text: &mut String) {
    // A long value is cut anyway.
    if text.len() > 8 * LONGEST {
        return;
    }
    let join = |text: &mut String, separator: &str| {
        if !text.is_empty() && !text.ends_with(' ') {
            text.push_str(separator);
        }
    };
    match value {
        Value::Null => text.push_str("none"),
        Value::Bool(yes) => text.push_str(if *yes { "true" } else { "false" }),
        Value::Number(number) => text.push_str(&number.to_string()),
        Value::String(own) => text.push_str(own),
        Value::Array(list) => {
            for own in list.iter().filter(|own| !own.is_null()) {
                join(text, " ");
                add(own, text);
            }
        }
        Value::Object(map) => {
            // The name is in the key of the row, and flags that are not set say nothing.
            let says = |(key, own): &(&String, &Value)| {
                *key != "name" && !matches!(own, Value::Null | Value::Bool(false))
            };
            for (key, own) in map.iter().filter(says) {
                join(text, ", ");
                text.push_str(key);
                text.push(' ');
                add(own, text);
            }
        }
    }
}
