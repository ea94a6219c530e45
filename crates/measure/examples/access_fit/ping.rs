//! Pings over the model, in virtual time, and the pings of a measurement.

use constel_link::access::{Access, Direction, Fate, Passage, Terminal};
use constel_measure::compare::{Probe, Series};

/// Time between two pings, as in the measurement of Victoria.
const INTERVAL_NS: u64 = 101_285_396;
/// Quantiles of the round-trip time by geometry and cables alone at probabilities 0, 1/2 and 1, milliseconds: dish,
/// satellite, gateway, point of presence (Constel, Shell I, the site of Victoria). Each slot has one.
const GEOMETRY_MS: [f64; 3] = [8.0, 8.4, 10.7];

/// Pings `seconds` long over an access, of a terminal with this seed, from `hour` of local mean solar time on.
pub(crate) fn pings(access: &Access, seed: u64, seconds: u64, hour: f64) -> Series {
    let minute_ns = 60_000_000_000;
    let terminal = Terminal::new(seed, 1).at(minute_ns, hour);
    // The geometry of a slot is a number of another terminal, so that it depends on no draw of the access.
    let sky = Terminal::new(seed, 2).at(minute_ns, hour);
    let (mut up, mut down) = (Passage::new(Direction::Up), Passage::new(Direction::Down));
    let geometry = Access {
        slots: access.slots,
        step: Some(constel_link::access::Step {
            spread_ns: 1_000_000,
            long_ratio: 0.0,
            long_least_ns: 0,
            long_most_ns: 0,
            change_ratio: 0.0,
        }),
        ..Access::default()
    };
    let mut slot = None;
    let mut way_ns = 0;
    let count = seconds * 1_000_000_000 / INTERVAL_NS;
    let probes = (0..count).map(|n| {
        let sent_ns = minute_ns + n * INTERVAL_NS;
        let now = geometry.slot_at(&sky, sent_ns);
        if slot != Some(now.number) {
            slot = Some(now.number);
            way_ns = way(now.step_ns as f64 / 1e6);
        }
        let back = match up.send(access, &terminal, sent_ns) {
            Fate::Lost(_) => None,
            Fate::Out { at_ns } => match down.send(access, &terminal, at_ns + way_ns) {
                Fate::Lost(_) => None,
                Fate::Out { at_ns } => Some(at_ns + way_ns),
            },
        };
        Probe {
            t_s: (sent_ns - minute_ns) as f64 / 1e9,
            rtt_ms: back.map(|back| (back - sent_ns) as f64 / 1e6),
        }
    });
    Series {
        probes: probes.collect(),
        ..Series::default()
    }
}

/// Returns the delay of one direction by geometry at this probability, nanoseconds.
fn way(probability: f64) -> u64 {
    let [least, middle, most] = GEOMETRY_MS;
    let rtt_ms = match probability < 0.5 {
        true => least + 2.0 * probability * (middle - least),
        false => middle + (2.0 * probability - 1.0) * (most - middle),
    };
    (rtt_ms / 2.0 * 1e6) as u64
}

/// Reads pings: a header, then `received_unix_s,sequence,rtt_ms`. Sequence numbers that are missing are lost pings; they
/// were sent in between.
pub(crate) fn read(text: &str) -> Result<Series, String> {
    let mut answered: Vec<(u64, f64, f64)> = Vec::new();
    for (index, line) in text.lines().enumerate().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let cell = |n: usize| {
            cells
                .get(n)
                .and_then(|cell| cell.trim().parse::<f64>().ok())
        };
        let (Some(received_s), Some(sequence), Some(rtt_ms)) = (cell(0), cell(1), cell(2)) else {
            return Err(format!("line {}: not three numbers", index + 1));
        };
        answered.push((sequence as u64, received_s - rtt_ms / 1e3, rtt_ms));
    }
    answered.sort_by_key(|row| row.0);
    answered.dedup_by_key(|row| row.0);
    let mut probes = Vec::new();
    for pair in answered.windows(2) {
        let [(first, sent_s, rtt_ms), (next, later_s, _)] = [pair[0], pair[1]];
        probes.push(Probe {
            t_s: sent_s,
            rtt_ms: Some(rtt_ms),
        });
        let step_s = (later_s - sent_s) / (next - first) as f64;
        probes.extend((first + 1..next).map(|lost| Probe {
            t_s: sent_s + (lost - first) as f64 * step_s,
            rtt_ms: None,
        }));
    }
    if let Some((_, sent_s, rtt_ms)) = answered.last() {
        probes.push(Probe {
            t_s: *sent_s,
            rtt_ms: Some(*rtt_ms),
        });
    }
    Ok(Series {
        probes,
        ..Series::default()
    })
}
