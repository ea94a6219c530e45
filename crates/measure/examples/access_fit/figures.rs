//! The figures of a series of pings that the fit compares, and their distance.

use constel_measure::compare::{Losses, Probe, Series, SlotTimes, autocorrelation, medians, w1};
use constel_measure::quantiles::rank;

/// Figures of a series.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    /// Round-trip times in rising order, milliseconds.
    pub(crate) rtts_ms: Vec<f64>,
    /// Medians of slots in rising order, milliseconds.
    pub(crate) slot_medians_ms: Vec<f64>,
    /// Median of the interquartile ranges within slots, milliseconds.
    pub(crate) within_ms: f64,
    /// Median and 95 % of the first tenth of a second of a slot, the rest of its first second, and the rest,
    /// milliseconds.
    pub(crate) profile_ms: [(f64, f64); 3],
    /// Correlation of neighbouring pings' logarithms, without the slots' medians.
    pub(crate) memory: f64,
    /// Losses.
    pub(crate) losses: Losses,
}

/// Figures of the series of several terminals, taken together.
pub(crate) fn figures(all: &[Series]) -> Figures {
    let slots = SlotTimes::default();
    let mut found = Figures {
        rtts_ms: Vec::new(),
        slot_medians_ms: Vec::new(),
        within_ms: 0.0,
        profile_ms: [(0.0, 0.0); 3],
        memory: 0.0,
        losses: Losses::default(),
    };
    let mut parts: [Vec<f64>; 3] = Default::default();
    let mut within = Vec::new();
    let mut memory = Vec::new();
    let mut joined = Series::default();
    for series in all {
        let rtts = series.rtts();
        for (t_s, rtt_ms) in &rtts {
            let at = (t_s - slots.phase_s).rem_euclid(slots.period_s);
            let part = usize::from(at >= 0.1) + usize::from(at >= 1.0);
            parts[part].push(*rtt_ms);
            found.rtts_ms.push(*rtt_ms);
        }
        let number = |t_s: f64| ((t_s - slots.phase_s) / slots.period_s).floor() as i64;
        for slot in rtts.chunk_by(|a, b| number(a.0) == number(b.0)) {
            let mut values: Vec<f64> = slot.iter().map(|v| v.1).collect();
            values.sort_by(f64::total_cmp);
            if values.len() >= 100 {
                within.push(rank(&values, 0.75) - rank(&values, 0.25));
            }
        }
        found.slot_medians_ms.extend(medians(series, slots));
        memory.extend(memory_of(series, slots));
        joined.probes.extend(&series.probes);
    }
    let sort = |values: &mut Vec<f64>| values.sort_by(f64::total_cmp);
    sort(&mut found.rtts_ms);
    sort(&mut found.slot_medians_ms);
    sort(&mut within);
    parts.iter_mut().for_each(sort);
    let at = |values: &[f64], q: f64| {
        if values.is_empty() {
            f64::NAN
        } else {
            rank(values, q)
        }
    };
    found.within_ms = at(&within, 0.5);
    found.profile_ms = [0, 1, 2].map(|n| (at(&parts[n], 0.5), at(&parts[n], 0.95)));
    found.memory = memory.iter().sum::<f64>() / memory.len() as f64;
    found.losses = Losses::of(&joined);
    found
}

/// Correlation of neighbouring pings without their slots' medians, and with a bound on outliers by the logarithm.
fn memory_of(series: &Series, slots: SlotTimes) -> Option<f64> {
    let number = |t_s: f64| ((t_s - slots.phase_s) / slots.period_s).floor() as i64;
    let mut flat = series.clone();
    for slot in flat
        .probes
        .chunk_by_mut(|a, b| number(a.t_s) == number(b.t_s))
    {
        let mut values: Vec<f64> = slot.iter().filter_map(|p| p.rtt_ms).collect();
        values.sort_by(f64::total_cmp);
        let middle = if values.is_empty() {
            1.0
        } else {
            rank(&values, 0.5)
        };
        for probe in slot {
            probe.rtt_ms = probe.rtt_ms.map(|rtt_ms| (rtt_ms / middle).ln());
        }
    }
    autocorrelation(&flat, 1)
}

/// Names and values of all figures.
fn values(f: &Figures) -> Vec<(String, f64)> {
    let mut values = Vec::new();
    for q in [0.01, 0.05, 0.10, 0.25, 0.50, 0.75, 0.90, 0.95, 0.99] {
        let name = format!("RTT {:.0} %, ms", q * 100.0);
        values.push((name, rank(&f.rtts_ms, q)));
    }
    for q in [0.10, 0.25, 0.50, 0.75, 0.90] {
        let name = format!("slot medians {:.0} %, ms", q * 100.0);
        values.push((name, rank(&f.slot_medians_ms, q)));
    }
    let names = ["first 0.1 s", "0.1 s to 1 s", "after 1 s"];
    for (name, (median, most)) in names.iter().zip(f.profile_ms) {
        values.push((format!("median of a slot's {name}, ms"), median));
        values.push((format!("95 % of a slot's {name}, ms"), most));
    }
    let others = [
        ("quartiles apart within a slot, ms", f.within_ms),
        ("correlation of neighbours", f.memory),
        ("lost, %", 100.0 * f.losses.ratio),
        ("bursts of loss for 1,000 pings", f.losses.bursts_per_1000),
        ("mean burst, pings", f.losses.mean_burst),
    ];
    values.extend(others.map(|(name, value)| (name.to_owned(), value)));
    values
}

/// Rows of a comparison: name, measured value, and the model's value.
pub(crate) fn rows(measured: &Figures, model: &Figures) -> Vec<(String, f64, f64)> {
    let pairs = values(measured).into_iter().zip(values(model));
    pairs.map(|((name, a), (_, b))| (name, a, b)).collect()
}

/// Share of a figure below which a difference is no worse: the model has no more digits.
const FLOOR: f64 = 0.02;
/// Number of samples of the bootstrap.
const SAMPLES: u64 = 400;

/// The measurement that a fit approaches, with the standard errors of its figures.
pub(crate) struct Goal {
    figures: Figures,
    /// Standard errors in the order of [`values`].
    errors: Vec<f64>,
    /// Mean W1 between the measurement and a sample of it, milliseconds.
    w1_ms: f64,
}

impl Goal {
    /// A measurement and its standard errors, by drawing its slots with replacement (Efron 1979): pings of a slot depend on
    /// each other, slots less so. The draws are seeded.
    pub(crate) fn new(series: &Series) -> Goal {
        let all = slots(series);
        let sample = |state: &mut u64| {
            let drawn = all.iter().map(|_| Series {
                probes: all[draw(state, all.len())].to_vec(),
                ..Series::default()
            });
            figures(&drawn.collect::<Vec<Series>>())
        };
        let whole = figures(std::slice::from_ref(series));
        let mut state = 1;
        let (mut sums, mut w1_ms) = (vec![(0.0, 0.0); values(&whole).len()], 0.0);
        for _ in 0..SAMPLES {
            let sample = sample(&mut state);
            w1_ms += w1(&sample.rtts_ms, &whole.rtts_ms) / SAMPLES as f64;
            for (sum, (_, value)) in sums.iter_mut().zip(values(&sample)) {
                sum.0 += value;
                sum.1 += value * value;
            }
        }
        let errors = sums.iter().zip(values(&whole)).map(|(sum, (_, value))| {
            let mean = sum.0 / SAMPLES as f64;
            let variance = (sum.1 / SAMPLES as f64 - mean * mean).max(0.0);
            variance.sqrt().hypot(FLOOR * value)
        });
        Goal {
            errors: errors.collect(),
            figures: whole,
            w1_ms,
        }
    }

    /// The distance that the fit minimises: the mean square of all differences in units of their standard errors.
    pub(crate) fn distance(&self, model: &Figures) -> f64 {
        if model.rtts_ms.is_empty() || model.slot_medians_ms.is_empty() {
            return f64::MAX;
        }
        let rows = rows(&self.figures, model);
        let squares: f64 = rows
            .iter()
            .zip(&self.errors)
            // A part that is absent gives a difference of many errors; the bound keeps the simplex on its way.
            .map(|((_, a, b), error)| ((b - a) / error).clamp(-20.0, 20.0).powi(2))
            .sum();
        let apart = w1(&model.rtts_ms, &self.figures.rtts_ms) / self.w1_ms;
        (squares + apart * apart) / (rows.len() + 1) as f64
    }
}

/// Draws a place below `count` by Knuth's linear congruential generator, of which only the upper bits are used.
fn draw(state: &mut u64, count: usize) -> usize {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize % count
}

/// The pings of each slot.
pub(crate) fn slots(series: &Series) -> Vec<&[Probe]> {
    let times = SlotTimes::default();
    let number = |t_s: f64| ((t_s - times.phase_s) / times.period_s).floor() as i64;
    let chunks = series
        .probes
        .chunk_by(|a, b| number(a.t_s) == number(b.t_s));
    chunks.collect()
}
