//! One run, from the claim of the lab's name to its release.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use std::path::Path;

use constel_drivers::Chosen;
use constel_host::claim::RuntimeDir;
use constel_plan::{Lab, LocalNodes};

use crate::error::EngineError;
use crate::life::attached::usable;
use crate::life::options::{Finished, Options};
use crate::life::preflight::{choose, may_be_on_several, preflight};
use crate::life::room::fitting;
use crate::life::session::session;
use crate::life::site::{Ground, KernelSite, Site};
use crate::life::sweep::sweep;
use crate::life::together::ClusterPart;
use crate::nodes::images::Images;
use crate::progress::Progress;

/// Runs a lab in the foreground.
///
/// # Errors
/// The reason why it could not run; everything created until then has been removed.
///
/// # Panics
/// When a part of it panics, but only after the host is restored.
pub fn run(lab: Lab, options: &Options, progress: &dyn Progress) -> Result<Finished, EngineError> {
    preflight(&lab, options.traffic)?;
    let driver = choose(&lab)?;
    usable(&lab)?;
    if options.together.is_some() {
        may_be_on_several(&lab)?;
    } else if !options.anyway {
        fitting(&lab, options.traffic, progress)?;
    }
    // The images are released again: this call only reports missing ones before anything is created.
    let beside = Path::new(&options.scenario_file).parent();
    let ours = options.together.as_ref();
    let ours = ours.map_or_else(LocalNodes::all, ClusterPart::ours);
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

/// Runs a lab on another site, with its name claimed in `runtime`.
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
    // Unwinding drops all resources: nodes, interfaces, threads. No broken state is used after it.
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        session(lab, driver, options, &mut claim, ground, progress)
    }));
    // Everything of the lab is removed, whatever the outcome.
    let swept = sweep(&options.lab, &runtime.globals());
    let released = claim.release();
    drop(runtime.remove_if_empty());
    options.events.close();
    // The first error is the cause; an error of the sweep is reported only if the run itself succeeded.
    let finished = outcome.unwrap_or_else(|panic| resume_unwind(panic))?;
    swept?;
    released?;
    Ok(finished)
}
