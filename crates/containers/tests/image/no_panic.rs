//! Archives and documents that were whole and then damaged at random places: an error or a tree, never a panic; and what
//! is read in jumps is what is read onwards.

use crate::image::support;

use constel_containers::image::documents::{Index, Manifest, SavedImage, parse};
use constel_containers::image::tar::{Seekable, Stream, TarReader};
use constel_containers::image::{Config, Limits, Platform, Reference, Source, Tree, lookup};
use proptest::prelude::*;
use support::Tar;
use tar::EntryType;

fn archive() -> Vec<u8> {
    let long = b"n/".repeat(120);
    Tar::default()
        .folder("./")
        .folder("a")
        .pax(&[
            ("path", &long),
            ("mtime", b"1.5"),
            ("SCHILY.xattr.user.x", b"\n=\0"),
        ])
        .file("long", b"content")
        .file_of(EntryType::GNULongName, "@", b"b/longer\0")
        .symlink("short", "../a")
        .pax(&[
            ("GNU.sparse.size", b"3000"),
            ("GNU.sparse.map", b"1000,2,2047,1"),
        ])
        .file("sparse", b"abc")
        .hard_link("c", "sparse")
        .device(EntryType::Char, "d", 1, 3)
        .file("a/.wh..wh..opq", b"")
        .file(".wh.c", b"")
        .end()
}

/// Every entry's path, and how the reading ended.
fn entries<T: constel_containers::image::tar::Tape>(tape: T) -> (Vec<Vec<u8>>, Option<String>) {
    let mut reader = TarReader::new(tape, &Limits::default());
    let mut paths = Vec::new();
    loop {
        match reader.next_entry() {
            Ok(Some(entry)) => paths.push(entry.path),
            Ok(None) => return (paths, None),
            Err(error) => return (paths, Some(error.to_string())),
        }
    }
}

/// A header whose check sum holds again, so that the damage is not found by it.
fn mend(archive: &mut [u8], block: usize) {
    let blocks = archive.len() / 512;
    let at = block % blocks * 512;
    let mut header = tar::Header::from_byte_slice(&archive[at..at + 512]).clone();
    header.set_cksum();
    archive[at..at + 512].copy_from_slice(header.as_bytes());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_layer_is_an_error_or_a_tree(
        damage in prop::collection::vec((0..12_000usize, any::<u8>()), 1..8),
        mended in any::<bool>(),
        cut in prop::option::of(0..12_000usize),
    ) {
        let mut bytes = archive();
        for (at, byte) in damage {
            let at = at % bytes.len();
            bytes[at] = byte;
            if mended {
                mend(&mut bytes, at / 512);
            }
        }
        bytes.truncate(cut.unwrap_or(bytes.len()));
        let onwards = entries(Stream(&bytes[..]));
        let jumping = entries(Seekable(std::io::Cursor::new(&bytes)));
        // A jump beyond the end is noticed later, or not at all.
        prop_assert!(jumping.0.starts_with(&onwards.0) , "{:?} {:?}", onwards, jumping);
        let mut tree = Tree::default();
        drop(tree.apply(&mut TarReader::new(Stream(&bytes[..]), &Limits::default())));
        for (path, _) in tree.nodes() {
            let mut parts = path.split(|b| *b == b'/');
            prop_assert!(parts.all(|part| !part.is_empty() && part != b"." && part != b".."));
        }
    }

    #[test]
    fn documents_and_names_are_errors_or_themselves(
        text in "\\PC{0,60}",
        json in prop::sample::select(vec![
            r#"{"manifests": [{"digest": X, "size": X, "platform": {"os": X, "architecture": "amd64"}}]}"#,
            r#"{"config": {"mediaType": X, "digest": X, "size": 1}, "layers": X}"#,
            r#"[{"Config": X, "RepoTags": X, "Layers": [X]}]"#,
            r#"{"architecture": "amd64", "os": "linux", "rootfs": {"diff_ids": X}, "config": {"Env": [X], "User": X,
                "WorkingDir": X, "StopSignal": X, "ExposedPorts": {"80": X}, "Healthcheck": {"Test": X}}}"#,
        ]),
        values in prop::collection::vec(prop::sample::select(vec![
            "null", "[]", "{}", "\"\"", "\"/a/../b\"", "-1", "1e99", "\"SIGRTMIN+40\"", "[\"CMD\"]", "\"A=b\"",
        ]), 6),
    ) {
        let platform = Platform { architecture: "amd64".to_owned(), os: "linux".to_owned() };
        let mut values = values.iter();
        let document: String = json.split('X').map(|part| format!("{part}{}", values.next().unwrap_or(&"null"))).collect();
        let document = document.trim_end_matches("null").as_bytes();
        if let Ok(index) = parse::<Index>("index", document) {
            drop(index.choose(&platform));
        }
        drop(parse::<Manifest>("manifest", document));
        drop(parse::<Vec<SavedImage>>("manifest.json", document));
        if let Ok(config) = Config::parse(document, &platform) {
            prop_assert!(config.workdir.starts_with('/') && (1..=64).contains(&config.stop_signal));
        }
        if let Ok(name) = text.parse::<Reference>() {
            prop_assert_eq!(name.to_string().parse::<Reference>().unwrap(), name);
        }
        drop(text.parse::<Source>());
        drop(lookup(&text, &text, &text));
    }
}
