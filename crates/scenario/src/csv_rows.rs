//! Rows of CSV files, as RFC 4180 has them: the one place where text becomes cells.

use csv::{ReaderBuilder, StringRecord, Trim};

/// A row of a CSV file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsvRow {
    /// The line it begins in, from 1.
    pub line: usize,
    /// The row's cells, without quotes and without blanks around them.
    pub cells: Vec<String>,
}

impl CsvRow {
    /// Returns the place of the cell `name` in a header. A cell in another letter case counts if no cell is equal.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<usize> {
        let find = |is: &dyn Fn(&str) -> bool| self.cells.iter().position(|cell| is(cell));
        find(&|cell| cell == name).or_else(|| find(&|cell| cell.eq_ignore_ascii_case(name)))
    }

    /// Returns why a header is ambiguous: two cells are the same one of `names`.
    #[must_use]
    pub fn ambiguous<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Option<String> {
        let mut names = names.into_iter();
        let twice = |name: &&str| self.cells.iter().filter(|cell| cell == name).count() > 1;
        let name = names.find(twice)?;
        Some(format!("two columns are called `{name}`"))
    }
}

/// Returns the rows of a text, the first line among them.
///
/// Cells may stand in double quotes, with commas, doubled quotes and line ends inside. Lines end in LF or CR LF; blank lines and a
/// byte order mark are no rows. Rows may differ in their number of cells: whether that is wrong is for the reader to say.
pub fn csv_rows(text: &str) -> impl Iterator<Item = CsvRow> + '_ {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .trim(Trim::All)
        .from_reader(text.as_bytes());
    let mut lines = Lines {
        text: text.as_bytes(),
        at: 0,
        line: 1,
    };
    let mut record = StringRecord::new();
    std::iter::from_fn(move || {
        loop {
            // Reading from memory cannot fail, and cells of UTF-8 are UTF-8.
            if !reader.read_record(&mut record).unwrap_or(false) {
                return None;
            }
            let begin = record.position().map_or(0, csv::Position::byte);
            let line = lines.of(usize::try_from(begin).unwrap_or(usize::MAX));
            let is_blank = record.len() == 1 && record.iter().all(str::is_empty);
            if !is_blank {
                let cells = record.iter().map(str::to_owned).collect();
                return Some(CsvRow { line, cells });
            }
        }
    })
}

/// Counts lines. The reader's own count is behind by the blank lines before a row, and by one after CR LF.
struct Lines<'a> {
    text: &'a [u8],
    at: usize,
    line: usize,
}

impl Lines<'_> {
    /// The line in which a row begins whose record begins at this byte or, behind line ends, later.
    fn of(&mut self, begin: usize) -> usize {
        let passed = |byte: u8, at: usize| at < begin || matches!(byte, b'\n' | b'\r');
        while let Some(byte) = self
            .text
            .get(self.at)
            .filter(|byte| passed(**byte, self.at))
        {
            self.line += usize::from(*byte == b'\n');
            self.at += 1;
        }
        self.line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rows(text: &str) -> Vec<(usize, Vec<String>)> {
        csv_rows(text).map(|row| (row.line, row.cells)).collect()
    }

    fn cells<const N: usize>(cells: [&str; N]) -> Vec<String> {
        cells.map(str::to_owned).to_vec()
    }

    #[test]
    fn columns_are_found_in_any_letter_case() {
        let header = CsvRow {
            line: 1,
            cells: cells(["NAME", "Latitude_Deg", "latitude_deg"]),
        };
        assert_eq!(header.column("name"), Some(0));
        assert_eq!(
            header.column("latitude_deg"),
            Some(2),
            "the same goes first"
        );
        assert_eq!(header.column("longitude_deg"), None);
        assert_eq!(header.ambiguous(["NAME", "latitude_deg"]), None);
        let cells = cells(["t_s", "rate", "t_s"]);
        let twice = CsvRow { line: 1, cells };
        let why = twice.ambiguous(["rate", "t_s"]);
        assert_eq!(why.as_deref(), Some("two columns are called `t_s`"));
    }

    #[test]
    fn quotes_marks_and_line_ends_are_no_part_of_cells() {
        let text = "\u{feff}\"from\",\"to\", delay_ms \r\n\r\n\"a, \"\"b\"\"\",c,\"1\"\r\n  \n\"two\nlines\",,\nlast";
        let expected = vec![
            (1, cells(["from", "to", "delay_ms"])),
            (3, cells(["a, \"b\"", "c", "1"])),
            (5, cells(["two\nlines", "", ""])),
            (7, cells(["last"])),
        ];
        assert_eq!(rows(text), expected);
        assert_eq!(rows(""), []);
        assert_eq!(rows("\n \n\r\n"), []);
    }

    proptest! {
        /// A table that spreadsheets or R write is read as that table, whatever they quote and however lines
        /// end.
        #[test]
        fn all_ways_of_writing_a_table_are_one(
            table in prop::collection::vec(prop::collection::vec("[a-z0-9.,\"]{1,5}", 3), 1..6),
            quoted: bool, crlf: bool, mark: bool, gaps in 0..3usize,
        ) {
            let cell = |cell: &String| match quoted || cell.contains([',', '"']) {
                true => format!("\"{}\"", cell.replace('"', "\"\"")),
                false => cell.clone(),
            };
            let end = if crlf { "\r\n" } else { "\n" };
            let mut text = String::from(if mark { "\u{feff}" } else { "" });
            for row in &table {
                text += &row.iter().map(cell).collect::<Vec<_>>().join(",");
                text += &end.repeat(1 + gaps);
            }
            let expected: Vec<_> = table.into_iter().zip(0..).map(|(row, n)| (1 + n * (1 + gaps), row)).collect();
            prop_assert_eq!(rows(&text), expected);
        }

        #[test]
        fn nothing_panics(text in "\\PC*|[a,\"\r\n ]{0,40}") {
            let _ = rows(&text);
        }
    }
}
