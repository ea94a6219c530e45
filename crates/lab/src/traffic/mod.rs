//! The scenario's own traffic: servers are started first, then each flow at its lab time, and results are read at
//! the end.

mod buffers;
mod commands;
pub(crate) mod congestion;
mod gateways;
pub(crate) mod helpers;
pub(crate) mod late;
mod lost;
pub(crate) mod output;
mod reboots;
mod results;
pub(crate) mod series;
mod wall;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use constel_api::EventData;
use constel_host::process::{Exit, Supervisor};
use constel_measure::results::Results;
use constel_scenario::model::{Action, Flow};
use constel_topology::NodeId;
use rustix::process::Signal;

use crate::answers::node_states::NodesByHand;
use crate::clock::LabClock;
use crate::error::EngineError;
use crate::nodes::launcher::{Launcher, servers_folder};
use crate::watch::event_log::EventLog;
use crate::watch::paths::{Followed, Paths};
use constel_plan::Blueprint;

use commands::{Content, FlowPlan, Ready};
pub(crate) use commands::{TRANSFER, own_programs, programs};
use reboots::Reboots;
pub use results::{Ended, exit_in_full};
pub(crate) use results::{charge, row};
use wall::WallClock;

/// The time within which a server must listen.
const SERVER_READY_WITHIN: Duration = Duration::from_secs(10);

/// The time after a client's own end until it is ended. Tools exchange final messages over the lab's own links:
/// after an outage, TCP may wait several seconds before it retransmits.
const CLIENT_GRACE: Duration = Duration::from_secs(10);

/// The time that a client has to end after the signal to end.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The exit code, as in a shell, for a program that could not be started.
pub const NOT_STARTED: i32 = 127;

/// How often the traffic checks the clock and its children.
const TICK: Duration = Duration::from_millis(10);

/// How often the sizes of outputs are checked. A program may write about 1000 MiB in between, which are cut off
/// again.
const MEASURE_EVERY: Duration = Duration::from_millis(500);

/// One flow with its commands.
pub(crate) struct Job {
    pub(crate) flow: Flow,
    pub(crate) plan: FlowPlan,
    pub(crate) out: PathBuf,
    pub(crate) err: PathBuf,
    /// The lab time at which its client was started, nanoseconds.
    pub(crate) started_ns: Option<u64>,
    /// Whether its ends are on two machines: their clocks differ, so that one-way delays cannot be measured.
    pub(crate) apart: bool,
}

/// The outcome of the traffic.
pub(crate) struct Ran {
    /// Every flow and how it ended.
    pub(crate) jobs: Vec<(Job, Ended)>,
    /// The changes of the wall clock during the run, because tools print its time.
    pub(crate) wall: WallClock,
}

/// All flows of a run whose clients are on this machine.
pub(crate) struct Traffic {
    jobs: Vec<Job>,
    /// Flows whose clients are on other machines, and whose servers are here.
    serving: Vec<Job>,
    launcher: Arc<Launcher>,
    servers: Servers,
    reboots: Reboots,
    /// The nodes that users have stopped.
    by_hand: Arc<NodesByHand>,
}

/// The clients of flows, by the flow's index.
#[derive(Default)]
struct Clients {
    running: Supervisor<usize>,
    ended: BTreeMap<usize, Ended>,
    /// The instants at which clients with a signal to end are killed.
    killed_at: BTreeMap<usize, Instant>,
    /// Flows whose node is down: their clients were killed, or not yet started.
    halted: BTreeSet<usize>,
    /// Flows whose clients were killed because they wrote more than is kept.
    full: BTreeSet<usize>,
    /// The time at which the outputs were last checked.
    measured: Option<Instant>,
}

/// The servers of flows. They end when this is dropped, on every path.
#[derive(Default)]
struct Servers(Supervisor<usize>);

impl Drop for Servers {
    fn drop(&mut self) {
        // The lab's processes are killed at its end anyway, and a failure is reported there.
        drop(self.0.terminate_all(Duration::ZERO, || Ok(())));
    }
}

impl Traffic {
    /// Plans every flow; `dir` is the lab's runtime folder.
    ///
    /// # Errors
    /// When a flow names a node that the lab does not have.
    pub(crate) fn plan(
        blueprint: &Blueprint,
        flows: &[Flow],
        dir: &Path,
        results: &Results,
        (launcher, by_hand): (Arc<Launcher>, &Arc<NodesByHand>),
    ) -> Result<Self, EngineError> {
        let ours = launcher.kernels.ours();
        let most_bytes = buffers::most_bytes();
        let job = |flow: &Flow| {
            let mut plan = commands::plan(
                blueprint,
                flow,
                &servers_folder(dir).join(flow.name.as_str()),
                &results.flow(flow.name.as_str(), "records.csv"),
            )?;
            let ends = plan.ends.map(|ends| [ends.from, ends.to]);
            let apart = ends.is_some_and(|[from, to]| ours.has(from) != ours.has(to));
            if let Some(flag) = plan.apart_flag.filter(|_| apart) {
                plan.client.argv.push(flag.to_owned());
            }
            // iperf3 sends the buffer size to the server, which ends if its kernel does not grant it. The limit of
            // another machine is not known here.
            if !apart {
                let flags = buffers::flags(&flow.action, most_bytes);
                plan.client.argv.extend(flags);
            }
            plan.server = plan.server.filter(|server| ours.has(server.launch.node));
            Ok(Job {
                apart,
                plan,
                out: results.flow(flow.name.as_str(), "out"),
                err: results.flow(flow.name.as_str(), "err"),
                started_ns: None,
                flow: flow.clone(),
            })
        };
        let all = flows
            .iter()
            .map(job)
            .collect::<Result<Vec<_>, EngineError>>()?;
        // Only flows with their client or their server on this machine concern it.
        let (jobs, others): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|job| ours.has(job.client_node()));
        let serves = |job: &Job| job.plan.server.is_some();
        Ok(Self {
            jobs,
            serving: others.into_iter().filter(serves).collect(),
            launcher,
            by_hand: Arc::clone(by_hand),
            servers: Servers::default(),
            reboots: Reboots::of(&blueprint.lab.scenario.failures, |name| {
                blueprint.lab.layout.find(name).map(|node| node.id)
            }),
        })
    }

    /// Returns the flows whose paths are followed.
    pub(crate) fn followed(&self) -> Paths {
        let followed = |job: &Job| {
            let flow = Followed::new(job.plan.ends?, job.time_ns());
            Some((job.flow.name.to_string(), flow))
        };
        Paths {
            flows: self.jobs.iter().filter_map(followed).collect(),
            rows: None,
        }
    }

    /// Starts every server and waits until it listens.
    ///
    /// # Errors
    /// When a server cannot be started, ends, or does not listen in time; the error has its last output.
    pub(crate) fn start_servers(&mut self) -> Result<(), EngineError> {
        for (index, job) in self.jobs.iter().chain(&self.serving).enumerate() {
            let Some(server) = &job.plan.server else {
                continue;
            };
            for (path, content) in &server.files {
                write(path, content)?;
            }
            let log = job.server_log();
            let child = self
                .launcher
                .start(server.launch.node, &server.launch.argv, &log, &log)?;
            let pid = child.pid();
            // The server is added before the wait, so that it is ended with the others in any case.
            self.servers.0.add(index, child);
            let end = Instant::now() + SERVER_READY_WITHIN;
            while !is_ready(server.ready, pid, &log) {
                let child = self.servers.0.get(&index);
                let gone = child.map_or(Ok(None), |child| child.try_wait())?;
                if gone.is_some() || Instant::now() > end {
                    let words = output::end(&log);
                    let words = words.trim();
                    return Err(EngineError::Unable {
                        what: format!(
                            "flow {}: its server does not listen: {words}",
                            job.flow.name
                        ),
                        remedy: format!("its command was: {}", server.launch.argv.join(" ")),
                    });
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        Ok(())
    }

    /// Runs every flow at its time until all are over or `stop` returns true. Then ends the remaining clients.
    ///
    /// # Errors
    /// When a process cannot be started or waited for.
    pub(crate) fn run(
        mut self,
        clock: &LabClock,
        log: &EventLog,
        stop: impl Fn() -> bool,
    ) -> Result<Ran, EngineError> {
        let mut wall = WallClock::default();
        let mut clients = Clients::default();
        let mut next = 0;
        let mut stopped = false;
        // Servers for clients on other machines run until the end, because the end of these clients is not known
        // here.
        let serves = !self.serving.is_empty();
        // The loop runs to the end even without clients: processes that a command left behind may write as long as
        // the lab is up.
        while (serves || !self.jobs.is_empty()) && !stopped {
            stopped = stop();
            let (Some(now_ns), Some(zero_ns)) = (clock.now_ns(), clock.zero_mono_ns()) else {
                std::thread::sleep(TICK);
                continue;
            };
            wall.look(clock);
            self.reboot(&mut clients, (now_ns, zero_ns), log)?;
            self.end_removed(&mut clients)?;
            while next < self.jobs.len() && started_by(&self.jobs[next], now_ns) && !stopped {
                if self.is_removed(next) {
                    clients.ended.insert(next, Ended::Removed);
                } else if self.is_down(next, now_ns) {
                    clients.halted.insert(next);
                } else {
                    self.start(next, &mut clients, (now_ns, zero_ns), log);
                }
                next += 1;
            }
            for gone in clients.running.wait(TICK)? {
                clients.killed_at.remove(&gone.key);
                let is_known = clients.ended.contains_key(&gone.key);
                if is_known || clients.halted.contains(&gone.key) {
                    // It was ended because its time was over, or because its node is down: the end is already
                    // recorded.
                    continue;
                }
                let flow = self.jobs[gone.key].flow.name.to_string();
                let exit = gone.exit.shell_code();
                log.emit(Some(now_ns as i64), EventData::FlowEnded { flow, exit });
                let (exit, t_ns) = (gone.exit, now_ns);
                let how = match clients.full.contains(&gone.key) {
                    true => Ended::Full { exit, t_ns },
                    false => Ended::ByItself { exit, t_ns },
                };
                clients.ended.insert(gone.key, how);
            }
            self.end_overdue(&mut clients, now_ns)?;
            self.bound_outputs(&mut clients)?;
            if clients.running.is_empty() {
                std::thread::sleep(TICK);
            }
        }
        let thaw = || self.launcher.cgroups.thaw();
        clients.running.terminate_all(LAST_WORDS, thaw)?;
        self.servers.0.terminate_all(LAST_WORDS, thaw)?;
        // The last check must not wait for its interval.
        clients.measured = None;
        self.bound_outputs(&mut clients)?;
        // A flow without a recorded end was still waiting or running.
        let mut ended = clients.ended;
        let verdict = |index| {
            let end = ended.remove(&index);
            // A flow that is removed shortly before the end may not have been ended yet.
            end.unwrap_or(match self.is_removed(index) {
                true => Ended::Removed,
                false => Ended::CutShort,
            })
        };
        let ended: Vec<Ended> = (0..self.jobs.len()).map(verdict).collect();
        let jobs = self.jobs.into_iter().zip(ended).collect();
        Ok(Ran { jobs, wall })
    }

    /// Starts a flow's client, for the first time or again after its node was down.
    fn start(
        &mut self,
        index: usize,
        clients: &mut Clients,
        (now_ns, zero_ns): (u64, u64),
        log: &EventLog,
    ) {
        let job = &mut self.jobs[index];
        let (launcher, node) = (&self.launcher, job.client_node());
        let argv = job.plan.client_argv(zero_ns);
        let again = job.started_ns.is_some();
        let started = match job.flow.action {
            // A command of the user runs in the node's container; Constel's own tools are host programs and
            // measure.
            Action::Run(_) => launcher.start_command(node, &argv, (&job.out, &job.err), again),
            _ => launcher.start(node, &argv, &job.out, &job.err),
        };
        match started {
            Ok(child) => {
                let flow = job.flow.name.to_string();
                log.emit(Some(now_ns as i64), EventData::FlowStarted { flow });
                job.started_ns.get_or_insert(now_ns);
                clients.running.add(index, child);
            }
            Err(error) => {
                let flow = job.flow.name.to_string();
                let exit = NOT_STARTED;
                log.emit(Some(now_ns as i64), EventData::FlowEnded { flow, exit });
                let error = Ended::NotStarted(error.to_string());
                clients.ended.insert(index, error);
            }
        }
    }

    /// Returns whether a flow is a command in a node that is down.
    fn is_down(&self, index: usize, now_ns: u64) -> bool {
        let job = &self.jobs[index];
        let node = job.client_node();
        let is_down = || self.reboots.down(node, now_ns) || self.by_hand.is_stopped(node);
        matches!(job.flow.action, Action::Run(_)) && is_down()
    }

    /// Returns whether a flow was removed from the scenario.
    fn is_removed(&self, index: usize) -> bool {
        self.by_hand
            .is_flow_ended(self.jobs[index].flow.name.as_str())
    }

    /// Ends the clients of flows that were removed from the scenario. The servers of such flows wait until the end of the lab.
    fn end_removed(&self, clients: &mut Clients) -> Result<(), EngineError> {
        let halted = std::mem::take(&mut clients.halted);
        let (removed, rest) = halted
            .into_iter()
            .partition(|index| self.is_removed(*index));
        let removed: BTreeSet<usize> = removed;
        clients.halted = rest;
        let is_over = removed.into_iter().map(|index| (index, Ended::Removed));
        clients.ended.extend(is_over);
        for (&index, client) in clients.running.iter() {
            if self.is_removed(index) && !clients.ended.contains_key(&index) {
                client.signal(Signal::TERM)?;
                clients.killed_at.insert(index, Instant::now() + LAST_WORDS);
                clients.ended.insert(index, Ended::Removed);
            }
        }
        Ok(())
    }

    /// Kills commands in nodes that have gone down, and starts those in nodes that are up again.
    fn reboot(
        &mut self,
        clients: &mut Clients,
        now: (u64, u64),
        log: &EventLog,
    ) -> Result<(), EngineError> {
        for (&index, client) in clients.running.iter() {
            let is_over = clients.ended.contains_key(&index);
            if !is_over && self.is_down(index, now.0) && clients.halted.insert(index) {
                // A power failure gives no warning, so that SIGKILL is used.
                client.signal(Signal::KILL)?;
            }
        }
        let up =
            |index: &usize| !self.is_down(*index, now.0) && clients.running.get(index).is_none();
        let up: Vec<usize> = clients.halted.iter().copied().filter(up).collect();
        for index in up {
            clients.halted.remove(&index);
            self.start(index, clients, now, log);
        }
        Ok(())
    }

    /// Ends clients that wrote more than is kept, without a restart, and cuts their output: all flows share the
    /// disk.
    fn bound_outputs(&self, clients: &mut Clients) -> Result<(), EngineError> {
        if (clients.measured).is_some_and(|last| last.elapsed() < MEASURE_EVERY) {
            return Ok(());
        }
        for (index, job) in self.jobs.iter().enumerate() {
            for file in [&job.out, &job.err] {
                if output::is_full(file) {
                    if let Some(client) = clients.running.get(&index) {
                        clients.full.insert(index);
                        client.signal(Signal::KILL)?;
                    }
                    output::cut(file)?;
                }
            }
        }
        clients.measured = Some(Instant::now());
        Ok(())
    }

    /// Ends clients whose time is over: commands at once, because that is their normal end; tools that end by
    /// themselves after a grace period. Clients that do not end are killed later; this never waits.
    fn end_overdue(&self, clients: &mut Clients, now_ns: u64) -> Result<(), EngineError> {
        let now = Instant::now();
        let over = |index: usize| {
            let job = &self.jobs[index];
            let grace = match job.plan.ends {
                Some(_) => CLIENT_GRACE,
                None => Duration::ZERO,
            };
            now_ns as i64 > job.flow.end().ns() + grace.as_nanos() as i64
        };
        // Commands in nodes that are down have no process to end.
        let halted = std::mem::take(&mut clients.halted);
        let (down, rest) = halted.into_iter().partition(|index| over(*index));
        let down: BTreeSet<usize> = down;
        clients.halted = rest;
        let is_over = down.into_iter().map(|index| (index, Ended::NodeDown));
        clients.ended.extend(is_over);
        for (&index, client) in clients.running.iter() {
            if let Some(at) = clients.killed_at.get(&index) {
                if *at <= now {
                    client.signal(Signal::KILL)?;
                }
            } else if over(index) && !clients.ended.contains_key(&index) {
                client.signal(Signal::TERM)?;
                clients.killed_at.insert(index, now + LAST_WORDS);
                clients.ended.insert(index, Ended::AtItsTime);
            }
        }
        Ok(())
    }
}

fn started_by(job: &Job, now_ns: u64) -> bool {
    job.flow.at.ns() <= now_ns as i64
}

fn write(path: &Path, content: &Content) -> Result<(), EngineError> {
    let io = |source| EngineError::Io {
        what: format!("write {}", path.display()),
        source,
    };
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(io)?;
    }
    match content {
        Content::Text(text) => fs::write(path, text).map_err(io),
        Content::Zeros(bytes) => fs::File::create(path)
            .and_then(|file| file.set_len(*bytes))
            .map_err(io),
    }
}

fn is_ready(ready: Ready, pid: u32, log: &Path) -> bool {
    match ready {
        Ready::TcpPort(port) => listens(pid, port),
        Ready::Says(words) => said(log, words),
    }
}

/// Returns whether a line that begins with `words` is in `log`.
pub(crate) fn said(log: &Path, words: &str) -> bool {
    let text = output::beginning(log);
    text.lines().any(|line| line.starts_with(words))
}

/// Returns whether a socket in the network namespace of `pid` listens on this TCP port (state LISTEN of RFC 9293 is
/// 0A in `/proc/net/tcp`).
fn listens(pid: u32, port: u16) -> bool {
    let wanted = format!(":{port:04X}");
    ["tcp", "tcp6"].iter().any(|file| {
        let text = fs::read_to_string(format!("/proc/{pid}/net/{file}")).unwrap_or_default();
        text.lines().skip(1).any(|line| {
            let mut fields = line.split_ascii_whitespace();
            let local = fields.nth(1).unwrap_or_default();
            local.ends_with(&wanted) && fields.nth(1) == Some("0A")
        })
    })
}

impl Job {
    /// Returns the path of its server's output.
    pub(crate) fn server_log(&self) -> PathBuf {
        self.err.with_extension("server.log")
    }

    /// Returns the flow's lab time, both ends included, nanoseconds.
    pub(crate) fn time_ns(&self) -> RangeInclusive<u64> {
        self.flow.at.ns().unsigned_abs()..=self.flow.end().ns().unsigned_abs()
    }

    /// Returns the node of its client.
    pub(crate) fn client_node(&self) -> NodeId {
        self.plan.client.node
    }
}

/// Describes how a process ended.
#[must_use]
pub(crate) fn exit_words(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(signal) => format!("signal {signal}"),
        Exit::Unknown => exit.to_string(),
    }
}
