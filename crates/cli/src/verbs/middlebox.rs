//! `constel box`: a network between two interfaces of this host.

mod change;
mod files;
mod show;
mod top;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use constel_control::{BoxFinished, BoxOptions, Lab};
use constel_units::TimeSpan;

use crate::args::{BoxVerb, Middlebox};
use crate::exit::{Exit, Failure, Outcome};
use crate::{output, progress};

pub(crate) fn run(args: Middlebox) -> Outcome {
    match args.verb {
        None => start(args),
        Some(BoxVerb::Show(args)) => show::run(&args),
        Some(BoxVerb::Top(args)) => top::run(&args),
        Some(BoxVerb::Export(args)) => files::export(&args),
        Some(BoxVerb::Add(args)) => change::add(&args),
        Some(BoxVerb::Edit(args)) => change::edit(&args),
        Some(BoxVerb::Move(args)) => change::reorder(&args),
        Some(BoxVerb::Remove(args)) => change::remove(&args),
        Some(BoxVerb::Replace(args)) => change::replace(&args),
        Some(BoxVerb::Confirm(args)) => {
            Lab::attach(&args.lab)?.confirm()?;
            Ok(Exit::Done)
        }
        Some(BoxVerb::Check(args)) => files::check(&args),
        Some(BoxVerb::Import(args)) => files::import(&args),
    }
}

/// Stays in the foreground until the box is down again.
fn start(args: Middlebox) -> Outcome {
    let interfaces = <[String; 2]>::try_from(args.interfaces);
    let Ok(interfaces) = interfaces else {
        let text = "a box stands between two interfaces: `constel box A B`";
        return Err(Failure::Usage(text.to_owned()));
    };
    let stop = Arc::new(AtomicBool::new(false));
    // `constel down` stops a box as well, but interrupts nobody.
    let signalled = Arc::new(AtomicBool::new(false));
    for signal in [
        signal_hook::consts::SIGINT,
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGHUP,
    ] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&signalled))?;
    }
    let options = BoxOptions {
        interfaces,
        rules: args.rules,
        name: args.name,
        results: args.results,
        duration: args
            .duration
            .map(|span| longer("--for", span))
            .transpose()?,
        exclusive: args.exclusive,
        confirm_within: args
            .confirm_within
            .map(|span| longer("--confirm-within", span))
            .transpose()?,
        stop,
    };
    let progress = progress::for_stderr();
    let finished = constel_control::run_box(options, progress.as_ref())?;
    let told = if args.json {
        output::json(&finished.summary)
    } else {
        output::text(&ended(&finished))
    };
    if signalled.load(Ordering::Acquire) {
        return Ok(Exit::Interrupted);
    }
    told?;
    if finished.unconfirmed {
        let text = "constel: nobody confirmed the box in time: it took itself down, and the interfaces are as before\n";
        output::tell(text);
        return Err(Failure::Failed(anyhow::anyhow!("not confirmed")));
    }
    Ok(match finished.summary.verdict.trustworthy {
        true => Exit::Done,
        false => Exit::NotTrustworthy,
    })
}

fn longer(flag: &str, span: TimeSpan) -> Result<Duration, Failure> {
    let ns = u64::try_from(span.ns()).ok().filter(|ns| *ns > 0);
    ns.map(Duration::from_nanos)
        .ok_or_else(|| Failure::Usage(format!("{flag} {span}: must be longer than nothing")))
}

fn ended(finished: &BoxFinished) -> String {
    let summary = &finished.summary;
    let counters = &summary.relay.totals.counters;
    let mut text = format!(
        "box {}: {:.1} s, {} frames in, {} out, {} dropped by rules\n",
        summary.lab,
        summary.lab_time_ns as f64 / 1e9,
        counters.offered,
        counters.delivered,
        counters.dropped(),
    );
    let lateness = summary.fidelity.lateness_p99_ns as f64;
    text.push_str(&format!("lateness p99 {}\n", output::ms(lateness)));
    match summary.verdict.trustworthy {
        true => text.push_str("verdict: trustworthy\n"),
        false => {
            text.push_str("verdict: NOT trustworthy\n");
            for reason in &summary.verdict.reasons {
                text.push_str(&format!("  - {reason}\n"));
            }
        }
    }
    text.push_str(&format!("results: {}\n", finished.results.display()));
    text
}
