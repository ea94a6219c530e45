//! A flow as a blocking reader.

use super::sys::{Socket, SocketOptions};
use super::{Driver, IoStats, Opener, RunError, Waker};
use crate::core::{Consumer, ConsumerStats, Freshness, Meta, Params, Path, Sealing};
use std::collections::VecDeque;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The flow to fetch, and the settings of the transfer.
#[derive(Debug, Clone)]
pub struct FetchOptions {
    /// The Producer.
    pub remote: SocketAddr,
    /// Flow id.
    pub flow: u64,
    /// First byte wanted.
    pub start: u64,
    /// Hasher that has seen the bytes before `start`, to check a resumed flow.
    pub prefix: Option<blake3::Hasher>,
    /// Local address; `None` lets the kernel choose.
    pub local: Option<SocketAddr>,
    /// Give up after this long without a new byte; `None`: never.
    pub patience: Option<Duration>,
    /// Shared key of a sealed flow. Without it the flow must be open. A sealed
    /// flow is fetched from its start.
    pub key: Option<[u8; 32]>,
    /// The path's round-trip time, if it is known: a flow whose first packets are lost then does
    /// not wait for the first timeout of an unknown path.
    pub rtt: Option<Duration>,
    /// The parts that must come from the Producer itself.
    pub freshness: Freshness,
    /// Protocol parameters.
    pub params: Params,
}

impl FetchOptions {
    /// All of `flow` from `remote`, with default parameters and 30 s of patience.
    pub fn new(remote: SocketAddr, flow: u64) -> Self {
        Self {
            remote,
            flow,
            start: 0,
            prefix: None,
            local: None,
            patience: Some(Duration::from_secs(30)),
            key: None,
            rtt: None,
            freshness: Freshness::default(),
            params: Params::default(),
        }
    }
}

/// A flow being fetched. The transfer advances while [`Self::poll`] or
/// [`Read::read`] runs; nothing runs in the background.
#[derive(Debug)]
pub struct Fetch {
    driver: Driver,
    consumer: Consumer,
    flow: u64,
    patience: Option<Duration>,
    last_news: Instant,
    last_bytes: u64,
    chunk: VecDeque<u8>,
    opener: Option<Opener>,
}

impl Fetch {
    /// Opens a socket and requests the first bytes.
    ///
    /// # Errors
    /// No route to the Producer, a local address that is in use, or invalid parameters.
    pub fn open(o: FetchOptions) -> Result<Self, RunError> {
        let local = match o.local {
            Some(l) => l,
            None => SocketAddr::new(
                Socket::source_for(o.remote)
                    .map_err(RunError::io(format!("find a way to {}", o.remote)))?,
                0,
            ),
        };
        let options = SocketOptions {
            recv_buffer: 8 << 20,
            send_buffer: 4 << 20,
            ..SocketOptions::default()
        };
        let socket = Socket::bind(local, options).map_err(RunError::io(format!("bind {local}")))?;
        let up = Path {
            src: socket.local(),
            dst: o.remote,
        };
        let mut consumer = Consumer::new(o.params, o.flow, up, o.start, o.prefix)?;
        if let Some(rtt) = o.rtt {
            consumer.expect_rtt(u64::try_from(rtt.as_nanos()).unwrap_or(u64::MAX));
        }
        consumer.set_freshness(o.freshness);
        if o.key.is_some() {
            consumer.without_digest();
        }
        let driver = Driver::new(vec![socket], false)?;
        let mut f = Self {
            driver,
            consumer,
            flow: o.flow,
            patience: o.patience,
            last_news: Instant::now(),
            last_bytes: 0,
            chunk: VecDeque::new(),
            opener: o.key.map(|k| Opener::new(k, o.flow)),
        };
        f.driver.send_due(&mut f.consumer)?;
        Ok(f)
    }

    /// Advances the transfer for at most `wait`; returns the next bytes in
    /// order, or `None` if no bytes are ready (see [`Self::is_done`]).
    ///
    /// # Errors
    /// The reason why the flow cannot be delivered: [`RunError::Flow`], a forged record, a
    /// superfluous or missing key, nothing new for longer than the patience, or the kernel's
    /// error.
    pub fn poll(&mut self, wait: Duration) -> Result<Option<Vec<u8>>, RunError> {
        if let Some(b) = self.next_bytes()? {
            return Ok(Some(b));
        }
        if self.is_done() {
            return Ok(None);
        }
        self.driver.turn(
            &mut self.consumer,
            u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX),
        )?;
        if let Some(e) = self.consumer.error() {
            return Err(e.clone().into());
        }
        let got = self.consumer.stats().new_bytes;
        if got != self.last_bytes {
            (self.last_bytes, self.last_news) = (got, Instant::now());
        } else if let Some(p) = self.patience
            && self.last_news.elapsed() > p
            && !self.is_done()
        {
            let from = self.consumer.path().dst;
            let what = if self.consumer.meta().is_none() && got == 0 {
                format!("no answer from {from} for flow {:016x}", self.flow)
            } else {
                format!("nothing new from {from}")
            };
            return Err(RunError::Io {
                what,
                source: io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("waited {} s", p.as_secs()),
                ),
            });
        }
        self.next_bytes()
    }

    fn next_bytes(&mut self) -> Result<Option<Vec<u8>>, RunError> {
        let sealed = self.consumer.meta().map(|m| m.sealing != Sealing::Open);
        match (&mut self.opener, sealed) {
            (Some(_), Some(false)) => Err(RunError::Sealing(false)),
            (None, Some(true)) => Err(RunError::Sealing(true)),
            (None, _) => Ok(self.consumer.read()),
            (Some(o), _) => {
                let out = o.next(self.driver.now(), &mut self.consumer)?;
                // A record that is requested again must leave at once.
                self.driver.send_due(&mut self.consumer)?;
                Ok(out)
            }
        }
    }

    /// Whether every byte has been handed out and checked.
    pub fn is_done(&self) -> bool {
        self.consumer.is_done()
            && !self.consumer.has_unread()
            && self.chunk.is_empty()
            && self.opener.as_ref().is_none_or(Opener::is_done)
    }

    /// The flow's length, once known.
    pub fn total(&self) -> Option<u64> {
        self.consumer.total()
    }

    /// The flow's record, once known.
    pub fn meta(&self) -> Option<&Meta> {
        self.consumer.meta()
    }

    /// Protocol counters.
    pub fn stats(&self) -> ConsumerStats {
        self.consumer.stats()
    }

    /// The state machine, for reports.
    pub fn consumer(&self) -> &Consumer {
        &self.consumer
    }

    /// A handle that ends the wait of [`Self::poll`], for another thread.
    pub fn waker(&self) -> Waker {
        self.driver.waker()
    }

    /// Datagram counters.
    pub fn io_stats(&self) -> IoStats {
        self.driver.stats()
    }
}

impl Read for Fetch {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while self.chunk.is_empty() && !buf.is_empty() {
            match self.poll(Duration::from_millis(100)) {
                Ok(Some(b)) => self.chunk = b.into(),
                Ok(None) if self.is_done() => return Ok(0),
                Ok(None) => {}
                Err(RunError::Io { source, .. }) => return Err(source),
                Err(e) => return Err(io::Error::other(e)),
            }
        }
        self.chunk.read(buf)
    }
}
