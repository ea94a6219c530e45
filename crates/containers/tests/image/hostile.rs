//! Images that were made to harm, and images that were damaged: each is refused with what is wrong and where, or does
//! exactly what it may; nothing is written outside the store, and nothing of it is kept. Gives files to root: needs root.

use crate::image::support;

use std::fs;

use constel_containers::image::{EntryFault, Error, Fault, ImportOptions, Limits, Source};
use support::{Bench, Blobs, Tar, config, gzip, packed, zstd};
use tar::EntryType;

fn entry_fault(error: &Error) -> &EntryFault {
    match error.fault() {
        Fault::Entry { why, .. } => why,
        other => panic!("{other}"),
    }
}

fn refused(layer: Tar) -> Error {
    let bench = Bench::new();
    let error = bench.import_layers("x", &[layer.end()]).unwrap_err();
    bench.assert_empty();
    assert!(error.at().starts_with("layer 1 (sha256:"), "{error}");
    error
}

#[test]
fn paths_that_lead_out_are_refused() {
    for path in ["../x", "a/../../x", "/../x", "a/.."] {
        let error = refused(Tar::default().file(path, b"x"));
        assert_eq!(entry_fault(&error), &EntryFault::Escapes, "{path}");
        assert!(error.to_string().contains(path), "{error}");
    }
    for target in ["../../etc/passwd", "/..", "nothing", "/"] {
        let error = refused(Tar::default().hard_link("x", target));
        assert!(
            matches!(entry_fault(&error), EntryFault::BadLink { .. }),
            "{target}: {error}"
        );
    }
}

/// The image says where its links lead; they lead within the image, whatever is outside.
#[test]
fn links_in_the_way_lead_within() {
    let bench = Bench::new();
    let outside = bench.path("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("canary"), b"alive").unwrap();
    let out = outside.to_str().unwrap();
    let layer = Tar::default()
        .symlink("abs", out)
        .symlink("rel", &format!("{}{out}", "../".repeat(9)))
        .file("abs/canary", b"dead")
        .file("rel/rel", b"dead")
        .symlink("swap", out)
        .folder("swap")
        .file("swap/in", b"in")
        .hard_link("hard", "abs/canary")
        .file("abs/.wh.canary", b"");
    bench.import_layers("x", &[layer.end()]).unwrap();
    assert_eq!(fs::read(outside.join("canary")).unwrap(), b"alive");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    let held = bench.store.hold("x").unwrap();
    let root = &held.lower_dirs()[0];
    let within = root.join(out.trim_start_matches('/'));
    assert_eq!(fs::read(within.join("canary")).unwrap(), b"dead");
    assert_eq!(fs::read(within.join("rel")).unwrap(), b"dead");
    assert_eq!(fs::read(root.join("hard")).unwrap(), b"dead");
    assert!(root.join("swap").symlink_metadata().unwrap().is_dir());
    assert_eq!(fs::read(root.join("swap/in")).unwrap(), b"in");
}

#[test]
fn links_below_lead_within_as_well() {
    let bench = Bench::new();
    let outside = bench.path("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), b"secret").unwrap();
    let out = outside.to_str().unwrap();
    let lower = Tar::default().symlink("l", out).end();
    let upper = Tar::default().file("l/x", b"x").end();
    bench.import_layers("x", &[lower.clone(), upper]).unwrap();
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    // No file outside is read either.
    let thief = Tar::default().hard_link("stolen", "l/secret").end();
    let error = bench.import_layers("y", &[lower, thief]).unwrap_err();
    assert!(
        matches!(
            entry_fault(&error),
            EntryFault::BadLink {
                reason: "is not there",
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_loop_of_links_ends() {
    let layer = Tar::default()
        .symlink("a", "b")
        .symlink("b", "a")
        .file("a/x", b"");
    assert_eq!(entry_fault(&refused(layer)), &EntryFault::LinkLoop);
    // Each link doubles what is still to go.
    let mut bomb = Tar::default();
    for i in 0..30 {
        bomb = bomb.symlink(&format!("l{i}"), &format!("l{0}/../l{0}", i + 1));
    }
    assert_eq!(
        entry_fault(&refused(bomb.file("l0/x", b""))),
        &EntryFault::LinkLoop
    );
}

#[test]
fn overlays_own_marks_cannot_be_smuggled_in() {
    let device = Tar::default().device(EntryType::Char, "etc", 0, 0);
    assert!(matches!(
        entry_fault(&refused(device)),
        EntryFault::OverlayMark(_)
    ));
    let records = [("SCHILY.xattr.trusted.overlay.redirect", &b"/etc"[..])];
    let redirect = Tar::default().pax(&records).folder("x");
    assert!(matches!(
        entry_fault(&refused(redirect)),
        EntryFault::OverlayMark(_)
    ));
    for name in [".wh.", ".wh..", ".wh...", ".wh.x/y", "a/.wh.b/c"] {
        let error = refused(Tar::default().file(name, b""));
        assert_eq!(entry_fault(&error), &EntryFault::Reserved, "{name}");
    }
}

#[test]
fn what_no_file_system_has_is_refused() {
    let below_file = Tar::default().file("f", b"").file("f/x", b"");
    assert_eq!(
        entry_fault(&refused(below_file)),
        &EntryFault::NotAFolder("f".to_owned())
    );
    let root = Tar::default().symlink("./", "/etc");
    assert_eq!(entry_fault(&refused(root)), &EntryFault::RootNoFolder);
    let itself = Tar::default().file("a", b"").hard_link("a", "a");
    assert!(matches!(
        entry_fault(&refused(itself)),
        EntryFault::BadLink { .. }
    ));
    let parent = Tar::default().file("a/b", b"").hard_link("a", "a/b");
    assert!(matches!(
        entry_fault(&refused(parent)),
        EntryFault::BadLink { .. }
    ));
    let name = "x".repeat(300);
    let long = Tar::default()
        .pax(&[("path", name.as_bytes())])
        .file("short", b"");
    assert!(matches!(
        entry_fault(&refused(long)),
        EntryFault::BadPath(_)
    ));
    let zero = Tar::default().pax(&[("path", b"a\0b")]).file("short", b"");
    assert!(matches!(
        entry_fault(&refused(zero)),
        EntryFault::BadPath(_)
    ));
    let message = refused(Tar::default().file("\x1b[2J/../x", b"")).to_string();
    assert!(!message.contains('\x1b'), "{message:?}");
}

/// Later entries replace earlier ones, and nothing of these is left.
#[test]
fn entries_may_come_twice() {
    let bench = Bench::new();
    let layer = Tar::default()
        .file("a", b"first, and longer")
        .hard_link("b", "a")
        .file("a", b"second")
        .folder("d/e/f")
        .file("d/e/f/g", b"g")
        .file("d", b"file")
        .symlink("s", "nowhere")
        .file("s", b"no link");
    bench.import_layers("x", &[layer.end()]).unwrap();
    let held = bench.store.hold("x").unwrap();
    let read = |name: &str| fs::read(held.lower_dirs()[0].join(name)).unwrap();
    assert_eq!(
        (read("a"), read("b")),
        (b"second".to_vec(), b"first, and longer".to_vec())
    );
    assert_eq!(
        (read("d"), read("s")),
        (b"file".to_vec(), b"no link".to_vec())
    );
}

fn limited(limits: Limits, stored: Vec<u8>, plain: Vec<u8>) -> Error {
    let bench = Bench::new();
    let folder = bench.path("layout");
    let mut blobs = Blobs::default();
    let manifest = blobs.image(&config(&[plain], "{}"), &[stored], "");
    blobs.write(&folder, &format!(r#"{{"manifests": [{manifest}]}}"#));
    let options = ImportOptions {
        limits,
        ..ImportOptions::default()
    };
    let error = bench
        .import_with(&Source::Path(folder), Some("x"), &options)
        .unwrap_err();
    bench.assert_empty();
    error
}

#[test]
fn a_compressed_archive_is_bounded_wherever_it_is_detected() {
    let plain = Tar::default().file("zeros", &vec![0; 4 << 20]).end();
    let mut limits = Limits::default();
    (limits.ratio, limits.ratio_from_bytes) = (50, 1 << 20);
    let options = ImportOptions {
        limits,
        ..ImportOptions::default()
    };
    let bench = Bench::new();
    let file = bench.path("bomb.tar.gz");
    fs::write(&file, gzip(&plain)).unwrap();
    for source in [Source::Path(file.clone()), Source::RootFs(file.clone())] {
        let error = bench.import_with(&source, Some("x"), &options).unwrap_err();
        assert!(
            matches!(error.fault(), Fault::Limit { limit: "ratio", .. }),
            "{source}: {error}"
        );
        bench.assert_empty();
    }
}

/// One bound holds for the whole stream: of another compression, of many members or frames that are small, with frames that have no content, and
/// for a compressed layer within an archive, which may be compressed too.
#[test]
fn no_form_of_compression_is_without_its_bound() {
    let plain = Tar::default().file("zeros", &vec![0; 4 << 20]).end();
    // Each member is small, and has an empty one behind it.
    let in_parts = |of: fn(&[u8]) -> Vec<u8>| -> Vec<u8> {
        let parts = plain.chunks(64 << 10);
        parts
            .flat_map(|part| [of(part), of(b"")].concat())
            .collect()
    };
    let skipped = [&[0x5c, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
    let mut limits = Limits::default();
    (limits.ratio, limits.ratio_from_bytes) = (50, 1 << 20);
    let options = ImportOptions {
        limits: limits.clone(),
        ..ImportOptions::default()
    };
    let bench = Bench::new();
    let refused = |name: &str, stored: &[u8], forms: &[fn(std::path::PathBuf) -> Source]| {
        let file = bench.path(name);
        fs::write(&file, stored).unwrap();
        for form in forms {
            let source = form(file.clone());
            let error = bench.import_with(&source, Some("x"), &options).unwrap_err();
            assert!(
                matches!(error.fault(), Fault::Limit { limit: "ratio", .. }),
                "{source}: {error}"
            );
            bench.assert_empty();
        }
    };
    let whole = |path| Source::Archive { path, image: None };
    for (name, stored) in [
        ("members.tar.gz", in_parts(gzip)),
        ("zstd.tar", zstd(&plain)),
        ("frames.tar.zst", in_parts(zstd)),
        ("skipped.tar.zst", [skipped, zstd(&plain)].concat()),
    ] {
        assert!(plain.len() > 50 * stored.len(), "{name}: {}", stored.len());
        refused(name, &stored, &[Source::Path, Source::RootFs, whole]);
    }
    // The layer is small where the archive is read, and large where it is unpacked.
    for (name, of) in [("gzip", gzip as fn(&[u8]) -> Vec<u8>), ("zstd", zstd)] {
        let error = limited(limits.clone(), of(&plain), plain.clone());
        assert!(
            matches!(error.fault(), Fault::Limit { limit: "ratio", .. }),
            "{name}: {error}"
        );
        let folder = bench.path(&format!("layout-{name}"));
        let mut blobs = Blobs::default();
        let manifest = blobs.image(
            &config(std::slice::from_ref(&plain), "{}"),
            &[of(&plain)],
            "",
        );
        blobs.write(&folder, &format!(r#"{{"manifests": [{manifest}]}}"#));
        let archive = packed(&folder);
        for (ending, stored) in [
            ("tar", archive.clone()),
            ("tar.gz", gzip(&archive)),
            ("tar.zst", zstd(&archive)),
        ] {
            let name = format!("within-{name}.{ending}");
            refused(&name, &stored, &[Source::Path, whole]);
        }
    }
}

#[test]
fn a_pipe_or_device_in_place_of_a_file_is_refused_and_not_waited_for() {
    let bench = Bench::new();
    let pipe = bench.path("pipe.tar");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    for path in [pipe, "/dev/zero".into()] {
        for source in [Source::Path(path.clone()), Source::RootFs(path.clone())] {
            let error = bench.import(source_path(&source), Some("x")).unwrap_err();
            assert!(
                error.to_string().contains("not a regular file"),
                "{source}: {error}"
            );
        }
    }
}

fn source_path(source: &Source) -> &std::path::Path {
    match source {
        Source::Path(path) | Source::RootFs(path) => path,
        other => panic!("{other}"),
    }
}

#[test]
fn bombs_are_stopped_at_their_bound() {
    let plain = Tar::default().file("zeros", &vec![0; 4 << 20]).end();
    let mut limits = Limits::default();
    (limits.ratio, limits.ratio_from_bytes) = (50, 1 << 20);
    let error = limited(limits, gzip(&plain), plain.clone());
    assert!(
        matches!(error.fault(), Fault::Limit { limit: "ratio", .. }),
        "{error}"
    );
    let mut limits = Limits::default();
    limits.layer_bytes = 1 << 20;
    let error = limited(limits, gzip(&plain), plain.clone());
    assert!(
        matches!(
            error.fault(),
            Fault::Limit {
                limit: "layer_bytes",
                ..
            }
        ),
        "{error}"
    );
    // Within bounds it is fine, and takes no room.
    let bench = Bench::new();
    let imported = bench.import_layers("zeros", &[plain]).unwrap();
    assert_eq!(imported.image.bytes, 0);
    let file = bench.store.hold("zeros").unwrap().lower_dirs()[0].join("zeros");
    assert_eq!(fs::metadata(file).unwrap().len(), 4 << 20);
    // A hole of nearly all that a file can have, in 2 KiB.
    let records = [
        ("GNU.sparse.size", &b"9000000000000000000"[..]),
        ("GNU.sparse.map", b"0,1"),
    ];
    let sparse = Tar::default().pax(&records).file("f", b"x");
    assert!(matches!(
        refused(sparse).fault(),
        Fault::Limit {
            limit: "layer_bytes",
            ..
        }
    ));
    let mut limits = Limits::default();
    limits.entries = 5;
    let many = (0..6)
        .fold(Tar::default(), |tar, i| tar.file(&format!("f{i}"), b""))
        .end();
    let error = limited(limits, many.clone(), many);
    assert!(
        matches!(
            error.fault(),
            Fault::Limit {
                limit: "entries",
                ..
            }
        ),
        "{error}"
    );
}

/// Every blob of a layout, damaged in every way that a digest or a size can detect.
#[test]
fn damage_is_found_wherever_it_is() {
    let layers = [Tar::default().file("a", b"text").end()];
    let bench = Bench::new();
    let folder = bench.path("layout");
    support::layout(&folder, &layers, "{}");
    let blobs = folder.join("blobs/sha256");
    for entry in fs::read_dir(&blobs).unwrap() {
        let path = entry.unwrap().path();
        let whole = fs::read(&path).unwrap();
        let mut flipped = whole.clone();
        let middle = flipped.len() / 2;
        flipped[middle] ^= 1;
        let longer = [&whole[..], b" "].concat();
        for (how, bytes) in [
            ("flipped", &flipped[..]),
            ("longer", &longer),
            ("cut", &whole[..middle]),
            ("empty", b""),
        ] {
            fs::write(&path, bytes).unwrap();
            let error = bench.import(&folder, Some("x")).unwrap_err();
            let fault = error.fault();
            let told = matches!(
                fault,
                Fault::Digest { .. } | Fault::Size { .. } | Fault::Damaged(_)
            );
            assert!(told, "{how} {}: {error}", path.display());
            bench.assert_empty();
        }
        fs::remove_file(&path).unwrap();
        let error = bench.import(&folder, Some("x")).unwrap_err();
        assert!(matches!(error.fault(), Fault::Missing(_)), "{error}");
        fs::write(&path, &whole).unwrap();
    }
    bench.import(&folder, Some("x")).unwrap();
}

/// The manifest's digests are right, and the configuration promises another content.
#[test]
fn a_content_that_is_not_the_promised_one_is_refused() {
    let layer = Tar::default().file("a", b"text").end();
    let other = Tar::default().file("a", b"other").end();
    let error = limited(Limits::default(), layer.clone(), other);
    assert!(matches!(error.fault(), Fault::Digest { .. }), "{error}");
    assert!(
        error.to_string().contains("its content has the digest"),
        "{error}"
    );
    // Bytes after the archive's end are part of the digest.
    let mut longer = layer.clone();
    longer.extend_from_slice(&[0; 512]);
    let error = limited(Limits::default(), longer, layer);
    assert!(matches!(error.fault(), Fault::Digest { .. }), "{error}");
}

#[test]
fn documents_that_lie_are_located() {
    let layers = [Tar::default().file("a", b"a").end()];
    let cases: [(&str, String, &str); 5] = [
        ("not json", "{".to_owned(), "index.json is malformed"),
        (
            "bad digest",
            r#"{"manifests": [{"digest": "sha256:../../x", "size": 1}]}"#.to_owned(),
            "is no digest",
        ),
        (
            "nothing",
            r#"{"manifests": []}"#.to_owned(),
            "no platform that is named",
        ),
        (
            "missing",
            format!(
                r#"{{"manifests": [{{"digest": "sha256:{}", "size": 1}}]}}"#,
                "0".repeat(64)
            ),
            "is missing",
        ),
        (
            "negative",
            r#"{"manifests": [{"digest": "x", "size": -1}]}"#.to_owned(),
            "index.json is malformed",
        ),
    ];
    for (name, index, says) in cases {
        let bench = Bench::new();
        let folder = bench.path("layout");
        support::layout(&folder, &layers, "{}");
        fs::write(folder.join("index.json"), index).unwrap();
        let error = bench.import(&folder, Some("x")).unwrap_err();
        assert!(error.to_string().contains(says), "{name}: {error}");
        bench.assert_empty();
    }
}

/// A layout whose blobs are links out of it is not one to be followed.
#[test]
fn a_layout_is_not_left() {
    let bench = Bench::new();
    let (folder, outside) = (bench.path("layout"), bench.path("outside.json"));
    support::layout(&folder, &[Tar::default().file("a", b"a").end()], "{}");
    fs::rename(folder.join("index.json"), &outside).unwrap();
    std::os::unix::fs::symlink("../outside.json", folder.join("index.json")).unwrap();
    let error = bench.import(&folder, Some("x")).unwrap_err();
    assert!(
        error.to_string().contains("leads out of its folder"),
        "{error}"
    );
}
