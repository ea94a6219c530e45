//! Serving flows: from files, from memory, from a live writer.

use super::sys::{Socket, SocketOptions};
use super::{Driver, IoStats, RunError, Waker};
use crate::core::{Available, Meta, Params, Producer, ProducerStats, Sealing, Source};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path as FilePath;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A regular file as a flow. Its bytes must not change while it is served; a
/// Consumer would find the digest wrong.
#[derive(Debug)]
pub struct FileSource {
    file: File,
    length: u64,
    meta: Vec<u8>,
}

impl FileSource {
    /// Opens and hashes the file.
    ///
    /// # Errors
    /// The file's; [`io::ErrorKind::InvalidInput`] for anything but a regular file, whose end
    /// would be unknown.
    pub fn open(path: &FilePath) -> io::Result<Self> {
        Self::open_unless(path, &|| false)
    }

    /// As [`Self::open`], until `stop` returns true: large files take minutes.
    ///
    /// # Errors
    /// As [`Self::open`]; [`io::ErrorKind::Interrupted`] when it was stopped.
    pub fn open_unless(path: &FilePath, stop: &dyn Fn() -> bool) -> io::Result<Self> {
        let file = open_regular(path)?;
        // Up to the present length, so that a growing file has an end, too.
        let mut left = (&file).take(file.metadata()?.len());
        let mut hasher = blake3::Hasher::new();
        let mut buf = vec![0; 1 << 16];
        let mut length = 0;
        loop {
            if stop() {
                return Err(io::Error::new(io::ErrorKind::Interrupted, "stopped"));
            }
            let n = left.read(&mut buf)?;
            if n == 0 {
                break;
            }
            hasher.update(&buf[..n]);
            length += n as u64;
        }
        let meta = Meta {
            length,
            digest: *hasher.finalize().as_bytes(),
            sealing: Sealing::Open,
        }
        .encode()
        .to_vec();
        Ok(Self { file, length, meta })
    }

    /// Bytes of the flow.
    pub const fn length(&self) -> u64 {
        self.length
    }
}

impl Source for FileSource {
    fn available(&self) -> Available {
        Available {
            end: self.length,
            finished: true,
        }
    }
    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> bool {
        self.file.read_exact_at(buf, offset).is_ok()
    }
    fn meta(&self) -> Option<Vec<u8>> {
        Some(self.meta.clone())
    }
}

/// Opens a regular file for reading; a pipe is not waited for.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] for anything else; the kernel's.
pub fn open_regular(path: &FilePath) -> io::Result<File> {
    let mut options = File::options();
    let file = options
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => {
            let why = "it is not a regular file";
            Err(io::Error::new(io::ErrorKind::InvalidInput, why))
        }
    }
}

/// Bytes in memory as a flow.
#[derive(Debug)]
pub struct MemorySource {
    bytes: Vec<u8>,
    meta: Vec<u8>,
}

impl MemorySource {
    /// A flow of these bytes, as they are.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self::with_sealing(bytes, Sealing::Open)
    }

    /// A flow of bytes that [`crate::seal`] has sealed.
    pub fn with_sealing(bytes: Vec<u8>, sealing: Sealing) -> Self {
        let meta = Meta {
            length: bytes.len() as u64,
            digest: *blake3::hash(&bytes).as_bytes(),
            sealing,
        };
        Self {
            meta: meta.encode().to_vec(),
            bytes,
        }
    }
}

impl Source for MemorySource {
    fn available(&self) -> Available {
        Available {
            end: self.bytes.len() as u64,
            finished: true,
        }
    }
    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> bool {
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        match self.bytes.get(from..).and_then(|b| b.get(..buf.len())) {
            Some(b) => {
                buf.copy_from_slice(b);
                true
            }
            None => false,
        }
    }
    fn meta(&self) -> Option<Vec<u8>> {
        Some(self.meta.clone())
    }
}

#[derive(Debug)]
struct Live {
    bytes: VecDeque<u8>,
    /// Flow offset of `bytes[0]`.
    base: u64,
    /// One past the highest byte read so far.
    read: u64,
    keep: u64,
    hasher: blake3::Hasher,
    meta: Option<Vec<u8>>,
    closed: bool,
    /// The flow is no longer served.
    withdrawn: bool,
}

#[derive(Debug)]
struct LiveShared {
    live: Mutex<Live>,
    moved: Condvar,
}

fn lock(s: &LiveShared) -> MutexGuard<'_, Live> {
    s.live.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The writing end of a flow that is made while it is served. Writing blocks
/// while `keep_bytes` wait for their first Consumer; as many stay behind the
/// first Consumer's position for repairs and for later Consumers. When the flow is
/// withdrawn, writing is a [`io::ErrorKind::BrokenPipe`].
///
/// Only [`Self::finish`] ends the flow. Dropped without it, the flow stays without an
/// end: what a writer that failed has left must not pass for all of it.
#[derive(Debug)]
pub struct LiveFlow {
    shared: Arc<LiveShared>,
    waker: Waker,
    flow: u64,
    changed: Arc<Mutex<Vec<u64>>>,
}

struct LiveSource(Arc<LiveShared>);

impl Source for LiveSource {
    fn available(&self) -> Available {
        let l = lock(&self.0);
        Available {
            end: l.base + l.bytes.len() as u64,
            finished: l.closed,
        }
    }
    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> bool {
        let mut l = lock(&self.0);
        let end = offset + buf.len() as u64;
        if offset < l.base || end > l.base + l.bytes.len() as u64 {
            return false;
        }
        let from = (offset - l.base) as usize;
        for (b, x) in buf.iter_mut().zip(l.bytes.range(from..)) {
            *b = *x;
        }
        l.read = l.read.max(end);
        let give_up = l.read.saturating_sub(l.keep).saturating_sub(l.base) as usize;
        // In large steps, so that the cost per packet is negligible.
        if give_up > (l.keep / 8) as usize {
            l.bytes.drain(..give_up);
            l.base += give_up as u64;
        }
        drop(l);
        self.0.moved.notify_all();
        true
    }
    fn meta(&self) -> Option<Vec<u8>> {
        lock(&self.0).meta.clone()
    }
}

impl Drop for LiveSource {
    fn drop(&mut self) {
        lock(&self.0).withdrawn = true;
        self.0.moved.notify_all();
    }
}

impl Write for LiveFlow {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let mut l = lock(&self.shared);
        while l.base + l.bytes.len() as u64 - l.read >= l.keep && !l.withdrawn {
            l = self
                .shared
                .moved
                .wait(l)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if l.withdrawn {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let room = l.keep - (l.base + l.bytes.len() as u64 - l.read);
        let n = buf.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        l.bytes.extend(&buf[..n]);
        l.hasher.update(&buf[..n]);
        drop(l);
        self.tell();
        Ok(n)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl LiveFlow {
    fn tell(&self) {
        self.changed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(self.flow);
        self.waker.wake();
    }

    /// Ends the flow: the bytes written so far are all of it.
    pub fn finish(self) {
        let mut l = lock(&self.shared);
        l.closed = true;
        let length = l.base + l.bytes.len() as u64;
        let digest = *l.hasher.finalize().as_bytes();
        l.meta = Some(
            Meta {
                length,
                digest,
                sealing: Sealing::Open,
            }
            .encode()
            .to_vec(),
        );
        drop(l);
        self.tell();
    }
}

/// A Producer with its sockets.
#[derive(Debug)]
pub struct Publisher {
    driver: Driver,
    producer: Producer,
    changed: Arc<Mutex<Vec<u64>>>,
}

impl Publisher {
    /// Binds every address.
    ///
    /// # Errors
    /// An address that is taken or not here, or parameters that cannot work.
    pub fn bind(locals: &[SocketAddr], params: Params) -> Result<Self, RunError> {
        let o = SocketOptions {
            recv_buffer: 4 << 20,
            send_buffer: 4 << 20,
            ..SocketOptions::default()
        };
        let bind = |a: &SocketAddr| Socket::bind(*a, o).map_err(RunError::io(format!("bind {a}")));
        let sockets = locals.iter().map(bind).collect::<Result<Vec<_>, _>>()?;
        let driver = Driver::new(sockets, false)?;
        Ok(Self {
            driver,
            producer: Producer::new(params)?,
            changed: Arc::default(),
        })
    }

    /// Addresses bound.
    pub fn locals(&self) -> Vec<SocketAddr> {
        self.driver.sockets().iter().map(Socket::local).collect()
    }

    /// Serves `source` as `flow`.
    pub fn publish(&mut self, flow: u64, source: Box<dyn Source>) {
        self.producer.publish(flow, source);
    }

    /// Serves a flow that is written while it is served.
    pub fn publish_live(&mut self, flow: u64, keep_bytes: u64) -> LiveFlow {
        let live = Live {
            bytes: VecDeque::new(),
            base: 0,
            read: 0,
            keep: keep_bytes.max(1),
            hasher: blake3::Hasher::new(),
            meta: None,
            closed: false,
            withdrawn: false,
        };
        let shared = Arc::new(LiveShared {
            live: Mutex::new(live),
            moved: Condvar::new(),
        });
        self.producer
            .publish(flow, Box::new(LiveSource(Arc::clone(&shared))));
        LiveFlow {
            shared,
            waker: self.driver.waker(),
            flow,
            changed: Arc::clone(&self.changed),
        }
    }

    /// Serves `flow` no longer. Writing to it from now on is a broken pipe.
    pub fn withdraw(&mut self, flow: u64) {
        self.producer.withdraw(flow);
    }

    /// A handle that ends the wait of [`Self::poll`].
    pub fn waker(&self) -> Waker {
        self.driver.waker()
    }

    /// Serves for at most `wait`.
    ///
    /// # Errors
    /// The kernel's, of waiting or receiving.
    pub fn poll(&mut self, wait: Duration) -> Result<(), RunError> {
        self.driver.turn(
            &mut self.producer,
            u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX),
        )?;
        let changed =
            std::mem::take(&mut *self.changed.lock().unwrap_or_else(PoisonError::into_inner));
        if !changed.is_empty() {
            let now = self.driver.now();
            for flow in changed {
                self.producer.on_available(now, flow);
            }
            self.driver.send_due(&mut self.producer)?;
        }
        Ok(())
    }

    /// Protocol counters.
    pub const fn stats(&self) -> ProducerStats {
        self.producer.stats()
    }

    /// Datagram counters.
    pub const fn io_stats(&self) -> IoStats {
        self.driver.stats()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rt::{Fetch, FetchOptions};
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Fetches a live flow of `bytes` as the gateway does; returns the bytes that arrived until
    /// `limit`, and whether the fetch was done.
    fn through(bytes: Vec<u8>, finish: bool, limit: Duration) -> (Vec<u8>, bool) {
        let local = "[::1]:0".parse().unwrap();
        let mut publisher = Publisher::bind(&[local], Params::default()).unwrap();
        let remote = publisher.locals()[0];
        let mut flow = publisher.publish_live(7, 1 << 20);
        let writer = std::thread::spawn(move || {
            flow.write_all(&bytes).unwrap();
            if finish {
                flow.finish();
            }
        });
        let over = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&over);
        let server = std::thread::spawn(move || {
            while !until.load(Ordering::Acquire) {
                publisher.poll(Duration::from_millis(50)).unwrap();
            }
        });
        let mut fetch = Fetch::open(FetchOptions::new(remote, 7)).unwrap();
        let (mut got, begun) = (Vec::new(), std::time::Instant::now());
        while !fetch.is_done() && begun.elapsed() < limit {
            if let Some(b) = fetch.poll(Duration::from_millis(20)).unwrap() {
                got.extend(b);
            }
        }
        over.store(true, Ordering::Release);
        writer.join().unwrap();
        server.join().unwrap();
        (got, fetch.is_done())
    }

    #[test]
    fn done_is_only_what_has_been_handed_out_to_the_last_byte() {
        // The end comes in one batch with much before it: what has arrived is not yet read.
        let bytes: Vec<u8> = (0..700_000u32).map(|i| (i % 251) as u8).collect();
        for _ in 0..5 {
            let (got, done) = through(bytes.clone(), true, Duration::from_secs(240));
            assert!(done);
            assert_eq!(got.len(), bytes.len());
            assert!(got == bytes);
        }
    }

    #[test]
    fn a_writer_that_goes_without_a_word_is_not_an_end() {
        let (got, done) = through(vec![5; 10_000], false, Duration::from_millis(600));
        assert_eq!(got, vec![5; 10_000], "what there was has come");
        assert!(!done);
    }
}
