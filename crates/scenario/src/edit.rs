//! A file's text with some of its values changed, as by `--set KEY=VALUE`.
//!
//! The text stays the user's: comments, order and all other lines. The result is read again and compared with
//! the requested values before it is returned, so that an edit is right or refused.

mod key;
mod outline;
#[cfg(test)]
mod tests;

use std::fmt::{self, Write as _};
use std::str::FromStr;

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::source::{Source, Span};
use crate::tree::{self, Entry, Node, Value};
use key::{Key, Step};
use outline::{Kind, Outline, ValueSpan};

/// One value to be changed: `KEY=VALUE`.
///
/// KEY is where in the file, as errors name places: `links.driver`, `traffic[3].ping.to`; an item of a list may be given by
/// its name (`traffic[web].tcp.congestion`), a key that has a dot in double quotes. VALUE is as it would be written in the file,
/// on one line: `20 ms`, `[a, b]`, `{rate: 10 Mbit/s}`.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    key: Key,
    value: Node,
}

/// A text that is no [`Setting`], and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotASetting {
    given: String,
    reason: String,
}

impl fmt::Display for NotASetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is no KEY=VALUE: {}",
            self.given.escape_default(),
            self.reason
        )
    }
}

impl std::error::Error for NotASetting {}

impl Setting {
    /// Parses `KEY=A,B,C` to one `KEY=VALUE` for each value, in their order; commas inside brackets, braces and
    /// quotes belong to a value.
    ///
    /// # Errors
    /// When the text has no `=`, the key is not a valid key, or the values are not YAML.
    pub fn each(text: &str) -> Result<Vec<Self>, NotASetting> {
        let (key, values) = split(text)?;
        let listed = read(&format!("[{values}]")).map_err(|reason| not(text, reason))?;
        let Value::Sequence(values) = listed.value else {
            return Err(not(text, "its values are no list".to_owned()));
        };
        if values.is_empty() {
            return Err(not(text, "it has no value".to_owned()));
        }
        let settings = values.into_iter().map(|value| Self {
            key: key.clone(),
            value,
        });
        Ok(settings.collect())
    }

    /// A file of named choices: a mapping of names to mappings of KEY to VALUE.
    ///
    /// # Errors
    /// Everything that is wrong with it: YAML, names without settings, keys that are no places of a file.
    pub fn choices(file: &str, text: &str) -> Result<Vec<(String, Vec<Self>)>, Diagnostics> {
        let source = Source::new(file, text);
        let root = tree::read(&source).map_err(|error| Diagnostics::from(*error))?;
        let mut errors = Diagnostics::new();
        let mut wrong = |span, message: String| {
            let form = "write NAME: {KEY: VALUE}, with quotes round a KEY that has brackets";
            errors.push(Diagnostic::new(&source, span, "choices", message).with_suggestion(form));
        };
        let mut choices: Vec<(String, Vec<Self>)> = Vec::new();
        let entries: &[Entry] = match &root.value {
            Value::Mapping(entries) => entries,
            _ => &[],
        };
        if entries.is_empty() {
            wrong(root.span, "there are no choices here".to_owned());
        }
        for Entry {
            key: name,
            key_span,
            value,
        } in entries
        {
            if choices.iter().any(|(known, _)| known == name) {
                wrong(*key_span, format!("`{name}` is given twice"));
            }
            let Value::Mapping(settings) = &value.value else {
                wrong(value.span, format!("`{name}` sets nothing"));
                continue;
            };
            let mut read = Vec::new();
            for Entry {
                key,
                key_span,
                value,
            } in settings
            {
                match key::read(key) {
                    Ok((key, "")) => read.push(Self {
                        key,
                        value: value.clone(),
                    }),
                    Ok((_, rest)) => wrong(
                        *key_span,
                        format!(
                            "`{key}` is no place of a file: nothing may follow before `{rest}`"
                        ),
                    ),
                    Err(reason) => wrong(
                        *key_span,
                        format!("`{key}` is no place of a file: {reason}"),
                    ),
                }
            }
            choices.push((name.clone(), read));
        }
        errors.or(choices)
    }

    /// `seed=N`.
    #[must_use]
    pub fn seed(seed: u64) -> Self {
        let text = seed.to_string();
        let value = Value::Scalar { text, plain: true };
        Self {
            key: Key::of("seed"),
            value: Node {
                span: Span::START,
                value,
            },
        }
    }

    /// The key in the file, in its canonical spelling.
    #[must_use]
    pub fn key(&self) -> String {
        self.key.to_string()
    }

    /// The value, on one line.
    #[must_use]
    pub fn value(&self) -> String {
        flow(&self.value)
    }
}

impl FromStr for Setting {
    type Err = NotASetting;

    fn from_str(text: &str) -> Result<Self, NotASetting> {
        let (key, value) = split(text)?;
        let value = read(value).map_err(|reason| not(text, reason))?;
        Ok(Self { key, value })
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key, flow(&self.value))
    }
}

fn not(given: &str, reason: String) -> NotASetting {
    let given = given.to_owned();
    NotASetting { given, reason }
}

fn split(text: &str) -> Result<(Key, &str), NotASetting> {
    let (key, rest) = key::read(text).map_err(|reason| not(text, reason))?;
    let Some(value) = rest.strip_prefix('=') else {
        return Err(not(text, "there is no `=` after the key".to_owned()));
    };
    if value.trim().is_empty() {
        let reason = "it has no value; nothing is written \"\"".to_owned();
        return Err(not(text, reason));
    }
    if value.contains(['\n', '\r']) {
        return Err(not(text, "a value is one line".to_owned()));
    }
    Ok((key, value))
}

fn read(value: &str) -> Result<Node, String> {
    tree::read(&Source::new("", value)).map_err(|error| error.message)
}

/// Returns `text` with all `settings` made, one after another; of two with one key the later holds.
///
/// A missing key is added where its section is. The result is not checked: [`parse`](crate::parse()) finds an
/// unknown key or a wrong value by the rules for a file.
///
/// # Errors
/// `text` is not YAML; or, for every setting that cannot be made, the reason: a step that leads through a value
/// that has no keys, past the end of a list, to an item whose name no item or several items have, through an
/// alias, or to an anchor.
pub fn set(file: &str, text: &str, settings: &[Setting]) -> Result<String, Diagnostics> {
    let mut errors = Diagnostics::new();
    let mut edited = text.to_owned();
    for setting in settings {
        let source = Source::new(file, &edited);
        match set_one(&source, setting) {
            Ok(text) => edited = text,
            // Without YAML none of them can be checked.
            Err(Refusal::Syntax(error)) => return Err((*error).into()),
            Err(Refusal::Place(span, reason)) => errors.push(
                Diagnostic::new(
                    &source,
                    span,
                    "cannot-set",
                    format!("`{setting}` cannot be set"),
                )
                .with_path(setting.key())
                .with_reason(reason),
            ),
        }
    }
    errors.or(edited)
}

/// Why a setting cannot be made.
enum Refusal {
    Syntax(Box<Diagnostic>),
    Place(Span, String),
}

fn set_one(source: &Source, setting: &Setting) -> Result<String, Refusal> {
    let before = tree::read(source).map_err(Refusal::Syntax)?;
    let outline = Outline::of(source).map_err(Refusal::Syntax)?;
    let at = |part: &ValueSpan, reason: String| Refusal::Place(outline.span(part.start), reason);
    let steps = resolve(&outline, setting).map_err(|(part, reason)| at(part, reason))?;
    let edit = plan(&outline, &steps, &setting.value).map_err(|(part, reason)| at(part, reason))?;
    let mut after = source.text().to_owned();
    after.replace_range(edit.from..edit.to, &edit.text);
    let mut wanted = before;
    put(&mut wanted, &steps, &setting.value);
    match tree::read(&Source::new(source.file(), &after)) {
        Ok(read) if same(&read, &wanted) => Ok(after),
        _ => Err(at(
            outline.root(),
            "the file writes this place in a way that cannot be changed for you; change it in the file".to_owned(),
        )),
    }
}

/// A key, or an item of a list by its place.
#[derive(Debug, Clone, Copy)]
enum At<'a> {
    Key(&'a str),
    Item(usize),
}

type Refused<'a> = (&'a ValueSpan, String);

/// The steps of a key with names of items replaced by their places.
fn resolve<'a>(outline: &'a Outline, setting: &'a Setting) -> Result<Vec<At<'a>>, Refused<'a>> {
    let mut part = Some(outline.root());
    let mut found = Vec::new();
    for step in setting.key.steps() {
        let next = match (step, part) {
            (Step::Key(key), here) => {
                found.push(At::Key(key));
                match here {
                    None => None,
                    Some(here) => entry(here, key)?,
                }
            }
            (Step::Index(_) | Step::Name(_), None) => {
                let nearest = outline.root();
                let reason = format!("there is no list for `{step}`; write the whole list");
                return Err((nearest, reason));
            }
            (step, Some(here)) => {
                let index = item(here, step)?;
                found.push(At::Item(index));
                match &here.kind {
                    Kind::Sequence(items) => items.get(index),
                    _ => None,
                }
            }
        };
        part = next;
    }
    Ok(found)
}

/// The value under a key, if it is there.
fn entry<'a>(here: &'a ValueSpan, key: &str) -> Result<Option<&'a ValueSpan>, Refused<'a>> {
    match &here.kind {
        Kind::Mapping(entries) => Ok(entries.iter().find(|e| e.key == key).map(|e| &e.value)),
        Kind::Scalar(text) if text.is_empty() => Ok(None),
        Kind::Scalar(_) => Err((here, format!("a value stands here that has no key `{key}`"))),
        Kind::Sequence(items) => {
            let reason = format!(
                "a list of {} stands here: say which item, [0] and so on, or [NAME]",
                items.len()
            );
            Err((here, reason))
        }
        Kind::Alias => Err((here, ALIAS.to_owned())),
    }
}

const ALIAS: &str =
    "an alias stands here, and what it stands for is used elsewhere too; change it in the file";

/// Returns the index of the list item that a step selects.
fn item<'a>(here: &'a ValueSpan, step: &Step) -> Result<usize, Refused<'a>> {
    let items = match &here.kind {
        Kind::Sequence(items) => items,
        Kind::Alias => return Err((here, ALIAS.to_owned())),
        _ => return Err((here, format!("no list stands here for `{step}`"))),
    };
    match step {
        Step::Index(index) if *index < items.len() => Ok(*index),
        Step::Index(_) => Err((
            here,
            format!("`{step}` is past the end of a list of {}", items.len()),
        )),
        Step::Key(name) | Step::Name(name) => {
            let named = |part: &ValueSpan| matches!(entry(part, "name"), Ok(Some(ValueSpan { kind: Kind::Scalar(text), .. })) if text == name);
            let mut found = (0..items.len()).filter(|&index| named(&items[index]));
            match (found.next(), found.next()) {
                (Some(index), None) => Ok(index),
                (None, _) => Err((here, format!("no item of this list has `name: {name}`"))),
                (Some(a), Some(b)) => Err((
                    here,
                    format!("items [{a}] and [{b}] both have `name: {name}`"),
                )),
            }
        }
    }
}

/// Bytes of the text to be replaced, and by what.
struct Edit {
    from: usize,
    to: usize,
    text: String,
}

fn plan<'a>(outline: &'a Outline, steps: &[At<'_>], value: &Node) -> Result<Edit, Refused<'a>> {
    let mut here = outline.root();
    // From where on the value of the last step is replaced: behind the colon of its key, or at its first byte.
    let mut from = here.start;
    for (depth, step) in steps.iter().enumerate() {
        let rest = &steps[depth..];
        match (step, &here.kind) {
            (At::Item(index), Kind::Sequence(items)) => {
                here = &items[*index];
                from = here.start;
            }
            (At::Key(key), Kind::Mapping(entries)) => {
                match entries.iter().find(|entry| entry.key == *key) {
                    Some(entry) => {
                        let colon = entry
                            .colon
                            .ok_or_else(|| (here, format!("`{key}` is not written as `{key}:`")))?;
                        here = &entry.value;
                        from = colon + 1;
                    }
                    None => return Ok(add(outline, here, rest, value)),
                }
            }
            // The value is still empty.
            (At::Key(_), _) => return Ok(replace(outline, here, from, &nested(rest, value))),
            (At::Item(_), _) => return Err((here, "no list stands here".to_owned())),
        }
    }
    if here.anchored {
        let reason = "an anchor stands here: other places share this value; change it in the file";
        return Err((here, reason.to_owned()));
    }
    Ok(replace(outline, here, from, &flow(value)))
}

/// The value of what stands at `here`, from the byte `from` on, replaced.
fn replace(outline: &Outline, here: &ValueSpan, from: usize, value: &str) -> Edit {
    let behind_a_colon = from > 0 && outline.text().as_bytes()[from - 1] == b':';
    let gap = if behind_a_colon { " " } else { "" };
    Edit {
        from,
        to: here.end.max(from),
        text: format!("{gap}{value}"),
    }
}

/// A key more, before the first of its mapping.
fn add(outline: &Outline, mapping: &ValueSpan, steps: &[At<'_>], value: &Node) -> Edit {
    let entries = match &mapping.kind {
        Kind::Mapping(entries) => entries.as_slice(),
        _ => &[],
    };
    let pair = match steps {
        [At::Key(key), rest @ ..] => format!("{}: {}", word(key), nested(rest, value)),
        _ => String::new(),
    };
    let (at, text) = match entries.first() {
        // `{}`
        None => (mapping.start + 1, pair),
        Some(first) if mapping.flow => (first.start, format!("{pair}, ")),
        Some(first) => {
            let indent = " ".repeat(outline.column(first.start));
            (first.start, format!("{pair}\n{indent}"))
        }
    };
    Edit {
        from: at,
        to: at,
        text,
    }
}

/// The value inside a mapping for each step.
fn nested(steps: &[At<'_>], value: &Node) -> String {
    match steps {
        [At::Key(key), rest @ ..] => format!("{{{}: {}}}", word(key), nested(rest, value)),
        _ => flow(value),
    }
}

/// A value on one line, safe wherever a value may stand.
fn flow(node: &Node) -> String {
    match &node.value {
        Value::Scalar { text, plain: true } if is_tame(text) => text.clone(),
        // Unquoted, it could be a number or nothing; quoted, it is a text: it must stay what it was.
        Value::Scalar { text, plain: true } if text.is_empty() => "~".to_owned(),
        Value::Scalar { text, .. } => quoted(text),
        Value::Sequence(items) => {
            let items: Vec<String> = items.iter().map(flow).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Mapping(entries) => {
            let pair = |entry: &Entry| format!("{}: {}", word(&entry.key), flow(&entry.value));
            let entries: Vec<String> = entries.iter().map(pair).collect();
            format!("{{{}}}", entries.join(", "))
        }
    }
}

/// A key as it is written in a file.
fn word(key: &str) -> String {
    if is_tame(key) {
        key.to_owned()
    } else {
        quoted(key)
    }
}

/// Whether a text can stand without quotes in any place.
fn is_tame(text: &str) -> bool {
    let inner = |c: char| c.is_alphanumeric() || " ._+-/%*@".contains(c);
    let outer = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || "%_".contains(c));
    let number = matches!(
        tree::core_type(text),
        tree::Core::Integer | tree::Core::Float
    );
    number
        || (text.chars().all(inner)
            && outer(text.chars().next())
            && outer(text.chars().next_back()))
}

fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() || matches!(c, '\u{feff}' | '\u{2028}' | '\u{2029}') => {
                let _ = write!(out, "\\U{:08X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// `root` with a value put where the steps lead; what is missing on the way is made.
fn put(root: &mut Node, steps: &[At<'_>], value: &Node) {
    let Some((step, rest)) = steps.split_first() else {
        root.value = value.value.clone();
        return;
    };
    match (step, &mut root.value) {
        (At::Item(index), Value::Sequence(items)) => {
            if let Some(item) = items.get_mut(*index) {
                put(item, rest, value);
            }
        }
        (At::Key(key), Value::Mapping(entries)) => {
            match entries.iter_mut().find(|entry| entry.key == *key) {
                Some(entry) => put(&mut entry.value, rest, value),
                None => entries.insert(0, made(key, rest, value)),
            }
        }
        (At::Key(key), other) => *other = Value::Mapping(vec![made(key, rest, value)]),
        (At::Item(_), _) => {}
    }
}

fn made(key: &str, rest: &[At<'_>], value: &Node) -> Entry {
    let mut inner = Node {
        span: Span::START,
        value: Value::Scalar {
            text: String::new(),
            plain: true,
        },
    };
    put(&mut inner, rest, value);
    Entry {
        key: key.to_owned(),
        key_span: Span::START,
        value: inner,
    }
}

/// Whether two trees say the same, wherever it is written. Quotes count where they make a text of a number.
fn same(a: &Node, b: &Node) -> bool {
    let kind = |text: &str, plain: bool| match plain {
        true => tree::core_type(text),
        false => tree::Core::Text,
    };
    match (&a.value, &b.value) {
        (Value::Scalar { text: a, plain: p }, Value::Scalar { text: b, plain: q }) => {
            let (p, q) = (kind(a, *p), kind(b, *q));
            p == q && (a == b || p == tree::Core::Null)
        }
        (Value::Sequence(a), Value::Sequence(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Mapping(a), Value::Mapping(b)) => {
            let pair = |(a, b): (&Entry, &Entry)| a.key == b.key && same(&a.value, &b.value);
            a.len() == b.len() && a.iter().zip(b).all(pair)
        }
        _ => false,
    }
}
