//! Interfaces of the host that exist independently of the lab. Frames are captured by a program on their ingress, and
//! sent by an AF_XDP socket on each. The interface stays in its namespace, with its addresses and everything else
//! configured on it.
//!
//! The program is attached by a link, so that it is detached when this process ends, however it ends. A frame that
//! comes in belongs to the interface's port, and a frame that reaches that port goes out. A [`Steer`] instead decides
//! for each frame which port's edge it takes, and on which interface it then goes out.

use std::net::IpAddr;
use std::os::fd::OwnedFd;

use constel_link::{Frames as _, Nanos, PortId};

use super::layout::{ADDRESSES, FLAG_CSUM, STEERED_MAX, SlotRef, TAG};
use super::object::Loaded;
use super::pool::Pool;
use super::times::Times;
use super::xsk::{Checksum, Xsk};
use crate::bpf::Mapped;
use crate::clock::mono_ns;
use crate::error::{DriverError, Result};

/// Number of attempts to send a frame on an interface before it is dropped...
const TRIES: u32 = 64;
/// ...and time for which each frame then gets a single attempt: the link is down, or its queue does not move.
const DEAD_NS: Nanos = 10_000_000;

/// An interface of the calling thread's namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct External {
    /// The relay's port for it. Each interface has its own.
    pub port: PortId,
    /// The interface's index.
    pub ifindex: u32,
    /// The interface's Ethernet address.
    pub mac: [u8; 6],
    /// Whether the host's own traffic still reaches the host: frames to or from `mac`, ARP and neighbour requests for
    /// the addresses `own`, and a copy of every broadcast and multicast frame. Otherwise the host receives no frame
    /// from the interface.
    pub shared: bool,
    /// Addresses of the host on the interface.
    pub own: Vec<IpAddr>,
}

/// Decision about a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steered {
    /// The port whose edges it takes.
    pub port: PortId,
    /// The interface on which it goes out, by the order in which they were taken. If it is the one at which the frame
    /// came in: all others.
    pub out: u8,
}

/// Chooses the edge of each frame that comes in at an interface of the host.
pub trait Steer: Send {
    /// Decides about a frame that came in at the interface `at`, by the order in which they were taken. `addresses` are
    /// its Ethernet addresses, destination first; `rest` begins with its VLAN tag or EtherType.
    fn steer(
        &mut self,
        now: Nanos,
        at: u8,
        addresses: &mut [u8; ADDRESSES],
        rest: &mut [u8],
    ) -> Steered;
}

/// Interfaces on which a frame goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outwards {
    On(usize),
    AllBut(usize),
}

/// Counters of frames sent on an interface of the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExternalCounts {
    /// Frames that the interface accepted.
    pub sent: u64,
    /// Frames that it did not accept: its link is down, or its queue was full.
    pub refused: u64,
}

/// An interface for outgoing frames.
#[derive(Debug)]
struct Out {
    xsk: Xsk,
    counts: ExternalCounts,
    /// Until then a refused frame is not offered again.
    dead_until: Nanos,
    /// Whether the interface is down: no frame is offered until [`Out::dead_until`].
    down: bool,
    /// Frames that the kernel will report as invalid because they were given up.
    abandoned: u64,
}

/// The thread's state of all interfaces.
#[derive(Default)]
pub(crate) struct Externals {
    outs: Vec<Out>,
    /// The interface of each port, counted from 1; 0 and ports beyond the end: none.
    of_port: Vec<u8>,
    steer: Option<Box<dyn Steer>>,
    pub(super) times: Times,
}

impl Externals {
    pub(crate) fn new(sockets: Vec<(PortId, Xsk)>) -> Externals {
        let mut externals = Externals::default();
        for (number, (port, xsk)) in (1..).zip(sockets) {
            let place = port.0 as usize;
            // A byte for each port up to the highest one: the steering of each frame looks this up.
            if externals.of_port.len() <= place {
                externals.of_port.resize(place + 1, 0);
            }
            externals.of_port[place] = number;
            externals.outs.push(Out {
                xsk,
                counts: ExternalCounts::default(),
                dead_until: 0,
                down: false,
                abandoned: 0,
            });
        }
        externals
    }

    /// Returns the interface of this port.
    fn interface(&self, port: PortId) -> Option<usize> {
        let number = *self.of_port.get(port.0 as usize)?;
        usize::from(number).checked_sub(1)
    }

    /// Returns whether this port is an interface of the host.
    pub(crate) fn has(&self, port: PortId) -> bool {
        self.interface(port).is_some()
    }

    /// Sets the steering from here on. Returns the old one.
    pub(crate) fn steer_by(&mut self, steer: Box<dyn Steer>) -> Option<Box<dyn Steer>> {
        self.steer.replace(steer)
    }

    /// Returns the port whose edges this frame takes, and the frame with its outgoing interface.
    pub(crate) fn steer(
        &mut self,
        now: Nanos,
        at: PortId,
        frame: SlotRef,
        pool: &mut Pool,
    ) -> (PortId, SlotRef) {
        let (Some(interface), Some(steer)) = (self.interface(at), &mut self.steer) else {
            return (at, frame);
        };
        let interface = interface as u8;
        // A frame lies in two parts in its slot: behind the addresses there is room for the relay's tag.
        let (addresses, rest) = pool.whole(frame);
        let steered = steer.steer(now, interface, addresses, rest);
        (steered.port, frame.steered(interface, steered.out))
    }

    /// Returns the interfaces on which a frame that reaches this port goes out.
    pub(crate) fn out_of(&self, port: PortId, frame: SlotRef) -> Option<Outwards> {
        match frame.passage() {
            Some((from, to)) if from == to => Some(Outwards::AllBut(usize::from(from))),
            Some((_, to)) => Some(Outwards::On(usize::from(to))),
            None => self.interface(port).map(Outwards::On),
        }
    }

    /// Passes a frame to its interfaces' sockets; [`Externals::space`] has checked that there is room.
    pub(crate) fn queue(&mut self, way: Outwards, slots: &Mapped, frame: SlotRef, pool: &mut Pool) {
        let not = match way {
            Outwards::On(out) => return self.queue_on(out, slots, frame, pool),
            Outwards::AllBut(not) => not,
        };
        let outs = (0..self.outs.len()).filter(|out| *out != not);
        let Some(last) = outs.clone().next_back() else {
            pool.give(frame.slot);
            return;
        };
        // The last interface gets the frame itself, the others get copies.
        for out in outs.take_while(|out| *out != last) {
            match pool.duplicate(&frame) {
                Some(copy) => self.queue_on(out, slots, copy, pool),
                None => self.outs[out].counts.refused += 1,
            }
        }
        self.queue_on(last, slots, frame, pool);
    }

    fn queue_on(&mut self, out: usize, slots: &Mapped, frame: SlotRef, pool: &mut Pool) {
        let Some(out) = self.outs.get_mut(out).and_then(Out::when_up) else {
            pool.give(frame.slot);
            return;
        };
        // In the slot there is room for the relay's tag behind the addresses, which these interfaces do not use: the
        // addresses move up to close the gap.
        let at = frame.base() + frame.start() + TAG;
        let from = slots.ptr(at - TAG, ADDRESSES + TAG);
        // SAFETY: in bounds of a slot that is ours until its descriptor is published.
        unsafe { from.copy_to(from.add(TAG), ADDRESSES) };
        let csum = (frame.flags & FLAG_CSUM != 0).then_some(Checksum {
            start: frame.csum_start,
            offset: frame.csum_offset,
        });
        out.xsk.queue(slots, at, u32::from(frame.len), csum);
    }

    /// Returns the number of frames that can be queued on every interface.
    pub(crate) fn space(&self) -> u32 {
        // A frame may go to any interface, so the one with the least space decides.
        let spaces = self.outs.iter().map(|out| out.xsk.space());
        spaces.min().unwrap_or(u32::MAX)
    }

    pub(crate) fn pending(&self) -> u32 {
        self.outs.iter().map(|out| out.xsk.pending()).sum()
    }

    /// Makes the kernel take the queued frames. Frames for which an interface has no room at the moment stay queued.
    pub(crate) fn flush(&mut self, pool: &mut Pool) {
        for out in &mut self.outs {
            out.flush(pool);
        }
    }

    pub(crate) fn counts(&self) -> Vec<ExternalCounts> {
        self.outs.iter().map(|out| out.counts).collect()
    }

    pub(crate) fn invalid_descs(&self) -> u64 {
        let invalid = |out: &Out| out.xsk.invalid_descs().saturating_sub(out.abandoned);
        self.outs.iter().map(invalid).sum()
    }
}

impl Out {
    /// Returns the interface if a frame may be offered; otherwise the frame is counted as refused.
    fn when_up(&mut self) -> Option<&mut Out> {
        if !self.down {
            return Some(self);
        }
        let now = mono_ns();
        if now >= self.dead_until {
            // No frame is queued: this call only checks the state of the interface.
            self.down = self.xsk.kick(false, |_| {}).is_err();
            self.dead_until = now + DEAD_NS;
        }
        self.counts.refused += u64::from(self.down);
        (!self.down).then_some(self)
    }

    fn flush(&mut self, pool: &mut Pool) {
        for tries in 1..=TRIES {
            if self.xsk.pending() == 0 {
                return;
            }
            let dead = self.dead_until > 0 && mono_ns() < self.dead_until;
            let again = tries < TRIES && !dead;
            let lost = self.xsk.lost();
            match self.xsk.kick(again, |slot| pool.give(slot)) {
                Ok(taken) => {
                    let lost = self.xsk.lost() - lost;
                    self.counts.refused += lost;
                    self.counts.sent += u64::from(taken) - lost;
                    // The link is down or its queue does not move, so frames get a single attempt for a while.
                    if lost > 0 {
                        self.dead_until = mono_ns() + DEAD_NS;
                    }
                }
                // The interface is down or gone: queued frames would be sent only long after their time.
                Err(_) => {
                    let given_up = self.xsk.abandon(|slot| pool.give(slot));
                    self.abandoned += given_up;
                    self.counts.refused += given_up;
                    self.down = true;
                    self.dead_until = mono_ns() + DEAD_NS;
                    return;
                }
            }
        }
    }
}

/// Interfaces whose frames are captured. Capturing ends when this is dropped, and at the latest with the process.
#[derive(Debug, Default)]
pub struct Captured {
    _links: Vec<OwnedFd>,
}

/// Captures frames that come in at these interfaces *of the calling thread's namespace*, as frames of their ports.
pub(crate) fn capture(loaded: &Loaded, externals: &[External]) -> Result<Captured> {
    for external in externals {
        let mut value = [0u8; 12];
        value[..4].copy_from_slice(&external.port.0.to_ne_bytes());
        value[4..10].copy_from_slice(&external.mac);
        value[10..].copy_from_slice(&u16::from(external.shared).to_ne_bytes());
        loaded.tell("cst_externals", &external.ifindex.to_ne_bytes(), &value)?;
        for own in &external.own {
            let mut key = [0u8; 20];
            key[..4].copy_from_slice(&external.ifindex.to_ne_bytes());
            // The map has one form of key for both families: IPv4 addresses are mapped into IPv6.
            let address = match own {
                IpAddr::V4(own) => own.to_ipv6_mapped(),
                IpAddr::V6(own) => *own,
            };
            key[4..].copy_from_slice(&address.octets());
            loaded.tell("cst_own", &key, &1u32.to_ne_bytes())?;
        }
    }
    let links = externals.iter();
    let links = links.map(|external| loaded.link(external.ifindex));
    Ok(Captured {
        _links: links.collect::<Result<_>>()?,
    })
}

/// Returns sockets that send on these interfaces *of the calling thread's namespace*.
pub(crate) fn sockets(loaded: &Loaded, externals: &[External]) -> Result<Vec<(PortId, Xsk)>> {
    if externals.len() > STEERED_MAX {
        let text = format!("{} interfaces: at most {STEERED_MAX}", externals.len());
        return Err(DriverError::Config(text));
    }
    let sockets = externals.iter().map(|external| {
        let xsk = Xsk::new(&loaded.slots, external.ifindex)?;
        Ok((external.port, xsk))
    });
    sockets.collect()
}
