//! Container images: read from their sources, kept unpacked by digest, and stacked by overlayfs. No daemon, registry or other
//! program is necessary.
//!
//! * [`Source`]: the place of an image: an OCI image layout, the output of `docker save`, a root file system, a container
//!   engine, a registry.
//! * [`Store`]: the images of a user. [`import`](Store::import) unpacks each layer once, into a folder that overlayfs can use
//!   directly; [`list`](Store::list), [`remove`](Store::remove), [`prune`](Store::prune) and [`usage`](Store::usage) manage the
//!   images.
//! * [`Held`]: an image that is in use and cannot be removed: its [folders](Held::lower_dirs), its [`Config`] and its [`User`].
//! * [`Error`]: the image, the place in it, the fault and a remedy. [`Limits`]: the bounds on an image.
//! * [`Tree`]: the files that layers make, in memory.
//!
//! An image is identified by the digest of its configuration, as for container engines: the configuration has the digest of
//! each layer's content. Blobs are also verified by their own digests, where a source states them. An incomplete image is never
//! kept.
//!
//! This module runs no programs, mounts nothing and makes no namespaces.
//!
//! ```
//! use constel_containers::image::{Digest, ImportOptions, Silent, Store};
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
//!     constel_containers::image::Platform::host().architecture,
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
pub use reference::Reference;
pub use source::{Source, reads_challenge};
pub use store::{
    Added, Held, Image, ImportOptions, Imported, Layer, Pruned, Removed, Store, Usage,
    default_folder,
};
pub use tree::{Node, Tree};
