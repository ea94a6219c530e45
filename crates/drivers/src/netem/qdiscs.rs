//! Queueing disciplines in the layout of the kernel's `pkt_sched.h`.

use std::num::NonZeroU64;

use constel_host::netlink::{Attributes, Tc, handle};
use constel_link::Loss;

/// A full frame of MTU 1500, by which a queue's limit in frames is computed.
const FRAME_BYTES: u64 = 1514;
/// Frames a delay line may hold.
const LINE_FRAMES: u32 = 1 << 20;
/// A rate beyond all links, bytes/s. As the delay line's rate it costs 8 ns a frame, and it keeps the order.
const BEYOND: u64 = 200_000_000_000;

const TCA_HTB_PARMS: u16 = 1;
const TCA_HTB_INIT: u16 = 2;
const TCA_HTB_RATE64: u16 = 6;
const TCA_HTB_CEIL64: u16 = 7;
const TCA_NETEM_RATE: u16 = 6;
const TCA_NETEM_RATE64: u16 = 8;
const TCA_NETEM_LATENCY64: u16 = 10;

fn words(values: &[u32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_ne_bytes())
        .collect()
}

/// Returns the classful root of an interface. Frames select their class by their priority.
pub(super) fn root(ifindex: u32) -> Tc<'static> {
    // Version 3, rate to quantum 10, no default class.
    let init = Attributes::default().put(TCA_HTB_INIT, &words(&[3, 10, 0, 0, 0]));
    Tc {
        ifindex,
        handle: handle(1, 0),
        parent: Tc::ROOT,
        kind: "htb",
        options: Some(init),
        ..Tc::default()
    }
}

/// Returns a class that does not delay frames: the discipline inside it does the work.
pub(super) fn class(ifindex: u32, minor: u16) -> Tc<'static> {
    // struct tc_ratespec: cell_log, linklayer (1: Ethernet), overhead, cell_align, mpu, rate (in RATE64 instead).
    let rate = [&[0u8, 1, 0, 0, 0, 0, 0, 0][..], &u32::MAX.to_ne_bytes()].concat();
    // buffer and cbuffer in ticks of 64 ns, quantum, level, prio.
    let parameters = [&rate[..], &rate, &words(&[1 << 20, 1 << 20, 60_000, 0, 0])].concat();
    let options = Attributes::default()
        .put(TCA_HTB_PARMS, &parameters)
        .u64(TCA_HTB_RATE64, BEYOND)
        .u64(TCA_HTB_CEIL64, BEYOND);
    Tc {
        ifindex,
        handle: handle(1, minor),
        parent: handle(1, 0),
        kind: "htb",
        options: Some(options),
        ..Tc::default()
    }
}

/// Returns a netem with delay and loss that keeps the order.
pub(super) fn delay_line(ifindex: u32, minor: u16, delay_ns: u64, loss: Loss) -> Tc<'static> {
    let Loss::Bernoulli { loss_ratio } = loss else {
        return netem(ifindex, minor, LINE_FRAMES, delay_ns, 0, BEYOND);
    };
    // The kernel compares with a random number of 32 bits.
    let lost = (loss_ratio * f64::from(u32::MAX)).round() as u32;
    netem(ifindex, minor, LINE_FRAMES, delay_ns, lost, BEYOND)
}

/// Returns a netem for service at a rate and the queue in front of it. netem's limit includes the frame in service.
pub(super) fn service(
    ifindex: u32,
    minor: u16,
    rate_bps: NonZeroU64,
    queue_bytes: u64,
) -> Tc<'static> {
    let frames = u32::try_from(queue_bytes / FRAME_BYTES + 1).unwrap_or(u32::MAX);
    netem(ifindex, minor, frames, 0, 0, (rate_bps.get() / 8).max(1))
}

fn netem(
    ifindex: u32,
    minor: u16,
    limit: u32,
    delay_ns: u64,
    loss: u32,
    rate_bytes: u64,
) -> Tc<'static> {
    // struct tc_netem_qopt: latency (in LATENCY64 instead), limit, loss, gap, duplicate, jitter.
    let front = words(&[0, limit, loss, 0, 0, 0]);
    // struct tc_netem_rate: rate, packet overhead, cell size, cell overhead.
    // A rate that does not fit the 32-bit field saturates there; the kernel then reads RATE64.
    let small = u32::try_from(rate_bytes).unwrap_or(u32::MAX);
    let options = Attributes::behind(&front)
        .put(TCA_NETEM_RATE, &words(&[small, 0, 0, 0]))
        .u64(TCA_NETEM_RATE64, rate_bytes)
        .u64(TCA_NETEM_LATENCY64, delay_ns);
    Tc {
        ifindex,
        handle: handle(minor, 0),
        parent: handle(1, minor),
        kind: "netem",
        options: Some(options),
        ..Tc::default()
    }
}
