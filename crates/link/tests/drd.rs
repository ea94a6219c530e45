//! NIST Net's Derivative Random Drop: what is dropped at each length of the queue lies on the ramp, within three standard
//! deviations, from the lower threshold to the 95 % that it never exceeds.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;

use constel_link::packet::Traits;
use constel_link::{Discipline, Edge, Effects, Impairment, QueueLimit};

/// A frame takes a millisecond.
const FRAME_BYTES: u32 = 1_000;
const RATE: u64 = 8_000_000;
const MIN: u64 = 10;
const MAX: u64 = 50;
/// Time between two frames, microseconds: from less than the queue drains to more than it ever drops.
const GAPS_US: [u64; 12] = [1_010, 950, 900, 800, 700, 600, 500, 400, 300, 200, 100, 40];
const FRAMES_PER_GAP: u64 = 40_000;

#[test]
fn what_is_dropped_at_each_length_lies_on_the_ramp() {
    let impairment = Impairment {
        rate_bps: NonZeroU64::new(RATE),
        queue: QueueLimit { bytes: 1 << 30 },
        ..Impairment::delay_only(0)
    };
    let mut edge: Edge<u64> = Edge::new(impairment, 19, 0, 1, 0);
    let discipline = Discipline::Drd {
        min_frames: MIN,
        max_frames: MAX,
        ecn: false,
    };
    let effects = Effects {
        discipline: Some(discipline),
        ..Effects::default()
    };
    edge.set_effects(0, Some(Arc::new(effects)), &mut |_, _| ());
    // By what a frame finds waiting: frames, and those dropped. All lengths above the ramp count as one.
    let mut found: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    let mut now = 1_000_000_000;
    for gap_us in GAPS_US {
        for _ in 0..FRAMES_PER_GAP {
            now += gap_us * 1_000;
            while edge.pop_due(now, &mut |_, _| ()).is_some() {}
            let waiting = edge.queue_bytes() / u64::from(FRAME_BYTES);
            let taken = edge
                .arrive_as(now, 0, FRAME_BYTES, Traits::default(), &mut |_, _| ())
                .is_ok();
            let row = found.entry(waiting.min(MAX)).or_default();
            row.0 += 1;
            row.1 += u64::from(!taken);
        }
    }
    let mut looked_at = 0;
    for (&waiting, &(frames, dropped)) in &found {
        let chance = 0.95 * (waiting.saturating_sub(MIN) as f64 / (MAX - MIN) as f64).min(1.0);
        let expected = chance * frames as f64;
        let sigma = (expected * (1.0 - chance)).sqrt();
        let off = (dropped as f64 - expected).abs();
        assert!(
            off <= 3.0 * sigma,
            "{dropped} of {frames} frames that found {waiting} waiting, {expected:.1} +- {sigma:.1} expected"
        );
        looked_at += u64::from(frames >= 1_000);
    }
    assert!(
        looked_at >= 40,
        "too few lengths were seen often: {found:?}"
    );
    let (frames, dropped) = found[&MAX];
    let share = dropped as f64 / frames as f64;
    assert!(
        (0.94..0.96).contains(&share),
        "{share} at the end of the ramp"
    );
}
