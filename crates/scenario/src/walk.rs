//! Checks a tree against the schema, collecting every error, and turns it into JSON on the way.
//!
//! The walk is driven by the schema alone, so a key that is added to the raw types is checked,
//! suggested and documented without a change here.

use std::collections::HashSet;
use std::fmt;

use serde_json::{Map, Number, Value as Json};

use crate::bounds::check_bounds;
use crate::diagnostic::{Diagnostic, Diagnostics, nearest};
use crate::raw::Name;
use crate::schema::{Resolved, follow};
use crate::source::{Source, Span};
use crate::tree::{Core, Entry, Node, Value, core_type};

/// Where a value stands in the file's structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seg<'a> {
    /// Under this key.
    Key(&'a str),
    /// At this index of a list.
    Index(usize),
}

/// A path of [`Seg`]s, printed as `traffic[3].ping.to`.
pub(crate) struct Path<'a>(pub(crate) &'a [Seg<'a>]);

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, seg) in self.0.iter().enumerate() {
            match seg {
                Seg::Index(index) => write!(f, "[{index}]")?,
                Seg::Key(key) if position == 0 => f.write_str(key)?,
                Seg::Key(key) => write!(f, ".{key}")?,
            }
        }
        Ok(())
    }
}

/// The reference page, named in hints.
pub(crate) const REFERENCE: &str = "docs/reference/scenario.md";

/// Checks `node` against `schema`.
///
/// Returns the value as JSON if and only if nothing was added to `errors`.
pub(crate) fn walk(
    source: &Source,
    schema: &Json,
    node: &Node,
    errors: &mut Diagnostics,
) -> Option<Json> {
    let before = errors.len();
    let mut walker = Walker {
        source,
        root: schema,
        errors,
        path: Vec::new(),
    };
    let value = walker.value(schema, node);
    (errors.len() == before).then_some(value).flatten()
}

struct Walker<'a> {
    source: &'a Source,
    root: &'a Json,
    errors: &'a mut Diagnostics,
    path: Vec<Seg<'a>>,
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
        if self.errors.is_full() {
            return None;
        }
        let resolved = follow(self.root, schema);
        if let Value::Scalar { text, plain: true } = &node.value
            && core_type(text) == Core::Null
        {
            if self.path.is_empty() {
                let error = self
                    .error(node.span, "empty-file", "this file holds no scenario")
                    .with_next(format!("{REFERENCE} says what a scenario is"));
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

    /// What the schema expects, in words with an example.
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
            (Some("boolean"), _) => "true or false".into(),
            (_, Some("constel-name")) => "a name".into(),
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
        // Keys that a misspelt one was probably meant to be; not missing on top of that.
        let mut meant: HashSet<&str> = HashSet::new();
        let mut complete = true;
        for entry in entries {
            if self.errors.is_full() {
                return None;
            }
            if !seen.insert(&entry.key) {
                self.duplicate(node, entry);
                complete = false;
                continue;
            }
            let child = properties.and_then(|p| p.get(entry.key.as_str()));
            let Some(child) = child.or(open) else {
                meant.extend(self.unknown_key(schema, node, entry));
                complete = false;
                continue;
            };
            self.path.push(Seg::Key(&entry.key));
            if properties.is_none()
                && let Err(error) = entry.key.parse::<Name>()
            {
                self.bad_name(entry.key_span, &entry.key, &error.to_string());
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

    fn duplicate(&mut self, node: &Node, entry: &'a Entry) {
        self.path.push(Seg::Key(&entry.key));
        let mut error = self.error(
            entry.key_span,
            "duplicate-key",
            format!("`{}` is given twice in the same mapping", entry.key),
        );
        if let Some(first) = node.get(&entry.key) {
            error = error.with_reason(format!(
                "it was given before, at line {} column {}",
                first.key_span.line, first.key_span.column
            ));
        }
        self.errors.push(error);
        self.path.pop();
    }

    /// Reports an unknown key; returns the one that was probably meant.
    fn unknown_key(
        &mut self,
        schema: Resolved<'a>,
        node: &Node,
        entry: &'a Entry,
    ) -> Option<&'a str> {
        let known: Vec<&str> = schema
            .get("properties")
            .and_then(Json::as_object)
            .map(|properties| properties.keys().map(String::as_str).collect())
            .unwrap_or_default();
        // A key that is there already cannot be what was meant.
        let free = known.iter().copied().filter(|key| node.get(key).is_none());
        let suggestion = nearest(&entry.key, free);
        self.path.push(Seg::Key(&entry.key));
        let mut error = self.error(
            entry.key_span,
            "unknown-key",
            format!("unknown key `{}`", entry.key),
        );
        if let Some(found) = suggestion {
            error = error.with_suggestion(format!("did you mean `{found}`?"));
        } else if entry.key == "<<" {
            error = error.with_reason("merge keys are not part of YAML 1.2");
        } else if let Some(home) = self.home_of(&entry.key) {
            error = error.with_suggestion(format!("`{}` is a key of {home}", entry.key));
        }
        let error = error
            .with_allowed(known)
            .with_next(format!("see {REFERENCE}"));
        self.errors.push(error);
        self.path.pop();
        suggestion
    }

    /// Which other sections have this key, for one that is in the wrong place.
    fn home_of(&self, key: &str) -> Option<String> {
        let has = |schema: &Json| {
            schema
                .get("properties")
                .is_some_and(|p| p.get(key).is_some())
        };
        let mut homes: Vec<String> = Vec::new();
        if has(self.root) {
            homes.push("the top level".into());
        }
        let definitions = self.root.get("$defs")?.as_object()?;
        homes.extend(
            definitions
                .iter()
                .filter(|(_, schema)| has(schema))
                .map(|(name, _)| format!("`{}`", name.to_lowercase())),
        );
        (!homes.is_empty() && homes.len() <= 3).then(|| homes.join(" and of "))
    }

    fn required(
        &mut self,
        schema: Resolved<'a>,
        node: &Node,
        seen: &HashSet<&str>,
        meant: &HashSet<&str>,
    ) -> bool {
        let mut complete = true;
        let required = schema.get("required").and_then(Json::as_array);
        for key in required.into_iter().flatten().filter_map(Json::as_str) {
            if seen.contains(key) {
                continue;
            }
            complete = false;
            if meant.contains(key) {
                continue;
            }
            let child = schema.get("properties").and_then(|p| p.get(key));
            let child = child.map(|child| follow(self.root, child));
            let mut error = self.error(node.span, "missing-key", format!("missing key `{key}`"));
            if let Some(child) = child {
                let meaning = child
                    .text("description")
                    .unwrap_or("")
                    .lines()
                    .next()
                    .unwrap_or("");
                error = error.with_reason(format!("`{key}` is required: {meaning}"));
                error =
                    error.with_suggestion(format!("add `{key}:` with {}", self.expected(child)));
            }
            self.errors
                .push(error.with_next(format!("see {REFERENCE}")));
        }
        let Some(choices) = schema.exactly_one_key() else {
            return complete;
        };
        let given: Vec<&str> = choices
            .iter()
            .copied()
            .filter(|key| seen.contains(key))
            .collect();
        if given.len() == 1 {
            return complete;
        }
        if given.is_empty() && choices.iter().any(|choice| meant.contains(choice)) {
            return false;
        }
        let list = choices
            .iter()
            .map(|c| format!("`{c}`"))
            .collect::<Vec<_>>()
            .join(", ");
        let error = if let [_, second, ..] = given.as_slice() {
            let span = node.get(second).map_or(node.span, |entry| entry.key_span);
            self.error(
                span,
                "choose-one",
                format!("`{}` and `{second}` cannot be given together", given[0]),
            )
        } else {
            self.error(node.span, "choose-one", format!("one of {list} is missing"))
        };
        let error = error
            .with_reason(format!("exactly one of {list} is needed here"))
            .with_allowed(choices)
            .with_next(format!("see {REFERENCE}"));
        self.errors.push(error);
        false
    }

    fn array(&mut self, schema: Resolved<'a>, node: &'a Node) -> Option<Json> {
        let Value::Sequence(items) = &node.value else {
            self.wrong_type(schema, node);
            return None;
        };
        let mut complete = true;
        let limit = |keyword| schema.get(keyword).and_then(Json::as_u64);
        if limit("minItems").is_some_and(|least| (items.len() as u64) < least) {
            let error = self.error(
                node.span,
                "empty-list",
                format!("{} needs at least one entry", self.what()),
            );
            self.errors.push(error);
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

    fn word(&mut self, schema: Resolved<'a>, words: &[&'a Json], node: &Node) -> Option<Json> {
        if let Value::Scalar { text, plain } = &node.value {
            let found = words.iter().find(|word| match word {
                Json::String(word) => word == text,
                Json::Number(number) => *plain && number.to_string() == *text,
                _ => false,
            });
            if let Some(found) = found {
                return Some((*found).clone());
            }
        }
        let allowed: Vec<String> = words.iter().map(|word| word_text(word)).collect();
        let error = match &node.value {
            Value::Scalar { text, .. } => self
                .error(
                    node.span,
                    "unknown-value",
                    format!("`{text}` is not a value of {}", self.what()),
                )
                .with_nearest(text, allowed.iter().map(String::as_str)),
            _ => self.error(
                node.span,
                "wrong-type",
                format!(
                    "{} is {}, but one word is expected",
                    self.what(),
                    node.kind()
                ),
            ),
        };
        let error = match schema.text("description") {
            // Where there is no choice, the list alone does not explain itself.
            Some(meaning) if words.len() == 1 => error.with_reason(meaning),
            _ => error,
        };
        self.errors.push(error.with_allowed(allowed));
        None
    }

    /// Either a fixed word or the other alternative, or alternatives of different types.
    fn any_of(
        &mut self,
        schema: Resolved<'a>,
        alternatives: &'a [Json],
        node: &'a Node,
    ) -> Option<Json> {
        if let Value::Scalar { text, .. } = &node.value {
            let word = alternatives
                .iter()
                .filter_map(|a| a.get("const"))
                .find(|w| *w == text);
            if let Some(word) = word {
                return Some(word.clone());
            }
        }
        let wanted = match &node.value {
            Value::Mapping(_) => "object",
            Value::Sequence(_) => "array",
            Value::Scalar { .. } => "string",
        };
        let fits = alternatives.iter().find(|a| {
            follow(self.root, a)
                .text("type")
                .is_some_and(|found| found == wanted)
        });
        let Some(fits) = fits else {
            self.wrong_type(schema, node);
            return None;
        };
        let fixed: Vec<String> = alternatives
            .iter()
            .filter_map(|a| a.get("const"))
            .map(word_text)
            .collect();
        let format = follow(self.root, fits).text("format");
        match (&node.value, format) {
            // Bounds stand beside the alternatives, not inside them.
            (Value::Scalar { text, plain }, Some(format)) if !fixed.is_empty() => self
                .quantity(schema, format, text, *plain, node.span, &fixed)
                .then(|| Json::String(text.clone())),
            _ => self.value(fits, node),
        }
    }

    fn string(&mut self, schema: Resolved<'a>, node: &Node) -> Option<Json> {
        let Value::Scalar { text, plain } = &node.value else {
            self.wrong_type(schema, node);
            return None;
        };
        match schema.text("format") {
            Some("constel-name") => {
                if let Err(error) = text.parse::<Name>() {
                    self.bad_name(node.span, text, &error.to_string());
                    return None;
                }
            }
            Some(format) => {
                return self
                    .quantity(schema, format, text, *plain, node.span, &[])
                    .then(|| Json::String(text.clone()));
            }
            None => {}
        }
        let length = text.chars().count() as u64;
        let limit = |keyword| schema.get(keyword).and_then(Json::as_u64);
        if limit("minLength").is_some_and(|least| length < least) {
            let message = format!("{} cannot be empty", self.what());
            self.errors
                .push(self.error(node.span, "empty-value", message));
            return None;
        }
        if let Some(most) = limit("maxLength").filter(|&most| length > most) {
            let message = format!("{} has {length} characters; at most {most}", self.what());
            self.errors
                .push(self.error(node.span, "out-of-range", message));
            return None;
        }
        Some(Json::String(text.clone()))
    }

    /// Checks a quantity and its bounds; `also` are words that would do instead of it.
    fn quantity(
        &mut self,
        schema: Resolved<'a>,
        format: &str,
        text: &str,
        plain: bool,
        span: Span,
        also: &[String],
    ) -> bool {
        if let Err(why) = constel_units::parse_format(format, text) {
            let number = plain && matches!(core_type(text), Core::Integer | Core::Float);
            let (code, message) = if number {
                ("missing-unit", format!("{} needs a unit", self.what()))
            } else {
                (
                    "bad-quantity",
                    format!("`{text}` is not {}", format_words(format)),
                )
            };
            let mut error = self.error(span, code, message).with_reason(why.to_string());
            if !also.is_empty() {
                let example = constel_units::format_example(format);
                let quantity = format!("{} such as `{example}`", format_words(format));
                error = error
                    .with_nearest(text, also.iter().map(String::as_str))
                    .with_allowed(also.iter().cloned().chain([quantity]));
            }
            self.errors.push(error);
            return false;
        }
        let Some(broken) = check_bounds(schema, format, text) else {
            return true;
        };
        let message = format!("{} is {text}, but must be {broken}", self.what());
        self.errors.push(self.error(span, "out-of-range", message));
        false
    }

    fn bad_name(&mut self, span: Span, text: &str, why: &str) {
        let slug = crate::slug::slug(text);
        let message = if text.is_empty() {
            format!("{} is empty", self.what())
        } else {
            format!("`{text}` is not a name")
        };
        let mut error = self.error(span, "bad-name", message).with_reason(format!(
            "{why}; a name is made of a-z, 0-9 and `-`, at most {} characters",
            Name::MAX_LEN
        ));
        if slug.parse::<Name>().is_ok() {
            error = error.with_suggestion(format!("`{slug}` would do"));
        }
        self.errors.push(error);
    }

    fn integer(&mut self, schema: Resolved<'a>, node: &Node) -> Option<Json> {
        let number = match &node.value {
            Value::Scalar { text, plain: true } if core_type(text) == Core::Integer => text
                .trim_start_matches('+')
                .parse::<i128>()
                .ok()
                .map(|n| (text, n)),
            _ => {
                self.wrong_type(schema, node);
                return None;
            }
        };
        // Whatever does not fit in 128 bits is out of every range.
        let (text, value) = match (&node.value, number) {
            (_, Some((text, value))) => (text.as_str(), value),
            (Value::Scalar { text, .. }, None) => (text.as_str(), i128::MAX),
            _ => return None,
        };
        let edge = |keyword, default: i128| {
            let edge = schema.get(keyword).and_then(Json::as_i64).map(i128::from);
            edge.unwrap_or(default)
        };
        let least = edge("minimum", 0);
        let most = edge("maximum", i128::from(u64::MAX));
        if value < least || value > most {
            let message = format!(
                "{} is {text}, but must be a whole number from {least} to {most}",
                self.what()
            );
            self.errors
                .push(self.error(node.span, "out-of-range", message));
            return None;
        }
        u64::try_from(value)
            .map(Number::from)
            .or_else(|_| i64::try_from(value).map(Number::from))
            .ok()
            .map(Json::Number)
    }

    fn boolean(&mut self, schema: Resolved<'a>, node: &Node) -> Option<Json> {
        if let Value::Scalar { text, plain: true } = &node.value
            && let Core::Bool(value) = core_type(text)
        {
            return Some(Json::Bool(value));
        }
        self.wrong_type(schema, node);
        None
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
        "utc" => "an instant in UTC",
        other => other,
    }
}
