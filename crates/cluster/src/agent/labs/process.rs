//! The worker process of a part, seen from its agent.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::part::Keeper;
use super::speech::{FromWorker, ToWorker};

/// Interval at which the end of the process is checked.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A process that has not taken its part down after this time never will.
const DOWN_WITHIN: Duration = Duration::from_secs(100);

/// The worker process.
pub(super) struct Process {
    pub(super) child: Child,
    stdin: Option<ChildStdin>,
    pub(super) lines: Receiver<FromWorker>,
}

impl Process {
    /// Starts the worker for the order in a folder.
    ///
    /// # Errors
    /// If the process cannot be created.
    pub(super) fn start(keeper: &Keeper<'_>, folder: &Path) -> io::Result<Self> {
        let mut child = Command::new(keeper.program)
            .args(["part", "--machine", keeper.name, "--address"])
            .arg(keeper.underlay.address.ip().to_string())
            .args(["--interface", &keeper.underlay.interface])
            .args(["--workers", &keeper.workers.to_string()])
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // With a process group of its own, Ctrl-C at the agent's terminal reaches only the agent, which ends its parts
            // in an orderly way.
            .process_group(0)
            .spawn()?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (send, lines) = channel();
        if let Some(stdout) = stdout {
            thread::spawn(move || {
                let said = BufReader::new(stdout).lines().map_while(io::Result::ok);
                let said = said.filter_map(|line| serde_json::from_str(&line).ok());
                // If the receiver is gone, the rest of the output is not needed.
                let _ = said.map(|line| send.send(line)).find(|sent| sent.is_err());
            });
        }
        Ok(Process {
            child,
            stdin,
            lines,
        })
    }

    /// Sends a message. A worker that no longer reads is noticed by its end.
    pub(super) fn say(&mut self, what: &ToWorker) {
        let Some(stdin) = &mut self.stdin else { return };
        let mut line = serde_json::to_vec(what).unwrap_or_default();
        line.push(b'\n');
        if stdin.write_all(&line).is_err() {
            self.stdin = None;
        }
    }
}

impl Drop for Process {
    /// Closes the worker's input, on which the worker takes its part down, and waits for that up to a limit. `constel clean`
    /// removes what is left after that.
    fn drop(&mut self) {
        self.stdin = None;
        let until = Instant::now() + DOWN_WITHIN;
        while Instant::now() < until {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(LOOK_EVERY);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
