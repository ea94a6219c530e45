//! The blockage of a site, from its pings: a property of the place, which no preset has.

use constel_link::access::{Blockage, Partial};
use constel_measure::compare::{Probe, Series};
use constel_measure::quantiles::rank;

use crate::figures::slots;

/// Share of lost pings above which a slot is blocked: gaps and failed transmissions take a few per cent, and a tenth in
/// the worst slot.
const BLOCKED: f64 = 0.25;
/// Share of lost pings above which a blocked slot has no service.
const WHOLE: f64 = 0.9;
/// Pings lost in a row from which on a gap counts as one: single ones are lost without blockage.
const ROW: usize = 2;
/// Least number of pings of a slot that is judged: the measurement cuts the first and the last.
const LEAST: usize = 100;

fn lost(slot: &[Probe]) -> f64 {
    let count = slot.iter().filter(|p| p.rtt_ms.is_none()).count();
    count as f64 / slot.len() as f64
}

/// The series without its blocked slots.
pub(crate) fn without(series: &Series) -> Series {
    let clear = slots(series)
        .into_iter()
        .filter(|slot| lost(slot) <= BLOCKED);
    Series {
        probes: clear.flatten().copied().collect(),
        ..Series::default()
    }
}

/// The blockage of a site: every number is a count, nothing is searched.
pub(crate) fn of(series: &Series) -> Option<Blockage> {
    let all = slots(series);
    let judged: Vec<&[Probe]> = all.into_iter().filter(|s| s.len() >= LEAST).collect();
    let blocked: Vec<bool> = judged.iter().map(|slot| lost(slot) > BLOCKED).collect();
    let changes = |from: bool| {
        let before = blocked.windows(2).filter(|w| w[0] == from);
        let changed = before.clone().filter(|w| w[1] != from).count();
        changed as f64 / before.count() as f64
    };
    let parts: Vec<&[Probe]> = judged
        .iter()
        .copied()
        .filter(|slot| lost(slot) > BLOCKED && lost(slot) <= WHOLE)
        .collect();
    let count = blocked.iter().filter(|b| **b).count();
    if count == 0 {
        return None;
    }
    Some(Blockage {
        begin_ratio: changes(false),
        end_ratio: changes(true),
        partial: partial(&parts, parts.len() as f64 / count as f64),
    })
}

fn partial(slots: &[&[Probe]], ratio: f64) -> Option<Partial> {
    let first = slots.first()?;
    let interval_s = (first.last()?.t_s - first.first()?.t_s) / (first.len() - 1) as f64;
    let mut rtts: Vec<f64> = slots
        .iter()
        .flat_map(|slot| slot.iter().filter_map(|p| p.rtt_ms))
        .collect();
    rtts.sort_by(f64::total_cmp);
    let (mut rows, mut lost, mut all) = (0, 0, 0);
    let mut most_ms: f64 = 0.0;
    for slot in slots {
        all += slot.len();
        let runs: Vec<&[Probe]> = slot
            .chunk_by(|a, b| a.rtt_ms.is_none() == b.rtt_ms.is_none())
            .collect();
        for (n, run) in runs.iter().enumerate() {
            if run[0].rtt_ms.is_some() || run.len() < ROW {
                continue;
            }
            rows += 1;
            lost += run.len();
            // The first answer after a row waited for the end of the gap.
            let after = runs.get(n + 1).and_then(|run| run[0].rtt_ms);
            most_ms = most_ms.max(after.unwrap_or(0.0));
        }
    }
    let hold_ms = (most_ms - rank(&rtts, 0.5)).max(0.0);
    // A gap is longer than its row of lost pings by the wait of its last frames, half of the longest in the mean.
    let wait_s = hold_ms / 2e3;
    let blocked_s = lost as f64 * interval_s / f64::from(rows) + wait_s;
    let clear_s = (all - lost) as f64 * interval_s / f64::from(rows) - wait_s;
    let ns = |s: f64| (s * 1e9) as u64;
    Some(Partial {
        ratio,
        blocked_ns: ns(blocked_s),
        clear_ns: ns(clear_s),
        hold_ns: ns(hold_ms / 1e3),
    })
}

/// The blockage as a scenario has it.
pub(crate) fn text(chain: &Blockage) -> String {
    let percent = |ratio: f64| format!("{:.1} %", 100.0 * ratio);
    let (begin, end) = (percent(chain.begin_ratio), percent(chain.end_ratio));
    let part = chain.partial.map_or(String::new(), |part| {
        let s = |ns: u64| format!("{:.2} s", ns as f64 / 1e9);
        format!(
            ", partial: {{chance: {}, blocked: {}, clear: {}, hold: {}}}",
            percent(part.ratio),
            s(part.blocked_ns),
            s(part.clear_ns),
            s(part.hold_ns)
        )
    });
    format!("blockage: {{begin: {begin}, end: {end}{part}}}")
}
