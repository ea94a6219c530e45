//! A program on a terminal of its own, as seen from the terminal's other end.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// Time in which a program must end after a hang-up or a request to end.
const END_WITHIN: Duration = Duration::from_secs(2);

/// Signals from terminals. A process that ignores some of them (started by `nohup` or with `&` in a script) passes that
/// on to its programs, unless they are reset.
const OF_TERMINALS: [libc::c_int; 6] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
];

/// A program and the other end of its terminal. Dropping it hangs up the terminal.
#[derive(Debug)]
pub struct Terminal {
    file: File,
    child: Child,
}

impl Terminal {
    /// Starts a program on a new terminal of its own, so that Ctrl-C reaches it.
    ///
    /// # Errors
    /// When no terminal is available, or the program cannot be started.
    pub fn open<S: AsRef<OsStr>>(program: &OsStr, args: &[S]) -> io::Result<Self> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let name = ptsname(&master, Vec::new())?;
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let slave = File::from(rustix::fs::open(&*name, flags, Mode::empty())?);
        let mut command = Command::new("setsid");
        // SAFETY: signal(2) may be called between fork and exec, and nothing else is.
        unsafe {
            command.pre_exec(|| {
                for signal in OF_TERMINALS {
                    libc::signal(signal, libc::SIG_DFL);
                }
                Ok(())
            });
        }
        let child = command
            .arg("--ctty")
            .arg(program)
            .args(args)
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

    /// Returns the end at which the program's output is read and its input is written. Reading fails (EIO) when no
    /// process has the terminal open any more.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Returns another handle of the same end.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn another_end(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Sets the terminal's size, 1 to 1000 each way.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn resize(&self, columns: u16, rows: u16) -> io::Result<()> {
        resize(&self.file, columns, rows)
    }

    /// Returns how the program ended, if it has.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Waits until it ends.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait()
    }

    /// Kills it.
    pub fn kill(&mut self) {
        // It may have ended just now.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sets the size of a terminal, of which this is an end.
///
/// # Errors
/// The kernel's error.
pub fn resize(end: &File, columns: u16, rows: u16) -> io::Result<()> {
    let size = Winsize {
        ws_row: rows.clamp(1, 1000),
        ws_col: columns.clamp(1, 1000),
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    Ok(tcsetwinsize(end, size)?)
}

impl Drop for Terminal {
    /// Closing the terminal sends a hang-up to its programs; one that does not end is killed.
    fn drop(&mut self) {
        if let Ok(null) = File::open("/dev/null") {
            self.file = null;
        }
        end_child(&mut self.child);
    }
}

/// Waits for the end of a program that has received a signal to end; kills it after two seconds.
pub fn end_child(child: &mut Child) {
    let end = Instant::now() + END_WITHIN;
    while Instant::now() < end {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    // It may have ended just now.
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    /// Returns all output of the program, until no process has the terminal open any more.
    fn said_on(terminal: &mut Terminal) -> String {
        let (mut said, mut bytes) = (Vec::new(), [0; 256]);
        while let Ok(count @ 1..) = terminal.file().read(&mut bytes) {
            said.extend_from_slice(&bytes[..count]);
        }
        String::from_utf8(said).unwrap()
    }

    #[test]
    fn a_program_has_a_terminal_of_a_size_and_ends_as_it_does() {
        let script = "read line; stty size; echo \"<$line>\"; exit 7";
        let mut terminal = Terminal::open(OsStr::new("sh"), &["-c", script]).unwrap();
        terminal.resize(123, 45).unwrap();
        terminal.file().write_all(b"typed\n").unwrap();
        let said = said_on(&mut terminal);
        assert!(said.contains("<typed>"), "{said:?}");
        assert!(said.contains("45 123"), "{said:?}");
        assert_eq!(terminal.wait().unwrap().code(), Some(7));
    }

    #[test]
    fn what_we_ignore_a_program_on_a_terminal_does_not() {
        // SAFETY: no thread of this process waits for this signal.
        unsafe { libc::signal(libc::SIGTTOU, libc::SIG_IGN) };
        let script = "read line; grep SigIgn /proc/self/status";
        let mut terminal = Terminal::open(OsStr::new("sh"), &["-c", script]).unwrap();
        terminal.file().write_all(b"\n").unwrap();
        let said = said_on(&mut terminal);
        let ignored = said.split_whitespace().last().unwrap();
        let ignored = u64::from_str_radix(ignored, 16).unwrap();
        for signal in OF_TERMINALS {
            assert_eq!(ignored >> (signal - 1) & 1, 0, "{said}");
        }
    }

    #[test]
    fn who_is_hung_up_ends() {
        let mut terminal = Terminal::open(OsStr::new("sleep"), &["600"]).unwrap();
        assert!(terminal.ended().unwrap().is_none());
        let began = Instant::now();
        drop(terminal);
        assert!(began.elapsed() < END_WITHIN + Duration::from_secs(5));
    }
}
