//! Network namespaces of a test's own. Namespaces live as long as the processes that hold them, which die with the
//! test; no name is left anywhere.
#![allow(dead_code, reason = "not every test uses all")]

use std::fs;
use std::io::{self, Read};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) const LEOTP: &str = env!("CARGO_BIN_EXE_leotp");

/// How long a test waits for what must happen: a wait recognises what hangs, and a busy host may take its time.
const HANGS_AFTER: Duration = Duration::from_secs(240);

/// A process that dies with its handle.
pub(crate) struct Proc(Child);

impl Drop for Proc {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Proc {
    pub(crate) fn signal(&self, sig: &str) {
        let ok = Command::new("kill")
            .args([sig, &self.0.id().to_string()])
            .status()
            .expect("kill");
        assert!(ok.success());
    }

    /// Whether it has a file open.
    pub(crate) fn reads(&self, file: &std::path::Path) -> bool {
        let open = fs::read_dir(format!("/proc/{}/fd", self.0.id()));
        open.into_iter()
            .flatten()
            .flatten()
            .any(|fd| fs::read_link(fd.path()).is_ok_and(|to| to == file))
    }

    /// Waits for the first line on standard error.
    fn first_words(&mut self) -> String {
        let stderr = self.0.stderr.as_mut().expect("a pipe");
        let line: io::Result<Vec<u8>> = stderr
            .bytes()
            .take_while(|byte| !matches!(byte, Ok(b'\n')))
            .collect();
        String::from_utf8(line.expect("output")).expect("UTF-8")
    }

    /// Waits for its end, and gives exit success and standard output.
    pub(crate) fn finish(mut self) -> (bool, String) {
        let end = Instant::now() + HANGS_AFTER;
        loop {
            if let Some(s) = self.0.try_wait().expect("wait") {
                let mut out = String::new();
                if let Some(mut o) = self.0.stdout.take() {
                    o.read_to_string(&mut out).expect("output");
                }
                return (s.success(), out);
            }
            assert!(
                Instant::now() < end,
                "process did not end in {HANGS_AFTER:?}"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A network namespace, held by a sleeping process.
pub(crate) struct Ns(Proc);

impl Ns {
    pub(crate) fn new() -> Self {
        let child = Command::new("unshare")
            .args(["-n", "sleep", "600"])
            .spawn()
            .expect("unshare");
        let ns = Self(Proc(child));
        let own = fs::read_link("/proc/self/ns/net").expect("own namespace");
        let end = Instant::now() + HANGS_AFTER;
        // The namespace exists once the child's differs from ours.
        while fs::read_link(format!("/proc/{}/ns/net", ns.pid())).is_ok_and(|l| l == own) {
            assert!(Instant::now() < end);
            std::thread::sleep(Duration::from_millis(2));
        }
        ns.sh("ip link set lo up");
        ns
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.0.id()
    }

    pub(crate) fn command(&self, program: &str) -> Command {
        let mut c = Command::new("nsenter");
        c.arg(format!("--net=/proc/{}/ns/net", self.pid()))
            .arg(program);
        c
    }

    pub(crate) fn sh(&self, script: &str) -> String {
        let o = self
            .command("sh")
            .args(["-ec", script])
            .output()
            .expect("sh");
        assert!(
            o.status.success(),
            "{script}: {}",
            String::from_utf8_lossy(&o.stderr)
        );
        String::from_utf8_lossy(&o.stdout).into_owned()
    }

    /// A program with its output, in this namespace. `nsenter` executes it in its place, so the handle is its own.
    pub(crate) fn start(&self, program: &str, args: &[&str]) -> Proc {
        let mut command = self.command(program);
        let command = command.args(args);
        let child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        Proc(child.unwrap_or_else(|e| panic!("{program}: {e}")))
    }

    /// The `leotp` command.
    pub(crate) fn leotp(&self, args: &[&str]) -> Proc {
        self.start(LEOTP, args)
    }

    /// `leotp mid` or `leotp gateway`, once it says that all of it is up: its routes are there before its sockets are, and what comes
    /// between is lost.
    pub(crate) fn relay(&self, args: &[&str]) -> Proc {
        let mut relay = self.leotp(args);
        let words = relay.first_words();
        assert!(words.starts_with(args[0]), "{words}");
        relay
    }

    /// A link to `other`: interface names here and there, and the two last numbers of net and host,
    /// `10.77.<net>.<host>` and `fd77:<net>::<host>`.
    pub(crate) fn link(
        &self,
        name: &str,
        host: u8,
        other: &Ns,
        other_name: &str,
        other_host: u8,
        net: u8,
    ) {
        self.sh(&format!(
            "ip link add {name} type veth peer name {other_name} netns {}",
            other.pid()
        ));
        for (ns, name, host) in [(self, name, host), (other, other_name, other_host)] {
            ns.sh(&format!(
                "ip link set {name} up; ip addr add 10.77.{net}.{host}/24 dev {name}; \
                 ip -6 addr add fd77:{net}::{host}/64 dev {name} nodad"
            ));
        }
        // The kernel activates the queues of 100 new links a second (`linkwatch`), in all namespaces together, and drops packets before.
        for (ns, name) in [(self, name), (other, other_name)] {
            let is_active = || {
                ns.sh(&format!("ip -o link show dev {name}"))
                    .contains("state UP")
            };
            assert!(until(is_active), "{name} is active");
        }
    }

    /// Routes of both families in a table, which need not exist.
    pub(crate) fn routes(&self, table: &str) -> String {
        let all = self.sh("ip -4 route show table all; ip -6 route show table all");
        let ours = format!(" table {table} ");
        all.lines()
            .filter(|l| format!("{l} ").contains(&ours))
            .map(|l| format!("{l}\n"))
            .collect()
    }

    /// Whether something in this namespace has this UDP port.
    pub(crate) fn has_udp(&self, port: u16) -> bool {
        self.sh("cat /proc/net/udp /proc/net/udp6")
            .contains(&format!(":{port:04X}"))
    }

    /// Whether something in this namespace listens on this TCP port.
    pub(crate) fn has_tcp(&self, port: u16) -> bool {
        let wanted = format!(":{port:04X}");
        self.sh("cat /proc/net/tcp /proc/net/tcp6")
            .lines()
            .any(|line| {
                let mut fields = line.split_ascii_whitespace().skip(1);
                fields.next().is_some_and(|local| local.ends_with(&wanted))
                    && fields.nth(1) == Some("0A")
            })
    }
}

/// Waits until `what` gives true.
pub(crate) fn until(mut what: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + HANGS_AFTER;
    while Instant::now() < end {
        if what() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

pub(crate) fn json(s: &str) -> serde_json::Value {
    serde_json::from_str(s.trim()).unwrap_or_else(|e| panic!("{e}: {s:?}"))
}
