//! `constel box top`: a box's rules, every second.

use std::io::IsTerminal as _;
use std::time::Duration;

use constel_control::{Error, Observer};

use super::show;
use crate::args::Lab;
use crate::exit::{Exit, Outcome};
use crate::output;

const EVERY: Duration = Duration::from_secs(1);

/// Prints until the box has ended, or the reader has closed the pipe.
pub(super) fn run(args: &Lab) -> Outcome {
    let observer = Observer::attach(&args.lab)?;
    let terminal = !args.json && std::io::stdout().is_terminal();
    let mut first = true;
    loop {
        let shown = match observer.rules() {
            Ok(shown) => shown,
            // The box ended between two samples.
            Err(Error::NoAnswer { .. } | Error::Refused(_)) if !first => return Ok(Exit::Done),
            Err(error) => return Err(error.into()),
        };
        first = false;
        if terminal {
            output::clear_screen()?;
            output::text(&show::text(&shown))?;
        } else {
            output::json_line(&shown)?;
        }
        std::thread::sleep(EVERY);
    }
}
