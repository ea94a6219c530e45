//! The record of one node's stack: the differences that were found, and when.

use std::collections::{BTreeMap, BTreeSet};

use constel_topology::NodeId;

use super::wanted::Finding;

/// The number of listed differences of a node; further ones are only counted.
const LISTED: usize = 16;
/// The number of separate time spans; later ones are merged with the last.
const SPANS: usize = 1_024;

/// A comparison with another result than the one before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Changed {
    pub(crate) node: NodeId,
    /// The time by the machine's clock, nanoseconds.
    pub(crate) at_ns: u64,
    /// Differences that are new since the comparison before.
    pub(crate) changed: Vec<String>,
    /// Differences that Constel restored, new or old.
    pub(crate) restored: Vec<String>,
    /// Differences that remain.
    pub(crate) left: Vec<String>,
}

/// The times in which a node's stack differed from Constel's settings, and the differences.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Spans {
    /// Beginnings and ends by the machine's clock, nanoseconds, in order.
    pub(crate) spans: Vec<(u64, u64)>,
    /// The number of comparisons that found something new.
    pub(crate) times: u64,
    /// The first differences.
    pub(crate) listed: Vec<String>,
    /// Differences that remain.
    pub(crate) left: Vec<String>,
}

/// The findings so far.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// The present differences, by subject.
    open: BTreeMap<String, String>,
    /// The beginning of the present differences.
    since_ns: Option<u64>,
    spans: Vec<(u64, u64)>,
    times: u64,
    listed: BTreeSet<String>,
}

impl Record {
    /// Returns whether something differed at the last comparison.
    pub(super) fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Records a comparison: differences `before`, and those `left` after Constel repeated missing requests, with
    /// the refusal `problem`.
    pub(super) fn look(
        &mut self,
        node: NodeId,
        now_ns: u64,
        before: &[Finding],
        left: &[Finding],
        problem: Option<String>,
    ) -> Option<Changed> {
        let now: BTreeMap<String, String> = left
            .iter()
            .map(|found| (found.about.clone(), found.words.clone()))
            .collect();
        let known: BTreeSet<&String> = before.iter().map(|found| &found.about).collect();
        // A program that continues during the restoration may change more than the first comparison found.
        let meanwhile = left.iter().filter(|f| !known.contains(&f.about));
        let all = before.iter().chain(meanwhile);
        let new = all.filter(|f| !self.open.contains_key(&f.about));
        let mut changed: Vec<String> = new.map(|found| found.words.clone()).collect();
        let restored = before.iter().filter(|f| !now.contains_key(&f.about));
        let mut restored: Vec<String> = restored.map(|found| found.words.clone()).collect();
        // A difference that disappeared without a request was undone by the node itself.
        let over = self
            .open
            .iter()
            .filter(|(about, _)| !known.contains(about) && !now.contains_key(*about));
        restored.extend(over.map(|(_, words)| words.clone()));
        if before.is_empty()
            && let Some(problem) = &problem
        {
            // There is no difference, but the kernel refused a request: the cause is in the node.
            changed.push(format!("its kernel refuses: {problem}"));
        }
        for words in &changed {
            if self.listed.len() < LISTED {
                self.listed.insert(words.clone());
            }
        }
        self.times += u64::from(!changed.is_empty());
        self.follow(now_ns, !changed.is_empty(), !now.is_empty());
        let mut left: Vec<String> = now.values().cloned().collect();
        self.open = now;
        if changed.is_empty() && restored.is_empty() {
            return None;
        }
        if let (Some(problem), Some(last)) = (problem, left.last_mut()) {
            last.push_str(&format!(" ({problem})"));
        }
        Some(Changed {
            node,
            at_ns: now_ns,
            changed: few(changed),
            restored: few(restored),
            left: few(left),
        })
    }

    /// Updates the time spans of differences.
    fn follow(&mut self, now_ns: u64, changed: bool, open: bool) {
        // A change that was undone within one comparison is a span of length zero.
        match (self.since_ns, open) {
            (None, true) => self.since_ns = Some(now_ns),
            (Some(since_ns), false) => {
                self.since_ns = None;
                self.keep(since_ns, now_ns);
            }
            (None, false) if changed => self.keep(now_ns, now_ns),
            _ => {}
        }
    }

    fn keep(&mut self, from_ns: u64, to_ns: u64) {
        let full = self.spans.len() == SPANS;
        match self.spans.last_mut().filter(|_| full) {
            Some(last) => last.1 = to_ns,
            None => self.spans.push((from_ns, to_ns)),
        }
    }

    /// Returns the whole record; `None` if there never was a difference.
    pub(super) fn spans(&self, now_ns: u64) -> Option<Spans> {
        let mut spans = self.spans.clone();
        spans.extend(self.since_ns.map(|since_ns| (since_ns, now_ns)));
        (!spans.is_empty()).then(|| Spans {
            spans,
            times: self.times,
            listed: self.listed.iter().cloned().collect(),
            left: few(self.open.values().cloned().collect()),
        })
    }
}

/// Shortens a list that may be long.
fn few(mut all: Vec<String>) -> Vec<String> {
    let more = all.len().saturating_sub(LISTED);
    if more > 0 {
        all.truncate(LISTED);
        all.push(format!("and {more} more"));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::wanted::Cure;
    use super::*;

    fn down(name: &str) -> Finding {
        Finding {
            about: format!("link {name}"),
            words: format!("{name} is down"),
            cure: Cure::Node,
        }
    }

    /// `ip link set eth0 down; ip link set eth1 down`, with a look before the second command and one after it.
    #[test]
    fn what_changes_while_the_rest_is_restored_is_reported_once() {
        let mut record = Record::default();
        let (first, both) = ([down("eth0")], [down("eth0"), down("eth1")]);
        let look = |record: &mut Record, before: &[Finding], left: &[Finding]| {
            record.look(NodeId(0), 1, before, left, None)
        };
        let found = look(&mut record, &first, &both).unwrap();
        assert_eq!(found.changed, ["eth0 is down", "eth1 is down"]);
        assert_eq!(found.restored, [""; 0]);
        assert_eq!(look(&mut record, &both, &both), None);
        // One that stays different though the first look of the next moment did not see it is not over.
        assert_eq!(look(&mut record, &first, &both), None);
        let over = look(&mut record, &[], &[]).unwrap();
        assert_eq!(over.restored, ["eth0 is down", "eth1 is down"]);
        assert_eq!(record.spans(2).unwrap().times, 1);
    }
}
