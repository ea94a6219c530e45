//! The results that both ends of a transfer print at the end, as one line of JSON.

use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::transfer::record::{Arrived, Checker, RECORD_BYTES};
use crate::transfer::{FetchLimits, TransferError, mono_ns};

/// The results of the receiver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Received {
    /// `leotp`, `tcp` or `vivace`.
    pub transport: String,
    /// The bytes that the application could read.
    pub bytes: u64,
    /// The time from the first request to the last byte, or to the time limit.
    pub seconds: f64,
    /// `bytes` divided by `seconds`, bit/s.
    pub throughput_bps: f64,
    /// The time from the first request to the first byte.
    pub first_byte_s: Option<f64>,
    /// One-way delays of records, from first sending to reading; `None` if the two ends have different clocks.
    pub owd: Option<Delays>,
    /// The number of whole records received.
    pub records: u64,
    /// The number of records that differ from what was sent.
    pub damaged: u64,
    /// The length of each of `intervals`, seconds.
    pub interval_s: f64,
    /// The transfer in intervals of equal length.
    pub intervals: Vec<Interval>,
    /// Details that the transport adds.
    pub detail: serde_json::Value,
}

/// Delays, nanoseconds; quantiles are nearest ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delays {
    /// The number of records.
    pub count: u64,
    /// The smallest delay.
    pub min_ns: u64,
    /// The arithmetic mean.
    pub mean_ns: u64,
    /// The median: half of the records took no longer.
    pub p50_ns: u64,
    /// 95th percentile.
    pub p95_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// The largest delay.
    pub max_ns: u64,
}

/// One interval of a transfer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interval {
    /// The bytes that could be read.
    pub bytes: u64,
    /// The mean one-way delay of the records in the interval, nanoseconds; 0 without records.
    pub owd_mean_ns: u64,
    /// The largest one-way delay of these records.
    pub owd_max_ns: u64,
}

/// The results of the sender.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sent {
    /// `leotp`, `tcp` or `vivace`.
    pub transport: String,
    /// The payload bytes handed to the network; retransmitted bytes count each time.
    pub sent_bytes: u64,
    /// The packets that carried them; for TCP segments.
    pub sent_packets: u64,
    /// The payload bytes that were retransmitted.
    pub again_bytes: u64,
    /// Details that the transport adds.
    pub detail: serde_json::Value,
}

impl Sent {
    /// Returns empty results for the transport of that name.
    pub(crate) fn nothing(transport: &str) -> Self {
        Self {
            transport: transport.to_owned(),
            sent_bytes: 0,
            sent_packets: 0,
            again_bytes: 0,
            detail: serde_json::Value::Null,
        }
    }
}

impl Delays {
    /// Sorts `delays` and reads the quantiles; `None` for an empty list.
    pub fn of(delays: &mut [u64]) -> Option<Self> {
        delays.sort_unstable();
        let (first, last) = (delays.first()?, delays.last()?);
        let rank = |percent: usize| delays[(delays.len() * percent).div_ceil(100).max(1) - 1];
        let sum: u128 = delays.iter().map(|&d| u128::from(d)).sum();
        Some(Self {
            count: delays.len() as u64,
            min_ns: *first,
            mean_ns: (sum / delays.len() as u128) as u64,
            p50_ns: rank(50),
            p95_ns: rank(95),
            p99_ns: rank(99),
            max_ns: *last,
        })
    }
}

/// The options of a receiver's measurement.
#[derive(Debug, Clone, Copy)]
pub struct Measure<'a> {
    /// The length of the report's intervals, nanoseconds.
    pub interval_ns: u64,
    /// The CSV file for each record's times.
    pub records: Option<&'a Path>,
    /// Whether the sender is on another machine, with another clock: then there are no one-way delays.
    pub apart: bool,
}

/// The measurements of a receiver, while it runs.
#[derive(Debug)]
pub struct Receiver<'a> {
    transport: &'static str,
    goal: FetchLimits,
    measure: Measure<'a>,
    started_ns: u64,
    first_ns: Option<u64>,
    last_ns: u64,
    bytes: u64,
    checker: Checker,
    arrived: Vec<Arrived>,
    per_interval: Vec<u64>,
}

impl<'a> Receiver<'a> {
    /// Starts the clock.
    pub fn start(transport: &'static str, goal: FetchLimits, measure: Measure<'a>) -> Self {
        let interval_ns = measure.interval_ns.max(1);
        Self {
            transport,
            goal,
            measure: Measure {
                interval_ns,
                ..measure
            },
            started_ns: mono_ns(),
            first_ns: None,
            last_ns: 0,
            bytes: 0,
            checker: Checker::default(),
            arrived: Vec::new(),
            per_interval: Vec::new(),
        }
    }

    /// Takes the stream's next bytes, just read.
    pub fn take(&mut self, bytes: &[u8]) {
        let now_ns = mono_ns();
        self.first_ns.get_or_insert(now_ns);
        self.last_ns = now_ns;
        self.bytes += bytes.len() as u64;
        let slot = ((now_ns - self.started_ns) / self.measure.interval_ns) as usize;
        if slot >= self.per_interval.len() {
            self.per_interval.resize(slot + 1, 0);
        }
        self.per_interval[slot] += bytes.len() as u64;
        let arrived = &mut self.arrived;
        self.checker
            .take(now_ns, bytes, |record| arrived.push(record));
    }

    /// Returns whether enough has arrived or the time is over.
    pub fn is_over(&self) -> bool {
        self.goal.met(self.bytes) || self.left_ns() == 0
    }

    /// Returns the remaining time.
    pub fn left_ns(&self) -> u64 {
        let end = self.started_ns + self.goal.time.as_nanos() as u64;
        end.saturating_sub(mono_ns())
    }

    /// Returns the results. Writes each record's times if a file was given.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn finish(mut self, detail: serde_json::Value) -> Result<Received, TransferError> {
        if let Some(path) = self.measure.records {
            let written = self.write_csv(path);
            written.map_err(TransferError::io(format!("write {}", path.display())))?;
        }
        let end_ns = if self.goal.met(self.bytes) {
            self.last_ns
        } else {
            mono_ns()
        };
        let seconds = (end_ns - self.started_ns) as f64 / 1e9;
        let intervals = self.intervals(end_ns);
        let delays = self
            .arrived
            .iter()
            .filter_map(|record| self.delay_ns(record));
        let mut delays: Vec<u64> = delays.collect();
        self.arrived.clear();
        Ok(Received {
            transport: self.transport.to_owned(),
            bytes: self.bytes,
            seconds,
            throughput_bps: self.bytes as f64 * 8.0 / seconds.max(1e-9),
            first_byte_s: self.first_ns.map(|ns| (ns - self.started_ns) as f64 / 1e9),
            owd: Delays::of(&mut delays),
            records: self.checker.records(),
            damaged: self.checker.damaged(),
            interval_s: self.measure.interval_ns as f64 / 1e9,
            intervals,
            detail,
        })
    }

    fn intervals(&self, end_ns: u64) -> Vec<Interval> {
        let count = (end_ns - self.started_ns).div_ceil(self.measure.interval_ns) as usize;
        let mut sums = vec![(0u64, 0u64, 0u64); count.max(self.per_interval.len())];
        for record in &self.arrived {
            let slot = ((record.received_ns - self.started_ns) / self.measure.interval_ns) as usize;
            let (number, sum, max) = &mut sums[slot];
            let Some(delay) = self.delay_ns(record) else {
                continue;
            };
            (*number, *sum, *max) = (*number + 1, *sum + delay, (*max).max(delay));
        }
        let bytes = self
            .per_interval
            .iter()
            .copied()
            .chain(std::iter::repeat(0));
        sums.iter()
            .zip(bytes)
            .map(|((number, sum, max), bytes)| Interval {
                bytes,
                owd_mean_ns: sum.checked_div(*number).unwrap_or(0),
                owd_max_ns: *max,
            })
            .collect()
    }

    fn delay_ns(&self, record: &Arrived) -> Option<u64> {
        let delay_ns = record.received_ns.saturating_sub(record.sent_ns);
        (!self.measure.apart).then_some(delay_ns)
    }

    fn write_csv(&self, path: &Path) -> std::io::Result<()> {
        let mut out = std::io::BufWriter::new(std::fs::File::create(path)?);
        writeln!(out, "record,offset_bytes,received_s,owd_ns")?;
        for record in &self.arrived {
            let offset = record.number * RECORD_BYTES as u64;
            let at = record.received_ns.saturating_sub(self.started_ns) as f64 / 1e9;
            let owd_ns = self.delay_ns(record);
            let owd_ns = owd_ns.map_or_else(String::new, |ns| ns.to_string());
            writeln!(out, "{},{offset},{at:.9},{owd_ns}", record.number)?;
        }
        out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_nearest() {
        let mut delays: Vec<u64> = (1..=200).rev().collect();
        let d = Delays::of(&mut delays).unwrap();
        assert_eq!(
            (d.min_ns, d.p50_ns, d.p95_ns, d.p99_ns, d.max_ns, d.mean_ns),
            (1, 100, 190, 198, 200, 100)
        );
        assert_eq!(Delays::of(&mut []), None);
    }

    #[test]
    fn the_clock_of_another_machine_makes_no_delays() {
        let folder = tempfile::tempdir().unwrap();
        let records = folder.path().join("records.csv");
        let mut owds = Vec::new();
        for apart in [false, true] {
            let goal = FetchLimits {
                bytes: None,
                time: std::time::Duration::from_secs(9),
            };
            let measure = Measure {
                interval_ns: 1_000_000_000,
                records: Some(&records),
                apart,
            };
            let mut receiver = Receiver::start("tcp", goal, measure);
            let mut record = [0; RECORD_BYTES];
            crate::transfer::record::write(0, 1, &mut record);
            receiver.take(&record);
            let received = receiver.finish(serde_json::Value::Null).unwrap();
            assert_eq!((received.records, received.damaged), (1, 0));
            let text = std::fs::read_to_string(&records).unwrap();
            let told = !text.lines().nth(1).unwrap().ends_with(',');
            owds.push((
                received.owd.is_some(),
                received.intervals[0].owd_mean_ns > 0,
                told,
            ));
        }
        assert_eq!(owds, [(true, true, true), (false, false, false)]);
    }
}
