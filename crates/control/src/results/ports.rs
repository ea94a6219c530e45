//! Pictures of the traffic of interfaces over lab time, from the columns of a profile.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

use constel_measure::plot::{Figure, Panel, Style};
use constel_scenario::model::{SampleMetric, Sampled};
use constel_units::files;

use super::Run;
use super::marks::LAB_TIME;
use super::picture::curve;
use super::series::Series;
use crate::error::Error;

/// Curves of single interfaces; all others are one.
const SINGLE: usize = 6;

/// Columns of 64-bit numbers, little-endian.
pub(super) struct Column {
    path: PathBuf,
    file: BufReader<File>,
}

impl Column {
    pub(super) fn open(path: PathBuf) -> Result<Self, Error> {
        match files::open(&path) {
            Ok(file) => Ok(Self {
                path,
                file: BufReader::new(file),
            }),
            Err(source) => Err(Error::NoDocument { path, source }),
        }
    }

    /// Fills `numbers`; `false` where the file is over, or has only a part of them left.
    pub(super) fn next(&mut self, numbers: &mut [u64]) -> Result<bool, Error> {
        for number in numbers {
            let mut bytes = [0; 8];
            match self.file.read_exact(&mut bytes) {
                Ok(()) => *number = u64::from_le_bytes(bytes),
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(false),
                Err(source) => {
                    return Err(Error::NoDocument {
                        path: self.path.clone(),
                        source,
                    });
                }
            }
        }
        Ok(true)
    }
}

/// The metrics of a kind of objects that a folder of columns has, by the names of their columns.
pub(super) fn metrics(folder: &Path, kind: Sampled) -> Vec<&'static str> {
    let all = SampleMetric::ALL.iter().copied();
    all.filter(|metric| metric.kind() == kind)
        .map(SampleMetric::as_str)
        .filter(|name| folder.join(metric_file(name)).is_file())
        .collect()
}

/// The file of a metric's column.
pub(super) fn metric_file(name: &str) -> String {
    format!("{name}.u64")
}

/// Maximum number of places in the columns of a profile. A lab of 100,000 nodes has a tenth of them.
const MOST_PLACES: usize = 4_000_000;

/// Node and port of each place in the columns of a profile.
pub(super) fn index(folder: &Path) -> Result<Vec<(String, String)>, Error> {
    let path = folder.join("index.csv");
    let text = files::read_text(&path);
    let text = text.map_err(|source| Error::NoDocument {
        path: path.clone(),
        source,
    })?;
    if text.lines().nth(MOST_PLACES + 1).is_some() {
        return Err(Error::BadTable {
            path,
            line: MOST_PLACES + 2,
            reason: format!("more than {MOST_PLACES} interfaces"),
        });
    }
    let place = |line: &str| {
        let mut cells = line.split(',').skip(1).map(str::to_owned);
        (
            cells.next().unwrap_or_default(),
            cells.next().unwrap_or_default(),
        )
    };
    Ok(text.lines().skip(1).map(place).collect())
}

/// The interfaces of a profile by their place in its columns, as `NODE/PORT`; loopback interfaces are left out.
fn names(folder: &Path) -> Result<(usize, BTreeMap<usize, String>), Error> {
    let places = index(folder)?;
    let named = places.iter().enumerate();
    let named = named.filter(|(_, (_, port))| port != "lo");
    let named = named.map(|(place, (node, port))| (place, format!("{node}/{port}")));
    Ok((places.len(), named.collect()))
}

/// Reads a column of counters and gives their growth per second, times the factor and by the divisor of a unit: those of
/// the places of `single`, and the sum of those of `others`.
pub(super) fn rates(
    folder: &Path,
    column: &str,
    width: usize,
    (single, others): (&[usize], &[usize]),
    (factor, divisor): (f64, f64),
) -> Result<Vec<Series>, Error> {
    let mut times = Column::open(folder.join("t_ns.i64"))?;
    let mut bytes = Column::open(folder.join(column))?;
    let mut series: Vec<Series> = (0..=single.len()).map(|_| Series::new()).collect();
    let (mut t_ns, mut now) = ([0], vec![0; width]);
    let mut before: Option<(u64, Vec<u64>)> = None;
    while times.next(&mut t_ns)? && bytes.next(&mut now)? {
        if let Some((then_ns, then)) = &before {
            let length_s = t_ns[0].saturating_sub(*then_ns) as f64 / 1e9;
            let moved = |place: &usize| now[*place].saturating_sub(then[*place]) as f64;
            let groups = single.iter().map(std::slice::from_ref).chain([others]);
            for (series, group) in series.iter_mut().zip(groups) {
                if length_s > 0.0 && !group.is_empty() {
                    let grown = group.iter().map(moved).sum::<f64>() * factor;
                    // A difference belongs to the time in between.
                    let middle_s = (t_ns[0] as f64 + *then_ns as f64) / 2e9;
                    series.put(middle_s, grown / length_s / divisor);
                }
            }
        }
        before = Some((t_ns[0], now.clone()));
    }
    Ok(series)
}

/// Returns the final counters of a column by index.
pub(super) fn last(folder: &Path, column: &str, width: usize) -> Result<Vec<u64>, Error> {
    let mut column = Column::open(folder.join(column))?;
    let (mut now, mut last) = (vec![0; width], vec![0; width]);
    while width > 0 && column.next(&mut now)? {
        last.copy_from_slice(&now);
    }
    Ok(last)
}

/// Splits places into the [`SINGLE`] with the most, in order, and all others.
pub(super) fn busiest(
    mut places: Vec<usize>,
    most: impl Fn(usize) -> u64,
) -> (Vec<usize>, Vec<usize>) {
    places.sort_by_key(|place| std::cmp::Reverse(most(*place)));
    let others = places.split_off(places.len().min(SINGLE));
    places.sort_unstable();
    (places, others)
}

/// Returns a panel with a curve for each of the single places, and a dashed one for the others.
pub(super) fn panel<'n>(
    label: &str,
    series: &[Series],
    single: impl Iterator<Item = &'n str>,
    others: usize,
) -> Panel {
    let rest = format!("{others} others together");
    let names = single.map(|name| (name, Style::Line));
    let drawn = series.iter().zip(names.chain([(&*rest, Style::Dashed)]));
    Panel {
        label: label.to_owned(),
        curves: drawn
            .filter_map(|(series, (name, style))| curve(name, series, style))
            .collect(),
        from_zero: true,
    }
}

impl Run {
    /// Returns the picture of the traffic of interfaces over lab time: the six interfaces with most traffic separately, and
    /// all others together.
    ///
    /// # Errors
    /// [`Error::NoDocument`] when the run had no `--profile`, or its files cannot be read.
    pub fn ports_picture(&self) -> Result<Figure, Error> {
        let folder = self.dir().join("interfaces");
        let (width, names) = names(&folder)?;
        let received = last(&folder, "rx_bytes.u64", width)?;
        let sent = last(&folder, "tx_bytes.u64", width)?;
        let all = names.keys().copied().collect();
        let (places, others) = busiest(all, |place| received[place].saturating_add(sent[place]));
        let mut panels = Vec::new();
        for (column, label) in [
            ("tx_bytes.u64", "sent (Mbit/s)"),
            ("rx_bytes.u64", "received (Mbit/s)"),
        ] {
            // Mbit/s of bytes.
            let series = rates(&folder, column, width, (&places, &others), (8.0, 1e6))?;
            let single = places.iter().map(|place| names[place].as_str());
            panels.push(panel(label, &series, single, others.len()));
        }
        Ok(Figure {
            title: self.titled("Traffic of interfaces"),
            time_label: LAB_TIME.to_owned(),
            begin_s: 0.0,
            panels,
            marks: self.marks(&[])?,
            notes: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use constel_measure::plot::Look;

    use super::*;

    /// Results of others: counters at their limits, and an index without end.
    #[test]
    fn columns_of_others_are_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("interfaces");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(dir.path().join("manifest.json"), "{}").unwrap();
        for (name, numbers) in [
            ("t_ns.i64", vec![0_u64, 1]),
            ("rx_bytes.u64", vec![0, u64::MAX]),
            ("tx_bytes.u64", vec![0, u64::MAX]),
        ] {
            let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
            std::fs::write(folder.join(name), bytes).unwrap();
        }
        let run = Run::open(dir.path()).unwrap();
        std::fs::write(folder.join("index.csv"), "place,node,port\n0,a,eth0\n").unwrap();
        let picture = run.ports_picture().unwrap().svg(&Look::default());
        assert!(picture.starts_with("<svg"));
        std::fs::write(folder.join("index.csv"), "\n".repeat(MOST_PLACES + 2)).unwrap();
        let error = run.ports_picture().unwrap_err().to_string();
        assert!(error.contains("more than 4000000 interfaces"), "{error}");
    }

    #[test]
    fn rates_are_differences_of_counters_over_their_time() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("interfaces");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(dir.path().join("manifest.json"), "{}").unwrap();
        let mut index = "place,node,port\n0,a,lo\n".to_owned();
        for place in 1..9 {
            index += &format!("{place},n{place},net0\n");
        }
        std::fs::write(folder.join("index.csv"), index).unwrap();
        let column = |rows: &[[u64; 9]]| -> Vec<u8> {
            rows.iter()
                .flatten()
                .flat_map(|n| n.to_le_bytes())
                .collect()
        };
        let times: Vec<u8> = [0_u64, 50_000_000, 150_000_000]
            .iter()
            .flat_map(|t| t.to_le_bytes())
            .collect();
        std::fs::write(folder.join("t_ns.i64"), times).unwrap();
        // The loopback interface is not drawn. The nodes n1 and n2 sent least.
        let sent = [
            [0; 9],
            [9_000_000, 1, 1, 30, 40, 50, 60, 70, 62_500],
            [9_000_000, 2, 2, 30, 40, 50, 60, 70, 62_500 + 12_500],
        ];
        std::fs::write(folder.join("tx_bytes.u64"), column(&sent)).unwrap();
        let mut cut = column(&[[0; 9]; 3]);
        cut.truncate(9 * 8 * 2 + 20);
        std::fs::write(folder.join("rx_bytes.u64"), cut).unwrap();
        let (width, names) = names(&folder).unwrap();
        assert_eq!((width, names.len()), (9, 8));
        let groups = (&[8][..], &[1, 2][..]);
        let series = rates(&folder, "tx_bytes.u64", width, groups, (8.0, 1e6)).unwrap();
        assert_eq!(series[0].points(), [(0.025, 10.0), (0.1, 1.0)]);
        assert_eq!(series[1].points(), [(0.025, 0.00032), (0.1, 0.00016)]);
        let run = Run::open(dir.path()).unwrap();
        let picture = run.ports_picture().unwrap().svg(&Look::default());
        for words in [
            "n8/net0",
            "n3/net0",
            "2 others together",
            "sent (Mbit/s)",
            "received (Mbit/s)",
        ] {
            assert!(picture.contains(words), "{words}: {picture}");
        }
        assert!(!picture.contains("a/lo") && !picture.contains("n1/net0"));
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(run.ports_picture().is_err());
    }
}
