//! Files that containers' programs keep for the results (`/run/constel-node`), and their copy to the results.
//!
//! While a lab is up, each container has a file system in memory for them, of limited size, without devices and
//! without `setuid`. A node thus writes nothing to the host's disk, and no user of the host sees its files. When
//! every program of the lab has ended, regular files and folders are copied to the results as data: only their
//! bytes and names.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use constel_host::enclosure::{Memory, mount_memory};
use constel_host::node_file;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, SeekFrom};

/// The largest number of bytes that a container can keep for the results.
pub(crate) const MOST_BYTES: u64 = 1 << 30;
/// The largest number of files and folders.
pub(crate) const MOST_FILES: u64 = 65_536;
/// The depth of folders that is copied.
const MOST_DEPTH: usize = 32;

/// The permission bits of results: without `setuid`, `setgid` and the sticky bit.
const PERMISSIONS: u32 = 0o777;

/// Returns the parent folder of the nodes' file systems in a lab's runtime folder.
fn folder(lab_dir: &Path) -> PathBuf {
    lab_dir.join("kept")
}

/// Creates the file system of a node, unless it exists.
///
/// # Errors
/// When it cannot be created or mounted.
pub(crate) fn make(lab_dir: &Path, node: &str) -> constel_host::Result<PathBuf> {
    let (all, own) = (folder(lab_dir), folder(lab_dir).join(node));
    let what = || format!("make {}", own.display());
    let wrong = |source| constel_host::Error::os(what(), source);
    fs::create_dir_all(&own).map_err(wrong)?;
    let device = |path: &Path| fs::symlink_metadata(path).map(|found| found.dev());
    // A container that is created again finds the files of the one before it.
    if device(&all).map_err(wrong)? == device(&own).map_err(wrong)? {
        let memory = Memory {
            bytes: MOST_BYTES,
            files: Some(MOST_FILES),
            programs: true,
        };
        mount_memory(&own, memory)?;
    }
    Ok(own)
}

/// The number of files that were not copied, by node name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct LeftOut(pub(crate) BTreeMap<String, u64>);

/// Copies the containers' files to the results, to the folder of each node. Programs that could change them must
/// have ended. Then removes special permissions and special files from the whole results, where programs may have
/// created them, and removes empty folders of nodes.
///
/// # Errors
/// When the results cannot be written; files that were copied by then stay.
pub(crate) fn collect(lab_dir: &Path, results: &Path) -> io::Result<LeftOut> {
    let (mut left_out, nodes) = (LeftOut::default(), results.join("nodes"));
    let kept = match fs::read_dir(folder(lab_dir)) {
        Ok(kept) => kept.collect::<io::Result<Vec<_>>>()?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error),
    };
    for entry in kept {
        let to = nodes.join(entry.file_name());
        fs::create_dir_all(&to)?;
        // The limits hold per container, because each has its own file system.
        let mut copy = Copy {
            bytes_left: MOST_BYTES,
            left_out: 0,
        };
        let (from, to) = (open_folder(CWD, entry.path())?, open_folder(CWD, &to)?);
        let copied = copy.folder(from, &to, 0);
        if copy.left_out > 0 {
            let node = entry.file_name().to_string_lossy().into_owned();
            left_out.0.insert(node, copy.left_out);
        }
        // The count is recorded before the error is returned, so that it is not lost.
        copied?;
    }
    make_data(open_folder(CWD, results)?, 0)?;
    for entry in fs::read_dir(&nodes).into_iter().flatten() {
        // The kernel refuses to remove a folder that is not empty.
        drop(fs::remove_dir(entry?.path()));
    }
    drop(fs::remove_dir(nodes));
    Ok(left_out)
}

fn open_folder(within: BorrowedFd<'_>, name: impl rustix::path::Arg) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(within, name, flags, Mode::empty())?)
}

/// Returns the names in a folder.
fn names(of: &OwnedFd) -> io::Result<Vec<std::ffi::CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(of)? {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

/// The copy of one container's files.
struct Copy {
    bytes_left: u64,
    left_out: u64,
}

impl Copy {
    /// Copies the contents of a folder to another one.
    fn folder(&mut self, from: OwnedFd, to: &OwnedFd, depth: usize) -> io::Result<()> {
        for name in names(&from)? {
            let found = rustix::fs::statat(&from, &*name, AtFlags::SYMLINK_NOFOLLOW)?;
            let mode = Mode::from_raw_mode(found.st_mode & PERMISSIONS);
            match FileType::from_raw_mode(found.st_mode) {
                FileType::RegularFile => self.file(&from, to, &name, mode)?,
                FileType::Directory if depth < MOST_DEPTH => {
                    match rustix::fs::mkdirat(to, &*name, Mode::from_raw_mode(0o755)) {
                        // Constel has a file of this name there: a log, or the state.
                        Err(rustix::io::Errno::EXIST) => self.left_out += 1,
                        made => {
                            made?;
                            let from = open_folder(from.as_fd(), &*name)?;
                            let to = open_folder(to.as_fd(), &*name)?;
                            self.folder(from, &to, depth + 1)?;
                        }
                    }
                }
                // A link is not copied: a reader of the results would follow it to a file of the host.
                _ => self.left_out += 1,
            }
        }
        Ok(())
    }

    fn file(&mut self, from: &OwnedFd, to: &OwnedFd, name: &CStr, mode: Mode) -> io::Result<()> {
        // NONBLOCK and NOFOLLOW: a name may have become a FIFO or a link since it was listed.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let from = File::from(rustix::fs::openat(from, name, flags, Mode::empty())?);
        let length = from.metadata()?.len();
        let data = node_file::data_of(&from, length)?;
        // A file with several hard links counts once in memory, but is copied for each name.
        let bytes: u64 = data.iter().map(|(from, to)| to - from).sum();
        if bytes > self.bytes_left {
            self.left_out += 1;
            return Ok(());
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let to = match rustix::fs::openat(to, name, flags, mode | Mode::from_raw_mode(0o600)) {
            Err(rustix::io::Errno::EXIST) => {
                self.left_out += 1;
                return Ok(());
            }
            opened => File::from(opened?),
        };
        for (begin, end) in data {
            rustix::fs::seek(&from, SeekFrom::Start(begin))?;
            rustix::fs::seek(&to, SeekFrom::Start(begin))?;
            let mut piece = (&from).take(end - begin);
            let copied = io::copy(&mut piece, &mut &to)?;
            self.bytes_left = self.bytes_left.saturating_sub(copied);
        }
        // Sets the length if the file ends in a hole. A file longer than this disk allows is left out.
        if to.set_len(length).is_err() {
            self.left_out += 1;
        }
        Ok(())
    }
}

/// Removes everything except data from all files below a folder: special permissions, capabilities, devices, FIFOs,
/// sockets.
fn make_data(folder: OwnedFd, depth: usize) -> io::Result<()> {
    /// Deeper than any path of the kernel with names of one letter.
    const DEEPEST: usize = 2048;
    if depth > DEEPEST {
        return Err(io::Error::other("folders lie too deep within each other"));
    }
    for name in names(&folder)? {
        let found = rustix::fs::statat(&folder, &*name, AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Symlink => {}
            FileType::RegularFile => {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let file = rustix::fs::openat(&folder, &*name, flags, Mode::empty())?;
                without_rights(file.as_fd(), found.st_mode)?;
            }
            FileType::Directory => {
                let within = open_folder(folder.as_fd(), &*name)?;
                without_rights(within.as_fd(), found.st_mode)?;
                make_data(within, depth + 1)?;
            }
            // A whiteout of overlayfs, which cannot be opened as a device.
            FileType::CharacterDevice if found.st_rdev == 0 => {}
            _ => rustix::fs::unlinkat(&folder, &*name, AtFlags::empty())?,
        }
    }
    Ok(())
}

fn without_rights(file: BorrowedFd<'_>, mode: u32) -> io::Result<()> {
    if mode & 0o7000 != 0 {
        rustix::fs::fchmod(file, Mode::from_raw_mode(mode & PERMISSIONS))?;
    }
    match rustix::fs::fremovexattr(file, "security.capability") {
        Ok(()) | Err(rustix::io::Errno::NODATA | rustix::io::Errno::OPNOTSUPP) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn set(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// A node's kept files, with all kinds that are not data, next to Constel's own files in the results.
    #[test]
    fn what_was_kept_becomes_data() {
        let dir = tempfile::tempdir().unwrap();
        let (lab, results) = (dir.path().join("lab"), dir.path().join("results"));
        let (kept, node) = (lab.join("kept/a"), results.join("nodes/a"));
        for folder in [
            &kept.join("deep/er"),
            &lab.join("kept/none"),
            &node,
            &results.join("nodes/b"),
        ] {
            fs::create_dir_all(folder).unwrap();
        }
        fs::write(node.join("program.log"), "ours").unwrap();
        set(&node.join("program.log"), 0o4755);
        for name in ["program.log", "file", "deep/er/file"] {
            fs::write(kept.join(name), "its").unwrap();
            set(&kept.join(name), 0o6755);
        }
        symlink("/etc/passwd", kept.join("link")).unwrap();
        symlink("/etc", kept.join("deep/link")).unwrap();
        fs::hard_link(kept.join("file"), kept.join("again")).unwrap();
        let sparse = File::create(kept.join("sparse")).unwrap();
        sparse.set_len(1 << 40).unwrap();
        let mode = Mode::from_raw_mode(0o666);
        rustix::fs::mknodat(CWD, node.join("fifo"), FileType::Fifo, mode, 0).unwrap();

        let left_out = collect(&lab, &results).unwrap();
        assert_eq!(left_out.0, BTreeMap::from([("a".to_owned(), 3)]));
        let read = |name: &str| fs::read_to_string(node.join(name)).unwrap();
        assert_eq!(
            (read("program.log"), read("file")),
            ("ours".into(), "its".into())
        );
        assert_eq!(
            (read("deep/er/file"), read("again")),
            ("its".into(), "its".into())
        );
        for name in ["program.log", "file", "deep/er/file"] {
            let found = fs::symlink_metadata(node.join(name)).unwrap();
            assert_eq!(found.permissions().mode() & 0o7777, 0o755, "{name}");
        }
        let sparse = fs::metadata(node.join("sparse")).unwrap();
        assert_eq!((sparse.len(), sparse.blocks()), (1 << 40, 0));
        assert!(!node.join("fifo").exists() && !node.join("link").exists());
        assert!(!results.join("nodes/none").exists() && !results.join("nodes/b").exists());
    }

    /// A file with many names, and nested folders: the copy has a limit of its own.
    #[test]
    fn a_copy_is_no_larger_than_what_was_kept_may_be() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        let deep = (0..MOST_DEPTH + 3).fold(from.clone(), |path, _| path.join("d"));
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("file"), "x").unwrap();
        fs::create_dir(&to).unwrap();
        fs::write(from.join("name-0"), [1; 4096]).unwrap();
        for number in 1..10 {
            fs::hard_link(from.join("name-0"), from.join(format!("name-{number}"))).unwrap();
        }
        let mut copy = Copy {
            bytes_left: 3 * 4096,
            left_out: 0,
        };
        let folders = [&from, &to].map(|path| open_folder(CWD, path).unwrap());
        let [from, into] = folders;
        copy.folder(from, &into, 0).unwrap();
        // Seven names, and the folder that is too deep.
        assert_eq!((copy.bytes_left, copy.left_out), (0, 8));
        let files = fs::read_dir(&to)
            .unwrap()
            .flatten()
            .filter(|e| e.path().is_file());
        assert_eq!(files.count(), 3);
    }
}
