//! The subset of TOML that Celestial's files use: tables, arrays of tables, strings, numbers, booleans, arrays.
//!
//! Other syntax (dates, inline tables, multi-line strings, quoted keys) is an error and is never skipped.

use serde_json::{Map, Value};

use crate::text::{Findings, ReadErrors, shown};

/// Depth of nested arrays.
const DEEPEST: usize = 8;

/// Reads a document into a JSON object.
pub(crate) fn parse(text: &str) -> Result<Map<String, Value>, ReadErrors> {
    let mut root = Map::new();
    let mut findings = Findings::default();
    // Keys from the root to the table being filled.
    let mut table: Vec<String> = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((n, line)) = lines.next() {
        let line = bare(line).trim();
        if line.is_empty() {
            continue;
        }
        let result = if let Some(name) = line.strip_prefix("[[").and_then(|l| l.strip_suffix("]]"))
        {
            path(name).and_then(|keys| {
                table = keys;
                append(&mut root, &table)
            })
        } else if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            path(name).and_then(|keys| {
                table = keys;
                open(&mut root, &table).map(|_| ())
            })
        } else if let Some((key, value)) = line.split_once('=') {
            let mut value = value.trim().to_owned();
            // An array may continue on the next lines.
            while value.starts_with('[') && depth(&value) > 0 {
                let Some((_, more)) = lines.next() else { break };
                value.push(' ');
                value.push_str(bare(more).trim());
            }
            whole_value(&value).and_then(|value| set(&mut root, &table, key.trim(), value))
        } else {
            Err(format!(
                "`{}` is no `key = value` and no table",
                shown(line)
            ))
        };
        if let Err(reason) = result {
            findings.push(n + 1, reason);
        }
        if findings.is_full() {
            break;
        }
    }
    findings.or(root)
}

/// A line without its comment.
fn bare(line: &str) -> &str {
    let mut quote = None;
    for (at, c) in line.char_indices() {
        match (quote, c) {
            (None, '#') => return &line[..at],
            (None, '"' | '\'') => quote = Some(c),
            (Some(q), _) if q == c => quote = None,
            _ => {}
        }
    }
    line
}

/// Brackets opened and not closed, outside of strings.
fn depth(text: &str) -> i64 {
    let (mut quote, mut depth) = (None, 0_i64);
    for c in text.chars() {
        match (quote, c) {
            (None, '"' | '\'') => quote = Some(c),
            (Some(q), _) if q == c => quote = None,
            (None, '[') => depth += 1,
            (None, ']') => depth -= 1,
            _ => {}
        }
    }
    depth
}

fn key_is_plain(key: &str) -> bool {
    !key.is_empty()
        && key
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

fn path(name: &str) -> Result<Vec<String>, String> {
    let keys: Vec<String> = name.split('.').map(|k| k.trim().to_owned()).collect();
    match keys.iter().all(|k| key_is_plain(k)) && keys.len() <= DEEPEST {
        true => Ok(keys),
        false => Err(format!(
            "`{}` is no name of a table this reader knows",
            shown(name)
        )),
    }
}

/// Returns the table at `keys`, which is created if missing; of an array of tables the last one.
fn open<'a>(
    root: &'a mut Map<String, Value>,
    keys: &[String],
) -> Result<&'a mut Map<String, Value>, String> {
    let mut at = root;
    for key in keys {
        let value = at
            .entry(key.clone())
            .or_insert_with(|| Value::Object(Map::new()));
        let value = match value {
            Value::Array(list) => list
                .last_mut()
                .ok_or_else(|| format!("`{key}` is an empty array"))?,
            other => other,
        };
        at = value
            .as_object_mut()
            .ok_or_else(|| format!("`{key}` is a value, not a table"))?;
    }
    Ok(at)
}

fn append(root: &mut Map<String, Value>, keys: &[String]) -> Result<(), String> {
    let Some((last, above)) = keys.split_last() else {
        return Err("no name".to_owned());
    };
    let list = open(root, above)?
        .entry(last.clone())
        .or_insert_with(|| Value::Array(Vec::new()));
    match list {
        Value::Array(list) if list.iter().all(Value::is_object) => {
            list.push(Value::Object(Map::new()));
            Ok(())
        }
        _ => Err(format!("`{last}` is something else already")),
    }
}

fn set(
    root: &mut Map<String, Value>,
    table: &[String],
    key: &str,
    value: Value,
) -> Result<(), String> {
    if !key_is_plain(key) {
        return Err(format!("`{}` is no key this reader knows", shown(key)));
    }
    match open(root, table)?.insert(key.to_owned(), value) {
        None => Ok(()),
        Some(_) => Err(format!("`{key}` is given twice")),
    }
}

fn whole_value(text: &str) -> Result<Value, String> {
    let mut rest = text;
    let value = value(&mut rest, 0)?;
    match rest.trim() {
        "" => Ok(value),
        more => Err(format!("`{}` after the value", shown(more))),
    }
}

/// Takes a value from the front of `rest`.
fn value(rest: &mut &str, level: usize) -> Result<Value, String> {
    *rest = rest.trim_start();
    if let Some(inner) = rest.strip_prefix('[') {
        if level >= DEEPEST {
            return Err("arrays are nested too deep".to_owned());
        }
        *rest = inner;
        return array(rest, level);
    }
    for quote in ['"', '\''] {
        if let Some(inner) = rest.strip_prefix(quote) {
            let end = inner.find(quote).ok_or("a text without its end")?;
            if inner[..end].contains('\\') && quote == '"' {
                return Err("escapes in texts are not read".to_owned());
            }
            let text = Value::from(&inner[..end]);
            *rest = &inner[end + 1..];
            return Ok(text);
        }
    }
    let end = rest.find([',', ']']).unwrap_or(rest.len());
    let word = rest[..end].trim();
    *rest = &rest[end..];
    let digits = word.replace('_', "");
    let plain = word.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '+');
    match (word, digits.parse::<i64>(), digits.parse::<f64>()) {
        ("true", ..) => Ok(Value::Bool(true)),
        ("false", ..) => Ok(Value::Bool(false)),
        (_, Ok(whole), _) if plain => Ok(Value::from(whole)),
        (_, _, Ok(number)) if plain && number.is_finite() => Ok(Value::from(number)),
        _ => Err(format!("`{}` is no value this reader knows", shown(word))),
    }
}

fn array(rest: &mut &str, level: usize) -> Result<Value, String> {
    let mut list = Vec::new();
    loop {
        *rest = rest.trim_start();
        if let Some(after) = rest.strip_prefix(']') {
            *rest = after;
            return Ok(Value::Array(list));
        }
        if rest.is_empty() {
            return Err("an array without its end".to_owned());
        }
        list.push(value(rest, level + 1)?);
        *rest = rest.trim_start();
        match rest.strip_prefix(',') {
            Some(after) => *rest = after,
            None if rest.starts_with(']') => {}
            None => return Err("no comma between values of an array".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reads_what_it_should() {
        let text = "a = 1_000 # one\nb = [1.5, -2,\n  3, ] # more\n[t]\nc = \"x # y\"\nd = true\n[[s]]\ne = 'z'\n[s.u]\nf = +2\n[[s]]\n";
        let read = Value::Object(parse(text).unwrap());
        assert_eq!(
            read,
            json!({"a": 1000, "b": [1.5, -2, 3], "t": {"c": "x # y", "d": true}, "s": [{"e": "z", "u": {"f": 2}}, {}]})
        );
    }

    #[test]
    fn refuses_what_it_does_not_read() {
        for text in [
            "a",
            "a = ",
            "a = 2026-01-01",
            "a = {b = 1}",
            "a = \"\"\"x\"\"\"",
            "\"a\" = 1",
            "a.b = 1",
            "a = 1\na = 2",
            "[a]\n[[a]]",
            "a = [1",
            "a = [1 2]",
            "a = inf",
            "a = [[[[[[[[[[1]]]]]]]]]]",
            "a = 1\n[a]\nb = 1",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
