//! A lab run by the real binary. Dropping it ends it, whatever the test came to.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use constel_api::Client;
use constel_host::NetNs;
use constel_host::claim::{LabName, LabState, RuntimeDir};
use rustix::process::{Pid, Signal};
use serde_json::Value;

use super::{CONSTEL, constel, host::LABS, json, until, wait};

/// A running `constel run`.
pub(crate) struct Lab {
    pub(crate) name: String,
    pub(crate) results: PathBuf,
    pub(crate) child: Child,
    log: PathBuf,
}

impl Lab {
    /// Starts `constel run FILE --name cli-test-NAME --results DIR/NAME` with some more flags; does not wait.
    pub(crate) fn start(name: &str, file: &Path, dir: &Path, flags: &[&str]) -> Lab {
        Lab::start_with(name, file, dir, flags, &[])
    }

    /// Starts a lab with more variables in its environment.
    pub(crate) fn start_with(
        name: &str,
        file: &Path,
        dir: &Path,
        flags: &[&str],
        env: &[(&str, &str)],
    ) -> Lab {
        let log = File::create(dir.join(format!("{LABS}{name}.stderr"))).unwrap();
        let results = dir.join(format!("{LABS}{name}"));
        Lab::spawn(log.into(), name, file, (dir, &results), (flags, env))
    }

    /// Starts a lab with its results in a folder of their own.
    pub(crate) fn start_into(
        name: &str,
        file: &Path,
        dir: &Path,
        results: &Path,
        flags: &[&str],
    ) -> Lab {
        let log = File::create(dir.join(format!("{LABS}{name}.stderr"))).unwrap();
        Lab::spawn(log.into(), name, file, (dir, results), (flags, &[]))
    }

    /// Starts a lab whose output goes elsewhere.
    pub(crate) fn start_telling(
        stderr: Stdio,
        name: &str,
        file: &Path,
        dir: &Path,
        flags: &[&str],
    ) -> Lab {
        let results = dir.join(format!("{LABS}{name}"));
        Lab::spawn(stderr, name, file, (dir, &results), (flags, &[]))
    }

    fn spawn(
        stderr: Stdio,
        name: &str,
        file: &Path,
        (dir, results): (&Path, &Path),
        (flags, env): (&[&str], &[(&str, &str)]),
    ) -> Lab {
        let name = format!("{LABS}{name}");
        let results = results.to_owned();
        let log = dir.join(format!("{name}.stderr"));
        let child = Command::new(CONSTEL)
            .arg("run")
            .arg(file)
            .args(["--name", &name, "--results"])
            .arg(&results)
            .args(flags)
            // The folder of the test's own images.
            .env("XDG_CACHE_HOME", dir)
            .envs(env.iter().copied())
            .stdin(Stdio::null())
            .stdout(File::create(dir.join(format!("{name}.stdout"))).unwrap())
            .stderr(stderr)
            .spawn()
            .unwrap();
        Lab {
            name,
            results,
            child,
            log,
        }
    }

    /// Starts it and waits until it runs.
    pub(crate) fn up(name: &str, file: &Path, dir: &Path, flags: &[&str]) -> Lab {
        let mut lab = Lab::start(name, file, dir, flags);
        lab.wait_running();
        lab
    }

    /// The output on stderr so far.
    pub(crate) fn stderr(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Returns the summary, as JSON.
    pub(crate) fn summary(&self) -> Value {
        serde_json::from_slice(&fs::read(self.results.join("summary.json")).unwrap()).unwrap()
    }

    /// The lab's state, by the claim it holds; `None` without a claim.
    pub(crate) fn state(&self) -> Option<LabState> {
        state_of(&self.name)
    }

    /// Waits until lab time runs.
    pub(crate) fn wait_running(&mut self) {
        until("the lab runs", || {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("{} ended: {status}\n{}", self.name, self.stderr());
            }
            (self.state() == Some(LabState::Running)).then_some(())
        });
        until("its clock runs", || self.client().clock());
    }

    /// The lab's folder in the host's runtime directory.
    pub(crate) fn dir(&self) -> PathBuf {
        let name: LabName = self.name.parse().unwrap();
        RuntimeDir::default().lab_dir(&name)
    }

    /// A connection to its socket.
    pub(crate) fn client(&self) -> Asker {
        Asker(Client::connect(&self.dir()).unwrap())
    }

    /// A node's network namespace.
    pub(crate) fn node(&self, node: &str) -> NetNs {
        let text = fs::read(self.dir().join("netns.json")).unwrap();
        let paths: Value = serde_json::from_slice(&text).unwrap();
        NetNs::open(paths[node].as_str().unwrap()).unwrap()
    }

    /// Names of all nodes.
    pub(crate) fn nodes(&self) -> Vec<String> {
        let text = fs::read(self.dir().join("netns.json")).unwrap();
        let paths: Value = serde_json::from_slice(&text).unwrap();
        paths.as_object().unwrap().keys().cloned().collect()
    }

    /// Returns the process number of `constel run`.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to `constel run`.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Waits for its end.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        wait(&mut self.child)
            .unwrap_or_else(|| panic!("{} does not end:\n{}", self.name, self.stderr()))
    }

    /// Ctrl-C, and waits for the end.
    pub(crate) fn interrupt(&mut self) -> ExitStatus {
        self.signal(Signal::INT);
        self.ended()
    }

    /// Whether the link between two nodes is up.
    pub(crate) fn is_up(&self, a: &str, b: &str) -> bool {
        json(&constel(["link", "show", &self.name, a, b, "--json"]))["up"] == true
    }

    /// The satellite that a station uses.
    pub(crate) fn satellite_of(&self, station: &str) -> Option<String> {
        let shown = json(&constel(["show", &self.name, "--json"]));
        let nodes = shown["node_list"].as_array().unwrap().iter();
        let satellites = nodes.filter(|node| node["kind"] == "satellite");
        let mut names = satellites.map(|node| node["name"].as_str().unwrap().to_owned());
        names.find(|name| self.is_up(station, name))
    }

    /// `kill -9`, and waits until it is dead.
    pub(crate) fn kill9(&mut self) {
        // It may have come to its end in the same moment.
        let _ = rustix::process::kill_process(Pid::from_child(&self.child), Signal::KILL);
        let status = self.ended();
        assert!(
            status.signal() == Some(9) || status.code().is_some(),
            "{status}"
        );
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            // Already a failure, or the test has no more use for it: down the gentle way first.
            let _ = rustix::process::kill_process(Pid::from_child(&self.child), Signal::INT);
            if wait(&mut self.child).is_none() {
                eprintln!("{} had to be killed:\n{}", self.name, self.stderr());
            }
        }
        if self.state() == Some(LabState::Dead) {
            constel(["clean", &self.name]);
        }
    }
}

/// Asks a lab questions.
pub(crate) struct Asker(Client);

/// The state of the lab of that name, by the claim it holds; `None` without a claim.
pub(crate) fn state_of(name: &str) -> Option<LabState> {
    let name: LabName = name.parse().unwrap();
    let found = RuntimeDir::default().find(&name).unwrap();
    found.map(|lab| lab.state)
}

/// Lab time zero on the host's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// `CLOCK_MONOTONIC` at lab time zero, nanoseconds.
    pub(crate) zero_mono_ns: i64,
    /// How far off that may be, up or down.
    pub(crate) doubt_ns: i64,
}

impl Asker {
    /// Lab time, nanoseconds; `None` while the clock is held.
    pub(crate) fn t_ns(&mut self) -> Option<i64> {
        self.0.state().unwrap().t_ns.map(|t| t as i64)
    }

    /// Reads the lab's clock from outside: the answer with the shortest way there and back.
    /// `None` while the clock is held.
    pub(crate) fn clock(&mut self) -> Option<Clock> {
        let mut best: Option<Clock> = None;
        for _ in 0..50 {
            let before = mono_ns();
            let t_ns = self.t_ns();
            let after = mono_ns();
            let t_ns = t_ns.filter(|&t| t > 0)?;
            let doubt_ns = (after - before) / 2;
            if best.is_none_or(|best| doubt_ns < best.doubt_ns) {
                let zero_mono_ns = (before + after) / 2 - t_ns;
                best = Some(Clock {
                    zero_mono_ns,
                    doubt_ns,
                });
            }
        }
        best
    }
}

impl Clock {
    /// Returns the lab time, seconds.
    pub(crate) fn now_s(&self) -> f64 {
        (mono_ns() - self.zero_mono_ns) as f64 / 1e9
    }

    /// Sleeps until lab time `t_s`.
    pub(crate) fn sleep_until(&self, t_s: f64) {
        let left = self.zero_mono_ns + (t_s * 1e9) as i64 - mono_ns();
        std::thread::sleep(Duration::from_nanos(u64::try_from(left).unwrap_or(0)));
    }
}

/// `CLOCK_MONOTONIC`, nanoseconds.
pub(crate) fn mono_ns() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}
