//! Reading a scenario file, for every verb that takes one.

use std::path::Path;

use constel_plan::Lab;
use constel_scenario::{Diagnostics, DiskFiles, Files, parse_bytes, resolve};

use crate::exit::Failure;

/// A scenario that was read, with its text.
pub(crate) struct Loaded {
    /// Laid out.
    pub(crate) lab: Lab,
    /// The file as read.
    pub(crate) text: String,
    /// The file as the user named it.
    pub(crate) file: String,
}

/// Reads, validates, resolves and lays out a scenario; all that `check` checks.
///
/// # Errors
/// [`Failure::Scenario`] with every finding rendered, or as JSON through `on_findings`.
pub(crate) fn load(
    file: &Path,
    on_findings: impl FnOnce(&Diagnostics) -> Failure,
) -> Result<Loaded, Failure> {
    let shown = file.display().to_string();
    let bytes = read(file, &shown)?;
    let loaded = parse_bytes(&shown, &bytes)
        .and_then(|parsed| resolve(&parsed, &DiskFiles::beside(file)))
        .and_then(Lab::new);
    match loaded {
        Ok(lab) => Ok(Loaded {
            lab,
            text: String::from_utf8_lossy(&bytes).into_owned(),
            file: shown,
        }),
        Err(findings) => Err(on_findings(&findings)),
    }
}

/// What the user should know about the age of the scenario's data, a line each; often nothing.
pub(crate) fn age_warnings(lab: &Lab) -> String {
    let warned = lab.ages.iter().filter_map(|age| {
        let warning = age.warning.as_ref()?;
        Some(format!(
            "warning: {}: {}: {warning}\n",
            age.constellation, age.file
        ))
    });
    warned.collect()
}

/// Findings on stderr, the usual way.
pub(crate) fn rendered(findings: &Diagnostics) -> Failure {
    Failure::Scenario(findings.to_string())
}

fn read(file: &Path, shown: &str) -> Result<Vec<u8>, Failure> {
    let name = file
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    let Some(name) = name else {
        return Err(Failure::Usage(format!("{shown} is no file")));
    };
    DiskFiles::beside(file).read(&name).map_err(|error| {
        Failure::Scenario(format!(
            "{shown}:1:1: error: cannot read the scenario: {error}\n"
        ))
    })
}
