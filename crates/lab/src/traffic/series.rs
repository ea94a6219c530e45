//! `flows/NAME.csv`: the measurements of a flow, in lab time, with the path it took, and marks for times at which
//! the emulation was late on it.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use constel_measure::flows::{iperf3_intervals, ping_replies, probe_rows, transfer_intervals};
use constel_measure::probe::book::HELD_AT_MOST_NS;
use constel_measure::probe::row::Fate;
use constel_scenario::model::{Action, PingTool};

use super::lost::place;
use super::wall::WallClock;
use super::{Job, output};
use crate::watch::late::{covered_ns, overlap};
use crate::watch::paths::Followed;

/// The file's first line. A value that was not measured is empty; `path` is the index of the path in the flow's row
/// of the summary, from 1.
const HEADER: &str = "t_s,rtt_us,owd_us,owd_back_us,throughput_bps,fate,path,marked\n";

/// The share of a flow's samples, or of its time, that may be affected by lateness on its path. Beyond it the flow
/// is not trustworthy. As in the run's verdict, the 99th percentile counts.
const ALLOWED: f64 = 0.01;

/// A sample: a probe, or an interval of a transfer.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Sample {
    from_ns: u64,
    /// The end; equal to `from_ns` if no answer arrived.
    to_ns: u64,
    rtt_ns: Option<u64>,
    owd_ns: Option<u64>,
    back_ns: Option<u64>,
    throughput_bps: Option<f64>,
    fate: &'static str,
}

/// The influence of the emulator's lateness on a flow's samples.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Trust {
    /// The number of samples, and below it the number of marked samples.
    pub(crate) samples: u64,
    pub(crate) marked: u64,
    /// Whether the flow is trustworthy, and below it the reason if not; `None` if the link plane does not report
    /// lateness.
    pub(crate) trustworthy: Option<bool>,
    pub(crate) doubt: Option<String>,
    /// The largest lateness of a frame on its path; `None` if none exceeded the bound.
    pub(crate) worst_ns: Option<u64>,
}

/// Writes the file of a flow that has ended, if it has samples, and judges them. `bound_ns` is the lateness from
/// which a frame counts as late; `tells` is whether the link plane reports late frames at all.
///
/// # Errors
/// When the file cannot be written.
pub(crate) fn write(
    to: &Path,
    job: &Job,
    followed: Option<&mut Followed>,
    wall: &WallClock,
    bound_ns: u64,
    tells: bool,
) -> io::Result<Trust> {
    let Some(followed) = followed else {
        return Ok(Trust::default());
    };
    let spans = followed.late.spans().to_vec();
    let probes = matches!(job.flow.action, Action::Ping(_));
    let mut trust = Trust::default();
    let mut out: Option<BufWriter<File>> = None;
    let mut line = String::new();
    let mut held = Held::default();
    for sample in samples(job, wall) {
        // A probe whose answer was held by this host is marked, even if all frames were on time.
        let is_late = held.see(&sample);
        let marked = is_late || tells && is_marked(&spans, &sample, probes);
        trust.samples += 1;
        trust.marked += u64::from(marked);
        let out = match &mut out {
            Some(out) => out,
            // A flow without samples gets no file.
            None => {
                let mut file = BufWriter::new(File::create_new(to)?);
                file.write_all(HEADER.as_bytes())?;
                out.insert(file)
            }
        };
        line.clear();
        put(&mut line, &sample, followed.path_at(sample.from_ns), marked);
        out.write_all(line.as_bytes())?;
    }
    if let Some(mut out) = out {
        out.flush()?;
    }
    trust.doubt = held.doubt(trust.samples);
    // Without reports of lateness, only held probes can make the flow untrustworthy.
    if !tells {
        trust.trustworthy = trust.doubt.is_some().then_some(false);
        return Ok(trust);
    }
    trust.worst_ns = Some(followed.late.worst_ns()).filter(|ns| *ns > 0);
    // The reason that is known with certainty comes first.
    if trust.doubt.is_none() {
        trust.doubt = doubt(
            job,
            followed.late.has_gaps(),
            &spans,
            &trust,
            bound_ns,
            probes,
        );
    }
    trust.trustworthy = Some(trust.doubt.is_none());
    Ok(trust)
}

/// Probes whose answers are late because Constel's own responder held them: it was stopped, or had no
/// processor. Their times are those that were measured, and not the network's.
#[derive(Debug, Clone, Copy, Default)]
struct Held {
    probes: u64,
    longest_rtt_ns: u64,
}

impl Held {
    /// Counts a sample. Returns whether it is such a probe.
    fn see(&mut self, sample: &Sample) -> bool {
        let is_late = sample.fate == Fate::Late.as_str();
        if is_late {
            self.probes += 1;
            let rtt_ns = sample.rtt_ns.unwrap_or(0);
            self.longest_rtt_ns = self.longest_rtt_ns.max(rtt_ns);
        }
        is_late
    }

    /// Returns why a flow with this number of samples is affected, if it is.
    fn doubt(self, samples: u64) -> Option<String> {
        let too_many = self.probes as f64 > ALLOWED * samples as f64;
        too_many.then(|| {
            format!(
                "the program that answers, which was stopped or had no processor, held {} of {samples} probes for more than \
                 {} ms; the latest answer took {:.3} s",
                self.probes,
                HELD_AT_MOST_NS / 1_000_000,
                self.longest_rtt_ns as f64 / 1e9
            )
        })
    }
}

/// Returns whether a sample is marked. A probe is marked if any frame on its path was late in its time: it may have
/// been the probe itself. An interval of a transfer, which has many frames, is marked if frames were late for more
/// than the allowed share of its time.
fn is_marked(spans: &[(u64, u64)], sample: &Sample, probes: bool) -> bool {
    if probes {
        return sample.to_ns > sample.from_ns && overlap(spans, sample.from_ns, sample.to_ns);
    }
    let covered_ns = covered_ns(spans, sample.from_ns, sample.to_ns);
    covered_ns as f64 > ALLOWED * (sample.to_ns - sample.from_ns) as f64
}

/// Returns why a flow is not trustworthy, if it is not.
fn doubt(
    job: &Job,
    gaps: bool,
    spans: &[(u64, u64)],
    trust: &Trust,
    bound_ns: u64,
    probes: bool,
) -> Option<String> {
    let ms = |ns: u64| ns as f64 / 1e6;
    // Unknown spells could affect any sample.
    if gaps {
        return Some("frames on its path were late more often than can be recorded".to_owned());
    }
    let worst = ms(trust.worst_ns?);
    let bound = ms(bound_ns);
    if probes {
        let too_many = trust.marked as f64 > ALLOWED * trust.samples as f64;
        return too_many.then(|| {
            format!(
                "{} of {} samples met frames on their path that were more than {bound} ms late, at most {worst:.1} ms",
                trust.marked, trust.samples
            )
        });
    }
    // A transfer has frames in flight all the time, so that its time is judged and not its samples.
    let time = job.time_ns();
    let length_ns = (time.end() - time.start()).max(1);
    let share = covered_ns(spans, *time.start(), *time.end()) as f64 / length_ns as f64;
    (share > ALLOWED).then(|| {
        format!(
            "frames on its path were more than {bound} ms late for {:.1} % of its time, at most {worst:.1} ms",
            share * 100.0
        )
    })
}

fn put(line: &mut String, sample: &Sample, path: Option<u32>, marked: bool) {
    let s = sample.from_ns / 1_000_000_000;
    // Writing to a String does not fail.
    let _ = write!(line, "{s}.{:09}", sample.from_ns % 1_000_000_000);
    for ns in [sample.rtt_ns, sample.owd_ns, sample.back_ns] {
        let _ = match ns {
            Some(ns) => write!(line, ",{}.{:03}", ns / 1_000, ns % 1_000),
            None => write!(line, ","),
        };
    }
    let _ = match sample.throughput_bps {
        Some(bps) => write!(line, ",{bps:.0}"),
        None => write!(line, ","),
    };
    let path = path.map_or_else(String::new, |path| path.to_string());
    let _ = writeln!(line, ",{},{path},{}", sample.fate, u8::from(marked));
}

/// Returns the samples that the flow's tool measured; empty for a tool that only measures totals.
fn samples(job: &Job, wall: &WallClock) -> Box<dyn Iterator<Item = Sample>> {
    match &job.flow.action {
        Action::Ping(ping) if ping.tool != PingTool::Ping => {
            let rows = probe_rows(output::lines(&job.out)).map_while(Result::ok);
            Box::new(rows.map(|row| Sample {
                from_ns: row.sent_ns,
                to_ns: row.sent_ns + row.rtt_ns.unwrap_or(0),
                rtt_ns: row.rtt_ns,
                owd_ns: row.there_ns,
                back_ns: row.back_ns,
                throughput_bps: None,
                fate: row.fate.as_str(),
            }))
        }
        Action::Ping(ping) => {
            let text = output::whole(&job.out).unwrap_or_default();
            let replies = place(&ping_replies(&text), ping.interval.seconds(), wall);
            Box::new(replies.unwrap_or_default().into_iter().map(|reply| {
                let from_ns = nanos(reply.sent_s);
                let rtt_ns = (reply.rtt_ms * 1e6).round() as u64;
                Sample {
                    from_ns,
                    to_ns: from_ns + rtt_ns,
                    rtt_ns: Some(rtt_ns),
                    fate: "ok",
                    ..Sample::default()
                }
            }))
        }
        Action::Iperf3(_) | Action::Transfer(_) => {
            let text = output::whole(&job.out).unwrap_or_default();
            let pieces = match &job.flow.action {
                Action::Iperf3(_) => iperf3_intervals(&text),
                _ => transfer_intervals(&text),
            };
            // Intervals of a tool count from its own start, which may be later than planned.
            let started_ns = job.started_ns.unwrap_or_else(|| *job.time_ns().start());
            Box::new(pieces.into_iter().map(move |piece| Sample {
                from_ns: started_ns + nanos(piece.from_s),
                to_ns: started_ns + nanos(piece.to_s),
                rtt_ns: piece.rtt_ns,
                owd_ns: piece.owd_ns,
                throughput_bps: Some(piece.throughput_bps),
                fate: "",
                ..Sample::default()
            }))
        }
        Action::Http(_) | Action::Run(_) => Box::new(std::iter::empty()),
    }
}

/// Converts seconds of lab time, which are not negative, to nanoseconds.
fn nanos(s: f64) -> u64 {
    (s.max(0.0) * 1e9) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn samples_are_lines() {
        let mut line = String::new();
        let sample = Sample {
            from_ns: 1_250_000_001,
            to_ns: 1_300_000_001,
            rtt_ns: Some(50_000_000),
            owd_ns: Some(25_000_100),
            back_ns: Some(24_999_900),
            throughput_bps: None,
            fate: "ok",
        };
        put(&mut line, &sample, Some(2), true);
        put(&mut line, &Sample::default(), None, false);
        let expected = "1.250000001,50000.000,25000.100,24999.900,,ok,2,1\n0.000000000,,,,,,,0\n";
        assert_eq!(line, expected);
        assert_eq!(HEADER.matches(',').count(), 7);
    }

    #[test]
    fn late_answers_make_a_flow_affected_when_more_than_a_hundredth_are() {
        let late = Sample {
            rtt_ns: Some(4_000 * MS),
            fate: "late",
            ..Sample::default()
        };
        let mut held = Held::default();
        assert!(held.see(&late));
        assert!(!held.see(&Sample { fate: "ok", ..late }));
        assert_eq!(held.doubt(100), None);
        let doubt = held.doubt(99).unwrap();
        assert!(doubt.ends_with("the latest answer took 4.000 s"), "{doubt}");
    }

    #[test]
    fn a_probe_is_marked_by_any_spell_and_a_piece_of_time_by_more_than_a_hundredth() {
        let spans = [(100 * MS, 102 * MS)];
        let sample = |from_ms: u64, to_ms: u64| Sample {
            from_ns: from_ms * MS,
            to_ns: to_ms * MS,
            ..Sample::default()
        };
        assert!(is_marked(&spans, &sample(50, 101), true));
        assert!(!is_marked(&spans, &sample(50, 99), true));
        // Lost: it was nowhere.
        assert!(!is_marked(&spans, &sample(101, 101), true));
        assert!(is_marked(&spans, &sample(0, 199), false));
        assert!(!is_marked(&spans, &sample(0, 201), false));
    }
}
