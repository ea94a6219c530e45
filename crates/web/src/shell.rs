//! A shell in a node, in a browser: a terminal of this host whose other end is a socket.
//!
//! The browser says how many bytes it has shown. No more than [`WINDOW`] are under way: beyond that the terminal is not read,
//! the kernel's buffer fills, and the program that writes waits. `yes` for a minute costs what the browser can show.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use schemars::JsonSchema;
use serde::Deserialize;
use tungstenite::Error;

use crate::child;
use crate::socket::{Said, Socket};
use crate::views::ShellTold;

/// Most bytes that were sent and not yet shown.
pub const WINDOW: u64 = 256 << 10;

/// The program that opens shells: `PROGRAM shell LAB NODE`.
#[derive(Debug, Clone)]
pub struct ShellProgram {
    /// This program.
    pub program: PathBuf,
    /// The lab's name.
    pub lab: String,
}

/// What a page may say to a shell; what is typed comes as bytes.
#[derive(Deserialize, JsonSchema)]
#[serde(tag = "op", rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(rename = "ShellAsk")]
pub(crate) enum Ask {
    /// The terminal has another size now.
    Size {
        /// Characters a row.
        columns: u16,
        /// Rows.
        rows: u16,
    },
    /// What was shown so far, which lets more be sent.
    Shown {
        /// Bytes since the shell began.
        bytes: u64,
    },
}

/// A program on a terminal.
struct Terminal {
    /// The terminal's other end.
    file: File,
    child: Child,
}

impl Terminal {
    fn open(shell: &ShellProgram, node: &str) -> io::Result<Self> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let name = ptsname(&master, Vec::new())?;
        let slave = rustix::fs::open(
            &*name,
            OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let slave = File::from(slave);
        // `setsid --ctty` makes the terminal the program's own, so that Ctrl-C reaches it.
        let words: [OsString; 6] = [
            "--ctty".into(),
            shell.program.clone().into(),
            "shell".into(),
            shell.lab.clone().into(),
            "--".into(),
            node.into(),
        ];
        let child = Command::new("setsid")
            .args(words)
            .env("TERM", "xterm-256color")
            .stdin(Stdio::from(slave.try_clone()?))
            .stdout(Stdio::from(slave.try_clone()?))
            .stderr(Stdio::from(slave))
            .spawn()?;
        Ok(Self {
            file: File::from(master),
            child,
        })
    }

    fn resize(&self, columns: u16, rows: u16) -> io::Result<()> {
        let size = Winsize {
            ws_row: rows.clamp(1, 1000),
            ws_col: columns.clamp(1, 1000),
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        Ok(tcsetwinsize(&self.file, size)?)
    }
}

impl Drop for Terminal {
    /// A terminal that is gone hangs its programs up; one that stays is killed.
    fn drop(&mut self) {
        if let Ok(null) = File::open("/dev/null") {
            self.file = null;
        }
        child::end(&mut self.child);
    }
}

/// Serves one shell until it or the browser ends, or `stopped` is true.
pub(crate) fn serve(
    mut socket: Socket,
    shell: &ShellProgram,
    node: &str,
    stopped: &dyn Fn() -> bool,
) {
    match Terminal::open(shell, node) {
        Ok(mut terminal) => {
            drop(converse(&mut socket, &mut terminal, stopped));
            let code = match terminal.child.try_wait() {
                Ok(Some(status)) => status.code(),
                _ => None,
            };
            drop(socket.text(&ShellTold::Ended { code }));
        }
        Err(error) => drop(socket.text(&refused(&error))),
    }
    socket.close();
}

fn refused(error: &impl ToString) -> ShellTold {
    ShellTold::Refused {
        error: error.to_string(),
    }
}

fn converse(
    socket: &mut Socket,
    terminal: &mut Terminal,
    stopped: &dyn Fn() -> bool,
) -> Result<(), Error> {
    let (mut sent, mut shown) = (0_u64, 0_u64);
    let mut piece = vec![0; 16 << 10];
    while !stopped() {
        let open = sent.saturating_sub(shown) < WINDOW;
        let other: Option<&dyn std::os::fd::AsFd> = if open { Some(&terminal.file) } else { None };
        let [said, written] = socket.wait(other, Duration::from_millis(200))?;
        while said && let Some(said) = socket.read()? {
            match said {
                Said::Bytes(bytes) => terminal.file.write_all(&bytes)?,
                Said::Text(text) => match serde_json::from_str(&text) {
                    Ok(Ask::Size { columns, rows }) => terminal.resize(columns, rows)?,
                    Ok(Ask::Shown { bytes }) => shown = bytes.min(sent).max(shown),
                    Err(error) => socket.text(&refused(&error))?,
                },
            }
        }
        if written {
            match terminal.file.read(&mut piece) {
                // EIO: nobody has the terminal open any more.
                Ok(0) | Err(_) => {
                    drop(terminal.child.wait());
                    return Ok(());
                }
                Ok(got) => {
                    sent += got as u64;
                    socket.bytes(piece[..got].to_vec())?;
                }
            }
        }
    }
    Ok(())
}
