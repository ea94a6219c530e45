//! The rules after a requested change, and warnings about them. All functions are pure.

use constel_api::{ApiError, ErrorCode, RuleChange};
use constel_link::rules::{OddInterface, Rules, Shadow, shadowed};
use constel_scenario::model::RuleFile;
use constel_scenario::nearest;
use serde_json::Value;

/// Describes the rules that name interfaces which this box does not have.
pub(crate) fn odd_interfaces(rules: &Rules, names: &[String], routes: bool) -> Vec<String> {
    let odd = rules.odd_interfaces(names, routes).into_iter();
    let words = |odd: OddInterface| {
        let name = rules.get(odd.rule).map_or("", |rule| rule.name.as_str());
        let (key, interface, why) = (odd.key, odd.interface, odd.why);
        format!("rule `{name}`: `{key}: {interface}` takes nothing: {why}")
    };
    odd.map(words).collect()
}

/// Returns the rules after a change, as they would be written to a file.
pub(crate) fn changed(file: &RuleFile, change: RuleChange) -> Result<Vec<Value>, ApiError> {
    let mut rules = file.written.clone();
    let find = |name: &str| {
        file.rules.place(name).ok_or_else(|| {
            let near = nearest(name, file.rules.iter().map(|rule| rule.name.as_str()));
            let hint = near.map(|near| format!("; nearest is '{near}'"));
            let error = format!("no rule is called '{name}'{}", hint.unwrap_or_default());
            ApiError::new(ErrorCode::NoRule, error)
        })
    };
    let place = |at: usize, most: usize| match at {
        at if (1..=most).contains(&at) => Ok(at - 1),
        at => {
            let error = format!("there is no place {at}: places are 1 to {most}");
            Err(ApiError::new(ErrorCode::BadValue, error))
        }
    };
    match change {
        RuleChange::Add { rule, at } => {
            let most = rules.len() + 1;
            let at = place(at.unwrap_or(most), most)?;
            rules.insert(at, named(rule, || fresh_name(file)));
        }
        RuleChange::Edit { name, rule } => {
            let at = find(&name)?;
            rules[at] = named(rule, || name.clone());
        }
        RuleChange::Move { name, at } => {
            let rule = rules.remove(find(&name)?);
            rules.insert(place(at, rules.len() + 1)?, rule);
        }
        RuleChange::Remove { name } => {
            rules.remove(find(&name)?);
        }
        RuleChange::Replace { rules: new } => rules = new,
    }
    Ok(rules)
}

/// Adds a name to a rule that has none.
fn named(mut rule: Value, name: impl Fn() -> String) -> Value {
    if let Some(keys) = rule.as_object_mut()
        && !keys.contains_key("name")
    {
        keys.insert("name".to_owned(), Value::String(name()));
    }
    rule
}

/// Describes the rules that can never match because of an earlier rule.
pub(crate) fn never_reached(rules: &Rules) -> Vec<String> {
    let name = |place: usize| rules.get(place).map_or("", |rule| rule.name.as_str());
    let words = |shadow: Shadow| {
        format!(
            "rule `{}` is never reached {}: rule `{}` takes all frames that it would take",
            name(shadow.rule),
            shadow.direction.as_str(),
            name(shadow.by)
        )
    };
    shadowed(rules).into_iter().map(words).collect()
}

fn fresh_name(file: &RuleFile) -> String {
    let names = (file.rules.len() + 1..).map(|n| format!("rule-{n}"));
    let mut free = names.filter(|name| file.rules.place(name).is_none());
    free.next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use constel_scenario::{DiskFiles, read_rules};
    use serde_json::json;

    use super::*;

    fn file(text: &str) -> RuleFile {
        read_rules("box.yaml", text.as_bytes(), &DiskFiles::in_folder(".")).unwrap()
    }

    fn names(rules: &[Value]) -> Vec<&str> {
        rules
            .iter()
            .filter_map(|rule| rule["name"].as_str())
            .collect()
    }

    #[test]
    fn rules_are_added_moved_edited_and_removed_by_name_and_place() {
        let file = file("rules: [{name: a, both: pass}, {name: b, both: drop}, {both: pass}]\n");
        let add = |at| RuleChange::Add {
            rule: json!({"both": "pass"}),
            at,
        };
        assert_eq!(
            names(&changed(&file, add(None)).unwrap()),
            ["a", "b", "rule-3", "rule-4"]
        );
        assert_eq!(
            names(&changed(&file, add(Some(1))).unwrap()),
            ["rule-4", "a", "b", "rule-3"]
        );
        assert_eq!(
            changed(&file, add(Some(5))).unwrap_err().code,
            ErrorCode::BadValue
        );
        let to = |at| RuleChange::Move {
            name: "a".into(),
            at,
        };
        assert_eq!(names(&changed(&file, to(3)).unwrap()), ["b", "rule-3", "a"]);
        assert_eq!(changed(&file, to(4)).unwrap_err().code, ErrorCode::BadValue);
        let edit = RuleChange::Edit {
            name: "b".into(),
            rule: json!({"both": {"delay": "1 ms"}}),
        };
        let edited = changed(&file, edit).unwrap();
        assert_eq!(
            (names(&edited), &edited[1]["both"]),
            (vec!["a", "b", "rule-3"], &json!({"delay": "1 ms"}))
        );
        let error = changed(
            &file,
            RuleChange::Remove {
                name: "rul-3".into(),
            },
        )
        .unwrap_err();
        assert_eq!(
            (error.code, error.error.as_str()),
            (
                ErrorCode::NoRule,
                "no rule is called 'rul-3'; nearest is 'rule-3'"
            )
        );
    }
}
