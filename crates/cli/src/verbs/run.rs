//! `constel run`: a scenario from start to summary.

mod summary;

use std::num::{NonZeroU32, NonZeroU64};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use constel_api::summary::Summary;
use constel_control::{Error, RunOptions, Scenario};
use constel_scenario::model::ClockTime;
use constel_units::TimeSpan;

use super::scenario;
use super::there::There;
use super::web::WebBesideRun;
use crate::args::Run;
use crate::exit::{Exit, Failure, Outcome};
use crate::{output, progress, signals};

pub(crate) use summary::{results as results_text, summary_text};

/// Runs in the foreground until the lab has ended.
pub(crate) fn run(args: &Run) -> Outcome {
    if let Some(scenario) = scenario::read_box(&args.file, &args.changes.settings())? {
        return super::middlebox::of_scenario(args, scenario);
    }
    let loaded = scenario::load(&args.file, &args.changes)?;
    if args.time.is_none() && loaded.lab.scenario.clock_time == ClockTime::Virtual {
        let why =
            "`clock.time` of a scenario that is no regular file needs `--time virtual` as well";
        return Err(Failure::Usage(why.to_owned()));
    }
    let options = RunOptions {
        name: args.name.clone(),
        results: args.results.clone(),
        duration_ns: args.duration.map(at_least_something).transpose()?,
        traffic: !args.no_traffic,
        anyway: args.anyway,
        await_policy: args.await_policy,
        profile_hz: args.profile.and_then(NonZeroU32::new),
        ..RunOptions::default()
    };
    // `constel down` also stops a run, but that is no interruption.
    let signalled = Arc::new(AtomicBool::new(false));
    signals::set(&[&options.stop, &signalled])?;
    if let Some(pid) = args.ends_with {
        let (stop, signalled) = (Arc::clone(&options.stop), Arc::clone(&signalled));
        constel_control::when_ended(pid, move || {
            signalled.store(true, Ordering::Release);
            stop.store(true, Ordering::Release);
        })?;
    }
    if let Some(there) = There::of(&args.on)? {
        return on_machines(args, &loaded, &there, &options, &signalled);
    }
    let running = loaded
        .start(options, progress::for_stderr())
        .map_err(named)?;
    let _web = args
        .web
        .then(|| WebBesideRun::begin(running.name().to_owned()))
        .transpose()?;
    let finished = match running.wait() {
        Ok(finished) => finished,
        Err(error) if error.exit() == constel_control::Exit::Interrupted => {
            output::tell(
                "constel: stopped while starting; the lab is down and the host as before\n",
            );
            return Ok(ended(&signalled, Exit::Done));
        }
        Err(error) => return Err(error.into()),
    };
    told(args.json, &finished.summary, &finished.results, &signalled)
}

/// Prints the result, and returns its exit code.
pub(super) fn told(
    json: bool,
    summary: &Summary,
    results: &Path,
    signalled: &AtomicBool,
) -> Outcome {
    let told = if json {
        output::json(summary)
    } else {
        let results = format!("results: {}\n", results.display());
        output::text(&(summary_text(summary) + &results))
    };
    // Ctrl-C also ends the reader of a pipe (`constel run F | tee log`); the results folder has everything that could not be
    // printed.
    if !signalled.load(Ordering::Acquire) {
        told?;
    }
    Ok(ended(signalled, Exit::of_run(summary)))
}

/// Controls the lab on several machines until it has ended on all.
fn on_machines(
    args: &Run,
    scenario: &Scenario,
    there: &There,
    options: &RunOptions,
    signalled: &AtomicBool,
) -> Outcome {
    for (flag, given) in [
        ("--web", args.web),
        ("--profile", args.profile.is_some()),
        ("--anyway", args.anyway),
        ("--await-policy", args.await_policy),
    ] {
        if given {
            let error = format!("{flag} is for labs on one machine; leave it out with --machines");
            return Err(Failure::Usage(error));
        }
    }
    let say = |text: &str| output::tell(&format!("constel: {text}\n"));
    match scenario.start_on(&there.on_machines(), options, &say) {
        Ok(led) => told(args.json, &led.summary, &led.results, signalled),
        Err(error) if error.exit() == constel_control::Exit::Interrupted => {
            output::tell("constel: stopped while coming up; the lab is down on all machines\n");
            Ok(ended(signalled, Exit::Done))
        }
        Err(error) => Err(named(error)),
    }
}

/// Adds to the error of an invalid name that a name can be given.
pub(super) fn named(error: Error) -> Failure {
    match error {
        Error::BadLabName(why) => {
            Failure::Usage(format!("{why}; --name gives the lab another name"))
        }
        other => other.into(),
    }
}

pub(super) fn at_least_something(span: TimeSpan) -> Result<NonZeroU64, Failure> {
    let ns = u64::try_from(span.ns()).ok().and_then(NonZeroU64::new);
    ns.ok_or_else(|| Failure::Usage(format!("--for {span}: must be longer than nothing")))
}

/// Returns the exit code: a signal takes precedence over the run's result.
pub(super) fn ended(signalled: &AtomicBool, otherwise: Exit) -> Exit {
    if signalled.load(Ordering::Acquire) {
        Exit::Interrupted
    } else {
        otherwise
    }
}
