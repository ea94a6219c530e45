//! How a lab continues without lost machines. All others must remove the same nodes at the same lab time. The first machine
//! that notices a loss therefore writes the time into the store, and all follow it.

use std::time::{Duration, Instant};

use serde::Serialize;

use super::keys;
use super::model::{Loss, SharedEvent, Takeover};
use super::part::{Own, WorkerState};
use super::process::Process;
use super::speech::{MachineLost, NodesReturnedMessage, ToWorker};
use crate::agent::clocks::mono_ns;
use crate::store::{Condition, Error, Outcome, Result, Txn};

/// Time within which all machines read a new key. A slower machine follows an outdated plan and counts as lost.
const KNOWN_WITHIN: Duration = Duration::from_millis(1_500);
/// Interval between two attempts to write that a machine is lost.
const PROPOSE_EVERY: Duration = Duration::from_secs(1);

impl Own<'_> {
    /// Continues without lost machines: forwards losses and returns from the store to the worker, and proposes new ones.
    pub(super) fn go_on(&mut self, heard: &mut WorkerState, process: &mut Process) {
        let places = self.order.machines.iter().map(|machine| &machine.name);
        let names: Vec<String> = places.cloned().collect();
        let place = |name: &str| names.iter().position(|known| known == name);
        // Events never change and are in the order of the store, so their number is enough to find the new ones.
        let news: Vec<SharedEvent> = self.parts.agreed().skip(heard.agreed).cloned().collect();
        heard.agreed += news.len();
        for agreed in news {
            match agreed {
                // The others have given up this machine, so its part must end instead of disturbing them.
                SharedEvent::Lost { machine, loss } if machine == self.keeper.name => {
                    let failure = format!("the others go on without it: {}", loss.why);
                    self.part.failure.get_or_insert(failure);
                    if heard.ends() {
                        process.say(&ToWorker::End);
                    }
                }
                SharedEvent::Lost { machine, loss } => {
                    let from_ns = loss.from_ns;
                    if let Some(machine) = place(&machine) {
                        process.say(&ToWorker::Lost(MachineLost { machine, from_ns }));
                    }
                }
                SharedEvent::Back { machine, back } => {
                    // The worker knows machines by their position in the order, and not by name.
                    let ready = back.ready.iter().filter_map(|name| place(name));
                    let ready = ready.collect();
                    let from_ns = back.from_ns;
                    if let Some(machine) = place(&machine) {
                        process.say(&ToWorker::Back(NodesReturnedMessage {
                            machine,
                            from_ns,
                            ready,
                        }));
                    }
                }
            }
        }
        // Several machines may propose the same. The store accepts the first proposal only, so repetitions are harmless, and
        // the interval keeps them few.
        let may = |tried: &Option<Instant>| tried.is_none_or(|at| at.elapsed() >= PROPOSE_EVERY);
        let zero_ns = heard.zero_ns;
        if may(&heard.proposed) && self.propose_losses(zero_ns) {
            heard.proposed = Some(Instant::now());
        }
        if may(&heard.took) && self.say_what_was_taken(&names) {
            heard.took = Some(Instant::now());
        }
        if may(&heard.returned) && self.propose_returns(&names, zero_ns) {
            heard.returned = Some(Instant::now());
        }
    }

    /// Writes that the lab continues without the machines in trouble. Returns whether a request was sent to the store.
    fn propose_losses(&self, zero_ns: u64) -> bool {
        let mut asked = false;
        for machine in &self.order.machines {
            let name = &machine.name;
            // A machine does not declare itself lost: its agent ends its own part.
            if name == self.keeper.name || self.parts.losses.contains_key(name) {
                continue;
            }
            if let Some(why) = self.parts.trouble(name) {
                asked = true;
                self.propose(name, why, zero_ns);
            }
        }
        asked
    }

    /// Writes that the lab continues without a machine, unless another machine has written it or the lab ends. A failed
    /// attempt is repeated later.
    fn propose(&self, machine: &str, why: String, zero_ns: u64) {
        let loss = Loss {
            order: self.part.order,
            from_ns: self.known_by_ns(zero_ns),
            why,
            by: self.keeper.name.to_owned(),
        };
        let _ = self.put_once(keys::loss(&self.order.lab, machine), &loss, Txn::new());
    }

    /// Writes which nodes of lost machines this machine has created again. The transaction requires that this machine still
    /// holds its name and that the lost machine has no valid lease any more. Returns whether a request was sent to the
    /// store.
    fn say_what_was_taken(&self, names: &[String]) -> bool {
        let mut asked = false;
        for (machine, failure) in &self.took {
            let (own, lab) = (self.keeper.name, &self.order.lab);
            let Some(lost) = names.get(*machine) else {
                continue;
            };
            let known = self.parts.taken.get(&(lost.clone(), own.to_owned()));
            // Both the loss and the takeover may be in the store already; then nothing is left to write.
            let Some(at) = self.parts.lost_at(lost).filter(|_| known.is_none()) else {
                continue;
            };
            asked = true;
            let mut txn = Txn::new().when(Condition::created_at(keys::loss(lab, lost), at));
            // A lost agent has no key any more. One that only failed still has its key, and cannot be required to be
            // absent.
            if self.parts.lost.contains_key(lost) {
                txn = txn.when(Condition::absent(keys::part(lab, lost)));
            }
            let took = Takeover {
                order: self.part.order,
                token: self.keeper.token,
                failure: failure.clone(),
            };
            let _ = self.put_once(keys::took(lab, lost, own), &took, txn);
        }
        asked
    }

    /// Writes the lab time at which the nodes of lost machines have their links again. This happens when all machines that
    /// had to create some of them are ready or lost. Returns whether a request was sent to the store.
    fn propose_returns(&self, names: &[String], zero_ns: u64) -> bool {
        let mut asked = false;
        for (machine, takers) in &self.takers {
            let Some(lost) = names.get(*machine) else {
                continue;
            };
            let takers = takers.iter().filter_map(|place| names.get(*place));
            let ready = self.parts.ready(lost, takers.map(String::as_str));
            // If no machine took over any node, no node returns.
            let ready = ready.filter(|ready| !ready.is_empty() && !self.parts.is_back(lost));
            let Some(ready) = ready else { continue };
            asked = true;
            let back = super::model::NodesReturned {
                order: self.part.order,
                from_ns: self.known_by_ns(zero_ns),
                ready,
                by: self.keeper.name.to_owned(),
            };
            let _ = self.put_once(keys::back(&self.order.lab, lost), &back, Txn::new());
        }
        asked
    }

    /// Returns the lab time by which all machines know what is written now.
    pub(super) fn known_by_ns(&self, zero_ns: u64) -> u64 {
        known_by_ns(
            mono_ns().saturating_add_signed(self.time.ahead_ns()),
            zero_ns,
        )
    }

    /// Writes a key under the order's lease, if this machine still holds its name and the key does not exist.
    pub(super) fn put_once(&self, key: String, what: &impl Serialize, txn: Txn) -> Result<Outcome> {
        let lease = self.lease;
        let lease = lease.ok_or_else(|| Error::Invalid("an order without a lease".to_owned()))?;
        let text = serde_json::to_vec(what).map_err(|e| Error::Invalid(e.to_string()))?;
        let owner = crate::agent::keys::owner(self.keeper.name);
        // The store checks and writes in one transaction: an agent that lost its name between two requests must not
        // write, and of several agents only the first one does.
        let txn = txn
            .when(Condition::created_at(owner, self.keeper.token))
            .when(Condition::absent(&key))
            .put_leased(key, text, lease);
        self.keeper.store.commit(&txn)
    }
}

/// Returns the lab time by which all machines know what is written now. It is never before the start of lab time.
fn known_by_ns(now_ns: u64, zero_ns: u64) -> u64 {
    // Before lab time begins the difference is 0, the instant of the initial state. A change comes after that.
    (now_ns + KNOWN_WITHIN.as_nanos() as u64)
        .saturating_sub(zero_ns)
        .max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_known_ahead_and_never_before_lab_time() {
        let zero_ns = 10_000_000_000;
        assert_eq!(known_by_ns(12_000_000_000, zero_ns), 3_500_000_000);
        assert_eq!(known_by_ns(8_000_000_000, zero_ns), 1);
    }
}
