//! Images that are odd and right: what they say of owners, rights and links is what a container sees. Gives files to root and
//! to others: needs root.

use crate::image::support;

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use constel_containers::image::{Source, Store};
use support::overlay::mount;
use support::{Bench, Tar, gzip, layout};
use tar::{EntryType, Header};

fn header(kind: EntryType, path: &str, mode: u32, owner: (u64, u64)) -> Header {
    let mut header = Tar::header(kind, path.as_bytes());
    header.set_mode(mode);
    header.set_uid(owner.0);
    header.set_gid(owner.1);
    header
}

fn file(tar: Tar, path: &str, mode: u32, owner: (u64, u64), content: &[u8]) -> Tar {
    let mut header = header(EntryType::Regular, path, mode, owner);
    header.set_size(content.len() as u64);
    tar.append(header, content)
}

/// The image's files as a container sees them, as long as the first is kept.
fn seen(bench: &Bench, name: &str) -> (OwnedFd, PathBuf) {
    let empty = bench.path("empty");
    fs::create_dir_all(&empty).unwrap();
    let held = bench.store.hold(name).unwrap();
    let mounted = mount(held.lower_dirs(), &empty);
    let root = PathBuf::from(format!("/proc/self/fd/{}", mounted.as_raw_fd()));
    (mounted, root)
}

#[test]
fn rights_and_owners_survive_all_that_follows_them() {
    let bench = Bench::new();
    let lower = file(Tar::default(), "su", 0o4755, (0, 0), b"su");
    let lower = file(lower, "wall", 0o2755, (0, 5), b"wall");
    let lower = lower.append(header(EntryType::Directory, "tmp", 0o1777, (0, 0)), b"");
    // The mark of a changed owner alone, as `chown` in a Dockerfile makes: the mode is written after the owner, or it is lost.
    let upper = file(Tar::default(), "passwd", 0o4755, (1000, 1000), b"p");
    let upper = upper.hard_link("su2", "su");
    bench
        .import_layers("x", &[lower.end(), upper.end()])
        .unwrap();
    let (_mounted, root) = seen(&bench, "x");
    let of = |name: &str| {
        let file = fs::metadata(root.join(name)).unwrap();
        (file.mode() & 0o7777, file.uid(), file.gid())
    };
    assert_eq!(of("su"), (0o4755, 0, 0));
    assert_eq!(of("su2"), (0o4755, 0, 0), "linked from the layer below");
    assert_eq!(of("wall"), (0o2755, 0, 5));
    assert_eq!(of("tmp"), (0o1777, 0, 0));
    assert_eq!(of("passwd"), (0o4755, 1000, 1000));
}

#[test]
fn hard_links_are_one_file_whatever_their_number() {
    let bench = Bench::new();
    let mut layer = Tar::default().folder("d").file("d/0", b"same");
    for n in 1..1000 {
        // Each is a link to the one before it.
        layer = layer.hard_link(&format!("d/{n}"), &format!("d/{}", n - 1));
    }
    let imported = bench.import_layers("x", &[layer.end()]).unwrap();
    assert_eq!(imported.image.bytes, 4, "counted once");
    let held = bench.store.hold("x").unwrap();
    let file = fs::metadata(held.lower_dirs()[0].join("d/999")).unwrap();
    assert_eq!(file.nlink(), 1000);
}

/// Devices are in many images; containers have their own.
#[test]
fn devices_are_made_and_a_folder_of_them_hurts_nobody() {
    let bench = Bench::new();
    let layer = Tar::default()
        .folder("dev")
        .device(EntryType::Char, "dev/null", 1, 3)
        .device(EntryType::Block, "dev/sda", 8, 0);
    bench.import_layers("x", &[layer.end()]).unwrap();
    let held = bench.store.hold("x").unwrap();
    let null = held.lower_dirs()[0].join("dev/null");
    let made = fs::symlink_metadata(null).unwrap();
    assert_eq!(made.mode() & 0o170_000, 0o020_000);
    assert_eq!(made.rdev(), rustix::fs::makedev(1, 3));
    // The store is closed to all users but root, so no user opens them there.
    let store = fs::metadata(bench.path("store")).unwrap();
    assert_eq!(store.mode() & 0o077, 0);
}

#[test]
fn an_image_of_nothing_is_an_image() {
    let bench = Bench::new();
    let imported = bench.import_layers("x", &[Tar::default().end()]).unwrap();
    assert_eq!((imported.image.layers.len(), imported.image.bytes), (1, 0));
    let folder = bench.path("none");
    layout(&folder, &[], "{}");
    let imported = bench.import(&folder, Some("y")).unwrap();
    assert_eq!(imported.image.layers.len(), 0);
}

/// Containers have files of their own in `/etc`: it is a folder, or leads to one within the image.
#[test]
fn etc_may_be_a_link_to_a_folder_of_the_image_and_nowhere_else() {
    let bench = Bench::new();
    let passwd = b"root:x:0:0::/root:/bin/sh\nweb:x:33:34::/srv:/bin/sh\n";
    let right = Tar::default()
        .folder("usr")
        .folder("usr/config")
        .file("usr/config/passwd", passwd)
        .symlink("etc", "/usr/config")
        // Other folders that every container gets give way to the image's.
        .symlink("tmp", "nowhere");
    bench.import_layers("right", &[right.end()]).unwrap();
    let held = bench.store.hold("right").unwrap();
    assert_eq!(held.user(Some("web")).unwrap().uid, 33);

    let link = |to: &str| Tar::default().file("passwd", b"x").symlink("etc", to);
    for wrong in ["/nowhere", "../outside", "passwd", "etc", "/", "../.."].map(link) {
        let error = bench.import_layers("wrong", &[wrong.end()]).unwrap_err();
        let said = error.to_string();
        assert!(said.contains("its /etc is a symbolic link"), "{said}");
        assert!(error.fault().remedy().is_some(), "{said}");
    }
    for place in ["etc", "dev", "run"] {
        let wrong = Tar::default().file(place, b"x").end();
        let said = bench
            .import_layers("wrong", &[wrong])
            .unwrap_err()
            .to_string();
        assert!(
            said.contains(&format!("its /{place} is no folder")),
            "{said}"
        );
    }
    for (place, to) in [("proc", "usr"), ("dev", "/"), ("run", ".."), ("tmp", "/")] {
        let wrong = Tar::default().folder("usr").symlink(place, to).end();
        let said = bench
            .import_layers("wrong", &[wrong])
            .unwrap_err()
            .to_string();
        assert!(
            said.contains(&format!("its /{place} is a symbolic link")),
            "{said}"
        );
    }
    // The highest layer decides.
    let repaired = [link("/nowhere").end(), Tar::default().folder("etc").end()];
    bench.import_layers("repaired", &repaired).unwrap();
    let names: Vec<String> = bench
        .store
        .list()
        .unwrap()
        .into_iter()
        .flat_map(|image| image.names)
        .collect();
    assert!(
        !names.iter().any(|name| name.contains("wrong")),
        "{names:?}"
    );
}

/// As large as the largest that people run. The time is bounded by what it would be if anything were quadratic.
#[test]
fn a_hundred_thousand_files_are_no_matter() {
    let temp = support::temp();
    let store = Store::open(&temp.path().join("store")).unwrap();
    let mut layer = Tar::default();
    for folder in 0..1000 {
        layer = layer.folder(&format!("d{folder}"));
        for n in 0..100 {
            layer = layer.file(&format!("d{folder}/f{n}"), b"content");
        }
    }
    // A second layer that hides half of the first, folder by folder.
    let mut hides = Tar::default();
    for folder in (0..1000).step_by(2) {
        hides = hides.file(&format!(".wh.d{folder}"), b"");
    }
    let folder = temp.path().join("layout");
    layout(&folder, &[layer.end(), hides.end()], "{}");
    let options = constel_containers::image::ImportOptions {
        name: Some("x".to_owned()),
        ..constel_containers::image::ImportOptions::default()
    };
    let began = Instant::now();
    let imported = store
        .import(
            &Source::Path(folder),
            &options,
            &constel_containers::image::Silent,
        )
        .unwrap();
    assert_eq!(imported.image.layers[0].entries, 101_000);
    let took = began.elapsed();
    assert!(took < Duration::from_secs(60), "{took:?}");
    let held = store.hold("x").unwrap();
    let empty = temp.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let mounted = mount(held.lower_dirs(), &empty);
    let listing = support::overlay::listing(&mounted);
    assert_eq!(listing.len(), 1 + 500 + 50_000, "with the root");
}

/// A layer that is compressed better than any real one is stopped while it is unpacked, not after.
#[test]
fn a_bomb_within_a_bomb_is_not_opened() {
    let bench = Bench::new();
    let inner = gzip(&vec![0; 8 << 20]);
    let layer = Tar::default().file("bomb.gz", &inner).end();
    let imported = bench.import_layers("x", &[layer]).unwrap();
    assert!(imported.image.bytes < 64 << 10, "{}", imported.image.bytes);
}
