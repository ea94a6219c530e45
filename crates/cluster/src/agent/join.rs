//! Joining the cluster: the checks before a machine gets its name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::agent::answers::Asker;
use crate::agent::hold::{Hold, Turn};
use crate::agent::keys;
use crate::agent::list::{Known, roster};
use crate::agent::record::Owner;
use crate::store::{Error, LEASE, Revision, Store, Txn};

/// Joining fails if the store is unreachable for longer than this.
const JOIN_WITHIN: Duration = Duration::from_secs(30);

/// A killed agent keeps its name until its lease ends. The store may notice the end a little later.
const GONE_WITHIN: Duration = Duration::from_secs(LEASE.as_secs() + 3);

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The reason why a machine may not join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// A machine of the cluster has another version.
    Version {
        /// The version of this machine.
        ours: String,
        /// The name of that machine.
        machine: String,
        /// The version of that machine.
        theirs: String,
    },
    /// Another agent holds the name.
    Name {
        /// The name that was requested.
        name: String,
        /// The host name and the process ID of that agent, if it has written them.
        at: Option<(String, u32)>,
        /// Whether the agent replies. An agent that does not may be frozen, or was cut off from the store a moment ago.
        answers: bool,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version {
                ours,
                machine,
                theirs,
            } => write!(
                f,
                "this is Constel {ours}, and machine {machine} has Constel {theirs}: all machines of a lab need the same version"
            ),
            Self::Name { name, at, answers } => {
                write!(f, "machine {name} is there already")?;
                if let Some((host, pid)) = at {
                    write!(f, " (process {pid} on host {host})")?;
                }
                if !answers {
                    f.write_str(", and does not answer")?;
                }
                f.write_str("; give this one another name with --name")
            }
        }
    }
}

/// The reason why joining failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Why {
    Refused(Refusal),
    Store(Error),
    Stopped,
}

impl From<Error> for Why {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

/// Takes the name. Returns the hold on it and the revision since which it is held.
pub(crate) fn join(
    store: &Arc<dyn Store>,
    name: &str,
    owner: &Owner,
    has_ended: &dyn Fn() -> bool,
) -> Result<(Hold, Revision), Why> {
    let there = roster(&store.list(keys::ROOT)?);
    other_version(&there, name, &owner.version, None).map_or(Ok(()), |r| Err(Why::Refused(r)))?;
    if let Some(known) = there.get(name).filter(|known| known.owner.is_some()) {
        // An agent that was killed leaves its name until its lease ends, and a new one may wait for that.
        outlive(store, name, known, &owner.session, has_ended)?;
    }
    let text = serde_json::to_string(owner).map_err(|e| Error::Invalid(e.to_string()))?;
    let mut hold = Hold::new(Arc::clone(store), name, &text);
    let token = match take(store, &mut hold, name, has_ended) {
        Ok(token) => token,
        Err(why) => {
            leave_quietly(hold);
            return Err(why);
        }
    };
    // If two versions joined at the same time, the later one sees the earlier one here.
    let there = match store.list(keys::ROOT) {
        Ok(listing) => roster(&listing),
        Err(error) => {
            leave_quietly(hold);
            return Err(error.into());
        }
    };
    if let Some(refusal) = other_version(&there, name, &owner.version, Some(token)) {
        leave_quietly(hold);
        return Err(Why::Refused(refusal));
    }
    Ok((hold, token))
}

/// Ignores errors: a name that cannot be released now becomes free when its lease ends.
fn leave_quietly(hold: Hold) {
    let _ = hold.release(Txn::new());
}

fn take(
    store: &Arc<dyn Store>,
    hold: &mut Hold,
    name: &str,
    has_ended: &dyn Fn() -> bool,
) -> Result<Revision, Why> {
    let until = Instant::now() + JOIN_WITHIN;
    loop {
        let turn = hold.turn()?;
        if let Some(token) = hold.token() {
            return Ok(token);
        }
        // Another agent took the name at the same moment, so it certainly lives.
        if turn == Turn::TakenByOther {
            let there = roster(&store.list(keys::ROOT)?);
            let at = there.get(name).and_then(place_of);
            let name = name.to_owned();
            let answers = true;
            return Err(Why::Refused(Refusal::Name { name, at, answers }));
        }
        if has_ended() {
            return Err(Why::Stopped);
        }
        if Instant::now() >= until {
            let silent = || Error::Unreachable("no answer that could be trusted".to_owned());
            return Err(hold.trouble.clone().unwrap_or_else(silent).into());
        }
        if turn == Turn::Idle || hold.trouble.is_some() {
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// Handles a name that has an owner. The join is refused if the owner replies. If the owner was killed, waits until its
/// lease ends.
fn outlive(
    store: &Arc<dyn Store>,
    name: &str,
    known: &Known,
    session: &str,
    has_ended: &dyn Fn() -> bool,
) -> Result<(), Why> {
    let key = keys::owner(name);
    let since = known.owner.as_ref().map(|(_, since)| *since);
    // This agent holds no name yet, and its requests must disappear if it is killed here.
    let lease = store.grant(GONE_WITHIN + LEASE)?.id;
    let outlived = (|| -> crate::store::Result<Option<bool>> {
        let mut asker = Asker::new(Arc::clone(store), session, lease)?;
        let until = Instant::now() + GONE_WITHIN;
        // Each request waits only briefly, so that the end of the owner's lease is noticed in between.
        while Instant::now() < until && !has_ended() {
            let patience = Duration::from_millis(500);
            if asker.ask(name, patience, || !has_ended())?.is_some() {
                return Ok(Some(true));
            }
            let entry = store.get(&key)?;
            // The key is gone, or another agent has created it again: in both cases the earlier owner is gone.
            if entry.map(|entry| entry.created) != since {
                return Ok(None);
            }
        }
        Ok(Some(false))
    })();
    // If revoking fails, the lease ends by itself.
    let _ = store.revoke(lease);
    match outlived? {
        _ if has_ended() => Err(Why::Stopped),
        None => Ok(()),
        Some(answers) => Err(Why::Refused(Refusal::Name {
            name: name.to_owned(),
            at: place_of(known),
            answers,
        })),
    }
}

fn place_of(known: &Known) -> Option<(String, u32)> {
    let record = known.record.as_ref()?;
    Some((record.host.clone(), record.pid))
}

/// Returns a refusal if a machine with another version is present. With a `token`, only machines that joined before it
/// count.
fn other_version(
    there: &BTreeMap<String, Known>,
    name: &str,
    ours: &str,
    token: Option<Revision>,
) -> Option<Refusal> {
    let others = there.iter().filter(|(other, _)| *other != name);
    let mut others = others.filter_map(|(machine, known)| {
        let (owner, since) = known.owner.as_ref()?;
        (owner.version != ours && token.is_none_or(|token| *since < token))
            .then_some((machine, owner))
    });
    others.next().map(|(machine, owner)| Refusal::Version {
        ours: ours.to_owned(),
        machine: machine.clone(),
        theirs: owner.version.clone(),
    })
}

#[cfg(test)]
mod tests {
    use crate::store::Embedded;

    use super::*;

    fn owner(version: &str, session: &str) -> Owner {
        Owner {
            version: version.to_owned(),
            session: session.to_owned(),
        }
    }

    fn never() -> bool {
        false
    }

    #[test]
    fn another_version_is_refused_with_both_named() {
        let store: Arc<dyn Store> = Arc::new(Embedded::new());
        let (hold, _) = join(&store, "a", &owner("1.0", "x"), &never).ok().unwrap();
        let refused = join(&store, "b", &owner("1.1", "y"), &never).err().unwrap();
        let Why::Refused(refusal) = refused else {
            panic!("{refused:?}");
        };
        let text = refusal.to_string();
        assert!(
            text.contains("Constel 1.1") && text.contains("machine a has Constel 1.0"),
            "{text}"
        );
        assert_eq!(store.get(&keys::owner("b")).unwrap(), None);
        assert!(join(&store, "b", &owner("1.0", "y"), &never).is_ok());
        // When the last machine of a version has left, another version may join.
        let _ = hold.release(Txn::new());
        let other = join(&store, "a", &owner("1.1", "z"), &never).err().unwrap();
        assert!(matches!(other, Why::Refused(Refusal::Version { machine, .. }) if machine == "b"));
    }

    /// If the list was read before the other machine joined, the second read decides, and decides alike on both machines.
    #[test]
    fn of_two_versions_at_once_the_first_stays() {
        let known = |version: &str, since| Known {
            owner: Some((owner(version, "x"), since)),
            record: None,
        };
        let there = BTreeMap::from([
            ("a".to_owned(), known("1", 5)),
            ("b".to_owned(), known("2", 6)),
        ]);
        assert_eq!(other_version(&there, "a", "1", Some(5)), None);
        assert!(other_version(&there, "b", "2", Some(6)).is_some());
    }

    /// If the name is held and its owner does not reply, the join is refused, but only after the time of a lease.
    #[test]
    fn a_name_that_is_held_is_not_taken() {
        let store: Arc<dyn Store> = Arc::new(Embedded::new());
        let lease = store.grant(Duration::from_secs(600)).unwrap().id;
        let held =
            Txn::new().put_leased(keys::owner("a"), r#"{"version":"1","session":"x"}"#, lease);
        store.commit(&held).unwrap();
        let began = Instant::now();
        let refused = join(&store, "a", &owner("1", "y"), &never).err().unwrap();
        let Why::Refused(Refusal::Name { answers, .. }) = &refused else {
            panic!("{refused:?}");
        };
        assert!(!answers && began.elapsed() >= GONE_WITHIN);
        let left: Vec<String> = store
            .list(keys::ROOT)
            .unwrap()
            .entries
            .into_iter()
            .map(|(key, _)| key)
            .collect();
        assert_eq!(left, [keys::owner("a")], "what was asked is gone");
    }
}
