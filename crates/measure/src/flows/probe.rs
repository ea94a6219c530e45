//! Constel's own probes: one row of CSV for each, read one by one.

use std::io::{self, BufRead};

use super::{FlowError, Outcome, Owd, Rtt, line_of};
use crate::probe::row::{Fate, HEADER, Row};
use crate::quantiles::Counted;

const TOOL: &str = "probe";

/// The statistics of a flow of probes. Their memory is bounded, however long the flow runs.
#[derive(Debug, Default)]
pub struct Probed {
    rtt_ns: Counted,
    there_ns: Counted,
    back_ns: Counted,
    answered: u64,
    lost: u64,
    under_way: u64,
    duplicates: u64,
    reordered: u64,
    late: u64,
}

impl Probed {
    /// Counts a row.
    pub fn see(&mut self, row: &Row) {
        match row.fate {
            Fate::Ok => self.answered += 1,
            Fate::Late => {
                self.answered += 1;
                self.late += 1;
            }
            Fate::Reordered => {
                self.answered += 1;
                self.reordered += 1;
            }
            Fate::Duplicate => self.duplicates += 1,
            Fate::Lost | Fate::Unsent => self.lost += 1,
            Fate::UnderWay => self.under_way += 1,
        }
        if row.fate.is_answer() {
            let delays = [row.rtt_ns, row.there_ns, row.back_ns];
            let series = [&mut self.rtt_ns, &mut self.there_ns, &mut self.back_ns];
            for (counted, ns) in series.into_iter().zip(delays) {
                ns.into_iter().for_each(|ns| counted.record(ns));
            }
        }
    }

    /// Returns the flow's row.
    pub fn outcome(&self) -> Outcome {
        let known = self.answered + self.lost;
        let rtt = (self.rtt_ns.count() > 0).then(|| Rtt {
            min_ns: self.rtt_ns.min(),
            p50_ns: self.rtt_ns.quantile(0.50),
            p99_ns: self.rtt_ns.quantile(0.99),
            max_ns: self.rtt_ns.max(),
        });
        Outcome {
            rtt,
            owd: owd(&self.there_ns),
            owd_back: owd(&self.back_ns),
            sent_packets: Some(known + self.under_way),
            in_flight_packets: Some(self.under_way),
            loss_ratio: (known > 0).then(|| self.lost as f64 / known as f64),
            duplicate_packets: Some(self.duplicates),
            reordered_packets: Some(self.reordered),
            late_packets: Some(self.late),
            ..Outcome::default()
        }
    }
}

fn owd(counted: &Counted) -> Option<Owd> {
    (counted.count() > 0).then(|| Owd {
        min_ns: counted.min(),
        mean_ns: counted.mean().round() as u64,
        p50_ns: counted.quantile(0.50),
        p95_ns: counted.quantile(0.95),
        p99_ns: counted.quantile(0.99),
        max_ns: counted.max(),
    })
}

/// Returns the rows of a probe's output. A last line without a line end was being written when the program was
/// killed, and is ignored.
///
/// # Errors
/// Each row may be an error: when the output cannot be read, does not begin with the header, or a line is not a
/// row.
pub fn rows(mut from: impl BufRead) -> impl Iterator<Item = Result<Row, FlowError>> {
    let mut line = Vec::new();
    let mut number = 0_u64;
    std::iter::from_fn(move || {
        loop {
            line.clear();
            let failed = |error: io::Error| FlowError::new(TOOL, error.to_string());
            match line_of(&mut from, &mut line).map_err(failed) {
                Ok(_) if line.last() != Some(&b'\n') => return None,
                Ok(_) => {}
                Err(error) => return Some(Err(error)),
            }
            number += 1;
            let text = String::from_utf8_lossy(&line);
            let text = text.trim_end();
            if number == 1 {
                if text == HEADER {
                    continue;
                }
                return Some(Err(FlowError::new(TOOL, format!("it began with: {text}"))));
            }
            return Some(text.parse().map_err(|error| {
                FlowError::new(TOOL, format!("line {number} is {error}: {text}"))
            }));
        }
    })
}

/// Reads the whole output of a probe.
///
/// # Errors
/// As [`rows`], and when there is not a single row: no probe was sent.
pub fn read(from: impl BufRead) -> Result<Outcome, FlowError> {
    let mut probed = Probed::default();
    let mut any = false;
    for row in rows(from) {
        probed.see(&row?);
        any = true;
    }
    if any {
        Ok(probed.outcome())
    } else {
        Err(FlowError::new(TOOL, "it sent nothing"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(rows: &str) -> String {
        format!("{HEADER}\n{rows}")
    }

    #[test]
    fn every_fate_counts_as_what_it_is() {
        let text = output(
            "1,0.000000000,100.000,50.000,150.000,ok\n3,0.020000000,300.000,52.000,352.000,ok\n\
             2,0.010000000,900.000,51.000,951.000,late\n3,0.020000000,310.000,52.000,362.000,duplicate\n\
             4,0.030000000,,,,lost\n5,0.040000000,,,,unsent\n6,0.050000000,,,,under-way\n7,0.06",
        );
        let outcome = read(text.as_bytes()).unwrap();
        assert_eq!(
            (outcome.sent_packets, outcome.in_flight_packets),
            (Some(6), Some(1))
        );
        assert_eq!(
            (outcome.duplicate_packets, outcome.reordered_packets),
            (Some(1), Some(0))
        );
        assert_eq!(outcome.late_packets, Some(1));
        assert_eq!(outcome.loss_ratio, Some(0.4));
        let rtt = outcome.rtt.unwrap();
        assert_eq!(
            (rtt.min_ns, rtt.p50_ns, rtt.max_ns),
            (150_000, 352_000, 951_000)
        );
        let (there, back) = (outcome.owd.unwrap(), outcome.owd_back.unwrap());
        assert_eq!((there.max_ns, there.p95_ns), (900_000, 900_000));
        assert_eq!((back.mean_ns, back.p50_ns), (51_000, 51_000));
    }

    #[test]
    fn other_output_is_an_error() {
        assert!(read(&b""[..]).is_err());
        assert!(read(output("").as_bytes()).is_err());
        let endless = read(io::BufReader::new(io::repeat(b'1'))).unwrap_err();
        assert!(
            endless.to_string().contains("a line of more than"),
            "{endless}"
        );
        let error = read(&b"PING 10.0.0.2\n"[..]).unwrap_err();
        assert!(error.reason.contains("PING"), "{error}");
        let error = read(output("1,0.000000000,,,,lost\n1,2\n").as_bytes()).unwrap_err();
        assert!(error.reason.contains("line 3"), "{error}");
    }

    proptest::proptest! {
        #[test]
        fn never_panics(text in "\\PC*") {
            let _ = read(output(&text).as_bytes());
        }
    }
}
