//! Effects of jitter on mean, spread and order of frames, for each of its orders.

use std::sync::Arc;

use constel_link::{Edge, Effects, Impairment, Jitter, JitterLaw, JitterOrder};

const MS: u64 = 1_000_000;

/// Delays of frames in the order in which they were sent, ms, and how many arrived after one that was sent later.
struct Seen {
    delays_ms: Vec<f64>,
    overtaken: usize,
}

impl Seen {
    fn mean(&self) -> f64 {
        self.delays_ms.iter().sum::<f64>() / self.delays_ms.len() as f64
    }

    fn sd(&self) -> f64 {
        let mean = self.mean();
        let squares = self.delays_ms.iter().map(|d| (d - mean).powi(2));
        (squares.sum::<f64>() / self.delays_ms.len() as f64).sqrt()
    }
}

/// `frames` frames, one each `every_ns`, over an edge of 250 ms with this jitter.
fn over_an_edge(jitter: Jitter, every_ns: u64, frames: usize) -> Seen {
    let effects = Effects {
        jitter: Some(jitter),
        ..Effects::default()
    };
    let mut edge: Edge<usize> = Edge::new(Impairment::delay_only(250 * MS), 7, 0, 1, 0);
    edge.set_effects(0, Some(Arc::new(effects)), &mut |_, _| ());
    let mut seen = Seen {
        delays_ms: vec![f64::NAN; frames],
        overtaken: 0,
    };
    let mut latest = None;
    let mut take = |edge: &mut Edge<usize>, now| {
        while let Some(out) = edge.pop_due(now, &mut |_, _| ()) {
            let sent_ns = out.frame as u64 * every_ns;
            seen.delays_ms[out.frame] = (out.due_ns - sent_ns) as f64 / 1e6;
            seen.overtaken += usize::from(latest > Some(out.frame));
            latest = latest.max(Some(out.frame));
        }
    };
    for n in 0..frames {
        let now = n as u64 * every_ns;
        take(&mut edge, now);
        edge.arrive(now, n, 100, &mut |_, _| ()).unwrap();
    }
    take(&mut edge, u64::MAX);
    seen
}

fn jitter(law: JitterLaw, order: JitterOrder) -> Jitter {
    Jitter {
        order,
        ..Jitter::of(law)
    }
}

const NORMAL: JitterLaw = JitterLaw::Normal { sd_ns: 20 * MS };
/// 2,000 frames a second.
const FAST_NS: u64 = MS / 2;

#[test]
fn held_back_frames_keep_their_order_and_not_their_mean() {
    let fast = over_an_edge(jitter(NORMAL, JitterOrder::Hold), FAST_NS, 40_000);
    assert_eq!(fast.overtaken, 0);
    assert!(fast.mean() > 280.0, "a running maximum: {}", fast.mean());
    let slow = over_an_edge(jitter(NORMAL, JitterOrder::Hold), 1_000 * MS, 10_000);
    assert!((slow.mean() - 250.0).abs() < 1.0, "{}", slow.mean());
}

#[test]
fn frames_that_may_overtake_have_the_law_each_by_itself() {
    let seen = over_an_edge(jitter(NORMAL, JitterOrder::Overtake), FAST_NS, 40_000);
    // Four deviations of the mean of this number.
    assert!((seen.mean() - 250.0).abs() < 0.4, "{}", seen.mean());
    assert!((seen.sd() - 20.0).abs() < 0.3, "{}", seen.sd());
    assert!(seen.overtaken > 30_000, "{}", seen.overtaken);
    // Some held back besides still arrive.
    assert!(seen.delays_ms.iter().all(|delay| !delay.is_nan()));
}

#[test]
fn smooth_jitter_keeps_order_mean_and_spread_whatever_the_traffic() {
    let uniform = JitterLaw::Uniform {
        half_width_ns: 20 * MS,
    };
    let table = JitterLaw::Table {
        quantiles_ns: vec![-10 * MS as i64, 0, 5 * MS as i64, 20 * MS as i64],
    };
    let pareto = JitterLaw::ParetoNormal { sd_ns: 20 * MS };
    // `within` is some four standard errors of the mean: at 2,000 frames a second the run is 200 s, and the process forgets in
    // 0.4 s. Mean and deviation of the table: three thirds, each even.
    let (table_mean, table_sd) = (10.0 / 3.0, 7.82);
    for (law, every_ns, mean, sd, within) in [
        (NORMAL, FAST_NS, 0.0, 20.0, 3.6),
        (NORMAL, 20 * MS, 0.0, 20.0, 0.7),
        (uniform, FAST_NS, 0.0, 20.0 / 3.0f64.sqrt(), 1.5),
        (table, FAST_NS, table_mean, table_sd, 1.5),
        (pareto, 20 * MS, 0.0, 20.0, 3.0),
    ] {
        let seen = over_an_edge(jitter(law.clone(), JitterOrder::Smooth), every_ns, 400_000);
        assert_eq!(seen.overtaken, 0);
        let off = seen.mean() - 250.0 - mean;
        assert!(off.abs() < within, "{law:?}: mean {}", seen.mean());
        let off = seen.sd() / sd - 1.0;
        assert!(off.abs() < 0.2, "{law:?}: deviation {}", seen.sd());
        // Hardly ever does a frame arrive together with the one before it: nothing is held back.
        let arrivals = seen.delays_ms.iter().enumerate();
        let at = arrivals.map(|(n, delay)| n as f64 * every_ns as f64 / 1e6 + delay);
        let at: Vec<f64> = at.collect();
        let together = at.windows(2).filter(|two| two[1] - two[0] < 1e-6).count();
        assert!(together < 400, "{law:?}: {together} of 400,000");
    }
}

#[test]
fn jitter_above_the_delay_is_refused() {
    let wide = Jitter::of(JitterLaw::Uniform {
        half_width_ns: 50 * MS,
    });
    let why = wide.fits(MS).unwrap_err();
    assert!(why.contains("50 ms off a delay of 1 ms"), "{why}");
    assert!(wide.fits(50 * MS).is_ok());
    assert!(Jitter::of(NORMAL).fits(39 * MS).is_err());
    assert!(Jitter::of(NORMAL).fits(40 * MS).is_ok());
    let grows = JitterLaw::Pareto { sd_ns: 20 * MS };
    assert!(Jitter::of(grows.clone()).fits(11 * MS).is_err());
    assert!(Jitter::of(grows).fits(12 * MS).is_ok());
    let recorded = JitterLaw::Table {
        quantiles_ns: vec![0, 9],
    };
    assert!(Jitter::of(recorded).fits(0).is_ok());
}
