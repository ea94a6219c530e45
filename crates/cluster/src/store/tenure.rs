//! The right to send for a part of a lab: leases, and tokens that fence off earlier owners.
//!
//! A machine holds a part from the store's confirmation until its own clock shows that the lease may be over. It measures
//! the lease from when its last renewal *left*, not from when the answer arrived, and shortens it by the possible difference
//! of the clocks' rates. The store measures from the arrival of the renewal, so the next owner holds the part later. This
//! needs no message. A machine that was frozen finds its time over when it first reads its clock. This clock must run while
//! a machine sleeps (`CLOCK_BOOTTIME`), and the machine must read it before it sends each frame.
//!
//! A frame may still be in transit, or may have been delayed between the reading and the sending. It carries the token of
//! its sender, and tokens increase with each owner: [`Fence`] refuses the tokens of earlier owners.
//!
//! Time is an argument, and so is the store: [`Tenure::next`] returns the next request, and [`Tenure::answered`] takes the
//! answer.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::store::model::{Condition, LeaseId, Revision, Txn};

/// Duration of leases.
pub const LEASE: Duration = Duration::from_secs(5);

/// Maximum difference of the rates of two clocks, parts per million: ten times that of crystals.
const DRIFT_PPM: u64 = 1_000;

/// Number of renewals per lease duration. Two may be lost.
const SIGNS: u64 = 4;

/// Time after which an unanswered request is abandoned.
const PATIENCE_NS: u64 = 3_000_000_000;

/// A request to the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreRequest {
    /// Grant a lease of this duration.
    Grant(Duration),
    /// Renew the lease.
    KeepAlive(LeaseId),
    /// Claim a part: its key, and the transaction that takes it if it has no owner.
    Claim(String, Txn),
    /// Read the owner of a part: its key.
    Look(String),
}

/// The answer of the store to the last request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreReply {
    /// The lease, and its duration.
    Granted(LeaseId, Duration),
    /// The lease was renewed.
    KeptAlive,
    /// The part was claimed at this revision.
    Claimed(Revision),
    /// The part has an owner.
    Taken,
    /// The part's lease and the revision at which its key was created, or `None` if it has no owner.
    Looked(Option<(Option<LeaseId>, Revision)>),
    /// The lease has ended.
    LeaseLost,
    /// No answer, or an uncertain one.
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Leased {
    id: LeaseId,
    ttl_ns: u64,
    /// The time when the last answered renewal left.
    alive_ns: u64,
}

/// The state of a part that this machine wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PartState {
    Wanted,
    /// The part has an owner, or a claim was not answered. This machine may be the owner.
    Unclear,
    Held(Revision),
}

/// The hold of one machine on parts of a lab.
#[derive(Debug, Clone)]
pub struct Tenure {
    name: String,
    lease: Option<Leased>,
    parts: BTreeMap<String, PartState>,
    /// The pending request, and the time when it left.
    asked: Option<(StoreRequest, u64)>,
    /// Number of the last request.
    number: u64,
    /// No request about parts that are not held is sent before this time.
    next_look_ns: u64,
    next_sign_ns: u64,
}

impl Tenure {
    /// Creates the hold of a machine called `name` that wants these parts, given by their keys.
    #[must_use]
    pub fn new(name: &str, parts: impl IntoIterator<Item = String>) -> Self {
        Self {
            name: name.to_owned(),
            lease: None,
            parts: parts
                .into_iter()
                .map(|key| (key, PartState::Wanted))
                .collect(),
            asked: None,
            number: 0,
            next_look_ns: 0,
            next_sign_ns: 0,
        }
    }

    /// Returns the time until which the held parts are held, unless a renewal is answered before.
    #[must_use]
    pub fn until_ns(&self) -> Option<u64> {
        let lease = self.lease?;
        // Twice the drift, because both clocks may drift in opposite directions. The rest is a margin of 2 %.
        let slack_ns = lease.ttl_ns / 1_000_000 * DRIFT_PPM * 2 + lease.ttl_ns / 50;
        Some(lease.alive_ns + lease.ttl_ns.saturating_sub(slack_ns))
    }

    /// Returns the token with which frames of a part may be sent at `now_ns`, or `None` if sending is not allowed.
    #[must_use]
    pub fn token(&self, part: &str, now_ns: u64) -> Option<Revision> {
        match self.parts.get(part) {
            // The time is tested at each frame: a process that was stopped may wake after its lease has ended.
            Some(PartState::Held(token)) if self.until_ns()? > now_ns => Some(*token),
            _ => None,
        }
    }

    /// Returns the next request to the store with its number, if one is due. At most one is pending. A request without an
    /// answer for some seconds is abandoned, and its answer is ignored.
    pub fn next(&mut self, now_ns: u64) -> Option<(u64, StoreRequest)> {
        if let Some((ask, left_ns)) = &self.asked {
            // One request at a time, so that answers cannot overtake each other.
            if now_ns < left_ns + PATIENCE_NS {
                return None;
            }
            let ask = ask.clone();
            self.nothing(&ask);
        }
        // A hold without a renewal for too long is lost, whatever the store answers later.
        if self.until_ns().is_some_and(|until_ns| until_ns <= now_ns) {
            self.lose();
        }
        let ask = match self.lease {
            None => StoreRequest::Grant(LEASE),
            Some(lease) if now_ns >= self.next_sign_ns => {
                // Counted from this attempt, also if it fails: an unreachable store gets no more requests.
                self.next_sign_ns = now_ns + lease.ttl_ns / SIGNS;
                StoreRequest::KeepAlive(lease.id)
            }
            Some(lease) => self.about_parts(lease.id, now_ns)?,
        };
        self.asked = Some((ask.clone(), now_ns));
        self.number += 1;
        Some((self.number, ask))
    }

    fn about_parts(&mut self, lease: LeaseId, now_ns: u64) -> Option<StoreRequest> {
        if now_ns < self.next_look_ns {
            return None;
        }
        // An unclear part comes first, because this machine may own it already.
        if let Some((key, _)) = self
            .parts
            .iter()
            .find(|(_, part)| **part == PartState::Unclear)
        {
            return Some(StoreRequest::Look(key.clone()));
        }
        let (key, _) = self
            .parts
            .iter()
            .find(|(_, part)| **part == PartState::Wanted)?;
        let claim = Txn::new().when(Condition::absent(key));
        Some(StoreRequest::Claim(
            key.clone(),
            claim.put_leased(key, self.name.clone(), lease),
        ))
    }

    /// Takes the answer to the request with this number.
    pub fn answered(&mut self, number: u64, answer: StoreReply, now_ns: u64) {
        // A late answer to an abandoned request: the state has moved on.
        if number != self.number {
            return;
        }
        let Some((ask, left_ns)) = self.asked.take() else {
            return;
        };
        match (ask, answer) {
            (StoreRequest::Grant(_), StoreReply::Granted(id, ttl)) => {
                // The lease counts from when the request left, because the store may have started it at any time after that.
                let ttl_ns = u64::try_from(ttl.as_nanos()).unwrap_or(u64::MAX);
                self.lease = Some(Leased {
                    id,
                    ttl_ns,
                    alive_ns: left_ns,
                });
                self.next_sign_ns = left_ns + ttl_ns / SIGNS;
            }
            (StoreRequest::KeepAlive(_), StoreReply::KeptAlive) => {
                if let Some(lease) = &mut self.lease {
                    // The time of the request, not of the answer: the store may have renewed the lease just after it
                    // got the request.
                    lease.alive_ns = left_ns;
                }
            }
            (StoreRequest::Claim(key, _), StoreReply::Claimed(token)) => {
                self.parts.insert(key, PartState::Held(token));
            }
            // An abandoned claim of this machine may have succeeded, so read the owner after a while.
            (StoreRequest::Claim(key, _), StoreReply::Taken) => {
                self.parts.insert(key, PartState::Unclear);
                self.next_look_ns = now_ns + 500_000_000;
            }
            (StoreRequest::Look(key), StoreReply::Looked(found)) => {
                let own = self.lease.map(|lease| lease.id);
                let part = match found {
                    // The key carries this machine's lease, so an earlier claim of this machine has succeeded.
                    Some((lease, token)) if lease.is_some() && lease == own => {
                        PartState::Held(token)
                    }
                    Some(_) => {
                        self.next_look_ns = now_ns + 500_000_000;
                        PartState::Unclear
                    }
                    None => PartState::Wanted,
                };
                self.parts.insert(key, part);
            }
            (_, StoreReply::LeaseLost) => self.lose(),
            (ask, _) => self.nothing(&ask),
        }
    }

    fn nothing(&mut self, ask: &StoreRequest) {
        self.asked = None;
        // A claim without an answer may have been committed, and a second one would then be refused by this machine's
        // own key.
        if let StoreRequest::Claim(key, _) = ask {
            self.parts.insert(key.clone(), PartState::Unclear);
        }
    }

    fn lose(&mut self) {
        self.lease = None;
        self.asked = None;
        // The keys had the lease, so all are gone with it.
        for part in self.parts.values_mut() {
            *part = PartState::Wanted;
        }
    }
}

/// The newest tokens that a receiver knows. A frame with an older token comes from a machine that lost the part.
#[derive(Debug, Clone, Default)]
pub struct Fence {
    newest: BTreeMap<String, Revision>,
}

impl Fence {
    /// Creates a fence without known tokens.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Records that a part has an owner with this token, as reported by the store or by a frame.
    pub fn learn(&mut self, part: &str, token: Revision) {
        let newest = self.newest.entry(part.to_owned()).or_default();
        *newest = token.max(*newest);
    }

    /// Returns whether a frame of the part with this token may pass.
    pub fn admits(&mut self, part: &str, token: Revision) -> bool {
        self.learn(part, token);
        self.newest[part] == token
    }
}
