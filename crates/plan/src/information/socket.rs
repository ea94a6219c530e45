//! Requests and replies over a node's socket: JSON, one per line, as over the lab's own socket.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A question of a program in the node. Answers are `{"ok": true, "data": ...}` or a [`Refusal`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "verb", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Events, one answer each, as they come, until the lab is down. Answer: `Event`.
    Follow {
        /// First, the events after this number that are still in the files. Default: only later events.
        #[serde(default)]
        after: Option<u64>,
    },
    /// The node's links at this moment, with values that change continuously and are therefore in no file. Answer: `Links`.
    Links,
}

/// To `links`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Links {
    /// Lab time, nanoseconds; 0 until it runs.
    pub t_ns: u64,
    /// By port.
    pub links: Vec<LiveLink>,
}

/// One direction of a link: the egress of the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LiveLink {
    /// The node's own port.
    pub port: String,
    /// The far node.
    pub node: String,
    /// One-way delay at this moment, nanoseconds, by the orbits.
    pub delay_ns: u64,
    /// Rate, bits per second; absent: unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
}

/// A question that got no answer, beside `"ok": false`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Refusal {
    /// The reason, for users.
    pub error: String,
}
