//! Who may send for a part of a lab: leases, and tokens that fence off who had it before.
//!
//! A machine holds a part from the store's word on until its own clock says that the lease may be over: counted from when its last
//! sign of life *left*, not from when the answer came, and shorter by as much as clocks may differ in their rate. The store
//! counts from when the sign arrived, so whoever is next holds the part later. Nothing has to be told for that, and a machine that was
//! frozen finds its time over with the first look at its clock: that must be one that runs while a machine sleeps
//! (`CLOCK_BOOTTIME`), and every frame is sent after such a look.
//!
//! A frame may still be under way, or have been held up between look and sending. It carries its sender's token, and tokens
//! grow with each owner: [`Fence`] refuses those of the past.
//!
//! Time is an argument, and so is the store: [`Tenure::next`] says what to ask, [`Tenure::answered`] takes the answer.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::model::{Condition, LeaseId, Revision, Txn};

/// The length of leases.
pub const LEASE: Duration = Duration::from_secs(5);

/// Rates of two clocks differ by no more than this: ten times what crystals do.
const DRIFT_PPM: u64 = 1_000;

/// Signs of life in the time of a lease: two may be lost.
const SIGNS: u64 = 4;

/// An unanswered question is given up.
const PATIENCE_NS: u64 = 3_000_000_000;

/// What to ask of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// A lease of so long.
    Grant(Duration),
    /// That the lease goes on.
    KeepAlive(LeaseId),
    /// A part: its key, and the transaction that takes it if it is nobody's.
    Claim(String, Txn),
    /// Whose a part is: its key.
    Look(String),
}

/// What the store said to the last question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// A lease, and how long it lasts.
    Granted(LeaseId, Duration),
    /// It goes on.
    KeptAlive,
    /// The part is taken, at this revision.
    Claimed(Revision),
    /// It is somebody's.
    Taken,
    /// The part's lease and the revision of its making; `None`: it is nobody's.
    Looked(Option<(Option<LeaseId>, Revision)>),
    /// The lease is over.
    LeaseLost,
    /// No answer, or not a certain one.
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Leased {
    id: LeaseId,
    ttl_ns: u64,
    /// When the last sign of life left that was answered.
    alive_ns: u64,
}

/// A part that is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Wanted,
    /// Somebody has it, or a claim was not answered: it may be ours.
    Unclear,
    Held(Revision),
}

/// One machine's hold on parts of a lab.
#[derive(Debug, Clone)]
pub struct Tenure {
    name: String,
    lease: Option<Leased>,
    parts: BTreeMap<String, Part>,
    /// The question under way, and when it left.
    asked: Option<(Ask, u64)>,
    /// Its number.
    number: u64,
    /// Before then nothing is asked of what is not held.
    next_look_ns: u64,
    next_sign_ns: u64,
}

impl Tenure {
    /// A machine called `name` that wants these parts, by their keys.
    #[must_use]
    pub fn new(name: &str, parts: impl IntoIterator<Item = String>) -> Self {
        Self {
            name: name.to_owned(),
            lease: None,
            parts: parts.into_iter().map(|key| (key, Part::Wanted)).collect(),
            asked: None,
            number: 0,
            next_look_ns: 0,
            next_sign_ns: 0,
        }
    }

    /// Until when what is held is held, unless a sign of life is answered before.
    #[must_use]
    pub fn until_ns(&self) -> Option<u64> {
        let lease = self.lease?;
        let slack_ns = lease.ttl_ns / 1_000_000 * DRIFT_PPM * 2 + lease.ttl_ns / 50;
        Some(lease.alive_ns + lease.ttl_ns.saturating_sub(slack_ns))
    }

    /// The token with which frames of a part may be sent at `now_ns`; `None`: not at all.
    #[must_use]
    pub fn token(&self, part: &str, now_ns: u64) -> Option<Revision> {
        match self.parts.get(part) {
            Some(Part::Held(token)) if self.until_ns()? > now_ns => Some(*token),
            _ => None,
        }
    }

    /// What to ask of the store now, if anything, with the question's number. At most one is under way; one that stays
    /// unanswered for some seconds is given up, and its answer is not wanted any more.
    pub fn next(&mut self, now_ns: u64) -> Option<(u64, Ask)> {
        if let Some((ask, left_ns)) = &self.asked {
            if now_ns < left_ns + PATIENCE_NS {
                return None;
            }
            let ask = ask.clone();
            self.nothing(&ask);
        }
        // What was held too long without a sign of life is lost, whatever the store will say.
        if self.until_ns().is_some_and(|until_ns| until_ns <= now_ns) {
            self.lose();
        }
        let ask = match self.lease {
            None => Ask::Grant(LEASE),
            Some(lease) if now_ns >= self.next_sign_ns => {
                self.next_sign_ns = now_ns + lease.ttl_ns / SIGNS;
                Ask::KeepAlive(lease.id)
            }
            Some(lease) => self.about_parts(lease.id, now_ns)?,
        };
        self.asked = Some((ask.clone(), now_ns));
        self.number += 1;
        Some((self.number, ask))
    }

    fn about_parts(&mut self, lease: LeaseId, now_ns: u64) -> Option<Ask> {
        if now_ns < self.next_look_ns {
            return None;
        }
        if let Some((key, _)) = self.parts.iter().find(|(_, part)| **part == Part::Unclear) {
            return Some(Ask::Look(key.clone()));
        }
        let (key, _) = self.parts.iter().find(|(_, part)| **part == Part::Wanted)?;
        let claim = Txn::new().when(Condition::absent(key));
        Some(Ask::Claim(
            key.clone(),
            claim.put_leased(key, self.name.clone(), lease),
        ))
    }

    /// Takes the answer to the question of this number.
    pub fn answered(&mut self, number: u64, answer: Answer, now_ns: u64) {
        if number != self.number {
            return;
        }
        let Some((ask, left_ns)) = self.asked.take() else {
            return;
        };
        match (ask, answer) {
            (Ask::Grant(_), Answer::Granted(id, ttl)) => {
                let ttl_ns = u64::try_from(ttl.as_nanos()).unwrap_or(u64::MAX);
                self.lease = Some(Leased {
                    id,
                    ttl_ns,
                    alive_ns: left_ns,
                });
                self.next_sign_ns = left_ns + ttl_ns / SIGNS;
            }
            (Ask::KeepAlive(_), Answer::KeptAlive) => {
                if let Some(lease) = &mut self.lease {
                    lease.alive_ns = left_ns;
                }
            }
            (Ask::Claim(key, _), Answer::Claimed(token)) => {
                self.parts.insert(key, Part::Held(token));
            }
            // Perhaps we ourselves, by a claim that was given up: look after a while.
            (Ask::Claim(key, _), Answer::Taken) => {
                self.parts.insert(key, Part::Unclear);
                self.next_look_ns = now_ns + 500_000_000;
            }
            (Ask::Look(key), Answer::Looked(found)) => {
                let own = self.lease.map(|lease| lease.id);
                let part = match found {
                    Some((lease, token)) if lease.is_some() && lease == own => Part::Held(token),
                    Some(_) => {
                        self.next_look_ns = now_ns + 500_000_000;
                        Part::Unclear
                    }
                    None => Part::Wanted,
                };
                self.parts.insert(key, part);
            }
            (_, Answer::LeaseLost) => self.lose(),
            (ask, _) => self.nothing(&ask),
        }
    }

    fn nothing(&mut self, ask: &Ask) {
        self.asked = None;
        if let Ask::Claim(key, _) = ask {
            self.parts.insert(key.clone(), Part::Unclear);
        }
    }

    fn lose(&mut self) {
        self.lease = None;
        self.asked = None;
        for part in self.parts.values_mut() {
            *part = Part::Wanted;
        }
    }
}

/// What a receiver knows of tokens: frames of a part with an older one are of somebody who lost it.
#[derive(Debug, Clone, Default)]
pub struct Fence {
    newest: BTreeMap<String, Revision>,
}

impl Fence {
    /// Nothing is known.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Somebody has the part with this token: told by the store, or by a frame.
    pub fn learn(&mut self, part: &str, token: Revision) {
        let newest = self.newest.entry(part.to_owned()).or_default();
        *newest = token.max(*newest);
    }

    /// Whether a frame of the part with this token may pass.
    pub fn admits(&mut self, part: &str, token: Revision) -> bool {
        self.learn(part, token);
        self.newest[part] == token
    }
}
