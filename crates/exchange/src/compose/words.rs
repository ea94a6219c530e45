//! Compose's small languages: variables in texts, command lines, amounts.

use std::collections::BTreeMap;

/// Longest result of a text with variables, bytes, and of all of them together.
const LONGEST: usize = 64 << 10;
const ALL: usize = 4 << 20;
/// How deep defaults of variables may have variables.
const DEEPEST: usize = 8;

/// Variables, and the requests for them.
#[derive(Debug, Default)]
pub(super) struct Variables {
    pub(super) known: BTreeMap<String, String>,
    /// Variables that are used, and neither set nor with a default: empty, as in Compose.
    pub(super) unset: BTreeMap<String, u32>,
    written: usize,
}

impl Variables {
    /// Reads `NAME=VALUE` lines, as in `.env`.
    pub(super) fn read(text: &str) -> Vec<(String, String)> {
        let lines = text.lines().map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let one = |line: &str| {
            let line = line.strip_prefix("export ").unwrap_or(line);
            let (name, value) = line.split_once('=')?;
            let value = value.trim();
            let value = ['"', '\'']
                .into_iter()
                .find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote))
                // Behind a space it is a comment.
                .unwrap_or_else(|| value.split(" #").next().unwrap_or("").trim_end());
            Some((name.trim().to_owned(), value.to_owned()))
        };
        lines.filter_map(one).collect()
    }

    /// Returns a text with its variables replaced.
    pub(super) fn fill(&mut self, text: &str, line: u32) -> Result<String, String> {
        let mut out = String::new();
        self.fill_into(&mut out, text, line, 0)?;
        self.written += out.len();
        match self.written > ALL {
            true => Err(format!(
                "with variables put in the file has more than {ALL} bytes"
            )),
            false => Ok(out),
        }
    }

    fn fill_into(
        &mut self,
        out: &mut String,
        text: &str,
        line: u32,
        depth: usize,
    ) -> Result<(), String> {
        if depth > DEEPEST {
            return Err("variables within defaults of variables are too deep".to_owned());
        }
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix('$') {
                out.push('$');
                rest = after;
            } else if let Some(inner) = rest.strip_prefix('{') {
                let end = closing(inner).ok_or("`${` without its `}`; a plain `$` is `$$`")?;
                self.braced(out, &inner[..end], line, depth)?;
                rest = &inner[end + 1..];
            } else {
                let name = name_of(rest);
                if name.is_empty() {
                    return Err("a `$` that begins no variable; a plain `$` is `$$`".to_owned());
                }
                let value = self.value(name, line);
                out.push_str(&value);
                rest = &rest[name.len()..];
            }
            if out.len() > LONGEST {
                return Err(format!(
                    "with variables put in the text has more than {LONGEST} bytes"
                ));
            }
        }
        out.push_str(rest);
        Ok(())
    }

    /// Replaces the text between braces.
    fn braced(
        &mut self,
        out: &mut String,
        inner: &str,
        line: u32,
        depth: usize,
    ) -> Result<(), String> {
        let name = name_of(inner);
        let rest = &inner[name.len()..];
        if name.is_empty() {
            return Err(format!(
                "`${{{}}}` names no variable",
                crate::text::shown(inner)
            ));
        }
        let (empty_counts, rest) = match rest.strip_prefix(':') {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let there = self.known.get(name);
        let there = there.is_some_and(|value| !(empty_counts && value.is_empty()));
        let mut parts = rest.chars();
        match (parts.next(), there) {
            (None, _) if !empty_counts => out.push_str(&self.value(name, line)),
            (Some('-' | '?'), true) => out.push_str(&self.value(name, line)),
            (Some('-'), false) | (Some('+'), true) => {
                self.fill_into(out, parts.as_str(), line, depth + 1)?;
            }
            (Some('+'), false) => {}
            (Some('?'), false) => {
                let said = crate::text::shown(parts.as_str());
                return Err(format!("the variable `{name}` has no value: {said}"));
            }
            _ => {
                let inner = crate::text::shown(inner);
                return Err(format!("`${{{inner}}}` is no way to name a variable"));
            }
        }
        Ok(())
    }

    fn value(&mut self, name: &str, line: u32) -> String {
        let known = self.known.get(name).cloned();
        known.unwrap_or_else(|| {
            self.unset.entry(name.to_owned()).or_insert(line);
            String::new()
        })
    }
}

/// The variable's name that a text begins with.
fn name_of(text: &str) -> &str {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let end = text.find(|c| !fits(c)).unwrap_or(text.len());
    match text.starts_with(|c: char| c.is_ascii_digit()) {
        true => "",
        false => &text[..end],
    }
}

/// Returns the position of the brace that closes one opened before the text.
fn closing(text: &str) -> Option<usize> {
    let mut open = 0;
    for (at, c) in text.char_indices() {
        match c {
            '{' => open += 1,
            '}' if open == 0 => return Some(at),
            '}' => open -= 1,
            _ => {}
        }
    }
    None
}

/// Splits a command line as a shell does, without a shell's other features.
pub(super) fn split(line: &str) -> Result<Vec<String>, &'static str> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            c if c.is_ascii_whitespace() => words.extend(word.take()),
            '\'' => loop {
                match chars.next().ok_or("a quote that is not closed")? {
                    '\'' => {
                        word.get_or_insert_default();
                        break;
                    }
                    c => word.get_or_insert_default().push(c),
                }
            },
            '"' => loop {
                let word = word.get_or_insert_default();
                match chars.next().ok_or("a quote that is not closed")? {
                    '"' => break,
                    '\\' => match chars.next().ok_or("a quote that is not closed")? {
                        c @ ('"' | '\\' | '$' | '`') => word.push(c),
                        '\n' => {}
                        c => word.extend(['\\', c]),
                    },
                    c => word.push(c),
                }
            },
            '\\' => {
                let next = chars.next().ok_or("a `\\` at the end")?;
                word.get_or_insert_default().push(next);
            }
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

/// Bytes such as `512m`, `1.5gb` or `1048576`; letters are powers of 1024.
pub(super) fn bytes(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let power = match &text[digits.len()..] {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 1,
        "m" | "mb" | "mib" => 2,
        "g" | "gb" | "gib" => 3,
        "t" | "tb" | "tib" => 4,
        _ => return None,
    };
    let plain = |c: char| c.is_ascii_digit() || c == '.';
    let number: f64 = digits.trim().parse().ok()?;
    let bytes = (number * 1024_f64.powi(power)).round();
    (digits.trim().chars().all(plain) && bytes <= (1_u64 << 60) as f64).then_some(bytes as u64)
}

/// A time such as `1m30s`, `500ms` or `1.5s`, in milliseconds.
pub(super) fn milliseconds(text: &str) -> Option<u64> {
    let plain = |c: char| c.is_ascii_digit() || c == '.';
    let mut rest = text.trim();
    let mut sum = 0.0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c| !plain(c))?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.find(plain).unwrap_or(rest.len());
        sum += number
            * match &rest[..letters] {
                "ns" => 1e-6,
                "us" => 1e-3,
                "ms" => 1.0,
                "s" => 1e3,
                "m" => 60e3,
                "h" => 3_600e3,
                _ => return None,
            };
        rest = &rest[letters..];
    }
    (sum <= 1e12).then(|| sum.round() as u64)
}

/// Processors in thousand-millionths.
pub(super) fn nano_cpus(text: &str) -> Option<u64> {
    let plain = text.chars().all(|c| c.is_ascii_digit() || c == '.');
    let number: f64 = text.parse().ok().filter(|_| plain)?;
    (number <= 1e6).then(|| (number * 1e9).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str) -> Result<String, String> {
        let known = [("A", "a"), ("E", ""), ("LONG", "xxxxxxxxxxxxxxxx")];
        let known = known.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut variables = Variables {
            known: known.into(),
            ..Variables::default()
        };
        variables.fill(text, 1)
    }

    #[test]
    fn variables_are_put_in_as_compose_does() {
        for (text, expected) in [
            ("$A-${A}-$$A-$${A}", "a-a-$A-${A}"),
            ("${E-x}${E:-x}${N-y}${N:-y}", "xyy"),
            ("${A+x}${E:+x}${E+x}${N+x}", "xx"),
            ("${N:-${A}/${M:-{z}}}", "a/{z}"),
            ("${N}|$N|", "||"),
            ("${A:?wrong}", "a"),
            ("nothing", "nothing"),
        ] {
            assert_eq!(filled(text).as_deref(), Ok(expected), "{text}");
        }
        for text in [
            "$",
            "$1",
            "${",
            "${A",
            "${}",
            "${A!x}",
            "${A:}",
            "${N:?it is needed}",
            "${E:?}",
            "5$",
        ] {
            assert!(filled(text).is_err(), "{text}");
        }
        let deep = format!("{}x{}", "${N:-".repeat(20), "}".repeat(20));
        assert!(filled(&deep).is_err());
        assert!(filled(&"$LONG".repeat(10_000)).is_err());
    }

    #[test]
    fn what_compose_writes_in_small() {
        let words = |line| split(line).unwrap();
        assert_eq!(words("sh -c 'a \"b\" $c'"), ["sh", "-c", "a \"b\" $c"]);
        assert_eq!(
            words(r#" a\ b "c \"d\" \e" '' "" "#),
            ["a b", "c \"d\" \\e", "", ""]
        );
        assert_eq!(words("").len(), 0);
        assert!(split("'a").is_err() && split("\"a").is_err() && split("a\\").is_err());
        let all = [
            "512m",
            "1.5gb",
            "1048576",
            "64MiB",
            "1x",
            "",
            "-1",
            "m",
            "1e9",
            "99999999999999t",
        ];
        let m = Some(512 << 20);
        assert_eq!(
            all.map(bytes),
            [
                m,
                Some(3 << 29),
                Some(1 << 20),
                Some(64 << 20),
                None,
                None,
                None,
                None,
                None,
                None
            ]
        );
        assert_eq!(
            ["0.5", "2", "x", "-1", "1e9"].map(nano_cpus),
            [Some(500_000_000), Some(2_000_000_000), None, None, None]
        );
        let times = ["1m30s", "500ms", "1.5s", "0s", "5", "s", "", "1x", "-1s"];
        let expected = [
            Some(90_000),
            Some(500),
            Some(1500),
            Some(0),
            None,
            None,
            None,
            None,
            None,
        ];
        assert_eq!(times.map(milliseconds), expected);
        let read =
            Variables::read("# no\nA=1\nexport B = 'two # 2' \nC=3 # three\n\nnothing\nD=\n");
        let pairs: Vec<(&str, &str)> = read.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        assert_eq!(pairs, [("A", "1"), ("B", "two # 2"), ("C", "3"), ("D", "")]);
    }
}
