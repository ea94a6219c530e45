//! `constel box add|edit|move|remove|replace`: changes the rules of a running box.

use std::path::Path;

use constel_api::RuleChange;
use constel_api::answers::RulesChanged;
use constel_control::{Lab, load_rules};
use constel_scenario::{DiskFiles, read_rules};
use serde_json::Value;

use crate::args::{BoxAdd, BoxEdit, BoxMove, BoxRemove, BoxRule};
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

pub(super) fn add(args: &BoxAdd) -> Outcome {
    let rule = one(&args.rule)?;
    change(&args.lab, RuleChange::Add { rule, at: args.at }, args.json)
}

pub(super) fn edit(args: &BoxEdit) -> Outcome {
    let rule = one(&args.rule)?;
    let name = args.name.clone();
    change(&args.lab, RuleChange::Edit { name, rule }, args.json)
}

pub(super) fn reorder(args: &BoxMove) -> Outcome {
    let name = args.name.clone();
    change(&args.lab, RuleChange::Move { name, at: args.at }, args.json)
}

pub(super) fn remove(args: &BoxRemove) -> Outcome {
    let name = args.name.clone();
    change(&args.lab, RuleChange::Remove { name }, args.json)
}

pub(super) fn replace(args: &BoxRule) -> Outcome {
    let file = load_rules(&args.rules)?;
    let rules = file.written;
    change(&args.lab, RuleChange::Replace { rules }, args.json)
}

/// Returns the rule as written; a rule without a name gets none.
fn one(text: &str) -> Result<Value, Failure> {
    let wrapped = format!("rules:\n- {}\n", text.trim());
    let files = DiskFiles::in_folder(Path::new(""));
    let file = read_rules("RULE", wrapped.as_bytes(), &files)
        .map_err(|errors| Failure::Scenario(errors.to_string()))?;
    let Ok([mut rule]) = <[Value; 1]>::try_from(file.written) else {
        return Err(Failure::Usage("one rule is expected".to_owned()));
    };
    if let Some(keys) = rule.as_object_mut()
        && keys.get("name").is_some_and(|name| name == "rule-1")
        && !text.contains("rule-1")
    {
        keys.remove("name");
    }
    Ok(rule)
}

fn change(lab: &str, change: RuleChange, json: bool) -> Outcome {
    let changed = Lab::attach(lab)?.change_rules(change)?;
    for warning in &changed.warnings {
        output::tell(&format!("constel: warning: {warning}\n"));
    }
    if json {
        output::json(&changed)?;
    } else {
        output::text(&text(&changed))?;
    }
    Ok(Exit::Done)
}

fn text(changed: &RulesChanged) -> String {
    let mut text = format!(
        "{} rules, in force after {}:\n",
        changed.rules.len(),
        output::ms(changed.took_ns as f64)
    );
    for (place, name) in changed.rules.iter().enumerate() {
        text.push_str(&format!("{:4} {name}\n", place + 1));
    }
    text
}
