//! Routing daemons in the nodes: configured, started, watched.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use constel_host::process::Supervisor;
use constel_observe::results::Results;
use constel_routing::bird;
use constel_scenario::model::Ospf;
use constel_topology::{NodeId, NodeKind};

use crate::error::EngineError;
use crate::launcher::Launcher;
use crate::progress::Stage;
use crate::usage::{self, DaemonsRow, Usage};
use crate::wiring::Wiring;

/// Programs needed, as (program, Debian package).
pub(crate) const PROGRAMS: &[(&str, &str)] = &[("bird", "bird2")];

/// Seconds until OSPF sends an unacknowledged packet again: longer than any link's round trip (a GSL of
/// 3,000 km takes 20 ms there and back), shorter than a hello would be noticed missing.
const RETRANSMIT_S: u16 = 2;

/// Every ISL costs the same: OSPF then takes the fewest hops.
const ISL_COST: u16 = 10;

/// High enough that no path leads through a station.
const GSL_COST: u16 = 1000;

/// The daemons of a lab.
pub(crate) struct Daemons {
    running: Supervisor<NodeId>,
}

/// A daemon that ended by itself.
pub(crate) struct Death {
    pub(crate) node: String,
    pub(crate) how: String,
}

impl Daemons {
    /// No daemons at all.
    pub(crate) fn none() -> Self {
        Self {
            running: Supervisor::new(),
        }
    }

    /// Configures and starts BIRD in every node. `horizon_steps` is how far ahead stations know which
    /// satellites they will use.
    ///
    /// # Errors
    /// When a configuration cannot be written or a daemon cannot be started.
    pub(crate) fn start(
        wiring: &Wiring,
        launcher: &Launcher,
        ospf: Ospf,
        horizon_steps: u64,
        results: &Results,
        stage: &Stage<'_>,
    ) -> Result<Self, EngineError> {
        let spec = bird::OspfSpec {
            hello_s: ospf.hello_s,
            dead_s: ospf.dead_s,
            retransmit_s: RETRANSMIT_S,
            tick_s: 1,
            isl_cost: ISL_COST,
            gsl_cost: GSL_COST,
            ipv4: wiring.families.ipv4,
            ipv6: wiring.families.ipv6,
        };
        let layout = &wiring.lab.layout;
        let serving = bird::serving_within(&mut wiring.lab.stepper(), 0, horizon_steps);
        let logs = logs_folder(results);
        make(&logs)?;
        let mut running = Supervisor::new();
        let mut stations = serving.into_iter();
        for node in layout.nodes() {
            let neighbours = match node.kind {
                NodeKind::Ground => stations.next().unwrap_or_default(),
                NodeKind::Satellite => BTreeSet::new(),
            };
            let dir = launcher.lab_dir.join("nodes").join(&node.name);
            make(&dir)?;
            let log = logs.join(format!("{}.log", node.name));
            let text =
                bird::configuration(layout, &wiring.addresses, &spec, node.id, &neighbours, &log)
                    .map_err(EngineError::Bird)?;
            let file = dir.join("bird.conf");
            fs::write(&file, text).map_err(|source| EngineError::Io {
                what: format!("write {}", file.display()),
                source,
            })?;
            let mut argv = vec!["bird".to_owned()];
            argv.extend(
                bird::arguments(&file, &dir.join("bird.ctl"))
                    .into_iter()
                    .map(|word| word.to_string_lossy().into_owned()),
            );
            // What it says before it has read where to log.
            let early = dir.join("bird.out");
            let child = launcher.start(node.id, &argv, &early, &early, Vec::new())?;
            running.add(node.id, child);
            stage.reach(u64::from(node.id.0) + 1);
        }
        Ok(Self { running })
    }

    /// Daemons that have ended since the last look; waits at most `timeout` for one.
    ///
    /// # Errors
    /// When they cannot be waited for.
    pub(crate) fn deaths(
        &mut self,
        wiring: &Wiring,
        timeout: Duration,
    ) -> Result<Vec<Death>, EngineError> {
        if self.running.is_empty() {
            return Ok(Vec::new());
        }
        let gone = self.running.wait(timeout)?;
        let death = |gone: constel_host::process::Exited<NodeId>| Death {
            node: wiring.lab.layout.node(gone.key).name.clone(),
            how: crate::traffic::exit_words(gone.exit),
        };
        Ok(gone.into_iter().map(death).collect())
    }

    /// What those that run have cost so far; `None` when none runs.
    ///
    /// # Errors
    /// When `/proc` cannot be understood.
    pub(crate) fn usage(&self, when: &'static str) -> Result<Option<DaemonsRow>, EngineError> {
        let mut usages = Vec::with_capacity(self.running.len());
        for (_, child) in self.running.iter() {
            let usage = Usage::of(child.pid()).map_err(|source| EngineError::Io {
                what: "read what a daemon has used".to_owned(),
                source,
            })?;
            usages.extend(usage);
        }
        Ok(usage::row(when, &usages))
    }

    /// How many run.
    pub(crate) fn count(&self) -> usize {
        self.running.len()
    }

    /// Ends all.
    ///
    /// # Errors
    /// When one does not end.
    pub(crate) fn stop(mut self) -> Result<(), EngineError> {
        // Their routes go with their namespaces: nothing is gained by letting them withdraw.
        self.running.terminate_all(Duration::ZERO)?;
        Ok(())
    }
}

/// Where daemons write their logs.
pub(crate) fn logs_folder(results: &Results) -> PathBuf {
    results.dir().join("daemons")
}

fn make(dir: &Path) -> Result<(), EngineError> {
    fs::create_dir_all(dir).map_err(|source| EngineError::Io {
        what: format!("make {}", dir.display()),
        source,
    })
}
