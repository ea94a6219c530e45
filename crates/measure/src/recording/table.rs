//! CSV with a first line of names: measurements of WetLinks, Starlink on the Road and LENS, and the flows of a run.

use constel_link::trace::TraceError;
use constel_units::instant;

use super::errors::{self, Errors};
use super::ping::with_losses;
use crate::compare::{Probe, Series};

/// Largest number of rows: ten a second for more than ten days.
const MOST_ROWS: usize = 10_000_000;

/// The meaning of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    /// Instant of sending.
    Time,
    /// Instant of the answer's arrival.
    Arrival,
    /// Number of the probe.
    Number,
    /// Fate of the probe, a word.
    Fate,
    Rtt,
    Up,
    Down,
    UpRate,
    DownRate,
}

/// Names of columns, their meaning, and the factor to milliseconds or Mbit/s. `download` and `upload` are bit/s, as iperf
/// reports them.
const COLUMNS: [(&str, Column, f64); 25] = [
    ("t_s", Column::Time, 1.0),
    ("unix_s", Column::Time, 1.0),
    ("sent_s", Column::Time, 1.0),
    ("timestamp", Column::Time, 1.0),
    ("timestamp_start", Column::Time, 1.0),
    ("received_unix_s", Column::Arrival, 1.0),
    ("sequence", Column::Number, 1.0),
    ("seq", Column::Number, 1.0),
    ("fate", Column::Fate, 1.0),
    ("rtt", Column::Rtt, 1.0),
    ("rtt_ms", Column::Rtt, 1.0),
    ("rtt_us", Column::Rtt, 1e-3),
    ("ping_avg", Column::Rtt, 1.0),
    ("pop_ping_ms", Column::Rtt, 1.0),
    ("uplink", Column::Up, 1.0),
    ("downlink", Column::Down, 1.0),
    ("owd_us", Column::Up, 1e-3),
    ("owd_back_us", Column::Down, 1e-3),
    ("upload_mbps", Column::UpRate, 1.0),
    ("download_mbps", Column::DownRate, 1.0),
    ("upload", Column::UpRate, 1e-6),
    ("download", Column::DownRate, 1e-6),
    ("uplink_bps", Column::UpRate, 1e-6),
    ("downlink_bps", Column::DownRate, 1e-6),
    ("throughput_bps", Column::DownRate, 1e-6),
];

/// Returns each column's meaning. If a file has two columns of one meaning, the first one counts.
fn columns(head: &str) -> Vec<Option<(Column, f64)>> {
    let mut seen: Vec<Column> = Vec::new();
    let names = head
        .split(',')
        .map(|name| name.trim().trim_matches('"').to_ascii_lowercase());
    let found = names.map(|name| {
        let (_, column, factor) = COLUMNS.iter().find(|(known, ..)| *known == name)?;
        (!seen.contains(column)).then(|| {
            seen.push(*column);
            (*column, *factor)
        })
    });
    found.collect()
}

/// Seconds of a cell: a date, or a number. Numbers from 10^14 on are nanoseconds, as irtt's.
fn seconds(cell: &str) -> Option<f64> {
    match cell.parse::<f64>() {
        Ok(ns) if ns.abs() >= 1e14 && ns.is_finite() => Some(ns / 1e9),
        Ok(s) => s.is_finite().then_some(s),
        Err(_) => instant(cell).ok().map(|utc| utc.unix_ns() as f64 / 1e9),
    }
}

/// One row.
#[derive(Default)]
struct Row {
    t_s: Option<f64>,
    arrival_s: Option<f64>,
    number: Option<u64>,
    fate: Option<String>,
    rtt_ms: Option<f64>,
    up_ms: Option<f64>,
    down_ms: Option<f64>,
    up_mbps: Option<f64>,
    down_mbps: Option<f64>,
}

impl Row {
    /// Reads a line. An empty cell is a value that was not measured.
    fn read(line: &str, columns: &[Option<(Column, f64)>]) -> Result<Row, String> {
        let mut row = Row::default();
        for (cell, column) in line.split(',').zip(columns) {
            let (cell, Some((column, factor))) = (cell.trim().trim_matches('"'), *column) else {
                continue;
            };
            if cell.is_empty() {
                continue;
            }
            let shown = || {
                format!(
                    "`{}`",
                    cell.chars().take(40).collect::<String>().escape_debug()
                )
            };
            let number = || -> Result<f64, String> {
                let value = cell.parse::<f64>().ok().filter(|v| v.is_finite());
                value
                    .map(|v| v * factor)
                    .ok_or_else(|| format!("{} is no number", shown()))
            };
            let time = || seconds(cell).ok_or_else(|| format!("{} is no time", shown()));
            match column {
                Column::Time => row.t_s = Some(time()?),
                Column::Arrival => row.arrival_s = Some(time()?),
                Column::Number => {
                    let number = cell.parse::<u64>();
                    row.number =
                        Some(number.map_err(|_| format!("{} is no whole number", shown()))?);
                }
                Column::Fate => row.fate = Some(cell.to_owned()),
                Column::Rtt => row.rtt_ms = Some(number()?),
                Column::Up => row.up_ms = Some(number()?),
                Column::Down => row.down_ms = Some(number()?),
                Column::UpRate => row.up_mbps = Some(number()?),
                Column::DownRate => row.down_mbps = Some(number()?),
            }
        }
        Ok(row)
    }
}

/// Reads a table. A probe is lost if its round-trip time is negative (LENS), or if it is empty and its fate is `lost` or
/// `unsent`. With a column of numbers, missing numbers are lost probes as well.
///
/// # Errors
/// A first line without a time and a value; each row that is wrong.
pub(super) fn read(text: &str) -> Result<Series, Vec<TraceError>> {
    let mut lines = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty());
    let Some((_, head)) = lines.next() else {
        return Err(errors::one(1, "the file is empty"));
    };
    let columns = columns(head);
    let has = |wanted: &[Column]| {
        columns
            .iter()
            .flatten()
            .any(|(column, _)| wanted.contains(column))
    };
    let values = [
        Column::Rtt,
        Column::Up,
        Column::Down,
        Column::UpRate,
        Column::DownRate,
    ];
    if !has(&[Column::Time, Column::Arrival]) || !has(&values) {
        let names: Vec<&str> = COLUMNS.iter().map(|(name, ..)| *name).collect();
        return Err(errors::one(
            1,
            format!(
                "no recording that is known: neither `ping -D`, irtt's JSON, Mahimahi, nor a CSV whose first line names a \
                 time and a value; names: {}",
                names.join(", ")
            ),
        ));
    }
    let mut errors = Errors::default();
    let mut series = Series::default();
    let mut numbered = Vec::new();
    for (count, (index, line)) in lines.enumerate() {
        if count == MOST_ROWS {
            errors.push(index + 1, format!("more than {MOST_ROWS} rows"));
            break;
        }
        let row = match Row::read(line, &columns) {
            Ok(row) => row,
            Err(message) => {
                errors.push(index + 1, message);
                continue;
            }
        };
        let sent_s = row
            .arrival_s
            .zip(row.rtt_ms)
            .map(|(at_s, rtt_ms)| at_s - rtt_ms / 1e3);
        let Some(t_s) = row.t_s.or(sent_s) else {
            errors.push(index + 1, "no time");
            continue;
        };
        let answered = row.rtt_ms.filter(|rtt_ms| *rtt_ms >= 0.0);
        let is_lost = row.rtt_ms.is_some_and(|rtt_ms| rtt_ms < 0.0)
            || matches!(row.fate.as_deref(), Some("lost" | "unsent"));
        match (row.number, answered) {
            (Some(number), Some(rtt_ms)) => numbered.push((number, t_s, rtt_ms)),
            (None, Some(_)) => series.probes.push(Probe {
                t_s,
                rtt_ms: answered,
            }),
            (None, None) if is_lost => series.probes.push(Probe { t_s, rtt_ms: None }),
            // A lost probe with a number is found by the gap in the numbers.
            _ => {}
        }
        let positive = |value: Option<f64>| value.filter(|v| *v >= 0.0).map(|v| (t_s, v));
        series.up_ms.extend(positive(row.up_ms));
        series.down_ms.extend(positive(row.down_ms));
        series.up_mbps.extend(positive(row.up_mbps));
        series.down_mbps.extend(positive(row.down_mbps));
    }
    series.probes.extend(with_losses(numbered));
    let found = [
        &series.up_ms,
        &series.down_ms,
        &series.up_mbps,
        &series.down_mbps,
    ];
    if series.probes.is_empty() && found.iter().all(|values| values.is_empty()) {
        errors.push(text.lines().count() + 1, "no row with a value");
    }
    errors.or(series)
}

#[cfg(test)]
mod tests {
    use super::super::read;

    #[test]
    fn wetlinks_and_the_road_have_dates() {
        let text = "timestamp_start,timestamp_end,server,download,upload,download_mbps,upload_mbps\n\
            2024-01-11 10:06:39,2024-01-11 10:06:40,131.173.23.81,101856000,7448000,101.856,7.448\n";
        let series = read(text).unwrap();
        let (t_s, mbps) = series.down_mbps[0];
        assert!(t_s == 1_704_967_599.0 && (mbps - 101.856).abs() < 1e-9);
        assert!((series.up_mbps[0].1 - 7.448).abs() < 1e-9);
        let pings = "timestamp_start,target,ping_avg\n2024-01-11 09:43:20,131.173.23.81,57.737\n";
        assert_eq!(read(pings).unwrap().rtts(), [(1_704_966_200.0, 57.737)]);
    }

    #[test]
    fn lens_marks_losses_by_minus_one() {
        let text = "timestamp,rtt,uplink,downlink\n1700000000000000000,31.5,20.5,11\n1700000000010000000,-1,0,0\n";
        let series = read(text).unwrap();
        assert_eq!(series.probes.len(), 2);
        assert_eq!(series.probes[1].rtt_ms, None);
        assert_eq!(series.up_ms[0], (1.7e9, 20.5));
    }

    #[test]
    fn flows_of_a_run_have_fates() {
        let text = "t_s,rtt_us,owd_us,owd_back_us,throughput_bps,fate,path,marked\n\
            0.5,20000.000,12000.000,8000.000,,ok,1,\n0.6,,,,,lost,1,\n0.7,,,,,under-way,1,\n";
        let series = read(text).unwrap();
        assert_eq!(series.probes.len(), 2);
        assert_eq!(series.probes[0].rtt_ms, Some(20.0));
        assert_eq!(series.down_ms, [(0.5, 8.0)]);
    }

    #[test]
    fn numbers_show_losses() {
        let text = "received_unix_s,sequence,rtt_ms\n100.03,1,30\n100.33,4,30\n";
        let series = read(text).unwrap();
        assert_eq!(series.probes.len(), 4);
        assert!((series.probes[1].t_s - 100.1).abs() < 1e-9);
    }

    #[test]
    fn wrong_rows_are_named() {
        let text = "t_s,rtt_ms\n0,1\nnow,2\n1,fast\n2,3\n,4\n";
        let lines: Vec<u32> = read(text).unwrap_err().iter().map(|e| e.line).collect();
        assert_eq!(lines, [3, 4, 6]);
        assert!(
            read("a,b\n1,2\n").unwrap_err()[0]
                .message
                .contains("rtt_ms")
        );
        assert_eq!(read("t_s,rtt_ms\n").unwrap_err()[0].line, 2);
    }
}
