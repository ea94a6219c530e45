//! Files that a node, or a program of it, may have replaced since they were made.
//!
//! The lab's parent process runs as root. If it opened such a path directly, a symbolic link would make it read or
//! write any file of the host, a FIFO would block it for ever, and a device's driver would run. [`open`] checks the
//! object before it opens it: a regular file with one name, or an error. It does not follow a link in the last
//! component, and never blocks.
//!
//! The object is opened through a descriptor of it, by the host's `/proc`. A thread in a node's view has another
//! `/proc`, or one that the node made: `prepare` keeps the host's.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::OnceLock;

use rustix::fs::{FileType, Mode, OFlags};

use crate::error::{Context, Error, Result};

/// This process's descriptors as files, in the host's `/proc`.
static DESCRIPTORS: OnceLock<OwnedFd> = OnceLock::new();

/// Keeps the host's `/proc/self/fd` for threads in namespaces without it.
///
/// # Errors
/// When there is no `/proc`.
pub(crate) fn prepare() -> Result<()> {
    descriptors()
        .map(drop)
        .context(|| "open /proc/self/fd".to_owned())
}

fn descriptors() -> io::Result<&'static OwnedFd> {
    if let Some(kept) = DESCRIPTORS.get() {
        return Ok(kept);
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::open("/proc/self/fd", flags, Mode::empty())?;
    Ok(DESCRIPTORS.get_or_init(|| opened))
}

/// Mode in which a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// For reading; it must exist.
    Read,
    /// For writing from the beginning: the file is created, or emptied.
    Create,
    /// For writing at the end; the file is created if it does not exist.
    Append,
}

/// Opens a regular file; all other objects are refused. The folder that contains it is trusted: no node may write in
/// that.
///
/// # Errors
/// [`Error::Os`] when it does not exist (for reading), cannot be opened, or is a symbolic link, FIFO, socket, device or
/// folder (`EINVAL`). For writing, a file with a second name (hard link) is refused as well.
pub fn open(path: &Path, how: OpenMode) -> Result<File> {
    let what = || format!("open {}", path.display());
    // Twice, because the file may be removed between the two steps; a third time would be an attack.
    for _ in 0..2 {
        if how != OpenMode::Read {
            let flags = OFlags::CREATE | OFlags::EXCL | write_flags(how);
            match rustix::fs::open(path, flags, Mode::from_raw_mode(0o644)) {
                Ok(made) => return Ok(made.into()),
                Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(error).context(what),
            }
        }
        // A handle without an open file: no driver runs, and opening a FIFO does not wait for a writer.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(handle) => return reopen(&handle, how).context(what),
            Err(rustix::io::Errno::NOENT) if how != OpenMode::Read => {}
            Err(error) => return Err(error).context(what),
        }
    }
    Err(Error::os(what(), rustix::io::Errno::AGAIN.into()))
}

fn write_flags(how: OpenMode) -> OFlags {
    let flags = OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    match how {
        OpenMode::Read => flags | OFlags::RDONLY,
        OpenMode::Create => flags | OFlags::WRONLY,
        OpenMode::Append => flags | OFlags::WRONLY | OFlags::APPEND,
    }
}

/// Opens the object of a handle, if it is a regular file.
fn reopen(handle: &OwnedFd, how: OpenMode) -> io::Result<File> {
    let found = rustix::fs::fstat(handle)?;
    let kind = FileType::from_raw_mode(found.st_mode);
    if !kind.is_file() {
        return Err(refused(&format!(
            "it is no regular file but a {}",
            word(kind)
        )));
    }
    if how != OpenMode::Read && found.st_nlink > 1 {
        return Err(refused("it has more than one name"));
    }
    let name = handle.as_raw_fd().to_string();
    let opened = rustix::fs::openat(descriptors()?, name, write_flags(how), Mode::empty())?;
    let again = rustix::fs::fstat(&opened)?;
    // A forked process has its own descriptors, but this folder still has those of its parent.
    if (again.st_dev, again.st_ino) != (found.st_dev, found.st_ino) {
        return Err(io::Error::other("/proc belongs to another process"));
    }
    let file = File::from(opened);
    if how == OpenMode::Create {
        file.set_len(0)?;
    }
    Ok(file)
}

/// Returns the ranges of a file that contain data, as beginnings and ends in bytes; the rest are holes.
///
/// # Errors
/// The errors of `lseek`.
pub fn data_of(file: &File, length: u64) -> io::Result<Vec<(u64, u64)>> {
    let mut data = Vec::new();
    let mut at = 0;
    while at < length {
        let begin = match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(at)) {
            Err(rustix::io::Errno::NXIO) => break,
            begin => begin?,
        };
        at = match rustix::fs::seek(file, rustix::fs::SeekFrom::Hole(begin)) {
            // The file has been shortened since.
            Err(rustix::io::Errno::NXIO) => break,
            hole => hole?,
        };
        data.push((begin, at));
    }
    Ok(data)
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why.to_owned())
}

fn word(kind: FileType) -> &'static str {
    match kind {
        FileType::Symlink => "symbolic link",
        FileType::Fifo => "FIFO",
        FileType::Socket => "socket",
        FileType::Directory => "folder",
        FileType::CharacterDevice | FileType::BlockDevice => "device",
        FileType::RegularFile | FileType::Unknown => "file of unknown kind",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::{Read, Write};

    #[test]
    fn regular_files_are_opened_as_asked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        assert!(open(&path, OpenMode::Read).is_err());
        open(&path, OpenMode::Append)
            .unwrap()
            .write_all(b"a")
            .unwrap();
        open(&path, OpenMode::Append)
            .unwrap()
            .write_all(b"b")
            .unwrap();
        let mut text = String::new();
        open(&path, OpenMode::Read)
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, "ab");
        open(&path, OpenMode::Create)
            .unwrap()
            .write_all(b"c")
            .unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"c");
    }

    /// Each kind of object that is no file of ours, in each way of opening: an error at once, and its target is unchanged.
    #[test]
    fn what_a_node_may_put_in_their_place_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("victim"), "secret").unwrap();
        std::os::unix::fs::symlink(at("victim"), at("link")).unwrap();
        std::os::unix::fs::symlink(at("nothing"), at("dangling")).unwrap();
        fs::hard_link(at("victim"), at("second-name")).unwrap();
        let mode = Mode::from_raw_mode(0o666);
        rustix::fs::mknodat(rustix::fs::CWD, at("fifo"), FileType::Fifo, mode, 0).unwrap();
        let socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        for how in [OpenMode::Read, OpenMode::Create, OpenMode::Append] {
            for name in ["link", "dangling", "fifo", "socket", "."] {
                assert!(open(&at(name), how).is_err(), "{name} {how:?}");
            }
            assert!(open(Path::new("/dev/zero"), how).is_err());
        }
        assert!(open(&at("second-name"), OpenMode::Append).is_err());
        assert!(open(&at("second-name"), OpenMode::Create).is_err());
        assert!(!at("nothing").exists());
        assert_eq!(fs::read(at("victim")).unwrap(), b"secret");
        drop(socket);
    }
}
