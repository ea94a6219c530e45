//! Images, as listed and as used.

use std::path::PathBuf;

use serde::Serialize;

use super::lock::Lock;
use crate::image::accounts::{self, User};
use crate::image::config::Config;
use crate::image::digest::Digest;
use crate::image::error::{At, Error, Located};
use crate::image::limits::Limits;
use crate::image::merged::Merged;

/// An image of a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Image {
    /// The digest of its configuration.
    pub id: Digest,
    /// The image's names, sorted; empty if all of them were given to other images.
    pub names: Vec<String>,
    /// The source of the image.
    pub source: String,
    /// The digest of the manifest, if the source had one.
    pub manifest: Option<Digest>,
    /// The time of the import, in seconds since 1970.
    pub imported_s: u64,
    /// Bytes of the image's files, those of shared layers included.
    pub bytes: u64,
    /// The layers, the lowest first.
    pub layers: Vec<Layer>,
}

/// A layer of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Layer {
    /// The digest of this layer and all below it, OCI's ChainID; the store's name for the layer.
    pub chain: Digest,
    /// The digest of the uncompressed archive.
    pub diff_id: Digest,
    /// The number of entries of the archive.
    pub entries: u64,
    /// Bytes of the files, without holes.
    pub bytes: u64,
    /// The kinds of metadata in the archive that the folder does not keep, for example access control lists.
    pub left_out: Vec<String>,
}

impl Image {
    /// Returns the image's first name, or the first digits of its digest.
    #[must_use]
    pub fn title(&self) -> String {
        self.names
            .first()
            .cloned()
            .unwrap_or_else(|| self.id.short())
    }
}

/// An image in use; it cannot be removed while this value exists.
#[derive(Debug)]
pub struct Held {
    pub(super) image: Image,
    pub(super) config: Config,
    pub(super) lower_dirs: Vec<PathBuf>,
    /// Held as long as the image is in use.
    #[allow(dead_code, reason = "it does its work by being there")]
    pub(super) used: Lock,
}

impl Held {
    /// Returns the image.
    #[must_use]
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// Returns the image's settings for its programs.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the folders to stack as overlayfs's lower ones, the highest first. A node's own state is stacked above them, and
    /// its root takes owner and permissions of the first folder here. Empty for an image without layers.
    #[must_use]
    pub fn lower_dirs(&self) -> &[PathBuf] {
        &self.lower_dirs
    }

    /// Returns the user that programs run as, from the image's own `/etc/passwd` and `/etc/group`: the image's user, or another
    /// one in the same form (`user`, `user:group`, by name or number).
    ///
    /// # Errors
    /// [`NoAccount`](crate::image::Fault::NoAccount) if the image does not have the name; [`Io`](crate::image::Fault::Io) if its files cannot
    /// be read.
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
