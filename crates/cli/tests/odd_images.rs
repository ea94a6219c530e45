//! Labs of images that lack what most have, or have what most lack. Needs root and a static busybox.

use crate::support;

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;

use support::container::{COMPUTED, bring_in, busybox, exec, import_folder, make};
use support::host::Host;
use support::lab::Lab;
use support::{finish, scenario, stderr, stdout, until};

/// One program and nothing else: no shell, no folder, no accounts.
#[test]
fn an_image_of_one_program_runs_and_is_entered() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("scratch");
    fs::create_dir(&root).unwrap();
    fs::copy(busybox(), root.join("busybox")).unwrap();
    import_folder(dir.path(), &root, "scratch");
    // By its number alone, for there is no /etc/passwd.
    let nodes = "nodes:
  stations: {image: scratch, command: [/busybox, httpd, -f, -p, '8080', -h, /], user: '1234:5678'}
  overrides:
    - {nodes: [east], set: {command: [/busybox, sleep, '1000'], user: '0', capabilities: {drop: [ALL]}}}
";
    let file = scenario::small(dir.path(), "scratch.yaml", COMPUTED, nodes);
    let mut lab = Lab::up("scratch", &file, dir.path(), &[]);
    let id = exec(&lab, "west", &["/busybox", "id"]);
    assert!(id.starts_with("uid=1234 gid=5678"), "{id}");
    let listed = exec(&lab, "west", &["/busybox", "ls", "/"]);
    for folder in ["busybox", "dev", "etc", "proc", "run", "sys", "tmp"] {
        assert!(
            listed.lines().any(|line| line == folder),
            "{folder}: {listed}"
        );
    }
    let no_shell = exec(&lab, "west", &["sh"]);
    assert!(no_shell.contains("execute sh (found along"), "{no_shell}");
    let status = exec(&lab, "east", &["/busybox", "cat", "/proc/self/status"]);
    assert!(status.contains("CapEff:\t0000000000000000"), "{status}");
    // The program answers over the network that existed before it.
    until("west's program answers", || {
        let page = exec(
            &lab,
            "east",
            &[
                "/busybox",
                "wget",
                "-q",
                "-O",
                "-",
                "http://west:8080/etc/hosts",
            ],
        );
        page.contains("sat-p00-s00").then_some(())
    });
    assert_eq!(lab.interrupt().code(), Some(130), "{}", lab.stderr());
    host.assert_as_before("scratch");
}

/// Copies the libraries that a program of the host's loads, each to its own place.
fn bring(root: &Path, program: &str) {
    let mut ldd = Command::new("ldd");
    ldd.arg(program);
    let listed = stdout(&finish(ldd));
    for path in listed
        .split_whitespace()
        .filter(|word| word.starts_with('/'))
    {
        let to = root.join(&path[1..]);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(path, to).unwrap();
    }
}

/// A file that gives its user more rights gives none, unless the scenario permits it.
#[test]
fn setuid_files_work_where_the_scenario_says_so_alone() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("rootfs");
    make(&root);
    // One that does not give its rights back by itself, as busybox does.
    bring(&root, "/bin/cat");
    let program = root.join("bin/as-root");
    fs::copy("/bin/cat", &program).unwrap();
    chown(&program, Some(0), Some(0)).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    // A name that is a link to it twice is one file.
    fs::hard_link(&program, root.join("bin/as-root-too")).unwrap();
    import_folder(dir.path(), &root, "box");
    let nodes = "nodes:
  stations: {image: box, command: [sleep, '1000'], user: web}
  overrides: [{nodes: [east], set: {no_new_privileges: false}}]
";
    let file = scenario::small(dir.path(), "setuid.yaml", COMPUTED, nodes);
    let mut lab = Lab::up("setuid", &file, dir.path(), &[]);
    let seen = exec(
        &lab,
        "west",
        &["busybox", "stat", "-c", "%a %u %h", "/bin/as-root-too"],
    );
    assert_eq!(seen, "4755 0 2\n", "the image has it as it was");
    let of = |node: &str| exec(&lab, node, &["as-root", "/proc/self/status"]);
    let (held, freed) = (of("west"), of("east"));
    assert!(held.contains("Uid:\t33\t33\t33\t33"), "{held}");
    assert!(held.contains("CapEff:\t0000000000000000"), "{held}");
    assert!(freed.contains("Uid:\t33\t0\t0\t0"), "{freed}");
    assert!(
        lab.stderr().contains("setuid files"),
        "what is beyond the default is said: {}",
        lab.stderr()
    );
    assert_eq!(lab.interrupt().code(), Some(130), "{}", lab.stderr());
    host.assert_as_before("setuid");
}

/// Links of an image at mounted paths lead within it: it is refused when that cannot be, and no file outside is touched.
#[test]
fn an_image_full_of_traps_hurts_nobody() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("rootfs");
    make(&root);
    let outside = dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("hosts"), "untouched\n").unwrap();
    fs::rename(root.join("etc"), root.join("config")).unwrap();
    // All that is mounted or written lies behind links out of the image.
    for (name, to) in [
        ("etc", outside.as_path()),
        ("run", outside.as_path()),
        ("proc", "/".as_ref()),
        ("mnt", "/nowhere".as_ref()),
    ] {
        symlink(to, root.join(name)).unwrap();
    }
    fs::create_dir(root.join("dev")).unwrap();
    fs::write(root.join("dev/null"), "no device").unwrap();
    let refused = bring_in(dir.path(), &root, "traps");
    assert_eq!(refused.status.code(), Some(1), "{}", stderr(&refused));
    let said = stderr(&refused);
    assert!(said.contains("its /etc is a symbolic link"), "{said}");

    // As with a link to a folder that it has: what is mounted is found by the link, and by the folder's own name.
    for (name, to) in [("etc", Some("/config")), ("proc", None)] {
        fs::remove_file(root.join(name)).unwrap();
        to.into_iter()
            .for_each(|to| symlink(to, root.join(name)).unwrap());
    }
    import_folder(dir.path(), &root, "traps");
    let nodes = |mount: &str| {
        format!(
            "nodes: {{stations: {{image: traps, command: [sh, -c, 'echo gone > /dev/null; exec sleep 1000'], user: web, mounts: [{{host: outside, at: {mount}}}]}}}}\n"
        )
    };
    let file = scenario::small(dir.path(), "right.yaml", COMPUTED, &nodes("/srv/site"));
    let mut lab = Lab::up("traps-right", &file, dir.path(), &[]);
    for hosts in ["/etc/hosts", "/config/hosts"] {
        let said = exec(&lab, "west", &["cat", hosts]);
        assert!(said.contains("east"), "{hosts}: {said}");
    }
    assert!(exec(&lab, "west", &["id"]).starts_with("uid=33(web)"));
    assert_eq!(lab.interrupt().code(), Some(130), "{}", lab.stderr());

    // Below a link that leads nowhere nothing is mounted.
    let file = scenario::small(dir.path(), "traps.yaml", COMPUTED, &nodes("/mnt/site"));
    let mut lab = Lab::start("traps", &file, dir.path(), &[]);
    assert_eq!(lab.ended().code(), Some(5), "{}", lab.stderr());
    assert!(
        lab.stderr().contains("cannot be started"),
        "{}",
        lab.stderr()
    );
    assert_eq!(fs::read(outside.join("hosts")).unwrap(), b"untouched\n");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    host.assert_as_before("traps");
}
