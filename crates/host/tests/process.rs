//! Processes in namespaces: started, fed, watched, ended, and replaced.

use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use constel_host::enclosure::{Enclosure, View};
use constel_host::process::{
    Entry, ExecContext, Exit, ProcessSelection, Spawn, Stdio, Supervisor, Terminal, kill_marked,
    marked, run_inside,
};
use constel_host::{Error, NetNs};

/// Runs a shell command to its end and returns what it printed.
fn output(spawn: Spawn<'_>) -> (Exit, String) {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let child = spawn
        .stdout(Stdio::Fd(OwnedFd::from(writer)))
        .start()
        .unwrap();
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    (child.wait().unwrap(), text)
}

fn sh<'a>(script: &str) -> Spawn<'a> {
    Spawn::new("ptest", ["sh", "-c", script])
}

#[test]
fn runs_in_the_namespace_with_marks_and_only_its_streams() {
    let ns = NetNs::new().unwrap();
    // A descriptor without O_CLOEXEC must not leak either.
    let leaky = rustix_dup_without_cloexec();
    let script = "readlink /proc/self/ns/net; echo $CONSTEL_LAB $CONSTEL_NODE $X; ls /proc/$$/fd; \
                  grep -E '^(SigIgn|SigBlk)' /proc/self/status; ps -o sid= -p $$ | tr -d ' '; echo $$";
    let (exit, text) = output(sh(script).node("n1").env("X", "y").netns(&ns));
    drop(leaky);
    assert_eq!(exit, Exit::Code(0));
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], format!("net:[{}]", ns.inode().unwrap()));
    assert_eq!(lines[1], "ptest n1 y");
    let fds: Vec<_> = lines[2..]
        .iter()
        .take_while(|l| l.parse::<u32>().is_ok())
        .collect();
    assert_eq!(fds, [&"0", &"1", &"2"], "{text}");
    assert_eq!(lines[5], "SigBlk:\t0000000000000000");
    assert_eq!(
        lines[6], "SigIgn:\t0000000000000000",
        "SIGPIPE too is at its default"
    );
    assert_eq!(lines[7], lines[8], "leader of its own session");
}

fn rustix_dup_without_cloexec() -> OwnedFd {
    let f = fs::File::open("/dev/null").unwrap();
    rustix::io::dup(f).unwrap()
}

#[test]
fn failures_name_the_step_and_leave_nothing() {
    let e = Spawn::new("ptest", ["no-such-command-here"])
        .start()
        .unwrap_err();
    assert!(
        e.to_string()
            .contains("command no-such-command-here not found in "),
        "{e}"
    );
    let e = Spawn::new("ptest", ["/etc/passwd"]).start().unwrap_err();
    assert!(e.to_string().contains("not an executable file"), "{e}");
    let e = sh("true").dir("/nowhere").start().unwrap_err();
    assert!(e.to_string().starts_with("change the directory of "), "{e}");
    assert_eq!(e.errno(), Some(libc::ENOENT));
    let dir = tempfile::tempdir().unwrap();
    let junk = dir.path().join("junk");
    fs::write(&junk, "not a program").unwrap();
    let mut mode = fs::metadata(&junk).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
    fs::set_permissions(&junk, mode).unwrap();
    let e = Spawn::new("ptest", [junk.as_os_str()]).start().unwrap_err();
    assert!(e.to_string().starts_with("execute "), "{e}");
    assert!(e.to_string().contains("Exec format error"), "{e}");
    let missing = |e: &Error| match e {
        Error::Program { missing, .. } => Some(*missing),
        _ => None,
    };
    assert_eq!(missing(&e), Some(false));
    let e = Spawn::new("ptest", ["/no/such/command"])
        .start()
        .unwrap_err();
    assert_eq!(missing(&e), Some(true));
}

/// `ip` binds its socket even where it only asks.
#[test]
fn a_deaf_process_cannot_bind_netlink_sockets() {
    let ns = NetNs::new().unwrap();
    let script = "ip link show lo > /dev/null 2>&1; echo $?";
    assert_eq!(output(sh(script).netns(&ns)).1, "0\n");
    assert_ne!(output(sh(script).netns(&ns).deaf()).1, "0\n");
    // Programs that it starts are deaf as well.
    let (_, text) = output(sh("sh -c 'ip link show lo 2>&1'; true").netns(&ns).deaf());
    assert!(text.contains("Operation not permitted"), "{text}");
}

#[test]
fn files_are_made_or_appended_to() {
    let dir = tempfile::tempdir().unwrap();
    let (log, err) = (dir.path().join("log"), dir.path().join("err"));
    for _ in 0..2 {
        let child = sh("echo out; echo err >&2")
            .stdout(Stdio::Append(log.clone()))
            .stderr(Stdio::Create(err.clone()))
            .start()
            .unwrap();
        assert!(child.wait().unwrap().is_success());
    }
    assert_eq!(fs::read_to_string(&log).unwrap(), "out\nout\n");
    assert_eq!(fs::read_to_string(&err).unwrap(), "err\n");
}

#[test]
fn ends_on_request_or_by_force() {
    let polite = sh("sleep 1000").start().unwrap();
    assert_eq!(polite.try_wait().unwrap(), None);
    assert_eq!(
        polite.wait_timeout(Duration::from_millis(10)).unwrap(),
        None
    );
    assert_eq!(
        polite.terminate(Duration::from_secs(240)).unwrap(),
        Exit::Signal(libc::SIGTERM)
    );
    assert_eq!(
        polite.wait().unwrap(),
        Exit::Signal(libc::SIGTERM),
        "asked twice"
    );
    assert_eq!(polite.wait().unwrap().shell_code(), 143);

    // Deaf to SIGTERM, with a child of its own: both die.
    let (mut reader, writer) = std::io::pipe().unwrap();
    let deaf = sh("trap '' TERM; (trap '' TERM; echo ready; sleep 999) & wait; sleep 999")
        .stdout(Stdio::Fd(writer.into()))
        .start()
        .unwrap();
    let mut ready = [0; 5];
    reader.read_exact(&mut ready).unwrap();
    let t = Instant::now();
    assert_eq!(
        deaf.terminate(Duration::from_millis(200)).unwrap(),
        Exit::Signal(libc::SIGKILL)
    );
    assert!(t.elapsed() >= Duration::from_millis(200));
    // The pipe closes when the last holder is gone: no process of the group lives on.
    let mut rest = String::new();
    reader.read_to_string(&mut rest).unwrap();
}

#[test]
fn a_supervisor_reports_every_end_once() {
    let mut s = Supervisor::new();
    for (key, script) in [("a", "exit 3"), ("b", "kill -USR1 $$"), ("c", "sleep 1000")] {
        assert!(s.add(key, sh(script).start().unwrap()).is_none());
    }
    let mut ended = Vec::new();
    let end = Instant::now() + Duration::from_secs(240);
    while ended.len() < 2 && Instant::now() < end {
        ended.extend(s.wait(Duration::from_millis(100)).unwrap());
    }
    ended.sort_by_key(|e| e.key);
    let seen: Vec<_> = ended.iter().map(|e| (e.key, e.exit)).collect();
    assert_eq!(
        seen,
        [("a", Exit::Code(3)), ("b", Exit::Signal(libc::SIGUSR1))]
    );
    assert_eq!(s.len(), 1);
    let rest = s
        .terminate_all(Duration::from_secs(240), || Ok(()))
        .unwrap();
    assert_eq!(
        (rest.len(), rest[0].key, rest[0].exit),
        (1, "c", Exit::Signal(libc::SIGTERM))
    );
    assert!(s.is_empty());
    assert!(s.wait(Duration::ZERO).unwrap().is_empty());
}

/// A stopped program would keep the signal to end until it is continued, and be killed after the grace period.
#[test]
fn a_stopped_child_ends_by_itself() {
    let mut s = Supervisor::new();
    let script = "trap 'exit 7' TERM; kill -STOP $$; while :; do sleep 0.1; done";
    let child = sh(script).start().unwrap();
    let stat = format!("/proc/{}/stat", child.pid());
    s.add("a", child);
    while !std::fs::read_to_string(&stat).unwrap().contains(") T ") {
        std::thread::sleep(Duration::from_millis(10));
    }
    let ended = s
        .terminate_all(Duration::from_secs(240), || Ok(()))
        .unwrap();
    assert_eq!(ended[0].exit, Exit::Code(7));
}

#[test]
fn marked_processes_are_found_and_killed_and_no_others() {
    // The shell stands still: it does not end by itself once its sleeps are gone.
    let three = "sleep 1000 & sleep 1000 & kill -STOP $$";
    let ours = Spawn::new("ptest-marks", ["sh", "-c", three])
        .node("n")
        .start()
        .unwrap();
    let other = Spawn::new("ptest-marks-2", ["sleep", "100"])
        .start()
        .unwrap();
    let end = Instant::now() + Duration::from_secs(240);
    // The shell and its two sleeps.
    while marked(Some("ptest-marks"))
        .unwrap()
        .iter()
        .filter(|m| m.command == "sleep")
        .count()
        < 2
    {
        assert!(Instant::now() < end);
        std::thread::yield_now();
    }
    // We answer for them, and live: cleaning up does not touch them.
    let cleaned = kill_marked(
        "ptest-marks",
        ProcessSelection::DeadOwners,
        Duration::from_secs(240),
    )
    .unwrap();
    assert_eq!(cleaned, []);
    let killed = kill_marked(
        "ptest-marks",
        ProcessSelection::Mine,
        Duration::from_secs(240),
    )
    .unwrap();
    assert_eq!(killed.len(), 3, "{killed:?}");
    assert!(
        killed
            .iter()
            .all(|m| m.lab == "ptest-marks" && m.node.as_deref() == Some("n"))
    );
    assert_eq!(ours.wait().unwrap(), Exit::Signal(libc::SIGKILL));
    assert_eq!(marked(Some("ptest-marks")).unwrap(), []);
    assert_eq!(
        other.try_wait().unwrap(),
        None,
        "the other lab's process lives"
    );
    other.terminate(Duration::from_secs(240)).unwrap();
}

/// The variable in which a re-execution of a test finds its node.
const INSIDE: &str = "CONSTEL_TEST_INSIDE";

/// A node for commands of other processes.
struct Node {
    netns: NetNs,
    view: View,
    _enclosure: Enclosure,
}

impl Node {
    fn new(lab: &str) -> Self {
        let netns = NetNs::new().unwrap();
        let enclosure = Enclosure::new(lab, Vec::new()).unwrap();
        let view = enclosure.view(&netns, "n7", &[]).unwrap();
        Self {
            netns,
            view,
            _enclosure: enclosure,
        }
    }

    fn paths(&self) -> String {
        let (mounts, pids) = self.view.paths();
        let paths = [self.netns.proc_path(), mounts, pids];
        paths.map(|path| path.display().to_string()).join(" ")
    }
}

/// The entry to it, in such a re-execution.
fn entry() -> Option<Entry> {
    let paths = std::env::var(INSIDE).ok()?;
    let paths: Vec<&Path> = paths.split(' ').map(Path::new).collect();
    Some(Entry {
        lab: "ptest".into(),
        node: "n7".into(),
        owner: constel_host::ident::ProcessIdent::current().unwrap(),
        netns: NetNs::open(paths[0]).unwrap(),
        within: ExecContext::View(View::open(paths[1], paths[2]).unwrap()),
        cgroups: Vec::new(),
        env: vec![("EXTRA".into(), "e".into())],
    })
}

/// Arguments of a re-execution for one test.
fn again(test: &str) -> [&str; 3] {
    ["--exact", test, "--nocapture"]
}

/// Waits until a terminal talks to this program, which is a node's: keys before are the shell's.
fn in_front(program: &str) {
    let until = Instant::now() + Duration::from_secs(240);
    let is_in_front = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (name, rest) = stat.split_once('(')?.1.rsplit_once(") ")?;
        // State, parent, group, session, terminal, and the group that this talks to.
        let numbers: Vec<&str> = rest.split(' ').collect();
        (name == program && numbers[2] == numbers[5]).then_some(())
    };
    loop {
        let all = marked(Some("ptest")).unwrap();
        if all.iter().any(|process| is_in_front(process.pid).is_some()) {
            return;
        }
        assert!(Instant::now() < until, "{program} is not in front");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// `constel shell`: jobs are started and interrupted there, and it ends on request, with every shell. On a terminal,
/// in a re-execution of this test.
#[test]
fn a_shell_inside_has_jobs_and_ends_as_it_is_told() {
    if let Some(entry) = entry() {
        // A program that cannot be started leaves the terminal to the next one.
        let nothing = std::env::var_os("NOTHING").unwrap();
        let failed = run_inside(self::entry().unwrap(), &[nothing]);
        let failed = failed.unwrap_err().to_string();
        assert!(failed.starts_with("execute"), "{failed}");
        let shell = std::env::var_os("SHELL").unwrap();
        let exit = run_inside(entry, &[shell]).unwrap();
        // The terminal is the caller's again: it may read there.
        println!("over");
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).unwrap();
        println!("then {line}");
        std::process::exit(exit.shell_code());
    }
    let node = Node::new("ptest-shell");
    let dir = tempfile::tempdir().unwrap();
    let nothing = dir.path().join("nothing");
    fs::write(&nothing, "").unwrap();
    fs::set_permissions(&nothing, fs::Permissions::from_mode(0o755)).unwrap();
    // Typed, or in a script that goes on after it.
    let cases = [("dash", "exec"), ("bash", "exec"), ("dash", "IN_SCRIPT=1")];
    for (shell, how) in cases {
        let test = std::env::current_exe().unwrap();
        let paths = node.paths();
        let variables = format!(
            "{INSIDE}='{paths}' NOTHING='{}' SHELL={shell} PS1='$ '",
            nothing.display()
        );
        let script = format!("export {variables}; {how} \"$@\"; exit");
        let mut args = vec!["-c", &script, "sh", test.to_str().unwrap()];
        args.extend(again(
            "process::a_shell_inside_has_jobs_and_ends_as_it_is_told",
        ));
        let mut terminal = Terminal::open("sh".as_ref(), &args).unwrap();
        let mut said = String::new();
        let mut hear = |terminal: &mut Terminal, until: &str| {
            while !said.contains(until) {
                let mut bytes = [0; 256];
                let count = terminal.file().read(&mut bytes);
                let count = count.unwrap_or_else(|error| panic!("{shell}: {error}: {said:?}"));
                said.push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        };
        let dialogue = [
            (&b"echo $((6 * 7)).; sleep 600\n"[..], "42."),
            (b"\x03", "^C"),
            (b"echo $((6 * 8)).\n", "48."),
            (b"exit 5\n", "over"),
            (b"mine\n", "then mine"),
        ];
        for (typed, answer) in dialogue {
            terminal.file().write_all(typed).unwrap();
            hear(&mut terminal, answer);
            if answer == "42." {
                in_front("sleep");
            }
        }
        assert_eq!(
            terminal.wait().unwrap().code(),
            Some(5),
            "{shell}: {said:?}"
        );
    }
}

/// `constel exec`: what the command gets of its caller, and the caller of it. Done in a re-execution of this test.
#[test]
fn a_command_inside_has_its_callers_streams_and_signals() {
    if let Some(entry) = entry() {
        let script = "ls /sys/class/net; echo $CONSTEL_NODE $EXTRA $KEPT; cat; \
                      trap 'echo asked; exit 42' TERM; kill -USR1 $$; echo ready; while :; do sleep 0.05; done";
        let script = format!("trap 'echo usr1' USR1; {script}");
        let argv: Vec<OsString> = ["sh", "-c", &script].map(Into::into).into();
        println!("\nthread {}", rustix::thread::gettid().as_raw_pid());
        let exit = run_inside(entry, &argv).unwrap();
        std::process::exit(exit.shell_code());
    }
    let node = Node::new("ptest-inside");
    let dir = tempfile::tempdir().unwrap();
    let stdin = dir.path().join("in");
    fs::write(&stdin, "from standard input\n").unwrap();
    let mut caller = Command::new(std::env::current_exe().unwrap())
        .args(again(
            "process::a_command_inside_has_its_callers_streams_and_signals",
        ))
        .env(INSIDE, node.paths())
        .env("KEPT", "k")
        .stdin(fs::File::open(stdin).unwrap())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = std::io::BufReader::new(caller.stdout.take().unwrap());
    let mut text = String::new();
    while !text.ends_with("ready\n") {
        assert_ne!(
            std::io::BufRead::read_line(&mut out, &mut text).unwrap(),
            0,
            "{text}"
        );
    }
    assert!(
        text.contains("lo\nn7 e k\nfrom standard input\nusr1\n"),
        "{text}"
    );
    // To its thread: the command has one, a test has others, which would take the signal.
    let thread = text.lines().find_map(|line| line.strip_prefix("thread "));
    let thread: i32 = thread.unwrap().parse().unwrap();
    // SAFETY: numbers only.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, caller.id(), thread, libc::SIGTERM) };
    assert_eq!(sent, 0);
    out.read_to_string(&mut text).unwrap();
    assert!(text.ends_with("asked\n"), "{text}");
    let status = caller.wait().unwrap();
    assert_eq!((status.code(), status.signal()), (Some(42), None));
}

/// Starting must not get slower as the engine grows (it would with `fork`).
#[test]
fn starting_costs_the_same_in_a_large_process() {
    // The least of several rounds: what else this machine does adds to a round, and takes nothing from one.
    let start = || {
        let round = || {
            let t = Instant::now();
            let children: Vec<_> = (0..20)
                .map(|_| Spawn::new("ptest", ["true"]).start().unwrap())
                .collect();
            let each = t.elapsed() / 20;
            for c in &children {
                assert!(c.wait().unwrap().is_success());
            }
            each
        };
        (0..10).map(|_| round()).min().unwrap()
    };
    let small = start();
    // 1 GiB, every page touched.
    let mut big = vec![0u8; 1 << 30];
    big.iter_mut().step_by(4096).for_each(|b| *b = 1);
    let large = start();
    std::hint::black_box(&big);
    println!("start a process: {small:.0?} small, {large:.0?} with 1 GiB in use");
    // fork would take more than 5 ms for the page tables of 1 GiB.
    assert!(
        large < small * 3 + Duration::from_millis(2),
        "{small:?} -> {large:?}"
    );
}
