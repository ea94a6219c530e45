//! Pictures of the resources that nodes use, over lab time.

use std::path::Path;

use constel_measure::plot::Figure;
use constel_scenario::model::Sampled;

use super::Run;
use super::marks::LAB_TIME;
use super::ports::{Column, busiest, index, last, metric_file, metrics, panel, rates};
use super::series::Series;
use crate::error::Error;

/// A panel: its metric, its label, the divisor from the metric's unit to the label's, and whether the growth per second is
/// drawn instead of the value.
const PANELS: [(&str, &str, f64, bool); 5] = [
    ("cpu_ns", "processor time (s/s)", 1e9, true),
    ("memory_bytes", "memory (MiB)", 1_048_576.0, false),
    ("processes", "processes", 1.0, false),
    ("read_bytes", "read (MB/s)", 1e6, true),
    ("written_bytes", "written (MB/s)", 1e6, true),
];

/// Reads a column of values: those of the places of `single`, and the sum of all others.
fn levels(
    folder: &Path,
    column: &str,
    width: usize,
    (single, others): (&[usize], &[usize]),
    divisor: f64,
) -> Result<Vec<Series>, Error> {
    let mut times = Column::open(folder.join("t_ns.i64"))?;
    let mut values = Column::open(folder.join(column))?;
    let mut series: Vec<Series> = (0..=single.len()).map(|_| Series::new()).collect();
    let (mut t_ns, mut now) = ([0], vec![0; width]);
    while times.next(&mut t_ns)? && values.next(&mut now)? {
        let groups = single.iter().map(std::slice::from_ref).chain([others]);
        for (series, group) in series.iter_mut().zip(groups) {
            if !group.is_empty() {
                let sum: f64 = group.iter().map(|place| now[*place] as f64).sum();
                series.put(t_ns[0] as f64 / 1e9, sum / divisor);
            }
        }
    }
    Ok(series)
}

impl Run {
    /// Returns the picture of the resources that nodes use over lab time: the six nodes that use most separately, and all
    /// others together. The first of processor time, memory, processes, reads and writes that the run has decides the order.
    ///
    /// # Errors
    /// [`Error::NoDocument`] when the run has no samples of them, or its files cannot be read.
    pub fn usage_picture(&self) -> Result<Figure, Error> {
        let folder = self.dir().join("usage");
        let names = index(&folder)?;
        let width = names.len();
        let present = metrics(&folder, Sampled::Usage);
        let drawn = || {
            PANELS
                .iter()
                .filter(|(metric, ..)| present.contains(metric))
        };
        let most = match drawn().next() {
            Some((metric, ..)) => last(&folder, &metric_file(metric), width)?,
            None => vec![0; width],
        };
        let (places, others) = busiest((0..width).collect(), |place| most[place]);
        let mut panels = Vec::new();
        for (metric, label, divisor, grows) in drawn() {
            let (column, groups) = (metric_file(metric), (&places[..], &others[..]));
            let series = match grows {
                true => rates(&folder, &column, width, groups, (1.0, *divisor)),
                false => levels(&folder, &column, width, groups, *divisor),
            }?;
            let single = places.iter().map(|place| names[*place].0.as_str());
            panels.push(panel(label, &series, single, others.len()));
        }
        Ok(Figure {
            title: self.titled("Resources that nodes use"),
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

    #[test]
    fn processor_time_is_a_share_and_memory_a_level() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("usage");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(dir.path().join("manifest.json"), "{}").unwrap();
        std::fs::write(folder.join("index.csv"), "place,node\n0,a\n1,b\n").unwrap();
        for (name, numbers) in [
            ("t_ns.i64", &[0_u64, 1_000_000_000][..]),
            ("cpu_ns.u64", &[0, 0, 250_000_000, 500_000_000]),
            ("memory_bytes.u64", &[1 << 20, 2 << 20, 3 << 20, 4 << 20]),
        ] {
            let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
            std::fs::write(folder.join(name), bytes).unwrap();
        }
        let run = Run::open(dir.path()).unwrap();
        let figure = run.usage_picture().unwrap();
        let labels: Vec<&str> = figure.panels.iter().map(|own| own.label.as_str()).collect();
        assert_eq!(labels, ["processor time (s/s)", "memory (MiB)"]);
        let groups = (&[0, 1][..], &[][..]);
        let cpu = rates(&folder, "cpu_ns.u64", 2, groups, (1.0, 1e9)).unwrap();
        assert_eq!(cpu[0].points(), [(0.5, 0.25)]);
        assert_eq!(cpu[1].points(), [(0.5, 0.5)]);
        let memory = levels(&folder, "memory_bytes.u64", 2, groups, 1_048_576.0).unwrap();
        assert_eq!(memory[1].points(), [(0.0, 2.0), (1.0, 4.0)]);
        let picture = figure.svg(&Look::default());
        assert!(picture.contains("Resources that nodes use"), "{picture}");
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(run.usage_picture().is_err());
    }
}
