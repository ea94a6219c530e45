//! The scenario's own traffic: servers first, then each flow at its lab time, results read at the end.

mod commands;
pub(crate) mod congestion;
pub(crate) mod helpers;
mod lost;
pub(crate) mod output;
mod results;
mod wall;

use std::collections::BTreeMap;
use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use constel_api::Happening;
use constel_host::process::{Exit, Supervisor};
use constel_observe::results::Results;
use constel_scenario::model::{Action, Flow};
use constel_topology::NodeId;
use rustix::process::Signal;

use crate::clock::LabClock;
use crate::error::EngineError;
use crate::nodes::launcher::{Launcher, servers_folder};
use crate::watch::event_log::EventLog;
use crate::watch::paths::{Followed, Paths};
use constel_plan::Blueprint;

use commands::{Content, FlowPlan, Launch, Ready};
pub(crate) use commands::{TRANSFER, programs};
pub(crate) use results::{Ended, charge, row};
use wall::WallClock;

/// A server that does not listen by then never will.
const SERVER_READY_WITHIN: Duration = Duration::from_secs(10);

/// A client that has not ended this long after its time is ended. Tools exchange their last words over the
/// lab's own links: after an outage TCP may wait for several seconds before it tries again.
const CLIENT_GRACE: Duration = Duration::from_secs(10);

/// A client that was asked to end has so long for its last words.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How often the traffic looks at clock and children.
const TICK: Duration = Duration::from_millis(10);

/// One flow with its commands.
pub(crate) struct Job {
    pub(crate) flow: Flow,
    pub(crate) plan: FlowPlan,
    pub(crate) out: PathBuf,
    pub(crate) err: PathBuf,
}

/// What is left of the traffic when it is over.
pub(crate) struct Ran {
    /// Every flow and how it ended.
    pub(crate) jobs: Vec<(Job, Ended)>,
    /// What the wall clock did meanwhile: tools print its times.
    wall: WallClock,
}

/// All flows of a run.
pub(crate) struct Traffic {
    jobs: Vec<Job>,
    launcher: Arc<Launcher>,
    servers: Servers,
}

/// Servers of flows; they end when this goes, on every path.
#[derive(Default)]
struct Servers(Supervisor<usize>);

impl Drop for Servers {
    fn drop(&mut self) {
        // The lab's processes are killed at its end anyhow: what fails here is told there.
        drop(self.0.terminate_all(Duration::ZERO));
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
        launcher: Arc<Launcher>,
    ) -> Result<Self, EngineError> {
        let job = |flow: &Flow| {
            let plan = commands::plan(
                blueprint,
                flow,
                &servers_folder(dir).join(flow.name.as_str()),
                &results.flow(flow.name.as_str(), "records.csv"),
            )?;
            Ok(Job {
                plan,
                out: results.flow(flow.name.as_str(), "out"),
                err: results.flow(flow.name.as_str(), "err"),
                flow: flow.clone(),
            })
        };
        Ok(Self {
            jobs: flows.iter().map(job).collect::<Result<_, EngineError>>()?,
            launcher,
            servers: Servers::default(),
        })
    }

    /// The flows whose paths are worth following.
    pub(crate) fn followed(&self) -> Paths {
        let followed = |job: &Job| {
            let flow = Followed::new(job.plan.ends?, job.time_ns());
            Some((job.flow.name.to_string(), flow))
        };
        Paths(self.jobs.iter().filter_map(followed).collect())
    }

    /// Starts every server and waits until it listens.
    ///
    /// # Errors
    /// When a server cannot be started, ends, or does not listen in time; with its last words.
    pub(crate) fn start_servers(&mut self) -> Result<(), EngineError> {
        for (index, job) in self.jobs.iter().enumerate() {
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
            // In charge before it is waited for: it ends with the others whatever happens here.
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

    /// Runs every flow at its time until all are over or `stop` says so. Then ends what is left.
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
        let mut clients: Supervisor<usize> = Supervisor::new();
        let mut ended: BTreeMap<usize, Ended> = BTreeMap::new();
        // When those that were asked to end are killed.
        let mut killed_at: BTreeMap<usize, Instant> = BTreeMap::new();
        let mut next = 0;
        let mut stopped = false;
        while ended.len() < self.jobs.len() && !stopped {
            stopped = stop();
            wall.look(clock);
            let now_ns = clock.now_ns().unwrap_or(0);
            while next < self.jobs.len() && started_by(&self.jobs[next], now_ns) && !stopped {
                let job = &self.jobs[next];
                let Launch { node, argv } = &job.plan.client;
                let started = match job.flow.action {
                    // What the user has in the node; all else is ours, and measures.
                    Action::Run(_) => {
                        let launcher = &self.launcher;
                        launcher.start_command(*node, argv, &job.out, &job.err)
                    }
                    _ => self.launcher.start(*node, argv, &job.out, &job.err),
                };
                match started {
                    Ok(child) => {
                        let flow = job.flow.name.to_string();
                        log.emit(Some(now_ns as i64), Happening::FlowStarted { flow });
                        clients.add(next, child);
                    }
                    Err(error) => {
                        ended.insert(next, Ended::NotStarted(error.to_string()));
                    }
                }
                next += 1;
            }
            for gone in clients.wait(TICK)? {
                killed_at.remove(&gone.key);
                if ended.contains_key(&gone.key) {
                    // It was ended because its time was over.
                    continue;
                }
                let flow = self.jobs[gone.key].flow.name.to_string();
                let exit = gone.exit.shell_code();
                log.emit(Some(now_ns as i64), Happening::FlowEnded { flow, exit });
                ended.insert(gone.key, Ended::ByItself(gone.exit));
            }
            self.end_overdue(&clients, &mut ended, &mut killed_at, now_ns)?;
            if clients.is_empty() {
                std::thread::sleep(TICK);
            }
        }
        clients.terminate_all(LAST_WORDS)?;
        self.servers.0.terminate_all(LAST_WORDS)?;
        let verdict = |index| ended.remove(&index).unwrap_or(Ended::CutShort);
        let jobs = self.jobs.into_iter().zip((0..).map(verdict)).collect();
        Ok(Ran { jobs, wall })
    }

    /// Asks clients to end whose time is over: at once for commands (that is how they end), with some grace for
    /// tools that end by themselves. Those that do not are killed; nobody is waited for.
    fn end_overdue(
        &self,
        clients: &Supervisor<usize>,
        ended: &mut BTreeMap<usize, Ended>,
        killed_at: &mut BTreeMap<usize, Instant>,
        now_ns: u64,
    ) -> Result<(), EngineError> {
        let now = Instant::now();
        for (&index, client) in clients.iter() {
            let job = &self.jobs[index];
            let grace = if job.plan.ends.is_some() {
                CLIENT_GRACE
            } else {
                Duration::ZERO
            };
            if let Some(at) = killed_at.get(&index) {
                if *at <= now {
                    client.signal(Signal::KILL)?;
                }
            } else if now_ns as i64 > job.flow.end().ns() + grace.as_nanos() as i64 {
                client.signal(Signal::TERM)?;
                killed_at.insert(index, now + LAST_WORDS);
                ended.insert(index, Ended::AtItsTime);
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

/// Whether a line that begins with `words` is in `log`.
pub(crate) fn said(log: &Path, words: &str) -> bool {
    let text = output::beginning(log);
    text.lines().any(|line| line.starts_with(words))
}

/// Whether something in the network namespace of `pid` listens on this TCP port (RFC 9293 LISTEN is state 0A
/// in `/proc/net/tcp`).
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
    /// What its server says.
    pub(crate) fn server_log(&self) -> PathBuf {
        self.err.with_extension("server.log")
    }

    /// The flow's lab time, both ends included, nanoseconds.
    pub(crate) fn time_ns(&self) -> RangeInclusive<u64> {
        self.flow.at.ns().unsigned_abs()..=self.flow.end().ns().unsigned_abs()
    }

    /// The node its client runs in.
    pub(crate) fn client_node(&self) -> NodeId {
        self.plan.client.node
    }
}

/// How a process ended, in words.
pub(crate) fn exit_words(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(signal) => format!("signal {signal}"),
    }
}
