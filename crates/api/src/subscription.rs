//! Events for the followers of a lab: in order, from the first that is kept, without a queue for each follower.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::{Event, EventData};

/// The log of a lab, as seen by its followers.
pub trait EventSource: Send + Sync {
    /// Events after number `seq` in their order, not all if there are many. Without any, waits for one: at most `wait`, or
    /// for ever.
    fn after(&self, seq: u64, wait: Option<Duration>) -> Batch;
}

/// Events of a log for one follower.
#[derive(Debug, Default)]
pub struct Batch {
    /// Events, in order.
    pub events: Vec<Event>,
    /// The file that contains earlier events, which are no longer kept.
    pub file: String,
    /// Whether the log has ended, so that no more events follow.
    pub ended: bool,
}

/// The next result of a subscription.
#[derive(Debug, PartialEq)]
pub enum Next {
    /// An event.
    Event(Event),
    /// No event so far.
    Nothing,
    /// No more events, because the lab is down.
    Ended,
}

/// The position of a follower in a lab's log. It holds at most a few events. A follower that falls far behind does not delay
/// the log but gets a note of the missed events ([`EventData::Older`]).
pub struct Subscription {
    source: Arc<dyn EventSource>,
    /// The number of the last event that was delivered.
    seq: u64,
    ready: VecDeque<Event>,
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subscription")
            .field("seq", &self.seq)
            .finish_non_exhaustive()
    }
}

impl Subscription {
    /// From the first event on.
    #[must_use]
    pub fn new(source: Arc<dyn EventSource>) -> Self {
        Self {
            source,
            seq: 0,
            ready: VecDeque::new(),
        }
    }

    /// The next event. Without one, waits for it: at most `wait`, or for ever.
    pub fn next(&mut self, wait: Option<Duration>) -> Next {
        if self.ready.is_empty() {
            let batch = self.source.after(self.seq, wait);
            if batch.ended {
                return Next::Ended;
            }
            let missed = batch
                .events
                .first()
                .map_or(0, |first| first.seq - self.seq - 1);
            if let (Some(first), true) = (batch.events.first(), missed > 0) {
                self.ready.push_back(Event {
                    seq: first.seq - 1,
                    t_ns: None,
                    wall: first.wall.clone(),
                    what: EventData::Older {
                        events: missed,
                        file: batch.file,
                    },
                    catalogued: Vec::new(),
                });
            }
            self.ready.extend(batch.events);
        }
        match self.ready.pop_front() {
            Some(event) => {
                self.seq = event.seq;
                Next::Event(event)
            }
            None => Next::Nothing,
        }
    }
}
