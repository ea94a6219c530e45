//! A lab on several machines, as values: the machine of each node, the edges that cross, and the load of each machine.
//!
//! Every machine of a lab computes the same [`Placement`] from the same scenario, and executes its
//! [share](constel_plan::StepPlan::share) of each step. This module is pure: it does not use a machine, a clock or a network.
//!
//! ```
//! use constel_cluster::machines::{Machines, weighted_round_robin};
//!
//! let machines: Machines = "a,b=2".parse().unwrap();
//! let weights: Vec<u32> = machines.all().iter().map(|machine| machine.weight).collect();
//! let dealt = weighted_round_robin(&weights, 0..6, |_| Vec::<()>::new());
//! assert_eq!(dealt.instances, [vec![0, 3], vec![1, 2, 4, 5]]);
//! ```

mod graph;
mod homes;
mod load;
mod machine;
mod partition;
mod placement;
mod round_robin;
mod ties;
mod without;

pub use homes::{Homes, Moved};
pub use load::{Load, Loads};
pub use machine::{MOST_MACHINES, Machine, Machines, MachinesError, NameError};
pub use placement::{Pin, PinError, Placement, PlacementError, PlacementPolicy};
pub use round_robin::{Dealt, weighted_round_robin};
pub use without::Division;
