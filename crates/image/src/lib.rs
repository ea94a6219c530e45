//! Container images: read from where they are, kept unpacked by digest, ready to be stacked by overlayfs. No daemon, no
//! registry and no other program is needed.
//!
//! * [`Source`]: where an image is: an OCI image layout, what `docker save` writes, a root file system, a container
//!   engine, a registry.
//! * [`Store`]: the images of a user. [`import`](Store::import) unpacks each layer once, into a folder that overlayfs
//!   takes as it is; [`list`](Store::list), [`remove`](Store::remove), [`prune`](Store::prune) and
//!   [`usage`](Store::usage) look after them.
//! * [`Recipe`]: what can be assembled from the packages of this host.
//! * [`Held`]: an image that stays while it is used: its [folders](Held::lower_dirs), its [`Config`] and its
//!   [`User`].
//! * [`Error`]: of which image, where in it, what, and what to do. [`Limits`]: how much an image may ask for.
//! * [`Tree`]: what layers make, in memory.
//!
//! An image is what its configuration's digest says, as for container engines: the configuration names the digest of each
//! layer's content. Blobs are verified by their own digests as well, where a source states them. Nothing is kept of an
//! image that is not whole.
//!
//! Nothing here runs programs, mounts or makes namespaces.
//!
//! ```
//! use constel_image::{Digest, ImportOptions, Silent, Store};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let temp = std::env::temp_dir().join(format!("constel-image-{}", std::process::id()));
//! # let own = std::fs::metadata("/proc/self")?;
//! # use std::os::unix::fs::MetadataExt;
//! // A layer with one file, and an OCI image layout around it.
//! let mut header = tar::Header::new_gnu();
//! header.set_mode(0o644);
//! header.set_size(6);
//! # header.set_uid(own.uid().into());
//! # header.set_gid(own.gid().into());
//! let mut layer = tar::Builder::new(Vec::new());
//! # let mut root = header.clone();
//! # root.set_entry_type(tar::EntryType::Directory);
//! # root.set_size(0);
//! # root.set_mode(0o755);
//! # root.as_old_mut().name[..2].copy_from_slice(b"./");
//! # root.set_cksum();
//! # layer.append(&root, std::io::empty())?;
//! layer.append_data(&mut header, "hello", &b"world\n"[..])?;
//! let layer = layer.into_inner()?;
//!
//! let layout = temp.join("layout");
//! std::fs::create_dir_all(layout.join("blobs/sha256"))?;
//! let put = |kind: &str, bytes: &[u8]| -> std::io::Result<String> {
//!     let digest = Digest::of(bytes);
//!     std::fs::write(layout.join("blobs/sha256").join(digest.hex()), bytes)?;
//!     let (size, base) = (bytes.len(), "application/vnd.oci.image");
//!     Ok(format!(r#"{{"mediaType": "{base}.{kind}", "digest": "{digest}", "size": {size}}}"#))
//! };
//! let config = format!(
//!     r#"{{"architecture": "{}", "os": "linux", "config": {{"Cmd": ["/hello"]}},
//!         "rootfs": {{"type": "layers", "diff_ids": ["{}"]}}}}"#,
//!     constel_image::Platform::host().architecture,
//!     Digest::of(&layer),
//! );
//! let (config, layer) = (put("config.v1+json", config.as_bytes())?, put("layer.v1.tar", &layer)?);
//! let manifest = put("manifest.v1+json", format!(r#"{{"config": {config}, "layers": [{layer}]}}"#).as_bytes())?;
//! std::fs::write(layout.join("index.json"), format!(r#"{{"manifests": [{manifest}]}}"#))?;
//!
//! // Into a store, by a name.
//! let store = Store::open(&temp.join("images"))?;
//! let options = ImportOptions { name: Some("hello".to_owned()), ..ImportOptions::default() };
//! let source = layout.display().to_string().parse()?;
//! let imported = store.import(&source, &options, &Silent)?;
//! assert_eq!(imported.name, "hello:latest");
//! assert_eq!(store.list()?[0].names, ["hello:latest"]);
//!
//! // As what a node is made of.
//! let image = store.hold("hello")?;
//! assert_eq!(image.config().args(), ["/hello"]);
//! assert_eq!(std::fs::read(image.lower_dirs()[0].join("hello"))?, b"world\n");
//! # drop(image);
//! # std::fs::remove_dir_all(&temp)?;
//! # Ok(()) }
//! ```
#![forbid(unsafe_code)]

mod accounts;
mod compression;
mod config;
mod digest;
pub mod documents;
mod error;
mod limits;
mod merged;
mod path;
mod progress;
mod recipe;
mod reference;
mod source;
mod store;
pub mod tar;
mod tree;
mod unpack;

pub use accounts::{User, lookup};
pub use config::{Config, Healthcheck, Port, Protocol};
pub use digest::Digest;
pub use documents::Platform;
pub use error::{EntryFault, Error, Fault};
pub use limits::Limits;
pub use progress::{Progress, Silent, Step};
pub use recipe::Recipe;
pub use reference::Reference;
pub use source::Source;
pub use store::{
    Added, Held, Image, ImportOptions, Imported, Layer, Pruned, Removed, Store, Usage,
    default_folder,
};
pub use tree::{Node, Tree};
