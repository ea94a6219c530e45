//! Rules that can never be the first to match a frame.

use crate::rules::field::{Field, Wanted};
use crate::rules::rule::{Direction, Rules};

/// A rule all of whose frames are matched by an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shadow {
    /// Place of the rule.
    pub rule: usize,
    /// Place of the first earlier rule that matches all of its frames.
    pub by: usize,
    /// The direction.
    pub direction: Direction,
}

/// Returns rules that are never reached because one earlier rule matches all of their frames, in the order of the
/// rules. Combinations of several earlier rules that together match everything are not found.
#[must_use]
pub fn shadowed(rules: &Rules) -> Vec<Shadow> {
    let wanted: Vec<Vec<Wanted>> = rules
        .iter()
        .map(|rule| Field::ALL.map(|field| rule.matching.wanted(field)).into())
        .collect();
    let mut shadows = Vec::new();
    for (place, rule) in rules.iter().enumerate() {
        for direction in Direction::BOTH {
            if rule.action(direction).is_none() {
                continue;
            }
            let earlier = rules.iter().take(place).enumerate();
            let by = earlier
                .filter(|(_, before)| before.action(direction).is_some())
                .find(|(by, _)| {
                    let fields = wanted[*by].iter().zip(&wanted[place]);
                    // The reverse direction exchanges the same fields in both matches, so the comparison holds for both
                    // directions.
                    fields.into_iter().all(|(outer, inner)| outer.covers(inner))
                });
            if let Some((by, _)) = by {
                shadows.push(Shadow {
                    rule: place,
                    by,
                    direction,
                });
            }
        }
    }
    shadows
}
