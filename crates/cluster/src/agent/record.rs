//! The JSON values that agents write into the store.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::underlay::Key;

/// The agent that holds a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    /// Version of Constel.
    pub(crate) version: String,
    /// A random identifier of this run of the agent.
    pub(crate) session: String,
}

/// The description of a machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Version of Constel.
    pub version: String,
    /// Host name.
    pub host: String,
    /// Process ID of the agent on that host.
    pub pid: u32,
    /// Share of a lab's nodes, in proportion to the weights of the other machines.
    pub weight: u32,
    /// Maximum number of nodes.
    pub capacity: Option<u32>,
    /// Number of threads that create nodes. Each thread creates one node at a time.
    pub workers: u32,
    /// Number of processors.
    pub cores: u32,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// Load average of the last minute: tasks that ran or waited.
    pub load: f64,
    /// Nodes of labs that run there.
    pub nodes: u64,
    /// The address where it listens for other machines, or `None` if it does not listen.
    pub underlay: Option<UnderlayAt>,
    /// The state of its clock, or `None` before the first measurement.
    pub clock: Option<Clock>,
}

/// The address where a machine listens for others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnderlayAt {
    /// Name of the interface.
    pub interface: String,
    /// Address, and the port of UDP (pings) and TCP (requests).
    pub address: SocketAddr,
    /// The key that authenticates pings and requests to this machine, and the replies. Without it, nothing is answered.
    pub key: Key,
    /// MTU of the interface, bytes.
    pub mtu_bytes: u32,
    /// Ethernet address of the interface, if raw frames are available there.
    pub ethernet: Option<[u8; 6]>,
}

/// The offset between a machine's wall clock and that of the reference, which is the machine that joined first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// Name of the reference.
    pub against: String,
    /// Lead over the reference, nanoseconds. Negative: behind.
    pub offset_ns: i64,
    /// Upper bound of the error, nanoseconds. It holds if the clocks' rates differ by less than 200 parts per million and
    /// none is set.
    pub error_ns: u64,
    /// Half of the shortest round-trip time, nanoseconds.
    pub one_way_ns: u64,
    /// Method of the last measurement.
    pub by: ClockMethod,
    /// Number of times that one of the two clocks was set.
    pub steps: u64,
}

/// The method by which a clock is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClockMethod {
    /// The machine itself is the reference.
    Itself,
    /// Datagrams between the machines.
    Underlay,
    /// Requests and replies through the store.
    Store,
}

impl ClockMethod {
    /// Returns the method as in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Itself => "itself",
            Self::Underlay => "underlay",
            Self::Store => "store",
        }
    }
}
