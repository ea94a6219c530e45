//! Edges between machines of one lab: one socket on each machine carries the frames of all edges that cross, by UDP or as raw Ethernet.
//!
//! An edge is served by the relay of the machine where its frames are sent. [`Crossing::open`] gives that relay what takes frames to
//! ports whose nodes are not there ([`FarPorts`]), and [`Crossing::listen`] hands over what comes from other machines, at the instants
//! at which it is due. What is written on frames and what is made of them is [`constel_underlay`]'s; here are the socket, the thread that
//! listens, and who has which port.
#![forbid(unsafe_code)]

mod carrier;
mod ethernet;
mod listen;
mod machines;
mod time;
mod wire;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use constel_drivers::Links;
use constel_drivers::relay::FarPorts;
use constel_link::{Nanos, PortId};
use constel_underlay::CrossingCounts;
use serde::Serialize;

use carrier::Carrier;
use machines::Machines;
use wire::Socket;

pub use constel_host::ethernet::Interface;
pub use constel_underlay::{Carriage, Endpoint, Key};
pub use listen::Listening;
pub use machines::{Machine, Wrong};
pub use time::LabTime;
pub use wire::Wire;

/// A lab's machines, as one of them sees them. All of them number machines and ports alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The lab's number, of which 24 bits are used.
    pub lab: u32,
    /// Which run of the lab it is; all its machines have the same.
    pub session: u32,
    /// This machine's number.
    pub here: usize,
    /// All machines, by number.
    pub machines: Vec<Machine>,
    /// The number of the machine that has each port's node, by port.
    pub owners: Vec<usize>,
    /// Frames leave so much before they are due: an edge that is longer waits here for the rest, so that frames which it loses or that
    /// are sent in vain are known here. The longest way to another machine and the error of the clocks have to fit in.
    pub ahead_ns: Nanos,
    /// What frames are sealed with; `None`: they are not.
    pub key: Option<Key>,
}

/// What crosses between this machine and the others.
#[derive(Debug)]
pub struct Crossing {
    shared: Arc<Shared>,
}

/// What the relay's thread, the one that listens and those who ask have in common.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) socket: Socket,
    pub(crate) machines: Machines,
    pub(crate) time: LabTime,
    pub(crate) lab: u32,
    /// Until when we may send, `CLOCK_BOOTTIME`, nanoseconds.
    pub(crate) until_ns: AtomicU64,
    pub(crate) sent: AtomicU64,
    pub(crate) unsent: AtomicU64,
    pub(crate) to_lost: AtomicU64,
    pub(crate) strangers: AtomicU64,
}

/// What crossed, all machines together where nothing else is said.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Frames that were sent.
    pub sent: u64,
    /// Frames that could not be: the socket had no room, there is no way, or we may not any more.
    pub unsent: u64,
    /// Frames for machines that are lost, which go nowhere.
    pub to_lost: u64,
    /// Datagrams, or frames with the lab's number, of nobody who is one of the machines.
    pub strangers: u64,
    /// What came from each of the other machines that frames came from.
    pub from: Vec<(String, CrossingCounts)>,
}

impl Crossing {
    /// On the wire that others send to; what the relay is to be given ([`Plane::far`](constel_drivers::Plane::far)).
    ///
    /// # Errors
    /// [`Wrong`] for machines that cannot be; the operating system's.
    pub fn open(wire: Wire, layout: Layout, time: LabTime) -> Result<(Self, FarPorts), OpenError> {
        let (lab, ahead_ns) = (layout.lab & 0x00ff_ffff, layout.ahead_ns);
        let machines = Machines::new(layout, wire.carriage())?;
        let socket = Socket::open(wire, lab, &machines)?;
        let ports = machines.far_ports();
        let shared = Arc::new(Shared {
            socket,
            machines,
            time,
            lab,
            until_ns: AtomicU64::new(u64::MAX),
            sent: AtomicU64::new(0),
            unsent: AtomicU64::new(0),
            to_lost: AtomicU64::new(0),
            strangers: AtomicU64::new(0),
        });
        let carry = Box::new(Carrier::new(Arc::clone(&shared)));
        let far = FarPorts {
            ports,
            ahead_ns,
            carry,
        };
        Ok((Self { shared }, far))
    }

    /// Hands what comes from other machines to this link plane, until what is returned is dropped.
    ///
    /// # Errors
    /// When there can be no thread, or the socket is none that listens.
    pub fn listen(&self, links: Arc<dyn Links>) -> io::Result<Listening> {
        Listening::start(Arc::clone(&self.shared), links)
    }

    /// Until when this machine may send for its nodes, `CLOCK_BOOTTIME`: from then on nothing is sent, whatever kept this process
    /// from running meanwhile. For ever, unless it is said.
    pub fn may_send_until(&self, boottime_ns: u64) {
        self.shared.until_ns.store(boottime_ns, Ordering::Relaxed);
    }

    /// This machine is none of the lab's any more: from here on nothing is sent to it, and what comes from it goes nowhere. False when
    /// there is no such machine, or it is this one.
    pub fn lose(&self, machine: usize) -> bool {
        self.shared.machines.lose(machine)
    }

    /// The nodes of these ports are on this machine of the lab from here on: what is sent to them goes there, and only what comes from
    /// there is theirs.
    ///
    /// # Errors
    /// [`Wrong::NoMachine`]; what the kernel refuses, by raw Ethernet.
    pub fn give(&self, ports: &[PortId], machine: usize) -> Result<(), OpenError> {
        let Shared {
            machines, socket, ..
        } = &*self.shared;
        for &port in ports {
            machines.give(port, machine)?;
            socket.give(port, machine)?;
        }
        Ok(())
    }
}

impl Listening {
    /// What crossed so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let shared = self.shared();
        let from = self.received().into_iter();
        Counts {
            sent: shared.sent.load(Ordering::Relaxed),
            unsent: shared.unsent.load(Ordering::Relaxed),
            to_lost: shared.to_lost.load(Ordering::Relaxed),
            strangers: shared.strangers.load(Ordering::Relaxed) + shared.socket.strangers(),
            from: from
                .map(|(machine, counts)| (shared.machines.name(machine).to_owned(), counts))
                .collect(),
        }
    }
}

/// Why nothing can cross.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The machines cannot be.
    #[error(transparent)]
    Wrong(#[from] Wrong),
    /// The operating system does not let us.
    #[error("the socket between the machines: {0}")]
    Os(#[from] io::Error),
    /// Nor the kernel's network.
    #[error("between the machines: {0}")]
    Host(#[from] constel_host::Error),
    /// It refuses the programs for raw Ethernet.
    #[error("{0}; UDP needs none of them (--between udp)")]
    Bpf(#[from] constel_bpf::BpfError),
}

/// An edge that crosses.
pub(crate) type Ends = (PortId, PortId);
