//! `constel exec`: runs commands in nodes.

use std::ffi::OsString;

use constel_cluster::store::StoreLocation;
use constel_control::{Error, Lab, OpenNode, require_privilege};

use super::there::{Elsewhere, verb};
use crate::args::{Class, Exec};
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

/// Runs a command and exits with its code. With several nodes the exit code is 1 if the command failed in one.
pub(crate) fn exec(args: &Exec) -> Outcome {
    if let Some(store) = &args.store {
        return elsewhere(args, store);
    }
    if args.json || args.class.is_some() || args.node.contains(['*', '?']) {
        return in_many(args, &args.command);
    }
    let exit = enter(&args.lab, &args.node)?.exec(&args.command);
    ended(exit.map(|exit| exit.shell_code()))
}

/// Returns the exit code of a command, as a shell does, or the reason why it was not executed.
pub(super) fn ended(shell_code: Result<i32, Error>) -> Outcome {
    match shell_code {
        Ok(code) => Ok(Exit::of_command(code)),
        Err(error) => match error.shell_code() {
            Some(code) => {
                output::tell(&format!("constel: {error}\n"));
                Ok(Exit::of_command(code))
            }
            None => Err(error.into()),
        },
    }
}

/// Runs a command in a node of a lab on several machines.
fn elsewhere(args: &Exec, store: &StoreLocation) -> Outcome {
    if args.class.is_some() || args.node.contains(['*', '?']) {
        let error = "with --store a command runs in one node: name it";
        return Err(Failure::Usage(error.to_owned()));
    }
    // The command travels as a JSON document.
    let command: Option<Vec<String>> = args
        .command
        .iter()
        .map(|word| Some(word.to_str()?.to_owned()))
        .collect();
    let Some(command) = command else {
        let error = "with --store a command must be UTF-8";
        return Err(Failure::Usage(error.to_owned()));
    };
    let node = [args.node.clone(), "--".to_owned()].into_iter();
    Elsewhere {
        store,
        lab: &args.lab,
        node: &args.node,
        verb: verb(&["exec"], args.json),
        args: node.chain(command).collect(),
        input: Vec::new(),
    }
    .run()
}

fn in_many(args: &Exec, command: &[OsString]) -> Outcome {
    require_privilege()?;
    let lab = Lab::attach(&args.lab)?;
    let class = args.class.map(|class| match class {
        Class::Satellite => "satellite",
        Class::Ground => "ground",
        Class::Host => "host",
    });
    let nodes = lab.select(&args.node, class)?;
    let ran = lab.exec_in_many(&nodes, command, usize::from(args.at_once))?;
    if args.json {
        output::json(&ran)?;
    } else {
        for row in &ran {
            output::text(&named(&row.node, &row.stdout))?;
            output::tell(&named(&row.node, &row.stderr));
            let exit = row.exit.filter(|exit| *exit != 0);
            let ended = exit.map(|exit| format!("exit code {exit}\n"));
            let said = row.error.as_ref().map(|error| format!("{error}\n"));
            said.or(ended)
                .iter()
                .for_each(|text| output::tell(&named(&row.node, text)));
        }
    }
    let well = ran.iter().all(|row| row.exit == Some(0));
    Ok(Exit::of_command(i32::from(!well)))
}

/// Prefixes each line with the node that printed it.
fn named(node: &str, text: &str) -> String {
    text.lines()
        .map(|line| format!("{node}: {line}\n"))
        .collect()
}

pub(super) fn enter(lab: &str, node: &str) -> Result<OpenNode, Error> {
    // Missing privileges are reported first, whatever labs exist.
    require_privilege()?;
    Lab::attach(lab)?.enter(node)
}
