//! The run's log: one JSON object per line for each event, with its lab time. The latest events are kept for
//! followers; all are in the file.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, SystemTime};

use constel_api::{Batch, Event, EventData, EventSource, Subscription};
use constel_plan::Lab;
use constel_units::Utc;

use crate::answers::catalogued_in;

/// The number of events that are kept for late followers: some megabytes.
const KEPT: usize = 8_192;

/// The largest number of events in one batch.
const AT_ONCE: usize = 256;

#[derive(Default)]
struct Inner {
    sink: Option<Box<dyn Write + Send>>,
    file: PathBuf,
    kept: VecDeque<Event>,
    /// The number of the last event.
    seq: u64,
    sink_error: Option<io::Error>,
    closed: bool,
}

/// The event log. It writes every event at once. Followers fetch events themselves, so that a slow one does not
/// delay the lab.
#[derive(Default)]
pub struct EventLog {
    inner: Mutex<Inner>,
    /// The lab, for the catalogue names of satellites, once it is known.
    lab: OnceLock<Lab>,
    news: Condvar,
}

impl std::fmt::Debug for EventLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let events = self.lock().seq;
        f.debug_struct("EventLog").field("events", &events).finish()
    }
}

impl EventLog {
    /// Writes all events from here on to `sink`, which is `file` (normally `events.ndjson`).
    pub fn write_to(&self, sink: Box<dyn Write + Send>, file: PathBuf) {
        let mut inner = self.lock();
        inner.sink = Some(sink);
        inner.file = file;
    }

    /// Adds the catalogue names of this lab's satellites to events from here on.
    pub(crate) fn speak_of(&self, lab: &Lab) {
        self.lab.get_or_init(|| lab.clone());
    }

    /// Appends an event. A full disk does not stop the lab: the first error is kept, and the verdict reports it by
    /// [`EventLog::sink_error`].
    pub fn emit(&self, t_ns: Option<i64>, what: EventData) {
        // Names are looked up before the log is locked.
        let lab = self.lab.get();
        let catalogued = lab.map_or_else(Vec::new, |lab| catalogued_in(lab, what.nodes()));
        let mut inner = self.lock();
        inner.seq += 1;
        let event = Event {
            seq: inner.seq,
            t_ns,
            wall: format!("{:.6}", Utc::from(SystemTime::now())),
            what,
            catalogued,
        };
        let line = serde_json::to_string(&event).map_err(io::Error::other);
        // The line is flushed, so that a crash of the lab loses no event.
        let written = match &mut inner.sink {
            // A line is one write, because a new file may begin between two.
            Some(sink) => line.and_then(|line| {
                sink.write_all(format!("{line}\n").as_bytes())?;
                sink.flush()
            }),
            None => Ok(()),
        };
        // Only the first error is kept: a full disk fails each later line as well. The run reports it at its end.
        if let (Err(error), None) = (written, &inner.sink_error) {
            inner.sink_error = Some(error);
        }
        if inner.kept.len() == KEPT {
            inner.kept.pop_front();
        }
        inner.kept.push_back(event);
        drop(inner);
        self.news.notify_all();
    }

    /// Returns the kept events so far and every later one: without repetition, and with an explicit notice of any
    /// gap.
    #[must_use]
    pub fn follow(self: &Arc<Self>) -> Subscription {
        Subscription::new(Arc::clone(self) as Arc<dyn EventSource>)
    }

    /// Ends every follower's stream at the end of the run.
    pub fn close(&self) {
        self.lock().closed = true;
        self.news.notify_all();
    }

    /// Returns the first write error, if any.
    #[must_use]
    pub fn sink_error(&self) -> Option<String> {
        self.lock().sink_error.as_ref().map(ToString::to_string)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl EventSource for EventLog {
    fn after(&self, seq: u64, wait: Option<Duration>) -> Batch {
        let nothing = |inner: &mut Inner| inner.seq <= seq && !inner.closed;
        let inner = self.lock();
        let inner = match wait {
            None => self
                .news
                .wait_while(inner, nothing)
                .unwrap_or_else(|e| e.into_inner()),
            Some(wait) => {
                let waited = self.news.wait_timeout_while(inner, wait, nothing);
                waited.unwrap_or_else(|e| e.into_inner()).0
            }
        };
        // Event numbers are consecutive, so that the distance gives the index.
        let behind = usize::try_from(inner.seq.saturating_sub(seq)).unwrap_or(usize::MAX);
        let first = inner.kept.len().saturating_sub(behind);
        let events: Vec<Event> = inner
            .kept
            .iter()
            .skip(first)
            .take(AT_ONCE)
            .cloned()
            .collect();
        Batch {
            ended: inner.closed && events.is_empty(),
            events,
            file: inner.file.display().to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::told;
    use constel_api::Next;

    #[derive(Clone, Default)]
    struct Shared(std::sync::Arc<Mutex<Vec<u8>>>);
    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn numbers(events: &[Event]) -> Vec<u64> {
        events.iter().map(|event| event.seq).collect()
    }

    #[test]
    fn a_follower_sees_each_event_once() {
        let sink = Shared::default();
        let log = Arc::new(EventLog::default());
        log.write_to(Box::new(sink.clone()), "events.ndjson".into());
        log.emit(None, EventData::EdgesUp { edges: 2 });
        let mut follower = log.follow();
        assert_eq!(numbers(&told(&mut follower)), [1]);
        assert_eq!(follower.next(Some(Duration::ZERO)), Next::Nothing);
        let other = Arc::clone(&log);
        let waits = std::thread::spawn(move || follower.next(None));
        other.emit(Some(5), EventData::ClockStarted);
        let Next::Event(second) = waits.join().unwrap() else {
            panic!("an event came");
        };
        log.close();
        let text = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<Event> = text
            .lines()
            .map(|l| serde_json::from_str(l).unwrap())
            .collect();
        assert_eq!(lines[1], second);
        assert_eq!(lines[0].what, EventData::EdgesUp { edges: 2 });
        let mut late = log.follow();
        assert_eq!(told(&mut late), lines);
        assert_eq!(late.next(None), Next::Ended);
    }

    #[test]
    fn many_events_are_not_kept_and_those_who_come_late_are_told_so() {
        let log = Arc::new(EventLog::default());
        log.write_to(Box::new(io::sink()), "/r/events.ndjson".into());
        let mut slow = log.follow();
        log.emit(None, EventData::ClockStarted);
        assert_eq!(numbers(&told(&mut slow)), [1]);
        let all = 100_000;
        for _ in 1..all {
            log.emit(Some(1), EventData::ClockStarted);
        }
        assert_eq!(log.lock().kept.len(), KEPT);
        let kept = KEPT as u64;
        for (mut follower, before) in [(log.follow(), 0), (slow, 1)] {
            let told = told(&mut follower);
            assert_eq!(
                told[0].what,
                EventData::Older {
                    events: all - kept - before,
                    file: "/r/events.ndjson".to_owned()
                }
            );
            assert_eq!(numbers(&told), (all - kept..=all).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_full_disk_is_remembered() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::Error::from(io::ErrorKind::StorageFull))
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let log = EventLog::default();
        log.write_to(Box::new(Full), "events.ndjson".into());
        log.emit(None, EventData::ClockStarted);
        assert!(log.sink_error().is_some());
        assert_eq!(log.lock().kept.len(), 1);
    }
}
