//! Rules, in their order.

use crate::{Effects, Impairment};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::rules::interface::Interface;
use crate::rules::matching::Match;
use crate::rules::via::Via;

/// Rules that a box can have.
pub const MAX_RULES: usize = 4096;

/// The way of a frame through a box with two interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the first interface to the second.
    Forward,
    /// From the second to the first.
    Reverse,
}

impl Direction {
    /// Both, forward first.
    pub const BOTH: [Direction; 2] = [Direction::Forward, Direction::Reverse];

    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Direction::Forward => "forward",
            Direction::Reverse => "reverse",
        }
    }
}

/// What happens to frames of a rule in one direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// They go on at once, untouched.
    Pass,
    /// None arrives.
    Drop,
    /// They take a path.
    Path(Box<Path>),
}

/// What a path does to frames, in the link plane's own terms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Path {
    /// Delay, rate, queue, loss. With `via` without the delay.
    pub impairment: Impairment,
    /// The sky that says the delay, and when nothing passes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<Via>,
    /// All else.
    pub effects: Effects,
}

impl Action {
    /// What the edge of a rule does.
    #[must_use]
    pub fn impairment(&self) -> Impairment {
        match self {
            Action::Pass | Action::Drop => Impairment::delay_only(0),
            Action::Path(path) => path.impairment,
        }
    }

    /// The sky that its path leads through, if it does.
    #[must_use]
    pub fn via(&self) -> Option<&Via> {
        match self {
            Action::Path(path) => path.via.as_ref(),
            Action::Pass | Action::Drop => None,
        }
    }

    /// The effects on top of that, if there are any.
    #[must_use]
    pub fn effects(&self) -> Option<Effects> {
        match self {
            Action::Pass => None,
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
    /// Its name, which no other rule of the box has.
    pub name: String,
    /// The frames it is about, as they go forward.
    pub matching: Match,
    /// What happens to them on the way forward; `None`: the rule is not about this direction.
    pub forward: Option<Action>,
    /// The same in reverse, where source and destination of the match change places.
    pub reverse: Option<Action>,
}

impl Rule {
    /// What happens in a direction, if the rule is about it.
    #[must_use]
    pub fn action(&self, direction: Direction) -> Option<&Action> {
        match direction {
            Direction::Forward => self.forward.as_ref(),
            Direction::Reverse => self.reverse.as_ref(),
        }
    }
}

/// The rules of a box: the first that takes a frame decides. What none takes goes on untouched.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rules(Vec<Rule>);

/// What a rule says of an interface in vain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OddInterface {
    /// Place of the rule.
    pub rule: usize,
    /// `in` or `out`.
    pub key: &'static str,
    /// The interface.
    pub interface: Interface,
    /// Why no frame can have it.
    pub why: String,
}

/// More rules than a box can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{0} rules: a box has at most {MAX_RULES}")]
pub struct TooManyRules(pub usize);

impl Rules {
    /// These rules, in this order.
    ///
    /// # Errors
    /// When there are more than [`MAX_RULES`].
    pub fn new(rules: Vec<Rule>) -> Result<Rules, TooManyRules> {
        match rules.len() {
            0..=MAX_RULES => Ok(Rules(rules)),
            more => Err(TooManyRules(more)),
        }
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them.
    pub fn iter(&self) -> std::slice::Iter<'_, Rule> {
        self.0.iter()
    }

    /// The rule at a place.
    #[must_use]
    pub fn get(&self, place: usize) -> Option<&Rule> {
        self.0.get(place)
    }

    /// Where the rule of this name stands.
    #[must_use]
    pub fn place(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|rule| rule.name == name)
    }

    /// What these rules say of interfaces that a box between these does not have or, being a router, cannot know: the place of
    /// the rule, the key, the name, and why.
    #[must_use]
    pub fn odd_interfaces(&self, names: &[String], routes: bool) -> Vec<OddInterface> {
        let mut odd = Vec::new();
        for (rule, of) in self.0.iter().map(|rule| &rule.matching).enumerate() {
            for (key, wanted) in [("in", &of.input), ("out", &of.output)] {
                for interface in wanted {
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

    /// The rules themselves.
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
