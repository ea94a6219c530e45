//! The health of containers' programs: a check command in each container at intervals.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use constel_host::process::Supervisor;
use constel_scenario::model::{Container, Health};
use constel_topology::NodeId;
use rustix::process::Signal;

use crate::error::EngineError;
use crate::nodes::containers::{ContainerIncident, HEALTH_LOG, Incident, container, log_of};
use crate::nodes::launcher::Launcher;
use crate::traffic::exit_words;

/// The largest number of checks that one call starts, so that the lab does not wait for them. Further checks remain
/// due.
const AT_ONCE: usize = 8;

/// The health of a lab's containers.
#[derive(Default)]
pub(crate) struct Checks {
    nodes: BTreeMap<NodeId, Check>,
    running: Supervisor<NodeId>,
}

impl Checks {
    /// Starts to check a node whose program has begun.
    pub(crate) fn begin(&mut self, node: NodeId, container: &Container, now: Instant) {
        if let Some(health) = &container.health {
            self.nodes.insert(node, Check::new(health, now));
        }
    }

    /// Stops to check a node whose program has ended.
    pub(crate) fn forget(&mut self, node: NodeId) {
        self.nodes.remove(&node);
        drop(self.running.remove(&node));
    }

    /// Returns changes of health from ended checks, and starts the checks that are due.
    ///
    /// # Errors
    /// When they cannot be waited for.
    pub(crate) fn look(
        &mut self,
        launcher: &Launcher,
        results: &Path,
        now: Instant,
    ) -> Result<Vec<Incident>, EngineError> {
        let mut incidents = Vec::new();
        if self.nodes.is_empty() {
            return Ok(incidents);
        }
        for gone in self.running.wait(Duration::ZERO)? {
            // A check that was killed for its time counts as late, whatever its exit status.
            let late = self.nodes.get(&gone.key).and_then(Check::late_words);
            let outcome = match (late, gone.exit) {
                (Some(late), _) => Err(late),
                (None, exit) if exit.is_success() => Ok(()),
                (None, exit) => Err(exit_words(exit)),
            };
            self.note(gone.key, outcome, now, &mut incidents);
        }
        let mut late = Vec::new();
        let mut due = Vec::new();
        for (node, check) in &mut self.nodes {
            match check.wants(now) {
                Wants::Nothing => {}
                Wants::Start if due.len() < AT_ONCE => due.push(*node),
                Wants::Start => {}
                Wants::End => late.push(*node),
            }
        }
        for child in late.iter().filter_map(|node| self.running.get(node)) {
            child.signal(Signal::KILL)?;
        }
        for node in due {
            match start(launcher, results, node) {
                Ok(child) => {
                    self.running.add(node, child);
                    if let Some(check) = self.nodes.get_mut(&node) {
                        check.started(now);
                    }
                }
                Err(error) => self.note(node, Err(error.to_string()), now, &mut incidents),
            }
        }
        Ok(incidents)
    }

    fn note(
        &mut self,
        node: NodeId,
        outcome: Result<(), String>,
        now: Instant,
        incidents: &mut Vec<Incident>,
    ) {
        let Some(check) = self.nodes.get_mut(&node) else {
            return;
        };
        // Only changes of the health are reported, not every check.
        let changed = check.done(outcome.is_ok(), now);
        let what = match (changed, outcome) {
            (true, Ok(())) => ContainerIncident::Healthy,
            (true, Err(how)) => ContainerIncident::Unhealthy { how },
            (false, _) => return,
        };
        incidents.push(Incident { node, what });
    }

    /// Ends the running checks.
    ///
    /// # Errors
    /// When one does not end.
    pub(crate) fn stop(&mut self, launcher: &Launcher) -> Result<(), EngineError> {
        self.running
            .terminate_all(Duration::ZERO, || launcher.cgroups.thaw())?;
        Ok(())
    }
}

fn start(
    launcher: &Launcher,
    results: &Path,
    node: NodeId,
) -> Result<constel_host::process::Child, EngineError> {
    let of = container(launcher, node);
    let argv = launcher.images.health_check(of)?.unwrap_or_default();
    let name = &launcher.kernels.blueprint.lab.layout.node(node).name;
    let log = log_of(results, name, HEALTH_LOG);
    launcher.start_command(node, argv, (&log, &log), true)
}

/// The next action for a check.
#[derive(Debug, PartialEq, Eq)]
enum Wants {
    Nothing,
    Start,
    /// End it: it has run too long.
    End,
}

/// The check of one node.
#[derive(Debug)]
struct Check {
    interval: Duration,
    timeout: Duration,
    retries: u32,
    /// The instant before which failures do not count.
    counts_from: Instant,
    /// The instant of the next run, unless it runs now.
    due: Instant,
    running_since: Option<Instant>,
    /// Whether it was ended because it ran too long.
    late: bool,
    failures: u32,
    /// The health; `None` until it is known.
    healthy: Option<bool>,
}

impl Check {
    fn new(health: &Health, now: Instant) -> Self {
        let interval = Duration::from_nanos(health.interval_ns);
        Self {
            interval,
            timeout: Duration::from_nanos(health.timeout_ns),
            retries: health.retries,
            counts_from: now + Duration::from_nanos(health.start_period_ns),
            due: now + interval,
            running_since: None,
            late: false,
            failures: 0,
            healthy: None,
        }
    }

    fn wants(&mut self, now: Instant) -> Wants {
        // `late` is set once, so that a check is killed only once.
        match self.running_since {
            Some(since) if !self.late && now >= since + self.timeout => {
                self.late = true;
                Wants::End
            }
            None if now >= self.due => Wants::Start,
            _ => Wants::Nothing,
        }
    }

    fn started(&mut self, now: Instant) {
        self.running_since = Some(now);
    }

    fn late_words(&self) -> Option<String> {
        let words = || format!("no answer within {:?}", self.timeout);
        self.late.then(words)
    }

    /// Records the result of a run. Returns whether the health has changed.
    fn done(&mut self, good: bool, now: Instant) -> bool {
        self.running_since = None;
        self.late = false;
        // As in Docker, the interval counts from the end of a check.
        self.due = now + self.interval;
        if good {
            self.failures = 0;
        // As in Docker, failures during the start period do not count, but a success does.
        } else if now >= self.counts_from {
            self.failures += 1;
        }
        let bad = self.failures >= self.retries;
        let health = match (good, bad) {
            (true, _) => Some(true),
            (false, true) => Some(false),
            (false, false) => self.healthy,
        };
        std::mem::replace(&mut self.healthy, health) != health
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> u64 {
        seconds * 1_000_000_000
    }

    fn check(now: Instant) -> Check {
        let health = Health {
            command: None,
            interval_ns: s(10),
            timeout_ns: s(3),
            start_period_ns: s(60),
            retries: 2,
        };
        Check::new(&health, now)
    }

    #[test]
    fn health_changes_by_as_many_failures_as_are_said() {
        let zero = Instant::now();
        let at = |seconds| zero + Duration::from_secs(seconds);
        let mut check = check(zero);
        assert_eq!(check.wants(at(9)), Wants::Nothing);
        assert_eq!(check.wants(at(10)), Wants::Start);
        check.started(at(10));
        assert_eq!(check.wants(at(12)), Wants::Nothing);
        // Failures of the start period do not count, good health does.
        assert!(!check.done(false, at(12)) && !check.done(false, at(23)));
        assert!(check.done(true, at(34)) && !check.done(true, at(45)));
        assert!(!check.done(false, at(70)) && !check.done(true, at(81)));
        assert!(!check.done(false, at(92)) && check.done(false, at(103)));
        assert!(!check.done(false, at(114)) && check.done(true, at(125)));
        assert_eq!(check.wants(at(134)), Wants::Nothing);
        assert_eq!(check.wants(at(135)), Wants::Start);
    }

    #[test]
    fn what_takes_too_long_is_ended_once() {
        let zero = Instant::now();
        let at = |seconds| zero + Duration::from_secs(seconds);
        let mut check = check(zero);
        check.started(at(10));
        assert_eq!(check.wants(at(13)), Wants::End);
        assert_eq!(check.wants(at(14)), Wants::Nothing);
        assert_eq!(check.late_words().as_deref(), Some("no answer within 3s"));
        assert!(!check.done(false, at(14)) && check.late_words().is_none());
    }
}
