//! The crate's integration tests: one program, so that they are linked once.

mod access;
mod ahead;
mod divided;
mod drd;
mod edge;
mod effects;
mod jitter;
mod medium;
mod overload;
mod queues;
mod recordings;
mod rules;
mod table;
mod transit;
