//! A Compose file's mappings: with the entries merged by `<<`, and with variables replaced.

use std::collections::BTreeSet;

use constel_scenario::yaml::{Core, Entry, Node, Value, core_type};

use super::words::Variables;
use crate::text::{Findings, shown};

/// A mapping; keys are taken out of it one by one, so that the unused ones remain.
pub(super) struct Map<'a> {
    pub(super) entries: Vec<&'a Entry>,
}

impl<'a> Map<'a> {
    pub(super) fn take(&mut self, key: &str) -> Option<&'a Node> {
        let at = self.entries.iter().position(|entry| entry.key == key)?;
        Some(&self.entries.remove(at).value)
    }
}

/// The errors and variables of the file that is being read.
#[derive(Default)]
pub(super) struct Reader {
    pub(super) wrong: Findings,
    pub(super) variables: Variables,
}

impl Reader {
    pub(super) fn wrong(&mut self, node: &Node, reason: String) {
        self.wrong.push(node.span.line as usize, reason);
    }

    /// Returns a mapping with all merged entries; the nearer of two equal keys counts. An empty value is an
    /// empty mapping.
    pub(super) fn map<'a>(&mut self, node: &'a Node, what: &str) -> Map<'a> {
        let (mut entries, mut seen) = (Vec::new(), BTreeSet::new());
        self.collect(node, what, &mut entries, &mut seen);
        Map { entries }
    }

    fn collect<'a>(
        &mut self,
        node: &'a Node,
        what: &str,
        into: &mut Vec<&'a Entry>,
        seen: &mut BTreeSet<&'a str>,
    ) {
        let own = match &node.value {
            Value::Mapping(own) => own,
            _ if is_nothing(node) => return,
            _ => {
                let kind = node.kind();
                self.wrong(node, format!("{what} is {kind}, and should be a mapping"));
                return;
            }
        };
        let mut mine = BTreeSet::new();
        for entry in own.iter().filter(|entry| entry.key != "<<") {
            if !mine.insert(entry.key.as_str()) {
                let key = shown(&entry.key);
                let line = entry.key_span.line as usize;
                self.wrong.push(line, format!("{what} has `{key}` twice"));
            } else if seen.insert(&entry.key) {
                into.push(entry);
            }
        }
        for taken in own.iter().filter(|entry| entry.key == "<<") {
            match &taken.value.value {
                // If several mappings are merged, the earlier one counts.
                Value::Sequence(list) => {
                    for node in list {
                        self.collect(node, what, into, seen);
                    }
                }
                _ => self.collect(&taken.value, what, into, seen),
            }
        }
    }

    /// Returns the elements of a list; an empty value is an empty list.
    pub(super) fn list<'a>(&mut self, node: &'a Node, what: &str) -> &'a [Node] {
        match &node.value {
            Value::Sequence(list) => list,
            _ if is_nothing(node) => &[],
            _ => {
                let kind = node.kind();
                self.wrong(node, format!("{what} is {kind}, and should be a list"));
                &[]
            }
        }
    }

    /// Returns a text or number with its variables replaced.
    pub(super) fn text(&mut self, node: &Node, what: &str) -> Option<String> {
        let Value::Scalar { text, .. } = &node.value else {
            let kind = node.kind();
            self.wrong(node, format!("{what} is {kind}, and should be a text"));
            return None;
        };
        match self.variables.fill(text, node.span.line) {
            Ok(text) => Some(text),
            Err(reason) => {
                self.wrong(node, format!("{what}: {reason}"));
                None
            }
        }
    }

    /// Returns a yes or no; any other value is an error.
    pub(super) fn yes(&mut self, node: &Node, what: &str) -> bool {
        let text = self.text(node, what).unwrap_or_default();
        match core_type(&text) {
            Core::Bool(value) => value,
            _ => {
                self.wrong(
                    node,
                    format!("{what} is `{}`, and should be true or false", shown(&text)),
                );
                false
            }
        }
    }
}

/// A key without a value.
pub(super) fn is_nothing(node: &Node) -> bool {
    matches!(&node.value, Value::Scalar { text, plain: true } if core_type(text) == Core::Null)
}
