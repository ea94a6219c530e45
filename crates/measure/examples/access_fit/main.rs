//! Fits the access model to measurements and prints presets: `experiments/access/fit` runs it.
//!
//! `victoria PING.csv` fits each half of the pings, compares it with the other one, and fits all of them.
//! `osnabrueck QUARTILES.json SESSIONS.csv` fits quartiles of months, and jitter and losses of a car's sessions.
//! `rates QUARTILES.json PRESET.json` keeps all of a preset and fits rates only.
//! `blockage PING.csv` prints the blockage of a site, by counting.
//! `sessions SESSIONS.csv PRESET.json` compares a preset with short sessions of pings, and fits the blockage of a car.
//! `compare PING.csv RUN.csv...` fits nothing: it compares pings of runs, taken together, with a measurement.
//! The model's code is that of the crate; no formula is here a second time.

mod blockage;
mod figures;
mod minimise;
mod model;
mod ping;
mod sessions;

use std::error::Error;

use constel_link::access::{Access, Direction, Preset, Residual, Terminal};
use constel_measure::compare::{Series, w1};
use constel_measure::quantiles::rank;

use figures::{Figures, Goal, figures, rows};

/// Half of the measurement, seconds: each is fitted and compared with the other.
const FITTED_S: u64 = 450;
/// Terminals of one evaluation. All evaluations have the same seeds, so that the function is the same one.
const TERMINALS: u64 = 16;
/// Terminals of the tables.
const TABLE_TERMINALS: u64 = 200;
/// Local mean solar time in Victoria, 2025-05-29 23:20 UTC at 124.29 W, hours.
const VICTORIA_HOUR: f64 = 15.05;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let preset = match words[..] {
        ["victoria", pings] => victoria(&std::fs::read_to_string(pings)?)?,
        ["osnabrueck", quartiles, sessions] => osnabrueck(
            &std::fs::read_to_string(quartiles)?,
            &std::fs::read_to_string(sessions)?,
        )?,
        ["rates", quartiles, preset] => rates(
            &std::fs::read_to_string(quartiles)?,
            &std::fs::read_to_string(preset)?,
        )?,
        ["blockage", pings] => {
            let series = ping::read(&std::fs::read_to_string(pings)?)?;
            let chain = blockage::of(&series).ok_or("no slot is blocked")?;
            println!("{}", blockage::text(&chain));
            return Ok(());
        }
        ["sessions", sessions, preset] => {
            return sessions::print(
                &std::fs::read_to_string(sessions)?,
                &std::fs::read_to_string(preset)?,
            );
        }
        ["compare", measured, ref runs @ ..] if !runs.is_empty() => return compare(measured, runs),
        _ => {
            return Err(
                "access_fit victoria PING.csv | osnabrueck QUARTILES.json SESSIONS.csv | rates QUARTILES.json PRESET.json | blockage PING.csv | sessions SESSIONS.csv PRESET.json | compare PING.csv RUN.csv...".into(),
            );
        }
    };
    println!("{}", serde_json::to_string_pretty(&preset)?);
    Ok(())
}

/// Prints the tables of a comparison: both halves of the measurement and all of it, with the pings of all runs.
fn compare(measured: &str, runs: &[&str]) -> Result<(), Box<dyn Error>> {
    let read = |path: &str| -> Result<Series, Box<dyn Error>> {
        Ok(ping::read(&std::fs::read_to_string(path)?)?)
    };
    let all = read(measured)?;
    let begin_s = all.probes.first().ok_or("no ping")?.t_s;
    let middle_s = begin_s + FITTED_S as f64;
    let runs: Vec<Series> = runs.iter().map(|run| read(run)).collect::<Result<_, _>>()?;
    let model = figures(&runs);
    let parts = [
        ("first 450 s", all.between(begin_s, middle_s)),
        ("second 450 s", all.between(middle_s, f64::INFINITY)),
        ("all 900 s", all),
    ];
    for (name, part) in parts {
        report(name, &figures(&[part]), &model, &runs);
    }
    Ok(())
}

fn terminals(access: &Access, count: u64, seconds: u64, hour: f64) -> Vec<Series> {
    (0..count)
        .map(|seed| ping::pings(access, seed, seconds, hour))
        .collect()
}

/// Fits the pings of Victoria: each half, with the other one held out, and all of them, which is the preset.
fn victoria(text: &str) -> Result<Preset, Box<dyn Error>> {
    let all = ping::read(text)?;
    let begin_s = all.probes.first().ok_or("no ping")?.t_s;
    let middle_s = begin_s + FITTED_S as f64;
    let first = ("the first 450 s", all.between(begin_s, middle_s));
    let second = ("the second 450 s", all.between(middle_s, f64::INFINITY));
    for (fitted, other) in [(&first, &second), (&second, &first)] {
        eprintln!("\n# Fitted to {}", fitted.0);
        let access = fit(&fitted.1);
        let pings = terminals(&access, TABLE_TERMINALS, FITTED_S, VICTORIA_HOUR);
        let model = figures(&pings);
        for (part, kind) in [(fitted, "fitted"), (other, "held out")] {
            let clear = figures(&[blockage::without(&part.1)]);
            let name = format!("{}, clear slots ({kind})", part.0);
            report(&name, &clear, &model, &pings);
        }
    }
    eprintln!("\n# Fitted to all 900 s: the preset");
    let access = fit(&all);
    let pings = terminals(&access, TABLE_TERMINALS, 2 * FITTED_S, VICTORIA_HOUR);
    let model = figures(&pings);
    let clear = figures(&[blockage::without(&all)]);
    report("all 900 s, clear slots", &clear, &model, &pings);
    // The blockage is counted in both halves, so these tables are no prediction of losses.
    let site = Access {
        blockage: blockage::of(&all),
        ..access.clone()
    };
    let pings = terminals(&site, TABLE_TERMINALS, 2 * FITTED_S, VICTORIA_HOUR);
    let blocked = figures(&pings);
    for (name, part) in [first, second, ("all 900 s", all)] {
        let name = format!("{name}, with the blockage of the site");
        report(&name, &figures(&[part]), &blocked, &pings);
    }
    let residuals = rows(&clear, &model)
        .into_iter()
        .map(|(figure, measured, model)| Residual {
            figure: format!("Victoria, clear slots of 900 s: {figure}"),
            measured: tidy(measured),
            model: tidy(model),
        });
    Ok(Preset {
        fitted_to: vec![
            "Victoria, Canada, 2025-05-29 23:20 UTC, 900 s without blocked slots: pings to the gateway's address, 10 a second (sample data of clarkzjw/LEOViz, GPL-3.0)".into(),
            "not fitted: turns of 1/750 s (Humphreys et al. 2023), a request's 4 turns, 3 transmissions, slots of 15 s from second 12 of a minute".into(),
            "curve by hour: Osnabrück, 15 % more at 5 h, 20 % less at 19 to 20 h (WetLinks, CC BY-SA 4.0)".into(),
            "rain: a third of the throughput is lost above 5 mm/h (WetLinks)".into(),
        ],
        residuals: residuals.collect(),
        access,
    })
}

/// Fits all numbers of the model to a series without its blocked slots, which no preset has.
fn fit(series: &Series) -> Access {
    let goal = Goal::new(&blockage::without(series));
    let mut cost = |x: &[f64]| {
        let access = model::access(x);
        if access.check().is_err() {
            return f64::MAX;
        }
        let pings = terminals(&access, TERMINALS, FITTED_S, VICTORIA_HOUR);
        // A step far from the start costs a little, so that numbers that the data do not determine stay there.
        let far: f64 = x
            .iter()
            .zip(model::start())
            .map(|(a, b)| (a - b).powi(2))
            .sum();
        goal.distance(&figures(&pings)) + 0.01 * far
    };
    let mut best = minimise::Least {
        value: f64::MAX,
        at: model::start(),
    };
    // A simplex that has become flat finds nothing more: it starts again around its best point, smaller each time.
    for step in [0.6, 0.4, 0.3, 0.2] {
        let least = minimise::minimise(&best.at, step, 600, &mut cost);
        eprintln!("simplex of {step}: {:.3}", least.value);
        if least.value < best.value {
            best = least;
        }
    }
    for (name, value) in model::NAMES.iter().zip(&best.at) {
        eprintln!("{name}: {value:.3}");
    }
    model::access(&best.at)
}

fn tidy(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// Prints the table of one part of the measurement, and how single runs of the same length spread.
fn report(name: &str, measured: &Figures, model: &Figures, runs: &[Series]) {
    eprintln!("\n{name}\n| figure | measured | model | difference |\n|---|---|---|---|");
    for (figure, a, b) in rows(measured, model) {
        eprintln!(
            "| {figure} | {a:.3} | {b:.3} | {:+.1} % |",
            100.0 * (b - a) / a
        );
    }
    let single: Vec<Figures> = runs
        .iter()
        .map(|run| figures(std::slice::from_ref(run)))
        .collect();
    let all_ms = w1(&model.rtts_ms, &measured.rtts_ms);
    eprintln!("| W1 of the RTT, ms | | {all_ms:.2} | |");
    eprintln!("\n| of single runs | 5 % | 50 % | 95 % |\n|---|---|---|---|");
    let spread = |name: &str, of: &dyn Fn(&Figures) -> f64| {
        let mut values: Vec<f64> = single.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        let [a, b, c] = [0.05, 0.5, 0.95].map(|q| rank(&values, q));
        eprintln!("| {name} | {a:.2} | {b:.2} | {c:.2} |");
    };
    spread("W1 of the RTT, ms", &|f| w1(&f.rtts_ms, &measured.rtts_ms));
    spread("correlation of neighbours", &|f| f.memory);
    spread("lost, %", &|f| 100.0 * f.losses.ratio);
    spread("bursts of loss for 1,000 pings", &|f| {
        f.losses.bursts_per_1000
    });
    spread("mean burst, pings", &|f| f.losses.mean_burst);
}

/// A day of a terminal by slots: pings of 15 s, one each half hour, and the rates of the slots between.
fn days(access: &Access, days: u64) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let (mut rtts, mut down, mut up) = (Vec::new(), Vec::new(), Vec::new());
    let sky = access
        .sky
        .map_or(1.0, |sky| sky.factor(model::RANGE_RATIO, 0.0, 0.0));
    for visit in 0..48 * days {
        let hour = visit as f64 / 2.0;
        let pings = ping::pings(access, visit, 30, hour);
        rtts.extend(pings.rtts().into_iter().map(|v| v.1));
        let terminal = Terminal::new(visit, 1).at(0, hour);
        for slot in 0..20 {
            let now = slot * access.slots.period_ns;
            let rate = |direction| access.rate(&terminal, direction, now, sky);
            down.extend(rate(Direction::Down).map(|r| r.0 as f64 / 1e6));
            up.extend(rate(Direction::Up).map(|r| r.0 as f64 / 1e6));
        }
    }
    for values in [&mut rtts, &mut down, &mut up] {
        values.sort_by(f64::total_cmp);
    }
    (rtts, down, up)
}

const QUARTERS: [(f64, &str); 3] = [(0.25, "q1"), (0.5, "median"), (0.75, "q3")];

/// Quartiles: probability and value.
type Quartiles = Vec<(f64, f64)>;

/// Reads the quartiles of a measurement.
fn quartiles(measured: &serde_json::Value, name: &str) -> Result<Quartiles, String> {
    let values = QUARTERS.iter().map(|(q, key)| {
        let value = measured[name][*key].as_f64();
        Ok((*q, value.ok_or(format!("{name}.{key} is missing"))?))
    });
    values.collect()
}

/// Sum of the squares of relative differences.
fn apart(values: &[f64], quarters: &Quartiles) -> f64 {
    let squares = quarters
        .iter()
        .map(|(q, value)| ((rank(values, *q) - value) / value).powi(2));
    squares.sum()
}

/// Minimises with simplexes that become smaller, from the best point each time.
fn search(start: &[f64], evaluations: usize, cost: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let far = |x: &[f64]| -> f64 { x.iter().zip(start).map(|(a, b)| (a - b).powi(2)).sum() };
    let mut best = minimise::Least {
        value: f64::MAX,
        at: start.to_vec(),
    };
    for step in [0.5, 0.3, 0.15] {
        // Numbers that the data do not determine stay at their start.
        let least = minimise::minimise(&best.at, step, evaluations, |x| cost(x) + 1e-4 * far(x));
        if least.value < best.value {
            best = least;
        }
    }
    best.at
}

/// Start of the rates: logarithms of bit/s and of the spread, down and up.
fn rates_start() -> Vec<f64> {
    vec![400e6f64.ln(), 0.2f64.ln(), 30e6f64.ln(), 0.2f64.ln()]
}

fn set_rates(access: &mut Access, x: &[f64]) {
    access.down.rate = Some(model::rate(&x[0..2]));
    access.up.rate = Some(model::rate(&x[2..4]));
}

/// Adds a row of residuals for each quartile, and prints it.
fn residuals(rows: &mut Vec<Residual>, name: &str, values: &[f64], quarters: &Quartiles) {
    for (q, measured) in quarters {
        let model = rank(values, *q);
        let figure = format!("{name}, {:.0} %", q * 100.0);
        let share = 100.0 * (model - measured) / measured;
        eprintln!("| {figure} | {measured} | {model:.2} | {share:+.1} % |");
        rows.push(Residual {
            figure: format!("Osnabrück: {figure}"),
            measured: *measured,
            model: tidy(model),
        });
    }
}

fn rates(text: &str, preset: &str) -> Result<Preset, Box<dyn Error>> {
    let measured: serde_json::Value = serde_json::from_str(text)?;
    let mut preset: Preset = serde_json::from_str(preset)?;
    let down = quartiles(&measured, "download_mbps")?;
    let up = quartiles(&measured, "upload_mbps")?;
    let with = |x: &[f64]| {
        let mut access = preset.access.clone();
        set_rates(&mut access, x);
        access
    };
    let best = search(&rates_start(), 120, |x| {
        let access = with(x);
        if access.check().is_err() {
            return f64::MAX;
        }
        let (_, downs, ups) = days(&access, 2);
        apart(&downs, &down) + apart(&ups, &up)
    });
    let access = with(&best);
    let (_, downs, ups) = days(&access, 20);
    eprintln!("\n| figure | measured | model | difference |\n|---|---|---|---|");
    residuals(&mut preset.residuals, "down, Mbit/s", &downs, &down);
    residuals(&mut preset.residuals, "up, Mbit/s", &ups, &up);
    preset.access = access;
    preset.fitted_to.push(
        "rates: Osnabrück, 2023-09 to 2024-03 (WetLinks), because those of 2025 were not measured"
            .into(),
    );
    Ok(preset)
}

/// Fits the quartiles of Osnabrück and the sessions of a car that stood around it in the same months.
fn osnabrueck(text: &str, sessions: &str) -> Result<Preset, Box<dyn Error>> {
    let measured: serde_json::Value = serde_json::from_str(text)?;
    let standing = sessions::Standing::read(sessions)?;
    let rtt = quartiles(&measured, "bent_pipe_rtt_ms")?;
    let down = quartiles(&measured, "download_mbps")?;
    let up = quartiles(&measured, "upload_mbps")?;
    let count = model::start().len();
    let with = |x: &[f64]| -> Access {
        let mut access = model::access(&x[..count]);
        set_rates(&mut access, &x[count..]);
        access
    };
    let mut start = model::start();
    start.extend(rates_start());
    let best = search(&start, 600, |x| {
        let access = with(x);
        if access.check().is_err() {
            return f64::MAX;
        }
        let (rtts, downs, ups) = days(&access, 2);
        let quarters = apart(&rtts, &rtt) + apart(&downs, &down) + apart(&ups, &up);
        // Quartiles of months are certain. Sessions of one car, over the path to one server, are less so.
        10.0 * quarters + standing.distance(&access)
    });
    let access = with(&best);
    let (rtts, downs, ups) = days(&access, 20);
    let mut rows = Vec::new();
    eprintln!("| figure | measured | model | difference |\n|---|---|---|---|");
    residuals(&mut rows, "RTT, ms", &rtts, &rtt);
    residuals(&mut rows, "down, Mbit/s", &downs, &down);
    residuals(&mut rows, "up, Mbit/s", &ups, &up);
    Ok(Preset {
        fitted_to: vec![
            "Osnabrück, Germany, 2023-09 to 2024-03: quartiles of bent-pipe RTT and of throughput (WetLinks, CC BY-SA 4.0)".into(),
            format!("around Osnabrück, 2024-01 to 2024-03: jitter and losses of {} sessions of a car that stood (Starlink on the Road, CC BY-SA 4.0)", standing.count),
            "not fitted: turns, requests, transmissions and slots as starlink-2025; curve by hour and rain from figures of WetLinks".into(),
        ],
        residuals: rows,
        access,
    })
}
