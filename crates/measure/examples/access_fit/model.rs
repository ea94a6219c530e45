//! The free numbers of the model, as coordinates without bounds.

use constel_link::access::{
    Access, Cell, Changes, Gap, Grants, HOURS, Leg, Rate, Retransmission, Sky, Slots, Step,
};

/// A radio frame, nanoseconds: 1/750 s, published for Starlink's Ku-band downlink (Humphreys et al. 2023).
const TURN_NS: u64 = 1_333_333;
/// A request and its grant cross the satellite's hop twice; the nearest whole number of turns.
const REQUEST_NS: u64 = 4 * TURN_NS;
/// Range of the serving satellite divided by its height in the fit: about 56 deg of elevation. The satellites known for
/// Victoria have 1.05 to 1.35.
pub(crate) const RANGE_RATIO: f64 = 1.2;
/// Ratio of signal to noise in the zenith, dB: what terminals report.
const SNR_DB: f64 = 9.0;
/// Rain rates above this are the heavy rain of Osnabrück, mm/h; its mean rate there is taken as 8 mm/h.
const RAIN_MM_PER_H: f64 = 5.0;
const HEAVY_MM_PER_H: f64 = 8.0;
/// Share of the throughput that heavy rain leaves in Osnabrück.
const HEAVY_SHARE: f64 = 2.0 / 3.0;

fn share(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn ms(log_ms: f64) -> u64 {
    // Exponents beyond this are outside every bound of the model.
    (log_ms.min(8.5).exp() * 1e6) as u64
}

fn logit(p: f64) -> f64 {
    (p / (1.0 - p)).ln()
}

/// Names of the coordinates.
pub(crate) const NAMES: [&str; 20] = [
    "processing of both directions, ln ms",
    "time between polls, ln ms",
    "mean free share of the cell, logit",
    "spread of the load, ln",
    "largest common step, ln ms",
    "share of long steps, logit",
    "least long step, ln ms",
    "width of long steps, ln ms",
    "share of slots with a handover, logit",
    "median gap at a handover, ln ms",
    "spread of gaps, ln",
    "longest wait for the end of a handover, ln ms",
    "share of slots with a lost link, logit",
    "median gap of a lost link, ln ms",
    "share of failed transmissions, logit",
    "time of a transmission, ln ms",
    "longest wait for a lost link, ln ms",
    "share of slots with another step, logit",
    "time between changes of the load, ln ms",
    "spread of the load within a slot, ln",
];

/// The start of every fit: round numbers of a plausible link, the same for all sites.
pub(crate) fn start() -> Vec<f64> {
    vec![
        10f64.ln(),
        15f64.ln(),
        logit(0.5),
        0.5f64.ln(),
        5f64.ln(),
        logit(0.05),
        50f64.ln(),
        20f64.ln(),
        logit(0.5),
        80f64.ln(),
        0.7f64.ln(),
        200f64.ln(),
        logit(0.1),
        400f64.ln(),
        logit(0.1),
        10f64.ln(),
        400f64.ln(),
        logit(0.5),
        500f64.ln(),
        0.5f64.ln(),
    ]
}

/// The share of the cell that is free by hour, divided by its mean: 1.15 at 5 h and 0.8 at 19.5 h (Osnabrück), a cosine
/// in between.
pub(crate) fn curve(hour: f64) -> f64 {
    let (best, worst) = (5.0, 19.5);
    let since = (hour - best).rem_euclid(24.0);
    let fall = worst - best;
    let turn = match since < fall {
        true => since / fall,
        false => 1.0 + (since - fall) / (24.0 - fall),
    };
    0.975 + 0.175 * (std::f64::consts::PI * turn).cos()
}

/// The access with these coordinates.
pub(crate) fn access(x: &[f64]) -> Access {
    let free = share(x[2]);
    let load_by_hour: [f64; HOURS] = std::array::from_fn(|hour| {
        let load = 1.0 - free * curve(hour as f64);
        (load.clamp(0.0, 0.98) * 1e4).round() / 1e4
    });
    let gap_spread = round(x[10].min(1.5).exp(), 3);
    let gap = |ratio: f64, median: f64, hold: f64| Gap {
        ratio: round(share(ratio), 4),
        median_ns: ms(median),
        spread: gap_spread,
        hold_ns: ms(hold),
    };
    let least_ns = ms(x[6]);
    let leg = Leg {
        processing_ns: ms(x[0]) / 2,
        turn_ns: TURN_NS,
        retransmission: Some(Retransmission {
            ratio: round(share(x[14]), 4),
            again_ns: ms(x[15]),
            transmissions: 3,
        }),
        ..Leg::default()
    };
    Access {
        slots: Slots {
            period_ns: 15_000_000_000,
            phase_ns: 12_000_000_000,
        },
        cell: Some(Cell {
            load_by_hour,
            spread: round(x[3].min(1.5).exp(), 3),
            changes: Some(Changes {
                every_ns: ms(x[18]),
                spread: round(x[19].min(1.5).exp(), 3),
            }),
        }),
        step: Some(Step {
            spread_ns: ms(x[4]),
            long_ratio: round(share(x[5]), 4),
            long_least_ns: least_ns,
            long_most_ns: least_ns + ms(x[7]),
            change_ratio: round(share(x[17]), 4),
        }),
        handover: Some(gap(x[8], x[9], x[11])),
        relink: Some(gap(x[12], x[13], x[16])),
        blockage: None,
        sky: Some(sky()),
        up: Leg {
            grants: Some(Grants {
                request_ns: REQUEST_NS,
                period_ns: ms(x[1]).max(TURN_NS),
            }),
            ..leg
        },
        down: leg,
    }
}

fn round(value: f64, digits: i32) -> f64 {
    let unit = 10f64.powi(digits);
    (value * unit).round() / unit
}

/// Signal and rain: the attenuation that leaves two thirds of the rate in heavy rain.
pub(crate) fn sky() -> Sky {
    let factor = |most_db: f64| {
        let sky = Sky {
            snr_db: SNR_DB,
            rain_most_db: most_db,
            rain_mm_per_h: RAIN_MM_PER_H,
        };
        sky.factor(RANGE_RATIO, HEAVY_MM_PER_H, 0.0) / sky.factor(RANGE_RATIO, 0.0, 0.0)
    };
    // The factor falls with the attenuation, so halving the interval finds it.
    let (mut least_db, mut most_db) = (0.0, 30.0);
    for _ in 0..60 {
        let middle = 0.5 * (least_db + most_db);
        match factor(middle) > HEAVY_SHARE {
            true => least_db = middle,
            false => most_db = middle,
        }
    }
    Sky {
        snr_db: SNR_DB,
        rain_most_db: round(most_db, 2),
        rain_mm_per_h: RAIN_MM_PER_H,
    }
}

/// The rate of a direction with this logarithm of bit/s and of the spread.
pub(crate) fn rate(x: &[f64]) -> Rate {
    Rate {
        alone_bps: (x[0].min(27.0).exp() / 1e4) as u64 * 10_000,
        spread: round(x[1].min(1.5).exp(), 3),
    }
}
