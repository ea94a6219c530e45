//! What a running lab answers over its unix socket (`/run/constel/<lab>/api.sock`, root only).
//!
//! A client writes one JSON object, a line; the lab answers with JSON lines: one
//! `{"ok": true, "data": ...}` or `{"ok": false, "error": "..."}`, and for `events` with `follow`
//! one line per event until the lab ends or the client leaves.
//!
//! ```text
//! $ echo '{"verb": "state"}' | socat - UNIX:/run/constel/iridium/api.sock
//! {"ok":true,"data":{"state":"running",...}}
//! ```
#![forbid(unsafe_code)]

mod client;
mod server;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use client::{Client, ClientError};
pub use server::{LabView, Server};

/// Name of the socket inside a lab's runtime folder.
pub const SOCKET_NAME: &str = "api.sock";

/// Longest request line, bytes; a longer one is refused.
pub const REQUEST_LIMIT_BYTES: u64 = 8 * 1024 * 1024;

/// A question to a running lab.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// The lab's row of `constel list`.
    State,
    /// Nodes, counters, flows, the relay's health.
    Show,
    /// One link: both directions' live state, counters, and why it is up or down.
    Link {
        /// One end's node name.
        a: String,
        /// The other end's node name.
        b: String,
    },
    /// A node's routes, as its kernel has them.
    Routes {
        /// The node's name.
        node: String,
    },
    /// The way from one node to another by the kernels' tables, and the way of least delay.
    Path {
        /// Where it begins.
        from: String,
        /// Where it leads: a node, or ends of disjoint paths as `london.tl.2`, or `london.tl` for all of the pair's.
        to: String,
        /// Lab time whose edges are walked, nanoseconds; now unless given. Tables are always those of now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at_ns: Option<u64>,
    },
    /// Puts effects on both directions of a link; they stay until reset.
    SetLink {
        /// One end's node name; or, without `b`, both ends as `A-B`.
        a: String,
        /// The other end's node name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        b: Option<String>,
        /// `constel_link::Effects` as JSON; fields that are not named stay as they are.
        effects: Value,
        /// First take away all that was set before.
        #[serde(default)]
        reset: bool,
    },
    /// All events so far, then, with `follow`, each new one.
    Events {
        /// Keep the stream open.
        #[serde(default)]
        follow: bool,
    },
    /// Take the lab down; answers once it has begun.
    Down,
}

/// An answer line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Whether the question could be answered.
    pub ok: bool,
    /// The answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl From<Result<Value, String>> for Answer {
    fn from(result: Result<Value, String>) -> Self {
        match result {
            Ok(data) => Self {
                ok: true,
                data: Some(data),
                error: None,
            },
            Err(error) => Self {
                ok: false,
                data: None,
                error: Some(error),
            },
        }
    }
}
