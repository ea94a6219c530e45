//! Labs over two machines, each a namespace of this host with an agent of its own, and etcd beside them
//! (`experiments/machines/local`).

mod asked;
mod crossing;
mod daemons;
mod local;
mod losses;
use crate::support;
