//! Labs from a few lines, and files from memory.
#![allow(dead_code, reason = "not every test uses all of it")]

use constel_plan::Lab;
use constel_scenario::Files;

/// Files by name.
#[derive(Default)]
pub(crate) struct Given(pub(crate) Vec<(&'static str, String)>);

impl Files for Given {
    fn read(&self, path: &str) -> std::io::Result<Vec<u8>> {
        let found = self.0.iter().find(|(name, _)| *name == path);
        let text = found.ok_or(std::io::ErrorKind::NotFound)?;
        Ok(text.1.clone().into_bytes())
    }
}

/// A lab of four hours, or all that is wrong with it.
pub(crate) fn lab(rest: &str, files: &Given) -> Result<Lab, String> {
    lasting("4 h", rest, files)
}

/// A scenario of another length.
pub(crate) fn lasting(duration: &str, rest: &str, files: &Given) -> Result<Lab, String> {
    let head = "constel: 1\nname: x\nstart: 2026-11-21T00:00:00Z\n";
    let parsed = constel_scenario::parse("x.yaml", &format!("{head}duration: {duration}\n{rest}"));
    let parsed = parsed.map_err(|errors| errors.to_string())?;
    let scenario =
        constel_scenario::resolve(&parsed, files).map_err(|errors| errors.to_string())?;
    Lab::new(scenario).map_err(|errors| errors.to_string())
}
