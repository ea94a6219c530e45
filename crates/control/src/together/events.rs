//! Events of a lab's machines, made one: by lab time, and each that several have seen once.

use std::collections::BTreeMap;
use std::time::Duration;

use constel_api::Event;
use serde::Serialize;

/// Time for which an event of one machine is held, so that others may report it too.
const HELD: Duration = Duration::from_secs(2);

/// An event, and the machines that reported it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SeenEvent {
    /// The machines that reported it, in the lab's order. All machines report the events of the common plan.
    pub machines: Vec<String>,
    /// As the first of them noted it; `seq` counts those of all.
    #[serde(flatten)]
    pub event: Event,
}

/// Merges the events of all machines into one sequence and keeps the order of each machine. Events before lab time come
/// first. A later event without a lab time stays behind the event that the same machine reported before it.
#[must_use]
pub fn merge_events(of: Vec<(String, Vec<Event>)>) -> Vec<SeenEvent> {
    let mut all = EventsComing::of(of.iter().map(|(machine, _)| machine.clone()).collect());
    for (machine, events) in of {
        for event in events {
            all.learn(&machine, event, Duration::ZERO);
        }
    }
    all.rest()
}

/// Merges the events of a lab's machines while it runs. Reports of the same event within two seconds of the first one become
/// one event. A later report becomes an event of its own.
#[derive(Debug)]
pub struct EventsComing {
    /// In the lab's order.
    machines: Vec<String>,
    waiting: Vec<Waiting>,
    /// For each machine, the lab time of its latest event.
    last_ns: BTreeMap<String, i64>,
    told: u64,
}

#[derive(Debug)]
struct Waiting {
    at_ns: i64,
    came: Duration,
    seen: SeenEvent,
}

impl EventsComing {
    /// Starts with these machines, in the lab's order.
    #[must_use]
    pub fn of(machines: Vec<String>) -> Self {
        Self {
            machines,
            waiting: Vec::new(),
            last_ns: BTreeMap::new(),
            told: 0,
        }
    }

    /// A machine has noted something; `now` is any time that goes on.
    pub fn learn(&mut self, machine: &str, event: Event, now: Duration) {
        let last_ns = self.last_ns.entry(machine.to_owned()).or_insert(i64::MIN);
        let at_ns = event.t_ns.map_or(*last_ns, |t_ns| t_ns.max(*last_ns));
        *last_ns = at_ns;
        let same = self.waiting.iter_mut().find(|waiting| {
            let seen = &waiting.seen;
            event.t_ns.is_some()
                && (seen.event.t_ns, &seen.event.what) == (event.t_ns, &event.what)
                && !seen.machines.iter().any(|known| known == machine)
        });
        match same {
            Some(waiting) => {
                let place = |one: &String| self.machines.iter().position(|known| known == one);
                let all = &mut waiting.seen.machines;
                all.push(machine.to_owned());
                all.sort_by_key(place);
            }
            None => self.waiting.push(Waiting {
                at_ns,
                came: now,
                seen: SeenEvent {
                    machines: vec![machine.to_owned()],
                    event,
                },
            }),
        }
    }

    /// Returns the events that were held long enough, and all events before them.
    pub fn due(&mut self, now: Duration) -> Vec<SeenEvent> {
        let held = |waiting: &&Waiting| waiting.came + HELD <= now;
        let due = self.waiting.iter().filter(held);
        let Some(until_ns) = due.map(|waiting| waiting.at_ns).max() else {
            return Vec::new();
        };
        let all = std::mem::take(&mut self.waiting);
        let (due, later) = all
            .into_iter()
            .partition(|waiting| waiting.at_ns <= until_ns);
        self.waiting = later;
        self.tell(due)
    }

    /// All that is left.
    #[must_use]
    pub fn rest(mut self) -> Vec<SeenEvent> {
        let all = std::mem::take(&mut self.waiting);
        self.tell(all)
    }

    fn tell(&mut self, mut due: Vec<Waiting>) -> Vec<SeenEvent> {
        // The sort is stable, so events of one machine at one time stay in order.
        due.sort_by_key(|waiting| waiting.at_ns);
        let numbered = due.into_iter().map(|Waiting { mut seen, .. }| {
            self.told += 1;
            seen.event.seq = self.told;
            seen
        });
        numbered.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use constel_api::EventData;

    fn event(seq: u64, t_ns: Option<i64>, what: EventData) -> Event {
        Event {
            seq,
            t_ns,
            wall: "2026-11-22T00:00:00.000000Z".to_owned(),
            what,
            catalogued: Vec::new(),
        }
    }

    fn failure(cause: &str) -> EventData {
        EventData::Failure {
            cause: cause.to_owned(),
            objects: vec!["b".to_owned()],
        }
    }

    #[test]
    fn events_of_all_machines_are_one_list_by_lab_time() {
        let finished = || EventData::Finished {
            trustworthy: true,
            failed: false,
        };
        let started = || EventData::EdgesUp { edges: 3 };
        let of = |name: &str, own: &str, at: i64| {
            let events = vec![
                event(1, None, started()),
                event(2, Some(7), failure("loss of machine c")),
                event(3, Some(at), failure(own)),
                event(4, None, finished()),
            ];
            (name.to_owned(), events)
        };
        let merged = merge_events(vec![of("a", "x", 9), of("b", "y", 8)]);
        let told: Vec<(Vec<String>, Option<i64>)> = merged
            .iter()
            .map(|seen| (seen.machines.clone(), seen.event.t_ns))
            .collect();
        let one = |name: &str| vec![name.to_owned()];
        assert_eq!(
            told,
            [
                (one("a"), None),
                (one("b"), None),
                (vec!["a".to_owned(), "b".to_owned()], Some(7)),
                (one("b"), Some(8)),
                (one("b"), None),
                (one("a"), Some(9)),
                (one("a"), None),
            ]
        );
        let numbers: Vec<u64> = merged.iter().map(|seen| seen.event.seq).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7]);
    }

    /// Held until the other machine has had its time, in order of lab time, and one where both noted it.
    #[test]
    fn events_that_come_are_told_in_order_and_once() {
        let mut coming = EventsComing::of(vec!["b".to_owned(), "a".to_owned()]);
        let ms = Duration::from_millis;
        let told = |seen: Vec<SeenEvent>| {
            let row = |seen: SeenEvent| (seen.event.seq, seen.machines.join(" "), seen.event.t_ns);
            seen.into_iter().map(row).collect::<Vec<_>>()
        };
        coming.learn("a", event(1, Some(7), failure("x")), ms(0));
        coming.learn("b", event(1, Some(5), failure("y")), ms(900));
        coming.learn("b", event(2, Some(7), failure("x")), ms(1_000));
        coming.learn("b", event(3, Some(9), failure("z")), ms(1_900));
        assert_eq!(told(coming.due(ms(1_999))), []);
        let due = told(coming.due(ms(2_000)));
        let row = |seq, machines: &str, t_ns| (seq, machines.to_owned(), Some(t_ns));
        assert_eq!(due, [row(1, "b", 5), row(2, "b a", 7)]);
        // Too late to be one with the other's.
        coming.learn("a", event(2, Some(8), failure("w")), ms(3_000));
        assert_eq!(
            told(coming.due(ms(3_950))),
            [row(3, "a", 8), row(4, "b", 9)]
        );
        coming.learn("a", event(3, Some(9), failure("z")), ms(4_000));
        assert_eq!(told(coming.rest()), [row(5, "a", 9)]);
    }

    #[test]
    fn what_a_machine_notes_twice_happened_twice() {
        let twice = vec![
            event(1, Some(5), failure("x")),
            event(2, Some(5), failure("x")),
        ];
        let merged = merge_events(vec![("a".to_owned(), twice)]);
        assert_eq!(merged.len(), 2);
    }
}
