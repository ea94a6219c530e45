//! Celestial's TOML configuration.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::draft::{Draft, Shell, Station};
use crate::text::{Findings, Lines, ReadErrors, shown};

/// The longest file, bytes: some 10,000 stations. The parser takes up to 200 times as much memory as its text has bytes.
const MOST_BYTES: usize = 1 << 20;

/// Reads a configuration.
///
/// # Errors
/// Everything found wrong, with its line.
pub fn parse(text: &str, name: &str) -> Result<Draft, ReadErrors> {
    let mut draft = Draft::new("a Celestial configuration", name);
    let mut reader = Reader {
        text,
        lines: Lines::new(text),
        findings: Findings::default(),
    };
    if text.len() > MOST_BYTES {
        let many = text.len();
        let reason = format!("{many} bytes: at most {MOST_BYTES} are read");
        reader.findings.push(1, reason);
        return reader.findings.or(draft);
    }
    let (root, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let line = error.span().map_or(1, |span| reader.lines.at(span.start));
        let reason = format!("not TOML: {}", error.message());
        reader.findings.push(line, reason);
    }
    if !reader.findings.is_empty() {
        return reader.findings.or(draft);
    }
    let root = root.get_ref();
    draft.duration_s = reader.number(root, "duration", 1.0, 3e7).unwrap_or(60.0);
    draft.step_s = reader
        .number(root, "resolution", 0.01, 3600.0)
        .unwrap_or(1.0);
    let nothing = DeTable::new();
    let network = table(root, "network_params").unwrap_or(&nothing);
    if let Some(kbits) = reader.number(network, "bandwidth_kbits", 1.0, 4e8) {
        (draft.isl_bps, draft.gsl_bps) = ((kbits * 1e3) as u64, (kbits * 1e3) as u64);
    }
    draft.min_elevation_deg = reader
        .number(network, "min_elevation", 0.0, 89.9)
        .unwrap_or(25.0);
    for shell in tables(root, "shell") {
        reader.shell(&mut draft, shell);
    }
    for station in tables(root, "ground_station") {
        reader.station(&mut draft, station);
    }
    if draft.shells.is_empty() && reader.findings.is_empty() {
        let reason = match root.get("shell") {
            Some(_) => "no shell with planes, sats, altitude_km and inclination",
            None => {
                "not recognised: a TOML file that is read is Celestial's, which has `[[shell]]`"
            }
        };
        reader.findings.push(1, reason);
    }
    if draft.step_s > 60.0 {
        draft.note(format!(
            "steps of {} s became 60 s, the longest",
            draft.step_s
        ));
        draft.step_s = 60.0;
    }
    notes(&mut draft, root, network);
    reader.findings.or(draft)
}

fn table<'a, 'i>(of: &'a DeTable<'i>, key: &str) -> Option<&'a DeTable<'i>> {
    of.get(key)?.get_ref().as_table()
}

/// Returns the tables of an array; other values of it are left out.
fn tables<'a, 'i>(of: &'a DeTable<'i>, key: &str) -> impl Iterator<Item = &'a DeTable<'i>> {
    let array = of.get(key).and_then(|value| value.get_ref().as_array());
    let values = array.into_iter().flat_map(|array| array.iter());
    values.filter_map(|value| value.get_ref().as_table())
}

/// Returns the text of a value of this key.
fn text_of<'a>(of: &'a DeTable<'_>, key: &str) -> Option<&'a str> {
    of.get(key)?.get_ref().as_str()
}

struct Reader<'a> {
    text: &'a str,
    lines: Lines,
    findings: Findings,
}

impl Reader<'_> {
    /// Returns the number of this key, if it is one from `low` to `high`.
    fn number(&mut self, map: &DeTable<'_>, key: &str, low: f64, high: f64) -> Option<f64> {
        let value = map.get(key)?;
        match float(value) {
            Some(v) if (low..=high).contains(&v) => Some(v),
            _ => {
                let line = self.lines.at(value.span().start);
                let written = shown(self.text.get(value.span()).unwrap_or(""));
                let reason =
                    format!("`{key}` is {written}, which is no number between {low} and {high}");
                self.findings.push(line, reason);
                None
            }
        }
    }

    /// Returns the number of this key, if it is a whole one from 1 to 10,000.
    fn whole(&mut self, map: &DeTable<'_>, key: &str) -> Option<f64> {
        let number = self.number(map, key, 1.0, 10_000.0)?;
        if number.fract() == 0.0 {
            return Some(number);
        }
        let line = map
            .get(key)
            .map_or(1, |value| self.lines.at(value.span().start));
        self.findings.push(
            line,
            format!("`{key}` is {number}, which is no whole number"),
        );
        None
    }

    fn shell(&mut self, draft: &mut Draft, shell: &DeTable<'_>) {
        let planes = self.whole(shell, "planes");
        let sats = self.whole(shell, "sats");
        let altitude_km = self.number(shell, "altitude_km", 100.0, 100_000.0);
        let inclination = self.number(shell, "inclination", 0.0, 180.0);
        let arc = self
            .number(shell, "arc_of_ascending_nodes", 0.0, 360.0)
            .unwrap_or(360.0);
        let eccentricity = self.number(shell, "eccentricity", 0.0, 1.0).unwrap_or(0.0);
        let own = table(shell, "network_params");
        if let Some(own) = own {
            note_unknown(
                draft,
                own,
                "shell.network_params",
                &["bandwidth_kbits", "min_elevation"],
            );
        }
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

    fn station(&mut self, draft: &mut Draft, station: &DeTable<'_>) {
        let latitude_deg = self.number(station, "lat", -90.0, 90.0);
        let longitude_deg = self.number(station, "long", -180.0, 180.0);
        let name = text_of(station, "name").unwrap_or("station");
        if let (Some(latitude_deg), Some(longitude_deg)) = (latitude_deg, longitude_deg) {
            draft.stations.push(Station {
                name: name.to_owned(),
                latitude_deg,
                longitude_deg,
                altitude_m: 0.0,
            });
        } else {
            draft.note("a ground station without lat or long was left out");
        }
        if station.contains_key("network_params") {
            draft.note(format!(
                "`network_params` of station {} were not carried over",
                shown(name)
            ));
        }
    }
}

/// Returns a number of either kind.
fn float(value: &Spanned<DeValue<'_>>) -> Option<f64> {
    match value.get_ref() {
        DeValue::Integer(whole) => i64::from_str_radix(whole.as_str(), whole.radix())
            .ok()
            .map(|whole| whole as f64),
        DeValue::Float(float) => float.as_str().parse().ok(),
        _ => None,
    }
}

fn notes(draft: &mut Draft, root: &DeTable<'_>, network: &DeTable<'_>) {
    draft.note("phasing is 0, as Celestial flies it: satellites of one number are at their nodes at the same time in all planes");
    if root.contains_key("bbox") {
        draft.note("`bbox` was not carried over: every satellite is emulated, none is suspended");
    }
    if root.contains_key("compute_params") {
        draft.note("`compute_params` (microVMs, kernels, root file systems) were not carried over");
    }
    if text_of(network, "ground_station_connection_type") == Some("all") {
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
    note_unknown(draft, root, "", &known);
    let known = [
        "bandwidth_kbits",
        "min_elevation",
        "ground_station_connection_type",
    ];
    note_unknown(draft, network, "network_params", &known);
}

/// Adds a note for each key of a table that is not known, once.
fn note_unknown(draft: &mut Draft, table: &DeTable<'_>, of: &str, known: &[&str]) {
    let keys = table.keys().map(|key| key.get_ref().as_ref());
    let dot = if of.is_empty() { "" } else { "." };
    for key in keys.filter(|key| !known.contains(key)) {
        let note = format!("`{of}{dot}{}` was not carried over", shown(key));
        if !draft.notes.contains(&note) {
            draft.note(note);
        }
    }
}
