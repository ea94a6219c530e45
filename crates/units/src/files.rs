//! Reads files from users or other programs, within a size limit and without waiting for a writer that may never come.

use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use crate::text;

/// Maximum size of a text file that is read as a whole, bytes: element files, matrices, recordings.
pub const MAX_TEXT_BYTES: u64 = 256 << 20;

/// Maximum length of a line of a table or log that is read line by line, bytes. An event that names each of 100,000 nodes is
/// shorter.
pub const MAX_LINE_BYTES: u64 = 16 << 20;

/// Opens a regular file for reading. Other files are rejected: a named pipe blocks until a program writes to it, a device may
/// have no end, and opening a device can have effects.
///
/// Descriptors that the calling program has opened already (`/dev/stdin`, `/dev/fd/N`) may be anything, because the caller
/// intends a stream.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`], with the kind of file, for anything but a regular file; errors of the operating system.
pub fn open(path: &Path) -> io::Result<File> {
    if is_given_stream(path) {
        return File::open(path);
    }
    regular(&std::fs::metadata(path)?)?;
    // The file may have been replaced since the check.
    let flags = (rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY).bits();
    let mut options = OpenOptions::new();
    let file = options.read(true).custom_flags(flags as i32).open(path)?;
    regular(&file.metadata()?)?;
    Ok(file)
}

/// Reads a file as [`open`] opens it.
///
/// # Errors
/// As [`open`]; [`io::ErrorKind::FileTooLarge`] for more than `most_bytes`.
pub fn read(path: &Path, most_bytes: u64) -> io::Result<Vec<u8>> {
    read_all(open(path)?, most_bytes)
}

/// Reads a file of text as [`read`] does, of at most [`MAX_TEXT_BYTES`], and decodes it by [`text::decode`].
///
/// # Errors
/// As [`read`]; [`io::ErrorKind::InvalidData`] for bytes that are not text, with the line.
pub fn read_text(path: &Path) -> io::Result<String> {
    text(read(path, MAX_TEXT_BYTES)?)
}

/// Opens a file as [`open`] does, to be read line by line: tables and logs may be larger than memory.
///
/// # Errors
/// As [`open`].
pub fn lines(path: &Path) -> io::Result<Lines<BufReader<File>>> {
    Ok(Lines(BufReader::new(open(path)?)))
}

/// Lines without their ends (LF or CR LF). A line of more than [`MAX_LINE_BYTES`] is [`io::ErrorKind::FileTooLarge`]; bytes that
/// are not UTF-8 are [`io::ErrorKind::InvalidData`].
#[derive(Debug)]
pub struct Lines<R>(R);

impl<R: BufRead> Iterator for Lines<R> {
    type Item = io::Result<String>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut line = Vec::new();
        let most = MAX_LINE_BYTES + 2;
        let read = self.0.by_ref().take(most).read_until(b'\n', &mut line);
        if let Err(error) = read {
            return Some(Err(error));
        }
        if line.is_empty() {
            return None;
        }
        if line.pop_if(|last| *last == b'\n').is_some() {
            line.pop_if(|last| *last == b'\r');
        }
        if line.len() as u64 > MAX_LINE_BYTES {
            let why = format!("a line of more than {MAX_LINE_BYTES} bytes");
            return Some(Err(io::Error::new(io::ErrorKind::FileTooLarge, why)));
        }
        Some(String::from_utf8(line).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e)))
    }
}

/// Returns an error's text without the numbers of the operating system (` (os error 2)`), which do not help a reader. Errors
/// of other errors contain them anywhere in their text.
#[must_use]
pub fn in_words(error: &impl Display) -> String {
    const BEFORE: &str = " (os error ";
    let text = error.to_string();
    let mut pieces = text.split(BEFORE);
    let mut words = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let rest = piece.trim_start_matches(|c: char| c.is_ascii_digit() || c == '-');
        match rest.strip_prefix(')') {
            Some(rest) if rest.len() + 1 < piece.len() => words.push_str(rest),
            _ => words.extend([BEFORE, piece]),
        }
    }
    words
}

/// Reads standard input to its end, as text in UTF-8.
///
/// # Errors
/// As [`read_text`].
pub fn read_stdin_text(most_bytes: u64) -> io::Result<String> {
    text(read_all(io::stdin().lock(), most_bytes)?)
}

/// Reads to the end.
///
/// # Errors
/// [`io::ErrorKind::FileTooLarge`] above `most_bytes`, after reading at most one byte more; errors of the reader.
pub fn read_all(from: impl Read, most_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(most_bytes.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most_bytes {
        let why = format!("longer than {most_bytes} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(bytes)
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    let decoded = text::decode(&bytes).map_err(|error| {
        let valid = &bytes[..error.offset()];
        let line = 1 + valid.iter().filter(|byte| **byte == b'\n').count();
        io::Error::new(io::ErrorKind::InvalidData, format!("line {line}: {error}"))
    })?;
    Ok(decoded.into_owned())
}

/// Returns whether the path is a descriptor that this process was started with.
fn is_given_stream(path: &Path) -> bool {
    path == Path::new("/dev/stdin")
        || path.starts_with("/dev/fd")
        || path.starts_with("/proc/self/fd")
}

fn regular(found: &std::fs::Metadata) -> io::Result<()> {
    let kind = found.file_type();
    let is = match () {
        () if kind.is_file() => return Ok(()),
        () if kind.is_dir() => "a folder",
        () if kind.is_fifo() => "a named pipe",
        () if kind.is_socket() => "a socket",
        () => "a device",
    };
    let why = format!("it is {is}, not a regular file");
    Err(io::Error::new(io::ErrorKind::InvalidInput, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_words_and_no_numbers() {
        for kind in [2, 13, 17, 20, 21, 28] {
            let error = io::Error::from_raw_os_error(kind);
            let words = in_words(&error);
            assert_eq!(format!("{words} (os error {kind})"), error.to_string());
            // Within other texts, and more than once.
            let twice = format!("read a: {error}; write b: {error}, next");
            assert_eq!(
                in_words(&twice),
                format!("read a: {words}; write b: {words}, next")
            );
        }
        // Texts that are no error of the system stay as they are.
        for text in [
            "",
            "plain",
            "a (os error ",
            "a (os error x) b",
            "a (os error )",
        ] {
            assert_eq!(in_words(&text), text);
        }
    }

    #[test]
    fn only_regular_files_are_opened_and_none_is_waited_for() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        rustix::fs::mknodat(
            rustix::fs::CWD,
            at("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        std::os::unix::fs::symlink(at("pipe"), at("link")).unwrap();
        drop(std::os::unix::net::UnixListener::bind(at("socket")).unwrap());
        let why = |path: &Path| open(path).unwrap_err().to_string();
        for (path, is) in [
            (at("pipe"), "a named pipe"),
            (at("link"), "a named pipe"),
            (at("socket"), "a socket"),
            (at(""), "a folder"),
            ("/dev/zero".into(), "a device"),
        ] {
            assert_eq!(why(&path), format!("it is {is}, not a regular file"));
        }
    }

    #[test]
    fn a_bound_is_exact_and_text_says_its_line() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("file");
        std::fs::write(&file, b"a\nb\xff").unwrap();
        assert_eq!(read(&file, 4).unwrap(), b"a\nb\xff");
        assert_eq!(
            read(&file, 3).unwrap_err().kind(),
            io::ErrorKind::FileTooLarge
        );
        assert_eq!(
            read_text(&file).unwrap_err().to_string(),
            "line 2: this byte is not UTF-8 text"
        );
        let lines = |text: &'static [u8]| {
            let lines = Lines(text).map(|line| line.map_err(|error| error.kind()));
            lines.collect::<Vec<_>>()
        };
        let odd = lines(b"a\r\n\n\xff\nlast");
        let [a, empty, last] = ["a", "", "last"].map(|line| Ok(line.to_owned()));
        assert_eq!(odd, [a, empty, Err(io::ErrorKind::InvalidData), last]);
        let mut endless = Lines(BufReader::new(io::repeat(b'x')));
        let error = endless.next().unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        let endless = read_all(io::repeat(0), 1 << 20).unwrap_err();
        assert_eq!(endless.to_string(), "longer than 1048576 bytes");
    }
}
