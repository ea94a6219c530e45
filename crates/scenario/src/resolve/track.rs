//! A station as written: its position, or its positions over time.

use constel_units::{Angle, Length};

use super::inputs::{Input, Inputs};
use super::table::{self, Column, TIME};
use super::terminals::Terminals;
use crate::diagnostic::Diagnostics;
use crate::model::{Name, Station, Terminal, Waypoint};
use crate::parse::Parsed;
use crate::raw::RawStation;
use crate::walk::Seg::{self, Index, Key};

pub(super) fn station(
    parsed: &Parsed,
    name: &Name,
    raw: &RawStation,
    terminals: &mut Terminals<'_>,
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
            track.clone()
        }
        (false, None, Some(file)) => {
            let at = [path[0], path[1], path[2], Key("track_file")];
            let input = inputs.text(file, &at, errors)?;
            read(&input, errors)?
        }
        _ => {
            let error = parsed
                .error_at(&path, "choose-one", format!("the position of `{name}` must be given in one way"))
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
    let terminals = terminals_of(parsed, &path, name, raw, terminals, errors)?;
    Some(Station {
        feeder: raw.feeder,
        gateway: raw.gateway,
        obstacles: raw.obstacles.clone(),
        track,
        ..Station::at(name.clone(), (latitude, longitude, altitude), terminals)
    })
}

/// The terminals of the station at `path`; `None` when something was wrong with one.
fn terminals_of(
    parsed: &Parsed,
    path: &[Seg<'_>; 3],
    name: &Name,
    raw: &RawStation,
    terminals: &mut Terminals<'_>,
    errors: &mut Diagnostics,
) -> Option<Vec<Terminal>> {
    let at = |key| [path[0], path[1], path[2], Key(key)];
    if raw.gateway && raw.antennas.is_some() {
        let message = "a gateway has an antenna for each shell";
        let error = parsed
            .error_at_key(&at("antennas"), "no-effect", message)
            .with_reason("what would be ignored is an error, so that no result misleads")
            .with_suggestion("remove `antennas`, or `gateway`");
        errors.push(error);
    }
    let Some(listed) = &raw.terminals else {
        let who = format!("`{name}`");
        return Some(terminals.plain(&who, raw.antennas.unwrap_or(1), errors));
    };
    not_both(parsed, &at("antennas"), raw.antennas, errors);
    terminals.listed(&at("terminals"), listed, raw.gateway, errors)
}

/// `antennas` would have no effect with `terminals`.
pub(super) fn not_both(
    parsed: &Parsed,
    path: &[Seg<'_>],
    antennas: Option<u8>,
    errors: &mut Diagnostics,
) {
    if antennas.is_some() {
        let message = "`antennas` has no effect with `terminals`: each has its own";
        let error = parsed.error_at_key(path, "no-effect", message);
        errors.push(error.with_suggestion("set it in `terminals`"));
    }
}

/// Columns of a track, and the bounds of their values.
const COLUMNS: [Column; 4] = [
    TIME,
    Column::required("latitude_deg", -90.0, 90.0),
    Column::required("longitude_deg", -180.0, 180.0),
    Column::optional("altitude_m", -1_000.0, 20_000.0),
];

/// Reads a CSV track; errors go to `errors`.
fn read(input: &Input, errors: &mut Diagnostics) -> Option<Vec<Waypoint>> {
    let rows = table::read(input, "waypoints", &COLUMNS, errors)?;
    let waypoint = |row: table::Row<4>| {
        let [_, latitude, longitude, altitude] = row.values.map(|v| v.unwrap_or(0.0));
        Waypoint {
            at: row.at,
            latitude: Angle::from_deg(latitude),
            longitude: Angle::from_deg(longitude),
            altitude: Length::from_m(altitude),
        }
    };
    Some(rows.into_iter().map(waypoint).collect())
}
