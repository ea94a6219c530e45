//! Manual changes. A machine that receives one distributes it to all machines through the store, before the lab time at
//! which all apply it.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use super::keys;
use super::model::{ChangeEntry, LabDescription};
use super::part::{Own, TRY_EVERY};
use super::speech::ChangeMessage;
use crate::store::{Entry, Outcome, Revision, Txn};

/// A change is discarded if the store is unreachable for longer than this.
const TOLD_WITHIN: Duration = Duration::from_secs(5);
/// Time for which a change stays in the store. A machine that has not read it by then is lost.
const KEPT: Duration = Duration::from_secs(60);

/// Changes that this machine received, and changes of all machines that its worker has not received yet.
#[derive(Default)]
pub(super) struct Changes {
    asked: VecDeque<PendingChange>,
    tried: Option<Instant>,
    /// Keys in the store that must be removed later.
    kept: VecDeque<(Instant, String)>,
    /// Received changes by the revision of the store that brought them.
    heard: BTreeMap<Revision, ChangeMessage>,
}

struct PendingChange {
    since: Instant,
    number: u64,
    what: serde_json::Value,
}

impl Changes {
    /// Queues a change that this machine received.
    pub(super) fn ask(&mut self, number: u64, what: serde_json::Value) {
        let since = Instant::now();
        self.asked.push_back(PendingChange {
            since,
            number,
            what,
        });
    }

    /// Handles a new key of a lab. `made` is the revision at which the lab's order was written.
    pub(super) fn learn(
        &mut self,
        order: &LabDescription,
        made: Revision,
        key: &str,
        entry: &Entry,
    ) {
        let Some(rest) = key.strip_prefix(&keys::changes(&order.lab)) else {
            return;
        };
        // The machine and its number of the change are in the key, so that a repeated attempt writes the same key.
        let named = rest.rsplit_once('/');
        let named = named.and_then(|(machine, number)| Some((machine, number.parse().ok()?)));
        let changed: Option<ChangeEntry> = serde_json::from_slice(&entry.value).ok();
        let changed = changed.filter(|changed| changed.order == made);
        let (Some((machine, number)), Some(changed)) = (named, changed) else {
            return;
        };
        let mut machines = order.machines.iter();
        if let Some(by) = machines.position(|known| known.name == machine) {
            let ChangeEntry { at_ns, what, .. } = changed;
            let changing = ChangeMessage {
                by,
                number,
                at_ns,
                what,
            };
            // Sorted by revision, because all machines must apply changes of one instant in the same order.
            self.heard.insert(entry.created, changing);
        }
    }

    /// Returns the changes since the last call, in the order in which they were stored.
    pub(super) fn take(&mut self) -> impl Iterator<Item = ChangeMessage> {
        std::mem::take(&mut self.heard).into_values()
    }
}

impl Own<'_> {
    /// Sends this machine's changes to all machines, and removes from the store what all have read. Lab time zero is at
    /// `zero_ns` of the machines' common clock.
    pub(super) fn send_changes(&mut self, zero_ns: u64) {
        let (store, lab) = (self.keeper.store.as_ref(), &self.order.lab);
        let changes = &mut self.changes;
        while let Some((since, key)) = changes.kept.front()
            && since.elapsed() >= KEPT
        {
            // A key that cannot be removed disappears with the lab.
            let _ = store.delete(key);
            changes.kept.pop_front();
        }
        // A store that did not answer gets no new request at each turn of the loop.
        if changes.tried.is_some_and(|at| at.elapsed() < TRY_EVERY) {
            return;
        }
        changes.tried = None;
        while let Some(asked) = self.changes.asked.front() {
            if asked.since.elapsed() >= TOLD_WITHIN {
                // The requester has already got an error after this time.
                self.changes.asked.pop_front();
                continue;
            }
            let changed = ChangeEntry {
                order: self.part.order,
                // Computed for each attempt: the time of a failed one may have passed already.
                at_ns: self.known_by_ns(zero_ns),
                what: asked.what.clone(),
            };
            let key = keys::change(lab, self.keeper.name, asked.number);
            match self.put_once(key.clone(), &changed, Txn::new()) {
                // `Refused` means that an earlier attempt succeeded, or that this machine has lost its name.
                Ok(Outcome::Committed { .. } | Outcome::Refused) => {
                    let changes = &mut self.changes;
                    changes.kept.push_back((Instant::now(), key));
                    changes.asked.pop_front();
                }
                Err(_) => {
                    self.changes.tried = Some(Instant::now());
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::labs::model::Node;
    use crate::underlay::MachineTransport;
    use serde_json::json;

    fn order() -> LabDescription {
        let node = |name: &str| Node {
            name: name.to_owned(),
            weight: 1,
            capacity: None,
        };
        LabDescription {
            version: String::new(),
            lab: "l".to_owned(),
            by: (String::new(), 1),
            machines: vec![node("a"), node("b")],
            place: String::new(),
            pins: Vec::new(),
            duration_ns: None,
            traffic: false,
            goes_on: false,
            moves: false,
            between: MachineTransport::Udp,
            encrypted: false,
            files: Vec::new(),
        }
    }

    fn entry(order: Revision, created: Revision, what: u64) -> Entry {
        let changed = ChangeEntry {
            order,
            at_ns: 5,
            what: json!(what),
        };
        Entry {
            value: serde_json::to_vec(&changed).unwrap(),
            created,
            modified: created,
            lease: None,
        }
    }

    #[test]
    fn all_hear_the_same_changes_of_this_lab_in_the_order_in_which_they_came() {
        let (order, mut changes) = (order(), Changes::default());
        let mut learn = |machine: &str, number, entry: &Entry| {
            changes.learn(&order, 7, &keys::change("l", machine, number), entry);
        };
        // A listing is sorted by name, so it does not show the order of the changes.
        learn("a", 10, &entry(7, 22, 2));
        learn("a", 9, &entry(7, 20, 0));
        learn("b", 0, &entry(7, 21, 1));
        learn("a", 8, &entry(6, 19, 9));
        learn("nobody", 1, &entry(7, 23, 9));
        changes.learn(&order, 7, &keys::go("l"), &entry(7, 24, 9));
        changes.learn(&order, 7, &keys::change("other", "a", 1), &entry(7, 25, 9));
        let heard = changes.take();
        let heard = heard.map(|one| (one.by, one.number, one.what));
        let wanted = [(0, 9, json!(0)), (1, 0, json!(1)), (0, 10, json!(2))];
        assert_eq!(heard.collect::<Vec<_>>(), wanted);
        assert_eq!(changes.take().count(), 0, "told once");
    }
}
