//! `constel logs`: the messages of a lab that stays, and the output of a node's programs.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use constel_api::answers::LabState;
use constel_control::{Error, Observer};

use crate::args::Logs;
use crate::exit::{Exit, Failure, Outcome};
use crate::{output, signals};

/// How often followed files are read.
const LOOK: Duration = Duration::from_millis(200);

/// The end of a file that is searched for its latest lines, bytes; also the most that is read at once.
const END_BYTES: u64 = 1 << 20;

/// Prints the latest lines, then, with `--follow`, each new one.
pub(crate) fn run(args: &Logs) -> Outcome {
    let results = results_of(&args.lab)?;
    let files = match &args.node {
        None => vec![results.join(constel_control::LOG)],
        Some(node) => of_node(&results, node)?,
    };
    if files.is_empty() || !files[0].exists() {
        return Err(none(args));
    }
    if !args.follow {
        follow(&files, args.lines, || Ok(Some(())))?;
        return Ok(Exit::Done);
    }
    let stop = Arc::new(AtomicBool::new(false));
    signals::set(&[&stop])?;
    follow(&files, args.lines, || {
        if stop.load(Ordering::Acquire) {
            return Ok(Some(Exit::Interrupted));
        }
        let mut labs = constel_control::list()?.into_iter();
        let lives = labs.any(|lab| lab.lab == args.lab && lab.state != LabState::Dead);
        Ok((!lives).then_some(Exit::Done))
    })
}

/// Returns the results folder of a lab: of one that stays, also after its process was killed.
fn results_of(lab: &str) -> Result<PathBuf, Error> {
    match constel_control::staying(lab) {
        Ok(record) => Ok(record.results),
        Err(Error::NotStaying(_)) => Ok(Observer::attach(lab)?.scenario()?.results),
        Err(error) => Err(error),
    }
}

/// Returns the files with the output of a node's programs, sorted.
fn of_node(results: &Path, node: &str) -> io::Result<Vec<PathBuf>> {
    type IsOwn = fn(&str, &str) -> bool;
    let kinds: [(&str, IsOwn); 2] = [("daemons", of_daemon), ("transport", of_helper)];
    let mut files = Vec::new();
    for (folder, is_own) in kinds {
        let Ok(entries) = fs::read_dir(results.join(folder)) else {
            continue;
        };
        for entry in entries {
            let entry = entry?;
            if is_own(&entry.file_name().to_string_lossy(), node) {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    // A name with a slash would lead out of the folder.
    if !node.contains('/') {
        let own = results.join("nodes").join(node);
        let logs = ["program.log", "health.log"].map(|name| own.join(name));
        files.extend(logs.into_iter().filter(|file| file.exists()));
    }
    Ok(files)
}

/// Whether a file is `NODE.log` or `NODE.PROGRAM.log`.
fn of_daemon(file: &str, node: &str) -> bool {
    let rest = file
        .strip_suffix(".log")
        .and_then(|name| name.strip_prefix(node));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Whether a file is `KIND-NODE.log`.
fn of_helper(file: &str, node: &str) -> bool {
    let own = |kind: &str| file.strip_prefix(kind) == Some(&format!("-{node}.log"));
    ["leotp-midnode", "leotp-gateway", "split-tcp"]
        .into_iter()
        .any(own)
}

fn none(args: &Logs) -> Failure {
    let lab = &args.lab;
    Failure::Usage(match &args.node {
        Some(node) => format!(
            "node '{node}' has no log: only routing daemons, programs of images and Midnodes have one; `constel show {lab}` lists \
             the nodes"
        ),
        None => format!(
            "lab '{lab}' has no log: its messages go to the terminal of `constel run`; name a node, or see `constel events {lab}`"
        ),
    })
}

/// Prints the latest `lines` of each file, then new ones, until `over` returns a value. It is called before the last read, so
/// that the last lines are printed.
///
/// # Errors
/// When a file cannot be read or standard output is closed.
pub(super) fn follow<T>(
    files: &[PathBuf],
    lines: usize,
    mut over: impl FnMut() -> Result<Option<T>, Error>,
) -> Result<T, Failure> {
    let several = files.len() > 1;
    let mut followed: Vec<Followed> = files.iter().cloned().map(Followed::new).collect();
    let mut printed = None;
    let mut show = |index: usize, text: &str| -> io::Result<()> {
        if several && !text.is_empty() && printed.replace(index) != Some(index) {
            output::text(&format!("==> {} <==\n", files[index].display()))?;
        }
        output::text(text)
    };
    for (index, file) in followed.iter_mut().enumerate() {
        show(index, &file.last(lines)?)?;
    }
    loop {
        let ended = over()?;
        for (index, file) in followed.iter_mut().enumerate() {
            show(index, &file.more()?)?;
        }
        if let Some(ended) = ended {
            return Ok(ended);
        }
        std::thread::sleep(LOOK);
    }
}

/// A file that is read as it grows.
struct Followed {
    path: PathBuf,
    open: Option<File>,
    /// Bytes of a line whose end is not written yet.
    rest: Vec<u8>,
}

impl Followed {
    fn new(path: PathBuf) -> Self {
        Self {
            path,
            open: None,
            rest: Vec::new(),
        }
    }

    /// Opens the file if it exists: a regular file, and no link.
    fn open(&self) -> io::Result<Option<File>> {
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        let flags = i32::try_from(flags.bits()).unwrap_or(0);
        let file = File::options()
            .read(true)
            .custom_flags(flags)
            .open(&self.path);
        match file {
            Ok(file) if file.metadata()?.is_file() => Ok(Some(file)),
            Ok(_) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the latest lines so far.
    fn last(&mut self, lines: usize) -> io::Result<String> {
        self.open = self.open()?;
        let Some(file) = &mut self.open else {
            return Ok(String::new());
        };
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(END_BYTES)))?;
        let text = self.more()?;
        let all: Vec<&str> = text.split_inclusive('\n').collect();
        Ok(all[all.len().saturating_sub(lines)..].concat())
    }

    /// Returns the lines that were added since the last call. When a new file has taken the name, the rest of the old one comes
    /// first.
    fn more(&mut self) -> io::Result<String> {
        let mut text = self.read()?;
        let now = self.open()?;
        let number =
            |file: &Option<File>| -> Option<u64> { Some(file.as_ref()?.metadata().ok()?.ino()) };
        if now.is_some() && number(&now) != number(&self.open) {
            text += &self.read()?;
            self.open = now;
            text += &self.read()?;
        }
        Ok(text)
    }

    fn read(&mut self) -> io::Result<String> {
        let Some(file) = &mut self.open else {
            return Ok(String::new());
        };
        // A file that was cut is read from its beginning.
        if file.metadata()?.len() < file.stream_position()? {
            file.seek(SeekFrom::Start(0))?;
        }
        file.take(END_BYTES).read_to_end(&mut self.rest)?;
        // A very long line is printed in parts.
        let end = self.rest.iter().rposition(|byte| *byte == b'\n');
        let end = match end {
            Some(end) => end + 1,
            None if self.rest.len() as u64 >= END_BYTES => self.rest.len(),
            None => 0,
        };
        let lines: Vec<u8> = self.rest.drain(..end).collect();
        Ok(String::from_utf8_lossy(&lines).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn lines_come_whole_and_through_a_change_of_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lab.log");
        let mut file = File::create(&path).unwrap();
        write!(file, "a\nb\nc\nd").unwrap();
        let mut own = Followed::new(path.clone());
        assert_eq!(own.last(2).unwrap(), "b\nc\n");
        assert_eq!(own.more().unwrap(), "");
        writeln!(file, "e").unwrap();
        fs::rename(&path, dir.path().join("lab.log.1")).unwrap();
        fs::write(&path, "f\n").unwrap();
        assert_eq!(own.more().unwrap(), "de\nf\n");
        // Cut, and written again.
        fs::write(&path, "").unwrap();
        assert_eq!(own.more().unwrap(), "");
        fs::write(&path, "g\n").unwrap();
        assert_eq!(own.more().unwrap(), "g\n");
    }

    #[test]
    fn a_node_has_the_files_of_its_programs_alone() {
        assert!(of_daemon("a.log", "a") && of_daemon("a.zebra.log", "a"));
        assert!(!of_daemon("ab.log", "a") && !of_daemon("a.conf", "a"));
        assert!(of_helper("leotp-midnode-sat-1.log", "sat-1"));
        assert!(!of_helper("leotp-midnode-sat-1.log", "1"));
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str| {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            path
        };
        let own = [
            write("daemons/a.log"),
            write("transport/leotp-midnode-a.log"),
            write("nodes/a/program.log"),
        ];
        write("daemons/b.log");
        write("nodes/b/program.log");
        assert_eq!(of_node(dir.path(), "a").unwrap(), own);
        assert!(of_node(dir.path(), "../nodes/a").unwrap().is_empty());
    }
}
