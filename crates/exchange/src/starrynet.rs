//! StarryNet's `config.json`, of the published release (one shell, keys such as `# of orbit`) and of the rewrite
//! (`Shells`).

use serde_json::{Map, Value};

use crate::draft::{Draft, Shell};
use crate::text::{ReadError, ReadErrors, shown};

/// F in StarryNet's code, whatever its configuration has.
const F_OF_THE_CODE: u32 = 18;

/// Keys of which a configuration of the one form or the other has at least one, and files of other tools none.
const OWN_KEYS: [&str; 8] = [
    "Shells",
    "Altitude (km)",
    "Inclination",
    "# of orbit",
    "# of satellites",
    "Satellite link",
    "Intra-AS routing",
    "update_time (s)",
];

/// Whether a JSON text looks like a configuration.
#[must_use]
pub fn is_one(text: &str) -> bool {
    let root: Option<Value> = serde_json::from_str(text).ok();
    let keys = root.as_ref().and_then(Value::as_object);
    keys.is_some_and(|keys| OWN_KEYS.iter().any(|key| keys.contains_key(*key)))
}

/// Returns an error for a JSON text of no supported tool, with the kind of text that it is.
#[must_use]
pub fn not_recognised(text: &str) -> ReadErrors {
    let (line, what) = match serde_json::from_str::<Value>(text) {
        Err(error) => (error.line().max(1), format!("not JSON: {error}")),
        Ok(Value::Object(keys)) => {
            let first: Vec<String> = keys
                .keys()
                .take(5)
                .map(|key| format!("`{}`", shown(key)))
                .collect();
            (
                1,
                format!(
                    "its keys are {}{}",
                    first.join(", "),
                    if keys.len() > first.len() {
                        ", ..."
                    } else {
                        ""
                    }
                ),
            )
        }
        Ok(_) => (1, "it is no object".to_owned()),
    };
    let reason = format!(
        "not recognised: {what}; read are StarryNet's config.json (with `Shells`, or `# of orbit` and others) and OpenSN's \
         emulation configuration (types of nodes, each with its `image`)"
    );
    ReadErrors(vec![ReadError { line, reason }])
}

/// Reads a configuration.
///
/// # Errors
/// Everything found wrong.
pub fn parse(text: &str) -> Result<Draft, ReadErrors> {
    let root: Value = serde_json::from_str(text).map_err(|e| {
        ReadErrors(vec![ReadError {
            line: e.line().max(1),
            reason: e.to_string(),
        }])
    })?;
    let Some(root) = root.as_object() else {
        return Err(ReadErrors(vec![ReadError {
            line: 1,
            reason: "not a JSON object".to_owned(),
        }]));
    };
    let mut reader = Reader { wrong: Vec::new() };
    let name = root
        .get("Name")
        .and_then(Value::as_str)
        .unwrap_or("starrynet");
    let mut draft = Draft::new("a StarryNet configuration", name);
    draft.duration_s = reader.positive(root, &["Duration (s)"]).unwrap_or(60.0);
    draft.step_s = reader
        .positive(root, &["update_time (s)", "step (s)"])
        .unwrap_or(1.0);
    if draft.step_s > 60.0 {
        draft.note(format!(
            "steps of {} s became 60 s, the longest",
            draft.step_s
        ));
        draft.step_s = 60.0;
    }
    let gbps = |v: Option<f64>| v.map(|v| ((v * 1e9) as u64).max(1000));
    draft.isl_bps = gbps(reader.positive(root, &["satellite link bandwidth (\"X\" Gbps)"]))
        .unwrap_or(draft.isl_bps);
    draft.gsl_bps = gbps(reader.positive(root, &["sat-ground bandwidth (\"X\" Gbps)"]))
        .unwrap_or(draft.gsl_bps);
    draft.isl_loss = reader.percent(root, "satellite link loss (\"X\"% )");
    draft.gsl_loss = reader.percent(root, "sat-ground loss (\"X\"% )");
    let elevation = reader.positive(
        root,
        &["antenna_inclination_angle", "antenna elevation angle"],
    );
    draft.min_elevation_deg = elevation.unwrap_or(25.0).min(89.9);
    let grid = root
        .get("Satellite link")
        .and_then(Value::as_str)
        .is_none_or(|s| s.eq_ignore_ascii_case("Grid"));
    if !grid {
        draft.note("`Satellite link` is not `Grid`: the +Grid was taken");
    }
    if let Some(routing) = root.get("Intra-AS routing").and_then(Value::as_str) {
        if routing.to_ascii_uppercase().contains("OSPF") {
            draft.daemon = Some("bird");
        } else {
            draft.note(format!(
                "`Intra-AS routing: {routing}` was not carried over: Constel computes the routes; see `routing`"
            ));
        }
    }
    match root.get("IP version").and_then(Value::as_str) {
        None => {}
        Some("IPv4") => draft.families = &["ipv4"],
        Some("IPv6") => draft.families = &["ipv6"],
        Some(other) => draft.note(format!(
            "`IP version: {other}` is unknown: the scenario has IPv4 and IPv6"
        )),
    }
    match root.get("Shells") {
        Some(Value::Array(shells)) => {
            for shell in shells {
                match shell.as_object() {
                    Some(shell) => {
                        reader.shell(&mut draft, shell, ["Orbits", "Satellites per orbit"])
                    }
                    None => reader.wrong.push("a shell is not an object".to_owned()),
                }
            }
        }
        Some(_) => reader.wrong.push("`Shells` is not a list".to_owned()),
        None => reader.shell(&mut draft, root, ["# of orbit", "# of satellites"]),
    }
    if draft.shells.is_empty() && reader.wrong.is_empty() {
        reader.wrong.push("no shells".to_owned());
    }
    notes(&mut draft, root);
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

/// Adds notes on settings of StarryNet that have no equivalent here.
fn notes(draft: &mut Draft, root: &Map<String, Value>) {
    draft.note("ground stations are arguments of StarryNet's Python class, not part of its file: add them under `ground`");
    draft.note("delays follow from true distances at the speed of light; StarryNet's own are 1.70 times as long");
    if root
        .get("antenna number")
        .and_then(Value::as_f64)
        .is_some_and(|n| n != 1.0)
    {
        draft.note("`antenna number` was not carried over: one antenna a station");
    }
    for key in ["Inter-AS routing", "Link policy", "Handover policy"] {
        if let Some(value) = root.get(key) {
            draft.note(format!(
                "`{key}: {value}` was not carried over; see `routing` and `gsl.policy`"
            ));
        }
    }
    for key in root.keys() {
        if key.contains("remote_machine")
            || ["Machines", "multi-machine (\"1\" for yes, \"0\" for no)"].contains(&key.as_str())
        {
            draft.note(format!(
                "`{}` was not carried over: it is about hosts",
                key.chars().take(30).collect::<String>()
            ));
        }
    }
}

struct Reader {
    wrong: Vec<String>,
}

impl Reader {
    fn number(&mut self, map: &Map<String, Value>, key: &str) -> Option<f64> {
        let value = map.get(key)?;
        let number = value
            .as_f64()
            .or_else(|| value.as_str()?.trim().parse().ok())
            .filter(|v: &f64| v.is_finite());
        if number.is_none() {
            self.wrong.push(format!("`{key}` is not a number"));
        }
        number
    }

    fn positive(&mut self, map: &Map<String, Value>, keys: &[&str]) -> Option<f64> {
        let key = keys.iter().find(|k| map.contains_key(**k))?;
        let value = self.number(map, key)?;
        if !(value > 0.0 && value < 1e9) {
            self.wrong.push(format!(
                "`{key}` is {value}, which is not between 0 and 1e9"
            ));
            return None;
        }
        Some(value)
    }

    fn percent(&mut self, map: &Map<String, Value>, key: &str) -> f64 {
        let value = self.number(map, key).unwrap_or(0.0);
        if !(0.0..=100.0).contains(&value) {
            self.wrong
                .push(format!("`{key}` is {value}, which is no percentage"));
            return 0.0;
        }
        value / 100.0
    }

    fn shell(
        &mut self,
        draft: &mut Draft,
        map: &Map<String, Value>,
        [orbits, satellites]: [&str; 2],
    ) {
        let altitude_km = self.positive(map, &["Altitude (km)"]);
        let inclination_deg = self.number(map, "Inclination");
        let planes = self.positive(map, &[orbits]);
        let per_plane = self.positive(map, &[satellites]);
        let (Some(altitude_km), Some(inclination_deg), Some(planes), Some(per_plane)) =
            (altitude_km, inclination_deg, planes, per_plane)
        else {
            self.wrong.push(format!(
                "a shell needs `Altitude (km)`, `Inclination`, `{orbits}` and `{satellites}`"
            ));
            return;
        };
        if planes.fract() != 0.0
            || per_plane.fract() != 0.0
            || planes > 10_000.0
            || per_plane > 10_000.0
        {
            self.wrong
                .push("orbits and satellites are whole numbers up to 10,000".to_owned());
            return;
        }
        let planes = planes as u32;
        let shift = self
            .number(map, "Phase shift")
            .filter(|v| v.fract() == 0.0 && (0.0..1e6).contains(v));
        let phasing = shift.map_or(F_OF_THE_CODE, |v| v as u32) % planes;
        match shift {
            Some(_) => draft.note(format!("phase factor {phasing} is the file's; StarryNet's code takes {F_OF_THE_CODE} whatever the file says")),
            None => draft.note(format!("phase factor {phasing} is that of StarryNet's code ({F_OF_THE_CODE}, modulo the planes)")),
        }
        draft.shells.push(Shell {
            star: false,
            altitude_m: altitude_km * 1e3,
            inclination_deg,
            planes,
            per_plane: per_plane as u32,
            phasing,
            raan0_deg: 0.0,
            isl: true,
            min_elevation_deg: None,
        });
    }
}
