//! How a lab goes on without machines that are lost: all others have to let the same nodes go at the same lab time, so the first that
//! notices writes it down, and all go by that.

use std::time::{Duration, Instant};

use constel_store::{Condition, Txn};

use super::keys;
use super::model::Loss;
use super::part::{Own, Told};
use super::process::Process;
use super::speech::{Lost, ToPart};
use crate::clocks::mono_ns;

/// What is in the store all machines have heard so soon, or go by an older plan and are lost themselves.
const KNOWN_WITHIN: Duration = Duration::from_millis(1_500);
/// Between two tries to say that a machine is lost.
const PROPOSE_EVERY: Duration = Duration::from_secs(1);

impl Own<'_> {
    /// Without machines that are lost: the first that notices says in the store from when, and all go by that.
    pub(super) fn go_on(&mut self, heard: &mut Told, process: &mut Process) {
        for (place, machine) in self.order.machines.iter().enumerate() {
            let name = &machine.name;
            let is_own = name == self.keeper.name;
            match self.parts.losses.get(name) {
                Some(_) if !heard.lost.insert(place) => {}
                Some(loss) if is_own => {
                    let failure = format!("the others go on without it: {}", loss.why);
                    self.part.failure.get_or_insert(failure);
                    if heard.ends() {
                        process.say(&ToPart::End);
                    }
                }
                Some(loss) => process.say(&ToPart::Lost(Lost {
                    machine: place,
                    from_ns: loss.from_ns,
                })),
                None if is_own => {}
                None => {
                    let tried = heard
                        .proposed
                        .is_some_and(|at| at.elapsed() < PROPOSE_EVERY);
                    let why = self.parts.trouble(name).filter(|_| !tried);
                    if let Some(why) = why {
                        heard.proposed = Some(Instant::now());
                        self.propose(name, why, heard.zero_ns);
                    }
                }
            }
        }
    }

    /// Says that the lab goes on without a machine, unless somebody has said so or the lab ends. What does not get through is
    /// tried again.
    fn propose(&self, machine: &str, why: String, zero_ns: u64) {
        let now_ns = mono_ns().saturating_add_signed(self.time.ahead_ns());
        let key = keys::loss(&self.order.lab, machine);
        let loss = Loss {
            order: self.part.order,
            from_ns: known_by_ns(now_ns, zero_ns),
            why,
            by: self.keeper.name.to_owned(),
        };
        let (Some(lease), Ok(text)) = (self.lease, serde_json::to_vec(&loss)) else {
            return;
        };
        let owner = crate::keys::owner(self.keeper.name);
        let txn = Txn::new()
            .when(Condition::created_at(owner, self.keeper.token))
            .when(Condition::absent(&key))
            .put_leased(key, text, lease);
        let _ = self.keeper.store.commit(&txn);
    }
}

/// Lab time by which all have heard what is said now: never before lab time has begun.
fn known_by_ns(now_ns: u64, zero_ns: u64) -> u64 {
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
