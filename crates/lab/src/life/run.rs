//! One run, from claiming the lab's name to giving it back.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use std::path::Path;

use constel_drivers::Chosen;
use constel_host::claim::RuntimeDir;
use constel_plan::{Lab, Ours};

use crate::error::EngineError;
use crate::life::attached::usable;
use crate::life::options::{Finished, Options};
use crate::life::preflight::{choose, may_be_on_several, preflight};
use crate::life::room::fitting;
use crate::life::session::session;
use crate::life::site::{Ground, KernelSite, Site};
use crate::life::sweep::sweep;
use crate::life::together::Together;
use crate::nodes::images::Images;
use crate::progress::Progress;

/// Runs a lab in the foreground.
///
/// # Errors
/// Whatever kept it from running; what had been made by then has been removed.
///
/// # Panics
/// When something in it does; not before the host is as it was.
pub fn run(lab: Lab, options: &Options, progress: &dyn Progress) -> Result<Finished, EngineError> {
    preflight(&lab, options.traffic)?;
    let driver = choose(&lab)?;
    usable(&lab)?;
    if options.together.is_some() {
        may_be_on_several(&lab)?;
    } else if !options.anyway {
        fitting(&lab, options.traffic, progress)?;
    }
    // Dropped again: what is missing is said before anything is made.
    let beside = Path::new(&options.scenario_file).parent();
    let ours = options.together.as_ref();
    let ours = ours.map_or_else(Ours::all, Together::ours);
    Images::hold((&lab, &ours), beside.unwrap_or(Path::new("")), progress)?;
    let runtime = RuntimeDir::default();
    let globals = runtime.globals();
    let kernel: &Ground<'_> = &|claim, results| -> Box<dyn Site> {
        let file = &options.scenario_file;
        let site = KernelSite::new(driver.kind, claim, globals.clone(), results, file);
        Box::new(site)
    };
    run_on(kernel, &runtime, lab, &driver, options, progress)
}

/// The same on other ground, with the lab's name claimed in `runtime`.
///
/// # Errors
/// As [`run`].
pub(crate) fn run_on(
    ground: &Ground<'_>,
    runtime: &RuntimeDir,
    lab: Lab,
    driver: &Chosen,
    options: &Options,
    progress: &dyn Progress,
) -> Result<Finished, EngineError> {
    let mut claim = runtime
        .claim(&options.lab, &options.scenario_file)
        .map_err(|error| match error {
            constel_host::Error::Conflict(reason) => EngineError::Taken(reason),
            other => other.into(),
        })?;
    // What is unwound drops what it holds: nodes, interfaces, threads. Nothing of it is looked at again.
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        session(lab, driver, options, &mut claim, ground, progress)
    }));
    // Whatever came of it: nothing of ours stays.
    let swept = sweep(&options.lab, &runtime.globals());
    let released = claim.release();
    drop(runtime.remove_if_empty());
    options.events.close();
    let finished = outcome.unwrap_or_else(|panic| resume_unwind(panic))?;
    swept?;
    released?;
    Ok(finished)
}
