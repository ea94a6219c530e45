//! A recording as the files that a link replays: `delay_trace`, `rate_law: {csv}` and `loss_law: {trace}`.

use std::fmt::Write as _;

use crate::compare::{Series, Values};

/// Longest delay that a trace may have, milliseconds (`constel_link::trace::delays_ms`).
const MOST_DELAY_MS: f64 = 60_000.0;
/// Largest number of lines of a trace of delays.
const MOST_LINES: f64 = 10_000_000.0;

/// The direction of an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From terminal to network.
    Up,
    /// From network to terminal.
    Down,
}

/// Files for an edge. A file that the recording has no values for is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Replay {
    /// Delays at a constant interval, milliseconds in each line.
    pub delays: Option<String>,
    /// Rates from their instants on: CSV with `t_s,rate_mbps`.
    pub rates: Option<String>,
    /// Losses of the probes in order, 0 or 1 in each line.
    pub losses: Option<String>,
    /// Facts that a user must know about these files.
    pub notes: Vec<String>,
}

impl Replay {
    /// Returns the files of one direction. Delays are held from one value to the next, and sampled each `interval_s`. If
    /// the recording has no one-way delays, they are half of the round-trip times.
    ///
    /// # Errors
    /// A message if the recording has nothing for this direction, is too long for this interval, or has a delay above 60 s.
    pub fn of(series: &Series, way: Way, interval_s: f64) -> Result<Replay, String> {
        let (delays, rates) = match way {
            Way::Up => (&series.up_ms, &series.up_mbps),
            Way::Down => (&series.down_ms, &series.down_mbps),
        };
        let mut replay = Replay::default();
        let halves: Values = series
            .rtts()
            .iter()
            .map(|(t_s, ms)| (*t_s, ms / 2.0))
            .collect();
        let delays = match delays.is_empty() {
            true => &halves,
            false => delays,
        };
        if !delays.is_empty() {
            if std::ptr::eq(delays, &halves) {
                replay.notes.push(
                    "delays are half of the round-trip times: the recording has no one-way delays"
                        .into(),
                );
            }
            replay.delays = Some(sampled(delays, interval_s)?);
        }
        if !rates.is_empty() {
            replay.rates = Some(steps(rates));
        }
        let lost = series.probes.iter().filter(|p| p.rtt_ms.is_none()).count();
        if lost > 0 {
            let lines = series
                .probes
                .iter()
                .map(|p| if p.rtt_ms.is_none() { "1\n" } else { "0\n" });
            replay.losses = Some(lines.collect());
            replay.notes.push(
                "the trace of losses counts frames, not time: it replays the recording for traffic like the recorded probes".into(),
            );
            replay.notes.push(
                "lost probes were lost in either direction: use their trace in one direction only"
                    .into(),
            );
        }
        match (&replay.delays, &replay.rates) {
            (None, None) => {
                Err("the recording has neither delays nor rates for this direction".into())
            }
            _ => Ok(replay),
        }
    }
}

/// Samples a series at a constant interval; each value holds until the next one.
fn sampled(delays: &Values, interval_s: f64) -> Result<String, String> {
    let mut delays = delays.clone();
    delays.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (begin_s, end_s) = (delays[0].0, delays[delays.len() - 1].0);
    let count = ((end_s - begin_s) / interval_s).floor() + 1.0;
    if count > MOST_LINES {
        return Err(format!(
            "{count} lines: choose a longer interval, so that there are {MOST_LINES} at most"
        ));
    }
    let mut text = String::new();
    let mut next = 0;
    for line in 0..count as usize {
        let at_s = begin_s + line as f64 * interval_s;
        while delays.get(next + 1).is_some_and(|later| later.0 <= at_s) {
            next += 1;
        }
        let ms = delays[next].1;
        if !(0.0..=MOST_DELAY_MS).contains(&ms) {
            return Err(format!(
                "a delay of {ms} ms: from 0 to {MOST_DELAY_MS} ms are possible"
            ));
        }
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{ms:.3}");
    }
    Ok(text)
}

/// Writes rates from the first one on. Rates less than a millisecond after the one before cannot be replayed and are left
/// out.
fn steps(rates: &Values) -> String {
    let mut rates = rates.clone();
    rates.sort_by(|a, b| a.0.total_cmp(&b.0));
    let begin_s = rates[0].0;
    let mut text = String::from("t_s,rate_mbps\n");
    let mut last_ms = None;
    for (t_s, mbps) in rates {
        let at_ms = ((t_s - begin_s) * 1e3).round() as u64;
        if last_ms.is_none_or(|last| at_ms > last) {
            let _ = writeln!(text, "{:.3},{mbps:.6}", at_ms as f64 / 1e3);
            last_ms = Some(at_ms);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Probe;
    use constel_link::trace;

    fn series() -> Series {
        let probe = |t_s, rtt_ms| Probe { t_s, rtt_ms };
        Series {
            probes: vec![
                probe(100.0, Some(30.0)),
                probe(100.1, None),
                probe(100.25, Some(50.0)),
            ],
            down_mbps: vec![(100.0, 12.5), (100.0002, 3.0), (101.5, 20.0)],
            ..Series::default()
        }
    }

    #[test]
    fn the_files_are_those_that_links_read() {
        let replay = Replay::of(&series(), Way::Down, 0.1).unwrap();
        let delays = trace::delays_ms(&replay.delays.unwrap()).unwrap();
        assert_eq!(delays, [15_000_000, 15_000_000, 15_000_000]);
        let law = trace::rate_csv(&replay.rates.unwrap(), true).unwrap();
        assert_eq!(
            law,
            trace::rate_csv("t_s,rate_mbps\n0,12.5\n1.5,20\n", true).unwrap()
        );
        assert_eq!(
            trace::losses(&replay.losses.unwrap()).unwrap(),
            [false, true, false]
        );
        assert!(replay.notes[0].contains("half"));
    }

    #[test]
    fn one_way_delays_come_first() {
        let mut series = series();
        series.up_ms = vec![(100.0, 21.0), (100.2, 22.0)];
        let replay = Replay::of(&series, Way::Up, 0.1).unwrap();
        assert_eq!(replay.delays.unwrap(), "21.000\n21.000\n22.000\n");
        assert!(!replay.notes.iter().any(|note| note.contains("half")));
    }

    #[test]
    fn nothing_to_replay_is_an_error() {
        let none = Series::default();
        assert!(Replay::of(&none, Way::Up, 0.1).is_err());
        let mut long = series();
        long.up_ms = vec![(0.0, 1.0), (1e9, 70_000.0)];
        assert!(
            Replay::of(&long, Way::Up, 0.01)
                .unwrap_err()
                .contains("interval")
        );
        assert!(
            Replay::of(&long, Way::Up, 1e6)
                .unwrap_err()
                .contains("60000")
        );
    }
}
