//! An engine for one test, Docker's or Podman's: a daemon of its own, with a folder and a socket of its own, without a network.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use constel_containers::engine::Engine;
use rustix::mount::UnmountFlags;
use rustix::process::{Pid, Signal, kill_process};

use super::host::LABS;
use super::skip;
use super::{until, wait};

/// The known engines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Docker,
    Podman,
}

/// A running daemon; dropping it ends it, and removes what it made of the host's.
pub(crate) struct Daemon {
    child: Child,
    kind: Kind,
    dir: PathBuf,
    groups: String,
}

impl Daemon {
    /// Starts one in a folder; `None`, with a message, if none is installed.
    pub(crate) fn start(kind: Kind, dir: &Path) -> Option<Daemon> {
        let (name, package) = match kind {
            Kind::Docker => ("dockerd", "docker.io"),
            Kind::Podman => ("podman", "podman"),
        };
        let folders = ["/usr/sbin", "/usr/bin", "/usr/local/bin"];
        if !folders.iter().any(|at| Path::new(at).join(name).exists()) {
            skip(&format!(
                "{name} is not installed (Debian: apt-get install {package})"
            ));
            return None;
        }
        let groups = format!("{LABS}engine");
        let daemon = Daemon {
            child: spawn(kind, dir, &groups),
            kind,
            dir: dir.to_owned(),
            groups,
        };
        daemon.wait_ready();
        Some(daemon)
    }

    fn wait_ready(&self) {
        until("the engine answers", || self.engine().version().ok());
    }

    /// As `DOCKER_HOST` names it.
    pub(crate) fn host(&self) -> String {
        format!("unix://{}", socket(&self.dir).display())
    }

    /// A client of this engine.
    pub(crate) fn engine(&self) -> Engine {
        Engine::at(socket(&self.dir))
    }

    /// `kill -9`; its containers live on.
    pub(crate) fn kill9(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again, in the same folder.
    pub(crate) fn start_again(&mut self) {
        // The number in it may be that of another process by now. Remaining helpers of the old one keep a new one from starting.
        drop(fs::remove_file(self.dir.join("docker.pid")));
        self.end_helpers();
        // A process that was killed counts as running until its parent has waited for it.
        drop(fs::remove_file(
            self.dir.join("exec/containerd/containerd.pid"),
        ));
        self.child = spawn(self.kind, &self.dir, &self.groups);
        self.wait_ready();
    }

    /// Ends processes that the daemon started for itself: their arguments name its folder.
    fn end_helpers(&self) {
        let own = self.dir.to_string_lossy().into_owned();
        let is_helper = |pid: &Pid| {
            let of = |name: &str| fs::read(format!("/proc/{}/{name}", pid.as_raw_nonzero()));
            let command = of("comm").unwrap_or_default();
            let arguments = of("cmdline").unwrap_or_default();
            let ours = command.starts_with(b"containerd") || command.starts_with(b"conmon");
            ours && String::from_utf8_lossy(&arguments).contains(&own)
        };
        let all = fs::read_dir("/proc").unwrap().flatten();
        let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let helpers: Vec<Pid> = numbers
            .filter_map(Pid::from_raw)
            .filter(is_helper)
            .collect();
        for helper in helpers {
            let _ = kill_process(helper, Signal::KILL);
            until("a helper ends", || (!is_helper(&helper)).then_some(()));
        }
    }
}

fn socket(dir: &Path) -> PathBuf {
    dir.join("d.sock")
}

fn spawn(kind: Kind, dir: &Path, groups: &str) -> Child {
    let log = File::options()
        .append(true)
        .create(true)
        .open(dir.join("engine.log"))
        .unwrap();
    let mut command = match kind {
        Kind::Docker => dockerd(dir, groups),
        Kind::Podman => podman(dir),
    };
    command
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
}

fn dockerd(dir: &Path, groups: &str) -> Command {
    let mut command = Command::new("dockerd");
    command
        .arg("--host")
        .arg(format!("unix://{}", socket(dir).display()))
        .arg("--data-root")
        .arg(dir.join("data"))
        .arg("--exec-root")
        .arg(dir.join("exec"))
        .arg("--pidfile")
        .arg(dir.join("docker.pid"))
        .args(["--iptables=false", "--ip6tables=false", "--bridge=none"])
        .args(["--ip-forward=false", "--cgroup-parent", groups]);
    command
}

fn podman(dir: &Path) -> Command {
    let configuration = dir.join("containers.conf");
    // The engine's own default needs more than a machine without all capabilities gives.
    let text = "[containers]\ndefault_ulimits = []\n[engine]\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\n";
    fs::write(&configuration, text).unwrap();
    let mut command = Command::new("podman");
    command
        .env("CONTAINERS_CONF", configuration)
        .arg("--root")
        .arg(dir.join("data"))
        .arg("--runroot")
        .arg(dir.join("exec"))
        .arg("--tmpdir")
        .arg(dir.join("tmp"))
        .args(["system", "service", "--time=0"])
        .arg(format!("unix://{}", socket(dir).display()));
    command
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        if wait(&mut self.child).is_none() {
            eprintln!("the engine had to be killed");
        }
        // A killed engine leaves these as well.
        self.end_helpers();
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let points = table.lines().filter_map(|line| line.split(' ').nth(4));
        let mut own: Vec<&Path> = points.map(Path::new).collect();
        own.retain(|point| point.starts_with(&self.dir));
        own.sort();
        for point in own.into_iter().rev() {
            let _ = rustix::mount::unmount(point, UnmountFlags::DETACH);
        }
        let hierarchies = fs::read_dir("/sys/fs/cgroup").into_iter().flatten();
        let hierarchies = hierarchies.flatten().map(|entry| entry.path());
        for root in hierarchies.chain([PathBuf::from("/sys/fs/cgroup")]) {
            drop(fs::remove_dir(root.join(&self.groups)));
        }
    }
}
