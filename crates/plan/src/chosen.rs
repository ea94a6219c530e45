//! The choice of the objects of a file that fly: patterns of names and catalogue numbers.

use constel_scenario::model::{Chosen, NodesNamed};
use constel_scenario::{Diagnostics, Glob, LeftOut, nearest};

/// The patterns `only` and `except` of a file. Case does not matter.
pub(crate) struct Chooser<'a> {
    only: Option<Vec<Pattern<'a>>>,
    except: Vec<Pattern<'a>>,
}

struct Pattern<'a> {
    written: &'a NodesNamed,
    folded: Glob,
    used: bool,
}

impl Pattern<'_> {
    fn all(named: &[NodesNamed]) -> Vec<Pattern<'_>> {
        let pattern = |written| Pattern {
            written,
            folded: Glob::new(&folded(&written.glob.to_string())),
            used: false,
        };
        named.iter().map(pattern).collect()
    }

    fn takes(&mut self, called: &[String]) -> bool {
        let takes = called.iter().any(|text| self.folded.matches(text));
        self.used |= takes;
        takes
    }
}

/// Normalises a name: comparison ignores case and surrounding blanks.
fn folded(text: &str) -> String {
    text.trim().to_lowercase()
}

/// Returns the forms of a catalogue number: plain, and as two-line elements print it, in five columns, the first of which is a
/// letter from 100,000 on (Alpha-5, without I and O).
fn forms(number: u64) -> Vec<String> {
    const LETTERS: &[u8] = b"abcdefghjklmnpqrstuvwxyz";
    let mut forms = vec![number.to_string()];
    let (first, rest) = (number / 10_000, number % 10_000);
    match first.checked_sub(10) {
        None if number < 10_000 => forms.push(format!("{number:05}")),
        None => {}
        Some(first) => {
            let letter = usize::try_from(first).ok().and_then(|n| LETTERS.get(n));
            forms.extend(letter.map(|letter| format!("{}{rest:04}", char::from(*letter))));
        }
    }
    forms
}

impl<'a> Chooser<'a> {
    pub(crate) fn new(chosen: &'a Chosen) -> Self {
        Self {
            only: chosen.only.as_deref().map(Pattern::all),
            except: Pattern::all(&chosen.except),
        }
    }

    /// Returns for each object, given by name and number, whether it flies, or why not. Returns `None` if a pattern
    /// matches no object, and reports that error at the pattern's place. If the pattern matches an object in `unread`,
    /// the error names that as the cause.
    pub(crate) fn choose(
        mut self,
        objects: impl Iterator<Item = (Option<String>, Option<u64>)> + Clone,
        unread: &[LeftOut],
        errors: &mut Diagnostics,
    ) -> Option<Vec<Result<(), String>>> {
        let mut chosen = Vec::new();
        for (name, number) in objects.clone() {
            let name = name.map(|name| folded(&name));
            let called: Vec<String> = name
                .into_iter()
                .chain(number.into_iter().flat_map(forms))
                .collect();
            let takes = |patterns: &mut Vec<Pattern<'_>>| {
                // Every pattern is tried, even after a match, so that unused patterns can be reported.
                let mut first = None;
                for pattern in patterns.iter_mut() {
                    if pattern.takes(&called) && first.is_none() {
                        first = Some(pattern.written.glob.to_string());
                    }
                }
                first
            };
            let wanted = self.only.as_mut().is_none_or(|only| takes(only).is_some());
            chosen.push(match (wanted, takes(&mut self.except)) {
                (_, Some(pattern)) => Err(format!("`except` has `{pattern}`")),
                (false, None) => Err("none of the patterns of `only` is of it".to_owned()),
                (true, None) => Ok(()),
            });
        }
        let mut good = true;
        let patterns = self.only.iter().flatten().chain(&self.except);
        for pattern in patterns.filter(|pattern| !pattern.used) {
            good = false;
            let text = pattern.written.glob.to_string();
            let unread = unread.iter().find(|out| {
                let name = out.object.as_deref();
                name.is_some_and(|name| pattern.folded.matches(&folded(name)))
            });
            if let Some(LeftOut { object, reason, .. }) = unread {
                let name = object.as_deref().unwrap_or_default();
                let message = format!("`{name}` cannot be read: {reason}");
                let error = pattern.written.error("unknown-object", message);
                errors.push(error.with_next("repair its record, or take the pattern out"));
                continue;
            }
            let message = format!("no object of the file is called `{text}`");
            let mut error = pattern.written.error("unknown-object", message);
            let names: Vec<String> = objects.clone().filter_map(|(name, _)| name).collect();
            if let Some(near) = nearest(&text, names.iter().map(String::as_str)) {
                error = error.with_suggestion(format!("`{near}`?"));
            }
            errors.push(error);
        }
        good.then_some(chosen)
    }
}
