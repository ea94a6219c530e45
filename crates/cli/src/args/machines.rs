//! Flags of labs on several machines.

use std::str::FromStr;

use clap::{Args, ValueEnum};
use constel_cluster::machines::{Machines, Pin, PlacementPolicy};
use constel_cluster::store::StoreLocation as Store;
use constel_control::TransportChoice;
use constel_units::TimeSpan;

/// The machines of a lab, and their store.
#[derive(Debug, Args)]
pub(crate) struct OnThere {
    /// Run on these machines, whose agents share the store: names separated by commas, or `all`. Each machine has nodes in
    /// proportion to its agent's weight, up to its capacity. Default: this machine only.
    #[arg(long, value_name = "NAMES", requires = "store")]
    pub(crate) machines: Option<Names>,
    /// Store that the machines share: `etcd://HOST:PORT`, or a folder's path for machines of one host.
    #[arg(long, value_name = "STORE", requires = "machines")]
    pub(crate) store: Option<Store>,
    /// Method of assigning nodes to machines.
    #[arg(long, value_enum, default_value_t, requires = "machines")]
    pub(crate) place: PlacementArg,
    /// Assign a node to a machine: NODE=MACHINE, where NODE may be a pattern with `*` and `?`. May be repeated.
    #[arg(long, value_name = "NODE=MACHINE", requires = "machines")]
    pub(crate) pin: Vec<Pin>,
    /// Transport of frames between the machines. With `ethernet` and `auto` the machines test it first.
    #[arg(long, value_enum, default_value_t, requires = "machines")]
    pub(crate) between: TransportArg,
    /// Send frames between the machines without encryption: saves some microseconds a frame, and any host on their network
    /// can forge frames.
    #[arg(long, requires = "machines")]
    pub(crate) insecure: bool,
}

/// The transport of frames between machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum TransportArg {
    /// UDP: over any IP network.
    #[default]
    Udp,
    /// Raw Ethernet without IP: all machines' underlays must be on one segment with a sufficient MTU.
    Ethernet,
    /// Raw Ethernet if possible, otherwise UDP.
    Auto,
}

impl From<TransportArg> for TransportChoice {
    fn from(between: TransportArg) -> Self {
        match between {
            TransportArg::Udp => Self::Udp,
            TransportArg::Ethernet => Self::Ethernet,
            TransportArg::Auto => Self::Auto,
        }
    }
}

/// `all`, or a list of names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Names {
    /// All machines that are up.
    All,
    /// The machines with these names.
    These(Vec<String>),
}

impl Names {
    /// Returns the names; `None` is all machines.
    pub(crate) fn list(&self) -> Option<&[String]> {
        match self {
            Self::All => None,
            Self::These(names) => Some(names),
        }
    }
}

impl FromStr for Names {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self::All);
        }
        // Weights and capacities are settings of the agents.
        let machines: Machines = text.parse().map_err(|e| format!("{e}"))?;
        let plain = |m: &&constel_cluster::machines::Machine| m.weight == 1 && m.capacity.is_none();
        if let Some(more) = machines.all().iter().find(|machine| !plain(machine)) {
            return Err(format!(
                "{more}: weight and capacity are given to `constel agent`; write {} alone",
                more.name
            ));
        }
        let names = machines.all().iter().map(|machine| machine.name.clone());
        Ok(Self::These(names.collect()))
    }
}

/// A lab on several machines.
#[derive(Debug, Args)]
pub(crate) struct OnMachines {
    /// Divide the scenario over these machines, for example `a,b=2,c/500`: names, each with an optional weight after `=` and an
    /// optional capacity after `/`. A machine has nodes in proportion to its weight (default: 1), up to its capacity. Prints
    /// each machine's nodes and the edges between machines.
    #[arg(long, value_name = "MACHINES", conflicts_with_all = ["product", "at"])]
    pub(crate) machines: Option<Machines>,
    /// Method of assigning nodes to machines.
    #[arg(long, value_enum, default_value_t, requires = "machines")]
    pub(crate) place: PlacementArg,
    /// Assign a node to a machine: NODE=MACHINE, where NODE may be a pattern with `*` and `?`. May be repeated.
    #[arg(long, value_name = "NODE=MACHINE", requires = "machines")]
    pub(crate) pin: Vec<Pin>,
    /// Also plan all steps up to this lab time, and count the operations of each machine; creates nothing.
    #[arg(long, value_name = "TIME", requires = "machines")]
    pub(crate) dry: Option<TimeSpan>,
}

/// The method of assigning nodes to machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum PlacementArg {
    /// Keep neighbours together, so that few edges cross between machines.
    #[default]
    FewestCrossings,
    /// Alternately, in proportion to the weights (OpenSN's Algorithm 1).
    RoundRobin,
}

impl From<PlacementArg> for PlacementPolicy {
    fn from(place: PlacementArg) -> Self {
        match place {
            PlacementArg::FewestCrossings => Self::FewestCrossings,
            PlacementArg::RoundRobin => Self::RoundRobin,
        }
    }
}
