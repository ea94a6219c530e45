//! Networks: sets of nodes and the law of the edges between them.

use constel_topology::radio::Carrier;
use constel_units::Length;

use super::{Channel, Link, Name, NodesNamed, RangeStep, TextFile};

/// A network.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    /// Its name.
    pub name: Name,
    /// The network's members; whether such nodes exist is known when the plan is made.
    pub members: Vec<NodesNamed>,
    /// Members that join later.
    pub away: Vec<NodesNamed>,
    /// The medium that joins the members.
    pub medium: Medium,
    /// Whether the host reaches the members over a management network besides.
    pub management: bool,
}

/// The medium that joins the members of a network.
#[derive(Debug, Clone, PartialEq)]
pub enum Medium {
    /// Every edge by itself.
    Links {
        /// The rule that determines the edges.
        law: Law,
        /// The properties of each edge.
        link: Link,
    },
    /// One channel for all.
    Shared {
        /// The rule that determines who receives from whom.
        law: Law,
        /// Rate and queue of each radio, and the propagation.
        link: Link,
        /// How they share it.
        channel: Channel,
    },
    /// A bridge without limits.
    Switched,
}

/// The rule that determines a network's edges.
#[derive(Debug, Clone, PartialEq)]
pub enum Law {
    /// Delays of a file. Its text is passed on unread.
    Matrix(TextFile),
    /// Between members in reach.
    Range {
        /// How far that is.
        most: Length,
        /// How high the line of sight stays.
        atmosphere: Length,
        /// By distance, nearest first.
        steps: Vec<RangeStep>,
        /// By link budget; then there are no steps.
        radio: Option<Carrier>,
    },
    /// Along the shortest paths over a constellation that serves the ground.
    Over(Name),
}
