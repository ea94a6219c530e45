//! The crate's integration tests: one program, so that they are linked once.

mod conformance;
mod etcd;
mod folder;
mod members;
mod memory;
mod support;
mod tenure;
