//! Pictures of tables and comparisons: one for each figure of each flow.

use std::ffi::OsStr;
use std::path::Path;

use constel_measure::plot::intervals::{Estimate, Group};

use crate::sweep::compare::{Compared, Comparison};
use crate::sweep::figures::Figure;
use crate::sweep::interval::Interval;
use crate::sweep::table::{Row, Table};

/// A picture, and the name of its file without the ending.
#[derive(Debug, Clone, PartialEq)]
pub struct Picture {
    /// The flow and the figure: `FLOW-FIGURE`.
    pub stem: String,
    /// The picture.
    pub group: Group,
}

impl Table {
    /// Returns a picture for each figure of each flow, with a line for each combination.
    #[must_use]
    pub fn pictures(&self) -> Vec<Picture> {
        let same = |a: &Row, b: &Row| (&a.flow, a.figure) == (&b.flow, b.figure);
        let runs = if self.trustworthy_only {
            "a trustworthy run"
        } else {
            "a run"
        };
        let picture = |rows: &[Row]| {
            let first = rows.first()?;
            let estimates = rows
                .iter()
                .map(|row| estimate(&row.variant, &row.interval, row.values.clone()));
            // Only the name: the path of the file is of no use in a paper.
            let name = Path::new(&self.scenario)
                .file_stem()
                .map_or(self.scenario.as_str().into(), OsStr::to_string_lossy);
            let title = format!(
                "Flow {}: {}, sweep of {name}",
                first.flow, first.figure.words
            );
            Some(drawn(
                &first.flow,
                first.figure,
                title,
                estimates.collect(),
                runs,
            ))
        };
        self.rows.chunk_by(same).filter_map(picture).collect()
    }
}

impl Comparison {
    /// Returns a picture for each figure of each flow: the two sides, and whether they differ.
    #[must_use]
    pub fn pictures(&self) -> Vec<Picture> {
        let picture = |row: &Compared| {
            let estimates = [("A", &row.a), ("B", &row.b)]
                .map(|(name, interval)| estimate(name, interval, vec![interval.min, interval.max]));
            let title = format!("Flow {}: {}, two sides", row.flow, row.figure.words);
            let sample = "the least and the greatest repeat";
            let mut picture = drawn(&row.flow, row.figure, title, estimates.to_vec(), sample);
            let difference = format!(
                "B less A: {:+.3} {} (means).",
                row.difference, row.figure.unit
            );
            let verdict = match row.differs {
                Some(true) => "The sides differ by more than noise.",
                Some(false) => "The sides do not differ by more than noise.",
                None => "The noise is unknown.",
            };
            picture.group.notes.push(format!("{difference} {verdict}"));
            picture
        };
        self.rows.iter().map(picture).collect()
    }
}

fn estimate(name: &str, interval: &Interval, samples: Vec<f64>) -> Estimate {
    Estimate {
        name: name.to_owned(),
        median: interval.median,
        interval: interval.median_ci95,
        n: interval.n,
        samples,
    }
}

fn drawn(
    flow: &str,
    figure: Figure,
    title: String,
    estimates: Vec<Estimate>,
    sample: &str,
) -> Picture {
    let has = |estimate: &&Estimate| estimate.interval.is_some();
    let with = estimates.iter().filter(has).count();
    let mut notes = Vec::new();
    if with < estimates.len() {
        notes.push("A 95 % interval of the median needs six values or more.".to_owned());
    }
    Picture {
        stem: format!("{flow}-{}", figure.name),
        group: Group {
            title,
            label: format!("{} ({})", figure.words, figure.unit),
            interval: (with > 0).then(|| "95 % interval of the median".to_owned()),
            sample: sample.to_owned(),
            estimates,
            bounds: figure.bounds(),
            notes,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::figures::figure;

    #[test]
    fn a_table_has_a_picture_for_each_question_also_after_it_was_written() {
        let row = |variant: &str, name, unit, words, values: &[f64]| Row {
            variant: variant.to_owned(),
            flow: "bulk".to_owned(),
            figure: figure(name, unit, words),
            interval: Interval::of(values).unwrap(),
            values: values.to_vec(),
        };
        let six = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let table = Table {
            version: 1,
            scenario: "/home/user/studies/controls.yaml".to_owned(),
            seeds: (1..=6).collect(),
            trustworthy_only: false,
            runs: Vec::new(),
            rows: vec![
                row("cubic", "throughput_mbps", "Mbit/s", "throughput", &six),
                row("bbr", "throughput_mbps", "Mbit/s", "throughput", &six[..2]),
                row("cubic", "loss_percent", "%", "loss", &six),
            ],
        };
        let pictures = table.pictures();
        let stems: Vec<&str> = pictures.iter().map(|p| p.stem.as_str()).collect();
        assert_eq!(stems, ["bulk-throughput_mbps", "bulk-loss_percent"]);
        let first = &pictures[0].group;
        assert_eq!(first.title, "Flow bulk: throughput, sweep of controls");
        assert_eq!(first.label, "throughput (Mbit/s)");
        assert_eq!(first.estimates[0].interval, Some([1.0, 6.0]));
        assert_eq!(
            (first.estimates[1].interval, first.estimates[1].n),
            (None, 2)
        );
        assert!(first.notes[0].contains("six values"), "{:?}", first.notes);
        assert_eq!(pictures[1].group.bounds, [0.0, 100.0]);
        let text = serde_json::to_string(&table).unwrap();
        let again: Table = serde_json::from_str(&text).unwrap();
        assert_eq!(again, table);
        let wrong = text.replace("loss_percent", "lost");
        let error = serde_json::from_str::<Table>(&wrong)
            .unwrap_err()
            .to_string();
        assert!(error.contains("`lost` is not a figure"), "{error}");
    }
}
