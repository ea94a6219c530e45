//! The `expect` statements of a scenario, judged from the results folder of a run.

mod evidence;
mod junit;
mod live;
mod needs;
mod printed;
mod programs;

use constel_api::Event;
use constel_api::summary::FlowStatus;
use constel_measure::probe::row::{Fate, Row};
use constel_measure::verdict::SoftwareFailure;
use constel_plan::Lab;
use constel_scenario::Scenario;
use constel_scenario::model::{
    Agreement, Bounds, Delivery, EventNamed, Expectation, Expected, Measured, Name, Window,
};
use constel_units::{Ratio, TimeSpan};
use serde_json::Value;

pub use evidence::Evidence;
pub use junit::{Case, CaseEnd, Suite, junit};
pub use live::lost;
pub use printed::reads_columns;

/// The outcome of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// Its name.
    pub name: String,
    /// The requirement that the statement verifies.
    pub requirement: Option<String>,
    /// The line of the statement in the scenario file.
    pub line: u32,
    /// Whether it holds.
    pub holds: bool,
    /// The observed value.
    pub seen: String,
    /// The reason why the outcome is unknown: the emulator's fidelity, if it concerns the measurements that the statement
    /// needs.
    pub doubt: Option<String>,
}

/// Judges every statement.
#[must_use]
pub fn judge(lab: &Lab, evidence: &Evidence) -> Vec<Judgement> {
    let one = |expectation: &Expectation| {
        let (holds, seen) = match of(&expectation.what, lab, evidence) {
            Ok((holds, seen)) => (holds, seen),
            Err(missing) => (false, missing),
        };
        Judgement {
            name: expectation.name.to_string(),
            requirement: expectation.requirement.clone(),
            line: expectation.line,
            holds,
            seen,
            doubt: needs::doubt(&expectation.what, evidence),
        }
    };
    lab.scenario.expect.iter().map(one).collect()
}

/// Software that failed and that no statement is about.
#[must_use]
pub fn unstated<'a>(scenario: &Scenario, evidence: &'a Evidence) -> Vec<&'a SoftwareFailure> {
    let stated = |failure: &&SoftwareFailure| {
        let mut statements = scenario.expect.iter().map(|e| &e.what);
        statements.any(|what| match (what, &failure.flow) {
            (Expected::Alive(nodes, _), _) => {
                nodes.iter().any(|node| node.glob.matches(&failure.node))
            }
            (what, Some(flow)) => needs::flows(what).iter().any(|name| name.as_str() == flow),
            (_, None) => false,
        })
    };
    let failures = evidence.summary.software.failures.iter();
    failures.filter(|failure| !stated(failure)).collect()
}

/// Returns whether a statement holds, with the observed value, or the missing evidence.
fn of(what: &Expected, lab: &Lab, evidence: &Evidence) -> Result<(bool, String), String> {
    match what {
        Expected::Succeeds(name) => {
            let flow = evidence.flow(name)?;
            let reason = flow
                .reason
                .as_deref()
                .map_or(String::new(), |r| format!(": {r}"));
            let seen = format!("flow `{name}` is {}{reason}", flow.status.as_str());
            Ok((flow.status == FlowStatus::Ok, seen))
        }
        Expected::Alive(nodes, window) => programs::alive(nodes, *window, lab, &evidence.events),
        Expected::StillRunning(names) => programs::still_running(names, evidence),
        Expected::EndedEarly(own) => programs::ended_early(own, evidence),
        Expected::Reachable(flow, within, window) => reachable(flow, *within, *window, evidence),
        Expected::Delivery(own) => delivery(own, evidence),
        Expected::Agreement(own) => agree(own, evidence),
        Expected::Metric(own) => metric(own, evidence),
        Expected::Throughput(name, bounds, window) => {
            let bps = match window.is_all() {
                true => evidence.measured(name, "throughput", |o| o.throughput_bps)?,
                false => evidence.throughput_bps(name, *window)?,
            };
            let seen = format!("{:.3} Mbit/s{}", bps / 1e6, window.in_words());
            Ok(within(
                bps,
                seen,
                written(*bounds, |rate| rate.bps() as f64),
            ))
        }
        Expected::RoundTrip(name, quantile, bounds, window) => {
            let answers = evidence.answers(name, *window)?;
            let rtts_s = answers.iter().filter_map(|row| row.rtt_ns);
            let rtts_s = rtts_s.map(|ns| ns as f64 / 1e9).collect();
            let when = window.in_words();
            let rtt_s = nearest_rank(rtts_s, *quantile)
                .ok_or_else(|| format!("flow `{name}` had no answer{when}"))?;
            let seen = format!(
                "{quantile} of round trips{when} took at most {:.3} ms",
                rtt_s * 1e3
            );
            let bounds = written(*bounds, |span: TimeSpan| span.seconds());
            Ok(within(rtt_s, seen, bounds))
        }
        Expected::Order(first, then, within, window) => {
            order(first, then, *within, *window, &evidence.events)
        }
    }
}

/// The quantile by nearest rank; `None` of nothing.
fn nearest_rank(mut values: Vec<f64>, quantile: Ratio) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let rank = (quantile.get() * values.len() as f64).ceil().max(1.0) as usize;
    values.get(rank - 1).copied()
}

fn reachable(
    flow: &Name,
    within: TimeSpan,
    window: Window,
    evidence: &Evidence,
) -> Result<(bool, String), String> {
    let began_ns = match window.from {
        Some(from) => from.ns().unsigned_abs().max(evidence.flow(flow)?.at_ns),
        None => evidence.flow(flow)?.at_ns,
    };
    let answers = evidence.answers(flow, window)?;
    let came_ns = |row: &Row| (row.sent_ns + row.rtt_ns.unwrap_or(0)).saturating_sub(began_ns);
    let first_ns = answers.iter().map(came_ns).min();
    let when = window.in_words();
    let first_ns = first_ns.ok_or_else(|| format!("flow `{flow}` had no answer{when}"))?;
    let first_s = first_ns as f64 / 1e9;
    let seen = format!("the first answer{when} came after {first_s:.3} s; at most {within}");
    Ok((first_s <= within.seconds(), seen))
}

fn delivery(own: &Delivery, evidence: &Evidence) -> Result<(bool, String), String> {
    let name = &own.flow;
    let when = own.window.in_words();
    let arrived = match own.window.is_all() {
        true => 1.0 - evidence.measured(name, "loss", |outcome| outcome.loss_ratio)?,
        false => {
            // Probes with an unknown result count neither way.
            let unknown = |row: &Row| matches!(row.fate, Fate::Duplicate | Fate::UnderWay);
            let mut rows = evidence.probes(name, own.window)?;
            rows.retain(|row| !unknown(row));
            if rows.is_empty() {
                return Err(format!("flow `{name}` sent nothing{when}"));
            }
            let answered = rows.iter().filter(|row| row.fate.is_answer());
            answered.count() as f64 / rows.len() as f64
        }
    };
    let seen = format!("{:.3} % arrived{when}", arrived * 100.0);
    Ok(within(arrived, seen, written(own.bounds, Ratio::get)))
}

/// Bounds as numbers, each with how it is written.
fn written<T: Copy + ToString>(
    bounds: Bounds<T>,
    number: impl Fn(T) -> f64,
) -> [Option<(f64, String)>; 2] {
    [bounds.at_least, bounds.at_most].map(|edge| edge.map(|edge| (number(edge), edge.to_string())))
}

/// Returns whether a value is within its bounds, each a number and its text in the scenario, and the observed value.
fn within(value: f64, mut seen: String, bounds: [Option<(f64, String)>; 2]) -> (bool, String) {
    let [least, most] = bounds;
    let mut holds = true;
    if let Some((least, written)) = least {
        seen += &format!("; at least {written}");
        holds &= value >= least;
    }
    if let Some((most, written)) = most {
        seen += &format!("; at most {written}");
        holds &= value <= most;
    }
    (holds, seen)
}

fn agree(own: &Agreement, evidence: &Evidence) -> Result<(bool, String), String> {
    let names = [own.key.as_str(), own.value.as_str()];
    let each = own
        .flows
        .iter()
        .map(|flow| evidence.printed(flow, names, own.time.as_ref(), own.window));
    let each = each.collect::<Result<Vec<_>, _>>()?;
    let found = printed::agreement(&each);
    let when = own.window.in_words();
    if found.complete == 0 {
        let (key, all) = (&own.key, found.all);
        return Err(format!(
            "of {all} values of `{key}`{when} none was printed by everybody"
        ));
    }
    let share = found.same as f64 / found.complete as f64;
    let (same, complete) = (found.same, found.complete);
    let percent = share * 100.0;
    let seen = format!("{same} of {complete}{when} agree ({percent:.1} %)");
    Ok(within(share, seen, written(own.bounds, Ratio::get)))
}

fn metric(own: &Measured, evidence: &Evidence) -> Result<(bool, String), String> {
    let (flow, column, quantile) = (&own.flow, &own.column, own.quantile);
    let rows = evidence.printed(flow, [column.as_str()], own.time.as_ref(), own.window)?;
    let number = |[text]: &[String; 1]| {
        let number = text.parse::<f64>().ok().filter(|n| n.is_finite());
        number.ok_or_else(|| format!("flow `{flow}` printed `{text}` as `{column}`: no number"))
    };
    let numbers = rows.iter().map(number).collect::<Result<Vec<f64>, _>>()?;
    let when = own.window.in_words();
    let found = nearest_rank(numbers, quantile)
        .ok_or_else(|| format!("flow `{flow}` printed no row{when}"))?;
    let seen = format!("{quantile} of `{column}`{when} is {found}");
    Ok(within(found, seen, written(own.bounds, |number| number)))
}

fn order(
    first: &EventNamed,
    then: &EventNamed,
    within: Option<TimeSpan>,
    window: Window,
    events: &[Event],
) -> Result<(bool, String), String> {
    // Events before lab time zero have no lab time, so they are in no window.
    let counts = |event: &Event| match event.t_ns {
        Some(t_ns) => window.has(t_ns),
        None => window.is_all(),
    };
    let find = |named: &EventNamed, from: usize| {
        let rest = events.iter().enumerate().skip(from);
        let found = rest
            .filter(|(_, event)| counts(event) && is(named, event))
            .map(|(n, _)| n)
            .next();
        found.ok_or_else(|| {
            let kind = named.kind.as_str();
            let about = named
                .about
                .as_ref()
                .map_or(String::new(), |a| format!(" about `{a}`"));
            let after = if from > 0 { " after the first" } else { "" };
            let when = window.in_words();
            format!("there is no event `{kind}`{about}{after}{when}")
        })
    };
    let earlier = find(first, 0)?;
    let later = find(then, earlier + 1)?;
    let (earlier_kind, later_kind) = (first.kind.as_str(), then.kind.as_str());
    let seen = format!("`{earlier_kind}` came before `{later_kind}`");
    let Some(within) = within else {
        return Ok((true, seen));
    };
    let (Some(a), Some(b)) = (events[earlier].t_ns, events[later].t_ns) else {
        return Err("an event before lab time zero has no time".to_owned());
    };
    let took = TimeSpan::from_ns(b - a);
    Ok((
        took <= within,
        format!("{seen}, {took} later; at most {within}"),
    ))
}

/// Whether it is an event of that kind, about that name.
fn is(named: &EventNamed, event: &Event) -> bool {
    fn has(value: &Value, name: &str) -> bool {
        match value {
            Value::String(text) => text == name,
            Value::Array(items) => items.iter().any(|item| has(item, name)),
            _ => false,
        }
    }
    let Ok(Value::Object(fields)) = serde_json::to_value(&event.what) else {
        return false;
    };
    let kind = fields.get("kind").and_then(Value::as_str) == Some(named.kind.as_str());
    let mut others = fields.iter().filter(|(key, _)| *key != "kind");
    let about = |name: &String| others.any(|(_, value)| has(value, name));
    kind && named.about.as_ref().is_none_or(about)
}

#[cfg(test)]
mod tests;
