//! Which satellites stations use when, as far as that was chosen beforehand: `ground.choices`.

use std::collections::BTreeMap;

use constel_scenario::{Diagnostic, Diagnostics, TextFile};
use constel_topology::{Chosen, Constellation, NodeId, Station};

/// The columns, in this order.
const COLUMNS: &str = "t_s,station,satellites";

/// Latest time of a row, seconds: 366 days.
const MOST_TIME_S: f64 = 366.0 * 86_400.0;

/// Most satellites of a row: as many as a station has antennas, and as many again in their place.
const MOST_SATELLITES: usize = 1_000;

/// Reads a file of choices into the stations.
///
/// # Errors
/// Everything wrong with it, each with its line.
pub(crate) fn read(
    file: &TextFile,
    constellations: &[Constellation],
    stations: &mut [Station],
) -> Result<(), Diagnostics> {
    let satellites = constellations.iter().flat_map(|k| &k.satellites);
    let mut reader = Reader {
        file,
        satellites: satellites.map(|s| s.name.as_str()).zip(0..).collect(),
        errors: Diagnostics::new(),
    };
    let mut places: BTreeMap<String, &mut Station> = stations
        .iter_mut()
        .map(|station| (station.name.clone(), station))
        .collect();
    let text = file.text();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = (1..)
        .zip(text.lines())
        .filter(|(_, line)| !line.trim().is_empty());
    match lines.next() {
        Some((_, head)) if head.trim() == COLUMNS => {}
        Some((line, _)) => reader.wrong(
            line,
            "unknown-column",
            format!("the columns must be `{COLUMNS}`"),
        ),
        None => reader.wrong(1, "empty-file", "this file has no rows".to_owned()),
    }
    for (line, text) in lines {
        if reader.errors.is_full() {
            break;
        }
        let cells: Vec<&str> = text.split(',').map(str::trim).collect();
        let [t_s, name, wanted] = cells[..] else {
            let message = format!("{} cells for the columns `{COLUMNS}`", cells.len());
            reader.wrong(line, "bad-value", message);
            continue;
        };
        let t_ns = reader.time_ns(line, t_s);
        let wanted = reader.wanted(line, wanted);
        let Some(station) = places.get_mut(name) else {
            let error = reader.error(
                line,
                "unknown-station",
                format!("no station is called `{name}`"),
            );
            let known = places.keys().map(String::as_str);
            reader.errors.push(error.with_nearest(name, known));
            continue;
        };
        let (Some(t_ns), Some(satellites)) = (t_ns, wanted) else {
            continue;
        };
        if station.choices.last().is_some_and(|last| last.t_ns >= t_ns) {
            let message = format!("rows of `{name}` must be in order of time");
            reader.wrong(line, "order", message);
            continue;
        }
        station.choices.push(Chosen { t_ns, satellites });
    }
    reader.errors.or(())
}

struct Reader<'a> {
    file: &'a TextFile,
    /// Node numbers by name.
    satellites: BTreeMap<&'a str, u32>,
    errors: Diagnostics,
}

impl Reader<'_> {
    fn error(&self, line: usize, code: &'static str, message: String) -> Diagnostic {
        self.file.error_in_line(line, code, message)
    }

    fn wrong(&mut self, line: usize, code: &'static str, message: String) {
        let error = self.error(line, code, message);
        self.errors.push(error);
    }

    fn time_ns(&mut self, line: usize, text: &str) -> Option<u64> {
        let seconds = text.parse::<f64>().ok();
        let seconds = seconds.filter(|s| (0.0..=MOST_TIME_S).contains(s));
        if seconds.is_none() {
            let message = format!("`t_s` is `{text}`, not a number from 0 to {MOST_TIME_S}");
            self.wrong(line, "bad-value", message);
        }
        Some((seconds? * 1e9).round() as u64)
    }

    fn wanted(&mut self, line: usize, text: &str) -> Option<Vec<NodeId>> {
        let mut wanted = Vec::new();
        for name in text.split_whitespace() {
            let Some(number) = self.satellites.get(name) else {
                let error = self.error(
                    line,
                    "unknown-satellite",
                    format!("no satellite is called `{name}`"),
                );
                self.errors
                    .push(error.with_nearest(name, self.satellites.keys().copied()));
                return None;
            };
            wanted.push(NodeId(*number));
        }
        if wanted.len() > MOST_SATELLITES {
            let message = format!(
                "{} satellites in a row; at most {MOST_SATELLITES}",
                wanted.len()
            );
            self.wrong(line, "out-of-range", message);
            return None;
        }
        Some(wanted)
    }
}
