//! A sender and a receiver over one bottleneck, in virtual time.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{Confirmation, Data, Monitored, Receiver, Sender};

/// A link: rate, one-way delay, queue, loss each way.
#[derive(Clone, Copy)]
struct Link {
    bps: f64,
    delay_ns: u64,
    queue_bytes: f64,
    loss_ratio: f64,
}

struct Came {
    bytes: u64,
    in_order: bool,
    mean_queue_ns: f64,
    done_ns: Option<u64>,
}

enum Event {
    Data(Vec<u8>),
    Confirm(Vec<u8>),
}

fn run(link: Link, total: u64, limit_ns: u64, seed: u64) -> Came {
    let mut random = seed | 1;
    let mut lost = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        ((random >> 11) as f64 / (1u64 << 53) as f64) < link.loss_ratio
    };
    let (mut sender, mut receiver) = (Sender::new(0, total, seed), Receiver::default());
    let mut events: BTreeMap<(u64, u64), Event> = BTreeMap::new();
    let (mut now, mut count, mut busy_until) = (0u64, 0u64, 0.0f64);
    let (mut bytes, mut in_order, mut waits, mut packets) = (0u64, true, 0.0, 0.0);
    while now < limit_ns && !sender.is_done() {
        loop {
            let mut out = Vec::new();
            let Some((offset, len)) = sender.poll_transmit(now, &mut out) else {
                break;
            };
            out.extend((offset..offset + len as u64).map(|b| (b % 251) as u8));
            let wait = (busy_until - now as f64).max(0.0);
            if wait * link.bps / 8e9 > link.queue_bytes {
                continue;
            }
            waits += wait;
            packets += 1.0;
            busy_until = now as f64 + wait + out.len() as f64 * 8e9 / link.bps;
            if !lost() {
                count += 1;
                events.insert((busy_until as u64 + link.delay_ns, count), Event::Data(out));
            }
        }
        let next = events.first_key_value().map(|(k, _)| k.0);
        let wake = [next, sender.poll_timeout()].into_iter().flatten().min();
        now = wake.expect("somebody has something to do").max(now);
        while let Some(first) = events.first_entry()
            && first.key().0 <= now
        {
            match first.remove() {
                Event::Data(datagram) => {
                    let data = Data::read(&datagram).expect("well formed");
                    let confirmation = receiver.handle(&data, |piece| {
                        for b in piece {
                            in_order &= *b == (bytes % 251) as u8;
                            bytes += 1;
                        }
                    });
                    let mut out = Vec::new();
                    confirmation.expect("room").write(&mut out);
                    if !lost() {
                        count += 1;
                        events.insert((now + link.delay_ns, count), Event::Confirm(out));
                    }
                }
                Event::Confirm(datagram) => {
                    sender.handle(now, &Confirmation::read(&datagram).expect("well formed"));
                }
            }
        }
        sender.handle_timeout(now);
    }
    Came {
        bytes,
        in_order,
        mean_queue_ns: waits / f64::max(packets, 1.0),
        done_ns: sender.is_done().then_some(now),
    }
}

const SECOND: u64 = 1_000_000_000;

fn link(loss_ratio: f64) -> Link {
    Link {
        bps: 20e6,
        delay_ns: 25_000_000,
        queue_bytes: 250_000.0,
        loss_ratio,
    }
}

/// Share of the link that payload took over a minute.
fn share(link: Link) -> f64 {
    let came = run(link, u64::MAX >> 2, 60 * SECOND, 7);
    assert!(came.in_order);
    came.bytes as f64 * 8.0 / 60.0 / link.bps
}

#[test]
fn it_fills_a_clean_link_without_filling_its_queue() {
    let came = run(link(0.0), u64::MAX >> 2, 60 * SECOND, 7);
    let share = came.bytes as f64 * 8.0 / 60.0 / 20e6;
    assert!(share > 0.85, "{share}");
    // The queue holds 100 ms.
    assert!(came.mean_queue_ns < 30e6, "{}", came.mean_queue_ns);
}

#[test]
fn random_loss_below_five_percent_is_no_congestion_above_it_is() {
    let shares = [0.01, 0.02, 0.10].map(|loss| share(link(loss)));
    assert!(shares[0] > 0.7 && shares[1] > 0.6, "{shares:?}");
    assert!(shares[2] < shares[1] / 2.0, "{shares:?}");
}

#[test]
fn utility_is_the_papers() {
    let clean = Monitored {
        confirmed: 100,
        ..Monitored::default()
    };
    assert!((clean.utility(10.0) - 10f64.powf(0.9)).abs() < 1e-9);
    let lossy = Monitored {
        lost: 10,
        confirmed: 90,
        ..Monitored::default()
    };
    assert!((lossy.utility(10.0) - (10f64.powf(0.9) - 11.35)).abs() < 1e-9);
    // A round trip that grows by 20 ms in a second.
    let queueing = Monitored {
        confirmed: 11,
        rtts: (0..11)
            .map(|i| (f64::from(i) / 10.0, 0.05 + f64::from(i) * 0.002))
            .collect(),
        ..Monitored::default()
    };
    assert!((queueing.utility(10.0) - (10f64.powf(0.9) - 900.0 * 10.0 * 0.02)).abs() < 1e-6);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn every_byte_comes_once_and_in_order(
        loss in 0.0..0.3f64, bps in 1e6..100e6f64, delay_ms in 1u64..150, total in 1u64..400_000, seed: u64,
    ) {
        let link = Link { bps, delay_ns: delay_ms * 1_000_000, queue_bytes: 100_000.0, loss_ratio: loss };
        let came = run(link, total, 3600 * SECOND, seed);
        prop_assert!(came.in_order);
        prop_assert_eq!(came.bytes, total);
        prop_assert!(came.done_ns.is_some());
    }

    #[test]
    fn no_datagram_panics(bytes in prop::collection::vec(any::<u8>(), 0..120), data: bool) {
        let mut bytes = bytes;
        if bytes.len() >= 4 {
            let kind: u32 = if data { 0x5649_5644 } else { 0x5649_5641 };
            bytes[..4].copy_from_slice(&kind.to_be_bytes());
        }
        let mut sender = Sender::new(0, 1 << 30, 1);
        for _ in 0..3 {
            sender.poll_transmit(0, &mut Vec::new());
        }
        if let Some(confirmation) = Confirmation::read(&bytes) {
            sender.handle(5, &confirmation);
        }
        if let Some(data) = Data::read(&bytes) {
            let _ = Receiver::default().handle(&data, |_| ());
        }
    }
}

#[test]
fn bytes_that_were_never_sent_cannot_be_confirmed() {
    let (mut sender, mut out) = (Sender::new(0, 10_000_000, 1), Vec::new());
    let (_, sent) = sender.poll_transmit(0, &mut out).expect("the first packet");
    let confirmation = Confirmation {
        number: 0,
        offset: u64::MAX,
        ranges: vec![(0, u64::MAX)],
    };
    sender.handle(1_000_000, &confirmation);
    assert!(!sender.is_done());
    let next = sender.poll_timeout().expect("more to send");
    let packet = sender.poll_transmit(next, &mut out);
    assert_eq!(packet.map(|(offset, _)| offset), Some(sent as u64));
}

#[test]
fn the_confirmation_of_any_number_is_one() {
    let mut receiver = Receiver::default();
    for number in [5, u64::MAX, 0, u64::MAX - 1] {
        let data = Data {
            number,
            offset: 0,
            bytes: &[7],
        };
        let confirmation = receiver.handle(&data, |_| ()).expect("room");
        let mut out = Vec::new();
        confirmation.write(&mut out);
        assert_eq!(Confirmation::read(&out), Some(confirmation));
    }
}
