//! `constel exec` and `constel shell`: commands in nodes.

use std::ffi::OsString;

use constel_control::{Lab, require_privilege};

use crate::args::{Exec, Shell};
use crate::exit::{Exit, Outcome};

/// Runs a command, and ends as it does.
pub(crate) fn exec(args: &Exec) -> Outcome {
    let command: Vec<OsString> = args.command.iter().map(OsString::from).collect();
    enter(&args.lab, &args.node, &command)
}

/// Opens the user's shell.
pub(crate) fn shell(args: &Shell) -> Outcome {
    let shell = std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into());
    enter(&args.lab, &args.node, &[shell])
}

fn enter(lab: &str, node: &str, command: &[OsString]) -> Outcome {
    // Without the rights, that is what is wrong, whatever labs there are.
    require_privilege()?;
    let exit = Lab::attach(lab)?.enter(node)?.exec(command)?;
    Ok(Exit::of_command(exit.shell_code()))
}
