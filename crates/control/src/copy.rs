//! Copies of files and folders into nodes and out of them.
//!
//! One thread reads and packs the files, and another one unpacks them. The thread on the node's side works inside the file
//! system of the node's programs, so that no path and no symbolic link leads out of it. Links are copied as links, and holes
//! of files as holes.
//!
//! The copy contains the files that exist when it begins. Each file has the length that it has when its turn comes, so a
//! copy into its own source, or of growing files, comes to an end. Files that cannot be copied are listed in
//! [`Copied::left_out`] and never dropped silently.

use std::cell::Cell;
use std::fs;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use constel_host::Error as HostError;
use constel_host::enclosure::View;
use constel_host::node_file::{self, OpenMode};
use constel_host::threads::result_of;
use serde::Serialize;

use crate::error::Error;
use crate::labs::Lab;

/// The result of a copy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Copied {
    /// Files, folders and links.
    pub entries: u64,
    /// In files, bytes.
    pub bytes: u64,
    /// Files that either side left out.
    pub left_out: Vec<LeftOut>,
}

/// Something that was not copied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// The path, or the name in the archive.
    pub path: String,
    /// Why.
    pub why: String,
}

impl LeftOut {
    fn new(path: &Path, why: &str) -> Self {
        Self {
            path: path.display().to_string(),
            why: why.to_owned(),
        }
    }
}

/// Maximum number of files, folders and links of one copy. Their names are held in memory.
const MOST_ENTRIES: usize = 2_000_000;

/// Maximum bytes of an entry's headers: long names, attributes, and the holes of a file, which take 24 bytes each. The reader
/// holds them in memory.
const MOST_HEADER_BYTES: u64 = 16 << 20;

/// Maximum bytes of the headers of all folders of an archive, which are held until its end: those of as many entries as a copy
/// may have.
const MOST_HELD_BYTES: u64 = 1 << 30;

/// Maximum bytes that are read behind the end of an archive. Programs pad archives, by some KiB as a rule.
const MOST_BEHIND_BYTES: u64 = 64 << 20;

/// One side of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopySide {
    /// A path on this host.
    Host(PathBuf),
    /// A tar archive, on standard input or output.
    Tar,
}

impl Lab {
    /// Copies a file or folder out of a node. If `to` is an existing folder, the copy keeps its name. Otherwise the copy
    /// gets the name in `to`, whose folder must exist.
    ///
    /// # Errors
    /// [`Error::NotCopied`] with the path and the reason, and those of [`Lab::enter`].
    pub fn copy_out(&self, node: &str, from: &Path, to: &CopySide) -> Result<Copied, Error> {
        let door = self.enter(node)?;
        let node = |work: Work<'_>| in_node(door.entry.within.view(), work);
        match to {
            CopySide::Tar => {
                let name = own_name(from).ok_or_else(|| no_name(from))?;
                node(&mut || pack(from, &name, io::stdout().lock()))
            }
            CopySide::Host(to) => {
                let (folder, name) = target(from, to).map_err(Error::NotCopied)?;
                let get = |to| node(&mut || pack(from, &name, &to));
                let ours = Origin::Node(&name);
                across(get, |from| {
                    unpack(from, &folder, ours).map_err(Error::NotCopied)
                })
            }
        }
    }

    /// Copies a file or folder into a node, by the same rules. A tar archive is unpacked in the folder `to`.
    ///
    /// # Errors
    /// As [`Lab::copy_out`].
    pub fn copy_in(&self, node: &str, from: &CopySide, to: &Path) -> Result<Copied, Error> {
        let door = self.enter(node)?;
        let node = |work: Work<'_>| in_node(door.entry.within.view(), work);
        match from {
            CopySide::Tar => node(&mut || unpack(io::stdin().lock(), to, Origin::User)),
            CopySide::Host(from) => {
                let mut place = None;
                node(&mut || {
                    place = Some(target(from, to)?);
                    Ok(Copied::default())
                })?;
                let (folder, name) = place.ok_or_else(|| no_name(from))?;
                let get = |to| pack(from, &name, to).map_err(Error::NotCopied);
                across(get, |from| {
                    node(&mut || unpack(&from, &folder, Origin::User))
                })
            }
        }
    }
}

/// Packs a file or folder of this host as a tar archive, called `name` there.
///
/// # Errors
/// [`Error::NotCopied`] with the path and the reason.
pub fn pack_here(from: &Path, name: &Path, to: impl Write) -> Result<Copied, Error> {
    pack(from, name, to).map_err(Error::NotCopied)
}

/// Unpacks the archive of the file or folder named as the last component of `from` on this host. If `to` is an existing
/// folder, the copy keeps its name. Otherwise the copy gets the name in `to`, whose folder must exist.
///
/// # Errors
/// [`Error::NotCopied`] with the path and the reason.
pub fn unpack_here(archive: impl Read, from: &Path, to: &Path) -> Result<Copied, Error> {
    let (folder, name) = target(from, to).map_err(Error::NotCopied)?;
    let own = own_name(from).ok_or_else(|| no_name(from))?;
    if name == own {
        return unpack(archive, &folder, Origin::Node(&own)).map_err(Error::NotCopied);
    }
    // Unpacked under its own name, it could collide with another file.
    let aside = folder.join(format!(".constel-cp-{}", std::process::id()));
    let wrong = |path: &Path, error: &io::Error| Error::NotCopied(said(path, error));
    fs::create_dir(&aside).map_err(|error| wrong(&aside, &error))?;
    let copied = unpack(archive, &aside, Origin::Node(&own)).map_err(Error::NotCopied);
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

/// Runs `work` inside the file system view of the node's programs.
fn in_node(view: &View, work: Work<'_>) -> Result<Copied, Error> {
    view.within(|| Ok(work()))?.map_err(Error::NotCopied)
}

/// Packs at one end of a pipe and unpacks at the other. If both fail, reports the error that stopped the writer, or
/// otherwise that of the reader.
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
    match (got, put) {
        (Err(got), Err(put)) if only_stopped(&got) => Err(put),
        (Err(got), _) => Err(got),
        (Ok(mut got), put) => put.map(|put| {
            got.left_out.extend(put.left_out);
            got
        }),
    }
}

/// Returns whether the error of a side that packs only reports that the other side has stopped reading.
#[must_use]
pub fn only_stopped(error: &Error) -> bool {
    error.to_string().ends_with(BROKEN)
}

/// The end of an error message that only reports that the other side has stopped.
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
    // A symbolic link on the command line is followed. Links inside the folder are copied as links.
    let from = match fs::symlink_metadata(from) {
        Ok(found) if found.is_symlink() => fs::canonicalize(from).map_err(|e| said(from, &e))?,
        _ => from.to_owned(),
    };
    let mut found = Vec::new();
    list(&from, PathBuf::new(), &mut found)?;
    let mut archive = tar::Builder::new(to);
    archive.follow_symlinks(false);
    let mut copied = Copied::default();
    for own in found {
        // Joining nothing would add a slash, which no file takes.
        let join = |to: &Path| match own.as_os_str().is_empty() {
            true => to.to_owned(),
            false => to.join(&own),
        };
        let (path, name) = (join(&from), join(name));
        match pack_one(&mut archive, &path, &name, &mut copied) {
            Ok(()) => {}
            Err(error)
                if error.kind() == io::ErrorKind::NotFound && !own.as_os_str().is_empty() =>
            {
                let why = "it was removed during the copy";
                copied.left_out.push(LeftOut::new(&path, why));
            }
            Err(error) => return Err(said(&path, &error)),
        }
    }
    let done = archive.into_inner().and_then(|mut to| to.flush());
    done.map_err(|error| said(&from, &error))?;
    Ok(copied)
}

/// Lists all present entries at a path and below it, folders before their contents, without following links.
fn list(root: &Path, own: PathBuf, found: &mut Vec<PathBuf>) -> Result<(), String> {
    let mut left = vec![own];
    while let Some(own) = left.pop() {
        let path = match own.as_os_str().is_empty() {
            true => root.to_owned(),
            false => root.join(&own),
        };
        let wrong = |error: &io::Error| said(&path, error);
        let is_folder = match fs::symlink_metadata(&path) {
            Ok(metadata) => metadata.is_dir(),
            Err(error) if error.kind() == io::ErrorKind::NotFound && path != root => false,
            Err(error) => return Err(wrong(&error)),
        };
        if is_folder {
            let entries = fs::read_dir(&path).map_err(|e| wrong(&e))?;
            let names = entries.map(|entry| entry.map(|entry| own.join(entry.file_name())));
            let mut names = names
                .collect::<io::Result<Vec<_>>>()
                .map_err(|e| wrong(&e))?;
            // The last one is taken first.
            names.sort_by(|a, b| b.cmp(a));
            left.append(&mut names);
        }
        found.push(own);
        if found.len() + left.len() > MOST_ENTRIES {
            return Err(format!(
                "{} has more than {MOST_ENTRIES} files: copy its folders one by one",
                root.display()
            ));
        }
    }
    Ok(())
}

fn pack_one<W: Write>(
    archive: &mut tar::Builder<W>,
    from: &Path,
    name: &Path,
    copied: &mut Copied,
) -> io::Result<()> {
    let found = fs::symlink_metadata(from)?;
    let kind = found.file_type();
    if kind.is_file() {
        return pack_file(archive, from, name, copied);
    }
    // The header describes the file found above, because the path may lead to another file by now.
    let mut header = tar::Header::new_gnu();
    header.set_metadata(&found);
    header.set_size(0);
    if kind.is_dir() {
        archive.append_data(&mut header, name, io::empty())?;
    } else if kind.is_symlink() {
        archive.append_link(&mut header, name, fs::read_link(from)?)?;
    } else {
        copied.left_out.push(LeftOut::new(from, odd_kind(kind)));
        return Ok(());
    }
    copied.entries += 1;
    Ok(())
}

/// Returns the kind of a file that is neither a regular file nor a folder nor a link.
fn odd_kind(kind: fs::FileType) -> &'static str {
    match () {
        () if kind.is_socket() => "a socket",
        () if kind.is_fifo() => "a named pipe",
        () => "a device",
    }
}

/// Packs a file, which a program of the node may replace, lengthen or shorten at any moment.
fn pack_file<W: Write>(
    archive: &mut tar::Builder<W>,
    from: &Path,
    name: &Path,
    copied: &mut Copied,
) -> io::Result<()> {
    let file = match node_file::open(from, OpenMode::Read) {
        Ok(file) => file,
        // Another process has replaced it in the meantime.
        Err(HostError::Os { source, .. }) if source.kind() == io::ErrorKind::InvalidInput => {
            let why = source.to_string();
            copied.left_out.push(LeftOut::new(from, &why));
            return Ok(());
        }
        Err(HostError::Os { source, .. }) => return Err(source),
        Err(other) => return Err(io::Error::other(other)),
    };
    let found = file.metadata()?;
    let mut header = tar::Header::new_gnu();
    header.set_metadata(&found);
    let has_holes = found.blocks().saturating_mul(512) < found.len();
    if has_holes {
        pack_with_holes(archive, header, name, &file)?;
    } else {
        // Write exactly the length in the header, because the archive's reader finds the next header by it.
        let content = file.chain(io::repeat(0)).take(found.len());
        archive.append_data(&mut header, name, content)?;
    }
    copied.entries += 1;
    copied.bytes += found.len();
    Ok(())
}

/// Packs a sparse file as a list of its data parts in GNU format. `tar::Builder` could do this too, but assumes that the
/// file keeps its length: a program that shortens the file at that moment could then write the rest of the archive.
fn pack_with_holes<W: Write>(
    archive: &mut tar::Builder<W>,
    mut header: tar::Header,
    name: &Path,
    file: &fs::File,
) -> io::Result<()> {
    let length = header.size()?;
    let mut parts = in_blocks(node_file::data_of(file, length)?, length);
    let stored = parts.iter().map(|(from, to)| to - from).sum();
    if parts.last().is_none_or(|(_, to)| *to < length) {
        parts.push((length, length));
    }
    header.set_entry_type(tar::EntryType::GNUSparse);
    header.set_size(stored);
    let odd = || io::Error::other("the tar header is not in GNU format");
    let gnu = header.as_gnu_mut().ok_or_else(odd)?;
    gnu.set_real_size(length);
    let (first, rest) = parts.split_at(parts.len().min(gnu.sparse.len()));
    gnu.set_is_extended(!rest.is_empty());
    for (place, part) in gnu.sparse.iter_mut().zip(first) {
        put(place, *part);
    }
    let mut more = Vec::new();
    let mut left = rest;
    while !left.is_empty() {
        let mut next = tar::GnuExtSparseHeader::new();
        let (these, after) = left.split_at(left.len().min(next.sparse.len()));
        for (place, part) in next.sparse.iter_mut().zip(these) {
            put(place, *part);
        }
        next.set_is_extended(!after.is_empty());
        more.extend_from_slice(next.as_bytes());
        left = after;
    }
    // The extended headers between the header and the file's bytes do not count as its size.
    let content = io::Cursor::new(more).chain(Parts::new(file, &parts));
    archive.append_data(&mut header, name, content)
}

/// Widens the parts of a file to whole blocks of an archive, because readers expect each part but the last to end there. The end
/// of a file counts as the begin of a hole. In a growing file, a part may therefore end in the middle of a block, with others
/// behind it.
fn in_blocks(parts: Vec<(u64, u64)>, length: u64) -> Vec<(u64, u64)> {
    const BLOCK_BYTES: u64 = 512;
    let mut wider: Vec<(u64, u64)> = Vec::with_capacity(parts.len());
    for (from, to) in parts {
        let from = (from - from % BLOCK_BYTES).min(length);
        let to = to.next_multiple_of(BLOCK_BYTES).min(length);
        match wider.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => wider.push((from, to)),
        }
    }
    wider
}

fn put(place: &mut tar::GnuSparseHeader, (from, to): (u64, u64)) {
    place.set_offset(from);
    place.set_length(to - from);
}

/// Reads parts of a file one after another. Each part has its stated length, and zeros replace bytes that are gone.
struct Parts<'a> {
    file: &'a fs::File,
    /// Those that are left; the first one from where it was read to.
    left: std::slice::Iter<'a, (u64, u64)>,
    now: (u64, u64),
}

impl<'a> Parts<'a> {
    fn new(file: &'a fs::File, parts: &'a [(u64, u64)]) -> Self {
        Self {
            file,
            left: parts.iter(),
            now: (0, 0),
        }
    }
}

impl Read for Parts<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        while self.now.0 == self.now.1 {
            match self.left.next() {
                Some(part) => self.now = *part,
                None => return Ok(0),
            }
        }
        let wanted = usize::try_from(self.now.1 - self.now.0).unwrap_or(usize::MAX);
        let to_fill = to.len().min(wanted);
        let to = &mut to[..to_fill];
        let read = match self.file.read_at(to, self.now.0)? {
            0 => {
                to.fill(0);
                to.len()
            }
            read => read,
        };
        self.now.0 += read as u64;
        Ok(read)
    }
}

/// The creator of an archive.
#[derive(Clone, Copy)]
enum Origin<'a> {
    /// The user: all that it holds is unpacked as it is.
    User,
    /// A process among a node's programs that packs files while programs change them. All entries must have this name or be
    /// below it. `setuid` and `setgid` bits are not preserved here.
    Node(&'a Path),
}

impl Origin<'_> {
    /// Checks an entry.
    ///
    /// # Errors
    /// A message if [`pack`] never creates such an entry.
    fn check(self, name: &Path, kind: tar::EntryType) -> Result<(), String> {
        match self {
            Self::Node(own) if !name.starts_with(own) || kind.is_hard_link() => Err(format!(
                "{}: the archive that came out of the node has more than {}",
                name.display(),
                own.display()
            )),
            _ => Ok(()),
        }
    }
}

/// Unpacks an archive in a folder, and nowhere else.
fn unpack(mut from: impl Read, folder: &Path, origin: Origin<'_>) -> Result<Copied, String> {
    let mut copied = Copied::default();
    let left = Cell::new(0);
    let mut archive = tar::Archive::new(Metered {
        from: &mut from,
        left: &left,
    });
    if let Origin::Node(_) = origin {
        archive.set_mask(0o6000);
    }
    archive.set_preserve_permissions(true);
    archive.set_preserve_ownerships(true);
    archive.set_preserve_mtime(true);
    let wrong = |error: &io::Error| said(folder, error);
    // Folders last, the inner ones first: one that may not be written to must be filled before. Until then they are made as
    // files need them.
    let mut folders = Vec::new();
    let mut entries = archive.entries().map_err(|e| wrong(&e))?;
    // The content of an entry that is left out is read with the headers of the next one.
    let (mut unread, mut held) = (0_u64, 0);
    for number in 0.. {
        left.set(unread.saturating_add(MOST_HEADER_BYTES));
        let Some(entry) = entries.next() else { break };
        let mut entry = entry.map_err(|e| wrong(&e))?;
        if entry.header().entry_type().is_dir() {
            held += MOST_HEADER_BYTES.saturating_sub(left.get());
        }
        if number == MOST_ENTRIES || held > MOST_HELD_BYTES {
            return Err(format!(
                "the archive has more than {MOST_ENTRIES} entries, or folders with more than {MOST_HELD_BYTES} bytes of headers: copy its folders one by one"
            ));
        }
        unread = 0;
        left.set(u64::MAX);
        let name = entry.path().map_err(|e| wrong(&e))?.into_owned();
        let kind = entry.header().entry_type();
        origin.check(&name, kind)?;
        if kind.is_dir() {
            copied.entries += 1;
            unread = entry.size();
            folders.push((name, entry));
            continue;
        }
        let is_file = kind.is_file() || kind.is_contiguous() || kind.is_gnu_sparse();
        if !(is_file || kind.is_symlink() || kind.is_hard_link()) {
            let why = match kind {
                tar::EntryType::Fifo => "a named pipe",
                tar::EntryType::Char | tar::EntryType::Block => "a device",
                _ => "a kind of entry that is not known",
            };
            copied.left_out.push(LeftOut::new(&name, why));
            unread = entry.size();
            continue;
        }
        if is_sparse_in_pax(&mut entry).map_err(|e| said(&name, &e))? {
            return Err(format!(
                "{}: a file with holes in the form of pax, which cannot be read; `tar --format=gnu` writes one that can",
                name.display()
            ));
        }
        copied.entries += 1;
        copied.bytes = copied.bytes.saturating_add(entry.size());
        match entry.unpack_in(folder) {
            Ok(true) => {}
            Ok(false) => return Err(format!("{} leads out of the folder", name.display())),
            Err(error) => return Err(said(&name, &error)),
        }
        // A link has no content to unpack, whatever its header says.
        if !is_file {
            unread = entry.size();
        }
    }
    folders.sort_by(|(a, _), (b, _)| b.cmp(a));
    for (name, mut entry) in folders {
        entry.unpack_in(folder).map_err(|e| said(&name, &e))?;
    }
    // Read the rest after the end of the archive, so that its writer does not get a broken pipe.
    io::copy(&mut from.take(MOST_BEHIND_BYTES), &mut io::sink()).map_err(|e| wrong(&e))?;
    Ok(copied)
}

/// A reader of at most `left` bytes, which is set before each entry: the reader of archives holds all headers of an entry in
/// memory, however long they say they are.
struct Metered<'a, R> {
    from: R,
    left: &'a Cell<u64>,
}

impl<R: Read> Read for Metered<'_, R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.left.get() == 0 && !to.is_empty() {
            let why = format!("an entry with more than {MOST_HEADER_BYTES} bytes of headers");
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        let most = usize::try_from(self.left.get()).unwrap_or(usize::MAX);
        let most = to.len().min(most);
        let read = self.from.read(&mut to[..most])?;
        self.left.set(self.left.get() - read as u64);
        Ok(read)
    }
}

/// Returns whether a sparse file is stored in pax format. A reader that does not know the format finds another file with
/// another name.
fn is_sparse_in_pax<R: Read>(entry: &mut tar::Entry<'_, R>) -> io::Result<bool> {
    let Some(extensions) = entry.pax_extensions()? else {
        return Ok(false);
    };
    for extension in extensions {
        if extension?.key_bytes().starts_with(b"GNU.sparse.") {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the message for an error, with the full error of the operating system.
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
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::Ordering::Relaxed;

    fn copied_through(from: &Path, to: &Path) -> Copied {
        let mut archive = Vec::new();
        let got = pack_here(from, &own_name(from).unwrap(), &mut archive);
        across(|_| got, |_| unpack_here(&archive[..], from, to)).unwrap()
    }

    /// A file of 1 MiB with content at its begin and end only; another one is nothing but a hole, a third has many.
    fn with_holes(folder: &Path) {
        let write = |name: &str, length: u64, parts: &[u64]| {
            let file = fs::File::create(folder.join(name)).unwrap();
            file.set_len(length).unwrap();
            for at in parts {
                file.write_all_at(b"content", *at).unwrap();
            }
        };
        write("ends", 1 << 20, &[0, (1 << 20) - 7]);
        write("begins", 1 << 20, &[0]);
        write("hole", 3 << 20, &[]);
        let many: Vec<u64> = (0..200).map(|n| n << 16).collect();
        write("many", 200 << 16, &many);
        fs::write(folder.join("plain"), "no hole").unwrap();
    }

    #[test]
    fn files_with_holes_come_whole() {
        let place = tempfile::tempdir().unwrap();
        let (from, to) = (place.path().join("from"), place.path().join("to"));
        fs::create_dir(&from).unwrap();
        with_holes(&from);
        let copied = copied_through(&from, &to);
        assert_eq!((copied.entries, &copied.left_out[..]), (6, &[][..]));
        for name in ["ends", "begins", "hole", "many", "plain"] {
            let [old, new] = [&from, &to].map(|folder| folder.join(name));
            assert_eq!(fs::read(&old).unwrap(), fs::read(&new).unwrap(), "{name}");
        }
        let blocks = fs::metadata(to.join("ends")).unwrap().blocks();
        assert!(
            blocks * 512 < 1 << 19,
            "{blocks} blocks: the hole was filled"
        );
    }

    #[test]
    fn parts_of_a_file_that_grew_meanwhile_are_whole_blocks() {
        let parts = vec![(0, 5000), (5000, 5777), (9001, 9002), (20_480, 30_000)];
        let blocks = [(0, 6144), (8704, 9216), (20_480, 25_000)];
        assert_eq!(in_blocks(parts, 25_000), blocks);
        assert_eq!(in_blocks(vec![(700, 9000)], 600), [(512, 600)]);
    }

    #[test]
    fn what_is_left_out_by_either_side_is_named() {
        let place = tempfile::tempdir().unwrap();
        let (from, to) = (place.path().join("from"), place.path().join("to"));
        fs::create_dir(&from).unwrap();
        fs::write(from.join("file"), "1").unwrap();
        drop(std::os::unix::net::UnixListener::bind(from.join("socket")).unwrap());
        let copied = copied_through(&from, &to);
        assert_eq!(
            copied.left_out,
            [LeftOut::new(&from.join("socket"), "a socket")]
        );
        // Archives of others have more kinds.
        let mut archive = tar::Builder::new(Vec::new());
        for (name, kind) in [
            ("pipe", tar::EntryType::Fifo),
            ("odd", tar::EntryType::new(b'Z')),
        ] {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(kind);
            header.set_size(0);
            archive.append_data(&mut header, name, io::empty()).unwrap();
        }
        let archive = archive.into_inner().unwrap();
        let left_out = unpack(&archive[..], place.path(), Origin::User)
            .unwrap()
            .left_out;
        let left_out: Vec<&str> = left_out.iter().map(|left| left.path.as_str()).collect();
        assert_eq!(left_out, ["pipe", "odd"]);
    }

    #[test]
    fn a_sparse_file_in_pax_form_is_refused_and_never_taken_for_another() {
        let place = tempfile::tempdir().unwrap();
        with_holes(place.path());
        let mut tar = std::process::Command::new("tar");
        tar.args(["--format=posix", "--sparse", "-cf", "-", "ends"]);
        let made = tar.current_dir(place.path()).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        let to = place.path().join("to");
        fs::create_dir(&to).unwrap();
        let error = unpack(&made.stdout[..], &to, Origin::User).unwrap_err();
        assert!(error.contains("--format=gnu"), "{error}");
        assert_eq!(fs::read_dir(&to).unwrap().count(), 0);
    }

    /// Gives the start, then repeats the rest without end.
    fn endless(start: Vec<u8>, rest: &'static [u8]) -> impl Read {
        struct Cycle(&'static [u8], usize);
        impl Read for Cycle {
            fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
                for byte in to.iter_mut() {
                    *byte = self.0[self.1];
                    self.1 = (self.1 + 1) % self.0.len();
                }
                Ok(to.len())
            }
        }
        io::Cursor::new(start).chain(Cycle(rest, 0))
    }

    fn header(name: &str, kind: tar::EntryType, size: u64) -> tar::Header {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_path(name).unwrap();
        header.set_mode(0o755);
        header.set_uid(rustix::process::getuid().as_raw().into());
        header.set_gid(rustix::process::getgid().as_raw().into());
        header.set_mtime(0);
        header.set_size(size);
        header.set_cksum();
        header
    }

    #[test]
    fn headers_without_end_are_not_held_in_memory() {
        use tar::EntryType as Kind;
        let place = tempfile::tempdir().unwrap();
        for kind in [Kind::XHeader, Kind::GNULongName, Kind::GNULongLink] {
            let start = header("f", kind, 1 << 40).as_bytes().to_vec();
            let error = unpack(endless(start, b"x"), place.path(), Origin::User).unwrap_err();
            assert!(error.contains("bytes of headers"), "{kind:?}: {error}");
        }
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
        // The content of entries that are left out does not count.
        let mut archive = header("odd", Kind::new(b'Z'), 40 << 20).as_bytes().to_vec();
        archive.resize(archive.len() + (40 << 20), b'x');
        archive.extend_from_slice(header("f", Kind::Regular, 0).as_bytes());
        archive.resize(archive.len() + 1024, 0);
        let copied = unpack(&archive[..], place.path(), Origin::User).unwrap();
        assert_eq!((copied.entries, copied.left_out.len()), (1, 1));
    }

    #[test]
    fn an_archive_that_goes_on_behind_its_end_ends() {
        let place = tempfile::tempdir().unwrap();
        let mut archive = header("f", tar::EntryType::Regular, 0).as_bytes().to_vec();
        archive.resize(archive.len() + 1024, 0);
        let copied = unpack(endless(archive, b"x"), place.path(), Origin::User).unwrap();
        assert_eq!(copied.entries, 1);
    }

    #[test]
    fn a_copy_into_its_own_source_ends() {
        let place = tempfile::tempdir().unwrap();
        let from = place.path().join("from");
        fs::create_dir_all(from.join("a/b")).unwrap();
        fs::write(from.join("a/b/file"), vec![7; 100_000]).unwrap();
        let get = |to: PipeWriter| pack_here(&from, Path::new("copy"), to);
        let put = |archive: PipeReader| {
            unpack(archive, &from.join("a"), Origin::User).map_err(Error::NotCopied)
        };
        for copies in 1..=3_u64 {
            let copied = across(get, put).unwrap();
            // Each takes in those before it, and not itself.
            assert!(copied.entries <= 4 << copies, "{copied:?}");
        }
        // By a link that leads back, and as the source itself.
        std::os::unix::fs::symlink(&from, place.path().join("link")).unwrap();
        for to in ["link", "link/a/b", "from"] {
            let put = |archive: PipeReader| {
                unpack(archive, &place.path().join(to), Origin::User).map_err(Error::NotCopied)
            };
            let before = count(&from);
            let copied = across(get, put).unwrap();
            assert!(copied.entries <= before + 1, "{to}: {copied:?}");
        }
    }

    /// The entries of a folder at any depth, itself included.
    fn count(folder: &Path) -> u64 {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
        let counts = entries.map(|entry| match entry.file_type().unwrap().is_dir() {
            true => count(&entry.path()),
            false => 1,
        });
        1 + counts.sum::<u64>()
    }

    #[test]
    fn a_file_that_changes_while_it_is_copied_spoils_no_other() {
        let place = tempfile::tempdir().unwrap();
        let from = place.path().join("from");
        fs::create_dir(&from).unwrap();
        let log = from.join("a-log");
        fs::write(&log, "x".repeat(64 << 10)).unwrap();
        let holes = from.join("a-sparse");
        fs::File::create(&holes).unwrap().set_len(1 << 18).unwrap();
        fs::write(from.join("b-file"), "whole").unwrap();
        let stop = AtomicBool::new(false);
        struct Stop<'a>(&'a AtomicBool);
        impl Drop for Stop<'_> {
            fn drop(&mut self) {
                self.0.store(true, Relaxed);
            }
        }
        std::thread::scope(|scope| {
            // Also when a copy fails: the scope waits for its thread.
            let _stop = Stop(&stop);
            scope.spawn(|| {
                let open = |path: &Path| fs::OpenOptions::new().append(true).open(path).unwrap();
                let (mut grows, mut sparse) = (open(&log), open(&holes));
                while !stop.load(Relaxed) {
                    grows.write_all(&[b'y'; 777]).unwrap();
                    if grows.metadata().unwrap().len() > 4 << 20 {
                        grows.set_len(1).unwrap();
                    }
                    // A hole, data, and soon neither.
                    let length = sparse.metadata().unwrap().len();
                    sparse.set_len(length + (1 << 16)).unwrap();
                    sparse.write_all(&[b'z'; 5000]).unwrap();
                    if length > 1 << 20 {
                        sparse.set_len(1).unwrap();
                    }
                }
            });
            for _ in 0..50 {
                let to = tempfile::tempdir().unwrap();
                copied_through(&from, to.path());
                let file = to.path().join("from/b-file");
                assert_eq!(fs::read_to_string(file).unwrap(), "whole");
            }
        });
    }

    /// Forms of an archive that no copy makes, but one that a node's programs had got hold of.
    #[test]
    fn nothing_but_what_was_asked_for_comes_out_of_a_node() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("key"), "ours").unwrap();
        let archive = |name: &str, kind: tar::EntryType, link: &str| {
            let mut archive = tar::Builder::new(Vec::new());
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(kind);
            header.set_mode(0o6755);
            header.set_size(0);
            header.set_uid(0);
            header.set_gid(0);
            header.set_mtime(0);
            if !link.is_empty() {
                header.set_link_name(link).unwrap();
            }
            archive.append_data(&mut header, name, io::empty()).unwrap();
            archive.into_inner().unwrap()
        };
        let get = |archive: Vec<u8>| unpack(&archive[..], place.path(), Origin::Node("f".as_ref()));
        for (name, kind, link) in [
            (".ssh/authorized_keys", tar::EntryType::Regular, ""),
            ("key", tar::EntryType::Regular, ""),
            ("f2", tar::EntryType::Directory, ""),
            ("f", tar::EntryType::Link, "key"),
        ] {
            let error = get(archive(name, kind, link)).unwrap_err();
            assert!(error.contains("more than f"), "{name}: {error}");
        }
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
        assert_eq!(fs::read(place.path().join("key")).unwrap(), b"ours");
        get(archive("f", tar::EntryType::Regular, "")).unwrap();
        assert_eq!(
            fs::metadata(place.path().join("f")).unwrap().mode() & 0o7777,
            0o755
        );
    }

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
        // The name collides with no other file here.
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
