//! What is known of a lab's parts from the store: by who leads it, and by each of its machines.

use std::collections::BTreeMap;

use constel_store::Revision;

use super::keys;
use super::model::{Loss, Part, Phase};

/// What is known of the parts of one lab.
pub(super) struct Parts {
    lab: String,
    /// Of which order they are: what is still there of a lab that had the name before is not ours.
    order: Revision,
    pub(super) known: BTreeMap<String, Part>,
    /// Machines whose agent is gone, with what was known of their parts.
    pub(super) lost: BTreeMap<String, Part>,
    /// Those that the lab goes on without.
    pub(super) losses: BTreeMap<String, Loss>,
}

impl Parts {
    pub(super) fn new(lab: &str, order: Revision) -> Self {
        Self {
            lab: lab.to_owned(),
            order,
            known: BTreeMap::new(),
            lost: BTreeMap::new(),
            losses: BTreeMap::new(),
        }
    }

    /// What happened to a key of the lab.
    pub(super) fn learn(&mut self, key: &str, value: Option<&[u8]>) {
        if let Some(name) = key.strip_prefix(&keys::losses(&self.lab)) {
            let loss = value.and_then(|text| serde_json::from_slice::<Loss>(text).ok());
            let loss = loss.filter(|loss| loss.order == self.order);
            self.losses.extend(loss.map(|loss| (name.to_owned(), loss)));
            return;
        }
        let Some(name) = key.strip_prefix(&keys::parts(&self.lab)) else {
            return;
        };
        // An agent that comes again is another one.
        if self.lost.contains_key(name) {
            return;
        }
        let Some(value) = value else {
            // One that is down and has told all is none that was lost.
            let is_down = |part: &Part| part.phase == Phase::Ended;
            if !self.known.get(name).is_some_and(is_down)
                && let Some(before) = self.known.remove(name)
            {
                self.lost.insert(name.to_owned(), before);
            }
            return;
        };
        let part: Option<Part> = serde_json::from_slice(value).ok();
        if let Some(part) = part.filter(|part| part.order == self.order) {
            self.known.insert(name.to_owned(), part);
        }
    }

    /// Nothing was ever heard of the machine.
    pub(super) fn is_silent(&self, name: &str) -> bool {
        !self.known.contains_key(name) && !self.lost.contains_key(name)
    }

    /// Nodes that a machine had.
    pub(super) fn nodes(&self, name: &str) -> usize {
        let part = self.known.get(name).or_else(|| self.lost.get(name));
        let standing = part.and_then(|part| part.standing.as_ref());
        standing.map_or(0, |standing| standing.nodes as usize)
    }

    /// Nobody is left who could say more.
    pub(super) fn all_over(&self, names: &[&str]) -> bool {
        names.iter().all(|name| {
            let known = self.known.get(*name);
            self.lost.contains_key(*name) || known.is_some_and(|part| part.phase == Phase::Ended)
        })
    }

    /// The same of those of which something was heard.
    pub(super) fn known_over(&self) -> bool {
        let mut known = self.known.values();
        known.all(|part| part.phase == Phase::Ended)
    }

    /// Why a machine does not do its part (any more), if that is so.
    pub(super) fn trouble(&self, name: &str) -> Option<String> {
        if let Some(before) = self.lost.get(name) {
            return Some(lost_in_words(before.phase));
        }
        self.known.get(name)?.failure.clone()
    }

    /// What ends the lab on all machines.
    pub(super) fn why_to_end(&self, names: &[&str]) -> Option<String> {
        names
            .iter()
            .find_map(|name| Some(format!("machine {name}: {}", self.trouble(name)?)))
    }
}

fn lost_in_words(phase: Phase) -> String {
    let when = match phase {
        Phase::Listening => "while it came up",
        Phase::Standing => "while it waited for the others",
        Phase::Running | Phase::Ended => "in lab time",
    };
    format!("its agent ended or was cut off from the store {when}")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::labs) fn part(phase: Phase, longest_ns: u64, clock_error_ns: u64) -> Part {
        Part {
            order: 7,
            phase,
            address: None,
            token: 3,
            clock_error_ns,
            way_ns: (1, longest_ns),
            standing: None,
            failure: None,
            files: Vec::new(),
        }
    }

    #[test]
    fn a_machine_that_goes_before_it_has_ended_is_lost_and_named() {
        let text = |phase| serde_json::to_vec(&part(phase, 0, 0)).unwrap();
        let names = ["a", "b"];
        let key = |name: &str| keys::part("l", name);
        let mut parts = Parts::new("l", 7);
        assert!(parts.is_silent("a"));
        parts.learn(&key("a"), Some(&text(Phase::Running)));
        parts.learn(&key("b"), Some(&text(Phase::Running)));
        parts.learn("constel/labs/lab/l/go", Some(b"{}"));
        assert!(!parts.all_over(&names) && parts.why_to_end(&names).is_none());
        // Of a lab that had the name before.
        let other = Part {
            order: 6,
            ..part(Phase::Ended, 0, 0)
        };
        parts.learn(&key("a"), Some(&serde_json::to_vec(&other).unwrap()));
        assert!(!parts.known_over());
        parts.learn(&key("b"), None);
        let why = parts.why_to_end(&names).unwrap();
        assert!(
            why.contains("machine b") && why.contains("in lab time"),
            "{why}"
        );
        // It comes again: that is not the one that was lost.
        parts.learn(&key("b"), Some(&text(Phase::Listening)));
        assert!(parts.lost.contains_key("b") && !parts.known.contains_key("b"));
        assert!(!parts.is_silent("b"));
        parts.learn(&key("a"), Some(&text(Phase::Ended)));
        assert!(parts.all_over(&names));
        // What it has told stays known.
        parts.learn(&key("a"), None);
        assert!(parts.all_over(&names) && !parts.lost.contains_key("a"));
    }

    #[test]
    fn a_loss_is_of_this_order_or_none() {
        let text = |order| {
            let (from_ns, why, by) = (5, String::new(), "a".to_owned());
            let loss = Loss {
                order,
                from_ns,
                why,
                by,
            };
            serde_json::to_vec(&loss).unwrap()
        };
        let mut parts = Parts::new("l", 7);
        parts.learn(&keys::loss("l", "b"), Some(&text(6)));
        assert!(parts.losses.is_empty());
        parts.learn(&keys::loss("l", "b"), Some(&text(7)));
        assert_eq!(parts.losses["b"].from_ns, 5);
    }
}
