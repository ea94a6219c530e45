//! What interfaces counted (`run --profile`), read from a results folder.

use std::fs;
use std::path::{Path, PathBuf};

use pyo3::exceptions::{PyFileNotFoundError, PyValueError};
use pyo3::prelude::*;

use crate::table::{Column, Table};

const COUNTERS: [&str; 6] = [
    "rx_packets",
    "tx_packets",
    "rx_bytes",
    "tx_bytes",
    "rx_dropped",
    "tx_dropped",
];

/// An interface of the index.
struct Place<'a> {
    column: usize,
    node: &'a str,
    port: &'a str,
}

/// A row for each instant and interface, instant after instant; of some nodes, if they are named.
///
/// # Errors
/// When a file is missing, or is not what an index of so many interfaces and so many instants make.
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
    py.detach(|| read(&folder, nodes.as_deref()))
}

fn read(folder: &Path, nodes: Option<&[String]>) -> PyResult<Table> {
    let bytes = |name: &str| {
        let path = folder.join(name);
        fs::read(&path)
            .map_err(|error| PyFileNotFoundError::new_err(format!("{}: {error}", path.display())))
    };
    let wrong = |why: String| PyValueError::new_err(format!("{}: {why}", folder.display()));
    let index = bytes("index.csv")?;
    let index = String::from_utf8(index).map_err(|error| wrong(error.to_string()))?;
    let mut width = 0;
    let mut places = Vec::new();
    for (column, line) in index.lines().skip(1).enumerate() {
        let mut cells = line.split(',').skip(1);
        let (Some(node), Some(port)) = (cells.next(), cells.next()) else {
            return Err(wrong(format!(
                "line {} of index.csv has no node and port",
                column + 2
            )));
        };
        width += 1;
        if nodes.is_none_or(|nodes| nodes.iter().any(|name| name == node)) {
            places.push(Place { column, node, port });
        }
    }
    let times = words(&bytes("t_ns.i64")?);
    // A run that was killed may have written its last instant in part.
    let mut counters = Vec::new();
    for name in COUNTERS {
        counters.push(words(&bytes(&format!("{name}.u64"))?));
    }
    let shortest = counters
        .iter()
        .map(|words| words.len() / usize::max(width, 1));
    let instants = shortest.min().unwrap_or(0).min(times.len());
    let rows =
        || (0..instants).flat_map(|instant| places.iter().map(move |place| (instant, place)));
    let mut columns = vec![
        Column::full(
            "t_s",
            rows().map(|(instant, _)| times[instant] as f64 / 1e9),
        ),
        Column::full("node", rows().map(|(_, place)| place.node)),
        Column::full("port", rows().map(|(_, place)| place.port)),
    ];
    for (name, counted) in COUNTERS.iter().zip(&counters) {
        let values = rows().map(|(instant, place)| counted[instant * width + place.column]);
        columns.push(Column::full(name, values));
    }
    Ok(Table::new(columns))
}

/// Counters are below 2^63: bytes of an interface of 100 Gbit/s after twenty years.
fn words(bytes: &[u8]) -> Vec<i64> {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().map(|word| i64::from_le_bytes(*word)).collect()
}
