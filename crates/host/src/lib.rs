//! The one door to the kernel: namespaces, netlink, sysctls, cgroups, processes, ownership marks.
//!
//! Every other crate asks here; nothing else in Constel talks to the kernel about configuration,
//! and no `ip`, `tc` or `sysctl` process is ever started.

mod durable;
mod error;
pub mod globals;
pub mod ident;
pub mod netlink;
pub mod netns;
pub mod rcu;
pub mod sysctl;
pub mod template;

pub use error::{Error, Result};
pub use netns::NetNs;
