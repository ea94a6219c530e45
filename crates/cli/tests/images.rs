//! `constel image`: its output, as text and as JSON, and its exit codes. `CONSTEL_BLESS=1` writes the goldens again.
//! Gives files to root: needs root.

use crate::support;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use support::{CONSTEL, finish, stderr, stdout, workspace};

struct Images {
    dir: tempfile::TempDir,
}

impl Images {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(CONSTEL);
        command.arg("image").args(args).current_dir(self.dir.path());
        // The store is where the user's cache is.
        command
            .env("XDG_CACHE_HOME", self.dir.path())
            .env("COLUMNS", "100");
        finish(command)
    }

    fn json(&self, args: &[&str]) -> Value {
        let output = self.run(&[args, &["--json"]].concat());
        assert_eq!(
            output.status.code(),
            Some(0),
            "{args:?}: {}",
            stderr(&output)
        );
        serde_json::from_str(&stdout(&output)).unwrap()
    }
}

/// An image that Docker has saved.
fn saved() -> String {
    let path = workspace().join("crates/containers/tests/image/data/docker-20.tar.gz");
    path.canonicalize().unwrap().display().to_string()
}

fn assert_golden(name: &str, said: &str) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    let said = said.replace(&saved(), "<SAVED>");
    if std::env::var_os("CONSTEL_BLESS").is_some() {
        fs::write(golden, said).unwrap();
    } else {
        assert_eq!(
            said,
            fs::read_to_string(golden).unwrap_or_default(),
            "{name}"
        );
    }
}

#[test]
fn an_image_comes_is_shown_and_goes() {
    let images = Images::new();
    let imported = images.json(&["import", &saved()]);
    assert_eq!(imported["name"], "lab/hello:1");
    assert_eq!(
        (&imported["reused_layers"], &imported["replaced"]),
        (&0.into(), &Value::Null)
    );
    let again = images.json(&["import", &saved(), "--name", "other"]);
    assert_eq!(
        (&again["name"], &again["reused_layers"]),
        (&"other:latest".into(), &3.into())
    );

    let listed = images.json(&["list"]);
    let image = &listed["images"][0];
    assert_eq!(
        image["names"],
        serde_json::json!(["lab/hello:1", "other:latest"])
    );
    assert_eq!(image["layers"].as_array().unwrap().len(), 3);
    assert_eq!(listed["usage"]["layers"], 3);
    let shown = images.json(&["show", "other"]);
    assert_eq!(shown["image"], *image);
    assert_eq!(
        shown["config"]["entrypoint"],
        serde_json::json!(["/bin/hello"])
    );
    assert_eq!(
        shown["config"]["ports"],
        serde_json::json!([{"number": 179, "protocol": "tcp"}])
    );
    for (golden, args) in [
        ("image-list.stdout", &["list"][..]),
        ("image-show.stdout", &["show", "other"]),
    ] {
        let output = images.run(args);
        assert_eq!(output.status.code(), Some(0));
        assert_golden(golden, &stdout(&output));
    }

    let removed = images.json(&["remove", "other"]);
    assert_eq!(
        (&removed["image"], &removed["layers"]),
        (&false.into(), &0.into())
    );
    let removed = images.json(&["rm", "lab/hello:1"]);
    assert_eq!(
        (&removed["image"], &removed["layers"]),
        (&true.into(), &3.into())
    );
    let pruned = images.json(&["prune"]);
    assert_eq!(
        (&pruned["layers"], &pruned["imports"]),
        (&0.into(), &0.into())
    );
    assert_eq!(images.json(&["list"])["images"], serde_json::json!([]));
    let left: Vec<_> = fs::read_dir(images.dir.path().join("constel/images/layers"))
        .unwrap()
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn help_says_what_images_can_be() {
    let images = Images::new();
    for (golden, args) in [
        ("image-help.stdout", &["--help"][..]),
        ("image-import-help.stdout", &["import", "--help"]),
    ] {
        let output = images.run(args);
        assert_eq!(output.status.code(), Some(0));
        assert_golden(golden, &stdout(&output));
    }
}

#[test]
fn what_cannot_be_done_is_said_with_its_exit_code() {
    let images = Images::new();
    fs::write(images.dir.path().join("text"), "no image ".repeat(100)).unwrap();
    images.json(&["import", &saved()]);
    for (golden, code, args) in [
        ("image-no-file.stderr", 2, &["import", "nothing"][..]),
        ("image-no-image.stderr", 2, &["show", "lab/helo:1"]),
        (
            "image-bad-name.stderr",
            2,
            &["import", &saved(), "--name", "Not A Name"],
        ),
        ("image-no-archive.stderr", 1, &["import", "text"]),
        ("image-no-verb.stderr", 2, &[]),
    ] {
        let output = images.run(args);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{golden}: {}",
            stderr(&output)
        );
        assert_eq!(stdout(&output), "", "{golden}");
        assert_golden(golden, &stderr(&output));
    }
}

/// The script that makes the images of the examples from Debian packages.
fn make(images: &Images, args: &[&str]) -> Output {
    let mut command = Command::new(workspace().join("scenarios/images/make"));
    command.args(args).env("CONSTEL", CONSTEL);
    command.env("XDG_CACHE_HOME", images.dir.path());
    finish(command)
}

#[test]
fn an_example_is_made_of_the_hosts_packages_and_is_the_same_twice() {
    let images = Images::new();
    let made = make(&images, &["base"]);
    let installed = fs::read_to_string("/var/lib/dpkg/status").unwrap_or_default();
    if !installed.contains("Package: busybox-static\nStatus: install ok installed") {
        assert!(stderr(&made).contains("apt-get install busybox-static"));
        support::skip("busybox-static is not installed: only the refusal was tested");
        return;
    }
    assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
    let first = images.json(&["show", "constel/base"]);
    assert_eq!(make(&images, &["base"]).status.code(), Some(0));
    let again = images.json(&["show", "constel/base"]);
    assert_eq!(again["image"]["id"], first["image"]["id"]);
    let packages = first["config"]["labels"]["org.constel.packages"].as_str();
    assert!(packages.unwrap().contains("busybox-static="), "{first}");
    assert_eq!(first["config"]["cmd"], serde_json::json!(["/bin/sh"]));
    // It runs: the layer is a root file system.
    let chain = first["image"]["layers"][0]["chain"].as_str().unwrap();
    let layer = images.dir.path().join("constel/images/layers");
    let layer = layer.join(chain.replace(':', "-"));
    let mut sh = Command::new("chroot");
    sh.arg(layer)
        .args(["/bin/sh", "-c", "echo hello | sed s/h/H/; id -un"]);
    let ran = finish(sh);
    assert_eq!(stdout(&ran), "Hello\nroot\n", "{}", stderr(&ran));
}

/// The program, its loader, a library that the loader finds by a link, and a link of the package that leads to another folder.
#[test]
fn an_example_has_the_libraries_of_its_programs() {
    if !Path::new("/usr/sbin/bird").exists() || !Path::new("/usr/bin/busybox").exists() {
        support::skip("bird2 or busybox-static is not installed");
        return;
    }
    let images = Images::new();
    let made = make(&images, &["bird"]);
    assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
    let shown = images.json(&["show", "constel/bird"]);
    let chain = shown["image"]["layers"][0]["chain"].as_str().unwrap();
    let layer = images.dir.path().join("constel/images/layers");
    let mut bird = Command::new("chroot");
    bird.arg(layer.join(chain.replace(':', "-")));
    bird.args(["/usr/sbin/bird", "--version"]);
    let ran = finish(bird);
    assert!(stderr(&ran).contains("BIRD version"), "{}", stderr(&ran));
    let labels = &shown["config"]["labels"];
    let packages = labels["org.constel.packages"].as_str().unwrap();
    for package in ["bird2=", "libc6=", "libreadline8="] {
        assert!(packages.contains(package), "{package}: {packages}");
    }
}

/// A system in a folder, as debootstrap makes one: of one package.
#[test]
fn an_example_is_made_of_the_packages_of_another_system() {
    let images = Images::new();
    let root = tempfile::tempdir().unwrap();
    let root = |path: &str| root.path().join(path);
    let made = make(&images, &["--root", root("").to_str().unwrap(), "base"]);
    assert_eq!(made.status.code(), Some(1));
    assert!(stderr(&made).contains("has no Debian packages"));

    let busybox = Path::new("/usr/bin/busybox");
    if !busybox.exists() {
        support::skip("busybox-static is not installed");
        return;
    }
    for folder in ["usr/bin", "var/lib/dpkg/info"] {
        fs::create_dir_all(root(folder)).unwrap();
    }
    let record = "Package: busybox-static\nStatus: install ok installed\nVersion: 1-archive\n\n\
                  Package: bird2\nStatus: deinstall ok config-files\nVersion: 2\n";
    fs::write(root("var/lib/dpkg/status"), record).unwrap();
    let list = root("var/lib/dpkg/info/busybox-static.list");
    fs::write(&list, "/.\n/bin/busybox\n").unwrap();
    let folder = root("");
    let of = |name| make(&images, &["--root", folder.to_str().unwrap(), name]);
    let damaged = of("base");
    assert!(stderr(&damaged).contains("--reinstall busybox-static"));
    assert!(stderr(&of("bird")).contains("apt-get install bird2"));

    fs::copy(busybox, root("usr/bin/busybox")).unwrap();
    std::os::unix::fs::symlink("usr/bin", root("bin")).unwrap();
    // Without `ldd` nobody can tell whether libraries are missing.
    assert!(stderr(&of("base")).contains("libraries of /usr/bin/busybox cannot be found"));
    std::os::unix::fs::symlink("busybox", root("usr/bin/sh")).unwrap();
    fs::write(root("usr/bin/ldd"), "#!/bin/sh\nexit 1\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(root("usr/bin/ldd"), mode).unwrap();
    let made = of("base");
    assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
    let shown = images.json(&["show", "constel/base"]);
    let packages = &shown["config"]["labels"]["org.constel.packages"];
    assert_eq!(packages, "busybox-static=1-archive");
}

#[test]
fn what_cannot_be_built_is_refused_with_the_next_step() {
    let images = Images::new();
    let unknown = images.run(&["build", "bird"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(stderr(&unknown).contains("bird/Dockerfile is no file"));
    fs::write(images.dir.path().join("Dockerfile"), "FROM scratch\n").unwrap();
    let mut build = Command::new(CONSTEL);
    build
        .args(["image", "build", "."])
        .current_dir(images.dir.path())
        .env("XDG_CACHE_HOME", images.dir.path())
        .env("PATH", images.dir.path());
    let refused = finish(build);
    assert_eq!(refused.status.code(), Some(5), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("buildah"), "{}", stderr(&refused));
    let none = images.run(&["show", "constel/bird"]);
    assert!(stderr(&none).contains("scenarios/images/make"));
}
