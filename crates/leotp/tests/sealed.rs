//! Sealed flows: a forger on the path fills a Midnode's cache with lies; the
//! Consumer notices, asks past the cache and gets the truth, or gives up loudly.

use crate::vnet;

use leotp::core::{Consumer, Midnode, Params, Path, Producer};
use leotp::rt::{MemorySource, Opener, RunError, SealedFile};
use leotp::wire::Packet;
use std::collections::VecDeque;
use vnet::*;

const FLOW: u64 = 42;
const KEY: [u8; 32] = [7; 32];

/// Flips a bit in the payload of every Data packet that holds byte `at`, the
/// first `times` times.
struct Forger {
    at: u64,
    times: u32,
    queue: VecDeque<(Path, Vec<u8>)>,
}

impl Behaviour for Forger {
    fn rx(&mut self, _: Nanos, path: Path, bytes: &[u8]) {
        let mut b = bytes.to_vec();
        if let Ok(Packet::Data(h, _)) = Packet::parse(bytes)
            && (h.range.start..h.range.end).contains(&self.at)
            && self.times > 0
        {
            self.times -= 1;
            let last = b.len() - 1;
            b[last] ^= 1;
        }
        self.queue.push_back((path, b));
    }
    fn tx(&mut self, _: Nanos, out: &mut Vec<u8>) -> Option<Path> {
        let (path, b) = self.queue.pop_front()?;
        out.extend_from_slice(&b);
        Some(path)
    }
    fn timeout(&self) -> Option<Nanos> {
        None
    }
    fn as_any(&mut self) -> &mut dyn std::any::Any {
        self
    }
}

struct SealedSink {
    consumer: Consumer,
    opener: Opener,
    got: Vec<u8>,
    error: Option<RunError>,
}

impl Behaviour for SealedSink {
    fn rx(&mut self, now: Nanos, path: Path, bytes: &[u8]) {
        self.consumer.handle_datagram(now, path, bytes);
        loop {
            match self.opener.next(now, &mut self.consumer) {
                Ok(Some(b)) => self.got.extend(b),
                Ok(None) => return,
                Err(e) => {
                    self.error.get_or_insert(e);
                    return;
                }
            }
        }
    }
    fn tx(&mut self, now: Nanos, out: &mut Vec<u8>) -> Option<Path> {
        if self.error.is_some() {
            None
        } else {
            self.consumer.poll_transmit(now, out)
        }
    }
    fn timeout(&self) -> Option<Nanos> {
        if self.error.is_some() {
            None
        } else {
            self.consumer.poll_timeout()
        }
    }
    fn as_any(&mut self) -> &mut dyn std::any::Any {
        self
    }
}

/// Plaintext received, records fetched again, and the error if any.
fn fetch(
    len: usize,
    times: u32,
    key: [u8; 32],
    loss: f64,
) -> (Vec<u8>, Vec<u8>, u64, Option<RunError>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("plain");
    let plain: Vec<u8> = (0..len as u64).map(|i| vnet::ends::byte(FLOW, i)).collect();
    std::fs::write(&path, &plain).unwrap();
    let p = Params::default();
    let mut net = Net::new(4);
    let mut prod = Producer::new(p.clone()).unwrap();
    prod.publish(
        FLOW,
        Box::new(SealedFile::open(&path, &KEY, FLOW, [9; 16]).unwrap()),
    );
    let prod = net.add(Box::new(prod));
    let forger = net.add(Box::new(Forger {
        at: 48_000,
        times,
        queue: VecDeque::new(),
    }));
    let mid = net.add(Box::new(Midnode::new(p.clone()).unwrap()));
    let sink = net.add(Box::new(Plain::default()));
    for (a, b) in [(prod, forger), (forger, mid), (mid, sink)] {
        let l = LinkSpec::new(20 * MBIT, 3 * MS).loss(loss);
        net.connect(a, b, l.clone(), l);
    }
    let up = Path {
        src: addr(sink, 1),
        dst: addr(prod, 2),
    };
    let mut consumer = Consumer::new(p, FLOW, up, 0, None).unwrap();
    consumer.without_digest();
    net.nodes[sink] = Box::new(SealedSink {
        consumer,
        opener: Opener::new(key, FLOW),
        got: vec![],
        error: None,
    });
    net.route();
    net.wake(sink);
    net.run(60 * S, |n| {
        let s = n.get::<SealedSink>(sink);
        s.opener.is_done() || s.error.is_some()
    });
    let s = net.get::<SealedSink>(sink);
    (
        plain,
        std::mem::take(&mut s.got),
        s.opener.refetched(),
        s.error.take(),
    )
}

#[test]
fn honest_path() {
    for len in [0, 1, 4079, 4080, 4081, 300_000] {
        let (plain, got, again, error) = fetch(len, 0, KEY, 0.0);
        assert!(error.is_none(), "{error:?}");
        assert_eq!((got == plain, again), (true, 0), "{len} bytes");
    }
}

#[test]
fn poisoned_cache_is_passed_by() {
    for loss in [0.0, 0.05] {
        let (plain, got, again, error) = fetch(300_000, 1, KEY, loss);
        assert!(error.is_none(), "{error:?}");
        assert!(got == plain, "loss {loss}");
        assert!(again >= 1);
    }
}

#[test]
fn a_path_that_always_lies_is_an_error() {
    let (plain, got, _, error) = fetch(300_000, u32::MAX, KEY, 0.0);
    assert!(matches!(error, Some(RunError::Forged(11))), "{error:?}");
    // Records that were served before are valid.
    assert_eq!(got, plain[..got.len()]);
}

#[test]
fn the_wrong_key_opens_nothing() {
    let (_, got, _, error) = fetch(10_000, 0, [8; 32], 0.0);
    assert!(got.is_empty() && matches!(error, Some(RunError::Forged(0))));
}

#[test]
fn an_open_flow_is_not_taken_for_a_sealed_one() {
    use leotp::rt::{Fetch, FetchOptions, Publisher};
    use std::time::Duration;
    let mut publisher =
        Publisher::bind(&["127.0.0.1:0".parse().unwrap()], Params::default()).unwrap();
    publisher.publish(1, Box::new(MemorySource::new(vec![5; 10_000])));
    let remote = publisher.locals()[0];
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let s2 = stop.clone();
    let server = std::thread::spawn(move || {
        while !s2.load(std::sync::atomic::Ordering::Relaxed) {
            publisher.poll(Duration::from_millis(20)).unwrap();
        }
    });
    let read = |key| {
        let mut out = vec![];
        let mut f = Fetch::open(FetchOptions {
            key,
            ..FetchOptions::new(remote, 1)
        })
        .unwrap();
        std::io::Read::read_to_end(&mut f, &mut out).map(|_| out)
    };
    assert_eq!(read(None).unwrap(), vec![5; 10_000]);
    assert!(
        read(Some(KEY))
            .unwrap_err()
            .to_string()
            .contains("not sealed")
    );
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    server.join().unwrap();
}
