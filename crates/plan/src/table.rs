//! Tables of what was chosen beforehand: text with a line for each row, cells between commas, columns in a fixed order.

use constel_scenario::{Diagnostic, Diagnostics, TextFile};

/// Latest time of a row, seconds: 366 days.
const MOST_TIME_S: f64 = 366.0 * 86_400.0;

/// The rows of a file after the one that names the columns, and all that is wrong with them.
pub(crate) struct Rows<'a, const N: usize> {
    file: &'a TextFile,
    lines: std::iter::Zip<std::ops::RangeFrom<usize>, std::str::Lines<'a>>,
    columns: &'static str,
    /// What was found so far.
    pub(crate) errors: Diagnostics,
}

impl<'a, const N: usize> Rows<'a, N> {
    /// At the first row; `columns` are `N` names with commas between.
    pub(crate) fn new(file: &'a TextFile, columns: &'static str) -> Self {
        let text = file.text();
        let mut rows = Self {
            file,
            lines: (1..).zip(text.lines()),
            columns,
            errors: Diagnostics::new(),
        };
        match rows.line() {
            Some((_, head)) if head.trim() == columns => {}
            Some((line, _)) => {
                let message = format!("the columns must be `{columns}`");
                rows.wrong(line, "unknown-column", message);
            }
            None => rows.wrong(1, "empty-file", "this file has no rows".to_owned()),
        }
        rows
    }

    fn line(&mut self) -> Option<(usize, &'a str)> {
        self.lines.find(|(_, line)| !line.trim().is_empty())
    }

    /// The next row and its line's number; none when so much is wrong that more would help nobody.
    pub(crate) fn next(&mut self) -> Option<(usize, [&'a str; N])> {
        while !self.errors.is_full() {
            let (line, text) = self.line()?;
            let cells: Vec<&str> = text.split(',').map(str::trim).collect();
            let many = cells.len();
            if let Ok(cells) = cells.try_into() {
                return Some((line, cells));
            }
            let message = format!("{many} cells for the columns `{}`", self.columns);
            self.wrong(line, "bad-value", message);
        }
        None
    }

    /// Something is wrong in a line.
    pub(crate) fn wrong(&mut self, line: usize, code: &'static str, message: String) {
        let error = self.error(line, code, message);
        self.errors.push(error);
    }

    /// A name is unknown; the nearest of those known is told.
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

    /// The lab time of a row, nanoseconds; wrong unless it is one.
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
