//! Labs on this host: claimed names, their states, and detection of dead labs.
//!
//! `/run/constel/<lab>/` exists as long as the lab does. Its owner holds a lock on `lock` for its lifetime and is named
//! in `state.json` with its start time. A lab whose lock is free, or whose process is gone, is dead and can be cleaned
//! up.

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

/// State of a lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LabState {
    /// Being brought up.
    Starting,
    /// Up.
    Running,
    /// Being taken down.
    Stopping,
    /// The lab's process is gone; its remains must be cleaned up.
    Dead,
}

/// An object outside our own namespaces that a lab made, recorded before it is made.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "thing")]
pub enum HostObject {
    /// An interface in the host's namespace. It is removed only if it carries our mark: an alias that starts with
    /// [`link_alias`]'s text, or the group [`LINK_GROUP`].
    HostLink {
        /// The interface's name.
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

/// Interface group of our links in the host's namespace: a mark that exists from the moment of creation. ("CST" and a
/// version.)
pub const LINK_GROUP: u32 = 0x4353_5401;

/// Returns the alias that marks a link as the lab's.
pub fn link_alias(lab: &LabName) -> String {
    format!("constel lab={lab}")
}

/// Contents of `state.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabRecord {
    /// The lab.
    pub lab: LabName,
    /// State as recorded by its owner; [`RuntimeDir::list`] returns the actual one.
    pub state: LabState,
    /// The scenario file, as the user named it.
    pub scenario: String,
    /// The owner.
    pub owner: ProcessIdent,
    /// Number of nodes.
    pub nodes: u64,
    /// Number of edges.
    pub edges: u64,
    /// Objects to remove after a crash.
    #[serde(default)]
    pub things: Vec<HostObject>,
    /// Additional data of the engine.
    #[serde(default)]
    pub extra: serde_json::Value,
}

/// The runtime directory on this host, `/run/constel` except in tests.
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
    /// Uses another directory (its parent must exist).
    pub fn at(root: impl Into<PathBuf>) -> RuntimeDir {
        RuntimeDir { root: root.into() }
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the directory of a lab, whether it exists or not.
    pub fn lab_dir(&self, lab: &LabName) -> PathBuf {
        self.root.join(lab.as_str())
    }

    /// Returns the journals of host-wide settings, shared by all labs.
    pub fn globals(&self) -> Globals {
        Globals::at(self.root.join("host"))
    }

    /// Claims a lab name for the calling process, until the claim is released.
    ///
    /// # Errors
    /// [`Error::Conflict`] when the name is taken, with the process that has it, or when its lab is dead.
    pub fn claim(&self, lab: &LabName, scenario: &str) -> Result<Claim> {
        let owner = ProcessIdent::current()?;
        // Under the host's lock, so that no other process sees a half-made claim, or cleans it up.
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
        // A process that can open the lab's socket has full control of the lab, so only root may enter.
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

    /// Frees a little of the disk space that a lab has reserved: the end of a lab must be recorded even if other
    /// programs have filled the disk. Returns false when no reserve is left.
    pub fn free_reserve(&self, lab: &LabName) -> bool {
        let dir = self.lab_dir(lab);
        (0..RESERVES).any(|number| fs::remove_file(reserve(&dir, number)).is_ok())
    }

    /// Returns all labs of this host, by name.
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

    /// Returns the lab of that name; `None` if it does not exist.
    ///
    /// # Errors
    /// As [`RuntimeDir::list`].
    pub fn find(&self, lab: &LabName) -> Result<Option<LabEntry>> {
        let Some(_host) = self.existing_lock()? else {
            return Ok(None);
        };
        self.inspect(lab)
    }

    /// Removes the directory itself if it contains neither a lab nor a journal.
    ///
    /// # Errors
    /// [`Error::Os`] when it is empty and cannot be locked or removed.
    pub fn remove_if_empty(&self) -> Result<bool> {
        let Some(_host) = self.existing_lock()? else {
            // The folder's creator died before it made the lock, or changed only host-wide settings, which have another lock.
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

    /// Returns the lab's entry; must be called under the host's lock.
    pub(crate) fn inspect(&self, lab: &LabName) -> Result<Option<LabEntry>> {
        let dir = self.lab_dir(lab);
        if !dir.is_dir() {
            return Ok(None);
        }
        // An unreadable record was half-written by a process that died; that must not block cleaning up.
        let record: Option<LabRecord> =
            durable::read_json(&dir.join("state.json")).unwrap_or_default();
        // Under the host's lock, no process is between creating the directory and locking it.
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

    /// Takes the host's lock. It is held for moments, while claims are made, read and removed.
    pub(crate) fn lock(&self) -> Result<Lock> {
        Lock::wait_in(&self.root, ".lock")
    }

    /// Takes the lock for reading only; `None` if no lab has created the directory, or the last one has just removed
    /// it.
    fn existing_lock(&self) -> Result<Option<Lock>> {
        Lock::wait_existing(&self.root.join(".lock"))
    }
}

/// A lab as found on this host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LabEntry {
    /// The lab's name.
    pub lab: LabName,
    /// Actual state.
    pub state: LabState,
    /// Its directory.
    pub dir: PathBuf,
    /// The owner's record; `None` if it died before writing one.
    pub record: Option<LabRecord>,
}

impl LabEntry {
    /// Returns the owner's process number, dead or alive.
    pub fn pid(&self) -> Option<u32> {
        self.record.as_ref().map(|r| r.owner.pid)
    }
}

/// A claimed lab name. Dropping it without [`Claim::release`] leaves a dead lab, as a crash would: everything that the
/// lab made can still be found and cleaned up.
#[derive(Debug)]
pub struct Claim {
    runtime: RuntimeDir,
    dir: PathBuf,
    record: LabRecord,
    _lock: Lock,
}

impl Claim {
    /// Returns the lab's name.
    pub fn lab(&self) -> &LabName {
        &self.record.lab
    }

    /// Returns its directory, for sockets, node files and all other files that are removed with the lab.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the record.
    pub fn record(&self) -> &LabRecord {
        &self.record
    }

    /// Returns the owner under which the lab changes host-wide settings.
    pub fn owner(&self) -> Owner {
        Owner {
            name: self.record.lab.to_string(),
            process: self.record.owner.clone(),
        }
    }

    /// Changes the record, durably. Lab and owner cannot be changed.
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

    /// Records an object that the lab is about to make outside its own namespaces.
    ///
    /// # Errors
    /// As [`Claim::update`]; then the object must not be made.
    pub fn about_to_make(&mut self, thing: HostObject) -> Result<()> {
        self.update(|r| r.things.push(thing))
    }

    /// Releases the name and removes the directory with all its contents; after the last lab, the runtime directory
    /// too. Must be called last, when all other objects of the lab are gone.
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

/// Number and size of the files that a lab keeps so that it can record its end on a full disk: a record or two each.
const RESERVES: usize = 4;
const RESERVE_BYTES: usize = 8192;

fn reserve(dir: &Path, number: usize) -> PathBuf {
    dir.join(format!(".reserve-{number}"))
}

/// Removes a lab's directory with its contents, the state last: after a crash half-way the lab is still recognised as
/// dead.
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
