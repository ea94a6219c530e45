//! Unpacked layers, mounted by overlayfs, are what the reference model in memory says. Mounts, makes devices and gives
//! files to others: needs root.

use crate::image::support;

use std::fs::{self, File};
use std::path::Path;

use constel_containers::image::tar::{Stream, TarReader};
use constel_containers::image::{Added, Limits, Silent, Tree};
use proptest::prelude::*;
use support::overlay::{Listing, listing, listing_of_tree, mount};
use support::{Bench, Tar};
use tar::EntryType;

/// One entry of a layer.
#[derive(Debug, Clone)]
enum Op {
    Folder(String, u32),
    File(String, u8, u32),
    Symlink(String, String),
    HardLink(String, String),
    Device(String),
    Fifo(String),
    Whiteout(String),
    Opaque(String),
    Attributed(String),
    Root(u32),
}

/// Few names, so that entries meet; with folders up to three deep.
fn path() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(vec!["a", "b", "c"]), 1..=3)
        .prop_map(|p| p.join("/"))
}

fn target() -> impl Strategy<Value = String> {
    let relative =
        prop::collection::vec(prop::sample::select(vec!["a", "b", "..", "c", "."]), 1..=3);
    (any::<bool>(), relative).prop_map(|(absolute, parts)| {
        let path = parts.join("/");
        if absolute { format!("/{path}") } else { path }
    })
}

fn op() -> impl Strategy<Value = Op> {
    let mode = prop::sample::select(vec![0o755, 0o700, 0o2775, 0o1777]);
    let file_mode = prop::sample::select(vec![0o644, 0o4755, 0o2755, 0o600]);
    prop_oneof![
        5 => (path(), mode.clone()).prop_map(|(p, m)| Op::Folder(p, m)),
        6 => (path(), any::<u8>(), file_mode).prop_map(|(p, c, m)| Op::File(p, c, m)),
        3 => (path(), target()).prop_map(|(p, t)| Op::Symlink(p, t)),
        4 => (path(), path()).prop_map(|(p, t)| Op::HardLink(p, t)),
        1 => path().prop_map(Op::Device),
        1 => path().prop_map(Op::Fifo),
        4 => path().prop_map(Op::Whiteout),
        2 => path().prop_map(Op::Opaque),
        1 => path().prop_map(Op::Attributed),
        1 => mode.prop_map(Op::Root),
        1 => Just(Op::Opaque(String::new())),
    ]
}

fn layer(ops: &[Op]) -> Vec<u8> {
    let marked = |path: &str, mark: &str| match path.rsplit_once('/') {
        Some((folder, name)) => format!("{folder}/{mark}{name}"),
        None => format!("{mark}{path}"),
    };
    let mut tar = Tar::default();
    for (number, op) in ops.iter().enumerate() {
        let with_mode = |kind, path: &str, mode, content: &[u8]| {
            let mut header = Tar::header(kind, path.as_bytes());
            header.set_mode(mode);
            header.set_uid(number as u64 % 3);
            header.set_mtime(1_000_000_000 + number as u64);
            header.set_size(content.len() as u64);
            (header, content.to_vec())
        };
        tar = match op {
            Op::Folder(path, mode) => {
                let (header, _) = with_mode(EntryType::Directory, path, *mode, b"");
                tar.append(header, b"")
            }
            Op::File(path, content, mode) => {
                let (header, content) = with_mode(EntryType::Regular, path, *mode, &[*content; 5]);
                tar.append(header, &content)
            }
            Op::Symlink(path, target) => tar.symlink(path, target),
            Op::HardLink(path, target) => tar.hard_link(path, target),
            Op::Device(path) => tar.device(EntryType::Char, path, 1, 3),
            Op::Fifo(path) => tar.append(Tar::header(EntryType::Fifo, path.as_bytes()), b""),
            Op::Whiteout(path) => tar.file(&marked(path, ".wh."), b""),
            Op::Opaque(path) if path.is_empty() => tar.file(".wh..wh..opq", b""),
            Op::Opaque(path) => tar.file(&format!("{path}/.wh..wh..opq"), b""),
            // A capability whose bytes have a line break among them.
            Op::Attributed(path) => tar
                .pax(&[
                    (
                        "SCHILY.xattr.security.capability",
                        b"\x01\0\0\x02\n\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
                    ),
                    ("SCHILY.xattr.trusted.note", b"kept"),
                    ("mtime", b"1234567890.5"),
                ])
                .file(path, b"attributed"),
            Op::Root(mode) => {
                let (header, _) = with_mode(EntryType::Directory, "./", *mode, b"");
                tar.append(header, b"")
            }
        };
    }
    tar.end()
}

/// The model's result for layers; the number of the first that it refuses, counted from 1, otherwise.
fn model(layers: &[Vec<u8>]) -> Result<Tree, usize> {
    let mut tree = Tree::default();
    for (number, layer) in layers.iter().enumerate() {
        let mut reader = TarReader::new(Stream(&layer[..]), &Limits::default());
        tree.apply(&mut reader).map_err(|_| number + 1)?;
    }
    Ok(tree)
}

fn check(layers: &[Vec<u8>]) -> Result<(), TestCaseError> {
    let bench = Bench::new();
    let empty = bench.path("empty");
    fs::create_dir(&empty).unwrap();
    let imported = bench.import_layers("x", layers);
    match model(layers) {
        Err(number) => {
            let error = imported.expect_err("the model refuses it").to_string();
            prop_assert!(error.contains(&format!("layer {number} ")), "{}", error);
        }
        Ok(tree) => {
            if let Err(error) = &imported {
                return Err(TestCaseError::fail(format!("the model takes it: {error}")));
            }
            let held = bench.store.hold("x").unwrap();
            let shown = listing(&mount(held.lower_dirs(), &empty));
            prop_assert_eq!(&shown, &listing_of_tree(&tree));
            prop_assert_eq!(given_away(&bench, &empty), shown);
        }
    }
    Ok(())
}

/// The image as an engine would get it, brought in again; without the program that it was given on its way.
fn given_away(bench: &Bench, empty: &Path) -> Listing {
    let held = bench.store.hold("x").unwrap();
    let added = Added {
        path: ".own/first",
        program: b"ELF",
    };
    let saved = bench.store.save(&held, "away:1", added, &Silent).unwrap();
    let file = bench.path("saved.tar");
    std::io::copy(&mut &saved, &mut File::create(&file).unwrap()).unwrap();
    let again = bench.import(&file, None).unwrap();
    assert_eq!(again.name, "away:1");
    let held = bench.store.hold("away:1").unwrap();
    let mut shown = listing(&mount(held.lower_dirs(), empty));
    let program = shown.remove(".own/first").unwrap();
    assert!(program.contains("555"), "{program}");
    shown.remove(".own").unwrap();
    shown
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, max_shrink_iters: 4000, ..ProptestConfig::default() })]

    #[test]
    fn overlayfs_shows_what_the_model_says(
        layers in prop::collection::vec(prop::collection::vec(op(), 1..12), 1..=3),
        refusals in prop::bool::weighted(0.1),
    ) {
        let layers = match refusals {
            true => layers.iter().map(|ops| layer(ops)).collect(),
            false => without_refusals(&layers),
        };
        check(&layers)?;
    }
}

/// Most entries at random cannot be, as links to nothing: those are left out, so that there is something to compare.
fn without_refusals(layers: &[Vec<Op>]) -> Vec<Vec<u8>> {
    let mut kept: Vec<Vec<u8>> = Vec::new();
    for ops in layers {
        let mut taken = Vec::new();
        for op in ops {
            taken.push(op.clone());
            let with_it = [&kept[..], &[layer(&taken)]].concat();
            if model(&with_it).is_err() {
                taken.pop();
            }
        }
        kept.push(layer(&taken));
    }
    kept
}

/// Layers that real builders make, or that were once wrong elsewhere.
#[test]
fn known_hard_cases_come_out_right() {
    let base = || {
        Tar::default()
            .folder("usr")
            .folder("usr/bin")
            .symlink("bin", "usr/bin")
            .file("usr/bin/sh", b"old shell")
            .folder("etc")
            .file("etc/a", b"a")
            .file("etc/b", b"b")
            .hard_link("etc/a2", "etc/a")
            .folder("d")
            .folder("d/e")
            .file("d/e/f", b"f")
    };
    let uppers = [
        // Into a folder that is a link below.
        Tar::default()
            .file("bin/tool", b"tool")
            .file("bin/sh", b"new shell"),
        // Whiteouts come last, as Docker writes them, and first.
        Tar::default()
            .file("etc/c", b"c")
            .file("etc/.wh.a", b"")
            .file("d/.wh.e", b""),
        Tar::default()
            .file(".wh.d", b"")
            .folder("d")
            .file("d/new", b"n"),
        Tar::default()
            .folder("d")
            .file("d/new", b"n")
            .file(".wh.d", b""),
        // An opaque mark before and after what is new.
        Tar::default()
            .file("d/.wh..wh..opq", b"")
            .file("d/e/g", b"g"),
        Tar::default()
            .file("d/e/g", b"g")
            .file("d/.wh..wh..opq", b""),
        // A whiteout of the same layer's file hides only what is below.
        Tar::default().file("etc/a", b"new").file("etc/.wh.a", b""),
        // Links to what is below, also when it is hidden.
        Tar::default()
            .hard_link("etc/a3", "etc/a")
            .file("etc/.wh.b", b"")
            .hard_link("etc/b2", "etc/b"),
        Tar::default().hard_link("bin/sh2", "bin/sh"),
        // A folder becomes a file becomes a folder.
        Tar::default()
            .file("d", b"file")
            .folder("d")
            .file("d/only", b"o"),
        Tar::default().file("d/.wh.e", b"").file(".wh.d", b""),
        // Folders that were made only for files below go with them.
        Tar::default()
            .file("d/e/.wh.f", b"")
            .file("d/.wh..wh..opq", b""),
        Tar::default()
            .file("d/.wh.e", b"")
            .file("d/.wh..wh..opq", b""),
        // Everything is gone.
        Tar::default().file("a", b"a").file(".wh..wh..opq", b""),
        // The root itself, and folders that nothing describes.
        Tar::default()
            .file("x/y/z", b"z")
            .hard_link("x/q", "x/y/z")
            .file("x/y/z", b"again"),
        Tar::default()
            .file(".wh.nothing", b"")
            .file("no/where/.wh.x", b"")
            .file("etc/a/../b", b""),
    ];
    for (number, upper) in uppers.into_iter().enumerate() {
        let top = Tar::default()
            .file("d/.wh.new", b"")
            .folder("etc")
            .file("etc/top", b"t");
        let layers = [base().end(), upper.end(), top.end()];
        if let Err(error) = check(&layers) {
            panic!("case {number}: {error}");
        }
    }
}

/// The model itself: what must come out, written down by hand.
#[test]
fn the_model_says_what_the_specification_does() {
    let lower = Tar::default()
        .folder("d")
        .file("d/old", b"o")
        .file("gone", b"g")
        .symlink("s", "d");
    let upper = Tar::default()
        .file("s/new", b"n")
        .file(".wh.gone", b"")
        .file("d/.wh..wh..opq", b"")
        .hard_link("kept", "gone");
    let tree = model(&[lower.end(), upper.end()]).unwrap();
    let paths: Vec<String> = tree
        .nodes()
        .map(|(p, _)| String::from_utf8(p).unwrap())
        .collect();
    assert_eq!(paths, ["d", "d/new", "kept", "s"]);
    let kept = tree.nodes().find(|(path, _)| path == b"kept").unwrap().1;
    assert_eq!(kept.content, b"g");
}
