//! Files and folders into nodes and out of them.
//!
//! One thread reads them where they are and packs them, another unpacks them where they go; the one of the node does so within what
//! the node's programs see, so that no path and no link leads out of it. Links are copied as links.

use std::fs;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use constel_host::enclosure::View;
use constel_host::threads::result_of;
use serde::Serialize;

use crate::error::Error;
use crate::labs::Lab;

/// What was copied.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Copied {
    /// Files, folders and links.
    pub entries: u64,
    /// In files, bytes.
    pub bytes: u64,
    /// What was left out: sockets, pipes and devices.
    pub left_out: Vec<String>,
}

/// One side of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Of this host.
    Host(PathBuf),
    /// A tar archive, on standard input or output.
    Tar,
}

impl Lab {
    /// Copies a file or folder of a node. Into an existing folder it goes under its own name; otherwise it is called as `to`
    /// says, whose folder exists.
    ///
    /// # Errors
    /// [`Error::NotCopied`] with what and why; those of [`Lab::enter`].
    pub fn copy_out(&self, node: &str, from: &Path, to: &Place) -> Result<Copied, Error> {
        let door = self.enter(node)?;
        let node = |work: Work<'_>| in_node(door.entry.within.view(), work);
        match to {
            Place::Tar => {
                let name = own_name(from).ok_or_else(|| no_name(from))?;
                node(&mut || pack(from, &name, io::stdout().lock()))
            }
            Place::Host(to) => {
                let (folder, name) = target(from, to).map_err(Error::NotCopied)?;
                let get = |to| node(&mut || pack(from, &name, &to));
                across(get, |from| unpack(from, &folder).map_err(Error::NotCopied))
            }
        }
    }

    /// Copies a file or folder into a node, by the same rules. A tar archive is unpacked in the folder `to`.
    ///
    /// # Errors
    /// As [`Lab::copy_out`].
    pub fn copy_in(&self, node: &str, from: &Place, to: &Path) -> Result<Copied, Error> {
        let door = self.enter(node)?;
        let node = |work: Work<'_>| in_node(door.entry.within.view(), work);
        match from {
            Place::Tar => node(&mut || unpack(io::stdin().lock(), to)),
            Place::Host(from) => {
                let mut place = None;
                node(&mut || {
                    place = Some(target(from, to)?);
                    Ok(Copied::default())
                })?;
                let (folder, name) = place.ok_or_else(|| no_name(from))?;
                let get = |to| pack(from, &name, to).map_err(Error::NotCopied);
                across(get, |from| node(&mut || unpack(&from, &folder)))
            }
        }
    }
}

/// Packs a file or folder of this host as a tar archive, called `name` there.
///
/// # Errors
/// [`Error::NotCopied`] with what and why.
pub fn pack_here(from: &Path, name: &Path, to: impl Write) -> Result<Copied, Error> {
    pack(from, name, to).map_err(Error::NotCopied)
}

/// Unpacks the archive of what is called as the last part of `from` on this host: into an existing folder under its own name, otherwise
/// called as `to` says, whose folder exists.
///
/// # Errors
/// [`Error::NotCopied`] with what and why.
pub fn unpack_here(archive: impl Read, from: &Path, to: &Path) -> Result<Copied, Error> {
    let (folder, name) = target(from, to).map_err(Error::NotCopied)?;
    let own = own_name(from).ok_or_else(|| no_name(from))?;
    if name == own {
        return unpack(archive, &folder).map_err(Error::NotCopied);
    }
    // Under its own name it could be in the way of another file.
    let aside = folder.join(format!(".constel-cp-{}", std::process::id()));
    let wrong = |path: &Path, error: &io::Error| Error::NotCopied(said(path, error));
    fs::create_dir(&aside).map_err(|error| wrong(&aside, &error))?;
    let copied = unpack(archive, &aside).map_err(Error::NotCopied);
    let copied = copied.and_then(|copied| {
        let place = folder.join(&name);
        fs::rename(aside.join(&own), &place).map_err(|error| wrong(&place, &error))?;
        Ok(copied)
    });
    let removed = fs::remove_dir_all(&aside).map_err(|error| wrong(&aside, &error));
    let copied = copied?;
    removed.map(|()| copied)
}

/// A part of a copy.
type Work<'a> = &'a mut (dyn FnMut() -> Result<Copied, String> + Send);

/// Does it within what the node's programs see.
fn in_node(view: &View, work: Work<'_>) -> Result<Copied, Error> {
    view.within(|| Ok(work()))?.map_err(Error::NotCopied)
}

/// Packs at one end of a pipe and unpacks at the other. When both fail, what kept the one from writing, or else the other from
/// reading, is the reason.
fn across(
    get: impl FnOnce(PipeWriter) -> Result<Copied, Error> + Send,
    put: impl FnOnce(PipeReader) -> Result<Copied, Error>,
) -> Result<Copied, Error> {
    let (reader, writer) = io::pipe().map_err(|e| Error::NotCopied(e.to_string()))?;
    let (got, put) = std::thread::scope(|scope| {
        let packing = scope.spawn(|| get(writer));
        let put = put(reader);
        (result_of(packing), put)
    });
    let broken = |error: &Error| error.to_string().ends_with(BROKEN);
    match (got, put) {
        (Err(got), Err(put)) if broken(&got) => Err(put),
        (Err(got), _) => Err(got),
        (Ok(got), put) => put.map(|_| got),
    }
}

/// How an error ends that only says that the other side has stopped.
const BROKEN: &str = "the other side stopped";

/// The last part of a path.
fn own_name(path: &Path) -> Option<PathBuf> {
    path.file_name().map(PathBuf::from)
}

fn no_name(path: &Path) -> Error {
    Error::NotCopied(format!(
        "{} names no file or folder: give it a name",
        path.display()
    ))
}

/// In which folder a copy goes, and how it is called there.
fn target(from: &Path, to: &Path) -> Result<(PathBuf, PathBuf), String> {
    let into = fs::metadata(to).is_ok_and(|found| found.is_dir());
    if into {
        let name = own_name(from);
        let name = name.ok_or_else(|| format!("{} has no name of its own", from.display()))?;
        return Ok((to.to_owned(), name));
    }
    let name = own_name(to).ok_or_else(|| format!("{} is no file's name", to.display()))?;
    let folder = match to.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    match fs::metadata(&folder) {
        Ok(found) if found.is_dir() => Ok((folder, name)),
        Ok(_) => Err(format!("{} is no folder", folder.display())),
        Err(error) => Err(format!("{}: {error}", folder.display())),
    }
}

/// Packs a file, or a folder with all in it, called `name` in the archive.
fn pack(from: &Path, name: &Path, to: impl Write) -> Result<Copied, String> {
    let mut archive = tar::Builder::new(to);
    archive.follow_symlinks(false);
    let mut copied = Copied::default();
    // What is named on the command line is meant even if a link leads there; what is within is not.
    let from = match fs::symlink_metadata(from) {
        Ok(found) if found.is_symlink() => fs::canonicalize(from).map_err(|e| said(from, &e))?,
        _ => from.to_owned(),
    };
    pack_one(&mut archive, &from, name, &mut copied)?;
    let done = archive.into_inner().and_then(|mut to| to.flush());
    done.map_err(|error| said(&from, &error))?;
    Ok(copied)
}

fn pack_one<W: Write>(
    archive: &mut tar::Builder<W>,
    from: &Path,
    name: &Path,
    copied: &mut Copied,
) -> Result<(), String> {
    let wrong = |error: io::Error| said(from, &error);
    let found = fs::symlink_metadata(from).map_err(wrong)?;
    let kind = found.file_type();
    if kind.is_socket() || kind.is_fifo() || kind.is_block_device() || kind.is_char_device() {
        copied.left_out.push(from.display().to_string());
        return Ok(());
    }
    copied.entries += 1;
    if kind.is_dir() {
        archive.append_dir(name, from).map_err(wrong)?;
        let entries = fs::read_dir(from).map_err(wrong)?;
        let mut names = entries
            .map(|entry| entry.map(|entry| entry.file_name()))
            .collect::<io::Result<Vec<_>>>()
            .map_err(wrong)?;
        names.sort();
        for own in names {
            pack_one(archive, &from.join(&own), &name.join(&own), copied)?;
        }
        return Ok(());
    }
    if kind.is_file() {
        copied.bytes += found.len();
    }
    archive.append_path_with_name(from, name).map_err(wrong)
}

/// Unpacks an archive in a folder, and nowhere else.
fn unpack(mut from: impl Read, folder: &Path) -> Result<Copied, String> {
    let mut copied = Copied::default();
    let mut archive = tar::Archive::new(&mut from);
    archive.set_preserve_permissions(true);
    archive.set_preserve_ownerships(true);
    archive.set_preserve_mtime(true);
    let wrong = |error: &io::Error| said(folder, error);
    // Folders last, the inner ones first: one that may not be written to must be filled before. Until then they are made as
    // files need them.
    let mut folders = Vec::new();
    for entry in archive.entries().map_err(|e| wrong(&e))? {
        let mut entry = entry.map_err(|e| wrong(&e))?;
        let name = entry.path().map_err(|e| wrong(&e))?.into_owned();
        copied.entries += 1;
        let kind = entry.header().entry_type();
        if kind.is_dir() {
            folders.push((name, entry));
            continue;
        }
        if !(kind.is_file() || kind.is_symlink() || kind.is_hard_link()) {
            copied.left_out.push(name.display().to_string());
            continue;
        }
        copied.bytes += entry.size();
        match entry.unpack_in(folder) {
            Ok(true) => {}
            Ok(false) => return Err(format!("{} leads out of the folder", name.display())),
            Err(error) => return Err(said(&name, &error)),
        }
    }
    folders.sort_by(|(a, _), (b, _)| b.cmp(a));
    for (name, mut entry) in folders {
        entry.unpack_in(folder).map_err(|e| said(&name, &e))?;
    }
    // What follows the archive's end, so that its writer is not told that nobody reads.
    io::copy(&mut from, &mut io::sink()).map_err(|e| wrong(&e))?;
    Ok(copied)
}

/// An error in words, with all that the system said.
fn said(path: &Path, error: &io::Error) -> String {
    let root = std::error::Error::source(error)
        .map_or_else(|| error.to_string(), |source| source.to_string());
    match error.kind() {
        io::ErrorKind::BrokenPipe => format!("{}: {BROKEN}", path.display()),
        _ => format!("{}: {root}", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_is_called_as_it_is_asked_for() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::create_dir(at("logs")).unwrap();
        fs::write(at("logs/a"), "1").unwrap();
        let packed = |from: &str| {
            let mut archive = Vec::new();
            pack_here(&at(from), Path::new(from), &mut archive).unwrap();
            archive
        };
        let folder = packed("logs");
        // One of that name is in the way of none.
        let copied = unpack_here(&folder[..], Path::new("/var/logs"), &at("kept")).unwrap();
        assert_eq!((copied.entries, copied.bytes), (2, 1));
        assert_eq!(fs::read(at("kept/a")).unwrap(), b"1");
        // An existing folder takes it under its own name, twice as well as once.
        for _ in 0..2 {
            unpack_here(&folder[..], Path::new("/var/logs"), &at("kept")).unwrap();
        }
        assert_eq!(fs::read(at("kept/logs/a")).unwrap(), b"1");
        let no_folder = unpack_here(&folder[..], Path::new("/var/logs"), &at("nowhere/x"));
        assert!(no_folder.unwrap_err().to_string().contains("nowhere"));
        assert_eq!(
            fs::read_dir(place.path()).unwrap().count(),
            2,
            "nothing aside"
        );
    }
}
