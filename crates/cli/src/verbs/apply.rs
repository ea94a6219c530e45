//! `constel apply`: a changed scenario for a running lab.

use std::path::Path;

use constel_api::answers::{Applied, ChangeWord, ScenarioChange};
use constel_control::Lab;

use super::scenario;
use crate::args::Apply;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

/// Compares the file with the scenario of the lab, and has the lab run it unless a change is refused.
pub(crate) fn run(args: &Apply) -> Outcome {
    if scenario::read_box(&args.file, &args.changes.settings())?.is_some() {
        let error = "a box has no scenario to change: `constel box edit` changes its rules";
        return Err(Failure::Usage(error.to_owned()));
    }
    let changed = scenario::load(&args.file, &args.changes)?;
    let own = changed.lab.scenario.name.to_string();
    let name = args.name.clone().unwrap_or(own);
    let lab = Lab::attach(&name)?;
    let answer = lab.apply(&changed, args.dry_run)?;
    match args.json {
        true => output::json(&answer)?,
        false => output::text(&text(&name, &answer))?,
    }
    let refused = answer.refused().count();
    if refused == 0 {
        return Ok(Exit::Done);
    }
    // Only labs of `up` have a record. A restart reads the file of `up` again.
    let begun = constel_control::staying(&name).ok();
    let begun = begun.map(|record| record.scenario);
    let counts = (refused, answer.changes.len());
    output::tell(&refusal(&name, counts, (&args.file, begun.as_deref())));
    Ok(Exit::Failed)
}

/// Returns the differences, one a line, and from when they hold.
fn text(name: &str, answer: &Applied) -> String {
    if answer.changes.is_empty() {
        return format!("{name} runs this scenario already\n");
    }
    let mut text: String = answer.changes.iter().map(line).collect();
    if let Some(from_ns) = answer.from_ns {
        let s = from_ns as f64 / 1e9;
        text.push_str(&format!("in force from lab time {s:.1} s\n"));
    } else if answer.applied {
        text.push_str("in force\n");
    }
    text
}

fn line(change: &ScenarioChange) -> String {
    let (before, after) = (change.before.as_deref(), change.after.as_deref());
    let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
    let mut line = match change.change {
        ChangeWord::Added => format!("+ {}: {after}\n", change.key),
        ChangeWord::Removed => format!("- {}: {before}\n", change.key),
        ChangeWord::Changed if before == after => format!("~ {}: stays {after}\n", change.key),
        ChangeWord::Changed => format!("~ {}: {before} -> {after}\n", change.key),
    };
    if let Some(why) = &change.refused {
        line.push_str(&format!("  not in a running lab: {why}\n"));
    }
    line
}

/// Says that nothing was changed, and how to go on. `begun` is the file that a restart reads.
fn refusal(
    name: &str,
    (refused, all): (usize, usize),
    (file, begun): (&Path, Option<&str>),
) -> String {
    let file = file.display().to_string();
    let next = match begun == Some(file.as_str()) {
        true => format!("`constel restart {name}` starts the lab again with this file"),
        false => format!(
            "`constel down {name}` and `constel up {file} --name {name}` start the lab again with this file"
        ),
    };
    format!(
        "constel: {refused} of {all} changes cannot be made while the lab runs; nothing was changed\n{next}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(change: ChangeWord, before: &str, after: &str) -> ScenarioChange {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        ScenarioChange {
            key: "a.b".to_owned(),
            change,
            before: text(before),
            after: text(after),
            refused: None,
        }
    }

    #[test]
    fn each_difference_is_a_line_and_a_refusal_says_why() {
        let mut answer = Applied {
            applied: true,
            changes: vec![
                change(ChangeWord::Added, "", "1"),
                change(ChangeWord::Removed, "2", ""),
                change(ChangeWord::Changed, "3 ms", "4 ms"),
                change(ChangeWord::Changed, "5301", "5301"),
            ],
            from_ns: Some(12_000_000_000),
        };
        assert_eq!(
            text("mine", &answer),
            "+ a.b: 1\n- a.b: 2\n~ a.b: 3 ms -> 4 ms\n~ a.b: stays 5301\nin force from lab time 12.0 s\n"
        );
        answer.applied = false;
        answer.from_ns = None;
        answer.changes.truncate(1);
        answer.changes[0].refused = Some("it is so".to_owned());
        assert_eq!(
            text("mine", &answer),
            "+ a.b: 1\n  not in a running lab: it is so\n"
        );
        answer.changes.clear();
        assert_eq!(text("mine", &answer), "mine runs this scenario already\n");
    }

    #[test]
    fn the_next_step_reads_the_changed_file() {
        let told = |file: &str| refusal("mine", (1, 3), (Path::new(file), Some("a.yaml")));
        assert!(told("a.yaml").contains("`constel restart mine`"));
        assert!(told("b.yaml").contains("`constel up b.yaml --name mine`"));
        assert!(told("b.yaml").starts_with("constel: 1 of 3 changes"));
        let foreground = refusal("mine", (1, 1), (Path::new("a.yaml"), None));
        assert!(foreground.contains("`constel down mine`"));
    }
}
