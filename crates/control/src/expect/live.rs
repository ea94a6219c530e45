//! What can be said of statements while a run still goes on: those about events, once they can no longer hold.

use constel_api::Event;
use constel_scenario::Glob;
use constel_scenario::model::{Expectation, Expected};

use super::{alive, is, order};

/// Of each statement that can no longer hold by what has happened up to lab time `now_ns`, its place and why.
#[must_use]
pub fn lost(
    expectations: &[Expectation],
    events: &[Event],
    now_ns: Option<i64>,
) -> Vec<(usize, String)> {
    let statements = expectations.iter().enumerate();
    let lost = statements.filter_map(|(place, own)| match &own.what {
        Expected::Alive(nodes) => {
            let globs: Vec<&Glob> = nodes.iter().map(|named| &named.glob).collect();
            let (holds, seen) = alive(&globs, events);
            (!holds).then_some((place, seen))
        }
        Expected::Order(first, then, Some(within)) => {
            let earlier = events.iter().position(|event| is(first, event))?;
            let began_ns = events[earlier].t_ns?;
            match order(first, then, Some(*within), events) {
                Ok((true, _)) => None,
                Ok((false, seen)) => Some((place, seen)),
                Err(missing) => {
                    let over = now_ns? - began_ns > within.ns();
                    over.then(|| (place, format!("{missing}, {within} later")))
                }
            }
        }
        _ => None,
    });
    lost.collect()
}
