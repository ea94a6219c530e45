//! Files that the command line names, and what they may be: nothing but a file is replaced, nothing is waited for that no signal ends.

use crate::netns::chain;
use crate::ns::{Ns, Proc, until};
use std::fs;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::Path;

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn serve(ns: &Ns, file: &Path) -> Proc {
    let server = ns.leotp(&[
        "serve",
        text(file),
        "--listen",
        "0.0.0.0:5047",
        "--flow",
        "feed",
    ]);
    assert!(until(|| ns.has_udp(5047)), "it listens");
    server
}

fn get(ns: &Ns, from: &str, to: &Path, flags: &[&str]) -> bool {
    let args = ["get", from, "feed", "-o", text(to), "--patience", "5"];
    ns.leotp(&[&args, flags].concat()).finish().0
}

/// Each kind of object that `-o` may name: what is no file is written to or refused, and is there afterwards.
#[test]
fn nothing_but_a_file_is_replaced() {
    let dir = tempfile::tempdir().expect("directory");
    let at = |name: &str| dir.path().join(name);
    let bytes = vec![7; 100_000];
    fs::write(at("file"), &bytes).expect("file");
    let ns = Ns::new();
    let _server = serve(&ns, &at("file"));
    let get = |name: &str| get(&ns, "127.0.0.1", &at(name), &[]);
    // The null device, by a node of the test's own: a mistake here must not cost the machine its `/dev/null`.
    ns.sh(&format!(
        "mknod {} c 1 3; mkfifo {}",
        text(&at("null")),
        text(&at("pipe"))
    ));
    fs::create_dir(at("folder")).expect("folder");
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).expect("socket");
    symlink(at("null"), at("to-null")).expect("link");
    symlink(at("nowhere"), at("dangling")).expect("link");
    fs::write(at("old"), "old").expect("file");
    symlink(at("old"), at("to-old")).expect("link");
    let reader = {
        let pipe = at("pipe");
        std::thread::spawn(move || fs::read(pipe).expect("pipe"))
    };
    for (name, works) in [
        ("null", true),
        ("to-null", true),
        ("pipe", true),
        ("to-old", true),
        ("new", true),
        ("folder", false),
        ("socket", false),
        ("dangling", false),
    ] {
        assert_eq!(get(name), works, "{name}");
    }
    assert!(
        reader.join().expect("reader") == bytes,
        "all of it, through the pipe"
    );
    let kind = |name: &str| fs::symlink_metadata(at(name)).expect(name).file_type();
    assert!(kind("null").is_char_device() && kind("pipe").is_fifo());
    assert!(kind("folder").is_dir() && kind("socket").is_socket());
    for link in ["to-null", "to-old", "dangling"] {
        assert!(kind(link).is_symlink(), "{link}");
    }
    assert!(fs::read(at("old")).expect("old") == bytes);
    assert!(fs::read(at("new")).expect("new") == bytes);
    assert!(!at("nowhere").exists());
    let parts = fs::read_dir(dir.path()).expect("folder").filter(|entry| {
        let name = entry.as_ref().expect("entry").file_name();
        name.to_string_lossy().ends_with(".part")
    });
    assert_eq!(parts.count(), 0);
}

/// Hashing a large file takes minutes; a signal ends it at once, of a sealed one too.
#[test]
fn a_signal_ends_a_server_that_still_hashes() {
    let dir = tempfile::tempdir().expect("directory");
    let (large, key) = (dir.path().join("large"), dir.path().join("key"));
    // A single hole: it has no block on the disk.
    let file = fs::File::create(&large).expect("file");
    file.set_len(4 << 40).expect("a sparse file of 4 TiB");
    fs::write(&key, "5e".repeat(32)).expect("key");
    let ns = Ns::new();
    for (signal, flags) in [
        ("-INT", &[][..]),
        ("-TERM", &[]),
        ("-INT", &["--key-file", text(&key)]),
    ] {
        let server = ns.leotp(&[&["serve", text(&large)], flags].concat());
        assert!(until(|| server.reads(&large)), "it hashes");
        server.signal(signal);
        assert!(
            !server.finish().0,
            "{signal} {flags:?}: it says that it was ended"
        );
    }
}

/// A flow that is served again with other bytes, behind a Midnode that has kept the old ones: they are never taken for the new ones, and
/// `--fresh` gets the new ones.
#[test]
fn a_flow_that_changed_can_be_got_fresh() {
    let dir = tempfile::tempdir().expect("directory");
    let at = |name: &str| dir.path().join(name);
    fs::write(at("old"), vec![1; 300_000]).expect("file");
    fs::write(at("new"), vec![2; 300_000]).expect("file");
    let (a, m, c) = chain();
    let _mid = m.relay(&["mid"]);
    let got = |name: &str, flags: &[&str]| {
        let done = get(&c, "10.77.1.2", &at(name), flags);
        done.then(|| fs::read(at(name)).expect("copy")[0])
    };
    let server = serve(&a, &at("old"));
    assert_eq!(got("first", &[]), Some(1));
    drop(server);
    let _server = serve(&a, &at("new"));
    assert_ne!(got("second", &[]), Some(1), "the record is the Producer's");
    assert_eq!(got("third", &["--fresh"]), Some(2));
}
