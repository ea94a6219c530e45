//! `agent`, `machines`.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::Args;
use constel_agent::Listen;
use constel_store::Place;

/// `agent`.
#[derive(Debug, Args)]
pub(crate) struct Agent {
    /// What the machines share: `etcd://HOST:PORT`, or for machines of one host the path of a folder.
    #[arg(long, value_name = "STORE")]
    pub(crate) store: Place,
    /// Name of this machine among the others; the host's name unless given.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Its part of a lab, in proportion to the other machines' weights.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) weight: u32,
    /// Nodes that it takes at most.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) capacity: Option<u32>,
    /// Threads that make its nodes, each one at a time; one a processor and at most four unless given.
    #[arg(long, value_name = "N")]
    pub(crate) workers: Option<NonZeroU32>,
    /// Listen for the other machines on the address of this interface, by UDP; on a port that is free unless one is given.
    /// Without it nothing listens, and clocks are compared through the store.
    #[arg(long, value_name = "INTERFACE[:PORT]")]
    pub(crate) underlay: Option<Listen>,
}

/// `part`.
#[derive(Debug, Args)]
pub(crate) struct Part {
    /// The folder that has the order, and the scenario's files.
    pub(crate) folder: PathBuf,
    /// This machine.
    #[arg(long, value_name = "NAME")]
    pub(crate) machine: String,
    /// Where it listens for the others by UDP.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) address: IpAddr,
    /// The interface that it does so on by raw Ethernet.
    #[arg(long, value_name = "INTERFACE")]
    pub(crate) interface: String,
    /// Threads that make its nodes.
    #[arg(long, value_name = "N")]
    pub(crate) workers: NonZeroU32,
}

/// `machines`.
#[derive(Debug, Args)]
pub(crate) struct ListMachines {
    /// What the machines share: `etcd://HOST:PORT`, or for machines of one host the path of a folder.
    #[arg(long, value_name = "STORE")]
    pub(crate) store: Place,
    /// Forget a machine that was lost and does not come back.
    #[arg(long, value_name = "NAME", conflicts_with = "json")]
    pub(crate) forget: Option<String>,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}
