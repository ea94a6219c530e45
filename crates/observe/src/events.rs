//! The run's log: what happened, at which lab time, one JSON object per line.

use std::io::{self, Write};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Counts from 1 without gaps, so that a reader notices what it missed.
    pub seq: u64,
    /// Lab time in nanoseconds; absent before the lab's clock starts.
    pub t_ns: Option<i64>,
    /// Wall-clock time, RFC 3339 UTC with microseconds.
    pub wall: String,
    /// What happened: `stage`, `handover`, `routes-stand`, `flow-started`, `node-down`, ...
    pub kind: String,
    /// The rest, flat.
    #[serde(flatten)]
    pub detail: Map<String, Value>,
}

struct Inner {
    sink: Box<dyn Write + Send>,
    seq: u64,
    followers: Vec<Sender<Event>>,
    history: Vec<Event>,
    sink_error: Option<io::Error>,
}

/// The log: writes every event at once and hands it to followers.
pub struct EventLog {
    inner: Mutex<Inner>,
}

impl EventLog {
    /// A log that writes to `sink` (normally `events.ndjson`).
    pub fn new(sink: Box<dyn Write + Send>) -> Self {
        Self {
            inner: Mutex::new(Inner {
                sink,
                seq: 0,
                followers: Vec::new(),
                history: Vec::new(),
                sink_error: None,
            }),
        }
    }

    /// Appends an event. A full disk does not stop the lab: the first error is kept and shows in
    /// [`EventLog::sink_error`], from where it reaches the verdict.
    pub fn emit(&self, t_ns: Option<i64>, kind: &str, detail: Map<String, Value>) {
        let mut inner = self.inner.lock().unwrap_or_else(|e| e.into_inner());
        inner.seq += 1;
        let event = Event {
            seq: inner.seq,
            t_ns,
            wall: chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Micros, true),
            kind: kind.to_owned(),
            detail,
        };
        let written = serde_json::to_string(&event)
            .map_err(io::Error::other)
            .and_then(|line| writeln!(inner.sink, "{line}").and_then(|()| inner.sink.flush()));
        if let (Err(error), None) = (written, &inner.sink_error) {
            inner.sink_error = Some(error);
        }
        inner
            .followers
            .retain(|follower| follower.send(event.clone()).is_ok());
        inner.history.push(event);
    }

    /// All events so far, and a channel that carries every later one: no gap, no repeat.
    pub fn follow(&self) -> (Vec<Event>, Receiver<Event>) {
        let mut inner = self.inner.lock().unwrap_or_else(|e| e.into_inner());
        let (sender, receiver) = channel();
        inner.followers.push(sender);
        (inner.history.clone(), receiver)
    }

    /// All events so far.
    pub fn history(&self) -> Vec<Event> {
        self.inner
            .lock()
            .unwrap_or_else(|e| e.into_inner())
            .history
            .clone()
    }

    /// Ends every follower's stream, for the end of the run.
    pub fn close(&self) {
        self.inner
            .lock()
            .unwrap_or_else(|e| e.into_inner())
            .followers
            .clear();
    }

    /// The first error met while writing, if any.
    pub fn sink_error(&self) -> Option<String> {
        let inner = self.inner.lock().unwrap_or_else(|e| e.into_inner());
        inner.sink_error.as_ref().map(ToString::to_string)
    }
}

/// Builds an event's detail: `detail! {"node" => name, "took_ns" => 5}`.
#[macro_export]
macro_rules! detail {
    ($($key:literal => $value:expr),* $(,)?) => {{
        #[allow(unused_mut, reason = "an event may carry no detail")]
        let mut map = ::serde_json::Map::new();
        $(map.insert($key.to_owned(), ::serde_json::json!($value));)*
        map
    }};
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
        let log = EventLog::new(Box::new(sink.clone()));
        log.emit(None, "stage", detail! {"name" => "nodes"});
        let (before, after) = log.follow();
        log.emit(Some(5), "handover", detail! {"station" => "tokyo"});
        log.close();
        let after: Vec<Event> = after.iter().collect();
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
        assert_eq!(lines[1].detail["station"], "tokyo");
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
        let log = EventLog::new(Box::new(Full));
        log.emit(None, "stage", detail! {});
        assert!(log.sink_error().is_some());
        assert_eq!(log.history().len(), 1);
    }
}
