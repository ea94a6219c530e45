//! Tar archives: read entry by entry, without loss of metadata.
//!
//! The crate `tar` parses the fields of headers. The iteration over headers is our own for three reasons: the crate splits
//! extended headers at line breaks, which binary values such as capabilities may contain; it reads no sparse files in the POSIX
//! format; and it resolves contradictions between headers silently.

mod entry;
mod fields;
mod pax;
mod sparse;
mod tape;

use std::collections::BTreeSet;
use std::io;

use ::tar::Header;

use crate::image::error::{EntryFault, Fault};
use crate::image::limits::Limits;
use fields::{BLOCK, Numbers, padding, whole_number};
use pax::Records;
use sparse::Segment;

pub use entry::{Entry, Kind, Meta};
pub use tape::{Seekable, Stream, Tape};

/// Reads an archive entry by entry.
#[derive(Debug)]
pub struct TarReader<T> {
    tape: T,
    /// Bytes read from the tape.
    position: u64,
    /// Offset of the next header.
    next: u64,
    segments: Vec<Segment>,
    entries: u64,
    limits: Limits,
    left_out: BTreeSet<String>,
}

impl<T: Tape> TarReader<T> {
    /// Creates a reader; the tape must be at the archive's begin.
    pub fn new(tape: T, limits: &Limits) -> Self {
        Self {
            tape,
            position: 0,
            next: 0,
            segments: Vec::new(),
            entries: 0,
            limits: limits.clone(),
            left_out: BTreeSet::new(),
        }
    }

    /// Returns the number of entries read.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Returns the offset and length of the last entry's content in the archive, in bytes; `None` if the content has several
    /// parts.
    pub fn content_at(&self) -> Option<(u64, u64)> {
        match self.segments.as_slice() {
            [only] if only.offset == 0 => Some((self.position, only.length)),
            _ => None,
        }
    }

    /// Returns the kinds of metadata that an image cannot keep, for example access control lists.
    pub fn left_out(&self) -> &BTreeSet<String> {
        &self.left_out
    }

    /// Returns the next entry, after skipping the rest of the last entry's content. `None` at the end.
    ///
    /// # Errors
    /// [`Fault::Damaged`], [`Fault::Entry`], [`Fault::Limit`], [`Fault::Io`].
    pub fn next_entry(&mut self) -> Result<Option<Entry>, Fault> {
        let mut long = Long::default();
        loop {
            self.skip_to_next()?;
            let Some(header) = self.header()? else {
                return match long.is_empty() {
                    true => Ok(None),
                    false => Err(Fault::damaged("an extended header describes no entry")),
                };
            };
            let stored = Numbers::of(&header)?.size;
            let kind = header.as_bytes()[156];
            // Content of the stated size follows; `entry` rejects a size for kinds that have no content.
            self.next = self
                .position
                .checked_add(stored)
                .and_then(|end| end.checked_add(padding(stored)))
                .ok_or_else(|| Fault::damaged("a size overflows"))?;
            match kind {
                b'L' => set_once(&mut long.path, self.extension(stored)?)?,
                b'K' => set_once(&mut long.link, self.extension(stored)?)?,
                b'x' | b'X' => {
                    let records = Records::parse(&self.extension(stored)?)?;
                    set_once(&mut long.pax, records)?;
                }
                b'g' => Records::parse(&self.extension(stored)?)?.check_global()?,
                _ => {
                    self.entries += 1;
                    if self.entries > self.limits.entries {
                        return Err(Fault::Limit {
                            what: "its number of entries".to_owned(),
                            bound: self.limits.entries.to_string(),
                            limit: "entries",
                        });
                    }
                    return self.entry(&header, long).map(Some);
                }
            }
        }
    }

    /// Passes the content of the last entry to `take`, in order, with the offset of each part; holes are left out.
    ///
    /// # Errors
    /// [`Fault::Damaged`] if the archive is truncated; errors of `take`.
    pub fn content(
        &mut self,
        mut take: impl FnMut(u64, &[u8]) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let mut buffer = vec![0; 1 << 16];
        for segment in std::mem::take(&mut self.segments) {
            let mut done = 0;
            while done < segment.length {
                let most = (segment.length - done).min(buffer.len() as u64) as usize;
                let n = match self.tape.read(&mut buffer[..most]) {
                    Ok(0) => return Err(Fault::damaged("it ends within a file")),
                    Ok(n) => n,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => return Err(Fault::io("read the archive")(error)),
                };
                self.position += n as u64;
                take(segment.offset + done, &buffer[..n])?;
                done += n as u64;
            }
        }
        Ok(())
    }

    fn skip_to_next(&mut self) -> Result<(), Fault> {
        let ahead = self.next.checked_sub(self.position);
        let ahead = ahead.ok_or_else(|| Fault::damaged("a file is longer than its entry"))?;
        self.tape
            .skip(ahead)
            .map_err(Fault::io("read the archive"))?;
        self.position = self.next;
        self.segments.clear();
        Ok(())
    }

    /// Reads a block; `None` at the tape's end.
    fn block(&mut self) -> Result<Option<[u8; BLOCK as usize]>, Fault> {
        let mut block = [0; BLOCK as usize];
        let mut filled = 0;
        while filled < block.len() {
            match self.tape.read(&mut block[filled..]) {
                Ok(0) if filled == 0 => return Ok(None),
                Ok(0) => return Err(Fault::damaged("it ends within a header")),
                Ok(n) => filled += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Fault::io("read the archive")(error)),
            }
        }
        self.position += BLOCK;
        Ok(Some(block))
    }

    fn header(&mut self) -> Result<Option<Header>, Fault> {
        let Some(block) = self.block()? else {
            return Ok(None);
        };
        if block == [0; BLOCK as usize] {
            // Two empty blocks end an archive.
            return match self.block()? {
                None => Ok(None),
                Some(second) if second == [0; BLOCK as usize] => Ok(None),
                Some(_) => Err(Fault::damaged("something follows its end")),
            };
        }
        let header = Header::from_byte_slice(&block).clone();
        fields::check_sum(&header)?;
        Ok(Some(header))
    }

    /// Reads the content of an extended header.
    fn extension(&mut self, size: u64) -> Result<Vec<u8>, Fault> {
        if size > self.limits.header_bytes {
            return Err(Fault::Limit {
                what: "an extended header".to_owned(),
                bound: format!("{} bytes", self.limits.header_bytes),
                limit: "header_bytes",
            });
        }
        self.segments = vec![Segment {
            offset: 0,
            length: size,
        }];
        let mut bytes = Vec::new();
        self.content(|_, part| {
            bytes.extend_from_slice(part);
            Ok(())
        })?;
        Ok(bytes)
    }

    fn entry(&mut self, header: &Header, long: Long) -> Result<Entry, Fault> {
        let pax = long.pax.unwrap_or_default();
        let numbers = Numbers::of(header)?;
        let path = one_of(pax.get("path"), long.path, "names")?;
        let path = path.unwrap_or_else(|| header.path_bytes().into_owned());
        let path = pax.get("GNU.sparse.name").map_or(path, <[u8]>::to_vec);
        let refuse = |why| Err(Fault::entry(&path, why));
        let out = |what| Fault::entry(&path, EntryFault::OutOfRange(what));
        let link = one_of(pax.get("linkpath"), long.link, "link names")?;
        let link = || {
            let short = || header.link_name_bytes().map(|n| n.into_owned());
            link.clone().or_else(short).unwrap_or_default()
        };
        let stored = match pax.get("size") {
            Some(text) => whole_number(text).ok_or_else(|| out("size"))?,
            None => numbers.size,
        };
        let begin = self.position;
        let kind = match header.as_bytes()[156] {
            b'0' | 0 if path.ends_with(b"/") => Kind::Folder,
            b'S' => Kind::File {
                size: self.old_sparse(header, &path)?,
            },
            b'0' | 0 | b'7' => Kind::File {
                size: self.file(&pax, stored, &path)?,
            },
            b'1' => Kind::HardLink { target: link() },
            b'2' => Kind::Symlink { target: link() },
            b'3' | b'4' => {
                let (major, minor) = fields::device(header).ok_or_else(|| out("device number"))?;
                match header.as_bytes()[156] {
                    b'3' => Kind::CharDevice { major, minor },
                    _ => Kind::BlockDevice { major, minor },
                }
            }
            b'5' => Kind::Folder,
            b'6' => Kind::Fifo,
            other => return refuse(EntryFault::UnknownType(other)),
        };
        let is_file = matches!(kind, Kind::File { .. });
        if !is_file && stored != 0 {
            // Programs disagree about whether content follows such an entry.
            return refuse(EntryFault::OutOfRange("size"));
        }
        if is_file && header.as_bytes()[156] != b'S' {
            let end = begin.checked_add(stored);
            let end = end.and_then(|end| end.checked_add(padding(stored)));
            self.next = end.ok_or_else(|| out("size"))?;
        }
        let id = |key, field: i64| {
            let number = match pax.get(key) {
                Some(text) => whole_number(text),
                None => u64::try_from(field).ok(),
            };
            let number = number.and_then(|n| u32::try_from(n).ok());
            number.filter(|n| *n != u32::MAX)
        };
        let meta = Meta {
            mode: (numbers.mode & 0o7777) as u32,
            uid: id("uid", numbers.uid).ok_or_else(|| out("owner"))?,
            gid: id("gid", numbers.gid).ok_or_else(|| out("group"))?,
            mtime: match pax.get("mtime") {
                Some(text) => fields::time(text).ok_or_else(|| out("time"))?,
                None => (numbers.mtime, 0),
            },
            xattrs: pax.xattrs(&path)?,
        };
        pax.collect_left_out(&mut self.left_out);
        Ok(Entry { path, kind, meta })
    }

    /// Reads the segments of a file that may be sparse in one of the POSIX formats; returns its size.
    fn file(&mut self, pax: &Records, stored: u64, path: &[u8]) -> Result<u64, Fault> {
        let bad = |()| Fault::entry(path, EntryFault::OutOfRange("map of holes"));
        let Some(form) = sparse::form(pax).map_err(bad)? else {
            self.segments = vec![Segment {
                offset: 0,
                length: stored,
            }];
            return Ok(stored);
        };
        let (segments, head) = match form {
            sparse::Form::Listed(segments) => (segments, 0),
            sparse::Form::InContent => {
                let before = self.position;
                let most = self.limits.header_bytes.min(stored);
                let mut blocks = || {
                    self.block()?
                        .ok_or_else(|| Fault::damaged("it ends within a map of holes"))
                };
                let segments =
                    sparse::read_map(&mut blocks, most).and_then(|s| s.ok_or_else(|| bad(())))?;
                (segments, self.position - before)
            }
        };
        let size = sparse::size(pax).ok_or_else(|| bad(()))?;
        let data = stored.checked_sub(head).ok_or_else(|| bad(()))?;
        sparse::check(&segments, data, size).ok_or_else(|| bad(()))?;
        self.segments = segments;
        Ok(size)
    }

    /// Reads the segments of a file in GNU's old sparse format; returns its size.
    fn old_sparse(&mut self, header: &Header, path: &[u8]) -> Result<u64, Fault> {
        let bad = || Fault::entry(path, EntryFault::OutOfRange("map of holes"));
        let gnu = header.as_gnu().ok_or_else(bad)?;
        let stored = Numbers::of(header)?.size;
        let mut segments = sparse::old_segments(&gnu.sparse).ok_or_else(bad)?;
        let mut more = gnu.is_extended();
        let began = self.position;
        while more {
            if self.position - began > self.limits.header_bytes {
                return Err(bad());
            }
            let block = self
                .block()?
                .ok_or_else(|| Fault::damaged("it ends within a map of holes"))?;
            let mut further = ::tar::GnuExtSparseHeader::new();
            further.as_mut_bytes().copy_from_slice(&block);
            segments.extend(sparse::old_segments(&further.sparse).ok_or_else(bad)?);
            more = further.is_extended();
        }
        let size = fields::number(&gnu.realsize).and_then(|n| u64::try_from(n).ok());
        let size = size.ok_or_else(bad)?;
        sparse::check(&segments, stored, size).ok_or_else(bad)?;
        self.segments = segments;
        let end = self.position.checked_add(stored);
        self.next = end
            .and_then(|end| end.checked_add(padding(stored)))
            .ok_or_else(bad)?;
        Ok(size)
    }
}

/// The values of extended headers before an entry.
#[derive(Default)]
struct Long {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    pax: Option<Records>,
}

impl Long {
    fn is_empty(&self) -> bool {
        self.path.is_none() && self.link.is_none() && self.pax.is_none()
    }
}

fn set_once<V>(slot: &mut Option<V>, value: V) -> Result<(), Fault> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(Fault::damaged(
            "two extended headers of one kind describe one entry",
        )),
    }
}

/// Returns the value from one of two formats. Both at once are rejected, because programs disagree about which one wins.
fn one_of(pax: Option<&[u8]>, gnu: Option<Vec<u8>>, what: &str) -> Result<Option<Vec<u8>>, Fault> {
    let ended = |mut name: Vec<u8>| {
        while name.last() == Some(&0) {
            name.pop();
        }
        name
    };
    match (pax, gnu) {
        (Some(_), Some(_)) => Err(Fault::damaged(format!("an entry has two long {what}"))),
        (Some(name), None) => Ok(Some(name.to_vec())),
        (None, name) => Ok(name.map(ended)),
    }
}

#[cfg(test)]
mod tests;
