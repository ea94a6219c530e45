//! `constel plan`: who links to whom at an instant; over an interval, see [`super::over`].

use constel_plan::Document;

use super::{export, over, scenario};
use crate::args::Plan;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

/// Touches nothing: no root needed.
pub(crate) fn run(args: &Plan) -> Outcome {
    let loaded = scenario::load(&args.file, scenario::rendered)?;
    eprint!("{}", scenario::age_warnings(&loaded.lab));
    if let Some(format) = args.over.export {
        return export::run(&loaded.lab, format, args);
    }
    if let Some(product) = over::asked(&args.over) {
        return over::run(&loaded.lab, product, &args.over, args.json);
    }
    let document = Document::at(&loaded.lab, args.at).map_err(|e| Failure::Usage(e.to_string()))?;
    if args.json {
        output::json(&document)?;
        return Ok(Exit::Done);
    }
    let rows: Vec<Vec<String>> = document
        .edges
        .iter()
        .filter(|edge| (&edge.from_node, edge.from_port) < (&edge.to_node, edge.to_port))
        .map(|edge| {
            vec![
                format!("{}/{}", edge.from_node, edge.from_port),
                format!("{}/{}", edge.to_node, edge.to_port),
                edge.kind.to_owned(),
                output::ms(edge.delay_ns as f64),
                edge.rate_bps
                    .map_or_else(|| "-".to_owned(), |bps| output::rate(bps as f64)),
                format!("{} %", edge.loss_ratio * 100.0),
            ]
        })
        .collect();
    let table = output::table(&["A", "B", "KIND", "DELAY", "RATE", "LOSS"], &rows);
    output::text(&format!(
        "{}: {} nodes, {} links at {}\n{table}",
        loaded.file,
        document.nodes.len(),
        rows.len(),
        document.time
    ))?;
    Ok(Exit::Done)
}
