//! `constel down`: stops running labs.

use std::collections::BTreeSet;
use std::thread;

use constel_api::answers::LabState;
use constel_control::{Error, Lab};
use serde_json::json;

use crate::args;
use crate::exit::{Exit, Outcome};
use crate::output;

/// Returns when all given labs have ended. If a name is not that of a running lab, none is stopped.
pub(crate) fn run(args: &args::Down) -> Outcome {
    if let Some(store) = &args.store {
        let labs: Vec<String> = match args.all {
            true => {
                let running =
                    constel_cluster::agent::labs::running(super::there::find(store)?.as_ref())?;
                running.into_iter().map(|order| order.lab).collect()
            }
            false => args.labs.clone(),
        };
        return super::there::down(store, &labs, args.json);
    }
    let names: BTreeSet<String> = if args.all {
        let labs = constel_control::list()?.into_iter();
        let alive = labs.filter(|lab| lab.state != LabState::Dead);
        alive.map(|lab| lab.lab).collect()
    } else {
        args.labs.iter().cloned().collect()
    };
    let labs = names.iter().map(|name| Lab::attach(name));
    let labs = labs.collect::<Result<Vec<_>, Error>>()?;
    // In parallel, because each lab waits for its kernel and not for other labs.
    let ended: Vec<Result<(), Error>> = thread::scope(|scope| {
        let downs: Vec<_> = labs.iter().map(|lab| scope.spawn(|| lab.down())).collect();
        let ends = downs.into_iter().map(|down| down.join());
        ends.map(|end| end.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let down = names.iter().zip(&ended).filter(|(_, end)| end.is_ok());
    let down: Vec<&String> = down.map(|(name, _)| name).collect();
    if args.json {
        let rows: Vec<_> = down
            .iter()
            .map(|lab| json!({"lab": lab, "down": true}))
            .collect();
        match rows.as_slice() {
            [one] if !args.all && names.len() == 1 => output::json(one)?,
            all => output::json(&all)?,
        }
    } else {
        for name in &down {
            output::text(&format!("{name} is down\n"))?;
        }
        if names.is_empty() {
            output::text("no lab is running\n")?;
        }
    }
    ended.into_iter().collect::<Result<Vec<()>, Error>>()?;
    Ok(Exit::Done)
}
