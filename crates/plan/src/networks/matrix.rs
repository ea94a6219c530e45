//! Delays from a file: a square matrix, or a table of edges that may change over time.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;

use constel_link::{Effects, Jitter};
use constel_scenario::{CsvRow, Diagnostics, TextFile, csv_rows};
use constel_topology::{Law, LinkClass, Moment, NetworkEdge};
use constel_units::text::is_missing;

use super::MOST_EDGES;

/// The longest delay, ms, as for other links.
const MOST_DELAY_MS: f64 = 10_000.0;
/// The latest lab time: a year.
const MOST_TIME_S: f64 = 366.0 * 86_400.0;

/// The columns of a table.
const COLUMNS: [&str; 6] = [
    "from",
    "to",
    "delay_ms",
    "rate_bit_per_s",
    "loss_ratio",
    "t_s",
];

/// The form of a file, by its first line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Senders by row and receivers by column. `corner` is the number of cells before the first receiver: R's
    /// `write.table` has none, all others have one.
    Square { corner: usize },
    /// An edge a row. `numbers` is the number of cells before the columns: R and pandas number the rows of a table.
    Table { numbers: usize },
}

impl Form {
    fn of(header: &CsvRow, is_member: impl Fn(&str) -> bool) -> Self {
        let has = |name: &str| header.column(name).is_some();
        let is_table = ["from", "to", "delay_ms"].into_iter().all(has)
            && !(is_member("from") && is_member("to"));
        match header.cells.first() {
            Some(first) if is_table => Self::Table {
                numbers: usize::from(first.is_empty()),
            },
            Some(first) if first.is_empty() || header.column("delay_ms") == Some(0) => {
                Self::Square { corner: 1 }
            }
            Some(first) if is_member(first) => Self::Square { corner: 0 },
            _ => Self::Table { numbers: 0 },
        }
    }
}

/// Whether a file of a network of `members` is a square matrix, whose empty cells are pairs without an edge.
#[must_use]
pub fn is_square(file: &TextFile, members: &[String]) -> bool {
    let Some(head) = csv_rows(file.text()).next() else {
        return false;
    };
    let is_member = |name: &str| members.iter().any(|member| member == name);
    matches!(Form::of(&head, is_member), Form::Square { .. })
}

/// The edges of a file.
#[derive(Debug)]
pub(crate) struct Matrix {
    /// The times, in order, from which each list of edges holds.
    epochs: Vec<(u64, Vec<NetworkEdge>)>,
}

impl Law for Matrix {
    fn edges(&self, moment: &Moment<'_>, edges: &mut Vec<NetworkEdge>) {
        let begun = self.epochs.partition_point(|(t, _)| *t <= moment.t_ns);
        if let Some(epoch) = begun.checked_sub(1) {
            edges.extend_from_slice(&self.epochs[epoch].1);
        }
    }
}

/// The state of parsing a file.
struct Reader<'a> {
    file: &'a TextFile,
    class: LinkClass,
    /// Jitter that is added to each delay.
    jitter: Option<&'a Jitter>,
    members: &'a [String],
    places: BTreeMap<&'a str, usize>,
    errors: &'a mut Diagnostics,
    before: usize,
}

/// Parses a file. `effects` are those of each edge. All errors go to `errors`, with the file and line.
pub(crate) fn read(
    file: &TextFile,
    (class, effects): (LinkClass, &Effects),
    members: &[String],
    errors: &mut Diagnostics,
) -> Option<Matrix> {
    let before = errors.len();
    let mut reader = Reader {
        file,
        class,
        // A recording of delays replaces those of the file.
        jitter: effects
            .jitter
            .as_ref()
            .filter(|_| effects.delay_ns.is_none()),
        members,
        places: members.iter().map(String::as_str).zip(0..).collect(),
        errors,
        before,
    };
    let mut rows = csv_rows(file.text());
    let Some(mut header) = rows.next() else {
        reader
            .errors
            .push(file.error_in_line(1, "empty-file", "this file has no rows"));
        return None;
    };
    let epochs = match Form::of(&header, |name| reader.places.contains_key(name)) {
        Form::Square { corner } => {
            header.cells.drain(..corner);
            reader.square(&header, rows, members)
        }
        Form::Table { numbers } => {
            header.cells.drain(..numbers);
            let rows = rows.map(|mut row| {
                row.cells.drain(..numbers.min(row.cells.len()));
                row
            });
            reader.table(&header, rows)
        }
    };
    // A square without rows lacks those of its members.
    if epochs.is_empty() && reader.errors.len() == before {
        let message = "this file has no rows after its header";
        reader.wrong(header.line, "empty-file", message.to_owned());
    }
    (reader.errors.len() == before).then_some(Matrix { epochs })
}

/// Parses a file of the same form that has only delays. Returns the indices of sender and receiver among `members`,
/// and nanoseconds.
///
/// # Errors
/// All errors in the file, each with its line.
pub fn read_delays(
    file: &TextFile,
    members: &[String],
) -> Result<Vec<(usize, usize, u64)>, Diagnostics> {
    let mut errors = Diagnostics::new();
    let head = csv_rows(file.text()).next();
    for name in ["rate_bit_per_s", "loss_ratio", "t_s"] {
        if let Some(head) = head.as_ref().filter(|head| head.column(name).is_some()) {
            let message = format!("`{name}` cannot be changed, only delays can");
            errors.push(file.error_in_line(head.line, "unknown-column", message));
        }
    }
    let matrix = match errors.is_empty() {
        true => {
            let plain = (LinkClass::default(), &Effects::default());
            read(file, plain, members, &mut errors)
        }
        false => None,
    };
    let edges = matrix.into_iter().flat_map(|matrix| matrix.epochs);
    let edges = edges.flat_map(|(_, edges)| edges);
    errors.or(edges.map(|e| (e.from, e.to, e.delay_ns)).collect())
}

impl<'a> Reader<'a> {
    fn wrong(&mut self, line: usize, code: &'static str, message: String) {
        let error = self.file.error_in_line(line, code, message);
        self.errors.push(error);
    }

    /// Returns whether there are too many errors to continue.
    fn give_up(&self) -> bool {
        self.errors.len() > self.before + 20
    }

    fn member(&mut self, line: usize, name: &str) -> Option<usize> {
        let place = self.places.get(name).copied();
        if place.is_none() {
            let error = self
                .file
                .error_in_line(
                    line,
                    "unknown-node",
                    format!("no member is called `{name}`"),
                )
                .with_nearest(name, self.places.keys().copied());
            self.errors.push(error);
        }
        place
    }

    fn number(&mut self, line: usize, what: &str, text: &str, (least, most): (f64, f64)) -> f64 {
        match text.parse::<f64>() {
            Ok(number) if (least..=most).contains(&number) => number,
            _ => {
                let message = format!("`{what}` is `{text}`, not a number from {least} to {most}");
                self.wrong(line, "bad-value", message);
                least
            }
        }
    }

    fn delay_ns(&mut self, line: usize, what: &str, text: &str) -> u64 {
        let ms = self.number(line, what, text, (0.0, MOST_DELAY_MS));
        (ms * 1e6).round() as u64
    }

    /// Parses a square matrix: senders by row, receivers by column. Every member must have both.
    fn square(
        &mut self,
        header: &CsvRow,
        lines: impl Iterator<Item = CsvRow>,
        members: &[String],
    ) -> Vec<(u64, Vec<NetworkEdge>)> {
        let (head, names) = (header.line, &header.cells);
        let mut seen = BTreeSet::new();
        let mut columns = Vec::new();
        for name in names {
            let place = self.member(head, name);
            if place.is_some_and(|place| !seen.insert(place)) {
                self.wrong(head, "duplicate-name", format!("`{name}` has two columns"));
            }
            columns.push(place);
        }
        self.all_there(&seen, members, "column");
        let mut edges = Vec::new();
        let mut rows = BTreeSet::new();
        for CsvRow { line, cells } in lines {
            if self.give_up() {
                break;
            }
            // A row has at least one cell.
            let Some((name, cells)) = cells.split_first() else {
                continue;
            };
            let Some(from) = self.member(line, name) else {
                continue;
            };
            if !rows.insert(from) {
                self.wrong(line, "duplicate-name", format!("`{name}` has two rows"));
            }
            if cells.len() != columns.len() {
                let message = format!("{} delays for {} columns", cells.len(), columns.len());
                self.wrong(line, "bad-value", message);
                continue;
            }
            for ((cell, to), name) in cells.iter().zip(&columns).zip(names) {
                let Some(to) = *to else { continue };
                if is_missing(cell) {
                    continue;
                }
                let delay_ns = self.delay_ns(line, name, cell);
                if to != from {
                    if edges.len() == MOST_EDGES {
                        self.too_many(line);
                        return Vec::new();
                    }
                    edges.push(self.edge(line, (from, to), delay_ns));
                } else if delay_ns != 0 {
                    let message = format!("`{name}` is {cell} ms from itself");
                    self.wrong(line, "bad-value", message);
                }
            }
        }
        self.all_there(&rows, members, "row");
        vec![(0, edges)]
    }

    fn too_many(&mut self, line: usize) {
        let message = format!("more than {MOST_EDGES} edges");
        self.wrong(line, "out-of-range", message);
    }

    /// Checks that each member has a row or a column.
    fn all_there(&mut self, seen: &BTreeSet<usize>, members: &[String], what: &str) {
        if self.give_up() {
            return;
        }
        let missing = (0..members.len()).filter(|place| !seen.contains(place));
        let missing: Vec<&str> = missing.map(|place| members[place].as_str()).collect();
        if let Some(first) = missing.first() {
            let others = match missing.len() {
                1 => String::new(),
                n => format!(" and {} other members", n - 1),
            };
            let message = format!("`{first}`{others} have no {what} in this file");
            self.errors
                .push(self.file.error_where_named("missing-column", message));
        }
    }

    /// Returns an edge, and checks that jitter leaves something of its delay: frames do not arrive before they were sent.
    fn edge(&mut self, line: usize, (from, to): (usize, usize), delay_ns: u64) -> NetworkEdge {
        let whole_ns = delay_ns + self.class.extra_delay_ns;
        if let Some(Err(why)) = self.jitter.map(|jitter| jitter.fits(whole_ns)) {
            let [a, b] = [from, to].map(|place| &self.members[place]);
            let message = format!("`{a}` to `{b}`: {why}");
            let error = self.file.error_in_line(line, "jitter", message);
            let hint = "make the delay longer, or the jitter smaller";
            self.errors.push(error.with_suggestion(hint));
        }
        NetworkEdge {
            from,
            to,
            delay_ns,
            later_delay_ns: delay_ns,
            class: self.class,
        }
    }

    /// Returns the place of each of [`COLUMNS`] in a header; reports unknown columns, and those that are missing.
    fn columns(&mut self, header: &CsvRow) -> [Option<usize>; 6] {
        let head = header.line;
        let places = COLUMNS.map(|name| header.column(name));
        if let Some(why) = header.ambiguous(COLUMNS) {
            self.wrong(head, "duplicate-name", why);
        }
        let heads = header.cells.iter().enumerate();
        let is_known = |(place, _): &(usize, &String)| places.contains(&Some(*place));
        let is_twice = |head: &str| COLUMNS.contains(&head);
        for (_, name) in heads.filter(|head| !is_known(head) && !is_twice(head.1)) {
            let error = self
                .file
                .error_in_line(
                    head,
                    "unknown-column",
                    format!("`{name}` is no column here"),
                )
                .with_nearest(name, COLUMNS)
                .with_next(match name.contains([';', '\t']) {
                    true => "cells are separated by commas, and numbers have a point",
                    false => "a square begins with the cell `delay_ms` or an empty one",
                });
            self.errors.push(error);
        }
        for (name, _) in COLUMNS
            .iter()
            .zip(places)
            .take(3)
            .filter(|(_, p)| p.is_none())
        {
            self.wrong(
                head,
                "missing-column",
                format!("no column is called `{name}`"),
            );
        }
        places
    }

    /// Parses a table of edges.
    fn table(
        &mut self,
        header: &CsvRow,
        lines: impl Iterator<Item = CsvRow>,
    ) -> Vec<(u64, Vec<NetworkEdge>)> {
        let places = self.columns(header);
        let [
            Some(from_at),
            Some(to_at),
            Some(delay_at),
            rate_at,
            loss_at,
            t_at,
        ] = places
        else {
            return Vec::new();
        };
        let mut epochs: Vec<(u64, Vec<NetworkEdge>)> = Vec::new();
        let mut seen = BTreeSet::new();
        let mut count = 0;
        for CsvRow { line, cells } in lines {
            if self.give_up() {
                break;
            }
            if cells.len() != header.cells.len() {
                let message = format!("{} cells for {} columns", cells.len(), header.cells.len());
                self.wrong(line, "bad-value", message);
                continue;
            }
            let ends = (
                self.member(line, &cells[from_at]),
                self.member(line, &cells[to_at]),
            );
            let (Some(from), Some(to)) = ends else {
                continue;
            };
            if from == to {
                self.wrong(
                    line,
                    "same-node",
                    format!("`{}` is both ends", cells[to_at]),
                );
                continue;
            }
            let t_s = t_at.map_or(0.0, |at| {
                self.number(line, "t_s", &cells[at], (0.0, MOST_TIME_S))
            });
            let t_ns = (t_s * 1e9).round() as u64;
            match epochs.last() {
                Some((last, _)) if *last > t_ns => {
                    self.wrong(line, "order", "lines must be in order of time".to_owned());
                    continue;
                }
                Some((last, _)) if *last == t_ns => {}
                _ => {
                    epochs.push((t_ns, Vec::new()));
                    seen.clear();
                }
            }
            if !seen.insert((from, to)) {
                let message = format!(
                    "`{}` to `{}` is there already",
                    cells[from_at], cells[to_at]
                );
                self.wrong(line, "duplicate-name", message);
                continue;
            }
            if is_missing(&cells[delay_at]) {
                let message =
                    "an edge without `delay_ms`; a table has no row where there is no edge";
                self.wrong(line, "bad-value", message.to_owned());
                continue;
            }
            let delay_ns = self.delay_ns(line, "delay_ms", &cells[delay_at]);
            let mut edge = self.edge(line, (from, to), delay_ns);
            if let Some(cell) = rate_at
                .map(|at| &cells[at])
                .filter(|cell| !is_missing(cell))
            {
                let rate = self.number(line, "rate_bit_per_s", cell, (1e3, 4e11));
                edge.class.rate_bps = NonZeroU64::new(rate as u64);
            }
            if let Some(cell) = loss_at
                .map(|at| &cells[at])
                .filter(|cell| !is_missing(cell))
            {
                edge.class.loss_ratio = self.number(line, "loss_ratio", cell, (0.0, 1.0));
            }
            if count == MOST_EDGES {
                self.too_many(line);
                break;
            }
            count += 1;
            if let Some((_, edges)) = epochs.last_mut() {
                edges.push(edge);
            }
        }
        epochs
    }
}
