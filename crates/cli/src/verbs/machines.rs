//! `constel machines`: lists the machines of a store.

use constel_cluster::agent::Row;

use super::agent::not_opened;
use crate::args::ListMachines;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

/// Prints the machines that are up, and those that were lost.
pub(crate) fn run(args: &ListMachines) -> Outcome {
    let store = args
        .store
        .find()
        .map_err(|error| not_opened(&args.store.to_string(), error))?;
    if let Some(name) = &args.forget {
        return match constel_cluster::agent::forget(store.as_ref(), name)? {
            true => Ok(Exit::Done),
            false => Err(Failure::Usage(format!("no machine {name} was lost"))),
        };
    }
    let machines = constel_cluster::agent::machines(store.as_ref())?;
    if args.json {
        output::json(&machines)?;
        return Ok(Exit::Done);
    }
    let rows: Vec<Vec<String>> = machines.iter().map(cells).collect();
    let head = [
        "MACHINE", "STATE", "WEIGHT", "CAPACITY", "NODES", "LOAD", "CORES", "MEMORY", "CLOCK",
        "VERSION",
    ];
    output::text(&output::table(&head, &rows))?;
    Ok(Exit::Done)
}

fn cells(row: &Row) -> Vec<String> {
    let clock = row
        .clock_offset_ns
        .zip(row.clock_error_ns)
        .map(|(offset, error)| {
            format!(
                "{:+.3} ms +- {:.3}",
                offset as f64 / 1e6,
                error as f64 / 1e6
            )
        });
    vec![
        row.machine.clone(),
        row.state.as_str().to_owned(),
        output::or_dash(row.weight),
        output::or_dash(row.capacity),
        output::or_dash(row.nodes),
        output::or_dash(row.load.map(|load| format!("{load:.2}"))),
        output::or_dash(row.cores),
        output::or_dash(row.memory_bytes.map(output::size)),
        output::or_dash(clock),
        output::or_dash(row.version.as_ref()),
    ]
}
