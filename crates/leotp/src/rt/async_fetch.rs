//! A flow as an asynchronous reader, for any executor (feature `futures-io`).

use super::{Fetch, FetchOptions, RunError};
use futures_io::AsyncRead;
use std::collections::VecDeque;
use std::io::{self, Read};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// How often the thread checks whether its reader was dropped.
const LOOK: Duration = Duration::from_millis(100);
/// Bytes that wait for a reader that does not read; then the transfer waits too.
const WAITING_BYTES: usize = 1 << 20;

#[derive(Default)]
struct State {
    bytes: VecDeque<u8>,
    reader: Option<Waker>,
    /// The end, good or bad.
    ended: Option<Result<(), RunError>>,
    /// The reader has been dropped.
    gone: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    taken: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A flow being fetched by a thread of its own. Dropping it ends the fetch.
///
/// Reading gives `Ok(0)` when every byte has come and been checked, and the error
/// once when the flow fails.
///
/// ```
/// # use leotp::core::Params;
/// # use leotp::rt::{AsyncFetch, FetchOptions, MemorySource, Publisher};
/// # use futures_io::AsyncRead;
/// # use std::pin::Pin;
/// # use std::task::{Context, Poll, Waker};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let mut publisher = Publisher::bind(&["127.0.0.1:0".parse()?], Params::default())?;
/// # let address = publisher.locals()[0];
/// # publisher.publish(7, Box::new(MemorySource::new(b"hello".to_vec())));
/// # std::thread::spawn(move || while publisher.poll(std::time::Duration::from_millis(50)).is_ok() {});
/// let mut fetch = AsyncFetch::open(FetchOptions::new(address, 7))?;
/// // With an executor: `fetch.read_to_end(&mut bytes).await` of `futures::AsyncReadExt`. Here by hand.
/// let (mut bytes, mut buffer) = (Vec::<u8>::new(), [0; 1024]);
/// let mut context = Context::from_waker(Waker::noop());
/// loop {
///     match Pin::new(&mut fetch).poll_read(&mut context, &mut buffer) {
///         Poll::Ready(n) => match n? {
///             0 => break,
///             n => bytes.extend(&buffer[..n]),
///         },
///         Poll::Pending => std::thread::yield_now(),
///     }
/// }
/// assert_eq!(bytes, b"hello");
/// # Ok(())
/// # }
/// ```
pub struct AsyncFetch(Arc<Shared>);

impl std::fmt::Debug for AsyncFetch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AsyncFetch").finish_non_exhaustive()
    }
}

impl AsyncFetch {
    /// Opens a socket and starts to fetch.
    ///
    /// # Errors
    /// As [`Fetch::open`]; or when no thread can be started.
    pub fn open(options: FetchOptions) -> Result<Self, RunError> {
        let fetch = Fetch::open(options)?;
        let shared = Arc::new(Shared::default());
        let for_thread = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("leotp-fetch".into())
            .spawn(move || work(fetch, &for_thread))
            .map_err(RunError::io("start a thread"))?;
        Ok(Self(shared))
    }
}

fn work(mut fetch: Fetch, shared: &Shared) {
    let ended = loop {
        let got = match fetch.poll(LOOK) {
            Ok(got) => got,
            Err(e) => break Err(e),
        };
        let mut state = shared.lock();
        while state.bytes.len() >= WAITING_BYTES && !state.gone {
            state = shared
                .taken
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if state.gone {
            return;
        }
        if let Some(bytes) = got {
            state.bytes.extend(bytes);
            if let Some(reader) = state.reader.take() {
                reader.wake();
            }
        } else if fetch.is_done() {
            break Ok(());
        }
    };
    let mut state = shared.lock();
    state.ended = Some(ended);
    if let Some(reader) = state.reader.take() {
        reader.wake();
    }
}

impl AsyncRead for AsyncFetch {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.0.lock();
        if !state.bytes.is_empty() || buf.is_empty() {
            let n = state.bytes.read(buf);
            drop(state);
            self.0.taken.notify_one();
            return Poll::Ready(n);
        }
        match state.ended.take() {
            Some(Ok(())) => {
                state.ended = Some(Ok(()));
                Poll::Ready(Ok(0))
            }
            Some(Err(e)) => {
                state.ended = Some(Ok(()));
                Poll::Ready(Err(match e {
                    RunError::Io { source, .. } => source,
                    e => io::Error::other(e),
                }))
            }
            None => {
                state.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for AsyncFetch {
    fn drop(&mut self) {
        self.0.lock().gone = true;
        self.0.taken.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Params;
    use crate::rt::Publisher;
    use std::io::Write;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::Wake;

    /// Wakes the thread that polls.
    struct Unpark(std::thread::Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    #[test]
    fn what_is_written_is_read_without_an_executor() {
        let local = "127.0.0.1:0".parse().unwrap();
        let mut publisher = Publisher::bind(&[local], Params::default()).unwrap();
        let remote = publisher.locals()[0];
        let mut flow = publisher.publish_live(7, 1 << 20);
        let sent: Vec<u8> = (0..3_000_000u32).map(|i| (i % 253) as u8).collect();
        let over = Arc::new(AtomicBool::new(false));
        let (until, bytes) = (Arc::clone(&over), sent.clone());
        let writer = std::thread::spawn(move || {
            flow.write_all(&bytes).unwrap();
            flow.finish();
        });
        let server = std::thread::spawn(move || {
            while !until.load(Ordering::Acquire) {
                publisher.poll(Duration::from_millis(50)).unwrap();
            }
        });
        let mut fetch = AsyncFetch::open(FetchOptions::new(remote, 7)).unwrap();
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut cx = Context::from_waker(&waker);
        let (mut got, mut buf) = (Vec::<u8>::new(), vec![0; 10_000]);
        loop {
            match Pin::new(&mut fetch).poll_read(&mut cx, &mut buf) {
                Poll::Ready(Ok(0)) => break,
                Poll::Ready(n) => got.extend(&buf[..n.unwrap()]),
                Poll::Pending => std::thread::park(),
            }
        }
        assert!(got == sent);
        over.store(true, Ordering::Release);
        writer.join().unwrap();
        server.join().unwrap();
    }
}
