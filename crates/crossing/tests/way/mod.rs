//! A way between two machines that delays, loses and doubles what it carries, as it is told.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_recv_buffer_size_force;

use crate::support::go_before_normal_threads;

/// Room for what comes while a busy machine does not let the way run: it loses what it is told to lose, and no more.
const BUFFER_BYTES: usize = 16 << 20;

/// What becomes of a datagram.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fate {
    /// It arrives so much later.
    After(Duration),
    /// It arrives twice, at once.
    Twice,
    /// It arrives at once, with one bit that is another.
    Changed,
    /// It does not.
    Lost,
}

struct Inner {
    /// By end: the socket that it sends to, and gets from.
    sockets: [UdpSocket; 2],
    ends: [SocketAddr; 2],
    /// Of the first end's datagrams.
    lost: AtomicU64,
    changed: AtomicU64,
    /// What came past.
    seen: Mutex<Vec<Vec<u8>>>,
    end: AtomicBool,
}

/// The way; it ends with this.
pub(crate) struct Way {
    inner: Arc<Inner>,
    threads: Vec<JoinHandle<()>>,
}

impl Way {
    /// Between sockets at these two places. What the first one sends fares as its number, from 0 on, is told; what the second one
    /// sends arrives at once.
    pub(crate) fn open(
        ends: [SocketAddr; 2],
        fate: impl Fn(u64) -> Fate + Send + Sync + 'static,
    ) -> Self {
        let sockets = [(); 2].map(|()| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.set_nonblocking(true).unwrap();
            set_socket_recv_buffer_size_force(&socket, BUFFER_BYTES).unwrap();
            socket
        });
        let inner = Arc::new(Inner {
            sockets,
            ends,
            lost: AtomicU64::new(0),
            changed: AtomicU64::new(0),
            seen: Mutex::default(),
            end: AtomicBool::new(false),
        });
        let (there, back) = (Arc::clone(&inner), Arc::clone(&inner));
        let threads = vec![
            std::thread::spawn(move || there.carry(0, fate)),
            std::thread::spawn(move || back.carry(1, |_| Fate::After(Duration::ZERO))),
        ];
        Self { inner, threads }
    }

    /// Where this end sees the other one.
    pub(crate) fn seen_from(&self, end: usize) -> SocketAddr {
        self.inner.sockets[end].local_addr().unwrap()
    }

    /// Where an end is.
    pub(crate) fn end(&self, end: usize) -> SocketAddr {
        self.inner.ends[end]
    }

    /// Datagrams of the first end that were lost.
    pub(crate) fn lost(&self) -> u64 {
        self.inner.lost.load(Ordering::SeqCst)
    }

    /// Datagrams of the first end that were changed.
    pub(crate) fn changed(&self) -> u64 {
        self.inner.changed.load(Ordering::SeqCst)
    }

    /// Whether these bytes came past.
    pub(crate) fn saw(&self, bytes: &[u8]) -> bool {
        let seen = self.inner.seen.lock().unwrap();
        let has = |datagram: &Vec<u8>| datagram.windows(bytes.len()).any(|some| some == bytes);
        seen.iter().any(has)
    }

    /// Sends something to an end as if the other one had.
    pub(crate) fn forge(&self, to: usize, datagram: &[u8]) {
        self.inner.sockets[to]
            .send_to(datagram, self.inner.ends[to])
            .unwrap();
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        self.inner.end.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Inner {
    /// From this end to the other, and never waits long: a few microseconds decide.
    fn carry(&self, from: usize, fate: impl Fn(u64) -> Fate) {
        // Else a busy machine makes it longer than it is told to be.
        go_before_normal_threads();
        let to = 1 - from;
        let mut under_way = BinaryHeap::new();
        let (mut bytes, mut number) = ([0; 4_096], 0);
        while !self.end.load(Ordering::SeqCst) {
            while let Ok((length, _)) = self.sockets[from].recv_from(&mut bytes) {
                self.seen.lock().unwrap().push(bytes[..length].to_vec());
                let (after, copies) = match fate(number) {
                    Fate::After(after) => (after, 1),
                    Fate::Twice => (Duration::ZERO, 2),
                    Fate::Changed => {
                        bytes[length / 2] ^= 1;
                        self.changed.fetch_add(1, Ordering::SeqCst);
                        (Duration::ZERO, 1)
                    }
                    Fate::Lost => (Duration::ZERO, 0),
                };
                self.lost
                    .fetch_add(u64::from(copies == 0), Ordering::SeqCst);
                for _ in 0..copies {
                    let datagram = bytes[..length].to_vec();
                    under_way.push(Reverse((Instant::now() + after, number, datagram)));
                }
                number += 1;
            }
            while let Some(Reverse((at, _, datagram))) = under_way.peek()
                && *at <= Instant::now()
            {
                self.sockets[to].send_to(datagram, self.ends[to]).unwrap();
                under_way.pop();
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}
