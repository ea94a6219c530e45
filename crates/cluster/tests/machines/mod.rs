//! The division of nodes among machines.

mod common;
mod moves;
mod placement;
