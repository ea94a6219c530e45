//! The first program of a node that configures itself.
//!
//! It waits until the node is told its first topology (`/run/constel`, see `docs/reference/information.md`), renders templates
//! of configuration from that, starts a program, renders anew whenever something changes, and has the program read what is
//! new. It is optional: a setup program may be in any language. Static, it runs in every image: `make init-static`.
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
use told::Told;

/// Waits for the node's first topology, renders templates from it, starts a program, and renders anew on each change.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Arguments {
    /// A template (Jinja syntax) and the file that it becomes. Its variables are the documents: `node`, `ports`, `peers`,
    /// `topology`, and `user`, texts by name.
    #[arg(long = "render", value_name = "TEMPLATE=FILE", required = true)]
    render: Vec<Target>,
    /// What is run when a file has become another: words with spaces between. By default the program gets SIGHUP.
    #[arg(long, value_name = "COMMAND")]
    reload: Option<Reload>,
    /// Where the node is told.
    #[arg(long, value_name = "FOLDER", default_value = "/run/constel")]
    told: PathBuf,
    /// The program with its arguments; it ends with it, and its exit code is the program's.
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
    let told = Told::at(&arguments.told)?;
    life::live(&told, &files, arguments.reload.as_ref(), &arguments.program)
}
