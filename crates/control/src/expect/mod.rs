//! What a scenario expects of a run, judged from its results folder.

mod junit;
mod live;
mod printed;

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

use constel_api::Event;
use constel_api::summary::{FlowRow, FlowStatus, Summary};
use constel_observe::flows::probe_rows;
use constel_probe::row::{Fate, Row};
use constel_scenario::Glob;
use constel_scenario::model::{
    Agreement, Delivery, EventNamed, Expectation, Expected, Measured, Name,
};
use constel_units::{Ratio, TimeSpan};
use serde_json::Value;

use crate::error::Error;
use crate::results::Run;

pub use junit::{Case, CaseEnd, Suite, junit};
pub use live::lost;

/// What came of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// Its name.
    pub name: String,
    /// The requirement it stands for.
    pub requirement: Option<String>,
    /// The line of the scenario file it stands in.
    pub line: u32,
    /// Whether it holds.
    pub holds: bool,
    /// What was seen.
    pub seen: String,
}

/// What a run left behind, as far as statements ask.
#[derive(Debug)]
pub struct Evidence {
    /// The run in numbers.
    pub summary: Summary,
    /// What happened, in order.
    pub events: Vec<Event>,
    /// The results folder: raw output of its flows is in `flows`.
    pub dir: PathBuf,
}

impl Evidence {
    /// Reads a results folder.
    ///
    /// # Errors
    /// [`Error::NoDocument`] when the run did not finish; [`Error::BadDocument`].
    pub fn read(run: &Run) -> Result<Self, Error> {
        Ok(Self {
            summary: run.summary()?,
            events: run.events()?.collect::<Result<_, _>>()?,
            dir: run.dir().to_owned(),
        })
    }

    fn flow(&self, name: &Name) -> Result<&FlowRow, String> {
        let found = self
            .summary
            .flows
            .iter()
            .find(|flow| flow.name == name.as_str());
        found.ok_or_else(|| format!("flow `{name}` did not run"))
    }

    /// What a flow's program printed.
    fn output(&self, name: &Name) -> Result<BufReader<File>, String> {
        self.flow(name)?;
        let file = self.dir.join("flows").join(format!("{name}.out"));
        let opened = File::open(&file).map_err(|error| format!("{}: {error}", file.display()));
        opened.map(BufReader::new)
    }

    /// Columns of what a flow's program printed.
    fn printed<const N: usize>(
        &self,
        name: &Name,
        columns: [&str; N],
    ) -> Result<Vec<[String; N]>, String> {
        let rows = printed::columns(self.output(name)?, columns);
        rows.map_err(|error| format!("flow `{name}`: {error}"))
    }

    /// A flow's probes.
    fn probes(&self, name: &Name) -> Result<Vec<Row>, String> {
        let rows = probe_rows(self.output(name)?);
        let rows = rows.collect::<Result<_, _>>();
        rows.map_err(|error| error.to_string())
    }

    /// The answers to a flow's probes.
    fn answers(&self, name: &Name) -> Result<Vec<Row>, String> {
        let mut rows = self.probes(name)?;
        rows.retain(|row| row.fate.is_answer());
        Ok(rows)
    }
}

/// Judges every statement.
#[must_use]
pub fn judge(expectations: &[Expectation], evidence: &Evidence) -> Vec<Judgement> {
    let one = |expectation: &Expectation| {
        let (holds, seen) = match of(&expectation.what, evidence) {
            Ok((holds, seen)) => (holds, seen),
            Err(missing) => (false, missing),
        };
        Judgement {
            name: expectation.name.to_string(),
            requirement: expectation.requirement.clone(),
            line: expectation.line,
            holds,
            seen,
        }
    };
    expectations.iter().map(one).collect()
}

/// Whether it holds and what was seen; or what there was not.
fn of(what: &Expected, evidence: &Evidence) -> Result<(bool, String), String> {
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
        Expected::Alive(nodes) => {
            let globs: Vec<&Glob> = nodes.iter().map(|named| &named.glob).collect();
            Ok(alive(&globs, &evidence.events))
        }
        Expected::Reachable(flow, within) => {
            let began_ns = evidence.flow(flow)?.at_ns;
            let answers = evidence.answers(flow)?;
            let came_ns =
                |row: &Row| (row.sent_ns + row.rtt_ns.unwrap_or(0)).saturating_sub(began_ns);
            let first_ns = answers.iter().map(came_ns).min();
            let first_ns = first_ns.ok_or_else(|| format!("flow `{flow}` had no answer"))?;
            let first_s = first_ns as f64 / 1e9;
            let seen = format!("the first answer came after {first_s:.3} s; at most {within}");
            Ok((first_s <= within.seconds(), seen))
        }
        Expected::Delivery(own) => delivery(own, evidence),
        Expected::Agreement(own) => agree(own, evidence),
        Expected::Metric(own) => metric(own, evidence),
        Expected::Throughput(name, at_least) => {
            let bps = evidence.flow(name)?.outcome.throughput_bps;
            let bps = bps.ok_or_else(|| format!("flow `{name}` measured no throughput"))?;
            let seen = format!("{:.3} Mbit/s; at least {at_least}", bps / 1e6);
            Ok((bps >= at_least.bps() as f64, seen))
        }
        Expected::RoundTrip(name, quantile, at_most) => {
            let answers = evidence.answers(name)?;
            let mut rtts_ns: Vec<u64> = answers.iter().filter_map(|row| row.rtt_ns).collect();
            rtts_ns.sort_unstable();
            // Nearest rank; no answer, no quantile.
            let rank = (quantile.get() * rtts_ns.len() as f64).ceil().max(1.0) as usize;
            let rtt_ns = rtts_ns
                .get(rank - 1)
                .ok_or_else(|| format!("flow `{name}` had no answer"))?;
            let rtt_ms = *rtt_ns as f64 / 1e6;
            let seen =
                format!("{quantile} of round trips took at most {rtt_ms:.3} ms; allowed {at_most}");
            Ok((rtt_ms / 1e3 <= at_most.seconds(), seen))
        }
        Expected::Order(first, then, within) => order(first, then, *within, &evidence.events),
    }
}

fn delivery(own: &Delivery, evidence: &Evidence) -> Result<(bool, String), String> {
    let name = &own.flow;
    let (arrived, when) = match own.during {
        None => {
            let loss = evidence.flow(name)?.outcome.loss_ratio;
            let loss = loss.ok_or_else(|| format!("flow `{name}` measured no loss"))?;
            (1.0 - loss, String::new())
        }
        Some((from, until)) => {
            let during = from.ns().unsigned_abs()..until.ns().unsigned_abs();
            // What nobody knows counts neither way.
            let counts = |row: &&Row| {
                during.contains(&row.sent_ns)
                    && !matches!(row.fate, Fate::Duplicate | Fate::UnderWay)
            };
            let rows = evidence.probes(name)?;
            let sent = rows.iter().filter(counts).count();
            let answered = rows.iter().filter(counts).filter(|r| r.fate.is_answer());
            if sent == 0 {
                return Err(format!("flow `{name}` sent nothing from {from} to {until}"));
            }
            let arrived = answered.count() as f64 / sent as f64;
            (arrived, format!(" from {from} to {until}"))
        }
    };
    let seen = format!("{:.3} % arrived{when}", arrived * 100.0);
    let bound = |ratio: Ratio| (ratio.get(), ratio.to_string());
    let bounds = [own.at_least, own.at_most].map(|b| b.map(bound));
    Ok(within(arrived, seen, bounds))
}

/// Whether a value is within what is allowed at least and at most, each a number and how it was written; and what was seen.
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
    let each = own.flows.iter().map(|flow| evidence.printed(flow, names));
    let each = each.collect::<Result<Vec<_>, _>>()?;
    let found = printed::agreement(&each);
    if found.complete == 0 {
        let (key, all) = (&own.key, found.all);
        return Err(format!(
            "of {all} values of `{key}` none was printed by everybody"
        ));
    }
    let share = found.same as f64 / found.complete as f64;
    let (same, complete, at_least) = (found.same, found.complete, own.at_least);
    let percent = share * 100.0;
    let seen = format!("{same} of {complete} agree ({percent:.1} %); at least {at_least}");
    Ok((share >= at_least.get(), seen))
}

fn metric(own: &Measured, evidence: &Evidence) -> Result<(bool, String), String> {
    let (flow, column, quantile) = (&own.flow, &own.column, own.quantile);
    let rows = evidence.printed(flow, [column.as_str()])?;
    let number = |[text]: &[String; 1]| {
        let number = text.parse::<f64>().ok().filter(|n| n.is_finite());
        number.ok_or_else(|| format!("flow `{flow}` printed `{text}` as `{column}`: no number"))
    };
    let mut numbers = rows.iter().map(number).collect::<Result<Vec<f64>, _>>()?;
    numbers.sort_unstable_by(f64::total_cmp);
    let rank = (quantile.get() * numbers.len() as f64).ceil().max(1.0) as usize;
    let found = numbers.get(rank - 1);
    let found = found.ok_or_else(|| format!("flow `{flow}` printed no row"))?;
    let seen = format!("{quantile} of `{column}` is {found}");
    let bounds = [own.at_least, own.at_most].map(|b| b.map(|b| (b as f64, b.to_string())));
    Ok(within(*found, seen, bounds))
}

/// Whether nothing ended in nodes of these names.
fn alive(nodes: &[&Glob], events: &[Event]) -> (bool, String) {
    use constel_api::Happening::{ContainerEnded, DaemonDied, HelperDied};
    let ended = events.iter().find_map(|event| match &event.what {
        DaemonDied { node, .. } | HelperDied { node, .. } | ContainerEnded { node, .. } => nodes
            .iter()
            .any(|glob| glob.matches(node))
            .then_some((node, event)),
        _ => None,
    });
    match ended {
        None => (true, "nothing ended before its time".to_owned()),
        Some((node, event)) => {
            let at = event
                .t_ns
                .map_or(String::new(), |t| format!(" at {}", TimeSpan::from_ns(t)));
            (false, format!("something ended in `{node}`{at}"))
        }
    }
}

fn order(
    first: &EventNamed,
    then: &EventNamed,
    within: Option<TimeSpan>,
    events: &[Event],
) -> Result<(bool, String), String> {
    let find = |named: &EventNamed, from: usize| {
        let rest = events.iter().enumerate().skip(from);
        let found = rest
            .filter(|(_, event)| is(named, event))
            .map(|(n, _)| n)
            .next();
        found.ok_or_else(|| {
            let about = named
                .about
                .as_ref()
                .map_or(String::new(), |a| format!(" about `{a}`"));
            let after = if from > 0 { " after the first" } else { "" };
            format!("there is no event `{}`{about}{after}", named.kind)
        })
    };
    let earlier = find(first, 0)?;
    let later = find(then, earlier + 1)?;
    let seen = format!("`{}` came before `{}`", first.kind, then.kind);
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
