//! One look at a lab for all who watch: its events, its time and its health, asked once however many browsers there are.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use constel_api::Event;
use constel_control::Lab;
use serde_json::{Value, json};

use crate::views::Timeline;

/// How often a lab is asked for its time.
const TIME_EVERY: Duration = Duration::from_millis(500);

/// How often it is asked for its health, which costs it more.
const HEALTH_EVERY: Duration = Duration::from_secs(4);

/// Most events that are kept; the oldest go.
const EVENTS: usize = 50_000;

/// What is known of a lab.
pub(crate) struct Feed {
    state: Mutex<State>,
    /// How many browsers watch; nobody is asked for nobody.
    pub(crate) watchers: AtomicUsize,
}

#[derive(Default)]
struct State {
    events: Vec<Event>,
    /// Events that are not kept any more.
    gone: usize,
    now: Value,
    health: Value,
    /// Rises with every look at the time.
    looks: u64,
    ended: bool,
}

impl Feed {
    /// Begins to watch, in threads that end with `stop` or the lab.
    ///
    /// # Errors
    /// When there can be no thread.
    pub(crate) fn begin(lab: Lab, stop: Arc<AtomicBool>) -> std::io::Result<Arc<Self>> {
        let feed = Arc::new(Self {
            state: Mutex::default(),
            watchers: AtomicUsize::new(0),
        });
        let (own, of) = (Arc::clone(&feed), lab.clone());
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        thread("web-events").spawn(move || own.follow(&of))?;
        let own = Arc::clone(&feed);
        thread("web-time").spawn(move || own.look(&lab, &stop))?;
        Ok(feed)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn follow(&self, lab: &Lab) {
        if let Ok(events) = lab.events(true) {
            for event in events.map_while(Result::ok) {
                let mut state = self.lock();
                if state.events.len() == EVENTS {
                    state.events.drain(..EVENTS / 4);
                    state.gone += EVENTS / 4;
                }
                state.events.push(event);
            }
        }
        self.lock().ended = true;
    }

    fn look(&self, lab: &Lab, stop: &AtomicBool) {
        let mut health_at: Option<Instant> = None;
        while !stop.load(Ordering::Acquire) && !self.lock().ended {
            if self.watchers.load(Ordering::Acquire) > 0 {
                let now = lab
                    .state()
                    .ok()
                    .and_then(|row| serde_json::to_value(row).ok());
                let due = health_at.is_none_or(|at| at.elapsed() >= HEALTH_EVERY);
                let relay = due
                    .then(|| lab.show().ok().and_then(|shown| shown.relay))
                    .flatten();
                if due {
                    health_at = Some(Instant::now());
                }
                let mut state = self.lock();
                if let Some(now) = now {
                    state.now = now;
                }
                if let Some(relay) = relay {
                    state.health = serde_json::to_value(relay).unwrap_or_default();
                }
                state.looks += 1;
            }
            std::thread::sleep(TIME_EVERY);
        }
    }

    /// What is new since a look, with the number of the latest.
    pub(crate) fn news(&self, seen: u64) -> Option<(u64, Value)> {
        let state = self.lock();
        if state.looks == seen && !state.ended {
            return None;
        }
        let now = json!({
            "op": "now",
            "lab": state.now,
            "health": state.health,
            "ended": state.ended,
        });
        Some((state.looks, now))
    }

    /// Events from a place of all of them on.
    pub(crate) fn timeline(&self, from: usize) -> Timeline {
        let state = self.lock();
        let events = state.events.get(from.saturating_sub(state.gone)..);
        let last = state.events.iter().rev().find_map(|event| event.t_ns);
        Timeline {
            events: events.unwrap_or_default().to_vec(),
            until_ns: last.unwrap_or(0) as f64,
            complete: state.ended,
        }
    }

    /// How many events there were.
    pub(crate) fn count(&self) -> usize {
        let state = self.lock();
        state.gone + state.events.len()
    }

    /// Whether the lab is down.
    pub(crate) fn ended(&self) -> bool {
        self.lock().ended
    }
}
