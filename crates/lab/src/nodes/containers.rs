//! The programs of container nodes: started, supervised and restarted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::fchown;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use constel_host::node_file::{self, OpenMode};
use constel_host::process::{Child, Exit, Supervisor};
use constel_host::threads::results_of;
use constel_measure::verdict::SoftwareFailure;
use constel_scenario::model::{Container, Restart, RestartPolicy, StatePlace};
use constel_topology::NodeId;
use constel_units::TimeSpan;
use rustix::process::Signal;

use crate::error::EngineError;
use crate::nodes::health::Checks;
use crate::nodes::launcher::Launcher;
use crate::progress::Stage;
use crate::routing::daemons::Backoff;
use crate::traffic::{exit_words, output};

/// The output of a node's programs, in its folder of the results, which the node cannot see.
const LOG: &str = "program.log";
/// The output of its health checks, in the same folder.
pub(crate) const HEALTH_LOG: &str = "health.log";

/// The largest size of a container's logs, bytes. A container that writes more is ended.
const MOST_LOG_BYTES: u64 = 1 << 30;

/// The space that stays free on the disk of the results, bytes. With less, containers with `state: disk` are ended,
/// because how much each of them wrote is not known.
const LEAST_FREE_BYTES: u64 = 256 << 20;
/// The number of files that stays free on that disk.
const LEAST_FREE_FILES: u64 = 4096;

/// The growth of the delay between two starts of a program.
const RESTART: Restart = Restart {
    after: TimeSpan::from_ns(1_000_000_000),
    at_most: TimeSpan::from_ns(30_000_000_000),
};

/// The containers of a lab.
#[derive(Default)]
pub(crate) struct Containers {
    launcher: Option<Arc<Launcher>>,
    results: PathBuf,
    running: Supervisor<NodeId>,
    since: BTreeMap<NodeId, Instant>,
    backoffs: BTreeMap<NodeId, Backoff>,
    /// The instant at which an ended container is restarted.
    due: BTreeMap<NodeId, Instant>,
    /// The health checks.
    health: Checks,
    /// The number of processes of each node that were killed for its memory limit.
    killed: BTreeMap<NodeId, u64>,
    /// The containers that were ended because they wrote too much, with the reason.
    full: BTreeMap<NodeId, String>,
    /// The containers of nodes that users have stopped.
    halted: BTreeSet<NodeId>,
    /// The failures before lab time zero, which join the summary when lab time begins.
    pub(crate) failed_early: Vec<SoftwareFailure>,
}

/// An incident of a container.
pub(crate) struct Incident {
    pub(crate) node: NodeId,
    pub(crate) what: ContainerIncident,
}

/// The kind of incident.
pub(crate) enum ContainerIncident {
    Ended {
        how: String,
        /// The delay until the restart; `None` without one.
        again_in: Option<Duration>,
        /// Whether it is a failure: it ended with an error, and is not restarted.
        failed: bool,
    },
    Restarted,
    /// The health check succeeds.
    Healthy,
    /// The health check fails.
    Unhealthy {
        how: String,
    },
}

impl Containers {
    /// Returns the number of container nodes on this machine.
    pub(crate) fn planned(launcher: &Launcher) -> usize {
        let kernels = &launcher.kernels;
        kernels.ours().containers(&kernels.blueprint.lab).count()
    }

    /// Starts the program of every container, several at a time. After a failure or a stop, [`Containers::stop`]
    /// ends those that were started.
    ///
    /// # Errors
    /// The first container that cannot be created, or whose program does not exist.
    pub(crate) fn boot(
        &mut self,
        launcher: &Arc<Launcher>,
        results: &Path,
        (stage, stopped): (&Stage<'_>, &AtomicBool),
    ) -> Result<(), EngineError> {
        results.clone_into(&mut self.results);
        self.launcher = Some(Arc::clone(launcher));
        let kernels = &launcher.kernels;
        let ours = kernels.ours();
        let nodes = ours.containers(&kernels.blueprint.lab);
        let nodes: Vec<NodeId> = nodes.map(|(node, _)| node).collect();
        let writes = |node: &NodeId| container(launcher, *node).state == StatePlace::Disk;
        if let Some(why) = disk_is_full(results).filter(|_| nodes.iter().any(writes)) {
            return Err(EngineError::Unable {
                what: format!("there is no room for `state: disk`: {why}"),
                remedy: "free some, or name another folder by --results".to_owned(),
            });
        }
        let next = AtomicUsize::new(0);
        let failed = AtomicBool::new(false);
        let started = Mutex::new(Vec::new());
        let work = || {
            while !failed.load(Ordering::Acquire) && !stopped.load(Ordering::Acquire) {
                let Some(node) = nodes.get(next.fetch_add(1, Ordering::AcqRel)) else {
                    return Ok(());
                };
                let child = start(launcher, results, *node)
                    .inspect_err(|_| failed.store(true, Ordering::Release))?;
                let mut started = started.lock().unwrap_or_else(|e| e.into_inner());
                started.extend(child.map(|child| (*node, child, Instant::now())));
                stage.reach(started.len() as u64);
            }
            Ok(())
        };
        let workers = thread::available_parallelism()
            .map_or(1, |n| n.get())
            .min(4);
        let outcome = thread::scope(|scope| {
            let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
            results_of(threads).into_iter().collect()
        });
        // Children are added after an error too, so that `stop` ends them.
        for (node, child, at) in started.into_inner().unwrap_or_else(|e| e.into_inner()) {
            self.running.add(node, child);
            self.since.insert(node, at);
            self.health.begin(node, container(launcher, node), at);
        }
        outcome
    }

    /// Returns the incidents since the last call, and restarts the containers that are due.
    ///
    /// # Errors
    /// When they cannot be waited for.
    pub(crate) fn watch(&mut self) -> Result<Vec<Incident>, EngineError> {
        let mut incidents = Vec::new();
        let Some(launcher) = self.launcher.clone() else {
            return Ok(incidents);
        };
        // A container that ended is not checked further: its check would fail for a reason that is already
        // reported.
        if !self.running.is_empty() {
            for gone in self.running.wait(Duration::ZERO)? {
                self.health.forget(gone.key);
                if self.halted.contains(&gone.key) {
                    continue;
                }
                incidents.push(self.ended(&launcher, gone.key, gone.exit));
            }
        }
        self.end_the_full(&launcher)?;
        let now = Instant::now();
        incidents.extend(self.health.look(&launcher, &self.results, now)?);
        let due: Vec<NodeId> = self
            .due
            .iter()
            .filter(|(node, at)| **at <= now && self.running.get(node).is_none())
            .map(|(node, _)| *node)
            .collect();
        for node in due {
            self.due.remove(&node);
            self.since.insert(node, Instant::now());
            match start(&launcher, &self.results, node) {
                Ok(child) => {
                    child
                        .into_iter()
                        .for_each(|child| drop(self.running.add(node, child)));
                    self.health
                        .begin(node, container(&launcher, node), Instant::now());
                    let what = ContainerIncident::Restarted;
                    incidents.push(Incident { node, what });
                }
                // The lab continues without it, and tries again later.
                Err(error) => incidents.push(self.again(node, error.to_string(), false)),
            }
        }
        Ok(incidents)
    }

    /// Kills the container of a node that a user stops. It is not restarted, and its end is no incident.
    ///
    /// # Errors
    /// When it cannot be signalled.
    pub(crate) fn halt(&mut self, node: NodeId) -> Result<(), EngineError> {
        self.due.remove(&node);
        self.health.forget(node);
        self.halted.insert(node);
        match self.running.get(&node) {
            Some(child) => Ok(child.signal(Signal::KILL)?),
            None => Ok(()),
        }
    }

    /// Has the container of a stopped node start again, if it has one.
    pub(crate) fn begin(&mut self, node: NodeId) {
        let Some(launcher) = &self.launcher else {
            return;
        };
        let software = &launcher.kernels.blueprint.lab.software[node.index()];
        if self.halted.remove(&node) && software.container.is_some() {
            self.due.insert(node, Instant::now());
        }
    }

    /// Ends the containers whose logs have reached their limit, and those that write to a full disk, without a
    /// restart: all containers share the disk.
    fn end_the_full(&mut self, launcher: &Launcher) -> Result<(), EngineError> {
        let layout = &launcher.kernels.blueprint.lab.layout;
        let mut disk = None;
        for (node, child) in self.running.iter() {
            if container(launcher, *node).state == StatePlace::Disk {
                let disk = disk.get_or_insert_with(|| disk_is_full(&self.results));
                if let Some(why) = disk {
                    self.full.entry(*node).or_insert_with(|| why.clone());
                    child.signal(Signal::KILL)?;
                }
            }
            if exceed(&logs_of(&self.results, &layout.node(*node).name)) {
                self.full.entry(*node).or_insert_with(too_long);
                child.signal(Signal::KILL)?;
            }
        }
        Ok(())
    }

    fn ended(&mut self, launcher: &Launcher, node: NodeId, exit: Exit) -> Incident {
        let mut how = exit_words(exit);
        let name = &launcher.kernels.blueprint.lab.layout.node(node).name;
        // No process of the container is left that could write more. One that ended by itself may have written too much as well.
        match cut(&logs_of(&self.results, name)) {
            Ok(false) => {}
            Ok(true) => {
                self.full.entry(node).or_insert_with(too_long);
            }
            // No reason to end the lab of all others.
            Err(error) => {
                self.full
                    .insert(node, format!("{}, and {error}", too_long()));
            }
        }
        let killed = launcher.cgroups.killed_for_memory(name);
        // The kernel's count never decreases, so that only an increase since the last end belongs to this end.
        let greedy = killed > self.killed.insert(node, killed).unwrap_or(0);
        if greedy || launcher.kernels.node(node).ran_out_of_memory() {
            how.push_str(", at its limit of memory");
        }
        if let Some(why) = self.full.get(&node) {
            how.push_str(", since ");
            how.push_str(why);
            let (again_in, failed) = (None, true);
            let what = ContainerIncident::Ended {
                how,
                again_in,
                failed,
            };
            return Incident { node, what };
        }
        let policy = container(launcher, node).restart;
        if policy != RestartPolicy::Never && !launcher.kernels.node(node).may_boot() {
            how.push_str("; its container is gone, so that it cannot be started again");
            let (again_in, failed) = (None, true);
            let what = ContainerIncident::Ended {
                how,
                again_in,
                failed,
            };
            return Incident { node, what };
        }
        match policy {
            RestartPolicy::Always => self.again(node, how, false),
            RestartPolicy::OnFailure if !exit.is_success() => self.again(node, how, false),
            RestartPolicy::OnFailure | RestartPolicy::Never => {
                let what = ContainerIncident::Ended {
                    how,
                    again_in: None,
                    failed: !exit.is_success(),
                };
                Incident { node, what }
            }
        }
    }

    /// Sets the time of the restart.
    fn again(&mut self, node: NodeId, how: String, failed: bool) -> Incident {
        let ran = self
            .since
            .get(&node)
            .map_or(Duration::ZERO, Instant::elapsed);
        let backoff = self.backoffs.entry(node).or_insert(Backoff::new(RESTART));
        let wait = backoff.ended(RESTART, ran);
        self.due.insert(node, Instant::now() + wait);
        let what = ContainerIncident::Ended {
            how,
            again_in: Some(wait),
            failed,
        };
        Incident { node, what }
    }

    /// Ends all containers, cuts logs that exceed their bound, and removes empty logs.
    ///
    /// # Errors
    /// When one does not end.
    pub(crate) fn stop(mut self) -> Result<(), EngineError> {
        let Some(launcher) = self.launcher.take() else {
            return Ok(());
        };
        self.health.stop(&launcher)?;
        let begun = Instant::now();
        let mut graces = BTreeMap::new();
        for (node, child) in self.running.iter() {
            let container = container(&launcher, *node);
            let signal = launcher.images.stop_signal(container)?;
            // Real-time signals have no name here; SIGTERM is used instead.
            let signal = Signal::from_named_raw(signal).unwrap_or(Signal::TERM);
            // The kernel discards a signal for the first process of a namespace unless the process handles it.
            match signal != Signal::KILL && hears(child, signal) {
                true => {
                    child.signal(signal)?;
                    graces.insert(*node, Duration::from_nanos(container.stop_grace_ns));
                }
                false => child.signal(Signal::KILL)?,
            }
        }
        while let Some(next) = self.kill_late(&mut graces, begun.elapsed())? {
            for gone in self.running.wait(next)? {
                graces.remove(&gone.key);
            }
        }
        // All that remain have used up their time, or were sent SIGKILL.
        self.running
            .terminate_all(Duration::ZERO, || launcher.cgroups.thaw())?;
        let lab = &launcher.kernels.blueprint.lab;
        for (node, _) in launcher.kernels.ours().containers(lab) {
            let logs = logs_of(&self.results, &lab.layout.node(node).name);
            // The lab goes down in any case; one that cannot be cut is left as it is.
            drop(cut(&logs));
            for log in logs {
                if fs::metadata(&log).is_ok_and(|file| file.len() == 0) {
                    drop(fs::remove_file(log));
                }
            }
        }
        Ok(())
    }

    /// Kills the containers whose time to end is over. Returns the remaining time of the next one; `None`
    /// without any.
    fn kill_late(
        &self,
        graces: &mut BTreeMap<NodeId, Duration>,
        elapsed: Duration,
    ) -> Result<Option<Duration>, EngineError> {
        let (mut late, running) = (Vec::new(), &self.running);
        graces.retain(|node, grace| {
            if *grace <= elapsed {
                late.extend(running.get(node));
            }
            *grace > elapsed
        });
        for child in late {
            child.signal(Signal::KILL)?;
        }
        let next = graces.values().min();
        Ok(next.map(|grace| grace.saturating_sub(elapsed)))
    }
}

/// Returns why `state: disk` must not write more to the disk of the results; `None` while there is space.
fn disk_is_full(results: &Path) -> Option<String> {
    // Without statistics of the disk there is no known limit.
    let disk = rustix::fs::statvfs(results).ok()?;
    let free_bytes = disk.f_bavail.saturating_mul(disk.f_frsize);
    if free_bytes < LEAST_FREE_BYTES {
        return Some(format!(
            "the disk of {} has {} MiB left, of which {} stay free",
            results.display(),
            free_bytes >> 20,
            LEAST_FREE_BYTES >> 20
        ));
    }
    // File systems that allocate inodes dynamically report a total of 0.
    (disk.f_files > 0 && disk.f_favail < LEAST_FREE_FILES).then(|| {
        format!(
            "the disk of {} takes {} more files, of which {LEAST_FREE_FILES} stay free",
            results.display(),
            disk.f_favail
        )
    })
}

/// Returns whether a program handles this signal.
fn hears(child: &Child, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", child.pid())).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    caught.is_some_and(|bits| bits & (1 << (signal.as_raw() - 1)) != 0)
}

pub(crate) fn container(launcher: &Launcher, node: NodeId) -> &Container {
    let software = &launcher.kernels.blueprint.lab.software[node.index()];
    software
        .container
        .as_ref()
        .expect("only containers are started here")
}

pub(crate) fn log_of(results: &Path, node: &str, log: &str) -> PathBuf {
    results.join("nodes").join(node).join(log)
}

/// The logs of a node, which share one bound.
fn logs_of(results: &Path, node: &str) -> [PathBuf; 2] {
    [LOG, HEALTH_LOG].map(|log| log_of(results, node, log))
}

/// Whether the logs of a node have more bytes, or reserve more disk, than is kept.
fn exceed(logs: &[PathBuf; 2]) -> bool {
    let taken = logs.iter().map(|log| output::taken_bytes(log)).sum::<u64>();
    taken > MOST_LOG_BYTES + output::SLACK_BYTES
}

/// Cuts the logs of a node to their common bound and returns whether they exceeded it. The shorter log is kept whole where it fits.
///
/// # Errors
/// When a log cannot be opened or written.
fn cut(logs: &[PathBuf; 2]) -> Result<bool, EngineError> {
    if !exceed(logs) {
        return Ok(false);
    }
    let mut by_length = logs.each_ref();
    by_length.sort_by_key(|log| output::taken_bytes(log));
    let mut left = MOST_LOG_BYTES;
    for log in by_length {
        if output::taken_bytes(log) > left {
            output::cut_to(log, left)?;
        }
        left = left.saturating_sub(output::taken_bytes(log));
    }
    Ok(true)
}

/// Why a container is ended that wrote too much.
fn too_long() -> String {
    let most = MOST_LOG_BYTES >> 20;
    format!("it wrote more than {most} MiB to its logs")
}

/// Starts a container's program.
fn start(launcher: &Launcher, results: &Path, node: NodeId) -> Result<Option<Child>, EngineError> {
    let name = &launcher.kernels.blueprint.lab.layout.node(node).name;
    let log = log_of(results, name, LOG);
    let failed = |source| EngineError::Io {
        what: format!("make {}", log.display()),
        source,
    };
    if let Some(folder) = log.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let file = node_file::open(&log, OpenMode::Append)?;
    // Programs of other users may open their output again as `/dev/stdout`, so that the user must own it.
    let user = launcher.images.user(container(launcher, node))?;
    fchown(&file, Some(user.uid), Some(user.gid)).map_err(failed)?;
    launcher.boot(node, &log).map_err(|error| match error {
        EngineError::Host(error) => EngineError::Unable {
            what: format!("{name} cannot be started: {error}"),
            remedy: "see `node` and `nodes` of the scenario, and `constel image show`".to_owned(),
        },
        other => other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Write;

    /// By length, without a byte on the disk: both together have the bound, whichever of them is the longer one.
    #[test]
    fn logs_of_a_node_are_cut_to_one_bound() {
        const MIB: u64 = 1 << 20;
        let dir = tempfile::tempdir().unwrap();
        let logs = logs_of(dir.path(), "a");
        fs::create_dir_all(logs[0].parent().unwrap()).unwrap();
        let length = |log: &Path| fs::metadata(log).map_or(0, |found| found.len());
        for (lengths, kept) in [
            ([1024 * MIB, 0], None),
            ([600 * MIB, 424 * MIB], None),
            ([5 << 40, 0], Some([1024 * MIB, 0])),
            ([0, 1500 * MIB], Some([0, 1024 * MIB])),
            ([700 * MIB, 600 * MIB], Some([424 * MIB, 600 * MIB])),
            ([2 << 40, 2 << 40], Some([1024 * MIB, 0])),
        ] {
            for (log, length) in logs.iter().zip(lengths) {
                File::create(log).unwrap().set_len(length).unwrap();
            }
            assert_eq!(cut(&logs).unwrap(), kept.is_some(), "{lengths:?}");
            let found = logs.each_ref().map(|log| length(log));
            for ((found, kept), was) in found.into_iter().zip(kept.unwrap_or(lengths)).zip(lengths)
            {
                let mark = if kept < was { 30..80 } else { 0..1 };
                assert!(mark.contains(&(found - kept)), "{lengths:?}: {found}");
            }
            assert!(!exceed(&logs), "{lengths:?}");
        }
        // Once cut, it is cut no more, and a log that goes on is cut again.
        File::options()
            .append(true)
            .open(&logs[1])
            .unwrap()
            .write_all(&[7; 3 << 20])
            .unwrap();
        assert!(cut(&logs).unwrap() && !cut(&logs).unwrap());
    }
}
