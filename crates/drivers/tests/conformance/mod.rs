//! One suite for all drivers. On this host's kernel it runs for the driver named by `CONSTEL_DRIVERS` (several with
//! commas), `relay` by default; `make test-kernels` runs it for the others on kernels that have what they need.
//! The exact behaviour of every driver, on every machine: which frames arrive where, their order,
//! the counters, that no frame arrives before its time. How late a frame may be depends on the
//! machine: [`late`] has it, and
//! `CONSTEL_SLOW=1` says that the machine is emulated. `tools/virtual/conformance` runs the suite in virtual time, where bounds are
//! exact.

mod passage;
use crate::plane;
mod service;
use crate::support;
mod updates;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::num::NonZeroU64;
use std::thread;
use std::time::Duration;

use constel_drivers::{DriverError, DriverKind, mono_ns};
use constel_host::clock::waits;
use constel_link::{
    ChangeError, Delay, Discipline, Edge, EdgeUpdate, Effects, EffectsChange, Impairment, Jitter,
    JitterLaw, Loss, PlaneReport, PortId, QueueLimit, mac_of, packet,
};
use plane::{PlaneLab, SEED, Sent};
use support::*;

const BROADCAST: [u8; 6] = [0xff; 6];
/// An EtherType without a protocol: experimental (IEEE 802).
const ODD: u16 = 0x88b5;

fn slow() -> bool {
    std::env::var_os("CONSTEL_SLOW").is_some()
}

/// Names the requested drivers.
fn requested() -> String {
    std::env::var("CONSTEL_DRIVERS").unwrap_or_else(|_| "relay".into())
}

/// How late a frame may be, ns: 10 ms where other tests run beside this one, 150 ms on an emulated machine. In virtual time nothing
/// delays a frame but readings of the clock, 256 ns each.
fn late() -> u64 {
    match (waits(), slow()) {
        (true, _) => 2_000,
        (false, true) => 150 * MS,
        (false, false) => 10 * MS,
    }
}

/// Runs a case for each requested driver.
fn each(case: impl Fn(DriverKind)) {
    // The kernel would stamp the first frames too late.
    let _stamps = waits().then(stamps_begin);
    let names = requested();
    for name in names.split(',') {
        let kind = DriverKind::ALL.into_iter().find(|kind| kind.name() == name);
        let kind = kind.unwrap_or_else(|| panic!("CONSTEL_DRIVERS: there is no driver {name}"));
        eprintln!("driver {kind}");
        case(kind);
    }
}

/// Frames of the odd EtherType, each with a number.
fn numbered(to: [u8; 6], number: u32, len: usize) -> Vec<u8> {
    let mut payload = number.to_be_bytes().to_vec();
    payload.resize(len - 14, 0x55);
    frame(to, mac_of(PortId(0)), ODD, &payload)
}

fn number_of(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[14..18].try_into().unwrap())
}

/// Frames that came within `patience` after the last one: numbers and times.
fn drain(raw: &Raw, patience: Duration) -> Vec<(u32, u64)> {
    raw.timeout(patience);
    std::iter::from_fn(|| raw.next())
        .map(|(frame, at)| (number_of(&frame), at))
        .collect()
}

fn listener(lab: &PlaneLab, node: usize) -> Raw {
    let raw = lab.nodes[node].run(|| Raw::new(ODD));
    stamp(&raw);
    raw
}

fn sender(lab: &PlaneLab) -> Raw {
    lab.nodes[0].run(|| Raw::new(0))
}

fn rated(rate_bps: u64, queue_bytes: u64, delay_ns: u64) -> Impairment {
    Impairment {
        rate_bps: NonZeroU64::new(rate_bps),
        queue: QueueLimit { bytes: queue_bytes },
        ..Impairment::delay_only(delay_ns)
    }
}

/// Frames that the driver lost; those under `backlog` may be in transit.
fn lost(report: &PlaneReport) -> u64 {
    report.emulator_drops.total() - report.emulator_drops.get(constel_drivers::BACKLOG)
}

/// Sums of the driver, once no frame is in flight.
fn settled(lab: &PlaneLab) -> PlaneReport {
    eventually("all frames are out", || {
        let stats = lab.handle.snapshot().unwrap();
        (stats.totals.held == 0).then_some(stats)
    })
}
