//! Messages as JSON: one object, or a list of them.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Error, Value};

use super::{Record, Records};

/// The messages of a JSON text.
///
/// # Errors
/// With its line, if the text is not JSON or neither an object nor a list.
pub(super) fn records(text: &str) -> Result<Records, (usize, String)> {
    let is_list = text.trim_start().starts_with('[');
    // Each message is first only a part of the text, so that its line is known.
    let messages: Vec<&RawValue> = match is_list {
        true => serde_json::from_str(text),
        false => serde_json::from_str(text).map(|message| vec![message]),
    }
    .map_err(|error| wrong(&error, is_list))?;
    let mut records = Records::default();
    let (mut line, mut seen) = (1, 0);
    for message in messages {
        let at = message.get().as_ptr() as usize - text.as_ptr() as usize;
        let passed = text.as_bytes().get(seen..at).unwrap_or_default();
        line += passed.iter().filter(|byte| **byte == b'\n').count();
        seen = at;
        let Ok(Fields(fields)) = serde_json::from_str(message.get()) else {
            records.error(line, "this is no object with the keywords of a message");
            continue;
        };
        let mut record = Record::new(line);
        for (keyword, value) in &fields {
            match value {
                Value::String(text) => record.put(keyword, text),
                Value::Number(number) => record.put(keyword, &number.to_string()),
                // All values that this reader needs are of the types above.
                _ => continue,
            }
        }
        records.good.push(record);
    }
    Ok(records)
}

/// The fields of an object. A map would keep only the last of two fields with one name.
struct Fields(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Each)
    }
}

fn wrong(error: &Error, is_list: bool) -> (usize, String) {
    let (line, column) = (error.line(), error.column());
    let text = error.to_string();
    let place = format!(" at line {line} column {column}");
    let reason = text.strip_suffix(&place).unwrap_or(&text);
    let hint = match reason {
        "trailing characters" if !is_list => " (several objects need brackets around them)",
        _ => "",
    };
    (line, format!("not JSON: {reason}, column {column}{hint}"))
}
