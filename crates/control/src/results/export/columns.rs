//! Columns, and their sources, which yield a fixed number of rows at a time.

use constel_measure::columns::unit_of_column;

use crate::error::Error;

/// Rows of a chunk, about: enough to be written well, few enough to be held.
pub(super) const CHUNK_ROWS: usize = 65_536;

/// Bytes of text from which on a chunk is full with fewer rows: those of another person may be long.
pub(super) const CHUNK_BYTES: usize = 64 << 20;

/// Maximum number of columns of a table.
pub(super) const MOST_COLUMNS: usize = 4_096;

/// The name and the kind of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: Kind,
}

/// The kind of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Integer,
    Float,
    Text,
}

impl Column {
    pub(super) fn new(name: &str, kind: Kind) -> Self {
        Self {
            name: name.to_owned(),
            kind,
        }
    }

    /// The unit that the name ends with; `None` for counts and names.
    pub(super) fn unit(&self) -> Option<&'static str> {
        unit_of_column(&self.name)
    }
}

/// The values of a column. `None` is an empty cell.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Values {
    Integer(Vec<Option<i64>>),
    Float(Vec<Option<f64>>),
    Text(Vec<Option<String>>),
}

impl Values {
    pub(super) fn new(kind: Kind) -> Self {
        match kind {
            Kind::Integer => Self::Integer(Vec::new()),
            Kind::Float => Self::Float(Vec::new()),
            Kind::Text => Self::Text(Vec::new()),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Integer(values) => values.len(),
            Self::Float(values) => values.len(),
            Self::Text(values) => values.len(),
        }
    }

    /// Returns a value as text, or an empty text for an empty cell.
    pub(super) fn text(&self, row: usize) -> String {
        let shown = match self {
            Self::Integer(values) => values[row].map(|v| v.to_string()),
            Self::Float(values) => values[row].map(|v| v.to_string()),
            Self::Text(values) => values[row].clone(),
        };
        shown.unwrap_or_default()
    }
}

/// Why a table was not written: it cannot be read, or its file cannot be.
pub(super) enum Failed {
    Read(Error),
    Write(std::io::Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Read(error)
    }
}

impl From<std::io::Error> for Failed {
    fn from(error: std::io::Error) -> Self {
        Self::Write(error)
    }
}

/// A table that is read from its beginning to its end.
pub(super) trait Source {
    /// Its columns.
    fn columns(&self) -> &[Column];

    /// The next rows, column by column, all of the same length; `None` at the end.
    fn next(&mut self) -> Result<Option<Vec<Values>>, Error>;
}
