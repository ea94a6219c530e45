//! Orbit mean-elements messages as CSV: a header of OMM keywords and one object a line, as catalogues publish them.

use serde_json::{Map, Value};

use crate::omm::{OmmError, OmmErrors};

/// Keywords whose values are text even where they look like numbers.
const TEXT: [&str; 8] = [
    "OBJECT_NAME",
    "OBJECT_ID",
    "EPOCH",
    "CLASSIFICATION_TYPE",
    "CENTER_NAME",
    "REF_FRAME",
    "TIME_SYSTEM",
    "MEAN_ELEMENT_THEORY",
];

/// The lines as the objects a JSON file would hold.
pub(crate) fn objects(text: &str) -> Result<Vec<Value>, OmmErrors> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = (1..)
        .zip(text.lines())
        .filter(|(_, line)| !line.trim().is_empty());
    let csv = |line, reason: String| OmmError::Csv { line, reason };
    let Some((first, header)) = lines.next() else {
        return Err(OmmErrors(vec![OmmError::Empty]));
    };
    let keys = cells(header).map_err(|reason| OmmErrors(vec![csv(first, reason)]))?;
    if !keys.iter().any(|k| k == "MEAN_MOTION") {
        let reason = "neither JSON nor CSV with a header of OMM keywords: no column is called \"MEAN_MOTION\"";
        return Err(OmmErrors(vec![csv(first, reason.to_owned())]));
    }
    let (mut objects, mut errors) = (Vec::new(), Vec::new());
    for (number, line) in lines {
        match cells(line) {
            Ok(values) if values.len() == keys.len() => objects.push(object(&keys, values)),
            Ok(values) => {
                let (have, want) = (values.len(), keys.len());
                errors.push(csv(number, format!("{have} values, but {want} columns")));
            }
            Err(reason) => errors.push(csv(number, reason)),
        }
    }
    if errors.is_empty() {
        Ok(objects)
    } else {
        Err(OmmErrors(errors))
    }
}

fn object(keys: &[String], values: Vec<String>) -> Value {
    let pairs = keys
        .iter()
        .zip(values)
        .filter(|(_, value)| !value.is_empty());
    let typed = |(key, text): (&String, String)| {
        let number = || {
            let whole = text.parse::<u64>().ok().map(Value::from);
            whole.or_else(|| Some(Value::from(text.parse::<f64>().ok()?)))
        };
        let value = if TEXT.contains(&key.as_str()) {
            None
        } else {
            number()
        };
        (key.clone(), value.unwrap_or(Value::String(text)))
    };
    Value::Object(pairs.map(typed).collect::<Map<_, _>>())
}

/// Splits a line as RFC 4180 says; values do not span lines.
fn cells(line: &str) -> Result<Vec<String>, String> {
    let mut cells = Vec::new();
    let mut rest = line.trim();
    loop {
        let cell;
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut text = String::new();
            let mut after = quoted;
            loop {
                let Some((before, tail)) = after.split_once('"') else {
                    return Err("a quotation mark is not closed".to_owned());
                };
                text.push_str(before);
                match tail.strip_prefix('"') {
                    Some(tail) => {
                        text.push('"');
                        after = tail;
                    }
                    None => {
                        after = tail;
                        break;
                    }
                }
            }
            cell = text;
            rest = after;
        } else {
            let end = rest.find(',').unwrap_or(rest.len());
            cell = rest[..end].trim().to_owned();
            rest = &rest[end..];
        }
        cells.push(cell);
        match rest.strip_prefix(',') {
            Some(tail) => rest = tail,
            None if rest.is_empty() => return Ok(cells),
            None => return Err("text after a closing quotation mark".to_owned()),
        }
    }
}
