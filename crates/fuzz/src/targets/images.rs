//! Images: documents, names, archives, and files unpacked to disk.

use std::fs;
use std::io::Write;
use std::path::Path;

use constel_containers::image::documents::{Index, Manifest, SavedImage, parse};
use constel_containers::image::tar::{Seekable, Stream, TarReader};
use constel_containers::image::{
    Config, Digest, ImportOptions, Limits, Platform, Reference, Silent, Source, Store, Tree,
    lookup, reads_challenge,
};

use super::{Target, in_memory, names as names_of, texts};

pub(super) fn targets() -> Vec<Target> {
    vec![
        Target::new("image-documents", documents, read_documents),
        Target::new("image-names", names, |bytes| {
            texts(bytes).is_some_and(read_names)
        }),
        Target::new("image-layer", layers, read_layers),
        Target::new("image-unpack", layers, |bytes| {
            two(bytes).is_some_and(|layers| import(|place| layout(place, layers)))
        }),
        Target::new("image-archive", archives, |bytes| {
            import(|place| archive(place, bytes))
        }),
        Target::new("registry-answer", registry_answers, reads_challenge),
    ]
}

/// Checks that an accepted configuration has only valid settings.
fn read_documents(bytes: &[u8]) -> bool {
    let platform = Platform {
        architecture: "amd64".to_owned(),
        os: "linux".to_owned(),
    };
    let mut accepted = false;
    if let Ok(index) = parse::<Index>("an index", bytes) {
        accepted = true;
        let _ = index.choose(&platform);
    }
    accepted |= parse::<Manifest>("a manifest", bytes).is_ok();
    accepted |= parse::<Vec<SavedImage>>("manifest.json", bytes).is_ok();
    if let Ok(config) = Config::parse(bytes, &platform) {
        accepted = true;
        let up = config.workdir.split('/').any(|part| part == "..");
        assert!(config.workdir.starts_with('/') && !up);
        assert!((1..=64).contains(&config.stop_signal));
        assert!(config.args().iter().all(|arg| !arg.contains('\0')));
    }
    accepted
}

/// Checks that a name is written as it is read.
fn read_names([name, passwd, group]: [&str; 3]) -> bool {
    let mut accepted = false;
    if let Ok(read) = name.parse::<Reference>() {
        accepted = true;
        assert_eq!(read.to_string().parse::<Reference>().ok(), Some(read));
    }
    if let Ok(digest) = name.parse::<Digest>() {
        accepted = true;
        assert_eq!(digest.to_string(), name);
    }
    if let Ok(source) = name.parse::<Source>() {
        let _ = source.to_string();
    }
    let _ = lookup(name, passwd, group);
    accepted
}

/// Splits one input into two layers: the first two bytes are the offset of the second one, in blocks.
fn two(bytes: &[u8]) -> Option<[&[u8]; 2]> {
    let (head, rest) = bytes.split_at_checked(2)?;
    let at = usize::from(u16::from_be_bytes(head.try_into().ok()?)) * 512;
    Some(
        rest.split_at_checked(at)
            .map_or([rest, &[]], |(a, b)| [a, b]),
    )
}

/// Checks that no path leads out, and that an archive read with seeking has the same entries.
fn read_layers(bytes: &[u8]) -> bool {
    let Some(layers) = two(bytes) else {
        return false;
    };
    let limits = Limits::default();
    let mut tree = Tree::default();
    let mut accepted = true;
    for layer in layers {
        let read = tree.apply(&mut TarReader::new(Stream(layer), &limits));
        let mut jumping = TarReader::new(Seekable(std::io::Cursor::new(layer)), &limits);
        if read.is_ok() {
            while let Ok(Some(_)) = jumping.next_entry() {}
        }
        accepted &= read.is_ok();
        for (path, _) in tree.nodes() {
            let mut parts = path.split(|b| *b == b'/');
            assert!(parts.all(|part| !part.is_empty()
                && part != b"."
                && part != b".."
                && !part.contains(&0)));
        }
    }
    accepted
}

/// An OCI image layout of two layers.
fn layout(folder: &Path, layers: [&[u8]; 2]) -> std::io::Result<()> {
    let blobs = folder.join("blobs/sha256");
    fs::create_dir_all(&blobs)?;
    let put = |kind: &str, bytes: &[u8]| -> std::io::Result<String> {
        let digest = Digest::of(bytes);
        fs::write(blobs.join(digest.hex()), bytes)?;
        let size = bytes.len();
        Ok(format!(
            r#"{{"mediaType": "application/vnd.oci.image.{kind}", "digest": "{digest}", "size": {size}}}"#
        ))
    };
    let diff_ids = layers.map(|layer| format!("\"{}\"", Digest::of(layer)));
    let architecture = Platform::host().architecture;
    let config = format!(
        r#"{{"architecture": "{architecture}", "os": "linux", "config": {{}}, "rootfs": {{"type": "layers", "diff_ids": [{}]}}}}"#,
        diff_ids.join(", ")
    );
    let config = put("config.v1+json", config.as_bytes())?;
    let [below, above] = layers.map(|layer| put("layer.v1.tar", layer));
    let manifest = format!(
        r#"{{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": {config}, "layers": [{}, {}]}}"#,
        below?, above?
    );
    let manifest = put("manifest.v1+json", manifest.as_bytes())?;
    fs::write(
        folder.join("oci-layout"),
        r#"{"imageLayoutVersion": "1.0.0"}"#,
    )?;
    let index = format!(r#"{{"schemaVersion": 2, "manifests": [{manifest}]}}"#);
    fs::write(folder.join("index.json"), index)
}

/// A file that may be an image or a root file system. The first byte selects its compression, so that changes of the others are
/// behind it: 1 is gzip, all others none.
fn archive(place: &Path, bytes: &[u8]) -> std::io::Result<()> {
    match bytes {
        [1, content @ ..] => {
            let file = fs::File::create(place)?;
            let mut gzip = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
            gzip.write_all(content)?;
            gzip.finish().map(drop)
        }
        [_, content @ ..] => fs::write(place, content),
        [] => fs::write(place, b""),
    }
}

/// Imports what `give` has written. Checks that nothing is written outside the store, and that nothing of a rejected image is
/// kept. Owners and devices need root; without it all images are rejected.
fn import(give: impl FnOnce(&Path) -> std::io::Result<()>) -> bool {
    let place = in_memory();
    let at = |name: &str| place.path().join(name);
    fs::write(at("canary"), b"alive").expect("room in memory");
    give(&at("given")).expect("room in memory");
    let store = Store::open(&at("store")).expect("a store of ours");
    let mut limits = Limits::default();
    (limits.layer_bytes, limits.entries, limits.spool_bytes) = (1 << 20, 1000, 1 << 20);
    let options = ImportOptions {
        name: Some("x".to_owned()),
        limits,
        ..ImportOptions::default()
    };
    let came = store.import(&Source::Path(at("given")), &options, &Silent);
    assert_eq!(fs::read(at("canary")).ok().as_deref(), Some(&b"alive"[..]));
    assert_eq!(names_of(place.path()), ["canary", "given", "store"]);
    assert_eq!(
        names_of(&at("store/work")).len(),
        0,
        "what an import needed while it ran is gone"
    );
    let kept = names_of(&at("store/layers")).len();
    // Complete and verified layers stay for another import; nothing else of a rejected image stays.
    if came.is_err() {
        assert!(
            store.hold("x").is_err(),
            "an image that was refused has a name"
        );
        assert!(kept <= 2 && store.prune().is_ok());
        assert_eq!(names_of(&at("store/layers")).len(), 0, "nothing needs them");
    }
    came.is_ok()
}

fn documents() -> Vec<Vec<u8>> {
    let digest = format!("sha256:{}", "0a".repeat(32));
    vec![
        format!(r#"{{"schemaVersion": 2, "manifests": [{{"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": "{digest}", "size": 100, "platform": {{"architecture": "amd64", "os": "linux"}}}}]}}"#).into_bytes(),
        format!(r#"{{"schemaVersion": 2, "config": {{"mediaType": "application/vnd.oci.image.config.v1+json", "digest": "{digest}", "size": 100}}, "layers": [{{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": "{digest}", "size": 5}}]}}"#).into_bytes(),
        br#"[{"Config": "blobs/sha256/0a", "RepoTags": ["a:1"], "Layers": ["b/layer.tar"]}]"#.to_vec(),
        format!(r#"{{"architecture": "amd64", "os": "linux", "config": {{"User": "1:2", "Env": ["PATH=/bin"], "Entrypoint": ["/x"], "Cmd": ["y"], "WorkingDir": "/a/b", "StopSignal": "SIGTERM", "ExposedPorts": {{"80/tcp": {{}}}}, "Healthcheck": {{"Test": ["CMD", "/h"], "Interval": 1000000000}}}}, "rootfs": {{"type": "layers", "diff_ids": ["{digest}"]}}}}"#).into_bytes(),
    ]
}

fn names() -> Vec<Vec<u8>> {
    vec![
        b"ghcr.io/a/b:1\0root:x:0:0:root:/root:/bin/sh\nme:x:7:8::/:/x\n\0root:x:0:\nus:x:8:me,root\n".to_vec(),
        format!("localhost:5000/a@sha256:{}\0\0", "0a".repeat(32)).into_bytes(),
        format!("sha256:{}", "0a".repeat(32)).into_bytes(),
        b"docker-daemon:a:1".to_vec(),
    ]
}

/// Returns an entry of an archive, padded.
pub(super) fn entry(name: &str, kind: tar::EntryType, link: &str, content: &[u8]) -> Vec<u8> {
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(kind);
    header.set_size(content.len() as u64);
    header.set_mode(0o755);
    header.set_uid(0);
    header.set_gid(0);
    let named = header.set_path(name).and_then(|()| match link {
        "" => Ok(()),
        link => header.set_link_name(link),
    });
    named.expect("names of ours are short");
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend(content);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

fn layers() -> Vec<Vec<u8>> {
    use tar::EntryType as Kind;
    let below = [
        entry("bin/", Kind::Directory, "", b""),
        entry("bin/tool", Kind::Regular, "", b"#!/bin/sh\n"),
        entry("lib", Kind::Symlink, "bin", b""),
        entry("bin/other", Kind::Link, "bin/tool", b""),
        vec![0; 1024],
    ]
    .concat();
    let above = [
        entry("bin/.wh.tool", Kind::Regular, "", b""),
        entry("lib/new", Kind::Regular, "", &[7; 700]),
        entry("pipe", Kind::Fifo, "", b""),
        vec![0; 1024],
    ]
    .concat();
    let both = |below: &[u8], above: &[u8]| {
        let blocks = (below.len() / 512) as u16;
        [&blocks.to_be_bytes()[..], below, above].concat()
    };
    vec![
        both(&below, &above),
        both(&below, &[]),
        both(&below, &below),
    ]
}

/// Archives as `docker save` wrote them and as an OCI image layout, and a root file system; each with and without compression.
fn archives() -> Vec<Vec<u8>> {
    use tar::EntryType as Kind;
    let layer = [
        entry("bin/", Kind::Directory, "", b""),
        entry("bin/tool", Kind::Regular, "", b"#!/bin/sh\n"),
        vec![0; 1024],
    ]
    .concat();
    let digest = Digest::of(&layer);
    let architecture = Platform::host().architecture;
    let config = format!(
        r#"{{"architecture": "{architecture}", "os": "linux", "config": {{}}, "rootfs": {{"type": "layers", "diff_ids": ["{digest}"]}}}}"#
    );
    let name = format!("{}.json", Digest::of(config.as_bytes()).hex());
    let manifest =
        format!(r#"[{{"Config": "{name}", "RepoTags": ["x:1"], "Layers": ["a/layer.tar"]}}]"#);
    let saved = [
        entry("a/", Kind::Directory, "", b""),
        entry("a/layer.tar", Kind::Regular, "", &layer),
        entry(&name, Kind::Regular, "", config.as_bytes()),
        entry("manifest.json", Kind::Regular, "", manifest.as_bytes()),
        vec![0; 1024],
    ]
    .concat();
    let oci = in_memory();
    layout(&oci.path().join("x"), [&layer[..], &layer[..]]).expect("room in memory");
    let mut archive = tar::Builder::new(Vec::new());
    archive
        .append_dir_all(".", oci.path().join("x"))
        .expect("a folder of ours");
    let oci = archive.into_inner().expect("an archive in memory");
    let forms = [saved, oci, layer];
    let compressed = |form: &Vec<u8>| [[0], [1]].map(|kind| [&kind[..], form].concat());
    forms.iter().flat_map(compressed).collect()
}

/// A challenge, and the answer of the server that it names.
fn registry_answers() -> Vec<Vec<u8>> {
    vec![
        b"Bearer realm=\"https://auth.example/token?x=1,2\",service=\"r\",scope=\"repository:a/b:pull\"\0{\"token\": \"abc.def\"}".to_vec(),
        b"Bearer realm=\"http://localhost:5000/t\",service=r\0{\"access_token\": \"x\", \"expires_in\": 60}".to_vec(),
        b"Basic realm=\"x\"\0{\"errors\": [{\"message\": \"no\"}]}".to_vec(),
    ]
}
