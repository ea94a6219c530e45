//! The crate's integration tests: one program, so that they are linked once.

mod access;
mod adopted;
mod cables;
mod common;
mod failures;
mod far;
mod gateway;
mod ground_links;
mod handover;
mod laws;
mod layout;
mod links;
mod radio;
mod real_set;
mod speed;
mod terminals;
