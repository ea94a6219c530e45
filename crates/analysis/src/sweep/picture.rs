//! The table as a picture.

use constel_measure::plot::intervals::{Estimate, Group, svg};

use crate::sweep::figures::{Figure, figures};
use crate::sweep::table::{Done, Row, Table};

/// Maximum number of panels: a picture with more is not readable.
const MOST_PANELS: usize = 40;

impl Table {
    /// Draws one panel for each figure of each flow, with a line for each combination. `done` is the input of
    /// the table.
    #[must_use]
    pub fn svg(&self, done: &[Done]) -> String {
        let same = |a: &Row, b: &Row| (&a.flow, a.figure) == (&b.flow, b.figure);
        let panels = self.rows.chunk_by(same).take(MOST_PANELS);
        let groups: Vec<Group> = panels.map(|rows| self.panel(rows, done)).collect();
        let seeds = self.seeds.len();
        let s = if seeds == 1 { "" } else { "s" };
        let title = format!(
            "{}: {seeds} seed{s}; mean and 95 % confidence interval",
            self.scenario
        );
        svg(&title, &groups)
    }

    fn panel(&self, rows: &[Row], done: &[Done]) -> Group {
        let label = rows.first().map_or_else(String::new, |row| {
            format!("{}: {} ({})", row.flow, row.figure.name, row.figure.unit)
        });
        let estimate = |row: &Row| Estimate {
            name: row.variant.clone(),
            mean: row.interval.mean,
            half: row.interval.ci95,
            samples: self.samples(done, &row.variant, &row.flow, row.figure),
        };
        Group {
            label,
            estimates: rows.iter().map(estimate).collect(),
        }
    }

    fn samples(&self, done: &[Done], variant: &str, flow: &str, figure: Figure) -> Vec<f64> {
        let index = self.runs.iter().position(|runs| runs.variant == variant);
        let runs = done.iter().filter(|run| Some(run.variant) == index);
        let summaries = runs.filter_map(|run| run.summary.as_ref());
        let counted = summaries.filter(|s| s.verdict.trustworthy || !self.trustworthy_only);
        let values = counted.flat_map(figures);
        values
            .filter(|(name, of, _)| *name == flow && *of == figure)
            .map(|(_, _, value)| value)
            .collect()
    }
}
