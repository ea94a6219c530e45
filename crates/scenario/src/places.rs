//! Files of places: CSV with a header, one place a row.

use std::collections::BTreeMap;

use constel_units::{Angle, Length};

use crate::csv_rows::{CsvRow, csv_rows};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::slug::slug;
use crate::source::{Source, Span};

/// A row of a file of places.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Place {
    /// The name of a station there; unique in the file.
    pub(crate) slug: String,
    pub(crate) latitude: Angle,
    pub(crate) longitude: Angle,
    pub(crate) altitude: Length,
}

/// All rows of a file, and every name they answer to.
pub(crate) struct Places {
    pub(crate) rows: Vec<Place>,
    names: BTreeMap<String, usize>,
}

impl Places {
    /// The row that answers to `name`, whatever its case, accents and joints.
    pub(crate) fn find(&self, name: &str) -> Option<&Place> {
        self.names.get(&slug(name)).map(|&index| &self.rows[index])
    }
}

/// The columns that are read; others are left alone. `altitude_m` may be missing.
const COLUMNS: [&str; 4] = ["name", "latitude_deg", "longitude_deg", "altitude_m"];

/// Reads a file of places.
///
/// # Errors
/// Everything that is wrong with it goes to `errors`, and the answer is `None`.
pub(crate) fn read(shown: &str, text: &str, errors: &mut Diagnostics) -> Option<Places> {
    let source = Source::new(shown, text);
    let before = errors.len();
    let mut lines = csv_rows(source.text());
    let Some(header) = lines.next() else {
        errors.push(Diagnostic::new(
            &source,
            Span::START,
            "empty-file",
            "this file has no rows",
        ));
        return None;
    };
    let columns = columns(&source, &header, errors)?;
    let mut rows = Vec::new();
    let mut names: BTreeMap<String, usize> = BTreeMap::new();
    let mut also: Vec<(String, usize)> = Vec::new();
    let mut used: BTreeMap<String, u32> = BTreeMap::new();
    for row in lines {
        if errors.is_full() {
            return None;
        }
        let mut row = Row {
            source: &source,
            row: &row,
            errors,
        };
        let Some((name, place)) = row.read(&columns) else {
            continue;
        };
        let index = rows.len();
        let (main, others) = names_of(&name);
        let unique = loop {
            let count = used.entry(main.clone()).or_insert(0u32);
            *count += 1;
            let candidate = if *count == 1 {
                main.clone()
            } else {
                format!("{main}-{count}")
            };
            if !names.contains_key(&candidate) {
                break candidate;
            }
        };
        names.insert(unique.clone(), index);
        also.extend(others.into_iter().map(|other| (other, index)));
        rows.push(Place {
            slug: unique,
            ..place
        });
    }
    for (name, index) in also {
        names.entry(name).or_insert(index);
    }
    (errors.len() == before).then_some(Places { rows, names })
}

/// Returns the name of a station at a place, and the place's other names. If the file gives another name in
/// parentheses, as in "Al-Qahirah-(Cairo)", the station has that name.
fn names_of(name: &str) -> (String, Vec<String>) {
    let whole = slug(name);
    let Some((before, rest)) = name.split_once('(') else {
        return (whole, Vec::new());
    };
    let inner = slug(rest.split(')').next().unwrap_or(""));
    let outer = slug(before);
    if inner.is_empty() {
        (whole, vec![outer])
    } else {
        (inner, vec![whole, outer])
    }
}

/// Returns the index of each of [`COLUMNS`].
fn columns(
    source: &Source,
    header: &CsvRow,
    errors: &mut Diagnostics,
) -> Option<[Option<usize>; 4]> {
    let found = COLUMNS.map(|wanted| header.column(wanted));
    // A column that is another one's already cannot be a misspelling.
    let free = || {
        header
            .cells
            .iter()
            .map(String::as_str)
            .filter(|c| !COLUMNS.contains(c))
    };
    let mut complete = true;
    if let Some(why) = header.ambiguous(COLUMNS) {
        complete = false;
        let span = source.line_span(header.line);
        errors.push(Diagnostic::new(source, span, "duplicate-name", why));
    }
    for (wanted, found) in COLUMNS.iter().zip(found).take(3) {
        if found.is_none() {
            complete = false;
            let error = Diagnostic::new(
                source,
                source.line_span(header.line),
                "missing-column",
                format!("this file of places has no column `{wanted}`"),
            )
            .with_nearest(wanted, free())
            .with_reason("the first line names the columns")
            .with_allowed(header.cells.iter().cloned());
            errors.push(error);
        }
    }
    complete.then_some(found)
}

struct Row<'a> {
    source: &'a Source,
    row: &'a CsvRow,
    errors: &'a mut Diagnostics,
}

impl<'a> Row<'a> {
    fn read(&mut self, columns: &[Option<usize>; 4]) -> Option<(String, Place)> {
        let name = self.cell(columns[0], COLUMNS[0]).cloned();
        let latitude = self.number(columns[1], COLUMNS[1], -90.0, 90.0);
        let longitude = self.number(columns[2], COLUMNS[2], -180.0, 180.0);
        let altitude = match columns[3] {
            None => Some(0.0),
            column => self.number(column, COLUMNS[3], -1_000.0, 20_000.0),
        };
        let place = Place {
            slug: String::new(),
            latitude: Angle::from_deg(latitude?),
            longitude: Angle::from_deg(longitude?),
            altitude: Length::from_m(altitude?),
        };
        Some((name?, place))
    }

    fn wrong(&mut self, code: &'static str, message: String) {
        let span = self.source.line_span(self.row.line);
        self.errors
            .push(Diagnostic::new(self.source, span, code, message));
    }

    fn cell(&mut self, column: Option<usize>, what: &str) -> Option<&'a String> {
        let cell = column.and_then(|index| self.row.cells.get(index));
        if cell.is_none() {
            let message = format!("this row ends before column `{what}`");
            self.wrong("missing-column", message);
        }
        cell
    }

    fn number(&mut self, column: Option<usize>, what: &str, least: f64, most: f64) -> Option<f64> {
        let text = self.cell(column, what)?;
        match text.parse::<f64>() {
            Ok(value) if value >= least && value <= most => return Some(value),
            Ok(_) => {
                let message = format!("`{what}` is {text}, but must be from {least} to {most}");
                self.wrong("out-of-range", message);
            }
            Err(_) => {
                let message = format!("`{what}` is `{text}`, which is no number");
                self.wrong("wrong-type", message);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_answer_to_their_names() {
        let text = "rank,name,latitude_deg,longitude_deg,altitude_m\n\
                    1,São-Paulo,-23.5475,-46.63611,0\n\
                    2,Al-Qahirah-(Cairo),30.0,31.2,0\n\
                    3,Santiago,-33.4,-70.6,0\n\
                    4,Santiago,19.4,-70.7,0\n\
                    5,\"Camaçari, BR\",-12.7,-38.2,0\n";
        let mut errors = Diagnostics::new();
        let places = read("p.csv", text, &mut errors).unwrap();
        let slugs: Vec<&str> = places
            .rows
            .iter()
            .map(|place| place.slug.as_str())
            .collect();
        assert_eq!(
            slugs,
            [
                "sao-paulo",
                "cairo",
                "santiago",
                "santiago-2",
                "camacari-br"
            ]
        );
        assert_eq!(places.find("Sao-Paulo").unwrap().latitude.deg(), -23.5475);
        assert_eq!(places.find("Al-Qahirah").unwrap().slug, "cairo");
        assert_eq!(places.find("santiago-2").unwrap().latitude.deg(), 19.4);
        assert!(places.find("Atlantis").is_none());
    }

    #[test]
    fn columns_may_be_in_any_letter_case() {
        let text = "Name,LATITUDE_DEG,Longitude_Deg\nBerlin,52.5,13.4\n";
        let mut errors = Diagnostics::new();
        let places = read("p.csv", text, &mut errors).unwrap();
        assert_eq!(places.find("berlin").unwrap().longitude.deg(), 13.4);
    }

    #[test]
    fn every_bad_cell_is_reported_in_its_line() {
        let text = "name,latitude_deg,longitude_deg\nA,91,x\nB,1\n";
        let mut errors = Diagnostics::new();
        assert!(read("p.csv", text, &mut errors).is_none());
        errors.sort();
        let places: Vec<_> = errors.iter().map(|e| (e.line, e.column)).collect();
        assert_eq!(places, [(2, 1), (2, 1), (3, 1)]);
    }
}
