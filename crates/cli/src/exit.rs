//! Exit codes. Scripts rely on them; they never change meaning.

use std::fmt::Display;
use std::path::Path;
use std::process::ExitCode;

use constel_api::summary::Summary;
use constel_control::Error;
use constel_units::files;

use crate::output;

/// The result of a verb that did its work. The numbers are the process's exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// 0: done.
    Done,
    /// 1: done, but software failed or an expected statement is false.
    Failed,
    /// 3: the run is complete, but not trustworthy.
    NotTrustworthy,
    /// 130: interrupted by the user, and cleaned up.
    Interrupted,
    /// The exit code of a command in a node, or 128 plus its signal.
    Command(u8),
}

impl Exit {
    /// Returns the result of a run: failed software takes precedence over a run that is not trustworthy.
    pub(crate) fn of_run(summary: &Summary) -> Self {
        match (summary.software.failed, summary.verdict.trustworthy) {
            (true, _) => Self::Failed,
            (false, false) => Self::NotTrustworthy,
            (false, true) => Self::Done,
        }
    }

    /// Returns the result of a command by its exit code in a shell.
    pub(crate) fn of_command(shell_code: i32) -> Self {
        Self::Command(u8::try_from(shell_code).unwrap_or(u8::MAX))
    }
}

/// The reason why a verb could not do its work.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An [`Error`] with its own exit code, or any other error with code 1.
    Failed(anyhow::Error),
    /// 2: the command line has arguments that are invalid or contradict each other.
    Usage(String),
    /// 4: the scenario is not valid; the diagnostics, already rendered.
    Scenario(String),
    /// 5: this host cannot do it.
    Host(String),
}

impl Failure {
    /// Returns the failure of a file named on the command line that cannot be read.
    pub(crate) fn unread(file: &Path, why: impl Display) -> Self {
        Self::Usage(format!("cannot read {}: {why}", file.display()))
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// The result of every verb.
pub(crate) type Outcome = Result<Exit, Failure>;

/// Prints a failure on stderr, and returns the exit code.
pub(crate) fn code(outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(Exit::Done) => ExitCode::SUCCESS,
        Ok(Exit::Failed) => ExitCode::from(1),
        Ok(Exit::NotTrustworthy) => ExitCode::from(3),
        Ok(Exit::Interrupted) => ExitCode::from(130),
        Ok(Exit::Command(code)) => ExitCode::from(code),
        Err(Failure::Failed(error)) => failed(&error),
        Err(Failure::Usage(message)) => {
            tell(&format!("constel: {message}\n"));
            ExitCode::from(2)
        }
        Err(Failure::Scenario(rendered)) => {
            tell(&rendered);
            ExitCode::from(4)
        }
        Err(Failure::Host(message)) => {
            tell(&format!("constel: {message}\n"));
            ExitCode::from(5)
        }
    }
}

/// Prints what failed, in words.
fn tell(message: &str) {
    output::tell(&files::in_words(&message));
}

fn failed(error: &anyhow::Error) -> ExitCode {
    let exit = error
        .downcast_ref()
        .map_or(constel_control::Exit::Failed, Error::exit);
    // A reader that closed the pipe (`constel events | head`) is not reported as an error.
    let piped = error.chain().any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
    });
    match exit {
        // Diagnostics begin with the file, and end their own lines.
        constel_control::Exit::Scenario => tell(&error.to_string()),
        constel_control::Exit::Failed if piped => {}
        _ => tell(&format!("constel: {}\n", in_full(error))),
    }
    ExitCode::from(exit.code())
}

/// Returns an error and its causes, each once, because some errors contain the text of their cause.
fn in_full(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |text, cause| {
        let cause = cause.to_string();
        match text.as_str() {
            "" => cause,
            told if told.contains(&cause) => text,
            told => format!("{told}: {cause}"),
        }
    })
}

/// Prints help and version to stdout with 0, usage errors to stderr with 2.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    let wanted = !error.use_stderr();
    drop(error.print());
    if wanted {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use constel_host::Error as HostError;

    #[test]
    fn a_cause_is_told_once() {
        let full = || std::io::Error::from_raw_os_error(libc::ENOSPC);
        let once = in_full(&HostError::os("write x", full()).into());
        assert_eq!(files::in_words(&once), "write x: No space left on device");
        let by_context = anyhow::Error::new(full()).context("write x");
        assert_eq!(in_full(&by_context), once);
    }
}
