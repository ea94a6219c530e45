//! `constel doctor`: tests what this host can do.

use constel_control::{Finding, doctor};

use crate::args::Json;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

/// Exits with 0 if every required item works, 5 otherwise.
pub(crate) fn run(args: &Json) -> Outcome {
    let found = doctor();
    if args.json {
        output::json(&found)?;
    } else {
        let rows: Vec<Vec<String>> = found.items.iter().map(cells).collect();
        let table = output::table(&["", "AREA", "NAME", "FOUND"], &rows);
        let advice: String = found.items.iter().filter_map(advice).collect();
        output::text(&(table + &advice))?;
    }
    if found.able {
        Ok(Exit::Done)
    } else {
        Err(Failure::Host(
            "this host cannot run labs yet; see the remedies below the table".to_owned(),
        ))
    }
}

fn cells(item: &Finding) -> Vec<String> {
    let mark = match (item.ok, item.required) {
        (true, _) => "ok",
        (false, true) => "FAIL",
        (false, false) => "miss",
    };
    // Errors are long, and a column is as wide as its longest cell.
    let found = if item.ok { &item.detail } else { "see below" };
    [mark, &item.area, &item.name, found]
        .map(str::to_owned)
        .to_vec()
}

/// Returns the error and the remedy of an item that does not work.
fn advice(item: &Finding) -> Option<String> {
    (!item.ok).then(|| {
        let Finding {
            area,
            name,
            detail,
            remedy,
            ..
        } = item;
        let mut lines = format!("\n{area}, {name}:\n  found: {detail}\n");
        if !remedy.is_empty() {
            lines.push_str(&format!("  to do: {remedy}\n"));
        }
        lines
    })
}
