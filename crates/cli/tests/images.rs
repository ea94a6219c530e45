//! `constel image`: its output, as text and as JSON, and its exit codes. `CONSTEL_BLESS=1` writes the goldens again.
//! Gives files to root: needs root.

use crate::support;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;
use support::{CONSTEL, finish, stderr, stdout, workspace};

const WITHIN: Duration = Duration::from_secs(30);

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
        finish(command, WITHIN)
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

#[test]
fn an_image_is_assembled_from_the_hosts_packages_and_is_the_same_twice() {
    let images = Images::new();
    let installed = fs::read_to_string("/var/lib/dpkg/status").unwrap_or_default();
    if !installed.contains("Package: busybox-static\nStatus: install ok installed") {
        let refused = images.run(&["build", "base"]);
        assert_eq!(refused.status.code(), Some(5), "{}", stderr(&refused));
        eprintln!("busybox-static is not installed: only the refusal was looked at");
        return;
    }
    let built = images.json(&["build", "base"]);
    assert_eq!(built["name"], "constel/base:latest");
    let again = images.json(&["build", "base", "--name", "mine"]);
    assert_eq!(again["image"]["id"], built["image"]["id"]);
    let shown = images.json(&["show", "constel/base"]);
    let packages = shown["config"]["labels"]["org.constel.packages"].as_str();
    assert!(packages.unwrap().contains("busybox-static="), "{shown}");
    assert_eq!(shown["config"]["cmd"], serde_json::json!(["/bin/sh"]));
    // It runs: the layer is a root file system.
    let chain = built["image"]["layers"][0]["chain"].as_str().unwrap();
    let layer = images.dir.path().join("constel/images/layers");
    let layer = layer.join(chain.replace(':', "-"));
    let mut sh = Command::new("chroot");
    sh.arg(layer)
        .args(["/bin/sh", "-c", "echo hello | sed s/h/H/; id -un"]);
    let ran = finish(sh, WITHIN);
    assert_eq!(stdout(&ran), "Hello\nroot\n", "{}", stderr(&ran));
}

#[test]
fn what_cannot_be_built_is_refused_with_the_next_step() {
    let images = Images::new();
    let unknown = images.run(&["build", "brid"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(stderr(&unknown).contains("base, frr, bird, nginx-video, ffmpeg-client"));
    fs::write(images.dir.path().join("Dockerfile"), "FROM scratch\n").unwrap();
    let mut build = Command::new(CONSTEL);
    build
        .args(["image", "build", "--file", "Dockerfile", "."])
        .current_dir(images.dir.path())
        .env("XDG_CACHE_HOME", images.dir.path())
        .env("PATH", images.dir.path());
    let refused = finish(build, WITHIN);
    assert_eq!(refused.status.code(), Some(5), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("buildah"), "{}", stderr(&refused));
}

/// debootstrap itself is another's: one that makes a system of one package stands in for it.
#[test]
fn recipes_take_from_debians_archive_where_debootstrap_is() {
    let of = |path: &str| {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new(CONSTEL);
        command.args(["image", "build", "base", "--debootstrap", "bookworm"]);
        command.args([
            "--mirror",
            "http://mirror.example/debian",
            "--json",
            "--store",
        ]);
        command.arg(dir.path().join("store"));
        command.env("PATH", path).env("TMPDIR", dir.path());
        let output = finish(command, Duration::from_secs(60));
        let left = fs::read_dir(dir.path()).unwrap().count();
        assert!(left <= 1, "what was built in is gone");
        output
    };
    let without = of("/nowhere");
    assert_eq!(without.status.code(), Some(5));
    assert!(
        stderr(&without).contains("apt-get install debootstrap"),
        "{}",
        stderr(&without)
    );

    let bin = tempfile::tempdir().unwrap();
    let script = "#!/bin/sh
echo \"$@\" >&2
[ \"$1 $2 $3 $5\" = '--variant=minbase --include=busybox-static bookworm http://mirror.example/debian' ] || exit 1
mkdir -p $4/usr/bin $4/var/lib/dpkg/info
cp $(command -v busybox) $4/usr/bin/busybox
printf 'Package: busybox-static\\nStatus: install ok installed\\nVersion: 1-archive\\n' > $4/var/lib/dpkg/status
echo /usr/bin/busybox > $4/var/lib/dpkg/info/busybox-static.list
";
    let program = bin.path().join("debootstrap");
    fs::write(&program, script).unwrap();
    fs::set_permissions(
        &program,
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", bin.path().display());
    let built = of(&path);
    assert_eq!(built.status.code(), Some(0), "{}", stderr(&built));
    let built: Value = serde_json::from_str(&stdout(&built)).unwrap();
    assert_eq!(built["name"], "constel/base:latest");
}
