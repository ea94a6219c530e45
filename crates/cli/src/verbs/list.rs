//! `constel list`: the labs of this host.

use constel_api::answers::ListedLab;

use crate::args::List;
use crate::exit::{Exit, Outcome};
use crate::output;

/// Prints running and crashed labs.
pub(crate) fn run(args: &List) -> Outcome {
    if let Some(store) = &args.store {
        return super::there::list(store, args.json);
    }
    let labs = constel_control::list()?;
    if args.json {
        output::json(&labs)?;
        return Ok(Exit::Done);
    }
    let rows: Vec<Vec<String>> = labs.iter().map(cells).collect();
    output::text(&output::table(
        &["LAB", "STATE", "SCENARIO", "PID", "NODES", "EDGES"],
        &rows,
    ))?;
    Ok(Exit::Done)
}

fn cells(lab: &ListedLab) -> Vec<String> {
    vec![
        lab.lab.clone(),
        lab.state.as_str().to_owned(),
        output::or_dash(lab.scenario.as_ref()),
        output::or_dash(lab.pid),
        lab.nodes.to_string(),
        lab.edges.to_string(),
    ]
}
