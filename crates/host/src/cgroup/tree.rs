//! The groups below a group, at any depth.
//!
//! A program that may mount a hierarchy makes groups whose path is longer than the kernel takes (`PATH_MAX`). So they are entered one by one,
//! and each is named by the folder that holds it.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};

use super::is_absent;
use crate::error::{Context, Result};

/// A group, as the folder that holds it has it.
pub(super) struct GroupEntry<'a> {
    parent: BorrowedFd<'a>,
    name: &'a OsStr,
}

impl GroupEntry<'_> {
    /// Returns the text of one of the group's files.
    pub(super) fn read(&self, file: &str) -> io::Result<String> {
        let opened = self.open(file, OFlags::RDONLY)?;
        let mut text = String::new();
        std::fs::File::from(opened).read_to_string(&mut text)?;
        Ok(text)
    }

    /// Writes one of the group's files.
    pub(super) fn write(&self, file: &str, text: &str) -> io::Result<()> {
        let opened = self.open(file, OFlags::WRONLY)?;
        rustix::io::write(opened, text.as_bytes())?;
        Ok(())
    }

    /// Removes the group, which must have no processes and no groups below it.
    pub(super) fn remove(&self) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(
            self.parent,
            self.name,
            AtFlags::REMOVEDIR,
        )?)
    }

    fn open(&self, file: &str, flags: OFlags) -> io::Result<OwnedFd> {
        let path = Path::new(self.name).join(file);
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        Ok(rustix::fs::openat(self.parent, path, flags, Mode::empty())?)
    }
}

/// Calls `each` for every group below this one, inner before outer, and at last for this one. Groups that vanish during the visit
/// are left out.
///
/// # Errors
/// The first error of `each`; `Error::Os` when a group that exists cannot be listed.
pub(super) fn visit(top: &Path, mut each: impl FnMut(&GroupEntry<'_>) -> Result<()>) -> Result<()> {
    let what = || format!("list {}", top.display());
    let (Some(parent), Some(name)) = (top.parent(), top.file_name()) else {
        return Ok(());
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let enter = |from: BorrowedFd<'_>, name: &OsStr| {
        let entered = rustix::fs::openat(from, name, flags, Mode::empty());
        entered.map_err(io::Error::from)
    };
    let mut here = match rustix::fs::open(parent, flags, Mode::empty()) {
        Ok(here) => here,
        Err(error) if is_absent(&error.into()) => return Ok(()),
        Err(error) => return Err(error).context(what),
    };
    // At each level the groups that are still to be visited; `here` is the last of each level but the innermost.
    let mut levels = vec![vec![name.to_owned()]];
    let mut inside = 0;
    while let Some(left) = levels.last() {
        if let Some(name) = left.last() {
            match enter(here.as_fd(), name).and_then(|group| Ok((groups_in(&group)?, group))) {
                Ok((groups, group)) => {
                    levels.push(groups);
                    inside += 1;
                    here = group;
                }
                Err(error) if is_absent(&error) => drop(levels.last_mut().map(Vec::pop)),
                Err(error) => return Err(error).context(what),
            }
            continue;
        }
        levels.pop();
        if inside == 0 {
            break;
        }
        inside -= 1;
        here = enter(here.as_fd(), OsStr::new("..")).context(what)?;
        if let Some(name) = levels.last_mut().and_then(Vec::pop) {
            each(&GroupEntry {
                parent: here.as_fd(),
                name: &name,
            })?;
        }
    }
    Ok(())
}

/// The names of the groups in a group.
fn groups_in(group: &OwnedFd) -> io::Result<Vec<OsString>> {
    let mut groups = Vec::new();
    for entry in Dir::read_from(group)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if entry.file_type() == FileType::Directory && name != b"." && name != b".." {
            groups.push(OsStr::from_bytes(name).to_owned());
        }
    }
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Folders are as good as groups: two branches, one of them far beyond the longest path.
    #[test]
    fn groups_are_visited_inner_before_outer_at_any_depth() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().join("top");
        fs::create_dir_all(top.join("a/b")).unwrap();
        fs::write(top.join("a/file"), "text").unwrap();
        let name = "x".repeat(250);
        let mut here: OwnedFd = fs::File::open(&top).unwrap().into();
        for _ in 0..40 {
            rustix::fs::mkdirat(&here, &name, Mode::from_raw_mode(0o755)).unwrap();
            here = rustix::fs::openat(&here, &name, OFlags::RDONLY, Mode::empty()).unwrap();
        }
        let mut seen = Vec::new();
        visit(&top, |place| {
            seen.push(place.name.to_owned());
            Ok(())
        })
        .unwrap();
        assert_eq!(seen.len(), 43);
        assert_eq!(seen.last().unwrap(), "top");
        let at = |name: &str| seen.iter().position(|seen| seen == name);
        assert!(at("b") < at("a"));
        fs::remove_file(top.join("a/file")).unwrap();
        visit(&top, |place| place.remove().context(String::new)).unwrap();
        assert!(!top.exists());
        visit(&top, |_| panic!("there is none")).unwrap();
    }
}
