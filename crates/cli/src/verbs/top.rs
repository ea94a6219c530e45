//! `constel top`: the busiest links of a running lab, sample by sample.

use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use constel_control::metrics::{BusyEdge, LabSnapshot, Meter};

use crate::args::Top;
use crate::exit::{Exit, Failure, Outcome};
use crate::{output, signals};

/// Samples until the requested number is reached, the lab has ended, or a signal arrives.
pub(crate) fn run(args: &Top) -> Outcome {
    let every = Duration::try_from_secs_f64(args.every.seconds()).unwrap_or_default();
    if every < Meter::LEAST {
        return Err(Failure::Usage(format!(
            "--every {}: the minimum interval is {} ms",
            args.every,
            Meter::LEAST.as_millis()
        )));
    }
    let mut meter = Meter::attach(&args.lab)?;
    let stop = Arc::new(AtomicBool::new(false));
    signals::set(&[&stop])?;
    // The first sample is the reference for later ones.
    meter.look()?;
    let anew = io::stdout().is_terminal() && !args.json;
    let mut samples = 0;
    loop {
        if !sleep(every, &stop) {
            return Ok(Exit::Interrupted);
        }
        let look = match meter.look() {
            Ok(look) => look,
            Err(_) if meter.is_over() => return Ok(Exit::Done),
            Err(error) => return Err(error.into()),
        };
        if args.json {
            output::json_line(&look)?;
        } else {
            if anew {
                output::clear_screen()?;
            }
            output::text(&format!("{}\n", text(&look, args.rows)))?;
        }
        samples += 1;
        if args.samples.is_some_and(|most| samples >= most.get()) {
            return Ok(Exit::Done);
        }
    }
}

/// Sleeps; returns whether no signal arrived.
fn sleep(time: Duration, stop: &AtomicBool) -> bool {
    let end = Instant::now() + time;
    while !stop.load(Ordering::Acquire) {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
    false
}

fn text(look: &LabSnapshot, rows: usize) -> String {
    let lab = &look.shown.lab;
    let time = output::lab_time(lab.t_ns);
    let mut text = format!(
        "{}: {}, lab time {time}, {} nodes, {} edges, {} of them busy\n",
        lab.lab,
        lab.state.as_str(),
        lab.nodes,
        lab.edges,
        look.busy.len()
    );
    if let Some(plane) = &look.shown.relay {
        let late = plane.lateness.map(|late| output::ms(late.p99_ns as f64));
        text.push_str(&format!(
            "link plane: {} frames delivered, {} dropped, lateness p99 {}, {} lost by the emulator\n",
            plane.totals.counters.delivered,
            plane.totals.counters.dropped(),
            output::or_dash(late),
            plane.emulator_drops.total()
        ));
    }
    let cells = |busy: &BusyEdge| {
        vec![
            busy.from.clone(),
            busy.to.clone(),
            output::rate(busy.carried_bps),
            output::or_dash(busy.load.map(|load| format!("{:.1} %", 100.0 * load))),
        ]
    };
    let rows: Vec<Vec<String>> = look.busy.iter().take(rows).map(cells).collect();
    text.push_str(&output::table(
        &["FROM", "TO", "CARRIED", "OF ITS RATE"],
        &rows,
    ));
    text
}
