//! Sources of images.

mod challenge;
mod engine;
mod files;
mod found;
mod layout;
mod pack;
mod registry;
mod rootfs;
mod saved;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::str::{self, FromStr};

use crate::image::error::{Fault, Located};
use crate::image::reference::Reference;
use files::{Archive, Folder};
use found::stem;

pub use challenge::reads_challenge;
pub(crate) use files::spool_file;
pub(crate) use found::{Blob, Blobs, Context, Found};
pub(crate) use pack::layer as pack_layer;

/// Returns the parts before and behind the first colon.
fn split_once(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|byte| *byte == b':')?;
    Some((&text[..at], &text[at + 1..]))
}

/// Returns the name of an image as text.
fn name_in(name: &[u8]) -> Result<&str, Fault> {
    str::from_utf8(name).map_err(|_| Fault::BadName {
        name: crate::image::error::shown(name),
        reason: "a name is UTF-8",
    })
}

/// The place of an image.
///
/// ```
/// use constel_containers::image::Source;
///
/// let source: Source = "docker-archive:bird.tar:bird:2".parse().unwrap();
/// assert_eq!(source.to_string(), "docker-archive:bird.tar:bird:2");
/// assert!(matches!("bird.tar".parse().unwrap(), Source::Path(_)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// A file or folder in any of the forms below, recognised by its content.
    Path(PathBuf),
    /// `oci:PATH[:NAME]`: an OCI image layout in a folder.
    Layout {
        /// The folder.
        path: PathBuf,
        /// The name of the image, if it has several.
        image: Option<String>,
    },
    /// `docker-archive:PATH[:NAME]` or `oci-archive:PATH[:NAME]`: the output of `docker save`, or an OCI image layout as tar;
    /// compressed or not.
    Archive {
        /// The file.
        path: PathBuf,
        /// The name of the image, if it has several.
        image: Option<String>,
    },
    /// `rootfs:PATH`: a root file system without documents, as tar (plain, gzip or zstd) or as folder.
    RootFs(PathBuf),
    /// `docker-daemon:NAME`: an image of the Docker or Podman engine that runs here.
    Engine(Reference),
    /// `docker://NAME`: an image of a registry.
    Registry(Reference),
}

impl FromStr for Source {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        Self::of(OsStr::new(text))
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (prefix, path, image) = match self {
            Self::Path(path) => ("", path, &None),
            Self::Layout { path, image } => ("oci:", path, image),
            Self::Archive { path, image } => ("docker-archive:", path, image),
            Self::RootFs(path) => ("rootfs:", path, &None),
            Self::Engine(name) => return write!(f, "docker-daemon:{name}"),
            Self::Registry(name) => return write!(f, "docker://{name}"),
        };
        write!(f, "{prefix}{}", path.display())?;
        match image {
            Some(image) => write!(f, ":{image}"),
            None => Ok(()),
        }
    }
}

impl Source {
    /// Parses a source whose path may be no UTF-8.
    ///
    /// # Errors
    /// [`Fault::BadName`] for an invalid name of an image.
    pub fn of(text: &OsStr) -> Result<Self, Fault> {
        let bytes = text.as_bytes();
        let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
        let located = |rest: &[u8]| -> Result<_, Fault> {
            match split_once(rest) {
                Some((file, name)) => Ok((path(file), Some(name_in(name)?.to_owned()))),
                None => Ok((path(rest), None)),
            }
        };
        if let Some(name) = bytes.strip_prefix(b"docker://") {
            return Ok(Self::Registry(name_in(name)?.parse()?));
        }
        Ok(match split_once(bytes) {
            Some((b"oci", rest)) => {
                let (path, image) = located(rest)?;
                Self::Layout { path, image }
            }
            Some((b"oci-archive" | b"docker-archive", rest)) => {
                let (path, image) = located(rest)?;
                Self::Archive { path, image }
            }
            Some((b"rootfs", rest)) => Self::RootFs(path(rest)),
            Some((b"docker-daemon", rest)) => Self::Engine(name_in(rest)?.parse()?),
            _ => Self::Path(text.into()),
        })
    }

    /// Makes a relative path absolute: it is below `folder`.
    #[must_use]
    pub fn beneath(mut self, folder: &Path) -> Self {
        match &mut self {
            Self::Path(path)
            | Self::Layout { path, .. }
            | Self::Archive { path, .. }
            | Self::RootFs(path) => *path = folder.join(&*path),
            Self::Engine(_) | Self::Registry(_) => {}
        }
        self
    }

    /// Returns the file or folder of this machine, if the source is one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Path(path)
            | Self::Layout { path, .. }
            | Self::Archive { path, .. }
            | Self::RootFs(path) => Some(path),
            Self::Engine(_) | Self::Registry(_) => None,
        }
    }

    /// Finds the image and reads its documents.
    pub(crate) fn find(&self, context: &Context<'_>) -> Result<Found, Located> {
        match self {
            Self::Path(path) => by_looking(path, context),
            Self::Layout { path, image } => {
                let files = Folder::open(path)?;
                layout::find(Box::new(files), image.as_deref(), &stem(path), context)
            }
            Self::Archive { path, image } => {
                let files = Archive::open(files::open(path)?, context)?;
                image_of(files, image.as_deref(), &stem(path), context)?
                    .ok_or_else(|| no_image("neither manifest.json nor index.json is in it").into())
            }
            Self::RootFs(path) => match kind(path)? {
                IsFolder(true) => Ok(rootfs::of_folder(path, context)?),
                IsFolder(false) => Ok(rootfs::of_tar(files::open(path)?, &stem(path), context)?),
            },
            Self::Engine(name) => {
                let spool = engine::save(name, context)?;
                let files = Archive::open(spool, context)?;
                let wanted = name.to_string();
                image_of(files, Some(&wanted), &wanted, context)?
                    .ok_or_else(|| no_image("the engine sent no image").into())
            }
            Self::Registry(name) => registry::find(name, context),
        }
    }
}

fn no_image(why: &str) -> Fault {
    Fault::Format(why.to_owned())
}

struct IsFolder(bool);

fn kind(path: &Path) -> Result<IsFolder, Fault> {
    match std::fs::metadata(path) {
        Ok(found) => Ok(IsFolder(found.is_dir())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(Fault::NoSuchFile),
        Err(error) => Err(Fault::io("look at it")(error)),
    }
}

fn by_looking(path: &Path, context: &Context<'_>) -> Result<Found, Located> {
    let explain = "it has neither index.json nor manifest.json, nor any of /bin, /sbin, /usr, /etc and /lib; a root file \
                   system without these is rootfs:PATH";
    match kind(path)? {
        IsFolder(true) => {
            let files = Folder::open(path)?;
            if files.has("index.json")? {
                return layout::find(Box::new(files), None, &stem(path), context);
            }
            for usual in ["bin", "sbin", "usr", "etc", "lib"] {
                if files.has(usual)? {
                    return Ok(rootfs::of_folder(path, context)?);
                }
            }
            Err(no_image(explain).into())
        }
        IsFolder(false) => {
            let files = Archive::open(files::open(path)?, context)?;
            let looks_like_root = files.has_top(&["bin", "sbin", "usr", "etc", "lib"]);
            let whole = files.whole()?;
            match image_of(files, None, &stem(path), context)? {
                Some(found) => Ok(found),
                None if looks_like_root => Ok(rootfs::of_tar(whole, &stem(path), context)?),
                None => Err(no_image(explain).into()),
            }
        }
    }
}

/// Finds the image in an archive; `None` if the archive has no image.
fn image_of(
    files: Archive,
    image: Option<&str>,
    stem: &str,
    context: &Context<'_>,
) -> Result<Option<Found>, Located> {
    let (is_layout, is_saved) = (files.has("index.json"), files.has("manifest.json"));
    // Newer versions of `docker save` write both forms; the layout form has digests of everything.
    if is_layout && files.has("oci-layout") {
        return layout::find(Box::new(files), image, stem, context).map(Some);
    }
    if is_saved {
        return saved::find(Box::new(files), image, context).map(Some);
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
