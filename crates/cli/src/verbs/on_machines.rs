//! `constel plan --machines`: prints each machine's nodes and the edges between machines.

use constel_cluster::machines::Machines;
use constel_control::{MachineChanges, Scenario};

use crate::args::OnMachines;
use crate::exit::{Exit, Outcome};
use crate::output;

/// Prints the division.
pub(crate) fn run(
    scenario: &Scenario,
    machines: &Machines,
    args: &OnMachines,
    json: bool,
) -> Outcome {
    let division = scenario.divide(machines, &args.pin, args.place.into(), args.dry)?;
    if json {
        output::json(&division)?;
        return Ok(Exit::Done);
    }
    let rows: Vec<Vec<String>> = division
        .machines
        .iter()
        .map(|share| {
            let load = &share.load;
            vec![
                load.machine.clone(),
                load.weight.to_string(),
                output::or_dash(load.capacity),
                load.nodes.to_string(),
                load.ports.to_string(),
                load.edges.to_string(),
                load.crossing_edges.to_string(),
                output::size(share.memory_bytes),
            ]
        })
        .collect();
    let head = [
        "MACHINE", "WEIGHT", "CAPACITY", "NODES", "PORTS", "EDGES", "CROSSING", "MEMORY",
    ];
    let shortest = division
        .shortest_crossing_ns
        .map_or_else(String::new, |ns| {
            format!(
                ", the shortest {}: what lies between the machines has to be shorter",
                output::ms(ns as f64)
            )
        });
    output::text(&format!(
        "{}: {} of {} edges cross at 0 s{shortest}\n{}",
        scenario.file,
        division.crossing_edges,
        division.edges,
        output::table(&head, &rows)
    ))?;
    if let Some(steps) = &division.steps {
        output::text(&format!(
            "\n{} steps: each machine plans the whole, {} a step ({} at most, the first {}), and carries out:\n{}",
            steps.steps,
            output::ms(steps.plan_ms_mean * 1e6),
            output::ms(steps.plan_ms_max * 1e6),
            output::ms(steps.first_plan_ms * 1e6),
            carried(&steps.machines, steps.steps)
        ))?;
    }
    Ok(Exit::Done)
}

/// Formats rows of the first step, and of an average later step.
fn carried(machines: &[MachineChanges], steps: u64) -> String {
    let a_step = |count: u64| match steps {
        0 => "-".to_owned(),
        steps => format!("{:.1}", count as f64 / steps as f64),
    };
    let rows: Vec<Vec<String>> = machines
        .iter()
        .map(|carried| {
            vec![
                carried.machine.clone(),
                carried.first.nodes.to_string(),
                carried.first.edges.to_string(),
                carried.first.routes.to_string(),
                a_step(carried.steps.edges),
                a_step(carried.steps.neighbours),
                a_step(carried.steps.routes),
            ]
        })
        .collect();
    let head = [
        "MACHINE",
        "NODES AT 0",
        "EDGES AT 0",
        "ROUTES AT 0",
        "EDGES A STEP",
        "NEIGHBOURS A STEP",
        "ROUTES A STEP",
    ];
    output::table(&head, &rows)
}
