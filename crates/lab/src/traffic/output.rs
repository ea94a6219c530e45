//! What tools wrote, read back with a bound: a flow may write more than this machine has memory.

use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use constel_host::node_file::{self, How};

/// Longest output that is read whole, bytes: a ping of a week at five a second is shorter.
pub(crate) const WHOLE_BYTES: u64 = 256 << 20;

/// What of a long output is read for a few words of it, bytes.
const FEW_BYTES: u64 = 64 << 10;

/// An output too long to be read whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("its output has {bytes} bytes; at most {WHOLE_BYTES} are read")]
pub(crate) struct TooLong {
    bytes: u64,
}

/// All of it; what is no UTF-8 is replaced. A file that is not there is empty.
///
/// # Errors
/// [`TooLong`] above [`WHOLE_BYTES`].
pub(crate) fn whole(path: &Path) -> Result<String, TooLong> {
    whole_within(path, WHOLE_BYTES)
}

fn whole_within(path: &Path, most: u64) -> Result<String, TooLong> {
    let Ok(file) = node_file::open(path, How::Read) else {
        return Ok(String::new());
    };
    let bytes = file.metadata().map_or(0, |m| m.len());
    if bytes > most {
        return Err(TooLong { bytes });
    }
    Ok(text(file.take(most)))
}

/// It, to be read line by line. A file that is not there is empty.
pub(crate) fn lines(path: &Path) -> Box<dyn BufRead> {
    match node_file::open(path, How::Read) {
        Ok(file) => Box::new(BufReader::new(file)),
        Err(_) => Box::new(std::io::empty()),
    }
}

/// Its beginning.
pub(crate) fn beginning(path: &Path) -> String {
    let opened = node_file::open(path, How::Read);
    opened.map_or_else(|_| String::new(), |file| text(file.take(FEW_BYTES)))
}

/// Its end, from a line's beginning on where there is more than is read.
pub(crate) fn end(path: &Path) -> String {
    let Ok(mut file) = node_file::open(path, How::Read) else {
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

/// The last line of an output that is not blank.
#[must_use]
pub(crate) fn last_words(path: &Path) -> String {
    let text = end(path);
    let mut lines = text.lines().rev();
    let last = lines.find(|line| !line.trim().is_empty());
    last.unwrap_or_default().to_owned()
}

fn text(mut from: impl Read) -> String {
    let mut bytes = Vec::new();
    // What could be read is what there is to say.
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
