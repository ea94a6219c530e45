//! Identity of a process that survives the reuse of process numbers.

use std::fs;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::error::{Context, Error, Result};
use crate::time_namespace::{Clock, ahead_of_kernel_ns};

/// A clock tick as in `/proc` on every supported architecture.
const TICK_NS: i64 = 10_000_000;

/// A process number with the process's start time, on one boot of one machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProcessIdent {
    /// Process number.
    pub pid: u32,
    /// Start, in clock ticks since boot (field 22 of `/proc/<pid>/stat`, minus the offset of the reader's time
    /// namespace).
    pub start_ticks: u64,
    /// `/proc/sys/kernel/random/boot_id`.
    pub boot_id: String,
}

impl ProcessIdent {
    /// Returns the calling process.
    ///
    /// # Errors
    /// [`Error::Invalid`] if `/proc` does not show the caller, [`Error::Os`] if it cannot be read.
    pub fn current() -> Result<ProcessIdent> {
        let pid = std::process::id();
        Self::of(pid)?.ok_or_else(|| Error::Invalid(format!("/proc does not show process {pid}")))
    }

    /// Returns the process that has this number now; `None` without such a process (or if it is a zombie).
    ///
    /// # Errors
    /// [`Error::Os`] when `/proc` cannot be read.
    pub fn of(pid: u32) -> Result<Option<ProcessIdent>> {
        let Some(start_ticks) = start_ticks(pid)? else {
            return Ok(None);
        };
        Ok(Some(ProcessIdent {
            pid,
            start_ticks,
            boot_id: boot_id()?,
        }))
    }

    /// Returns the text for marks: `<pid>.<start ticks>`. Marks do not outlive a boot, so the boot is not part of it.
    pub fn mark(&self) -> String {
        format!("{}.{}", self.pid, self.start_ticks)
    }

    /// Returns the process that a mark of this boot names, alive or not.
    ///
    /// # Errors
    /// [`Error::Os`] when this boot's identity cannot be read.
    pub fn from_mark(mark: &str) -> Result<Option<ProcessIdent>> {
        let numbers = mark
            .split_once('.')
            .and_then(|(p, t)| Some((p.parse().ok()?, t.parse().ok()?)));
        let Some((pid, start_ticks)) = numbers else {
            return Ok(None);
        };
        Ok(Some(ProcessIdent {
            pid,
            start_ticks,
            boot_id: boot_id()?,
        }))
    }

    /// Returns whether exactly this process still runs. A zombie does not count: it holds no resources any more.
    ///
    /// # Errors
    /// [`Error::Os`] when `/proc` cannot be read.
    pub fn is_alive(&self) -> Result<bool> {
        Ok(start_ticks(self.pid)? == Some(self.start_ticks) && boot_id()? == self.boot_id)
    }
}

fn boot_id() -> Result<String> {
    let path = "/proc/sys/kernel/random/boot_id";
    Ok(fs::read_to_string(path)
        .context(|| format!("read {path}"))?
        .trim()
        .to_owned())
}

fn start_ticks(pid: u32) -> Result<Option<u64>> {
    let path = format!("/proc/{pid}/stat");
    let stat = match fs::read_to_string(&path) {
        Ok(s) => s,
        Err(e) if is_gone(&e) => return Ok(None),
        Err(e) => return Err(Error::os(format!("read {path}"), e)),
    };
    // The command name may contain anything, even ") ": the fields begin behind the last one.
    let fields: Vec<_> = stat
        .rsplit_once(')')
        .map_or("", |(_, rest)| rest)
        .split_whitespace()
        .collect();
    match (fields.first(), fields.get(19).and_then(|f| f.parse().ok())) {
        (Some(&("Z" | "X")), _) => Ok(None),
        (Some(_), Some(ticks)) => Ok(Some(u64::saturating_add_signed(ticks, -added_ticks()?))),
        _ => Err(Error::Protocol {
            what: path,
            detail: stat,
        }),
    }
}

/// Returns the offset that the kernel adds to start times of processes for this process. Without it, a lab of another
/// time namespace would look dead from outside.
fn added_ticks() -> Result<i64> {
    static ADDED: OnceLock<i64> = OnceLock::new();
    if let Some(added) = ADDED.get() {
        return Ok(*added);
    }
    let added = ahead_of_kernel_ns(Clock::Boottime)? / TICK_NS;
    Ok(*ADDED.get_or_init(|| added))
}

/// Whether a `/proc/<pid>` file belongs to a process that is gone: ENOENT when opening, ESRCH when reading.
pub(crate) fn is_gone(e: &std::io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::ENOENT | libc::ESRCH))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Identifies the same process from a time namespace that is a day ahead.
    #[test]
    fn a_process_is_the_same_from_every_time_namespace() {
        const ABOUT: &str = "CONSTEL_TEST_IDENT_ABOUT";
        if let Ok(pid) = std::env::var(ABOUT) {
            let ident = ProcessIdent::of(pid.parse().unwrap()).unwrap().unwrap();
            println!("mark {}", ident.mark());
            return;
        }
        if fs::metadata("/proc/self/ns/time").is_err() {
            return;
        }
        let me = ProcessIdent::current().unwrap();
        let there = std::process::Command::new("unshare")
            .args(["--time", "--boottime", "86400"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture"])
            .arg("ident::tests::a_process_is_the_same_from_every_time_namespace")
            .env(ABOUT, me.pid.to_string())
            .output()
            .unwrap();
        let said = String::from_utf8(there.stdout).unwrap();
        assert!(
            said.contains(&format!("mark {}\n", me.mark())),
            "{said} {me:?}"
        );
    }

    #[test]
    fn knows_itself_and_a_dead_child() {
        let me = ProcessIdent::current().unwrap();
        assert!(me.is_alive().unwrap());
        assert_eq!(
            ProcessIdent::from_mark(&me.mark()).unwrap(),
            Some(me.clone())
        );
        assert_eq!(ProcessIdent::from_mark("x.1").unwrap(), None);
        let later = ProcessIdent {
            start_ticks: me.start_ticks + 1,
            ..me.clone()
        };
        assert!(!later.is_alive().unwrap(), "same number, other process");
        let other_boot = ProcessIdent {
            boot_id: "x".into(),
            ..me
        };
        assert!(!other_boot.is_alive().unwrap());
        let mut child = std::process::Command::new("sleep")
            .arg("100")
            .spawn()
            .unwrap();
        let ident = ProcessIdent::of(child.id()).unwrap().unwrap();
        assert!(ident.is_alive().unwrap());
        child.kill().unwrap();
        // Not reaped yet, perhaps a zombie: is_alive() must become false without wait().
        let end = std::time::Instant::now() + std::time::Duration::from_secs(240);
        while ident.is_alive().unwrap() {
            assert!(std::time::Instant::now() < end);
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert_eq!(ProcessIdent::of(child.id()).unwrap(), None);
    }
}
