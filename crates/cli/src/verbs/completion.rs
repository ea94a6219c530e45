//! `constel completion` and `constel man`: the command line for shells and manuals.

use std::fs;

use anyhow::Context;
use clap::CommandFactory;

use super::names;
use crate::args::{Cli, Completion, Man};
use crate::exit::{Exit, Outcome};
use crate::output;

/// Prints the completion script of a shell.
pub(crate) fn run(args: &Completion) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "constel", &mut script);
    let script = String::from_utf8(script)?;
    output::raw(names::with_names(args.shell, &script).as_bytes())?;
    Ok(Exit::Done)
}

/// Writes a manual page for each verb.
pub(crate) fn man(args: &Man) -> Outcome {
    let folder = &args.folder;
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    clap_mangen::generate_to(Cli::command(), folder)
        .with_context(|| format!("cannot write to {}", folder.display()))?;
    Ok(Exit::Done)
}
