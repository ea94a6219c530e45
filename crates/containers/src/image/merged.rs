//! Unpacked layers, stacked as overlayfs shows them, without a mount.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::rc::Rc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use crate::image::error::Fault;
use crate::image::path::{self, MOST_LINKS};
use crate::image::tar::Meta;

/// Overlayfs's mark on a folder that hides the layers below.
pub(crate) const OPAQUE: &str = "trusted.overlay.opaque";

/// Layers as one tree of files.
#[derive(Debug)]
pub(crate) struct Merged {
    /// Root folders of the layers, the highest first.
    layers: Vec<OwnedFd>,
    /// The layers that have a part of a folder, for the folders looked up so far.
    stacks: RefCell<HashMap<Vec<u8>, Rc<[usize]>>>,
}

/// The file that a name in a folder refers to.
#[derive(Debug)]
pub(crate) struct Found {
    layer: usize,
    pub(crate) stat: Stat,
}

impl Found {
    pub(crate) fn file_type(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }
}

impl Merged {
    /// Opens the layers in the given folders, the highest first.
    pub(crate) fn open(folders: &[PathBuf]) -> Result<Self, Fault> {
        let open = |folder: &PathBuf| {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let opened = rustix::fs::open(folder, flags, Mode::empty());
            opened.map_err(Fault::os(format!("open {}", folder.display())))
        };
        Ok(Self {
            layers: folders.iter().map(open).collect::<Result<_, _>>()?,
            stacks: RefCell::default(),
        })
    }

    /// Returns whether there are no layers.
    pub(crate) fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// Returns owner, rights, times and attributes of the highest layer's root folder.
    pub(crate) fn root_meta(&self) -> Result<Option<Meta>, Fault> {
        self.layers
            .first()
            .map(|layer| meta_of(layer.as_fd(), b"."))
            .transpose()
    }

    /// Returns the entry of a name in a folder; the folder's path must have no symbolic links.
    pub(crate) fn entry(&self, folder: &[u8], name: &[u8]) -> Result<Option<Found>, Fault> {
        for &layer in self.stack(folder)?.iter() {
            let within = self.folder_in(layer, folder)?;
            match stat(within.as_fd(), name)? {
                None => {}
                Some(stat) if is_whiteout(&stat) => return Ok(None),
                Some(stat) => return Ok(Some(Found { layer, stat })),
            }
        }
        Ok(None)
    }

    /// Opens the folder of the layer that has a found entry.
    pub(crate) fn folder_of(&self, found: &Found, folder: &[u8]) -> Result<OwnedFd, Fault> {
        self.folder_in(found.layer, folder)
    }

    fn folder_in(&self, layer: usize, folder: &[u8]) -> Result<OwnedFd, Fault> {
        open_folder(self.layers[layer].as_fd(), folder)
    }

    /// Returns the layers that have a part of a folder, the highest first; none if the path is not a folder.
    fn stack(&self, folder: &[u8]) -> Result<Rc<[usize]>, Fault> {
        if folder.is_empty() {
            return Ok((0..self.layers.len()).collect());
        }
        if let Some(known) = self.stacks.borrow().get(folder) {
            return Ok(Rc::clone(known));
        }
        let (parent, name) = split(folder);
        let mut stack = Vec::new();
        for &layer in self.stack(parent)?.iter() {
            let within = self.folder_in(layer, parent)?;
            let Some(stat) = stat(within.as_fd(), name)? else {
                continue;
            };
            if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
                break;
            }
            stack.push(layer);
            if is_opaque(within.as_fd(), name)? {
                break;
            }
        }
        let stack: Rc<[usize]> = stack.into();
        let mut known = self.stacks.borrow_mut();
        known.insert(folder.to_vec(), Rc::clone(&stack));
        Ok(stack)
    }

    /// Returns the real path of a folder, through symbolic links; `None` if it is not a folder.
    pub(crate) fn find_folder(&self, folder: path::Parts) -> Result<Option<path::Parts>, Fault> {
        self.walk(folder)
            .map(|at| at.filter(|(_, is_folder)| *is_folder).map(|(at, _)| at))
    }

    /// Returns the path after following symbolic links, and whether it is a folder.
    fn walk(&self, parts: path::Parts) -> Result<Option<(path::Parts, bool)>, Fault> {
        let mut at = path::Parts::new();
        let mut rest: path::Parts = parts.into_iter().rev().collect();
        let mut links = 0;
        while let Some(part) = rest.pop() {
            if part == b".." {
                at.pop();
                continue;
            }
            let folder = path::joined(&at);
            let Some(found) = self.entry(&folder, &part)? else {
                return Ok(None);
            };
            match found.file_type() {
                FileType::Directory => at.push(part),
                FileType::Symlink => {
                    links += 1;
                    if links > MOST_LINKS {
                        return Ok(None);
                    }
                    let target = self.target(&found, &folder, &part)?;
                    if path::through_link(&target, &mut rest) {
                        at.clear();
                    }
                }
                _ if rest.is_empty() => {
                    at.push(part);
                    return Ok(Some((at, false)));
                }
                _ => return Ok(None),
            }
        }
        Ok(Some((at, true)))
    }

    /// Returns the target of a symbolic link.
    pub(crate) fn target(
        &self,
        found: &Found,
        folder: &[u8],
        name: &[u8],
    ) -> Result<Vec<u8>, Fault> {
        let within = self.folder_of(found, folder)?;
        read_link(within.as_fd(), name)
    }

    /// Reads a regular file as programs in the image see it; `None` if there is no such file. Reads at most `most` bytes.
    pub(crate) fn read(&self, file: &str, most: u64) -> Result<Option<Vec<u8>>, Fault> {
        let parts =
            path::parts(file.as_bytes()).map_err(|why| Fault::entry(file.as_bytes(), why))?;
        let Some((mut at, false)) = self.walk(parts)? else {
            return Ok(None);
        };
        let Some(name) = at.pop() else {
            return Ok(None);
        };
        let folder = path::joined(&at);
        let found = self.entry(&folder, &name)?;
        let Some(found) = found.filter(|f| f.file_type() == FileType::RegularFile) else {
            return Ok(None);
        };
        let within = self.folder_of(&found, &folder)?;
        let mut bytes = Vec::new();
        let opened = open_file(within.as_fd(), &name)?;
        let read = opened.take(most + 1).read_to_end(&mut bytes);
        read.map_err(Fault::io(format!("read {file} of the image")))?;
        if bytes.len() as u64 > most {
            return Err(Fault::Limit {
                what: file.to_owned(),
                bound: format!("{most} bytes"),
                limit: "document_bytes",
            });
        }
        Ok(Some(bytes))
    }
}

/// Splits a path into folder and name.
pub(crate) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|b| *b == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"", path),
    }
}

/// Opens a folder below another one; no symbolic link is followed, and nothing outside can be reached.
pub(crate) fn open_folder(root: BorrowedFd<'_>, folder: &[u8]) -> Result<OwnedFd, Fault> {
    let path = if folder.is_empty() { b"." } else { folder };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    loop {
        match rustix::fs::openat2(root, path, flags, Mode::empty(), within) {
            // EAGAIN: a rename somewhere else in the system raced with this lookup.
            Err(Errno::AGAIN | Errno::INTR) => {}
            opened => {
                let doing = || format!("open the folder {}", crate::image::error::shown(path));
                return opened.map_err(|e| Fault::os(doing())(e));
            }
        }
    }
}

/// Opens a regular file for reading.
pub(crate) fn open_file(folder: BorrowedFd<'_>, name: &[u8]) -> Result<File, Fault> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let opened = rustix::fs::openat(folder, name, flags, Mode::empty());
    let doing = || format!("open {}", crate::image::error::shown(name));
    Ok(File::from(opened.map_err(|e| Fault::os(doing())(e))?))
}

/// Returns the status of a name, without following symbolic links.
pub(crate) fn stat(folder: BorrowedFd<'_>, name: &[u8]) -> Result<Option<Stat>, Fault> {
    match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(Fault::os(format!(
            "look at {}",
            crate::image::error::shown(name)
        ))(error)),
    }
}

pub(crate) fn read_link(folder: BorrowedFd<'_>, name: &[u8]) -> Result<Vec<u8>, Fault> {
    let target = rustix::fs::readlinkat(folder, name, Vec::new());
    let target = target.map_err(Fault::os(format!(
        "read the link {}",
        crate::image::error::shown(name)
    )))?;
    Ok(target.into_bytes())
}

fn is_whiteout(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice && stat.st_rdev == 0
}

pub(crate) fn is_opaque(folder: BorrowedFd<'_>, name: &[u8]) -> Result<bool, Fault> {
    let mut value = [0; 4];
    match rustix::fs::lgetxattr(through_proc(folder, name), OPAQUE, &mut value) {
        Ok(n) => Ok(&value[..n] == b"y"),
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::RANGE) => Ok(false),
        Err(error) => Err(Fault::os("read an attribute of a folder")(error)),
    }
}

/// Returns a path through `/proc` for a name in an open folder, for calls that take no folder descriptor. The calls used here
/// do not follow the last part.
pub(crate) fn through_proc(folder: BorrowedFd<'_>, name: &[u8]) -> Vec<u8> {
    let mut path = format!("/proc/self/fd/{}/", folder.as_raw_fd()).into_bytes();
    path.extend_from_slice(name);
    path
}

/// Returns owner, rights, times and attributes of a name, without overlayfs's own attributes.
pub(crate) fn meta_of(folder: BorrowedFd<'_>, name: &[u8]) -> Result<Meta, Fault> {
    let stat = stat(folder, name)?;
    let stat = stat.ok_or_else(|| Fault::Missing(crate::image::error::shown(name)))?;
    let path = through_proc(folder, name);
    let mut xattrs = Vec::new();
    for attribute in attributes(&path).map_err(Fault::io("list attributes"))? {
        if attribute.starts_with("trusted.overlay.") {
            continue;
        }
        let mut value = vec![0; 65536];
        let got = rustix::fs::lgetxattr(&path, attribute.as_str(), &mut value);
        let n = got.map_err(Fault::os(format!("read the attribute {attribute}")))?;
        value.truncate(n);
        xattrs.push((attribute, value));
    }
    xattrs.sort();
    Ok(Meta {
        mode: stat.st_mode & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
        mtime: (stat.st_mtime, stat.st_mtime_nsec as u32),
        xattrs,
    })
}

fn attributes(path: &[u8]) -> io::Result<Vec<String>> {
    let mut names = vec![0u8; 65536];
    let n = match rustix::fs::llistxattr(path, &mut names) {
        Ok(n) => n,
        Err(Errno::OPNOTSUPP) => 0,
        Err(error) => return Err(error.into()),
    };
    let names = names[..n]
        .split(|b| *b == 0)
        .filter(|name| !name.is_empty());
    let text = |name: &[u8]| String::from_utf8(name.to_vec()).map_err(io::Error::other);
    names.map(text).collect()
}
