//! Checks of the keys of a mapping.

use std::collections::HashSet;

use serde_json::Value as Json;

use super::{Seg, Walker};
use crate::diagnostic::nearest;
use crate::schema::{Resolved, follow};
use crate::tree::{Entry, Node, Value};

impl<'a> Walker<'a> {
    pub(super) fn duplicate(&mut self, node: &Node, entry: &'a Entry) {
        self.path.push(Seg::Key(&entry.key));
        let mut error = self.error(
            entry.key_span,
            "duplicate-key",
            format!("`{}` is given twice in the same mapping", entry.key),
        );
        if let Some(first) = node.get(&entry.key) {
            error = error.with_reason(format!(
                "it was given before, at line {} column {}",
                first.key_span.line, first.key_span.column
            ));
        }
        self.errors.push(error);
        self.path.pop();
    }

    /// Reports an unknown key; returns the known key that was probably meant.
    pub(super) fn unknown_key(
        &mut self,
        schema: Resolved<'a>,
        node: &Node,
        entry: &'a Entry,
    ) -> Option<&'a str> {
        let known: Vec<&str> = schema
            .get("properties")
            .and_then(Json::as_object)
            .map(|properties| properties.keys().map(String::as_str).collect())
            .unwrap_or_default();
        // A key that is present already cannot be the intended one.
        let free = known.iter().copied().filter(|key| node.get(key).is_none());
        let suggestion = nearest(&entry.key, free);
        self.path.push(Seg::Key(&entry.key));
        let mut error = self.error(
            entry.key_span,
            "unknown-key",
            format!("unknown key `{}`", entry.key),
        );
        // A key of an earlier form of the section.
        let instead = schema.get("x-instead").and_then(|all| all.get(&entry.key));
        if let Some(instead) = instead.and_then(Json::as_str) {
            let written = match &entry.value.value {
                Value::Scalar { text, .. } => text.as_str(),
                _ => "...",
            };
            error = error.with_suggestion(instead.replace("VALUE", written));
        } else if let Some(found) = suggestion {
            error = error.with_suggestion(format!("did you mean `{found}`?"));
        } else if entry.key == "box" && self.format.what == "scenario" {
            error = error.with_suggestion(
                "a scenario with `box` has keys of its own (docs/reference/box-scenario.md): it is run and checked, not planned",
            );
        } else if entry.key == "<<" {
            error = error.with_reason("merge keys are not part of YAML 1.2");
        } else if let Some(home) = self.home_of(&entry.key) {
            error = error.with_suggestion(format!("`{}` is a key of {home}", entry.key));
        }
        let error = error
            .with_allowed(known)
            .with_next(format!("see {}", self.format.reference));
        self.errors.push(error);
        self.path.pop();
        suggestion.filter(|_| instead.is_none())
    }

    /// Returns the other sections that have this key, for a key in the wrong section.
    pub(super) fn home_of(&self, key: &str) -> Option<String> {
        let has = |schema: &Json| {
            schema
                .get("properties")
                .is_some_and(|p| p.get(key).is_some())
        };
        let mut homes: Vec<String> = Vec::new();
        if has(self.root) {
            homes.push("the top level".into());
        }
        let definitions = self.root.get("$defs")?.as_object()?;
        homes.extend(
            definitions
                .iter()
                .filter(|(_, schema)| has(schema))
                .map(|(name, _)| format!("`{}`", name.to_lowercase())),
        );
        (!homes.is_empty() && homes.len() <= 3).then(|| homes.join(" and of "))
    }

    pub(super) fn required(
        &mut self,
        schema: Resolved<'a>,
        node: &Node,
        seen: &HashSet<&str>,
        meant: &HashSet<&str>,
    ) -> bool {
        let mut complete = true;
        let required = schema.get("required").and_then(Json::as_array);
        for key in required.into_iter().flatten().filter_map(Json::as_str) {
            if seen.contains(key) {
                continue;
            }
            complete = false;
            if meant.contains(key) {
                continue;
            }
            if let Some(child) = schema.get("properties").and_then(|p| p.get(key)) {
                self.mends.insert(&self.path, (key, child), self.root);
            }
            let child = schema.get("properties").and_then(|p| p.get(key));
            let child = child.map(|child| follow(self.root, child));
            let mut error = self.error(node.span, "missing-key", format!("missing key `{key}`"));
            if let Some(child) = child {
                let meaning = first_sentence(child.text("description").unwrap_or(""));
                error = error.with_reason(format!("`{key}` is required: {meaning}"));
                error =
                    error.with_suggestion(format!("add `{key}:` with {}", self.expected(child)));
            }
            let error = error.with_next(format!("see {}", self.format.reference));
            self.errors.push(error);
        }
        let Some(choices) = schema.exactly_one_key() else {
            return complete;
        };
        let given: Vec<&str> = choices
            .iter()
            .copied()
            .filter(|key| seen.contains(key))
            .collect();
        if given.len() == 1 {
            return complete;
        }
        if given.is_empty() && choices.iter().any(|choice| meant.contains(choice)) {
            return false;
        }
        let list = choices
            .iter()
            .map(|c| format!("`{c}`"))
            .collect::<Vec<_>>()
            .join(", ");
        let error = if let [_, second, ..] = given.as_slice() {
            let span = node.get(second).map_or(node.span, |entry| entry.key_span);
            self.error(
                span,
                "choose-one",
                format!("`{}` and `{second}` cannot be given together", given[0]),
            )
        } else {
            self.error(node.span, "choose-one", format!("one of {list} is missing"))
        };
        let error = error
            .with_reason(format!("exactly one of {list} is needed here"))
            .with_allowed(choices.iter().copied())
            .with_next(format!("see {}", self.format.reference));
        self.errors.push(error);
        let first = schema.get("properties").and_then(|p| p.get(choices[0]));
        match (given.is_empty(), first) {
            (true, Some(child)) => {
                self.mends
                    .insert(&self.path, (choices[0], child), self.root);
                self.mends.doubt(&self.path);
            }
            (true, None) => (),
            (false, _) => self.mends.keep_one(&self.path, given),
        }
        false
    }
}

/// Returns the first sentence of a description, on one line.
pub(super) fn first_sentence(text: &str) -> String {
    let paragraph = text.split("\n\n").next().unwrap_or("");
    let line = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.find(". ") {
        Some(end) => line[..=end].to_owned(),
        None => line,
    }
}
