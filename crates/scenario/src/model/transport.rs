//! Transfers, and the protocol functions of nodes on the path for them.

use constel_units::{DataSize, Ratio};

use super::{Destination, Family, Name};
pub use crate::raw::LeotpVariant;

/// A download, measured at both ends: one-way delay of each record, throughput, and the sender's packets.
#[derive(Debug, Clone, PartialEq)]
pub struct Transfer {
    /// The sender, which has the data and is the server.
    pub from: Name,
    /// The receiver, which downloads; another node than `from`.
    pub to: Destination,
    /// How much, at least 1 byte; `None`: as much as there is time for.
    pub size: Option<DataSize>,
    /// The transport protocol, with its settings.
    pub over: TransferProtocol,
    /// Internet protocol, one of the scenario's.
    pub family: Family,
    /// The server's port; no other flow's server on that node has it.
    pub port: u16,
    /// Whether each record's times are kept.
    pub records: bool,
}

/// The transport protocol of a transfer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransferProtocol {
    /// LEOTP.
    Leotp(LeotpSettings),
    /// TCP with this congestion control at the sender.
    Tcp {
        /// Whether the kernel has it is for the host to say.
        congestion: String,
    },
    /// UDP with PCC Vivace.
    Vivace,
}

/// Parameters of LEOTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeotpSettings {
    /// The variant whose parameters are the defaults.
    pub variant: LeotpVariant,
    /// Parameters that differ from the variant's, `name=value`; they have been checked.
    pub set: Vec<String>,
}

impl LeotpSettings {
    /// The settings as options of the `leotp` command.
    pub fn arguments(&self) -> Vec<String> {
        let variant = self.variant.as_str().to_owned();
        let mut words = vec!["--variant".to_owned(), variant];
        for setting in &self.set {
            words.extend(["--set".to_owned(), setting.clone()]);
        }
        words
    }
}

/// The protocol functions of nodes on the path, for the flows that pass them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PathFunctions {
    /// LEOTP Midnodes and TCP gateways; `None`: none.
    pub leotp: Option<Midnodes>,
    /// Proxies that split TCP connections; `None`: none.
    pub split_tcp: Option<SplitTcp>,
    /// Congestion controls of TCP that commands may use, beside those of flows.
    pub congestion: Vec<String>,
}

/// The placement of Midnodes and gateways.
#[derive(Debug, Clone, PartialEq)]
pub struct Midnodes {
    /// The nodes that are Midnodes.
    pub place: Placement,
    /// The two TCP gateways; `None`: none.
    pub gateways: Option<[Gateway; 2]>,
    /// Their parameters.
    pub settings: LeotpSettings,
}

/// A TCP gateway: TCP connections from the hosts behind it to those behind the other one go over LEOTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gateway {
    /// A station or host.
    pub node: Name,
    /// The hosts that reach all other nodes over it alone, sorted; at least one.
    pub behind: Vec<Name>,
}

/// The placement of split TCP.
#[derive(Debug, Clone, PartialEq)]
pub struct SplitTcp {
    /// The nodes with a proxy.
    pub place: Placement,
    /// Congestion control of the proxies.
    pub congestion: String,
}

/// A choice of nodes.
#[derive(Debug, Clone, PartialEq)]
pub struct Placement {
    /// Share of the satellites.
    pub satellites: Ratio,
    /// Nodes by name, in the order of the file.
    pub nodes: Vec<Name>,
}
