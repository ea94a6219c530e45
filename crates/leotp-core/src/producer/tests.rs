use super::*;

/// A live flow that has no byte yet.
struct Nothing;

impl Source for Nothing {
    fn available(&self) -> Available {
        Available {
            end: 0,
            finished: false,
        }
    }
    fn read_at(&mut self, _: u64, _: &mut [u8]) -> bool {
        false
    }
    fn meta(&self) -> Option<Vec<u8>> {
        None
    }
}

/// A live flow of as many zeros as there are now.
struct Zeros(std::sync::Arc<std::sync::atomic::AtomicU64>);

impl Source for Zeros {
    fn available(&self) -> Available {
        Available {
            end: self.0.load(std::sync::atomic::Ordering::Relaxed),
            finished: false,
        }
    }
    fn read_at(&mut self, _: u64, buf: &mut [u8]) -> bool {
        buf.fill(0);
        true
    }
    fn meta(&self) -> Option<Vec<u8>> {
        None
    }
}

#[test]
fn what_does_not_exist_yet_blocks_nothing_that_comes_earlier() {
    let mut producer = Producer::new(Params::default()).unwrap();
    let end = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    producer.publish(7, Box::new(Zeros(end.clone())));
    let path = Path {
        src: ([10, 0, 0, 1], 1).into(),
        dst: ([10, 0, 0, 2], 5047).into(),
    };
    // The first Interest is lost, and repeated before there is a byte.
    for (start, rtx) in [(1400, false), (2800, false), (0, true)] {
        let mut interest = Vec::new();
        Interest {
            flow: 7,
            range: Range {
                start,
                end: start + 1400,
            },
            timestamp: 0,
            rate_bps: 1_000_000_000,
            rtx,
            fresh: false,
            bare: false,
            sparse: false,
            tag: 1,
            padding: 0,
        }
        .encode(&mut interest);
        producer.handle_datagram(1_000_000_000, path, &interest);
    }
    let mut sent = |now: Nanos, bytes: u64| {
        end.store(bytes, std::sync::atomic::Ordering::Relaxed);
        producer.on_available(now, 7);
        let mut out = Vec::new();
        let due = producer.poll_timeout().map_or(now, |at| at.max(now));
        producer.poll_transmit(due, &mut out)?;
        match Packet::parse(&out) {
            Ok(Packet::Data(h, _)) => Some((h.range.start, h.range.end)),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(sent(2_000_000_000, 100), Some((0, 100)));
    assert_eq!(sent(3_000_000_000, 100), None);
    assert_eq!(sent(4_000_000_000, 1500), Some((100, 1400)));
    assert_eq!(sent(5_000_000_000, 1500), Some((1400, 1500)));
}

#[test]
fn newcomers_to_a_full_producer_cost_one_look_each() {
    let p = Params {
        max_flows: 1024,
        ..Params::default()
    };
    let (mut producer, n) = (Producer::new(p).unwrap(), 16 * 1024u32);
    producer.publish(7, Box::new(Nothing));
    let mut interest = Vec::new();
    Interest {
        flow: 7,
        range: Range {
            start: 0,
            end: 1400,
        },
        timestamp: 0,
        rate_bps: 1_000_000,
        rtx: false,
        fresh: false,
        bare: false,
        sparse: false,
        tag: 1,
        padding: 0,
    }
    .encode(&mut interest);
    for i in 0..n {
        let path = Path {
            src: ((10 << 24 | i).to_be_bytes(), 1).into(),
            dst: ([10, 255, 0, 1], 5047).into(),
        };
        let now = 1_000_000_000 + u64::from(i);
        producer.handle_datagram(now, path, &interest);
        assert_eq!(producer.poll_transmit(now, &mut Vec::new()), None);
    }
    assert_eq!(producer.legs(), 1024);
    // One look per newcomer, and one for the first sweep.
    assert!(producer.legs.looked_at <= u64::from(n) + 1);
    // Only those that are still there wait for the first byte.
    assert_eq!(producer.stalled[&7].len(), 1024);
}
