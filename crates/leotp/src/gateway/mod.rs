//! The TCP gateway (section VII, "Compatible with TCP"): two proxies at the ends
//! of the satellite segment carry ordinary TCP connections over LEOTP; nothing
//! changes at the endpoints.
//!
//! ```text
//!  client --TCP--> gateway A ==LEOTP==> Midnodes ==LEOTP==> gateway B --TCP--> server
//! ```
//!
//! A takes connections that pass it (TPROXY) and answers in the server's name. For
//! each it publishes a flow of what the client sends, and asks B ([`control`]) to
//! open the connection to the server, with the client's address as its own. B
//! fetches that flow and publishes one of what the server sends, which A fetches.
//!
//! * The end of a direction (FIN) is the end of its flow, whose digest has been
//!   checked when the other side passes the FIN on: half-closed connections work.
//! * A reset of one side resets the other. A server that refuses does so after the
//!   client has been answered: the client sees a reset.
//! * Nobody reads faster than the other side writes: a flow's buffer is bounded, a
//!   full one stops the reading of TCP, whose window then closes.
//! * Connections are bounded, all together and of each client's address.

mod connection;
pub mod control;
mod options;
mod run;

pub use options::{GatewayOptions, GatewayStats, Peer};
pub use run::Gateway;

/// UDP port of the gateways' own messages. Not registered with IANA.
pub const CONTROL_PORT: u16 = 5046;
