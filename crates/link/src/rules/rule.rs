//! Rules, in their order.

use crate::{Effects, Impairment};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::rules::interface::Interface;
use crate::rules::matching::Match;
use crate::rules::via::Via;

/// Maximum number of rules of a box.
pub const MAX_RULES: usize = 4096;

/// Direction of a frame through a box with two interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the first interface to the second.
    Forward,
    /// From the second to the first.
    Reverse,
}

impl Direction {
    /// Both directions, forward first.
    pub const BOTH: [Direction; 2] = [Direction::Forward, Direction::Reverse];

    /// Returns the word of rule files and results.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Direction::Forward => "forward",
            Direction::Reverse => "reverse",
        }
    }
}

/// Action of a rule on frames of one direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Frames pass at once, unchanged.
    Pass,
    /// Frames are dropped.
    Drop,
    /// Frames pass along an emulated path.
    Path(Box<Path>),
}

/// Effects of a path on frames, as parameters of the link plane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Path {
    /// Delay, rate, queue, loss. With `via` the delay is computed instead.
    pub impairment: Impairment,
    /// The constellation path that determines the delay and the outages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<Via>,
    /// All other effects.
    pub effects: Effects,
}

impl Action {
    /// Returns the impairment of the rule's edge.
    #[must_use]
    pub fn impairment(&self) -> Impairment {
        match self {
            Action::Pass | Action::Drop => Impairment::delay_only(0),
            Action::Path(path) => path.impairment,
        }
    }

    /// Returns the constellation path, if there is one.
    #[must_use]
    pub fn via(&self) -> Option<&Via> {
        match self {
            Action::Path(path) => path.via.as_ref(),
            Action::Pass | Action::Drop => None,
        }
    }

    /// Returns the effects on top of the impairment, if there are any.
    #[must_use]
    pub fn effects(&self) -> Option<Effects> {
        match self {
            Action::Pass => None,
            // The link plane has no action "drop": an edge that is down drops all of its frames.
            Action::Drop => Some(Effects {
                down: Some(true),
                ..Effects::default()
            }),
            Action::Path(path) => Some(path.effects.clone()).filter(|e| *e != Effects::default()),
        }
    }
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// Name, unique among the rules of the box.
    pub name: String,
    /// The frames that it matches, written for the forward direction.
    pub matching: Match,
    /// Action on frames that go forward; `None`: the rule does not apply to this direction.
    pub forward: Option<Action>,
    /// Action in reverse, where source and destination of the match are exchanged.
    pub reverse: Option<Action>,
}

impl Rule {
    /// Returns the action in a direction, if the rule applies to it.
    #[must_use]
    pub fn action(&self, direction: Direction) -> Option<&Action> {
        match direction {
            Direction::Forward => self.forward.as_ref(),
            Direction::Reverse => self.reverse.as_ref(),
        }
    }
}

/// The rules of a box: the first that matches a frame decides. Frames without a match pass unchanged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rules(Vec<Rule>);

/// A condition on an interface that no frame can meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OddInterface {
    /// Place of the rule.
    pub rule: usize,
    /// `in` or `out`.
    pub key: &'static str,
    /// The interface.
    pub interface: Interface,
    /// Reason why no frame can have it.
    pub why: String,
}

/// Error: more rules than a box can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{0} rules: a box has at most {MAX_RULES}")]
pub struct TooManyRules(pub usize);

impl Rules {
    /// Creates rules in this order.
    ///
    /// # Errors
    /// When there are more than [`MAX_RULES`].
    pub fn new(rules: Vec<Rule>) -> Result<Rules, TooManyRules> {
        match rules.len() {
            0..=MAX_RULES => Ok(Rules(rules)),
            more => Err(TooManyRules(more)),
        }
    }

    /// Returns the number of rules.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no rules.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over all rules.
    pub fn iter(&self) -> std::slice::Iter<'_, Rule> {
        self.0.iter()
    }

    /// Returns the rule at a place.
    #[must_use]
    pub fn get(&self, place: usize) -> Option<&Rule> {
        self.0.get(place)
    }

    /// Returns the place of the rule of this name.
    #[must_use]
    pub fn place(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|rule| rule.name == name)
    }

    /// Returns the conditions on interfaces that a box between these interfaces does not have or, if it is a router,
    /// cannot determine: the place of the rule, the key, the name, and the reason.
    #[must_use]
    pub fn odd_interfaces(&self, names: &[String], routes: bool) -> Vec<OddInterface> {
        let mut odd = Vec::new();
        for (rule, of) in self.0.iter().map(|rule| &rule.matching).enumerate() {
            for (key, wanted) in [("in", &of.input), ("out", &of.output)] {
                for interface in wanted {
                    // Such a rule would never match, which looks like a box that does nothing.
                    let why = if !names.iter().any(|name| name == interface.name()) {
                        format!("the box is between {}", names.join(", "))
                    } else if routes && key == "in" {
                        "a router does not know where what it passes on came in: use `out` or `src`"
                            .to_owned()
                    } else {
                        continue;
                    };
                    let interface = *interface;
                    odd.push(OddInterface {
                        rule,
                        key,
                        interface,
                        why,
                    });
                }
            }
        }
        odd
    }

    /// Returns the rules as a list.
    #[must_use]
    pub fn into_inner(self) -> Vec<Rule> {
        self.0
    }
}

impl<'a> IntoIterator for &'a Rules {
    type Item = &'a Rule;
    type IntoIter = std::slice::Iter<'a, Rule>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}
