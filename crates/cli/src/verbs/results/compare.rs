//! `constel results compare`.

use constel_control::results::{Compared, Comparison, Noise, compare};

use super::plot::Files;
use crate::args::CompareRuns;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

/// Prints the differences. They do not change the exit code, because a difference is not a failure.
pub(super) fn run(args: &CompareRuns) -> Outcome {
    if args.plot.is_none() && args.look.is_given() {
        return Err(Failure::Usage(
            "--format, --width, --style and --no-title go with --plot".to_owned(),
        ));
    }
    let comparison = compare(&args.a, &args.b)?;
    if args.json {
        output::json(&comparison)?;
    } else {
        output::text(&text(&comparison))?;
    }
    if let Some(folder) = &args.plot {
        // With `--json` the output is one document.
        let files = Files::of(&args.look)?;
        return files.draw_all(folder, &comparison.pictures(), args.json);
    }
    Ok(Exit::Done)
}

fn text(comparison: &Comparison) -> String {
    let side = |side: usize| {
        let seeds = comparison.seeds[side].iter().map(u64::to_string);
        vec![
            ["A", "B"][side].to_owned(),
            comparison.runs[side].to_string(),
            comparison.trustworthy[side].to_string(),
            seeds.collect::<Vec<_>>().join(" "),
            match comparison.only[side].as_slice() {
                [] => "-".to_owned(),
                flows => flows.join(" "),
            },
        ]
    };
    let mut text = output::table(
        &["SIDE", "RUNS", "TRUSTWORTHY", "SEEDS", "FLOWS ONLY HERE"],
        &[side(0), side(1)],
    );
    text.push('\n');
    let rows: Vec<Vec<String>> = comparison.rows.iter().map(cells).collect();
    text.push_str(&output::table(
        &["FLOW", "FIGURE", "A", "B", "B - A", "DIFFERS", "AGAINST"],
        &rows,
    ));
    text.push_str(&conclusion(&comparison.rows));
    text
}

fn cells(row: &Compared) -> Vec<String> {
    let share = if row.a.mean == 0.0 {
        String::new()
    } else {
        format!(" ({:+.1} %)", 100.0 * row.difference / row.a.mean)
    };
    vec![
        row.flow.clone(),
        row.figure.name.to_owned(),
        format!("{:.3}", row.a.mean),
        format!("{:.3}", row.b.mean),
        format!("{:+.3}{share}", row.difference),
        match row.differs {
            Some(true) => "yes",
            Some(false) => "no",
            None => "-",
        }
        .to_owned(),
        match row.noise {
            Some(Noise::Repeats) => "repeats",
            Some(Noise::Time) => "lab time",
            None => "-",
        }
        .to_owned(),
    ]
}

fn conclusion(rows: &[Compared]) -> String {
    let tested = rows.iter().filter(|row| row.differs.is_some()).count();
    let differ = rows.iter().filter(|row| row.differs == Some(true)).count();
    if tested == 0 {
        return "\nThe noise is unknown: give repeated runs (`constel sweep FILE --seeds 1..5`), or runs whose flows have samples.\n".to_owned();
    }
    format!(
        "\n{differ} of {tested} figures that could be tested differ by more than noise (95 % confidence over all of them).\n"
    )
}
