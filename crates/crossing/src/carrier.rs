//! What takes the relay's frames to other machines.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use constel_drivers::relay::Carry;
use constel_link::Nanos;
use constel_underlay::Sender;
use rustix::net::{SendFlags, sendto};
use rustix::time::{ClockId, clock_gettime};

use crate::{Ends, Shared};

/// What leases are counted by: it runs on while the machine sleeps.
fn boottime_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    // Since boot: never negative, and 584 years fit.
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// The relay's side: it sends and never waits.
pub(crate) struct Carrier {
    shared: Arc<Shared>,
    /// By machine.
    senders: Vec<Sender>,
    /// Kept for its memory.
    datagram: Vec<u8>,
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
            datagram: Vec::new(),
        }
    }
}

impl Carry for Carrier {
    fn carry(&mut self, edge: Ends, due_ns: Nanos, frame: &[u8]) {
        let Shared {
            socket,
            machines,
            time,
            until_ns,
            sent,
            unsent,
            to_lost,
            ..
        } = &*self.shared;
        if machines.is_of_lost(edge.1) {
            to_lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let way = machines.way_to(edge.1);
        let way = way.filter(|_| boottime_ns() < until_ns.load(Ordering::Relaxed));
        let is_sent = way.is_some_and(|(machine, address)| {
            let (due_ns, token) = (time.of_own(due_ns), machines.own_token());
            let sender = &mut self.senders[machine];
            sender.send(edge, due_ns, token, frame, &mut self.datagram);
            // What the other side does not get it counts as lost between the machines.
            sendto(socket, &self.datagram, SendFlags::DONTWAIT, &address).is_ok()
        });
        let count = if is_sent { sent } else { unsent };
        count.fetch_add(1, Ordering::Relaxed);
    }
}
