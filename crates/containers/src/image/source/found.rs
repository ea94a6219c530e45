//! The content of a source: an image's documents and a reader for its layers. Also chooses one of several images.

use std::io::Read;
use std::path::Path;

use crate::image::digest::Digest;
use crate::image::documents::Platform;
use crate::image::error::Fault;
use crate::image::limits::Limits;
use crate::image::progress::Progress;
use crate::image::reference::Reference;

/// The settings with which a source is read.
pub(crate) struct Context<'a> {
    /// A folder for temporary files, used by this import only.
    pub(crate) spool: &'a Path,
    pub(crate) limits: &'a Limits,
    pub(crate) platform: &'a Platform,
    pub(crate) progress: &'a dyn Progress,
}

/// An image found in a source.
pub(crate) struct Found {
    /// The names that the source gives the image.
    pub(crate) names: Vec<String>,
    /// The digest of the manifest, if the source has one.
    pub(crate) manifest: Option<Digest>,
    /// The bytes of the configuration.
    pub(crate) config: Vec<u8>,
    /// The layers, the lowest first.
    pub(crate) layers: Vec<Blob>,
    /// Opens the layers.
    pub(crate) from: Box<dyn Blobs>,
}

/// A layer as it is stored, compressed or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Blob {
    /// The source's name of the layer.
    pub(crate) name: String,
    /// The digest of the stored bytes, if the source states it.
    pub(crate) digest: Option<Digest>,
    /// The number of stored bytes, if the source states it.
    pub(crate) size: Option<u64>,
}

/// Opens layers.
pub(crate) trait Blobs {
    /// Opens a layer's stored bytes.
    fn open(&self, blob: &Blob) -> Result<Box<dyn Read>, Fault>;
}

/// Returns a name for an image from its file's name, used if it has no better one.
pub(super) fn stem(path: &Path) -> String {
    let name = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let name = name
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .to_lowercase();
    let mut name = name.as_str();
    for ending in [".gz", ".zst", ".tgz", ".tar"] {
        name = name.strip_suffix(ending).unwrap_or(name);
    }
    name.to_owned()
}

/// Returns the images with the wanted name. The fault of a missing or ambiguous name lists all names.
pub(super) fn choose_by_name<'a, T>(
    images: &'a [T],
    wanted: Option<&str>,
    names: impl Fn(&T) -> Vec<String>,
) -> Result<Vec<&'a T>, Fault> {
    let listed = || {
        let mut all: Vec<String> = images.iter().flat_map(&names).collect();
        all.sort();
        all.dedup();
        all
    };
    let Some(wanted) = wanted else {
        let all = listed();
        let unnamed = images
            .iter()
            .filter(|image| names(image).is_empty())
            .count();
        let several = images.len() > 1 && all.len() + usize::from(unnamed > 0) > 1;
        let same = images.iter().all(|image| names(image) == names(&images[0]));
        return match several && !same {
            true => Err(Fault::Several(shown_names(&all))),
            false => Ok(images.iter().collect()),
        };
    };
    let same = |name: &String| name == wanted || same_name(name, wanted);
    let found: Vec<&T> = images
        .iter()
        .filter(|image| names(image).iter().any(same))
        .collect();
    match found.is_empty() {
        true => Err(Fault::NotHeld {
            wanted: wanted.to_owned(),
            has: match listed().as_slice() {
                [] => "one without a name".to_owned(),
                all => shown_names(all),
            },
        }),
        false => Ok(found),
    }
}

fn shown_names(names: &[String]) -> String {
    let shown: Vec<String> = names
        .iter()
        .take(20)
        .map(|n| crate::image::error::shown(n.as_bytes()))
        .collect();
    shown.join(", ")
}

fn same_name(a: &str, b: &str) -> bool {
    match (a.parse::<Reference>(), b.parse::<Reference>()) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}
