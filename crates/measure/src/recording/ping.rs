//! `ping -D`: one line for each reply. Sequence numbers without a reply are lost.

use constel_link::trace::TraceError;

use super::errors::{self, Errors};
use crate::compare::{Probe, Series};
use crate::flows::ping_replies;

/// Largest jump of the sequence number that counts as a row of losses. A larger one is another ping's output.
const MOST_LOST: u64 = 1_000_000;

/// Reads the replies. Probes were sent their round-trip time before the reply's time stamp; the instants of lost ones are
/// interpolated.
///
/// # Errors
/// A reply without a time stamp, and a file without any reply.
pub(super) fn read(text: &str) -> Result<Series, Vec<TraceError>> {
    let mut errors = Errors::default();
    for (index, line) in text.lines().enumerate() {
        if line.contains("icmp_seq=") && line.contains("time=") && !line.starts_with('[') {
            errors.push(
                index + 1,
                "a reply without a time stamp: record with `ping -D`",
            );
        }
    }
    let replies = errors.or(ping_replies(text))?;
    if replies.is_empty() {
        return Err(errors::one(text.lines().count() + 1, "no reply"));
    }
    let mut sent: Vec<(u64, f64, f64)> = Vec::new();
    let mut base = 0;
    let mut before = 0;
    for reply in replies {
        // The number on the wire has 16 bits: a reply far below the one before it is in the next round.
        if before > reply.seq.saturating_add(32_768) {
            base += 65_536;
        }
        before = reply.seq;
        sent.push((
            base + reply.seq,
            reply.unix_s - reply.rtt_ms / 1e3,
            reply.rtt_ms,
        ));
    }
    Ok(Series {
        probes: with_losses(sent),
        ..Series::default()
    })
}

/// Returns all probes by number, those without an answer in between; their instants are interpolated.
pub(super) fn with_losses(mut answered: Vec<(u64, f64, f64)>) -> Vec<Probe> {
    answered.sort_by_key(|row| row.0);
    answered.dedup_by_key(|row| row.0);
    let mut probes: Vec<Probe> = Vec::with_capacity(answered.len());
    for (place, &(number, t_s, rtt_ms)) in answered.iter().enumerate() {
        if let Some(&(before, before_s, _)) = place.checked_sub(1).and_then(|p| answered.get(p))
            && number - before <= MOST_LOST
        {
            let step_s = (t_s - before_s) / (number - before) as f64;
            probes.extend((before + 1..number).map(|lost| Probe {
                t_s: before_s + (lost - before) as f64 * step_s,
                rtt_ms: None,
            }));
        }
        probes.push(Probe {
            t_s,
            rtt_ms: Some(rtt_ms),
        });
    }
    probes
}

#[cfg(test)]
mod tests {
    use super::super::read;

    const OUTPUT: &str = "PING 100.64.0.1 (100.64.0.1) 56(84) bytes of data.\n\
        [1700000000.040000] 64 bytes from 100.64.0.1: icmp_seq=1 ttl=63 time=40.0 ms\n\
        [1700000000.330000] 64 bytes from 100.64.0.1: icmp_seq=4 ttl=63 time=30.0 ms\n\
        \n--- 100.64.0.1 ping statistics ---\n4 packets transmitted, 2 received, 50% packet loss, time 303ms\n";

    #[test]
    fn missing_numbers_are_losses() {
        let series = read(OUTPUT).unwrap();
        let times: Vec<f64> = series.probes.iter().map(|p| p.t_s - 1.7e9).collect();
        for (t_s, expected) in times.iter().zip([0.0, 0.1, 0.2, 0.3]) {
            assert!((t_s - expected).abs() < 1e-5, "{times:?}");
        }
        let rtts: Vec<Option<f64>> = series.probes.iter().map(|p| p.rtt_ms).collect();
        assert_eq!(rtts, [Some(40.0), None, None, Some(30.0)]);
    }

    #[test]
    fn numbers_start_again_after_65535() {
        let line = |t: f64, seq: u32| {
            format!("[{t:.6}] 64 bytes from x: icmp_seq={seq} ttl=63 time=1.0 ms\n")
        };
        let text = format!(
            "{}{}{}",
            line(10.0, 65_534),
            line(10.1, 65_535),
            line(10.2, 0)
        );
        assert_eq!(read(&text).unwrap().probes.len(), 3);
    }

    #[test]
    fn replies_without_time_stamps_are_refused_at_their_lines() {
        let errors = read("PING x\n64 bytes from x: icmp_seq=1 ttl=63 time=4 ms\n").unwrap_err();
        assert_eq!(errors[0].line, 2);
        assert!(errors[0].message.contains("ping -D"));
        assert_eq!(read("PING x\n").unwrap_err()[0].line, 2);
    }
}
