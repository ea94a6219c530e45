//! A process's own view of the file system: a few mounts over the host's.

use std::ffi::{CString, c_char};
use std::path::PathBuf;
use std::ptr;

use super::c_string;
use crate::error::Result;

/// One mount in a process's private mount namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mount {
    /// `source` appears at `target`, which must exist (a file over a file, a directory over a
    /// directory): a node's own `/etc/hosts`.
    Bind {
        /// What is seen.
        source: PathBuf,
        /// Where.
        target: PathBuf,
        /// Whether it cannot be written there.
        read_only: bool,
    },
    /// An empty directory of its own: a node's `/run`.
    Tmpfs {
        /// Where.
        target: PathBuf,
    },
    /// A fresh `/sys`, whose `class/net` shows the node's interfaces instead of the host's.
    Sysfs,
}

/// Mounts as ready-made system call arguments: nothing is allocated where they are carried out.
#[derive(Debug)]
pub(super) struct Prepared {
    steps: Vec<Step>,
}

#[derive(Debug)]
struct Step {
    source: CString,
    target: CString,
    fs_type: Option<CString>,
    flags: libc::c_ulong,
}

pub(super) fn prepare(mounts: &[Mount]) -> Result<Option<Prepared>> {
    if mounts.is_empty() {
        return Ok(None);
    }
    let mut steps = Vec::new();
    // What we mount must not appear on the host, nor keep the host from unmounting its own.
    steps.push(Step {
        source: c_string("none")?,
        target: c_string("/")?,
        fs_type: None,
        flags: libc::MS_REC | libc::MS_SLAVE,
    });
    for m in mounts {
        match m {
            Mount::Bind {
                source,
                target,
                read_only,
            } => {
                let (source, target) = (c_string(source)?, c_string(target)?);
                let flags = libc::MS_BIND | libc::MS_REC;
                steps.push(Step {
                    source: source.clone(),
                    target: target.clone(),
                    fs_type: None,
                    flags,
                });
                if *read_only {
                    // The kernel takes "read-only" for a bind mount only in a second call.
                    let flags = libc::MS_BIND | libc::MS_REMOUNT | libc::MS_RDONLY;
                    steps.push(Step {
                        source,
                        target,
                        fs_type: None,
                        flags,
                    });
                }
            }
            Mount::Tmpfs { target } => steps.push(Step {
                source: c_string("tmpfs")?,
                target: c_string(target)?,
                fs_type: Some(c_string("tmpfs")?),
                flags: libc::MS_NOSUID | libc::MS_NODEV,
            }),
            Mount::Sysfs => steps.push(Step {
                source: c_string("sysfs")?,
                target: c_string("/sys")?,
                fs_type: Some(c_string("sysfs")?),
                flags: libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC,
            }),
        }
    }
    Ok(Some(Prepared { steps }))
}

impl Prepared {
    /// Leaves the host's mount namespace and mounts. Only system calls: safe between `vfork`
    /// and `exec`. Returns the errno and the number of the step (0: leaving) that failed.
    pub(super) fn carry_out(&self) -> std::result::Result<(), (i32, usize)> {
        // SAFETY: no memory is involved. The calling task does not share its file system
        // information with others, or stops sharing it by this very call.
        if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
            return Err((errno(), 0));
        }
        for (i, s) in self.steps.iter().enumerate() {
            let fs_type = s
                .fs_type
                .as_ref()
                .map_or(ptr::null::<c_char>(), |t| t.as_ptr());
            // SAFETY: all strings are live and NUL-terminated; no data argument.
            let r = unsafe {
                libc::mount(
                    s.source.as_ptr(),
                    s.target.as_ptr(),
                    fs_type,
                    s.flags,
                    ptr::null(),
                )
            };
            if r != 0 {
                return Err((errno(), i + 1));
            }
        }
        Ok(())
    }

    /// In words, what the step of that number does.
    pub(super) fn describe(&self, step: usize) -> String {
        match step.checked_sub(1).and_then(|i| self.steps.get(i)) {
            None => "make a private mount namespace".into(),
            Some(s) => format!(
                "mount {} on {}",
                s.source.to_string_lossy(),
                s.target.to_string_lossy()
            ),
        }
    }
}

/// The calling thread's error number.
pub(super) fn errno() -> i32 {
    // SAFETY: always a valid pointer to the calling thread's own variable.
    unsafe { *libc::__errno_location() }
}
