//! Flags of what is spread over several machines.

use std::str::FromStr;

use clap::{Args, ValueEnum};
use constel_control::Choice;
use constel_machines::{Machines, Order, Pin};
use constel_store::Place as Store;
use constel_units::TimeSpan;

/// Machines that are there, and what they share.
#[derive(Debug, Args)]
pub(crate) struct OnThere {
    /// On these machines, whose agents share the store: names joined by commas, or `all` that are up. Each has nodes in proportion
    /// to its agent's weight, and never more than its capacity.
    #[arg(long, value_name = "NAMES", requires = "store")]
    pub(crate) machines: Option<Names>,
    /// What the machines share: `etcd://HOST:PORT`, or for machines of one host the path of a folder.
    #[arg(long, value_name = "STORE", requires = "machines")]
    pub(crate) store: Option<Store>,
    /// How nodes are dealt to machines.
    #[arg(long, value_enum, default_value_t, requires = "machines")]
    pub(crate) place: Place,
    /// Nodes that a machine has in any case: NODE=MACHINE, where NODE may be a pattern with `*` and `?`. May be repeated.
    #[arg(long, value_name = "NODE=MACHINE", requires = "machines")]
    pub(crate) pin: Vec<Pin>,
    /// By what frames go between the machines. With `ethernet` and `auto` the machines try it before.
    #[arg(long, value_enum, default_value_t, requires = "machines")]
    pub(crate) between: Between,
    /// Encrypt frames between the machines, and take none that somebody else made or changed.
    #[arg(long, requires = "machines")]
    pub(crate) encrypt: bool,
}

/// By what frames go between machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Between {
    /// UDP: wherever IP goes.
    #[default]
    Udp,
    /// Raw Ethernet below IP: all machines' underlays are on one segment, whose MTU is large enough.
    Ethernet,
    /// Raw Ethernet where that is so, else UDP.
    Auto,
}

impl From<Between> for Choice {
    fn from(between: Between) -> Self {
        match between {
            Between::Udp => Self::Udp,
            Between::Ethernet => Self::Ethernet,
            Between::Auto => Self::Auto,
        }
    }
}

/// `all`, or names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Names {
    /// All that are up.
    All,
    /// These.
    These(Vec<String>),
}

impl Names {
    /// The names; `None`: all.
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
        // Weights and capacities are what agents say.
        let machines: Machines = text.parse().map_err(|e| format!("{e}"))?;
        let plain = |m: &&constel_machines::Machine| m.weight == 1 && m.capacity.is_none();
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
    /// Divide the scenario over these machines, for example `a,b=2,c/500`: names, each with its weight after `=` and its
    /// capacity after `/` where wanted. A machine has nodes in proportion to its weight (1 unless given), and never more than
    /// its capacity. Prints who has what, and which edges cross.
    #[arg(long, value_name = "MACHINES", conflicts_with_all = ["product", "at"])]
    pub(crate) machines: Option<Machines>,
    /// How nodes are dealt to machines.
    #[arg(long, value_enum, default_value_t, requires = "machines")]
    pub(crate) place: Place,
    /// Nodes that a machine has in any case: NODE=MACHINE, where NODE may be a pattern with `*` and `?`. May be repeated.
    #[arg(long, value_name = "NODE=MACHINE", requires = "machines")]
    pub(crate) pin: Vec<Pin>,
    /// Also plan all steps up to this lab time, and count what each machine would carry out; nothing is made.
    #[arg(long, value_name = "TIME", requires = "machines")]
    pub(crate) dry: Option<TimeSpan>,
}

/// How nodes are dealt to machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Place {
    /// Neighbours together, so that few edges cross.
    #[default]
    FewestCrossings,
    /// By turns, in proportion to the weights (OpenSN's Algorithm 1).
    RoundRobin,
}

impl From<Place> for Order {
    fn from(place: Place) -> Self {
        match place {
            Place::FewestCrossings => Self::FewestCrossings,
            Place::RoundRobin => Self::RoundRobin,
        }
    }
}
