//! TCP over ten hops of 10 ms, the second of which serves 11 and 9 Mbit/s alternately for a second each; the others
//! serve 20 Mbit/s (LEOTP, Fig. 14). Measured are goodput relative to the capacity, and the queueing delay of small
//! probes on the same path.

use std::num::NonZeroU64;
use std::thread;
use std::time::Duration;

use constel_drivers::Links;
use constel_link::{
    Delay, EdgeUpdate, Effects, EffectsChange, Impairment, PortId, QueueLimit, RateLaw,
};
use serde_json::{Value, json};

use crate::common::*;
use crate::support::set;
use crate::tcp::Stream;

const HOPS: u32 = 10;
const HOP_NS: u64 = 10 * MS;
const CONTROLS: [&str; 3] = ["reno", "cubic", "bbr"];
const MEAN_BPS: u64 = 10_000_000;
const AMPLITUDE_BPS: u64 = 1_000_000;
const OTHERS_BPS: u64 = 20_000_000;
/// One bandwidth-delay product.
const QUEUE_BYTES: u64 = MEAN_BPS / 8 * (2 * HOPS as u64 * HOP_NS) / 1_000_000_000;
const WARM_UP_S: f64 = 10.0;
const SECONDS: f64 = 30.0;
const PROBES_PER_S: u64 = 100;
const PROBE_BYTES: usize = 64;

pub(crate) fn square(options: &Options) -> Vec<Value> {
    let seconds = options.seconds_or(SECONDS);
    // A full frame carries 1448 bytes of payload; the probes use part of the capacity.
    let fits = (MEAN_BPS - PROBES_PER_S * PROBE_BYTES as u64 * 8) as f64 * 1448.0 / 1514.0;
    say(
        options,
        &format!(
            "\nTCP over {HOPS} hops of {} ms, the second of 10 +- 1 Mbit/s in a square wave of 2 s: {seconds} s; {:.2} Mbit/s fit",
            HOP_NS / MS,
            fits / 1e6
        ),
    );
    say(
        options,
        &format!(
            "{:>8} | {:>8} {:>10} | {:>12} {:>12} {:>12} | {:>11}",
            "", "Mbit/s", "sent again", "queue p50 ms", "p90 ms", "p99 ms", "relay p99us"
        ),
    );
    let mut results = Vec::new();
    for cc in CONTROLS {
        let path = Path::Relay {
            delay_ns: HOP_NS,
            gso: false,
            gro: true,
        };
        let row = Row::of(options, HOPS as usize, path).unwrap();
        let handle = row.handle().unwrap();
        let hop = |rate_bps| Impairment {
            delay: Delay::constant(HOP_NS),
            rate_bps: NonZeroU64::new(rate_bps),
            queue: QueueLimit { bytes: QUEUE_BYTES },
            ..Impairment::delay_only(0)
        };
        let changes = (0..HOPS)
            .flat_map(|link| [(2 * link, 2 * link + 1), (2 * link + 1, 2 * link)])
            .map(|(from, to)| set(from, to, hop(OTHERS_BPS)))
            .collect();
        handle.apply(EdgeUpdate { changes }, None).unwrap();
        let wave = RateLaw::Square {
            high_bps: MEAN_BPS + AMPLITUDE_BPS,
            low_bps: MEAN_BPS - AMPLITUDE_BPS,
            high_ns: 1000 * MS,
            low_ns: 1000 * MS,
            origin_ns: constel_drivers::mono_ns(),
        };
        let bottleneck = EffectsChange::Edge {
            from: PortId(2),
            to: PortId(3),
            effects: Some(Effects {
                rate_law: Some(wave),
                ..Effects::default()
            }),
        };
        handle.apply_effects(vec![bottleneck]).unwrap();

        let sockets = row.sockets();
        let (near, far, _, to) = row.ends();
        let stream = Stream::open(near, far, to, 9001, cc);
        let (measured, probes) = thread::scope(|scope| {
            let stream = scope.spawn(|| stream.run(Duration::from_secs_f64(WARM_UP_S), seconds));
            thread::sleep(Duration::from_secs_f64(WARM_UP_S));
            let delay_ns = u64::from(HOPS) * HOP_NS;
            let probes = flow(&sockets, PROBE_BYTES, PROBES_PER_S, seconds, delay_ns);
            (stream.join().unwrap(), probes)
        });
        let (bps, again) = measured;
        let queue = probes.errors.quantiles();
        let late = handle.relay_stats().unwrap().lateness;
        let ms = |ns: u64| ns as f64 / 1e6;
        say(
            options,
            &format!(
                "{cc:>8} | {:>8.2} {again:>10} | {:>12.1} {:>12.1} {:>12.1} | {:>11}",
                bps / 1e6,
                ms(queue.p50_ns),
                ms(queue.p90_ns),
                ms(queue.p99_ns),
                us(late.p99_ns)
            ),
        );
        results.push(json!({
            "what": "tcp_square_wave", "congestion_control": cc, "goodput_bps": bps,
            "fits_bps": fits, "retransmitted": again, "queueing_delay": queue,
            "probes_lost": probes.sent - probes.received, "lateness": late,
        }));
    }
    results
}
