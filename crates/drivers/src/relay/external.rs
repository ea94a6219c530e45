//! Interfaces of the host that nobody here made: frames come in by a program on their ingress, and go out by an AF_XDP
//! socket on each. The interface stays where it is, with its addresses and whatever else is on it.
//!
//! The program is attached by a link, so that it goes with this process, however that ends. What comes in is of the
//! interface's port, and what reaches that port goes out. Where there is a [`Steer`], it says of each frame by which port's
//! edge it goes, and on which interface it goes out then.

use std::net::IpAddr;
use std::os::fd::OwnedFd;

use constel_bpf::Mapped;
use constel_link::{Frames as _, Nanos, PortId};

use super::layout::{ADDRESSES, FLAG_CSUM, STEERED_MAX, SlotRef, TAG};
use super::object::Loaded;
use super::pool::Pool;
use super::times::Times;
use super::xsk::{Checksum, Xsk};
use crate::clock::mono_ns;
use crate::error::{DriverError, Result};

/// Tries to have an interface take a frame before it is given up...
const TRIES: u32 = 64;
/// ...and for how long it is then asked once only: its link is down, or its queue stands.
const DEAD_NS: Nanos = 10_000_000;

/// An interface of the calling thread's namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct External {
    /// The relay's port that it is. Each has one of its own.
    pub port: PortId,
    /// Its index.
    pub ifindex: u32,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// Whether the host's own frames stay the host's: those to or from `mac`, questions for the addresses `own`, and a copy
    /// of every broadcast and multicast. Else nothing that comes in reaches the host.
    pub shared: bool,
    /// Addresses of the host on it.
    pub own: Vec<IpAddr>,
}

/// Where a frame is steered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steered {
    /// The port whose edges it takes.
    pub port: PortId,
    /// The interface that it goes out on, by the order in which they were taken. The one it came in at: all others.
    pub out: u8,
}

/// Chooses the edge of each frame that comes in at an interface of the host.
pub trait Steer: Send {
    /// Where a frame goes that came in at the interface `at`, by the order in which they were taken. `addresses` are its
    /// Ethernet addresses, destination first; `rest` begins with its VLAN tag or EtherType.
    fn steer(
        &mut self,
        now: Nanos,
        at: u8,
        addresses: &mut [u8; ADDRESSES],
        rest: &mut [u8],
    ) -> Steered;
}

/// On which interfaces a frame goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outwards {
    On(usize),
    AllBut(usize),
}

/// What went out on an interface of the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExternalCounts {
    /// Frames that it took.
    pub sent: u64,
    /// Frames that it did not take: its link is down, or its queue was full.
    pub refused: u64,
}

/// Where frames go out.
#[derive(Debug)]
struct Out {
    xsk: Xsk,
    counts: ExternalCounts,
    /// Until then a frame that is refused is not offered again.
    dead_until: Nanos,
    /// The interface is down: until [`Out::dead_until`] nothing is offered.
    down: bool,
    /// Frames that the kernel will call invalid because they were given up.
    abandoned: u64,
}

/// The thread's side of all of them.
#[derive(Default)]
pub(crate) struct Externals {
    outs: Vec<Out>,
    /// The interface that a port is, counted from 1; 0 and beyond the end: none.
    of_port: Vec<u8>,
    steer: Option<Box<dyn Steer>>,
    pub(super) times: Times,
}

impl Externals {
    pub(crate) fn new(sockets: Vec<(PortId, Xsk)>) -> Externals {
        let mut externals = Externals::default();
        for (number, (port, xsk)) in (1..).zip(sockets) {
            let place = port.0 as usize;
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

    /// The interface that this port is.
    fn interface(&self, port: PortId) -> Option<usize> {
        let number = *self.of_port.get(port.0 as usize)?;
        usize::from(number).checked_sub(1)
    }

    /// Whether this port is an interface of the host.
    pub(crate) fn has(&self, port: PortId) -> bool {
        self.interface(port).is_some()
    }

    /// What is steered by from here on. What was before.
    pub(crate) fn steer_by(&mut self, steer: Box<dyn Steer>) -> Option<Box<dyn Steer>> {
        self.steer.replace(steer)
    }

    /// The port whose edges this frame takes, and the frame with where it goes out.
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
        let (addresses, rest) = pool.whole(frame);
        let steered = steer.steer(now, interface, addresses, rest);
        (steered.port, frame.steered(interface, steered.out))
    }

    /// Where a frame that reaches this port goes out.
    pub(crate) fn out_of(&self, port: PortId, frame: SlotRef) -> Option<Outwards> {
        match frame.passage() {
            Some((from, to)) if from == to => Some(Outwards::AllBut(usize::from(from))),
            Some((_, to)) => Some(Outwards::On(usize::from(to))),
            None => self.interface(port).map(Outwards::On),
        }
    }

    /// Hand a frame to its interfaces' sockets, which [`Externals::space`] has room for.
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
        // There is room for the relay's tag behind the addresses, and no tag here.
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

    /// Frames that can be queued on any of them.
    pub(crate) fn space(&self) -> u32 {
        let spaces = self.outs.iter().map(|out| out.xsk.space());
        spaces.min().unwrap_or(u32::MAX)
    }

    pub(crate) fn pending(&self) -> u32 {
        self.outs.iter().map(|out| out.xsk.pending()).sum()
    }

    /// Have the kernel take what is queued. What an interface has no room for at the moment stays queued.
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
    /// Itself, if a frame may be offered; one that may not is counted as refused.
    fn when_up(&mut self) -> Option<&mut Out> {
        if !self.down {
            return Some(self);
        }
        let now = mono_ns();
        if now >= self.dead_until {
            // Nothing is queued: this only asks.
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
                    if lost > 0 {
                        self.dead_until = mono_ns() + DEAD_NS;
                    }
                }
                // The interface is down, or gone: what is queued would only be sent long after.
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

/// Interfaces whose frames come in. They stop coming in when this is dropped, and at the latest with the process.
#[derive(Debug, Default)]
pub struct Captured {
    _links: Vec<OwnedFd>,
}

/// Have what comes in at these interfaces *of the calling thread's namespace* captured, as frames of their ports.
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

/// Sockets that send on these interfaces *of the calling thread's namespace*.
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
