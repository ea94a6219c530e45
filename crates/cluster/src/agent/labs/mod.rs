//! The shared state of labs on several machines. One process, the [controller](lead()), directs the lab. Each machine's
//! agent starts a worker process for its part and exchanges [lines](speech) with it.
//!
//! | key below `constel/labs/` | value | written by | removed |
//! |---|---|---|---|
//! | `order/LAB` | the lab to run, and its controller ([`LabDescription`]) | the controller | with its lease, which ends the lab |
//! | `file/LAB/N/PIECE` | the scenario and the files that it names | the controller | with its lease |
//! | `lab/LAB/part/MACHINE` | the progress of a machine's part ([`WorkerRecord`]) | its agent | with the agent's lease: the machine is lost then |
//! | `lab/LAB/ways` | the addresses where the machines listen ([`UnderlaySettings`]) | the controller | with its lease |
//! | `lab/LAB/go` | the time of lab time zero ([`LabStart`]) | the controller | with its lease |
//! | `lab/LAB/lost/MACHINE` | the lab time from which the lab continues without a machine ([`Loss`]) | the first other machine that notices | with the order |
//! | `lab/LAB/taken/LOST/MACHINE` | a machine has created its share of a lost machine's nodes, and its token ([`Takeover`]) | that machine's agent | with the order |
//! | `lab/LAB/back/LOST` | the lab time from which all these nodes have links again ([`NodesReturned`]) | the first machine that sees all ready | with the order |
//! | `lab/LAB/change/MACHINE/N` | a manual change, and the lab time at which all apply it ([`ChangeEntry`]) | the agent of the machine that received it | a minute later, or with the order |
//! | `lab/LAB/end` | the end of the lab, and the reason | any process | with the order |
//! | `result/LAB/MACHINE/N/PIECE` | the results of a part | its agent | with the agent's lease, or after they were fetched |
//!
//! While lab time runs, keys are written only for changes and lost machines: every machine computes the same steps by itself.
//! [Requests](ask()) about nodes do not pass through the store, but over a connection to the agent.

pub(crate) mod answerer;
mod ask;
mod changes;
mod common_time;
mod folder;
pub(crate) mod keys;
mod lead;
mod list;
mod losses;
mod model;
pub(crate) mod part;
mod parts;
mod pieces;
mod process;
mod results;
mod serve;
mod shell;
pub mod speech;

pub use crate::channel::{Command, Message};
pub use ask::{CommandRequest, Reply, Written, ask, shell};
pub use folder::{clear_left, hold};
pub use lead::{
    ControllerFailure, ControllerInput, Ended, Keep, LabOutcome, agreed, end, lead, order_of,
    running, wait_gone,
};
pub use list::{Listed, ListedMachine, listed};
pub use model::{
    ChangeEntry, End, File, LabDescription, LabStart, Loss, Node, NodesReturned, Phase,
    SharedEvent, Takeover, UnderlaySettings, WorkerReady, WorkerRecord,
};
pub use pieces::write_below;
pub use shell::{Keyboard, Size};
