//! Machines that are there: `--machines`, `--store` and what goes with them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use constel_agent::Row;
use constel_agent::labs::{Phase, Question, ask};
use constel_control::{Asked, Looked, OnMachines, Scenario, Way, machine_of};
use constel_store::{Place, Store};

use super::agent::not_opened;
use crate::args::OnThere;
use crate::exit::{Exit, Failure, Outcome};
use crate::{output, signals};

/// The machines of a store, and those that take a part.
pub(crate) struct There {
    store: Arc<dyn Store>,
    rows: Vec<Row>,
    asked: Asked,
}

/// A store that is there.
pub(crate) fn find(place: &Place) -> Result<Arc<dyn Store>, Failure> {
    let found = place.find();
    found.map_err(|error| not_opened(&place.to_string(), error))
}

impl There {
    /// Those that were asked for; `None`: it is for this host alone.
    pub(crate) fn of(on: &OnThere) -> Result<Option<Self>, Failure> {
        let Some((machines, place)) = on.machines.as_ref().zip(on.store.as_ref()) else {
            return Ok(None);
        };
        let store = find(place)?;
        let rows = constel_agent::machines(store.as_ref())?;
        let asked = Asked::choose(&rows, machines.list(), on.pin.clone(), on.place.into())?;
        Ok(Some(Self { store, rows, asked }))
    }

    pub(crate) fn on_machines(&self) -> OnMachines<'_> {
        OnMachines {
            store: &self.store,
            rows: &self.rows,
            asked: &self.asked,
        }
    }

    /// How a scenario is on them.
    pub(crate) fn look(&self, scenario: &Scenario) -> Result<Looked, Failure> {
        Ok(scenario.look_on(&self.asked, &self.rows, true)?)
    }
}

/// What was found, for people.
pub(crate) fn looked_text(looked: &Looked) -> String {
    let machines: Vec<Vec<String>> = looked
        .machines
        .iter()
        .map(|share| {
            let load = &share.load;
            vec![
                load.machine.clone(),
                load.nodes.to_string(),
                load.edges.to_string(),
                load.crossing_edges.to_string(),
                output::size(share.memory_bytes),
            ]
        })
        .collect();
    let head = ["MACHINE", "NODES", "EDGES", "CROSSING", "MEMORY"];
    let mut text = format!(
        "{} of {} edges cross at 0 s\n{}",
        looked.crossing_edges,
        looked.edges,
        output::table(&head, &machines)
    );
    let ways: Vec<Vec<String>> = looked.ways.iter().map(way_cells).collect();
    if !ways.is_empty() {
        let head = [
            "FROM",
            "TO",
            "EDGES",
            "SHORTEST",
            "WAY",
            "CLOCKS",
            "TOO SHORT",
        ];
        text.push_str(&format!("\n{}", output::table(&head, &ways)));
    }
    text
}

fn way_cells(way: &Way) -> Vec<String> {
    vec![
        way.from.clone(),
        way.to.clone(),
        way.edges.to_string(),
        output::ms(way.shortest_ns as f64),
        output::ms(way.way_ns as f64),
        format!("+- {}", output::ms(way.clock_error_ns as f64)),
        way.short_edges.to_string(),
    ]
}

/// A verb about a node of a lab on several machines, run on the machine that has the node.
pub(crate) struct Elsewhere<'a> {
    /// What the machines share.
    pub(crate) store: &'a Place,
    /// The lab.
    pub(crate) lab: &'a str,
    /// The node.
    pub(crate) node: &'a str,
    /// The verb and its flags.
    pub(crate) verb: Vec<String>,
    /// What follows the lab's name.
    pub(crate) args: Vec<String>,
}

impl Elsewhere<'_> {
    /// Prints what it prints there, and ends as it does.
    pub(crate) fn run(self) -> Outcome {
        let store = find(self.store)?;
        let machine = machine_of(store.as_ref(), self.lab, self.node)?;
        let stop = Arc::new(AtomicBool::new(false));
        signals::set(&[&stop])?;
        let question = Question {
            machine,
            verb: self.verb,
            args: self.args,
        };
        let Some(said) = ask(&store, self.lab, &question, &stop)? else {
            if stop.load(Ordering::Acquire) {
                return Ok(Exit::Interrupted);
            }
            return Err(Failure::Failed(anyhow::anyhow!(
                "machine {} does not answer: its part of lab {} is not up (any more)",
                question.machine,
                self.lab
            )));
        };
        output::text(&String::from_utf8_lossy(&said.stdout))?;
        output::tell(&String::from_utf8_lossy(&said.stderr));
        if said.cut {
            output::tell("constel: what it wrote beyond 320 KiB did not come over\n");
        }
        Ok(Exit::of_command(said.exit))
    }
}

/// Labs on several machines.
pub(crate) fn list(place: &Place, json: bool) -> Outcome {
    let store = find(place)?;
    let labs = constel_agent::labs::listed(store.as_ref())?;
    if json {
        output::json(&labs)?;
        return Ok(Exit::Done);
    }
    let rows: Vec<Vec<String>> = labs
        .iter()
        .map(|lab| {
            let parts = lab.parts.iter().map(|part| {
                let phase = part.phase.map_or("-", Phase::as_str);
                format!("{} {phase}", part.machine)
            });
            let parts: Vec<String> = parts.collect();
            vec![
                lab.lab.clone(),
                lab.scenario.clone(),
                lab.host.clone(),
                lab.pid.to_string(),
                parts.join(", "),
            ]
        })
        .collect();
    let head = ["LAB", "SCENARIO", "LED BY", "PID", "MACHINES"];
    output::text(&output::table(&head, &rows))?;
    Ok(Exit::Done)
}

/// Ends labs on several machines. They are down when this returns.
pub(crate) fn down(place: &Place, labs: &[String], json: bool) -> Outcome {
    let store = find(place)?;
    let store = store.as_ref();
    let running = constel_agent::labs::running(store)?;
    for lab in labs {
        if !running.iter().any(|order| order.lab == *lab) {
            let all: Vec<&str> = running.iter().map(|order| order.lab.as_str()).collect();
            let there = match all.is_empty() {
                true => "none is running".to_owned(),
                false => format!("there are {}", all.join(", ")),
            };
            let error = format!("no lab on several machines is called '{lab}': {there}");
            return Err(Failure::Usage(error));
        }
    }
    for lab in labs {
        constel_agent::labs::end(store, lab, "constel down")?;
    }
    for lab in labs {
        if !constel_agent::labs::wait_gone(store, lab)? {
            return Err(Failure::Failed(anyhow::anyhow!(
                "lab {lab} is not down yet: what leads it says which machine it waits for"
            )));
        }
        if !json {
            output::text(&format!("{lab} is down\n"))?;
        }
    }
    if json {
        let rows: Vec<_> = labs
            .iter()
            .map(|lab| serde_json::json!({"lab": lab, "down": true}))
            .collect();
        match rows.as_slice() {
            [one] => output::json(one)?,
            all => output::json(&all)?,
        }
    }
    Ok(Exit::Done)
}
