//! The web view: a scenario's sky, a running lab or a finished run in a browser of this machine.
//!
//! A [`Server`] listens on the loopback and serves a [`Source`]. The page is part of the program; nothing is fetched from
//! anywhere else, and the page's policy lets it send nothing anywhere else. `docs/reference/web.md` says what it shows and how it
//! is kept safe.
//!
//! * [`guard`]: who may ask what. [`http`]: requests, read within bounds. [`token`]: one address for one browser.
//! * [`frame`]: a step as one binary message. `sky`: steps found once for all who ask, and what follows from them; `tell`: messages made
//!   once for all who know the same.
//! * `ahead`: events of a scenario, foretold beside everything else. `live`: one look at a lab however many watch; `load`:
//!   how much of their rate its links carry.
//! * [`socket`], [`shell`]: what a browser holds open. `flows`: traffic that it starts.
//! * [`views`]: what the page is told, as types. `questions`: what it may ask by its address. `web/src/types.ts` and
//!   `docs/reference/web.openapi.json` are made of them: [`typescript`], [`openapi`].
//!
//! One thread a connection and no async runtime: there are few browsers, and what is bounded is easy to see.
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
mod child;
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
pub mod typescript;
pub mod views;

pub use server::{CONNECTIONS, OnUsed, Options, Server};
pub use shell::ShellProgram;
pub use source::Source;
