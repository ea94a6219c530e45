//! An encrypted connection to a machine's agent, for bytes that do not belong into a store: the input and the output of
//! commands.
//!
//! Each agent accepts TCP connections at the address of its underlay. TLS 1.3 encrypts them, and both ends prove that they
//! have read the machine's key in the store. The right to use the store is therefore the right to run commands, and no
//! certificates are needed. Messages are WebSocket frames (RFC 6455) of bounded length, without its handshake: TLS has
//! agreed on the protocol already. A reader that is slow makes the writer wait, because nothing but TCP buffers bytes.

mod connection;
mod message;
mod tls;

pub(crate) use connection::{Connection, Receiving, Sending, accept, connect};
pub(crate) use message::PIECE_BYTES;
pub use message::{Command, Message, Size};
