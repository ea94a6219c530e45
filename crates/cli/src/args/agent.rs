//! `agent`, `machines`.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::Args;
use constel_cluster::agent::Listen;
use constel_cluster::store::StoreLocation;

/// `agent`.
#[derive(Debug, Args)]
pub(crate) struct Agent {
    /// Store that the machines share: `etcd://HOST:PORT`, or a folder's path for machines of one host.
    #[arg(long, value_name = "STORE")]
    pub(crate) store: StoreLocation,
    /// Name of this machine. Default: the host's name.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Weight of this machine: it has nodes in proportion to the weights of all machines.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) weight: u32,
    /// Maximum number of nodes on this machine. Default: no limit.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) capacity: Option<u32>,
    /// Threads that build nodes in parallel. Default: one per processor, at most four.
    #[arg(long, value_name = "N")]
    pub(crate) workers: Option<NonZeroU32>,
    /// Interface, and optionally port, on which this machine receives frames (UDP) and commands (TCP). Default port: a free one.
    /// Without this flag the machine opens no port, and clocks are compared through the store.
    #[arg(long, value_name = "INTERFACE[:PORT]")]
    pub(crate) underlay: Option<Listen>,
}

/// `part`.
#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    /// Folder with the order and the scenario's files.
    pub(crate) folder: PathBuf,
    /// Name of this machine.
    #[arg(long, value_name = "NAME")]
    pub(crate) machine: String,
    /// Address on which this machine receives data by UDP.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) address: IpAddr,
    /// Interface on which it receives data by raw Ethernet.
    #[arg(long, value_name = "INTERFACE")]
    pub(crate) interface: String,
    /// Threads that build nodes.
    #[arg(long, value_name = "N")]
    pub(crate) workers: NonZeroU32,
}

/// `machines`.
#[derive(Debug, Args)]
pub(crate) struct ListMachines {
    /// Store that the machines share: `etcd://HOST:PORT`, or a folder's path for machines of one host.
    #[arg(long, value_name = "STORE")]
    pub(crate) store: StoreLocation,
    /// Remove a lost machine from the store.
    #[arg(long, value_name = "NAME", conflicts_with = "json")]
    pub(crate) forget: Option<String>,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}
