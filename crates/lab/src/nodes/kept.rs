//! What containers' programs keep for the results (`/run/constel-node`), and how it comes among them.
//!
//! While a lab is up this is a file system in memory of each container's own: of a bounded size, without devices, and without
//! `setuid`. Nothing of the host's disk is written by a node, and no user of the host sees it. When every program of the lab has ended,
//! regular files and folders are copied into the results, as data: their bytes and names, nothing else.

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

/// Most bytes that a container keeps for the results.
pub(crate) const MOST_BYTES: u64 = 1 << 30;
/// Most files and folders of it.
pub(crate) const MOST_FILES: u64 = 65_536;
/// Folders within folders that are copied.
const MOST_DEPTH: usize = 32;

/// Permissions that results have: no `setuid`, no `setgid`, no sticky bit.
const PERMISSIONS: u32 = 0o777;

/// Where nodes have theirs in a lab's runtime folder.
fn folder(lab_dir: &Path) -> PathBuf {
    lab_dir.join("kept")
}

/// Makes the one of a node, unless it is there.
///
/// # Errors
/// When it cannot be made or mounted.
pub(crate) fn make(lab_dir: &Path, node: &str) -> constel_host::Result<PathBuf> {
    let (all, own) = (folder(lab_dir), folder(lab_dir).join(node));
    let what = || format!("make {}", own.display());
    let wrong = |source| constel_host::Error::os(what(), source);
    fs::create_dir_all(&own).map_err(wrong)?;
    let device = |path: &Path| fs::symlink_metadata(path).map(|found| found.dev());
    // A container that is made anew finds what the one before it kept.
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

/// What was not copied, by the names of nodes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct LeftOut(pub(crate) BTreeMap<String, u64>);

/// Copies what containers kept into the results, in each node's folder there; programs that could change it have ended. Then takes
/// from everything in the results what makes it more than data, wherever a program had it as its output, and removes the folders of nodes
/// that kept nothing.
///
/// # Errors
/// When the results cannot be written; what was copied by then stays.
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
        copied?;
    }
    make_data(open_folder(CWD, results)?, 0)?;
    for entry in fs::read_dir(&nodes).into_iter().flatten() {
        // Of a folder that holds something the kernel refuses it.
        drop(fs::remove_dir(entry?.path()));
    }
    drop(fs::remove_dir(nodes));
    Ok(left_out)
}

fn open_folder(within: BorrowedFd<'_>, name: impl rustix::path::Arg) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(within, name, flags, Mode::empty())?)
}

/// The names in a folder.
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

/// A copy of what one container kept.
struct Copy {
    bytes_left: u64,
    left_out: u64,
}

impl Copy {
    /// Copies what is in a folder into another one.
    fn folder(&mut self, from: OwnedFd, to: &OwnedFd, depth: usize) -> io::Result<()> {
        for name in names(&from)? {
            let found = rustix::fs::statat(&from, &*name, AtFlags::SYMLINK_NOFOLLOW)?;
            let mode = Mode::from_raw_mode(found.st_mode & PERMISSIONS);
            match FileType::from_raw_mode(found.st_mode) {
                FileType::RegularFile => self.file(&from, to, &name, mode)?,
                FileType::Directory if depth < MOST_DEPTH => {
                    match rustix::fs::mkdirat(to, &*name, Mode::from_raw_mode(0o755)) {
                        // Ours has the name: a log, or the state.
                        Err(rustix::io::Errno::EXIST) => self.left_out += 1,
                        made => {
                            made?;
                            let from = open_folder(from.as_fd(), &*name)?;
                            let to = open_folder(to.as_fd(), &*name)?;
                            self.folder(from, &to, depth + 1)?;
                        }
                    }
                }
                // What a link leads to would be read by whoever reads the results.
                _ => self.left_out += 1,
            }
        }
        Ok(())
    }

    fn file(&mut self, from: &OwnedFd, to: &OwnedFd, name: &CStr, mode: Mode) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let from = File::from(rustix::fs::openat(from, name, flags, Mode::empty())?);
        let length = from.metadata()?.len();
        let data = node_file::data_of(&from, length)?;
        // A file with many names has its bytes once, and would be copied as often as it has names.
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
        // A hole at its end; one that is longer than the disk's files may be is not worth the results.
        if to.set_len(length).is_err() {
            self.left_out += 1;
        }
        Ok(())
    }
}

/// Takes from everything below a folder what makes it more than data: special permissions, capabilities, devices, FIFOs, sockets.
fn make_data(folder: OwnedFd, depth: usize) -> io::Result<()> {
    /// Deeper than paths of the kernel's are long, in names of one letter.
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
            // A whiteout of overlayfs: nothing can open it.
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

    /// What a node kept, with everything that is no data, beside what Constel has in the results already.
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

    /// A file with many names, and folders in folders: the copy has a bound of its own.
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
        // Seven names, and the folder that lies too deep.
        assert_eq!((copy.bytes_left, copy.left_out), (0, 8));
        let files = fs::read_dir(&to)
            .unwrap()
            .flatten()
            .filter(|e| e.path().is_file());
        assert_eq!(files.count(), 3);
    }
}
