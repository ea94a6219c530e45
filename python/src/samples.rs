//! Counters of interfaces, edges and used resources (`sample`, `run --profile`), read from a results folder.

use std::fs;
use std::path::{Path, PathBuf};

use constel_scenario::model::{SampleMetric, Sampled};
use pyo3::exceptions::{PyFileNotFoundError, PyValueError};
use pyo3::prelude::*;

use crate::table::{Column, Table};

/// A row for each instant and interface, instant after instant; of some nodes, if they are named.
///
/// # Errors
/// When a file is missing, or has another size than its index of interfaces and instants requires.
#[pyfunction]
#[pyo3(signature = (folder, nodes=None))]
#[expect(
    clippy::needless_pass_by_value,
    reason = "arguments come from Python by value"
)]
pub(crate) fn interfaces(
    py: Python<'_>,
    folder: PathBuf,
    nodes: Option<Vec<String>>,
) -> PyResult<Table> {
    py.detach(|| of_places(&folder, Sampled::Interfaces, nodes.as_deref()))
}

/// A row for each instant and node with counted resources, instant after instant; of some nodes, if they are named.
///
/// # Errors
/// As [`interfaces`].
#[pyfunction]
#[pyo3(signature = (folder, nodes=None))]
#[expect(
    clippy::needless_pass_by_value,
    reason = "arguments come from Python by value"
)]
pub(crate) fn usage(
    py: Python<'_>,
    folder: PathBuf,
    nodes: Option<Vec<String>>,
) -> PyResult<Table> {
    py.detach(|| of_places(&folder, Sampled::Usage, nodes.as_deref()))
}

/// A row where something of an edge was other than in its row before; of edges that leave some nodes, if they are named.
///
/// # Errors
/// When a file is missing, or has another size than its index of ports requires.
#[pyfunction]
#[pyo3(signature = (folder, nodes=None))]
#[expect(
    clippy::needless_pass_by_value,
    reason = "arguments come from Python by value"
)]
pub(crate) fn edges(
    py: Python<'_>,
    folder: PathBuf,
    nodes: Option<Vec<String>>,
) -> PyResult<Table> {
    py.detach(|| of_edges(&folder, nodes.as_deref()))
}

/// A folder of columns.
struct Columns<'a> {
    folder: &'a Path,
}

impl Columns<'_> {
    fn wrong(&self, why: &str) -> PyErr {
        PyValueError::new_err(format!("{}: {why}", self.folder.display()))
    }

    fn bytes(&self, name: &str) -> PyResult<Vec<u8>> {
        let path = self.folder.join(name);
        fs::read(&path)
            .map_err(|error| PyFileNotFoundError::new_err(format!("{}: {error}", path.display())))
    }

    /// Numbers of a column. Those that count are below 2^63: bytes of an interface of 100 Gbit/s after twenty years.
    fn words(&self, name: &str) -> PyResult<Vec<i64>> {
        let bytes = self.bytes(name)?;
        let (words, _) = bytes.as_chunks::<8>();
        Ok(words.iter().map(|word| i64::from_le_bytes(*word)).collect())
    }

    /// The columns that there are, of those of a kind of objects.
    fn metrics(&self, kind: Sampled) -> PyResult<Vec<(&'static str, Vec<i64>)>> {
        let all = SampleMetric::ALL.iter().copied();
        let all = all.filter(|metric| metric.kind() == kind);
        let names = all.map(|metric| (metric.as_str(), format!("{}.u64", metric.as_str())));
        let there = names.filter(|(_, file)| self.folder.join(file).is_file());
        there
            .map(|(name, file)| Ok((name, self.words(&file)?)))
            .collect()
    }

    /// Node and port of each place; nodes with counted resources have no port.
    fn index(&self) -> PyResult<Vec<(String, String)>> {
        let text = String::from_utf8(self.bytes("index.csv")?);
        let text = text.map_err(|error| self.wrong(&error.to_string()))?;
        let place = |(number, line): (usize, &str)| {
            let mut cells = line.split(',').skip(1).map(str::to_owned);
            let node = cells.next().ok_or_else(|| {
                self.wrong(&format!("line {} of index.csv has no node", number + 2))
            })?;
            Ok((node, cells.next().unwrap_or_default()))
        };
        text.lines().skip(1).enumerate().map(place).collect()
    }
}

fn of_places(folder: &Path, kind: Sampled, nodes: Option<&[String]>) -> PyResult<Table> {
    let files = Columns { folder };
    let index = files.index()?;
    let width = index.len();
    let named = |node: &String| nodes.is_none_or(|nodes| nodes.contains(node));
    let places = index.iter().enumerate();
    let places: Vec<_> = places.filter(|(_, (node, _))| named(node)).collect();
    let times = files.words("t_ns.i64")?;
    let counters = files.metrics(kind)?;
    // A run that was killed may have written its last instant in part.
    let whole = |words: &Vec<i64>| words.len() / usize::max(width, 1);
    let shortest = counters.iter().map(|(_, words)| whole(words)).min();
    let instants = shortest.unwrap_or(0).min(times.len());
    let rows =
        || (0..instants).flat_map(|instant| places.iter().map(move |place| (instant, place)));
    let mut columns = vec![
        Column::full(
            "t_s",
            rows().map(|(instant, _)| times[instant] as f64 / 1e9),
        ),
        Column::full("node", rows().map(|(_, (_, (node, _)))| node.as_str())),
    ];
    if kind == Sampled::Interfaces {
        let ports = rows().map(|(_, (_, (_, port)))| port.as_str());
        columns.push(Column::full("port", ports));
    }
    for (name, counted) in &counters {
        let values = rows().map(|(instant, (column, _))| counted[instant * width + column]);
        columns.push(Column::full(name, values));
    }
    Ok(Table::new(columns))
}

fn of_edges(folder: &Path, nodes: Option<&[String]>) -> PyResult<Table> {
    let files = Columns { folder };
    let index = files.index()?;
    let own = ["t_ns.i64", "from.u64", "to.u64"];
    let [times, from, to] = own.map(|name| files.words(name));
    let (times, from, to) = (times?, from?, to?);
    let metrics = files.metrics(Sampled::Edges)?;
    let lengths = metrics.iter().map(|(_, words)| words.len());
    // A run that was killed may have written its last row in part.
    let whole = lengths.chain([times.len(), from.len(), to.len()]).min();
    let end = |place: i64| {
        usize::try_from(place)
            .ok()
            .and_then(|place| index.get(place))
    };
    let mut rows = Vec::new();
    for row in 0..whole.unwrap_or(0) {
        let ends = end(from[row]).zip(end(to[row]));
        let (a, b) =
            ends.ok_or_else(|| files.wrong("a row is of a port that index.csv has not"))?;
        if nodes.is_none_or(|nodes| nodes.contains(&a.0)) {
            rows.push((row, a, b));
        }
    }
    let mut columns = vec![
        Column::full("t_s", rows.iter().map(|(row, ..)| times[*row] as f64 / 1e9)),
        Column::full("from_node", rows.iter().map(|(_, a, _)| a.0.as_str())),
        Column::full("from_port", rows.iter().map(|(_, a, _)| a.1.as_str())),
        Column::full("to_node", rows.iter().map(|(_, _, b)| b.0.as_str())),
        Column::full("to_port", rows.iter().map(|(_, _, b)| b.1.as_str())),
    ];
    for (name, words) in &metrics {
        columns.push(Column::full(name, rows.iter().map(|(row, ..)| words[*row])));
    }
    Ok(Table::new(columns))
}
