//! Recordings of other tools, read as a [`Series`], and series written as the files that links replay.
//!
//! | format | recognised by |
//! |---|---|
//! | `ping -D` of iputils; LENS | a line that begins with `PING` or `[` |
//! | irtt's JSON; LENS | `{` at the beginning |
//! | Mahimahi | numbers only |
//! | CSV: WetLinks, Starlink on the Road, LENS, flows of a run | names in the first line |
//!
//! ```
//! use constel_measure::recording;
//!
//! let series = recording::read("timestamp,rtt\n1700000000.5,31.2\n1700000000.6,-1\n").unwrap();
//! assert_eq!(series.probes.len(), 2);
//! assert_eq!(series.rtts(), [(1700000000.5, 31.2)]);
//! ```

mod errors;
mod irtt;
mod ping;
mod replay;
mod table;

use constel_link::trace::{self, TraceError};
use constel_link::{OPPORTUNITY_BYTES, RateLaw};

use crate::compare::Series;

pub use replay::{Replay, Way};

/// Bins in which delivery opportunities are counted, milliseconds.
const BIN_MS: u32 = 100;

/// Longest trace of delivery opportunities, milliseconds: a week.
const MOST_MS: u32 = 7 * 24 * 3_600_000;

/// Reads a recording. Times are seconds since the Unix epoch, or those of the file if it has no date.
///
/// # Errors
/// Each line that is wrong, up to twenty; a file in another format.
pub fn read(text: &str) -> Result<Series, Vec<TraceError>> {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty());
    match first {
        Some(line) if line.starts_with('{') => irtt::read(text),
        Some(line) if line.starts_with('[') || line.starts_with("PING ") => ping::read(text),
        Some(line) if line.bytes().all(|b| b.is_ascii_digit()) => mahimahi(text),
        Some(_) => table::read(text),
        None => Err(errors::one(1, "the file is empty")),
    }
}

/// Counts a trace's opportunities in bins. The direction of such a trace is not part of the file; it is taken as up.
fn mahimahi(text: &str) -> Result<Series, Vec<TraceError>> {
    let RateLaw::Opportunities { batches, .. } = trace::mahimahi(text)? else {
        return Ok(Series::default());
    };
    if let Some(&(ms, _)) = batches.last()
        && ms > MOST_MS
    {
        let line = text.trim_end().lines().count();
        let message = format!("an opportunity at {ms} ms: at most {MOST_MS} ms (a week) are read");
        return Err(errors::one(line, message));
    }
    let mut up_mbps: Vec<(f64, f64)> = Vec::new();
    for &(ms, count) in batches.iter() {
        // An opportunity at 100 ms is the last one of the first bin.
        let bin = ms.saturating_sub(1) / BIN_MS;
        let from_s = f64::from(bin * BIN_MS) / 1e3;
        let mbps = f64::from(count) * f64::from(OPPORTUNITY_BYTES) * 8.0 / f64::from(BIN_MS) / 1e3;
        while up_mbps.len() <= bin as usize {
            up_mbps.push((up_mbps.len() as f64 * f64::from(BIN_MS) / 1e3, 0.0));
        }
        debug_assert!((up_mbps[bin as usize].0 - from_s).abs() < 1e-6);
        up_mbps[bin as usize].1 += mbps;
    }
    Ok(Series {
        up_mbps,
        ..Series::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn opportunities_become_rates() {
        let series = read("1\n100\n101\n301\n").unwrap();
        let rate = 1504.0 * 8.0 / 100.0 / 1e3;
        assert_eq!(
            series.up_mbps,
            [(0.0, 2.0 * rate), (0.1, rate), (0.2, 0.0), (0.3, rate)]
        );
    }

    #[test]
    fn a_trace_of_weeks_is_refused_at_its_line_and_instant_zero_is_in_the_first_bin() {
        let errors = read("1\n1\n4294967295\n").unwrap_err();
        assert_eq!(errors[0].line, 3);
        assert!(errors[0].message.contains("a week"), "{errors:?}");
        assert_eq!(read("0\n100\n").unwrap().up_mbps.len(), 1);
    }

    #[test]
    fn an_empty_file_is_an_error() {
        assert_eq!(read("\n \n").unwrap_err()[0].line, 1);
    }

    proptest! {
        /// For all texts: a series or errors, never a panic.
        #[test]
        fn any_text_has_an_answer(
            head in prop_oneof![
                Just("timestamp,rtt\n"), Just("t_s,rtt_us,fate\n"), Just("{\"round_trips\":["), Just("PING x\n"), Just("1\n"), Just("")
            ],
            rest in "([\\[\\]{}a-z0-9.,:=-]{0,20}\n){0,8}",
        ) {
            let _ = read(&format!("{head}{rest}"));
        }
    }
}
