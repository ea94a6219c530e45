//! A watch: a thread that reads one member's stream, and goes to the next member where it stays silent.
//!
//! Members do not say that they lost the others, they just tell nothing. So a stream that is silent for two seconds is
//! opened anew at the next member, from the revision after the last one heard: nothing is missed or told twice.

use std::io::{self, BufRead, BufReader};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::client::{Client, MOST_ANSWER_BYTES, SILENCE};
use super::wire::{self, Told};
use crate::Watch;
use crate::error::{Error, Result};
use crate::model::{Event, Revision};

/// Messages that wait for whoever watches; then the stream does.
const MOST_WAITING: usize = 64;

/// A message of a watch that has begun is there within this time.
const MESSAGE_WITHIN: Duration = Duration::from_secs(10);

/// Before a round of all members begins again.
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
    // Ends by itself within the time of one silence once nobody wants it.
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

/// Why a stream is left.
enum Left {
    /// It said something first: the store can be reached.
    Heard,
    /// It said nothing of use.
    Lost(Error),
    /// The watch is over.
    Over,
}

/// Reads a message with its end. One that has begun comes within a time, however steadily its bytes come: a member that sends one at a time
/// would else hold the watch for good.
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
            let Some(client) = self.client.upgrade() else {
                return;
            };
            match self.read(&client, member) {
                Left::Heard => lost_in_a_row = 0,
                Left::Over => return,
                Left::Lost(error) => {
                    lost_in_a_row += 1;
                    // Told once an outage, and not again by each round.
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
            // What is torn is asked for again.
            if read_line(&mut reader, &mut line).is_err() {
                return left;
            }
            let told = serde_json::from_slice(&line)
                .map_err(|_| Error::Answer("a watch that is no JSON".to_owned()))
                .and_then(|message| wire::told(&message));
            let sent = match told {
                Ok(Told::Events(events)) => {
                    left = Left::Heard;
                    let Some(last) = events.iter().map(|event| event.revision).max() else {
                        continue;
                    };
                    self.next = last + 1;
                    self.tell.send(Ok(events))
                }
                Ok(Told::Compacted(oldest)) => {
                    let _ = self.tell.send(Err(Error::Compacted { oldest }));
                    return Left::Over;
                }
                Ok(Told::Ended) => return left,
                Err(error) => return Left::Lost(error),
            };
            if sent.is_err() {
                return Left::Over;
            }
        }
        Left::Over
    }
}
