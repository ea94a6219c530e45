//! rtnetlink: batched changes, typed dumps and a change monitor.
//!
//! One [`Socket`] belongs to one namespace and is used by one thread at a time. A [`Batch`] packs any number of
//! requests; [`Socket::send`] passes them to the kernel in few, large system calls and reports every request that was
//! refused.

mod attrs;
mod batch;
mod describe;
mod dump;
pub(crate) mod failures;
mod filters;
mod firewall;
mod lookup;
mod monitor;
mod parse;
mod socket;
mod stack;
mod tc;
mod tcp;
mod types;
mod watch;
mod wire;

pub use batch::{Batch, Decoded};
pub use failures::{BatchError, RequestError};
pub use filters::Filter;
pub use firewall::{DroppingChain, dropping_chains};
pub use monitor::{Change, ChangeKind, ChangeMonitor};
pub use parse::{Address, Conf, InstalledRoute, LinkCounters, LinkInfo, Neighbour, QdiscInfo};
pub use socket::Socket;
pub use stack::{Rule, Stack};
pub use tc::{Attributes, QdiscStats, Tc, TcVerb, handle};
pub use tcp::destroy_tcp;
pub use types::{
    AddressSpec, FIRST_OWN_IFINDEX, IpPrefix, LinkChange, Mac, NeighbourSpec, NextHop,
    ROUTE_PROTOCOL, Route, RouteTarget, VethEnd,
};
pub use watch::{StackWatch, Touched};
