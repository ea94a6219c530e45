//! By what frames leave for other machines and come in from them: a UDP socket, or raw Ethernet on an interface.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use constel_host::datagrams::{Outgoing, send_all};
use constel_host::ethernet::{self, Interface};
use constel_link::PortId;
use constel_underlay::{Carriage, ETHER_TYPE, Endpoint};
use rustix::net::sockopt::{
    set_socket_recv_buffer_size, set_socket_recv_buffer_size_force, set_socket_send_buffer_size,
    set_socket_send_buffer_size_force,
};

use crate::OpenError;
use crate::ethernet::Ethernet;
use crate::machines::Machines;

/// What the kernel keeps of frames that nobody had time for: those of some ten milliseconds.
const BUFFER_BYTES: usize = 4 << 20;

/// Where this machine sends and hears.
#[derive(Debug)]
pub enum Wire {
    /// By this socket.
    Udp(UdpSocket),
    /// On this interface of the calling thread's namespace, as raw Ethernet.
    Ethernet(Interface),
}

impl Wire {
    /// What it is.
    #[must_use]
    pub fn carriage(&self) -> Carriage {
        match self {
            Self::Udp(_) => Carriage::Udp,
            Self::Ethernet(_) => Carriage::Ethernet,
        }
    }

    /// Where others send to.
    ///
    /// # Errors
    /// The operating system's.
    pub fn endpoint(&self) -> io::Result<Endpoint> {
        match self {
            Self::Udp(socket) => socket.local_addr().map(Endpoint::Udp),
            Self::Ethernet(interface) => Ok(Endpoint::Ethernet(interface.address.0)),
        }
    }

    /// The same once more.
    ///
    /// # Errors
    /// The operating system's.
    pub fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Udp(socket) => socket.try_clone().map(Self::Udp),
            Self::Ethernet(interface) => Ok(Self::Ethernet(interface.clone())),
        }
    }
}

/// An open [`Wire`].
#[derive(Debug)]
pub(crate) enum Socket {
    Udp(UdpSocket),
    Ethernet(Ethernet),
}

impl Socket {
    pub(crate) fn open(wire: Wire, lab: u32, machines: &Machines) -> Result<Self, OpenError> {
        let socket = match wire {
            Wire::Udp(socket) => Self::Udp(socket),
            Wire::Ethernet(interface) => Self::Ethernet(Ethernet::open(&interface, lab, machines)?),
        };
        // Where we may not have that much, what we may.
        if set_socket_recv_buffer_size_force(&socket, BUFFER_BYTES).is_err() {
            set_socket_recv_buffer_size(&socket, BUFFER_BYTES).map_err(io::Error::from)?;
        }
        if set_socket_send_buffer_size_force(&socket, BUFFER_BYTES).is_err() {
            set_socket_send_buffer_size(&socket, BUFFER_BYTES).map_err(io::Error::from)?;
        }
        Ok(socket)
    }

    /// What the kernel is told of a datagram's way; of raw Ethernet the program on the interface reads it in the frame.
    pub(crate) fn address_of(to: Endpoint) -> Option<SocketAddr> {
        match to {
            Endpoint::Udp(address) => Some(address),
            Endpoint::Ethernet(_) => None,
        }
    }

    /// Sends all of them, without waiting; how many were sent.
    pub(crate) fn send(&self, datagrams: &[Outgoing]) -> usize {
        // Addresses are written where the frame leaves.
        let header = ethernet::header([0; 6], [0; 6], ETHER_TYPE);
        let head = match self {
            Self::Udp(_) => &[][..],
            Self::Ethernet(_) => &header,
        };
        send_all(self, head, datagrams)
    }

    /// The datagram in what came, and where it came from.
    pub(crate) fn datagram_in(
        bytes: &mut [u8],
        from: Option<SocketAddr>,
    ) -> Option<(Endpoint, &mut [u8])> {
        if let Some(address) = from {
            return Some((Endpoint::Udp(address), bytes));
        }
        let (source, datagram) = ethernet::split(bytes)?;
        Some((Endpoint::Ethernet(source), datagram))
    }

    /// A port's node is on another machine from now on.
    pub(crate) fn give(&self, port: PortId, machine: usize) -> Result<(), OpenError> {
        match self {
            Self::Udp(_) => Ok(()),
            Self::Ethernet(ethernet) => ethernet.give(port, machine),
        }
    }

    /// Frames of nobody who is one of the machines, as far as they do not come as far as the socket.
    pub(crate) fn strangers(&self) -> u64 {
        match self {
            Self::Udp(_) => 0,
            Self::Ethernet(ethernet) => ethernet.strangers(),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Udp(socket) => socket.as_fd(),
            Self::Ethernet(ethernet) => ethernet.as_fd(),
        }
    }
}
