//! A box in this process.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use constel_host::claim::LabName;
use constel_lab::{EventLog, Progress};
use constel_middlebox::Options;
use constel_scenario::model::{BoxEnds, BoxForm, BoxScenario, MachineCommand, RuleFile};
use constel_scenario::{DiskFiles, Setting, is_box, read_box, read_rules, set};
use constel_units::files;

use crate::error::Error;
use crate::node::require_privilege;
use crate::run::default_results;

pub use constel_middlebox::Finished as BoxFinished;

/// Reads and validates a file of rules; files that it names are looked for beside it.
///
/// # Errors
/// [`Error::Scenario`] with every finding; [`Error::Unreadable`], [`Error::NoFile`].
pub fn load_rules(file: &Path) -> Result<RuleFile, Error> {
    let bytes = bytes_of(file)?;
    let shown = file.display().to_string();
    read_rules(&shown, &bytes, &DiskFiles::beside(file)).map_err(Error::Scenario)
}

/// Reads and validates a scenario that describes a box. Returns `None` if the file is not a box and must go to
/// [`Scenario::load`](crate::Scenario::load).
///
/// `settings` change its values first.
///
/// # Errors
/// As [`load_rules`], and for every setting that cannot be applied.
pub fn load_box(file: &Path, settings: &[Setting]) -> Result<Option<BoxScenario>, Error> {
    let mut bytes = bytes_of(file)?;
    if !is_box(&bytes) {
        return Ok(None);
    }
    let mut shown = file.display().to_string();
    if let (false, Ok(text)) = (settings.is_empty(), std::str::from_utf8(&bytes)) {
        let changed = set(&shown, text, settings).map_err(Error::Scenario)?;
        bytes = changed.into_bytes();
        shown.push_str(" (as set)");
    }
    let scenario = read_box(&shown, &bytes, &DiskFiles::beside(file));
    scenario.map(Some).map_err(Error::Scenario)
}

fn bytes_of(file: &Path) -> Result<Vec<u8>, Error> {
    let shown = file.display().to_string();
    if file.file_name().is_none() {
        return Err(Error::NoFile(shown));
    }
    let bytes = files::read(file, files::MAX_TEXT_BYTES);
    bytes.map_err(|error| Error::Unreadable {
        file: shown,
        reason: error.to_string(),
    })
}

/// The source of a box.
#[derive(Debug)]
pub enum BoxSource {
    /// Interfaces of the host, how they are joined, and a file of rules; without it, everything passes.
    Interfaces(Vec<String>, BoxForm, Option<PathBuf>),
    /// A scenario, and where it lies.
    Scenario(Box<BoxScenario>, PathBuf),
}

/// The options of a box.
#[derive(Debug)]
pub struct BoxOptions {
    /// The source of its rules.
    pub source: BoxSource,
    /// Name among the labs of this host. Default: the scenario's name, or a name made from the interfaces.
    pub name: Option<String>,
    /// Folder for the results, which must not exist. Default: `results/<name>-<UTC time>`.
    pub results: Option<PathBuf>,
    /// Duration of the run. Default: the scenario's, or until the box is stopped.
    pub duration: Option<Duration>,
    /// Whether the commands of its scenario run.
    pub traffic: bool,
    /// Whether all frames go through the box, the host's own too.
    pub exclusive: bool,
    /// Time after which the box takes itself down unless a user confirms it.
    pub confirm_within: Option<Duration>,
    /// Ends the box when it is set; for handlers of signals.
    pub stop: Arc<AtomicBool>,
}

/// Runs a box until it is stopped, by [`BoxOptions::stop`] or [`Lab::down`](crate::Lab::down).
///
/// [`Error::Scenario`] and the others of [`load_rules`]; [`Error::BadLabName`], [`Error::Unprivileged`]; [`Error::Box`] with
/// the reason why it did not run.
pub fn run_box(options: BoxOptions, progress: &dyn Progress) -> Result<BoxFinished, Error> {
    let asked = asked(options.source)?;
    for warning in &asked.rules.warnings {
        progress.say(warning.as_warning().trim_end());
    }
    let name = options.name.unwrap_or(asked.name);
    let name: LabName = name
        .parse()
        .map_err(|error: constel_host::Error| Error::BadLabName(error.to_string()))?;
    require_privilege()?;
    let options = Options {
        results: options
            .results
            .unwrap_or_else(|| default_results(name.as_str())),
        name,
        ends: asked.ends,
        form: asked.form,
        commands: if options.traffic {
            asked.commands
        } else {
            Vec::new()
        },
        folder: asked.folder,
        rules: asked.rules,
        duration: options.duration.or(asked.duration),
        exclusive: options.exclusive || asked.exclusive,
        confirm_within: options.confirm_within,
        stop: options.stop,
        events: Arc::<EventLog>::default(),
    };
    Ok(constel_middlebox::run(&options, progress)?)
}

/// The content of a box's source.
struct SourceContent {
    name: String,
    ends: BoxEnds,
    form: BoxForm,
    rules: RuleFile,
    commands: Vec<MachineCommand>,
    folder: PathBuf,
    duration: Option<Duration>,
    exclusive: bool,
}

fn asked(source: BoxSource) -> Result<SourceContent, Error> {
    let folder = |file: &Path| file.parent().unwrap_or(Path::new("")).to_owned();
    match source {
        BoxSource::Interfaces(names, form, file) => Ok(SourceContent {
            name: named_after(&names),
            ends: BoxEnds::Interfaces(names),
            form,
            rules: match &file {
                Some(file) => load_rules(file)?,
                None => read_rules("no rules", b"rules: []\n", &DiskFiles::in_folder("."))
                    .map_err(Error::Scenario)?,
            },
            commands: Vec::new(),
            folder: file.as_deref().map(folder).unwrap_or_default(),
            duration: None,
            exclusive: false,
        }),
        BoxSource::Scenario(scenario, file) => Ok(SourceContent {
            name: scenario.name.to_string(),
            ends: scenario.ends,
            form: scenario.form,
            rules: scenario.rules,
            commands: scenario.commands,
            folder: folder(&file),
            duration: scenario
                .duration
                .map(|span| Duration::from_nanos(span.ns().unsigned_abs())),
            exclusive: scenario.exclusive,
        }),
    }
}

/// Returns a lab name made from the names of the interfaces.
fn named_after(interfaces: &[String]) -> String {
    let plain = |c: char| match c.to_ascii_lowercase() {
        c if c.is_ascii_lowercase() || c.is_ascii_digit() => c,
        _ => '-',
    };
    let text = format!("box-{}", interfaces.join("-"));
    text.chars().map(plain).take(31).collect()
}
