//! A front end in fifty lines: loads a scenario, runs it for a while, follows its events, reads the results.
//!
//!     cargo run --release -p constel-control --example front_end -- scenarios/iridium.yaml 10

use std::num::NonZeroU64;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use constel_control::{Error, Quiet, RunOptions, Scenario, results};

/// Runs `file` for `seconds` of lab time; its events go to `seen`. Whether its figures are to be trusted.
fn run(file: &str, seconds: u64, mut seen: impl FnMut(&str)) -> Result<bool, Error> {
    let scenario = Scenario::load(Path::new(file))?;
    let check = scenario.check()?;
    seen(&format!(
        "{} satellites, {} stations",
        check.satellites, check.stations
    ));
    let options = RunOptions {
        duration_ns: NonZeroU64::new(seconds * 1_000_000_000),
        ..RunOptions::default()
    };
    let running = scenario.start(options, Arc::new(Quiet))?;
    // From the first event to the last, which comes when the lab is down.
    for event in running.events() {
        let t_s = event.t_ns.map(|t_ns| t_ns as f64 / 1e9);
        seen(&format!("{:>8.3} s  {:?}", t_s.unwrap_or(0.0), event.what));
    }
    let folder = running.wait()?.results;
    // As another program would, at any later time.
    let run = results::Run::open(&folder).expect("a run that came to its end has a folder");
    let summary = run.summary()?;
    for flow in &summary.flows {
        seen(&format!("{}: {:?}", flow.name, flow.status));
    }
    Ok(summary.verdict.trustworthy)
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (file, seconds) = (args.next(), args.next().and_then(|s| s.parse().ok()));
    let (Some(file), Some(seconds)) = (file, seconds) else {
        eprintln!("front_end: say which scenario, and for how many seconds of lab time");
        return ExitCode::from(2);
    };
    match run(&file, seconds, |line| println!("{line}")) {
        Ok(true) => ExitCode::SUCCESS,
        // As `constel run` has it.
        Ok(false) => ExitCode::from(3),
        Err(error) => {
            eprintln!("front_end: {error}");
            ExitCode::from(error.exit().code())
        }
    }
}
