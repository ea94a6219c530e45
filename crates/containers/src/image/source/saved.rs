//! The output of `docker save` before version 25: `manifest.json`, which names the configuration and the layers of each image
//! by their paths. The configuration is named by its digest; layers are verified only by their diff IDs.

use std::io::Read;

use super::files::Files;
use super::found::{Blob, Blobs, Context, Found, choose_by_name};
use crate::image::digest::Digest;
use crate::image::documents::{SavedImage, parse, verify_digest};
use crate::image::error::{At, Fault, Located, shown};

/// Finds the image in a saved archive.
pub(super) fn find(
    files: Box<dyn Files>,
    image: Option<&str>,
    context: &Context<'_>,
) -> Result<Found, Located> {
    let place = || "manifest.json".to_owned();
    let bytes = files.document("manifest.json", context.limits).at(place)?;
    let images: Vec<SavedImage> = parse("manifest.json", &bytes).at(place)?;
    let chosen = choose_by_name(&images, image, |image| image.repo_tags.clone()).at(place)?;
    let chosen = match chosen.as_slice() {
        [] => return Err(Fault::document("manifest.json", "it lists no image")).at(place),
        [only] => *only,
        [first, rest @ ..] if rest.iter().all(|other| other == first) => *first,
        _ => {
            let names: Vec<String> = chosen.iter().map(|i| shown(i.config.as_bytes())).collect();
            return Err(Fault::Several(names.join(", "))).at(place);
        }
    };
    let config = files.document(&chosen.config, context.limits).at(place)?;
    if let Some(stated) = stated(&chosen.config) {
        verify_digest("the configuration", Digest::of(&config), stated).at(place)?;
    }
    let blob = |path: &String| Blob {
        name: path.clone(),
        digest: None,
        size: None,
    };
    Ok(Found {
        names: chosen.repo_tags.clone(),
        manifest: None,
        config,
        layers: chosen.layers.iter().map(blob).collect(),
        from: Box::new(SavedBlobs(files)),
    })
}

/// Returns the digest in the configuration's path: `<64 digits>.json` or `blobs/sha256/<64 digits>`.
fn stated(path: &str) -> Option<Digest> {
    let name = path.rsplit('/').next()?;
    let hex = name.strip_suffix(".json").unwrap_or(name);
    format!("sha256:{hex}").parse().ok()
}

struct SavedBlobs(Box<dyn Files>);

impl Blobs for SavedBlobs {
    fn open(&self, blob: &Blob) -> Result<Box<dyn Read>, Fault> {
        let found = self.0.open(&blob.name)?;
        found.ok_or_else(|| Fault::Missing(shown(blob.name.as_bytes())))
    }
}
