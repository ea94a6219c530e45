//! Replies about a changed scenario, and about stations that users point.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// To [`Write::Apply`](crate::Write::Apply).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Applied {
    /// Whether the lab runs the changed scenario now. False after a dry run, and if a change was refused: nothing was changed
    /// then.
    pub applied: bool,
    /// The differences between the running scenario and the changed one, by key.
    pub changes: Vec<ScenarioChange>,
    /// Lab time from which the changed values hold, nanoseconds. Absent if nothing was changed, or only flows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_ns: Option<u64>,
}

impl Applied {
    /// Returns the changes that a running lab cannot take over.
    pub fn refused(&self) -> impl Iterator<Item = &ScenarioChange> {
        let changes = self.changes.iter();
        changes.filter(|change| change.refused.is_some())
    }
}

/// A difference between two scenarios.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScenarioChange {
    /// The key, as in the scenario file; entries of lists by their names.
    pub key: String,
    /// The kind of the change.
    pub change: ChangeWord,
    /// The value in the running lab, as text. Long values are cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The value in the changed scenario, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// The reason why a running lab cannot take it over. Absent if it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// The kind of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeWord {
    /// Only the changed scenario has it.
    Added,
    /// Only the running one has it.
    Removed,
    /// Both have it, with different values.
    Changed,
}

/// To [`Write::SetStation`](crate::Write::SetStation).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StationsSet {
    /// The stations.
    pub stations: Vec<String>,
    /// Lab time from which it holds, nanoseconds.
    pub from_ns: u64,
}
