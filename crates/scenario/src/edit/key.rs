//! The place of a value as a key: `links.driver`, `traffic[3].ping.to`, `traffic[web].tcp`,
//! `stations."a.b".terminal`.

use std::fmt;

/// A place in a file, never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key(Vec<Step>);

/// One step into a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// A key of a mapping.
    Key(String),
    /// An item of a list, from 0.
    Index(usize),
    /// The item of a list that has this `name`.
    Name(String),
}

impl Key {
    /// A key of the file itself.
    pub(crate) fn of(key: &str) -> Self {
        Self(vec![Step::Key(key.to_owned())])
    }

    pub(crate) fn steps(&self) -> &[Step] {
        &self.0
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(key) if is_bare(key) => f.write_str(key),
            Self::Key(key) => write!(f, "\"{key}\""),
            Self::Index(index) => write!(f, "[{index}]"),
            Self::Name(name) => write!(f, "[{name}]"),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.0.iter().enumerate() {
            let dot = matches!(step, Step::Key(_)) && index > 0;
            write!(f, "{}{step}", if dot { "." } else { "" })?;
        }
        Ok(())
    }
}

fn is_bare(key: &str) -> bool {
    !key.is_empty() && !key.contains(['.', '[', ']', '=', '"'])
}

/// Reads the key at the beginning of a text; the text after it is left.
///
/// # Errors
/// The reason, for people.
pub(crate) fn read(text: &str) -> Result<(Key, &str), String> {
    let mut steps = Vec::new();
    let mut rest = text;
    loop {
        if let Some(inner) = rest.strip_prefix('[') {
            let Some((item, after)) = inner.split_once(']') else {
                return Err("a `[` has no `]`".to_owned());
            };
            if item.is_empty() || steps.is_empty() {
                return Err("`[]` is no item of a list: [0] is the first".to_owned());
            }
            steps.push(match item.parse() {
                Ok(index) => Step::Index(index),
                Err(_) => Step::Name(item.to_owned()),
            });
            rest = after;
        } else {
            if !steps.is_empty() {
                match rest.strip_prefix('.') {
                    Some(after) => rest = after,
                    None => break,
                }
            }
            let (key, after) = match rest.strip_prefix('"') {
                Some(inner) => inner
                    .split_once('"')
                    .ok_or_else(|| "a `\"` has no second one".to_owned())?,
                None => rest.split_at(rest.find(['.', '[', ']', '=', '"']).unwrap_or(rest.len())),
            };
            if key.is_empty() {
                return Err("a key is missing".to_owned());
            }
            steps.push(Step::Key(key.to_owned()));
            rest = after;
        }
    }
    Ok((Key(steps), rest))
}
