//! The TCP gateway (section VII, "Compatible with TCP"): two proxies at the ends
//! of the satellite segment carry ordinary TCP connections over LEOTP. The endpoints need
//! no changes.
//!
//! ```text
//!  client --TCP--> gateway A ==LEOTP==> Midnodes ==LEOTP==> gateway B --TCP--> server
//! ```
//!
//! A intercepts connections that pass it (TPROXY) and answers in the server's name. For each it publishes a
//! flow of the client's bytes, and requests B ([`control`]) to open the connection to the server, with the
//! client's address as source. B fetches that flow and publishes one of the server's bytes, which A fetches.
//!
//! * The end of a direction (FIN) is the end of its flow, whose digest has been
//!   checked when the other side passes the FIN on: half-closed connections work.
//! * A reset of one side resets the other. A server's refusal comes after the client has been answered: the
//!   client gets a reset.
//! * Neither side reads faster than the other side writes: a flow's buffer is bounded, and a full one stops the
//!   reading of TCP, whose window then closes.
//! * The number of connections is bounded, in total and per client address.

mod connection;
pub mod control;
mod options;
mod run;

pub use options::{GatewayOptions, GatewayStats, Peer};
pub use run::Gateway;

/// UDP port of the gateways' own messages. Not registered with IANA.
pub const CONTROL_PORT: u16 = 5046;
