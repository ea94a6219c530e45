//! The forms in which images come. Gives files to root: needs root.

use crate::image::support;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use constel_containers::image::{Digest, Fault, ImportOptions, Source};
use support::overlay::{listing, mount};
use support::{Bench, Blobs, Tar, config, gzip, packed, zstd};
use tar::EntryType;

fn layers() -> [Vec<u8>; 2] {
    let lower = Tar::default()
        .folder("etc")
        .file("etc/name", b"lower")
        .file("gone", b"")
        .end();
    let upper = Tar::default()
        .file("etc/name", b"upper")
        .file(".wh.gone", b"")
        .end();
    [lower, upper]
}

fn assert_is_the_image(bench: &Bench, name: &str) {
    let held = bench.store.hold(name).unwrap();
    let empty = bench.path("empty");
    drop(fs::create_dir(&empty));
    let shown = listing(&mount(held.lower_dirs(), &empty));
    let names: Vec<&str> = shown.keys().map(String::as_str).collect();
    assert_eq!(names, ["", "etc", "etc/name"], "{name}");
    let content = fs::read(held.lower_dirs()[0].join("etc/name")).unwrap();
    assert_eq!(content, b"upper", "{name}");
}

#[test]
fn a_layout_is_read_as_folder_and_as_archive_in_every_compression() {
    let bench = Bench::new();
    let folder = bench.path("bird");
    support::layout(&folder, &layers(), "{}");
    let plain = packed(&folder);
    for (file, bytes) in [
        ("a.tar", plain.clone()),
        ("b.tar.gz", gzip(&plain)),
        ("c.tar.zst", zstd(&plain)),
    ] {
        fs::write(bench.path(file), bytes).unwrap();
        let name = file.split('.').next().unwrap();
        let imported = bench.import(&bench.path(file), Some(name)).unwrap();
        assert_eq!(imported.reused_layers, if name == "a" { 0 } else { 2 });
        assert_is_the_image(&bench, name);
    }
    // A layout without a name in it is not called anything.
    let error = bench.import(&folder, None).unwrap_err();
    assert!(matches!(error.fault(), Fault::NoName), "{error}");
    assert_eq!(bench.store.usage().unwrap().layers, 2);
}

#[test]
fn layers_are_read_in_every_compression() {
    let plain = layers();
    for (name, form, stored) in [
        ("gzip", "+gzip", plain.clone().map(|l| gzip(&l))),
        ("zstd", "+zstd", plain.clone().map(|l| zstd(&l))),
        // A layer's bytes decide its format; media types have been wrong.
        ("wrong", "", plain.clone().map(|l| gzip(&l))),
    ] {
        let bench = Bench::new();
        let mut blobs = Blobs::default();
        let manifest = blobs.image(&config(&plain, "{}"), &stored, form);
        blobs.write(
            &bench.path("layout"),
            &format!(r#"{{"manifests": [{manifest}]}}"#),
        );
        bench.import(&bench.path("layout"), Some(name)).unwrap();
        assert_is_the_image(&bench, name);
    }
}

#[test]
fn the_image_for_this_machine_is_taken_and_another_ones_refused() {
    let bench = Bench::new();
    let plain = layers();
    let mut blobs = Blobs::default();
    let host = constel_containers::image::Platform::host();
    let ours = blobs.image(&config(&plain, "{}"), &plain, "");
    let theirs = config(&plain[..1], "{}").replace(&host.architecture, "vax");
    let theirs = blobs.image(&theirs, &plain[..1], "");
    let of = |descriptor: &str, architecture: &str| {
        let platform =
            format!(r#", "platform": {{"os": "linux", "architecture": "{architecture}"}}}}"#);
        descriptor.strip_suffix('}').unwrap().to_owned() + &platform
    };
    let index = format!(
        r#"{{"manifests": [{}, {}]}}"#,
        of(&theirs, "vax"),
        of(&ours, &host.architecture)
    );
    let index = blobs.put("index.v1+json", index.as_bytes());
    blobs.write(
        &bench.path("both"),
        &format!(r#"{{"manifests": [{index}]}}"#),
    );
    bench.import(&bench.path("both"), Some("x")).unwrap();
    assert_is_the_image(&bench, "x");
    for (name, index) in [("said", of(&theirs, "vax")), ("unsaid", theirs.clone())] {
        blobs.write(
            &bench.path(name),
            &format!(r#"{{"manifests": [{index}, {index}]}}"#),
        );
        let error = bench.import(&bench.path(name), Some("y")).unwrap_err();
        assert!(matches!(error.fault(), Fault::Platform { .. }), "{error}");
        blobs.write(&bench.path(name), &format!(r#"{{"manifests": [{index}]}}"#));
        let error = bench
            .import(&bench.path(name), Some("y"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("it is for linux/vax, and linux/"), "{error}");
    }
}

/// As `docker save` wrote it before version 25: folders of layers, the second of two equal ones a link.
#[test]
fn an_old_docker_save_is_read() {
    let bench = Bench::new();
    let [lower, upper] = layers();
    let same = Tar::default()
        .file("etc/name", b"upper")
        .file(".wh.gone", b"")
        .end();
    assert_eq!(same, upper);
    let all = [lower.clone(), upper.clone(), same];
    let config = config(&all, r#"{"Cmd": ["/x"]}"#);
    let id = Digest::of(config.as_bytes());
    let image = |name: &str| {
        format!(
            r#"{{"Config": "{}.json", "RepoTags": ["{name}"], "Layers": ["l1/layer.tar", "l2/layer.tar", "l3/layer.tar"]}}"#,
            id.hex()
        )
    };
    let archive = |images: &str| {
        Tar::default()
            .file(&format!("{}.json", id.hex()), config.as_bytes())
            .folder("l1/")
            .file("l1/layer.tar", &lower)
            .file("l2/layer.tar", &upper)
            .symlink("l3/layer.tar", "../l2/layer.tar")
            .file("manifest.json", format!("[{images}]").as_bytes())
            .end()
    };
    let file = bench.path("saved.tar");
    fs::write(&file, archive(&image("lab/bird:2"))).unwrap();
    let imported = bench.import(&file, None).unwrap();
    assert_eq!(
        (imported.name.as_str(), imported.image.id),
        ("lab/bird:2", id)
    );
    assert_is_the_image(&bench, "lab/bird:2");

    fs::write(
        &file,
        archive(&format!("{}, {}", image("a:1"), image("b:1")).replacen("l3/", "l2/", 1)),
    )
    .unwrap();
    let error = bench.import(&file, None).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("several images: a:1, b:1; choose one, as"),
        "{error}"
    );
    let source: Source = format!("docker-archive:{}:b", file.display())
        .parse()
        .unwrap();
    let error = bench
        .import_with(&source, None, &ImportOptions::default())
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("it holds no image 'b', but a:1, b:1"),
        "{error}"
    );
    let source: Source = format!("docker-archive:{}:b:1", file.display())
        .parse()
        .unwrap();
    let imported = bench
        .import_with(&source, None, &ImportOptions::default())
        .unwrap();
    assert_eq!((imported.name.as_str(), imported.reused_layers), ("b:1", 3));

    // The configuration is named by its digest.
    let forged = archive(&image("a:1"));
    let at = forged.windows(4).position(|w| w == b"\"/x\"").unwrap();
    let mut forged = forged;
    forged[at + 2] = b'y';
    fs::write(&file, forged).unwrap();
    let error = bench.import(&file, None).unwrap_err();
    assert!(matches!(error.fault(), Fault::Digest { .. }), "{error}");
    fs::write(&file, archive(&image("a:1")).split_at(3000).0).unwrap();
    let error = bench.import(&file, None).unwrap_err();
    assert!(matches!(error.fault(), Fault::Damaged(_)), "{error}");
}

/// As `docker save` writes it since version 25: a layout that has `manifest.json` as well.
#[test]
fn a_new_docker_save_is_read_as_a_layout() {
    let bench = Bench::new();
    let plain = layers();
    let mut blobs = Blobs::default();
    let config = config(&plain, "{}");
    let manifest = blobs.image(&config, &plain, "");
    let named = |name: &str| {
        let annotations =
            format!(r#", "annotations": {{"io.containerd.image.name": "docker.io/lab/{name}"}}}}"#);
        manifest.strip_suffix('}').unwrap().to_owned() + &annotations
    };
    let index = format!(
        r#"{{"manifests": [{}, {}]}}"#,
        named("bird:2"),
        named("bird:latest")
    );
    let blob = |bytes: &[u8]| format!("blobs/sha256/{}", Digest::of(bytes).hex());
    // The paths in it would lead nowhere: another file is read.
    let saved = format!(
        r#"[{{"Config": "{}", "RepoTags": ["lab/bird:2"], "Layers": ["gone"]}}]"#,
        blob(config.as_bytes())
    );
    let mut tar = Tar::default()
        .file("oci-layout", b"{}")
        .file("index.json", index.as_bytes());
    for (digest, bytes) in &blobs.0 {
        let path = format!("blobs/sha256/{}", digest.hex());
        // Longer than a header's name.
        tar = tar.pax(&[("path", path.as_bytes())]).file("short", bytes);
    }
    let file = bench.path("new.tar");
    fs::write(&file, tar.file("manifest.json", saved.as_bytes()).end()).unwrap();
    let source: Source = format!("docker-archive:{}:lab/bird:2", file.display())
        .parse()
        .unwrap();
    let imported = bench
        .import_with(&source, None, &ImportOptions::default())
        .unwrap();
    assert_eq!(imported.name, "lab/bird:2");
    assert_is_the_image(&bench, "lab/bird:2");
    let error = bench.import(&file, None).unwrap_err();
    assert!(matches!(error.fault(), Fault::Several(_)), "{error}");
}

/// Made by `docker save` of an image built from scratch; `data/README.md` says how.
#[test]
fn real_saves_of_docker_are_read() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/image/data");
    for file in ["docker-20.tar.gz", "skopeo-oci.tar.gz"] {
        let bench = Bench::new();
        let imported = bench.import(&data.join(file), Some("real")).unwrap();
        assert_eq!(imported.image.layers.len(), 3, "{file}");
        let held = bench.store.hold("real").unwrap();
        let config = held.config();
        assert_eq!(config.args(), ["/bin/hello", "world"], "{file}");
        assert_eq!(
            (config.user.as_str(), config.workdir.as_str()),
            ("daemon", "/srv"),
            "{file}"
        );
        assert_eq!(
            config.env.last().unwrap(),
            &("GREETING".to_owned(), "hello".to_owned())
        );
        let user = held.user(None).unwrap();
        assert_eq!(
            (user.uid, user.gid, user.groups),
            (7, 8, vec![20]),
            "{file}"
        );
        let empty = bench.path("empty");
        fs::create_dir(&empty).unwrap();
        let shown = listing(&mount(held.lower_dirs(), &empty));
        let expected = fs::read_to_string(data.join("expected.txt")).unwrap();
        let lines: Vec<String> = shown
            .iter()
            .map(|(path, what)| format!("/{path}: {what}\n"))
            .collect();
        assert_eq!(lines.concat(), expected, "{file}");
    }
}

#[test]
fn a_root_file_system_is_an_image_as_archive_and_as_folder() {
    let bench = Bench::new();
    let folder = bench.path("rootfs");
    let inner = folder.join("usr/bin");
    fs::create_dir_all(&inner).unwrap();
    fs::write(inner.join("tool"), b"tool").unwrap();
    fs::hard_link(inner.join("tool"), inner.join("tool2")).unwrap();
    std::os::unix::fs::chown(inner.join("tool"), Some(5), Some(6)).unwrap();
    fs::set_permissions(inner.join("tool"), fs::Permissions::from_mode(0o4755)).unwrap();
    let capability = b"\x01\0\0\x02\n\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(inner.join("tool"), "security.capability", capability, flags).unwrap();
    symlink("x".repeat(200), folder.join("long")).unwrap();
    symlink("./usr//bin", folder.join("bin")).unwrap();
    fs::write(folder.join("n".repeat(150)), b"long name").unwrap();
    let big = File::create(folder.join("holes")).unwrap();
    big.set_len(1 << 20).unwrap();

    let name = |path: &Path, name| bench.import(path, Some(name)).unwrap();
    let once = name(&folder, "folder");
    let twice = name(&folder, "again");
    assert_eq!((once.image.id, twice.reused_layers), (twice.image.id, 1));
    let held = bench.store.hold("folder").unwrap();
    let root = &held.lower_dirs()[0];
    let tool = fs::metadata(root.join("usr/bin/tool")).unwrap();
    assert_eq!(
        (tool.mode() & 0o7777, tool.uid(), tool.gid(), tool.nlink()),
        (0o4755, 5, 6, 2)
    );
    let time = |path: &Path| {
        fs::symlink_metadata(path)
            .map(|m| (m.mtime(), m.mtime_nsec()))
            .unwrap()
    };
    for path in ["usr/bin/tool", "usr", "bin", "long"] {
        assert_eq!(time(&root.join(path)), time(&folder.join(path)), "{path}");
    }
    let mut value = [0; 64];
    let n =
        rustix::fs::getxattr(root.join("usr/bin/tool"), "security.capability", &mut value).unwrap();
    assert_eq!(&value[..n], capability);
    assert_eq!(
        fs::read_link(root.join("long")).unwrap().to_str().unwrap(),
        "x".repeat(200)
    );
    assert_eq!(
        fs::read_link(root.join("bin")).unwrap().to_str().unwrap(),
        "./usr//bin"
    );
    assert_eq!(fs::read(root.join("n".repeat(150))).unwrap(), b"long name");
    assert_eq!(fs::metadata(root.join("holes")).unwrap().blocks(), 0);

    // GNU tar's own archives of it, in its forms, sparse ones among them, give the same files.
    let empty = bench.path("empty");
    fs::create_dir(&empty).unwrap();
    let shown = listing(&mount(held.lower_dirs(), &empty));
    for (format, compress) in [("gnu", false), ("posix", true)] {
        let file = bench.path(&format!("{format}.tar"));
        let mut tar = Command::new("tar");
        tar.args(["--sparse", "--numeric-owner", "--format", format, "-C"]);
        tar.arg(&folder);
        if format == "posix" {
            tar.args(["--xattrs", "--xattrs-include=*"]);
        }
        tar.arg(if compress { "-czf" } else { "-cf" });
        let done = tar.arg(&file).arg(".").status().unwrap();
        assert!(done.success());
        bench.import(&file, Some(format)).unwrap();
        let held = bench.store.hold(format).unwrap();
        let other = listing(&mount(held.lower_dirs(), &empty));
        assert_eq!(
            other.keys().collect::<Vec<_>>(),
            shown.keys().collect::<Vec<_>>(),
            "{format}"
        );
        for (path, what) in &other {
            // GNU's own format keeps whole seconds and no attributes.
            let cut = |what: &str| match format {
                "gnu" => what.split('.').next().unwrap().to_owned(),
                _ => what.to_owned(),
            };
            assert_eq!(cut(what), cut(&shown[path]), "{format}: {path}");
        }
    }
}

#[test]
fn what_is_no_image_says_what_would_be() {
    let bench = Bench::new();
    let no = |path: &Path| bench.import(path, Some("x")).unwrap_err().to_string();
    assert!(no(&bench.path("nothing")).contains("there is no such file or folder; name a file"));
    fs::create_dir(bench.path("folder")).unwrap();
    assert!(no(&bench.path("folder")).contains("a root file system without these is rootfs:PATH"));
    fs::write(bench.path("text"), "just text ".repeat(1000)).unwrap();
    assert!(
        no(&bench.path("text")).contains("it is no tar archive"),
        "{}",
        no(&bench.path("text"))
    );
    fs::write(bench.path("short"), "x").unwrap();
    assert!(no(&bench.path("short")).contains("shorter than any archive"));
    fs::write(bench.path("xz"), [&b"\xfd7zXZ\0"[..], &[0; 600]].concat()).unwrap();
    assert!(no(&bench.path("xz")).contains("compression by xz is not supported"));
    fs::write(
        bench.path("any.tar"),
        Tar::default().file("readme", b"x").end(),
    )
    .unwrap();
    assert!(no(&bench.path("any.tar")).contains("it has neither index.json nor manifest.json"));
    assert!(no(Path::new("/dev/null")).contains("it is a device, not a regular file"));
    let source: Source = format!("rootfs:{}", bench.path("any.tar").display())
        .parse()
        .unwrap();
    bench
        .import_with(&source, None, &ImportOptions::default())
        .unwrap();
    assert_eq!(bench.store.list().unwrap()[0].names, ["any:latest"]);
    let error = bench
        .import(&bench.path("any.tar"), Some("No Name"))
        .unwrap_err();
    assert!(matches!(error.fault(), Fault::BadName { .. }), "{error}");
}

#[test]
fn overlays_own_files_are_not_packed_as_an_image() {
    let bench = Bench::new();
    for name in ["device", ".wh.x"] {
        let folder = bench.path(&format!("of{name}"));
        fs::create_dir_all(folder.join("etc")).unwrap();
        match name {
            "device" => {
                let (kind, mode) = (
                    rustix::fs::FileType::CharacterDevice,
                    rustix::fs::Mode::empty(),
                );
                rustix::fs::mknodat(rustix::fs::CWD, folder.join(name), kind, mode, 0).unwrap();
            }
            _ => fs::write(folder.join(name), b"").unwrap(),
        }
        let error = bench.import(&folder, Some("x")).unwrap_err();
        assert!(matches!(error.fault(), Fault::Entry { .. }), "{error}");
    }
    let layer = Tar::default()
        .device(EntryType::Block, "disk", 7, 1000)
        .end();
    bench.import_layers("device", &[layer]).unwrap();
    let device = bench.store.hold("device").unwrap().lower_dirs()[0].join("disk");
    let device = fs::symlink_metadata(device).unwrap().rdev();
    assert_eq!(
        (rustix::fs::major(device), rustix::fs::minor(device)),
        (7, 1000)
    );
}

/// An engine that answers as Docker's does; its socket is named by the environment, so one test has them all.
#[test]
fn an_engine_is_asked_for_its_image() {
    let bench = Bench::new();
    let socket = bench.path("engine.sock");
    let [lower, upper] = layers();
    let all = [lower.clone(), upper.clone()];
    let config = config(&all, "{}");
    let hex = Digest::of(config.as_bytes()).hex();
    let manifest =
        format!(r#"[{{"Config": "{hex}.json", "RepoTags": ["bird:2"], "Layers": ["a", "b"]}}]"#);
    let archive = Tar::default()
        .file(&format!("{hex}.json"), config.as_bytes())
        .file("a", &lower)
        .file("b", &upper)
        .file("manifest.json", manifest.as_bytes())
        .end();
    let listener = UnixListener::bind(&socket).unwrap();
    let cut = archive.len() / 2;
    let server = std::thread::spawn(move || {
        let ok = b"HTTP/1.0 200 OK\r\nContent-Type: application/x-tar\r\n\r\n";
        let known = b"HTTP/1.0 200 OK\r\n\r\n{\"Id\": \"sha256:0\", \"Size\": 1000}";
        let no = b"HTTP/1.0 404 Not Found\r\n\r\n{\"message\": \"No such image: bird:2\"}";
        let endless = vec![0; 80 << 20];
        let answers = [
            known.to_vec(),
            [&ok[..], &archive].concat(),
            no.to_vec(),
            no.to_vec(),
            known.to_vec(),
            [&ok[..], &archive[..cut]].concat(),
            known.to_vec(),
            [&ok[..], &endless].concat(),
        ];
        answers.map(|answer| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = vec![0; 4096];
            let mut n = 0;
            while !asked[..n].ends_with(b"\r\n\r\n") {
                n += stream.read(&mut asked[n..]).unwrap();
            }
            // The client closes when it has enough.
            drop(stream.write_all(&answer));
            String::from_utf8_lossy(&asked[..n])
                .lines()
                .next()
                .unwrap()
                .to_owned()
        })
    });
    let child = |expect: &str| {
        // The environment is a process's own.
        let mut test = Command::new(std::env::current_exe().unwrap());
        test.args([
            "--exact",
            "image::sources::asks_the_engine",
            "--ignored",
            "--nocapture",
        ]);
        test.env("DOCKER_HOST", format!("unix://{}", socket.display()));
        test.env("STORE", bench.path("store"));
        let said = test.output().unwrap();
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        assert!(said.contains(expect), "{expect}: {said}");
    };
    child("imported bird:2");
    assert_is_the_image(&bench, "bird:2");
    child("refuses (404): No such image: bird:2");
    child("it is damaged");
    // No more comes than twice what the engine says of the image, and a little.
    child("spool_bytes");
    let asked = server.join().unwrap();
    let [question, order] =
        ["json", "get"].map(|what| format!("GET /images/bird:2/{what} HTTP/1.1"));
    for pair in asked.chunks(2) {
        assert_eq!(pair, [&question[..], &order]);
    }
    fs::remove_file(&socket).unwrap();
    child("cannot be reached");
}

#[test]
#[ignore = "what another test runs in a process of its own"]
fn asks_the_engine() {
    let store = constel_containers::image::Store::open(Path::new(&std::env::var("STORE").unwrap()))
        .unwrap();
    let source = "docker-daemon:bird:2".parse().unwrap();
    match store.import(
        &source,
        &ImportOptions::default(),
        &constel_containers::image::Silent,
    ) {
        Ok(imported) => println!("imported {}", imported.name),
        Err(error) => println!("{error}"),
    }
}
