//! Makes text from other sources safe to print: nodes, images, engines, other machines and files may contain anything.

use std::borrow::Cow;

/// Returns whether a terminal would interpret this character instead of showing it: controls of C0 and C1, DEL, and characters
/// that change the direction of text. Line feeds and tabs are among them.
#[must_use]
pub fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns the text with all [unprintable characters](is_unprintable) except line feeds and tabs escaped as in Rust (`\u{1b}`),
/// so that a terminal does not interpret any part of it as a command.
///
/// ```
/// use constel_units::shown::printable;
///
/// assert_eq!(printable("a\tb\n\u{1b}[2J\r"), "a\tb\n\\u{1b}[2J\\r");
/// ```
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_unprintable(c) && !matches!(c, '\n' | '\t'))
}

/// Returns bytes as one line of text for a message: without surrounding white space, and with every [unprintable
/// character](is_unprintable) escaped. A text of more than `most_chars` characters, counted before escaping, is cut and ends
/// with `...`.
///
/// ```
/// use constel_units::shown::one_line;
///
/// assert_eq!(one_line(b" no such\nfile\x1b ", 400), "no such\\nfile\\u{1b}");
/// assert_eq!(one_line(b"four", 3), "fou...");
/// ```
#[must_use]
pub fn one_line(bytes: &[u8], most_chars: usize) -> String {
    // A character has at most 4 bytes, so later bytes need not be checked.
    let head = &bytes[..bytes
        .len()
        .min(most_chars.saturating_add(64).saturating_mul(4))];
    let text = String::from_utf8_lossy(head);
    let text = text.trim();
    let (kept, rest) = match text.char_indices().nth(most_chars) {
        Some((at, _)) => (&text[..at], "..."),
        None => (text, ""),
    };
    escaped(kept, is_unprintable).into_owned() + rest
}

fn escaped(text: &str, is_bad: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_bad) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_bad(c) {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_character_that_a_terminal_obeys_is_left() {
        let all: String = ('\0'..=char::MAX).filter(|c| is_unprintable(*c)).collect();
        assert_eq!(
            printable(&all)
                .chars()
                .filter(|c| is_unprintable(*c))
                .collect::<String>(),
            "\t\n"
        );
        assert!(
            !one_line(all.as_bytes(), usize::MAX)
                .chars()
                .any(is_unprintable)
        );
        assert!(matches!(printable("plain: ü 日本"), Cow::Borrowed(_)));
    }
}
