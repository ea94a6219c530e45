//! The bytes of a text that each of its values is written with.

use saphyr_parser::{Event, Marker, Parser, Span as RawSpan};

use crate::diagnostic::Diagnostic;
use crate::source::{Source, Span, saturate};
use crate::tree::syntax;

/// A text, and where its values are. The text has been [read](crate::tree::read()) before, so it is within all bounds.
pub(crate) struct Outline {
    text: String,
    line_starts: Vec<usize>,
    root: ValueSpan,
}

/// A value, from its first byte to the one after its last.
#[derive(Debug)]
pub(crate) struct ValueSpan {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Others may refer to it.
    pub(crate) anchored: bool,
    /// In braces or brackets.
    pub(crate) flow: bool,
    pub(crate) kind: Kind,
}

#[derive(Debug)]
pub(crate) enum Kind {
    /// A text; empty also for a missing value.
    Scalar(String),
    Alias,
    Sequence(Vec<ValueSpan>),
    Mapping(Vec<Pair>),
}

/// A key and its value.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) key: String,
    /// The key's first byte.
    pub(crate) start: usize,
    /// The colon behind the key; `None` where another form is used.
    pub(crate) colon: Option<usize>,
    pub(crate) value: ValueSpan,
}

struct Open {
    part: ValueSpan,
    key: Option<(String, usize, Option<usize>)>,
}

impl Outline {
    /// # Errors
    /// The first syntax error.
    pub(crate) fn of(source: &Source) -> Result<Self, Box<Diagnostic>> {
        let text = source.text().to_owned();
        let mut line_starts = vec![0];
        line_starts.extend(text.match_indices('\n').map(|(at, _)| at + 1));
        let nothing = ValueSpan {
            start: 0,
            end: 0,
            anchored: false,
            flow: false,
            kind: Kind::Scalar(String::new()),
        };
        let mut outline = Self {
            text,
            line_starts,
            root: nothing,
        };
        let mut open = Vec::new();
        for event in Parser::new_from_str(source.text()) {
            let (event, span) = event.map_err(|error| syntax(source, &error))?;
            outline.event(&mut open, event, span);
        }
        Ok(outline)
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn root(&self) -> &ValueSpan {
        &self.root
    }

    /// Returns the number of characters before a byte on its line.
    pub(crate) fn column(&self, at: usize) -> usize {
        let line = self.line_starts.partition_point(|&start| start <= at) - 1;
        self.text[self.line_starts[line]..at].chars().count()
    }

    /// The place of a byte, for errors.
    pub(crate) fn span(&self, at: usize) -> Span {
        let line = self.line_starts.partition_point(|&start| start <= at);
        Span::new(saturate(line), saturate(self.column(at) + 1), 1)
    }

    fn byte(&self, mark: Marker) -> usize {
        let line = mark.line().max(1) - 1;
        let Some(&start) = self.line_starts.get(line) else {
            return self.text.len();
        };
        let mut columns = self.text[start..].char_indices();
        columns
            .nth(mark.col())
            .map_or(self.text.len(), |(offset, _)| start + offset)
    }

    fn event(&mut self, open: &mut Vec<Open>, event: Event<'_>, span: RawSpan) {
        let start = self.byte(span.start);
        let part = |kind, end, anchor: usize, flow| ValueSpan {
            start,
            end,
            anchored: anchor > 0,
            flow,
            kind,
        };
        let bracket = matches!(self.text.as_bytes().get(start), Some(b'[' | b'{'));
        match event {
            Event::Scalar(text, _, anchor, _) => {
                let written = &self.text[start..self.byte(span.end).max(start)];
                let end = start + written_len(written);
                // An empty value has the place of the token that follows it. The colon before it marks where
                // the value belongs.
                let kind = Kind::Scalar(text.into_owned());
                self.close(open, part(kind, end, anchor, false));
            }
            Event::Alias(_) => {
                let end = self.byte(span.end);
                self.close(open, part(Kind::Alias, end, 0, false));
            }
            Event::SequenceStart(anchor, _) => open.push(Open {
                part: part(Kind::Sequence(Vec::new()), start, anchor, bracket),
                key: None,
            }),
            Event::MappingStart(anchor, _) => open.push(Open {
                part: part(Kind::Mapping(Vec::new()), start, anchor, bracket),
                key: None,
            }),
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(Open { mut part, .. }) = open.pop() {
                    if part.flow {
                        // The parser gives the place of the bracket, and for the end that of the next token.
                        part.end = start + 1;
                    }
                    self.close(open, part);
                }
            }
            _ => {}
        }
    }

    /// A value is complete.
    fn close(&mut self, open: &mut [Open], part: ValueSpan) {
        let Some(Open { part: outer, key }) = open.last_mut() else {
            self.root = part;
            return;
        };
        match &mut outer.kind {
            Kind::Sequence(items) => {
                outer.end = outer.end.max(part.end);
                items.push(part);
            }
            Kind::Mapping(entries) => match key.take() {
                None => {
                    let rest = &self.text[part.end..];
                    let gap = rest.len() - rest.trim_start_matches(' ').len();
                    let colon = part.end + gap;
                    let colon = rest[gap..].starts_with(':').then_some(colon);
                    if entries.is_empty() && !outer.flow {
                        outer.start = part.start;
                    }
                    if let Kind::Scalar(text) = part.kind {
                        *key = Some((text, part.start, colon));
                    }
                }
                Some((name, start, colon)) => {
                    // A value that is not written ends where its key does.
                    let nothing = part.end <= part.start;
                    let end = if nothing {
                        colon.map_or(start, |at| at + 1)
                    } else {
                        part.end
                    };
                    outer.end = outer.end.max(end);
                    let value = ValueSpan { end, ..part };
                    entries.push(Pair {
                        key: name,
                        start,
                        colon,
                        value,
                    });
                }
            },
            Kind::Scalar(_) | Kind::Alias => {}
        }
    }
}

/// Returns the length of the scalar itself: the parser includes blanks and comments after a closing quote.
fn written_len(written: &str) -> usize {
    let quote = match written.chars().next() {
        Some(quote @ ('"' | '\'')) => quote,
        _ => return written.trim_end().len(),
    };
    let mut inner = written.char_indices().skip(1).peekable();
    while let Some((at, c)) = inner.next() {
        let escape = match quote {
            '"' => c == '\\',
            _ => c == quote && inner.peek().is_some_and(|(_, next)| *next == quote),
        };
        if escape {
            inner.next();
        } else if c == quote {
            return at + 1;
        }
    }
    written.len()
}
