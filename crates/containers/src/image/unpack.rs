//! Unpacks one layer into a folder that overlayfs can use directly, above the layers that it belongs on.
//!
//! A layer depends on the layers below it for two reasons. Folders that its archive does not describe must have the metadata of
//! those below, because overlayfs shows the upper folder's. Also, paths lead through symbolic links below: `bin/tool` is
//! `usr/bin/tool` if the base has that link. That is why the store identifies layers by their chain, not only by their content.
//!
//! No entry can leave the folder. Entries' paths are resolved in memory, against the entries of this layer and the layers
//! below, and every folder is opened with `openat2` so that no symbolic link is followed.

mod disk;
mod links;
mod own;

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::FileType;

use crate::image::error::{EntryFault, Fault, shown};
use crate::image::limits::Limits;
use crate::image::merged::{self, Merged, split};
use crate::image::path::{self, MOST_LINKS, Meaning, Parts};
use crate::image::tar::{Entry, Kind, Meta, Tape, TarReader};
use crate::image::tree::{check_kind, default_folder};
use own::{Made, Own};

/// The result of unpacking a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unpacked {
    /// Whether all content of the layers below is hidden; overlayfs has no mark for that at the root.
    pub(crate) hides_all: bool,
    /// The number of entries of the archive.
    pub(crate) entries: u64,
    /// Bytes of the files, without holes.
    pub(crate) bytes: u64,
    /// The kinds of metadata in the archive that the folder does not keep.
    pub(crate) left_out: Vec<String>,
}

/// Unpacks a layer into an empty folder. `tick` receives the number of entries so far.
///
/// # Errors
/// Those of [`TarReader`], [`Fault::Entry`] for an invalid entry, [`Fault::Limit`], [`Fault::Unprivileged`], [`Fault::Io`].
/// After an error the folder is incomplete.
pub(crate) fn unpack<T: Tape>(
    layer: &mut TarReader<T>,
    into: OwnedFd,
    below: &Merged,
    limits: &Limits,
    tick: &mut dyn FnMut(u64),
) -> Result<Unpacked, Fault> {
    let root = match below.root_meta()? {
        Some(meta) => meta,
        None => default_folder(),
    };
    let mut unpacker = Unpacker {
        into,
        below,
        own: Own::new(root),
        last_folder: None,
        bytes: 0,
        left: limits.layer_bytes,
        limits,
        lost: BTreeMap::new(),
    };
    while let Some(entry) = layer.next_entry()? {
        unpacker.take(entry, layer)?;
        tick(layer.entries());
    }
    unpacker.finish_folders()?;
    let mut left_out: Vec<String> = layer.left_out().iter().cloned().collect();
    left_out.extend(unpacker.lost.into_keys());
    Ok(Unpacked {
        hides_all: unpacker.own.root_is_cut(),
        entries: layer.entries(),
        bytes: unpacker.bytes,
        left_out,
    })
}

struct Unpacker<'a> {
    into: OwnedFd,
    below: &'a Merged,
    own: Own,
    /// The folder opened last: entries are usually grouped by folder.
    last_folder: Option<(Vec<u8>, OwnedFd)>,
    bytes: u64,
    /// The number of bytes that files may still have.
    left: u64,
    limits: &'a Limits,
    /// Attributes that the file system does not support.
    lost: BTreeMap<String, ()>,
}

/// The result of a step along a path.
enum Met {
    /// The walk continues.
    On,
    /// A folder of the layers below, not yet in this layer.
    FolderBelow(Vec<u8>),
    /// The path does not exist.
    Nothing(Vec<u8>),
    /// A file that is not a folder.
    Other(Vec<u8>),
}

impl Unpacker<'_> {
    fn take<T: Tape>(&mut self, entry: Entry, layer: &mut TarReader<T>) -> Result<(), Fault> {
        let refuse = |why| Fault::entry(&entry.path, why);
        match path::meaning(&entry.path).map_err(refuse)? {
            Meaning::Bookkeeping => Ok(()),
            Meaning::Root if entry.kind == Kind::Folder => {
                self.own.set_root(entry.meta);
                Ok(())
            }
            Meaning::Root => Err(refuse(EntryFault::RootNoFolder)),
            Meaning::Opaque { folder } => self.opaque(&entry.path, folder),
            Meaning::Whiteout { folder, name } => self.whiteout(&entry.path, folder, &name),
            Meaning::Node { folder, name } => match &entry.kind {
                Kind::HardLink { target } => self.link(&entry.path, (folder, name), target),
                _ => {
                    check_kind(&entry.path, &entry.kind)?;
                    let folder = self.make_folder(&entry.path, folder)?;
                    self.node(entry, &folder, &name, layer)
                }
            },
        }
    }

    /// Creates the file of an entry.
    fn node<T: Tape>(
        &mut self,
        entry: Entry,
        folder: &[u8],
        name: &[u8],
        layer: &mut TarReader<T>,
    ) -> Result<(), Fault> {
        let at = child(folder, name);
        let Entry { kind, meta, .. } = entry;
        if kind == Kind::Folder {
            return self.folder(&at, meta);
        }
        self.clear(&at)?;
        self.with_folder(folder, |within, this| match &kind {
            Kind::File { size } => {
                this.left = this.left.checked_sub(*size).ok_or_else(|| Fault::Limit {
                    what: "what it unpacks to".to_owned(),
                    bound: format!("{} bytes", this.limits.layer_bytes),
                    limit: "layer_bytes",
                })?;
                this.bytes += disk::file(within, name, *size, layer)?;
                disk::set_meta(within, name, FileType::RegularFile, &meta, &mut this.lost)
            }
            other => disk::special(within, name, other, &meta, &mut this.lost),
        })?;
        let made = match kind {
            Kind::Symlink { target } => Made::Symlink(target),
            _ => Made::Other,
        };
        self.own.insert(at, made);
        Ok(())
    }

    /// Creates the folder of an entry, or sets an existing one's metadata.
    fn folder(&mut self, at: &[u8], meta: Meta) -> Result<(), Fault> {
        if let Some(Made::Folder(known)) = self.own.get_mut(at) {
            known.meta = meta;
            known.explicit = true;
            return Ok(());
        }
        // The file or whiteout here hid the content below, so the new folder hides it too.
        let hides = self.own.get(at).is_some();
        self.clear(at)?;
        self.make_one(at, meta, true)?;
        if hides { self.cut(at) } else { Ok(()) }
    }

    fn make_one(&mut self, at: &[u8], meta: Meta, explicit: bool) -> Result<(), Fault> {
        let (parent, name) = split(at);
        self.with_folder(parent, |within, _| disk::folder(within, name))?;
        self.own.insert_folder(at.to_vec(), meta, explicit);
        Ok(())
    }

    /// Removes this layer's file at a path, and everything inside it.
    fn clear(&mut self, at: &[u8]) -> Result<(), Fault> {
        if self.own.get(at).is_none() {
            return Ok(());
        }
        for path in self.own.at_and_below(at) {
            self.remove_one(&path)?;
        }
        Ok(())
    }

    fn remove_one(&mut self, at: &[u8]) -> Result<(), Fault> {
        let is_folder = matches!(self.own.remove(at), Some(Made::Folder(_)));
        if is_folder {
            self.last_folder = None;
        }
        let (parent, name) = split(at);
        self.with_folder(parent, |within, _| disk::remove(within, name, is_folder))
    }

    fn opaque(&mut self, path: &[u8], folder: Parts) -> Result<(), Fault> {
        let Some(at) = self.find_folder(path, folder)? else {
            return Ok(());
        };
        if self.own.get(&at).is_none() {
            // A folder of the layers below: this layer gets one with the same metadata and without content.
            let parts = path::parts(&at).map_err(|why| Fault::entry(path, why))?;
            self.make_folder(path, parts)?;
        }
        self.cut(&at)
    }

    /// Hides the content of the layers below in a folder of this layer.
    fn cut(&mut self, at: &[u8]) -> Result<(), Fault> {
        for path in self.own.only_for_below(at) {
            self.remove_one(&path)?;
        }
        if self.own.cut(at) && !at.is_empty() && !self.below.is_empty() {
            let (parent, name) = split(at);
            self.with_folder(parent, |within, _| disk::mark_opaque(within, name))?;
        }
        Ok(())
    }

    fn whiteout(&mut self, path: &[u8], folder: Parts, name: &[u8]) -> Result<(), Fault> {
        let Some(folder) = self.find_folder(path, folder)? else {
            return Ok(());
        };
        let at = child(&folder, name);
        match self.own.get(&at) {
            Some(Made::Folder(_)) if self.own.holds_explicit(&at) => return self.cut(&at),
            // The folder was only made to hold content that is removed now.
            Some(Made::Folder(_)) => self.clear(&at)?,
            Some(_) => return Ok(()),
            None => {}
        }
        if self.visible_below(&folder, name)?.is_none() {
            return Ok(());
        }
        let parts = path::parts(&folder).map_err(|why| Fault::entry(path, why))?;
        let folder = self.make_folder(path, parts)?;
        self.with_folder(&folder, |within, _| disk::whiteout(within, name))?;
        self.own.insert(at, Made::Whiteout);
        Ok(())
    }

    /// Returns the kind of a file of the layers below, unless this layer hides it.
    fn visible_below(&self, folder: &[u8], name: &[u8]) -> Result<Option<FileType>, Fault> {
        if self.own.is_cut(folder) {
            return Ok(None);
        }
        let found = self.below.entry(folder, name)?;
        Ok(found.map(|found| found.file_type()))
    }

    fn step(
        &self,
        path: &[u8],
        at: &mut Vec<u8>,
        part: &[u8],
        rest: &mut Parts,
        links: &mut u32,
    ) -> Result<Met, Fault> {
        if part == b".." {
            at.truncate(split(at).0.len());
            return Ok(Met::On);
        }
        let next = child(at, part);
        let target = match self.own.get(&next) {
            Some(Made::Folder(_)) => {
                *at = next;
                return Ok(Met::On);
            }
            Some(Made::Symlink(target)) => target.clone(),
            Some(Made::Other) => return Ok(Met::Other(next)),
            Some(Made::Whiteout) => return Ok(Met::Nothing(next)),
            None => match self.visible_below(at, part)? {
                None => return Ok(Met::Nothing(next)),
                Some(FileType::Directory) => return Ok(Met::FolderBelow(next)),
                Some(FileType::Symlink) => {
                    let found = self.below.entry(at, part)?;
                    let found = found.ok_or_else(|| Fault::Missing(shown(&next)))?;
                    self.below.target(&found, at, part)?
                }
                Some(_) => return Ok(Met::Other(next)),
            },
        };
        *links += 1;
        if *links > MOST_LINKS {
            return Err(Fault::entry(path, EntryFault::LinkLoop));
        }
        if path::through_link(&target, rest) {
            at.clear();
        }
        Ok(Met::On)
    }

    /// Returns the real path of a folder of this layer or below; `None` if no layer has the folder.
    fn find_folder(&self, path: &[u8], folder: Parts) -> Result<Option<Vec<u8>>, Fault> {
        let mut at = Vec::new();
        let mut rest: Parts = folder.into_iter().rev().collect();
        let mut links = 0;
        while let Some(part) = rest.pop() {
            match self.step(path, &mut at, &part, &mut rest, &mut links)? {
                Met::On => {}
                Met::FolderBelow(next) => at = next,
                Met::Nothing(_) | Met::Other(_) => return Ok(None),
            }
        }
        Ok(Some(at))
    }

    /// Returns the real path of a folder of this layer, which is created if it is missing.
    fn make_folder(&mut self, path: &[u8], folder: Parts) -> Result<Vec<u8>, Fault> {
        let mut at = Vec::new();
        let mut rest: Parts = folder.into_iter().rev().collect();
        let mut links = 0;
        while let Some(part) = rest.pop() {
            match self.step(path, &mut at, &part, &mut rest, &mut links)? {
                Met::On => {}
                Met::FolderBelow(next) => {
                    let (folder, name) = split(&next);
                    let found = self.below.entry(folder, name)?;
                    let found = found.ok_or_else(|| Fault::Missing(shown(&next)))?;
                    let within = self.below.folder_of(&found, folder)?;
                    let meta = merged::meta_of(within.as_fd(), name)?;
                    self.make_one(&next, meta, false)?;
                    at = next;
                }
                Met::Nothing(next) => {
                    let hides = self.own.get(&next).is_some();
                    self.clear(&next)?;
                    self.make_one(&next, default_folder(), false)?;
                    if hides {
                        self.cut(&next)?;
                    }
                    at = next;
                }
                Met::Other(other) => {
                    return Err(Fault::entry(path, EntryFault::NotAFolder(shown(&other))));
                }
            }
        }
        Ok(at)
    }

    /// Sets the metadata of folders at the end, because creating files in a folder changes its time.
    fn finish_folders(&mut self) -> Result<(), Fault> {
        let folders = self.own.folders();
        for (at, meta) in folders.into_iter().rev() {
            let (parent, name) = match at.is_empty() {
                true => (&b""[..], &b"."[..]),
                false => split(&at),
            };
            self.with_folder(parent, |within, this| {
                disk::set_meta(within, name, FileType::Directory, &meta, &mut this.lost)
            })?;
        }
        Ok(())
    }

    fn with_folder<R>(
        &mut self,
        folder: &[u8],
        work: impl FnOnce(std::os::fd::BorrowedFd<'_>, &mut Self) -> Result<R, Fault>,
    ) -> Result<R, Fault> {
        let open = match self.last_folder.take() {
            Some((path, open)) if path == folder => open,
            _ => merged::open_folder(self.into.as_fd(), folder)?,
        };
        let done = work(open.as_fd(), self);
        self.last_folder = Some((folder.to_vec(), open));
        done
    }
}

/// Returns the path of a name in a folder.
fn child(folder: &[u8], name: &[u8]) -> Vec<u8> {
    match folder {
        b"" => name.to_vec(),
        _ => [folder, b"/", name].concat(),
    }
}
