//! Messages in the keyword notation: `KEYWORD = value`, a line each. Files with several messages put one after another.

use super::{Record, Records};

/// Whether a file that begins with this line is in this notation.
pub(super) fn begins(line: &str) -> bool {
    let keyword = line.split('=').next().unwrap_or("").trim();
    let is_word = !keyword.is_empty()
        && keyword
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_');
    is_comment(line) || (line.contains('=') && is_word)
}

fn is_comment(line: &str) -> bool {
    line.split_ascii_whitespace().next() == Some("COMMENT")
}

/// The messages of a text.
pub(super) fn records(text: &str) -> Records {
    let mut records = Records::default();
    let mut open = Record::new(1);
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || is_comment(line) {
            continue;
        }
        let Some((keyword, value)) = line.split_once('=') else {
            records.error(number, "this is no `KEYWORD = value`");
            continue;
        };
        let keyword = keyword.trim();
        // A message ends where the next one begins: with its version, or, in files without, with a keyword that was there.
        let begins = keyword.eq_ignore_ascii_case("CCSDS_OMM_VERS")
            || open.get(&keyword.to_ascii_uppercase()).is_some();
        if begins && !open.values.is_empty() {
            records.good.push(std::mem::take(&mut open));
        }
        if open.values.is_empty() {
            open.line = number;
        }
        open.put(keyword, value);
    }
    if !open.values.is_empty() {
        records.good.push(open);
    }
    records
}
