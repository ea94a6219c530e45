//! `constel`: the command. This file only wires; each verb has its own file.

#![forbid(unsafe_code)]
// The macros panic when stdout or stderr is closed; `output` does not.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod args;
mod exit;
mod guest;
mod output;
mod progress;
mod signals;
mod verbs;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match args::Cli::try_parse() {
        Ok(cli) => exit::code(verbs::run(cli)),
        Err(error) => exit::usage(&error),
    }
}
