//! One thread, one epoll set: sockets on one side, a state machine on the other.

use super::RunError;
use super::sources::Sources;
use super::sys::{Epoll, Outgoing, RxBuffers, Socket, SocketOptions, TxBuffer, eventfd};
use crate::Nanos;
use crate::core::{Consumer, HopLimit, Midnode, Path, Producer};
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::Write;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

/// A state machine that can be driven.
pub trait Machine {
    /// Handles one datagram received at `now`, which may be a little before the last `now` of
    /// [`Self::tx`]. A transparent socket gives its TTL or hop limit.
    fn rx(&mut self, now: Nanos, path: Path, hop_limit: HopLimit, bytes: &[u8]);
    /// Appends the next datagram due, and returns its path and the TTL or hop limit with which it
    /// leaves (transparent sockets only; `None`: the system's).
    fn tx(&mut self, now: Nanos, out: &mut Vec<u8>) -> Option<(Path, HopLimit)>;
    /// Returns the time to come back.
    fn timeout(&self) -> Option<Nanos>;
}

macro_rules! endpoint {
    ($($t:ty),*) => {$(
        impl Machine for $t {
            fn rx(&mut self, now: Nanos, path: Path, _: HopLimit, bytes: &[u8]) {
                self.handle_datagram(now, path, bytes);
            }
            fn tx(&mut self, now: Nanos, out: &mut Vec<u8>) -> Option<(Path, HopLimit)> {
                self.poll_transmit(now, out).map(|path| (path, None))
            }
            fn timeout(&self) -> Option<Nanos> {
                self.poll_timeout()
            }
        }
    )*};
}
endpoint!(Consumer, Producer);

impl Machine for Midnode {
    fn rx(&mut self, now: Nanos, path: Path, hop_limit: HopLimit, bytes: &[u8]) {
        self.handle_forwarded(now, path, hop_limit, bytes);
    }
    fn tx(&mut self, now: Nanos, out: &mut Vec<u8>) -> Option<(Path, HopLimit)> {
        self.poll_forward(now, out)
    }
    fn timeout(&self) -> Option<Nanos> {
        self.poll_timeout()
    }
}

/// Datagram counters of a driver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct IoStats {
    /// Datagrams received.
    pub received: u64,
    /// Datagrams handed to the kernel.
    pub sent: u64,
    /// Datagrams that the kernel refused.
    pub refused: u64,
}

/// Wakes a driver that waits, from another thread.
#[derive(Debug, Clone)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    /// Ends the wait of [`Driver::turn`], or the next one.
    pub fn wake(&self) {
        if let Ok(fd) = self.0.try_clone() {
            // A full counter already wakes.
            let _ = std::fs::File::from(fd).write(&1u64.to_ne_bytes());
        }
    }
}

const WAKE: u64 = u64::MAX;
/// Datagrams collected before they are handed to the kernel.
const FLUSH: usize = 256;

/// A socket with another host's address only sends; datagrams that the kernel might still deliver
/// to it are ignored, with as little memory as possible.
const SEND_ONLY: SocketOptions = SocketOptions {
    transparent: true,
    recv_buffer: 2048,
    send_buffer: 4 << 20,
};

/// Sockets, buffers and clock of one thread.
pub struct Driver {
    epoll: Epoll,
    sockets: Vec<Socket>,
    /// Sockets bound to addresses of others, for sending; with transparent sockets only.
    sources: Option<Sources<Socket>>,
    rx: RxBuffers,
    tx: TxBuffer,
    ready: Vec<u64>,
    waker: Waker,
    clock: Clock,
    stats: IoStats,
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver")
            .field("sockets", &self.sockets)
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}

/// A node's clock: monotonic, from an epoch that no other node has. By the leap between two
/// clocks a Requester knows another neighbour after a handover (`new_neighbour_new_hop`),
/// which nodes that were started at one moment must not hide.
#[derive(Debug, Clone, Copy)]
struct Clock {
    start: Instant,
    epoch_ns: Nanos,
}

impl Clock {
    fn new() -> Self {
        // The seed of std's hash maps, its one source of chance.
        let chance = RandomState::new().build_hasher().finish();
        Self {
            start: Instant::now(),
            epoch_ns: 1_000_000_000 + chance % crate::wire::CLOCK_PERIOD_NS,
        }
    }

    fn now(&self) -> Nanos {
        self.epoch_ns + self.start.elapsed().as_nanos() as Nanos
    }
}

impl Driver {
    /// Creates a driver for these sockets. `transparent`: datagrams leave with the source address
    /// that the machine names, even if it is another host's.
    ///
    /// # Errors
    /// When the process has no more file descriptors.
    pub fn new(sockets: Vec<Socket>, transparent: bool) -> Result<Self, RunError> {
        let epoll = Epoll::new().map_err(RunError::io("epoll"))?;
        for (i, s) in sockets.iter().enumerate() {
            epoll
                .add(s.raw(), i as u64)
                .map_err(RunError::io("epoll"))?;
        }
        let wake = eventfd().map_err(RunError::io("eventfd"))?;
        epoll
            .add(wake.as_raw_fd(), WAKE)
            .map_err(RunError::io("epoll"))?;
        Ok(Self {
            epoll,
            sockets,
            sources: transparent.then(Sources::new),
            rx: RxBuffers::new(),
            tx: TxBuffer::default(),
            ready: Vec::new(),
            waker: Waker(Arc::new(wake)),
            clock: Clock::new(),
            stats: IoStats::default(),
        })
    }

    /// This node's clock, ns: monotonic, from an epoch of its own.
    pub fn now(&self) -> Nanos {
        self.clock.now()
    }

    /// Datagrams received and sent so far.
    pub const fn stats(&self) -> IoStats {
        self.stats
    }

    /// A handle that wakes [`Self::turn`].
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// The sockets.
    pub fn sockets(&self) -> &[Socket] {
        &self.sockets
    }

    /// Runs one turn: waits for a datagram, the machine's deadline or at most `max_wait_ns`;
    /// receives; sends the datagrams that are due.
    ///
    /// # Errors
    /// The kernel's, of waiting or receiving. A datagram that it would not take is
    /// counted instead.
    pub fn turn(&mut self, m: &mut dyn Machine, max_wait_ns: u64) -> Result<(), RunError> {
        let now = self.now();
        let wait = m
            .timeout()
            .map_or(max_wait_ns, |t| t.saturating_sub(now).min(max_wait_ns));
        self.ready.clear();
        self.epoll
            .wait(wait, &mut self.ready)
            .map_err(RunError::io("wait for datagrams"))?;
        for i in 0..self.ready.len() {
            let token = self.ready[i];
            if token == WAKE {
                self.drain_waker();
                continue;
            }
            let Some(s) = self.sockets.get(token as usize) else {
                continue;
            };
            // A few batches per socket and turn, so that sending is not starved.
            for _ in 0..4 {
                let clock = self.clock;
                let mut count = 0;
                let n = s.recv(
                    &mut self.rx,
                    || clock.now(),
                    |path, at, hop_limit, bytes| {
                        count += 1;
                        m.rx(at, path, hop_limit, bytes);
                    },
                );
                self.stats.received += count;
                if n.map_err(RunError::io("receive"))? < 8 {
                    break;
                }
            }
        }
        self.send_due(m)
    }

    fn drain_waker(&self) {
        use std::io::Read;
        if let Ok(fd) = self.waker.0.try_clone() {
            let _ = std::fs::File::from(fd).read(&mut [0; 8]);
        }
    }

    /// Sends the datagrams that are due now.
    ///
    /// # Errors
    /// No error occurs at present: packets that the kernel refuses are counted.
    pub fn send_due(&mut self, m: &mut dyn Machine) -> Result<(), RunError> {
        loop {
            let now = self.now();
            self.tx.bytes.clear();
            self.tx.items.clear();
            while self.tx.items.len() < FLUSH {
                let a = self.tx.bytes.len();
                let Some((path, hop_limit)) = m.tx(now, &mut self.tx.bytes) else {
                    break;
                };
                let bytes = a..self.tx.bytes.len();
                self.tx.items.push(Outgoing {
                    path,
                    hop_limit,
                    bytes,
                });
            }
            if self.tx.items.is_empty() {
                return Ok(());
            }
            self.flush();
        }
    }

    fn flush(&mut self) {
        let all = self.tx.items.len();
        self.stats.sent += all as u64;
        if let Some(sources) = &mut self.sources {
            let mut by_source: HashMap<SocketAddr, Vec<usize>> = HashMap::new();
            for (i, item) in self.tx.items.iter().enumerate() {
                by_source.entry(item.path.src).or_default().push(i);
            }
            for (src, which) in by_source {
                let socket = sources.get(src, || Socket::bind(src, SEND_ONLY).ok());
                let refused = socket.map_or(which.len() as u64, |s| s.send(&self.tx, &which));
                self.stats.refused += refused;
            }
            return;
        }
        for v6 in [false, true] {
            let which: Vec<usize> = (0..all)
                .filter(|i| self.tx.items[*i].path.dst.is_ipv6() == v6)
                .collect();
            if which.is_empty() {
                continue;
            }
            match self.sockets.iter().find(|s| s.local().is_ipv6() == v6) {
                Some(s) => self.stats.refused += s.send(&self.tx, &which),
                None => self.stats.refused += which.len() as u64,
            }
        }
    }
}
