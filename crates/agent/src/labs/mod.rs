//! Labs on several machines, as far as the store is concerned: one process [leads](lead()), and every machine's agent has its
//! part run by a process of its own, with which it speaks in [lines](speech).
//!
//! | key below `constel/labs/` | holds | written by | goes |
//! |---|---|---|---|
//! | `order/LAB` | what is to be run, and by whom ([`Order`]) | who leads | with its lease: without it, there is no lab |
//! | `file/LAB/N/PIECE` | the scenario and the files that it names | who leads | as above |
//! | `lab/LAB/part/MACHINE` | how far a machine's part is ([`Part`]) | its agent | with the agent's lease: the machine is lost then |
//! | `lab/LAB/ways` | where the machines listen ([`Ways`]) | who leads | with its lease |
//! | `lab/LAB/go` | when lab time is zero ([`Go`]) | who leads | with its lease |
//! | `lab/LAB/lost/MACHINE` | that the lab goes on without a machine, and from when ([`Loss`]) | the first of the others that notices | with the order |
//! | `lab/LAB/taken/LOST/MACHINE` | that a machine has made what it takes of a lost one, and by which right ([`Took`]) | that machine's agent | with the order |
//! | `lab/LAB/back/LOST` | that all of it has links again, and from when ([`Back`]) | the first that sees all of them ready | with the order |
//! | `lab/LAB/change/MACHINE/N` | what all change by hand, and at which lab time ([`Changed`]) | the agent of the machine that was asked | a minute later, or with the order |
//! | `lab/LAB/end` | that it is to end, and why | anybody | with the order |
//! | `result/LAB/MACHINE/N/PIECE` | what a part left | its agent | with the agent's lease, or when it was fetched |
//! | `ask/LAB/NUMBER`, `answer/NUMBER` | a command about a node, and what it came to ([`ask()`]) | whoever asks, and the agent | with the asker's lease |
//! | `output/NUMBER/PIECE` | what a command that is followed has said | the agent; the asker takes it away | as above |
//! | `typed/NUMBER/PIECE` | what was typed at the terminal of a shell, and its size | the asker; the agent takes it away | as above |
//! | `input/NUMBER/0/PIECE`, `output/NUMBER/0/PIECE` | what the command is to read, and what it has written | the same | as above |
//!
//! Nothing is written while lab time runs unless somebody asks for something or a machine is lost: every machine plans the same steps by itself.

mod answerer;
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
mod shell;
pub mod speech;
mod stream;

pub use ask::{Question, Said, ask, follow, shell};
pub use folder::{clear_left, hold};
pub use lead::{
    Ended, Keep, Lead, LeadFailure, Led, agreed, end, lead, order_of, running, wait_gone,
};
pub use list::{Listed, ListedPart, listed};
pub use model::{
    Agreed, Back, Changed, End, File, Go, Loss, Node, Order, Part, Phase, Standing, Took, Ways,
};
pub use pieces::{MOST_BYTES, write_below};
pub use shell::{Keyboard, Size};
