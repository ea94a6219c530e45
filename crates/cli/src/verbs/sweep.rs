//! `constel sweep`: runs a scenario many times.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use constel_control::sweep::{
    Interval, Row, Runs, SweepOptions, Swept, Table, choices, design, sweep,
};

use crate::args::{Sweep, Time};
use crate::exit::{Exit, Failure, Outcome};
use crate::{output, progress, signals};

/// Runs in the foreground until all runs are done.
pub(crate) fn run(args: &Sweep) -> Outcome {
    let named = args.choices.as_deref().map(choices).transpose()?;
    let axes = named.into_iter().chain(args.set.iter().cloned()).collect();
    let design = design(&args.file, axes, args.seeds.clone())?;
    let out = args.out.clone().unwrap_or_else(|| default_out(&args.file));
    let stop = Arc::new(AtomicBool::new(false));
    signals::set(&[&stop])?;
    let options = SweepOptions {
        out: out.clone(),
        name: args.name.clone(),
        jobs: args.jobs,
        again: args.again,
        trustworthy_only: args.trustworthy_only,
        virtual_time: args.time.map(|time| time == Time::Virtual),
        program: std::env::current_exe()?,
        stop,
    };
    let swept = sweep(&design, &options, progress::for_stderr().as_ref())?;
    if args.json {
        output::json(&swept.table)?;
    } else if args.csv {
        output::text(&swept.table.csv())?;
    } else {
        output::text(&text(&swept.table))?;
        output::text(&format!("results: {}\n", out.display()))?;
    }
    ended(&swept, &out)
}

fn ended(swept: &Swept, out: &Path) -> Outcome {
    if swept.interrupted {
        output::tell(&format!(
            "constel: stopped; the same command with --out {} resumes\n",
            out.display()
        ));
        return Ok(Exit::Interrupted);
    }
    if let [first, rest @ ..] = swept.failures.as_slice() {
        let more = match rest.len() {
            0 => String::new(),
            n => format!(" (and {n} more)"),
        };
        return Err(Failure::Failed(anyhow::anyhow!(
            "a run failed{more}: {first}; the same command with --out {} tries again",
            out.display()
        )));
    }
    let mut runs = swept.table.runs.iter();
    if runs.any(|runs| runs.software_failed > 0) {
        return Ok(Exit::Failed);
    }
    let mut runs = swept.table.runs.iter();
    Ok(match runs.all(|runs| runs.trustworthy == runs.runs) {
        true => Exit::Done,
        false => Exit::NotTrustworthy,
    })
}

fn default_out(file: &Path) -> PathBuf {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    PathBuf::from("results").join(format!("sweep-{stem}"))
}

fn text(table: &Table) -> String {
    let runs: Vec<Vec<String>> = table.runs.iter().map(runs_cells).collect();
    let rows: Vec<Vec<String>> = table.rows.iter().map(cells).collect();
    let mut text = output::table(
        &[
            "VARIANT",
            "RUNS",
            "TRUSTWORTHY",
            "FAILED",
            "SOFTWARE FAILED",
            "FAILED FLOWS",
        ],
        &runs,
    );
    text.push('\n');
    text.push_str(&output::table(
        &[
            "FLOW", "FIGURE", "VARIANT", "N", "P50", "MEAN", "+- 95 %", "MIN", "MAX",
        ],
        &rows,
    ));
    text
}

fn runs_cells(runs: &Runs) -> Vec<String> {
    vec![
        runs.variant.clone(),
        runs.runs.to_string(),
        runs.trustworthy.to_string(),
        runs.failed.to_string(),
        runs.software_failed.to_string(),
        runs.failed_flows.to_string(),
    ]
}

fn cells(row: &Row) -> Vec<String> {
    let Interval {
        n,
        mean,
        ci95,
        min,
        max,
        median,
        ..
    } = row.interval;
    vec![
        row.flow.clone(),
        row.figure.name.to_owned(),
        row.variant.clone(),
        n.to_string(),
        format!("{median:.3}"),
        format!("{mean:.3}"),
        output::or_dash(ci95.map(|half| format!("{half:.3}"))),
        format!("{min:.3}"),
        format!("{max:.3}"),
    ]
}
