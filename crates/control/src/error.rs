//! The errors and their exit codes.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use constel_api::{ApiError, ClientError};
use constel_cluster::agent::labs::ControllerFailure;
use constel_containers::image::Fault;
use constel_lab::EngineError;
use constel_middlebox::BoxError;
use constel_scenario::Diagnostics;

/// Classes of ends; the numbers are the exit codes of `constel`, and never change their meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 1: it failed.
    Failed,
    /// 2: a requested object does not exist, or arguments contradict each other.
    Usage,
    /// 4: the scenario is not valid.
    Scenario,
    /// 5: this host is not able.
    Host,
    /// 130: interrupted by the user, and cleaned up.
    Interrupted,
}

impl Exit {
    /// The exit code.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Scenario => 4,
            Self::Host => 5,
            Self::Interrupted => 130,
        }
    }
}

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The scenario is not valid; every finding, rendered with its line, a line break at the end.
    #[error("{0}")]
    Scenario(Diagnostics),
    /// The scenario file cannot be read.
    #[error("{file}:1:1: error: cannot read the scenario: {reason}\n")]
    Unreadable {
        /// The file, as the user named it.
        file: String,
        /// The error of the operating system.
        reason: String,
    },
    /// The scenario is well-formed, but cannot be planned.
    #[error("{0}\n")]
    Unplannable(String),
    /// Machines, pins or caps that the scenario cannot be divided over.
    #[error("the scenario cannot be divided: {0}")]
    Undividable(String),
    /// Machines that cannot take a part of a lab.
    #[error("{0}")]
    Machines(String),
    /// The scenario uses features that labs on several machines do not support.
    #[error("this lab cannot be on several machines:\n  {0}")]
    NotOnSeveral(String),
    /// A lab on several machines was not led to its end.
    #[error(transparent)]
    Led(#[from] ControllerFailure),
    /// No machine left a summary.
    #[error("{0}")]
    NoneFinished(String),
    /// The store cannot be reached.
    #[error(transparent)]
    Store(#[from] constel_cluster::store::Error),
    /// A path that names no file.
    #[error("{0} is no file")]
    NoFile(String),
    /// A time that the scenario does not have.
    #[error("{0}")]
    BadTime(String),
    /// A text that cannot name a lab.
    #[error("{0}")]
    BadLabName(String),
    /// The scenario has no duration.
    #[error(
        "the scenario has no `duration`: give `--for`, for example `--for 60s`, or start it by `constel up`, which needs none"
    )]
    NoEnd,
    /// A lab without an end cannot have a formation.
    #[error(
        "formation '{0}' needs an end of the lab, because its positions are computed up to it: give `duration` in the scenario"
    )]
    NeedsEnd(String),
    /// A lab that cannot stay in the background, or does not.
    #[error("{0}")]
    NotStaying(String),
    /// The process of a lab that stays cannot be started or watched.
    #[error("the process of the lab cannot be started or watched: {0}")]
    Process(std::io::Error),
    /// The records of labs that stay cannot be read or written.
    #[error("{}: {source}", .path.display())]
    Records {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The process does not have the rights that labs need.
    #[error("{0}")]
    Unprivileged(String),
    /// No lab has this name.
    #[error("no lab is called '{lab}'{}", hint(.nearest.as_deref(), *.others))]
    NoLab {
        /// The name.
        lab: String,
        /// A similar name, if there is one.
        nearest: Option<String>,
        /// Whether any lab is running.
        others: bool,
    },
    /// The lab's process is gone.
    #[error("lab '{0}' is dead; `constel clean {0}` removes what it left")]
    Dead(String),
    /// The lab is alive, and only remains of dead labs are removed.
    #[error("lab '{lab}' is alive{}; `constel down {lab}` takes it down",
        .pid.map_or_else(String::new, |pid| format!(" (process {pid})")))]
    Alive {
        /// The lab.
        lab: String,
        /// The process ID, if known.
        pid: Option<u32>,
    },
    /// The lab died while it was being taken down.
    #[error(
        "lab '{0}' died while it was being taken down; `constel clean {0}` removes what it left"
    )]
    DiedGoingDown(String),
    /// The lab is still there.
    #[error("lab '{lab}' is not down after {within:?}")]
    NotDown {
        /// The lab.
        lab: String,
        /// How long was waited.
        within: Duration,
    },
    /// The nodes of the lab do not exist yet.
    #[error("lab '{0}' is still coming up")]
    ComingUp(String),
    /// The lab has no node of this name.
    #[error("lab '{lab}' has no node '{node}'{}", match .nearest {
        Some(near) => format!("; did you mean '{near}'?"),
        None => format!("; `constel show {lab}` names them all"),
    })]
    NoNode {
        /// The lab.
        lab: String,
        /// The name.
        node: String,
        /// A similar name, if there is one.
        nearest: Option<String>,
    },
    /// Files were not copied into a node or out of it, or not all of them: which, and why.
    #[error("{0}")]
    NotCopied(String),
    /// The lab refused the request. The code gives the reason.
    #[error("{0}")]
    Refused(ApiError),
    /// The lab does not answer.
    #[error("lab '{lab}'")]
    NoAnswer {
        /// The lab.
        lab: String,
        /// How far it came.
        source: ClientError,
    },
    /// The lab could not be run, or failed while it ran. Everything that it had created has been removed.
    #[error(transparent)]
    Run(#[from] EngineError),
    /// The box could not be run; its interfaces are as they were.
    #[error(transparent)]
    Box(#[from] BoxError),
    /// The host refused.
    #[error(transparent)]
    Host(#[from] constel_host::Error),
    /// An image cannot be read, kept or used.
    #[error(transparent)]
    Image(#[from] constel_containers::image::Error),
    /// Neither buildah nor BuildKit is installed to build a Dockerfile.
    #[error(
        "a Dockerfile is built by buildah or BuildKit (`buildctl`), and this host has neither; install one (apt-get install \
         buildah), or import an image instead: constel image import"
    )]
    NoBuilder,
    /// The image was not built. The builder has printed the reason.
    #[error("{0}")]
    NotBuilt(String),
    /// There are no results at this place.
    #[error("{}", no_results(.dir, .why))]
    NoResults {
        /// The folder.
        dir: PathBuf,
        /// The error of the operating system.
        why: std::io::Error,
    },
    /// A document of a run is missing.
    #[error("{}: {source}; the run did not finish, or this is no results folder", .path.display())]
    NoDocument {
        /// Its file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A document of a run is invalid.
    #[error("{}: {source}", .path.display())]
    BadDocument {
        /// Its file.
        path: PathBuf,
        /// The error of the parser.
        source: serde_json::Error,
    },
    /// A process cannot be watched.
    #[error("process {pid}: {reason}")]
    BadProcess {
        /// Its number.
        pid: u32,
        /// The error of the operating system.
        reason: String,
    },
    /// There is no such sweep, or the folder belongs to another sweep.
    #[error("{0}")]
    BadSweep(String),
    /// A file of a sweep cannot be read or written.
    #[error("{}: {source}", .path.display())]
    SweepFolder {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A run of a sweep failed as all others would.
    #[error("{why}")]
    RunFailed {
        /// How the run ended.
        exit: Exit,
        /// The last line that it printed.
        why: String,
    },
    /// A run has no such flow, or none that can be drawn.
    #[error("{dir} has no flow '{flow}' with samples{}", match .known.is_empty() {
        true => String::new(),
        false => format!("; with samples: {}", .known.join(", ")),
    })]
    NoFlow {
        /// The run's folder.
        dir: String,
        /// The flow.
        flow: String,
        /// Those that have samples.
        known: Vec<String>,
    },
    /// A run does not have the requested table.
    #[error("the run has no table '{table}'; it has {}", .known.join(", "))]
    NoTable {
        /// Its name.
        table: String,
        /// Those that it has.
        known: Vec<String>,
    },
    /// A table of a run is invalid.
    #[error("{}:{line}: {reason}", .path.display())]
    BadTable {
        /// Its file.
        path: PathBuf,
        /// The line number, from 1.
        line: usize,
        /// The mistake.
        reason: String,
    },
    /// A recording is invalid.
    #[error("{}", .errors.iter().map(|e| format!("{}:{}: {}", .path.display(), e.line, e.message)).collect::<Vec<_>>().join("\n"))]
    BadRecording {
        /// Its file.
        path: PathBuf,
        /// Every line that is wrong.
        errors: Vec<constel_link::trace::TraceError>,
    },
    /// The run belongs to a box, which has no sky to show.
    #[error(
        "{} is the run of a box, and the web view shows runs of labs: its rules with their counters are in `rules.json` there, and \
         `constel results export` makes tables of what was sampled", .0.display()
    )]
    NotShown(PathBuf),
    /// A run cannot be made one file.
    #[error("cannot pack the run: {0}")]
    NotPacked(String),
    /// A file cannot be written.
    #[error("cannot write {}: {source}", .path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A style file with a line that is not valid.
    #[error("{}: {source}", .path.display())]
    BadStyle {
        /// The file.
        path: PathBuf,
        /// The line.
        source: constel_measure::plot::StyleError,
    },
    /// Letters of a family that this host does not have.
    #[error(
        "the font `{0}` of the style file is not installed: `fc-list` prints those that are; SVG needs none, and without `font.family` every format works"
    )]
    NoFont(String),
    /// A picture could not be converted.
    #[error("cannot convert the picture: {0}")]
    Picture(String),
    /// A thread could not be started.
    #[error("no thread can be started: {0}")]
    Thread(std::io::Error),
}

fn hint(nearest: Option<&str>, others: bool) -> String {
    match nearest {
        Some(near) => format!("; did you mean '{near}'?"),
        None if others => "; `constel list` names them all".to_owned(),
        None => "; no lab is running (constel run FILE starts one)".to_owned(),
    }
}

impl Error {
    /// Returns the exit code of a shell when it cannot execute a command: 127 if there is no command of that name, 126 if
    /// there is. Returns `None` for other errors.
    #[must_use]
    pub fn shell_code(&self) -> Option<i32> {
        match self {
            Self::Host(constel_host::Error::Program { missing: true, .. }) => Some(127),
            Self::Host(constel_host::Error::Program { .. }) => Some(126),
            _ => None,
        }
    }

    /// How a program that met this error ends.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match self {
            Self::Scenario(_) | Self::Unreadable { .. } | Self::Unplannable(_) => Exit::Scenario,
            Self::NoFile(_)
            | Self::BadTime(_)
            | Self::Undividable(_)
            | Self::Machines(_)
            | Self::NotOnSeveral(_)
            | Self::Led(ControllerFailure::Taken { .. } | ControllerFailure::TooLarge { .. })
            | Self::BadLabName(_)
            | Self::NoEnd
            | Self::NotStaying(_)
            | Self::NeedsEnd(_)
            | Self::NoLab { .. }
            | Self::Alive { .. }
            | Self::NoNode { .. }
            | Self::Refused(_)
            | Self::NoResults { .. }
            | Self::BadSweep(_)
            | Self::BadProcess { .. }
            | Self::NoFlow { .. }
            | Self::BadStyle { .. }
            | Self::NoFont(_)
            | Self::NoTable { .. }
            | Self::NotPacked(_)
            | Self::NotShown(_)
            | Self::Box(BoxError::Taken(_))
            | Self::Run(EngineError::Taken(_)) => Exit::Usage,
            Self::Unprivileged(_)
            | Self::NoBuilder
            | Self::Box(BoxError::Refused(_))
            | Self::Run(EngineError::Unable { .. }) => Exit::Host,
            Self::Run(EngineError::Interrupted) => Exit::Interrupted,
            Self::RunFailed { exit, .. } => *exit,
            Self::Image(error) => of_image(error.fault()),
            Self::Dead(_)
            | Self::DiedGoingDown(_)
            | Self::NotDown { .. }
            | Self::ComingUp(_)
            | Self::NotCopied(_)
            | Self::NotBuilt(_)
            | Self::NoAnswer { .. }
            | Self::Led(_)
            | Self::NoneFinished(_)
            | Self::Store(_)
            | Self::Run(_)
            | Self::Box(_)
            | Self::Host(_)
            | Self::NoDocument { .. }
            | Self::Unwritable { .. }
            | Self::Picture(_)
            | Self::BadDocument { .. }
            | Self::BadTable { .. }
            | Self::Process(_)
            | Self::Records { .. }
            | Self::BadRecording { .. }
            | Self::SweepFolder { .. }
            | Self::Thread(_) => Exit::Failed,
        }
    }
}

/// Returns the exit code of a failed image operation: a missing object, a host without the capability, or a wrong image.
fn of_image(fault: &Fault) -> Exit {
    match fault {
        Fault::NoSuchFile
        | Fault::BadName { .. }
        | Fault::NoName
        | Fault::NoHome
        | Fault::NoImage { .. }
        | Fault::NotHeld { .. }
        | Fault::Several(_) => Exit::Usage,
        Fault::Unprivileged { .. } => Exit::Host,
        _ => Exit::Failed,
    }
}

/// Returns the message that a folder has no results, with the command that creates some.
fn no_results(dir: &Path, why: &std::io::Error) -> String {
    let dir = dir.display();
    let makes = "`constel run FILE` keeps its results in `results`, or in the folder of --results";
    match why.kind() {
        ErrorKind::NotFound => format!("there is no folder `{dir}`; {makes}"),
        ErrorKind::NotADirectory => format!("`{dir}` is no folder; {makes}"),
        _ => format!("`{dir}`: {why}; {makes}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use constel_api::ErrorCode;

    #[test]
    fn codes_are_those_of_the_reference_page() {
        let no_lab = |nearest: Option<&str>, others| Error::NoLab {
            lab: "x".to_owned(),
            nearest: nearest.map(str::to_owned),
            others,
        };
        let refused = ApiError::new(ErrorCode::NoLink, "there is no link now");
        let unable = EngineError::Unable {
            what: "bird".to_owned(),
            remedy: "install it".to_owned(),
        };
        let cases = [
            (Error::Dead("x".to_owned()), 1),
            (no_lab(Some("y"), true), 2),
            (Error::Refused(refused), 2),
            (Error::Run(EngineError::Taken("taken".to_owned())), 2),
            (Error::Unplannable("dark".to_owned()), 4),
            (Error::Run(unable), 5),
            (Error::Run(EngineError::Interrupted), 130),
        ];
        for (error, code) in cases {
            assert_eq!(error.exit().code(), code, "{error}");
        }
        assert!(
            no_lab(Some("y"), true)
                .to_string()
                .contains("did you mean 'y'")
        );
        assert!(
            no_lab(None, false)
                .to_string()
                .contains("no lab is running")
        );
    }
}
