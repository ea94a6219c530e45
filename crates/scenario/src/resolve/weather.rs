//! Rain and recordings, and the stations they belong to.

use std::num::NonZeroU64;

use constel_topology::{Rain, Recorded, Recording};

use super::access;
use super::ground::Ground;
use super::inputs::Inputs;
use super::table::{self, Column, TIME};
use crate::diagnostic::Diagnostics;
use crate::model::{Name, Station};
use crate::parse::Parsed;
use crate::raw::RawRainfall;
use crate::walk::Seg::{self, Index, Key};

const RAIN: [Column; 2] = [TIME, Column::required("rain_mm_per_h", 0.0, 500.0)];

/// Rates like those of links: 1 kbit/s to 400 Gbit/s.
const RECORDED: [Column; 5] = [
    TIME,
    Column::optional("up_bit_per_s", 1e3, 4e11),
    Column::optional("down_bit_per_s", 1e3, 4e11),
    Column::optional("loss_ratio", 0.0, 1.0),
    Column::optional("extra_delay_s", 0.0, 10.0),
];

pub(super) fn resolve(
    parsed: &Parsed,
    ground: &mut Ground,
    inputs: &mut Inputs<'_>,
    errors: &mut Diagnostics,
) {
    let wet = |c: &crate::raw::RawConstellation| {
        let gsl = c.gsl.as_ref();
        gsl.is_some_and(|g| g.radio.is_some() || g.access.as_ref().is_some_and(access::has_sky))
    };
    if !parsed.raw.weather.is_empty() && !parsed.raw.constellations.values().any(wet) {
        let error = parsed
            .error_at(
                &[Key("weather")],
                "no-effect",
                "`weather` has no effect here",
            )
            .with_reason(
                "rain matters to links with `gsl.radio` or `gsl.access`, and no constellation has them",
            )
            .with_suggestion("remove `weather`, or describe the radio");
        errors.push(error);
    }
    for (index, raw) in parsed.raw.weather.iter().enumerate() {
        let path = [Key("weather"), Index(index), Key("file")];
        let rain = match &raw.rain {
            RawRainfall::Rain(rain) => vec![Rain {
                t_ns: 0,
                mm_per_h: rain.mm_per_h(),
            }],
            RawRainfall::File(file) => {
                let input = inputs.text(file, &path, errors);
                let rows = input.and_then(|i| table::read(&i, "rows", &RAIN, errors));
                let Some(rows) = rows else { continue };
                rows.into_iter()
                    .map(|r| Rain {
                        t_ns: r.at.ns().unsigned_abs(),
                        mm_per_h: r.values[1].unwrap_or(0.0),
                    })
                    .collect()
            }
        };
        let section = [Key("weather"), Index(index)];
        give(parsed, &section, &raw.stations, ground, errors, |station| {
            let first = station.rain.is_empty();
            station.rain.clone_from(&rain);
            first
        });
    }
    for (index, raw) in parsed.raw.recordings.iter().enumerate() {
        let section = [Key("recordings"), Index(index)];
        let path = [section[0], section[1], Key("file")];
        let input = inputs.text(&raw.file, &path, errors);
        let rows = input.and_then(|i| table::read(&i, "rows", &RECORDED, errors));
        let Some(rows) = rows else { continue };
        let (begin, last) = (rows[0].at, rows[rows.len() - 1].at);
        let points: Vec<Recorded> = rows.into_iter().map(recorded).collect();
        if points.iter().all(says_nothing) {
            let message = format!("`{}` has no values", raw.file);
            let error = parsed
                .error_at(&path, "missing-column", message)
                .with_reason("it has none of the columns `up_bit_per_s`, `down_bit_per_s`, `loss_ratio` and `extra_delay_s`, or they are 0");
            errors.push(error);
        }
        if begin.ns() != 0 {
            let message = format!("the first row of `{}` is at {begin}, not at 0 s", raw.file);
            errors.push(parsed.error_at(&path, "order", message));
        }
        if let Some(repeat) = raw.repeat.filter(|r| r.ns() <= last.ns()) {
            let message = format!("`repeat` is {repeat}, but the last row is at {last}");
            let at = [section[0], section[1], Key("repeat")];
            errors.push(parsed.error_at(&at, "out-of-range", message));
        }
        let recording = Recording {
            points,
            repeat_ns: raw.repeat.map_or(0, |repeat| repeat.ns().unsigned_abs()),
        };
        give(parsed, &section, &raw.stations, ground, errors, |station| {
            let first = station.recording.points.is_empty();
            station.recording.clone_from(&recording);
            first
        });
    }
}

fn recorded(row: table::Row<5>) -> Recorded {
    let [_, up, down, loss, extra] = row.values;
    // Whole bits per second within the column's bounds.
    let rate = |bps: f64| NonZeroU64::new(bps.round() as u64);
    Recorded {
        t_ns: row.at.ns().unsigned_abs(),
        up_bps: up.and_then(rate),
        down_bps: down.and_then(rate),
        loss_ratio: loss.unwrap_or(0.0),
        extra_delay_ns: (extra.unwrap_or(0.0) * 1e9).round() as u64,
    }
}

fn says_nothing(point: &Recorded) -> bool {
    let rates = point.up_bps.is_none() && point.down_bps.is_none();
    rates && point.loss_ratio == 0.0 && point.extra_delay_ns == 0
}

/// Lets `set` work on each station named; false from it: the station had one before.
fn give(
    parsed: &Parsed,
    section: &[Seg<'_>],
    names: &[Name],
    ground: &mut Ground,
    errors: &mut Diagnostics,
    mut set: impl FnMut(&mut Station) -> bool,
) {
    for (place, name) in names.iter().enumerate() {
        let mut path = section.to_vec();
        path.extend([Key("stations"), Index(place)]);
        let found = ground.stations.binary_search_by(|s| s.name.cmp(name));
        match found {
            Ok(at) => {
                if !set(&mut ground.stations[at]) {
                    let message = format!("`{name}` has been given one before");
                    errors.push(parsed.error_at(&path, "duplicate-name", message));
                }
            }
            // A station that has errors of its own is not missing.
            Err(_) if ground.may_lack(name.as_str()) => {}
            Err(_) => {
                let message = format!("no station is called `{name}`");
                let known = ground.stations.iter().map(|s| s.name.as_str());
                let error = parsed
                    .error_at(&path, "unknown-node", message)
                    .with_nearest(name.as_str(), known);
                errors.push(error);
            }
        }
    }
}
