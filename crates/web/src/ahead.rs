//! Future events of a scenario: handovers and failures, computed step by step in the background.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use constel_api::{Event, EventData};
use constel_plan::Lab;
use constel_topology::{Broken, Snapshot, diff};
use constel_units::TimeSpan;

use crate::behind::step_back;
use crate::views::Timeline;

/// Most events that are foretold.
const EVENTS: usize = 20_000;

/// The events computed so far.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    events: Vec<Event>,
    until_ns: u64,
    complete: bool,
}

impl Ahead {
    /// Begins to foretell, in a thread that ends with `stop`.
    ///
    /// # Errors
    /// When there can be no thread.
    pub(crate) fn begin(lab: Lab, stop: Arc<AtomicBool>) -> std::io::Result<Arc<Self>> {
        let ahead = Arc::new(Self::default());
        let own = Arc::clone(&ahead);
        std::thread::Builder::new()
            .name("web-ahead".to_owned())
            .spawn(move || own.foretell(&lab, &stop))?;
        Ok(ahead)
    }

    /// Returns the events computed so far, from an index of the list on.
    pub(crate) fn timeline(&self, from: usize) -> Timeline {
        let known = self.known.lock().unwrap_or_else(|e| e.into_inner());
        Timeline {
            events: known.events.get(from..).unwrap_or_default().to_vec(),
            until_ns: known.until_ns as f64,
            complete: known.complete,
        }
    }

    fn foretell(&self, lab: &Lab, stop: &AtomicBool) {
        step_back();
        let duration_ns = u64::try_from(lab.scenario.duration.ns()).unwrap_or(0);
        let mut stepper = lab.stepper();
        let mut before = stepper.advance();
        let mut seq = 0;
        let first = changes(lab, &Broken::default(), &before);
        self.add(lab, before.t_ns, first, &mut seq);
        while before.t_ns + lab.step_ns() < duration_ns && !stop.load(Ordering::Acquire) {
            let after = stepper.advance();
            let mut news = handovers(lab, &before, &after);
            news.extend(changes(lab, &before.broken, &after));
            self.add(lab, after.t_ns, news, &mut seq);
            before = after;
            if seq as usize >= EVENTS {
                break;
            }
        }
        let mut known = self.known.lock().unwrap_or_else(|e| e.into_inner());
        if (seq as usize) < EVENTS {
            known.until_ns = duration_ns;
        }
        known.complete = true;
    }

    fn add(&self, lab: &Lab, t_ns: u64, news: Vec<EventData>, seq: &mut u64) {
        let span = TimeSpan::from_ns(i64::try_from(t_ns).unwrap_or(i64::MAX));
        let wall = lab.scenario.start.checked_add(span);
        let wall = wall.map_or_else(String::new, |wall| wall.to_string());
        let mut known = self.known.lock().unwrap_or_else(|e| e.into_inner());
        for what in news {
            *seq += 1;
            known.events.push(Event {
                seq: *seq,
                t_ns: i64::try_from(t_ns).ok(),
                wall: wall.clone(),
                what,
                catalogued: Vec::new(),
            });
        }
        known.until_ns = t_ns;
    }
}

fn handovers(lab: &Lab, before: &Snapshot, after: &Snapshot) -> Vec<EventData> {
    let layout = &lab.layout;
    let name = |node| layout.node(node).name.clone();
    let handovers = diff(layout, before, after).handovers.into_iter();
    handovers
        .map(|handover| EventData::Handover {
            station: name(handover.station),
            from: handover.from.map(name),
            to: handover.to.map(name),
            port: (layout.access_ports(handover.station).len() > 1)
                .then(|| layout.port(handover.port).name().to_owned()),
        })
        .collect()
}

/// Failures that begin and end with a step, by their causes.
fn changes(lab: &Lab, before: &Broken, after: &Snapshot) -> Vec<EventData> {
    let layout = &lab.layout;
    let objects = |broken: &Broken| -> Vec<(u16, String)> {
        let nodes = broken.nodes.iter();
        let nodes = nodes.map(|(node, by)| (*by, layout.node(*node).name.clone()));
        let links = broken.links.iter().filter_map(|(number, by)| {
            let link = layout
                .isl_links()
                .iter()
                .find(|link| link.number == *number)?;
            let [a, b] = [link.a, link.b].map(|port| &layout.node(layout.port(port).node).name);
            Some((*by, format!("{a}-{b}")))
        });
        let cables = broken.cables.iter().filter_map(|(number, by)| {
            let cable = layout.cables().get(*number as usize)?;
            let [a, b] = [cable.a, cable.b].map(|port| &layout.node(layout.port(port).node).name);
            Some((*by, format!("{a}-{b}")))
        });
        nodes.chain(links).chain(cables).collect()
    };
    let (old, new) = (objects(before), objects(&after.broken));
    let mut news = Vec::new();
    for (place, failure) in layout.spec().failures.iter().enumerate() {
        let of = |these: &[(u16, String)], others: &[(u16, String)]| -> Vec<String> {
            let own = these
                .iter()
                .filter(|one| usize::from(one.0) == place && !others.contains(one));
            own.map(|(_, name)| name.clone()).collect()
        };
        let cause = failure.name.clone();
        let (ended, begun) = (of(&old, &new), of(&new, &old));
        if !ended.is_empty() {
            news.push(EventData::Repair {
                cause: cause.clone(),
                objects: ended,
            });
        }
        if !begun.is_empty() {
            news.push(EventData::Failure {
                cause,
                objects: begun,
            });
        }
    }
    news
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sky::tests::iridium;

    #[test]
    fn the_handovers_of_iridiums_minute_are_foretold() {
        let ahead = Ahead::default();
        ahead.foretell(&iridium(), &AtomicBool::new(false));
        let timeline = ahead.timeline(0);
        assert!(timeline.complete);
        let of = |name: &str| -> Vec<i64> {
            let events = timeline.events.iter();
            let own = events.filter(|event| matches!(&event.what, EventData::Handover { station, .. } if station == name));
            own.filter_map(|event| Some(event.t_ns? / 1_000_000_000))
                .collect()
        };
        // As the scenario's own comment has them.
        assert_eq!(of("tokyo"), [24]);
        assert_eq!(of("cairo"), [34, 38]);
        assert_eq!(of("london"), [42]);
        assert_eq!(ahead.timeline(timeline.events.len()).events, []);
    }
}
