//! The output of tools, stored and read with limits: a flow may write more than this machine has memory or disk
//! space.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use constel_host::node_file::{self, OpenMode};

use crate::error::EngineError;

/// The largest part of an output that stays on the disk, bytes. A client that writes more is ended.
pub(crate) const KEPT_BYTES: u64 = 1 << 30;

/// The longest output that is read as a whole, bytes: a ping of a week at five packets a second is shorter.
pub(crate) const WHOLE_BYTES: u64 = 256 << 20;

/// The bytes beyond a bound that cause no cut: the line that marks one, and the file system's own blocks for the file.
pub(crate) const SLACK_BYTES: u64 = 1 << 20;

/// The part of a long output that is read for a short excerpt, bytes.
const FEW_BYTES: u64 = 64 << 10;

/// The error for an output that is too long to be read as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("its output has {bytes} bytes; at most {WHOLE_BYTES} are read")]
pub(crate) struct TooLong {
    bytes: u64,
}

/// Returns whether an output is larger than what is kept. Disk space that a program has reserved counts too.
pub(crate) fn is_full(path: &Path) -> bool {
    is_beyond(path, KEPT_BYTES)
}

fn is_beyond(path: &Path, most: u64) -> bool {
    let most_length = most + mark(most).len() as u64;
    fs::symlink_metadata(path).is_ok_and(|found| {
        found.len() > most_length || found.blocks().saturating_mul(512) > most + SLACK_BYTES
    })
}

/// Returns the length of a file or the disk that it takes, bytes: the larger of both. A hole makes it long, and a reservation takes disk
/// behind its end. 0 where it does not exist.
pub(crate) fn taken_bytes(path: &Path) -> u64 {
    fs::symlink_metadata(path).map_or(0, |found| {
        found.len().max(found.blocks().saturating_mul(512))
    })
}

/// Cuts an output to what is kept, and marks the cut in its last line. Processes that still have it open may go on
/// writing; then it is cut again.
///
/// # Errors
/// When it cannot be opened or written.
pub(crate) fn cut(path: &Path) -> Result<(), EngineError> {
    cut_to(path, KEPT_BYTES)
}

/// Cuts an output to `most` bytes, and marks the cut in its last line.
///
/// # Errors
/// As [`cut`].
pub(crate) fn cut_to(path: &Path, most: u64) -> Result<(), EngineError> {
    let cut = |mut file: fs::File| -> io::Result<()> {
        let length = file.metadata()?.len().min(most);
        // Also done if the length does not change: it releases space reserved beyond the end.
        file.set_len(length)?;
        file.write_all(mark(most).as_bytes())
    };
    cut(node_file::open(path, OpenMode::Append)?).map_err(|source| EngineError::Io {
        what: format!("cut {}", path.display()),
        source,
    })
}

fn mark(most: u64) -> String {
    format!("\nconstel: cut here, after {most} bytes\n")
}

/// Returns the whole output, with invalid UTF-8 replaced. A missing file is empty.
///
/// # Errors
/// [`TooLong`] above [`WHOLE_BYTES`].
pub(crate) fn whole(path: &Path) -> Result<String, TooLong> {
    whole_within(path, WHOLE_BYTES)
}

fn whole_within(path: &Path, most: u64) -> Result<String, TooLong> {
    let Ok(file) = node_file::open(path, OpenMode::Read) else {
        return Ok(String::new());
    };
    let bytes = file.metadata().map_or(0, |m| m.len());
    if bytes > most {
        return Err(TooLong { bytes });
    }
    Ok(text(file.take(most)))
}

/// Returns the output for reading by lines. A missing file is empty.
pub(crate) fn lines(path: &Path) -> Box<dyn BufRead> {
    match node_file::open(path, OpenMode::Read) {
        Ok(file) => Box::new(BufReader::new(file)),
        Err(_) => Box::new(std::io::empty()),
    }
}

/// Returns the beginning of the output.
pub(crate) fn beginning(path: &Path) -> String {
    let opened = node_file::open(path, OpenMode::Read);
    opened.map_or_else(|_| String::new(), |file| text(file.take(FEW_BYTES)))
}

/// Returns the end of the output, from the beginning of a line if it is longer than what is read.
pub(crate) fn end(path: &Path) -> String {
    let Ok(mut file) = node_file::open(path, OpenMode::Read) else {
        return String::new();
    };
    let bytes = file.metadata().map_or(0, |m| m.len());
    let skipped = bytes.saturating_sub(FEW_BYTES);
    if file.seek(SeekFrom::Start(skipped)).is_err() {
        return String::new();
    }
    let text = text(file.take(FEW_BYTES));
    match text.split_once('\n') {
        Some((_, rest)) if skipped > 0 => rest.to_owned(),
        _ => text,
    }
}

/// Returns the last line of an output that is not blank.
#[must_use]
pub(crate) fn last_words(path: &Path) -> String {
    let text = end(path);
    let mut lines = text.lines().rev();
    let last = lines.find(|line| !line.trim().is_empty());
    last.unwrap_or_default().to_owned()
}

fn text(mut from: impl Read) -> String {
    let mut bytes = Vec::new();
    // After a read error, the part that was read is returned.
    drop(from.read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Write;

    #[test]
    fn long_outputs_are_not_read_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let mut file = File::create(&path).unwrap();
        for number in 0..20_000 {
            writeln!(file, "line {number}").unwrap();
        }
        writeln!(file, "last words \u{fffd}\n\n").unwrap();
        file.write_all(&[0xff, b'\n']).unwrap();
        let bytes = file.metadata().unwrap().len();
        assert!(bytes > 2 * FEW_BYTES);
        assert_eq!(whole_within(&path, bytes - 1), Err(TooLong { bytes }));
        assert_eq!(whole(&path).unwrap().lines().count(), 20_004);
        assert!(beginning(&path).starts_with("line 0\nline 1\n"));
        assert!(beginning(&path).len() as u64 <= FEW_BYTES);
        let tail = end(&path);
        assert!(tail.starts_with("line ") && tail.len() as u64 <= FEW_BYTES + 2);
        assert_eq!(last_words(&path), "\u{fffd}");
        assert_eq!(last_words(&dir.path().join("none")), "");
        assert_eq!(whole(&dir.path().join("none")), Ok(String::new()));
    }

    /// Bytes, a hole, and disk that is reserved without a byte of it being written.
    #[test]
    fn what_is_kept_has_a_bound_and_says_that_it_was_cut() {
        const MOST: u64 = 8192;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let mut file = File::create(&path).unwrap();
        file.write_all(&[b'x'; MOST as usize]).unwrap();
        assert!(!is_beyond(&path, MOST));
        let reserve = |file: &mut File| {
            let flags = rustix::fs::FallocateFlags::KEEP_SIZE;
            // Not every file system has it; then there is nothing to bound.
            rustix::fs::fallocate(file, flags, 0, 1 << 20).ok();
        };
        let more: [&dyn Fn(&mut File); 3] = [
            &|file| file.write_all(&[b'y'; 1 << 20]).unwrap(),
            &|file| file.set_len(6 << 30).unwrap(),
            &reserve,
        ];
        for more in more {
            more(&mut file);
            cut_to(&path, MOST).unwrap();
            let kept = fs::read_to_string(&path).unwrap();
            let (kept, last) = kept.split_at(MOST as usize);
            assert_eq!(kept, "x".repeat(MOST as usize));
            assert_eq!(last, "\nconstel: cut here, after 8192 bytes\n");
            assert!(!is_beyond(&path, MOST));
        }
        // A link that a node put there is not followed.
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(dir.path().join("victim"), &path).unwrap();
        fs::write(dir.path().join("victim"), "whole").unwrap();
        assert!(cut_to(&path, 2).is_err());
        assert_eq!(fs::read(dir.path().join("victim")).unwrap(), b"whole");
    }

    /// A file without end in sight: sparse, so that only its length is large.
    #[test]
    fn six_gigabytes_are_refused_by_their_length() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        File::create(&path).unwrap().set_len(6 << 30).unwrap();
        let error = whole(&path).unwrap_err();
        assert!(error.to_string().contains("6442450944 bytes"), "{error}");
    }
}
