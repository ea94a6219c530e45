//! Resource limits of this process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::error::{Context, Result};

/// Returns a row of `/proc/meminfo` such as `MemTotal:`, in bytes; `None` if it does not exist.
#[must_use]
pub fn memory_bytes(row: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with(row))?;
    Some(line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

/// Returns how many open files this process may request; `u64::MAX` for no limit.
#[must_use]
pub fn most_open_files() -> u64 {
    let hard = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    // A privileged process may raise the hard limit up to this value.
    let privileged = rustix::process::geteuid().is_root();
    let kernels = crate::sysctl::read_as::<u64>("fs/nr_open").ok();
    kernels
        .filter(|_| privileged)
        .map_or(hard, |most| hard.max(most))
}

/// Raises the limit of open files as far as possible: to `wanted` if we may raise the hard limit, otherwise to the hard
/// limit. Returns the new limit; `u64::MAX` for no limit.
///
/// A node costs one descriptor for its namespace and one for its netlink socket.
///
/// # Errors
/// [`Error::Os`](crate::Error::Os) when the kernel refuses even the hard limit.
pub fn raise_open_files(wanted: u64) -> Result<u64> {
    let now = getrlimit(Resource::Nofile);
    let unlimited = |l: Option<u64>| l.unwrap_or(u64::MAX);
    if unlimited(now.current) >= wanted {
        return Ok(unlimited(now.current));
    }
    if unlimited(now.maximum) < wanted {
        let both = Rlimit {
            current: Some(wanted),
            maximum: Some(wanted),
        };
        if setrlimit(Resource::Nofile, both).is_ok() {
            return Ok(wanted);
        }
    }
    let target = unlimited(now.maximum).min(wanted);
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(target),
            maximum: now.maximum,
        },
    )
    .context(|| format!("raise the limit of open files to {target}"))?;
    Ok(target)
}
