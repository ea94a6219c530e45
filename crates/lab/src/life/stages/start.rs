//! The stages from a fabric to lab time zero: edges, daemons, containers, routes, helpers, servers, and the other
//! machines.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use constel_api::EventData;
use constel_api::answers::LabState as ApiState;
use constel_host::claim::{LabState, RuntimeDir};
use constel_host::rcu::Expedited;
use constel_plan::Planner;
use constel_scenario::model::ClockHold;

use super::run::lab_time_of;
use super::{Context, Stages};
use crate::error::EngineError;
use crate::information::Informant;
use crate::life::bring_up::Fabric;
use crate::life::together::PartReady;
use crate::nodes::containers::Containers;
use crate::progress::Stage;
use crate::routing::daemons::logs_folder;
use crate::routing::limit::Limit;
use crate::routing::machine::Machine;
use crate::routing::steps::Steps;
use crate::traffic::Traffic;
use crate::traffic::helpers::Helpers;
use crate::watch::summary::{ControlRow, Convergence};

/// How often it is checked whether a policy has joined.
const POLICY_LOOK: Duration = Duration::from_millis(10);

/// A day, nanoseconds.
const DAY_NS: u64 = 86_400_000_000_000;

impl Stages<'_> {
    /// Creates the edges of lab time zero and, if Constel computes them, its routes.
    pub(super) fn edges(&mut self) -> Result<Steps<Machine>, EngineError> {
        let Context {
            options,
            claim,
            clock,
            view,
            information,
            ..
        } = &mut self.context;
        let fabric = self.fabric;
        // Nodes get their files before the first edge exists.
        let informant = information.as_deref().map(|folder| {
            let together = options.together.as_ref();
            let lab = together.map_or(&fabric.launcher.lab, |together| &together.lab);
            let nodes = (&fabric.blueprint, &*fabric.kernels.ours());
            Informant::start(nodes, lab, folder, clock, &view.failed)
        });
        let informant = informant.transpose()?.flatten().map(Arc::new);
        view.change(|live| live.informant.clone_from(&informant));
        let (kernels, links) = (Arc::clone(&fabric.kernels), Arc::clone(&fabric.handle));
        // Absent members are removed before the first frame.
        view.begin_away(&fabric.blueprint, links.as_ref())?;
        let machine = Machine::new(kernels, links, informant.clone());
        let planner = Planner::new(Arc::clone(&fabric.blueprint));
        let failed = Arc::clone(&view.failed);
        let mut steps = Steps::new(planner, machine, Arc::clone(clock), failed);
        let begun = Instant::now();
        // The fingerprint proves that all machines planned the same, and a replay what a live policy had decided.
        if options.together.is_some() || options.await_policy || fabric.blueprint.lab.has_choices()
        {
            steps.keep_fingerprint();
        }
        steps.begin_held()?;
        if let Some(informant) = &informant {
            informant.begin(steps.current());
        }
        self.times.edges_s = begun.elapsed().as_secs_f64();
        let edges = steps.current().edges.len();
        view.change(|live| {
            live.snapshot = Some(Arc::clone(steps.current()));
            live.blueprint = Some(Arc::clone(&fabric.blueprint));
        });
        let flows = options.flows(&fabric.blueprint.lab.scenario);
        view.steering.begin(&fabric.blueprint, flows);
        claim.update(|record| {
            record.nodes = fabric.kernels.count() as u64;
            record.edges = edges as u64;
        })?;
        self.context.log.emit(None, EventData::EdgesUp { edges });
        Ok(steps)
    }

    /// Returns the time limit for routes, if the scenario holds the clock for them; `since` is when the edges came
    /// up.
    pub(super) fn limit(&self, since: Instant) -> Option<Limit> {
        let scenario = &self.fabric.blueprint.lab.scenario;
        // On several machines, each has installed the computed routes before it reports that it is ready.
        let waits = self.context.options.together.is_none() || self.router.daemons().is_some();
        let hold = waits && scenario.clock_hold == ClockHold::UntilRoutesConverge;
        let within = self.router.routes_within().filter(|_| hold)?;
        Some(Limit {
            since,
            within,
            logs: logs_folder(self.context.results),
        })
    }

    pub(super) fn start_daemons(&mut self, limit: Option<&Limit>) -> Result<(), EngineError> {
        let Some(routing) = self.router.daemons() else {
            return Ok(());
        };
        let Context {
            claim,
            log,
            options,
            progress,
            results,
            ..
        } = &self.context;
        let blueprint = &self.fabric.blueprint;
        let ours = self.fabric.kernels.ours();
        let count = self.router.processes(&blueprint.lab, &ours);
        let stage = Stage::begin(*progress, "daemons", count as u64);
        let begun = Instant::now();
        // The satellites of stations are determined for the whole lab, in whole steps. In the first day of a lab without an
        // end, a station uses almost all that it ever can.
        let horizon_ns = options.duration_ns.unwrap_or(DAY_NS);
        let horizon = horizon_ns.div_ceil(blueprint.lab.step_ns());
        let watched = (&stage, options.stop.as_ref(), limit);
        // Moving a process into a cgroup2 waits for an RCU grace period, and every fork on the host waits with it.
        let expedited = Expedited::hold(&RuntimeDir::default().globals(), &claim.owner())?;
        let launcher = &self.fabric.launcher;
        self.daemons
            .start(blueprint, launcher, routing, horizon, results, watched)?;
        expedited.finish()?;
        self.times.daemons_s = begun.elapsed().as_secs_f64();
        self.times.daemons_held_back_s = self.daemons.held_back_s();
        stage.end(&self.router.words().unwrap_or_default());
        let count = self.daemons.count();
        log.emit(None, EventData::DaemonsStarted { count });
        Ok(())
    }

    /// Waits for routes if the scenario holds the clock until they have converged.
    pub(super) fn wait_for_routes(
        &mut self,
        steps: &Steps<Machine>,
        limit: Option<&Limit>,
    ) -> Result<Convergence, EngineError> {
        let Some(limit) = limit else {
            return Ok(Convergence::default());
        };
        let by_daemons = self.daemons.count() > 0;
        let nodes = by_daemons.then_some(self.converged);
        let lab_time = lab_time_of(&self.context, self.fabric, (self.helpers, self.containers));
        let (standing, _) = lab_time.wait_for_routes(steps, self.daemons, nodes, limit)?;
        let took = limit.since.elapsed().as_secs_f64();
        // Constel's own routes cause no control traffic on the links.
        let convergence = Convergence {
            first_s: Some(took),
            pairs: standing.pairs,
            control: if by_daemons {
                control(self.fabric)?
            } else {
                None
            },
        };
        self.context.log.emit(
            None,
            EventData::RoutesConverged {
                pairs: standing.pairs,
                after_s: Some(took),
            },
        );
        Ok(convergence)
    }

    /// Starts the programs of container nodes. Ports, addresses and computed routes exist by then.
    pub(super) fn start_containers(&mut self) -> Result<(), EngineError> {
        let launcher = &self.fabric.launcher;
        let planned = Containers::planned(launcher);
        if planned == 0 {
            return Ok(());
        }
        let Context {
            claim,
            log,
            options,
            progress,
            results,
            ..
        } = &self.context;
        let stage = Stage::begin(*progress, "containers", planned as u64);
        let begun = Instant::now();
        // As for daemons.
        let expedited = Expedited::hold(&RuntimeDir::default().globals(), &claim.owner())?;
        let watched = (&stage, options.stop.as_ref());
        let mut containers = self.containers.borrow_mut();
        containers.boot(launcher, results.dir(), watched)?;
        expedited.finish()?;
        self.times.containers_s = begun.elapsed().as_secs_f64();
        stage.end(&format!("{:.2} s", self.times.containers_s));
        log.emit(None, EventData::ContainersStarted { count: planned });
        Ok(())
    }

    pub(super) fn start_helpers(&mut self) -> Result<(), EngineError> {
        let ours = self.fabric.kernels.ours();
        let planned = Helpers::planned(&self.fabric.blueprint, &ours);
        if planned == 0 {
            return Ok(());
        }
        let stage = Stage::begin(self.context.progress, "transport", planned as u64);
        let Fabric {
            blueprint,
            launcher,
            ..
        } = self.fabric;
        let started = Helpers::start(blueprint, launcher, self.context.results, &stage)?;
        *self.helpers.borrow_mut() = started;
        stage.end("");
        self.context
            .log
            .emit(None, EventData::HelpersStarted { count: planned });
        Ok(())
    }

    /// Plans the flows and starts their servers.
    pub(super) fn start_traffic(&self) -> Result<Traffic, EngineError> {
        let flows = &self.fabric.blueprint.lab.scenario;
        let flows = self.context.options.flows(flows);
        let launcher = Arc::clone(&self.fabric.launcher);
        let dir = launcher.lab_dir.clone();
        let results = self.context.results;
        let mut traffic = Traffic::plan(
            &self.fabric.blueprint,
            flows,
            &dir,
            results,
            (launcher, &self.context.view.nodes),
        )?;
        traffic.start_servers()?;
        Ok(traffic)
    }

    /// Waits until the parts of all other machines are ready, if there are any. Returns the instant of lab time
    /// zero for all.
    pub(super) fn wait_for_machines(
        &self,
        steps: &Steps<Machine>,
    ) -> Result<Option<u64>, EngineError> {
        let options = self.context.options;
        let Some(together) = &options.together else {
            return Ok(None);
        };
        let part = PartReady {
            nodes: self.fabric.kernels.count(),
            plan: steps
                .fingerprint()
                .map(|plans| plans.hash)
                .unwrap_or_default(),
            images: self.fabric.launcher.images.ids(),
        };
        let stage = Stage::begin(self.context.progress, "other machines", 1);
        let zero_ns = together.gate.standing(&part, &options.stop)?;
        stage.end("");
        Ok(Some(zero_ns))
    }

    /// Reports that the lab is up, unless it was stopped.
    pub(super) fn running(&mut self) -> Result<(), EngineError> {
        let Context {
            options,
            claim,
            log,
            view,
            started,
            ..
        } = &mut self.context;
        if options.stop.load(Ordering::Acquire) {
            return Err(EngineError::Interrupted);
        }
        let bring_up_s = started.elapsed().as_secs_f64();
        self.times.bring_up_s = bring_up_s;
        // Lateness during bring-up does not affect measurements from here on.
        self.fabric.handle.clear_lateness()?;
        claim.update(|record| record.state = LabState::Running)?;
        view.change(|live| live.state = ApiState::Running);
        log.emit(None, EventData::Running { bring_up_s });
        Ok(())
    }
}

/// Returns the sum of the traffic on all edges up to now.
fn control(fabric: &Fabric) -> Result<Option<ControlRow>, EngineError> {
    let edges: Vec<(u64, u64)> = fabric
        .handle
        .all_edges()?
        .iter()
        .map(|edge| (edge.counters.offered, edge.counters.offered_bytes))
        .collect();
    Ok(ControlRow::of(&edges))
}

/// The time that a live policy has to join, if lab time waits for it.
const POLICY_WITHIN: Duration = Duration::from_secs(60);

impl Stages<'_> {
    /// Waits until a live policy has joined, if the run is to begin with one.
    ///
    /// # Errors
    /// [`EngineError::NoPolicy`] after the limit; [`EngineError::Interrupted`].
    pub(super) fn wait_for_policy(&self) -> Result<(), EngineError> {
        let Context {
            options,
            view,
            progress,
            ..
        } = &self.context;
        if !options.await_policy {
            return Ok(());
        }
        let stage = Stage::begin(*progress, "live policy", 1);
        let began = Instant::now();
        while view.policy.seat().is_none() {
            if options.stop.load(Ordering::Acquire) {
                return Err(EngineError::Interrupted);
            }
            if began.elapsed() > POLICY_WITHIN {
                return Err(EngineError::NoPolicy {
                    limit_s: POLICY_WITHIN.as_secs(),
                });
            }
            std::thread::sleep(POLICY_LOOK);
        }
        stage.end("");
        Ok(())
    }
}
