//! Labs on this host: claimed names, their state, and who is dead.
//!
//! `/run/constel/<lab>/` exists as long as the lab does. Its owner holds a lock on `lock` for life
//! and is named in `state.json` with the moment it started. A lab whose lock is free, or whose
//! process is gone, is dead and can be cleaned up.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::durable::{self, Lock};
use crate::error::{Context, Error, Result};
use crate::globals::{Globals, Owner};
use crate::ident::ProcessIdent;

/// A valid lab name: `[a-z0-9][a-z0-9-]{0,30}`, so that it can be part of the names of files,
/// cgroups and containers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LabName(String);

/// Names in our runtime directory that no lab can have.
const RESERVED: &[&str] = &["host"];

impl LabName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for LabName {
    type Err = Error;
    fn from_str(s: &str) -> Result<LabName> {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let ok = (1..=31).contains(&s.len())
            && s.bytes().all(|b| plain(b) || b == b'-')
            && !s.starts_with('-');
        if !ok {
            return Err(Error::Invalid(format!(
                "\"{s}\" cannot name a lab: 1 to 31 of a-z, 0-9 and -, not starting with -"
            )));
        }
        if RESERVED.contains(&s) {
            return Err(Error::Invalid(format!(
                "\"{s}\" cannot name a lab: the name is reserved"
            )));
        }
        Ok(LabName(s.into()))
    }
}

impl TryFrom<String> for LabName {
    type Error = Error;
    fn try_from(s: String) -> Result<LabName> {
        s.parse()
    }
}

impl From<LabName> for String {
    fn from(n: LabName) -> String {
        n.0
    }
}

impl fmt::Display for LabName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a lab is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LabState {
    /// Being brought up.
    Starting,
    /// Up.
    Running,
    /// Being taken down.
    Stopping,
    /// Its process is gone; what it left behind waits to be cleaned up.
    Dead,
}

/// Something outside our own namespaces that a lab made, recorded before it is made.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "thing")]
pub enum Thing {
    /// An interface in the host's namespace. Removed only if it carries our mark: an alias that
    /// starts with [`link_alias`]'s text, or the group [`LINK_GROUP`].
    HostLink {
        /// Its name.
        name: String,
    },
    /// A file, socket or symbolic link.
    File {
        /// Absolute path.
        path: PathBuf,
    },
    /// A mount point (unmounted, not removed).
    Mount {
        /// Absolute path.
        path: PathBuf,
    },
}

/// Interface group of our links in the host's namespace: the mark that is there from the moment
/// of creation. ("CST" and a version.)
pub const LINK_GROUP: u32 = 0x4353_5401;

/// The alias that marks a link as the lab's.
pub fn link_alias(lab: &LabName) -> String {
    format!("constel lab={lab}")
}

/// What `state.json` holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabRecord {
    /// The lab.
    pub lab: LabName,
    /// What its owner said it was doing; see [`RuntimeDir::list`] for the truth.
    pub state: LabState,
    /// The scenario file, as the user named it.
    pub scenario: String,
    /// The owner.
    pub owner: ProcessIdent,
    /// Number of nodes.
    pub nodes: u64,
    /// Number of edges.
    pub edges: u64,
    /// What to remove after a crash.
    #[serde(default)]
    pub things: Vec<Thing>,
    /// Whatever else the engine wants to find again.
    #[serde(default)]
    pub extra: serde_json::Value,
}

/// Our directory on this host, `/run/constel` except in tests.
#[derive(Clone, Debug)]
pub struct RuntimeDir {
    root: PathBuf,
}

impl Default for RuntimeDir {
    fn default() -> Self {
        RuntimeDir::at("/run/constel")
    }
}

impl RuntimeDir {
    /// Another directory (its parent must exist).
    pub fn at(root: impl Into<PathBuf>) -> RuntimeDir {
        RuntimeDir { root: root.into() }
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The directory of a lab, whether it exists or not.
    pub fn lab_dir(&self, lab: &LabName) -> PathBuf {
        self.root.join(lab.as_str())
    }

    /// The journals of host-wide settings, shared by all labs.
    pub fn globals(&self) -> Globals {
        Globals::at(self.root.join("host"))
    }

    /// Claims a lab name for the calling process, until the claim is released.
    ///
    /// # Errors
    /// [`Error::Conflict`] when the name is taken, saying by whom, or that its lab is dead.
    pub fn claim(&self, lab: &LabName, scenario: &str) -> Result<Claim> {
        let owner = ProcessIdent::current()?;
        // Under the host's lock, so that nobody sees a half-made claim, let alone cleans it up.
        let _host = self.lock()?;
        let dir = self.lab_dir(lab);
        if let Some(entry) = self.inspect(lab)? {
            return Err(Error::Conflict(match (entry.state, entry.pid()) {
                (LabState::Dead, _) => format!(
                    "lab {lab} was left behind by a process that is gone: run constel clean first"
                ),
                (_, Some(pid)) => format!("lab {lab} is running already (process {pid})"),
                (_, None) => format!("lab {lab} is running already"),
            }));
        }
        // Whoever can open the lab's socket can have it do anything.
        durable::make_dir(&dir, 0o700).context(|| format!("make {}", dir.display()))?;
        let lock = Lock::try_now(&dir.join("lock"))?
            .ok_or_else(|| Error::Conflict(format!("lab {lab} has just been taken")))?;
        let record = LabRecord {
            lab: lab.clone(),
            state: LabState::Starting,
            scenario: scenario.into(),
            owner,
            nodes: 0,
            edges: 0,
            things: Vec::new(),
            extra: serde_json::Value::Null,
        };
        durable::write_json(&dir.join("state.json"), &record)?;
        for number in 0..RESERVES {
            let path = reserve(&dir, number);
            fs::write(&path, [0; RESERVE_BYTES]).context(|| format!("write {}", path.display()))?;
        }
        Ok(Claim {
            runtime: self.clone(),
            dir,
            record,
            _lock: lock,
        })
    }

    /// Frees a little of what a lab has kept for the moment when there is no room left: ends must be written down even
    /// where others have filled the disk. False when nothing is left of it.
    pub fn free_reserve(&self, lab: &LabName) -> bool {
        let dir = self.lab_dir(lab);
        (0..RESERVES).any(|number| fs::remove_file(reserve(&dir, number)).is_ok())
    }

    /// All labs of this host, by name.
    ///
    /// # Errors
    /// [`Error::Os`] when the runtime directory or a record in it cannot be read.
    pub fn list(&self) -> Result<Vec<LabEntry>> {
        let Some(_host) = self.existing_lock()? else {
            return Ok(Vec::new());
        };
        let what = || format!("list {}", self.root.display());
        let mut out = Vec::new();
        for entry in fs::read_dir(&self.root).context(what)? {
            let name = entry.context(what)?.file_name();
            if let Some(lab) = name.to_str().and_then(|n| n.parse().ok()) {
                out.extend(self.inspect(&lab)?);
            }
        }
        out.sort_by(|a, b| a.lab.cmp(&b.lab));
        Ok(out)
    }

    /// One lab; `None` if there is none of that name.
    ///
    /// # Errors
    /// As [`RuntimeDir::list`].
    pub fn find(&self, lab: &LabName) -> Result<Option<LabEntry>> {
        let Some(_host) = self.existing_lock()? else {
            return Ok(None);
        };
        self.inspect(lab)
    }

    /// Removes the directory itself if no lab and no journal is in it.
    ///
    /// # Errors
    /// [`Error::Os`] when it is empty and cannot be locked or removed.
    pub fn remove_if_empty(&self) -> Result<bool> {
        let Some(_host) = self.existing_lock()? else {
            // Its maker died before it made the lock, or only changed what is the whole host's, for which there is another.
            self.globals().remove_dir_if_empty()?;
            return Ok(fs::remove_dir(&self.root).is_ok());
        };
        self.globals().remove_dir_if_empty()?;
        let what = || format!("list {}", self.root.display());
        for entry in fs::read_dir(&self.root).context(what)? {
            if entry.context(what)?.file_name() != ".lock" {
                return Ok(false);
            }
        }
        durable::remove(&self.root.join(".lock"))?;
        Ok(fs::remove_dir(&self.root).is_ok())
    }

    /// The lab's entry; to be called under the host's lock.
    pub(crate) fn inspect(&self, lab: &LabName) -> Result<Option<LabEntry>> {
        let dir = self.lab_dir(lab);
        if !dir.is_dir() {
            return Ok(None);
        }
        // Unreadable means half-written by a process that died; that must not block cleaning up.
        let record: Option<LabRecord> =
            durable::read_json(&dir.join("state.json")).unwrap_or_default();
        // Under the host's lock nobody is between making the directory and locking it.
        let locked = match dir.join("lock").exists() {
            true => Lock::try_now(&dir.join("lock"))?.is_none(),
            false => false,
        };
        let alive = match &record {
            Some(r) => locked && r.owner.is_alive()?,
            None => locked,
        };
        let state = match &record {
            _ if !alive => LabState::Dead,
            Some(r) => r.state,
            None => LabState::Starting,
        };
        Ok(Some(LabEntry {
            lab: lab.clone(),
            state,
            dir,
            record,
        }))
    }

    /// The host's lock: held for moments, while claims are made, looked at and removed.
    pub(crate) fn lock(&self) -> Result<Lock> {
        Lock::wait_in(&self.root, ".lock")
    }

    /// The same for those who only look; `None` where no lab has made the directory or the last one has just
    /// removed it.
    fn existing_lock(&self) -> Result<Option<Lock>> {
        Lock::wait_existing(&self.root.join(".lock"))
    }
}

/// A lab as found on this host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LabEntry {
    /// Its name.
    pub lab: LabName,
    /// What it is really doing.
    pub state: LabState,
    /// Its directory.
    pub dir: PathBuf,
    /// What its owner recorded; `None` if it died before it could.
    pub record: Option<LabRecord>,
}

impl LabEntry {
    /// The owner's process number, dead or alive.
    pub fn pid(&self) -> Option<u32> {
        self.record.as_ref().map(|r| r.owner.pid)
    }
}

/// A lab name that is ours. Dropping it without [`Claim::release`] leaves a dead lab, as a crash
/// would: whatever the lab made can still be found and cleaned up.
#[derive(Debug)]
pub struct Claim {
    runtime: RuntimeDir,
    dir: PathBuf,
    record: LabRecord,
    _lock: Lock,
}

impl Claim {
    /// The lab.
    pub fn lab(&self) -> &LabName {
        &self.record.lab
    }

    /// Its directory: for sockets, node files and whatever else goes when the lab goes.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What is recorded.
    pub fn record(&self) -> &LabRecord {
        &self.record
    }

    /// The owner to change host-wide settings as.
    pub fn owner(&self) -> Owner {
        Owner {
            name: self.record.lab.to_string(),
            process: self.record.owner.clone(),
        }
    }

    /// Changes the record, durably. Lab and owner stay as they are.
    ///
    /// # Errors
    /// [`Error::Os`] when the record cannot be written; it is then as before.
    pub fn update(&mut self, change: impl FnOnce(&mut LabRecord)) -> Result<()> {
        let mut new = self.record.clone();
        change(&mut new);
        new.lab = self.record.lab.clone();
        new.owner = self.record.owner.clone();
        let path = self.dir.join("state.json");
        while let Err(error) = durable::write_json(&path, &new) {
            let full = error.errno() == Some(libc::ENOSPC);
            if !full || !self.runtime.free_reserve(self.lab()) {
                return Err(error);
            }
        }
        self.record = new;
        Ok(())
    }

    /// Records something that the lab is about to make outside its own namespaces.
    ///
    /// # Errors
    /// As [`Claim::update`]; then nothing must be made.
    pub fn about_to_make(&mut self, thing: Thing) -> Result<()> {
        self.update(|r| r.things.push(thing))
    }

    /// Gives the name back and removes the directory with everything in it, and our directory on
    /// this host with the last lab. To be called last, when everything else of the lab is gone.
    ///
    /// # Errors
    /// [`Error::Os`] when the directory cannot be removed.
    pub fn release(self) -> Result<()> {
        {
            let _host = self.runtime.lock()?;
            remove_tree(&self.dir)?;
        }
        self.runtime.remove_if_empty()?;
        Ok(())
    }
}

/// Files that a lab keeps so that it can write its end down on a full disk, and how large each is: a record or two.
const RESERVES: usize = 4;
const RESERVE_BYTES: usize = 8192;

fn reserve(dir: &Path, number: usize) -> PathBuf {
    dir.join(format!(".reserve-{number}"))
}

/// Removes a directory of ours with all in it, the state last: a crash half-way leaves a lab that
/// is still recognised as dead.
pub(crate) fn remove_tree(dir: &Path) -> Result<()> {
    let what = || format!("remove {}", dir.display());
    crate::enclosure::mounts::unmount_below(dir)?;
    let kept = ["state.json", "lock"];
    for entry in fs::read_dir(dir).context(what)? {
        let entry = entry.context(what)?;
        if kept.iter().any(|k| entry.file_name() == *k) {
            continue;
        }
        let is_dir = entry.file_type().context(what)?.is_dir();
        if is_dir {
            fs::remove_dir_all(entry.path())
        } else {
            fs::remove_file(entry.path())
        }
        .context(what)?;
    }
    for k in kept {
        durable::remove(&dir.join(k))?;
    }
    fs::remove_dir(dir).context(what)
}
