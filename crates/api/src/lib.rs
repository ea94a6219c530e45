//! The control interface as types: requests to a running lab, its replies and events, the results of a run, and the errors.
//!
//! * [`Read`] and [`Write`]: the requests. Reads change nothing, so a front end that only watches gets no other.
//! * [`answers`]: the replies of a lab, one type for each request.
//! * [`Event`] and [`EventData`]: the events, on the socket and in `events.ndjson`.
//! * [`Summary`](summary::Summary) and [`Manifest`](manifest::Manifest): the documents of a results folder.
//! * [`ApiError`] and [`ErrorCode`]: refusals with stable codes.
//! * [`Server`] and [`Client`]: the same over the unix socket of a lab, `/run/constel/<lab>/api.sock` (root only).
//!
//! On the socket a client writes one JSON object per line. The lab replies with JSON lines: `{"ok": true, "data": ...}` or
//! `{"ok": false, "error": "...", "code": "..."}`. For `events` it sends one line per event, with `follow` until the lab
//! ends or the client leaves. `docs/reference/api.schema.json` is generated from these types by [`schema_json`].
//!
//! ```text
//! $ echo '{"verb": "state"}' | socat - UNIX:/run/constel/iridium/api.sock
//! {"ok":true,"data":{"lab":"iridium","state":"running",...}}
//! ```
//!
//! Requests and events are single lines:
//!
//! ```
//! use constel_api::{Event, EventData, Read, Request};
//!
//! let line = r#"{"verb": "path", "from": "tokyo", "to": "london"}"#;
//! let request: Request = serde_json::from_str(line)?;
//! assert!(matches!(request, Request::Read(Read::Path { .. })), "it changes nothing");
//!
//! let line = r#"{"seq": 9, "t_ns": 5, "wall": "2026-11-22T00:00:00.000000Z", "kind": "flow-started", "flow": "ping"}"#;
//! let event: Event = serde_json::from_str(line)?;
//! assert_eq!(event.what, EventData::FlowStarted { flow: "ping".into() });
//! # Ok::<(), serde_json::Error>(())
//! ```
#![forbid(unsafe_code)]

pub mod answers;
mod client;
mod error;
mod event;
pub mod manifest;
mod policy;
mod request;
mod schema;
mod server;
mod stream;
mod subscription;
pub mod summary;

pub use client::{CaptureStream, Client, ClientError, Events};
pub use error::{ApiError, ErrorCode};
pub use event::{Event, EventData};
pub use policy::{PolicySeat, PolicyTurn};
pub use request::{
    ApplyOrder, CaptureOrder, NodeChange, PROTOCOL, PolicyOrder, Read, Request, RuleChange,
    SetLink, StationChange, Write,
};
pub use schema::schema_json;
pub use server::{Followers, LabReader, LabWriter, Server};
pub use stream::{CaptureItem, CaptureSource};
pub use subscription::{Batch, EventSource, Next, Subscription};

/// Name of the socket inside a lab's runtime folder.
pub const SOCKET_NAME: &str = "api.sock";

/// Longest request line, bytes; a longer one is refused.
pub const REQUEST_LIMIT_BYTES: u64 = 8 * 1024 * 1024;
