//! `constel link`: shows a link's state, and changes it by hand.

mod far;
mod laws;

use std::num::NonZeroU64;

use constel_api::SetLink;
use constel_api::answers::{
    BriefEffects, EdgeSet, EdgeShown, LinkSet as Answer, LinkShown, NodeForwarding,
};
use constel_control::{Lab, Observer};
use constel_link::{Effects, Jitter, JitterLaw, LossLaw, Reorder};
use constel_units::{DataSize, Ratio, TimeSpan, files};

use crate::args::{JitterName, Link, LinkChange, LinkEnds, LinkSet};
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

/// Shows or changes a link.
pub(crate) fn run(args: &Link) -> Outcome {
    match (&args.change, &args.lab, &args.a, &args.b) {
        (Some(LinkChange::Show(link)), ..) => show(&link.lab, &link.a, &link.b, link.json),
        (Some(LinkChange::Set(set)), ..) => {
            let effects = effects(set)?;
            let order = SetLink {
                reset: set.reset,
                for_ns: lasting(set.duration)?,
                ..with(&set.ends, effects, true)
            };
            change(&set.ends, order)
        }
        (Some(LinkChange::Fail(fail)), ..) => {
            let (own, effects) = (&fail.own, Effects::failed(true));
            let order = SetLink {
                for_ns: lasting(fail.duration)?,
                ..with(&own.ends, effects, !own.no_wait)
            };
            change(&own.ends, order)
        }
        (Some(LinkChange::Heal(heal)), ..) => {
            let order = with(&heal.ends, Effects::failed(false), !heal.no_wait);
            change(&heal.ends, order)
        }
        (None, Some(lab), Some(a), Some(b)) => match &args.store {
            Some(store) => far::show(store, lab, (a, b), args.json),
            None => show(lab, a, b, args.json),
        },
        (None, ..) => Err(Failure::Usage("which lab, and which two nodes?".into())),
    }
}

/// Returns the time after which a change ends.
fn lasting(duration: Option<TimeSpan>) -> Result<Option<NonZeroU64>, Failure> {
    duration.map(super::run::at_least_something).transpose()
}

fn change(ends: &LinkEnds, order: SetLink) -> Outcome {
    if let Some(store) = &ends.store {
        return far::change(store, ends, &order);
    }
    let answer = Lab::attach(&ends.lab)?.set_link(order)?;
    changed(ends, &answer)
}

fn with(ends: &LinkEnds, effects: Effects, wait: bool) -> SetLink {
    SetLink {
        wait,
        ..SetLink::new(&ends.a, ends.b.as_deref(), effects)
    }
}

fn changed(ends: &LinkEnds, answer: &Answer) -> Outcome {
    if ends.json {
        output::json(answer)?;
        return Ok(Exit::Done);
    }
    let edges = answer.edges.len();
    let now = output::or_dash(answer.edges.first().map(|edge| &edge.effects));
    let what = match &answer.port {
        Some(port) => format!("on all edges that leave {port}"),
        None => format!("on {edges} edges of this pair of ends"),
    };
    output::text(&format!("set by hand {what}: {now}\n"))?;
    let set = |edge: &EdgeSet| edge.effects != BriefEffects::default();
    if let Some(port) = answer
        .port
        .as_ref()
        .filter(|_| answer.edges.iter().any(set))
    {
        let lab = &ends.lab;
        output::text(&format!(
            "`constel link set {lab} {port} --reset` removes it\n"
        ))?;
    }
    output::text(&output::routes_after(answer.routes))?;
    Ok(Exit::Done)
}

/// Returns the effects that the flags set.
fn effects(set: &LinkSet) -> Result<Effects, Failure> {
    let recording = laws::delays(set)?;
    let reorder = match (set.reorder, set.reorder_by) {
        (Some(ratio), Some(by)) => Some(Reorder {
            ratio: ratio.get(),
            extent_ns: laws::ns(by)?,
        }),
        _ => None,
    };
    let effects = Effects {
        // A recorded delay replaces the whole delay.
        delay_ns: match &recording {
            Some(_) => Some(0),
            None => set.delay.map(laws::ns).transpose()?,
        },
        extra_delay_ns: set.extra_delay.map(laws::ns).transpose()?,
        rate_law: laws::rate(set)?,
        discipline: laws::discipline(set)?,
        overhead_bytes: set.overhead.map(overhead).transpose()?,
        loss: loss(set)?,
        jitter: match recording {
            Some(jitter) => Some(jitter),
            None => jitter(set)?,
        },
        reorder,
        ..set.effects()
    };
    let effects = match &set.effects {
        None => effects,
        Some(text) if effects.is_empty() => document(text)?,
        Some(_) => {
            let text = "--effects is instead of the other flags: give one or the others";
            return Err(Failure::Usage(text.into()));
        }
    };
    if effects.is_empty() && !set.reset {
        let text = "nothing to set; `constel link set --help` says what can be";
        return Err(Failure::Usage(text.into()));
    }
    Ok(effects)
}

/// Maximum size of a document of effects, bytes.
const MOST_EFFECTS_BYTES: u64 = 1 << 20;

fn document(text: &str) -> Result<Effects, Failure> {
    let text = match text {
        "-" => files::read_stdin_text(MOST_EFFECTS_BYTES)?,
        text => text.to_owned(),
    };
    serde_json::from_str(&text).map_err(|error| Failure::Usage(format!("--effects: {error}")))
}

fn overhead(size: DataSize) -> Result<u32, Failure> {
    u32::try_from(size.bytes())
        .map_err(|_| Failure::Usage(format!("--overhead {size}: larger than any frame")))
}

fn loss(set: &LinkSet) -> Result<Option<LossLaw>, Failure> {
    if let Some(ratio) = set.loss {
        let loss_ratio = ratio.get();
        return Ok(Some(LossLaw::Bernoulli { loss_ratio }));
    }
    if let Some(ratio) = set.bit_errors {
        let bit_error_ratio = ratio.get();
        return Ok(Some(LossLaw::BitErrors { bit_error_ratio }));
    }
    if let Some(&[to_bad, to_good, good, bad]) = set.gilbert_elliott.as_deref() {
        let [good_to_bad, bad_to_good, loss_good, loss_bad] =
            [to_bad, to_good, good, bad].map(Ratio::get);
        return Ok(Some(LossLaw::GilbertElliott {
            good_to_bad,
            bad_to_good,
            loss_good,
            loss_bad,
        }));
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
        Some(frames) => Ok(Some(LossLaw::Pattern { frames })),
        None => Err(Failure::Usage(format!(
            "--drop {text}: frame numbers and ranges, for example 17 or 3,10-12"
        ))),
    }
}

fn jitter(set: &LinkSet) -> Result<Option<Jitter>, Failure> {
    let Some(span) = set.jitter else {
        return laws::jitter(set);
    };
    let span_ns = laws::ns(span)?;
    let law = match set.jitter_law {
        JitterName::Uniform => JitterLaw::Uniform {
            half_width_ns: span_ns,
        },
        JitterName::Normal => JitterLaw::Normal { sd_ns: span_ns },
        JitterName::Pareto => JitterLaw::Pareto { sd_ns: span_ns },
        JitterName::ParetoNormal => JitterLaw::ParetoNormal { sd_ns: span_ns },
    };
    laws::with_memory(law, set).map(Some)
}

/// Shows both directions, and why the link is up or down.
fn show(lab: &str, a: &str, b: &str, as_json: bool) -> Outcome {
    let link = Observer::attach(lab)?.link(a, b)?;
    if as_json {
        output::json(&link)?;
    } else {
        output::text(&text(&link))?;
    }
    Ok(Exit::Done)
}

fn text(link: &LinkShown) -> String {
    let mut text = format!("{} - {}: {}\n", link.a, link.b, link.why);
    for satellite in &link.catalogued {
        text.push_str(&output::catalogued(satellite));
    }
    let rows: Vec<Vec<String>> = link.edges.iter().map(cells).collect();
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
    for edge in &link.edges {
        let EdgeShown {
            from, to, effects, ..
        } = edge;
        if !effects.is_empty() {
            text.push_str(&format!("set on {from} -> {to}: {effects}\n"));
        }
    }
    for own in &link.forwarding {
        let NodeForwarding { node, forwarding } = own;
        text.push_str(&format!(
            "{node} forwarded {} packets, answered {}, dropped {}\n",
            forwarding.forwarded,
            forwarding.answered,
            output::dropped(forwarding)
        ));
    }
    text
}

fn cells(edge: &EdgeShown) -> Vec<String> {
    let number = |value: Option<f64>| value.unwrap_or(f64::NAN);
    let rate = edge.rate_bps.map(|bps| output::rate(bps as f64));
    let counted = edge.counters.as_ref();
    vec![
        edge.from.clone(),
        edge.to.clone(),
        output::ms(number(edge.delay_ns.map(|ns| ns as f64))),
        format!(
            "{:+.3} us/s",
            number(edge.slope_ns_per_s.map(|ns| ns as f64)) / 1e3
        ),
        output::or_dash(rate),
        output::or_dash(counted.map(|edge| edge.counters.offered)),
        output::or_dash(counted.map(|edge| edge.counters.delivered)),
        output::or_dash(counted.map(|edge| edge.queue_bytes)),
    ]
}
