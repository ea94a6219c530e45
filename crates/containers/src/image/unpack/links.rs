//! Hard links to files of their own layer and of the layers below.

use std::os::fd::AsFd;

use rustix::fs::FileType;

use super::own::Made;
use super::{Unpacker, child, disk};
use crate::image::error::{EntryFault, Fault, shown};
use crate::image::merged::{self, split};
use crate::image::path::{self, Parts};

/// The target of a hard link.
enum Target {
    /// A file of this layer.
    Own(Vec<u8>),
    /// A file of the layers below that is not hidden.
    Below(Vec<u8>),
    /// A file of the layers below that this layer hides.
    Hidden(Vec<u8>),
}

impl Unpacker<'_> {
    /// Creates a hard link to an existing file.
    pub(super) fn link(
        &mut self,
        path: &[u8],
        (folder, name): (Parts, Vec<u8>),
        target: &[u8],
    ) -> Result<(), Fault> {
        let bad = |reason| {
            let target = shown(target);
            Fault::entry(path, EntryFault::BadLink { target, reason })
        };
        let (target_folder, target_name) = path::link_target(path, target)?;
        let found = match self.find_target(path, target_folder, &target_name)? {
            None => return Err(bad("is not there")),
            Some(None) => return Err(bad("is a folder")),
            Some(Some(Target::Below(at))) => {
                let (below_folder, below_name) = split(&at);
                let parts = path::parts(below_folder).map_err(|why| Fault::entry(path, why))?;
                self.make_folder(path, parts)?;
                self.copy_up(below_folder, below_name, below_folder, below_name)?;
                Target::Own(at)
            }
            Some(Some(other)) => other,
        };
        let folder = self.make_folder(path, folder)?;
        let at = child(&folder, &name);
        match found {
            Target::Own(target) | Target::Below(target) => {
                if target == at || target.starts_with(&child(&at, b"")) {
                    return Err(bad("is what it would replace"));
                }
                self.clear(&at)?;
                let (target_folder, target_name) = split(&target);
                let from = merged::open_folder(self.into.as_fd(), target_folder)?;
                self.with_folder(&folder, |within, _| {
                    disk::hard_link(from.as_fd(), target_name, within, &name)
                })?;
                let made = match self.own.get(&target) {
                    Some(Made::Symlink(to)) => Made::Symlink(to.clone()),
                    _ => Made::Other,
                };
                self.own.insert(at, made);
            }
            Target::Hidden(target) => {
                self.clear(&at)?;
                let (target_folder, target_name) = split(&target);
                self.copy_up(target_folder, target_name, &folder, &name)?;
            }
        }
        Ok(())
    }

    /// Finds a hard link's target; `Some(None)` for a folder.
    fn find_target(
        &self,
        path: &[u8],
        folder: Parts,
        name: &[u8],
    ) -> Result<Option<Option<Target>>, Fault> {
        if let Some(now) = self.find_folder(path, folder.clone())? {
            let at = child(&now, name);
            match self.own.get(&at) {
                Some(Made::Folder(_)) => return Ok(Some(None)),
                Some(Made::Whiteout) => {}
                Some(_) => return Ok(Some(Some(Target::Own(at)))),
                None => match self.visible_below(&now, name)? {
                    Some(FileType::Directory) => return Ok(Some(None)),
                    Some(_) => return Ok(Some(Some(Target::Below(at)))),
                    None => {}
                },
            }
        }
        let Some(before) = self.below.find_folder(folder)? else {
            return Ok(None);
        };
        let before = path::joined(&before);
        let found = self.below.entry(&before, name)?;
        Ok(found.map(|found| {
            let is_folder = found.file_type() == FileType::Directory;
            (!is_folder).then(|| Target::Hidden(child(&before, name)))
        }))
    }

    /// Copies a file of the layers below into this layer: the folder `to` exists and has no file of that name.
    fn copy_up(
        &mut self,
        folder: &[u8],
        name: &[u8],
        to: &[u8],
        to_name: &[u8],
    ) -> Result<(), Fault> {
        let found = self.below.entry(folder, name)?;
        let found = found.ok_or_else(|| Fault::Missing(shown(&child(folder, name))))?;
        let size = match found.file_type() {
            FileType::RegularFile => found.stat.st_size as u64,
            _ => 0,
        };
        self.left = self.left.checked_sub(size).ok_or_else(|| Fault::Limit {
            what: "what it unpacks to".to_owned(),
            bound: format!("{} bytes", self.limits.layer_bytes),
            limit: "layer_bytes",
        })?;
        let from = self.below.folder_of(&found, folder)?;
        let made = match found.file_type() {
            FileType::Symlink => Made::Symlink(merged::read_link(from.as_fd(), name)?),
            _ => Made::Other,
        };
        self.with_folder(to, |within, this| {
            disk::copy(
                from.as_fd(),
                name,
                &found.stat,
                within,
                to_name,
                &mut this.lost,
            )
        })?;
        self.bytes += size;
        self.own.insert(child(to, to_name), made);
        Ok(())
    }
}
