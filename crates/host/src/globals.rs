//! Settings of the whole host: changed only after the original is on disk, and restored by the last lab that needs the
//! change.
//!
//! One journal file per setting is in `/run/constel/host/`, under one lock. It contains the original value, every value
//! that we set, and the owners that need it. It is written and synced *before* the setting, so a process that is killed
//! at any moment leaves enough information to undo its change. If another program has changed the setting since, we
//! leave its value and report that.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::durable::{self, Lock};
use crate::error::{Context, Error, Result};
use crate::ident::ProcessIdent;
use crate::sysctl;

/// Owner of a change: a lab, represented by the process that runs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Lab name, or another name that is unique among Constel's processes.
    pub name: String,
    /// The process. A dead one no longer counts as an owner.
    pub process: ProcessIdent,
}

impl Owner {
    /// Returns the calling process as the owner `name`.
    ///
    /// # Errors
    /// As [`ProcessIdent::current`].
    pub fn current(name: impl Into<String>) -> Result<Owner> {
        Ok(Owner {
            name: name.into(),
            process: ProcessIdent::current()?,
        })
    }
}

/// Value that an owner needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequiredValue {
    /// Exactly this value. Two owners that need different values conflict.
    Exactly(String),
    /// A number that is at least this: the largest wish counts.
    AtLeast(u64),
}

/// Result of an owner's release of a setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Release {
    /// It was restored to its original value.
    Restored {
        /// The setting's file.
        path: PathBuf,
        /// The original value.
        value: String,
    },
    /// It had its original value already.
    WasOriginal {
        /// The setting's file.
        path: PathBuf,
    },
    /// Other labs still need the change.
    StillNeeded {
        /// The setting's file.
        path: PathBuf,
        /// Names of the other owners.
        owners: Vec<String>,
    },
    /// Another program has changed it after us: its value was left.
    ChangedByOthers {
        /// The setting's file.
        path: PathBuf,
        /// The value before our first change.
        original: String,
        /// The value found.
        found: String,
    },
    /// The owner did not hold the setting.
    NotOwned {
        /// The setting's file.
        path: PathBuf,
    },
}

/// One setting's journal.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry {
    path: PathBuf,
    original: String,
    /// Every value that we set or were about to set; any other value comes from another program.
    ours: Vec<String>,
    owners: BTreeMap<String, OwnerEntry>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct OwnerEntry {
    process: ProcessIdent,
    wish: RequiredValue,
    /// Number of guards that the owner holds.
    count: u32,
}

/// The journals of one host.
#[derive(Clone, Debug)]
pub struct Globals {
    dir: PathBuf,
}

impl Globals {
    /// Uses the journals under `dir` (for labs: `RuntimeDir::globals`, so that all labs of the host share them). The
    /// directory is created when first needed.
    pub fn at(dir: impl Into<PathBuf>) -> Globals {
        Globals { dir: dir.into() }
    }

    /// Sets the setting at `path` (a file under `/proc/sys` or `/sys`) as wished.
    ///
    /// Each call must be matched by one [`Globals::release`], or by one
    /// [`Globals::release_all`] for all of an owner's.
    ///
    /// # Errors
    /// [`Error::Conflict`] when another living owner needs another value; [`Error::Os`] when the kernel refuses (then
    /// nothing remains recorded); [`Error::Protocol`] when the kernel stores a value other than the one written (then
    /// the original is restored).
    pub fn set(&self, owner: &Owner, path: &Path, wish: RequiredValue) -> Result<()> {
        let _lock = self.lock_anew()?;
        let current = read_setting(path)?;
        let journal = self.journal_of(path);
        let old: Option<Entry> = durable::read_json(&journal)?;
        let mut entry = match old.clone() {
            Some(e) => e,
            None => Entry {
                path: path.into(),
                original: current.clone(),
                ours: Vec::new(),
                owners: BTreeMap::new(),
            },
        };
        entry.drop_dead()?;
        let wanted = entry.target(&owner.name, &wish, &current)?;
        if old.is_none() && wanted == current {
            // The host has this value anyway: there is no change to undo.
            return Ok(());
        }
        let mine = entry
            .owners
            .entry(owner.name.clone())
            .or_insert_with(|| OwnerEntry {
                process: owner.process.clone(),
                wish: wish.clone(),
                count: 0,
            });
        mine.count += 1;
        mine.wish = wish;
        mine.process = owner.process.clone();
        if !entry.ours.contains(&wanted) {
            entry.ours.push(wanted.clone());
        }
        durable::write_json(&journal, &entry)?;
        if wanted == current {
            return Ok(());
        }
        let done = sysctl::write_file(path, &wanted)
            .context(|| format!("set {} to {wanted}", path.display()))
            .and_then(|()| {
                let now = read_setting(path)?;
                if now == wanted {
                    return Ok(());
                }
                let _ = sysctl::write_file(path, &current);
                Err(Error::Protocol {
                    what: format!("set {} to {wanted}", path.display()),
                    detail: format!("it became {now}"),
                })
            });
        if done.is_err() {
            match &old {
                Some(e) => durable::write_json(&journal, e)?,
                None => drop(durable::remove(&journal)?),
            }
        }
        done
    }

    /// Does the same as [`Globals::set`], until the returned guard is finished or dropped.
    ///
    /// # Errors
    /// As [`Globals::set`].
    pub fn hold(&self, owner: &Owner, path: &Path, wish: RequiredValue) -> Result<Held> {
        self.set(owner, path, wish)?;
        Ok(Held {
            globals: self.clone(),
            owner: owner.clone(),
            path: path.into(),
            live: true,
        })
    }

    /// Releases one of the owner's holds on a setting; the last owner's last hold restores it.
    ///
    /// # Errors
    /// [`Error::Os`] when the journal cannot be read or written, or the setting cannot be restored; it then stays
    /// recorded.
    pub fn release(&self, owner_name: &str, path: &Path) -> Result<Release> {
        if !self.dir.exists() {
            return Ok(Release::NotOwned { path: path.into() });
        }
        let _lock = self.lock()?;
        self.release_locked(owner_name, &self.journal_of(path), path, false)
    }

    /// Releases everything of an owner: at the end of a lab, or when cleaning up after it. Settings that the owner does
    /// not hold are not reported. All settings are tried; if some fail, the first error is returned after the others
    /// are done.
    ///
    /// # Errors
    /// The first failure, after all have been tried.
    pub fn release_all(&self, owner_name: &str) -> Result<Vec<Release>> {
        self.release_each(owner_name, false)
    }

    /// Does the same as [`Globals::release_all`] for an owner whose process is dead. Settings of a living process of
    /// that name stay: a lab that died may have been started again since.
    ///
    /// # Errors
    /// The first failure, after all have been tried.
    pub fn release_all_dead(&self, owner_name: &str) -> Result<Vec<Release>> {
        self.release_each(owner_name, true)
    }

    fn release_each(&self, owner_name: &str, only_dead: bool) -> Result<Vec<Release>> {
        let mut out = Vec::new();
        let mut first_error = None;
        if !self.dir.exists() {
            return Ok(out);
        }
        let _lock = self.lock()?;
        for journal in self.journals()? {
            let done = durable::read_json::<Entry>(&journal).and_then(|e| {
                let Some(e) = e else { return Ok(None) };
                let owner = e.owners.get(owner_name);
                if let (true, Some(owner)) = (only_dead, owner)
                    && owner.process.is_alive()?
                {
                    return Ok(None);
                }
                self.release_locked(owner_name, &journal, &e.path, true)
                    .map(Some)
            });
            match done {
                Ok(None | Some(Release::NotOwned { .. })) => {}
                Ok(Some(r)) => out.push(r),
                Err(e) => drop(first_error.get_or_insert(e)),
            }
        }
        match first_error {
            Some(e) => Err(e),
            None => Ok(out),
        }
    }

    /// Removes owners whose process is dead, and restores settings without owners.
    ///
    /// # Errors
    /// As [`Globals::release`], after all have been tried.
    pub fn release_dead(&self) -> Result<Vec<Release>> {
        if !self.dir.exists() {
            return Ok(Vec::new());
        }
        let mut dead = std::collections::BTreeSet::new();
        {
            let _lock = self.lock()?;
            for journal in self.journals()? {
                for (name, o) in
                    durable::read_json::<Entry>(&journal)?.map_or(BTreeMap::new(), |e| e.owners)
                {
                    if !o.process.is_alive()? {
                        dead.insert(name);
                    }
                }
            }
        }
        let mut out = Vec::new();
        for name in dead {
            out.extend(self.release_all_dead(&name)?);
        }
        Ok(out)
    }

    /// Returns the names of all owners of recorded changes, alive or dead.
    ///
    /// # Errors
    /// [`Error::Os`] when a journal cannot be read, [`Error::Invalid`] when one is not valid.
    pub fn owners(&self) -> Result<Vec<String>> {
        if !self.dir.exists() {
            return Ok(Vec::new());
        }
        let _lock = self.lock()?;
        let mut names = Vec::new();
        for j in self.journals()? {
            names.extend(
                durable::read_json::<Entry>(&j)?
                    .into_iter()
                    .flat_map(|e| e.owners.into_keys()),
            );
        }
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// Removes the directory if no change is recorded in it.
    ///
    /// # Errors
    /// [`Error::Os`] when it is empty and cannot be locked or removed.
    pub fn remove_dir_if_empty(&self) -> Result<bool> {
        if !self.dir.exists() {
            return Ok(false);
        }
        let _lock = self.lock()?;
        if !self.journals()?.is_empty() {
            return Ok(false);
        }
        // Writers hold the lock, so a half-written journal belongs to a process that was killed.
        for entry in fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if name.to_string_lossy().starts_with('.') && name.to_string_lossy().ends_with(".tmp") {
                durable::remove(&entry.path())?;
            }
        }
        // Waiters on the old lock file detect that it was removed (see `lock`).
        durable::remove(&self.lock_path())?;
        Ok(fs::remove_dir(&self.dir).is_ok())
    }

    fn release_locked(
        &self,
        owner: &str,
        journal: &Path,
        path: &Path,
        entirely: bool,
    ) -> Result<Release> {
        let path = path.to_path_buf();
        let Some(mut entry) = durable::read_json::<Entry>(journal)? else {
            return Ok(Release::NotOwned { path });
        };
        let Some(mine) = entry.owners.get_mut(owner) else {
            return Ok(Release::NotOwned { path });
        };
        mine.count = mine.count.saturating_sub(1);
        if mine.count == 0 || entirely {
            entry.owners.remove(owner);
        }
        entry.drop_dead()?;
        if !entry.owners.is_empty() {
            durable::write_json(journal, &entry)?;
            return Ok(Release::StillNeeded {
                path,
                owners: entry.owners.into_keys().collect(),
            });
        }
        let found = match read_setting(&path) {
            Ok(v) => v,
            // A setting that no longer exists (with its module) needs no restoring.
            Err(e) if e.errno() == Some(libc::ENOENT) => {
                durable::remove(journal)?;
                return Ok(Release::WasOriginal { path });
            }
            Err(e) => return Err(e),
        };
        let result = if found == entry.original {
            Release::WasOriginal { path }
        } else if entry.ours.contains(&found) {
            sysctl::write_file(&path, &entry.original)
                .context(|| format!("restore {} to {}", path.display(), entry.original))?;
            let now = read_setting(&path)?;
            if now != entry.original {
                return Err(Error::Protocol {
                    what: format!("restore {} to {}", path.display(), entry.original),
                    detail: format!("it became {now}"),
                });
            }
            Release::Restored {
                path,
                value: entry.original,
            }
        } else {
            Release::ChangedByOthers {
                path,
                original: entry.original,
                found,
            }
        };
        durable::remove(journal)?;
        Ok(result)
    }

    /// Takes the lock. Its folder, and the parent (`/run/constel`), are created if no lab has been claimed. The process
    /// that ends the last lab may remove both between the two steps; then they are created again.
    fn lock_anew(&self) -> Result<Lock> {
        const TRIES: u32 = 1_000;
        let mut tries = 0;
        loop {
            if let Some(parent) = self.dir.parent() {
                match durable::make_dir(parent, 0o755) {
                    Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => {
                        return Err(Error::os(format!("make {}", parent.display()), e));
                    }
                    _ => {}
                }
            }
            tries += 1;
            match self.lock() {
                Err(e) if e.errno() == Some(libc::ENOENT) && tries < TRIES => {}
                locked => return locked,
            }
        }
    }

    fn lock(&self) -> Result<Lock> {
        Lock::wait_in(&self.dir, "lock")
    }

    fn lock_path(&self) -> PathBuf {
        self.dir.join("lock")
    }

    fn journal_of(&self, path: &Path) -> PathBuf {
        let name = path
            .to_string_lossy()
            .trim_start_matches('/')
            .replace('/', ",");
        self.dir.join(format!("{name}.json"))
    }

    fn journals(&self) -> Result<Vec<PathBuf>> {
        let what = || format!("list {}", self.dir.display());
        let mut out = Vec::new();
        for e in fs::read_dir(&self.dir).context(what)? {
            let p = e.context(what)?.path();
            let name = p
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if name.ends_with(".json") && !name.starts_with('.') {
                out.push(p);
            }
        }
        out.sort();
        Ok(out)
    }
}

impl Entry {
    fn drop_dead(&mut self) -> Result<()> {
        let mut dead = Vec::new();
        for (name, o) in &self.owners {
            if !o.process.is_alive()? {
                dead.push(name.clone());
            }
        }
        for name in dead {
            self.owners.remove(&name);
        }
        Ok(())
    }

    /// Returns the value that satisfies `name`'s new wish and those of all other owners.
    fn target(&self, name: &str, wish: &RequiredValue, current: &str) -> Result<String> {
        let others = self.owners.iter().filter(|(n, _)| *n != name);
        match wish {
            RequiredValue::Exactly(v) => {
                let v = sysctl::normal(v);
                for (other, o) in others {
                    let fits = match &o.wish {
                        RequiredValue::Exactly(w) => sysctl::normal(w) == v,
                        RequiredValue::AtLeast(n) => v.parse::<u64>().is_ok_and(|v| v >= *n),
                    };
                    if !fits {
                        return Err(Error::Conflict(format!(
                            "{} cannot be {v}: lab {other} needs another value",
                            self.path.display()
                        )));
                    }
                }
                Ok(v)
            }
            RequiredValue::AtLeast(n) => {
                let now: u64 = current.parse().map_err(|_| {
                    Error::Invalid(format!("{} holds \"{current}\"", self.path.display()))
                })?;
                for (other, o) in others {
                    if let RequiredValue::Exactly(w) = &o.wish
                        && w.trim().parse::<u64>().is_ok_and(|w| w < *n)
                    {
                        return Err(Error::Conflict(format!(
                            "{} cannot be {n} or more: lab {other} needs {w}",
                            self.path.display()
                        )));
                    }
                }
                Ok(now.max(*n).to_string())
            }
        }
    }
}

/// A setting held by a guard; see [`Globals::hold`].
#[derive(Debug)]
pub struct Held {
    globals: Globals,
    owner: Owner,
    path: PathBuf,
    live: bool,
}

impl Held {
    /// Releases the hold and returns the result.
    ///
    /// # Errors
    /// As [`Globals::release`].
    pub fn finish(mut self) -> Result<Release> {
        self.live = false;
        self.globals.release(&self.owner.name, &self.path)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.live {
            // On failure the journal stays, and cleaning up tries again.
            let _ = self.globals.release(&self.owner.name, &self.path);
        }
    }
}

fn read_setting(path: &Path) -> Result<String> {
    let raw = fs::read_to_string(path).context(|| format!("read {}", path.display()))?;
    Ok(sysctl::normal(&raw))
}
