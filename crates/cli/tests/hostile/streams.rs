//! Things that a command in a container gets from its caller: folders, files, process group.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use super::{NOBODY, assert_untouched, by_script, canary, inside, prepared};
use crate::support;

use support::host::Host;
use support::lab::Lab;
use support::{CONSTEL, stderr, stdout, until};

/// Folders that the caller has open, as a working directory that the container has replaced by a link, as standard input, and as part of
/// a program's path.
#[test]
fn a_callers_folder_is_no_way_out() {
    let host = Host::take();
    let other = tempfile::tempdir().unwrap();
    let secret = canary(other.path(), "secret");
    fs::write(
        other.path().join("tool"),
        "#!/bin/sh\necho tool of the host\n",
    )
    .unwrap();
    fs::set_permissions(other.path().join("tool"), fs::Permissions::from_mode(0o755)).unwrap();
    // Root of the container, since a folder of the image is root's.
    let node = |at: u8| {
        format!(
            "image: box, workdir: /work, capabilities: {{drop: [ALL], add: [DAC_OVERRIDE]}}, \
             command: [sh, -c, 'busybox rmdir /work && busybox ln -s /proc/self/fd/{at} /work; exec sleep 1000']"
        )
    };
    let (dir, file) = prepared(&[], &node(7), &node(0));
    let mut lab = Lab::up("folder", &file, dir.path(), &[]);
    for node in ["west", "east"] {
        let link = lab.results.join("nodes").join(node);
        until("the working directory was replaced", || {
            // By the way in that looks at files only.
            let there = support::constel(["cp", &lab.name, &format!("{node}:/work/."), "-"]);
            (link.exists() && !there.status.success()).then_some(())
        });
    }
    let folder = other.path().display();
    let attempts = [
        format!("exec 7<{folder}; inside west cat secret"),
        format!("exec 7<{folder}; inside west sh -c 'cat ../*/secret; cat secret'"),
        format!("inside east cat secret <{folder}"),
        format!("exec 7<{folder}; inside east cat /proc/self/fd/7/secret"),
        format!("exec 7<{folder}; inside east /proc/self/fd/7/tool"),
        format!("exec 9<{folder}; inside west /proc/self/fd/9/tool"),
        format!("inside west /proc/self/fd/0/tool <{folder}"),
    ];
    for attempt in attempts {
        let output = by_script(&lab, &attempt);
        let said = stdout(&output) + &stderr(&output);
        assert!(!output.status.success(), "{attempt}: {said}");
        assert!(
            !said.contains("canary") && !said.contains("tool of the host"),
            "{attempt}: {said}"
        );
    }
    assert_untouched(&secret);
    assert_eq!(lab.interrupt().code(), Some(130), "{}", lab.stderr());
    host.assert_as_before("folder");
}

/// Files of the caller: what it gives to read cannot be written, and what it gives to write can neither be read nor emptied; in between
/// everything is as with any other command.
#[test]
fn a_callers_file_has_no_other_rights_inside() {
    let host = Host::take();
    let node = "image: box, command: [sleep, '1000']";
    let (dir, file) = prepared(&[], node, &format!("{NOBODY}, command: [sleep, '1000']"));
    let mut lab = Lab::up("file", &file, dir.path(), &[]);
    let given = canary(dir.path(), "given");
    let path = given.display();
    let attempts = [
        format!("inside west sh -c 'echo x 1<>/proc/self/fd/0' <{path}"),
        format!("inside west sh -c ': >/proc/self/fd/0' <{path}"),
        format!(
            "inside west sh -c 'busybox chmod 4777 /proc/self/fd/0; busybox chown 0 /proc/self/fd/0' <{path}"
        ),
        format!(
            "inside west sh -c ': >/proc/self/fd/1; timeout 1 cat /proc/self/fd/1 >/tmp/stolen' >>{path}"
        ),
        format!(
            "inside west sh -c ': >/proc/self/fd/2; timeout 1 cat /proc/self/fd/2 >/tmp/stolen' 2>>{path}"
        ),
        format!("inside west sh -c 'busybox chmod 4777 /proc/self/fd/1' >>{path}"),
    ];
    for attempt in attempts {
        by_script(&lab, &attempt);
        assert_untouched(&given);
    }
    assert_eq!(stdout(&inside(&lab, "west", &["cat", "/tmp/stolen"])), "");
    // A loop reads on where the command stopped; one that does not read leaves everything; output comes in order and whole.
    let lines = dir.path().join("lines");
    fs::write(&lines, "one\ntwo\nthree\nfour\n").unwrap();
    let lines = lines.display();
    for node in ["west", "east"] {
        let loops =
            format!("while read word; do inside {node} busybox true; echo $word; done <{lines}");
        assert_eq!(
            stdout(&by_script(&lab, &loops)),
            "one\ntwo\nthree\nfour\n",
            "{node}"
        );
        let whole = format!("inside {node} cat <{lines}");
        assert_eq!(
            stdout(&by_script(&lab, &whole)),
            "one\ntwo\nthree\nfour\n",
            "{node}"
        );
        let piped = format!("echo piped | inside {node} cat");
        assert_eq!(stdout(&by_script(&lab, &piped)), "piped\n", "{node}");
        let long = format!(
            "inside {node} sh -c 'busybox seq 1 200000' | tail -n 1; inside {node} sh -c 'busybox yes | busybox head -n 1'"
        );
        assert_eq!(stdout(&by_script(&lab, &long)), "200000\ny\n", "{node}");
        let closed = format!("inside {node} busybox yes | head -n 1");
        assert_eq!(stdout(&by_script(&lab, &closed)), "y\n", "{node}");
        let own = format!("inside {node} sh -c 'echo again >/dev/stdout; echo oops >/dev/stderr'");
        let output = by_script(&lab, &own);
        assert_eq!(
            (stdout(&output), stderr(&output)),
            ("again\n".into(), "oops\n".into()),
            "{node}"
        );
    }
    assert_eq!(lab.interrupt().code(), Some(130), "{}", lab.stderr());
    host.assert_as_before("file");
}

/// Signals to a process group stay among the command's own, in a container and in a node of the host's programs, whatever the signal.
#[test]
fn a_callers_process_group_is_its_own() {
    let host = Host::take();
    let (dir, file) = prepared(
        &[],
        "image: box, command: [sleep, '1000']",
        "runtime: netns",
    );
    let mut lab = Lab::up("group", &file, dir.path(), &[]);
    for node in ["west", "east"] {
        for script in [
            "kill -9 0",
            "trap \"kill 0\" EXIT",
            "trap : TERM INT; kill 0; kill -INT 0; kill -HUP 0",
        ] {
            let around =
                format!("sleep 600 & inside {node} sh -c '{script}'; kill $! && echo caller lives");
            let output = by_script(&lab, &around);
            assert_eq!(
                stdout(&output),
                "caller lives\n",
                "{node} {script}: {}",
                stderr(&output)
            );
        }
    }
    assert_eq!(lab.interrupt().code(), Some(130), "{}", lab.stderr());
    host.assert_as_before("group");
}

/// A command that is stopped inside and continued there goes on to its end, and its caller was never stopped.
#[test]
fn a_stopped_command_does_not_stop_its_caller() {
    let host = Host::take();
    let (dir, file) = prepared(
        &[],
        "image: box, command: [sleep, '1000']",
        "runtime: netns",
    );
    let mut lab = Lab::up("stopped", &file, dir.path(), &[]);
    for node in ["west", "east"] {
        let mut caller = Command::new(CONSTEL)
            .args([
                "exec",
                &lab.name,
                node,
                "--",
                "sh",
                "-c",
                "echo $$; kill -STOP $$; echo goes on",
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(caller.stdout.take().unwrap());
        let mut number = String::new();
        out.read_line(&mut number).unwrap();
        let number = number.trim();
        let state = |text: &str| text.lines().any(|line| line.starts_with("State:\tT"));
        until("the command is stopped", || {
            let status = inside(&lab, node, &["cat", &format!("/proc/{number}/status")]);
            state(&stdout(&status)).then_some(())
        });
        let status = fs::read_to_string(format!("/proc/{}/status", caller.id())).unwrap();
        assert!(!state(&status), "{node}: {status}");
        inside(&lab, node, &["sh", "-c", &format!("kill -CONT {number}")]);
        let mut rest = String::new();
        out.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "goes on\n", "{node}");
        let ended = support::wait(&mut caller);
        assert_eq!(ended.and_then(|status| status.code()), Some(0), "{node}");
    }
    assert_eq!(lab.interrupt().code(), Some(130), "{}", lab.stderr());
    host.assert_as_before("stopped");
}

/// As shells say it: no such command, and one that cannot be executed.
#[test]
fn a_command_that_is_not_executed_has_the_codes_of_shells() {
    let host = Host::take();
    let (dir, file) = prepared(
        &[],
        "image: box, command: [sleep, '1000']",
        "runtime: netns",
    );
    let mut lab = Lab::up("codes", &file, dir.path(), &[]);
    for node in ["west", "east"] {
        for (command, code) in [
            ("nosuchcmd", 127),
            ("/no/such/command", 127),
            ("/etc/passwd", 126),
            ("/etc", 126),
        ] {
            let output = inside(&lab, node, &[command]);
            assert_eq!(
                output.status.code(),
                Some(code),
                "{node} {command}: {}",
                stderr(&output)
            );
            assert!(stderr(&output).contains(command), "{}", stderr(&output));
        }
        assert_eq!(
            inside(&lab, node, &["sh", "-c", "exit 7"]).status.code(),
            Some(7)
        );
    }
    assert_eq!(lab.interrupt().code(), Some(130), "{}", lab.stderr());
    host.assert_as_before("codes");
}
