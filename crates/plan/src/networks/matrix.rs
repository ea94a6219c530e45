//! Delays from a file: a square of them, or a table of edges that may change over time.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;

use constel_scenario::{Diagnostics, TextFile};
use constel_topology::{Law, LinkClass, Moment, NetworkEdge};

/// Most edges of a file, all times together.
const MOST_EDGES: usize = 1_100_000;
/// Longest delay, ms: that of other links.
const MOST_DELAY_MS: f64 = 10_000.0;
/// Lab time is at most a year.
const MOST_TIME_S: f64 = 366.0 * 86_400.0;

/// The edges of a file.
#[derive(Debug)]
pub(crate) struct Matrix {
    /// From when on which edges hold, in order of time.
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

/// A file on its way to a law.
struct Reader<'a> {
    file: &'a TextFile,
    class: LinkClass,
    places: BTreeMap<&'a str, usize>,
    errors: &'a mut Diagnostics,
    before: usize,
}

/// Reads a file; everything wrong with it goes to `errors`, with its own file and line.
pub(crate) fn read(
    file: &TextFile,
    class: LinkClass,
    members: &[String],
    errors: &mut Diagnostics,
) -> Option<Matrix> {
    let before = errors.len();
    let mut reader = Reader {
        file,
        class,
        places: members.iter().map(String::as_str).zip(0..).collect(),
        errors,
        before,
    };
    let text = file.text();
    let mut lines = (1..)
        .zip(text.lines())
        .filter(|(_, line)| !line.trim().is_empty());
    let Some((number, header)) = lines.next() else {
        reader
            .errors
            .push(file.error_in_line(1, "empty-file", "this file has no rows"));
        return None;
    };
    let heads: Vec<&str> = header.split(',').map(str::trim).collect();
    let epochs = match heads[0] {
        "delay_ms" => reader.square(number, &heads[1..], lines, members),
        _ => reader.table(number, &heads, lines),
    };
    (reader.errors.len() == before).then_some(Matrix { epochs })
}

/// Reads a file of delays alone, of the same form: places of sender and receiver among `members`, and nanoseconds.
///
/// # Errors
/// Everything wrong with it, each with its line.
pub fn read_delays(
    file: &TextFile,
    members: &[String],
) -> Result<Vec<(usize, usize, u64)>, Diagnostics> {
    let mut errors = Diagnostics::new();
    let head = file.text().lines().next().unwrap_or_default();
    for column in head.split(',').map(str::trim) {
        if ["rate_bit_per_s", "loss_ratio", "t_s"].contains(&column) {
            let message = format!("`{column}` cannot be changed, only delays can");
            errors.push(file.error_in_line(1, "unknown-column", message));
        }
    }
    let matrix = match errors.is_empty() {
        true => read(file, LinkClass::default(), members, &mut errors),
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

    /// Whether so much is wrong that the rest is not worth reading.
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

    /// A square: senders by row, receivers by column. Every member has both.
    fn square<'l>(
        &mut self,
        head: usize,
        names: &[&str],
        lines: impl Iterator<Item = (usize, &'l str)>,
        members: &[String],
    ) -> Vec<(u64, Vec<NetworkEdge>)> {
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
        for (line, text) in lines {
            if self.give_up() {
                break;
            }
            let mut cells = text.split(',').map(str::trim);
            let name = cells.next().unwrap_or_default();
            let Some(from) = self.member(line, name) else {
                continue;
            };
            if !rows.insert(from) {
                self.wrong(line, "duplicate-name", format!("`{name}` has two rows"));
            }
            let cells: Vec<&str> = cells.collect();
            if cells.len() != columns.len() {
                let message = format!("{} delays for {} columns", cells.len(), columns.len());
                self.wrong(line, "bad-value", message);
                continue;
            }
            for ((cell, to), name) in cells.iter().zip(&columns).zip(names) {
                let Some(to) = *to else { continue };
                if cell.is_empty() {
                    continue;
                }
                let delay_ns = self.delay_ns(line, name, cell);
                if to != from {
                    edges.push(self.edge(from, to, delay_ns));
                } else if delay_ns != 0 {
                    let message = format!("`{name}` is {cell} ms from itself");
                    self.wrong(line, "bad-value", message);
                }
            }
        }
        self.all_there(&rows, members, "row");
        vec![(0, edges)]
    }

    /// Each member has a row and a column.
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

    fn edge(&self, from: usize, to: usize, delay_ns: u64) -> NetworkEdge {
        NetworkEdge {
            from,
            to,
            delay_ns,
            later_delay_ns: delay_ns,
            class: self.class,
        }
    }

    /// A table of edges.
    fn table<'l>(
        &mut self,
        head: usize,
        heads: &[&str],
        lines: impl Iterator<Item = (usize, &'l str)>,
    ) -> Vec<(u64, Vec<NetworkEdge>)> {
        const COLUMNS: [&str; 6] = [
            "from",
            "to",
            "delay_ms",
            "rate_bit_per_s",
            "loss_ratio",
            "t_s",
        ];
        let places = COLUMNS.map(|name| heads.iter().position(|head| *head == name));
        for name in heads.iter().filter(|name| !COLUMNS.contains(name)) {
            let error = self
                .file
                .error_in_line(
                    head,
                    "unknown-column",
                    format!("`{name}` is no column here"),
                )
                .with_nearest(name, COLUMNS)
                .with_next("a square begins with the cell `delay_ms`");
            self.errors.push(error);
        }
        let [
            Some(from_at),
            Some(to_at),
            Some(delay_at),
            rate_at,
            loss_at,
            t_at,
        ] = places
        else {
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
            return Vec::new();
        };
        let mut epochs: Vec<(u64, Vec<NetworkEdge>)> = Vec::new();
        let mut seen = BTreeSet::new();
        let mut count = 0;
        for (line, text) in lines {
            if self.give_up() {
                break;
            }
            let cells: Vec<&str> = text.split(',').map(str::trim).collect();
            if cells.len() != heads.len() {
                let message = format!("{} cells for {} columns", cells.len(), heads.len());
                self.wrong(line, "bad-value", message);
                continue;
            }
            let ends = (
                self.member(line, cells[from_at]),
                self.member(line, cells[to_at]),
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
                self.number(line, "t_s", cells[at], (0.0, MOST_TIME_S))
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
            let delay_ns = self.delay_ns(line, "delay_ms", cells[delay_at]);
            let mut edge = self.edge(from, to, delay_ns);
            if let Some(cell) = rate_at.map(|at| cells[at]).filter(|cell| !cell.is_empty()) {
                let rate = self.number(line, "rate_bit_per_s", cell, (1e3, 4e11));
                edge.class.rate_bps = NonZeroU64::new(rate as u64);
            }
            if let Some(cell) = loss_at.map(|at| cells[at]).filter(|cell| !cell.is_empty()) {
                edge.class.loss_ratio = self.number(line, "loss_ratio", cell, (0.0, 1.0));
            }
            count += 1;
            if count > MOST_EDGES {
                self.wrong(
                    line,
                    "out-of-range",
                    format!("more than {MOST_EDGES} edges"),
                );
                break;
            }
            if let Some((_, edges)) = epochs.last_mut() {
                edges.push(edge);
            }
        }
        epochs
    }
}
