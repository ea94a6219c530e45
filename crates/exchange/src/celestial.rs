//! Celestial's TOML configuration.

use serde_json::{Map, Value};

use crate::draft::{Draft, Shell, Station};
use crate::text::{ReadError, ReadErrors};

/// Reads a configuration.
///
/// # Errors
/// Everything found wrong.
pub fn parse(text: &str, name: &str) -> Result<Draft, ReadErrors> {
    let root = crate::toml::parse(text)?;
    let mut reader = Reader { wrong: Vec::new() };
    let mut draft = Draft::new("a Celestial configuration", name);
    draft.duration_s = reader.number(&root, "duration", 1.0, 3e7).unwrap_or(60.0);
    draft.step_s = reader
        .number(&root, "resolution", 0.01, 3600.0)
        .unwrap_or(1.0);
    let nothing = Map::new();
    let table = |key: &str| root.get(key).and_then(Value::as_object).unwrap_or(&nothing);
    let network = table("network_params");
    if let Some(kbits) = reader.number(network, "bandwidth_kbits", 1.0, 4e8) {
        (draft.isl_bps, draft.gsl_bps) = ((kbits * 1e3) as u64, (kbits * 1e3) as u64);
    }
    draft.min_elevation_deg = reader
        .number(network, "min_elevation", 0.0, 89.9)
        .unwrap_or(25.0);
    let list = |key: &str| match root.get(key) {
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_object).collect(),
        _ => Vec::new(),
    };
    for shell in list("shell") {
        reader.shell(&mut draft, shell);
    }
    for station in list("ground_station") {
        reader.station(&mut draft, station);
    }
    if draft.shells.is_empty() {
        reader.wrong.push(match root.contains_key("shell") {
            true => "no shell with planes, sats, altitude_km and inclination".to_owned(),
            false => {
                "not recognised: a TOML file that is read is Celestial's, which has `[[shell]]`"
                    .to_owned()
            }
        });
    }
    if draft.step_s > 60.0 {
        draft.note(format!(
            "steps of {} s became 60 s, the longest",
            draft.step_s
        ));
        draft.step_s = 60.0;
    }
    notes(&mut draft, &root, network);
    match reader.wrong.is_empty() {
        true => Ok(draft),
        false => Err(ReadErrors(
            reader
                .wrong
                .into_iter()
                .map(|reason| ReadError { line: 1, reason })
                .collect(),
        )),
    }
}

struct Reader {
    wrong: Vec<String>,
}

impl Reader {
    /// The number of this key, if it is one from `low` to `high`.
    fn number(&mut self, map: &Map<String, Value>, key: &str, low: f64, high: f64) -> Option<f64> {
        let value = map.get(key)?;
        match value.as_f64() {
            Some(v) if (low..=high).contains(&v) => Some(v),
            _ => {
                self.wrong.push(format!(
                    "`{key}` is {value}, which is no number between {low} and {high}"
                ));
                None
            }
        }
    }

    fn shell(&mut self, draft: &mut Draft, shell: &Map<String, Value>) {
        let planes = self
            .number(shell, "planes", 1.0, 10_000.0)
            .filter(|v| v.fract() == 0.0);
        let sats = self
            .number(shell, "sats", 1.0, 10_000.0)
            .filter(|v| v.fract() == 0.0);
        let altitude_km = self.number(shell, "altitude_km", 100.0, 100_000.0);
        let inclination = self.number(shell, "inclination", 0.0, 180.0);
        let arc = self
            .number(shell, "arc_of_ascending_nodes", 0.0, 360.0)
            .unwrap_or(360.0);
        let eccentricity = self.number(shell, "eccentricity", 0.0, 1.0).unwrap_or(0.0);
        let own = shell.get("network_params").and_then(Value::as_object);
        let min_elevation_deg = own.and_then(|own| self.number(own, "min_elevation", 0.0, 89.9));
        let (Some(planes), Some(sats), Some(altitude_km), Some(inclination_deg)) =
            (planes, sats, altitude_km, inclination)
        else {
            draft.note("a shell without planes, sats, altitude_km or inclination was left out");
            return;
        };
        let star = arc == 180.0;
        if !star && arc != 360.0 {
            draft.note(format!(
                "an arc of ascending nodes of {arc} degrees became 360"
            ));
        }
        if eccentricity != 0.0 {
            draft.note(format!(
                "eccentricity {eccentricity} was not carried over: orbits are circular"
            ));
        }
        if own.is_some_and(|own| own.contains_key("bandwidth_kbits")) {
            draft.note(
                "a shell's own bandwidth was not carried over: all have that of `network_params`",
            );
        }
        let planes = planes as u32;
        draft.shells.push(Shell {
            star,
            altitude_m: altitude_km * 1e3,
            inclination_deg,
            planes,
            per_plane: sats as u32,
            // Celestial's propagator computes a satellite's mean anomaly from its number in its plane alone
            // (`sgp4_solver.py`).
            phasing: 0,
            raan0_deg: 0.0,
            isl: true,
            min_elevation_deg,
        });
    }

    fn station(&mut self, draft: &mut Draft, station: &Map<String, Value>) {
        let latitude_deg = self.number(station, "lat", -90.0, 90.0);
        let longitude_deg = self.number(station, "long", -180.0, 180.0);
        let name = station
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or("station");
        if let (Some(latitude_deg), Some(longitude_deg)) = (latitude_deg, longitude_deg) {
            draft.stations.push(Station {
                name: name.to_owned(),
                latitude_deg,
                longitude_deg,
                altitude_m: 0.0,
            });
        }
        if station.contains_key("network_params") {
            draft.note(format!(
                "`network_params` of station {} were not carried over",
                crate::text::shown(name)
            ));
        }
    }
}

fn notes(draft: &mut Draft, root: &Map<String, Value>, network: &Map<String, Value>) {
    draft.note("phasing is 0, as Celestial flies it: satellites of one number are at their nodes at the same time in all planes");
    if root.contains_key("bbox") {
        draft.note("`bbox` was not carried over: every satellite is emulated, none is suspended");
    }
    if root.contains_key("compute_params") {
        draft.note("`compute_params` (microVMs, kernels, root file systems) were not carried over");
    }
    if network
        .get("ground_station_connection_type")
        .and_then(Value::as_str)
        == Some("all")
    {
        draft.note("stations connect to the nearest satellite; Celestial's `all` connects to every one in reach");
    }
    let known = [
        "bbox",
        "resolution",
        "duration",
        "network_params",
        "compute_params",
        "shell",
        "ground_station",
    ];
    for key in root.keys().filter(|k| !known.contains(&k.as_str())) {
        draft.note(format!("`{key}` was not carried over"));
    }
}
