//! The variables that a service's programs find.

use std::collections::BTreeMap;

use constel_scenario::yaml::{Node, Value};

use super::Of;
use crate::compose::tree::is_nothing;
use crate::compose::words::Variables;
use crate::text::shown;

impl Of<'_, '_> {
    /// Variables, as a list or as a mapping, over those of files.
    pub(super) fn environment(&mut self) -> Vec<(String, String)> {
        let mut all = BTreeMap::new();
        self.environment_of_files(&mut all);
        let Some(node) = self.take("environment") else {
            return all.into_iter().collect();
        };
        let what = self.key("environment");
        let reader = &mut self.project.reader;
        let mut said: Vec<(String, Option<String>)> = Vec::new();
        if let Value::Sequence(list) = &node.value {
            for node in list {
                let Some(text) = reader.text(node, &what) else {
                    continue;
                };
                said.push(match text.split_once('=') {
                    Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                    None => (text, None),
                });
            }
        } else {
            for entry in reader.map(node, &what).entries {
                let nothing = is_nothing(&entry.value);
                let value = match nothing {
                    true => None,
                    false => reader.text(&entry.value, &what),
                };
                if nothing || value.is_some() {
                    said.push((entry.key.clone(), value));
                }
            }
        }
        for (name, value) in said {
            let value = value.or_else(|| self.project.reader.variables.known.get(&name).cloned());
            match value {
                Some(value) => self.variable(&mut all, name, value),
                None => {
                    let key = format!("environment.{}", shown(&name));
                    self.note_of(
                        &key,
                        "it is to be taken from where Compose runs, and has no value in `.env`",
                    );
                }
            }
        }
        all.into_iter().collect()
    }

    fn environment_of_files(&mut self, all: &mut BTreeMap<String, String>) {
        let Some(node) = self.take("env_file") else {
            return;
        };
        let what = self.key("env_file");
        let nodes: &[Node] = match &node.value {
            Value::Sequence(list) => list,
            _ => std::slice::from_ref(node),
        };
        for node in nodes {
            let (node, required) = match node.get("path") {
                Some(path) => (&path.value, node.get("required").map(|entry| &entry.value)),
                None => (node, None),
            };
            let required = required.is_none_or(|node| self.project.reader.yes(node, &what));
            let Some(path) = self.project.reader.text(node, &what) else {
                continue;
            };
            match (self.project.beside)(&path) {
                Ok(Some(text)) => {
                    for (name, value) in Variables::read(&text) {
                        self.variable(all, name, value);
                    }
                }
                Ok(None) if !required => {}
                unread => {
                    let reason = unread.err();
                    let reason = reason.unwrap_or_else(|| "there is no such file".to_owned());
                    let reason = format!("{what}: `{}` cannot be read: {reason}", shown(&path));
                    self.project.reader.wrong(node, reason);
                }
            }
        }
    }

    fn variable(&mut self, all: &mut BTreeMap<String, String>, name: String, value: String) {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.chars().all(fits) && name.starts_with(|c: char| !c.is_ascii_digit()) {
            all.insert(name, value);
            return;
        }
        let key = format!("environment.{}", shown(&name));
        self.note_of(
            &key,
            "names of variables are made of letters, digits and `_`",
        );
    }
}
