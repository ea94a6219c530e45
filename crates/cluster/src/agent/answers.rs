//! Requests between machines through the store: clock readings, which also show that a machine is alive.
//!
//! The requester writes a nonce under `ask/NAME/SESSION`. The machine writes its reply under `answer/SESSION/NAME` with the
//! requester's lease, so that both keys disappear with the requester.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::agent::clocks::{mono_ns, random_bytes, wall_ahead_ns};
use crate::agent::compare::Compared;
use crate::agent::keys;
use crate::store::{Error, Follow, LeaseId, Result, Store, Txn};

/// Interval at which the end flag is checked.
const LOOK_EVERY: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Question {
    nonce: u64,
    /// The lease under which the reply is written.
    lease: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Answer {
    nonce: u64,
    t2_ns: u64,
    t3_ns: u64,
    wall_ahead_ns: i64,
}

/// Sends requests to other machines and waits for their replies.
pub(crate) struct Asker {
    store: Arc<dyn Store>,
    session: String,
    lease: LeaseId,
    answers: Follow,
}

impl Asker {
    pub(crate) fn new(store: Arc<dyn Store>, session: &str, lease: LeaseId) -> Result<Self> {
        Ok(Self {
            answers: Follow::new(Arc::clone(&store), &keys::answers(session))?,
            store,
            session: session.to_owned(),
            lease,
        })
    }

    /// Sends a request to the machine `name` and returns its clock readings. Returns `None` if no reply arrived within
    /// `patience`, or if `is_worth` became false.
    ///
    /// # Errors
    /// If the store cannot be reached.
    pub(crate) fn ask(
        &mut self,
        name: &str,
        patience: Duration,
        is_worth: impl Fn() -> bool,
    ) -> Result<Option<Compared>> {
        let nonce = u64::from_be_bytes(random_bytes()?);
        let question = Question {
            nonce,
            lease: self.lease.0,
        };
        let key = format!("{}{}", keys::asks(name), self.session);
        let txn = Txn::new().put_leased(key, as_json(&question), self.lease);
        let own = format!("{}{name}", keys::answers(&self.session));
        let until = Instant::now() + patience;
        // Read as late as possible before the request and as early as possible after the answer: the difference bounds
        // the error.
        let t1_ns = mono_ns();
        self.store.commit(&txn)?;
        while is_worth() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let events = self.answers.next(left.min(LOOK_EVERY))?;
            let t4_ns = mono_ns();
            let entries = events.iter().filter(|event| event.key == own);
            let answer = entries.rev().find_map(|event| {
                let entry = event.entry.as_ref()?;
                let answer: Answer = serde_json::from_slice(&entry.value).ok()?;
                // An answer to an earlier request that was abandoned has another nonce, and its times belong to that
                // request.
                (answer.nonce == nonce).then_some(answer)
            });
            if let Some(answer) = answer {
                let (t2_ns, t3_ns) = (answer.t2_ns, answer.t3_ns);
                let times = [t1_ns, t2_ns, t3_ns, t4_ns];
                return Ok(Some(Compared::new(times, answer.wall_ahead_ns)));
            }
        }
        Ok(None)
    }
}

/// Replies to requests for the machine `name` until `end`. If the store is unreachable for a while, tries again.
pub(crate) fn answer(store: &Arc<dyn Store>, name: &str, end: &AtomicBool) {
    while !end.load(Ordering::Acquire) {
        if answer_while_there(store, name, end).is_err() {
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

fn answer_while_there(store: &Arc<dyn Store>, name: &str, end: &AtomicBool) -> Result<()> {
    let prefix = keys::asks(name);
    let mut asks = Follow::new(Arc::clone(store), &prefix)?;
    let t2_ns = mono_ns();
    for (key, entry) in asks.known() {
        reply(store.as_ref(), name, &prefix, (key, &entry.value), t2_ns)?;
    }
    while !end.load(Ordering::Acquire) {
        let events = asks.next(LOOK_EVERY)?;
        let t2_ns = mono_ns();
        for event in events {
            if let Some(entry) = &event.entry {
                reply(
                    store.as_ref(),
                    name,
                    &prefix,
                    (&event.key, &entry.value),
                    t2_ns,
                )?;
            }
        }
    }
    Ok(())
}

fn reply(
    store: &dyn Store,
    name: &str,
    prefix: &str,
    (key, value): (&str, &[u8]),
    t2_ns: u64,
) -> Result<()> {
    let session = key.strip_prefix(prefix);
    let question = serde_json::from_slice::<Question>(value).ok();
    let Some((session, question)) = session.zip(question) else {
        return Ok(());
    };
    let wall_ahead_ns = wall_ahead_ns();
    let answer = Answer {
        nonce: question.nonce,
        t2_ns,
        t3_ns: mono_ns(),
        wall_ahead_ns,
    };
    let place = format!("{}{name}", keys::answers(session));
    let txn = Txn::new().put_leased(place, as_json(&answer), LeaseId(question.lease));
    match store.commit(&txn) {
        // The lease is over, so the requester is gone and the reply is useless.
        Ok(_) | Err(Error::LeaseLost(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

fn as_json(value: &impl Serialize) -> Vec<u8> {
    // The structs hold only numbers and strings under string keys, so serialization cannot fail.
    serde_json::to_vec(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use crate::store::Embedded;

    use super::*;

    #[test]
    fn who_is_there_answers_and_nobody_else() {
        let store: Arc<dyn Store> = Arc::new(Embedded::new());
        let lease = store.grant(Duration::from_secs(60)).unwrap().id;
        let mut asker = Asker::new(Arc::clone(&store), "s", lease).unwrap();
        let end = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| answer(&store, "a", &end));
            let exchange = asker.ask("a", Duration::from_secs(20), || true).unwrap();
            let exchange = exchange.unwrap().exchange;
            assert!(exchange.t1_ns <= exchange.t2_ns && exchange.t3_ns <= exchange.t4_ns);
            let nobody = asker.ask("b", Duration::from_millis(50), || true).unwrap();
            assert_eq!(nobody, None);
            assert_eq!(
                asker.ask("b", Duration::from_secs(600), || false).unwrap(),
                None
            );
            // Garbage under the key and a request whose sender has left must not disturb the agent.
            store.put("constel/agents/ask/a/x", b"?").unwrap();
            store
                .put("constel/agents/ask/a/y", br#"{"nonce": 1, "lease": 999}"#)
                .unwrap();
            let again = asker.ask("a", Duration::from_secs(20), || true).unwrap();
            assert!(again.unwrap().exchange.t1_ns >= exchange.t4_ns);
            end.store(true, Ordering::Release);
        });
        store.revoke(lease).unwrap();
        let left: Vec<_> = store.list(keys::ROOT).unwrap().entries;
        assert_eq!(left.len(), 2, "{left:?}");
    }
}
