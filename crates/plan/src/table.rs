//! Tables of choices made in advance: CSV with columns in a fixed order.

use constel_scenario::{CsvRow, Diagnostic, Diagnostics, TextFile, csv_rows};

/// The latest time of a row, seconds: 366 days.
const MOST_TIME_S: f64 = 366.0 * 86_400.0;

/// The rows of a file after its header, and the errors found in them.
pub(crate) struct Rows<'a, const N: usize> {
    file: &'a TextFile,
    rows: Box<dyn Iterator<Item = CsvRow> + 'a>,
    columns: &'static str,
    /// The errors found so far.
    pub(crate) errors: Diagnostics,
}

impl<'a, const N: usize> Rows<'a, N> {
    /// Starts at the first row; `columns` are `N` names separated by commas.
    pub(crate) fn new(file: &'a TextFile, columns: &'static str) -> Self {
        let mut rows = Self {
            file,
            rows: Box::new(csv_rows(file.text())),
            columns,
            errors: Diagnostics::new(),
        };
        let is_header = |head: &CsvRow| {
            let wanted = columns.split(',');
            let same = |(cell, name): (&String, &str)| cell.eq_ignore_ascii_case(name);
            head.cells.len() == wanted.clone().count() && head.cells.iter().zip(wanted).all(same)
        };
        match rows.rows.next() {
            Some(head) if is_header(&head) => {}
            Some(head) => {
                let message = format!("the columns must be `{columns}`");
                rows.wrong(head.line, "unknown-column", message);
            }
            None => rows.wrong(1, "empty-file", "this file has no rows".to_owned()),
        }
        rows
    }

    /// Returns the next row and its line number; `None` at the end, or when there are too many errors to continue.
    pub(crate) fn next(&mut self) -> Option<(usize, [String; N])> {
        while !self.errors.is_full() {
            let CsvRow { line, cells } = self.rows.next()?;
            let many = cells.len();
            if let Ok(cells) = cells.try_into() {
                return Some((line, cells));
            }
            let message = format!("{many} cells for the columns `{}`", self.columns);
            self.wrong(line, "bad-value", message);
        }
        None
    }

    /// Reports an error in a line.
    pub(crate) fn wrong(&mut self, line: usize, code: &'static str, message: String) {
        let error = self.error(line, code, message);
        self.errors.push(error);
    }

    /// Reports an unknown name, with the nearest known name.
    pub(crate) fn unknown<'n>(
        &mut self,
        line: usize,
        code: &'static str,
        message: String,
        name: &str,
        known: impl Iterator<Item = &'n str>,
    ) {
        let error = self.error(line, code, message);
        self.errors.push(error.with_nearest(name, known));
    }

    fn error(&self, line: usize, code: &'static str, message: String) -> Diagnostic {
        self.file.error_in_line(line, code, message)
    }

    /// Parses the lab time of a row, nanoseconds; reports an invalid one.
    pub(crate) fn time_ns(&mut self, line: usize, text: &str) -> Option<u64> {
        let seconds = text.parse::<f64>().ok();
        let seconds = seconds.filter(|s| (0.0..=MOST_TIME_S).contains(s));
        if seconds.is_none() {
            let message = format!("`t_s` is `{text}`, not a number from 0 to {MOST_TIME_S}");
            self.wrong(line, "bad-value", message);
        }
        Some((seconds? * 1e9).round() as u64)
    }
}
