//! Labs that stay: processes in the background, and records of them that survive a reboot.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use constel_api::answers::{LabState, ListedLab};
use constel_host::claim::{LabEntry, LabName, RuntimeDir};
use constel_host::clean::clean_lab;
use constel_host::ident::ProcessIdent;
use constel_units::{Utc, files};
use serde::{Deserialize, Serialize};

use crate::engines::Engines;
use crate::error::Error;
use crate::labs::{Lab, list};

/// The folder of the records. Unlike `/run/constel`, it survives a reboot.
const RECORDS: &str = "/var/lib/constel/labs";

/// Name of the file with the messages of a lab that stays, in its results.
pub const LOG: &str = "lab.log";

/// How often a lab that comes up is looked after.
const UP_LOOK: Duration = Duration::from_millis(20);

/// A lab of `constel up`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Staying {
    /// The lab's name.
    pub lab: String,
    /// The scenario file, as the user named it.
    pub scenario: String,
    /// When it was started.
    pub started: Utc,
    /// The results folder.
    pub results: PathBuf,
    /// Lab time after which it is taken down, nanoseconds; `None` if it stays.
    pub ends_after_ns: Option<u64>,
    /// The arguments of the command that started it, after the name of the program.
    pub args: Vec<String>,
    /// The working folder of that command.
    pub folder: PathBuf,
    /// Its process.
    process: ProcessIdent,
}

impl Staying {
    /// Returns the record of a lab of this process.
    ///
    /// # Errors
    /// [`Error::NotStaying`] if an argument is not UTF-8 or the working folder is gone.
    pub fn of_this_process(
        lab: &str,
        scenario: &str,
        results: PathBuf,
        ends_after_ns: Option<u64>,
        args: impl Iterator<Item = OsString>,
    ) -> Result<Self, Error> {
        let refused = |why: String| Error::NotStaying(why);
        let args = args.map(|arg| {
            let not_text = |arg: OsString| refused(format!("{} is not UTF-8", arg.display()));
            arg.into_string().map_err(not_text)
        });
        Ok(Self {
            lab: lab.to_owned(),
            scenario: scenario.to_owned(),
            started: Utc::from(std::time::SystemTime::now()),
            results,
            ends_after_ns,
            args: args.collect::<Result<_, _>>()?,
            folder: std::env::current_dir().map_err(|error| refused(error.to_string()))?,
            process: ProcessIdent::current()?,
        })
    }

    /// Writes the record, so that the lab is known after a crash of the machine.
    ///
    /// # Errors
    /// [`Error::Records`], [`Error::Host`].
    pub fn keep(&self) -> Result<(), Error> {
        write(&record_of(Path::new(RECORDS), &self.lab), self)
    }

    /// Removes the record, because the lab has ended. That of a later lab of this name stays.
    ///
    /// # Errors
    /// [`Error::Records`].
    pub fn forget(&self) -> Result<(), Error> {
        let path = record_of(Path::new(RECORDS), &self.lab);
        let mut all = records(Path::new(RECORDS))?.into_iter();
        if all.any(|other| other.lab == self.lab && other.process != self.process) {
            return Ok(());
        }
        match fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(Error::Records { path, source });
            }
            _ => {}
        }
        // Folders without records go, as the host had none before.
        for folder in Path::new(RECORDS).ancestors().take(2) {
            let _ = fs::remove_dir(folder);
        }
        Ok(())
    }

    /// Returns whether its process is gone. It was killed then, or the machine was started again.
    pub(crate) fn is_over(&self) -> Result<bool, Error> {
        Ok(!self.process.is_alive()?)
    }

    /// Returns the file with the lab's messages.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.results.join(LOG)
    }

    /// Returns the arguments that start the lab again: results never go to a folder with results.
    fn args_again(&self) -> Vec<OsString> {
        let mut args: Vec<OsString> = self.args.iter().map(OsString::from).collect();
        let mut next = false;
        for arg in &mut args {
            let text = arg.to_string_lossy().into_owned();
            let given = match next {
                true => Some(text.as_str()),
                false => text.strip_prefix("--results="),
            };
            if let Some(given) = given {
                let free = free_beside(&self.folder, Path::new(given));
                let mut joined = OsString::from(if next { "" } else { "--results=" });
                joined.push(free);
                next = false;
                *arg = joined;
                continue;
            }
            next = text == "--results";
        }
        args
    }
}

/// Returns the first of `PATH`, `PATH-2`, `PATH-3`, ... that does not exist in `folder`.
fn free_beside(folder: &Path, path: &Path) -> PathBuf {
    let numbered = |number: u32| {
        let mut name = path.as_os_str().to_owned();
        if number > 1 {
            name.push(format!("-{number}"));
        }
        PathBuf::from(name)
    };
    let mut all = (1..).map(numbered);
    let free = all.find(|path| !folder.join(path).exists());
    free.unwrap_or_else(|| path.to_owned())
}

fn record_of(folder: &Path, lab: &str) -> PathBuf {
    folder.join(format!("{lab}.json"))
}

/// Writes a record completely or not at all, and to the disk: it is needed after a crash.
fn write(path: &Path, record: &Staying) -> Result<(), Error> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder).map_err(|source| Error::Records {
        path: folder.to_owned(),
        source,
    })?;
    Ok(constel_host::write_json(path, record)?)
}

/// Reads all records of a folder, sorted by lab. A file that is no record is not ours, or of another version, and is left
/// where it is.
fn records(folder: &Path) -> Result<Vec<Staying>, Error> {
    let failed = |source| Error::Records {
        path: folder.to_owned(),
        source,
    };
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut all = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        if path.extension() != Some(OsStr::new("json")) {
            continue;
        }
        let text = files::read_text(&path);
        all.extend(text.ok().and_then(|text| serde_json::from_str(&text).ok()));
    }
    all.sort_by(|a: &Staying, b| a.lab.cmp(&b.lab));
    Ok(all)
}

/// Returns the record of a lab of `constel up`, living or dead.
///
/// # Errors
/// [`Error::NoLab`]; [`Error::NotStaying`] if it was started in another way.
pub fn staying(lab: &str) -> Result<Staying, Error> {
    let mut all = records(Path::new(RECORDS))?.into_iter();
    if let Some(record) = all.find(|record| record.lab == lab) {
        return Ok(record);
    }
    // Reports a name that no lab has, with the nearest one.
    crate::labs::find(lab)?;
    Err(Error::NotStaying(format!(
        "lab '{lab}' runs in the foreground of another command; `constel up` starts labs that stay"
    )))
}

/// Returns the record of a lab of `constel up` that this process runs.
///
/// # Errors
/// [`Error::Records`].
pub(crate) fn of_process(lab: &str, pid: u32) -> Result<Option<Staying>, Error> {
    let mut all = records(Path::new(RECORDS))?.into_iter();
    Ok(all.find(|record| record.lab == lab && record.process.pid == pid))
}

/// Returns the labs of `constel up` whose processes are gone although they were not taken down, of one name or all, and removes
/// their records.
///
/// # Errors
/// [`Error::Records`]; [`Error::Host`] if the host does not answer.
pub fn clear_stopped(lab: Option<&str>) -> Result<Vec<Stopped>, Error> {
    let mut stopped = Vec::new();
    for record in records(Path::new(RECORDS))? {
        if lab.is_some_and(|lab| lab != record.lab) || !record.is_over()? {
            continue;
        }
        record.forget()?;
        stopped.push(Stopped::of(&record)?);
    }
    Ok(stopped)
}

/// A lab that stopped without being taken down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Stopped {
    /// The lab's name.
    pub lab: String,
    /// The scenario file, as the user named it.
    pub scenario: String,
    /// When it was started.
    pub started: Utc,
    /// The results up to the end, without a summary.
    pub results: PathBuf,
    /// Whether the machine was started again since then; otherwise its process was killed.
    pub rebooted: bool,
    /// The command that starts it again, in `folder`.
    pub command: String,
    /// The working folder of that command.
    pub folder: PathBuf,
}

impl Stopped {
    fn of(record: &Staying) -> Result<Self, Error> {
        let args = record.args_again();
        let words: Vec<_> = args
            .iter()
            .map(|arg| quoted(&arg.to_string_lossy()))
            .collect();
        Ok(Self {
            lab: record.lab.clone(),
            scenario: record.scenario.clone(),
            started: record.started,
            results: record.results.clone(),
            rebooted: record.process.boot_id != ProcessIdent::current()?.boot_id,
            command: format!("constel {}", words.join(" ")),
            folder: record.folder.clone(),
        })
    }
}

/// Returns a word as a shell reads it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// A lab that comes up in another process. Dropping this leaves the process alone.
#[derive(Debug)]
pub struct ComingUp {
    child: Child,
    messages: Option<JoinHandle<()>>,
}

/// How a lab that comes up went on.
#[derive(Debug)]
pub enum Went {
    /// It is up.
    Up(ListedLab),
    /// The process has ended, with this status. It has printed the reason.
    Ended(ExitStatus),
}

impl ComingUp {
    /// Starts this program with these arguments in a folder, as a process that outlives this one. `said` receives what it
    /// prints on stderr while it comes up. With `input` it reads this process's standard input.
    ///
    /// # Errors
    /// [`Error::Process`] if the process cannot be started.
    pub fn start(
        args: &[OsString],
        folder: &Path,
        input: bool,
        mut said: impl FnMut(&[u8]) + Send + 'static,
    ) -> Result<Self, Error> {
        let program = constel_host::sealed::own_program().map_err(Error::Process)?;
        let mut child = Command::new(program)
            .args(args)
            .current_dir(folder)
            .stdin(if input {
                Stdio::inherit()
            } else {
                Stdio::null()
            })
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(Error::Process)?;
        let pipe = child.stderr.take();
        let messages = std::thread::spawn(move || {
            let Some(mut pipe) = pipe else { return };
            let mut bytes = [0; 4096];
            while let Ok(count) = pipe.read(&mut bytes) {
                if count == 0 {
                    return;
                }
                said(&bytes[..count]);
            }
        });
        Ok(Self {
            child,
            messages: Some(messages),
        })
    }

    /// Waits until the lab is up or its process has ended. If `stop` is set, asks the process to take down what
    /// exists, and waits for that.
    ///
    /// # Errors
    /// [`Error::Host`] if the runtime folder cannot be read.
    pub fn wait(&mut self, stop: &AtomicBool) -> Result<Went, Error> {
        let mut asked = false;
        loop {
            if let Some(status) = self.child.try_wait().map_err(Error::Process)? {
                // All messages are printed before the result is returned.
                drop(self.messages.take().map(JoinHandle::join));
                return Ok(Went::Ended(status));
            }
            if stop.load(Ordering::Acquire) && !asked {
                asked = true;
                self.terminate();
            }
            let pid = Some(self.child.id());
            let mut labs = list()?.into_iter();
            let own = labs.find(|lab| lab.pid == pid && lab.state == LabState::Running);
            if let Some(own) = own.filter(|_| !asked) {
                return Ok(Went::Up(own));
            }
            std::thread::sleep(UP_LOOK);
        }
    }

    /// Returns the status of the process if it has ended.
    ///
    /// # Errors
    /// [`Error::Process`] if the kernel does not report it.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, Error> {
        self.child.try_wait().map_err(Error::Process)
    }

    fn terminate(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        // The process may have ended since then.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
}

/// Takes a lab of `constel up` down, or removes what a dead one left, and returns the arguments that start it again, with
/// their folder.
///
/// # Errors
/// As [`staying`] and [`Lab::down`]; [`Error::NotStaying`] if its scenario came from standard input.
pub fn end_for_restart(lab: &str) -> Result<(Vec<OsString>, PathBuf), Error> {
    let record = staying(lab)?;
    if record.args.iter().any(|arg| arg == "-") {
        let error = format!(
            "lab '{lab}' was started with a scenario from standard input, which is gone; {} has its text",
            record.results.join("scenario.yaml").display()
        );
        return Err(Error::NotStaying(error));
    }
    match Lab::attach(lab) {
        Ok(living) => living.down()?,
        Err(Error::Dead(_)) => {
            let runtime = RuntimeDir::default();
            let name: LabName = lab.parse().map_err(Error::Host)?;
            let dead: Option<LabEntry> = runtime.find(&name)?;
            if dead.is_some() {
                clean_lab(&runtime, &name, &Engines)?;
            }
            record.forget()?;
        }
        // It went with the machine.
        Err(Error::NoLab { .. }) => record.forget()?,
        Err(error) => return Err(error),
    }
    Ok((record.args_again(), record.folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(folder: &Path, args: &[&str]) -> Staying {
        Staying {
            lab: "mine".to_owned(),
            scenario: "mine.yaml".to_owned(),
            started: "2026-11-21T00:00:00Z".parse().unwrap(),
            results: folder.join("results/mine"),
            ends_after_ns: None,
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            folder: folder.to_owned(),
            process: ProcessIdent::current().unwrap(),
        }
    }

    #[test]
    fn a_record_is_read_back_and_knows_whether_its_process_lives() {
        let dir = tempfile::tempdir().unwrap();
        let own = record(dir.path(), &["up", "mine.yaml"]);
        let path = record_of(&dir.path().join("labs"), "mine");
        write(&path, &own).unwrap();
        fs::write(path.with_file_name("other.json"), "{").unwrap();
        let read = records(path.parent().unwrap()).unwrap();
        assert_eq!(read, std::slice::from_ref(&own));
        assert!(!own.is_over().unwrap());
        assert!(!Stopped::of(&own).unwrap().rebooted);
        let mut before = own;
        before.process.boot_id = "another".to_owned();
        assert!(before.is_over().unwrap());
        let stopped = Stopped::of(&before).unwrap();
        assert!(stopped.rebooted);
        assert_eq!(stopped.command, "constel up mine.yaml");
        assert!(records(&dir.path().join("none")).unwrap().is_empty());
    }

    #[test]
    fn a_lab_that_starts_again_gets_a_results_folder_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let again = |args: &[&str]| record(dir.path(), args).args_again();
        assert_eq!(
            again(&["up", "a.yaml", "--results", "r"]),
            ["up", "a.yaml", "--results", "r"]
        );
        fs::create_dir(dir.path().join("r")).unwrap();
        assert_eq!(
            again(&["up", "--results", "r", "a.yaml"]),
            ["up", "--results", "r-2", "a.yaml"]
        );
        fs::create_dir(dir.path().join("r-2")).unwrap();
        assert_eq!(
            again(&["up", "a.yaml", "--results=r"]),
            ["up", "a.yaml", "--results=r-3"]
        );
    }

    #[test]
    fn a_command_can_be_pasted_into_a_shell() {
        assert_eq!(quoted("--set"), "--set");
        assert_eq!(quoted("a b'c"), r"'a b'\''c'");
        assert_eq!(quoted(""), "''");
    }
}
