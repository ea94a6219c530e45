//! One poll of a lab for all viewers: its events, its time and its health are requested once, for any number of browsers.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use constel_api::Event;
use constel_api::answers::{LabRow, Loads};
use constel_control::Lab;
use constel_link::PlaneReport;
use tungstenite::Utf8Bytes;

use crate::behind::step_back;
use crate::bells::Bells;
use crate::changes::is_by_hand;
use crate::load;
use crate::views::{SocketMessage, Timeline};

/// Interval at which a lab is polled for its time.
const TIME_EVERY: Duration = Duration::from_millis(500);

/// Interval at which it is polled for its health, which costs the lab more.
const HEALTH_EVERY: Duration = Duration::from_secs(4);

/// Interval at which the traffic of its edges is requested, if a browser wants it.
const LOADS_EVERY: Duration = Duration::from_secs(2);

/// Events within this time are sent together, at the latest with the time.
const EVENTS_EVERY: Duration = Duration::from_millis(100);

/// Most events that are kept; the oldest go.
const EVENTS: usize = 50_000;

/// The state of a lab.
pub(crate) struct Feed {
    state: Mutex<State>,
    /// Number of watching browsers. Without any, the lab is not polled.
    pub(crate) watchers: AtomicUsize,
    /// How many of them want the load of links.
    pub(crate) weighers: AtomicUsize,
    /// Rung when there are news.
    pub(crate) bells: Bells,
}

#[derive(Default)]
struct State {
    events: Vec<Event>,
    /// Events that are not kept any more.
    gone: usize,
    /// Changes by hand, all of them: the past needs them however long ago they were.
    by_hand: Vec<Event>,
    now: Option<LabRow>,
    health: Option<Box<PlaneReport>>,
    /// Increases with every sample of the time.
    looks: u64,
    /// The message with the latest sample, created once for all.
    news: Utf8Bytes,
    loads: Utf8Bytes,
    /// Increases with every sample of the loads.
    weighed: u64,
    ended: bool,
}

impl State {
    /// Records a sample of the time, or the end.
    fn looked(&mut self) {
        self.looks += 1;
        self.news = text(&SocketMessage::Now {
            lab: self.now.clone(),
            health: self.health.clone(),
            ended: self.ended,
        });
    }
}

/// A message as it is sent.
fn text(told: &SocketMessage) -> Utf8Bytes {
    serde_json::to_string(told)
        .expect("views are JSON whatever they hold")
        .into()
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
            weighers: AtomicUsize::new(0),
            bells: Bells::default(),
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
        step_back();
        let mut rung: Option<Instant> = None;
        if let Ok(events) = lab.events(true) {
            for event in events.map_while(Result::ok) {
                let mut state = self.lock();
                if state.events.len() == EVENTS {
                    state.events.drain(..EVENTS / 4);
                    state.gone += EVENTS / 4;
                }
                if is_by_hand(&event) {
                    state.by_hand.push(event.clone());
                }
                state.events.push(event);
                drop(state);
                if rung.is_none_or(|at| at.elapsed() >= EVENTS_EVERY) {
                    rung = Some(Instant::now());
                    self.bells.ring();
                }
            }
        }
        let mut state = self.lock();
        state.ended = true;
        state.looked();
        drop(state);
        self.bells.ring();
    }

    fn look(&self, lab: &Lab, stop: &AtomicBool) {
        step_back();
        let mut health_at: Option<Instant> = None;
        let mut loads: Option<(Instant, Loads)> = None;
        while !stop.load(Ordering::Acquire) && !self.lock().ended {
            if self.watchers.load(Ordering::Acquire) > 0 {
                let now = lab.state().ok();
                let due = health_at.is_none_or(|at| at.elapsed() >= HEALTH_EVERY);
                let relay = due
                    .then(|| lab.show().ok().and_then(|shown| shown.relay))
                    .flatten();
                if due {
                    health_at = Some(Instant::now());
                }
                let mut state = self.lock();
                if now.is_some() {
                    state.now = now;
                }
                if relay.is_some() {
                    state.health = relay.map(Box::new);
                }
                state.looked();
            }
            loads = match self.weighers.load(Ordering::Acquire) {
                0 => None,
                _ => self.weigh(lab, loads),
            };
            self.bells.ring();
            std::thread::sleep(TIME_EVERY);
        }
    }

    /// Samples the traffic of the edges, if it is due. Returns the latest sample.
    fn weigh(&self, lab: &Lab, before: Option<(Instant, Loads)>) -> Option<(Instant, Loads)> {
        if before
            .as_ref()
            .is_some_and(|(at, _)| at.elapsed() < LOADS_EVERY)
        {
            return before;
        }
        let at = Instant::now();
        let now = lab.loads().ok()?;
        let links = before.and_then(|(_, before)| load::between(&before, &now));
        if let Some(links) = links {
            let t_ns = now.t_ns;
            let told = text(&SocketMessage::Loads { t_ns, links });
            let mut state = self.lock();
            state.loads = told;
            state.weighed += 1;
        }
        Some((at, now))
    }

    /// Returns the load of links if it is newer than sample `seen`, with the number of the latest.
    pub(crate) fn loads(&self, seen: u64) -> Option<(u64, Utf8Bytes)> {
        let state = self.lock();
        (state.weighed != seen).then(|| (state.weighed, state.loads.clone()))
    }

    /// Returns the number of samples of the loads.
    pub(crate) fn weighed(&self) -> u64 {
        self.lock().weighed
    }

    /// Returns the news since sample `seen`, with the number of the latest.
    pub(crate) fn news(&self, seen: u64) -> Option<(u64, Utf8Bytes)> {
        let state = self.lock();
        (state.looks != seen).then(|| (state.looks, state.news.clone()))
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

    /// Returns all changes by hand so far.
    pub(crate) fn by_hand(&self) -> Vec<Event> {
        self.lock().by_hand.clone()
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
