//! `constel probe`: both ends of a flow of probes, in nodes.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use constel_measure::probe::{LISTENING, ProbeOptions, answer, ask};

use crate::args::Probe;
use crate::exit::{Exit, Outcome};

/// Ends regularly at a signal: rows of outstanding probes are written.
pub(crate) fn run(args: &Probe) -> Outcome {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    match args {
        Probe::Ask(args) => {
            let asked = ProbeOptions {
                to: args.to,
                interval_ns: args.interval_ns,
                size: usize::from(args.size),
                length_ns: args.length_ns,
                zero_ns: args.zero_ns,
                is_apart: args.apart,
            };
            ask(&asked, &stop, io::stdout())?;
        }
        Probe::Answer { at } => {
            let ready = || writeln!(io::stdout(), "{LISTENING} {at}");
            answer(*at, &stop, ready)?;
        }
    }
    Ok(Exit::Done)
}
