//! Tables that a run keeps as CSV. The kind of each column is found by reading the file once.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use constel_units::files::{self, Lines};

use super::columns::{CHUNK_BYTES, CHUNK_ROWS, Column, Kind, MOST_COLUMNS, Source, Values};
use crate::error::Error;

pub(super) struct Rows {
    path: PathBuf,
    columns: Vec<Column>,
    lines: Lines<BufReader<File>>,
    /// The number of the line read last, from 1.
    line: usize,
}

impl Rows {
    pub(super) fn open(path: PathBuf) -> Result<Self, Error> {
        let (names, lines) = headed(&path)?;
        if names.len() > MOST_COLUMNS {
            return Err(Error::BadTable {
                path,
                line: 1,
                reason: format!("{} columns, more than {MOST_COLUMNS}", names.len()),
            });
        }
        // A column without any value is one of numbers that were never there.
        let mut kinds = vec![Kind::Integer; names.len()];
        for line in lines {
            let line = line.map_err(|source| no_document(&path, source))?;
            for (kind, cell) in kinds.iter_mut().zip(line.split(',')) {
                *kind = wider(*kind, cell);
            }
        }
        let columns = names
            .iter()
            .zip(kinds)
            .map(|(name, kind)| Column::new(name, kind));
        let (_, lines) = headed(&path)?;
        Ok(Self {
            columns: columns.collect(),
            path,
            lines,
            line: 1,
        })
    }
}

impl Source for Rows {
    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn next(&mut self) -> Result<Option<Vec<Values>>, Error> {
        let mut values: Vec<Values> = self.columns.iter().map(|c| Values::new(c.kind)).collect();
        let (mut rows, mut bytes) = (0, 0);
        while rows < CHUNK_ROWS && bytes < CHUNK_BYTES {
            let Some(line) = self.lines.next() else { break };
            let line = line.map_err(|source| no_document(&self.path, source))?;
            self.line += 1;
            bytes += line.len();
            let cells: Vec<&str> = line.split(',').collect();
            if cells.len() != self.columns.len() {
                return Err(Error::BadTable {
                    path: self.path.clone(),
                    line: self.line,
                    reason: format!("{} cells for {} columns", cells.len(), self.columns.len()),
                });
            }
            for (values, cell) in values.iter_mut().zip(cells) {
                match values {
                    // The kind of a column was derived from these cells, so parsing cannot fail.
                    Values::Integer(values) => values.push(cell.parse().ok()),
                    Values::Float(values) => values.push(cell.parse().ok()),
                    Values::Text(values) => {
                        values.push((!cell.is_empty()).then(|| cell.to_owned()))
                    }
                }
            }
            rows += 1;
        }
        Ok((rows > 0).then_some(values))
    }
}

/// Returns the kind that can hold the column's earlier cells and this cell.
fn wider(kind: Kind, cell: &str) -> Kind {
    let own = if cell.is_empty() || cell.parse::<i64>().is_ok() {
        Kind::Integer
    } else if cell.parse::<f64>().is_ok() {
        Kind::Float
    } else {
        Kind::Text
    };
    match (kind, own) {
        (Kind::Text, _) | (_, Kind::Text) => Kind::Text,
        (Kind::Float, _) | (_, Kind::Float) => Kind::Float,
        _ => Kind::Integer,
    }
}

/// A file's columns, and the lines after them.
fn headed(path: &Path) -> Result<(Vec<String>, Lines<BufReader<File>>), Error> {
    let mut lines = files::lines(path).map_err(|source| no_document(path, source))?;
    let head = lines
        .next()
        .transpose()
        .map_err(|source| no_document(path, source))?;
    let head = head.unwrap_or_default();
    Ok((head.split(',').map(str::to_owned).collect(), lines))
}

fn no_document(path: &Path, source: std::io::Error) -> Error {
    Error::NoDocument {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_what_they_hold() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.csv");
        std::fs::write(&path, "t_s,n,fate,none\n0.5,1,ok,\n1,,lost,\n").unwrap();
        let mut rows = Rows::open(path.clone()).unwrap();
        let kinds: Vec<Kind> = rows.columns().iter().map(|c| c.kind).collect();
        assert_eq!(
            kinds,
            [Kind::Float, Kind::Integer, Kind::Text, Kind::Integer]
        );
        let values = rows.next().unwrap().unwrap();
        assert_eq!(values[0], Values::Float(vec![Some(0.5), Some(1.0)]));
        assert_eq!(values[1], Values::Integer(vec![Some(1), None]));
        assert_eq!(values[3], Values::Integer(vec![None, None]));
        assert_eq!(rows.next().unwrap(), None);
        std::fs::write(&path, "a,b\n1,2\n1\n").unwrap();
        let error = Rows::open(path).unwrap().next().unwrap_err();
        assert!(matches!(error, Error::BadTable { line: 3, .. }), "{error}");
    }
    #[test]
    fn wide_and_long_tables_are_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.csv");
        std::fs::write(&path, ",".repeat(MOST_COLUMNS)).unwrap();
        let error = Rows::open(path.clone()).map(drop).unwrap_err();
        assert!(matches!(error, Error::BadTable { line: 1, .. }), "{error}");
        // Eight of these rows fill a chunk.
        let long = "x".repeat(CHUNK_BYTES / 8);
        let text = format!("a\n{}", format!("{long}\n").repeat(9));
        std::fs::write(&path, text).unwrap();
        let mut rows = Rows::open(path).unwrap();
        let mut chunks = Vec::new();
        while let Some(values) = rows.next().unwrap() {
            chunks.push(values[0].len());
        }
        assert_eq!(chunks, [8, 1]);
    }
}
