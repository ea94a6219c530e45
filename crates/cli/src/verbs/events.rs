//! `constel events`: prints a lab's events.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use constel_api::Event;
use constel_cluster::store::StoreLocation;
use constel_control::{EventsComing, Observer, SeenEvent, merge_events};
use serde_json::Value;

use super::there::{All, Said, cut_off};
use crate::args::Events;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

/// Prints all events so far, then, with `--follow`, each new one.
pub(crate) fn run(args: &Events) -> Outcome {
    if let Some(store) = &args.store {
        return of_all(args, store);
    }
    let lab = Observer::attach(&args.lab)?;
    for event in lab.events(args.follow)? {
        let event = event?;
        if args.json {
            output::json_line(&event)?;
        } else {
            output::text(&line(&event)?)?;
        }
    }
    Ok(Exit::Done)
}

/// Prints the events so far of all machines of a lab.
fn of_all(args: &Events, place: &StoreLocation) -> Outcome {
    let all = All::of(place, &args.lab)?;
    if args.follow {
        return follow_all(args, &all);
    }
    let (mut of, mut missing) = (Vec::new(), false);
    for machine in all.machines() {
        let verb = ["events".to_owned(), "--json".to_owned()];
        let said = match all.ask(machine, &verb)? {
            Some(said) => said,
            None => return Ok(Exit::Interrupted),
        };
        let Some(said) = well(machine, said) else {
            missing = true;
            continue;
        };
        if said.cut {
            missing = true;
            output::tell(&format!("constel: machine {machine}: {}\n", cut_off()));
        }
        let text = String::from_utf8_lossy(&said.stdout);
        let lines = text.lines().filter(|line| !said.cut || line.ends_with('}'));
        let events = lines.map(serde_json::from_str::<Event>);
        of.push((machine.to_owned(), events.collect::<Result<Vec<_>, _>>()?));
    }
    tell(args, merge_events(of))?;
    Ok(match missing {
        true => Exit::Failed,
        false => Exit::Done,
    })
}

/// Returns a machine's answer if it succeeded; prints its error otherwise. The events of a lost machine are lost.
fn well(machine: &str, said: Result<Said, String>) -> Option<Said> {
    match said {
        Ok(said) if said.exit == 0 => return Some(said),
        Ok(said) => {
            let words = String::from_utf8_lossy(&said.stderr);
            let words = match words.trim_end() {
                "" => format!("its command ended with exit code {}", said.exit),
                words => words.to_owned(),
            };
            output::tell(&format!("constel: machine {machine}: {words}\n"));
        }
        Err(gone) => output::tell(&format!("constel: {gone}\n")),
    }
    None
}

fn tell(args: &Events, all: Vec<SeenEvent>) -> Result<(), Failure> {
    for seen in all {
        if args.json {
            output::json_line(&seen)?;
        } else {
            let machines = seen.machines.join(",");
            output::text(&format!("{machines:<12} {}", line(&seen.event)?))?;
        }
    }
    Ok(())
}

/// A message from one machine.
enum News {
    Event(Event),
    /// The machine sends no more; with its result, unless this process was interrupted.
    Ended(Result<Option<Result<Said, String>>, Failure>),
}

/// Prints the events of all machines of a lab as they arrive, until all have ended.
fn follow_all(args: &Events, all: &All) -> Outcome {
    let (news, heard) = mpsc::channel();
    thread::scope(|scope| {
        for machine in all.machines() {
            let news = news.clone();
            scope.spawn(move || {
                let mut lines = Lines::default();
                let verb = ["events", "--follow", "--json"].map(str::to_owned);
                let ended = all.follow(machine, &verb, &mut |bytes| {
                    for event in lines.learn(bytes) {
                        // The receiver is closed if the command is about to end.
                        let _ = news.send((machine, News::Event(event)));
                    }
                });
                let _ = news.send((machine, News::Ended(ended)));
            });
        }
        drop(news);
        let machines = all.machines().map(str::to_owned).collect();
        let ended = hear(args, machines, &heard);
        all.stop();
        ended
    })
}

/// Prints events until all machines have ended.
fn hear(args: &Events, machines: Vec<String>, heard: &mpsc::Receiver<(&str, News)>) -> Outcome {
    let (mut coming, began) = (EventsComing::of(machines), Instant::now());
    let mut exit = Exit::Done;
    loop {
        match heard.recv_timeout(Duration::from_millis(100)) {
            Ok((machine, News::Event(event))) => coming.learn(machine, event, began.elapsed()),
            Ok((machine, News::Ended(ended))) => {
                let did_well = ended?.map(|said| well(machine, said).is_some());
                exit = match (did_well, exit) {
                    (None, _) | (_, Exit::Interrupted) => Exit::Interrupted,
                    (Some(false), _) => Exit::Failed,
                    (Some(true), exit) => exit,
                };
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
        tell(args, coming.due(began.elapsed()))?;
    }
    tell(args, coming.rest())?;
    Ok(exit)
}

/// Assembles events, a line each, from the pieces of a stream.
#[derive(Default)]
struct Lines {
    begun: Vec<u8>,
}

impl Lines {
    /// Returns the events whose line ends with this piece. A line that is not an event comes from a failed command, which
    /// reports the failure itself.
    fn learn(&mut self, piece: &[u8]) -> Vec<Event> {
        self.begun.extend_from_slice(piece);
        let end = self.begun.iter().rposition(|byte| *byte == b'\n');
        let rest = self.begun.split_off(end.map_or(0, |end| end + 1));
        let whole = std::mem::replace(&mut self.begun, rest);
        let lines = whole.split(|byte| *byte == b'\n');
        lines
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect()
    }
}

/// Formats lab time, kind, and fields as `key=value`.
fn line(event: &Event) -> serde_json::Result<String> {
    let time = event
        .t_ns
        .map_or_else(|| "-".to_owned(), |t| format!("{:.3}", t as f64 / 1e9));
    let what = serde_json::to_value(&event.what)?;
    let fields = what.as_object().into_iter().flatten();
    let rest: Vec<String> = fields
        .filter(|(key, _)| *key != "kind")
        .map(|(key, value): (&String, &Value)| format!("{key}={}", output::cell(value)))
        .collect();
    Ok(format!(
        "{time:>9} s  {:<16} {}\n",
        output::cell(&what["kind"]),
        rest.join(" ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use constel_api::EventData;

    #[test]
    fn events_come_in_pieces_of_any_size() {
        let event = |seq: u64| Event {
            seq,
            t_ns: None,
            wall: "2026-11-22T00:00:00.000000Z".to_owned(),
            what: EventData::EdgesUp { edges: 3 },
            catalogued: Vec::new(),
        };
        let text: String = (1..6)
            .map(|seq| serde_json::to_string(&event(seq)).unwrap() + "\n")
            .collect();
        for size in [1, 7, 100, 10_000] {
            let mut lines = Lines::default();
            let heard = text
                .as_bytes()
                .chunks(size)
                .flat_map(|piece| lines.learn(piece));
            let heard: Vec<u64> = heard.map(|event| event.seq).collect();
            assert_eq!(heard, [1, 2, 3, 4, 5], "{size}");
        }
    }

    #[test]
    fn an_event_is_a_line() {
        let event = Event {
            seq: 4,
            t_ns: Some(1_500_000_000),
            wall: "2026-11-22T00:00:00.000000Z".to_owned(),
            what: EventData::Handover {
                station: "tokyo".to_owned(),
                from: None,
                to: Some("sat-1".to_owned()),
                port: None,
            },
            catalogued: Vec::new(),
        };
        assert_eq!(
            line(&event).unwrap(),
            "    1.500 s  handover         station=tokyo from=- to=sat-1\n"
        );
    }
}
