//! The host's side of a guest: the kernel as a child process, its output passed on, its outcome read.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use constel_host::node_file::{self, OpenMode};
use constel_units::files;
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::guest::order::{FOLDER, GuestCommand, INPUT, ORDER, OUTCOME, Outcome, VERB};
use crate::guest::{Error, at};

/// How often the end of the guest and a request to stop are polled.
const POLL: Duration = Duration::from_millis(20);

/// Most of the console's end that an error quotes, bytes.
const QUOTED_BYTES: u64 = 2_000;

/// Maximum size of the outcome, bytes.
const OUTCOME_BYTES: u64 = 64 << 10;

/// A guest that runs one command.
#[derive(Debug)]
pub(crate) struct Guest {
    kernel: Child,
    /// The guest's first process reads signals for its command here, a byte each.
    control: File,
    /// Threads that pass output on.
    output: Vec<JoinHandle<()>>,
    folder: tempfile::TempDir,
}

impl Guest {
    /// Boots a guest that carries out the order. Its command's output goes to `stdout` and `stderr`.
    ///
    /// # Errors
    /// [`Error::Host`] when the kernel cannot be started.
    pub(crate) fn start(
        kernel: &Path,
        order: &GuestCommand,
        stdout: impl Write + Send + 'static,
        stderr: impl Write + Send + 'static,
    ) -> Result<Self, Error> {
        let folder = tempfile::Builder::new()
            .prefix("constel-guest-")
            .tempdir()
            .map_err(at("make the guest's folder"))?;
        let own = std::env::current_exe().map_err(at("find this program"))?;
        let text = serde_json::to_vec(order)
            .map_err(|error| at("write the guest's order")(error.into()))?;
        fs::write(folder.path().join(ORDER), text).map_err(at("write the guest's order"))?;
        fs::write(folder.path().join(INPUT), &order.input)
            .map_err(at("write the guest's order"))?;
        // The kernel parts its arguments at blanks: no path of the user's is among them.
        std::os::unix::fs::symlink(own, folder.path().join("constel"))
            .map_err(at("name this program to the guest"))?;
        let lines = [pipe()?, pipe()?, pipe()?];
        let [(out, to_out), (err, to_err), (control, to_control)] = lines;
        let [to_out, to_err, control] = numbered([to_out, to_err, control])?;
        let mut command = kernel_command(kernel);
        command
            .args(arguments(
                order,
                [&to_out, &to_err, &control].map(AsRawFd::as_raw_fd),
            ))
            .env_clear()
            // The kernel keeps the guest's memory in a file without a name in this folder.
            .env("TMPDIR", "/dev/shm")
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(console(folder.path())?)
            .stderr(console(folder.path())?)
            // Ctrl-C is the command's in the guest, which gets it by `signal`.
            .process_group(0);
        for inherited in [&to_out, &to_err, &control] {
            fcntl_setfd(inherited, FdFlags::empty())
                .map_err(|error| at("pass a pipe on")(error.into()))?;
        }
        let kernel = command
            .spawn()
            .map_err(at(format!("start {}", kernel.display())))?;
        drop((to_out, to_err, control));
        let output = vec![pass_on(out, stdout)?, pass_on(err, stderr)?];
        Ok(Self {
            kernel,
            control: File::from(to_control),
            output,
            folder,
        })
    }

    /// Waits until the command has ended, and interrupts it once when `stop` is set.
    ///
    /// # Errors
    /// [`Error::Stopped`] when the kernel ended without an outcome, [`Error::Guest`] when the guest could not be prepared.
    pub(crate) fn wait(mut self, stop: &AtomicBool) -> Result<u8, Error> {
        let mut signalled = false;
        let status = loop {
            if let Some(status) = self.kernel.try_wait().map_err(at("wait for the guest"))? {
                break status;
            }
            if stop.load(Ordering::Acquire) && !signalled {
                signalled = true;
                let interrupt = u8::try_from(Signal::INT.as_raw()).unwrap_or_default();
                self.control
                    .write_all(&[interrupt])
                    .map_err(at("interrupt the guest"))?;
            }
            thread::sleep(POLL);
        };
        for thread in self.output.drain(..) {
            // A panic of the thread was printed already.
            drop(thread.join());
        }
        outcome(self.folder.path(), status)
    }
}

/// Returns the exit code that the guest wrote down, or the reason why it has none.
fn outcome(folder: &Path, status: ExitStatus) -> Result<u8, Error> {
    // Programs in the guest may have put anything in place of both files.
    let read = node_file::open(&folder.join(OUTCOME), OpenMode::Read).ok();
    let text = read.and_then(|file| files::read_all(file, OUTCOME_BYTES).ok());
    match text.and_then(|text| serde_json::from_slice(&text).ok()) {
        Some(Outcome::Ended(code)) => Ok(code),
        Some(Outcome::Unprepared(why)) => Err(Error::Guest(why)),
        None => {
            let end = end_of(&folder.join(CONSOLE)).unwrap_or_default();
            let last = format!("{status}; {}", String::from_utf8_lossy(&end).trim());
            Err(Error::Stopped { last })
        }
    }
}

/// Returns the last bytes of the console's file.
fn end_of(console: &Path) -> Option<Vec<u8>> {
    let mut file = node_file::open(console, OpenMode::Read).ok()?;
    let length = file.metadata().ok()?.len();
    let from = length.saturating_sub(QUOTED_BYTES);
    file.seek(SeekFrom::Start(from)).ok()?;
    let mut end = Vec::new();
    file.take(QUOTED_BYTES).read_to_end(&mut end).ok()?;
    Some(end)
}

impl Drop for Guest {
    /// The processes of a guest are its kernel's, in a group of their own.
    fn drop(&mut self) {
        let group = i32::try_from(self.kernel.id()).ok().and_then(Pid::from_raw);
        if self.kernel.try_wait().is_ok_and(|ended| ended.is_none()) {
            group.map(|group| kill_process_group(group, Signal::KILL).ok());
            drop(self.kernel.wait());
        }
    }
}

/// The file of the guest's console, in its folder.
const CONSOLE: &str = "console";

fn console(folder: &Path) -> Result<File, Error> {
    let options = File::options()
        .append(true)
        .create(true)
        .open(folder.join(CONSOLE));
    options.map_err(at("make the guest's console"))
}

/// Returns the kernel's command line. The kernel mixes it into its random numbers, so that it must be the same in each run: the
/// folder of the guest is named by the kernel's own working folder, which the guest resolves on the host.
fn arguments(order: &GuestCommand, [out, err, control]: [i32; 3]) -> Vec<String> {
    let folder = "/proc/self/cwd";
    vec![
        format!("mem={}M", order.memory_bytes >> 20),
        // The host's root, read-only.
        "root=/dev/root".to_owned(),
        "rootfstype=hostfs".to_owned(),
        "rootflags=/".to_owned(),
        "ro".to_owned(),
        format!("init={folder}/constel"),
        // Processors are infinitely fast: the clock moves when all processes sleep.
        "time-travel=inf-cpu".to_owned(),
        format!("time-travel-start={}", order.starts_at_ns),
        "uml_dir=./".to_owned(),
        "umid=constel".to_owned(),
        // Else the kernel appends it, behind the first process's arguments.
        "console=tty0".to_owned(),
        "con=null".to_owned(),
        "con0=null,fd:1".to_owned(),
        format!("ssl0=null,fd:{out}"),
        format!("ssl1=null,fd:{err}"),
        format!("ssl2=fd:{control},null"),
        "quiet".to_owned(),
        "panic=-1".to_owned(),
        // The kernel mixes its command line into the random numbers; that is the only use of this.
        format!("CONSTEL_SEED={}", order.seed),
        format!("{FOLDER}={folder}"),
        "--".to_owned(),
        VERB.to_owned(),
    ]
}

/// Returns the command that starts the kernel, with programs of util-linux where they are installed. The kernel ends with the
/// thread that starts it, however that ends. It is at the same addresses in each run, as its memory begins behind its own program.
fn kernel_command(kernel: &Path) -> Command {
    let before: [&[&str]; 2] = [
        &["/usr/bin/setpriv", "--pdeathsig", "KILL"],
        &["/usr/bin/setarch", "-R"],
    ];
    let there = before.iter().filter(|words| Path::new(words[0]).is_file());
    let mut words: Vec<&OsStr> = there.copied().flatten().map(OsStr::new).collect();
    words.push(kernel.as_os_str());
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    command
}

fn pipe() -> Result<(OwnedFd, OwnedFd), Error> {
    pipe_with(PipeFlags::CLOEXEC).map_err(|error| at("make a pipe")(error.into()))
}

/// The lowest number of a pipe of the guest.
const PIPES: i32 = 200;

/// Renumbers the pipes of a guest. The command line contains the numbers, and must be the same whatever else this process has
/// open.
fn numbered(pipes: [OwnedFd; 3]) -> Result<[OwnedFd; 3], Error> {
    let number = |pipe: &OwnedFd| {
        fcntl_dupfd_cloexec(pipe, PIPES).map_err(|error| at("number a pipe")(error.into()))
    };
    let [out, err, control] = &pipes;
    Ok([number(out)?, number(err)?, number(control)?])
}

/// Copies all that comes out of a pipe. When the reader has gone the rest is discarded, so that the guest goes on.
fn pass_on(from: OwnedFd, mut to: impl Write + Send + 'static) -> Result<JoinHandle<()>, Error> {
    let copy = move || {
        let mut from = File::from(from);
        let mut piece = [0; 16 << 10];
        let mut open = true;
        while let Ok(read @ 1..) = from.read(&mut piece) {
            open = open
                && to
                    .write_all(&piece[..read])
                    .and_then(|()| to.flush())
                    .is_ok();
        }
    };
    let thread = thread::Builder::new().name("guest".to_owned()).spawn(copy);
    thread.map_err(at("pass the guest's output on"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::os::unix::process::ExitStatusExt;

    fn told(folder: &Path) -> String {
        match outcome(folder, ExitStatus::from_raw(0)) {
            Ok(code) => format!("code {code}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_outcome_is_bounded_and_nothing_in_its_place_is_waited_for() {
        let place = tempfile::tempdir().unwrap();
        let at = place.path().join(OUTCOME);
        fs::write(&at, r#"{"Ended": 7}"#).unwrap();
        assert_eq!(told(place.path()), "code 7");
        let console = File::create(place.path().join(CONSOLE)).unwrap();
        console.set_len(1 << 40).unwrap();
        let padded = format!("{{\"Ended\": 7}}{}", " ".repeat(64 << 10));
        fs::write(&at, padded).unwrap();
        assert!(told(place.path()).contains("exit status: 0"));
        fs::remove_file(&at).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &at, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert!(told(place.path()).contains("exit status: 0"));
        fs::remove_file(&at).unwrap();
        symlink("/dev/zero", &at).unwrap();
        drop(console);
        fs::write(
            place.path().join(CONSOLE),
            format!("{}last words\n", "x".repeat(3_000)),
        )
        .unwrap();
        let words = told(place.path());
        assert!(
            words.ends_with("last words") && words.len() < 2_200,
            "{words}"
        );
    }
}
