//! Flags of what is spread over several machines.

use clap::{Args, ValueEnum};
use constel_machines::{Machines, Order, Pin};
use constel_units::TimeSpan;

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
