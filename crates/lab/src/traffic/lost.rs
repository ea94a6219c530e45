//! The probes that a handover cost.

use constel_measure::flows::Reply;
use constel_measure::probe::row::{Fate, Row};

use super::wall::{Reading, WallClock};
use crate::watch::summary::{ChangeRow, HandoverRow};

/// The largest number of lost probes of a flow that are remembered: 32 MB.
const REMEMBERED: usize = 4 << 20;

/// A flow's probes in lab time, independent of changes to the wall clock.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Probes {
    /// The times of the first and the last reply, seconds.
    first_s: f64,
    last_s: f64,
    /// The longest round trip, seconds.
    longest_s: f64,
    /// The times of sending of probes without a reply, seconds: interpolated from their neighbours and the interval
    /// between probes.
    lost_s: Vec<f64>,
}

impl Probes {
    /// Creates it from the replies of a tool that sent `sent` probes at `interval_s`. `None` without any reply:
    /// then no time of sending is known.
    pub(super) fn new(
        replies: &[Reply],
        sent: u64,
        interval_s: f64,
        wall: &WallClock,
    ) -> Option<Self> {
        let placed = place(replies, interval_s, wall)?;
        let came = || placed.iter().map(|reply| reply.came_s);
        let took = placed.iter().map(|reply| reply.came_s - reply.sent_s);
        let at: Vec<(u64, f64)> = placed
            .iter()
            .map(|reply| (reply.seq, reply.sent_s))
            .collect();
        (!placed.is_empty()).then(|| Self {
            first_s: came().fold(f64::INFINITY, f64::min),
            last_s: came().fold(0.0, f64::max),
            longest_s: took.fold(0.0, f64::max),
            lost_s: lost(&at, sent, interval_s),
        })
    }

    /// Creates it from rows in lab time. `None` without an answer, or when too many probes were lost to be
    /// remembered.
    pub(super) fn of_rows(rows: impl Iterator<Item = Row>) -> Option<Self> {
        let mut probes = Self {
            first_s: f64::INFINITY,
            last_s: 0.0,
            longest_s: 0.0,
            lost_s: Vec::new(),
        };
        for row in rows {
            let sent_s = row.sent_ns as f64 / 1e9;
            if let Some(rtt_ns) = row.rtt_ns {
                let took_s = rtt_ns as f64 / 1e9;
                probes.first_s = probes.first_s.min(sent_s + took_s);
                probes.last_s = probes.last_s.max(sent_s + took_s);
                // A late answer does not show the path's round-trip time.
                if row.fate != Fate::Late {
                    probes.longest_s = probes.longest_s.max(took_s);
                }
            } else if row.fate != Fate::UnderWay {
                if probes.lost_s.len() == REMEMBERED {
                    return None;
                }
                probes.lost_s.push(sent_s);
            }
        }
        probes.first_s.is_finite().then_some(probes)
    }

    /// Returns the number of probes lost between a round trip before `t_ns` and the convergence of routes; `None`
    /// when the flow was not running then.
    fn lost_within(&self, t_ns: u64, stood_after_ns: Option<u64>) -> Option<u64> {
        let at_s = t_ns as f64 / 1e9;
        let stood_s = stood_after_ns.map_or(f64::INFINITY, |after| at_s + after as f64 / 1e9);
        // A probe sent up to a round trip before the event may have been lost by it, on its forward or its return
        // path.
        if at_s < self.first_s - self.longest_s || at_s > self.last_s {
            return None;
        }
        let window = at_s - self.longest_s..=stood_s;
        Some(self.lost_s.iter().filter(|at| window.contains(at)).count() as u64)
    }
}

/// A reply in lab time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Placed {
    seq: u64,
    /// The times of sending and of arrival, seconds.
    pub(super) sent_s: f64,
    came_s: f64,
    /// The round-trip time as the tool printed it, milliseconds.
    pub(super) rtt_ms: f64,
}

/// Converts the replies of a tool that prints wall-clock times to lab time, in order of their numbers. Probes were
/// sent every `interval_s`. `None` when the wall clock was never read.
pub(super) fn place(replies: &[Reply], interval_s: f64, wall: &WallClock) -> Option<Vec<Placed>> {
    let mut replies: Vec<&Reply> = replies.iter().collect();
    replies.sort_by_key(|reply| reply.seq);
    let mut before: Option<(u64, Reading)> = None;
    let mut placed = Vec::with_capacity(replies.len());
    for reply in replies {
        // A tool's round-trip time is the difference of two readings of the wall clock. If the clock was set in
        // between, the time of sending is still correct.
        let sent_unix_s = reply.unix_s - reply.rtt_ms / 1e3;
        let expected = before.map(|(seq, then)| then.lab_s + (reply.seq - seq) as f64 * interval_s);
        let sent = wall.read(sent_unix_s, before.map(|(_, then)| then), expected)?;
        let came = wall.read(reply.unix_s, Some(sent), Some(sent.lab_s))?;
        placed.push(Placed {
            seq: reply.seq,
            sent_s: sent.lab_s,
            came_s: came.lab_s,
            rtt_ms: reply.rtt_ms,
        });
        before = Some((reply.seq, sent));
    }
    Some(placed)
}

/// Returns the times of sending of the probes that are not in `at`.
fn lost(at: &[(u64, f64)], sent: u64, interval_s: f64) -> Vec<f64> {
    let near = |seq: u64| {
        let later = at.partition_point(|(known, _)| *known < seq);
        let before = later.checked_sub(1).map(|index| at[index]);
        match (before, at.get(later).copied()) {
            (_, Some((same, _))) if same == seq => None,
            // Between two known probes the time is interpolated; outside it follows from the nominal interval.
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

/// Adds to each handover of a flow's ends the number of probes that it may have cost: those sent less than a round
/// trip before it, and no later than the convergence of routes (or the end of the run, if they never converged).
pub(super) fn count(handovers: &mut [HandoverRow], ends: &[String], probes: &Probes) {
    for handover in handovers.iter_mut().filter(|h| ends.contains(&h.station)) {
        if let Some(lost) = probes.lost_within(handover.t_ns, handover.converged_after_ns) {
            *handover.lost_probes.get_or_insert(0) += lost;
        }
    }
}

/// Does the same for other changes, which may cost probes of any flow.
pub(super) fn count_changes(changes: &mut [ChangeRow], probes: &Probes) {
    for change in changes {
        if let Some(lost) = probes.lost_within(change.t_ns, change.converged_after_ns) {
            *change.lost_probes.get_or_insert(0) += lost;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A change of the wall clock at a lab time, seconds, by this many seconds.
    #[derive(Clone, Copy)]
    struct Set {
        at_s: f64,
        by_s: f64,
    }

    const NEVER: Set = Set {
        at_s: 1e9,
        by_s: 0.0,
    };

    impl Set {
        fn unix_s(self, lab_s: f64) -> f64 {
            1000.0 + lab_s + if lab_s < self.at_s { 0.0 } else { self.by_s }
        }

        fn wall(self) -> WallClock {
            let mut wall = WallClock::default();
            for tick in 0..400_u64 {
                let lab_ns = tick * 10_000_000;
                wall.see(lab_ns, (self.unix_s(lab_ns as f64 / 1e9) * 1e9) as i64);
            }
            wall
        }
    }

    /// Probes every 0.1 s from lab time 0 on with a round trip of 50 ms, those of `lost` unanswered, as ping prints them.
    fn replies(sent: u64, lost: &[u64], set: Set) -> Vec<Reply> {
        (1..=sent)
            .filter(|seq| !lost.contains(seq))
            .map(|seq| {
                let sent_s = (seq - 1) as f64 * 0.1;
                let (from_s, to_s) = (set.unix_s(sent_s), set.unix_s(sent_s + 0.05));
                Reply {
                    unix_s: to_s,
                    seq,
                    // If the clock is set back in between, ping prints 0.
                    rtt_ms: (to_s - from_s).max(0.0) * 1e3,
                }
            })
            .collect()
    }

    #[test]
    fn lost_probes_are_placed_between_their_neighbours() {
        let replies = replies(10, &[1, 4, 5, 10], NEVER);
        let probes = Probes::new(&replies, 10, 0.1, &NEVER.wall()).unwrap();
        let expected = [0.0, 0.3, 0.4, 0.9];
        assert_eq!(probes.lost_s.len(), expected.len());
        for (got, wanted) in probes.lost_s.iter().zip(expected) {
            assert!((got - wanted).abs() < 1e-6, "{got} {wanted}");
        }
        assert_eq!(Probes::new(&[], 10, 0.1, &NEVER.wall()), None);
    }

    #[test]
    fn rows_say_themselves_what_was_lost_and_when() {
        let row = |seq: u64, fate: Fate| {
            let took_ns = fate.is_answer().then_some(25_000_000);
            Row {
                seq,
                sent_ns: seq * 100_000_000,
                there_ns: took_ns,
                back_ns: took_ns,
                rtt_ns: took_ns.map(|ns| 2 * ns),
                fate,
            }
        };
        let fates = [
            Fate::Ok,
            Fate::Lost,
            Fate::Reordered,
            Fate::Unsent,
            Fate::Ok,
            Fate::UnderWay,
        ];
        let rows = (1..).zip(fates).map(|(seq, fate)| row(seq, fate));
        let probes = Probes::of_rows(rows).unwrap();
        assert_eq!(probes.lost_s, [0.2, 0.4]);
        assert!((probes.first_s - 0.15).abs() < 1e-9 && (probes.last_s - 0.55).abs() < 1e-9);
        assert!((probes.longest_s - 0.05).abs() < 1e-9);
        assert_eq!(
            Probes::of_rows([row(1, Fate::Lost)].into_iter()),
            None,
            "nobody answered"
        );
    }

    #[test]
    fn only_the_handover_near_them_is_charged() {
        let row = |t_ns, station: &str, stood| HandoverRow {
            t_ns,
            station: station.to_owned(),
            from: None,
            to: None,
            port: None,
            converged_after_ns: stood,
            lost_probes: None,
            control: None,
        };
        let mut rows = [
            row(300_000_000, "a", Some(150_000_000)),
            row(300_000_000, "elsewhere", Some(150_000_000)),
            row(600_000_000, "b", Some(100_000_000)),
            row(99_000_000_000, "a", None),
        ];
        // Probe 9 is lost at 0.8 s, long after the handovers, and is not charged to them.
        let replies = replies(10, &[4, 5, 9], NEVER);
        let probes = Probes::new(&replies, 10, 0.1, &NEVER.wall()).unwrap();
        count(&mut rows, &["a".into(), "b".into()], &probes);
        let counts = rows.map(|row| row.lost_probes);
        assert_eq!(counts, [Some(2), None, Some(0), None]);
    }

    /// `date -s` while a lab runs, before, during and after the handover, with and without a probe in flight,
    /// forwards and backwards: the same probes are charged to the same handover.
    #[test]
    fn a_wall_clock_that_is_set_moves_no_probe() {
        let lost = [14, 15, 16, 25];
        let straight = Probes::new(&replies(30, &lost, NEVER), 30, 0.1, &NEVER.wall()).unwrap();
        for at_s in [0.52, 0.57, 1.32, 1.45, 1.97, 2.03] {
            for by_s in [-3600.0, -5.0, -0.4, -0.15, 0.15, 0.4, 5.0, 86_400.0] {
                let set = Set { at_s, by_s };
                let probes = Probes::new(&replies(30, &lost, set), 30, 0.1, &set.wall()).unwrap();
                assert_eq!(probes.lost_s.len(), lost.len());
                for (got, wanted) in probes.lost_s.iter().zip(&straight.lost_s) {
                    assert!((got - wanted).abs() < 0.06, "{at_s} {by_s}: {got} {wanted}");
                }
                assert!(
                    probes.longest_s < 0.06,
                    "{at_s} {by_s}: {}",
                    probes.longest_s
                );
                // A handover at 1.29 s, after which routes converged within 0.26 s.
                let charged = probes.lost_within(1_290_000_000, Some(260_000_000));
                assert_eq!(charged, Some(3), "{at_s} {by_s}");
            }
        }
    }
}
