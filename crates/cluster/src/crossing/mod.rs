//! Edges between machines of one lab: one socket on each machine carries the frames of all edges that cross, by UDP
//! or as raw Ethernet.
//!
//! The relay of the machine where an edge's frames are sent serves that edge. [`Crossing::open`] gives that relay
//! the carrier for ports whose nodes are on other machines ([`FarPorts`]). [`Crossing::listen`] delivers the frames
//! that arrive from other machines at the instants at which they are due. [`crate::underlay`] defines the format
//! of the datagrams and the checks on them; this module has the socket, the thread that listens, and the table of
//! which machine has which port.

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
use serde::Serialize;

use carrier::Carrier;
use machines::Machines;
use wire::Socket;

use crate::underlay::CrossingCounts;

pub use crate::underlay::{Endpoint, Key, MachineTransport};
pub use constel_host::ethernet::Interface;
pub use listen::Listening;
pub use machines::{LayoutError, Machine};
pub use time::LabTime;
pub use wire::Wire;

/// The machines of a lab, seen from one of them. All machines number machines and ports alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The lab's number, of which 24 bits are used.
    pub lab: u32,
    /// The number of this run of the lab, the same on all its machines.
    pub session: u32,
    /// This machine's number.
    pub here: usize,
    /// All machines, by number.
    pub machines: Vec<Machine>,
    /// The number of the machine that has each port's node, by port.
    pub owners: Vec<usize>,
    /// Frames are sent to the other machine this long before they are due. The rest of a longer edge's delay passes
    /// here, so that losses and frames sent in vain are known on this machine. The value must cover the longest
    /// path to another machine and the error of the clocks.
    pub ahead_ns: Nanos,
    /// The key that encrypts and authenticates frames; `None` for no encryption.
    pub key: Option<Key>,
}

/// The traffic between this machine and the others.
#[derive(Debug)]
pub struct Crossing {
    shared: Arc<Shared>,
}

/// The state that the relay's thread, the listening thread and callers share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) socket: Socket,
    pub(crate) machines: Machines,
    pub(crate) time: LabTime,
    pub(crate) lab: u32,
    /// The instant until which this machine may send, `CLOCK_BOOTTIME`, nanoseconds.
    pub(crate) until_ns: AtomicU64,
    pub(crate) sent: AtomicU64,
    pub(crate) unsent: AtomicU64,
    pub(crate) to_lost: AtomicU64,
    pub(crate) strangers: AtomicU64,
}

/// Counts of frames that crossed, of all machines together unless a field names another scope.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Frames that were sent.
    pub sent: u64,
    /// Frames that could not be sent: the socket had no room, there was no path, or the lease of this machine had
    /// expired.
    pub unsent: u64,
    /// Frames for machines that are lost. They are discarded.
    pub to_lost: u64,
    /// Datagrams, or frames with the lab's number, from an address that no machine of the lab has.
    pub strangers: u64,
    /// The counts of received frames for each other machine that sent any, by its name.
    pub from: Vec<(String, CrossingCounts)>,
}

impl Crossing {
    /// Opens the crossing on the wire that others send to. Also returns the ports to give to the relay
    /// ([`Plane::far`](constel_drivers::Plane::far)).
    ///
    /// # Errors
    /// [`LayoutError`] for machines that are not valid; errors of the operating system.
    pub fn open(wire: Wire, layout: Layout, time: LabTime) -> Result<(Self, FarPorts), OpenError> {
        let (lab, ahead_ns) = (layout.lab & 0x00ff_ffff, layout.ahead_ns);
        let machines = Machines::new(layout, wire.transport())?;
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

    /// Delivers frames from other machines to this link plane until the returned value is dropped.
    ///
    /// # Errors
    /// When no thread can be started, or the socket is not one that listens.
    pub fn listen(&self, links: Arc<dyn Links>) -> io::Result<Listening> {
        Listening::start(Arc::clone(&self.shared), links)
    }

    /// Sets the instant until which this machine may send for its nodes, `CLOCK_BOOTTIME`. From then on nothing is
    /// sent, even if this process was suspended in between. There is no limit until this is called.
    pub fn may_send_until(&self, boottime_ns: u64) {
        self.shared.until_ns.store(boottime_ns, Ordering::Relaxed);
    }

    /// Removes a machine from the lab: from here on nothing is sent to it, and its frames are discarded. Returns
    /// false when there is no such machine, or it is this one.
    pub fn lose(&self, machine: usize) -> bool {
        self.shared.machines.lose(machine)
    }

    /// Assigns the nodes of these ports to a machine from here on: frames for them go there, and only frames from
    /// there are accepted as theirs.
    ///
    /// # Errors
    /// [`LayoutError::NoMachine`]; with raw Ethernet, the errors of the kernel.
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
    /// Returns the counts so far.
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

/// The reason why a crossing cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The machines are not valid.
    #[error(transparent)]
    Wrong(#[from] LayoutError),
    /// The operating system refused the socket.
    #[error("the socket between the machines: {0}")]
    Os(#[from] io::Error),
    /// The kernel's network refused a setting.
    #[error("between the machines: {0}")]
    Host(#[from] constel_host::Error),
    /// The kernel refused the programs for raw Ethernet.
    #[error("{0}; UDP needs none of them (--between udp)")]
    Bpf(#[from] constel_drivers::bpf::BpfError),
}

/// The sending and the receiving port of an edge that crosses.
pub(crate) type Ends = (PortId, PortId);
