//! Values of a scenario in words.

use serde_json::Value;

/// The longest value that is printed, characters.
const LONGEST: usize = 72;

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
