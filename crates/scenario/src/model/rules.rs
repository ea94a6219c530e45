//! The rules of a box.

use constel_link::rules::Rules;
use serde_json::Value as Json;

use super::InputFile;
use crate::diagnostic::Diagnostic;
use crate::source::Source;

/// A file of rules. Made by [`read_rules`](crate::read_rules).
#[derive(Debug, Clone, PartialEq)]
pub struct RuleFile {
    /// Seed of every random choice.
    pub seed: u64,
    /// The rules.
    pub rules: Rules,
    /// The rules as they would be written to a file, all of them named.
    pub written: Vec<Json>,
    /// The file itself and the files it names, with their hashes.
    pub inputs: Vec<InputFile>,
    /// Rules that are never reached, each with the rule that matches its frames before.
    /// [`Diagnostic::as_warning`] prints them.
    pub warnings: Vec<Diagnostic>,
    /// The file's name and text.
    pub source: Source,
}
