//! Bytes through the store while they come, as what a command says while it runs: in pieces that whoever reads them takes away.
//! Whoever writes waits while too many are unread.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use constel_store::{Error, Follow, LeaseId, Result, Store, Txn};

/// Pieces that nobody has read yet, at most.
const MOST_UNREAD: u64 = 8;
/// How soon an end is noticed.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A store that does not answer is asked again after this.
const TRY_EVERY: Duration = Duration::from_millis(200);

/// How fast the store is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// Bytes of a piece at most.
    piece_bytes: usize,
    /// What comes within this time goes together: the store is not written for each line.
    together: Duration,
}

impl Pace {
    /// What a command writes.
    pub(super) const WORDS: Self = Self {
        piece_bytes: 64 << 10,
        together: Duration::from_millis(100),
    };
    /// What somebody types and sees. The store keeps for a while all that was ever written: 400 kB/s at most.
    pub(super) const TERMINAL: Self = Self {
        piece_bytes: 8 << 10,
        together: Duration::from_millis(20),
    };
}

fn key(prefix: &str, piece: u64) -> String {
    format!("{prefix}{piece:012}")
}

/// Puts what is read below a prefix, each reading a piece or more, until it ends or nobody wants it any more.
///
/// # Errors
/// When the store refuses: the asker is gone.
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
        // They are taken away in order.
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

/// Asks a store that is away or full again, as long as somebody waits. What is put twice is the same.
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

/// The reader's side.
pub(super) struct Receive {
    store: Arc<dyn Store>,
    prefix: String,
    pieces: Follow,
    /// The last that was read.
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

    /// Reads what comes within `patience`, and takes it away.
    pub(super) fn next(&mut self, patience: Duration, hear: &mut dyn FnMut(&[u8])) {
        let _ = self.pieces.next(patience);
        let known = self.pieces.known().iter();
        let known: Vec<_> = known
            .map(|(key, entry)| (key.clone(), entry.value.clone()))
            .collect();
        self.read(known, hear);
    }

    /// Reads all that is there: nothing more will come.
    ///
    /// # Errors
    /// When the store cannot be asked.
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
            // What cannot be taken away now is the next time: whoever writes waits for it.
            let _ = self.store.delete(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use constel_store::Embedded;

    /// What is sent comes, in order and once, through a store that holds little of it at a time.
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

    /// Nobody reads: whoever writes waits, and ends when it is told to.
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
