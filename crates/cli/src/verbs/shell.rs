//! `constel shell`: opens the user's shell in a node.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use constel_cluster::agent::labs::{Keyboard, Size, Written};
use constel_cluster::store::StoreLocation;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use super::exec::{ended, enter};
use super::there::{Far, Said};
use crate::args::Shell;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

/// Opens the shell.
pub(crate) fn run(args: &Shell) -> Outcome {
    if let Some(store) = &args.store {
        return elsewhere(args, store);
    }
    let shell = std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into());
    let exit = enter(&args.lab, &args.node)?.shell(shell);
    ended(exit.map(|exit| exit.shell_code()))
}

/// Opens the shell on the machine that has the node, in a lab on several machines.
fn elsewhere(args: &Shell, place: &StoreLocation) -> Outcome {
    let (lab, node) = (&args.lab, &args.node);
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        let error = format!(
            "with --store a shell needs a terminal: `constel exec {lab} {node} --store {place} -- COMMAND` runs a command"
        );
        return Err(Failure::Usage(error));
    }
    let far = Far::of(place, lab, node)?;
    // Messages are printed after the terminal's settings are restored.
    let mut said = Said::default();
    let exit = {
        let mut own = Own::take()?;
        far.shell(node, &mut own, &mut |written| match written {
            Written::Output(shown) => {
                let mut out = io::stdout().lock();
                if out.write_all(shown).and_then(|()| out.flush()).is_err() {
                    far.stop();
                }
            }
            errors @ Written::Errors(_) => said.hear(errors),
        })?
    };
    output::tell(&String::from_utf8_lossy(&said.stderr));
    Ok(exit.map_or(Exit::Interrupted, Exit::of_command))
}

/// This terminal in raw mode, whose input is sent to another machine. Dropping it restores the settings.
struct Own {
    before: Termios,
}

impl Own {
    fn take() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        Ok(Self { before })
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // A closed terminal needs no restoring.
        let _ = tcsetattr(io::stdin(), OptionalActions::Drain, &self.before);
    }
}

impl Keyboard for Own {
    fn typed(&mut self, bytes: &mut [u8], patience: Duration) -> io::Result<Option<usize>> {
        let stdin = io::stdin();
        let mut news = [PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN)];
        let patience = Timespec {
            tv_sec: 0,
            tv_nsec: patience.subsec_nanos().into(),
        };
        match poll(&mut news, Some(&patience)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => Ok(Some(0)),
            // Read without a buffer, because `poll` does not see buffered input.
            Ok(_) => Ok(Some(rustix::io::read(stdin, bytes)?).filter(|count| *count > 0)),
            Err(error) => Err(error.into()),
        }
    }

    fn size(&self) -> Option<Size> {
        let size = tcgetwinsize(io::stdout()).ok()?;
        Some(Size {
            columns: size.ws_col,
            rows: size.ws_row,
        })
    }
}
