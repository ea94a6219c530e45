//! The recorded Starlink link plays: its capacity to the byte, its delays to the nanosecond.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use constel_link::{
    DropCause, Edge, Effects, Impairment, Jitter, JitterLaw, OPPORTUNITY_BYTES, QueueLimit,
    RateLaw, trace,
};

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;

fn data(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name);
    let bytes = if name.ends_with(".gz") {
        let out = Command::new("gzip").arg("-dc").arg(&path).output().unwrap();
        assert!(out.status.success());
        out.stdout
    } else {
        std::fs::read(&path).unwrap()
    };
    String::from_utf8(bytes).unwrap()
}

fn none(frame: u32, cause: DropCause) {
    panic!("frame {frame}: {cause:?}");
}

#[test]
fn the_uplinks_capacity_plays_second_by_second() {
    let text = data("starlink-uplink-mahimahi.txt.gz");
    let times: Vec<u64> = text.lines().map(|line| line.parse().unwrap()).collect();
    let law = trace::mahimahi(&text).unwrap();
    let lasts_ms = *times.last().unwrap();
    let mean_mbps = law.mean_bps() as f64 / 1e6;
    assert!((48.0..50.0).contains(&mean_mbps), "{mean_mbps}");
    // A sender that always has something waiting, in frames that do not divide an opportunity, for
    // the recording and half of its repetition.
    let effects = Effects {
        rate_law: Some(law),
        ..Effects::default()
    };
    let wide = Impairment {
        queue: QueueLimit { bytes: u64::MAX },
        ..Impairment::delay_only(0)
    };
    let mut edge: Edge<u32> = Edge::new(wide, 1, 0, 1, 0);
    edge.set_effects(0, Some(Arc::new(effects)), &mut none);
    let (len, ends_ms) = (1_200u64, lasts_ms * 3 / 2);
    let opportunities_by = |ms: u64| {
        let by = |ms| times.iter().filter(|t| **t <= ms && **t > 0).count() as u64;
        let round = by(lasts_ms) + times.iter().filter(|t| **t == 0).count() as u64;
        ms / lasts_ms * round + by(ms % lasts_ms)
    };
    let needed = opportunities_by(ends_ms) * u64::from(OPPORTUNITY_BYTES) / len + 10;
    for n in 0..needed {
        edge.arrive(0, n as u32, len as u32, &mut none).unwrap();
    }
    let mut served = 0u64;
    for second in 1..=ends_ms / 1_000 {
        while edge.pop_due(second * S, &mut none).is_some() {
            served += 1;
        }
        let possible = opportunities_by(second * 1_000) * u64::from(OPPORTUNITY_BYTES) / len;
        assert_eq!(served, possible, "after {second} s");
    }
}

#[test]
fn the_delays_play_value_by_value() {
    let extra_ns = trace::delays_ms(&data("starlink-delay-10ms.txt")).unwrap();
    let law = JitterLaw::Trace {
        interval_ns: 10 * MS,
        extra_ns: extra_ns.clone(),
        origin_ns: 0,
    };
    let effects = Effects {
        delay_ns: Some(0),
        jitter: Some(Jitter::of(law)),
        ..Effects::default()
    };
    // The geometry's delay does not matter.
    let mut edge: Edge<u32> = Edge::new(Impairment::delay_only(77 * MS), 1, 0, 1, 0);
    edge.set_effects(0, Some(Arc::new(effects)), &mut none);
    let mut last = 0;
    for n in 0..2 * extra_ns.len() {
        let now = n as u64 * 10 * MS + 3 * MS;
        edge.arrive(now, n as u32, 100, &mut none).unwrap();
        let expected = now + extra_ns[n % extra_ns.len()] as u64;
        // In order: none overtakes the one before.
        last = expected.max(last);
        let got = std::iter::from_fn(|| edge.pop_due(now + S, &mut none))
            .last()
            .unwrap();
        assert_eq!(got.due_ns, last, "value {n}");
    }
    assert!(matches!(
        trace::rate_csv("t_s,rate_mbps\n0,1\n", true),
        Ok(RateLaw::Steps { .. })
    ));
}
