//! The state of a lab's parts from the store, for its controller and for each of its machines.

use std::collections::BTreeMap;

use super::keys;
use super::model::{Loss, NodesReturned, Phase, SharedEvent, Takeover, WorkerRecord};
use crate::store::{Entry, Revision};

/// The state of the parts of one lab.
pub(super) struct Parts {
    lab: String,
    /// The order of this lab. Keys of an earlier lab with the same name are ignored.
    order: Revision,
    pub(super) known: BTreeMap<String, WorkerRecord>,
    /// Machines whose agent is gone, with the last state of their parts.
    pub(super) lost: BTreeMap<String, WorkerRecord>,
    /// Machines that the lab continues without.
    pub(super) losses: BTreeMap<String, Loss>,
    /// The takeovers, by lost machine and by machine that takes nodes over.
    pub(super) taken: BTreeMap<(String, String), Takeover>,
    /// Events that all machines follow, by the revision that brought them.
    agreed: BTreeMap<Revision, SharedEvent>,
}

impl Parts {
    pub(super) fn new(lab: &str, order: Revision) -> Self {
        Self {
            lab: lab.to_owned(),
            order,
            known: BTreeMap::new(),
            lost: BTreeMap::new(),
            losses: BTreeMap::new(),
            taken: BTreeMap::new(),
            agreed: BTreeMap::new(),
        }
    }

    /// Handles a change of a key of the lab.
    pub(super) fn learn_entry(&mut self, key: &str, entry: Option<&Entry>) {
        let value = entry.map(|entry| entry.value.as_slice());
        self.learn(key, value, entry.map_or(0, |entry| entry.created));
    }

    /// Handles a change of a key of the lab. `created` is the revision at which the key was written, if it exists.
    fn learn(&mut self, key: &str, value: Option<&[u8]>, created: Revision) {
        // A lab of the same name may have left keys that have not expired yet, so each value names its order.
        if let Some(machine) = key.strip_prefix(&keys::losses(&self.lab)) {
            let loss = value.and_then(|text| serde_json::from_slice::<Loss>(text).ok());
            if let Some(loss) = loss.filter(|loss| loss.order == self.order) {
                let machine = machine.to_owned();
                self.losses.insert(machine.clone(), loss.clone());
                // The revision of the key is its position in time: a listing of the store is sorted by name instead.
                self.agreed
                    .insert(created, SharedEvent::Lost { machine, loss });
            }
            return;
        }
        if let Some(machine) = key.strip_prefix(&keys::backs(&self.lab)) {
            let back = value.and_then(|text| serde_json::from_slice::<NodesReturned>(text).ok());
            if let Some(back) = back.filter(|back| back.order == self.order) {
                let machine = machine.to_owned();
                self.agreed
                    .insert(created, SharedEvent::Back { machine, back });
            }
            return;
        }
        // A key below `taken` has two names: the lost machine, and the one that has its nodes now.
        if let Some(names) = key.strip_prefix(&keys::taken(&self.lab)) {
            let took = value.and_then(|text| serde_json::from_slice::<Takeover>(text).ok());
            let took = took.filter(|took| took.order == self.order);
            if let (Some(took), Some((lost, taker))) = (took, names.split_once('/')) {
                let names = (lost.to_owned(), taker.to_owned());
                self.taken.insert(names, took);
            }
            return;
        }
        let Some(name) = key.strip_prefix(&keys::parts(&self.lab)) else {
            return;
        };
        // An agent that joins again is a new one, so its machine stays lost.
        if self.lost.contains_key(name) {
            return;
        }
        let Some(value) = value else {
            // A part that has ended and reported everything is not lost.
            let is_down = |part: &WorkerRecord| part.phase == Phase::Ended;
            if !self.known.get(name).is_some_and(is_down)
                && let Some(before) = self.known.remove(name)
            {
                self.lost.insert(name.to_owned(), before);
            }
            return;
        };
        let part: Option<WorkerRecord> = serde_json::from_slice(value).ok();
        if let Some(part) = part.filter(|part| part.order == self.order) {
            self.known.insert(name.to_owned(), part);
        }
    }

    /// Returns the events so far, in the sequence in which the store got them.
    pub(super) fn agreed(&self) -> impl Iterator<Item = &SharedEvent> {
        self.agreed.values()
    }

    /// Returns the revision at which a machine was declared lost.
    pub(super) fn lost_at(&self, name: &str) -> Option<Revision> {
        let is_it = |agreed: &SharedEvent| matches!(agreed, SharedEvent::Lost { machine, .. } if machine == name);
        let mut all = self.agreed.iter();
        all.find(|(_, agreed)| is_it(agreed)).map(|(at, _)| *at)
    }

    /// Returns whether a lost machine's nodes have returned.
    pub(super) fn is_back(&self, name: &str) -> bool {
        let is_it = |agreed: &SharedEvent| matches!(agreed, SharedEvent::Back { machine, .. } if machine == name);
        self.agreed.values().any(is_it)
    }

    /// Returns those machines that have created their shares of a lost machine's nodes, or `None` if one is neither ready
    /// nor lost.
    pub(super) fn ready<'n>(
        &self,
        lost: &str,
        takers: impl Iterator<Item = &'n str>,
    ) -> Option<Vec<String>> {
        let mut ready = Vec::new();
        for taker in takers {
            let took = self.taken.get(&(lost.to_owned(), taker.to_owned()));
            match took {
                // A taker that is lost itself will never be ready, and the others must not wait for it.
                _ if self.losses.contains_key(taker) => {}
                Some(Takeover { failure: None, .. }) => ready.push(taker.to_owned()),
                Some(_) => {}
                // Links of the nodes return everywhere at one instant, so all wait for the slowest taker.
                None => return None,
            }
        }
        Some(ready)
    }

    /// Returns whether the machine has never reported.
    pub(super) fn is_silent(&self, name: &str) -> bool {
        !self.known.contains_key(name) && !self.lost.contains_key(name)
    }

    /// Returns the number of nodes that a machine had.
    pub(super) fn nodes(&self, name: &str) -> usize {
        let part = self.known.get(name).or_else(|| self.lost.get(name));
        let standing = part.and_then(|part| part.standing.as_ref());
        standing.map_or(0, |standing| standing.nodes as usize)
    }

    /// Returns whether every machine is lost or has ended, so that no report is missing.
    pub(super) fn all_over(&self, names: &[&str]) -> bool {
        names.iter().all(|name| {
            let known = self.known.get(*name);
            self.lost.contains_key(*name) || known.is_some_and(|part| part.phase == Phase::Ended)
        })
    }

    /// Returns whether every machine that ever reported has ended.
    pub(super) fn known_over(&self) -> bool {
        let mut known = self.known.values();
        known.all(|part| part.phase == Phase::Ended)
    }

    /// Returns the reason why a machine does not run its part, if any.
    pub(super) fn trouble(&self, name: &str) -> Option<String> {
        // The loss of the agent explains more than the failure that its part reported last.
        if let Some(before) = self.lost.get(name) {
            return Some(lost_in_words(before.phase));
        }
        self.known.get(name)?.failure.clone()
    }

    /// Returns the reason that ends the lab on all machines, if any.
    pub(super) fn why_to_end(&self, names: &[&str]) -> Option<String> {
        names
            .iter()
            .find_map(|name| Some(format!("machine {name}: {}", self.trouble(name)?)))
    }
}

fn lost_in_words(phase: Phase) -> String {
    let when = match phase {
        Phase::Listening => "while it came up",
        Phase::Ready => "while it waited for the others",
        Phase::Running | Phase::Ended => "in lab time",
    };
    format!("its agent ended or was cut off from the store {when}")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::agent::labs) fn part(
        phase: Phase,
        longest_ns: u64,
        clock_error_ns: u64,
    ) -> WorkerRecord {
        WorkerRecord {
            order: 7,
            phase,
            address: None,
            token: 3,
            clock_error_ns,
            one_way_ns: (1, longest_ns),
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
        parts.learn(&key("a"), Some(&text(Phase::Running)), 0);
        parts.learn(&key("b"), Some(&text(Phase::Running)), 0);
        parts.learn("constel/labs/lab/l/go", Some(b"{}"), 0);
        assert!(!parts.all_over(&names) && parts.why_to_end(&names).is_none());
        // The value belongs to an earlier lab with the same name.
        let other = WorkerRecord {
            order: 6,
            ..part(Phase::Ended, 0, 0)
        };
        parts.learn(&key("a"), Some(&serde_json::to_vec(&other).unwrap()), 0);
        assert!(!parts.known_over());
        parts.learn(&key("b"), None, 0);
        let why = parts.why_to_end(&names).unwrap();
        assert!(
            why.contains("machine b") && why.contains("in lab time"),
            "{why}"
        );
        // A machine that joins again does not replace the lost one.
        parts.learn(&key("b"), Some(&text(Phase::Listening)), 0);
        assert!(parts.lost.contains_key("b") && !parts.known.contains_key("b"));
        assert!(!parts.is_silent("b"));
        parts.learn(&key("a"), Some(&text(Phase::Ended)), 0);
        assert!(parts.all_over(&names));
        // A part that has ended stays known after its key is gone.
        parts.learn(&key("a"), None, 0);
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
        parts.learn(&keys::loss("l", "b"), Some(&text(6)), 0);
        assert!(parts.losses.is_empty());
        parts.learn(&keys::loss("l", "b"), Some(&text(7)), 9);
        assert_eq!(parts.losses["b"].from_ns, 5);
        assert_eq!((parts.lost_at("b"), parts.lost_at("a")), (Some(9), None));
    }

    fn json(value: &impl serde::Serialize) -> Vec<u8> {
        serde_json::to_vec(value).unwrap()
    }

    #[test]
    fn all_go_by_what_came_first_and_wait_for_who_is_not_ready() {
        let mut parts = Parts::new("l", 7);
        let loss = |by: &str| Loss {
            order: 7,
            from_ns: 5,
            why: String::new(),
            by: by.to_owned(),
        };
        let back = NodesReturned {
            order: 7,
            from_ns: 6,
            ready: vec!["c".to_owned()],
            by: "c".to_owned(),
        };
        // A listing is sorted by name, so it does not show the order of the events.
        parts.learn(&keys::back("l", "a"), Some(&json(&back)), 14);
        parts.learn(&keys::loss("l", "a"), Some(&json(&loss("c"))), 12);
        parts.learn(&keys::loss("l", "b"), Some(&json(&loss("c"))), 13);
        let order = parts.agreed().map(|agreed| match agreed {
            SharedEvent::Lost { machine, .. } => format!("{machine} lost"),
            SharedEvent::Back { machine, .. } => format!("{machine} back"),
        });
        assert_eq!(order.collect::<Vec<_>>(), ["a lost", "b lost", "a back"]);
        assert!(parts.is_back("a") && !parts.is_back("b"));
        let took = |failure: Option<&str>| Takeover {
            order: 7,
            token: 3,
            failure: failure.map(str::to_owned),
        };
        let ready = |parts: &Parts| parts.ready("a", ["b", "c", "d"].into_iter());
        parts.learn(&keys::took("l", "a", "c"), Some(&json(&took(None))), 15);
        assert_eq!(ready(&parts), None, "d is not ready");
        parts.learn(
            &keys::took("l", "a", "d"),
            Some(&json(&took(Some("no memory")))),
            16,
        );
        assert_eq!(ready(&parts), Some(vec!["c".to_owned()]), "b is lost");
    }
}
