//! The command line of `constel image`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `image`.
#[derive(Debug, Args)]
pub(crate) struct Image {
    /// What to do.
    #[command(subcommand)]
    pub(crate) verb: ImageVerb,
    /// Folder of the images. [default: `constel/images` in $XDG_CACHE_HOME or ~/.cache]
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) store: Option<PathBuf>,
    /// Print one JSON document.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// What can be done with images.
#[derive(Debug, Subcommand)]
pub(crate) enum ImageVerb {
    /// Bring an image in: unpack its layers, and give it a name.
    Import(ImageImport),
    /// Assemble an image from this host's Debian packages, without a network; or have a Dockerfile built.
    Build(ImageBuild),
    /// List the images, and what they take.
    List,
    /// Show one image: where from, its layers, what its programs run as.
    Show(ImageName),
    /// Remove a name, and the image when it was the last one.
    #[command(visible_alias = "rm")]
    Remove(ImageName),
    /// Remove what nobody needs: images without a name, layers of no image, imports that were killed.
    Prune,
}

/// `image import`.
#[derive(Debug, Args)]
pub(crate) struct ImageImport {
    /// A file or folder: an OCI image layout, what `docker save` writes, or a root file system (tar, gzip, zstd). Or one
    /// of these by kind: `oci:DIR[:NAME]`, `docker-archive:FILE[:NAME]`, `oci-archive:FILE[:NAME]`, `rootfs:PATH`;
    /// `docker-daemon:NAME` for the engine of this host, `docker://NAME` for a registry.
    pub(crate) source: String,
    /// What it is called: `[REGISTRY/]NAME[:TAG]`; as its source says unless given.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
}

/// `image build`.
#[derive(Debug, Args)]
pub(crate) struct ImageBuild {
    /// `base` (busybox), `frr`, `bird`, `nginx-video` (serves a video) or `ffmpeg-client` (plays one); with `--file` the folder
    /// that the Dockerfile is about.
    #[arg(value_name = "RECIPE|DIR")]
    pub(crate) what: String,
    /// A Dockerfile, built by buildah or BuildKit where one of them is installed. What it fetches, they fetch.
    #[arg(long, short, value_name = "DOCKERFILE")]
    pub(crate) file: Option<PathBuf>,
    /// Take the packages from Debian's archive instead of from this host: of this suite, by debootstrap, which fetches them.
    #[arg(
        long,
        value_name = "SUITE",
        num_args = 0..=1,
        default_missing_value = "stable",
        conflicts_with = "file"
    )]
    pub(crate) debootstrap: Option<String>,
    /// Where that archive is: a URL, or a folder as `file:///PATH`. As debootstrap has it unless given.
    #[arg(long, value_name = "URL", requires = "debootstrap")]
    pub(crate) mirror: Option<String>,
    /// What the image is called; `constel/RECIPE`, or as the folder, unless given.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
}

/// An image.
#[derive(Debug, Args)]
pub(crate) struct ImageName {
    /// Its name, as in `constel image list`, or the first digits of its digest (six at least).
    pub(crate) image: String,
}
