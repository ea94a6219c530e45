//! Arbitrary bytes as two layers of an image that is unpacked to disk: no panic, and nothing is written outside the store. Needs
//! root, for owners and devices.
#![no_main]

use std::fs;
use std::path::Path;

use constel_image::{Digest, ImportOptions, Limits, Platform, Silent, Source, Store};
use libfuzzer_sys::fuzz_target;

/// An OCI image layout of two layers.
fn layout(folder: &Path, layers: [&[u8]; 2]) {
    let blobs = folder.join("blobs/sha256");
    fs::create_dir_all(&blobs).unwrap();
    let put = |kind: &str, bytes: &[u8]| {
        let digest = Digest::of(bytes);
        fs::write(blobs.join(digest.hex()), bytes).unwrap();
        let size = bytes.len();
        format!(r#"{{"mediaType": "application/vnd.oci.image.{kind}", "digest": "{digest}", "size": {size}}}"#)
    };
    let diff_ids = layers.map(|layer| format!("\"{}\"", Digest::of(layer))).join(", ");
    let architecture = Platform::host().architecture;
    let config = format!(
        r#"{{"architecture": "{architecture}", "os": "linux", "config": {{}}, "rootfs": {{"type": "layers", "diff_ids": [{diff_ids}]}}}}"#
    );
    let config = put("config.v1+json", config.as_bytes());
    let layers = layers.map(|layer| put("layer.v1.tar", layer)).join(", ");
    let manifest = format!(
        r#"{{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": {config}, "layers": [{layers}]}}"#
    );
    let manifest = put("manifest.v1+json", manifest.as_bytes());
    fs::write(folder.join("oci-layout"), r#"{"imageLayoutVersion": "1.0.0"}"#).unwrap();
    fs::write(folder.join("index.json"), format!(r#"{{"schemaVersion": 2, "manifests": [{manifest}]}}"#)).unwrap();
}

fuzz_target!(|layers: (&[u8], &[u8])| {
    let place = Path::new("/dev/shm").join(format!("constel-fuzz-{}", std::process::id()));
    drop(fs::remove_dir_all(&place));
    let (store, source) = (place.join("store"), place.join("layout"));
    fs::create_dir_all(&place).unwrap();
    fs::write(place.join("canary"), b"alive").unwrap();
    layout(&source, [layers.0, layers.1]);
    let store = Store::open(&store).unwrap();
    let mut limits = Limits::default();
    (limits.layer_bytes, limits.entries) = (1 << 20, 1000);
    let options = ImportOptions { name: Some("x".to_owned()), limits, ..ImportOptions::default() };
    let came = store.import(&Source::Path(source), &options, &Silent);
    assert_eq!(fs::read(place.join("canary")).unwrap(), b"alive");
    let mut names: Vec<_> = fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["canary", "layout", "store"]);
    let work = fs::read_dir(place.join("store/work")).unwrap().count();
    assert_eq!(work, 0, "what an import needed while it ran is gone");
    let kept = fs::read_dir(place.join("store/layers")).unwrap().count();
    assert!(came.is_ok() || kept == 0, "of an image that is refused nothing is kept");
});
