//! A box's rules, read from a file of their own or out of a scenario that is a box.

mod matching;
mod paths;

use constel_link::rules::{Action, Rule, Rules, shadowed};

use super::inputs::Inputs;
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::files::Files;
use crate::model::RuleFile;
use crate::parse::{Document, read, text_of};
use crate::raw::{Name, PassOrDrop, RawAction, RawRule, RawRuleFile};
use crate::schema::{RULES, as_written};
use crate::walk::Seg::{self, Index, Key};

/// Reads a file of rules of a box: form, values, and the files it names.
///
/// # Errors
/// Everything that is wrong with its form and its values.
pub fn read_rules(
    file_name: &str,
    bytes: &[u8],
    files: &dyn Files,
) -> Result<RuleFile, Diagnostics> {
    let text = text_of(file_name, bytes)?;
    read(file_name, text, &RULES, |raw, document| {
        rule_file(raw, &document, files)
    })
}

fn rule_file(
    mut raw: RawRuleFile,
    document: &Document,
    files: &dyn Files,
) -> Result<RuleFile, Diagnostics> {
    let mut errors = Diagnostics::new();
    let mut inputs = Inputs::new(document, files);
    let place = Place(&["rules"]);
    let rules = place.rules(document, &mut raw.rules, &mut inputs, &mut errors);
    let inputs = inputs.finish();
    errors.or(())?;
    let warnings = place.warnings(document, &rules);
    Ok(RuleFile {
        seed: raw.seed,
        rules,
        written: raw.rules.iter().map(as_written).collect(),
        inputs,
        warnings,
        source: document.source().clone(),
    })
}

/// The place of the rules in a document.
#[derive(Clone, Copy)]
pub(super) struct Place(pub(super) &'static [&'static str]);

impl Place {
    fn of(self, index: usize) -> Vec<Seg<'static>> {
        let keys = self.0.iter().map(|key| Key(key));
        keys.chain([Index(index)]).collect()
    }

    /// Returns the rules at that place; rules without a name get one.
    pub(super) fn rules(
        self,
        document: &Document,
        raw: &mut [RawRule],
        inputs: &mut Inputs<'_>,
        errors: &mut Diagnostics,
    ) -> Rules {
        self.name_all(document, raw, errors);
        let mut rules = Vec::with_capacity(raw.len());
        for (index, rule) in raw.iter().enumerate() {
            let mut reader = RuleReader {
                document,
                place: self.of(index),
                inputs: &mut *inputs,
                errors: &mut *errors,
            };
            rules.push(reader.rule(rule));
        }
        // The form has no more than there can be.
        Rules::new(rules).unwrap_or_default()
    }

    /// Gives rules without a name theirs, and finds names given twice.
    fn name_all(self, document: &Document, rules: &mut [RawRule], errors: &mut Diagnostics) {
        let mut known: std::collections::HashMap<String, usize> = std::collections::HashMap::new();
        for (place, rule) in rules.iter_mut().enumerate() {
            let name = match &rule.name {
                Some(name) => name.to_string(),
                None => format!("rule-{}", place + 1),
            };
            let Some(before) = known.insert(name.clone(), place) else {
                rule.name = rule.name.clone().or_else(|| name.parse::<Name>().ok());
                continue;
            };
            let at = [self.of(place), vec![Key("name")]].concat();
            let line = document.place(&self.of(before), false).line;
            let message = format!("two rules are called `{name}`");
            let error = document.error_at(&at, "duplicate-name", message);
            errors.push(error.with_reason(format!("the other one is at line {line}")));
        }
    }

    /// Interfaces that rules name and the box has not.
    pub(super) fn interfaces(
        self,
        document: &Document,
        (rules, names, routes): (&Rules, &[String], bool),
        errors: &mut Diagnostics,
    ) {
        for odd in rules.odd_interfaces(names, routes) {
            let at = [self.of(odd.rule), vec![Key("match"), Key(odd.key)]].concat();
            let message = format!("`{}: {}` takes nothing", odd.key, odd.interface);
            let error = document.error_at(&at, "no-interface", message);
            errors.push(error.with_reason(odd.why));
        }
    }

    /// Rules that are never reached.
    pub(super) fn warnings(self, document: &Document, rules: &Rules) -> Vec<Diagnostic> {
        let name = |place: usize| rules.get(place).map_or("", |rule| rule.name.as_str());
        let shadows = shadowed(rules);
        let mut warnings = Vec::new();
        for both in shadows.chunk_by(|a, b| (a.rule, a.by) == (b.rule, b.by)) {
            let shadow = both[0];
            let line = document.place(&self.of(shadow.by), false).line;
            let way = match (both.len(), rules.get(shadow.rule)) {
                (1, Some(rule)) if rule.forward.is_some() && rule.reverse.is_some() => {
                    format!(" {}", shadow.direction.as_str())
                }
                _ => String::new(),
            };
            let message = format!("rule `{}` is never reached{way}", name(shadow.rule));
            let warning = document
                .error_at(&self.of(shadow.rule), "shadowed", message)
                .with_reason(format!(
                    "rule `{}`, at line {line}, takes all frames that it would take",
                    name(shadow.by)
                ))
                .with_suggestion("put the narrower rule before the wider one");
            warnings.push(warning);
        }
        warnings
    }
}

/// The context of reading one rule.
struct RuleReader<'a, 'i> {
    document: &'a Document,
    place: Vec<Seg<'static>>,
    inputs: &'a mut Inputs<'i>,
    errors: &'a mut Diagnostics,
}

impl RuleReader<'_, '_> {
    fn at<'p>(&self, keys: &[&'p str]) -> Vec<Seg<'p>> {
        let keys = keys.iter().map(|key| Key(key));
        self.place.iter().copied().chain(keys).collect()
    }

    fn rule(&mut self, raw: &RawRule) -> Rule {
        let matching = self.matching(&raw.matching);
        let both = raw.both.as_ref();
        for (key, action) in [("forward", &raw.forward), ("reverse", &raw.reverse)] {
            if both.is_some() && action.is_some() {
                let message = format!("`both` and `{key}` cannot be given together");
                let error = self
                    .document
                    .error_at_key(&self.at(&[key]), "choose-one", message)
                    .with_suggestion("give `forward` and `reverse`");
                self.errors.push(error);
            }
        }
        let mut action = |key, raw: Option<&RawAction>| raw.map(|raw| self.action(key, raw));
        let both = action("both", both);
        let forward = action("forward", raw.forward.as_ref()).or_else(|| both.clone());
        let reverse = action("reverse", raw.reverse.as_ref()).or(both);
        if forward.is_none() && reverse.is_none() {
            let error = self
                .document
                .error_at(
                    &self.at(&[]),
                    "choose-one",
                    "one of `both`, `forward`, `reverse` is missing",
                )
                .with_reason("a rule defines what happens to its frames")
                .with_suggestion("add `both: pass`, `both: drop` or `both: {delay: 100 ms}`");
            self.errors.push(error);
        }
        Rule {
            name: raw
                .name
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default(),
            matching,
            forward,
            reverse,
        }
    }

    fn action(&mut self, key: &str, raw: &RawAction) -> Action {
        match raw {
            RawAction::Word(PassOrDrop::Pass) => Action::Pass,
            RawAction::Word(PassOrDrop::Drop) => Action::Drop,
            RawAction::Path(path) => Action::Path(Box::new(self.path(key, path))),
        }
    }
}
