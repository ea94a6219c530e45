//! A file that grows for as long as a lab runs, and has a bound: when it is full, it becomes `NAME.1`, in the place of an
//! older one, and a new file begins.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The bytes of each of the two files of a lab without an end.
pub const MOST_BYTES: u64 = 64 << 20;

/// A file that is written in whole lines.
#[derive(Debug)]
pub struct Rotating {
    path: PathBuf,
    file: File,
    /// The bytes of the file so far.
    bytes: u64,
    most_bytes: Option<u64>,
    /// The first line of each file.
    header: &'static str,
}

impl Rotating {
    /// Creates a file with its first line, which may be empty and else ends with a line break. Without `most_bytes` it grows
    /// without a bound.
    ///
    /// # Errors
    /// When the file exists or cannot be created.
    pub fn create_new(
        path: &Path,
        most_bytes: Option<u64>,
        header: &'static str,
    ) -> io::Result<Self> {
        let file = File::options().append(true).create_new(true).open(path)?;
        let mut own = Self {
            path: path.to_owned(),
            file,
            bytes: 0,
            most_bytes,
            header,
        };
        own.begin()?;
        Ok(own)
    }

    /// Returns the present file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Begins a new file if the present one has reached its bound. Returns whether it did.
    ///
    /// # Errors
    /// When the files cannot be renamed or created.
    pub fn turn(&mut self) -> io::Result<bool> {
        if self.most_bytes.is_none_or(|most| self.bytes < most) {
            return Ok(false);
        }
        let mut older = self.path.clone().into_os_string();
        older.push(".1");
        fs::rename(&self.path, older)?;
        self.file = File::options()
            .append(true)
            .create_new(true)
            .open(&self.path)?;
        self.begin()?;
        Ok(true)
    }

    /// Counts bytes that were written to [`file`](Self::file) by others.
    ///
    /// # Errors
    /// When the kernel does not report the length.
    pub fn measure(&mut self) -> io::Result<()> {
        self.bytes = self.file.metadata()?.len();
        Ok(())
    }

    fn begin(&mut self) -> io::Result<()> {
        self.bytes = 0;
        self.write_all(self.header.as_bytes())
    }
}

impl Write for Rotating {
    /// Writes a line, or several, to one file.
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        if !lines.is_empty() && self.bytes > self.header.len() as u64 {
            self.turn()?;
        }
        self.file.write_all(lines)?;
        self.bytes += lines.len() as u64;
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_files_hold_the_latest_lines_each_with_its_header() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("series.csv");
        let mut file = Rotating::create_new(&path, Some(20), "t,x\n").unwrap();
        for line in 0..100 {
            file.write_all(format!("{line:03},1\n").as_bytes()).unwrap();
        }
        let text = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        let (older, now) = (text("series.csv.1"), text("series.csv"));
        assert!(older.starts_with("t,x\n") && now.starts_with("t,x\n"));
        let lines = |text: &str| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
        let kept = [lines(&older), lines(&now)].concat();
        let last: Vec<_> = (100 - kept.len()..100)
            .map(|line| format!("{line:03},1"))
            .collect();
        assert_eq!(kept, last);
        assert!(older.len() < 30 && now.len() < 30, "{older}{now}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_file_without_a_bound_is_one_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.ndjson");
        let mut file = Rotating::create_new(&path, None, "").unwrap();
        for _ in 0..1_000 {
            writeln!(file, "{{}}").unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 1_000);
        assert!(Rotating::create_new(&path, None, "").is_err());
    }
}
