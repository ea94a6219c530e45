//! The guest's first process: prepares the guest, runs the command, and switches the guest off.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};

use constel_host::netlink::{Batch, Socket};
use constel_host::process::Exit;
use rustix::fs::Mode;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process_group, pivot_root, wait};
use rustix::system::{RebootCommand, reboot};
use rustix::termios::{OptionalActions, tcdrain, tcgetattr, tcsetattr};

use crate::guest::order::{FOLDER, GuestCommand, INPUT, ORDER, OUTCOME, Outcome};

/// Folders that are empty and in memory in the guest, and the modes of these. All others show the host's files.
const IN_MEMORY: [(&str, &str); 2] = [("/run", "mode=755"), ("/dev/shm", "mode=1777")];

/// Folders in `/run` of the host that programs of nodes have files in: each node's own are mounted there.
const IN_RUN: [&str; 1] = ["/run/frr"];

/// Path in the guest of the folder with the order.
const OWN: &str = "/run/constel-guest";

/// Runs as process 1 of a guest; it never returns, since the guest is switched off.
pub(crate) fn first_process() -> ! {
    let outcome = match run() {
        Ok(code) => Outcome::Ended(code),
        Err(error) => Outcome::Unprepared(error.to_string()),
    };
    let text = serde_json::to_vec(&outcome).unwrap_or_default();
    // If the outcome cannot be written, the host's side quotes the console.
    drop(fs::write(Path::new(OWN).join(OUTCOME), text));
    rustix::fs::sync();
    let _ = reboot(RebootCommand::PowerOff);
    std::process::exit(1);
}

fn run() -> io::Result<u8> {
    let folder = PathBuf::from(std::env::var_os(FOLDER).unwrap_or_default());
    let order = fs::read(folder.join(ORDER)).map_err(at("read the order"))?;
    let order: GuestCommand = serde_json::from_slice(&order)?;
    prepare(&folder, &order)?;
    let [out, err, control] = ["/dev/ttyS0", "/dev/ttyS1", "/dev/ttyS2"];
    let (out, err) = (raw(out)?, raw(err)?);
    let mut command = Command::new("/proc/self/exe");
    command
        .args(&order.arguments)
        .env_clear()
        .envs(&order.environment)
        .current_dir(&order.folder)
        .stdin(File::open(Path::new(OWN).join(INPUT)).map_err(at("open the input"))?)
        // Pipes, since a program draws pictures on a terminal.
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let mut child = command.spawn().map_err(at("start the command"))?;
    let printed = [
        child.stdout.take().map(|from| print(from, &out)),
        child.stderr.take().map(|from| print(from, &err)),
    ];
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other("the command has no number"))?;
    let mut control = File::open(control)?;
    thread::Builder::new()
        .name("control".to_owned())
        .spawn(move || {
            let mut signal = [0];
            while control.read_exact(&mut signal).is_ok() {
                if let Some(signal) = Signal::from_named_raw(i32::from(signal[0])) {
                    // The command may have ended.
                    let _ = kill_process_group(pid, signal);
                }
            }
        })?;
    let code = reap_until(pid)?;
    for thread in printed.into_iter().flatten() {
        drop(thread?.join());
    }
    // The output must reach the host before the guest is off.
    let _ = (tcdrain(&out), tcdrain(&err));
    Ok(code)
}

/// Copies the output of the command to a line of the host, in a thread that ends when all that have the pipe have closed it.
fn print(mut from: impl Read + Send + 'static, line: &File) -> io::Result<JoinHandle<()>> {
    let mut line = line.try_clone()?;
    let copy = move || drop(io::copy(&mut from, &mut line));
    thread::Builder::new().name("print".to_owned()).spawn(copy)
}

/// Waits for all processes without a parent, until this one has ended.
fn reap_until(pid: Pid) -> io::Result<u8> {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((ended, status))) if ended == pid => return Ok(code_of(status)),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Returns the code that a shell shows.
fn code_of(status: WaitStatus) -> u8 {
    let exit = match status.exit_status() {
        Some(code) => Exit::Code(code),
        None => Exit::Signal(status.terminating_signal().unwrap_or(0)),
    };
    u8::try_from(exit.shell_code()).unwrap_or(u8::MAX)
}

/// Makes the guest a machine: files, devices, groups, the loopback interface.
fn prepare(folder: &Path, order: &GuestCommand) -> io::Result<()> {
    mount_at("tmpfs", "/run", "tmpfs", MountFlags::empty(), "mode=755")?;
    for made in ["over", "over/up", "over/work", "over/root"] {
        rustix::fs::mkdir(format!("/run/{made}").as_str(), Mode::from_raw_mode(0o755))?;
    }
    let layers = "lowerdir=/,upperdir=/run/over/up,workdir=/run/over/work";
    let root = "/run/over/root";
    mount_at("overlay", root, "overlay", MountFlags::empty(), layers)?;
    std::env::set_current_dir(root)?;
    // The old root lies below the new one, out of sight.
    pivot_root(".", ".").map_err(|error| at("change the root")(error.into()))?;
    unmount(".", UnmountFlags::DETACH)?;
    std::env::set_current_dir("/")?;

    let safe = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount_at("proc", "/proc", "proc", safe, "")?;
    mount_at("sysfs", "/sys", "sysfs", safe, "")?;
    mount_at(
        "devtmpfs",
        "/dev",
        "devtmpfs",
        MountFlags::NOSUID,
        "mode=755",
    )?;
    for made in ["/dev/pts", "/dev/shm", "/dev/mqueue"] {
        fs::create_dir_all(made)?;
    }
    mount_at(
        "devpts",
        "/dev/pts",
        "devpts",
        MountFlags::NOSUID,
        "ptmxmode=666,mode=620,gid=5",
    )?;
    mount_at("mqueue", "/dev/mqueue", "mqueue", safe, "")?;
    for (link, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ] {
        std::os::unix::fs::symlink(target, Path::new("/dev").join(link))?;
    }
    for (path, mode) in IN_MEMORY {
        mount_at(
            "tmpfs",
            path,
            "tmpfs",
            MountFlags::NOSUID | MountFlags::NODEV,
            mode,
        )?;
    }
    for folder in IN_RUN {
        fs::create_dir(folder)?;
    }
    mount_at("cgroup2", "/sys/fs/cgroup", "cgroup2", safe, "")?;
    for controller in fs::read_to_string("/sys/fs/cgroup/cgroup.controllers")?.split_whitespace() {
        fs::write(
            "/sys/fs/cgroup/cgroup.subtree_control",
            format!("+{controller}"),
        )?;
    }
    mount_at("bpf", "/sys/fs/bpf", "bpf", safe, "mode=700")?;
    // Folders of the host that are written to.
    fs::create_dir_all(OWN)?;
    share(folder, Path::new(OWN))?;
    for shared in &order.shared {
        share(shared, shared)?;
    }
    let mut batch = Batch::new();
    batch.link_up(1);
    let sent = Socket::open().and_then(|mut socket| socket.send(&mut batch));
    sent.map_err(|error| at("set up the loopback interface")(io::Error::other(error)))
}

/// Mounts a folder of the host, writable.
fn share(of_host: &Path, here: &Path) -> io::Result<()> {
    fs::create_dir_all(here)?;
    let options = of_host.to_string_lossy().into_owned();
    mount_at(
        "hostfs",
        &here.to_string_lossy(),
        "hostfs",
        MountFlags::NOSUID | MountFlags::NODEV,
        &options,
    )
}

fn mount_at(
    source: &str,
    path: &str,
    kind: &str,
    flags: MountFlags,
    options: &str,
) -> io::Result<()> {
    let options = std::ffi::CString::new(options)?;
    let data = (!options.is_empty()).then_some(options.as_c_str());
    let mounted = mount(source, path, kind, flags, data);
    mounted.map_err(|error| at(format!("mount {kind} at {path}"))(error.into()))
}

/// Opens a line of the host, which passes bytes on as they are.
fn raw(path: &str) -> io::Result<File> {
    let line = File::options()
        .read(true)
        .write(true)
        .open(path)
        .map_err(at(format!("open {path}")))?;
    let mut settings = tcgetattr(&line)?;
    settings.make_raw();
    tcsetattr(&line, OptionalActions::Now, &settings)?;
    Ok(line)
}

fn at(what: impl Into<String>) -> impl FnOnce(io::Error) -> io::Error {
    let what = what.into();
    move |error| io::Error::new(error.kind(), format!("{what}: {error}"))
}
