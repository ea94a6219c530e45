//! The address of the engine's socket.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Sockets that are tried in this order if none is given. The socket of the user's own Podman is tried after them.
pub const DEFAULT_SOCKETS: [&str; 2] = ["/var/run/docker.sock", "/run/podman/podman.sock"];

/// The address of an engine, and its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// The engine's socket.
    pub socket: PathBuf,
    /// The origin of the address: `DOCKER_HOST`, or `default`.
    pub from: &'static str,
}

impl Address {
    /// Returns the socket in `DOCKER_HOST`, if that is set; otherwise the first existing one of the usual sockets.
    ///
    /// # Errors
    /// A text: `DOCKER_HOST` names no socket of this machine, or none of the usual sockets exists.
    pub fn find() -> Result<Self, String> {
        let host = std::env::var_os("DOCKER_HOST");
        let own = std::env::var_os("XDG_RUNTIME_DIR");
        let own = own.map(|dir| PathBuf::from(dir).join("podman/podman.sock"));
        Self::among(host.as_deref(), own, Path::exists)
    }

    fn among(
        host: Option<&OsStr>,
        own: Option<PathBuf>,
        exists: impl Fn(&Path) -> bool,
    ) -> Result<Self, String> {
        if let Some(host) = host.filter(|host| !host.is_empty()) {
            let socket = Self::parse(&host.to_string_lossy())
                .map_err(|reason| format!("DOCKER_HOST {reason}"))?;
            let from = "DOCKER_HOST";
            return Ok(Self { socket, from });
        }
        let usual = DEFAULT_SOCKETS.map(PathBuf::from);
        let mut all = usual.into_iter().chain(own);
        let socket = all.find(|path| exists(path)).ok_or_else(|| {
            let [docker, podman] = DEFAULT_SOCKETS;
            format!("neither {docker} nor {podman} exists")
        })?;
        let from = "default";
        Ok(Self { socket, from })
    }

    /// Parses the address of a socket: `unix:///run/docker.sock`.
    ///
    /// # Errors
    /// A text that continues a sentence.
    pub fn parse(text: &str) -> Result<PathBuf, String> {
        match text.strip_prefix("unix://") {
            Some(path) if path.starts_with('/') && path.len() < 108 => Ok(path.into()),
            Some(path) if path.starts_with('/') => {
                Err("names a socket by more than the 107 bytes that a path of one may have".into())
            }
            _ => {
                let text = crate::engine::error::shown(text.as_bytes());
                Err(format!(
                    "must name a socket of this machine, as unix:///var/run/docker.sock does, and is '{text}'"
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_counts_before_what_is_there() {
        let there = |_: &Path| true;
        let host = OsStr::new("unix:///tmp/d.sock");
        let found = Address::among(Some(host), None, there).unwrap();
        assert_eq!(found.socket, Path::new("/tmp/d.sock"));
        let found = Address::among(Some(OsStr::new("")), None, there).unwrap();
        assert_eq!(found.socket, Path::new(DEFAULT_SOCKETS[0]));
        let own = Some(PathBuf::from("/run/user/1/podman/podman.sock"));
        let of_user = |path: &Path| path.starts_with("/run/user");
        let found = Address::among(None, own, of_user).unwrap();
        assert_eq!(found.from, "default");
        assert!(Address::among(None, None, |_| false).is_err());
        for odd in ["tcp://1.2.3.4:2375", "unix://relative", "\u{1b}[2J"] {
            let error = Address::among(Some(OsStr::new(odd)), None, there).unwrap_err();
            assert!(error.contains("unix:///"), "{error}");
            assert!(!error.contains('\u{1b}'));
        }
    }
}
