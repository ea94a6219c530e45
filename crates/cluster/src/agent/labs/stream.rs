//! A stream of bytes through the store, such as the output of a running command. It consists of pieces, which the reader
//! deletes. The writer waits while too many pieces are unread.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::store::{Error, Follow, LeaseId, Result, Store, Txn};

/// Maximum number of unread pieces.
const MOST_UNREAD: u64 = 8;
/// Interval at which the end flag is checked.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Interval between two attempts when the store does not answer.
const TRY_EVERY: Duration = Duration::from_millis(200);

/// The rate of writes to the store.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// Maximum size of a piece, bytes.
    piece_bytes: usize,
    /// Data that arrives within this time is combined, so that the store is not written for each line.
    together: Duration,
}

impl Pace {
    /// For the output of a command.
    pub(super) const WORDS: Self = Self {
        piece_bytes: 64 << 10,
        together: Duration::from_millis(100),
    };
    /// For the keys and the output of a terminal. The store keeps its history for a while: at most 400 kB/s.
    pub(super) const TERMINAL: Self = Self {
        piece_bytes: 8 << 10,
        together: Duration::from_millis(20),
    };
}

fn key(prefix: &str, piece: u64) -> String {
    format!("{prefix}{piece:012}")
}

/// Stores what is read below a prefix, with one piece or more per read, until the input ends or `wanted` is cleared.
///
/// # Errors
/// If the store refuses because the requester is gone.
pub(super) fn send(
    store: &dyn Store,
    (prefix, lease): (&str, LeaseId),
    pace: Pace,
    mut from: impl Read,
    wanted: &AtomicBool,
) -> Result<()> {
    let mut bytes = vec![0; pace.piece_bytes];
    for piece in 0_u64.. {
        let Ok(count @ 1..) = from.read(&mut bytes) else {
            break;
        };
        // The reader deletes pieces in sequence, so the oldest one shows how many are unread.
        let oldest = piece.checked_sub(MOST_UNREAD);
        let full = || match oldest {
            Some(oldest) => Ok(store.get(&key(prefix, oldest))?.is_some()),
            None => Ok(false),
        };
        while patiently(wanted, full)? {
            if !wanted.load(Ordering::Acquire) {
                return Ok(());
            }
            thread::sleep(LOOK_EVERY);
        }
        let txn = Txn::new().put_leased(key(prefix, piece), &bytes[..count], lease);
        patiently(wanted, || store.commit(&txn))?;
        thread::sleep(pace.together);
    }
    Ok(())
}

/// Repeats a request while the store is unreachable or full, until `wanted` is cleared. Repeating a write is harmless.
fn patiently<T>(wanted: &AtomicBool, mut ask: impl FnMut() -> Result<T>) -> Result<T> {
    loop {
        match ask() {
            Err(Error::Unreachable(_) | Error::Uncertain(_) | Error::Full(_))
                if wanted.load(Ordering::Acquire) =>
            {
                thread::sleep(TRY_EVERY);
            }
            done => return done,
        }
    }
}

/// The reader's side of a stream.
pub(super) struct Receive {
    store: Arc<dyn Store>,
    prefix: String,
    pieces: Follow,
    /// The last piece that was read.
    last: Option<String>,
}

impl Receive {
    pub(super) fn new(store: &Arc<dyn Store>, prefix: String) -> Result<Self> {
        Ok(Self {
            store: Arc::clone(store),
            pieces: Follow::new(Arc::clone(store), &prefix)?,
            prefix,
            last: None,
        })
    }

    /// Reads the pieces that arrive within `patience`, and deletes them.
    pub(super) fn next(&mut self, patience: Duration, hear: &mut dyn FnMut(&[u8])) {
        let _ = self.pieces.next(patience);
        let known = self.pieces.known().iter();
        let known: Vec<_> = known
            .map(|(key, entry)| (key.clone(), entry.value.clone()))
            .collect();
        self.read(known, hear);
    }

    /// Reads all remaining pieces after the writer has ended.
    ///
    /// # Errors
    /// If the store cannot be reached.
    pub(super) fn rest(&mut self, hear: &mut dyn FnMut(&[u8])) -> Result<()> {
        let left = self.store.list(&self.prefix)?.entries;
        let left = left.into_iter().map(|(key, entry)| (key, entry.value));
        self.read(left.collect(), hear);
        Ok(())
    }

    fn read(&mut self, pieces: Vec<(String, Vec<u8>)>, hear: &mut dyn FnMut(&[u8])) {
        for (key, value) in pieces {
            if self.last.as_ref().is_none_or(|last| *last < key) {
                hear(&value);
                self.last = Some(key.clone());
            }
            // A piece that cannot be deleted now is deleted next time, because the writer waits for that.
            let _ = self.store.delete(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Embedded;

    /// The data arrives in sequence and once, through a store that holds only a little of it.
    #[test]
    fn all_that_is_said_is_heard_and_nothing_is_left() {
        let store: Arc<dyn Store> = Arc::new(Embedded::new());
        let lease = store.grant(Duration::from_secs(600)).unwrap().id;
        let size = 3 * MOST_UNREAD as usize * Pace::WORDS.piece_bytes + 1;
        let said: Vec<u8> = (0..size).map(|n| (n / 5) as u8).collect();
        let mut receive = Receive::new(&store, "7/".to_owned()).unwrap();
        let (wanted, over) = (AtomicBool::new(true), AtomicBool::new(false));
        let mut heard = Vec::new();
        thread::scope(|scope| {
            scope.spawn(|| {
                send(
                    store.as_ref(),
                    ("7/", lease),
                    Pace::WORDS,
                    &said[..],
                    &wanted,
                )
                .unwrap();
                over.store(true, Ordering::Release);
            });
            while !over.load(Ordering::Acquire) {
                receive.next(LOOK_EVERY, &mut |piece| heard.extend_from_slice(piece));
                let there = store.list("7/").unwrap().entries.len();
                assert!(there <= MOST_UNREAD as usize, "{there} pieces");
            }
            let mut hear = |piece: &[u8]| heard.extend_from_slice(piece);
            receive.rest(&mut hear).unwrap();
        });
        assert!(heard == said, "{} of {size} bytes", heard.len());
        assert_eq!(store.list("").unwrap().entries, []);
    }

    /// If the data is not read, the writer waits, and ends when `wanted` is cleared.
    #[test]
    fn what_nobody_reads_is_bounded_and_ends() {
        let store: Arc<dyn Store> = Arc::new(Embedded::new());
        let lease = store.grant(Duration::from_secs(600)).unwrap().id;
        let wanted = AtomicBool::new(true);
        thread::scope(|scope| {
            let from = std::io::repeat(1);
            let sending =
                scope.spawn(|| send(store.as_ref(), ("7/", lease), Pace::WORDS, from, &wanted));
            let there = || store.list("7/").unwrap().entries.len();
            while there() < MOST_UNREAD as usize {
                thread::sleep(LOOK_EVERY);
            }
            thread::sleep(Pace::WORDS.together * 5);
            assert_eq!(there(), MOST_UNREAD as usize);
            assert!(!sending.is_finished());
            wanted.store(false, Ordering::Release);
            sending.join().unwrap().unwrap();
        });
    }
}
