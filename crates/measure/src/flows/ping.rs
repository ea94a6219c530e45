//! iputils `ping -D -n`: one line per reply, then a summary.

use super::{FlowError, Outcome, Rtt};
use crate::quantiles::Quantiles;

/// One echo reply.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reply {
    /// The time of arrival, seconds since the Unix epoch.
    pub unix_s: f64,
    /// The sequence number, from 1.
    pub seq: u64,
    /// The round-trip time in milliseconds. iputils prints three digits: the resolution is 0.1 ms from 10 ms on and
    /// 1 ms from 100 ms on.
    pub rtt_ms: f64,
}

/// Returns the replies of a run in the order printed, without duplicates (`DUP!`).
pub fn replies(output: &str) -> Vec<Reply> {
    output
        .lines()
        .filter(|line| !line.ends_with("(DUP!)"))
        .filter_map(reply)
        .collect()
}

fn reply(line: &str) -> Option<Reply> {
    let rest = line.strip_prefix('[')?;
    let (stamp, rest) = rest.split_once(']')?;
    Some(Reply {
        unix_s: stamp.parse().ok()?,
        seq: after(rest, "icmp_seq=")?.parse().ok()?,
        rtt_ms: after(rest, "time=")?.parse().ok()?,
    })
}

fn after<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let start = text.find(key)? + key.len();
    text[start..].split([' ', '\n']).next()
}

/// Parses the output to the flow's row.
///
/// # Errors
/// When the summary line is missing: ping was killed before it could print it, or never started.
pub fn parse(output: &str) -> Result<Outcome, FlowError> {
    let summary = output
        .lines()
        .find(|line| line.contains("packets transmitted"))
        .ok_or_else(|| FlowError::new("ping", no_summary(output)))?;
    let number = |word: &str| -> Option<u64> {
        summary
            .split(", ")
            .find(|part| part.contains(word))?
            .split(' ')
            .next()?
            .parse()
            .ok()
    };
    let (Some(sent), Some(received)) = (number("transmitted"), number("received")) else {
        return Err(FlowError::new(
            "ping",
            format!("unexpected summary: {summary}"),
        ));
    };
    let replies = replies(output);
    let elapsed_ms = after(summary, "time ").and_then(|time| time.strip_suffix("ms"));
    let elapsed_s = elapsed_ms
        .and_then(|ms| ms.parse().ok())
        .map_or(0.0, |ms: f64| ms / 1e3);
    let under_way = under_way(&replies, sent, elapsed_s);
    Ok(Outcome {
        in_flight_packets: Some(under_way),
        sent_packets: Some(sent),
        ..outcome(&replies, sent - under_way, received)
    })
}

/// Returns the number of last probes without an answer that were sent less than the longest round trip before ping
/// ended, after `elapsed_s`: their fate is not known. The times of sending are computed from the replies.
fn under_way(replies: &[Reply], sent: u64, elapsed_s: f64) -> u64 {
    let ends = (
        replies.iter().min_by_key(|reply| reply.seq),
        replies.iter().max_by_key(|reply| reply.seq),
    );
    let (Some(first), Some(last)) = ends else {
        return 0;
    };
    if first.seq == last.seq {
        return 0;
    }
    let sent_at_s = |reply: &Reply| reply.unix_s - reply.rtt_ms / 1e3;
    let interval_s = (sent_at_s(last) - sent_at_s(first)) / (last.seq - first.seq) as f64;
    let end_s = sent_at_s(first) - (first.seq as f64 - 1.0) * interval_s + elapsed_s;
    let longest_s = replies.iter().map(|r| r.rtt_ms / 1e3).fold(0.0, f64::max);
    // Probes at most `known` places after the last reply would have been answered before the end.
    let known = ((end_s - sent_at_s(last) - longest_s) / interval_s).max(0.0);
    if known.is_finite() {
        sent.saturating_sub(last.seq)
            .saturating_sub(known.floor() as u64)
    } else {
        0
    }
}

/// Returns the row of a ping that was ended before its summary: the values up to its last reply. Later probes may
/// have been in flight. Without any reply the row is empty.
pub fn parse_until_ended(output: &str) -> Outcome {
    let replies = replies(output);
    match replies.iter().map(|reply| reply.seq).max() {
        Some(last) => outcome(&replies, last, replies.len() as u64),
        None => Outcome::default(),
    }
}

fn outcome(replies: &[Reply], sent: u64, received: u64) -> Outcome {
    let mut rtts_ms: Vec<f64> = replies.iter().map(|r| r.rtt_ms).collect();
    let ns = |ms: f64| (ms * 1e6).round() as u64;
    let rtt = Quantiles::of(&mut rtts_ms).map(|q| Rtt {
        min_ns: ns(q.min),
        p50_ns: ns(q.p50),
        p99_ns: ns(q.p99),
        max_ns: ns(q.max),
    });
    Outcome {
        rtt,
        rtt_resolution_ns: rtt.map(|rtt| resolution_ns(rtt.max_ns)),
        sent_packets: Some(sent),
        loss_ratio: (sent > 0).then(|| 1.0 - received.min(sent) as f64 / sent as f64),
        ..Outcome::default()
    }
}

/// Returns the resolution in which iputils prints a round trip of this length: three digits, of microseconds below
/// a millisecond.
fn resolution_ns(rtt_ns: u64) -> u64 {
    match rtt_ns {
        0..1_000_000 => 1_000,
        1_000_000..10_000_000 => 10_000,
        10_000_000..100_000_000 => 100_000,
        _ => 1_000_000,
    }
}

fn no_summary(output: &str) -> String {
    match output.lines().rev().find(|line| !line.trim().is_empty()) {
        Some(last) => format!("no summary; its last output: {last}"),
        None => "it printed nothing".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "PING 10.0.0.2 (10.0.0.2) 56(84) bytes of data.
[1732175000.100000] 64 bytes from 10.0.0.2: icmp_seq=1 ttl=60 time=52.3 ms
[1732175000.300000] 64 bytes from 10.0.0.2: icmp_seq=2 ttl=60 time=52.5 ms
[1732175000.300001] 64 bytes from 10.0.0.2: icmp_seq=2 ttl=60 time=52.6 ms (DUP!)

--- 10.0.0.2 ping statistics ---
4 packets transmitted, 2 received, +1 duplicates, 50% packet loss, time 801ms
rtt min/avg/max/mdev = 52.310/52.400/52.500/0.1 ms
";

    #[test]
    fn reads_replies_and_loss() {
        let outcome = parse(OUTPUT).unwrap();
        assert_eq!(outcome.sent_packets, Some(4));
        assert_eq!(outcome.loss_ratio, Some(0.5));
        assert_eq!(outcome.rtt.unwrap().min_ns, 52_300_000);
        assert_eq!(outcome.rtt.unwrap().max_ns, 52_500_000);
        assert_eq!(outcome.rtt_resolution_ns, Some(100_000));
    }

    #[test]
    fn an_unfinished_run_is_an_error() {
        assert!(
            parse("ping: connect: Network is unreachable\n")
                .unwrap_err()
                .reason
                .contains("unreachable")
        );
        assert!(parse("").is_err());
    }

    /// Probes of 100 ms round trip, one each 50 ms; the fourth is lost, the last two were sent 80 and 30 ms
    /// before the end.
    #[test]
    fn what_was_under_way_at_the_end_is_not_lost() {
        let mut output = String::new();
        for seq in [1, 2, 3, 5, 6] {
            let at_s = 1000.1 + f64::from(seq - 1) * 0.05;
            output +=
                &format!("[{at_s:.6}] 64 bytes from 10.0.0.2: icmp_seq={seq} ttl=60 time=100 ms\n");
        }
        let ended = |ms: u32| {
            let sent =
                format!("8 packets transmitted, 5 received, 37.5% packet loss, time {ms}ms\n");
            parse(&(output.clone() + &sent)).unwrap()
        };
        let outcome = ended(380);
        assert_eq!(
            (outcome.sent_packets, outcome.in_flight_packets),
            (Some(8), Some(2))
        );
        let near = |ratio: Option<f64>, exact: f64| (ratio.unwrap() - exact).abs() < 1e-12;
        assert!(near(outcome.loss_ratio, 1.0 / 6.0), "{outcome:?}");
        // Ten seconds later nothing is on its way any more.
        assert_eq!(ended(10_380).in_flight_packets, Some(0));
        assert!(near(ended(10_380).loss_ratio, 3.0 / 8.0));
    }

    #[test]
    fn an_ended_run_is_known_up_to_its_last_reply() {
        let ended = "PING 10.0.0.2 (10.0.0.2) 56(84) bytes of data.
[1732175000.100000] 64 bytes from 10.0.0.2: icmp_seq=1 ttl=60 time=52.3 ms
[1732175000.300001] 64 bytes from 10.0.0.2: icmp_seq=4 ttl=60 time=52.6 ms
[1732175000.300002] 64 bytes from 10.0.0.2: icmp_seq=3 ttl=60 time=252 ms
";
        let outcome = parse_until_ended(ended);
        assert_eq!(outcome.sent_packets, Some(4));
        assert_eq!(outcome.loss_ratio, Some(0.25));
        assert_eq!(outcome.rtt.unwrap().max_ns, 252_000_000);
        assert_eq!(outcome.rtt_resolution_ns, Some(1_000_000));
        assert_eq!(parse_until_ended("PING 10.0.0.2\n"), Outcome::default());
    }

    proptest::proptest! {
        #[test]
        fn never_panics(text in "\\PC*") {
            let _ = parse(&text);
            let _ = parse_until_ended(&text);
        }
    }
}
