//! One edge: exact cases by hand, and random ones against a simulator that walks through every
//! nanosecond.

use std::collections::VecDeque;
use std::num::NonZeroU64;

use constel_link::{Delay, DropCause, Edge, Impairment, Loss, Nanos, QueueLimit};
use proptest::prelude::*;

const MS: u64 = 1_000_000;

fn rate(bps: u64, queue_bytes: u64, delay_ns: u64) -> Impairment {
    Impairment {
        rate_bps: NonZeroU64::new(bps),
        queue: QueueLimit { bytes: queue_bytes },
        ..Impairment::delay_only(delay_ns)
    }
}

fn edge(impairment: Impairment) -> Edge<u32> {
    Edge::new(impairment, 1, 0, 1, 0)
}

fn none(_: u32, _: DropCause) {
    panic!("no frame may be lost here");
}

/// Run the edge to its end the way a data plane does: sleep until the next event, take what is due.
fn drain(edge: &mut Edge<u32>, lost: &mut Vec<u32>) -> Vec<(Nanos, u32)> {
    let mut out = Vec::new();
    while let Some(at) = edge.next_event() {
        if at > 0 {
            assert_eq!(
                edge.pop_due(at - 1, &mut |f, _| lost.push(f)),
                None,
                "early"
            );
        }
        if let Some(r) = edge.pop_due(at, &mut |f, _| lost.push(f)) {
            assert_eq!(r.due_ns, at);
            out.push((at, r.frame));
        }
    }
    out
}

#[test]
fn delay_only_is_exact() {
    let mut e = edge(Impairment::delay_only(5 * MS));
    e.arrive(10, 1, 1500, &mut none).unwrap();
    e.arrive(11, 2, 64, &mut none).unwrap();
    assert_eq!(e.next_event(), Some(5 * MS + 10));
    assert_eq!(
        drain(&mut e, &mut vec![]),
        [(5 * MS + 10, 1), (5 * MS + 11, 2)]
    );
    assert_eq!(e.counters().delivered_bytes, 1564);
}

#[test]
fn service_is_one_frame_at_a_time_and_queue_is_in_bytes() {
    // 8 Mbit/s: one byte per microsecond. 100-byte frames, room for two of them.
    let mut e = edge(rate(8_000_000, 250, MS));
    for (n, expect) in [(1, true), (2, true), (3, true), (4, false)] {
        let result = e.arrive(0, n, 100, &mut none);
        assert_eq!(result.is_ok(), expect, "frame {n}");
        if let Err(refused) = result {
            assert_eq!((refused.frame, refused.cause), (4, DropCause::Queue));
        }
    }
    assert_eq!(e.queue_bytes(), 200);
    // 50 bytes more fit exactly, a byte does not.
    e.arrive(0, 5, 50, &mut none).unwrap();
    assert!(e.arrive(0, 6, 1, &mut none).is_err());
    // At 100 us the first is served, the second leaves the queue: 100 bytes are free again.
    e.arrive(100_000, 7, 100, &mut none).unwrap();
    assert_eq!(
        drain(&mut e, &mut vec![]),
        [
            (MS + 100_000, 1),
            (MS + 200_000, 2),
            (MS + 300_000, 3),
            (MS + 350_000, 5),
            (MS + 450_000, 7)
        ]
    );
    let c = e.counters();
    assert_eq!((c.offered, c.delivered, c.dropped_queue), (7, 5, 2));
}

#[test]
fn rate_is_exact_over_a_busy_period() {
    // 64 bytes at 7 Gbit/s take 73.14 ns; 10,000 of them 731,428.57 ns.
    let mut e = edge(rate(7_000_000_000, u64::MAX, 0));
    (0..10_000).for_each(|n| e.arrive(0, n, 64, &mut none).unwrap());
    let out = drain(&mut e, &mut vec![]);
    assert_eq!(out[0].0, 74, "never early: rounded up");
    assert_eq!(out[9_999].0, 731_429);
}

/// A frame that is taken in after its server was seen to be free again waits for the one before it all the same.
#[test]
fn what_comes_in_late_is_not_served_beside_the_one_before() {
    // A frame of 1,000 bytes takes 1 ms.
    let served = |seen_ns: Option<u64>| {
        let mut edge = edge(rate(8_000_000, 10_000, 0));
        edge.arrive(0, 1, 1000, &mut none).unwrap();
        let mut out = Vec::new();
        if let Some(seen_ns) = seen_ns {
            out.push(edge.pop_due(seen_ns, &mut none).unwrap().due_ns);
        }
        edge.arrive(900_000, 2, 1000, &mut none).unwrap();
        out.extend(
            drain(&mut edge, &mut Vec::new())
                .into_iter()
                .map(|(due, _)| due),
        );
        out
    };
    assert_eq!(served(None), [1_000_000, 2_000_000]);
    assert_eq!(served(Some(1_050_000)), [1_000_000, 2_000_000]);
}

#[test]
fn rate_change_reserves_what_is_left() {
    let mut e = edge(rate(8_000_000, 1000, 0));
    e.arrive(0, 1, 100, &mut none).unwrap();
    e.arrive(0, 2, 100, &mut none).unwrap();
    // At 40 us 60 bytes of frame 1 are left: at a tenth of the rate they take 600 us.
    e.reconfigure(40_000, &rate(800_000, 1000, 0), &mut none);
    assert_eq!(e.next_event(), Some(640_000));
    // No limit any more: all leaves at once.
    let mut both = e.clone();
    both.reconfigure(50_000, &Impairment::delay_only(7), &mut none);
    assert_eq!(drain(&mut both, &mut vec![]), [(50_007, 1), (50_007, 2)]);
    assert_eq!(drain(&mut e, &mut vec![]), [(640_000, 1), (1_640_000, 2)]);
}

#[test]
fn shrinking_delay_never_overtakes_and_flight_keeps_its_time() {
    let mut e = edge(Impairment::delay_only(10 * MS));
    e.arrive(0, 1, 64, &mut none).unwrap();
    e.reconfigure(MS, &Impairment::delay_only(2 * MS), &mut none);
    e.arrive(MS, 2, 64, &mut none).unwrap();
    e.arrive(9 * MS, 3, 64, &mut none).unwrap();
    assert_eq!(
        drain(&mut e, &mut vec![]),
        [(10 * MS, 1), (10 * MS, 2), (11 * MS, 3)]
    );
}

#[test]
fn delay_glides() {
    let delay = Delay {
        t0_ns: 0,
        delay_ns: 5 * MS,
        slope_ns_per_s: -20_000,
    };
    let mut e = edge(Impairment {
        delay,
        ..Impairment::delay_only(0)
    });
    e.arrive(1_000 * MS, 1, 64, &mut none).unwrap();
    assert_eq!(drain(&mut e, &mut vec![]), [(1_005 * MS - 20_000, 1)]);
}

#[test]
fn outage_until_up() {
    let mut e = edge(Impairment {
        up_from_ns: 100,
        ..Impairment::delay_only(5)
    });
    assert_eq!(
        e.arrive(99, 1, 64, &mut none).unwrap_err().cause,
        DropCause::Outage
    );
    e.arrive(100, 2, 64, &mut none).unwrap();
    assert_eq!(drain(&mut e, &mut vec![]), [(105, 2)]);
    assert_eq!((e.counters().offered, e.counters().dropped_outage), (2, 1));
}

#[test]
fn close_drops_what_waits_and_keeps_what_flies() {
    let mut e = edge(rate(8_000_000, 1000, MS));
    (1..=3).for_each(|n| e.arrive(0, n, 100, &mut none).unwrap());
    let mut out = Vec::new();
    e.close(150_000, &mut |f, cause| out.push((f, cause)));
    assert_eq!(out, [(2, DropCause::Removed), (3, DropCause::Removed)]);
    assert_eq!(drain(&mut e, &mut vec![]), [(MS + 100_000, 1)]);
    assert_eq!(e.counters().dropped_removed, 2);
    assert_eq!(e.held(), 0);
}

#[test]
fn loss_is_seeded_and_binomial() {
    let lossy = Impairment {
        loss: Loss::Bernoulli { loss_ratio: 0.1 },
        ..Impairment::delay_only(1)
    };
    let run = |seed, from, to| {
        let mut e = Edge::new(lossy, seed, from, to, 0);
        let mut lost = Vec::new();
        for n in 0..100_000u32 {
            e.arrive(u64::from(n), n, 64, &mut |f, _| lost.push(f))
                .unwrap();
        }
        let delivered = drain(&mut e, &mut lost).len();
        assert_eq!(delivered + lost.len(), 100_000);
        assert_eq!(e.counters().dropped_loss, lost.len() as u64);
        lost
    };
    let a = run(1, 0, 1);
    assert_eq!(a, run(1, 0, 1), "same seed, same frames");
    assert_ne!(a, run(2, 0, 1));
    assert_ne!(a, run(1, 1, 0), "directions are independent");
    let sd = (100_000.0_f64 * 0.1 * 0.9).sqrt();
    assert!((a.len() as f64 - 10_000.0).abs() < 4.0 * sd, "{}", a.len());
}

#[test]
fn lost_frames_use_air_time() {
    let all = Impairment {
        loss: Loss::Bernoulli { loss_ratio: 1.0 },
        ..rate(8_000_000, 1000, 0)
    };
    let mut e = edge(all);
    let mut lost = Vec::new();
    e.arrive(0, 1, 100, &mut none).unwrap();
    e.reconfigure(50_000, &all, &mut none);
    assert_eq!(e.next_event(), Some(100_000));
    e.reconfigure(100_000, &rate(8_000_000, 1000, 0), &mut |f, _| lost.push(f));
    assert_eq!(
        lost,
        [1],
        "drawn when its service ended, under the law of that moment"
    );
    e.arrive(100_000, 2, 100, &mut none).unwrap();
    assert_eq!(drain(&mut e, &mut vec![]), [(200_000, 2)]);
}

/// The reference: walks through every nanosecond, does one unit of work at a time.
struct Walk {
    impairment: Impairment,
    now: Nanos,
    queue: VecDeque<(u32, u32)>,
    serving: Option<(u32, u128)>,
    last_due: Nanos,
    out: Vec<(Nanos, u32)>,
    dropped: Vec<(u32, DropCause)>,
}

impl Walk {
    fn served(&mut self, frame: u32) {
        self.last_due = self
            .last_due
            .max(self.now + self.impairment.delay.at(self.now));
        self.out.push((self.last_due, frame));
    }

    fn start(&mut self) {
        self.serving = self
            .queue
            .pop_front()
            .map(|(frame, len)| (frame, u128::from(len) * 8_000_000_000));
    }

    fn walk_to(&mut self, t: Nanos) {
        while self.now < t {
            self.now += 1;
            let mut work = self.impairment.rate_bps.map_or(0, |r| u128::from(r.get()));
            while let Some((frame, left)) = self.serving {
                if left > work {
                    self.serving = Some((frame, left - work));
                    break;
                }
                work -= left;
                self.served(frame);
                self.start();
            }
        }
    }

    fn arrive(&mut self, frame: u32, len: u32) {
        if self.now < self.impairment.up_from_ns {
            return self.dropped.push((frame, DropCause::Outage));
        }
        if self.impairment.rate_bps.is_none() {
            return self.served(frame);
        }
        let waiting: u64 = self.queue.iter().map(|&(_, len)| u64::from(len)).sum();
        if self.serving.is_some() && waiting + u64::from(len) > self.impairment.queue.bytes {
            return self.dropped.push((frame, DropCause::Queue));
        }
        self.queue.push_back((frame, len));
        if self.serving.is_none() {
            self.start();
        }
    }

    fn reconfigure(&mut self, new: Impairment) {
        self.impairment = new;
        if new.rate_bps.is_none() {
            while let Some((frame, _)) = self.serving {
                self.served(frame);
                self.start();
            }
        }
    }

    fn close(&mut self) {
        let waiting = self.serving.take().map(|(f, _)| f);
        let queued: Vec<u32> = self.queue.drain(..).map(|(f, _)| f).collect();
        self.dropped.extend(
            waiting
                .into_iter()
                .chain(queued)
                .map(|f| (f, DropCause::Removed)),
        );
    }
}

#[derive(Clone, Debug)]
enum Step {
    Arrive { len: u32 },
    Change(Impairment),
    Look,
}

fn impairment() -> impl Strategy<Value = Impairment> {
    let rates = prop_oneof![
        1 => Just(None),
        4 => (1_000_000_000u64..40_000_000_000).prop_map(NonZeroU64::new),
    ];
    (
        rates,
        0u64..200,
        0u64..600,
        -200_000_000i64..200_000_000,
        0u64..1500,
    )
        .prop_map(
            |(rate_bps, queue, delay_ns, slope_ns_per_s, up_from_ns)| Impairment {
                delay: Delay {
                    t0_ns: 500,
                    delay_ns,
                    slope_ns_per_s,
                },
                rate_bps,
                queue: QueueLimit { bytes: queue },
                loss: Loss::None,
                up_from_ns: if up_from_ns < 1000 { 0 } else { up_from_ns },
                profile: 0,
            },
        )
}

fn step() -> impl Strategy<Value = (u64, Step)> {
    let what = prop_oneof![
        8 => (1u32..60).prop_map(|len| Step::Arrive { len }),
        1 => impairment().prop_map(Step::Change),
        2 => Just(Step::Look),
    ];
    (0u64..60, what)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Same departures to the nanosecond, same drops, whatever the moments at which the lazy
    /// edge is looked at.
    #[test]
    fn equals_the_walk(
        first in impairment(),
        steps in prop::collection::vec(step(), 1..80),
        close in any::<bool>(),
    ) {
        let mut walk = Walk {
            impairment: first, now: 0, queue: VecDeque::new(), serving: None, last_due: 0,
            out: vec![], dropped: vec![],
        };
        let mut edge = edge(first);
        let mut out = Vec::new();
        let mut dropped = Vec::new();
        let mut now = 0;
        let mut offered = 0u64;
        for (n, (wait, step)) in steps.into_iter().enumerate() {
            now += wait;
            walk.walk_to(now);
            let n = n as u32;
            match step {
                Step::Arrive { len } => {
                    walk.arrive(n, len);
                    offered += 1;
                    if let Err(r) = edge.arrive(now, n, len, &mut none) {
                        dropped.push((r.frame, r.cause));
                    }
                }
                Step::Change(new) => {
                    walk.reconfigure(new);
                    edge.reconfigure(now, &new, &mut none);
                }
                Step::Look => {
                    while let Some(r) = edge.pop_due(now, &mut none) {
                        prop_assert!(r.due_ns <= now, "early");
                        out.push((r.due_ns, r.frame));
                    }
                    prop_assert!(edge.next_event().is_none_or(|at| at > now));
                }
            }
            let c = edge.counters();
            prop_assert_eq!(c.offered, offered);
            prop_assert_eq!(c.offered, c.delivered + c.dropped() + edge.held() as u64);
        }
        if close {
            walk.close();
            edge.close(now, &mut |f, cause| dropped.push((f, cause)));
        }
        walk.walk_to(now + 100_000);
        out.extend(drain(&mut edge, &mut vec![]));
        prop_assert!(out.is_sorted_by_key(|&(due, _)| due), "fifo");
        prop_assert_eq!(out, walk.out);
        prop_assert_eq!(dropped, walk.dropped);
        prop_assert_eq!(edge.held(), 0);
        prop_assert_eq!(edge.counters().offered, edge.counters().delivered + edge.counters().dropped());
    }
}
