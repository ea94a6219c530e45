//! Stores: what holds for each of them, and what for one.

mod conformance;
mod etcd;
mod folder;
mod members;
mod memory;
pub(crate) mod support;
mod tenure;
