//! The first program of a node that configures itself.
//!
//! It waits for the node's first topology (`/run/constel`, see `docs/reference/information.md`), renders configuration
//! templates from it and starts a program. Whenever the topology changes, it renders the templates again and makes the
//! program reload. It is optional: a setup program may be written in any language. The static build runs in every
//! image: `make init-static`.
#![forbid(unsafe_code)]

mod error;
mod files;
mod life;
mod told;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use error::Fault;
use files::{Files, Target};
use life::Reload;
use told::Documents;

/// Renders configuration from the node's topology, starts a program, and reloads it on each change.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Arguments {
    /// A template (Jinja syntax) and the file to render it to. The variables are the documents `node`, `ports`,
    /// `peers`, `topology`, and `user`, the texts of the user's files by name.
    #[arg(long = "render", value_name = "TEMPLATE=FILE", required = true)]
    render: Vec<Target>,
    /// Command to run after a file has changed, words separated by spaces. Default: send SIGHUP to the program.
    #[arg(long, value_name = "COMMAND")]
    reload: Option<Reload>,
    /// Folder with the node's documents.
    #[arg(long, value_name = "FOLDER", default_value = "/run/constel")]
    told: PathBuf,
    /// The program with its arguments. constel-init exits when the program exits, with the same code.
    #[arg(last = true, required = true)]
    program: Vec<String>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(code) => code,
        Err(fault) => {
            eprintln!("constel-init: {fault}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode, Fault> {
    let files = Files::read(&arguments.render)?;
    let told = Documents::at(&arguments.told)?;
    life::live(&told, &files, arguments.reload.as_ref(), &arguments.program)
}
