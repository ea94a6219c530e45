//! OCI image layouts: `index.json` refers to manifests, which refer to a configuration and layers. All of them are files named
//! by digest.

use std::io::Read;

use super::files::Files;
use super::found::{Blob, Blobs, Context, Found, choose_by_name};
use crate::image::documents::{Descriptor, Index, Manifest, parse, verify};
use crate::image::error::{At, Fault, Located};

/// Maximum depth of indexes in indexes.
const DEEPEST: usize = 4;
const CONTAINERD_NAME: &str = "io.containerd.image.name";
const OCI_NAME: &str = "org.opencontainers.image.ref.name";

/// Finds the image in a layout.
pub(super) fn find(
    files: Box<dyn Files>,
    image: Option<&str>,
    stem: &str,
    context: &Context<'_>,
) -> Result<Found, Located> {
    let read = |name: &str| files.document(name, context.limits);
    let bytes = read("index.json").at(|| "index.json".to_owned())?;
    let index: Index = parse("index.json", &bytes)?;
    let names = |descriptor: &Descriptor| names_of(descriptor, stem);
    let left: Vec<Descriptor> = choose_by_name(&index.manifests, image, names)?
        .into_iter()
        .cloned()
        .collect();
    let mut chosen = match left.as_slice() {
        [only] => only.clone(),
        _ => Index { manifests: left }.choose(context.platform)?.clone(),
    };
    let names = names_of(&chosen, stem);
    let document = |descriptor: &Descriptor, what: &str| {
        let bytes = read(&blob_path(descriptor))?;
        verify(what, &bytes, descriptor)?;
        Ok(bytes)
    };
    for depth in 0.. {
        if !chosen.is_index() {
            break;
        }
        if depth == DEEPEST {
            return Err(Fault::document("index.json", "indexes lead to indexes to indexes").into());
        }
        let place = || format!("index {}", chosen.digest);
        let bytes = document(&chosen, "an index").at(place)?;
        let index: Index = parse("an index", &bytes).at(place)?;
        let next = index.choose(context.platform).at(place)?.clone();
        chosen = next;
    }
    let place = || format!("manifest {}", chosen.digest);
    let bytes = document(&chosen, "the manifest").at(place)?;
    let manifest: Manifest = parse("the manifest", &bytes).at(place)?;
    manifest.check().at(place)?;
    let config = document(&manifest.config, "the configuration").at(place)?;
    let layers = manifest.layers.iter().map(blob).collect();
    Ok(Found {
        names,
        manifest: Some(chosen.digest),
        config,
        layers,
        from: Box::new(LayoutBlobs(files)),
    })
}

/// Returns the layer that a descriptor refers to.
pub(super) fn blob(descriptor: &Descriptor) -> Blob {
    Blob {
        name: blob_path(descriptor),
        digest: Some(descriptor.digest),
        size: Some(descriptor.size),
    }
}

fn blob_path(descriptor: &Descriptor) -> String {
    format!("blobs/sha256/{}", descriptor.digest.hex())
}

/// Returns the names that a layout gives an image: a full name, or only a tag, which is appended to the file's name.
fn names_of(descriptor: &Descriptor, stem: &str) -> Vec<String> {
    if let Some(name) = descriptor.annotations.get(CONTAINERD_NAME) {
        return vec![name.clone()];
    }
    match descriptor.annotations.get(OCI_NAME) {
        Some(name) if name.contains([':', '/']) => vec![name.clone()],
        Some(tag) => vec![format!("{stem}:{tag}")],
        None => Vec::new(),
    }
}

struct LayoutBlobs(Box<dyn Files>);

impl Blobs for LayoutBlobs {
    fn open(&self, blob: &Blob) -> Result<Box<dyn Read>, Fault> {
        let found = self.0.open(&blob.name)?;
        found.ok_or_else(|| Fault::Missing(blob.name.clone()))
    }
}
