//! YAML text as a tree with the place of every key and value.
//!
//! The parser behind it is bounded against hostile text: size, depth and the number of values
//! after aliases are put in have limits, and no limit is reached silently.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span as RawSpan, Tag};

use crate::diagnostic::{Diagnostic, width_of};
use crate::source::{Source, Span, saturate};

/// Longest text, bytes.
pub const MAX_BYTES: usize = 4 * 1024 * 1024;
/// Deepest nesting.
pub const MAX_DEPTH: usize = 32;
/// Most values, counting those that aliases stand for.
pub const MAX_NODES: usize = 200_000;

/// A value and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The place of the value's beginning.
    pub span: Span,
    /// The value itself.
    pub value: Value,
}

/// A YAML value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A scalar.
    Scalar {
        /// Without its quotes.
        text: String,
        /// Whether it is written without quotes, so that it may be a number or a null.
        plain: bool,
    },
    /// A sequence.
    Sequence(Vec<Node>),
    /// A mapping, in the order of the file.
    Mapping(Vec<Entry>),
}

/// A key and its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The key as text.
    pub key: String,
    /// The place of the key.
    pub key_span: Span,
    /// The key's value.
    pub value: Node,
}

impl Node {
    /// The kind of value, for messages.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match &self.value {
            Value::Sequence(_) => "a list",
            Value::Mapping(_) => "a mapping",
            Value::Scalar { text, plain: true } => match core_type(text) {
                Core::Null => "nothing",
                Core::Bool(_) => "a yes/no value",
                Core::Integer | Core::Float => "a number",
                Core::Text => "text",
            },
            Value::Scalar { .. } => "text",
        }
    }

    /// The entry of a mapping with this key; the first one where the file repeats it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Entry> {
        match &self.value {
            Value::Mapping(entries) => entries.iter().find(|entry| entry.key == key),
            _ => None,
        }
    }

    /// The element of a sequence.
    #[must_use]
    pub fn index(&self, index: usize) -> Option<&Node> {
        match &self.value {
            Value::Sequence(items) => items.get(index),
            _ => None,
        }
    }

    fn size(&self) -> usize {
        1 + match &self.value {
            Value::Scalar { .. } => 0,
            Value::Sequence(items) => items.iter().map(Node::size).sum(),
            Value::Mapping(entries) => entries.iter().map(|e| e.value.size()).sum(),
        }
    }

    fn depth(&self) -> usize {
        1 + match &self.value {
            Value::Scalar { .. } => 0,
            Value::Sequence(items) => items.iter().map(Node::depth).max().unwrap_or(0),
            Value::Mapping(entries) => entries.iter().map(|e| e.value.depth()).max().unwrap_or(0),
        }
    }
}

/// The type of a plain scalar under the YAML 1.2 core schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Core {
    /// No value.
    Null,
    /// Yes or no.
    Bool(bool),
    /// A whole number, of any size.
    Integer,
    /// Another number.
    Float,
    /// Anything else.
    Text,
}

/// Resolves a plain scalar. YAML 1.1's `yes`, `no`, `on` and `off` are text.
#[must_use]
pub fn core_type(text: &str) -> Core {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Core::Null,
        "true" | "True" | "TRUE" => return Core::Bool(true),
        "false" | "False" | "FALSE" => return Core::Bool(false),
        _ => {}
    }
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
        return Core::Integer;
    }
    let number = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && digits
            .bytes()
            .all(|b| b.is_ascii_digit() || b".eE+-".contains(&b))
        && digits.parse::<f64>().is_ok();
    if number { Core::Float } else { Core::Text }
}

/// Reads one YAML document.
///
/// # Errors
/// The first syntax error (a parser cannot know what follows it), or the limit that was passed.
pub fn read(source: &Source) -> Result<Node, Box<Diagnostic>> {
    if source.text().len() > MAX_BYTES {
        return Err(limit(
            source,
            Span::START,
            format!(
                "the file has {} bytes; {MAX_BYTES} are allowed",
                source.text().len()
            ),
        ));
    }
    Builder {
        source,
        anchors: HashMap::new(),
        nodes: 0,
        open: Vec::new(),
        root: None,
    }
    .run()
}

fn limit(source: &Source, span: Span, message: String) -> Box<Diagnostic> {
    Box::new(Diagnostic::new(source, span, "limit", message))
}

/// A collection whose end has not come yet.
struct Open {
    anchor: usize,
    span: Span,
    content: OpenContent,
}

enum OpenContent {
    Sequence(Vec<Node>),
    Mapping {
        entries: Vec<Entry>,
        key: Option<(String, Span)>,
    },
}

struct Builder<'a> {
    source: &'a Source,
    anchors: HashMap<usize, Node>,
    nodes: usize,
    open: Vec<Open>,
    root: Option<Node>,
}

type Step = Result<(), Box<Diagnostic>>;

impl Builder<'_> {
    fn run(mut self) -> Result<Node, Box<Diagnostic>> {
        let source = self.source;
        for event in Parser::new_from_str(source.text()) {
            let (event, span) = event.map_err(|error| syntax(source, &error))?;
            self.event(event, place(span))?;
        }
        let empty = Node {
            span: Span::START,
            value: Value::Scalar {
                text: String::new(),
                plain: true,
            },
        };
        Ok(self.root.unwrap_or(empty))
    }

    fn event(&mut self, event: Event<'_>, span: Span) -> Step {
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            Event::DocumentStart(_) if self.root.is_some() => Err(Box::new(
                Diagnostic::new(
                    self.source,
                    span,
                    "second-document",
                    "a second document starts here",
                )
                .with_reason("a scenario is one YAML document; remove the `---` line"),
            )),
            Event::DocumentStart(_) => Ok(()),
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse_tag(tag.as_deref(), span)?;
                let plain = style == ScalarStyle::Plain;
                let width = if plain { width_of(&text) } else { span.width };
                let span = Span { width, ..span };
                self.count(1, span)?;
                let value = Value::Scalar {
                    text: text.into_owned(),
                    plain,
                };
                self.add(Node { span, value }, anchor)
            }
            Event::SequenceStart(anchor, tag) => {
                self.refuse_tag(tag.as_deref(), span)?;
                self.start(anchor, span, OpenContent::Sequence(Vec::new()))
            }
            Event::MappingStart(anchor, tag) => {
                self.refuse_tag(tag.as_deref(), span)?;
                let content = OpenContent::Mapping {
                    entries: Vec::new(),
                    key: None,
                };
                self.start(anchor, span, content)
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(span),
            Event::Alias(anchor) => {
                let Some(node) = self.anchors.get(&anchor) else {
                    return Err(Box::new(
                        Diagnostic::new(
                            self.source,
                            span,
                            "alias",
                            "this alias stands for a value that is not complete yet",
                        )
                        .with_reason("a value cannot contain itself"),
                    ));
                };
                let (size, depth) = (node.size(), node.depth());
                if self.open.len() + depth > MAX_DEPTH {
                    return Err(self.too_deep(span));
                }
                // Count before copying, so that nested aliases cannot fill the memory.
                self.count(size, span)?;
                let node = self.anchors[&anchor].clone();
                self.add(node, 0)
            }
        }
    }

    fn refuse_tag(&self, tag: Option<&Tag>, span: Span) -> Step {
        match tag {
            None => Ok(()),
            Some(tag) => {
                let shown = if tag.is_yaml_core_schema() {
                    format!("!!{}", tag.suffix)
                } else {
                    tag.to_string()
                };
                let message = format!("the tag `{shown}` is not supported");
                Err(Box::new(
                    Diagnostic::new(self.source, span, "tag", message)
                        .with_reason("values need no YAML tags here; remove it"),
                ))
            }
        }
    }

    fn count(&mut self, nodes: usize, span: Span) -> Step {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes > MAX_NODES {
            return Err(limit(
                self.source,
                span,
                format!("more than {MAX_NODES} values, counting what aliases stand for"),
            ));
        }
        Ok(())
    }

    fn too_deep(&self, span: Span) -> Box<Diagnostic> {
        limit(
            self.source,
            span,
            format!("nested deeper than {MAX_DEPTH} levels"),
        )
    }

    fn start(&mut self, anchor: usize, span: Span, content: OpenContent) -> Step {
        if self.open.len() >= MAX_DEPTH {
            return Err(self.too_deep(span));
        }
        self.count(1, span)?;
        self.open.push(Open {
            anchor,
            span: Span { width: 1, ..span },
            content,
        });
        Ok(())
    }

    fn end(&mut self, span: Span) -> Step {
        let Some(open) = self.open.pop() else {
            return Err(limit(
                self.source,
                span,
                "a collection ends that never started".into(),
            ));
        };
        let value = match open.content {
            OpenContent::Sequence(items) => Value::Sequence(items),
            OpenContent::Mapping { entries, .. } => Value::Mapping(entries),
        };
        self.add(
            Node {
                span: open.span,
                value,
            },
            open.anchor,
        )
    }

    fn add(&mut self, node: Node, anchor: usize) -> Step {
        if anchor > 0 {
            // The copy kept for aliases counts too: nested anchors each keep one.
            self.count(node.size(), node.span)?;
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut().map(|open| &mut open.content) {
            None => self.root = Some(node),
            Some(OpenContent::Sequence(items)) => items.push(node),
            Some(OpenContent::Mapping { entries, key }) => match key.take() {
                Some((key, key_span)) => entries.push(Entry {
                    key,
                    key_span,
                    value: node,
                }),
                None => match node.value {
                    Value::Scalar { text, .. } => *key = Some((text, node.span)),
                    _ => {
                        return Err(Box::new(
                            Diagnostic::new(self.source, node.span, "key", "a key must be a word")
                                .with_reason("a list or mapping stands where a key is expected"),
                        ));
                    }
                },
            },
        }
        Ok(())
    }
}

fn place(span: RawSpan) -> Span {
    let (start, end) = (span.start, span.end);
    let width = if end.line() == start.line() {
        end.col().saturating_sub(start.col())
    } else {
        1
    };
    Span::new(
        saturate(start.line().max(1)),
        saturate(start.col()).saturating_add(1),
        saturate(width.max(1)),
    )
}

pub(crate) fn syntax(source: &Source, error: &ScanError) -> Box<Diagnostic> {
    let mark = error.marker();
    let span = Span::new(
        saturate(mark.line().max(1)),
        saturate(mark.col()).saturating_add(1),
        1,
    );
    let diagnostic = Diagnostic::new(
        source,
        span,
        "yaml-syntax",
        format!("this is not YAML: {}", error.info()),
    );
    let tab = source.line(span.line).is_some_and(|line| {
        line.chars()
            .take_while(|c| c.is_whitespace())
            .any(|c| c == '\t')
    });
    Box::new(if tab {
        diagnostic.with_suggestion("YAML is indented with spaces; this line starts with a tab")
    } else {
        diagnostic.with_suggestion(
            "check this line and the one before it: indentation, a missing `:`, an open quote or bracket",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(text: &str) -> Result<Node, Box<Diagnostic>> {
        read(&Source::new("t.yaml", text))
    }

    #[test]
    fn every_value_knows_its_place() {
        let root = tree("a: 1\nb:\n  - {c: x y, d: [1, 2]}\n").unwrap();
        let b = root.get("b").unwrap();
        assert_eq!(b.key_span, Span::new(2, 1, 1));
        let c = b.value.index(0).unwrap().get("c").unwrap();
        assert_eq!(c.key_span, Span::new(3, 6, 1));
        assert_eq!(c.value.span, Span::new(3, 9, 3));
    }

    #[test]
    fn the_core_schema_is_yaml_1_2() {
        for (text, kind) in [
            ("", Core::Null),
            ("no", Core::Text),
            ("-12", Core::Integer),
            ("1.5", Core::Float),
            ("1e3", Core::Float),
            ("1:30", Core::Text),
            ("2 s", Core::Text),
            ("inf", Core::Text),
            ("-", Core::Text),
        ] {
            assert_eq!(core_type(text), kind, "{text:?}");
        }
    }

    #[test]
    fn hostile_text_is_bounded() {
        let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
        assert_eq!(tree(&deep).unwrap_err().code, "limit");
        // Each line doubles the last: 2^30 values if aliases were copied without counting.
        let mut bomb = String::from("a0: &a0 [1]\n");
        for i in 1..30 {
            bomb += &format!("a{i}: &a{i} [*a{}, *a{}]\n", i - 1, i - 1);
        }
        assert_eq!(tree(&bomb).unwrap_err().code, "limit");
        assert_eq!(tree(&"x".repeat(MAX_BYTES + 1)).unwrap_err().code, "limit");
        assert!(tree("a: &a [*a]").is_err());
        assert!(tree("a: *nowhere").is_err());
    }
}
