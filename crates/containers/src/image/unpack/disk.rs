//! Creates files, folders, links, devices and marks in a layer's folder.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt;

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags,
};
use rustix::io::Errno;

use crate::image::error::{Fault, shown};
use crate::image::merged::{self, OPAQUE, through_proc};
use crate::image::tar::{Kind, Meta, Tape, TarReader};

/// Minimum length of an empty part of a file that becomes a hole, in bytes.
const HOLE: usize = 4096;

fn making(what: &str, name: &[u8]) -> impl FnOnce(Errno) -> Fault {
    Fault::os(format!("make the {what} {}", shown(name)))
}

/// Creates a regular file with content from the archive; returns the number of bytes written.
pub(super) fn file<T: Tape>(
    folder: BorrowedFd<'_>,
    name: &[u8],
    size: u64,
    layer: &mut TarReader<T>,
) -> Result<u64, Fault> {
    let file = new_file(folder, name)?;
    let (mut written, mut end) = (0, 0);
    let doing = || format!("write {}", shown(name));
    layer.content(|offset, content| {
        for (from, part) in filled(content) {
            end = offset + from as u64 + part.len() as u64;
            written += part.len() as u64;
            let wrote = file.write_all_at(part, offset + from as u64);
            wrote.map_err(|e| Fault::io(doing())(e))?;
        }
        Ok(())
    })?;
    // The last part may be a hole, so the size is set explicitly.
    if end != size {
        file.set_len(size).map_err(|e| Fault::io(doing())(e))?;
    }
    Ok(written)
}

/// Returns the longest possible parts of a content that are not holes, each with its offset.
fn filled(content: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let is_hole = |chunk: &[u8]| chunk.iter().all(|byte| *byte == 0);
    let mut at = 0;
    std::iter::from_fn(move || {
        let holes = content[at..]
            .chunks(HOLE)
            .take_while(|chunk| is_hole(chunk));
        at += holes.map(<[u8]>::len).sum::<usize>();
        let parts = content[at..]
            .chunks(HOLE)
            .take_while(|chunk| !is_hole(chunk));
        let length: usize = parts.map(<[u8]>::len).sum();
        let from = at;
        at += length;
        (length > 0).then(|| (from, &content[from..at]))
    })
}

fn new_file(folder: BorrowedFd<'_>, name: &[u8]) -> Result<std::fs::File, Fault> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(folder, name, flags, Mode::RUSR | Mode::WUSR);
    opened
        .map(std::fs::File::from)
        .map_err(making("file", name))
}

/// Creates a link, device or pipe with owner, permissions, time and attributes.
pub(super) fn special(
    folder: BorrowedFd<'_>,
    name: &[u8],
    kind: &Kind,
    meta: &Meta,
    lost: &mut BTreeMap<String, ()>,
) -> Result<(), Fault> {
    let node = |file_type, (major, minor)| {
        let mode = Mode::from_raw_mode(0o600);
        let device = rustix::fs::makedev(major, minor);
        rustix::fs::mknodat(folder, name, file_type, mode, device)
    };
    let (file_type, made) = match kind {
        Kind::Symlink { target } => (
            FileType::Symlink,
            rustix::fs::symlinkat(target.as_slice(), folder, name),
        ),
        Kind::CharDevice { major, minor } => (
            FileType::CharacterDevice,
            node(FileType::CharacterDevice, (*major, *minor)),
        ),
        Kind::BlockDevice { major, minor } => (
            FileType::BlockDevice,
            node(FileType::BlockDevice, (*major, *minor)),
        ),
        Kind::Fifo => (FileType::Fifo, node(FileType::Fifo, (0, 0))),
        Kind::File { .. } | Kind::HardLink { .. } | Kind::Folder => {
            unreachable!("files, links and folders have their own functions")
        }
    };
    made.map_err(making("link or device", name))?;
    set_meta(folder, name, file_type, meta, lost)
}

/// Creates a folder that only its owner may access until its metadata is set.
pub(super) fn folder(folder: BorrowedFd<'_>, name: &[u8]) -> Result<(), Fault> {
    rustix::fs::mkdirat(folder, name, Mode::RWXU).map_err(making("folder", name))
}

/// Adds a name to a file.
pub(super) fn hard_link(
    from: BorrowedFd<'_>,
    target: &[u8],
    folder: BorrowedFd<'_>,
    name: &[u8],
) -> Result<(), Fault> {
    let linked = rustix::fs::linkat(from, target, folder, name, AtFlags::empty());
    linked.map_err(making("link", name))
}

/// Creates overlay's whiteout of a name.
pub(super) fn whiteout(folder: BorrowedFd<'_>, name: &[u8]) -> Result<(), Fault> {
    let mode = Mode::empty();
    let made = rustix::fs::mknodat(folder, name, FileType::CharacterDevice, mode, 0);
    made.map_err(making("whiteout", name))
}

/// Marks a folder as opaque: it hides the layers below.
pub(super) fn mark_opaque(folder: BorrowedFd<'_>, name: &[u8]) -> Result<(), Fault> {
    let path = through_proc(folder, name);
    let set = rustix::fs::lsetxattr(path, OPAQUE, b"y", XattrFlags::empty());
    set.map_err(Fault::os(format!(
        "mark the folder {} as opaque",
        shown(name)
    )))
}

pub(super) fn remove(folder: BorrowedFd<'_>, name: &[u8], is_folder: bool) -> Result<(), Fault> {
    let flags = match is_folder {
        true => AtFlags::REMOVEDIR,
        false => AtFlags::empty(),
    };
    let removed = rustix::fs::unlinkat(folder, name, flags);
    removed.map_err(Fault::os(format!("replace {}", shown(name))))
}

/// Sets owner, permissions, attributes and time, in an order in which no call undoes another.
pub(super) fn set_meta(
    folder: BorrowedFd<'_>,
    name: &[u8],
    file_type: FileType,
    meta: &Meta,
    lost: &mut BTreeMap<String, ()>,
) -> Result<(), Fault> {
    let (uid, gid) = (Uid::from_raw(meta.uid), Gid::from_raw(meta.gid));
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    let owned = rustix::fs::chownat(folder, name, Some(uid), Some(gid), flags);
    owned.map_err(Fault::os(format!(
        "give {} its owner {uid}:{gid}",
        shown(name)
    )))?;
    if file_type != FileType::Symlink {
        // After the owner, because changing the owner clears the setuid bit.
        let mode = Mode::from_raw_mode(meta.mode);
        let set = rustix::fs::chmodat(folder, name, mode, AtFlags::empty());
        set.map_err(Fault::os(format!("give {} its rights", shown(name))))?;
    }
    for (attribute, value) in &meta.xattrs {
        let path = through_proc(folder, name);
        match rustix::fs::lsetxattr(path, attribute.as_str(), value, XattrFlags::empty()) {
            Ok(()) => {}
            // Without its capabilities a program would fail in a way that is hard to understand, so their loss is an error.
            Err(Errno::OPNOTSUPP) if attribute != "security.capability" => {
                lost.insert(attribute.clone(), ());
            }
            Err(error) => {
                let doing = format!(
                    "give {} its attribute {}",
                    shown(name),
                    shown(attribute.as_bytes())
                );
                return Err(Fault::os(doing)(error));
            }
        }
    }
    let times = Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        last_modification: Timespec {
            tv_sec: meta.mtime.0,
            tv_nsec: meta.mtime.1.into(),
        },
    };
    let set = rustix::fs::utimensat(folder, name, &times, AtFlags::SYMLINK_NOFOLLOW);
    set.map_err(Fault::os(format!("give {} its time", shown(name))))
}

/// Copies a file that is not a folder from a layer below, with its metadata.
pub(super) fn copy(
    from: BorrowedFd<'_>,
    name: &[u8],
    stat: &Stat,
    folder: BorrowedFd<'_>,
    to_name: &[u8],
    lost: &mut BTreeMap<String, ()>,
) -> Result<(), Fault> {
    let meta = merged::meta_of(from, name)?;
    let (major, minor) = (
        rustix::fs::major(stat.st_rdev),
        rustix::fs::minor(stat.st_rdev),
    );
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => Kind::Symlink {
            target: merged::read_link(from, name)?,
        },
        FileType::CharacterDevice => Kind::CharDevice { major, minor },
        FileType::BlockDevice => Kind::BlockDevice { major, minor },
        FileType::Fifo => Kind::Fifo,
        _ => {
            copy_content(merged::open_file(from, name)?, folder, to_name)?;
            return set_meta(folder, to_name, FileType::RegularFile, &meta, lost);
        }
    };
    special(folder, to_name, &kind, &meta, lost)
}

fn copy_content(mut from: std::fs::File, folder: BorrowedFd<'_>, name: &[u8]) -> Result<(), Fault> {
    let to = new_file(folder, name)?;
    let doing = || format!("copy {} from the layer below", shown(name));
    let failed = |e| Fault::io(doing())(e);
    let mut buffer = vec![0; 1 << 16];
    let mut offset = 0;
    loop {
        let n = from.read(&mut buffer).map_err(failed)?;
        if n == 0 {
            return to.set_len(offset).map_err(failed);
        }
        for (from, part) in filled(&buffer[..n]) {
            to.write_all_at(part, offset + from as u64)
                .map_err(failed)?;
        }
        offset += n as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_left_out_and_the_rest_is_whole() {
        let mut content = vec![0; 5 * HOLE + 10];
        content[HOLE] = 1;
        content[2 * HOLE + 7] = 2;
        content[4 * HOLE] = 3;
        let parts: Vec<_> = filled(&content)
            .map(|(from, part)| (from, part.len()))
            .collect();
        assert_eq!(parts, [(HOLE, 2 * HOLE), (4 * HOLE, HOLE)]);
        content[5 * HOLE + 9] = 4;
        assert_eq!(
            filled(&content).last().unwrap(),
            (4 * HOLE, &content[4 * HOLE..])
        );
        assert_eq!(filled(&[0; 3]).count(), 0);
        assert_eq!(filled(&[]).count(), 0);
    }
}
