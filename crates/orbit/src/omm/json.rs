//! Messages as JSON: one object, or a list of them.

use serde_json::{Deserializer, Value};

use super::{Record, Records};

/// The messages of a JSON text.
///
/// # Errors
/// With its line, if the text is not JSON or neither an object nor a list.
pub(super) fn records(text: &str) -> Result<Records, (usize, String)> {
    let mut rest = Rest {
        text,
        at: 0,
        line: 1,
    };
    let mut records = Records::default();
    let is_list = rest.skip('[');
    if is_list && rest.skip(']') {
        return Ok(records);
    }
    // One object at a time: the JSON reader returns the end of each, and so the line in which the next begins.
    loop {
        rest.blanks();
        let line = rest.line;
        match rest.value()? {
            Value::Object(fields) => {
                let mut record = Record::new(line);
                for (keyword, value) in &fields {
                    match value {
                        Value::String(text) => record.put(keyword, text),
                        Value::Number(number) => record.put(keyword, &number.to_string()),
                        // All values that this reader needs are of the types above.
                        _ => continue,
                    };
                }
                records.good.push(record);
            }
            _ => records.error(line, "this is no object with the keywords of a message"),
        }
        match (is_list, rest.skip(',')) {
            (true, true) => {}
            (true, false) if rest.skip(']') => break,
            (true, false) => return Err(rest.wrong("expected `,` or `]`")),
            (false, true) => return Err(rest.wrong("several objects need brackets around them")),
            (false, false) => break,
        }
    }
    rest.blanks();
    if rest.at < text.len() {
        return Err(rest.wrong("trailing characters"));
    }
    Ok(records)
}

/// The unread rest of a text.
struct Rest<'a> {
    text: &'a str,
    /// Bytes read.
    at: usize,
    /// Line of the next byte, from 1.
    line: usize,
}

impl Rest<'_> {
    fn left(&self) -> &str {
        self.text.get(self.at..).unwrap_or("")
    }

    /// Column of the next byte, from 1.
    fn column(&self) -> usize {
        let read = self.text.get(..self.at).unwrap_or("");
        self.at - read.rfind('\n').map_or(0, |end| end + 1) + 1
    }

    fn forward(&mut self, bytes: usize) {
        let passed = self.left().get(..bytes).unwrap_or("");
        self.line += passed.bytes().filter(|byte| *byte == b'\n').count();
        self.at += bytes;
    }

    fn blanks(&mut self) {
        let left = self.left();
        let many = left.len() - left.trim_start_matches([' ', '\t', '\n', '\r']).len();
        self.forward(many);
    }

    /// Passes a character and the blanks before it, if it is the next.
    fn skip(&mut self, wanted: char) -> bool {
        self.blanks();
        let there = self.left().starts_with(wanted);
        if there {
            self.forward(wanted.len_utf8());
        }
        there
    }

    fn value(&mut self) -> Result<Value, (usize, String)> {
        let mut values = Deserializer::from_str(self.left()).into_iter::<Value>();
        let value = values.next();
        let read = values.byte_offset();
        match value {
            Some(Ok(value)) => {
                self.forward(read);
                Ok(value)
            }
            Some(Err(error)) => {
                let reason = error.to_string();
                // The place at the end of its text counts from the object's beginning.
                let place = format!(" at line {} column {}", error.line(), error.column());
                let reason = reason.strip_suffix(&place).unwrap_or(&reason);
                let line = self.line + error.line().saturating_sub(1);
                // In its first line an object may begin in any column.
                let before = match error.line() {
                    1 => self.column() - 1,
                    _ => 0,
                };
                let column = before + error.column();
                Err((line, format!("not JSON: {reason}, column {column}")))
            }
            None => Err(self.wrong("it ends early")),
        }
    }

    fn wrong(&self, reason: &str) -> (usize, String) {
        let column = self.column();
        (self.line, format!("not JSON: {reason}, column {column}"))
    }
}
