//! Stage one: text to raw types, without touching the environment.

use std::ops::Deref;

use constel_units::text::{TextError, decode};
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::raw::RawScenario;
use crate::schema::{Format, SCENARIO};
use crate::source::{Source, Span, position_of};
use crate::tree::{self, Node};
use crate::walk::{Mends, Path, Seg, VARIANTS, walk};

/// How often a mended form is mended further.
const MOST_ROUNDS: usize = 3;

/// A file that is well formed, and the place of everything in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    source: Source,
    root: Node,
}

/// A scenario file that is well formed: its raw form, and the place of everything in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// The file's contents, as typed.
    pub raw: RawScenario,
    document: Document,
}

impl Parsed {
    /// A form without errors, and the errors that its types cannot hold.
    pub(crate) fn new(mut raw: RawScenario, document: Document, errors: &mut Diagnostics) -> Self {
        for name in raw.ground.count_hosts() {
            let path = [
                Seg::Key("ground"),
                Seg::Key("hosts"),
                Seg::Key(name.as_str()),
            ];
            let message = format!("two hosts are called `{name}`");
            errors.push(document.error_at_key(&path, "duplicate-name", message));
        }
        Self { raw, document }
    }
}

impl Deref for Parsed {
    type Target = Document;

    fn deref(&self) -> &Document {
        &self.document
    }
}

/// Parses a scenario file. Errors start with `file_name`.
///
/// # Errors
/// Everything that is wrong with the form of the file: YAML syntax, unknown, missing and repeated keys, wrong
/// types, unknown words, missing and unknown units, values out of bounds. Only a YAML syntax error hides
/// others, because nothing is known after it.
pub fn parse(file_name: &str, text: &str) -> Result<Parsed, Diagnostics> {
    read(file_name, text, &SCENARIO, |raw, document| {
        let mut errors = Diagnostics::new();
        let parsed = Parsed::new(raw, document, &mut errors);
        errors.or(parsed)
    })
}

/// Reads the form of a file of any format, and its meaning by `judge`. If the form has errors, `judge` gets mended
/// forms, and the errors that it finds in all of them are reported too.
///
/// # Errors
/// Those of the form and of the meaning.
pub(crate) fn read<T: DeserializeOwned, R>(
    file_name: &str,
    text: &str,
    format: &Format,
    judge: impl Fn(T, Document) -> Result<R, Diagnostics>,
) -> Result<R, Diagnostics> {
    let source = Source::new(file_name, text);
    let root = tree::read(&source).map_err(|error| Diagnostics::from(*error))?;
    let (mut errors, mends) = match walk(&source, format, &root) {
        Ok(json) => {
            let raw = typed(&source, json)?;
            return judge(raw, Document { source, root });
        }
        Err(found) => found,
    };
    let later = Later {
        source: &source,
        format,
        judge: |raw: T, document| judge(raw, document).err().unwrap_or_default(),
    };
    // More errors would not be read.
    if !errors.is_full() {
        let found = (0..VARIANTS).map(|variant| later.errors::<T>(&root, &mends, variant, 0));
        let agreed: Vec<Diagnostic> = agreed(found.collect())
            .into_iter()
            .filter(|error| !errors.iter().any(|known| known.span() == error.span()))
            .collect();
        agreed.into_iter().for_each(|error| errors.push(error));
    }
    errors.sort();
    Err(errors)
}

/// Returns the errors that are in all of these, without hints that differ.
fn agreed(mut found: Vec<Diagnostics>) -> Vec<Diagnostic> {
    let first = found.pop().unwrap_or_default();
    let mut agreed: Vec<Diagnostic> = first.iter().cloned().collect();
    for others in &found {
        agreed.retain_mut(|error| {
            let other = others.iter().find(|other| other.is_same(error));
            if let Some(other) = other {
                error.keep_shared(other);
            }
            other.is_some()
        });
    }
    agreed
}

/// Raw types of a form without errors.
fn typed<T: DeserializeOwned>(source: &Source, json: Json) -> Result<T, Diagnostics> {
    // The walk and the types come from one source, so an error is a mistake of ours; it must still be an answer and
    // not a panic.
    serde_json::from_value(json).map_err(|error| {
        Diagnostic::new(
            source,
            Span::START,
            "internal",
            format!("this file passes its checks but cannot be read: {error}"),
        )
        .with_next("please report this with the file")
        .into()
    })
}

/// The search for errors of later rules in a file whose form has errors.
struct Later<'a, J> {
    source: &'a Source,
    format: &'a Format,
    judge: J,
}

impl<J> Later<'_, J> {
    /// Returns the errors of the file that is mended in one way. A mended form may show errors of form that others hid,
    /// and is then mended further.
    fn errors<T: DeserializeOwned>(
        &self,
        root: &Node,
        mends: &Mends<'_>,
        variant: usize,
        round: usize,
    ) -> Diagnostics
    where
        J: Fn(T, Document) -> Diagnostics,
    {
        let mended = mends.apply(&self.format.schema, root, variant);
        let found = match walk(self.source, self.format, &mended) {
            Ok(json) => match typed(self.source, json) {
                Ok(raw) => (self.judge)(raw, Document::new(self.source.clone(), mended)),
                Err(_) => Diagnostics::new(),
            },
            Err((mut errors, more)) => {
                if round < MOST_ROUNDS {
                    errors.extend(self.errors::<T>(&mended, &more, variant, round + 1));
                }
                errors
            }
        };
        let mut own = Diagnostics::new();
        let sure = found.iter().filter(|error| !mends.may_cause(error));
        sure.for_each(|error| own.push(error.clone()));
        own
    }
}

/// [`parse`] for bytes that may not be text.
///
/// # Errors
/// As [`parse`], and where the bytes are not UTF-8.
pub fn parse_bytes(file_name: &str, bytes: &[u8]) -> Result<Parsed, Diagnostics> {
    parse(file_name, text_of(file_name, bytes)?)
}

/// Bytes that should be text.
pub(crate) fn text_of<'a>(file_name: &str, bytes: &'a [u8]) -> Result<&'a str, Diagnostics> {
    let error = match std::str::from_utf8(bytes) {
        Ok(text) => return Ok(text),
        Err(error) => error,
    };
    let (at, message, next) = match decode(bytes) {
        Err(error @ TextError::Binary { .. }) => (0, error.to_string(), None),
        _ => {
            let message = "this byte is not UTF-8 text".to_owned();
            (error.valid_up_to(), message, Some("save the file as UTF-8"))
        }
    };
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(tree::MAX_BYTES)]);
    let source = Source::new(file_name, &text);
    let span = position_of(bytes, at);
    let error = Diagnostic::new(&source, span, "not-utf8", message);
    Err(match next {
        Some(next) => error.with_suggestion(next),
        None => error,
    }
    .into())
}

impl Document {
    pub(crate) fn new(source: Source, root: Node) -> Self {
        Self { source, root }
    }

    /// The file's name and text.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// An error at the value under `path`, or at the nearest part of the path that is written.
    pub(crate) fn error_at(
        &self,
        path: &[Seg<'_>],
        code: &'static str,
        message: impl Into<String>,
    ) -> Diagnostic {
        let diagnostic = Diagnostic::new(&self.source, self.place(path, false), code, message);
        diagnostic.with_path(Path(path).to_string())
    }

    /// As [`error_at`](Self::error_at), at the key instead of its value.
    pub(crate) fn error_at_key(
        &self,
        path: &[Seg<'_>],
        code: &'static str,
        message: impl Into<String>,
    ) -> Diagnostic {
        let diagnostic = Diagnostic::new(&self.source, self.place(path, true), code, message);
        diagnostic.with_path(Path(path).to_string())
    }

    /// Whether the user wrote a value under `path`.
    pub(crate) fn is_written(&self, path: &[Seg<'_>]) -> bool {
        let mut node = Some(&self.root);
        for seg in path {
            node = match (seg, node) {
                (Seg::Key(key), Some(n)) => n.get(key).map(|entry| &entry.value),
                (Seg::Index(index), Some(n)) => n.index(*index),
                (_, None) => None,
            };
        }
        node.is_some()
    }

    /// Returns the place where the value (or key) under `path` is written.
    pub(crate) fn place(&self, path: &[Seg<'_>], at_key: bool) -> Span {
        let mut node = &self.root;
        let mut span = node.span;
        for seg in path {
            let next = match seg {
                Seg::Key(key) => node.get(key).map(|entry| {
                    let span = if at_key {
                        entry.key_span
                    } else {
                        entry.value.span
                    };
                    (&entry.value, span)
                }),
                Seg::Index(index) => node.index(*index).map(|item| (item, item.span)),
            };
            match next {
                Some((inner, found)) => (node, span) = (inner, found),
                None => break,
            }
        }
        span
    }
}
