//! `paths.csv`: the path of each flow's packets in lab time, and the delays that geometry gives it.

use std::fmt::Write as _;
use std::io::{self, Write};

/// The file's first line. `path` is the index of the path in the flow's row of the summary, from 1; empty without a
/// path, or for one that is not listed. Delays are sums of edges, in both directions.
pub(crate) const HEADER: &str = "t_s,flow,path,path_rtt_us,shortest_rtt_us\n";

/// The interval of rows for a flow whose path does not change, nanoseconds of lab time.
pub(crate) const EVERY_NS: u64 = 1_000_000_000;

/// A row of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PathRow {
    pub(crate) t_ns: u64,
    /// The index of the path, from 1; 0 without one.
    pub(crate) path: u32,
    pub(crate) rtt_ns: Option<u64>,
    pub(crate) shortest_rtt_ns: Option<u64>,
}

/// The file, or the error that stopped its writing.
pub(crate) struct PathRows {
    file: Option<Box<dyn Write + Send>>,
    error: Option<io::Error>,
    text: String,
}

impl PathRows {
    /// Writes to a file that begins with [`HEADER`].
    pub(crate) fn begin(file: impl Write + Send + 'static) -> Self {
        Self {
            file: Some(Box::new(file)),
            error: None,
            text: String::new(),
        }
    }

    /// Adds a flow's row.
    pub(crate) fn put(&mut self, flow: &str, row: PathRow) {
        let us = |ns: Option<u64>| {
            ns.map_or_else(String::new, |ns| {
                format!("{}.{:03}", ns / 1_000, ns % 1_000)
            })
        };
        let path = match row.path {
            0 => String::new(),
            path => path.to_string(),
        };
        // Writing to a String does not fail.
        let _ = writeln!(
            self.text,
            "{},{flow},{path},{},{}",
            row.t_ns as f64 / 1e9,
            us(row.rtt_ns),
            us(row.shortest_rtt_ns)
        );
    }

    /// Writes the rows of a step.
    pub(crate) fn flush(&mut self) {
        // After an error no more is written; the summary reports it.
        if let Some(file) = &mut self.file
            && let Err(error) = file.write_all(self.text.as_bytes())
        {
            self.error = Some(error);
            self.file = None;
        }
        self.text.clear();
    }

    /// Returns the error because of which it is not complete.
    pub(crate) fn error(&self) -> Option<&io::Error> {
        self.error.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use constel_measure::rotating::Rotating;

    use super::*;

    #[test]
    fn rows_are_lines_and_a_full_disk_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("paths.csv");
        let file = Rotating::create_new(&path, None, HEADER).unwrap();
        let mut rows = PathRows::begin(file);
        let row = PathRow {
            t_ns: 1_500_000_000,
            path: 2,
            rtt_ns: Some(52_300_007),
            shortest_rtt_ns: Some(50_000_000),
        };
        rows.put("ping", row);
        let none = PathRow {
            path: 0,
            rtt_ns: None,
            shortest_rtt_ns: None,
            ..row
        };
        rows.put("ping", none);
        rows.flush();
        assert!(rows.error().is_none());
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(
            text,
            format!("{HEADER}1.5,ping,2,52300.007,50000.000\n1.5,ping,,,\n")
        );
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut rows = PathRows::begin(full);
        rows.put("ping", row);
        rows.flush();
        assert!(rows.error().is_some());
    }
}
