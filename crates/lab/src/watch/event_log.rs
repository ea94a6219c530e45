//! The run's log: what happened, at which lab time, one JSON object per line; a snapshot and then the rest for
//! whoever follows.

use std::io::{self, Write};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use constel_api::{Event, Happening, Subscription};

/// Somebody who listens as long as the other end of `listening` is held.
struct Follower {
    sender: Sender<Event>,
    listening: Weak<()>,
}

#[derive(Default)]
struct Inner {
    sink: Option<Box<dyn Write + Send>>,
    followers: Vec<Follower>,
    history: Vec<Event>,
    sink_error: Option<io::Error>,
    closed: bool,
}

/// The log: writes every event at once and hands it to followers.
#[derive(Default)]
pub struct EventLog {
    inner: Mutex<Inner>,
}

impl std::fmt::Debug for EventLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let events = self.lock().history.len();
        f.debug_struct("EventLog").field("events", &events).finish()
    }
}

impl EventLog {
    /// Writes all events from here on to `sink` (normally `events.ndjson`).
    pub(crate) fn write_to(&self, sink: Box<dyn Write + Send>) {
        self.lock().sink = Some(sink);
    }

    /// Appends an event. A full disk does not stop the lab: the first error is kept and shows in
    /// [`EventLog::sink_error`], from where it reaches the verdict.
    pub(crate) fn emit(&self, t_ns: Option<i64>, what: Happening) {
        let mut inner = self.lock();
        let event = Event {
            seq: inner.history.len() as u64 + 1,
            t_ns,
            wall: chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Micros, true),
            what,
        };
        let line = serde_json::to_string(&event).map_err(io::Error::other);
        let written = match &mut inner.sink {
            Some(sink) => {
                line.and_then(|line| writeln!(sink, "{line}").and_then(|()| sink.flush()))
            }
            None => Ok(()),
        };
        if let (Err(error), None) = (written, &inner.sink_error) {
            inner.sink_error = Some(error);
        }
        inner
            .followers
            .retain(|follower| follower.sender.send(event.clone()).is_ok());
        inner.history.push(event);
    }

    /// All events so far, and every later one: no gap, no repeat. Followers that have left are forgotten.
    #[must_use]
    pub fn follow(&self) -> Subscription {
        let mut inner = self.lock();
        let listens = |follower: &Follower| follower.listening.strong_count() > 0;
        inner.followers.retain(listens);
        let (sender, later) = channel();
        let listening = Arc::new(());
        if !inner.closed {
            inner.followers.push(Follower {
                sender,
                listening: Arc::downgrade(&listening),
            });
        }
        Subscription {
            history: inner.history.clone(),
            later,
            listening,
        }
    }

    /// All events so far.
    #[must_use]
    pub fn history(&self) -> Vec<Event> {
        self.lock().history.clone()
    }

    /// Ends every follower's stream, for the end of the run.
    pub fn close(&self) {
        let mut inner = self.lock();
        inner.closed = true;
        inner.followers.clear();
    }

    /// The first error met while writing, if any.
    pub(crate) fn sink_error(&self) -> Option<String> {
        self.lock().sink_error.as_ref().map(ToString::to_string)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|e| e.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn a_follower_sees_each_event_once() {
        let sink = Shared::default();
        let log = EventLog::default();
        log.write_to(Box::new(sink.clone()));
        log.emit(None, Happening::EdgesUp { edges: 2 });
        let Subscription {
            history: before,
            later,
            ..
        } = log.follow();
        log.emit(Some(5), Happening::ClockStarted);
        log.close();
        let after: Vec<Event> = later.iter().collect();
        assert_eq!(
            before
                .iter()
                .chain(&after)
                .map(|e| e.seq)
                .collect::<Vec<_>>(),
            [1, 2]
        );
        let text = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<Event> = text
            .lines()
            .map(|l| serde_json::from_str(l).unwrap())
            .collect();
        assert_eq!(lines[1], after[0]);
        assert_eq!(lines[0].what, Happening::EdgesUp { edges: 2 });
        assert!(log.follow().later.recv().is_err(), "nothing comes any more");
    }

    #[test]
    fn those_who_left_are_forgotten() {
        let log = EventLog::default();
        for _ in 0..5 {
            drop(log.follow());
        }
        let stays = log.follow();
        assert_eq!(log.lock().followers.len(), 1);
        drop(stays);
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
        log.write_to(Box::new(Full));
        log.emit(None, Happening::ClockStarted);
        assert!(log.sink_error().is_some());
        assert_eq!(log.history().len(), 1);
    }
}
