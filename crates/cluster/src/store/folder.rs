//! A store in files, for processes of one host, without an installed or running service.
//!
//! The folder contains `store.json`, which each change replaces as a whole, and `lock`. Each read or change holds the lock
//! while it lasts, and the kernel releases the lock of a killed process. Leases are measured by `CLOCK_BOOTTIME`, which also
//! runs while the machine sleeps, and end with the next access by any process. After a reboot all leases have ended.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use constel_units::files;
use rustix::fs::{FlockOperation, OFlags, flock};
use serde::{Deserialize, Serialize};

use crate::store::error::{Error, Result};
use crate::store::memory::Memory;
use crate::store::model::{Entry, Event, Lease, LeaseId, Listing, Outcome, Revision, Txn};
use crate::store::{Store, Watch};

/// The file with the content of the store, within its folder.
const FILE: &str = "store.json";

/// Number of changes that are remembered for watches. It is small because the file is written with each change.
const MOST_REMEMBERED: usize = 2_000;

/// Maximum size of the file, bytes: as many remembered changes of the largest pieces, as base64, and the keys. A store of 100
/// machines with a lab has some MiB.
const MOST_FILE_BYTES: u64 = 4 << 30;

/// A process that holds the lock longer than this has stopped.
const PATIENCE: Duration = Duration::from_secs(2);

/// Interval at which a watch checks for changes.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The first bytes of the file. The revision and the end of the next lease follow.
const MARK: &str = "constel-store 1";

/// A store in a folder. Clones and other processes share it.
#[derive(Debug, Clone)]
pub struct Folder {
    path: PathBuf,
    boot: String,
}

#[derive(Serialize, Deserialize)]
struct Kept {
    /// The boot ID of the machine that its times belong to.
    boot: String,
    memory: Memory,
}

/// The content of the file's first line, which can be read without the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Glance {
    revision: Revision,
    next_expiry_ns: u64,
}

impl Folder {
    /// Opens the store in this folder. Creates the folder if it does not exist.
    ///
    /// # Errors
    /// [`Error::Invalid`]: the folder cannot be created, or its content is not a store.
    pub fn open(path: &Path) -> Result<Self> {
        let invalid = |error: io::Error| Error::Invalid(format!("{}: {error}", path.display()));
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(invalid)?;
        Self::at(path)
    }

    /// Opens the existing store in this folder.
    ///
    /// # Errors
    /// [`Error::Invalid`]: there is no store. Nothing is created.
    pub fn find(path: &Path) -> Result<Self> {
        let file = path.join(FILE);
        match file.try_exists() {
            Ok(true) => Self::at(path),
            Ok(false) => Err(Error::Invalid(format!(
                "there is no store in {}",
                path.display()
            ))),
            Err(error) => Err(Error::Invalid(format!("{}: {error}", path.display()))),
        }
    }

    /// Opens an existing folder.
    fn at(path: &Path) -> Result<Self> {
        let invalid = |error: io::Error| Error::Invalid(format!("{}: {error}", path.display()));
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").map_err(invalid)?;
        let folder = Self {
            path: path.to_owned(),
            boot: boot.trim().to_owned(),
        };
        folder.look(|_| ())?;
        Ok(folder)
    }

    fn file(&self) -> PathBuf {
        self.path.join(FILE)
    }

    fn unreachable(&self, doing: &str, error: &io::Error) -> Error {
        Error::Unreachable(format!("{}: {doing}: {error}", self.path.display()))
    }

    /// Locks the store exclusively until the returned file is dropped.
    fn lock(&self) -> Result<File> {
        let failed = |error: io::Error| self.unreachable("lock", &error);
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            // A named pipe in its place is an error, and nothing waits for it.
            .custom_flags(OFlags::NONBLOCK.bits() as i32)
            .open(self.path.join("lock"))
            .map_err(failed)?;
        let until = Instant::now() + PATIENCE;
        loop {
            // A blocking `flock` could wait for ever for a stopped process.
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(file),
                Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => {}
                Err(error) => return Err(failed(error.into())),
            }
            if Instant::now() >= until {
                let reason = "another process has held the lock for two seconds";
                return Err(failed(io::Error::other(reason)));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Returns the content of the file, and whether leases have ended since it was written.
    fn read(&self) -> Result<(Memory, bool)> {
        let text = match files::read(&self.file(), MOST_FILE_BYTES) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok((Memory::new(), true));
            }
            Err(error) => return Err(self.unreachable("read", &error)),
        };
        let foreign = |reason: String| {
            Error::Invalid(format!("{} is no store: {reason}", self.file().display()))
        };
        let text = String::from_utf8(text).map_err(|error| foreign(error.to_string()))?;
        let (head, body) = text.split_once('\n').unwrap_or((&text, ""));
        glance(head).ok_or_else(|| foreign(format!("it does not begin with {MARK:?}")))?;
        let kept: Kept = serde_json::from_str(body).map_err(|error| foreign(error.to_string()))?;
        let mut memory = kept.memory;
        if !memory.is_sound() {
            return Err(foreign("its revisions contradict each other".to_owned()));
        }
        let before = memory.revision();
        let leases = memory.next_expiry_ns();
        // Times of another boot cannot be compared with the present clock.
        match kept.boot == self.boot {
            true => memory.expire(now_ns()),
            false => memory.expire_all(),
        }
        let has_changed = memory.revision() != before || memory.next_expiry_ns() != leases;
        Ok((memory, has_changed))
    }

    fn write(&self, mut memory: Memory) -> Result<()> {
        // The whole store is written at each change, so its history must stay small.
        memory.remember(MOST_REMEMBERED);
        let failed = |error: io::Error| self.unreachable("write", &error);
        // The first line lets a watcher find in 64 bytes whether anything has changed.
        let mut text = format!(
            "{MARK} {} {}\n",
            memory.revision(),
            memory.next_expiry_ns().unwrap_or(u64::MAX)
        );
        let kept = Kept {
            boot: self.boot.clone(),
            memory,
        };
        text += &serde_json::to_string(&kept).map_err(|error| failed(error.into()))?;
        // The rename replaces the file as a whole, so a process that is killed in between leaves the old content.
        let fresh = self.path.join("store.json.new");
        let mut file = OpenOptions::new();
        file.create(true).truncate(true).write(true).mode(0o600);
        file.open(&fresh)
            .and_then(|mut file| io::Write::write_all(&mut file, text.as_bytes()))
            .and_then(|()| fs::rename(&fresh, self.file()))
            .map_err(failed)
    }

    fn look<T>(&self, look: impl FnOnce(&Memory) -> T) -> Result<T> {
        let _lock = self.lock()?;
        let (memory, has_changed) = self.read()?;
        let answer = look(&memory);
        if has_changed {
            self.write(memory)?;
        }
        Ok(answer)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Memory, u64) -> Result<T>) -> Result<T> {
        let _lock = self.lock()?;
        let (mut memory, has_changed) = self.read()?;
        let answer = change(&mut memory, now_ns());
        // Also after a refused change, because leases may have ended before it.
        if has_changed || answer.is_ok() {
            self.write(memory)?;
        }
        answer
    }

    /// Reads the first line of the file without the lock, which is safe because the file is replaced as a whole.
    fn glance(&self) -> Result<Glance> {
        let mut head = [0; 64];
        let read = files::open(&self.file()).and_then(|mut file| file.read(&mut head));
        let read = read.map_err(|error| self.unreachable("read", &error))?;
        let text = String::from_utf8_lossy(&head[..read]);
        let line = text.split_once('\n').map_or("", |(line, _)| line);
        glance(line).ok_or_else(|| Error::Invalid(format!("{} is no store", self.file().display())))
    }
}

fn glance(line: &str) -> Option<Glance> {
    let mut numbers = line.strip_prefix(MARK)?.split_ascii_whitespace();
    Some(Glance {
        revision: numbers.next()?.parse().ok()?,
        next_expiry_ns: numbers.next()?.parse().ok()?,
    })
}

/// Returns `CLOCK_BOOTTIME`, which runs while the machine sleeps and never goes back, in nanoseconds.
fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

impl Store for Folder {
    fn get(&self, key: &str) -> Result<Option<Entry>> {
        if key.is_empty() {
            return Err(Error::Invalid("an empty key".to_owned()));
        }
        self.look(|memory| memory.get(key).cloned())
    }

    fn list(&self, prefix: &str) -> Result<Listing> {
        self.look(|memory| memory.list(prefix))
    }

    fn commit(&self, txn: &Txn) -> Result<Outcome> {
        self.change(|memory, _| memory.commit(txn))
    }

    fn grant(&self, ttl: Duration) -> Result<Lease> {
        self.change(|memory, now_ns| Ok(memory.grant(ttl, now_ns)))
    }

    fn keep_alive(&self, lease: LeaseId) -> Result<()> {
        self.change(|memory, now_ns| memory.keep_alive(lease, now_ns))
    }

    fn revoke(&self, lease: LeaseId) -> Result<()> {
        self.change(|memory, _| {
            memory.revoke(lease);
            Ok(())
        })
    }

    fn watch(&self, prefix: &str, revision: Revision) -> Result<Box<dyn Watch>> {
        Ok(Box::new(Watching {
            folder: self.clone(),
            prefix: prefix.to_owned(),
            next: revision,
        }))
    }

    fn compact(&self, revision: Revision) -> Result<()> {
        self.change(|memory, _| {
            memory.compact(revision);
            Ok(())
        })
    }
}

struct Watching {
    folder: Folder,
    prefix: String,
    next: Revision,
}

impl Watch for Watching {
    fn next(&mut self, patience: Duration) -> Result<Vec<Event>> {
        let until = Instant::now() + patience;
        loop {
            let glance = self.folder.glance()?;
            // No revision accompanies the end of a lease until a process notices it, so compare the time as well.
            if glance.revision >= self.next || glance.next_expiry_ns <= now_ns() {
                let (prefix, next) = (&self.prefix, self.next);
                let look = |memory: &Memory| (memory.since(prefix, next), memory.revision());
                let (events, revision) = self.folder.look(look)?;
                let events = events?;
                // Skip changes of other keys too. Otherwise this watch could fall behind the remembered history.
                self.next = self.next.max(revision + 1);
                if !events.is_empty() {
                    return Ok(events);
                }
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Vec::new());
            }
            std::thread::sleep(left.min(LOOK_EVERY));
        }
    }
}
