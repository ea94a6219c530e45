//! serve -> mid -> get through three network namespaces of our own, over IPv4
//! and IPv6; the Midnode is killed in the middle and started again.
//!
//! Needs root. Namespaces live as long as the processes that hold them, which
//! die with the test; no name is left anywhere.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const LEOTP: &str = env!("CARGO_BIN_EXE_leotp");

/// A process that dies with its handle.
struct Proc(Child);

impl Drop for Proc {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Proc {
    fn signal(&self, sig: &str) {
        let ok = Command::new("kill")
            .args([sig, &self.0.id().to_string()])
            .status()
            .expect("kill");
        assert!(ok.success());
    }

    /// Waits at most `limit` and gives exit success and standard output.
    fn finish(mut self, limit: Duration) -> (bool, String) {
        let end = Instant::now() + limit;
        loop {
            if let Some(s) = self.0.try_wait().expect("wait") {
                let mut out = String::new();
                if let Some(mut o) = self.0.stdout.take() {
                    o.read_to_string(&mut out).expect("output");
                }
                return (s.success(), out);
            }
            assert!(Instant::now() < end, "process did not end in {limit:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A network namespace, held by a sleeping process.
struct Ns(Proc);

impl Ns {
    fn new() -> Self {
        let child = Command::new("unshare")
            .args(["-n", "sleep", "120"])
            .spawn()
            .expect("unshare");
        let ns = Self(Proc(child));
        let own = fs::read_link("/proc/self/ns/net").expect("own namespace");
        let end = Instant::now() + Duration::from_secs(5);
        // The namespace exists once the child's differs from ours.
        while fs::read_link(format!("/proc/{}/ns/net", ns.pid())).is_ok_and(|l| l == own) {
            assert!(Instant::now() < end);
            std::thread::sleep(Duration::from_millis(2));
        }
        ns.sh("ip link set lo up");
        ns
    }

    fn pid(&self) -> u32 {
        self.0.0.id()
    }

    fn command(&self, program: &str) -> Command {
        let mut c = Command::new("nsenter");
        c.arg(format!("--net=/proc/{}/ns/net", self.pid()))
            .arg(program);
        c
    }

    fn sh(&self, script: &str) -> String {
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

    /// `nsenter` executes the program in its place, so the handle is the program's.
    fn leotp(&self, args: &[&str]) -> Proc {
        Proc(
            self.command(LEOTP)
                .args(args)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("leotp"),
        )
    }
}

/// Waits until `what` gives true.
fn until(limit: Duration, mut what: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    while Instant::now() < end {
        if what() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

fn chain() -> (Ns, Ns, Ns) {
    let (a, m, c) = (Ns::new(), Ns::new(), Ns::new());
    for (end, name, net) in [(&a, "left", 1), (&c, "right", 2)] {
        end.sh(&format!(
            "ip link add e0 type veth peer name {name} netns {} && ip link set e0 up && \
             ip addr add 10.77.{net}.2/24 dev e0 && ip -6 addr add fd77:{net}::2/64 dev e0 nodad",
            m.pid()
        ));
        m.sh(&format!(
            "ip link set {name} up && ip addr add 10.77.{net}.1/24 dev {name} && ip -6 addr add fd77:{net}::1/64 dev {name} nodad"
        ));
        end.sh(&format!(
            "ip route add default via 10.77.{net}.1 && ip -6 route add default via fd77:{net}::1"
        ));
    }
    m.sh("echo 1 > /proc/sys/net/ipv4/ip_forward; echo 1 > /proc/sys/net/ipv6/conf/all/forwarding");
    (a, m, c)
}

fn json(s: &str) -> serde_json::Value {
    serde_json::from_str(s.trim()).unwrap_or_else(|e| panic!("{e}: {s:?}"))
}

fn listening(ns: &Ns) -> bool {
    // 13B7 = 5047; the mid's own sockets are recognised by its rule instead.
    ns.sh("cat /proc/net/udp /proc/net/udp6").contains(":13B7")
}

fn transfer(host: &str, listen: &str) {
    let dir = tempfile::tempdir().expect("directory");
    let (file, copy) = (dir.path().join("file"), dir.path().join("copy"));
    let mut x = 0x2545_F491_4F6C_DD1Du64;
    let bytes: Vec<u8> = std::iter::repeat_with(|| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x as u8
    })
    .take(12_000_000)
    .collect();
    fs::write(&file, &bytes).expect("file");
    let (a, m, c) = chain();
    let rules_before = m.sh("ip rule; ip -6 rule");
    let p = |f: &Path| f.to_str().expect("UTF-8").to_owned();
    let server = a.leotp(&[
        "serve",
        &p(&file),
        "--listen",
        listen,
        "--flow",
        "feed",
        "--json",
    ]);
    assert!(
        until(Duration::from_secs(5), || listening(&a)),
        "server listens"
    );
    let slow = ["--set", "max_rate_bps=40000000"];
    let mut mid_args = vec!["mid", "--json"];
    mid_args.extend(slow);
    let redirected = || {
        m.sh("ip rule; ip -6 rule") != rules_before
            && m.sh("ip -6 route show table 19525").contains("local")
    };
    let first = m.leotp(&mid_args);
    assert!(until(Duration::from_secs(5), redirected), "mid is up");
    let remote = format!("{host}:5047");
    let target = p(&copy);
    let get_args = [
        &["get", &remote, "feed", "-o", &target, "--json"][..],
        &slow[..],
    ]
    .concat();
    let part = dir.path().join("copy.part");
    let size = || fs::metadata(&part).map_or(0, |f| f.len());
    let get = c.leotp(&get_args);
    // Killed in the middle of the flow; the kernel goes on without it.
    assert!(
        until(Duration::from_secs(10), || size() > 2_000_000),
        "a sixth has come"
    );
    first.signal("-KILL");
    drop(first);
    assert!(
        until(Duration::from_secs(10), || size() > 5_000_000
            || copy.exists()),
        "flows on without the midnode"
    );
    let second = m.leotp(&mid_args);
    let (ok, out) = get.finish(Duration::from_secs(30));
    assert!(ok, "get: {out}");
    assert_eq!(fs::read(&copy).expect("copy"), bytes, "byte-exact");
    assert!(!part.exists());
    let got = json(&out);
    println!(
        "{host}: {:.1} Mbit/s, {}",
        got["goodput_bps"].as_f64().unwrap_or(0.0) / 1e6,
        got["consumer"]
    );
    second.signal("-INT");
    let (_, out) = second.finish(Duration::from_secs(5));
    let mid = json(&out);
    println!("second midnode: {mid}");
    assert!(
        mid["midnode"]["data_out"].as_u64() > Some(500),
        "the second midnode took its share: {mid}"
    );
    assert_eq!(m.sh("ip rule; ip -6 rule"), rules_before, "rules removed");
    assert_eq!(
        m.sh("ip route show table 19525; ip -6 route show table 19525"),
        "",
        "routes removed"
    );
    server.signal("-INT");
    let (_, out) = server.finish(Duration::from_secs(5));
    // Transparent: the Producer has seen the Consumer's own address only.
    assert!(json(&out)["producer"]["data_bytes"].as_u64() >= Some(12_000_000));
}

#[test]
fn ipv4_through_a_killed_and_restarted_midnode() {
    transfer("10.77.1.2", "0.0.0.0:5047");
}

#[test]
fn ipv6_through_a_killed_and_restarted_midnode() {
    transfer("[fd77:1::2]", "[::]:5047");
}
