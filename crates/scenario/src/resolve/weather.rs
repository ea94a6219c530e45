//! Rain and recordings, and the stations they belong to.

use constel_units::{DataRate, RainRate, Ratio, TimeSpan};

use super::access;
use super::ground::Ground;
use super::inputs::Inputs;
use super::table::{self, Column, TIME};
use crate::diagnostic::Diagnostics;
use crate::model::{Name, Recorded, Recording, Station};
use crate::parse::Parsed;
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
        let rain = match (&raw.rain, &raw.file) {
            (Some(rain), _) => vec![(TimeSpan::from_ns(0), *rain)],
            (None, Some(file)) => {
                let input = inputs.text(file, &path, errors);
                let rows = input.and_then(|i| table::read(&i, "rows", &RAIN, errors));
                let Some(rows) = rows else { continue };
                rows.into_iter()
                    .map(|r| (r.at, RainRate::from_mm_per_h(r.values[1].unwrap_or(0.0))))
                    .collect()
            }
            // The schema requires exactly one of them.
            (None, None) => continue,
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
        let points: Vec<Recorded> = rows.into_iter().map(recorded).collect();
        if points.iter().all(|p| p.says_nothing()) {
            let message = format!("`{}` has no values", raw.file);
            let error = parsed
                .error_at(&path, "missing-column", message)
                .with_reason("it has none of the columns `up_bit_per_s`, `down_bit_per_s`, `loss_ratio` and `extra_delay_s`, or they are 0");
            errors.push(error);
        }
        if points[0].at.ns() != 0 {
            let message = format!(
                "the first row of `{}` is at {}, not at 0 s",
                raw.file, points[0].at
            );
            errors.push(parsed.error_at(&path, "order", message));
        }
        let last = points[points.len() - 1].at;
        if let Some(repeat) = raw.repeat.filter(|r| r.ns() <= last.ns()) {
            let message = format!("`repeat` is {repeat}, but the last row is at {last}");
            let at = [section[0], section[1], Key("repeat")];
            errors.push(parsed.error_at(&at, "out-of-range", message));
        }
        let recording = Recording {
            points,
            repeat: raw.repeat,
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
    let rate = |bps: f64| DataRate::from_bps(bps.round() as u64);
    Recorded {
        at: row.at,
        up: up.map(rate),
        down: down.map(rate),
        // Within the column's bounds, so it is one.
        loss: Ratio::from_ratio(loss.unwrap_or(0.0)).unwrap_or_else(|_| zero()),
        extra_delay: TimeSpan::from_ns((extra.unwrap_or(0.0) * 1e9).round() as i64),
    }
}

fn zero() -> Ratio {
    Ratio::from_ratio(0.0).expect("zero is a ratio")
}

impl Recorded {
    fn says_nothing(&self) -> bool {
        let rates = self.up.is_none() && self.down.is_none();
        rates && self.loss.get() == 0.0 && self.extra_delay.ns() == 0
    }
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
