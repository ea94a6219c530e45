//! `constel results`: lists runs, prints a summary, exports and plots flows, and compares runs.

mod compare;
mod compare_with;
mod export;
mod plot;

use std::fmt::Write as _;
use std::path::Path;

use constel_control::Error;
use constel_control::results::{COLUMNS, ListedRun, Run, flow_rows, list};

use super::run::summary_text;
use crate::args::{PackRun, Results, ResultsVerb};
use crate::exit::{Exit, Outcome};
use crate::output;

/// A folder with a `manifest.json` is one run; any other is a folder of runs.
pub(crate) fn run(args: &Results) -> Outcome {
    match &args.verb {
        Some(ResultsVerb::Plot(args)) => return plot::run(args),
        Some(ResultsVerb::Compare(args)) => return compare::run(args),
        Some(ResultsVerb::CompareWith(args)) => return compare_with::run(args),
        Some(ResultsVerb::Export(args)) => return export::run(args),
        Some(ResultsVerb::Pack(args)) => return pack(args),
        None => {}
    }
    if args.csv {
        return csv(&args.dir);
    }
    if let Some(run) = Run::open(&args.dir) {
        run.check()?;
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
        &[
            "RUN",
            "LAB",
            "SEED",
            "FINISHED",
            "TRUSTWORTHY",
            "FAILED",
            "FLOWS",
        ],
        &rows,
    ))?;
    Ok(Exit::Done)
}

/// Prints a row for each flow of a run, or of all complete runs of a folder.
fn csv(dir: &Path) -> Outcome {
    let runs = match Run::open(dir) {
        Some(run) => vec![run],
        None => {
            let finished = list(dir)?.into_iter().filter(|run| run.finished);
            finished.filter_map(|run| Run::open(&run.dir)).collect()
        }
    };
    let mut text = COLUMNS.join(",");
    text.push('\n');
    for run in runs {
        let name = run.dir().file_name().unwrap_or(run.dir().as_os_str());
        for cells in flow_rows(&name.to_string_lossy(), &run.summary()?) {
            let cells: Vec<String> = cells.iter().map(|cell| quoted(cell)).collect();
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{}", cells.join(","));
        }
    }
    output::text(&text)?;
    Ok(Exit::Done)
}

/// Quotes a cell as in RFC 4180.
fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

/// Writes the bundle, and prints how another machine uses it.
fn pack(args: &PackRun) -> Outcome {
    let run = one(&args.run)?;
    let out = match &args.out {
        Some(out) => out.clone(),
        None => {
            let dir = run.dir();
            let mut name = dir.file_name().unwrap_or(dir.as_os_str()).to_owned();
            name.push(".tar.gz");
            dir.with_file_name(name)
        }
    };
    let packed = constel_control::results::pack(&run, &out)?;
    if args.json {
        output::json(&packed)?;
        return Ok(Exit::Done);
    }
    let images = match packed.images.as_slice() {
        [] => String::new(),
        images => format!("images that must be there: {}\n", images.join(", ")),
    };
    output::text(&format!(
        "{}: {} files\n{images}elsewhere: tar xzf FILE; constel run {} --results again; constel results compare {} again\n",
        out.display(),
        packed.files,
        packed.scenario.display(),
        packed.results.display()
    ))?;
    Ok(Exit::Done)
}

/// Opens the run of a folder, which must be one.
fn one(dir: &Path) -> Result<Run, Error> {
    Run::open(dir).ok_or_else(|| Error::NoResults {
        dir: dir.to_owned(),
        why: match std::fs::read_dir(dir) {
            Err(error) => error,
            Ok(_) => std::io::Error::other("it has no manifest.json, so it is not one run's"),
        },
    })
}

fn cells(run: &ListedRun) -> Vec<String> {
    vec![
        run.dir.display().to_string(),
        run.lab.clone(),
        run.seed.to_string(),
        run.finished.to_string(),
        output::or_dash(run.trustworthy),
        output::or_dash(run.failed),
        output::or_dash(run.flows),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_with_commas_are_quoted() {
        assert_eq!(quoted("plain"), "plain");
        assert_eq!(quoted("a, \"b\""), "\"a, \"\"b\"\"\"");
    }
}
