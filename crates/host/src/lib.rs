//! Access to the kernel: namespaces, netlink, sysctls, cgroups, processes, ownership marks.
//!
//! Every other crate uses this one; no other code in Constel configures the kernel, and no `ip`, `tc` or `sysctl`
//! process is ever started.
//!
//! | module | purpose |
//! |---|---|
//! | [`netns`], [`template`] | network namespaces held by descriptors; created with their settings |
//! | [`netlink`] | batched changes of links, addresses, routes, neighbours; dumps; a monitor |
//! | [`sysctl`], [`globals`], [`rcu`] | settings; those of the whole host are recorded and restored |
//! | [`process`], [`cgroup`] | processes started in namespaces, marked, watched, limited, ended |
//! | [`enclosure`] | isolation of a lab's programs from the host's |
//! | [`claim`], [`clean`] | lab names and their owners; cleaning up after dead labs |
//! | [`wire`] | interfaces that exist independently of the lab |
//! | [`ethernet`], [`datagrams`] | frames of our own on such an interface; many frames or datagrams with one system call |
//! | [`node_file`] | files that a node may have replaced |
//! | [`sealed`] | this program's file, protected from writes by programs that it starts |
//! | [`inventory`], [`bpf`], [`probe`], [`limits`] | contents and capabilities of the host |

pub mod bpf;
pub mod cgroup;
pub mod claim;
pub mod clean;
pub mod clock;
pub mod datagrams;
mod durable;
pub mod enclosure;
mod error;
pub mod ethernet;
pub mod globals;
pub mod ident;
pub mod inventory;
pub mod limits;
pub mod netlink;
pub mod netns;
pub mod node_file;
pub mod probe;
pub mod process;
pub mod rcu;
pub mod sealed;
pub mod sysctl;
pub mod template;
pub mod threads;
pub mod time_namespace;
pub mod wire;

pub use durable::write_json;
pub use error::{Error, Result};
pub use netns::NetNs;
