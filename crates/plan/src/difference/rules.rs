//! The values of a scenario that a running lab can take over, and the reasons against the others.

use constel_scenario::Scenario;
use constel_scenario::model::Mode;
use serde_json::Value;

use super::Past;

/// Keys of `link` that every driver has; the others but `mtu` are effects.
const OF_EVERY_DRIVER: [&str; 4] = ["rate", "queue", "loss", "extra_delay"];

pub(super) const NODES: &str = "nodes, their interfaces and their links' ends are created when the lab starts; stations and hosts can leave, and return";

pub(super) const ORBITS: &str = "orbits and pairs of satellites are fixed when the lab starts";

pub(super) const GROUND_LINKS: &str =
    "handovers, access and interfaces of links to the ground are set up when the lab starts";

const PROGRAMS: &str = "programs of nodes are set up when the lab starts";

pub(super) const FILES: &str = "files are read when the lab starts";

/// Reasons by the first key.
const REASONS: [(&str, &str); 18] = [
    (
        "seed",
        "random choices follow one seed from lab time zero on",
    ),
    ("start", "orbits are computed from lab time zero on"),
    ("step", "the length of a step is fixed when the lab starts"),
    ("duration", "the end of a lab is fixed when it starts"),
    ("constellations", ORBITS),
    ("spacecraft", ORBITS),
    ("ground", NODES),
    ("cross_shell", NODES),
    (
        "networks",
        "`constel network` changes members and delays of a network in a running lab",
    ),
    ("routing", "routing is set up when the lab starts"),
    ("addresses", "addresses are assigned when the lab starts"),
    ("links", "the link driver is set up when the lab starts"),
    ("transport", PROGRAMS),
    ("nodes", PROGRAMS),
    ("images", PROGRAMS),
    ("information", PROGRAMS),
    ("sample", "results have one form from the start to the end"),
    (
        "expect",
        "expectations are those with which `constel test` started the lab",
    ),
];

/// Returns whether this key is an effect of links that a driver may lack.
pub(super) fn is_effect(parts: &[&str]) -> bool {
    matches!(parts, [.., "link", of] if *of != "mtu" && !OF_EVERY_DRIVER.contains(of))
}

/// Returns whether a value is one change, however many values in it differ.
pub(super) fn is_whole(path: &[String]) -> bool {
    let parts: Vec<&str> = path.iter().map(String::as_str).collect();
    let whole = matches!(
        parts[..],
        ["failures", _] | [.., "policy" | "radio" | "obstacles"]
    );
    whole || is_effect(&parts)
}

/// Returns the reason why a running lab cannot take over a change at a path of the file; `None` if it can.
pub(super) fn refusal(
    path: &[String],
    (before, after): (Option<&Value>, Option<&Value>),
    running: &Scenario,
    past: &Past,
) -> Option<String> {
    let parts: Vec<&str> = path.iter().map(String::as_str).collect();
    let by_daemons = matches!(running.routing.mode, Mode::Daemons(_));
    let is_beneath = |name: &str| running.beneath.iter().any(|own| own.name == *name);
    match parts[..] {
        ["name" | "description" | "weather" | "recordings"] => None,
        ["failures", _] => failure(before, after, past),
        ["ground", "stations" | "hosts", _, "node", ..]
        | ["constellations" | "spacecraft", _, "node", ..] => Some(PROGRAMS.to_owned()),
        ["ground" | "links", "choices"] => Some(FILES.to_owned()),
        // Networks over it would compute all steps since lab time zero again.
        ["constellations", name, ..] if is_beneath(name) => Some(ORBITS.to_owned()),
        ["constellations", _, "isl" | "gsl", "link", of] | ["ground", "cables", _, "link", of]
            if of != "mtu" =>
        {
            None
        }
        ["ground", "cables", _, "delay"] | ["ground", "stations", _, "obstacles"] => None,
        ["constellations", _, "isl", "acquisition"] => None,
        [
            "constellations",
            _,
            "gsl",
            "policy" | "by_elevation" | "capacity" | "radio" | "beams",
        ] => None,
        ["ground", "stations", _, "terminals"] => terminals(before, after, by_daemons),
        [
            "constellations",
            _,
            "gsl",
            "min_elevation" | "gso_avoidance",
        ] => mask(by_daemons),
        ["constellations", _, "gsl", ..] => Some(GROUND_LINKS.to_owned()),
        _ => Some(reason(&parts)),
    }
}

fn reason(parts: &[&str]) -> String {
    let first = parts.first().copied().unwrap_or_default();
    let found = REASONS.iter().find(|(key, _)| *key == first);
    found
        .map_or("it is fixed when the lab starts", |(_, reason)| reason)
        .to_owned()
}

/// Routing daemons are configured for the satellites that a station can ever use.
fn mask(by_daemons: bool) -> Option<String> {
    by_daemons.then(|| {
        "routing daemons are configured when the lab starts, for the satellites that stations can use"
            .to_owned()
    })
}

/// Terminals may change their policies and masks.
fn terminals(before: Option<&Value>, after: Option<&Value>, by_daemons: bool) -> Option<String> {
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let (before, after) = (list(before), list(after));
    let without = |terminals: &[Value], keys: &[&str]| -> Vec<Value> {
        let mut terminals = terminals.to_vec();
        for own in terminals.iter_mut().filter_map(Value::as_object_mut) {
            own.retain(|key, _| !keys.contains(&key.as_str()));
        }
        terminals
    };
    if without(&before, &["policy"]) == without(&after, &["policy"]) {
        return None;
    }
    let all = ["policy", "min_elevation"];
    match without(&before, &all) == without(&after, &all) {
        true => mask(by_daemons),
        false => Some(NODES.to_owned()),
    }
}

/// A failure may come, go and change, unless programs are started again by it or it would be over already.
fn failure(before: Option<&Value>, after: Option<&Value>, past: &Past) -> Option<String> {
    let reboots = |value: Option<&Value>| {
        let own = value.and_then(|value| value.get("reboot"));
        own.and_then(Value::as_bool) == Some(true)
    };
    if reboots(before) || reboots(after) {
        return Some("restarts of programs by failures are planned when the lab starts".to_owned());
    }
    let end_ns = after.and_then(end_ns)?;
    (end_ns <= past.now_ns)
        .then(|| format!("it is over: lab time is {:.1} s", past.now_ns as f64 / 1e9))
}

/// Returns the lab time at which a failure that occurs once is over, nanoseconds.
fn end_ns(failure: &Value) -> Option<u64> {
    let ns = |key: &str| -> Option<u64> {
        let span: constel_units::TimeSpan = failure.get(key)?.as_str()?.parse().ok()?;
        u64::try_from(span.ns()).ok()
    };
    match ns("every") {
        Some(_) => None,
        None => Some(ns("at")? + ns("for")?),
    }
}
