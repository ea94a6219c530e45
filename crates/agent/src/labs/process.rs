//! The process that runs a part, as its agent has it.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::part::Keeper;
use super::speech::{FromPart, ToPart};

/// How soon its end is noticed.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A process that does not take its part down by then never will.
const DOWN_WITHIN: Duration = Duration::from_secs(100);

/// The process that runs it.
pub(super) struct Process {
    pub(super) child: Child,
    stdin: Option<ChildStdin>,
    pub(super) lines: Receiver<FromPart>,
}

impl Process {
    /// Starts the part whose order is in the folder.
    ///
    /// # Errors
    /// When there can be no process.
    pub(super) fn start(keeper: &Keeper<'_>, folder: &Path) -> io::Result<Self> {
        let mut child = Command::new(keeper.program)
            .args(["part", "--machine", keeper.name, "--address"])
            .arg(keeper.underlay.address.ip().to_string())
            .args(["--interface", &keeper.underlay.interface])
            .args(["--workers", &keeper.workers.to_string()])
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C at the agent's terminal is the agent's to hear: it ends its parts in good order.
            .process_group(0)
            .spawn()?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (send, lines) = channel();
        if let Some(stdout) = stdout {
            thread::spawn(move || {
                let said = BufReader::new(stdout).lines().map_while(io::Result::ok);
                let said = said.filter_map(|line| serde_json::from_str(&line).ok());
                // Nobody listens any more: so be it.
                let _ = said.map(|line| send.send(line)).find(|sent| sent.is_err());
            });
        }
        Ok(Process {
            child,
            stdin,
            lines,
        })
    }

    /// Says something. One that does not read any more is noticed by its end.
    pub(super) fn say(&mut self, what: &ToPart) {
        let Some(stdin) = &mut self.stdin else { return };
        let mut line = serde_json::to_vec(what).unwrap_or_default();
        line.push(b'\n');
        if stdin.write_all(&line).is_err() {
            self.stdin = None;
        }
    }
}

impl Drop for Process {
    /// It hears that its input ends, and takes its part down; whoever drops this waits for that, but not for ever: what it leaves then
    /// is for `constel clean`.
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
