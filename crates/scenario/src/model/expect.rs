//! What must have come true when a run is over.

use constel_units::{DataRate, Ratio, TimeSpan};
use serde::Serialize;

use super::{Name, NodesNamed};
pub use crate::raw::RawEventNamed as EventNamed;

/// A statement about a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Expectation {
    /// Unique in the scenario.
    pub name: Name,
    /// The requirement it stands for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requirement: Option<String>,
    /// What must be.
    #[serde(flatten)]
    pub what: Expected,
    /// The line of the scenario file it stands in.
    pub line: u32,
}

/// What must be.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expected {
    /// The flow gave a result.
    Succeeds(Name),
    /// Nothing ended in these nodes.
    Alive(Vec<NodesNamed>),
    /// The first answer to a ping came within a time from the flow's start.
    Reachable(Name, TimeSpan),
    /// So much arrived.
    Delivery(Delivery),
    /// What several programs printed is the same.
    Agreement(Agreement),
    /// A quantile of what a program printed.
    Metric(Measured),
    /// At least so fast.
    Throughput(Name, DataRate),
    /// A quantile of round-trip times is at most so long.
    RoundTrip(Name, Ratio, TimeSpan),
    /// An event, then another, perhaps within a time.
    Order(EventNamed, EventNamed, Option<TimeSpan>),
}

/// How much of a flow arrived.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Delivery {
    /// The flow.
    pub flow: Name,
    /// At least so much of what it sent.
    pub at_least: Option<Ratio>,
    /// At most so much.
    pub at_most: Option<Ratio>,
    /// Of probes sent in this time alone, lab time: from the first, before the second.
    pub during: Option<(TimeSpan, TimeSpan)>,
}

/// That several programs printed the same.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Agreement {
    /// The flows that run them, two or more.
    pub flows: Vec<Name>,
    /// The column that says what belongs together.
    pub key: String,
    /// The column whose values must be equal.
    pub value: String,
    /// Of the keys for which each has a value.
    pub at_least: Ratio,
}

/// A quantile of numbers that a program printed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    /// The flow that runs it.
    pub flow: Name,
    /// The column.
    pub column: String,
    /// Which quantile.
    pub quantile: Ratio,
    /// It is not less.
    pub at_least: Option<i64>,
    /// It is not more.
    pub at_most: Option<i64>,
}
