//! Replies to the page's GET requests.

use std::path::Path;

use constel_api::{ApiError, Write};
use constel_control::{Error, Lab};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::captures::CaptureFor;
use crate::changes::Changes;
use crate::flows::FlowOrder;
use crate::http::{Answer, Head};
use crate::questions::Question;
use crate::server::Shared;
use crate::sky::{Moment, Skies};
use crate::source::Of;
use crate::views::{Columns, Mode, RunView};

/// Most rows of a table that are sent: of more, every second, third, and so on.
const ROWS: usize = 20_000;

/// Most rows that are read.
const ROWS_READ: usize = 2_000_000;

/// Most columns of a table: a row has a cell in memory for each, also where its line is shorter.
const MOST_COLUMNS: usize = 32;

/// The verbs of [`Write`] that are carried out from here.
pub(crate) const WRITES: [&str; 7] = [
    "apply",
    "set-link",
    "set-station",
    "set-nodes",
    "set-member",
    "change-rules",
    "confirm",
];

type Given = Result<Answer, String>;

fn told<T: Serialize, E: ToString>(answer: Result<T, E>) -> Given {
    answer
        .map(|answer| Answer::json(&answer))
        .map_err(|error| error.to_string())
}

/// Answers a question that changes nothing.
pub(crate) fn get(shared: &Shared, head: &Head) -> Answer {
    let asked = |name: &str| head.asked(name).ok_or_else(|| format!("which {name}?"));
    let number = |name: &str| -> Result<u64, String> {
        match head.asked(name) {
            None => Ok(0),
            Some(text) => text
                .parse()
                .map_err(|_| format!("{name}: '{text}' is no whole number")),
        }
    };
    let flag = |name: &str| head.asked(name).as_deref() == Some("1");
    let live = flag("live");
    let at = || Ok::<_, String>((number("step")?, number("t_ns")?));
    let given = || -> Given {
        let Some(question) = Question::of(&head.path) else {
            return Ok(Answer::refused(404, "there is nothing here"));
        };
        Ok(match question {
            Question::World => {
                Answer::json(&shared.source.world(shared.write, shared.shell.is_some()))
            }
            Question::Link => link(shared, (&asked("a")?, &asked("b")?), at()?, live)?,
            Question::Path => path(shared, (&asked("from")?, &asked("to")?), at()?, live)?,
            Question::Node => {
                let moment = moment(shared, at()?)?;
                told(skies(shared)?.node(&asked("node")?, &moment))?
            }
            Question::Track => told(skies(shared)?.track(&asked("node")?, number("step")?))?,
            Question::Series => {
                let by_hand = shared.source.by_hand();
                told(skies(shared)?.series(&asked("from")?, &asked("to")?, &by_hand))?
            }
            Question::Events => {
                let from = usize::try_from(number("from")?).unwrap_or(usize::MAX);
                Answer::json(&shared.source.timeline(from))
            }
            Question::Routes => told(lab(shared)?.routes(&asked("node")?))?,
            Question::Rules => told(lab(shared)?.rules())?,
            Question::Networks => told(lab(shared)?.networks())?,
            Question::Flows => Answer::json(&shared.flows.views()),
            Question::Run => told(run(shared))?,
            Question::Columns => told(columns(shared, &asked("of")?, flag("paths")))?,
        })
    };
    given().unwrap_or_else(|words| Answer::refused(400, &words))
}

fn skies(shared: &Shared) -> Result<&Skies, String> {
    shared
        .source
        .skies
        .as_ref()
        .ok_or_else(|| "a box has no sky".to_owned())
}

fn lab(shared: &Shared) -> Result<&Lab, String> {
    match &shared.source.of {
        Of::Lab { lab, .. } => Ok(lab),
        _ => Err("there is no lab: kernels cannot be read".to_owned()),
    }
}

/// Returns the instant of a step, with the changes by hand up to lab time `t_ns` and at least to the step's beginning.
fn moment(shared: &Shared, (step, t_ns): (u64, u64)) -> Result<Moment, String> {
    let lab = &skies(shared)?.lab;
    let until_ns = t_ns.max(step.saturating_mul(lab.step_ns()));
    let changes = Changes::until(lab, &shared.source.by_hand(), until_ns);
    Ok(Moment { step, changes })
}

/// Returns a link at an instant. With `live`, adds the data of the running lab.
fn link(shared: &Shared, (a, b): (&str, &str), at: (u64, u64), live: bool) -> Given {
    let skies = skies(shared)?;
    if !live {
        return told(skies.link(a, b, &moment(shared, at)?));
    }
    let shown = lab(shared)?.link(a, b).map_err(|error| error.to_string())?;
    let t_ns = shown.t_ns.unwrap_or(0);
    let now = moment(shared, (t_ns / skies.lab.step_ns(), t_ns))?;
    let mut view = skies.link(&shown.a, &shown.b, &now)?;
    view.up = shown.up;
    view.why.clone_from(&shown.why);
    view.live = Some(shown);
    Ok(Answer::json(&view))
}

fn path(shared: &Shared, (from, to): (&str, &str), at: (u64, u64), live: bool) -> Given {
    if live {
        return told(lab(shared)?.path(from, to, None));
    }
    told(skies(shared)?.path(from, to, &moment(shared, at)?))
}

fn run(shared: &Shared) -> Result<RunView, String> {
    match &shared.source.of {
        Of::Run { run, .. } => Ok(RunView {
            manifest: run.manifest().map_err(|error| error.to_string())?,
            summary: run.summary().ok(),
        }),
        _ => Err("this is no run that has ended".to_owned()),
    }
}

/// Returns a table of a run's results, or of those that a lab has written so far: `machine`, or the name of a flow that has
/// ended. With `paths`, returns the flow's path and lower bound over lab time.
fn columns(shared: &Shared, of: &str, paths: bool) -> Result<Columns, String> {
    let folder = match &shared.source.of {
        Of::Run { run, .. } => run.dir(),
        Of::Lab {
            results: Some(results),
            ..
        } => results,
        _ => return Err("there are no results to show".to_owned()),
    };
    let path = match of {
        "machine" => folder.join("series.csv"),
        flow => {
            // Only flows of the run: a name is never a path.
            let flows = &skies(shared)?.lab.scenario.traffic;
            let known = flows.iter().any(|own| own.name == flow);
            if !known {
                return Err(format!("no flow is called '{flow}'"));
            }
            if paths {
                return table(&folder.join("paths.csv"), Some(flow));
            }
            folder.join("flows").join(format!("{flow}.csv"))
        }
    };
    table(&path, None)
}

/// Returns the places of the rows that are sent: every second, third, and so on, and all flagged ones. Of very many flagged
/// ones, an even part is sent too.
fn sent(rows: usize, is_flagged: impl Fn(usize) -> bool) -> Vec<usize> {
    let every = rows.div_ceil(ROWS).max(1);
    let flagged = (0..rows).filter(|row| is_flagged(*row)).count();
    let every_flagged = flagged.div_ceil(ROWS).max(1);
    let mut seen = 0;
    let is_sent = |row: &usize| {
        let flagged = is_flagged(*row);
        seen += usize::from(flagged);
        row.is_multiple_of(every) || (flagged && seen % every_flagged == 0)
    };
    (0..rows).filter(is_sent).collect()
}

/// Reads a table of numbers; with `flow`, only the rows of that flow.
fn table(path: &Path, flow: Option<&str>) -> Result<Columns, String> {
    let said = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut lines = constel_units::files::lines(path).map_err(said)?;
    let head = lines.next().transpose().map_err(said)?.unwrap_or_default();
    let names: Vec<String> = head.split(',').map(str::to_owned).collect();
    if names.len() > MOST_COLUMNS {
        let many = names.len();
        return Err(format!(
            "{}: {many} columns, more than {MOST_COLUMNS}",
            path.display()
        ));
    }
    let place = |wanted: &str| names.iter().position(|name| name == wanted);
    let (owner, flag) = (place("flow"), place("marked"));
    let mut columns = vec![Vec::new(); names.len()];
    for line in lines.take(ROWS_READ) {
        let line = line.map_err(said)?;
        let is_own = |flow: &str| line.split(',').nth(owner?).map(|cell| cell == flow);
        if flow.is_some_and(|flow| is_own(flow) != Some(true)) {
            continue;
        }
        let mut cells = line.split(',');
        for column in &mut columns {
            let number = cells.next().and_then(|cell| cell.parse::<f64>().ok());
            column.push(number.filter(|number| number.is_finite()));
        }
    }
    let rows = columns.first().map_or(0, Vec::len);
    if rows > ROWS {
        let flags = flag.map(|flag| columns[flag].clone());
        let kept = sent(rows, |row| {
            flags.as_ref().is_some_and(|all| all[row] == Some(1.0))
        });
        for column in &mut columns {
            *column = kept.iter().map(|row| column[*row]).collect();
        }
    }
    Ok(Columns { names, columns })
}

/// Changes a lab, where that is allowed: links, nodes, members of networks, flows, and rules of a box. Captures are an order
/// as well, because they show the frames of all programs.
pub(crate) fn change(shared: &Shared, body: &[u8]) -> Answer {
    if !shared.write {
        return Answer::refused(
            403,
            "nothing may be changed from here: `constel web --write` allows it",
        );
    }
    let done = || -> Given {
        let bad = |error: serde_json::Error| error.to_string();
        let order: Value = serde_json::from_slice(body).map_err(bad)?;
        if let Some(flow) = order.get("flow") {
            lab(shared)?;
            return start(shared, &FlowOrder::deserialize(flow).map_err(bad)?);
        }
        if let Some(capture) = order.get("capture") {
            let order = CaptureFor::deserialize(capture).map_err(bad)?;
            return shared.captures.take(lab(shared)?, &order);
        }
        let verb = order.get("verb").and_then(Value::as_str);
        let order: Write = serde_json::from_value(order.clone()).map_err(bad)?;
        if !verb.is_some_and(|verb| WRITES.contains(&verb)) {
            let words = "the web view changes the scenario, links, nodes, stations, members, flows and rules, and nothing else";
            return Ok(Answer::refused(403, words));
        }
        // Flows of a scenario can be commands.
        if matches!(order, Write::Apply(_)) && shared.shell.is_none() {
            let words =
                "a changed scenario can run programs: `constel web --write --shell` allows it";
            return Ok(Answer::refused(403, words));
        }
        write(lab(shared)?, order)
    };
    done().unwrap_or_else(|words| Answer::refused(400, &words))
}

/// Checks and plans a draft of a scenario, where a scenario is shown.
pub(crate) fn draft(shared: &Shared, text: &[u8]) -> Answer {
    if shared.source.mode() != Mode::Plan {
        let words = "scenarios are built beside a scenario: `constel web --new` or `constel web --plan FILE`";
        return Answer::refused(403, words);
    }
    match shared.drafts.view(text) {
        Ok(view) => Answer::json(&view),
        Err(words) => Answer::refused(503, &words),
    }
}

fn start(shared: &Shared, flow: &FlowOrder) -> Given {
    for node in [&flow.from, &flow.to] {
        skies(shared)?.find(node)?;
    }
    told(shared.flows.start(shared.source.name(), flow))
}

fn write(lab: &Lab, order: Write) -> Given {
    let done = match order {
        Write::SetLink(order) => lab.set_link(order).map(|answer| Answer::json(&answer)),
        Write::ChangeRules { change } => {
            lab.change_rules(change).map(|answer| Answer::json(&answer))
        }
        Write::SetNodes {
            nodes,
            change,
            wait,
        } => lab
            .set_nodes(nodes, change, wait)
            .map(|answer| Answer::json(&answer)),
        Write::SetStation { stations, change } => lab
            .set_station(stations, change)
            .map(|answer| Answer::json(&answer)),
        Write::Apply(order) => lab.apply_order(order).map(|answer| Answer::json(&answer)),
        Write::SetMember {
            network,
            node,
            joined,
        } => lab
            .set_member(&network, &node, joined)
            .map(|answer| Answer::json(&answer)),
        Write::Confirm => lab.confirm().map(|()| Answer::json(&true)),
        other => return Err(format!("{other:?} is not carried out from here")),
    };
    done.map_err(|error| match error {
        Error::Refused(ApiError { error, .. }) => error,
        other => other.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_numbers_and_gaps() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.csv");
        std::fs::write(&path, "t_s,rtt_us,fate\n1.5,200,ok\n2.5,,lost\n").unwrap();
        let columns = table(&path, None).unwrap();
        assert_eq!(columns.names, ["t_s", "rtt_us", "fate"]);
        assert_eq!(
            columns.columns,
            [
                vec![Some(1.5), Some(2.5)],
                vec![Some(200.0), None],
                vec![None, None]
            ]
        );
        assert!(table(&folder.path().join("y"), None).is_err());
        std::fs::write(&path, ",".repeat(MOST_COLUMNS)).unwrap();
        let error = table(&path, None).unwrap_err();
        assert!(error.ends_with("33 columns, more than 32"), "{error}");
        let long: String = (0..50_000).map(|i| format!("{i}\n")).collect();
        std::fs::write(&path, format!("n\n{long}")).unwrap();
        let long = table(&path, None).unwrap();
        assert_eq!(long.columns[0].len(), 16_667);
        assert_eq!(long.columns[0][1], Some(3.0));
    }

    #[test]
    fn flagged_rows_survive_thinning_and_a_flow_has_its_own_rows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.csv");
        let row = |i: usize| format!("{i},{}\n", u8::from([7, 8, 40_001].contains(&i)));
        let rows: String = (0..50_000).map(row).collect();
        std::fs::write(&path, format!("t_s,marked\n{rows}")).unwrap();
        let sent = table(&path, None).unwrap();
        let flagged = sent.columns[0].iter().zip(&sent.columns[1]);
        let flagged: Vec<_> = flagged.filter(|(_, flag)| **flag == Some(1.0)).collect();
        let times: Vec<f64> = flagged.iter().filter_map(|(t, _)| **t).collect();
        assert_eq!(times, [7.0, 8.0, 40_001.0]);
        assert_eq!(sent.columns[0].len(), 16_667 + 3);
        // All of them flagged: as many as of any other table, and half of that.
        let all = super::sent(50_000, |_| true);
        assert!(all.len() <= 2 * ROWS, "{}", all.len());
        let paths = "t_s,flow,path,path_rtt_us,shortest_rtt_us\n2,a,1,30,20\n2,b,1,9,9\n3,a,,,20\n";
        std::fs::write(&path, paths).unwrap();
        let own = table(&path, Some("a")).unwrap();
        assert_eq!(own.columns[0], [Some(2.0), Some(3.0)]);
        assert_eq!(own.columns[3], [Some(30.0), None]);
        assert_eq!(own.columns[4], [Some(20.0), Some(20.0)]);
        assert_eq!(table(&path, Some("c")).unwrap().columns[0], []);
    }
}
