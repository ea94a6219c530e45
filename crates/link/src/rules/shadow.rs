//! Rules that can never be the first to take a frame.

use crate::rules::field::{Field, Wanted};
use crate::rules::rule::{Direction, Rules};

/// A rule that an earlier one leaves nothing to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shadow {
    /// Place of the rule.
    pub rule: usize,
    /// Place of the first earlier one that takes all it would take.
    pub by: usize,
    /// In which direction.
    pub direction: Direction,
}

/// Rules that are never reached because one earlier rule takes all that they would take, in the order of the rules.
/// Several earlier rules that only together take all are not found.
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
                    // Both are seen the same way, whatever the direction.
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
