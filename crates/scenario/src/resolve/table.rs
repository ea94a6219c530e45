//! CSV files of numbers over lab time.

use constel_units::TimeSpan;

use super::inputs::Input;
use crate::csv_rows::csv_rows;
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::source::{Source, Span};

/// A column and the bounds of its values.
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) least: f64,
    pub(super) most: f64,
    pub(super) required: bool,
}

impl Column {
    pub(super) const fn required(name: &'static str, least: f64, most: f64) -> Self {
        Self {
            name,
            least,
            most,
            required: true,
        }
    }

    pub(super) const fn optional(name: &'static str, least: f64, most: f64) -> Self {
        Self {
            name,
            least,
            most,
            required: false,
        }
    }
}

/// The column all of these files begin with: lab time, at most 366 days.
pub(super) const TIME: Column = Column::required("t_s", 0.0, 366.0 * 86_400.0);

/// A row: its time, and its values, `None` for columns the file does not have.
pub(super) struct Row<const N: usize> {
    pub(super) at: TimeSpan,
    pub(super) values: [Option<f64>; N],
}

/// Reads a CSV file of numbers, `columns[0]` being [`TIME`]; errors go to `errors`. `what` describes the rows
/// in messages, in the plural.
pub(super) fn read<const N: usize>(
    input: &Input,
    what: &str,
    columns: &[Column; N],
    errors: &mut Diagnostics,
) -> Option<Vec<Row<N>>> {
    let source = Source::new(&input.shown, &input.text);
    let before = errors.len();
    let mut lines = csv_rows(source.text());
    let empty = |errors: &mut Diagnostics| {
        let message = "this file has no rows";
        errors.push(Diagnostic::new(&source, Span::START, "empty-file", message));
    };
    let Some(header) = lines.next() else {
        empty(errors);
        return None;
    };
    let places: Vec<Option<usize>> = columns
        .iter()
        .map(|column| header.column(column.name))
        .collect();
    let mut complete = true;
    if let Some(why) = header.ambiguous(columns.iter().map(|column| column.name)) {
        complete = false;
        let span = source.line_span(header.line);
        errors.push(Diagnostic::new(&source, span, "duplicate-name", why));
    }
    for (column, place) in columns.iter().zip(&places) {
        if column.required && place.is_none() {
            complete = false;
            let span = source.line_span(header.line);
            let message = format!("no column is called `{}`", column.name);
            errors.push(Diagnostic::new(&source, span, "missing-column", message));
        }
    }
    if !complete {
        return None;
    }
    let mut rows: Vec<Row<N>> = Vec::new();
    for row in lines {
        if errors.is_full() {
            return None;
        }
        let span = source.line_span(row.line);
        let (wide, found) = (header.cells.len(), row.cells.len());
        if found != wide {
            let message = format!("{found} cells for {wide} columns");
            errors.push(Diagnostic::new(&source, span, "bad-value", message));
            continue;
        }
        let mut values = [None; N];
        for ((column, place), value) in columns.iter().zip(&places).zip(&mut values) {
            let Some(place) = *place else { continue };
            let text = &row.cells[place];
            let (least, most) = (column.least, column.most);
            match text.parse::<f64>() {
                Ok(number) if (least..=most).contains(&number) => *value = Some(number),
                _ => {
                    let name = column.name;
                    let message =
                        format!("`{name}` is `{text}`, not a number from {least} to {most}");
                    errors.push(Diagnostic::new(&source, span, "bad-value", message));
                }
            }
        }
        let at = TimeSpan::from_ns((values[0].unwrap_or(0.0) * 1e9).round() as i64);
        if rows.last().is_some_and(|last| at.ns() <= last.at.ns()) {
            let message = format!("{what} must be in order of time");
            errors.push(Diagnostic::new(&source, span, "order", message));
        }
        rows.push(Row { at, values });
    }
    if rows.is_empty() && errors.len() == before {
        empty(errors);
    }
    (errors.len() == before).then_some(rows)
}
