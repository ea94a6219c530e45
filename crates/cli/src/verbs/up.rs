//! `constel up` and `constel restart`: labs that stay in the background.

mod log;

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use constel_api::EventData;
use constel_api::answers::ListedLab;
use constel_control::{ComingUp, End, Error, EventStream, RunOptions, Staying, Went};
use constel_scenario::model::ClockTime;
use constel_units::TimeSpan;
use serde::Serialize;

use self::log::LabLog;
use super::{logs, run as foreground, scenario};
use crate::args::{Restart, Up};
use crate::exit::{Exit, Failure, Outcome};
use crate::{output, signals};

/// The flag of the process of a lab.
const STAYING: &str = "--staying";

/// Starts the lab in a process of its own, and returns when it is up.
pub(crate) fn run(args: &Up) -> Outcome {
    if args.staying {
        return stay(args);
    }
    let own = std::env::args_os().skip(1).collect();
    let folder = std::env::current_dir()?;
    let input = args.file == Path::new("-");
    launch(own, &folder, input, (args.attach, args.json))
}

/// Takes a lab down and starts it again.
pub(crate) fn restart(args: &Restart) -> Outcome {
    constel_control::require_privilege()?;
    let (again, folder) = constel_control::end_for_restart(&args.lab)?;
    output::tell(&format!(
        "constel: {} is down; starting it again\n",
        args.lab
    ));
    launch(again, &folder, false, (args.attach, args.json))
}

/// Starts the lab of a command line `up ...`, and returns when it is up; with `attach`, when it has ended.
fn launch(
    mut args: Vec<OsString>,
    folder: &Path,
    input: bool,
    (attach, json): (bool, bool),
) -> Outcome {
    // After the verb.
    args.insert(1.min(args.len()), STAYING.into());
    let stop = Arc::new(AtomicBool::new(false));
    signals::set(&[&stop])?;
    let mut coming = ComingUp::start(&args, folder, input, output::raw_to_stderr)?;
    let lab = match coming.wait(&stop)? {
        Went::Ended(status) => return Ok(exit_of(status)),
        Went::Up(lab) => lab,
    };
    let record = constel_control::staying(&lab.lab)?;
    match json {
        true => output::json(&IsUp::of(&lab, &record))?,
        false => output::text(&is_up(&lab, &record))?,
    }
    if !attach {
        return Ok(Exit::Done);
    }
    let status = logs::follow(&[record.log()], usize::MAX, || {
        let ended = coming.ended()?;
        Ok((ended.is_some() || stop.load(Ordering::Acquire)).then_some(ended))
    })?;
    match status {
        Some(status) => Ok(exit_of(status)),
        None => {
            let name = &lab.lab;
            output::tell(&format!(
                "constel: {name} stays up; `constel down {name}` takes it down\n"
            ));
            Ok(Exit::Interrupted)
        }
    }
}

/// Returns the exit code of a lab's process.
fn exit_of(status: ExitStatus) -> Exit {
    if let Some(signal) = status.signal() {
        output::tell(&format!(
            "constel: the process of the lab was ended by signal {signal}; `constel clean` removes what it left\n"
        ));
    }
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    Exit::of_command(code.unwrap_or(1))
}

/// The JSON document of a lab that is up.
#[derive(Serialize)]
struct IsUp<'a> {
    #[serde(flatten)]
    lab: &'a ListedLab,
    /// Lab time after which it is taken down, nanoseconds; `null` if it stays until `constel down`.
    ends_after_ns: Option<u64>,
    results: &'a Path,
    log: PathBuf,
}

impl<'a> IsUp<'a> {
    fn of(lab: &'a ListedLab, record: &'a Staying) -> Self {
        Self {
            lab,
            ends_after_ns: record.ends_after_ns,
            results: &record.results,
            log: record.log(),
        }
    }
}

/// Says that a lab is up, and how to go on.
fn is_up(lab: &ListedLab, record: &Staying) -> String {
    let name = &lab.lab;
    let end = match record.ends_after_ns {
        None => "it stays until `constel down`".to_owned(),
        Some(ns) => format!(
            "it ends after {} of lab time (`--no-end`: not before `constel down`)",
            TimeSpan::from_ns(i64::try_from(ns).unwrap_or(i64::MAX))
        ),
    };
    format!(
        "{name} is up: {} nodes, {} edges; {end}\nresults: {}\n\n  \
         constel show {name}               nodes, flows, counters\n  \
         constel exec {name} NODE -- CMD   run a command in a node\n  \
         constel logs {name} -f            follow its messages\n  \
         constel down {name}               take it down\n",
        lab.nodes,
        lab.edges,
        record.results.display(),
    )
}

/// Is the lab, until it has ended.
fn stay(args: &Up) -> Outcome {
    // A session of its own has no terminal, so that the lab outlives the one from which it was started. It fails for the leader
    // of a process group, which has its own session already if `up` started it.
    let _ = rustix::process::setsid();
    if scenario::read_box(&args.file, &args.changes.settings())?.is_some() {
        let error = "a box does not stay in the background: `constel run FILE` runs it";
        return Err(Failure::Usage(error.to_owned()));
    }
    let loaded = scenario::load(&args.file, &args.changes)?;
    if loaded.lab.scenario.clock_time == ClockTime::Virtual {
        let error =
            "`clock.time: virtual` is for `constel run`: a lab that stays runs in real time";
        return Err(Failure::Usage(error.to_owned()));
    }
    let options = RunOptions {
        name: args.name.clone(),
        results: args.results.clone(),
        duration_ns: args
            .duration
            .map(foreground::at_least_something)
            .transpose()?,
        end: match args.no_end {
            true => End::Never,
            false => End::ScenarioOrNever,
        },
        traffic: !args.no_traffic,
        anyway: args.anyway,
        ..RunOptions::default()
    };
    let (signalled, stop) = (Arc::new(AtomicBool::new(false)), Arc::clone(&options.stop));
    signals::set(&[&stop, &signalled])?;
    let log = LabLog::default();
    let running = loaded
        .start(options, log.progress())
        .map_err(foreground::named)?;
    let record = Staying::of_this_process(
        running.name(),
        &args.file.display().to_string(),
        std::path::absolute(running.results())?,
        running.duration_ns(),
        std::env::args_os().skip(1).filter(|arg| arg != STAYING),
    )?;
    let events = running.events();
    let keeper = {
        let (record, log, stop) = (record.clone(), log.clone(), stop);
        std::thread::spawn(move || keep(events, &record, &log, &stop))
    };
    let ended = running.wait();
    // It ends with the events, which end with the lab.
    let kept = keeper.join();
    if kept.unwrap_or_else(|panic| std::panic::resume_unwind(panic))? {
        record.forget()?;
    }
    let finished = match ended {
        Err(error) if error.exit() == constel_control::Exit::Interrupted => {
            output::tell(
                "constel: stopped while starting; the lab is down and the host as before\n",
            );
            return Ok(foreground::ended(&signalled, Exit::Done));
        }
        ended => ended?,
    };
    foreground::told(args.json, &finished.summary, &finished.results, &signalled)
}

/// Keeps the lab's record from the claim of its name on, and its log once it is up. Returns whether the record was kept: a lab
/// that never had its name must leave the record of the one that has it.
///
/// # Errors
/// When the record cannot be written. The lab ends then, because no later command would find it.
fn keep(
    events: EventStream,
    record: &Staying,
    log: &LabLog,
    stop: &AtomicBool,
) -> Result<bool, Error> {
    let mut kept = Ok(false);
    for event in events {
        match event.what {
            EventData::Starting { .. } => {
                kept = record.keep().map(|()| true);
                if kept.is_err() {
                    stop.store(true, Ordering::Release);
                }
            }
            EventData::Running { .. } => {
                let path = record.log();
                if let Err(error) = log.begin(&path) {
                    output::tell(&format!("warning: {}: {error}\n", path.display()));
                }
            }
            _ => {}
        }
    }
    kept
}
