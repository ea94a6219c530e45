//! Short sessions of pings from a car: a test of a preset at another site, and the blockage of a car's sky.

use std::error::Error;

use constel_link::access::{Access, Blockage, Partial, Preset};
use constel_measure::compare::{Probe, Series};
use constel_measure::quantiles::rank;

use crate::{ping, search};

/// Length of a session, seconds: 250 pings, ten a second.
const SESSION_S: f64 = 25.0;
/// Time of one run of the model, seconds. Sessions begin at five positions of a slot.
const RUN_S: u64 = 300;
/// Runs of one evaluation of the fit, and of the tables.
const RUNS: u64 = 32;
const TABLE_RUNS: u64 = 600;
/// Hours of the day at which the car was measured.
const HOURS: [f64; 8] = [8.0, 9.5, 11.0, 12.5, 14.0, 15.5, 17.0, 18.5];
/// Added to losses before their logarithm: one ping of a session, in per cent.
const ONE_PING: f64 = 0.4;

/// One session. The server is behind the point of presence, so only differences of RTTs are figures of the access.
struct Session {
    lost_percent: f64,
    mean_ms: f64,
    least_ms: f64,
    most_ms: f64,
    deviation_ms: f64,
    km_per_h: f64,
}

/// Reads `packet_loss`, `ping_avg`, `ping_worst`, `ping_best`, `ping_stddev` and `average_speed` by their names.
fn read(text: &str) -> Result<Vec<Session>, String> {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let place = |name: &str| {
        let found = names.iter().position(|n| *n == name);
        found.ok_or(format!("no column `{name}`"))
    };
    let columns = [
        place("packet_loss")?,
        place("ping_avg")?,
        place("ping_best")?,
        place("ping_worst")?,
        place("ping_stddev")?,
        place("average_speed")?,
    ];
    let rows = lines.enumerate().map(|(index, line)| {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |column: usize| {
            let value = cells.get(column).and_then(|cell| cell.trim().parse().ok());
            value.ok_or(format!("line {}: no `{}`", index + 2, names[column]))
        };
        Ok(Session {
            lost_percent: number(columns[0])?,
            mean_ms: number(columns[1])?,
            least_ms: number(columns[2])?,
            most_ms: number(columns[3])?,
            deviation_ms: number(columns[4])?,
            km_per_h: number(columns[5])?,
        })
    });
    rows.collect()
}

/// Sessions of the model, at all hours of the measurement.
fn simulated(access: &Access, runs: u64) -> Vec<Session> {
    let mut sessions = Vec::new();
    for run in 0..runs {
        let hour = HOURS[run as usize % HOURS.len()];
        let pings = ping::pings(access, run, RUN_S, hour);
        let number = |p: &Probe| (p.t_s / SESSION_S) as u64;
        for probes in pings.probes.chunk_by(|a, b| number(a) == number(b)) {
            let series = Series {
                probes: probes.to_vec(),
                ..Series::default()
            };
            sessions.extend(session(&series));
        }
    }
    sessions
}

fn session(series: &Series) -> Option<Session> {
    let rtts: Vec<f64> = series.rtts().into_iter().map(|v| v.1).collect();
    let (count, sent) = (rtts.len() as f64, series.probes.len() as f64);
    // A session without an answer has no row in the measurement.
    let least_ms = rtts.iter().copied().reduce(f64::min)?;
    let mean_ms = rtts.iter().sum::<f64>() / count;
    let squares: f64 = rtts.iter().map(|rtt| (rtt - mean_ms).powi(2)).sum();
    Some(Session {
        lost_percent: 100.0 * (1.0 - count / sent),
        mean_ms,
        least_ms,
        most_ms: rtts.iter().copied().fold(least_ms, f64::max),
        deviation_ms: (squares / count).sqrt(),
        km_per_h: 0.0,
    })
}

/// Values of a figure in rising order.
fn sorted(sessions: &[&Session], of: impl Fn(&Session) -> f64) -> Vec<f64> {
    let mut values: Vec<f64> = sessions.iter().map(|session| of(session)).collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Name of a figure, its value for a session, and the quantiles that are compared.
type Figure = (&'static str, fn(&Session) -> f64, &'static [f64]);

const FIGURES: [Figure; 4] = [
    ("lost, %", |s| s.lost_percent, &[0.5, 0.75, 0.9, 0.95, 0.99]),
    (
        "mean RTT above the least, ms",
        |s| s.mean_ms - s.least_ms,
        &[0.1, 0.25, 0.5, 0.75, 0.9],
    ),
    (
        "deviation of the RTT, ms",
        |s| s.deviation_ms,
        &[0.1, 0.25, 0.5, 0.75, 0.9],
    ),
    (
        "largest RTT above the least, ms",
        |s| s.most_ms - s.least_ms,
        &[0.1, 0.25, 0.5, 0.75, 0.9],
    ),
];

fn table(name: &str, measured: &[&Session], model: &[&Session]) {
    println!(
        "\n{name}: {} sessions\n| figure | measured | model | difference |\n|---|---|---|---|",
        measured.len()
    );
    let row = |figure: &str, a: f64, b: f64| {
        let share = if a == 0.0 {
            String::new()
        } else {
            format!("{:+.1} %", 100.0 * (b - a) / a)
        };
        println!("| {figure} | {a:.2} | {b:.2} | {share} |");
    };
    let mean =
        |all: &[&Session]| all.iter().map(|s| s.lost_percent).sum::<f64>() / all.len() as f64;
    let above = |all: &[&Session]| {
        let count = all.iter().filter(|s| s.lost_percent > 25.0).count();
        100.0 * count as f64 / all.len() as f64
    };
    row("lost in all, %", mean(measured), mean(model));
    row(
        "sessions that lose more than a quarter, %",
        above(measured),
        above(model),
    );
    for (figure, of, quantiles) in FIGURES {
        let (a, b) = (sorted(measured, of), sorted(model, of));
        for q in quantiles {
            let name = format!("{figure}, {:.0} %", q * 100.0);
            row(&name, rank(&a, *q), rank(&b, *q));
        }
    }
}

/// The blockage with these coordinates. Waits are those that the last gaps of Victoria have.
fn blockage(x: &[f64]) -> Blockage {
    let share = |x: f64| 1.0 / (1.0 + (-x).exp());
    let s = |x: f64| (x.clamp(-4.0, 4.0).exp() * 1e9) as u64;
    Blockage {
        begin_ratio: share(x[0]),
        end_ratio: share(x[1]),
        partial: Some(Partial {
            ratio: share(x[2]),
            blocked_ns: s(x[3]),
            clear_ns: s(x[4]),
            hold_ns: 400_000_000,
        }),
    }
}

/// Logarithms of quantiles of the losses.
fn losses(all: &[&Session], quantiles: &[f64]) -> Vec<f64> {
    let values = sorted(all, |s| s.lost_percent);
    let logs = quantiles
        .iter()
        .map(|q| (rank(&values, *q) + ONE_PING).ln());
    logs.collect()
}

/// Sum of the squares of differences.
fn apart(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum()
}

/// Sessions of a car that stood, which a fit approaches.
pub(crate) struct Standing {
    /// Number of sessions.
    pub(crate) count: usize,
    figures: Vec<f64>,
}

impl Standing {
    /// Reads the sessions.
    pub(crate) fn read(text: &str) -> Result<Standing, String> {
        let all = read(text)?;
        let standing: Vec<&Session> = all.iter().filter(|s| s.km_per_h <= 0.0).collect();
        Ok(Standing {
            count: standing.len(),
            figures: Self::figures(&standing),
        })
    }

    /// Logarithms of quantiles. Losses above 90 % of the sessions are those of a blocked sky, which no preset has.
    fn figures(all: &[&Session]) -> Vec<f64> {
        let jitter = FIGURES[1..].iter().flat_map(|(_, of, quantiles)| {
            let values = sorted(all, of);
            let logs = quantiles.iter().map(move |q| rank(&values, *q).ln());
            logs.collect::<Vec<f64>>()
        });
        let losses = losses(all, &[0.5, 0.75, 0.85, 0.9]);
        jitter.chain(losses).collect()
    }

    /// Sum of the squares of differences between the logarithms of these sessions and those of the model.
    pub(crate) fn distance(&self, access: &Access) -> f64 {
        let model = simulated(access, RUNS);
        let model: Vec<&Session> = model.iter().collect();
        apart(&self.figures, &Self::figures(&model))
    }
}

/// Fits a blockage to upper quantiles of the losses of sessions.
fn fit(access: &Access, measured: &[&Session]) -> Blockage {
    let quantiles = [0.5, 0.75, 0.85, 0.9, 0.95, 0.98];
    let goal = losses(measured, &quantiles);
    let logit = |p: f64| (p / (1.0 - p)).ln();
    // Round numbers: one slot of twenty, rows of two slots, half of them in parts of 2 s.
    let start = [logit(0.05), logit(0.5), 0.0, 2f64.ln(), 2f64.ln()];
    let best = search(&start, 60, |x| {
        let blockage = blockage(x);
        let access = Access {
            blockage: Some(blockage),
            ..access.clone()
        };
        if access.check().is_err() {
            return f64::MAX;
        }
        let model = simulated(&access, RUNS);
        let model: Vec<&Session> = model.iter().collect();
        apart(&goal, &losses(&model, &quantiles))
    });
    blockage(&best)
}

/// Prints a preset beside sessions of a car that stood and of one that drove: as it is, and with a blockage that is fitted
/// to their losses.
pub(crate) fn print(text: &str, preset: &str) -> Result<(), Box<dyn Error>> {
    let measured = read(text)?;
    let preset: Preset = serde_json::from_str(preset)?;
    let clear = simulated(&preset.access, TABLE_RUNS);
    let clear: Vec<&Session> = clear.iter().collect();
    for (name, drove) in [("standing", false), ("driving", true)] {
        let part = measured.iter().filter(|s| (s.km_per_h > 0.0) == drove);
        let part: Vec<&Session> = part.collect();
        table(&format!("{name}, without blockage"), &part, &clear);
        let blockage = fit(&preset.access, &part);
        let access = Access {
            blockage: Some(blockage),
            ..preset.access.clone()
        };
        let blocked = simulated(&access, TABLE_RUNS);
        let blocked: Vec<&Session> = blocked.iter().collect();
        table(&format!("{name}, with a fitted blockage"), &part, &blocked);
        println!("\n{}", crate::blockage::text(&blockage));
    }
    Ok(())
}
