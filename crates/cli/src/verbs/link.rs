//! `constel link`: one link's live state, and changes of it by hand.

mod laws;

use constel_api::Request;
use constel_units::{Ratio, TimeSpan};
use serde_json::{Map, Value, json};

use super::labs;
use crate::args::{JitterName, Link, LinkChange, LinkEnds, LinkSet};
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

/// Shows or changes.
pub(crate) fn run(args: &Link) -> Outcome {
    match (&args.change, &args.lab, &args.a, &args.b) {
        (Some(LinkChange::Show(link)), ..) => show(&link.lab, &link.a, &link.b, link.json),
        (Some(LinkChange::Set(set)), ..) => change(&set.ends, effects(set)?, set.reset),
        (Some(LinkChange::Fail(ends)), ..) => change(ends, json!({"down": true}), false),
        (Some(LinkChange::Heal(ends)), ..) => change(ends, json!({"down": false}), false),
        (None, Some(lab), Some(a), Some(b)) => show(lab, a, b, args.json),
        (None, ..) => Err(Failure::Usage("which lab, and which two nodes?".into())),
    }
}

fn change(ends: &LinkEnds, effects: Value, reset: bool) -> Outcome {
    let request = Request::SetLink {
        a: ends.a.clone(),
        b: ends.b.clone(),
        effects,
        reset,
    };
    let answer = labs::ask(&ends.lab, &request)?;
    if ends.json {
        output::json(&answer)?;
        return Ok(Exit::Done);
    }
    let edges = answer["edges"].as_array().map_or(0, Vec::len);
    let now = &answer["edges"][0]["effects"];
    output::text(&format!("set by hand on {edges} edges: {now}\n"))?;
    Ok(Exit::Done)
}

/// What the flags ask for, in the link plane's own words.
fn effects(set: &LinkSet) -> Result<Value, Failure> {
    let mut map = Map::new();
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            map.insert(key.to_owned(), value);
        }
    };
    put("delay_ns", set.delay.map(ns).transpose()?);
    put("rate_bps", set.rate.map(|r| json!(r.bps())));
    put("rate_law", laws::rate(set)?);
    put("discipline", laws::discipline(set)?);
    put("queue_bytes", set.queue.map(|q| json!(q.bytes())));
    put("queue_frames", set.queue_frames.map(|n| json!(n)));
    put("overhead_bytes", set.overhead.map(|o| json!(o.bytes())));
    put("loss", loss(set)?);
    put("jitter", jitter(set)?);
    if let Some(recording) = laws::delays(set)? {
        // The recording is the whole delay.
        put("delay_ns", Some(json!(0)));
        put("jitter", Some(recording));
    }
    if let (Some(ratio), Some(by)) = (set.reorder, set.reorder_by) {
        let extent_ns = ns(by)?;
        put(
            "reorder",
            Some(json!({"ratio": ratio.get(), "extent_ns": extent_ns})),
        );
    }
    put("duplicate_ratio", set.duplicate.map(|r| json!(r.get())));
    put("corrupt_ratio", set.corrupt.map(|r| json!(r.get())));
    if map.is_empty() && !set.reset {
        let text = "nothing to set; `constel link set --help` says what can be";
        return Err(Failure::Usage(text.into()));
    }
    Ok(Value::Object(map))
}

fn ns(span: TimeSpan) -> Result<Value, Failure> {
    match u64::try_from(span.ns()) {
        Ok(ns) => Ok(json!(ns)),
        Err(_) => Err(Failure::Usage(format!(
            "{span}: a time here is not negative"
        ))),
    }
}

fn loss(set: &LinkSet) -> Result<Option<Value>, Failure> {
    if let Some(ratio) = set.loss {
        return Ok(Some(json!({"bernoulli": {"loss_ratio": ratio.get()}})));
    }
    if let Some(&[to_bad, to_good, good, bad]) = set.gilbert_elliott.as_deref() {
        let [to_bad, to_good, good, bad] = [to_bad, to_good, good, bad].map(Ratio::get);
        return Ok(Some(json!({"gilbert_elliott": {
            "good_to_bad": to_bad, "bad_to_good": to_good, "loss_good": good, "loss_bad": bad,
        }})));
    }
    if let Some(law) = laws::loss(set)? {
        return Ok(Some(law));
    }
    let Some(text) = &set.drop else {
        return Ok(None);
    };
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some((first.parse::<u64>().ok()?, last.parse::<u64>().ok()?))
    };
    let frames: Option<Vec<_>> = text.split(',').map(|part| range(part.trim())).collect();
    match frames {
        Some(frames) => Ok(Some(json!({"pattern": {"frames": frames}}))),
        None => Err(Failure::Usage(format!(
            "--drop {text}: frame numbers and ranges, for example 17 or 3,10-12"
        ))),
    }
}

fn jitter(set: &LinkSet) -> Result<Option<Value>, Failure> {
    let Some(span) = set.jitter else {
        return laws::jitter(set);
    };
    let span = ns(span)?;
    let law = match set.jitter_law {
        JitterName::Uniform => json!({"uniform": {"half_width_ns": span}}),
        JitterName::Normal => json!({"normal": {"sd_ns": span}}),
        JitterName::Pareto => json!({"pareto": {"sd_ns": span}}),
        JitterName::ParetoNormal => json!({"pareto_normal": {"sd_ns": span}}),
    };
    let half_life_ns = set.jitter_half_life.map_or(Ok(json!(0)), ns)?;
    Ok(Some(json!({"law": law, "half_life_ns": half_life_ns})))
}

/// Both directions, and why the link is up or down.
fn show(lab: &str, a: &str, b: &str, as_json: bool) -> Outcome {
    let request = Request::Link {
        a: a.to_owned(),
        b: b.to_owned(),
    };
    let link = labs::ask(lab, &request)?;
    if as_json {
        output::json(&link)?;
        return Ok(Exit::Done);
    }
    let mut text = format!("{} - {}: {}\n", a, b, output::cell(&link["why"]));
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    let rows: Vec<Vec<String>> = link["edges"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|edge| {
            let counters = &edge["counters"]["counters"];
            vec![
                output::cell(&edge["from"]),
                output::cell(&edge["to"]),
                output::ms(number(&edge["delay_ns"])),
                format!("{:+.3} us/s", number(&edge["slope_ns_per_s"]) / 1e3),
                edge["rate_bps"]
                    .as_f64()
                    .map_or_else(|| "-".to_owned(), output::rate),
                output::cell(&counters["offered"]),
                output::cell(&counters["delivered"]),
                output::cell(&edge["counters"]["queue_bytes"]),
            ]
        })
        .collect();
    let head = [
        "FROM",
        "TO",
        "DELAY",
        "SLOPE",
        "RATE",
        "OFFERED",
        "DELIVERED",
        "QUEUED B",
    ];
    if !rows.is_empty() {
        text.push_str(&output::table(&head, &rows));
    }
    for edge in link["edges"].as_array().into_iter().flatten() {
        let set = &edge["effects"];
        if set.as_object().is_some_and(|map| !map.is_empty()) {
            let (from, to) = (output::cell(&edge["from"]), output::cell(&edge["to"]));
            text.push_str(&format!("set on {from} -> {to}: {set}\n"));
        }
    }
    output::text(&text)?;
    Ok(Exit::Done)
}
