//! Expectations that a finished run is checked against.

use constel_units::{DataRate, Ratio, TimeSpan};

use super::{Name, NodesNamed, SourcePosition};
use crate::diagnostic::Diagnostic;
pub use crate::raw::{
    EventKind, EventSubject, RawPrintedClock as PrintedClock, RawPrintedTime as PrintedTime, Window,
};

/// A statement about a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Expectation {
    /// Unique in the scenario.
    pub name: Name,
    /// The requirement that it verifies.
    pub requirement: Option<String>,
    /// The condition.
    pub what: Expected,
    /// The line of the scenario file with the expectation.
    pub line: u32,
}

/// The condition of an expectation.
#[derive(Debug, Clone, PartialEq)]
pub enum Expected {
    /// The flow gave a result.
    Succeeds(Name),
    /// Programs ran in these nodes, and none ended before its time.
    Alive(Vec<NodesNamed>, Window),
    /// These programs were still running when their time was over.
    StillRunning(Vec<Name>),
    /// A program ended before its time was over.
    EndedEarly(EndedEarly),
    /// The first answer to a ping came within a time from the flow's start, or from the window's.
    Reachable(Name, TimeSpan, Window),
    /// Bounds of the share that arrived.
    Delivery(Delivery),
    /// The outputs of several programs agree.
    Agreement(Agreement),
    /// A quantile of the values that a program printed.
    Metric(Measured),
    /// Bounds of a flow's throughput.
    Throughput(Name, Bounds<DataRate>, Window),
    /// Bounds of a quantile of round-trip times.
    RoundTrip(Name, Ratio, Bounds<TimeSpan>, Window),
    /// An event, then another, optionally within a time.
    Order(EventNamed, EventNamed, Option<TimeSpan>, Window),
}

/// An event, given by its kind and its subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventNamed {
    /// The kind.
    pub kind: EventKind,
    /// A name in the event; `None`: any.
    pub about: Option<String>,
    /// The place of the name, or of the event, in the scenario file.
    pub(crate) at: SourcePosition,
}

impl EventNamed {
    /// Returns an error about its subject, at its place.
    #[must_use]
    pub fn error(&self, code: &'static str, message: impl Into<String>) -> Diagnostic {
        self.at.error(code, message)
    }
}

/// The allowed values; at least one of the two bounds is given.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds<T> {
    /// The value is not less.
    pub at_least: Option<T>,
    /// The value is not more.
    pub at_most: Option<T>,
}

/// A program that ends before its time is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedEarly {
    /// The flow that runs the program.
    pub flow: Name,
    /// The exit code as a shell reports it: the code, or 128 plus the signal; `None`: any.
    pub exit: Option<i32>,
    /// The time in which the end counts.
    pub window: Window,
}

/// How much of a flow arrived.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    /// The flow.
    pub flow: Name,
    /// The allowed share of the packets that were sent.
    pub bounds: Bounds<Ratio>,
    /// Only probes sent in this time count.
    pub window: Window,
}

/// Agreement of what several programs printed.
#[derive(Debug, Clone, PartialEq)]
pub struct Agreement {
    /// The flows that run the programs, two or more.
    pub flows: Vec<Name>,
    /// The column by which lines belong together.
    pub key: String,
    /// The column whose values must be equal.
    pub value: String,
    /// The allowed share of agreeing keys, among the keys for which each program has a value.
    pub bounds: Bounds<Ratio>,
    /// The time at which each line was printed; given if the window is not all of the time.
    pub time: Option<PrintedTime>,
    /// Only lines of this time count.
    pub window: Window,
}

/// A quantile of numbers that a program printed.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// The flow that runs the program.
    pub flow: Name,
    /// The column.
    pub column: String,
    /// The quantile.
    pub quantile: Ratio,
    /// The allowed values of the quantile.
    pub bounds: Bounds<f64>,
    /// The time at which each line was printed; given if the window is not all of the time.
    pub time: Option<PrintedTime>,
    /// Only lines of this time count.
    pub window: Window,
}
