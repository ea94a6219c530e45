//! A station as written: where it stands, or where it goes.

use constel_units::{Angle, Length, TimeSpan};

use super::inputs::{Input, Inputs};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::model::{Name, Obstacle, Station, Waypoint};
use crate::parse::Parsed;
use crate::raw::RawStation;
use crate::source::{Source, Span, saturate};
use crate::walk::Seg::{Index, Key};

pub(super) fn station(
    parsed: &Parsed,
    name: &Name,
    raw: &RawStation,
    inputs: &mut Inputs<'_>,
    errors: &mut Diagnostics,
) -> Option<Station> {
    let path = [Key("ground"), Key("stations"), Key(name.as_str())];
    let stands = raw.latitude.is_some() || raw.longitude.is_some() || raw.altitude.is_some();
    let track = match (stands, &raw.track, &raw.track_file) {
        (true, None, None) => Vec::new(),
        (false, Some(track), None) => {
            let ordered = track.windows(2).position(|w| w[1].at.ns() <= w[0].at.ns());
            if let Some(index) = ordered {
                let at = [
                    path[0],
                    path[1],
                    path[2],
                    Key("track"),
                    Index(index + 1),
                    Key("at"),
                ];
                let message = "waypoints must be in order of time";
                errors.push(parsed.error_at(&at, "order", message));
                return None;
            }
            let waypoint = |w: &crate::raw::RawWaypoint| Waypoint {
                at: w.at,
                latitude: w.latitude,
                longitude: w.longitude,
                altitude: w.altitude,
            };
            track.iter().map(waypoint).collect()
        }
        (false, None, Some(file)) => {
            let at = [path[0], path[1], path[2], Key("track_file")];
            let input = inputs.text(file, &at, errors)?;
            read(&input, errors)?
        }
        _ => {
            let error = parsed
                .error_at(&path, "choose-one", format!("where `{name}` is must be said in one way"))
                .with_reason("a station stands at `latitude` and `longitude`, or moves along `track` or `track_file`");
            errors.push(error);
            return None;
        }
    };
    let (latitude, longitude, altitude) = match (track.first(), raw.latitude, raw.longitude) {
        (Some(first), ..) => (first.latitude, first.longitude, first.altitude),
        (None, Some(latitude), Some(longitude)) => (
            latitude,
            longitude,
            raw.altitude.unwrap_or(Length::from_m(0.0)),
        ),
        (None, latitude, _) => {
            let key = if latitude.is_none() {
                "latitude"
            } else {
                "longitude"
            };
            let error = parsed
                .error_at(&path, "missing-key", format!("missing key `{key}`"))
                .with_reason("a station that stands still needs `latitude` and `longitude`");
            errors.push(error);
            return None;
        }
    };
    if raw.gateway && raw.antennas.is_some() {
        let mut at = path.to_vec();
        at.push(Key("antennas"));
        let error = parsed
            .error_at_key(&at, "no-effect", "a gateway has an antenna for each shell")
            .with_reason("what would be ignored is an error, so that no result misleads")
            .with_suggestion("remove `antennas`, or `gateway`");
        errors.push(error);
    }
    let obstacles = raw.obstacles.iter();
    Some(Station {
        antennas: raw.antennas.unwrap_or(1),
        gateway: raw.gateway,
        obstacles: obstacles
            .map(|o| Obstacle {
                from: o.from,
                to: o.to,
                elevation: o.elevation,
            })
            .collect(),
        track,
        ..Station::at(name.clone(), latitude, longitude, altitude)
    })
}

/// Columns of a track, and the bounds of their values.
const COLUMNS: [(&str, f64, f64); 4] = [
    ("t_s", 0.0, 366.0 * 86_400.0),
    ("latitude_deg", -90.0, 90.0),
    ("longitude_deg", -180.0, 180.0),
    ("altitude_m", -1_000.0, 20_000.0),
];

/// Reads a CSV track; everything wrong with it goes to `errors`.
fn read(input: &Input, errors: &mut Diagnostics) -> Option<Vec<Waypoint>> {
    let text = input.text.strip_prefix('\u{feff}').unwrap_or(&input.text);
    let source = Source::new(&input.shown, text);
    let before = errors.len();
    let lines = (1u32..).zip(source.text().lines());
    let mut lines = lines.filter(|(_, line)| !line.trim().is_empty());
    let Some((number, header)) = lines.next() else {
        let message = "this file has no rows";
        errors.push(Diagnostic::new(&source, Span::START, "empty-file", message));
        return None;
    };
    let heads: Vec<&str> = header.split(',').map(str::trim).collect();
    let columns = COLUMNS.map(|(name, ..)| heads.iter().position(|head| *head == name));
    for ((name, ..), column) in COLUMNS.iter().zip(&columns).take(3) {
        if column.is_none() {
            let span = Span::new(number, 1, saturate(header.chars().count()));
            let message = format!("no column is called `{name}`");
            errors.push(Diagnostic::new(&source, span, "missing-column", message));
        }
    }
    let mut track: Vec<Waypoint> = Vec::new();
    for (number, line) in lines {
        if errors.len() > before && (columns[..3].contains(&None) || errors.is_full()) {
            return None;
        }
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        let span = Span::new(number, 1, saturate(line.chars().count()));
        let mut values = [0.0; 4];
        for (((name, least, most), column), value) in COLUMNS.iter().zip(columns).zip(&mut values) {
            let Some(column) = column else { continue };
            let text = cells.get(column).copied().unwrap_or("");
            match text.parse::<f64>() {
                Ok(number) if (*least..=*most).contains(&number) => *value = number,
                _ => {
                    let message =
                        format!("`{name}` is `{text}`, not a number from {least} to {most}");
                    errors.push(Diagnostic::new(&source, span, "bad-value", message));
                }
            }
        }
        let [t_s, latitude, longitude, altitude] = values;
        let at = TimeSpan::from_ns((t_s * 1e9).round() as i64);
        if track.last().is_some_and(|last| at.ns() <= last.at.ns()) {
            let message = "waypoints must be in order of time";
            errors.push(Diagnostic::new(&source, span, "order", message));
        }
        track.push(Waypoint {
            at,
            latitude: Angle::from_deg(latitude),
            longitude: Angle::from_deg(longitude),
            altitude: Length::from_m(altitude),
        });
    }
    if track.is_empty() && errors.len() == before {
        let message = "this file has no rows";
        errors.push(Diagnostic::new(&source, Span::START, "empty-file", message));
    }
    (errors.len() == before).then_some(track)
}
