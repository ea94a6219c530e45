//! The container engine of this machine, Docker or Podman, used over its socket.
//!
//! An [`Engine`] is a path: each request has a connection of its own, so threads may share it. Answers are not trusted: heads
//! and documents are bounded in bytes and time, and a truncated answer is an error.
//!
//! ```
//! use constel_containers::engine::ContainerOptions;
//!
//! let order = ContainerOptions {
//!     name: "constel-demo-1".into(),
//!     image: "sha256:00".into(),
//!     argv: vec!["/bin/sh".into()],
//!     ..ContainerOptions::default()
//! };
//! assert_eq!(order.body()["HostConfig"]["NetworkMode"], "none");
//! ```

mod address;
mod containers;
mod error;
mod http;
mod images;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub use address::{Address, DEFAULT_SOCKETS};
pub use containers::{
    Bind, ContainerOptions, LAB_LABEL, Listed, NODE_LABEL, Network, OWNER_LABEL, Ulimit,
};
pub use error::{Error, Result};
pub use http::{Answer, Sent};
pub use images::ImageConfig;

/// Default timeout of an engine's answer. An engine collects layers before it answers.
const SILENCE: Duration = Duration::from_secs(120);

/// The oldest version of the engine's interface that has all functions used here.
const OLDEST_API: (u32, u32) = (1, 41);

/// A container engine, identified by its socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Engine {
    socket: PathBuf,
    patience: Duration,
}

/// The identity and version of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// The kind of engine.
    pub kind: Kind,
    /// The engine's version.
    pub version: String,
    /// The newest version of the interface that it supports: major and minor number.
    pub api: (u32, u32),
}

/// The kind of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Docker, or an engine that does not identify itself as another one.
    Docker,
    /// Podman, which implements Docker's interface.
    Podman,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Docker => "Docker",
            Self::Podman => "Podman",
        })
    }
}

impl Engine {
    /// Returns the engine behind this socket; nothing is sent yet.
    #[must_use]
    pub fn at(socket: impl Into<PathBuf>) -> Self {
        Self {
            socket: socket.into(),
            patience: SILENCE,
        }
    }

    /// Sets the timeout of answers. Default: two minutes.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Returns the socket.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Returns the engine's kind and version.
    ///
    /// # Errors
    /// If the engine does not answer, or is too old.
    pub fn version(&self) -> Result<Version> {
        let said = self.ask("GET", "/version", Sent::Nothing)?.json()?;
        let text = |key: &str| said[key].as_str().unwrap_or_default().to_owned();
        let number = text("ApiVersion");
        let api = number
            .split_once('.')
            .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
        let api = api.ok_or_else(|| {
            let number = error::shown(number.as_bytes());
            self.error(error::What::Odd(format!("its interface is '{number}'")))
        })?;
        if api < OLDEST_API {
            let ((major, minor), (least, part)) = (api, OLDEST_API);
            return Err(self.error(error::What::Odd(format!(
                "its interface is {major}.{minor}; {least}.{part} or newer is needed"
            ))));
        }
        let components = said["Components"].as_array();
        let podman = components.into_iter().flatten().any(|part| {
            let name = part["Name"].as_str().unwrap_or_default();
            name.to_ascii_lowercase().contains("podman")
        });
        let kind = if podman { Kind::Podman } else { Kind::Docker };
        Ok(Version {
            kind,
            version: error::shown(text("Version").as_bytes()),
            api,
        })
    }

    fn error(&self, what: error::What) -> Error {
        Error {
            socket: self.socket.clone(),
            what,
        }
    }
}
