//! What agents write into the store, as JSON.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// Who has a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    /// Constel's version.
    pub(crate) version: String,
    /// This life of the agent: drawn at random.
    pub(crate) session: String,
}

/// How a machine is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Constel's version.
    pub version: String,
    /// The name that the host has for itself.
    pub host: String,
    /// The agent's process there.
    pub pid: u32,
    /// Its part of a lab, in proportion to the other machines' weights.
    pub weight: u32,
    /// Nodes that it takes at most.
    pub capacity: Option<u32>,
    /// Threads that make its nodes, each one at a time.
    pub workers: u32,
    /// Processors.
    pub cores: u32,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// Tasks that ran or waited, mean of the last minute.
    pub load: f64,
    /// Nodes of labs that run there.
    pub nodes: u64,
    /// Where it listens for other machines; `None`: nowhere.
    pub underlay: Option<UnderlayAt>,
    /// What is known of its clock; `None`: nothing yet.
    pub clock: Option<Clock>,
}

/// Where a machine listens for others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnderlayAt {
    /// The interface.
    pub interface: String,
    /// Address and UDP port.
    pub address: SocketAddr,
    /// Who knows it is answered.
    pub key: u64,
    /// The interface's MTU, bytes.
    pub mtu_bytes: u32,
    /// Its Ethernet address, if raw frames can be had there.
    pub ethernet: Option<[u8; 6]>,
}

/// How far a machine's wall clock is from that of the reference: the machine that has been there longest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// The reference.
    pub against: String,
    /// Ahead of it by so much, nanoseconds; negative: behind.
    pub offset_ns: i64,
    /// Wrong by no more than this, as long as the clocks' rates differ by less than 200 parts per million and none is set.
    pub error_ns: u64,
    /// Half of the shortest way there and back, nanoseconds.
    pub way_ns: u64,
    /// How it was measured last.
    pub by: By,
    /// How often one of both clocks was found to have been set.
    pub steps: u64,
}

/// How a clock is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// It is the reference itself.
    Itself,
    /// Datagrams between the machines.
    Underlay,
    /// Questions and answers in the store.
    Store,
}

impl By {
    /// As in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Itself => "itself",
            Self::Underlay => "underlay",
            Self::Store => "store",
        }
    }
}
