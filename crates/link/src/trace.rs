//! Parsers of recordings: Mahimahi's delivery opportunities, rates as CSV, delays, losses. The functions are pure.
//! Errors name every wrong line.

use thiserror::Error;

use crate::rate::{MAX_BPS, RateLaw, SLOT_NS};

/// Largest number of reported errors.
const MOST_ERRORS: usize = 20;

/// Error in a line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {message}")]
pub struct TraceError {
    /// Line number from 1; one more than the last line if the end of the file is missing something.
    pub line: u32,
    /// Description of the error.
    pub message: String,
}

struct Errors(Vec<TraceError>);

impl Errors {
    fn push(&mut self, line: usize, message: impl Into<String>) {
        if self.0.len() < MOST_ERRORS {
            self.0.push(TraceError {
                line: u32::try_from(line).unwrap_or(u32::MAX),
                message: message.into(),
            });
        }
    }

    fn or<T>(self, value: T) -> Result<T, Vec<TraceError>> {
        if self.0.is_empty() {
            Ok(value)
        } else {
            Err(self.0)
        }
    }
}

/// Iterates over non-empty lines with their numbers; `#` begins a comment.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().filter_map(|(index, line)| {
        let line = line.split('#').next().unwrap_or("").trim();
        (!line.is_empty()).then_some((index + 1, line))
    })
}

fn end(text: &str) -> usize {
    text.lines().count() + 1
}

/// Parses a Mahimahi trace: each line is the millisecond of a delivery opportunity of 1504 bytes, in rising order.
/// After the last one the trace starts again; an opportunity at 0 is one at the end.
///
/// # Errors
/// Every line that is not a number or falls; a trace without duration or opportunities.
pub fn mahimahi(text: &str) -> Result<RateLaw, Vec<TraceError>> {
    let mut errors = Errors(Vec::new());
    let mut batches: Vec<(u32, u32)> = Vec::new();
    let mut before = 0;
    for (line, word) in lines(text) {
        let Ok(ms) = word.parse::<u32>() else {
            errors.push(
                line,
                format!("`{}` is no whole number of ms", word.escape_debug()),
            );
            continue;
        };
        if ms < before {
            errors.push(line, format!("{ms} ms comes after {before} ms"));
            continue;
        }
        before = ms;
        match batches.last_mut() {
            Some((last, count)) if *last == ms => *count = count.saturating_add(1),
            _ => batches.push((ms, 1)),
        }
    }
    // In Mahimahi a trace starts again at its last instant, so 0 and the end are the same instant of two rounds.
    if batches.first().is_some_and(|b| b.0 == 0) {
        let (_, at_start) = batches.remove(0);
        match batches.last_mut() {
            Some((_, count)) => *count = count.saturating_add(at_start),
            None => errors.push(
                end(text),
                "all opportunities are at 0 ms: the trace has no length",
            ),
        }
    } else if batches.is_empty() && errors.0.is_empty() {
        errors.push(end(text), "no delivery opportunity");
    }
    errors.or(RateLaw::Opportunities {
        batches: batches.into(),
        origin_ns: 0,
    })
}

/// Returns the units of the two columns of a CSV header, as factors to nanoseconds and bit/s.
fn columns(header: &str) -> Option<(f64, f64)> {
    // Quotes and letter case are the writing tool's.
    let header = header.replace('"', "").to_ascii_lowercase();
    let (time, rate) = header.split_once(',')?;
    let time = match time.trim() {
        "t_s" => 1e9,
        "t_ms" => 1e6,
        _ => return None,
    };
    let rate = match rate.trim() {
        "rate_bps" => 1.0,
        "rate_kbps" => 1e3,
        "rate_mbps" => 1e6,
        "rate_gbps" => 1e9,
        _ => return None,
    };
    Some((time, rate))
}

/// Parses rates as CSV: a header `t_s` or `t_ms`, a comma, and `rate_bps`, `rate_kbps`, `rate_mbps` or `rate_gbps`;
/// then on each line a time and the rate from it on. The first time is 0. With `again`, the recording starts again
/// after the last rate has lasted as long as the one before.
///
/// # Errors
/// Every line that is wrong.
pub fn rate_csv(text: &str, again: bool) -> Result<RateLaw, Vec<TraceError>> {
    let mut errors = Errors(Vec::new());
    let mut rows = lines(text);
    let header = rows.next();
    let Some((time_unit, rate_unit)) = header.and_then(|(_, line)| columns(line)) else {
        errors.push(
            header.map_or(1, |(line, _)| line),
            "the header names the units: `t_s` or `t_ms`, a comma, and `rate_bps`, `rate_kbps`, \
             `rate_mbps` or `rate_gbps`",
        );
        return Err(errors.0);
    };
    let mut steps: Vec<(u64, u64)> = Vec::new();
    for (line, row) in rows {
        let number = |word: &str, unit: f64, most: u64| {
            let value = word.trim().parse::<f64>().ok().map(|v| (v * unit).round());
            // `parse` accepts "nan" and "inf", which no range contains.
            let fits = value.filter(|v| (0.0..=most as f64).contains(v));
            fits.map(|v| v as u64)
        };
        let values = row.split_once(',').and_then(|(t, rate)| {
            // No lab lasts longer than a year; the bound keeps the arithmetic far from overflow.
            let t = number(t, time_unit, 31_536_000_000_000_000)?;
            Some((t, number(rate, rate_unit, MAX_BPS)?))
        });
        let Some((t, bps)) = values else {
            errors.push(
                line,
                format!(
                    "`{}` is not a time up to a year and a rate up to 1 Tbit/s",
                    row.escape_debug()
                ),
            );
            continue;
        };
        match steps.last() {
            // The row is kept: the rows behind it are checked against it, so the error is reported only once.
            None if t != 0 => errors.push(line, "the first time is not 0"),
            Some(last) if t < last.0.saturating_add(SLOT_NS) => {
                errors.push(line, "less than 1 ms after the line before");
                continue;
            }
            _ => {}
        }
        steps.push((t, bps));
    }
    if steps.is_empty() && errors.0.is_empty() {
        errors.push(end(text), "no rate");
    }
    let period_ns = match steps[..] {
        [.., (before, _), (last, _)] if again => Some(last + (last - before)),
        _ => None,
    };
    errors.or(RateLaw::Steps {
        steps: steps.into(),
        period_ns,
        origin_ns: 0,
    })
}

/// Parses a recording of delays at a constant interval: milliseconds on each line, decimals allowed, up to 60,000.
/// Returns nanoseconds.
///
/// # Errors
/// Every line that is wrong; an empty recording.
pub fn delays_ms(text: &str) -> Result<Vec<i64>, Vec<TraceError>> {
    let mut errors = Errors(Vec::new());
    let mut delays = Vec::new();
    for (line, word) in lines(text) {
        match word.parse::<f64>() {
            Ok(ms) if (0.0..=60_000.0).contains(&ms) => delays.push((ms * 1e6).round() as i64),
            _ => errors.push(
                line,
                format!("`{}` is no delay from 0 to 60000 ms", word.escape_debug()),
            ),
        }
    }
    if delays.is_empty() && errors.0.is_empty() {
        errors.push(end(text), "no delay");
    }
    errors.or(delays)
}

/// Parses a recording of losses: 0 (arrived) or 1 (lost) on each line.
///
/// # Errors
/// Every line that is wrong; an empty recording.
pub fn losses(text: &str) -> Result<Vec<bool>, Vec<TraceError>> {
    let mut errors = Errors(Vec::new());
    let mut lost = Vec::new();
    for (line, word) in lines(text) {
        match word {
            "0" => lost.push(false),
            "1" => lost.push(true),
            _ => errors.push(
                line,
                format!(
                    "`{}` is neither 0 (arrived) nor 1 (lost)",
                    word.escape_debug()
                ),
            ),
        }
    }
    if lost.is_empty() && errors.0.is_empty() {
        errors.push(end(text), "no frame");
    }
    errors.or(lost)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bad<T: std::fmt::Debug>(result: Result<T, Vec<TraceError>>) -> Vec<u32> {
        result.unwrap_err().into_iter().map(|e| e.line).collect()
    }

    #[test]
    fn mahimahi_traces_are_counted_by_millisecond() {
        let law = mahimahi("0\n2\n2\n\n5 # end\n").unwrap();
        let RateLaw::Opportunities { batches, .. } = law else {
            panic!("another law");
        };
        assert_eq!(batches[..], [(2, 2), (5, 2)]);
        assert_eq!(bad(mahimahi("1\nx\n3\n2\n-1\n")), [2, 4, 5]);
        assert_eq!(bad(mahimahi("0\n0\n")), [3]);
        assert_eq!(bad(mahimahi("# nothing\n")), [2]);
    }

    #[test]
    fn rates_have_units() {
        let law = rate_csv("\"T_s\",\"Rate_Mbps\"\n0, 10\n0.5,2.5\n", true).unwrap();
        let expected = RateLaw::Steps {
            steps: [(0, 10_000_000), (500_000_000, 2_500_000)]
                .as_slice()
                .into(),
            period_ns: Some(1_000_000_000),
            origin_ns: 0,
        };
        assert_eq!(law, expected);
        assert_eq!(bad(rate_csv("t,rate\n0,1\n", true)), [1]);
        assert_eq!(bad(rate_csv("\n", true)), [1]);
        assert_eq!(bad(rate_csv("t_s,rate_bps\n", true)), [2]);
        let text = "t_ms,rate_kbps\n1,5\n2,x\n3,-1\n2,7\n1e99,5\n2.5,NaN\n";
        assert_eq!(bad(rate_csv(text, false)), [2, 3, 4, 6, 7]);
    }

    #[test]
    fn delays_and_losses() {
        assert_eq!(delays_ms("12\n0.5\n").unwrap(), [12_000_000, 500_000]);
        assert_eq!(bad(delays_ms("1\n-1\ninf\n60001\n")), [2, 3, 4]);
        assert_eq!(losses("0\n1\n").unwrap(), [false, true]);
        assert_eq!(bad(losses("0\n2\n")), [2]);
        assert_eq!(bad(losses("")), [1]);
    }

    proptest! {
        /// For all texts: a result, and an accepted text is a valid law.
        #[test]
        fn any_text_has_an_answer(
            head in prop_oneof![Just("t_s,rate_mbps\n"), Just("t_ms,rate_bps\n"), Just("")],
            rest in "([0-9]{0,4}[,. #x-]?[0-9]{0,3}\n){0,12}",
        ) {
            let text = format!("{head}{rest}");
            for law in [mahimahi(&text), rate_csv(&text, true), rate_csv(&text, false)].into_iter().flatten() {
                let mut errors = Vec::new();
                law.check(&mut errors);
                // Slow ones are the only thing left to be found.
                prop_assert!(errors.iter().all(|e| e.contains("in the long run")), "{:?}", errors);
            }
            let _ = (delays_ms(&text), losses(&text));
        }
    }
}
