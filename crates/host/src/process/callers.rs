//! The standard streams of a command in a node.
//!
//! A command never gets the caller's terminal: a process that it leaves behind could read later input, and signals that
//! its terminal sends to a process group would reach the caller's. It gets a pseudo-terminal of the node, and this
//! process copies bytes between the two. A container gets no file of the caller either, because `/proc/self/fd` opens a
//! file again, with other rights than the descriptor has. Its output goes through pipes, and a file that it reads is
//! one that it cannot write.

use std::fs::File;
use std::io::{self, IsTerminal, PipeReader, PipeWriter, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::thread::{self, JoinHandle};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::process::{Uid, getpgrp};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, unlockpt};
use rustix::termios::{
    OptionalActions, OutputModes, Termios, tcgetattr, tcgetpgrp, tcgetwinsize, tcsetattr,
    tcsetwinsize,
};

use super::exec::{Entry, ExecContext};
use super::spawn::{Spawn, Stdio};
use crate::enclosure::View;
use crate::enclosure::mounts::read_only_clone;
use crate::error::{Context, Error, Result};

/// `DEVPTS_SUPER_MAGIC` of the kernel.
const DEVPTS: i64 = 0x1cd1;

/// Maximum number of bytes copied at a time.
const PIECE_BYTES: usize = 64 << 10;

/// Interval of checks whether the terminal belongs to this process again: the kernel has no event for it.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// Streams for the command in place of the caller's, and the copying that they need.
pub(super) struct Callers {
    /// Streams for the command.
    streams: [Stdio; 3],
    /// The stream that is the command's terminal.
    terminal: Option<RawFd>,
    /// Our end of the terminal.
    master: Option<OwnedFd>,
    input: Option<Input>,
    outputs: Vec<(OwnedFd, OwnedFd)>,
}

/// Source of a command's input.
enum Input {
    /// Keyboard input goes to the pseudo-terminal.
    Typed,
    /// Bytes are copied to a pipe.
    Carried(PipeWriter),
    /// The command reads a file. This is the same open file as the command's: the caller continues where it stops
    /// reading.
    File(File),
}

impl Callers {
    /// Inspects the caller's streams and creates their replacements.
    ///
    /// # Errors
    /// When the kernel refuses, or a container would get a folder as its input.
    pub(super) fn look(entry: &Entry) -> Result<Self> {
        let owner = match &entry.within {
            ExecContext::View(_) => None,
            ExecContext::Container { confinement, .. } => Some(Uid::from_raw(confinement.uid)),
        };
        let own = [
            io::stdin().as_fd(),
            io::stdout().as_fd(),
            io::stderr().as_fd(),
        ]
        .map(|fd| fd.try_clone_to_owned());
        let [stdin, stdout, stderr] = own;
        let what = || "look at the standard streams".to_owned();
        let own = [
            stdin.context(what)?,
            stdout.context(what)?,
            stderr.context(what)?,
        ];
        let is_terminal = [0, 1, 2].map(|n: usize| own[n].is_terminal());
        // Keyboard input is the command's only if its output is visible. Otherwise another program of a pipe, such as a
        // pager, may read it.
        let typed = is_terminal[0] && is_terminal[1];
        let terminals = [typed, is_terminal[1], is_terminal[2]];
        let mut made = Self {
            streams: Default::default(),
            terminal: (0..).zip(terminals).find(|(_, is)| *is).map(|(n, _)| n),
            master: None,
            input: None,
            outputs: Vec::new(),
        };
        let slave = match made.terminal {
            None => None,
            Some(number) => {
                let like = own[number as usize].as_fd();
                let (master, slave) = pseudo_terminal(entry.within.view(), like, owner)?;
                if !typed {
                    // The caller's terminal adds the carriage returns.
                    leave_output(slave.as_fd())?;
                }
                made.master = Some(master);
                Some(slave)
            }
        };
        let [stdin, stdout, stderr] = own;
        made.streams[0] = match (&slave, typed, owner) {
            (Some(slave), true, _) => {
                made.input = Some(Input::Typed);
                Stdio::Fd(slave.try_clone().context(what)?)
            }
            _ if is_terminal[0] => Stdio::Null,
            (_, _, None) => Stdio::Inherit,
            (_, _, Some(owner)) => made.contained_input(&stdin, owner)?,
        };
        for (number, own) in [(1, stdout), (2, stderr)] {
            made.streams[number] = match (&slave, is_terminal[number], owner) {
                (Some(slave), true, _) => Stdio::Fd(slave.try_clone().context(what)?),
                (_, _, None) => Stdio::Inherit,
                (_, _, Some(owner)) => {
                    let (reader, writer) = owned_pipe(owner)?;
                    made.outputs.push((reader.into(), own));
                    Stdio::Fd(writer.into())
                }
            };
        }
        if let Some(master) = &made.master {
            let master = master.try_clone().context(what)?;
            let to = match is_terminal[1] {
                true => io::stdout().as_fd().try_clone_to_owned(),
                false => io::stderr().as_fd().try_clone_to_owned(),
            };
            made.outputs.push((master, to.context(what)?));
        }
        Ok(made)
    }

    /// Creates a container's standard input.
    fn contained_input(&mut self, stdin: &OwnedFd, owner: Uid) -> Result<Stdio> {
        let what = || "look at standard input".to_owned();
        let found = rustix::fs::fstat(stdin).context(what)?;
        match FileType::from_raw_mode(found.st_mode) {
            // A pipe has no other rights when it is opened again, and bytes that the command does not read stay in it.
            FileType::Fifo => return Ok(Stdio::Inherit),
            FileType::Directory => {
                let why = "standard input is a folder of the host, which a container must not get";
                return Err(Error::Invalid(why.to_owned()));
            }
            FileType::CharacterDevice if found.st_rdev == rustix::fs::makedev(1, 3) => {
                return Ok(Stdio::Null);
            }
            FileType::RegularFile => {
                // If there is no read-only mount, its bytes are copied.
                if let Ok(file) = read_only(stdin.as_fd()) {
                    let own = file.try_clone().context(what)?;
                    self.input = Some(Input::File(own));
                    return Ok(Stdio::Fd(file.into()));
                }
            }
            _ => {}
        }
        let (reader, writer) = owned_pipe(owner)?;
        self.input = Some(Input::Carried(writer));
        Ok(Stdio::Fd(reader.into()))
    }

    /// Passes the streams to a command that is about to be started.
    pub(super) fn give<'a>(&mut self, spawn: Spawn<'a>) -> Spawn<'a> {
        let [stdin, stdout, stderr] = std::mem::take(&mut self.streams);
        let spawn = spawn.stdin(stdin).stdout(stdout).stderr(stderr);
        match self.terminal {
            Some(number) => spawn.terminal(number),
            None => spawn,
        }
    }

    /// Starts copying bytes; called once the command runs.
    ///
    /// # Errors
    /// When no pipe is available, or a terminal's modes cannot be set.
    pub(super) fn carry(self) -> Result<Carrying> {
        let what = || "make a pipe".to_owned();
        let (ended, ends) = io::pipe().context(what)?;
        let mut carrying = Carrying {
            ends: Some(ends),
            outputs: Vec::new(),
            file: None,
            raw: None,
            master: self.master,
        };
        for (from, to) in self.outputs {
            let ended = ended.try_clone().context(what)?;
            let work = move || carry_output(&from, to.into(), &ended);
            carrying.outputs.push(thread::spawn(work));
        }
        match (self.input, &carrying.master) {
            (Some(Input::Typed), Some(master)) => {
                carrying.raw = Some(Raw::take()?);
                let to = File::from(master.try_clone().context(what)?);
                drop(thread::spawn(move || carry_input(to, &ended)));
            }
            (Some(Input::Carried(to)), _) => {
                let to = File::from(OwnedFd::from(to));
                drop(thread::spawn(move || carry_input(to, &ended)));
            }
            (Some(Input::File(file)), _) => carrying.file = Some(file),
            (Some(Input::Typed) | None, _) => {}
        }
        Ok(carrying)
    }
}

/// The copying for a running command.
pub(super) struct Carrying {
    /// Closed when the command has ended.
    ends: Option<PipeWriter>,
    outputs: Vec<JoinHandle<()>>,
    file: Option<File>,
    raw: Option<Raw>,
    master: Option<OwnedFd>,
}

impl Carrying {
    /// Adapts to a new size of the caller's terminal.
    pub(super) fn resize(&self) {
        if let Some(master) = &self.master {
            same_size(master.as_fd(), io::stdout().as_fd());
        }
    }

    /// Called when the caller continues after a stop, possibly in the foreground again.
    pub(super) fn go_on(&self) {
        if let Some(raw) = &self.raw {
            raw.set();
        }
        self.resize();
    }

    /// Called when the command has ended. Output that it has written is still copied; output of processes that it left
    /// behind is not.
    pub(super) fn end(mut self) {
        drop(self.ends.take());
        for output in self.outputs.drain(..) {
            if let Err(panic) = output.join() {
                std::panic::resume_unwind(panic);
            }
        }
        if let Some(mut file) = self.file.take()
            && let Ok(at) = file.stream_position()
        {
            // A loop of a script that reads the same file continues behind it, as after any other command.
            let _ = rustix::fs::seek(io::stdin(), rustix::fs::SeekFrom::Start(at));
        }
    }
}

/// The caller's terminal in raw mode, so that each key reaches the command. The previous modes are restored on drop.
struct Raw {
    before: Termios,
}

impl Raw {
    fn take() -> Result<Self> {
        let before = tcgetattr(io::stdin()).context(|| "look at the terminal".to_owned())?;
        let raw = Self { before };
        raw.set();
        Ok(raw)
    }

    /// Sets raw mode, unless another job is in the foreground now.
    fn set(&self) {
        if !has_terminal() {
            return;
        }
        let mut raw = self.before.clone();
        raw.make_raw();
        // The terminal may be gone; then it needs no modes.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &raw);
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        if has_terminal() {
            let _ = tcsetattr(io::stdin(), OptionalActions::Drain, &self.before);
        }
    }
}

/// Returns whether this process's group is in the foreground of its terminal.
fn has_terminal() -> bool {
    tcgetpgrp(io::stdin()).is_ok_and(|group| group == getpgrp())
}

/// Creates a pseudo-terminal of the node, with modes and size of another terminal. Returns its ends for this process
/// and for the command, whose user owns it.
fn pseudo_terminal(
    view: &View,
    like: BorrowedFd<'_>,
    owner: Option<Uid>,
) -> Result<(OwnedFd, OwnedFd)> {
    let what = || "make a terminal in the node".to_owned();
    let master = view.within(|| {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let folder = rustix::fs::openat2(CWD, "/dev/pts", flags, Mode::empty(), resolve);
        let folder = folder.context(what)?;
        // In this file system only the kernel creates files: no program of the node can replace one.
        let kind = rustix::fs::fstatfs(&folder).context(what)?;
        if kind.f_type as i64 != DEVPTS {
            let why = "/dev/pts of the node is not a devpts file system";
            return Err(Error::Conflict(why.to_owned()));
        }
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        rustix::fs::openat(&folder, "ptmx", flags, Mode::empty()).context(what)
    })?;
    unlockpt(&master).context(what)?;
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let slave = ioctl_tiocgptpeer(&master, flags).context(what)?;
    if let Ok(modes) = tcgetattr(like) {
        tcsetattr(&slave, OptionalActions::Now, &modes).context(what)?;
    }
    same_size(master.as_fd(), like);
    if let Some(owner) = owner {
        rustix::fs::fchown(&slave, Some(owner), None).context(what)?;
    }
    Ok((master, slave))
}

/// Gives a terminal the size of another one; without such a size it is not changed.
fn same_size(of: BorrowedFd<'_>, like: BorrowedFd<'_>) {
    if let Ok(size) = tcgetwinsize(like) {
        let _ = tcsetwinsize(of, size);
    }
}

/// Makes the terminal pass output on unchanged.
fn leave_output(terminal: BorrowedFd<'_>) -> Result<()> {
    let what = || "set a terminal up".to_owned();
    let mut modes = tcgetattr(terminal).context(what)?;
    modes.output_modes.remove(OutputModes::OPOST);
    tcsetattr(terminal, OptionalActions::Now, &modes).context(what)
}

/// Creates a pipe whose ends that user can open again, as `/dev/stdout`.
pub(super) fn owned_pipe(owner: Uid) -> Result<(PipeReader, PipeWriter)> {
    let what = || "make a pipe".to_owned();
    let (reader, writer) = io::pipe().context(what)?;
    rustix::fs::fchown(&writer, Some(owner), None).context(what)?;
    Ok((reader, writer))
}

/// Opens the same file at the same position, through a mount that does not permit writing.
fn read_only(of: BorrowedFd<'_>) -> io::Result<File> {
    let clone = read_only_clone(of)?;
    let path = super::spawn::descriptor_path(clone.as_fd()).map_err(io::Error::other)?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let mut file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let at = rustix::fs::tell(of)?;
    file.seek(SeekFrom::Start(at))?;
    Ok(file)
}

/// Copies a command's output until no process has its end open any more, or, once the command has ended, until no
/// output is left.
fn carry_output(from: &OwnedFd, mut to: File, ended: &PipeReader) {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let mut news = [
            PollFd::new(from, PollFlags::IN),
            PollFd::new(ended, PollFlags::IN),
        ];
        match poll(&mut news, None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return,
        }
        let [there, over] = news.map(|news| !news.revents().is_empty());
        if !there && over {
            return;
        }
        if !there {
            continue;
        }
        // A terminal whose other end is closed returns an error instead of end-of-file.
        let Ok(count @ 1..) = rustix::io::read(from, &mut piece[..]) else {
            return;
        };
        if write_all(&mut to, &piece[..count]).is_err() {
            // The reader is gone: the command gets SIGPIPE as soon as this end is closed.
            return;
        }
    }
}

/// Copies the caller's input to the command, until either side ends.
fn carry_input(mut to: File, ended: &PipeReader) {
    let stdin = io::stdin();
    let is_terminal = stdin.is_terminal();
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        // Reading from the terminal in the background would stop this process.
        let away = is_terminal && !has_terminal();
        let stdin_wanted = if away {
            PollFlags::empty()
        } else {
            PollFlags::IN
        };
        let mut news = [
            PollFd::from_borrowed_fd(stdin.as_fd(), stdin_wanted),
            PollFd::new(ended, PollFlags::IN),
        ];
        match poll(&mut news, away.then_some(&LOOK)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
        let [there, over] = news.map(|news| !news.revents().is_empty());
        if over {
            return;
        }
        if !there || away {
            continue;
        }
        match rustix::io::read(stdin.as_fd(), &mut piece[..]) {
            Ok(count @ 1..) if write_all(&mut to, &piece[..count]).is_ok() => {}
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            _ => return,
        }
    }
}

/// Writes all bytes, even if another program has made the stream non-blocking.
fn write_all(to: &mut File, mut piece: &[u8]) -> io::Result<()> {
    while !piece.is_empty() {
        match to.write(piece) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => piece = &piece[count..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let mut news = [PollFd::new(&*to, PollFlags::OUT)];
                poll(&mut news, None)?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
