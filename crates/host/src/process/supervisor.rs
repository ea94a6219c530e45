//! Supervision of many children: which ended, and how. The cost grows with the number that end, not with the number
//! that live.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::process::Signal;

use super::child::{Child, Exit, KILLED_WITHIN};
use crate::error::{Context, Error, Result};

/// Maximum number of ends handled at a time.
const AT_ONCE: usize = 256;

/// The time in which a killed child is gone, unless it is frozen or in uninterruptible sleep.
const DYING: Duration = Duration::from_millis(100);
/// How often groups are thawed for children that do not die.
const THAW_EVERY: Duration = Duration::from_secs(1);

/// An event of a [`Supervisor`]: a child ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exited<K> {
    /// The child's key.
    pub key: K,
    /// The child's process number.
    pub pid: u32,
    /// The child's command.
    pub name: String,
    /// How it ended.
    pub exit: Exit,
}

/// Many children under keys of the caller's choice: reaps them and reports how they ended.
#[derive(Debug)]
pub struct Supervisor<K> {
    children: BTreeMap<K, Child>,
    /// Key of each process number; and the numbers that are not registered with the kernel yet.
    by_pid: BTreeMap<u32, K>,
    fresh: Vec<u32>,
    /// Created when first needed.
    epoll: Option<OwnedFd>,
}

impl<K> Default for Supervisor<K> {
    fn default() -> Self {
        Supervisor {
            children: BTreeMap::new(),
            by_pid: BTreeMap::new(),
            fresh: Vec::new(),
            epoll: None,
        }
    }
}

impl<K: Ord + Clone> Supervisor<K> {
    /// Returns a supervisor without children.
    pub fn new() -> Supervisor<K> {
        Supervisor::default()
    }

    /// Adds a child; returns the one that had the key before, if any.
    pub fn add(&mut self, key: K, child: Child) -> Option<Child> {
        let before = self.remove(&key);
        self.by_pid.insert(child.pid(), key.clone());
        self.fresh.push(child.pid());
        self.children.insert(key, child);
        before
    }

    /// Returns a supervised child.
    pub fn get(&self, key: &K) -> Option<&Child> {
        self.children.get(key)
    }

    /// Removes a child and returns it.
    pub fn remove(&mut self, key: &K) -> Option<Child> {
        let child = self.children.remove(key)?;
        self.by_pid.remove(&child.pid());
        let fresh = self.fresh.len();
        self.fresh.retain(|pid| *pid != child.pid());
        if let (Some(epoll), true) = (&self.epoll, fresh == self.fresh.len()) {
            // The child was registered and its descriptor is open, so this cannot fail. If it did, an unexpected end
            // would be ignored.
            let _ = epoll::delete(epoll, &child);
        }
        Some(child)
    }

    /// Returns the number of children not yet reported as ended.
    pub fn len(&self) -> usize {
        self.children.len()
    }

    /// Returns whether all have been reported as ended.
    pub fn is_empty(&self) -> bool {
        self.children.is_empty()
    }

    /// Iterates over the supervised children.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &Child)> {
        self.children.iter()
    }

    /// Waits at most `timeout` for at least one child to end; reports and removes those that have ended.
    ///
    /// # Errors
    /// [`Error::Os`] when a child cannot be watched or waited for.
    pub fn wait(&mut self, timeout: Duration) -> Result<Vec<Exited<K>>> {
        let mut out = Vec::new();
        for pid in self.ready(timeout)? {
            let Some(key) = self.by_pid.get(&pid).cloned() else {
                continue;
            };
            let Some(exit) = self.children[&key].try_wait()? else {
                continue;
            };
            if let Some(child) = self.remove(&key) {
                out.push(Exited {
                    key,
                    pid,
                    name: child.name().to_owned(),
                    exit,
                });
            }
        }
        Ok(out)
    }

    /// Returns the numbers of ended children, after at most `timeout`, or a signal.
    fn ready(&mut self, timeout: Duration) -> Result<Vec<u32>> {
        let what = || "wait for processes".to_string();
        let epoll = match &self.epoll {
            Some(epoll) => epoll,
            None => {
                let fresh = epoll::create(epoll::CreateFlags::CLOEXEC).context(what)?;
                self.epoll.insert(fresh)
            }
        };
        while let Some(pid) = self.fresh.pop() {
            let child = self
                .by_pid
                .get(&pid)
                .and_then(|key| self.children.get(key))
                .expect("fresh ones are in charge");
            let data = epoll::EventData::new_u64(pid.into());
            epoll::add(epoll, child, data, epoll::EventFlags::IN).context(what)?;
        }
        let timeout = Timespec {
            tv_sec: timeout.as_secs() as i64,
            tv_nsec: timeout.subsec_nanos() as _,
        };
        let none = epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        };
        let mut events = [none; AT_ONCE];
        let count = match epoll::wait(epoll, &mut events, Some(&timeout)) {
            Ok(count) => count,
            Err(Errno::INTR) => 0,
            Err(e) => Err(e).context(what)?,
        };
        Ok(events[..count]
            .iter()
            .map(|e| e.data.u64() as u32)
            .collect())
    }

    /// Requests the end of all, waits `grace` for all together, and kills the rest. Reports every end. A stopped child
    /// is continued, so that it can end by itself. Frozen children do not even die before `thaw` has thawed their
    /// groups.
    ///
    /// # Errors
    /// [`Error::Conflict`] with those that do not die of SIGKILL within 10 s (a process in uninterruptible sleep): they
    /// stay supervised. [`Error::Os`] when one cannot be signalled or waited for.
    pub fn terminate_all(
        &mut self,
        grace: Duration,
        thaw: impl Fn() -> Result<()>,
    ) -> Result<Vec<Exited<K>>> {
        let mut out = Vec::new();
        if !grace.is_zero() {
            for c in self.children.values() {
                c.signal(Signal::TERM)?;
                c.signal(Signal::CONT)?;
            }
            let end = Instant::now() + grace;
            while !self.is_empty() {
                let left = end.saturating_duration_since(Instant::now());
                out.extend(self.wait(left)?);
                if left.is_zero() {
                    break;
                }
            }
        }
        for c in self.children.values() {
            c.signal(Signal::KILL)?;
        }
        let end = Instant::now() + KILLED_WITHIN;
        let mut thaw_at = Instant::now() + DYING;
        while !self.is_empty() {
            out.extend(self.wait(DYING)?);
            if Instant::now() >= thaw_at && !self.is_empty() {
                // After they were killed, so that no child that goes on freezes the others again.
                thaw()?;
                thaw_at = Instant::now() + THAW_EVERY;
            }
            if Instant::now() > end && !self.is_empty() {
                let names = self.children.values();
                let names: Vec<_> = names
                    .map(|c| format!("{} ({})", c.name(), c.pid()))
                    .collect();
                return Err(Error::Conflict(format!(
                    "killed, and do not die: {}",
                    names.join(", ")
                )));
            }
        }
        Ok(out)
    }
}
