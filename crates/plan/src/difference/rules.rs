//! The values of a scenario that a running lab can take over, and the reasons against the others.

use constel_scenario::Scenario;
use constel_scenario::model::Mode;
use serde_json::Value;

use super::Past;

/// Properties of a kind of link that hold from the next step on.
const OF_LINKS: [&str; 5] = ["rate", "queue", "loss", "extra_delay", "effects"];

const NODES: &str = "nodes, their interfaces and their links' ends are created when the lab starts";

/// Reasons by the first key.
const REASONS: [(&str, &str); 24] = [
    (
        "seed",
        "random choices follow one seed from lab time zero on",
    ),
    ("start", "orbits are computed from lab time zero on"),
    ("step", "the length of a step is fixed when the lab starts"),
    ("duration", "the end of a lab is fixed when it starts"),
    ("has_end", "the end of a lab is fixed when it starts"),
    (
        "constellations",
        "orbits and pairs of satellites are fixed when the lab starts",
    ),
    (
        "beneath",
        "orbits and pairs of satellites are fixed when the lab starts",
    ),
    ("stations", NODES),
    ("hosts", NODES),
    ("cables", NODES),
    ("cross_shell", NODES),
    (
        "networks",
        "`constel network` changes members and delays of a network in a running lab",
    ),
    ("routing", "routing is set up when the lab starts"),
    ("addresses", "addresses are assigned when the lab starts"),
    ("driver", "the link driver is set up when the lab starts"),
    ("grain", "the link driver is set up when the lab starts"),
    ("threads", "the link driver is set up when the lab starts"),
    ("carrier", "the link driver is set up when the lab starts"),
    (
        "transport",
        "programs of nodes are set up when the lab starts",
    ),
    (
        "node_rules",
        "programs of nodes are set up when the lab starts",
    ),
    ("images", "programs of nodes are set up when the lab starts"),
    (
        "information",
        "programs of nodes are set up when the lab starts",
    ),
    (
        "sampling",
        "results have one form from the start to the end",
    ),
    (
        "expect",
        "expectations are those with which `constel test` started the lab",
    ),
];

/// Returns whether a value is one change, however many values in it differ.
pub(super) fn is_whole(path: &[String]) -> bool {
    let parts: Vec<&str> = path.iter().map(String::as_str).collect();
    matches!(
        parts[..],
        ["failures", _] | [.., "effects" | "policy" | "orbits" | "radio" | "recording"]
    )
}

/// Returns the reason why a running lab cannot take over a change at a path of the resolved form; `None` if it can.
pub(super) fn refusal(
    path: &[String],
    (before, after): (Option<&Value>, Option<&Value>),
    running: &Scenario,
    past: &Past,
) -> Option<String> {
    let parts: Vec<&str> = path.iter().map(String::as_str).collect();
    let both = before.is_some() && after.is_some();
    let by_daemons = matches!(running.routing.mode, Mode::Daemons(_));
    match parts[..] {
        ["name" | "description"] => None,
        ["failures", _] => failure(before, after, past),
        // The list of failures itself exists on both sides.
        ["constellations", _, "isl", "plus-grid", "link", of, ..]
        | ["constellations", _, "gsl", "link", of, ..]
        | ["cables", _, "link", of, ..]
            if OF_LINKS.contains(&of) =>
        {
            None
        }
        ["cables", _, "delay"] if both => None,
        ["constellations", _, "isl", "plus-grid", "acquisition"] if both => None,
        [
            "constellations",
            _,
            "gsl",
            "policy" | "by_elevation" | "capacity" | "radio" | "beams",
        ] => None,
        ["stations", _, "terminals"] => terminals(before, after, by_daemons),
        ["stations", _, "rain" | "obstacles" | "recording"] if both => None,
        [
            "constellations",
            _,
            "gsl",
            "min_elevation" | "gso_avoidance",
        ] if both => mask(by_daemons),
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
        for terminal in &mut terminals {
            for key in keys {
                let (parent, key) = key
                    .split_once('.')
                    .map_or((None, *key), |(a, b)| (Some(a), b));
                let own = match parent {
                    Some(parent) => terminal.get_mut(parent),
                    None => Some(&mut *terminal),
                };
                own.and_then(Value::as_object_mut)
                    .map(|own| own.remove(key));
            }
        }
        terminals
    };
    if without(&before, &["rule.policy"]) == without(&after, &["rule.policy"]) {
        return None;
    }
    let all = ["rule.policy", "min_elevation"];
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
    let once = failure.get("when")?.get("once")?;
    let ns = |at: usize| -> Option<u64> {
        let span: constel_units::TimeSpan = once.get(at)?.as_str()?.parse().ok()?;
        u64::try_from(span.ns()).ok()
    };
    Some(ns(0)? + ns(1)?)
}
