//! Judgements of statements while a run goes on: statements about events that can no longer hold.

use constel_api::Event;
use constel_scenario::Scenario;
use constel_scenario::model::Expected;

use super::{is, order, programs};

/// Returns the statements that can no longer hold after the events up to lab time `now_ns`: index and reason of each.
#[must_use]
pub fn lost(scenario: &Scenario, events: &[Event], now_ns: Option<i64>) -> Vec<(usize, String)> {
    let statements = scenario.expect.iter().enumerate();
    let lost = statements.filter_map(|(place, own)| match &own.what {
        Expected::Alive(nodes, window) => {
            let seen = programs::ended(nodes, *window, &scenario.traffic, events)?;
            Some((place, seen))
        }
        Expected::Order(first, then, Some(within), window) => {
            let counts = |event: &Event| event.t_ns.is_some_and(|t_ns| window.has(t_ns));
            let counts = |event: &Event| window.is_all() || counts(event);
            let earlier = events
                .iter()
                .position(|event| counts(event) && is(first, event))?;
            let began_ns = events[earlier].t_ns?;
            match order(first, then, Some(*within), *window, events) {
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
