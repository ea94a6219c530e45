//! Kernel settings, read and written through `/proc/sys` without helper processes.
//!
//! What `/proc/sys/net` shows belongs to the network namespace of the *calling thread*: enter a
//! node's namespace first. For settings of the whole host use [`crate::globals`], which restores.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;

use crate::error::{Context, Error, Result};

/// The file of a setting: `net.ipv4.ip_forward` or, where a name holds dots,
/// `net/ipv4/conf/eth0.5/forwarding`.
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
/// [`Error::Os`] naming the setting, when there is none of the name or it cannot be read.
pub fn read(key: &str) -> Result<String> {
    let raw = fs::read_to_string(path_of(key)).context(|| format!("read sysctl {key}"))?;
    Ok(normal(&raw))
}

/// Reads a setting of one value as `T`.
///
/// # Errors
/// As [`read`]; [`Error::Protocol`] when the value is no `T`.
pub fn read_as<T: FromStr>(key: &str) -> Result<T> {
    let text = read(key)?;
    text.parse().map_err(|_| Error::Protocol {
        what: format!("read sysctl {key}"),
        detail: format!("\"{text}\""),
    })
}

/// Whether this kernel has the setting in the calling thread's namespace.
pub fn exists(key: &str) -> bool {
    path_of(key).exists()
}

/// Writes a setting.
///
/// # Errors
/// [`Error::Os`] naming setting and value, when there is none of the name or the kernel refuses.
pub fn write(key: &str, value: &str) -> Result<()> {
    write_file(&path_of(key), value).context(|| format!("set sysctl {key} to {value}"))
}

/// Writes a setting, then reads it back; the kernel silently bounds some.
///
/// # Errors
/// [`Error::Protocol`] when the kernel shows another value afterwards.
pub fn write_checked(key: &str, value: &str) -> Result<()> {
    write(key, value)?;
    let now = read(key)?;
    if now != normal(value) {
        return Err(Error::Protocol {
            what: format!("set sysctl {key} to {value}"),
            detail: format!("it is {now}"),
        });
    }
    Ok(())
}

/// One write system call, as sysctl and sysfs files want it; never creates a file.
pub(crate) fn write_file(path: &std::path::Path, value: &str) -> io::Result<()> {
    let mut f = fs::OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(path)?;
    io::Write::write_all(&mut f, value.as_bytes())
}

/// Blanks as one space each: sysctls separate their values with tabs.
pub(crate) fn normal(value: &str) -> String {
    value.split_whitespace().collect::<Vec<_>>().join(" ")
}
