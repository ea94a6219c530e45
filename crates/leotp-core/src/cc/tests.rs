use super::*;

const MS: Nanos = 1_000_000;

/// Feeds one hopRTT of traffic: `n` segments with hopRTT `rtt`.
fn round(cc: &mut HopCc, now: &mut Nanos, n: u64, rtt: Nanos, p: &Params) {
    for _ in 0..n {
        *now += rtt / n;
        cc.on_data(*now, 1400, Some((*now - rtt / 2, (rtt / 2) as i64)), p);
    }
}

#[test]
fn equations_by_hand() {
    let p = Params {
        queue_threshold_ns: 0,
        hop_rtt_gain: 1.0,
        min_update_ns: 0,
        ..Params::default()
    };
    let mut cc = HopCc::new(&p);
    let mut now = 1000 * MS;
    assert_eq!(cc.rate_bps(None, &p), 10 * 1400 * 8 * 10); // 10 segments in the assumed 100 ms
    cc.on_data(now, 1400, Some((now - 5 * MS, 5 * MS as i64)), &p);
    round(&mut cc, &mut now, 10, 10 * MS, &p);
    assert_eq!(cc.phase(), Phase::SlowStart);
    assert_eq!(cc.cwnd_bytes(), 28_000.0);
    assert_eq!(cc.rate_bps(None, &p), 28_000 * 8 * 100); // equation 10, first term
    round(&mut cc, &mut now, 20, 10 * MS, &p);
    assert_eq!(cc.cwnd_bytes(), 56_000.0);
    // 15 ms of queue: 28,000 B per 25 ms; QueueLen = 16,800 B > M = 8,400 B.
    round(&mut cc, &mut now, 20, 25 * MS, &p);
    assert!((cc.queue_len_bytes() - 16_800.0).abs() < 1.0);
    assert!((cc.cwnd_bytes() - 0.8 * 28_000.0 * 10.0 / 25.0).abs() < 1.0);
    assert_eq!(cc.phase(), Phase::Avoidance);
    let before = cc.cwnd_bytes();
    round(&mut cc, &mut now, 10, 10 * MS, &p);
    assert!((cc.cwnd_bytes() - before - 1400.0).abs() < 1e-6);
    // Equation 9: 2 Mbit/s + (22,400 B - 32,400 B) / 10 ms = -6 Mbit/s, floored
    // at one segment per hopRTT; with an empty buffer cwnd decides.
    assert_eq!(cc.rate_bps(Some((32_400, 2_000_000)), &p), 1400 * 8 * 100);
    assert_eq!(cc.rate_bps(Some((22_400, 2_000_000)), &p), 2_000_000);
    assert_eq!(cc.rate_bps(Some((0, 2_000_000)), &p), cc.rate_bps(None, &p));
}

#[test]
fn a_window_not_in_use_does_not_grow() {
    let p = Params {
        hop_rtt_gain: 1.0,
        ..Params::default()
    };
    let mut cc = HopCc::new(&p);
    let mut now = 1000 * MS;
    for _ in 0..100 {
        round(&mut cc, &mut now, 10, 10 * MS, &p);
    }
    assert!(cc.cwnd_bytes() <= 14_000.0 * 6.0, "{}", cc.cwnd_bytes());
}

/// A hop of 10 ms with 14 segments in each, in congestion avoidance, draining.
fn avoiding(p: &Params) -> (HopCc, Nanos) {
    let (mut cc, mut now) = (HopCc::new(p), 1000 * MS);
    cc.on_data(now, 1400, Some((now - 5 * MS, 5 * MS as i64)), p);
    round(&mut cc, &mut now, 14, 10 * MS, p);
    round(&mut cc, &mut now, 14, 30 * MS, p);
    assert_eq!(cc.phase(), Phase::Avoidance);
    for _ in 0..20 {
        round(&mut cc, &mut now, 14, 10 * MS, p);
    }
    (cc, now)
}

#[test]
fn half_way_to_m_cwnd_grows_no_more() {
    let p = Params {
        hop_rtt_gain: 1.0,
        queue_threshold_segments: 2.5,
        ..Params::beyond()
    };
    let (mut cc, mut now) = avoiding(&p);
    let free = cc.cwnd_bytes() / 1400.0;
    // 1.2 ms of 14 segments in 11.2 ms: 1.5 segments of queue, where M is 2.5.
    for _ in 0..10 {
        round(&mut cc, &mut now, 14, 11_200_000, &p);
    }
    let (queue, held) = (cc.queue_len_bytes() / 1400.0, cc.cwnd_bytes() / 1400.0);
    assert!((queue - 1.5).abs() < 0.1, "{queue}");
    assert!(free > 13.0 && (held - 12.5).abs() < 0.1, "{free} {held}");
}

#[test]
fn a_round_lasts_until_something_has_measured() {
    let p = Params::beyond();
    let (mut cc, mut now) = avoiding(&p);
    let unmeasured = |cc: &mut HopCc, now: &mut Nanos, n: u64, bytes: u64| {
        for _ in 0..n {
            *now += MS;
            cc.on_data(*now, bytes, None, &p);
        }
    };
    // The round that has begun ends as it must.
    unmeasured(&mut cc, &mut now, 15, 1400);
    let before = cc.throughput_bps();
    unmeasured(&mut cc, &mut now, 20, 14_000);
    assert_eq!(cc.throughput_bps(), before);
    // But no longer than four hopRTT.
    unmeasured(&mut cc, &mut now, 25, 14_000);
    assert!(cc.throughput_bps() > 3.0 * before);
}

#[test]
fn a_pause_is_no_throughput() {
    let p = Params::beyond();
    let (mut cc, mut now) = avoiding(&p);
    let before = (cc.throughput_bps(), cc.cwnd_bytes());
    // The path leads elsewhere for a second; the packets that were queued before the cut
    // come back with it.
    now += 1000 * MS;
    for _ in 0..2 {
        round(&mut cc, &mut now, 14, 10 * MS, &p);
        let ratio = cc.throughput_bps() / before.0;
        assert!((0.9..1.1).contains(&ratio), "{ratio}");
    }
    assert!(cc.cwnd_bytes() >= 0.9 * before.1);
}
