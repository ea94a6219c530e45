//! Routing daemons in the nodes: configured, started, supervised, restarted.

mod backoff;
mod crew;
mod waves;

pub(crate) use backoff::Backoff;
pub(crate) use crew::{BIRD_FOLDER, FRR_FOLDERS};

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use constel_api::summary::DaemonsRow;
use constel_host::process::Supervisor;
use constel_measure::results::Results;
use constel_plan::{daemon_spec, daemon_templates};
use constel_routing::daemons::{Served, Templates, contexts, serving_within};
use constel_scenario::model::{DaemonRouting, Restart};
use constel_topology::{Access, NodeId};

use crate::error::EngineError;
use crate::nodes::launcher::Launcher;
use crate::progress::Stage;
use crate::routing::limit::Limit;
use crate::routing::start::StartControl;
use crate::routing::usage::{self, Usage};
use constel_plan::Blueprint;
use crew::{Crew, Key};
use waves::{Waves, processors};

/// The time within which a daemon that others of its node need must listen.
const LISTENS_WITHIN: Duration = Duration::from_secs(60);

/// How often this is checked.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The daemons of a lab.
pub(crate) struct Daemons {
    running: Supervisor<Key>,
    since: BTreeMap<Key, Instant>,
    /// The configured daemons; `None` without any.
    crew: Option<Crew>,
    restart: Option<Restart>,
    backoffs: BTreeMap<Key, Backoff>,
    /// The instant at which an ended daemon is restarted.
    due: BTreeMap<Key, Instant>,
    /// The daemons that Constel ended because they depend on another one.
    ended_by_us: BTreeSet<Key>,
    /// The time for which starts were delayed because the machine was busy, seconds.
    held_back_s: f64,
    /// Daemons of nodes that users have stopped.
    halted: BTreeSet<Key>,
}

/// An incident of a daemon.
pub(crate) struct Incident {
    pub(crate) node: String,
    pub(crate) program: &'static str,
    pub(crate) what: DaemonIncident,
}

/// The kind of incident.
pub(crate) enum DaemonIncident {
    /// It ended by itself, or another process ended it.
    Died {
        how: String,
        /// The delay until the restart; `None` without one.
        again_in: Option<Duration>,
    },
    Restarted,
}

impl Daemons {
    /// Creates the state without any daemons.
    pub(crate) fn none() -> Self {
        Self {
            running: Supervisor::new(),
            since: BTreeMap::new(),
            crew: None,
            restart: None,
            backoffs: BTreeMap::new(),
            due: BTreeMap::new(),
            ended_by_us: BTreeSet::new(),
            held_back_s: 0.0,
            halted: BTreeSet::new(),
        }
    }

    /// Configures and starts the daemons of every node on this machine. `horizon_steps` is the number of steps for
    /// which the satellites of stations are determined in advance. After a failure, [`Daemons::stop`] ends those
    /// that were started.
    ///
    /// # Errors
    /// When a configuration cannot be written or a daemon cannot be started; [`EngineError::NoRoutes`] after `limit`.
    pub(crate) fn start(
        &mut self,
        blueprint: &Blueprint,
        launcher: &Arc<Launcher>,
        routing: &DaemonRouting,
        horizon_steps: u64,
        results: &Results,
        (stage, stopped, limit): (&Stage<'_>, &AtomicBool, Option<&Limit>),
    ) -> Result<(), EngineError> {
        let spec = daemon_spec(&blueprint.lab, routing);
        let templates = daemon_templates(routing)
            .map_err(|error| EngineError::Configuration(error.to_string()))?;
        let crew = Crew::new(launcher, &spec, routing.kernel_events, logs_folder(results))?;
        self.restart = routing.restart;
        let layout = &blueprint.lab.layout;
        // The computation of all future satellites may take long for a long lab, so that it can be cancelled.
        let wanted = || !stopped.load(Ordering::Acquire);
        let serving = serving_within(&mut blueprint.lab.stepper(), horizon_steps, &wanted)
            .map_err(|_| EngineError::Interrupted)?;
        let spec = spec.with_uplinks(layout, &serving);
        let mut stations = serving.into_iter();
        let mut keys: Vec<Key> = Vec::new();
        let ours = launcher.kernels.ours();
        // The iterator of stations advances for every node, also for those of other machines.
        for node in layout.nodes() {
            let satellites = match node.class.access {
                Access::Chooses => stations.next().unwrap_or_default(),
                Access::Serves | Access::None => Served::new(),
            };
            if !ours.has(node.id) {
                continue;
            }
            let contexts = contexts(
                layout,
                &blueprint.addresses,
                &spec,
                blueprint.areas.as_ref(),
                node.id,
                &satellites,
            )
            .map_err(|errors| {
                let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
                EngineError::Configuration(all.join("; "))
            })?;
            let mut files = Vec::with_capacity(contexts.len());
            for context in &contexts {
                files.push((context.program, fill(&templates, context)?));
            }
            let placed = crew.write(node.id, &files)?;
            keys.extend(placed.into_iter().map(|place| (node.id, place)));
        }
        let control = StartControl::new(
            routing.start.load,
            u32::try_from(processors()).unwrap_or(u32::MAX),
            routing.start.pace.ns() as f64 / 1e9,
            routing.start.memory.bytes(),
        );
        let crew = &*self.crew.insert(crew);
        let waves = Waves::new(control, stage, stopped, limit);
        let mut outcome = Ok(());
        // First the daemons that others need, in all nodes: they initialise while their companions are started.
        for first in [true, false] {
            let wave: Vec<Key> = keys
                .iter()
                .copied()
                .filter(|key| crew.programs[key.1].first == first)
                .collect();
            outcome = outcome.and_then(|()| {
                waves.start(&wave, |key| {
                    wait_until_ready(crew, key, &layout.node(key.0).name, results)?;
                    crew.start(key)
                })
            });
        }
        self.held_back_s = waves.held_back_s();
        // Daemons that were started before an error are included, so that they are ended.
        for (key, child, at) in waves.started() {
            self.running.add(key, child);
            self.since.insert(key, at);
        }
        outcome
    }

    /// Returns the time for which starts were delayed because the machine was busy, seconds.
    pub(crate) fn held_back_s(&self) -> f64 {
        self.held_back_s
    }

    /// Returns the incidents since the last call, waiting at most `timeout` for a daemon to end. Restarts the
    /// daemons that are due.
    ///
    /// # Errors
    /// When they cannot be waited for, or one cannot be restarted.
    pub(crate) fn watch(
        &mut self,
        blueprint: &Blueprint,
        timeout: Duration,
    ) -> Result<Vec<Incident>, EngineError> {
        let mut incidents = Vec::new();
        if !self.running.is_empty() {
            for gone in self.running.wait(timeout)? {
                if let Some(incident) = self.died(blueprint, gone.key, gone.exit)? {
                    incidents.push(incident);
                }
            }
        }
        let now = Instant::now();
        let due: Vec<Key> = self
            .due
            .iter()
            .filter(|(key, at)| **at <= now && self.running.get(key).is_none())
            .map(|(key, _)| *key)
            .collect();
        for key in due {
            // A daemon that is not ready stays due until the one it needs listens.
            let Some(crew) = &self.crew else { break };
            if !crew.ready(key) {
                continue;
            }
            self.due.remove(&key);
            self.running.add(key, crew.start(key)?);
            self.since.insert(key, Instant::now());
            incidents.push(Incident {
                node: blueprint.lab.layout.node(key.0).name.clone(),
                program: crew.programs[key.1].name,
                what: DaemonIncident::Restarted,
            });
        }
        Ok(incidents)
    }

    /// Records an end, and sets the time of the restart.
    fn died(
        &mut self,
        blueprint: &Blueprint,
        key: Key,
        exit: constel_host::process::Exit,
    ) -> Result<Option<Incident>, EngineError> {
        let Some(crew) = &self.crew else {
            return Ok(None);
        };
        let program = crew.programs[key.1];
        let ran = self
            .since
            .get(&key)
            .map_or(Duration::ZERO, Instant::elapsed);
        // An end that Constel caused is no incident, and its restart is already scheduled.
        let by_us = self.ended_by_us.remove(&key);
        let again_in = self.restart.filter(|_| !by_us).map(|rule| {
            let backoff = self.backoffs.entry(key).or_insert(Backoff::new(rule));
            backoff.ended(rule, ran)
        });
        if let Some(wait) = again_in {
            self.due.insert(key, Instant::now() + wait);
            if program.first {
                // The other daemons of the node are restarted with it, because they do not reconnect.
                for place in (0..crew.programs.len()).filter(|place| *place != key.1) {
                    let other = (key.0, place);
                    if let Some(child) = self.running.get(&other) {
                        child.signal(rustix::process::Signal::KILL)?;
                        self.ended_by_us.insert(other);
                        self.due.insert(other, Instant::now() + wait);
                    }
                }
            }
        }
        Ok((!by_us).then(|| Incident {
            node: blueprint.lab.layout.node(key.0).name.clone(),
            program: program.name,
            what: DaemonIncident::Died {
                how: crate::traffic::exit_words(exit),
                again_in,
            },
        }))
    }

    /// Kills the daemons of a node that a user stops. These daemons are not restarted, and their end is no incident.
    ///
    /// # Errors
    /// When one cannot be signalled.
    pub(crate) fn halt(&mut self, node: NodeId) -> Result<(), EngineError> {
        let waiting = self.due.keys().copied().filter(|key| key.0 == node);
        self.halted.extend(waiting.collect::<Vec<_>>());
        self.due.retain(|key, _| key.0 != node);
        for (key, child) in self.running.iter().filter(|(key, _)| key.0 == node) {
            child.signal(rustix::process::Signal::KILL)?;
            self.ended_by_us.insert(*key);
            self.halted.insert(*key);
        }
        Ok(())
    }

    /// Has the daemons of a stopped node start again.
    pub(crate) fn begin(&mut self, node: NodeId) {
        let of_node = |key: &Key| key.0 == node;
        let keys: Vec<Key> = self.halted.iter().copied().filter(of_node).collect();
        for key in keys {
            self.halted.remove(&key);
            self.due.insert(key, Instant::now());
        }
    }

    /// Returns the resource usage of the running daemons so far, by program; empty when none runs.
    ///
    /// # Errors
    /// When `/proc` has an unexpected format.
    pub(crate) fn usage(&self, when: &'static str) -> Result<Vec<DaemonsRow>, EngineError> {
        let Some(crew) = &self.crew else {
            return Ok(Vec::new());
        };
        let mut rows = Vec::new();
        // Rows are per program, because a node may run several.
        for (place, program) in crew.programs.iter().enumerate() {
            let mut usages = Vec::new();
            for (_, child) in self.running.iter().filter(|((_, p), _)| *p == place) {
                let usage = Usage::of(child.pid()).map_err(|source| EngineError::Io {
                    what: "read what a daemon has used".to_owned(),
                    source,
                })?;
                usages.extend(usage);
            }
            rows.extend(usage::row(when, program.name, &usages));
        }
        Ok(rows)
    }

    /// Returns the number of running daemons.
    pub(crate) fn count(&self) -> usize {
        self.running.len()
    }

    /// Ends all daemons.
    ///
    /// # Errors
    /// When one does not end.
    pub(crate) fn stop(mut self, launcher: &Launcher) -> Result<(), EngineError> {
        // The routes of the daemons disappear with the namespaces, so that a graceful end is not needed.
        self.running
            .terminate_all(Duration::ZERO, || launcher.cgroups.thaw())?;
        Ok(())
    }
}

/// Waits until the daemon that this one needs listens.
fn wait_until_ready(
    crew: &Crew,
    key: Key,
    node: &str,
    results: &Results,
) -> Result<(), EngineError> {
    let limit = Instant::now() + LISTENS_WITHIN;
    while !crew.ready(key) {
        if Instant::now() > limit {
            return Err(EngineError::Configuration(format!(
                "the first daemon of {node} does not listen; see {}",
                logs_folder(results).display()
            )));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

fn fill(
    templates: &Templates,
    context: &constel_routing::daemons::Context,
) -> Result<String, EngineError> {
    templates.render(context).map_err(|error| {
        EngineError::Configuration(format!(
            "{error} (filled for {} of node {})",
            context.program, context.node.name
        ))
    })
}

/// Returns the folder of the daemons' logs.
pub(crate) fn logs_folder(results: &Results) -> PathBuf {
    results.dir().join("daemons")
}
