//! A shell in a node, in a browser: a terminal of this host whose other end is a socket.
//!
//! The browser reports how many bytes it has shown. No more than [`WINDOW`] bytes are unacknowledged. Beyond that the
//! terminal is not read, the kernel's buffer fills, and the writing program waits. Running `yes` for a minute therefore
//! costs only what the browser can show.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use constel_host::process::Terminal;
use schemars::JsonSchema;
use serde::Deserialize;
use tungstenite::Error;

use crate::socket::{Incoming, Socket};
use crate::views::ShellMessage;

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

/// Messages from a page to a shell. Typed keys come as bytes.
#[derive(Deserialize, JsonSchema)]
#[serde(tag = "op", rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(rename = "ShellRequest")]
pub(crate) enum ShellRequest {
    /// The terminal has another size now.
    Size {
        /// Characters a row.
        columns: u16,
        /// Rows.
        rows: u16,
    },
    /// Number of bytes shown so far, which allows more to be sent.
    Shown {
        /// Bytes since the shell began.
        bytes: u64,
    },
}

/// Whether a text is one that a page may say to a shell.
pub(crate) fn understands(text: &str) -> bool {
    serde_json::from_str::<ShellRequest>(text).is_ok()
}

/// The shell on a terminal.
fn open(shell: &ShellProgram, node: &str) -> io::Result<Terminal> {
    Terminal::open(
        shell.program.as_os_str(),
        &["shell", &shell.lab, "--", node],
    )
}

/// Serves one shell until it or the browser ends, or `stopped` is true.
pub(crate) fn serve(
    mut socket: Socket,
    shell: &ShellProgram,
    node: &str,
    stopped: &dyn Fn() -> bool,
) {
    match open(shell, node) {
        Ok(mut terminal) => {
            drop(converse(&mut socket, &mut terminal, stopped));
            let code = match terminal.ended() {
                Ok(Some(status)) => status.code(),
                _ => None,
            };
            drop(socket.text(&ShellMessage::Ended { code }));
        }
        Err(error) => drop(socket.text(&refused(&error))),
    }
    socket.close();
}

fn refused(error: &impl ToString) -> ShellMessage {
    ShellMessage::Refused {
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
        let other: Option<&dyn std::os::fd::AsFd> =
            if open { Some(&*terminal.file()) } else { None };
        let [said, written] = socket.wait(other, Duration::from_millis(200))?;
        while said && let Some(said) = socket.read()? {
            match said {
                Incoming::Bytes(bytes) => terminal.file().write_all(&bytes)?,
                Incoming::Text(text) => match serde_json::from_str(&text) {
                    Ok(ShellRequest::Size { columns, rows }) => terminal.resize(columns, rows)?,
                    Ok(ShellRequest::Shown { bytes }) => shown = bytes.min(sent).max(shown),
                    Err(error) => socket.text(&refused(&error))?,
                },
            }
        }
        if written {
            match terminal.file().read(&mut piece) {
                // EIO: no process has the terminal open any more.
                Ok(0) | Err(_) => {
                    drop(terminal.wait());
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
