//! The names and numbers of a lab's satellites in catalogues, from their element files.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use constel_scenario::{Called, nearest};
use constel_topology::{Layout, NodeId, pairs_named};
use serde::Serialize;

/// The name and number of a satellite in a catalogue.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Catalogued {
    /// The name in the file (`OBJECT_NAME` of an OMM), if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catalogue_name: Option<String>,
    /// The catalogue number (`NORAD_CAT_ID`); absent in ephemerides, which have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub norad_id: Option<u64>,
}

impl fmt::Display for Catalogued {
    /// As `STARLINK-1234, 44713`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.catalogue_name, self.norad_id) {
            (Some(name), Some(number)) => write!(f, "{name}, {number}"),
            (Some(name), None) => f.write_str(name),
            (None, Some(number)) => write!(f, "{number}"),
            (None, None) => f.write_str("-"),
        }
    }
}

/// The reason why a text does not name exactly one node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NodeNameError {
    /// No node has this name.
    #[error("no node is called '{text}'{}", .nearest.as_ref().map_or_else(String::new, |near| {
        format!("; nearest is '{near}'")
    }))]
    None {
        /// The requested name.
        text: String,
        /// The nearest name.
        nearest: Option<String>,
    },
    /// Several satellites have this name.
    #[error("'{text}' is what {} satellites are called: {}", .candidates.len(), .candidates.join("; "))]
    Several {
        /// The requested name.
        text: String,
        /// The names of the nodes, with their catalogue entries.
        candidates: Vec<String>,
    },
}

/// The catalogue entries of all satellites of a lab.
#[derive(Debug, Clone, Default)]
pub struct Catalogue {
    /// The entries by node number, with the node's name.
    entries: BTreeMap<NodeId, (String, Catalogued)>,
    by_number: BTreeMap<u64, Vec<NodeId>>,
    /// The nodes by name in lower case.
    by_name: BTreeMap<String, Vec<NodeId>>,
}

/// Normalises a name: comparison ignores case and surrounding blanks.
fn folded(name: &str) -> String {
    name.trim().to_lowercase()
}

impl Catalogue {
    /// Creates the catalogue from all satellites of the lab in node order, each with its node name; `None` for
    /// satellites without a catalogue.
    pub(crate) fn new<'a>(
        satellites: impl IntoIterator<Item = (&'a str, Option<Catalogued>)>,
    ) -> Self {
        let mut catalogue = Self::default();
        for ((name, entry), number) in satellites.into_iter().zip(0..) {
            let (node, Some(entry)) = (NodeId(number), entry) else {
                continue;
            };
            if let Some(id) = entry.norad_id {
                catalogue.by_number.entry(id).or_default().push(node);
            }
            if let Some(name) = &entry.catalogue_name {
                catalogue
                    .by_name
                    .entry(folded(name))
                    .or_default()
                    .push(node);
            }
            catalogue.entries.insert(node, (name.to_owned(), entry));
        }
        catalogue
    }

    /// Returns the catalogue entry of a node, if it has one.
    #[must_use]
    pub fn of(&self, node: NodeId) -> Option<&Catalogued> {
        self.entries.get(&node).map(|(_, entry)| entry)
    }

    /// Returns all satellites with a catalogue entry, by node number.
    pub fn all(&self) -> impl Iterator<Item = (NodeId, &Catalogued)> {
        self.entries.iter().map(|(node, (_, entry))| (*node, entry))
    }

    /// Returns whether no satellite has a catalogue entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the satellites with this catalogue name (in any case) or number.
    fn called(&self, text: &str) -> BTreeSet<NodeId> {
        let number: Option<u64> = text.trim().parse().ok();
        let by_number = number.and_then(|number| self.by_number.get(&number));
        let by_name = self.by_name.get(&folded(text));
        let both = by_number.into_iter().chain(by_name);
        both.flatten().copied().collect()
    }

    /// Resolves a name in a scenario file to a node name.
    pub(crate) fn resolve(&self, text: &str) -> Called {
        let found = self.called(text);
        let name = |node| self.entries.get(node).map(|(name, _)| name.clone());
        match found.len() {
            0 => Called::Nothing,
            1 => found
                .iter()
                .find_map(name)
                .map_or(Called::Nothing, Called::One),
            _ => Called::Several(self.in_words(&found)),
        }
    }

    /// Returns the nodes' names, each with its catalogue entry.
    fn in_words(&self, nodes: &BTreeSet<NodeId>) -> Vec<String> {
        let entries = nodes.iter().filter_map(|node| self.entries.get(node));
        entries
            .map(|(name, entry)| format!("{name} ({entry})"))
            .collect()
    }

    /// Returns the node that `text` names: by its own name, or by its catalogue name (in any case) or number.
    ///
    /// # Errors
    /// When no node has this name, or several satellites have it.
    pub fn find(&self, layout: &Layout, text: &str) -> Result<NodeId, NodeNameError> {
        if let Some(node) = layout.find(text) {
            return Ok(node.id);
        }
        let found = self.called(text);
        if let (Some(one), 1) = (found.first(), found.len()) {
            return Ok(*one);
        }
        let text = text.to_owned();
        if found.is_empty() {
            let names = layout.nodes().iter().map(|node| node.name.as_str());
            let called = self
                .all()
                .filter_map(|(_, entry)| entry.catalogue_name.as_deref());
            let nearest = nearest(&text, names.chain(called)).map(str::to_owned);
            return Err(NodeNameError::None { text, nearest });
        }
        let candidates = self.in_words(&found);
        Err(NodeNameError::Several { text, candidates })
    }

    /// Returns the catalogue entries of the nodes that are named in `texts`, each once, by node number. A text is a
    /// node's name, or two names with `-` between them.
    #[must_use]
    pub fn named_in<'a>(
        &self,
        layout: &Layout,
        texts: impl IntoIterator<Item = &'a str>,
    ) -> Vec<(NodeId, &Catalogued)> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut nodes = BTreeSet::new();
        for text in texts {
            let node = |text: &str| layout.find(text).map(|node| node.id);
            if let Some(one) = node(text) {
                nodes.insert(one);
                continue;
            }
            let pairs = pairs_named(text, node);
            nodes.extend(pairs.flat_map(|(a, b)| [a, b]));
        }
        let own = |node| Some((node, self.of(node)?));
        nodes.into_iter().filter_map(own).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::iridium;

    fn entry(name: &str, number: u64) -> Option<Catalogued> {
        Some(Catalogued {
            catalogue_name: Some(name.to_owned()),
            norad_id: Some(number),
        })
    }

    #[test]
    fn nodes_are_found_by_their_own_names_first_and_never_by_what_several_are_called() {
        let blueprint = iridium();
        let layout = &blueprint.lab.layout;
        // A spent stage and its debris share one name. One object's name is the number of another.
        let entries = [
            entry("ISS (ZARYA)", 25544),
            entry("IRIDIUM 33 DEB", 33776),
            entry("IRIDIUM 33 DEB", 33777),
            None,
            entry("33776", 7),
            entry("tokyo", 8),
        ];
        let names = layout.nodes().iter().map(|node| node.name.as_str());
        let catalogue = Catalogue::new(names.zip(entries));
        let find = |text| catalogue.find(layout, text);
        for text in [
            "ISS (ZARYA)",
            "iss (zarya)",
            " ISS (ZARYA) ",
            "25544",
            "iridium-p00-s00",
        ] {
            assert_eq!(find(text), Ok(NodeId(0)), "{text}");
        }
        assert_eq!(find("tokyo"), Ok(layout.find("tokyo").unwrap().id));
        assert_eq!(find("33777"), Ok(NodeId(2)));
        let said = |text| find(text).unwrap_err().to_string();
        assert_eq!(
            said("IRIDIUM 33 DEB"),
            "'IRIDIUM 33 DEB' is what 2 satellites are called: iridium-p00-s01 (IRIDIUM 33 DEB, 33776); \
             iridium-p00-s02 (IRIDIUM 33 DEB, 33777)"
        );
        let numbers = said("33776");
        assert!(numbers.contains("iridium-p00-s01") && numbers.contains("iridium-p00-s04"));
        assert_eq!(
            said("ISS (ZARIA)"),
            "no node is called 'ISS (ZARIA)'; nearest is 'ISS (ZARYA)'"
        );
        assert_eq!(
            catalogue.resolve("IRIDIUM 33 DEB"),
            Called::Several(vec![
                "iridium-p00-s01 (IRIDIUM 33 DEB, 33776)".to_owned(),
                "iridium-p00-s02 (IRIDIUM 33 DEB, 33777)".to_owned(),
            ])
        );
        assert_eq!(
            catalogue.resolve("25544"),
            Called::One("iridium-p00-s00".to_owned())
        );
        assert_eq!(catalogue.resolve("25545"), Called::Nothing);
    }

    #[test]
    fn links_name_both_their_ends() {
        let blueprint = iridium();
        let layout = &blueprint.lab.layout;
        let names = layout.nodes().iter().map(|node| node.name.as_str());
        let catalogue = Catalogue::new(names.zip([entry("A", 1), entry("B", 2), entry("C", 3)]));
        let named = |texts: &[&str]| -> Vec<u64> {
            let found = catalogue.named_in(layout, texts.iter().copied());
            found
                .into_iter()
                .filter_map(|(_, own)| own.norad_id)
                .collect()
        };
        assert_eq!(named(&["iridium-p00-s01-iridium-p00-s00", "tokyo"]), [1, 2]);
        assert_eq!(
            named(&["iridium-p00-s02", "iridium-p00-s02", "iridium-p03-s00"]),
            [3]
        );
        assert_eq!(
            Catalogue::default().named_in(layout, ["iridium-p00-s00"]),
            []
        );
    }
}
