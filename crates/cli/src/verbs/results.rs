//! `constel results`: the runs of a folder, or one run's summary.

use constel_control::results::{ListedRun, Run, list};

use super::run::summary_text;
use crate::args::Results;
use crate::exit::{Exit, Outcome};
use crate::output;

/// A folder with a `manifest.json` is one run; any other is a folder of runs.
pub(crate) fn run(args: &Results) -> Outcome {
    if let Some(run) = Run::open(&args.dir) {
        let summary = run.summary()?;
        if args.json {
            output::json(&summary)?;
        } else {
            output::text(&summary_text(&summary))?;
        }
        return Ok(Exit::Done);
    }
    let runs = list(&args.dir)?;
    if args.json {
        output::json(&runs)?;
        return Ok(Exit::Done);
    }
    let rows: Vec<Vec<String>> = runs.iter().map(cells).collect();
    output::text(&output::table(
        &["RUN", "LAB", "SEED", "FINISHED", "TRUSTWORTHY", "FLOWS"],
        &rows,
    ))?;
    Ok(Exit::Done)
}

fn cells(run: &ListedRun) -> Vec<String> {
    vec![
        run.dir.display().to_string(),
        run.lab.clone(),
        run.seed.to_string(),
        run.finished.to_string(),
        output::or_dash(run.trustworthy),
        output::or_dash(run.flows),
    ]
}
