//! Checks a tree against the schema, collecting every error, and turns it into JSON on the way.
//!
//! The walk is driven by the schema alone, so a key that is added to the raw types is checked,
//! suggested and documented without a change here.

mod keys;
mod mend;
mod path;
mod scalars;

use std::collections::HashSet;

use serde_json::{Map, Value as Json};

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::raw::{Environment, Name, RawSettings};
use crate::schema::{Format, Resolved, follow};
use crate::source::{Source, Span};
use crate::tree::{Core, Node, Value, core_type};

pub(crate) use mend::{Mends, VARIANTS};
pub(crate) use path::{Path, Seg};

/// Checks `node` against the schema of `format`.
///
/// Returns the value as JSON, or all errors and how to mend what is wrong.
pub(crate) fn walk<'a>(
    source: &'a Source,
    format: &'a Format,
    node: &'a Node,
) -> Result<Json, (Diagnostics, Mends<'a>)> {
    let mut walker = Walker {
        source,
        format,
        root: &format.schema,
        errors: Diagnostics::new(),
        path: Vec::new(),
        mends: Mends::default(),
    };
    let value = walker.value(&format.schema, node);
    match value.filter(|_| walker.errors.is_empty()) {
        Some(value) => Ok(value),
        None => Err((walker.errors, walker.mends)),
    }
}

struct Walker<'a> {
    source: &'a Source,
    format: &'a Format,
    root: &'a Json,
    errors: Diagnostics,
    path: Vec<Seg<'a>>,
    /// How to mend what is wrong.
    mends: Mends<'a>,
}

impl<'a> Walker<'a> {
    fn error(&self, span: Span, code: &'static str, message: impl Into<String>) -> Diagnostic {
        let diagnostic = Diagnostic::new(self.source, span, code, message);
        if self.path.is_empty() {
            diagnostic
        } else {
            diagnostic.with_path(Path(&self.path).to_string())
        }
    }

    fn value(&mut self, schema: &'a Json, node: &'a Node) -> Option<Json> {
        let before = self.mends.len();
        let value = self.checked(schema, node);
        // The innermost part that is wrong gets a stand-in.
        if value.is_none() && self.mends.len() == before {
            self.mends.replace(&self.path, schema, self.root);
        }
        value
    }

    fn checked(&mut self, schema: &'a Json, node: &'a Node) -> Option<Json> {
        if self.errors.is_full() {
            return None;
        }
        let resolved = follow(self.root, schema);
        if let Value::Scalar { text, plain: true } = &node.value
            && core_type(text) == Core::Null
        {
            if self.path.is_empty() {
                let Format {
                    reference, what, ..
                } = self.format;
                let error = self
                    .error(
                        node.span,
                        "empty-file",
                        format!("this file holds no {what}"),
                    )
                    .with_next(match *what {
                        "scenario" => format!("{reference} describes scenarios"),
                        what => format!("{reference} describes {what}"),
                    });
                self.errors.push(error);
                return None;
            }
            let error = self
                .error(
                    node.span,
                    "empty-value",
                    format!("{} has no value", self.what()),
                )
                .with_reason(format!("expected {}", self.expected(resolved)))
                .with_suggestion("give a value, or remove the key to get its default");
            self.errors.push(error);
            return None;
        }
        if let Some(words) = resolved.words() {
            return self.word(resolved, &words, node);
        }
        if let Some(alternatives) = resolved.get("anyOf").and_then(Json::as_array) {
            return self.any_of(resolved, alternatives, node);
        }
        match resolved.text("type") {
            Some("object") => self.object(resolved, node),
            Some("array") => self.array(resolved, node),
            Some("string") => self.string(resolved, node),
            Some("integer") => self.integer(resolved, node),
            Some("number") => self.number(resolved, node),
            Some("boolean") => self.boolean(resolved, node),
            other => {
                // The schema is ours; a test walks every part of it.
                let message = format!("internal: the schema has a type unknown here: {other:?}");
                self.errors.push(self.error(node.span, "internal", message));
                None
            }
        }
    }

    /// The key or list entry that is looked at, for messages.
    fn what(&self) -> String {
        match self.path.last() {
            None => "the file".into(),
            Some(Seg::Key(key)) => format!("`{key}`"),
            Some(Seg::Index(index)) => match self.path.iter().rev().nth(1) {
                Some(Seg::Key(key)) => format!("entry {index} of `{key}`"),
                _ => format!("entry {index}"),
            },
        }
    }

    /// Returns the values that the schema expects, in words with an example.
    fn expected(&self, schema: Resolved<'_>) -> String {
        if let Some(words) = schema.words() {
            let words: Vec<String> = words.iter().map(|w| word_text(w)).collect();
            return if words.len() == 1 {
                words[0].clone()
            } else {
                format!("one of {}", words.join(", "))
            };
        }
        if let Some(alternatives) = schema.get("anyOf").and_then(Json::as_array) {
            let parts: Vec<String> = alternatives
                .iter()
                .map(|alternative| match alternative.get("const") {
                    Some(word) => word_text(word),
                    None => self.expected(follow(self.root, alternative)),
                })
                .collect();
            return parts.join(" or ");
        }
        match (schema.text("type"), schema.text("format")) {
            (Some("object"), _) => "a mapping".into(),
            (Some("array"), _) => "a list".into(),
            (Some("integer"), _) => "a whole number".into(),
            (Some("number"), _) => "a number without a unit".into(),
            (Some("boolean"), _) => "true or false".into(),
            (_, Some("constel-name" | "constel-node" | "constel-destination")) => "a name".into(),
            (_, Some(format)) => match constel_units::format_example(format) {
                "" => "text".into(),
                example => format!("{} such as `{example}`", format_words(format)),
            },
            _ => "text".into(),
        }
    }

    fn wrong_type(&mut self, schema: Resolved<'a>, node: &Node) {
        let found = match &node.value {
            Value::Scalar { text, .. } => format!("`{text}`"),
            _ => node.kind().to_owned(),
        };
        let message = format!(
            "{} is {found}, but {} is expected",
            self.what(),
            self.expected(schema)
        );
        let mut error = self.error(node.span, "wrong-type", message);
        if let (Some("boolean"), Value::Scalar { text, .. }) = (schema.text("type"), &node.value) {
            // YAML 1.1 read these as truth values.
            error.suggestion = match text.to_lowercase().as_str() {
                "yes" | "y" | "on" => Some("write `true`".into()),
                "no" | "n" | "off" => Some("write `false`".into()),
                _ => None,
            };
        }
        self.errors.push(error);
    }

    fn object(&mut self, schema: Resolved<'a>, node: &'a Node) -> Option<Json> {
        let Value::Mapping(entries) = &node.value else {
            self.wrong_type(schema, node);
            return None;
        };
        let properties = schema.get("properties").and_then(Json::as_object);
        let open = schema
            .get("patternProperties")
            .and_then(Json::as_object)
            .and_then(|patterns| patterns.values().next());
        let mut map = Map::new();
        let mut seen: HashSet<&str> = HashSet::new();
        // Keys that a misspelt one was probably meant to be; they are not reported as missing in addition.
        let mut meant: HashSet<&str> = HashSet::new();
        let mut complete = true;
        for entry in entries {
            if self.errors.is_full() {
                return None;
            }
            if !seen.insert(&entry.key) {
                self.duplicate(node, entry);
                self.mends.remove(&self.path, entry);
                complete = false;
                continue;
            }
            let child = properties.and_then(|p| p.get(entry.key.as_str()));
            let Some(child) = child.or(open) else {
                match self.unknown_key(schema, node, entry) {
                    Some(key) if meant.insert(key) => {
                        self.mends.rename(&self.path, entry.key_span, key);
                    }
                    _ => self.mends.remove(&self.path, entry),
                }
                complete = false;
                continue;
            };
            let here = self.path.len();
            self.path.push(Seg::Key(&entry.key));
            let keys = match schema.text("x-keys") {
                Some("variable") => Some(("variable", Environment::wrong_name(&entry.key))),
                Some(_) => Some(("setting", RawSettings::wrong_name(&entry.key))),
                None => None,
            };
            if let Some((what, Some(why))) = keys {
                let message = format!("`{}` is not a {what}", entry.key);
                let error = self.error(entry.key_span, "bad-name", message);
                self.errors.push(error.with_reason(why));
                self.mends.remove(&self.path[..here], entry);
                complete = false;
            }
            if properties.is_none()
                && keys.is_none()
                && let Err(error) = entry.key.parse::<Name>()
            {
                self.bad_name(entry.key_span, &entry.key, &error.to_string());
                let slug = crate::slug::slug(&entry.key);
                self.mends.rename(&self.path[..here], entry.key_span, slug);
                complete = false;
            }
            match self.value(child, &entry.value) {
                Some(value) => {
                    map.insert(entry.key.clone(), value);
                }
                None => complete = false,
            }
            self.path.pop();
        }
        complete &= self.required(schema, node, &seen, &meant);
        complete.then_some(Json::Object(map))
    }

    fn array(&mut self, schema: Resolved<'a>, node: &'a Node) -> Option<Json> {
        let Value::Sequence(items) = &node.value else {
            self.wrong_type(schema, node);
            return None;
        };
        let mut complete = true;
        let limit = |keyword| schema.get(keyword).and_then(Json::as_u64);
        if let Some(least) = limit("minItems").filter(|&least| (items.len() as u64) < least) {
            let entries = match least {
                1 => "one entry".to_owned(),
                least => format!("{least} entries"),
            };
            let error = self.error(
                node.span,
                "empty-list",
                format!("{} needs at least {entries}", self.what()),
            );
            self.errors.push(error);
            if let Some(child) = schema.get("items") {
                let missing = least - items.len() as u64;
                self.mends.append(&self.path, missing, child);
            }
            complete = false;
        }
        if let Some(most) = limit("maxItems").filter(|&most| items.len() as u64 > most) {
            let error = self.error(
                node.span,
                "out-of-range",
                format!(
                    "{} has {} entries; at most {most} are allowed",
                    self.what(),
                    items.len()
                ),
            );
            self.errors.push(error);
            complete = false;
        }
        let child = schema.get("items")?;
        let mut values = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            self.path.push(Seg::Index(index));
            match self.value(child, item) {
                Some(value) => values.push(value),
                None => complete = false,
            }
            self.path.pop();
        }
        complete.then_some(Json::Array(values))
    }
}

/// A word of an enumeration as the user writes it.
fn word_text(word: &Json) -> String {
    match word {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A format's name with its article.
pub(crate) fn format_words(format: &str) -> &str {
    match format {
        "length" => "a length",
        "angle" => "an angle",
        "timespan" => "a span of time",
        "datarate" => "a data rate",
        "datasize" => "a data size",
        "ratio" => "a ratio",
        "frequency" => "a frequency",
        "power" => "a power",
        "decibels" => "decibels",
        "g-over-t" => "a figure of merit",
        "temperature" => "a temperature",
        "rainrate" => "a rain rate",
        "utc" => "an instant in UTC",
        other => other,
    }
}
