//! The web view: a scenario's sky, a running lab or a finished run in a browser of this machine.
//!
//! A [`Server`] listens on the loopback interface and serves a [`Source`]. The page is part of the program. No data
//! is fetched from other hosts, and the page's policy prevents it from sending data to them. `docs/reference/web.md` describes
//! its content and its security.
//!
//! * [`guard`]: access control. [`http`]: requests, read within limits. [`token`]: one address for one browser.
//! * [`frame`]: a step as one binary message. `sky`: steps computed once for all clients, and values derived from them.
//!   `tell`: messages created once for all clients in the same state.
//! * `ahead`: events of a scenario, computed in the background. `live`: one poll of a lab for any number of viewers. `load`:
//!   utilisation of its links. `changes`: changes by hand as they were at an instant.
//! * [`socket`], [`shell`]: long-lived connections of a browser. `flows`: traffic that it starts. `captures`: frames that it
//!   saves. `drafts`: scenarios that it builds.
//! * [`views`]: the data for the page, as types. `questions`: its GET requests. `web/src/types.ts` and
//!   `docs/reference/web.openapi.json` are generated from them, by `tests/typescript.rs` and [`openapi`].
//!
//! Each connection has one thread, and there is no async runtime: there are few browsers, and all limits are easy to see.
//!
//! ```
//! use constel_control::Scenario;
//! use constel_web::{Options, Server, Source};
//!
//! let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/iridium.yaml");
//! let server = Server::start(Source::plan(Scenario::load(file.as_ref())?), Options::default())?;
//! assert!(server.url().starts_with("http://127.0.0.1:"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod ahead;
mod answers;
mod behind;
mod bells;
mod captures;
mod changes;
mod child;
mod drafts;
mod flows;
pub mod frame;
pub mod guard;
pub mod http;
mod live;
mod load;
pub mod openapi;
mod page;
mod questions;
mod server;
pub mod shell;
mod sky;
pub mod socket;
mod source;
mod tell;
pub mod token;
pub mod views;

pub use server::{CONNECTIONS, OnUsed, Options, Server};
pub use shell::ShellProgram;
pub use source::Source;
