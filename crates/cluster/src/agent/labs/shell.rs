//! A shell on a machine of a lab through the store. Typed keys go there in pieces, and the output of its terminal comes back
//! like that of any followed command. Any process that may use the store may do this, and no port listens for it.

use std::io::{self, Read, Write};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use constel_host::process::{Terminal, resize};

use super::keys;
use super::stream::{Pace, Receive, send};
use crate::store::{LeaseId, Store};

/// Interval at which the end flag is checked.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The first byte of a piece: typed keys follow it, or four bytes with columns and rows.
const TYPED: u8 = b't';
const SIZED: u8 = b's';

/// The size of a terminal in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Number of columns.
    pub columns: u16,
    /// Number of rows.
    pub rows: u16,
}

/// The source of typed keys.
pub trait Keyboard {
    /// Returns the number of bytes typed within `patience`, possibly 0, or `None` if no more can follow.
    ///
    /// # Errors
    /// If the keyboard cannot be read.
    fn typed(&mut self, bytes: &mut [u8], patience: Duration) -> io::Result<Option<usize>>;

    /// Returns the current size of the terminal, if it is one.
    fn size(&self) -> Option<Size>;
}

/// A reader of keys and sizes for the other end. Each read is a whole piece.
pub(super) struct Typed<'a> {
    keyboard: &'a mut (dyn Keyboard + Send),
    wanted: &'a AtomicBool,
    told: Option<Size>,
}

impl<'a> Typed<'a> {
    pub(super) fn new(keyboard: &'a mut (dyn Keyboard + Send), wanted: &'a AtomicBool) -> Self {
        Self {
            keyboard,
            wanted,
            told: None,
        }
    }
}

impl Read for Typed<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        while self.wanted.load(Ordering::Acquire) {
            let now = self.keyboard.size();
            if let Some(size) = now.filter(|_| now != self.told) {
                self.told = now;
                let [[a, b], [c, d]] = [size.columns, size.rows].map(u16::to_be_bytes);
                let piece = [SIZED, a, b, c, d];
                bytes[..piece.len()].copy_from_slice(&piece);
                return Ok(piece.len());
            }
            bytes[0] = TYPED;
            match self.keyboard.typed(&mut bytes[1..], LOOK_EVERY)? {
                Some(0) => {}
                Some(count) => return Ok(1 + count),
                None => break,
            }
        }
        Ok(0)
    }
}

/// Runs a command that opens a shell on a terminal of its own, until it ends or `wanted` is cleared. Returns its exit code.
///
/// # Errors
/// If no terminal can be opened, or the store cannot be reached.
pub(super) fn serve(
    store: &Arc<dyn Store>,
    (number, lease): (&str, LeaseId),
    command: &Command,
    wanted: &AtomicBool,
) -> io::Result<i32> {
    let typed = Receive::new(store, keys::typed(number)).map_err(io::Error::other)?;
    let args: Vec<_> = command.get_args().collect();
    let mut terminal = Terminal::open(command.get_program(), &args)?;
    let (keyed, shown) = (terminal.another_end()?, terminal.another_end()?);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let is_over = &over;
        scope.spawn(move || type_into(keyed, typed, is_over));
        scope.spawn(move || {
            let to = keys::output(number);
            // An error means that the requester is gone, which clears `wanted`.
            let _ = send(store.as_ref(), (&to, lease), Pace::TERMINAL, shown, wanted);
        });
        let exit = loop {
            match terminal.ended() {
                Ok(Some(status)) => break status.code().unwrap_or(128),
                Ok(None) if wanted.load(Ordering::Acquire) => thread::sleep(LOOK_EVERY / 5),
                _ => {
                    terminal.kill();
                    break 130;
                }
            }
        };
        over.store(true, Ordering::Release);
        Ok(exit)
    })
}

/// Writes the received keys into the terminal until the shell ends.
fn type_into(mut end: std::fs::File, mut typed: Receive, over: &AtomicBool) {
    while !over.load(Ordering::Acquire) {
        typed.next(LOOK_EVERY, &mut |piece| {
            // A write error means that the shell has ended.
            let _ = match piece {
                [TYPED, bytes @ ..] => end.write_all(bytes),
                [SIZED, a, b, c, d] => {
                    let [columns, rows] = [[*a, *b], [*c, *d]].map(u16::from_be_bytes);
                    resize(&end, columns, rows)
                }
                _ => Ok(()),
            };
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::labs::answerer::tests::{answering, program};
    use crate::agent::labs::ask::{CommandRequest, shell};
    use crate::store::Embedded;
    use std::sync::Mutex;

    /// Types each line when the shown text ends with the text it waits for.
    struct Script<'a> {
        lines: Vec<(&'static str, &'static [u8])>,
        shown: &'a Mutex<Vec<u8>>,
    }

    impl Keyboard for Script<'_> {
        fn typed(&mut self, bytes: &mut [u8], patience: Duration) -> io::Result<Option<usize>> {
            let shown = String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned();
            let due = self
                .lines
                .first()
                .filter(|(after, _)| shown.contains(after));
            let Some((_, line)) = due.copied() else {
                thread::sleep(patience);
                return Ok(Some(0));
            };
            self.lines.remove(0);
            bytes[..line.len()].copy_from_slice(line);
            Ok(Some(line.len()))
        }

        fn size(&self) -> Option<Size> {
            Some(Size {
                columns: 97,
                rows: 31,
            })
        }
    }

    /// Runs a shell of this host in place of one in a node.
    fn told(lines: Vec<(&'static str, &'static [u8])>) -> (i32, String, usize) {
        let place = tempfile::tempdir().unwrap();
        let program = program(place.path(), "echo \"$@\"\nexec /bin/sh");
        let store: Arc<dyn Store> = Arc::new(Embedded::new());
        store.put(&keys::part("l", "a"), b"{}").unwrap();
        let (end, never) = (AtomicBool::new(false), AtomicBool::new(false));
        let shown = Mutex::new(Vec::new());
        let said = thread::scope(|scope| {
            scope.spawn(|| answering(&store, &program, &end));
            let question = CommandRequest {
                machine: "a".to_owned(),
                verb: vec!["shell".to_owned()],
                args: vec!["--".to_owned(), "tokyo".to_owned()],
            };
            let mut script = Script {
                lines,
                shown: &shown,
            };
            let mut hear = |piece: &[u8]| shown.lock().unwrap().extend_from_slice(piece);
            let said = shell(&store, "l", &question, &never, &mut script, &mut hear);
            end.store(true, Ordering::Release);
            said.unwrap().unwrap()
        });
        let shown = String::from_utf8_lossy(&shown.into_inner().unwrap()).into_owned();
        let left = store.list("constel/labs/").unwrap().entries.len();
        (said.exit, shown, left)
    }

    #[test]
    fn what_is_typed_is_answered_and_it_ends_as_the_shell_does() {
        let (exit, shown, left) = told(vec![
            ("tokyo", b"stty size; echo $((6 * 7)).\n"),
            ("42.", b"exit 9\n"),
        ]);
        assert_eq!(exit, 9, "{shown}");
        assert!(shown.contains("shell l-a -- tokyo"), "{shown}");
        assert!(shown.contains("31 97"), "{shown}");
        assert_eq!(left, 1, "the part alone");
    }

    #[test]
    fn ctrl_c_reaches_who_writes_without_end() {
        let (exit, shown, _) = told(vec![
            ("tokyo", b"yes\n"),
            ("y\r\ny\r\ny", b"\x03"),
            ("y\r\ny\r\ny", b"exit 0\n"),
        ]);
        assert_eq!(exit, 0);
        assert!(shown.contains("y\r\n"));
    }
}
