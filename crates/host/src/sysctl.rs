//! Kernel settings, read and written through `/proc/sys` without helper processes.
//!
//! `/proc/sys/net` shows the settings of the *calling thread's* network namespace: enter a node's namespace first. For
//! settings of the whole host use [`crate::globals`], which restores them.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;

use crate::error::{Context, Error, Result};

/// Returns the file of a setting: `net.ipv4.ip_forward` or, if a name contains dots, `net/ipv4/conf/eth0.5/forwarding`.
pub fn path_of(key: &str) -> PathBuf {
    let rel = if key.contains('/') {
        key.to_owned()
    } else {
        key.replace('.', "/")
    };
    PathBuf::from("/proc/sys").join(rel)
}

/// Reads a setting, with blanks at the ends removed and those inside collapsed.
///
/// # Errors
/// [`Error::Os`] with the setting, when it does not exist or cannot be read.
pub fn read(key: &str) -> Result<String> {
    let raw = fs::read_to_string(path_of(key)).context(|| format!("read sysctl {key}"))?;
    Ok(normal(&raw))
}

/// Reads a setting of one value as `T`.
///
/// # Errors
/// As [`read`]; [`Error::Protocol`] when the value is not a valid `T`.
pub fn read_as<T: FromStr>(key: &str) -> Result<T> {
    let text = read(key)?;
    text.parse().map_err(|_| Error::Protocol {
        what: format!("read sysctl {key}"),
        detail: format!("\"{text}\""),
    })
}

/// Returns whether this kernel has the setting in the calling thread's namespace.
pub fn exists(key: &str) -> bool {
    path_of(key).exists()
}

/// Writes a setting.
///
/// # Errors
/// [`Error::Os`] with setting and value, when it does not exist or the kernel refuses.
pub fn write(key: &str, value: &str) -> Result<()> {
    write_file(&path_of(key), value).context(|| format!("set sysctl {key} to {value}"))
}

/// Writes with a single system call, as sysctl and sysfs files require; never creates a file.
pub(crate) fn write_file(path: &std::path::Path, value: &str) -> io::Result<()> {
    let mut f = fs::OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(path)?;
    io::Write::write_all(&mut f, value.as_bytes())
}

/// Returns the value with single spaces: sysctls separate their values with tabs.
pub(crate) fn normal(value: &str) -> String {
    value.split_whitespace().collect::<Vec<_>>().join(" ")
}
