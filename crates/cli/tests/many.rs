//! Commands in many nodes at a time, and files into nodes and out of them.

use crate::support;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::host::Host;
use support::lab::Lab;
use support::{CONSTEL, constel, finish, json, scenario, stderr, stdout};

const COMPUTED: &str = "{mode: computed}";

fn cp(lab: &Lab, from: &str, to: &str) -> std::process::Output {
    constel(["cp", &lab.name, from, to])
}

fn says(lab: &Lab, node: &str, script: &str) -> String {
    let output = constel(["exec", &lab.name, node, "--", "sh", "-c", script]);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{script}: {}",
        stderr(&output)
    );
    stdout(&output)
}

#[test]
fn a_command_runs_in_all_nodes_of_a_pattern() {
    let _host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let file = scenario::small(dir.path(), "many.yaml", COMPUTED, "");
    let lab = Lab::up("many", &file, dir.path(), &[]);
    let many = |args: &[&str]| {
        let mut all = vec!["exec", lab.name.as_str()];
        all.extend(args);
        constel(all)
    };
    let script = "echo $CONSTEL_NODE; echo oops >&2; test $CONSTEL_NODE != sat-p01-s02";
    let ran = many(&["sat-p0?-*", "--json", "--", "sh", "-c", script]);
    assert_eq!(ran.status.code(), Some(1), "one of them failed");
    let rows: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), 12);
    for row in rows {
        let node = row["node"].as_str().unwrap();
        assert_eq!(row["stdout"], format!("{node}\n"), "each is where it says");
        assert_eq!(row["stderr"], "oops\n");
        assert_eq!(row["exit"], i32::from(node == "sat-p01-s02"), "{row}");
    }
    let names: Vec<_> = rows
        .iter()
        .map(|row| row["node"].as_str().unwrap())
        .collect();
    assert!(names.is_sorted(), "{names:?}");

    let ground = json(&many(&["*", "--class", "ground", "--json", "--", "true"]));
    assert_eq!(ground.as_array().unwrap().len(), 2);
    let text = many(&["*st", "--", "sh", "-c", "echo a; echo b"]);
    assert_eq!(stdout(&text), "east: a\neast: b\nwest: a\nwest: b\n");

    // All at the same time: one after the other they would take more than 14 s on any machine.
    let began = Instant::now();
    let slept = many(&["*", "--at-once", "14", "--", "sleep", "1"]);
    assert_eq!(slept.status.code(), Some(0), "{}", stderr(&slept));
    assert!(
        began.elapsed() < Duration::from_secs(14),
        "{:?}",
        began.elapsed()
    );

    // Remaining processes of a command are not waited for, and much output is cut.
    let left = json(&many(&[
        "west",
        "--json",
        "--",
        "sh",
        "-c",
        "sleep 50 & echo done",
    ]));
    assert_eq!(left[0]["stdout"], "done\n");
    let long = json(&many(&[
        "west",
        "--json",
        "--",
        "sh",
        "-c",
        "yes | head -c 9000000",
    ]));
    assert_eq!(
        (&long[0]["cut"], &long[0]["exit"]),
        (&true.into(), &0.into())
    );
    assert_eq!(long[0]["stdout"].as_str().unwrap().len(), 8 << 20);

    let nobody = many(&["nobody-*", "--", "true"]);
    assert_eq!(nobody.status.code(), Some(2), "{}", stderr(&nobody));
    let no_command = json_of_failed(&many(&["*st", "--json", "--", "no-such-command"]));
    assert!(no_command[0]["exit"].is_null() && no_command[0]["error"].is_string());
}

fn json_of_failed(output: &std::process::Output) -> Value {
    assert_eq!(output.status.code(), Some(1));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The files below a folder: path, mode, length or target.
fn listing(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut left = vec![folder.to_owned()];
    while let Some(path) = left.pop() {
        let meta = fs::symlink_metadata(&path).unwrap();
        let name = path.strip_prefix(folder).unwrap().display().to_string();
        let what = match fs::read_link(&path) {
            Ok(target) => format!("-> {}", target.display()),
            Err(_) if meta.is_dir() => "folder".to_owned(),
            Err(_) => format!("{:?}", fs::read(&path).unwrap()),
        };
        let mode = meta.permissions().mode() & 0o7777;
        found.push(format!(
            "{name} {mode:o} {}:{} {what}",
            meta.uid(),
            meta.gid()
        ));
        if meta.is_dir() {
            left.extend(
                fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        }
    }
    found.sort();
    found
}

#[test]
fn files_and_folders_go_in_and_come_out_as_they_were() {
    let _host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let file = scenario::small(dir.path(), "copy.yaml", COMPUTED, "");
    let lab = Lab::up("copy", &file, dir.path(), &[]);
    // The tests' own folder is seen by nodes; a place in /run is not.
    let host = tempfile::tempdir_in("/run").unwrap();
    let own = host.path().join("own");
    fs::create_dir_all(own.join("deep/er")).unwrap();
    fs::write(own.join("deep/er/data"), [0, 1, 2, 255]).unwrap();
    fs::write(own.join("run.sh"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(own.join("run.sh"), fs::Permissions::from_mode(0o754)).unwrap();
    fs::set_permissions(own.join("deep"), fs::Permissions::from_mode(0o500)).unwrap();
    std::os::unix::fs::chown(own.join("run.sh"), Some(77), Some(78)).unwrap();
    symlink("/etc/shadow", own.join("link")).unwrap();
    symlink("run.sh", own.join("near")).unwrap();
    let path = own.to_str().unwrap();

    let copied = json(&constel(["cp", &lab.name, path, "west:/tmp", "--json"]));
    assert_eq!(
        (&copied["entries"], &copied["bytes"]),
        (&7.into(), &14.into())
    );
    assert_eq!(
        says(&lab, "west", "readlink /tmp/own/link; cat /tmp/own/run.sh"),
        "/etc/shadow\n#!/bin/sh\n"
    );
    let missing = constel(["exec", &lab.name, "east", "--", "ls", "/tmp/own"]);
    assert_ne!(
        missing.status.code(),
        Some(0),
        "only in the node that it was for"
    );
    let back = host.path().join("back");
    let out = cp(&lab, "west:/tmp/own", back.to_str().unwrap());
    assert_eq!(
        stdout(&out),
        "copied 7 entries, 14 bytes\n",
        "{}",
        stderr(&out)
    );
    assert_eq!(listing(&back), listing(&own));

    // Files, by name and into folders; one that is there is replaced, not written through.
    let text = host.path().join("text");
    fs::write(&text, "new\n").unwrap();
    let text = text.to_str().unwrap();
    says(
        &lab,
        "west",
        "echo old > /tmp/a; ln -s /tmp/a /tmp/b; mkdir /tmp/d",
    );
    assert_eq!(cp(&lab, text, "west:/tmp/b").status.code(), Some(0));
    assert_eq!(cp(&lab, text, "west:tmp/d/").status.code(), Some(0));
    assert_eq!(
        says(&lab, "west", "cat /tmp/a /tmp/b /tmp/d/text"),
        "old\nnew\nnew\n"
    );

    // A link in the node leads where it leads there, and a folder there that is a link to the host's is the node's.
    says(
        &lab,
        "west",
        "ln -s / /tmp/root; mkdir /run/mine; ln -s /run/mine /tmp/mine",
    );
    assert_eq!(cp(&lab, text, "west:/tmp/mine/x").status.code(), Some(0));
    assert!(!Path::new("/run/mine").exists(), "written on the host");
    assert_eq!(says(&lab, "west", "cat /run/mine/x"), "new\n");
    let theirs = cp(&lab, &format!("west:{}", host.path().display()), "/tmp/no");
    assert_eq!(
        theirs.status.code(),
        Some(1),
        "the host's /run is not there"
    );

    // As tar, both ways.
    let mut tar = Command::new("sh");
    tar.arg("-c").arg(format!(
        "tar -C {} -cf - own | {CONSTEL} cp {lab} - east:/tmp && {CONSTEL} cp {lab} east:/tmp/own - | tar -tf - | sort",
        host.path().display(),
        lab = lab.name
    ));
    let tar = finish(tar);
    let listed = stdout(&tar);
    assert!(
        listed.contains("own/deep/er/data\n"),
        "{listed} {}",
        stderr(&tar)
    );

    // An archive that would lead out of its folder.
    let hostile = format!("{CONSTEL} cp {} - west:/tmp/d", lab.name);
    let script = format!("cd /run && tar -cPf - --transform 's,^,../../,' {text} | {hostile}");
    let mut sh = Command::new("sh");
    sh.args(["-c", &script]).stdin(Stdio::null());
    let refused = finish(sh);
    assert_eq!(refused.status.code(), Some(1), "{}", stderr(&refused));

    // Sources that cannot be copied are reported, and no command hangs.
    for (from, to, code) in [
        ("west:/tmp/nothing", "/tmp/x", 1),
        ("west:/tmp/a", "/nowhere/x", 1),
        ("/nowhere", "west:/tmp", 1),
        (text, "west:/nowhere/x", 1),
        (text, "west:/proc/sys/kernel/hostname", 1),
        (text, text, 2),
        ("west:/a", "east:/b", 2),
        (text, "nobody:/tmp", 2),
    ] {
        let wrong = cp(&lab, from, to);
        assert_eq!(
            wrong.status.code(),
            Some(code),
            "{from} {to}: {}",
            stderr(&wrong)
        );
        assert!(!stderr(&wrong).is_empty());
    }
}
