//! The parts of a run's results that statements need.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

use constel_api::summary::{FlowRow, FlowStatus, Summary};
use constel_api::{Event, EventData};
use constel_measure::flows::{Outcome, iperf3_intervals, probe_rows, transfer_intervals};
use constel_measure::probe::row::Row;
use constel_scenario::model::{Name, PrintedClock, PrintedTime, Window};
use constel_units::{Utc, files};

use super::printed;
use crate::error::Error;
use crate::results::Run;

/// The parts of a run's results that statements need.
#[derive(Debug)]
pub struct Evidence {
    /// The run in numbers.
    pub summary: Summary,
    /// The events, in order.
    pub events: Vec<Event>,
    /// The results folder: raw output of its flows is in `flows`.
    pub dir: PathBuf,
}

impl Evidence {
    /// Reads a results folder.
    ///
    /// # Errors
    /// [`Error::NoDocument`] when the run did not finish; [`Error::BadDocument`].
    pub fn read(run: &Run) -> Result<Self, Error> {
        Ok(Self {
            summary: run.summary()?,
            events: run.events()?.collect::<Result<_, _>>()?,
            dir: run.dir().to_owned(),
        })
    }

    pub(super) fn flow(&self, name: &Name) -> Result<&FlowRow, String> {
        let found = self
            .summary
            .flows
            .iter()
            .find(|flow| flow.name == name.as_str());
        found.ok_or_else(|| format!("flow `{name}` did not run"))
    }

    /// Returns a measured value of a flow, or the reason why the flow has none.
    pub(super) fn measured<T>(
        &self,
        name: &Name,
        what: &str,
        of: impl Fn(&Outcome) -> Option<T>,
    ) -> Result<T, String> {
        let flow = self.flow(name)?;
        of(&flow.outcome).ok_or_else(|| {
            let why = match (flow.status, &flow.reason) {
                (FlowStatus::Failed, Some(reason)) => format!(": it failed: {reason}"),
                (FlowStatus::CutShort, _) => ": the run ended first".to_owned(),
                _ => String::new(),
            };
            format!("flow `{name}` measured no {what}{why}")
        })
    }

    fn file(&self, name: &Name, extension: &str) -> PathBuf {
        self.dir.join("flows").join(format!("{name}.{extension}"))
    }

    /// Opens the output of a flow's program.
    fn output(&self, name: &Name) -> Result<BufReader<File>, String> {
        self.flow(name)?;
        let file = self.file(name, "out");
        let opened = files::open(&file).map_err(|error| format!("{}: {error}", file.display()));
        opened.map(BufReader::new)
    }

    /// Returns columns from the output of a flow's program in a part of lab time.
    pub(super) fn printed<const N: usize>(
        &self,
        name: &Name,
        columns: [&str; N],
        time: Option<&PrintedTime>,
        window: Window,
    ) -> Result<Vec<[String; N]>, String> {
        let of_flow = |error: String| format!("flow `{name}`: {error}");
        let Some(time) = time else {
            return printed::columns(self.output(name)?, columns).map_err(of_flow);
        };
        let zero_s = match time.clock {
            PrintedClock::Lab => 0.0,
            PrintedClock::Unix => self.zero_unix_s()?,
        };
        let mut names = vec![time.column.as_str()];
        names.extend(columns);
        let rows = printed::rows(self.output(name)?, &names).map_err(of_flow)?;
        let mut kept = Vec::new();
        for row in rows {
            let mut cells = row.into_iter();
            let text = cells.next().unwrap_or_default();
            let printed_s = text.parse::<f64>().ok().filter(|s| s.is_finite());
            let printed_s = printed_s.ok_or_else(|| {
                of_flow(format!("it printed `{text}` as `{}`: no time", time.column))
            })?;
            if window.has(((printed_s - zero_s) * 1e9).round() as i64) {
                kept.extend(<[String; N]>::try_from(cells.collect::<Vec<_>>()).ok());
            }
        }
        Ok(kept)
    }

    /// Lab time zero in seconds of the Unix epoch, by the event at which the clock started.
    fn zero_unix_s(&self) -> Result<f64, String> {
        let started = |event: &&Event| matches!(event.what, EventData::ClockStarted);
        let event = self.events.iter().find(started);
        let event = event.ok_or("there is no event `clock-started`")?;
        let wall = event.wall.parse::<Utc>();
        let wall = wall.map_err(|error| format!("the time of `clock-started`: {error}"))?;
        let t_s = event.t_ns.unwrap_or(0) as f64 / 1e9;
        Ok(wall.unix_ns() as f64 / 1e9 - t_s)
    }

    /// A flow's probes that were sent in a part of lab time.
    pub(super) fn probes(&self, name: &Name, window: Window) -> Result<Vec<Row>, String> {
        let rows = probe_rows(self.output(name)?).collect::<Result<Vec<_>, _>>();
        let mut rows = rows.map_err(|error| error.to_string())?;
        rows.retain(|row| window.has(i64::try_from(row.sent_ns).unwrap_or(i64::MAX)));
        Ok(rows)
    }

    /// The answers to them.
    pub(super) fn answers(&self, name: &Name, window: Window) -> Result<Vec<Row>, String> {
        let mut rows = self.probes(name, window)?;
        rows.retain(|row| row.fate.is_answer());
        Ok(rows)
    }

    /// Returns a flow's throughput in a part of lab time, from the samples of its tool.
    pub(super) fn throughput_bps(&self, name: &Name, window: Window) -> Result<f64, String> {
        let flow = self.flow(name)?;
        self.measured(name, "throughput", |outcome| outcome.throughput_bps)?;
        let file = self.file(name, "out");
        let text = files::read(&file, files::MAX_TEXT_BYTES)
            .map_err(|error| format!("{}: {error}", file.display()))?;
        let text = String::from_utf8_lossy(&text);
        let pieces = match flow.kind.starts_with("iperf3") {
            true => iperf3_intervals(&text),
            false => transfer_intervals(&text),
        };
        let began_s = flow.at_ns as f64 / 1e9;
        let from_s = window.from.map_or(f64::NEG_INFINITY, |t| t.seconds());
        let until_s = window.until.map_or(f64::INFINITY, |t| t.seconds());
        let (mut bits, mut covered_s) = (0.0, 0.0);
        for piece in pieces {
            let begin_s = (began_s + piece.from_s).max(from_s);
            let shared_s = ((began_s + piece.to_s).min(until_s) - begin_s).max(0.0);
            bits += piece.throughput_bps * shared_s;
            covered_s += shared_s;
        }
        if covered_s <= 0.0 {
            let when = window.in_words();
            return Err(format!("flow `{name}` measured no throughput{when}"));
        }
        Ok(bits / covered_s)
    }

    /// How many of a flow's samples of a part of lab time are marked as late, and how many there are; `None` without samples.
    pub(super) fn marked(&self, name: &Name, window: Window) -> Option<(usize, usize)> {
        let file = files::open(&self.file(name, "csv")).ok()?;
        let rows = printed::columns(BufReader::new(file), ["t_s", "marked"]).ok()?;
        let is_in = |[t_s, _]: &&[String; 2]| {
            let t_s = t_s.parse::<f64>().ok();
            t_s.is_some_and(|t_s| window.has((t_s * 1e9).round() as i64))
        };
        let all = rows.iter().filter(is_in);
        let marked = all.clone().filter(|[_, marked]| marked == "1").count();
        Some((marked, all.count()))
    }
}
