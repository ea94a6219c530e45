//! A store in the hands of many: names, use, removal, processes at the same time, processes that are killed. Gives files
//! to root: needs root.

use crate::image::support;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use constel_containers::image::{Digest, Fault, ImportOptions, Silent, Store};
use support::{Bench, Blobs, Tar, config};

fn file(name: &str, content: &[u8]) -> Vec<u8> {
    Tar::default().file(name, content).end()
}

#[test]
fn images_are_listed_found_and_removed_with_what_only_they_have() {
    let bench = Bench::new();
    let (base, a, b) = (file("base", b"base"), file("a", b"aa"), file("b", b"bbb"));
    bench.import_layers("one", &[base.clone(), a]).unwrap();
    let two = bench.import_layers("two:2", &[base, b]).unwrap();
    assert_eq!(
        (two.reused_layers, two.image.bytes, two.replaced),
        (1, 7, None)
    );
    let names: Vec<_> = bench
        .store
        .list()
        .unwrap()
        .into_iter()
        .map(|i| i.names)
        .collect();
    assert_eq!(names, [["one:latest"], ["two:2"]]);
    let usage = bench.store.usage().unwrap();
    assert_eq!(
        (
            usage.images,
            usage.layers,
            usage.bytes,
            usage.unused_bytes,
            usage.work
        ),
        (2, 3, 9, 0, 0)
    );

    // By every name that it has.
    for name in [
        "two:2",
        "docker.io/library/two:2",
        &two.image.id.to_string(),
        &two.image.id.short(),
    ] {
        assert_eq!(bench.store.find(name).unwrap().id, two.image.id, "{name}");
    }
    let error = bench.store.find("two").unwrap_err();
    assert_eq!(
        error.to_string(),
        "two: there is no such image; did you mean 'two:2'?"
    );
    let error = bench.store.find("something-else").unwrap_err();
    assert!(
        error
            .to_string()
            .contains("`constel image list` names them all"),
        "{error}"
    );
    assert!(matches!(
        bench.store.find("no name").unwrap_err().fault(),
        Fault::BadName { .. }
    ));

    let removed = bench.store.remove("one").unwrap();
    assert!(removed.image);
    assert_eq!(
        (removed.names, removed.layers, removed.bytes),
        (vec!["one:latest".to_owned()], 1, 2)
    );
    assert_eq!(bench.store.usage().unwrap().layers, 2);
    let held = bench.store.hold("two:2").unwrap();
    assert_eq!(
        fs::read(held.lower_dirs()[1].join("base")).unwrap(),
        b"base"
    );
}

#[test]
fn a_name_that_moves_leaves_an_image_that_prune_removes() {
    let bench = Bench::new();
    let old = bench
        .import_layers("x", &[file("old", b"old")])
        .unwrap()
        .image
        .id;
    let again = bench.import_layers("y", &[file("old", b"old")]).unwrap();
    assert_eq!(
        (again.reused_layers, again.image.names),
        (1, vec!["x:latest".to_owned(), "y:latest".to_owned()])
    );
    let new = bench.import_layers("x", &[file("new", b"new")]).unwrap();
    assert_eq!(new.replaced, Some(old));
    assert!(!bench.store.remove("y").is_err_and(|_| true));
    assert_eq!(bench.store.list().unwrap().len(), 1);
    bench.import_layers("z", &[file("old", b"old")]).unwrap();
    let held = bench.store.hold("z").unwrap();
    bench.import_layers("z", &[file("new", b"new")]).unwrap();
    assert!(
        bench
            .store
            .list()
            .unwrap()
            .iter()
            .any(|i| i.id == old && i.names.is_empty())
    );
    // A holder keeps it, also while others prune.
    assert_eq!(bench.store.prune().unwrap().images, []);
    assert_eq!(fs::read(held.lower_dirs()[0].join("old")).unwrap(), b"old");
    drop(held);
    let pruned = bench.store.prune().unwrap();
    assert_eq!(
        (pruned.images, pruned.layers, pruned.bytes),
        (vec![old], 1, 3)
    );
    assert_eq!(bench.store.usage().unwrap().layers, 1);
}

#[test]
fn an_image_in_use_is_not_removed() {
    let bench = Bench::new();
    bench.import_layers("x", &[file("a", b"a")]).unwrap();
    let held = bench.store.hold("x").unwrap();
    let second = bench.store.hold("x").unwrap();
    let error = bench.store.remove("x").unwrap_err();
    assert_eq!(
        error.to_string(),
        "x: it is in use; take the lab that uses it down first"
    );
    drop(held);
    assert!(matches!(
        bench.store.remove("x").unwrap_err().fault(),
        Fault::InUse
    ));
    drop(second);
    assert!(bench.store.remove("x").unwrap().image);
    bench.assert_empty();
}

#[test]
fn a_store_is_private_and_takes_no_foreign_folder() {
    let bench = Bench::new();
    let mode = fs::metadata(bench.path("store"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);
    fs::create_dir(bench.path("home")).unwrap();
    fs::write(bench.path("home/letter"), b"dear").unwrap();
    let error = Store::open(&bench.path("home")).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("the folder has letter, and is no store"),
        "{error}"
    );
    assert_eq!(fs::read_dir(bench.path("home")).unwrap().count(), 1);
    fs::write(bench.path("store/version"), b"2\n").unwrap();
    let error = Store::open(&bench.path("store")).unwrap_err();
    assert!(
        matches!(error.fault(), Fault::StoreVersion { found: 2, ours: 1 }),
        "{error}"
    );
}

#[test]
fn the_root_of_an_image_and_its_users_are_its_own() {
    let bench = Bench::new();
    let lower = Tar::default()
        .file("etc/passwd", b"bird:x:10:11::/home:/bin/sh\n")
        .symlink("etc/group", "../real/group")
        .file("real/group", b"net:x:12:bird\n")
        .end();
    let upper = Tar::default().file("real/group", b"net:x:13:bird\n").end();
    bench.import_layers("x", &[lower, upper]).unwrap();
    let held = bench.store.hold("x").unwrap();
    let user = held.user(Some("bird")).unwrap();
    assert_eq!((user.uid, user.gid, user.groups), (10, 11, vec![13]));
    assert_eq!(held.user(None).unwrap().uid, 0);
    let error = held.user(Some("frr")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "x:latest: its user 'frr' is not in its /etc/passwd; give a user by number"
    );
}

/// Threads are as good as processes here: locks belong to open files.
#[test]
fn many_import_remove_and_prune_at_the_same_time() {
    let bench = Bench::new();
    let (base, folder) = (file("base", &vec![1; 100_000]), bench.path("layouts"));
    for number in 0..4 {
        let own = file(&format!("own{number}"), b"own");
        support::layout(&folder.join(number.to_string()), &[base.clone(), own], "{}");
    }
    std::thread::scope(|scope| {
        for number in 0..4 {
            let (bench, folder) = (&bench, &folder);
            scope.spawn(move || {
                let name = format!("image{number}");
                for round in 0..26 {
                    bench
                        .import(&folder.join(number.to_string()), Some(&name))
                        .unwrap();
                    let held = bench.store.hold(&name).unwrap();
                    let dirs = held.lower_dirs();
                    assert_eq!(
                        fs::read(dirs[1].join("base")).unwrap().len(),
                        100_000,
                        "round {round}"
                    );
                    assert!(dirs[0].join(format!("own{number}")).exists());
                    drop(held);
                    match round % 3 {
                        0 => drop(bench.store.remove(&name).unwrap()),
                        1 => drop(bench.store.prune().unwrap()),
                        _ => {}
                    }
                }
                bench.store.remove(&name).unwrap();
            });
        }
    });
    bench.assert_empty();
}

/// A registry that sends half a layer, and then waits for ever.
fn stalling_registry(layer: &[u8]) -> (u16, mpsc::Receiver<()>) {
    let mut blobs = Blobs::default();
    let manifest = blobs.image(&config(&[layer.to_vec()], "{}"), &[layer.to_vec()], "");
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    let manifest = manifest["digest"].as_str().unwrap().to_owned();
    let layer = Digest::of(layer).to_string();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (stalls, stalled) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (blobs, manifest, layer, stalls) = (&blobs, &manifest, &layer, stalls.clone());
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let asked = lines.next().unwrap().unwrap();
            for line in lines.by_ref() {
                if line.unwrap().is_empty() {
                    break;
                }
            }
            let wanted = if asked.contains("/manifests/") {
                manifest
            } else {
                asked.split('/').next_back().unwrap()
            };
            let wanted = asked
                .split(['/', ' '])
                .find(|part| part.starts_with("sha256:"))
                .unwrap_or(wanted);
            let (_, bytes) = blobs
                .0
                .iter()
                .find(|(digest, _)| digest.to_string() == wanted)
                .unwrap();
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/vnd.oci.image.manifest.v1+json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                bytes.len()
            );
            stream.write_all(head.as_bytes()).unwrap();
            if wanted != layer {
                stream.write_all(bytes).unwrap();
                continue;
            }
            stream.write_all(&bytes[..bytes.len() / 2]).unwrap();
            stalls.send(()).unwrap();
            // Kept open until the test ends.
            std::mem::forget(stream);
        }
    });
    (port, stalled)
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn a_killed_import_leaves_what_prune_removes_and_nothing_else() {
    let bench = Bench::new();
    let content = vec![1; 4 << 20];
    let layer = (0..4)
        .fold(Tar::default(), |tar, i| {
            tar.file(&format!("f{i}"), &content)
        })
        .end();
    let (port, stalled) = stalling_registry(&layer);
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "image::store::imports_until_killed", "--ignored"])
        .env("STORE", bench.path("store"))
        .env("SOURCE", format!("docker://127.0.0.1:{port}/stalling:1"))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut child = Killed(child);
    stalled.recv().unwrap();
    // Half of it is sent: the first file comes to be.
    let first = || {
        let work = fs::read_dir(bench.path("store/work")).unwrap().next()?;
        fs::metadata(work.unwrap().path().join("layer/f0")).ok()
    };
    while first().is_none() {
        assert!(child.0.try_wait().unwrap().is_none(), "the import ended");
        std::thread::yield_now();
    }
    // Living processes keep their unfinished imports.
    assert_eq!(bench.store.prune().unwrap().imports, 0);
    assert!(first().is_some());
    child.0.kill().unwrap();
    child.0.wait().unwrap();
    assert!(bench.store.list().unwrap().is_empty());
    let usage = bench.store.usage().unwrap();
    assert_eq!((usage.layers, usage.work), (0, 1));
    // The remains disturb no import.
    bench.import_layers("same", &[layer]).unwrap();
    let pruned = bench.store.prune().unwrap();
    assert_eq!((pruned.imports, pruned.layers), (1, 0));
    bench.store.remove("same").unwrap();
    bench.assert_empty();
}

#[test]
#[ignore = "what another test runs in a process of its own, and kills"]
fn imports_until_killed() {
    let store = Store::open(Path::new(&std::env::var("STORE").unwrap())).unwrap();
    let source = std::env::var("SOURCE").unwrap().parse().unwrap();
    let error = store
        .import(&source, &ImportOptions::default(), &Silent)
        .unwrap_err();
    panic!("{error}");
}

/// A folder that waits for its removal has an image's own files in it, with any name.
#[test]
fn a_removal_that_was_killed_is_finished_and_follows_no_link() {
    let bench = Bench::new();
    let outside = bench.path("outside");
    let layer = Tar::default()
        .symlink("lock", outside.to_str().unwrap())
        .end();
    let image = bench.import_layers("x", &[layer]).unwrap().image;
    let store = bench.path("store");
    let name = image.layers[0].chain.file_name();
    fs::rename(
        store.join("layers").join(&name),
        store.join(format!("work/gone-{name}")),
    )
    .unwrap();
    assert_eq!(bench.store.prune().unwrap().imports, 1);
    assert!(
        outside.symlink_metadata().is_err(),
        "a link of the image was followed"
    );
    assert_eq!(bench.store.usage().unwrap().work, 0);
}
