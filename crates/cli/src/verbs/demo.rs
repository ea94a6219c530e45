//! `constel demo`: a first ping on this machine.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use constel_control::{DEMO, RunOptions, Scenario};

use crate::args::Demo;
use crate::exit::{Exit, Outcome};
use crate::{output, progress, signals};

/// The flow whose first answer is printed.
const FLOW: &str = "lagos-london";

/// The interval between two polls for an answer.
const LOOK: Duration = Duration::from_millis(5);

/// Runs the shipped scenario and prints the next steps.
pub(crate) fn run(args: &Demo) -> Outcome {
    if args.print {
        output::text(DEMO)?;
        return Ok(Exit::Done);
    }
    let began = Instant::now();
    let options = RunOptions {
        name: args.name.clone(),
        results: args.results.clone(),
        ..RunOptions::default()
    };
    let signalled = Arc::new(AtomicBool::new(false));
    signals::set(&[&options.stop, &signalled])?;
    output::text(
        "Iridium NEXT, 66 satellites, and six cities: 72 network stacks on this machine.\n",
    )?;
    let running = Scenario::demo()?.start(options, progress::for_stderr())?;
    let answers = running.results().join("flows").join(format!("{FLOW}.out"));
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let events = running.events();
        let over = &over;
        scope.spawn(move || {
            events.for_each(drop);
            over.store(true, Ordering::Release);
        });
        if let Some(rtt_ms) = first_answer(&answers, over) {
            output::text(&format!(
                "first ping after {:.1} s: Lagos to London and back in {rtt_ms:.1} ms\n",
                began.elapsed().as_secs_f64()
            ))?;
        }
        std::io::Result::Ok(())
    })?;
    let finished = match running.wait() {
        Ok(finished) => finished,
        Err(error) if error.exit() == constel_control::Exit::Interrupted => {
            return Ok(Exit::Interrupted);
        }
        Err(error) => return Err(error.into()),
    };
    if signalled.load(Ordering::Acquire) {
        return Ok(Exit::Interrupted);
    }
    output::text(&super::run::summary_text(&finished.summary))?;
    output::text(&next(&finished.results))?;
    Ok(Exit::of_run(&finished.summary))
}

/// Waits for the first answered probe, and returns its round-trip time in milliseconds; `None` if the lab ends before.
fn first_answer(rows: &Path, over: &AtomicBool) -> Option<f64> {
    loop {
        let last = over.load(Ordering::Acquire);
        let text = fs::read_to_string(rows).unwrap_or_default();
        if let Some(rtt_us) = text.lines().find_map(answered) {
            return Some(rtt_us / 1e3);
        }
        if last {
            return None;
        }
        std::thread::sleep(LOOK);
    }
}

/// Returns the round-trip time in a row `seq,sent_s,there_us,back_us,rtt_us,fate`, microseconds.
fn answered(row: &str) -> Option<f64> {
    let cells: Vec<&str> = row.split(',').collect();
    match cells[..] {
        [_, _, _, _, rtt_us, "ok"] => rtt_us.parse().ok(),
        _ => None,
    }
}

fn next(results: &Path) -> String {
    let results = results.display();
    format!(
        "\nThe host is as it was; results: {results}\n\
         Next:\n\
         \u{20}\u{20}constel results plot {results}    pictures of what was measured\n\
         \u{20}\u{20}constel init mine.yaml    a scenario of your own, from a few answers\n\
         \u{20}\u{20}constel run mine.yaml     runs it; `constel exec mine london -- sh` opens a shell in London at the same time\n"
    )
}

#[cfg(test)]
mod tests {
    use super::answered;

    #[test]
    fn only_probes_that_were_answered_in_order_count() {
        assert_eq!(
            answered("1,0.2,30000.5,30001.5,60002.000,ok"),
            Some(60_002.0)
        );
        assert_eq!(answered("seq,sent_s,there_us,back_us,rtt_us,fate"), None);
        assert_eq!(answered("1,0.2,,,,lost"), None);
        assert_eq!(answered("1,0.2,30000.5,3000"), None);
    }
}
