//! The wire on which frames leave for other machines and arrive from them: a UDP socket, or raw Ethernet on an
//! interface.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use constel_host::datagrams::{Outgoing, send_all};
use constel_host::ethernet::{self, Interface};
use constel_link::PortId;
use rustix::net::sockopt::{
    set_socket_recv_buffer_size, set_socket_recv_buffer_size_force, set_socket_send_buffer_size,
    set_socket_send_buffer_size_force,
};

use crate::crossing::OpenError;
use crate::crossing::ethernet::Ethernet;
use crate::crossing::machines::Machines;
use crate::underlay::{ETHER_TYPE, Endpoint, MachineTransport};

/// The size of the kernel's buffers for frames that wait to be read or sent: about ten milliseconds of traffic.
const BUFFER_BYTES: usize = 4 << 20;

/// The socket or interface on which this machine sends and receives.
#[derive(Debug)]
pub enum Wire {
    /// This UDP socket.
    Udp(UdpSocket),
    /// This interface of the calling thread's namespace, with raw Ethernet.
    Ethernet(Interface),
}

impl Wire {
    /// Returns the kind of the wire.
    #[must_use]
    pub fn transport(&self) -> MachineTransport {
        match self {
            Self::Udp(_) => MachineTransport::Udp,
            Self::Ethernet(_) => MachineTransport::Ethernet,
        }
    }

    /// Returns the address to which other machines send.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn endpoint(&self) -> io::Result<Endpoint> {
        match self {
            Self::Udp(socket) => socket.local_addr().map(Endpoint::Udp),
            Self::Ethernet(interface) => Ok(Endpoint::Ethernet(interface.address.0)),
        }
    }

    /// Duplicates the handle.
    ///
    /// # Errors
    /// Errors of the operating system.
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
        // Without CAP_NET_ADMIN the size is limited by the system's maximum.
        if set_socket_recv_buffer_size_force(&socket, BUFFER_BYTES).is_err() {
            set_socket_recv_buffer_size(&socket, BUFFER_BYTES).map_err(io::Error::from)?;
        }
        if set_socket_send_buffer_size_force(&socket, BUFFER_BYTES).is_err() {
            set_socket_send_buffer_size(&socket, BUFFER_BYTES).map_err(io::Error::from)?;
        }
        Ok(socket)
    }

    /// Returns the destination address for the kernel. Raw Ethernet needs no such address: the program on
    /// the interface reads it from the frame.
    pub(crate) fn address_of(to: Endpoint) -> Option<SocketAddr> {
        match to {
            Endpoint::Udp(address) => Some(address),
            Endpoint::Ethernet(_) => None,
        }
    }

    /// Sends all of them without waiting and returns how many were sent.
    pub(crate) fn send(&self, datagrams: &[Outgoing]) -> usize {
        // The egress program on the interface writes the addresses.
        let header = ethernet::header([0; 6], [0; 6], ETHER_TYPE);
        let head = match self {
            Self::Udp(_) => &[][..],
            Self::Ethernet(_) => &header,
        };
        send_all(self, head, datagrams)
    }

    /// Returns the datagram within the received bytes, and the sender's address.
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

    /// Records that a port's node is on another machine from now on.
    pub(crate) fn give(&self, port: PortId, machine: usize) -> Result<(), OpenError> {
        match self {
            Self::Udp(_) => Ok(()),
            Self::Ethernet(ethernet) => ethernet.give(port, machine),
        }
    }

    /// Returns the number of frames from unknown machines that the filter dropped before they reached the socket.
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
