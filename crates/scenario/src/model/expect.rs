//! What must have come true when a run is over.

use constel_units::{DataRate, Ratio, TimeSpan};
use serde::Serialize;

use super::{Name, NodesNamed};
pub use crate::raw::{
    RawEventNamed as EventNamed, RawPrintedClock as PrintedClock, RawPrintedTime as PrintedTime,
};

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
    /// Nothing ended in these nodes before its time.
    Alive(Vec<NodesNamed>, Window),
    /// These programs were still running when their time was over.
    StillRunning(Vec<Name>),
    /// A program ended before its time was over.
    EndedEarly(EndedEarly),
    /// The first answer to a ping came within a time from the flow's start, or from the window's.
    Reachable(Name, TimeSpan, Window),
    /// So much arrived.
    Delivery(Delivery),
    /// What several programs printed is the same.
    Agreement(Agreement),
    /// A quantile of what a program printed.
    Metric(Measured),
    /// So fast.
    Throughput(Name, Bounds<DataRate>, Window),
    /// A quantile of round-trip times is so long.
    RoundTrip(Name, Ratio, Bounds<TimeSpan>, Window),
    /// An event, then another, perhaps within a time.
    Order(EventNamed, EventNamed, Option<TimeSpan>, Window),
}

/// What is allowed; one of the two at least is given.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Bounds<T> {
    /// It is not less.
    pub at_least: Option<T>,
    /// It is not more.
    pub at_most: Option<T>,
}

/// The part of lab time that a statement is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Window {
    /// From this lab time on; `None`: from the beginning.
    pub from: Option<TimeSpan>,
    /// Before this lab time; `None`: to the end.
    pub until: Option<TimeSpan>,
}

impl Window {
    /// Whether it is all of the time.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.from.is_none() && self.until.is_none()
    }

    /// Whether an instant of lab time, nanoseconds, is in it.
    #[must_use]
    pub fn has(&self, t_ns: i64) -> bool {
        self.from.is_none_or(|from| t_ns >= from.ns())
            && self.until.is_none_or(|until| t_ns < until.ns())
    }

    /// In words, to be put behind others; empty for all of the time.
    #[must_use]
    pub fn in_words(&self) -> String {
        let from = self.from.map_or(String::new(), |t| format!(" from {t}"));
        let until = self.until.map_or(String::new(), |t| format!(" until {t}"));
        from + &until
    }
}

/// A program that ends before its time is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EndedEarly {
    /// The flow that runs it.
    pub flow: Name,
    /// What a shell gives as its exit code: the code, or 128 and the signal; `None`: any.
    pub exit: Option<i32>,
    /// When.
    pub window: Window,
}

/// How much of a flow arrived.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Delivery {
    /// The flow.
    pub flow: Name,
    /// How much of what it sent.
    pub bounds: Bounds<Ratio>,
    /// Of probes sent in this time alone.
    pub window: Window,
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
    pub bounds: Bounds<Ratio>,
    /// When lines were printed; there where the window is not all of the time.
    pub time: Option<PrintedTime>,
    /// Of lines of this time alone.
    pub window: Window,
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
    /// What it must be.
    pub bounds: Bounds<f64>,
    /// When lines were printed; there where the window is not all of the time.
    pub time: Option<PrintedTime>,
    /// Of lines of this time alone.
    pub window: Window,
}
