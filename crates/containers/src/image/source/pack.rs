//! Packs a folder as a layer; the same files give the same bytes.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ::tar::{Builder, EntryType, Header};
use rustix::fs::{Dir, FileType, Mode, OFlags};

use super::files;
use super::found::Context;
use crate::image::error::{EntryFault, Fault, shown};
use crate::image::merged;
use crate::image::progress::Step;
use crate::image::tar::Meta;

/// Packs all files of a folder's own file system, sorted by name. Sockets are left out, as by every tar.
///
/// # Errors
/// [`Fault::Entry`] for files that a layer cannot hold: overlay's own whiteouts, and names of whiteouts.
pub(super) fn folder(folder: &Path, context: &Context<'_>) -> Result<File, Fault> {
    pack(folder, context, false)
}

/// Packs the folder of an unpacked layer: overlayfs's whiteouts and opaque folders become those of layer archives.
///
/// # Errors
/// As [`folder`], except for overlay's whiteouts.
pub(crate) fn layer(folder: &Path, context: &Context<'_>) -> Result<File, Fault> {
    pack(folder, context, true)
}

fn pack(folder: &Path, context: &Context<'_>, whiteouts: bool) -> Result<File, Fault> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(folder, flags, Mode::empty());
    let opened = opened.map_err(Fault::os("open it"))?;
    let stat = rustix::fs::fstat(&opened).map_err(Fault::os("look at it"))?;
    let spool = files::spool_file(context)?;
    let mut packer = Packer {
        to: Builder::new(BufWriter::new(spool)),
        device: stat.st_dev,
        linked: HashMap::new(),
        context,
        entries: 0,
        whiteouts,
    };
    let meta = merged::meta_of(opened.as_fd(), b".")?;
    packer.append(b"./", EntryType::Directory, &meta, 0, None)?;
    packer.within(&opened, b"")?;
    let writing = || Fault::io("spool what was packed");
    let buffered = packer.to.into_inner().map_err(writing())?;
    let mut spool = buffered
        .into_inner()
        .map_err(|e| writing()(e.into_error()))?;
    spool.seek(SeekFrom::Start(0)).map_err(writing())?;
    Ok(spool)
}

struct Packer<'a> {
    to: Builder<BufWriter<File>>,
    device: u64,
    /// The first names of files with several names, by inode.
    linked: HashMap<u64, Vec<u8>>,
    context: &'a Context<'a>,
    entries: u64,
    /// Whether overlay's whiteouts become whiteouts of the layer.
    whiteouts: bool,
}

impl Packer<'_> {
    fn within(&mut self, folder: &OwnedFd, path: &[u8]) -> Result<(), Fault> {
        let reading = || Fault::os(format!("read the folder /{}", shown(path)));
        let mut names = Vec::new();
        for entry in Dir::read_from(folder).map_err(reading())? {
            let name = entry.map_err(reading())?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                names.push(name);
            }
        }
        names.sort();
        for name in names {
            let at = match path {
                b"" => name.clone(),
                _ => [path, b"/", &name].concat(),
            };
            self.one(folder, &name, &at)?;
        }
        Ok(())
    }

    /// Writes an opaque mark if a folder hides the content of the layers below.
    fn hide_below(&mut self, path: &[u8], opaque: bool) -> Result<(), Fault> {
        match opaque && self.whiteouts {
            false => Ok(()),
            true => self.whiteout(&[path, b"/.wh..wh..opq"].concat()),
        }
    }

    fn whiteout(&mut self, at: &[u8]) -> Result<(), Fault> {
        let none = Meta {
            mode: 0,
            uid: 0,
            gid: 0,
            mtime: (0, 0),
            xattrs: Vec::new(),
        };
        self.append(at, EntryType::Regular, &none, 0, None)
    }

    fn one(&mut self, folder: &OwnedFd, name: &[u8], at: &[u8]) -> Result<(), Fault> {
        if name.starts_with(b".wh.") {
            return Err(Fault::entry(at, EntryFault::Reserved));
        }
        let Some(stat) = merged::stat(folder.as_fd(), name)? else {
            // The file was removed while the folder was read.
            return Ok(());
        };
        let meta = merged::meta_of(folder.as_fd(), name)?;
        self.entries += 1;
        self.context.progress.step(&Step::Reading {
            what: "the folder",
            bytes: self.entries,
        });
        let kind = FileType::from_raw_mode(stat.st_mode);
        // All whiteouts may be hard links of one device.
        let whiteout = kind == FileType::CharacterDevice && stat.st_rdev == 0;
        if kind != FileType::Directory && stat.st_nlink > 1 && !whiteout {
            match self.linked.get(&stat.st_ino) {
                Some(first) => {
                    let first = first.clone();
                    return self.append(at, EntryType::Link, &meta, 0, Some(&first));
                }
                None => drop(self.linked.insert(stat.st_ino, at.to_vec())),
            }
        }
        match kind {
            FileType::Directory => {
                let slashed = [at, b"/"].concat();
                self.append(&slashed, EntryType::Directory, &meta, 0, None)?;
                let opaque = merged::is_opaque(folder.as_fd(), name)?;
                self.hide_below(at, opaque)?;
                // Content of another mounted file system is not part of the folder.
                match stat.st_dev == self.device {
                    true => self.within(&open_within(folder, name)?, at),
                    false => Ok(()),
                }
            }
            FileType::RegularFile => self.file(folder, name, at, &meta),
            FileType::Symlink => {
                let target = merged::read_link(folder.as_fd(), name)?;
                self.append(at, EntryType::Symlink, &meta, 0, Some(&target))
            }
            FileType::CharacterDevice if stat.st_rdev == 0 && self.whiteouts => {
                let (folder, name) = merged::split(at);
                let slash: &[u8] = if folder.is_empty() { b"" } else { b"/" };
                self.whiteout(&[folder, slash, b".wh.", name].concat())
            }
            FileType::CharacterDevice if stat.st_rdev == 0 => {
                let mark = "character device 0:0".to_owned();
                Err(Fault::entry(at, EntryFault::OverlayMark(mark)))
            }
            FileType::CharacterDevice => {
                self.append(at, EntryType::Char, &meta, stat.st_rdev, None)
            }
            FileType::BlockDevice => self.append(at, EntryType::Block, &meta, stat.st_rdev, None),
            FileType::Fifo => self.append(at, EntryType::Fifo, &meta, 0, None),
            _ => Ok(()),
        }
    }

    fn file(&mut self, folder: &OwnedFd, name: &[u8], at: &[u8], meta: &Meta) -> Result<(), Fault> {
        let file = merged::open_file(folder.as_fd(), name)?;
        let size = file.metadata().map_err(Fault::io("look at a file"))?.len();
        let mut header = self.extended(at, meta, None)?;
        header.set_entry_type(EntryType::Regular);
        header.set_size(size);
        let path = Path::new(std::ffi::OsStr::from_bytes(at));
        let mut content = std::io::Read::take(file, size);
        let packed = self.to.append_data(&mut header, path, &mut content);
        packed.map_err(Fault::io(format!("pack /{}", shown(at))))?;
        // If a file shrank while it was read, it is shorter than its header states.
        match content.limit() {
            0 => Ok(()),
            _ => Err(Fault::Damaged(format!(
                "/{} changed while it was read",
                shown(at)
            ))),
        }
    }

    fn append(
        &mut self,
        at: &[u8],
        kind: EntryType,
        meta: &Meta,
        device: u64,
        link: Option<&[u8]>,
    ) -> Result<(), Fault> {
        let mut header = self.extended(at, meta, link)?;
        header.set_entry_type(kind);
        header.set_size(0);
        let packing = || Fault::io(format!("pack /{}", shown(at)));
        if device != 0 {
            let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
            header.set_device_major(major).map_err(packing())?;
            header.set_device_minor(minor).map_err(packing())?;
        }
        if at == b"./" {
            // The builder rejects a path without parts, so the root's name is written directly.
            header.as_old_mut().name[..2].copy_from_slice(b"./");
            header.set_cksum();
            return self.to.append(&header, std::io::empty()).map_err(packing());
        }
        let path = Path::new(std::ffi::OsStr::from_bytes(at));
        let done = self.to.append_data(&mut header, path, std::io::empty());
        done.map_err(packing())
    }

    /// Returns a header with owner, permissions and time; writes values that do not fit into it to an extended header before
    /// it.
    fn extended(&mut self, at: &[u8], meta: &Meta, link: Option<&[u8]>) -> Result<Header, Fault> {
        let mut header = Header::new_gnu();
        header.set_mode(meta.mode);
        header.set_uid(meta.uid.into());
        header.set_gid(meta.gid.into());
        header.set_mtime(meta.mtime.0 as u64);
        let mut records: Vec<(String, Vec<u8>)> = Vec::new();
        if meta.mtime.1 != 0 && meta.mtime.0 >= 0 {
            let time = format!("{}.{:09}", meta.mtime.0, meta.mtime.1);
            records.push(("mtime".to_owned(), time.into_bytes()));
        }
        match link {
            Some(link) if link.len() > 100 => records.push(("linkpath".to_owned(), link.to_vec())),
            Some(link) => {
                let set = header.set_link_name_literal(link);
                set.map_err(Fault::io(format!("pack /{}", shown(at))))?;
            }
            None => {}
        }
        let named =
            |(name, value): &(String, Vec<u8>)| (format!("SCHILY.xattr.{name}"), value.clone());
        records.extend(meta.xattrs.iter().map(named));
        let records = records
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_slice()));
        let written = self.to.append_pax_extensions(records);
        written.map_err(Fault::io(format!("pack /{}", shown(at))))?;
        Ok(header)
    }
}

fn open_within(folder: &OwnedFd, name: &[u8]) -> Result<OwnedFd, Fault> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(folder, name, flags, Mode::empty());
    opened.map_err(Fault::os(format!("open the folder {}", shown(name))))
}
