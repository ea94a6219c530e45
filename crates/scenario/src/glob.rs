//! Patterns of node names.

use std::fmt;

/// A pattern: `*` stands for any characters, also none, `?` for one; all else for itself.
///
/// ```
/// use constel_scenario::Glob;
///
/// assert!(Glob::new("iridium-p00-*").matches("iridium-p00-s07"));
/// assert!(!Glob::new("iridium-p0?").matches("iridium-p00-s07"));
/// assert!(Glob::new("*-s?7").matches("iridium-p00-s07"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Glob(String);

impl Glob {
    /// The pattern of this text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Whether it can be more than one name.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.0.contains(['*', '?'])
    }

    /// Whether some name that begins with `start` may be of this pattern.
    #[must_use]
    pub(crate) fn may_begin_with(&self, start: &str) -> bool {
        let fixed = self.0.split(['*', '?']).next().unwrap_or_default();
        fixed.starts_with(start) || (self.is_open() && start.starts_with(fixed))
    }

    /// Whether a name is of this pattern.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let (pattern, name): (Vec<char>, Vec<char>) =
            (self.0.chars().collect(), name.chars().collect());
        let (mut p, mut n) = (0, 0);
        // The position of the last star in the pattern, and the end of the characters that it stands for.
        let mut star = None;
        while n < name.len() {
            match pattern.get(p) {
                Some('*') => {
                    star = Some((p, n));
                    p += 1;
                }
                Some(c) if *c == '?' || *c == name[n] => (p, n) = (p + 1, n + 1),
                _ => match star {
                    Some((at, upto)) => {
                        star = Some((at, upto + 1));
                        (p, n) = (at + 1, upto + 1);
                    }
                    None => return false,
                },
            }
        }
        pattern[p..].iter().all(|c| *c == '*')
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Glob;

    #[test]
    fn stars_give_back_what_they_took() {
        let matches = |pattern: &str, name: &str| Glob::new(pattern).matches(name);
        assert!(matches("*a*b", "xaxbab"));
        assert!(!matches("*a*b", "xaxba"));
        assert!(matches("*", "") && matches("**", "x") && matches("a", "a"));
        assert!(!matches("", "a") && !matches("a?", "a") && !matches("a", "ab"));
    }

    #[test]
    fn beginnings_of_names() {
        let may = |pattern: &str, start: &str| Glob::new(pattern).may_begin_with(start);
        assert!(may("*", "a-") && may("a*", "a-") && may("a-p0?", "a-") && may("a-p00", "a-"));
        assert!(!may("b*", "a-") && !may("ab*", "a-") && !may("a", "a-"));
    }
}
