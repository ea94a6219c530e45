//! The choice of the Data packets that carry [`Timing`], toward one Requester.

use super::params::Params;
use crate::Nanos;
use crate::wire::Timing;

/// Time after which a packet is timed even if few have been sent since the last, ns: a slow flow
/// has few packets to measure with, and does not need the 12 bytes for payload.
const IDLE_NS: Nanos = 10_000_000;
/// Rate from which on all packets are timed, bit/s. Datagrams of equal length leave together
/// (GSO): at high rates one of another length costs more than 12 bytes in each.
const FAST_BPS: u64 = 200_000_000;

/// A Responder's choice of the Data packets that carry timing. All packets do unless the
/// Requester has signalled that some are enough, and the Responder's own `timing_every` agrees.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TimingChoice {
    /// The Requester's latest signal, and the rate that it has requested, bit/s.
    pub(crate) sparse: bool,
    pub(crate) rate_bps: u64,
    /// The time and tag of the last timed packet.
    last: Option<(Nanos, Option<u16>)>,
    /// Packets since then.
    since: u32,
}

impl TimingChoice {
    /// Returns the timing of the packet that leaves now, if it carries one. `owd`: the latest
    /// Interest's one-way delay and tag. `waited`: the time since when it has waited here, and
    /// its earlier waits at the path's nodes, us. `must`: whether it carries timing in any case.
    pub(crate) fn of(
        &mut self,
        now: Nanos,
        owd: Option<(i64, u16)>,
        waited: (Nanos, u32),
        must: bool,
        p: &Params,
    ) -> Option<Timing> {
        // The Requester adds `timestamp`'s delay and `interest_owd` to a hopRTT sample (section
        // III.C).
        let tag = owd.map(|o| o.1);
        self.due(now, tag, must, p).then(|| {
            let (since, before_us) = waited;
            let here_us = u32::try_from(now.saturating_sub(since) / 1000).unwrap_or(u32::MAX);
            Timing {
                timestamp: now,
                interest_owd: owd.map(|o| o.0),
                tag: tag.unwrap_or(0),
                queued_us: before_us.saturating_add(here_us),
            }
        })
    }

    fn due(&mut self, now: Nanos, tag: Option<u16>, must: bool, p: &Params) -> bool {
        self.since = self.since.saturating_add(1);
        let due = must
            || !self.sparse
            || self.rate_bps >= FAST_BPS
            || self.last.is_none_or(|(at, last_tag)| {
                let elapsed = now.saturating_sub(at);
                // A new neighbour has no measurement yet.
                last_tag != tag || elapsed >= IDLE_NS || self.since >= p.timing_every
            });
        if due {
            (self.last, self.since) = (Some((now, tag)), 0);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    fn timed(c: &mut TimingChoice, times: impl Iterator<Item = Nanos>, p: &Params) -> Vec<bool> {
        times.map(|t| c.due(t, Some(1), false, p)).collect()
    }

    #[test]
    fn all_of_them_unless_both_sides_agree() {
        let every_4th = Params {
            timing_every: 4,
            ..Params::default()
        };
        let mut c = TimingChoice::default();
        assert_eq!(timed(&mut c, 0..3, &every_4th), [true; 3]);
        c.sparse = true;
        assert_eq!(
            timed(&mut c, (1..9).map(|n| n * MS), &every_4th),
            [false, false, false, true, false, false, false, true]
        );
        let mut c = TimingChoice {
            sparse: true,
            ..Default::default()
        };
        let all = timed(&mut c, (1..9).map(|n| n * MS), &Params::default());
        assert_eq!(all, [true; 8]);
    }

    #[test]
    fn first_after_idle_for_a_new_neighbour_and_all_at_high_rates() {
        let p = Params::beyond();
        let mut c = TimingChoice {
            sparse: true,
            ..Default::default()
        };
        assert!(c.due(0, Some(1), false, &p), "the first of all");
        assert!(!c.due(MS, Some(1), false, &p));
        assert!(c.due(2 * MS, Some(2), false, &p), "another Requester");
        assert!(!c.due(3 * MS, Some(2), false, &p));
        assert!(c.due(3 * MS, Some(2), true, &p), "timed upstream");
        assert!(c.due(13 * MS, Some(2), false, &p), "after 10 ms");
        c.rate_bps = FAST_BPS;
        assert_eq!(timed(&mut c, 13 * MS..13 * MS + 9, &p), [true; 9]);
    }
}
