//! Draining the queue of a hop (`drain_queue`), and the distinction of a queue from a late host.

use super::params::Params;

/// Rounds of draining.
const DRAIN_ROUNDS: u32 = 8;
/// The first of them, in which a queue must become shorter; otherwise it may be none.
const FIRST_ROUNDS: u32 = 3;
/// The longest wait that counts as a late host's, in units of `queue_threshold_ns`: a longer wait
/// that does not drain may be a queue that other flows fill.
const LATE_HOST: f64 = 4.0;
/// The number of rounds for which a late host's wait is remembered although shorter ones
/// occurred, on hops that carry [`REMEMBERED_SEGMENTS`] within it. A host that is late now and
/// then would otherwise leave such a hop idle, because each time a few rounds of draining and
/// slow growth follow. On slower hops this number of rounds with a queue of that length costs
/// more than that.
const REMEMBERED_ROUNDS: u32 = 500;
const REMEMBERED_SEGMENTS: f64 = 32.0;
/// A queue has not become shorter if it has at least this part of its first length.
const NOT_SHORTER: f64 = 0.75;
/// Rounds of growth after which a hop without a queue grows faster, and the largest factor.
const CALM_ROUNDS: u32 = 5;
const MOST_FASTER: u32 = 8;

/// The values of equations 6 and 7 for a hop at the end of a round.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Round {
    /// Throughput, byte/ns.
    pub(crate) throughput: f64,
    /// hopRTTmin, ns.
    pub(crate) min_ns: f64,
    /// Time that Data has waited on this hop, ns: [`Drain::waited_ns`].
    pub(crate) waited_ns: f64,
    /// Equation 8's M, byte.
    pub(crate) m: f64,
}

/// Draining of one hop's queue.
#[derive(Debug, Clone, Default)]
pub(crate) struct Drain {
    /// Rounds left; 0: no queue is being drained.
    rounds: u32,
    /// Rounds of growth since the last queue.
    calm: u32,
    /// Time waited when draining began, and in the last round, ns.
    from_ns: f64,
    last_ns: f64,
    /// The link's throughput, byte/ns, as measured before the rate was lowered.
    throughput: f64,
    /// Waiting time that a lower rate has not shortened, ns: it is caused by a late host.
    no_queue_ns: f64,
    /// Rounds for which it is remembered.
    remembered: u32,
}

impl Drain {
    /// Returns the part of a waiting time, ns, that can be a queue.
    pub(crate) fn waited_ns(&mut self, waited_ns: f64) -> f64 {
        if self.remembered > 0 {
            self.remembered -= 1;
        } else {
            self.no_queue_ns = self.no_queue_ns.min(waited_ns);
        }
        // A late host delays every packet by about the same time; only the rest can be a queue.
        (waited_ns - self.no_queue_ns).max(0.0)
    }

    /// Returns the factor of the usual step of cwnd: after a few rounds without a queue the link
    /// must have become faster.
    pub(crate) fn faster(&mut self) -> f64 {
        self.calm = (self.calm + 1).min(CALM_ROUNDS + MOST_FASTER);
        f64::from(self.calm.saturating_sub(CALM_ROUNDS).max(1))
    }

    /// Returns the window, byte, that drains the queue which has exceeded M; `None` when there is
    /// no queue to drain.
    pub(crate) fn cwnd(&mut self, r: Round, p: &Params) -> Option<f64> {
        let queue = r.throughput * r.waited_ns;
        if self.rounds == 0 {
            if queue <= r.m {
                return None;
            }
            // Start of draining: keep the throughput of this round, because the queue kept the
            // link busy, so it is what the link can carry.
            (self.rounds, self.calm) = (DRAIN_ROUNDS, 0);
            (self.from_ns, self.throughput) = (r.waited_ns, r.throughput);
        } else if r.waited_ns > self.last_ns {
            // The queue grew although the rate was lowered: the link has become slower.
            self.throughput = r.throughput;
        } else {
            // The arriving bytes are now limited by our rate, not by the link.
            self.throughput = self.throughput.max(r.throughput);
        }
        // M's own floor, because hosts cannot distinguish a shorter queue.
        let enough = (r.m / 3.0).max(r.throughput * p.queue_threshold_ns as f64);
        if queue <= enough.min(r.m) {
            // The queue is drained: return to the BDP of the link (equation 6). Less may have
            // arrived than was requested, when a node behind us is full.
            self.rounds = 0;
            return Some(self.throughput * r.min_ns);
        }
        if self.rounds < DRAIN_ROUNDS - FIRST_ROUNDS {
            // The queue stays long: a queue that other flows fill is drained by an ever lower
            // rate.
            self.throughput = r.throughput;
        }
        self.last_ns = r.waited_ns;
        self.rounds -= 1;
        let bdp = self.throughput * r.min_ns;
        // All waiting time so far must be within that of a late host.
        let late = self.no_queue_ns + r.waited_ns <= LATE_HOST * p.queue_threshold_ns as f64;
        let judged = self.rounds == DRAIN_ROUNDS - FIRST_ROUNDS;
        if judged && late && r.waited_ns >= NOT_SHORTER * self.from_ns {
            // Three hopRTTs at a lower rate have not shortened the wait, so it is not a queue of
            // ours.
            self.no_queue_ns += r.waited_ns;
            let segments = self.no_queue_ns * self.throughput / f64::from(p.segment_bytes);
            if segments >= REMEMBERED_SEGMENTS {
                self.remembered = REMEMBERED_ROUNDS;
            }
            self.rounds = 0;
            return Some(bdp);
        }
        // Half of the queue leaves within the next hopRTT. cwnd does not fall below k BDP
        // (equation 8), which keeps the link from running empty.
        Some((bdp - queue / 2.0).max(p.decrease * bdp))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: f64 = 1e6;

    /// A round of a hop with a hopRTTmin of 10 ms and M of 2,800 byte.
    fn round(mbps: f64, waited_ms: f64) -> Round {
        Round {
            throughput: mbps / 8e3,
            min_ns: 10.0 * MS,
            waited_ns: waited_ms * MS,
            m: 2800.0,
        }
    }

    fn params() -> Params {
        Params {
            queue_threshold_ns: 1,
            decrease: 0.85,
            ..Params::beyond()
        }
    }

    #[test]
    fn a_queue_is_drained_before_cwnd_grows_again() {
        let (p, mut d) = (params(), Drain::default());
        let mut cwnd = |mbps, ms| d.cwnd(round(mbps, ms), &p).map(f64::round);
        assert_eq!(cwnd(8.0, 2.8), None);
        // 4,000 byte of queue behind a BDP of 10,000: half of it is more than k lets go.
        assert_eq!(cwnd(8.0, 4.0), Some(8500.0));
        // The link still carries 8 Mbit/s: it has a queue.
        assert_eq!(cwnd(8.0, 2.5), Some(8750.0));
        // Down to M / 3.
        assert_eq!(cwnd(8.0, 1.2), Some(9400.0));
        assert_eq!(cwnd(7.5, 0.9), Some(10_000.0));
        assert_eq!(cwnd(7.5, 2.8), None);
    }

    #[test]
    fn a_slower_link_is_followed() {
        let (p, mut d) = (params(), Drain::default());
        let mut cwnd = |mbps, ms| d.cwnd(round(mbps, ms), &p).map(f64::round);
        assert_eq!(cwnd(8.0, 3.0), Some(8500.0));
        assert_eq!(cwnd(4.0, 8.0), Some(4250.0));
    }

    #[test]
    fn what_does_not_drain_is_no_queue() {
        let p = Params {
            decrease: 0.85,
            ..Params::beyond()
        };
        let mut d = Drain::default();
        let mut least = f64::MAX;
        // Every packet waits 4 ms for a processor. The rate of arrival is the requested rate.
        let mut mbps = 8.0;
        for _ in 0..100 {
            let waited = d.waited_ns(4.0 * MS);
            let r = Round {
                waited_ns: waited,
                ..round(mbps, 0.0)
            };
            mbps = d.cwnd(r, &p).map_or(8.0, |cwnd| cwnd * 8e3 / (10.0 * MS));
            least = least.min(mbps);
        }
        // Three rounds at k of the rate, and no more.
        assert!((least - 6.8).abs() < 1e-6, "{least}");
        assert_eq!(mbps, 8.0);
        // A queue on top of it is one.
        let waited = d.waited_ns(8.0 * MS);
        assert_eq!(waited, 4.0 * MS);
        // The host is quick again: 4 ms are a queue.
        d.waited_ns(0.5 * MS);
        assert_eq!(d.waited_ns(4.0 * MS), 3.5 * MS);
    }

    #[test]
    fn fast_hops_remember_a_late_host() {
        let p = Params::beyond();
        // The part of 3 ms that have not drained that still counts as a queue, ms, after rounds
        // in which packets did not wait.
        let later = |mbps: f64, rounds: u32| {
            let mut d = Drain::default();
            for _ in 0..3 {
                let waited_ns = d.waited_ns(3.0 * MS);
                d.cwnd(
                    Round {
                        waited_ns,
                        ..round(mbps, 0.0)
                    },
                    &p,
                );
            }
            for _ in 0..rounds {
                assert_eq!(d.waited_ns(0.0), 0.0);
            }
            d.waited_ns(3.0 * MS) / MS
        };
        // 26 segments at 100 Mbit/s, 134 at 500.
        assert_eq!((later(100.0, 0), later(100.0, 1)), (0.0, 3.0));
        assert_eq!((later(500.0, 1), later(500.0, 499)), (0.0, 0.0));
        assert_eq!(later(500.0, 501), 3.0);
    }

    #[test]
    fn calm_makes_faster() {
        let mut d = Drain::default();
        let steps: Vec<f64> = (0..20).map(|_| d.faster()).collect();
        assert_eq!(steps[..8], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 3.0]);
        assert_eq!(steps[19], 8.0);
    }
}
