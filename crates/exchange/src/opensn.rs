//! OpenSN's emulation configuration: JSON that has, for each type of node, its image with variables and limits.
//! It has no orbits: those of Iridium are used instead.

use serde_json::{Map, Value};

use crate::draft::{Draft, Shell, Software, Station};
use crate::text::{ReadError, ReadErrors, shown};

/// OpenSN runs all containers privileged; of that FRR's zebra, which its images start, refuses to begin without these.
const CAPABILITIES: [&str; 2] = ["NET_ADMIN", "SYS_ADMIN"];

/// Processors that a limit may be, in thousand-millionths: 0.01 to 4096.
const NANO_CPUS: std::ops::RangeInclusive<u64> = 10_000_000..=4_096_000_000_000;
/// Memory that a limit may be, bytes: 1 MiB to 64 TiB.
const MEMORY_BYTES: std::ops::RangeInclusive<u64> = 1 << 20..=64 << 40;

/// Whether a JSON text looks like one: something in it has an `image`.
#[must_use]
pub fn is_one(text: &str) -> bool {
    let root: Option<Value> = serde_json::from_str(text).ok();
    let types = root.as_ref().and_then(types);
    types.is_some_and(|types| types.values().any(|of| of.get("image").is_some()))
}

/// Returns the types of nodes: those of `type_config`, as OpenSN's store has them, or the whole file, as its interface takes them.
fn types(root: &Value) -> Option<&Map<String, Value>> {
    root.get("type_config").unwrap_or(root).as_object()
}

/// Reads a configuration.
///
/// # Errors
/// Everything found wrong.
pub fn parse(text: &str, name: &str) -> Result<Draft, ReadErrors> {
    let root: Value = serde_json::from_str(text).map_err(|e| {
        ReadErrors(vec![ReadError {
            line: e.line().max(1),
            reason: e.to_string(),
        }])
    })?;
    let mut reader = Reader { wrong: Vec::new() };
    let mut draft = Draft::new("an OpenSN emulation configuration", name);
    let nothing = Map::new();
    let types = types(&root).unwrap_or(&nothing);
    for (kind, of) in types {
        let Some(place) = place(kind) else {
            draft.note(format!(
                "`{}` was not carried over: nodes are of the types Satellite and GroundStation",
                shown(kind)
            ));
            continue;
        };
        if draft.nodes.iter().any(|(kind, _)| *kind == place) {
            reader.wrong(format!("`{}` is there twice", shown(kind)));
        }
        let software = reader.software(&mut draft, kind, of);
        draft
            .nodes
            .extend(software.map(|software| (place, software)));
    }
    if draft.nodes.is_empty() && reader.wrong.is_empty() {
        reader.wrong("no type of node with an `image`: Satellite or GroundStation".to_owned());
    }
    stand_ins(&mut draft);
    match reader.wrong.is_empty() {
        true => Ok(draft),
        false => Err(ReadErrors(reader.wrong)),
    }
}

/// Returns the kind of scenario nodes that an OpenSN type corresponds to.
fn place(kind: &str) -> Option<&'static str> {
    let letters = kind.chars().filter(|c| !matches!(c, '_' | '-'));
    match letters.collect::<String>().to_lowercase().as_str() {
        "satellite" => Some("satellites"),
        "groundstation" => Some("stations"),
        _ => None,
    }
}

/// Adds settings that a scenario needs and the file does not have.
fn stand_ins(draft: &mut Draft) {
    draft.shells.push(Shell {
        star: true,
        altitude_m: 780e3,
        inclination_deg: 86.4,
        planes: 6,
        per_plane: 11,
        phasing: 2,
        raan0_deg: 0.0,
        isl: true,
        min_elevation_deg: Some(8.2),
    });
    draft.note("OpenSN's file has no orbits: Iridium's stand in for them; put yours under `constellations`");
    let software = |kind: &str| draft.nodes.iter().any(|(of, _)| *of == kind);
    if software("stations") {
        draft.stations.push(Station {
            name: "ground".to_owned(),
            latitude_deg: 0.0,
            longitude_deg: 0.0,
            altitude_m: 0.0,
        });
        draft.note(
            "OpenSN's file has no stations: `ground` stands in for them; put yours under `ground`",
        );
    }
    draft.note("`constel image import` brings images in; nothing is fetched by itself");
    draft.note(
        "OpenSN's containers are privileged; these have only NET_ADMIN and SYS_ADMIN, which FRR needs to start: see `capabilities`",
    );
    draft.opensn_information = true;
    draft.families = &["ipv4"];
    draft.note("OpenSN's images compute their own routes from /share/topo: see `information`");
}

struct Reader {
    wrong: Vec<ReadError>,
}

impl Reader {
    fn wrong(&mut self, reason: String) {
        // JSON values do not know their lines.
        self.wrong.push(ReadError { line: 1, reason });
    }

    fn software(&mut self, draft: &mut Draft, kind: &str, of: &Value) -> Option<Software> {
        let kind = shown(kind);
        let Some(of) = of.as_object() else {
            self.wrong(format!("`{kind}` is not an object"));
            return None;
        };
        let image = of.get("image").and_then(Value::as_str).map(str::trim);
        if image.is_none_or(str::is_empty) {
            self.wrong(format!("`{kind}` has no `image`, which is a name"));
        }
        let env = self.env(&kind, of.get("container_envs"));
        let nothing = Map::new();
        let limits = match of.get("resource_limit") {
            None | Some(Value::Null) => &nothing,
            Some(Value::Object(limits)) => limits,
            Some(_) => {
                self.wrong(format!("`resource_limit` of `{kind}` is not an object"));
                &nothing
            }
        };
        let nano_cpu = self.limit(&kind, limits, "nano_cpu", (1000, NANO_CPUS));
        let memory_bytes = self.limit(&kind, limits, "memory_byte", (1024, MEMORY_BYTES));
        if let Some(nano) = nano_cpu {
            draft.note(format!(
                "`nano_cpu` of `{kind}` is {nano} thousand-millionths of a processor (K, M and G are decimal)"
            ));
        }
        if let Some(bytes) = memory_bytes {
            draft.note(format!(
                "`memory_byte` of `{kind}` is {bytes} bytes (K, M and G are powers of 1024)"
            ));
        }
        for key in of
            .keys()
            .filter(|key| !["image", "container_envs", "resource_limit"].contains(&key.as_str()))
        {
            draft.note(format!("`{}` of `{kind}` was not carried over", shown(key)));
        }
        for key in limits
            .keys()
            .filter(|key| !["nano_cpu", "memory_byte"].contains(&key.as_str()))
        {
            let key = shown(key);
            draft.note(format!(
                "`resource_limit.{key}` of `{kind}` was not carried over"
            ));
        }
        Some(Software {
            image: image?.to_owned(),
            env,
            capabilities: CAPABILITIES.map(str::to_owned).into(),
            nano_cpu,
            memory_bytes,
            ..Software::default()
        })
    }

    fn env(&mut self, kind: &str, said: Option<&Value>) -> Vec<(String, String)> {
        let said = match said {
            None | Some(Value::Null) => return Vec::new(),
            Some(Value::Object(said)) => said,
            Some(_) => {
                self.wrong(format!("`container_envs` of `{kind}` is not an object"));
                return Vec::new();
            }
        };
        let mut env = Vec::new();
        for (name, value) in said {
            let value = match value {
                Value::String(text) => text.clone(),
                Value::Number(number) => number.to_string(),
                Value::Bool(value) => value.to_string(),
                _ => {
                    let name = shown(name);
                    self.wrong(format!("the variable `{name}` of `{kind}` is no text"));
                    continue;
                }
            };
            env.push((name.clone(), value));
        }
        env
    }

    /// A limit, `None` where it is 0 or not given.
    fn limit(
        &mut self,
        kind: &str,
        limits: &Map<String, Value>,
        key: &str,
        (kilo, range): (u64, std::ops::RangeInclusive<u64>),
    ) -> Option<u64> {
        let value = limits.get(key).filter(|value| !value.is_null())?;
        let amount = amount(value, kilo);
        match amount {
            Some(0) => None,
            Some(amount) if range.contains(&amount) => Some(amount),
            _ => {
                let said = shown(&value.to_string());
                let (least, most) = (range.start(), range.end());
                self.wrong(format!(
                    "`{key}` of `{kind}` is {said}, which is no number from {least} to {most}, with K, M, G or T"
                ));
                None
            }
        }
    }
}

/// A whole number, or a text such as `24M`.
fn amount(value: &Value, kilo: u64) -> Option<u64> {
    let Some(text) = value.as_str() else {
        return value.as_u64();
    };
    let text = text.trim();
    let power = "KMGT".find(text.chars().last()?.to_ascii_uppercase());
    let (digits, factor) = match power {
        Some(power) => (&text[..text.len() - 1], kilo.pow(power as u32 + 1)),
        None => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_letters() {
        let of = |text: &str| amount(&Value::from(text), 1000);
        assert_eq!(of("10M"), Some(10_000_000));
        assert_eq!(of("3g"), Some(3_000_000_000));
        assert_eq!(of("7"), Some(7));
        assert_eq!(amount(&Value::from("24M"), 1024), Some(24 << 20));
        assert_eq!(amount(&Value::from(5), 1024), Some(5));
        for odd in ["", "M", "-1", "1.5M", "99999999999T", "10MB", "é"] {
            assert_eq!(of(odd), None, "{odd}");
        }
    }
}
