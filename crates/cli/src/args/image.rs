//! The command line of `constel image`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `image`.
#[derive(Debug, Args)]
pub(crate) struct Image {
    /// The verb.
    #[command(subcommand)]
    pub(crate) verb: ImageVerb,
    /// Folder of the images. [default: `constel/images` in $XDG_CACHE_HOME or ~/.cache]
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) store: Option<PathBuf>,
    /// Print one JSON document.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// Operations on images.
#[derive(Debug, Subcommand)]
pub(crate) enum ImageVerb {
    /// Import an image: unpack its layers and give it a name.
    Import(ImageImport),
    /// Build an image from a Dockerfile, by buildah or BuildKit.
    Build(ImageBuild),
    /// List the images and their sizes.
    List,
    /// Show an image: its source, layers, user and command.
    Show(ImageName),
    /// Remove a name, and the image if it has no other name.
    #[command(visible_alias = "rm")]
    Remove(ImageName),
    /// Remove unused images, layers and files of killed imports.
    Prune,
}

/// `image import`.
#[derive(Debug, Args)]
pub(crate) struct ImageImport {
    /// File or folder: an OCI image layout, the output of `docker save`, or a root file system (tar, gzip, zstd). Or an
    /// explicit kind: `oci:DIR[:NAME]`, `docker-archive:FILE[:NAME]`, `oci-archive:FILE[:NAME]`, `rootfs:PATH`;
    /// `docker-daemon:NAME` for the engine of this host, `docker://NAME` for a registry.
    pub(crate) source: OsString,
    /// Name of the image: `[REGISTRY/]NAME[:TAG]`. Default: the name from the source.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
}

/// `image build`.
#[derive(Debug, Args)]
pub(crate) struct ImageBuild {
    /// Folder of the Dockerfile's context.
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Dockerfile. Default: `DIR/Dockerfile`. The builder may download what it names.
    #[arg(long, short, value_name = "DOCKERFILE")]
    pub(crate) file: Option<PathBuf>,
    /// Name of the image. Default: the folder's name.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
}

/// An image.
#[derive(Debug, Args)]
pub(crate) struct ImageName {
    /// Name of the image, as in `constel image list`, or the first digits of its digest (at least six).
    pub(crate) image: String,
}
