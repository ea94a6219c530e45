//! `constel sweep`: runs a scenario many times.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use constel_control::sweep::{
    Interval, Row, Runs, SweepOptions, Swept, Table, choices, design, merge, sweep,
};

use crate::args::{Sweep, SweepMerge, SweepVerb, Time};
use crate::exit::{Exit, Failure, Outcome};
use crate::{output, progress, signals};

/// Runs in the foreground until all runs are done.
pub(crate) fn run(args: &Sweep) -> Outcome {
    let file = match (&args.verb, &args.file) {
        (Some(SweepVerb::Merge(args)), _) => return merged(args),
        (None, Some(file)) => file,
        (None, None) => return Err(Failure::Usage("no scenario is given".to_owned())),
    };
    let named = args.choices.as_deref().map(choices).transpose()?;
    let axes = named.into_iter().chain(args.set.iter().cloned()).collect();
    let design = design(file, axes, args.seeds.clone())?;
    let out = args.out.clone().unwrap_or_else(|| default_out(file));
    let stop = Arc::new(AtomicBool::new(false));
    signals::set(&[&stop])?;
    let options = SweepOptions {
        out: out.clone(),
        name: args.name.clone(),
        shard: args.shard,
        jobs: args.jobs,
        again: args.again,
        trustworthy_only: args.trustworthy_only,
        virtual_time: args.time.map(|time| time == Time::Virtual),
        program: std::env::current_exe()?,
        stop,
    };
    let swept = sweep(&design, &options, progress::for_stderr().as_ref())?;
    print(&swept.table, args.json, args.csv, &out)?;
    if let Some(shard) = args.shard.filter(|_| !swept.interrupted) {
        output::tell(&format!(
            "constel: this is shard {shard}; when all shards are done, `constel sweep merge {}` makes the tables\n",
            out.display()
        ));
    }
    ended(&swept, &out)
}

fn merged(args: &SweepMerge) -> Outcome {
    let merged = merge(&args.dirs, args.out.as_deref(), args.trustworthy_only)?;
    print(&merged.table, args.json, args.csv, &merged.out)?;
    if let [first, ..] = merged.missing.as_slice() {
        return Err(Failure::Failed(anyhow::anyhow!(
            "{} of the sweep's runs have no result, the first is {first}; run their shards again, then merge again",
            merged.missing.len()
        )));
    }
    Ok(verdict(&merged.table))
}

fn print(table: &Table, json: bool, csv: bool, out: &Path) -> std::io::Result<()> {
    if json {
        return output::json(table);
    }
    if csv {
        return output::text(&table.csv());
    }
    output::text(&text(table))?;
    output::text(&format!("results: {}\n", out.display()))
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
    Ok(verdict(&swept.table))
}

fn verdict(table: &Table) -> Exit {
    if table.runs.iter().any(|runs| runs.software_failed > 0) {
        return Exit::Failed;
    }
    match table.runs.iter().all(|runs| runs.trustworthy == runs.runs) {
        true => Exit::Done,
        false => Exit::NotTrustworthy,
    }
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
