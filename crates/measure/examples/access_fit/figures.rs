//! The figures of a series of pings that the fit compares, and their distance.

use constel_measure::compare::{Losses, Series, SlotTimes, autocorrelation, medians, w1};
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

/// Rows of a comparison: name, measured value, model's value, and the difference that weighs 1. Figures that are ratios of
/// rare events are compared by their logarithm.
pub(crate) fn rows(measured: &Figures, model: &Figures) -> Vec<(String, f64, f64, f64)> {
    let mut rows = Vec::new();
    for q in [0.01, 0.05, 0.10, 0.25, 0.50, 0.75, 0.90, 0.95, 0.99] {
        let of = |f: &Figures| rank(&f.rtts_ms, q);
        let tolerance = if (0.25..=0.75).contains(&q) {
            0.04
        } else {
            0.08
        };
        rows.push((
            format!("RTT {:.0} %, ms", q * 100.0),
            of(measured),
            of(model),
            tolerance * of(measured),
        ));
    }
    for q in [0.10, 0.25, 0.50, 0.75, 0.90] {
        let of = |f: &Figures| rank(&f.slot_medians_ms, q);
        rows.push((
            format!("slot medians {:.0} %, ms", q * 100.0),
            of(measured),
            of(model),
            0.10 * of(measured),
        ));
    }
    let names = ["first 0.1 s", "0.1 s to 1 s", "after 1 s"];
    for (n, name) in names.iter().enumerate() {
        let (a, b) = (measured.profile_ms[n], model.profile_ms[n]);
        // The first tenth of a second has one ping a slot, so its figures are less certain.
        let wide = if n == 0 { 2.0 } else { 1.0 };
        rows.push((
            format!("median of a slot's {name}, ms"),
            a.0,
            b.0,
            wide * 0.06 * a.0,
        ));
        rows.push((
            format!("95 % of a slot's {name}, ms"),
            a.1,
            b.1,
            wide * 0.12 * a.1,
        ));
    }
    rows.push((
        "quartiles apart within a slot, ms".into(),
        measured.within_ms,
        model.within_ms,
        0.15 * measured.within_ms,
    ));
    rows.push((
        "correlation of neighbours".into(),
        measured.memory,
        model.memory,
        0.05,
    ));
    let ratio =
        |name: &str, a: f64, b: f64, factor: f64| (name.to_owned(), a, b, a * (factor - 1.0));
    let (a, b) = (&measured.losses, &model.losses);
    rows.push(ratio("lost, %", 100.0 * a.ratio, 100.0 * b.ratio, 1.2));
    rows.push(ratio(
        "bursts of loss for 1,000 pings",
        a.bursts_per_1000,
        b.bursts_per_1000,
        1.2,
    ));
    rows.push(ratio("mean burst, pings", a.mean_burst, b.mean_burst, 1.2));
    rows
}

/// The distance that the fit minimises: the mean square of all rows in units of their tolerance, and of W1 in units of
/// 1.5 ms.
pub(crate) fn distance(measured: &Figures, model: &Figures) -> f64 {
    if model.rtts_ms.is_empty() || model.slot_medians_ms.is_empty() {
        return f64::MAX;
    }
    let rows = rows(measured, model);
    let squares: f64 = rows
        .iter()
        // A part that is absent gives a difference of many tolerances; the bound keeps the simplex on its way.
        .map(|(_, a, b, unit)| ((b - a) / unit).clamp(-20.0, 20.0).powi(2))
        .sum();
    let apart = w1(&model.rtts_ms, &measured.rtts_ms) / 1.5;
    (squares + apart * apart) / (rows.len() + 1) as f64
}
