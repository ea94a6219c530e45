//! The caller's terminal: commands have one of their node, and processes that they leave behind have none.

use std::ffi::OsStr;
use std::io::{Read, Write};

use constel_host::process::Terminal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{inside, prepared};
use crate::support;
use support::host::Host;
use support::lab::Lab;
use support::{CONSTEL, stdout};

/// A hang guard for what is awaited on a terminal.
const WITHIN: Timespec = Timespec {
    tv_sec: 30,
    tv_nsec: 0,
};

/// The output on a terminal, up to some words.
fn heard(terminal: &mut Terminal, until: &str) -> String {
    let mut said = String::new();
    while !said.contains(until) {
        let file = terminal.file();
        let mut news = [PollFd::new(file, PollFlags::IN)];
        let ready = poll(&mut news, Some(&WITHIN)).unwrap();
        assert!(ready > 0, "not '{until}': {said}");
        let mut bytes = [0; 256];
        let count = terminal.file().read(&mut bytes);
        let count = count.unwrap_or_else(|error| panic!("{error}, and not '{until}': {said}"));
        said.push_str(&String::from_utf8_lossy(&bytes[..count]));
    }
    said
}

/// In a container of root, in one of a user without rights, and in a node without an image.
#[test]
fn a_command_on_a_terminal_has_a_terminal_of_its_node() {
    let host = Host::take();
    let west = "image: box, user: web, capabilities: {drop: [ALL]}, command: [sleep, '1000']";
    let (dir, file) = prepared(&[], west, "runtime: netns");
    let mut lab = Lab::up("tty", &file, dir.path(), &[]);
    for node in ["west", "east"] {
        let script = "busybox tty; busybox stty size; echo again >/dev/tty; read line; echo \"<$line>\"; exit 3";
        let args = ["exec", &lab.name, node, "--", "sh", "-c", script];
        let mut terminal = Terminal::open(OsStr::new(CONSTEL), &args).unwrap();
        terminal.resize(97, 31).unwrap();
        let said = heard(&mut terminal, "again");
        assert!(said.contains("/dev/pts/"), "{node}: {said}");
        terminal.file().write_all(b"typed\r").unwrap();
        heard(&mut terminal, "<typed>");
        assert_eq!(terminal.wait().unwrap().code(), Some(3), "{node}");
        // Ctrl-C is the command's, and a new size reaches it.
        let script = "trap 'echo interrupted; exit 4' INT; trap 'busybox stty size' WINCH; echo ready; while :; do busybox usleep 50000; done";
        let args = ["exec", &lab.name, node, "--", "sh", "-c", script];
        let mut terminal = Terminal::open(OsStr::new(CONSTEL), &args).unwrap();
        heard(&mut terminal, "ready");
        terminal.resize(83, 29).unwrap();
        heard(&mut terminal, "29 83");
        terminal.file().write_all(b"\x03").unwrap();
        heard(&mut terminal, "interrupted");
        assert_eq!(terminal.wait().unwrap().code(), Some(4), "{node}");
    }
    assert_eq!(lab.interrupt().code(), Some(130), "{}", lab.stderr());
    host.assert_as_before("tty");
}

/// Three ways to what is typed after a command has ended: its terminal by name, by the descriptors that it had, and by another command
/// that the user runs later.
#[test]
fn what_is_typed_later_is_the_callers() {
    let host = Host::take();
    let container = "image: box, command: [sleep, '1000']";
    let (dir, file) = prepared(&[], container, "runtime: netns");
    let mut lab = Lab::up("later", &file, dir.path(), &[]);
    for node in ["west", "east"] {
        let thief = |from: &str| {
            format!(
                "(trap \"\" HUP; while :; do read line <{from} && echo \"$line\" >>/tmp/stolen; busybox usleep 10000; done) &"
            )
        };
        let keep = "exec 8<&0;";
        let attack = format!(
            "{keep} {} {} {} busybox usleep 300000",
            thief("/dev/tty"),
            thief("/proc/self/fd/0"),
            thief("/proc/self/fd/8"),
        );
        let script = format!(
            "'{CONSTEL}' exec {} {node} -- sh -c '{attack}'; echo ended; read line; echo \"mine: $line\"; \
             '{CONSTEL}' exec {} {node} -- true; echo ended again; read line; echo \"mine: $line\"",
            lab.name, lab.name
        );
        let mut terminal = Terminal::open(OsStr::new("sh"), &["-c", &script]).unwrap();
        // Input that is typed while a command runs is the command's.
        for (after, secret) in [("ended", "secret-1"), ("ended again", "secret-2")] {
            heard(&mut terminal, after);
            terminal
                .file()
                .write_all(format!("{secret}\n").as_bytes())
                .unwrap();
            heard(&mut terminal, &format!("mine: {secret}"));
        }
        let stolen = inside(&lab, node, &["sh", "-c", "cat /tmp/stolen 2>/dev/null"]);
        assert!(
            !stdout(&stolen).contains("secret"),
            "{node}: {}",
            stdout(&stolen)
        );
        drop(terminal);
    }
    assert_eq!(lab.interrupt().code(), Some(130), "{}", lab.stderr());
    host.assert_as_before("later");
}
