//! `constel box check|import|export`: files of rules.

use std::collections::BTreeSet;
use std::path::Path;

use constel_control::{Observer, load_rules};
use constel_exchange::nistnet;
use constel_scenario::model::{BoxEnds, BoxScenario};
use constel_scenario::{Diagnostic, DiskFiles, read_rules};
use constel_units::files::read_text;
use serde::Serialize;
use serde_json::{Value, json};

use crate::args::{BoxCheck, BoxImport, Check, Lab};
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::verbs::check::some;
use crate::verbs::export::put_bytes;

/// The JSON output of `check`.
#[derive(Serialize)]
struct Checked {
    rules: usize,
    warnings: Vec<String>,
}

/// Prints errors and warnings of a file of rules.
pub(super) fn check(args: &BoxCheck) -> Outcome {
    let file = load_rules(&args.file)?;
    let warnings: Vec<String> = file.warnings.iter().map(|w| w.as_warning()).collect();
    let rules = file.rules.len();
    if args.json {
        output::json(&Checked { rules, warnings })?;
        return Ok(Exit::Done);
    }
    for warning in &warnings {
        output::tell(&format!("{warning}\n"));
    }
    output::text(&format!("{}: {rules} valid rules\n", args.file.display()))?;
    Ok(Exit::Done)
}

/// Prints warnings of a box scenario.
pub(crate) fn checked(args: &Check, scenario: &BoxScenario) -> Outcome {
    let warnings: Vec<String> = scenario
        .rules
        .warnings
        .iter()
        .map(|w| w.as_warning())
        .collect();
    let (rules, flows) = (scenario.rules.rules.len(), scenario.commands.len());
    if args.json {
        output::json(
            &json!({"ok": true, "errors": [], "rules": rules, "flows": flows, "warnings": warnings}),
        )?;
        return Ok(Exit::Done);
    }
    let between = match &scenario.ends {
        BoxEnds::Interfaces(_) => "interfaces",
        BoxEnds::Machines(_) => "machines",
    };
    let names = scenario.ends.names();
    let between = match names.split_last() {
        Some((last, others)) => format!("{between} {} and {last}", others.join(", ")),
        None => between.to_owned(),
    };
    output::text(&format!(
        "{}: valid: a box between the {between}, {}, {}\n",
        args.file.display(),
        some(rules, "rule"),
        some(flows, "command")
    ))?;
    for warning in &warnings {
        output::text(warning)?;
    }
    Ok(Exit::Done)
}

/// Prints the rules of a running box.
pub(super) fn export(args: &Lab) -> Outcome {
    let shown = Observer::attach(&args.lab)?.rules()?;
    let rules: Vec<Value> = shown.rules.into_iter().map(|rule| rule.rule).collect();
    let file = json!({"seed": shown.seed, "rules": rules});
    if args.json {
        output::json(&file)?;
    } else {
        output::text(&nistnet::yaml(&file))?;
    }
    Ok(Exit::Done)
}

/// Converts rows of NIST Net.
pub(super) fn import(args: &BoxImport) -> Outcome {
    let file = args.file.as_path();
    let text = read_text(file).map_err(|error| Failure::unread(file, error))?;
    let at = file.display();
    let imported = nistnet::parse(&text).map_err(|errors| {
        let errors = errors.0.iter();
        let lines = errors.map(|e| format!("{at}:{}:1: error: {}\n", e.line, e.reason));
        Failure::Scenario(lines.collect())
    })?;
    let yaml = nistnet::yaml(&imported.file);
    // Print only rules that are valid.
    let shown = format!("{at} (imported)");
    let rules = read_rules(
        &shown,
        yaml.as_bytes(),
        &DiskFiles::in_folder(Path::new("")),
    );
    let rules = rules.map_err(|errors| {
        // The rules are no file of the user: errors name the row, once for both of its rules.
        let line = |error: &Diagnostic| {
            let rule = error
                .path
                .as_deref()?
                .strip_prefix("rules[")?
                .split(']')
                .next()?;
            imported.lines.get(rule.parse::<usize>().ok()?)
        };
        let mut lines = BTreeSet::new();
        for error in errors.iter() {
            let Some(line) = line(error) else {
                return Failure::Scenario(errors.to_string());
            };
            let next = error
                .suggestion
                .iter()
                .map(|next| format!("\n  hint: {next}"));
            let next: String = next.collect();
            lines.insert((
                *line,
                format!("{at}:{line}:1: error: {}{next}\n", error.message),
            ));
        }
        Failure::Scenario(lines.into_iter().map(|(_, text)| text).collect())
    })?;
    put_bytes(args.out.as_deref(), yaml.as_bytes())?;
    for note in &imported.notes {
        output::tell(&format!("constel: note: {note}\n"));
    }
    for warning in &rules.warnings {
        output::tell(&warning.as_warning());
    }
    Ok(Exit::Done)
}
