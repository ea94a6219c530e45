//! Named files of a folder or of an archive.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::found::Context;
use crate::image::compression::{Bound, Decompressed, Form, form_of};
use crate::image::documents::read_whole;
use crate::image::error::Fault;
use crate::image::limits::Limits;
use crate::image::path;
use crate::image::progress::Step;
use crate::image::tar::{Kind, Seekable, TarReader};

/// Files by name.
pub(super) trait Files {
    /// Opens a file; `None` if there is no such file.
    fn open(&self, name: &str) -> Result<Option<Box<dyn Read>>, Fault>;

    /// Reads a whole document.
    fn document(&self, name: &str, limits: &Limits) -> Result<Vec<u8>, Fault> {
        match self.open(name)? {
            Some(content) => read_whole(name, content, limits),
            None => Err(Fault::Missing(name.to_owned())),
        }
    }
}

/// Opens a regular file for reading; rejects pipes and devices.
pub(super) fn open(path: &Path) -> Result<File, Fault> {
    match constel_units::files::open(path) {
        Ok(file) => Ok(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Fault::NoSuchFile),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            Err(Fault::Format(error.to_string()))
        }
        Err(error) => Err(Fault::io("open it")(error)),
    }
}

/// A folder; links that lead out of it are not followed.
pub(super) struct Folder(OwnedFd);

impl Folder {
    pub(super) fn open(path: &Path) -> Result<Self, Fault> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(folder) => Ok(Self(folder)),
            Err(Errno::NOENT) => Err(Fault::NoSuchFile),
            Err(Errno::NOTDIR) => Err(Fault::Format("it is no folder".to_owned())),
            Err(error) => Err(Fault::os("open it")(error)),
        }
    }

    fn at(&self, name: &str, flags: OFlags) -> Result<Option<OwnedFd>, Fault> {
        // Links within the folder are fine, links out of it are not.
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let flags = flags | OFlags::CLOEXEC;
        match rustix::fs::openat2(&self.0, name, flags, Mode::empty(), within) {
            Ok(file) => Ok(Some(file)),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(Errno::XDEV) => Err(Fault::Format(format!("{name} leads out of its folder"))),
            Err(error) => Err(Fault::os(format!("open {name}"))(error)),
        }
    }

    pub(super) fn has(&self, name: &str) -> Result<bool, Fault> {
        Ok(self.at(name, OFlags::PATH)?.is_some())
    }
}

impl Files for Folder {
    fn open(&self, name: &str) -> Result<Option<Box<dyn Read>>, Fault> {
        let Some(file) = self.at(name, OFlags::RDONLY | OFlags::NONBLOCK)? else {
            return Ok(None);
        };
        let stat = rustix::fs::fstat(&file).map_err(Fault::os(format!("look at {name}")))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(Fault::Format(format!("{name} is no regular file")));
        }
        Ok(Some(Box::new(File::from(file))))
    }
}

/// An archive whose files can be read individually.
pub(super) struct Archive {
    file: Arc<File>,
    files: HashMap<Vec<u8>, ArchiveEntry>,
}

enum ArchiveEntry {
    Content {
        offset: u64,
        size: u64,
    },
    /// A sparse file; no tool writes an image's metadata or layers sparsely.
    WithHoles,
    Link {
        to: Vec<u8>,
    },
}

impl Archive {
    /// Reads the archive's table of contents; a compressed archive is first decompressed into a temporary file.
    pub(super) fn open(file: File, context: &Context<'_>) -> Result<Self, Fault> {
        let stat = rustix::fs::fstat(file.as_fd()).map_err(Fault::os("look at it"))?;
        let is_regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let mut head = [0; 512];
        let filled = match is_regular {
            true => read_at_most(&file, &mut head).map_err(Fault::io("read it"))?,
            false => return Err(Fault::Format("it is no regular file".to_owned())),
        };
        let file = match form_of(&head[..filled])? {
            Form::Plain if filled < head.len() => {
                return Err(Fault::Format("it is shorter than any archive".to_owned()));
            }
            Form::Plain => file,
            Form::Gzip | Form::Zstd => {
                let mut plain = Decompressed::new(file, Bound::of_archive(context.limits))?;
                spool(
                    &mut plain,
                    "the archive",
                    context.limits.spool_bytes,
                    context,
                )?
            }
        };
        let mut files = HashMap::new();
        let from = Seekable(BufReader::new(&file));
        let mut archive = TarReader::new(from, context.limits);
        while let Some(entry) = archive.next_entry().map_err(no_tar)? {
            let Ok(parts) = path::parts(&entry.path) else {
                continue;
            };
            let name = path::joined(&parts);
            let place = match entry.kind {
                Kind::File { size } => match archive.content_at() {
                    Some((offset, length)) if length == size => {
                        ArchiveEntry::Content { offset, size }
                    }
                    _ => ArchiveEntry::WithHoles,
                },
                Kind::HardLink { target } => ArchiveEntry::Link { to: target },
                Kind::Symlink { target } => ArchiveEntry::Link {
                    to: beside(&parts, &target),
                },
                _ => continue,
            };
            // As when unpacking: the last entry of a name wins.
            files.insert(name, place);
        }
        let length = file.metadata().map_err(Fault::io("look at it"))?.len();
        let beyond = |place: &ArchiveEntry| match place {
            ArchiveEntry::Content { offset, size } => offset.saturating_add(*size) > length,
            ArchiveEntry::WithHoles | ArchiveEntry::Link { .. } => false,
        };
        if files.values().any(beyond) {
            return Err(Fault::Damaged("it ends within a file".to_owned()));
        }
        Ok(Self {
            file: Arc::new(file),
            files,
        })
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.files.contains_key(name.as_bytes())
    }

    /// Returns whether the archive has a top-level entry with one of these names.
    pub(super) fn has_top(&self, names: &[&str]) -> bool {
        let top = |path: &[u8]| {
            path.split(|b| *b == b'/')
                .next()
                .unwrap_or_default()
                .to_vec()
        };
        let mut tops = self.files.keys().map(|path| top(path));
        tops.any(|top| names.iter().any(|name| name.as_bytes() == top))
    }

    /// Returns the whole archive from its begin, decompressed.
    pub(super) fn whole(&self) -> Result<File, Fault> {
        let mut file = self.file.try_clone().map_err(Fault::io("open it"))?;
        file.seek(SeekFrom::Start(0))
            .map_err(Fault::io("read it"))?;
        Ok(file)
    }
}

/// Converts the fault of a file that is not a tar archive: its first header has a wrong checksum.
fn no_tar(fault: Fault) -> Fault {
    match fault {
        Fault::Damaged(how) if how.contains("check sum") => {
            Fault::Format(format!("it is no tar archive ({how})"))
        }
        other => other,
    }
}

fn read_at_most(file: &File, into: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < into.len() {
        match file.read_at(&mut into[filled..], filled as u64) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Returns the path that a symbolic link leads to, relative to its own folder; `..` at the root stays at the root.
fn beside(link: &path::Parts, target: &[u8]) -> Vec<u8> {
    let mut at: path::Parts = match target.starts_with(b"/") {
        true => Vec::new(),
        false => link[..link.len().saturating_sub(1)].to_vec(),
    };
    for part in target.split(|b| *b == b'/') {
        match part {
            b"" | b"." => {}
            b".." => drop(at.pop()),
            _ => at.push(part.to_vec()),
        }
    }
    path::joined(&at)
}

impl Files for Archive {
    fn open(&self, name: &str) -> Result<Option<Box<dyn Read>>, Fault> {
        let parts =
            path::parts(name.as_bytes()).map_err(|why| Fault::entry(name.as_bytes(), why))?;
        let mut name = path::joined(&parts);
        // Equal layers of an old `docker save` are links to the first of them.
        for _ in 0..path::MOST_LINKS {
            match self.files.get(&name) {
                None => return Ok(None),
                Some(ArchiveEntry::WithHoles) => {
                    let name = crate::image::error::shown(&name);
                    let why = format!("{name} is stored as a file with holes");
                    return Err(Fault::Format(why));
                }
                Some(ArchiveEntry::Link { to }) => name.clone_from(to),
                Some(ArchiveEntry::Content { offset, size }) => {
                    let part = FileRange {
                        file: Arc::clone(&self.file),
                        at: *offset,
                        end: offset + size,
                    };
                    return Ok(Some(Box::new(part)));
                }
            }
        }
        Ok(None)
    }
}

/// A range of a file.
struct FileRange {
    file: Arc<File>,
    at: u64,
    end: u64,
}

impl Read for FileRange {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = (self.end - self.at).min(into.len() as u64) as usize;
        let n = self.file.read_at(&mut into[..most], self.at)?;
        if n == 0 && most > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.at += n as u64;
        Ok(n)
    }
}

/// Copies a stream into an unnamed temporary file, which disappears when it is closed.
///
/// # Errors
/// [`Fault::Limit`] above `most_bytes`; errors of reading and writing.
pub(super) fn spool(
    from: &mut dyn Read,
    what: &str,
    most_bytes: u64,
    context: &Context<'_>,
) -> Result<File, Fault> {
    let mut to = spool_file(context)?;
    let mut buffer = vec![0; 1 << 16];
    let mut bytes = 0;
    loop {
        let n = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Fault::io(format!("read {what}"))(error)),
        };
        bytes += n as u64;
        if bytes > most_bytes {
            return Err(Fault::Limit {
                what: what.to_owned(),
                bound: format!("{most_bytes} bytes"),
                limit: "spool_bytes",
            });
        }
        let wrote = io::Write::write_all(&mut to, &buffer[..n]);
        wrote.map_err(Fault::io(format!("spool {what}")))?;
        context.progress.step(&Step::Reading { what, bytes });
    }
    to.seek(SeekFrom::Start(0))
        .map_err(Fault::io("read what was spooled"))?;
    Ok(to)
}

/// Opens an unnamed temporary file.
pub(crate) fn spool_file(context: &Context<'_>) -> Result<File, Fault> {
    let path = context.spool.join("spool");
    let options = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path);
    let file = options.map_err(Fault::io(format!("make {}", path.display())))?;
    std::fs::remove_file(&path).map_err(Fault::io(format!("unlink {}", path.display())))?;
    Ok(file)
}
