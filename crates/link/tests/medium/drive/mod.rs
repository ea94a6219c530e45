//! Channels under load in virtual time, and what closed forms say of them.

use constel_link::Rng;
use constel_link::medium::{Access, Event, Frame, Medium, Reception, Spec};

pub(crate) const SECOND_NS: u64 = 1_000_000_000;
/// 1,250 bytes at 10 Mbit/s: a frame is a millisecond.
pub(crate) const BYTES: u32 = 1250;
pub(crate) const FRAME_NS: u64 = 1_000_000;

pub(crate) fn spec(access: Access) -> Spec {
    Spec {
        rate_bps: 10_000_000,
        preamble_ns: 0,
        guard_ns: 0,
        access,
        queue_bytes: 1_000_000,
        seed: 3,
    }
}

/// Lets all ports hear all others.
pub(crate) fn all_hear(medium: &mut Medium, ports: usize, hearing: Reception) {
    for from in 0..ports {
        for to in (0..ports).filter(|to| *to != from) {
            medium.hear(from, to, Some(hearing));
        }
    }
}

pub(crate) fn frame(id: u64) -> Frame {
    Frame {
        id,
        bytes: BYTES,
        rate_bps: None,
    }
}

/// Successes per frame time at a receiver that never sends, where senders offer `g` frames per frame time, each from a sender
/// of its own so that none waits for itself.
pub(crate) fn aloha(access: Access, g: f64, seconds: u64) -> f64 {
    const SENDERS: usize = 400;
    let mut medium = Medium::new(spec(access), SENDERS + 1).unwrap();
    for from in 0..SENDERS {
        medium.hear(from, SENDERS, Some(Reception::default()));
    }
    let mut rng = Rng::for_edge(1, 2, 3, 4);
    let (mut now_ns, mut events) = (0.0, Vec::new());
    let mut id = 0;
    loop {
        now_ns += -rng.unit().ln() * FRAME_NS as f64 / g;
        if now_ns > (seconds * SECOND_NS) as f64 {
            break;
        }
        medium.advance(now_ns as u64, &mut events);
        let port = (rng.next_u64() % SENDERS as u64) as usize;
        medium.send(now_ns as u64, port, frame(id)).unwrap();
        id += 1;
        events.clear();
    }
    let heard = medium.counters(SENDERS).heard as f64;
    heard / (seconds * SECOND_NS / FRAME_NS) as f64
}

/// All ports always have something to send, for `seconds`.
pub(crate) fn saturated(medium: &mut Medium, senders: usize, seconds: u64) -> Vec<Event> {
    let mut events = Vec::new();
    for port in 0..senders {
        for id in 0..3 {
            medium.send(0, port, frame(id)).unwrap();
        }
    }
    let mut seen = 0;
    while let Some(at_ns) = medium.next_ns().filter(|at| *at < seconds * SECOND_NS) {
        medium.advance(at_ns, &mut events);
        let sent: Vec<usize> = events[seen..]
            .iter()
            .filter_map(|event| match event {
                Event::Sent { from, .. } => Some(*from),
                _ => None,
            })
            .collect();
        seen = events.len();
        for port in sent {
            medium.send(at_ns, port, frame(9)).unwrap();
        }
    }
    events
}

/// Length of a slot, and how long the channel stays alone after a frame, of [`carrier_sense`].
const SLOT_NS: u64 = 50_000;
const GUARD_NS: u64 = 128_000;

/// Share of the time in which a frame is in the air that is received, where `n` ports that always have something to send draw from
/// `window` slots.
pub(crate) fn carrier_sense(n: usize, window: u32, seconds: u64) -> f64 {
    let access = Access::Csma {
        slot_ns: SLOT_NS,
        window,
    };
    let mut medium = Medium::new(
        Spec {
            guard_ns: GUARD_NS,
            ..spec(access)
        },
        n,
    )
    .unwrap();
    all_hear(&mut medium, n, Reception::default());
    let events = saturated(&mut medium, n, seconds);
    // Successes: heard by one of the others.
    let heard = events
        .iter()
        .filter(|e| matches!(e, Event::Heard { from, to, .. } if *to == usize::from(*from == 0)));
    heard.count() as f64 * FRAME_NS as f64 / (seconds * SECOND_NS) as f64
}

/// The result of Bianchi 2000, eqs. 7 to 13 with m = 0, for [`carrier_sense`].
pub(crate) fn bianchi(n: usize, window: u32) -> f64 {
    let tau = 2.0 / (f64::from(window) + 1.0);
    let some = 1.0 - (1.0 - tau).powi(n as i32);
    let one = n as f64 * tau * (1.0 - tau).powi(n as i32 - 1);
    let busy_ns = (FRAME_NS + GUARD_NS) as f64;
    one * FRAME_NS as f64 / ((1.0 - some) * SLOT_NS as f64 + some * busy_ns)
}
