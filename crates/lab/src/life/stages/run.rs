//! Lab time, and everything that runs in parallel to it.

use std::cell::RefCell;
use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

use constel_host::threads::result_of;
use constel_measure::results::Results;

use super::{Context, SetOnDrop, Stages};
use crate::answers::steering::Steering;
use crate::error::EngineError;
use crate::life::bring_up::Fabric;
use crate::life::lab_time::LabTime;
use crate::life::moving::NodeCreator;
use crate::life::observed::Observed;
use crate::nodes::containers::Containers;
use crate::policy::Decisions;
use crate::routing::machine::Machine;
use crate::routing::steps::Steps;
use crate::traffic::helpers::Helpers;
use crate::traffic::late::Late;
use crate::traffic::{self, Traffic};
use crate::watch::path_rows::{self, PathRows};
use crate::watch::paths::Paths;
use crate::watch::sampling::Sampler;
use crate::watch::stood::{Notes, OUTCOMES_FILE};

impl Stages<'_> {
    /// Runs lab time, with the traffic in parallel.
    pub(super) fn lab_time(
        &mut self,
        steps: &mut Steps<Machine>,
        traffic: Traffic,
        zero_ns: Option<u64>,
    ) -> Result<(Observed, traffic::Ran), EngineError> {
        let Context {
            options,
            log,
            clock,
            end_ns,
            ..
        } = self.context;
        let mut paths = traffic.followed();
        paths.rows = paths_file(&paths, self.context.results)?;
        let seen = Observed::begin(paths, !self.fabric.kernels.knows_all_ways());
        let notes = self.notes()?;
        let scenario = &self.fabric.blueprint.lab.scenario;
        // A profile requested by the user replaces the scenario's sampling.
        let profile = options.profile_hz.map(|hz| scenario.profile(hz));
        let sampler = profile
            .as_ref()
            .or(scenario.sampling.as_ref())
            .map(|wanted| {
                let (kernels, links) = (&self.fabric.kernels, &self.fabric.handle);
                let groups = &self.fabric.launcher.cgroups;
                let results = self.context.results.dir();
                Sampler::begin(wanted, kernels, groups, links, results)
            })
            .transpose()?;
        let mut lab_time = lab_time_of(&self.context, self.fabric, (self.helpers, self.containers));
        let owner = self.context.claim.owner();
        let claim = RefCell::new(&mut *self.context.claim);
        let count = |nodes: usize| -> Result<(), EngineError> {
            let counted = claim
                .borrow_mut()
                .update(|record| record.nodes = nodes as u64);
            Ok(counted?)
        };
        lab_time.count = Some(&count);
        let (fabric, progress) = (self.fabric, self.context.progress);
        let ports = self.context.ports;
        let late = Late {
            flows: options.flows(scenario),
            launcher: &fabric.launcher,
            by_hand: &self.context.view.nodes,
            results: self.context.results,
            clock,
            log,
        };
        let (over, quiet) = (AtomicBool::new(false), AtomicBool::new(false));
        let quiet = &quiet;
        let daemons = &mut *self.daemons;
        let (seen, ended) = std::thread::scope(|scope| {
            let stop = || over.load(Ordering::Acquire) || options.stop.load(Ordering::Acquire);
            let traffic = scope.spawn(move || traffic.run(clock, log, stop));
            let sampler = sampler.map(|sampler| scope.spawn(move || sampler.run(clock, quiet)));
            let (kernels, view, over) = (&self.fabric.kernels, &self.context.view, &over);
            let looks =
                notes.map(|notes| scope.spawn(move || notes.watch(kernels, view, clock, over)));
            let (flows, coming) = channel();
            let (added, adding) = channel();
            self.context.view.steering.open(added);
            lab_time.moving = options.together.as_ref().and_then(|together| {
                NodeCreator::begin(scope, fabric, ports, together, (owner, progress), flows)
            });
            let added = scope.spawn(move || late.run_added(adding, stop));
            let late = scope.spawn(move || late.run(coming, stop));
            // The thread of added flows ends with this, however lab time ends, also by a panic.
            let closing = CloseOnDrop(&self.context.view.steering);
            // The traffic ends with lab time, however that ends, also by a panic.
            let ending = SetOnDrop(over);
            // Sampling ends after the traffic, so that its last frames are included.
            let settled = SetOnDrop(quiet);
            let mut seen = lab_time.run(steps, daemons, (zero_ns, end_ns), seen);
            // Dropping it closes the channels of the threads that create nodes and run late flows, so that they
            // end.
            drop(lab_time);
            drop(closing);
            drop(ending);
            let ended = result_of(traffic);
            let mut late = result_of(late);
            late.add(result_of(added));
            drop(settled);
            let sampled = sampler.map_or(Ok(()), result_of);
            let looked = looks.map_or(Ok(()), result_of);
            // Failures of the parallel threads make the run untrustworthy, but do not discard its results.
            if let Ok(seen) = &mut seen {
                late.failures
                    .into_iter()
                    .for_each(|failure| seen.fail(failure));
            }
            let ended = ended.map(|mut ran| {
                ran.jobs.extend(late.jobs);
                ran
            });
            if let (Ok(seen), Err(error)) = (&mut seen, sampled) {
                seen.fail(format!("the samples are not complete: {error}"));
            }
            if let (Ok(seen), Err(error)) = (&mut seen, looked) {
                seen.fail(format!("{OUTCOMES_FILE} is not complete: {error}"));
            }
            (seen, ended)
        });
        Ok((seen?, ended?))
    }

    /// Opens the file of packet outcomes on this machine, if other machines have parts of the paths.
    fn notes(&self) -> Result<Option<Notes>, EngineError> {
        if self.fabric.kernels.knows_all_ways() {
            return Ok(None);
        }
        let file = File::create_new(self.context.results.dir().join(OUTCOMES_FILE));
        let file = file.map_err(|source| EngineError::Io {
            what: format!("make {OUTCOMES_FILE}"),
            source,
        })?;
        Ok(Some(Notes::begin(file)))
    }
}

/// Closes the way for added flows when it is dropped.
struct CloseOnDrop<'a>(&'a Steering);

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Opens `paths.csv`, if there are flows to follow.
pub(crate) fn paths_file(
    paths: &Paths,
    results: &Results,
) -> Result<Option<PathRows>, EngineError> {
    if paths.flows.is_empty() {
        return Ok(None);
    }
    let file = results
        .paths(path_rows::HEADER)
        .map_err(|source| EngineError::Io {
            what: "make paths.csv".to_owned(),
            source,
        })?;
    Ok(Some(PathRows::begin(file)))
}

pub(super) fn lab_time_of<'a>(
    context: &Context<'a>,
    fabric: &'a Fabric,
    (helpers, containers): (&'a RefCell<Helpers>, &'a RefCell<Containers>),
) -> LabTime<'a> {
    LabTime {
        fabric,
        clock: context.clock,
        log: context.log,
        view: context.view,
        stop: &context.options.stop,
        progress: context.progress,
        helpers,
        containers,
        decisions: RefCell::new(Decisions::new(context.results.dir())),
        ports: context.ports,
        results: context.results,
        moving: None,
        count: None,
    }
}
