//! The page's GET requests: one table, which the server uses and from which the OpenAPI document is generated.

/// A request. The page requests `/api/` and the path of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Question {
    /// All that no step changes.
    World,
    /// A link at an instant.
    Link,
    /// A path at an instant.
    Path,
    /// A node at an instant.
    Node,
    /// The future track of a satellite.
    Track,
    /// The least delay of a pair over the scenario.
    Series,
    /// The events of the time line.
    Events,
    /// A node's routes.
    Routes,
    /// A box's rules.
    Rules,
    /// A lab's networks.
    Networks,
    /// Flows that the page has started.
    Flows,
    /// A run that has ended.
    Run,
    /// A table of results.
    Columns,
}

/// A value of a question's query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueryValue {
    pub(crate) name: &'static str,
    pub(crate) is: Is,
    pub(crate) words: &'static str,
}

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Is {
    /// Text, which must be there.
    Text,
    /// A whole number. Default: 0.
    Whole,
    /// Set by `1`.
    Flag,
}

const fn node(name: &'static str, words: &'static str) -> QueryValue {
    let is = Is::Text;
    QueryValue { name, is, words }
}

const A: QueryValue = node("a", "One end: a node's name, catalogue name or number.");
const B: QueryValue = node("b", "The other end.");
const FROM: QueryValue = node(
    "from",
    "The start of the path: a node's name, catalogue name or number.",
);
const TO: QueryValue = node("to", "The end of the path.");
const NODE: QueryValue = node("node", "A node's name, catalogue name or number.");
const OF: QueryValue = node(
    "of",
    "`machine`, or a flow of the scenario by its name, once it has ended.",
);
const PATHS: QueryValue = QueryValue {
    name: "paths",
    is: Is::Flag,
    words: "1: the flow's rows of `paths.csv` in place of its samples: its path and the lower bound over lab time.",
};
const UNTIL: QueryValue = QueryValue {
    name: "t_ns",
    is: Is::Whole,
    words: "Lab time up to which changes by hand are in force, nanoseconds. Default: the beginning of the step.",
};
const STEP: QueryValue = QueryValue {
    name: "step",
    is: Is::Whole,
    words: "The instant: lab time divided by the time of a step.",
};
const LIVE: QueryValue = QueryValue {
    name: "live",
    is: Is::Flag,
    words: "1: as the running lab has it now, whatever `step` says.",
};
const AFTER: QueryValue = QueryValue {
    name: "from",
    is: Is::Whole,
    words: "How many events are known already.",
};

impl Question {
    /// All of them.
    pub(crate) const ALL: [Self; 13] = [
        Self::World,
        Self::Link,
        Self::Path,
        Self::Node,
        Self::Track,
        Self::Series,
        Self::Events,
        Self::Routes,
        Self::Rules,
        Self::Networks,
        Self::Flows,
        Self::Run,
        Self::Columns,
    ];

    /// The question of an address.
    pub(crate) fn of(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.path() == path)
    }

    /// Its address.
    pub(crate) const fn path(self) -> &'static str {
        match self {
            Self::World => "/api/world",
            Self::Link => "/api/link",
            Self::Path => "/api/path",
            Self::Node => "/api/node",
            Self::Track => "/api/track",
            Self::Series => "/api/series",
            Self::Events => "/api/events",
            Self::Routes => "/api/routes",
            Self::Rules => "/api/rules",
            Self::Networks => "/api/networks",
            Self::Flows => "/api/flows",
            Self::Run => "/api/run",
            Self::Columns => "/api/columns",
        }
    }

    /// Returns a description of one line.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::World => {
                "All that no step changes: nodes, kinds of links, what this server may do."
            }
            Self::Link => {
                "A link at an instant, and why it is up or down; with `live`, its counters and queues."
            }
            Self::Path => {
                "The path of least delay at an instant; with `live`, beside it the walk by the kernels' tables."
            }
            Self::Node => {
                "A node's position and links; for a station, also the satellites in its sky."
            }
            Self::Track => "The track of a satellite during one revolution.",
            Self::Series => {
                "The least delay of a pair over the whole scenario, with the changes by hand so far."
            }
            Self::Events => {
                "Events on the time line: predicted for a plan, logged for a lab or a run."
            }
            Self::Routes => "A node's routes as its kernel has them; of a running lab.",
            Self::Rules => "A box's rules, and what each has done.",
            Self::Networks => "The networks of a running lab and their members.",
            Self::Flows => "Flows that were started from here.",
            Self::Run => "The manifest and the summary of a run that has ended.",
            Self::Columns => {
                "A table of results, of a lab or of a run that has ended. Long ones are thinned out, but flagged rows are kept."
            }
        }
    }

    /// Values that it takes.
    pub(crate) const fn asked(self) -> &'static [QueryValue] {
        match self {
            Self::Link => &[A, B, STEP, UNTIL, LIVE],
            Self::Path => &[FROM, TO, STEP, UNTIL, LIVE],
            Self::Node => &[NODE, STEP, UNTIL],
            Self::Track => &[NODE, STEP],
            Self::Series => &[FROM, TO],
            Self::Events => &[AFTER],
            Self::Routes => &[NODE],
            Self::Columns => &[OF, PATHS],
            Self::World | Self::Rules | Self::Networks | Self::Flows | Self::Run => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_question_has_an_address_of_its_own() {
        for question in Question::ALL {
            assert_eq!(Question::of(question.path()), Some(question));
        }
        assert_eq!(Question::of("/api/nothing"), None);
    }
}
