//! The carrier: sends the relay's frames to other machines.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use constel_drivers::relay::Carry;
use constel_host::datagrams::{MOST_AT_ONCE, Outgoing};
use constel_link::Nanos;
use rustix::time::{ClockId, clock_gettime};

use crate::crossing::wire::Socket;
use crate::crossing::{Ends, Shared};
use crate::underlay::Sender;

/// Returns `CLOCK_BOOTTIME`, nanoseconds. Leases use this clock because it also advances while the machine is
/// suspended.
fn boottime_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    // Time since boot is never negative, and a `u64` of nanoseconds holds 584 years.
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// The sending side of a crossing, which the relay calls. It never waits.
pub(crate) struct Carrier {
    shared: Arc<Shared>,
    /// The sender state for each machine, by machine number.
    senders: Vec<Sender>,
    /// The datagrams of this turn. Those after the first `carried` are only kept so that their memory is used
    /// again.
    datagrams: Vec<Outgoing>,
    carried: usize,
}

impl Carrier {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let machines = 0..shared.machines.count();
        let senders = machines.map(|machine| {
            let sender = Sender::new(shared.lab, shared.machines.session());
            sender.sealed(shared.machines.cipher_to(machine))
        });
        Self {
            senders: senders.collect(),
            shared,
            datagrams: vec![(None, Vec::new()); MOST_AT_ONCE],
            carried: 0,
        }
    }
}

impl Carry for Carrier {
    fn carry(&mut self, edge: Ends, due_ns: Nanos, frame: &[u8]) {
        let Shared {
            machines,
            time,
            unsent,
            to_lost,
            ..
        } = &*self.shared;
        if machines.is_of_lost(edge.1) {
            to_lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let Some((machine, endpoint)) = machines.way_to(edge.1) else {
            unsent.fetch_add(1, Ordering::Relaxed);
            return;
        };
        // The receiver has another CLOCK_MONOTONIC, so times cross in the lab's clock.
        let (due_ns, token) = (time.of_own(due_ns), machines.own_token());
        let (to, datagram) = &mut self.datagrams[self.carried];
        *to = Socket::address_of(endpoint);
        self.senders[machine].send(edge, due_ns, token, frame, datagram);
        self.carried += 1;
        // Sent when all buffers are in use: their memory is kept, so the relay's thread seldom allocates.
        if self.carried == self.datagrams.len() {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let carried = std::mem::take(&mut self.carried);
        if carried == 0 {
            return;
        }
        let Shared {
            socket,
            until_ns,
            sent,
            unsent,
            ..
        } = &*self.shared;
        // The lease is read directly before sending, so that it also holds after a pause in which this process did
        // not run.
        let may_send = boottime_ns() < until_ns.load(Ordering::Relaxed);
        // Datagrams that the kernel does not accept are counted here as unsent. The receiver counts the gap as lost
        // between the machines.
        let count = match may_send {
            true => socket.send(&self.datagrams[..carried]),
            false => 0,
        };
        sent.fetch_add(count as u64, Ordering::Relaxed);
        unsent.fetch_add((carried - count) as u64, Ordering::Relaxed);
    }
}
