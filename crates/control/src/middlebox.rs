//! A box in this process.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use constel_host::claim::LabName;
use constel_lab::{EventLog, Progress};
use constel_middlebox::Options;
use constel_scenario::model::RuleFile;
use constel_scenario::{DiskFiles, Files, read_rules};

use crate::error::Error;
use crate::node::require_privilege;
use crate::run::default_results;

pub use constel_middlebox::Finished as BoxFinished;

/// Reads and validates a file of rules; files that it names are looked for beside it.
///
/// # Errors
/// [`Error::Scenario`] with every finding; [`Error::Unreadable`], [`Error::NoFile`].
pub fn load_rules(file: &Path) -> Result<RuleFile, Error> {
    let shown = file.display().to_string();
    let Some(name) = file.file_name() else {
        return Err(Error::NoFile(shown));
    };
    let files = DiskFiles::beside(file);
    let bytes = files.read(&name.to_string_lossy());
    let bytes = bytes.map_err(|error| Error::Unreadable {
        file: shown.clone(),
        reason: error.to_string(),
    })?;
    read_rules(&shown, &bytes, &files).map_err(Error::Scenario)
}

/// What a box is asked for.
#[derive(Debug)]
pub struct BoxOptions {
    /// The two interfaces; forward is from the first to the second.
    pub interfaces: [String; 2],
    /// The file of rules; without it, everything passes.
    pub rules: Option<PathBuf>,
    /// Name among the labs of this host; made of the interfaces' unless given.
    pub name: Option<String>,
    /// Folder that receives the results, which must not exist; `results/<name>-<UTC time>` unless given.
    pub results: Option<PathBuf>,
    /// How long it runs; until it is stopped unless given.
    pub duration: Option<Duration>,
    /// Whether all frames go through the box, the host's own too.
    pub exclusive: bool,
    /// The box takes itself down unless somebody confirms it within this.
    pub confirm_within: Option<Duration>,
    /// Ends the box when it is set; for handlers of signals.
    pub stop: Arc<AtomicBool>,
}

/// Runs a box until it is stopped, by [`BoxOptions::stop`] or [`Lab::down`](crate::Lab::down).
///
/// # Errors
/// [`Error::Scenario`] and the others of [`load_rules`]; [`Error::BadLabName`], [`Error::Unprivileged`]; [`Error::Box`] with
/// what kept it from running.
pub fn run_box(options: BoxOptions, progress: &dyn Progress) -> Result<BoxFinished, Error> {
    let rules = match &options.rules {
        Some(file) => load_rules(file)?,
        None => read_rules("no rules", b"rules: []\n", &DiskFiles::in_folder("."))
            .map_err(Error::Scenario)?,
    };
    for warning in &rules.warnings {
        progress.say(warning.as_warning().trim_end());
    }
    let name = options
        .name
        .unwrap_or_else(|| named_after(&options.interfaces));
    let name: LabName = name
        .parse()
        .map_err(|error: constel_host::Error| Error::BadLabName(error.to_string()))?;
    require_privilege()?;
    let folder = options.rules.as_deref().and_then(Path::parent);
    let options = Options {
        results: options.results.unwrap_or_else(|| default_results(&name)),
        name,
        interfaces: options.interfaces,
        folder: folder.unwrap_or(Path::new("")).to_owned(),
        rules,
        duration: options.duration,
        exclusive: options.exclusive,
        confirm_within: options.confirm_within,
        stop: options.stop,
        events: Arc::<EventLog>::default(),
    };
    Ok(constel_middlebox::run(&options, progress)?)
}

/// A name of a lab that says which interfaces it is between.
fn named_after(interfaces: &[String; 2]) -> String {
    let plain = |c: char| match c.to_ascii_lowercase() {
        c if c.is_ascii_lowercase() || c.is_ascii_digit() => c,
        _ => '-',
    };
    let text = format!("box-{}-{}", interfaces[0], interfaces[1]);
    text.chars().map(plain).take(31).collect()
}
