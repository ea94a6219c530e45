//! Images as they are listed, and as they are used.

use std::path::PathBuf;

use serde::Serialize;

use super::lock::Lock;
use crate::accounts::{self, User};
use crate::config::Config;
use crate::digest::Digest;
use crate::error::{At, Error, Located};
use crate::limits::Limits;
use crate::merged::Merged;

/// An image of a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Image {
    /// The digest of its configuration.
    pub id: Digest,
    /// Its names, sorted; none when they all name other images now.
    pub names: Vec<String>,
    /// Where it came from.
    pub source: String,
    /// The digest of its manifest, where the source had one.
    pub manifest: Option<Digest>,
    /// When it came, in seconds since 1970.
    pub imported_s: u64,
    /// Bytes of its files, those of shared layers included.
    pub bytes: u64,
    /// Its layers, the lowest first.
    pub layers: Vec<Layer>,
}

/// A layer of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Layer {
    /// The digest of it and of all below it, as OCI's ChainID says; the store's name for it.
    pub chain: Digest,
    /// The digest of its archive, not compressed.
    pub diff_id: Digest,
    /// Entries of its archive.
    pub entries: u64,
    /// Bytes of its files, holes left out.
    pub bytes: u64,
    /// What its archive said of files and the folder does not keep, as access control lists.
    pub left_out: Vec<String>,
}

impl Image {
    /// How people call it: its first name, or the first digits of its digest.
    #[must_use]
    pub fn title(&self) -> String {
        self.names
            .first()
            .cloned()
            .unwrap_or_else(|| self.id.short())
    }
}

/// An image that stays while this is kept.
#[derive(Debug)]
pub struct Held {
    pub(super) image: Image,
    pub(super) config: Config,
    pub(super) lower_dirs: Vec<PathBuf>,
    /// Kept for as long as the image is.
    #[allow(dead_code, reason = "it does its work by being there")]
    pub(super) used: Lock,
}

impl Held {
    /// Which image.
    #[must_use]
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// What it says about its programs.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The folders to stack as overlayfs's lower ones, the highest first. Those of a node's own state lie above them, and
    /// its root takes owner and rights of the first folder here. Empty for an image without layers.
    #[must_use]
    pub fn lower_dirs(&self) -> &[PathBuf] {
        &self.lower_dirs
    }

    /// Looks a user up in the image's own `/etc/passwd` and `/etc/group`: the image's own user, or another one in the
    /// same form (`user`, `user:group`, by name or number).
    ///
    /// # Errors
    /// [`NoAccount`](crate::Fault::NoAccount) when the image does not know the name; [`Io`](crate::Fault::Io) when its
    /// files cannot be read.
    pub fn user(&self, other: Option<&str>) -> Result<User, Error> {
        let look = || -> Result<User, Located> {
            let merged = Merged::open(&self.lower_dirs)?;
            let most = Limits::default().document_bytes;
            let text = |file: &str| {
                let bytes = merged.read(file, most).at(|| file.to_owned())?;
                Ok::<_, Located>(String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned())
            };
            let (passwd, group) = (text("/etc/passwd")?, text("/etc/group")?);
            Ok(accounts::lookup(
                other.unwrap_or(&self.config.user),
                &passwd,
                &group,
            )?)
        };
        look().map_err(|fault| fault.of(self.image.title()))
    }
}
