//! A watch: a thread that reads the stream of one member, and changes to the next member if that one is silent.
//!
//! A member that has lost the others does not report that but only becomes silent. A stream that is silent for two seconds
//! is therefore opened again at the next member, from the revision after the last received one. No change is missed or
//! reported twice.

use std::io::{self, BufRead, BufReader};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::client::{Client, MOST_ANSWER_BYTES, SILENCE};
use super::wire::{self, WatchMessage};
use crate::store::Watch;
use crate::store::error::{Error, Result};
use crate::store::model::{Event, Revision};

/// Maximum number of messages that wait for the watcher. When it is reached, the stream waits.
const MOST_WAITING: usize = 64;

/// A message that has begun must be complete within this time.
const MESSAGE_WITHIN: Duration = Duration::from_secs(10);

/// Pause before the next round over all members.
const PAUSE: Duration = Duration::from_millis(100);

struct Watching {
    told: Receiver<Result<Vec<Event>>>,
    is_wanted: Arc<AtomicBool>,
    over: Option<Error>,
}

pub(super) fn start(client: &Arc<Client>, prefix: &str, from: Revision) -> impl Watch + use<> {
    let (tell, told) = sync_channel(MOST_WAITING);
    let is_wanted = Arc::new(AtomicBool::new(true));
    let (key, end) = wire::prefix(prefix);
    let reader = Reader {
        client: Arc::downgrade(client),
        key: wire::bytes(key.as_bytes()),
        end,
        next: from,
        tell,
        is_wanted: Arc::clone(&is_wanted),
    };
    // The thread ends by itself within one silence time once the watch is dropped.
    std::thread::spawn(move || reader.run());
    Watching {
        told,
        is_wanted,
        over: None,
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.is_wanted.store(false, Ordering::Relaxed);
    }
}

impl Watch for Watching {
    fn next(&mut self, patience: Duration) -> Result<Vec<Event>> {
        if let Some(over) = &self.over {
            return Err(over.clone());
        }
        match self.told.recv_timeout(patience) {
            Ok(Err(over @ Error::Compacted { .. })) => {
                self.over = Some(over.clone());
                Err(over)
            }
            Ok(told) => told,
            Err(RecvTimeoutError::Timeout) => Ok(Vec::new()),
            Err(RecvTimeoutError::Disconnected) => {
                Err(Error::Unreachable("the watch has ended".to_owned()))
            }
        }
    }
}

struct Reader {
    client: Weak<Client>,
    key: Value,
    end: String,
    next: Revision,
    tell: SyncSender<Result<Vec<Event>>>,
    is_wanted: Arc<AtomicBool>,
}

/// The reason why a stream was closed.
enum Left {
    /// The member sent a valid message first, so the store is reachable.
    Heard,
    /// The member sent no valid message.
    Lost(Error),
    /// The watch has ended.
    Over,
}

/// Reads a message up to its end. A message that has begun must be complete within a time limit, however steadily its bytes
/// arrive. Otherwise a member that sends one byte at a time would block the watch for ever.
fn read_line(from: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<()> {
    let mut begun = None;
    loop {
        let bytes = from.fill_buf()?;
        let begun = *begun.get_or_insert_with(Instant::now);
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(bytes.len(), |end| end + 1);
        line.extend_from_slice(&bytes[..taken]);
        from.consume(taken);
        if end.is_some() {
            return Ok(());
        }
        let is_late = begun.elapsed() > MESSAGE_WITHIN;
        if taken == 0 || is_late || line.len() as u64 > MOST_ANSWER_BYTES {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

impl Reader {
    fn run(mut self) {
        let (mut member, mut lost_in_a_row) = (0, 0);
        while self.is_wanted.load(Ordering::Relaxed) {
            // The thread must not keep the client alive after its last user.
            let Some(client) = self.client.upgrade() else {
                return;
            };
            match self.read(&client, member) {
                Left::Heard => lost_in_a_row = 0,
                Left::Over => return,
                Left::Lost(error) => {
                    lost_in_a_row += 1;
                    // Report once per outage, not once per round.
                    if lost_in_a_row == client.members() && self.tell.send(Err(error)).is_err() {
                        return;
                    }
                    if lost_in_a_row % client.members() == 0 {
                        std::thread::sleep(PAUSE);
                    }
                }
            }
            member = (member + 1) % client.members();
        }
    }

    fn read(&mut self, client: &Client, member: usize) -> Left {
        let question = json!({"create_request": {
            "key": self.key, "range_end": self.end, "start_revision": self.next.to_string(),
        }});
        // From the first revision that is missing: no event is lost or repeated when the member changes.
        let answer = match client.stream(member, "watch", &question) {
            Ok(answer) => answer,
            Err(error) => return Left::Lost(error),
        };
        let mut reader = BufReader::new(answer.into_body().into_reader());
        let mut left = Left::Lost(Error::Unreachable(format!(
            "a watch was not answered within {SILENCE:?}"
        )));
        let mut line = Vec::new();
        while self.is_wanted.load(Ordering::Relaxed) {
            line.clear();
            // An incomplete message is requested again by opening the stream from the same revision.
            if read_line(&mut reader, &mut line).is_err() {
                return left;
            }
            let told = serde_json::from_slice(&line)
                .map_err(|_| Error::Answer("a watch that is no JSON".to_owned()))
                .and_then(|message| wire::told(&message));
            let sent = match told {
                Ok(WatchMessage::Events(events)) => {
                    // Even a message without events shows that the member is alive.
                    left = Left::Heard;
                    let Some(last) = events.iter().map(|event| event.revision).max() else {
                        continue;
                    };
                    // A message contains whole revisions, so the next stream starts after the last one.
                    self.next = last + 1;
                    self.tell.send(Ok(events))
                }
                Ok(WatchMessage::Compacted(oldest)) => {
                    let _ = self.tell.send(Err(Error::Compacted { oldest }));
                    return Left::Over;
                }
                Ok(WatchMessage::Ended) => return left,
                Err(error) => return Left::Lost(error),
            };
            if sent.is_err() {
                return Left::Over;
            }
        }
        Left::Over
    }
}
