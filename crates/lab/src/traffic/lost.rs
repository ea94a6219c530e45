//! Which probes a handover cost.

use constel_observe::flows::Reply;

use crate::watch::summary::{ChangeRow, HandoverRow};

/// When the probes that got no reply were sent, seconds since the Unix epoch, estimated from the replies to
/// their neighbours and the interval between probes. Empty when there was no reply at all: then nothing says
/// when any was sent.
pub(super) fn sent_and_lost(replies: &[Reply], sent: u64, interval_s: f64) -> Vec<f64> {
    let mut at: Vec<(u64, f64)> = replies
        .iter()
        .map(|reply| (reply.seq, reply.unix_s - reply.rtt_ms / 1e3))
        .collect();
    at.sort_by_key(|(seq, _)| *seq);
    let near = |seq: u64| {
        let later = at.partition_point(|(known, _)| *known < seq);
        let before = later.checked_sub(1).map(|index| at[index]);
        match (before, at.get(later).copied()) {
            (_, Some((same, _))) if same == seq => None,
            (Some((a, a_s)), Some((b, b_s))) => {
                Some(a_s + (b_s - a_s) * (seq - a) as f64 / (b - a) as f64)
            }
            (Some((a, a_s)), None) => Some(a_s + (seq - a) as f64 * interval_s),
            (None, Some((b, b_s))) => Some(b_s - (b - seq) as f64 * interval_s),
            (None, None) => None,
        }
    };
    (1..=sent).filter_map(near).collect()
}

/// Counts in each handover of a flow's ends the probes that it may have cost: those sent less than a round
/// trip before it, and no later than when routes stood again (the end of the run, if they never did).
pub(super) fn count(
    handovers: &mut [HandoverRow],
    ends: &[String],
    replies: &[Reply],
    lost_unix_s: &[f64],
    zero_unix_s: f64,
) {
    for handover in handovers.iter_mut().filter(|h| ends.contains(&h.station)) {
        let when = (handover.t_ns, handover.routes_stood_after_ns);
        if let Some(lost) = lost_within(when, replies, lost_unix_s, zero_unix_s) {
            *handover.lost_probes.get_or_insert(0) += lost;
        }
    }
}

/// The same for other changes, which may cost probes of any flow.
pub(super) fn count_changes(
    changes: &mut [ChangeRow],
    replies: &[Reply],
    lost_unix_s: &[f64],
    zero_unix_s: f64,
) {
    for change in changes {
        let when = (change.t_ns, change.routes_stood_after_ns);
        if let Some(lost) = lost_within(when, replies, lost_unix_s, zero_unix_s) {
            *change.lost_probes.get_or_insert(0) += lost;
        }
    }
}

/// Probes of one flow lost from a round trip before a moment until routes stood again; `None` when the flow was
/// not running then: it saw nothing.
fn lost_within(
    (t_ns, stood_after_ns): (u64, Option<u64>),
    replies: &[Reply],
    lost_unix_s: &[f64],
    zero_unix_s: f64,
) -> Option<u64> {
    let (first, last) = (replies.first()?, replies.last()?);
    let longest_s = replies.iter().map(|r| r.rtt_ms / 1e3).fold(0.0, f64::max);
    let at_s = zero_unix_s + t_ns as f64 / 1e9;
    let stood_s = stood_after_ns.map_or(f64::INFINITY, |after| at_s + after as f64 / 1e9);
    if at_s < first.unix_s - longest_s || at_s > last.unix_s {
        return None;
    }
    let window = at_s - longest_s..=stood_s;
    Some(lost_unix_s.iter().filter(|at| window.contains(at)).count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Probes every 0.1 s from 1000.0 on with a round trip of 50 ms, those of `lost` unanswered.
    fn replies(sent: u64, lost: &[u64]) -> Vec<Reply> {
        (1..=sent)
            .filter(|seq| !lost.contains(seq))
            .map(|seq| Reply {
                unix_s: 1000.0 + (seq - 1) as f64 * 0.1 + 0.05,
                seq,
                rtt_ms: 50.0,
            })
            .collect()
    }

    #[test]
    fn lost_probes_are_placed_between_their_neighbours() {
        let lost = sent_and_lost(&replies(10, &[1, 4, 5, 10]), 10, 0.1);
        let expected = [1000.0, 1000.3, 1000.4, 1000.9];
        assert_eq!(lost.len(), expected.len());
        for (got, wanted) in lost.iter().zip(expected) {
            assert!((got - wanted).abs() < 1e-6, "{got} {wanted}");
        }
        assert!(sent_and_lost(&[], 10, 0.1).is_empty());
    }

    #[test]
    fn only_the_handover_near_them_is_charged() {
        let row = |t_ns, station: &str, stood| HandoverRow {
            t_ns,
            station: station.to_owned(),
            from: None,
            to: None,
            routes_stood_after_ns: stood,
            lost_probes: None,
            control: None,
        };
        let mut rows = [
            row(300_000_000, "a", Some(150_000_000)),
            row(300_000_000, "elsewhere", Some(150_000_000)),
            row(600_000_000, "b", Some(100_000_000)),
            row(99_000_000_000, "a", None),
        ];
        // Probe 9 is lost at 0.8 s, long after: not the handovers' doing.
        let replies = replies(10, &[4, 5, 9]);
        let lost = sent_and_lost(&replies, 10, 0.1);
        count(
            &mut rows,
            &["a".into(), "b".into()],
            &replies,
            &lost,
            1000.0,
        );
        let counts = rows.map(|row| row.lost_probes);
        assert_eq!(counts, [Some(2), None, Some(0), None]);
    }
}
