//! Mending of a file's form: stand-ins for what cannot be read, so that the errors of later rules are found in the same
//! pass.
//!
//! A stand-in is a guess, so a file is mended in [several ways](VARIANTS). Only an error that all of them share, and that is
//! not about a stand-in, is an error of the file as it is.

use serde_json::Value as Json;

use super::{Path, Seg, word_text};
use crate::bounds::{bounds, check_bounds};
use crate::diagnostic::{Diagnostic, nearest};
use crate::schema::{Resolved, follow};
use crate::source::Span;
use crate::tree::{Entry, Node, Value};

/// Number of ways in which a file is mended.
pub(crate) const VARIANTS: usize = 4;

/// Deepest nesting of required keys in a stand-in.
const DEPTH: usize = 4;

/// A part of a file to mend.
#[derive(Debug, Clone)]
pub(crate) struct Mend<'a> {
    /// The value, mapping or list.
    path: Vec<Seg<'a>>,
    what: What<'a>,
}

#[derive(Debug, Clone)]
enum What<'a> {
    /// Another value of this schema takes its place.
    Replace(&'a Json),
    /// The mapping gets this key, with a value of this schema.
    Insert(&'a str, &'a Json),
    /// The list gets this many values of this schema.
    Append(u64, &'a Json),
    /// The entry with this key's place gets another key.
    Rename(Span, String),
    /// The entry with this key's place is removed.
    Remove(Span),
    /// One of these entries is kept.
    KeepOne(Vec<&'a str>),
}

/// The parts of a file to mend.
#[derive(Debug, Default)]
pub(crate) struct Mends<'a> {
    mends: Vec<Mend<'a>>,
    /// Parts whose meaning is a guess, so that errors in them may be none of the file.
    doubtful: Vec<String>,
    /// Whether a name may be missing, so that other places seem to name nothing.
    loses_names: bool,
}

/// Codes of errors about names that nothing has, or that nothing uses.
const OF_NAMES: [&str; 9] = [
    "no-nodes",
    "one-station",
    "unconnected",
    "unknown-constellation",
    "unknown-flow",
    "unknown-network",
    "unknown-node",
    "unknown-path",
    "unreachable",
];

/// Returns whether values of this schema give nodes or flows their names, or decide how many there are.
fn has_names(schema: Resolved<'_>) -> bool {
    if schema.words().is_some() || schema.get("anyOf").is_some() {
        return false;
    }
    match (schema.text("type"), schema.text("format")) {
        (Some("boolean" | "number"), _) => false,
        (Some("string"), Some(format)) => format.starts_with("constel-"),
        _ => true,
    }
}

impl<'a> Mends<'a> {
    pub(super) fn len(&self) -> usize {
        self.mends.len()
    }

    fn push(&mut self, path: &[Seg<'a>], what: What<'a>) {
        let path = path.to_vec();
        self.mends.push(Mend { path, what });
    }

    /// Records that the meaning of a part is a guess.
    pub(super) fn doubt(&mut self, path: &[Seg<'a>]) {
        self.doubtful.push(Path(path).to_string());
    }

    pub(super) fn replace(&mut self, path: &[Seg<'a>], schema: &'a Json, root: &'a Json) {
        self.loses_names |= has_names(follow(root, schema));
        self.doubt(path);
        self.push(path, What::Replace(schema));
    }

    pub(super) fn insert(
        &mut self,
        path: &[Seg<'a>],
        (key, schema): (&'a str, &'a Json),
        root: &'a Json,
    ) {
        self.loses_names |= follow(root, schema).text("format") == Some("constel-name");
        self.doubt(&[path, &[Seg::Key(key)]].concat());
        self.push(path, What::Insert(key, schema));
    }

    pub(super) fn append(&mut self, path: &[Seg<'a>], count: u64, schema: &'a Json) {
        self.doubt(path);
        self.push(path, What::Append(count, schema));
    }

    pub(super) fn rename(&mut self, path: &[Seg<'a>], key: Span, to: impl Into<String>) {
        self.push(path, What::Rename(key, to.into()));
    }

    pub(super) fn remove(&mut self, path: &[Seg<'a>], entry: &Entry) {
        let key = entry.key_span;
        self.loses_names |= !matches!(entry.value.value, Value::Scalar { .. });
        self.push(path, What::Remove(key));
    }

    /// The choice decides what the other keys of the mapping mean.
    pub(super) fn keep_one(&mut self, path: &[Seg<'a>], keys: Vec<&'a str>) {
        self.doubt(path);
        self.push(path, What::KeepOne(keys));
    }

    /// Returns the tree, mended in one of the ways; `schema` is that of the format.
    pub(crate) fn apply(&self, schema: &Json, root: &Node, variant: usize) -> Node {
        let mut mended = root.clone();
        let stand_in = StandIn {
            root: schema,
            variant,
        };
        // Keys change last, because the paths have the old ones.
        let (keys, values): (Vec<_>, Vec<_>) =
            self.mends.iter().partition(|mend| mend.what.changes_keys());
        for Mend { path, what } in values.into_iter().chain(keys) {
            let Some(node) = at(&mut mended, path) else {
                continue;
            };
            let span = node.span;
            if let What::Replace(schema) = what {
                *node = stand_in.value(schema, Some(&*node), span, 0);
                continue;
            }
            match (what, &mut node.value) {
                (What::Insert(key, schema), Value::Mapping(entries)) => {
                    entries.push(stand_in.entry(key, schema, span, 0));
                }
                (What::Append(count, schema), Value::Sequence(items)) => {
                    items.extend((0..*count).map(|_| stand_in.value(schema, None, span, 0)));
                }
                (What::Rename(key, to), Value::Mapping(entries)) => {
                    let renamed = entries.iter_mut().find(|entry| entry.key_span == *key);
                    if let Some(entry) = renamed {
                        entry.key.clone_from(to);
                    }
                }
                (What::Remove(key), Value::Mapping(entries)) => {
                    // A key that is given twice: the second one has this place.
                    entries.retain(|entry| entry.key_span != *key);
                }
                (What::KeepOne(keys), Value::Mapping(entries)) => {
                    let kept = keys[variant % keys.len()];
                    entries
                        .retain(|entry| entry.key == kept || !keys.contains(&entry.key.as_str()));
                }
                _ => (),
            }
        }
        mended
    }

    /// Returns whether an error of a mended file may be due to a stand-in.
    pub(crate) fn may_cause(&self, error: &Diagnostic) -> bool {
        if self.loses_names && OF_NAMES.contains(&error.code) {
            return true;
        }
        let Some(path) = &error.path else {
            return false;
        };
        self.doubtful.iter().any(|part| is_below(path, part))
    }
}

impl What<'_> {
    fn changes_keys(&self) -> bool {
        matches!(self, What::Rename(..) | What::Remove(_) | What::KeepOne(_))
    }
}

/// Returns whether a place is another one or a part of it.
fn is_below(path: &str, place: &str) -> bool {
    let rest = path.strip_prefix(place);
    rest.is_some_and(|rest| place.is_empty() || rest.is_empty() || rest.starts_with(['.', '[']))
}

fn at<'t>(root: &'t mut Node, path: &[Seg<'_>]) -> Option<&'t mut Node> {
    path.iter()
        .try_fold(root, |node, seg| match (seg, &mut node.value) {
            (Seg::Key(key), Value::Mapping(entries)) => {
                let entry = entries.iter_mut().find(|entry| entry.key == *key);
                entry.map(|entry| &mut entry.value)
            }
            (Seg::Index(index), Value::Sequence(items)) => items.get_mut(*index),
            _ => None,
        })
}

/// Makes values of a schema, in one of the ways.
struct StandIn<'s> {
    root: &'s Json,
    variant: usize,
}

impl StandIn<'_> {
    fn entry(&self, key: &str, schema: &Json, span: Span, depth: usize) -> Entry {
        Entry {
            key: key.to_owned(),
            key_span: span,
            value: self.value(schema, None, span, depth),
        }
    }

    /// A value instead of the one `given`.
    fn value(&self, schema: &Json, given: Option<&Node>, span: Span, depth: usize) -> Node {
        let schema = follow(self.root, schema);
        let scalar = |text: String| Value::Scalar { text, plain: true };
        let value = if let Some(words) = schema.words() {
            scalar(self.word(&words, given))
        } else if let Some(Json::Array(alternatives)) = schema.get("anyOf") {
            let word = alternatives.iter().find_map(|one| one.get("const"));
            match (word, alternatives.first()) {
                (Some(word), _) => scalar(word_text(word)),
                (None, Some(first)) => return self.value(first, given, span, depth),
                (None, None) => scalar(String::new()),
            }
        } else {
            match schema.text("type") {
                Some("object") => Value::Mapping(self.entries(schema, span, depth)),
                Some("array") => Value::Sequence(self.items(schema, span, depth)),
                Some("boolean") => scalar(self.variant.is_multiple_of(2).to_string()),
                Some("integer") => scalar(self.integer(schema)),
                Some("number") => scalar(self.number(schema)),
                _ => scalar(self.text(schema, given)),
            }
        };
        Node { span, value }
    }

    /// The word that was probably meant, or any.
    fn word(&self, words: &[&Json], given: Option<&Node>) -> String {
        let words: Vec<String> = words.iter().map(|word| word_text(word)).collect();
        if let Some(Value::Scalar { text, .. }) = given.map(|node| &node.value)
            && let Some(meant) = nearest(text, words.iter().map(String::as_str))
        {
            return meant.to_owned();
        }
        words[self.variant * words.len() / VARIANTS].clone()
    }

    fn entries(&self, schema: Resolved<'_>, span: Span, depth: usize) -> Vec<Entry> {
        if depth == DEPTH {
            return Vec::new();
        }
        let required = schema.get("required").and_then(Json::as_array);
        let required = required.into_iter().flatten().filter_map(Json::as_str);
        let choices = schema.exactly_one_key().unwrap_or_default();
        let choice = choices.get(self.variant % choices.len().max(1)).copied();
        let keys = required.chain(choice);
        let made = keys.filter_map(|key| {
            let child = schema.get("properties")?.get(key)?;
            Some(self.entry(key, child, span, depth + 1))
        });
        made.collect()
    }

    fn items(&self, schema: Resolved<'_>, span: Span, depth: usize) -> Vec<Node> {
        let least = schema.get("minItems").and_then(Json::as_u64).unwrap_or(0);
        match schema.get("items").filter(|_| depth < DEPTH) {
            Some(child) => {
                let one = |_| self.value(child, None, span, depth + 1);
                (0..least).map(one).collect()
            }
            None => Vec::new(),
        }
    }

    fn integer(&self, schema: Resolved<'_>) -> String {
        let edge = |keyword| schema.get(keyword).and_then(Json::as_i64).map(i128::from);
        let least = edge("minimum").unwrap_or(0);
        let most = edge("maximum").unwrap_or(least + 60);
        let steps = VARIANTS as i128 - 1;
        (least + self.variant as i128 * (most - least) / steps).to_string()
    }

    fn number(&self, schema: Resolved<'_>) -> String {
        let edge = |keyword| schema.get(keyword).and_then(Json::as_f64);
        let least = edge("minimum").unwrap_or(0.0);
        let most = edge("maximum").unwrap_or(least + 60.0);
        let share = self.variant as f64 / (VARIANTS as f64 - 1.0);
        (least + share * (most - least)).to_string()
    }

    fn text(&self, schema: Resolved<'_>, given: Option<&Node>) -> String {
        let named = || format!("stand-in-{}", self.variant);
        match schema.text("format") {
            Some("constel-name" | "constel-node" | "constel-destination") => {
                let slug = match given.map(|node| &node.value) {
                    Some(Value::Scalar { text, .. }) => crate::slug::slug(text),
                    _ => String::new(),
                };
                if slug.is_empty() { named() } else { slug }
            }
            Some(format) => {
                let example = constel_units::format_example(format);
                let edges = bounds(schema).map(|bound| bound.edge.to_owned());
                let scaled = [0.1, 7.0, 1.0].map(|factor| scaled(example, factor));
                let values: Vec<String> = edges
                    .chain(scaled)
                    .filter(|text| constel_units::parse_format(format, text).is_ok())
                    .filter(|text| check_bounds(schema, format, text).is_none())
                    .collect();
                match values.get(self.variant % values.len().max(1)) {
                    Some(value) => value.clone(),
                    None => example.to_owned(),
                }
            }
            None => named(),
        }
    }
}

/// A quantity times a factor.
fn scaled(quantity: &str, factor: f64) -> String {
    let (number, unit) = quantity.split_once(' ').unwrap_or((quantity, ""));
    match number.parse::<f64>() {
        Ok(number) => format!("{} {unit}", number * factor).trim_end().to_owned(),
        Err(_) => quantity.to_owned(),
    }
}
