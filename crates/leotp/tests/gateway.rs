//! client - gateway - Midnode - gateway - server, five network namespaces of our own, with ordinary programs at the
//! ends: downloads and uploads byte for byte, half-closed connections, resets, back-pressure, bounds; IPv4 and IPv6.
//!
//! Needs root, curl and python3.

use crate::ns;

use ns::{Ns, Proc, json, until};
use std::fs;

const PEER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/gateway/peer.py");

struct Lab {
    client: Ns,
    near: Ns,
    middle: Ns,
    server: Ns,
    _far: Ns,
    near_gateway: Proc,
    far_gateway: Proc,
    midnode: Proc,
}

/// Net 1: client; 2 and 3: the satellite segment; 4: server. The higher host is nearer to the server.
fn lab(extra: &[&str]) -> Lab {
    lab_with(extra, "")
}

/// Makes a network in which the gateways are each other's peers for `prefix`.
fn lab_with(extra: &[&str], prefix: &str) -> Lab {
    let [client, near, middle, far, server] = [(); 5].map(|()| Ns::new());
    client.link("e0", 1, &near, "lan", 2, 1);
    near.link("sky", 1, &middle, "left", 2, 2);
    middle.link("right", 1, &far, "sky", 2, 3);
    far.link("lan", 1, &server, "e0", 2, 4);
    client.sh("ip route add default via 10.77.1.2; ip -6 route add default via fd77:1::2");
    near.sh("ip route add default via 10.77.2.2; ip -6 route add default via fd77:2::2");
    middle.sh(
        "ip route add 10.77.1.0/24 via 10.77.2.1; ip -6 route add fd77:1::/64 via fd77:2::1; \
         ip route add 10.77.4.0/24 via 10.77.3.2; ip -6 route add fd77:4::/64 via fd77:3::2",
    );
    far.sh("ip route add default via 10.77.3.1; ip -6 route add default via fd77:3::1");
    server.sh("ip route add default via 10.77.4.1; ip -6 route add default via fd77:4::1");
    for router in [&near, &middle, &far] {
        router.sh("echo 1 > /proc/sys/net/ipv4/ip_forward; echo 1 > /proc/sys/net/ipv6/conf/all/forwarding");
    }
    let midnode = middle.relay(&["mid", "--json"]);
    let gateway = |ns: &Ns, peer: &str| {
        let peer = format!("{prefix}{peer}");
        let mut args = vec![
            "gateway",
            "--json",
            "--interface",
            "lan",
            "--ports",
            "7000-7100",
            "--peer",
            &peer,
        ];
        args.extend(extra);
        ns.relay(&args)
    };
    let far_gateway = gateway(&far, "10.77.2.1");
    let near_gateway = gateway(&near, "10.77.3.2");
    Lab {
        client,
        near,
        middle,
        server,
        _far: far,
        near_gateway,
        far_gateway,
        midnode,
    }
}

impl Lab {
    /// Starts a server and waits until it listens.
    fn serve(&self, what: &str, port: u16) -> Proc {
        let server = self
            .server
            .start("python3", &[PEER, what, &port.to_string()]);
        assert!(until(|| self.server.has_tcp(port)), "{what} listens");
        server
    }

    /// Runs a client to its end; what it printed.
    fn client(&self, what: &str, host: &str, port: u16) -> serde_json::Value {
        let client = self
            .client
            .start("python3", &[PEER, what, &port.to_string(), host]);
        let (ok, out) = client.finish();
        assert!(ok, "{what}: {out}");
        json(&out)
    }

    fn counters(self) -> (serde_json::Value, serde_json::Value, serde_json::Value) {
        for p in [&self.near_gateway, &self.far_gateway, &self.midnode] {
            p.signal("-INT");
        }
        let counters = |p: Proc| json(&p.finish().1);
        let all = (
            counters(self.near_gateway),
            counters(self.far_gateway),
            counters(self.midnode),
        );
        for (ns, table) in [(&self.near, "19526"), (&self.middle, "19525")] {
            assert_eq!(ns.routes(table), "", "routes removed");
        }
        all
    }
}

#[test]
fn connections_pass_unchanged() {
    let dir = tempfile::tempdir().expect("directory");
    let key = dir.path().join("key");
    fs::write(&key, "5e".repeat(32)).expect("key");
    let lab = lab(&["--key-file", key.to_str().expect("UTF-8")]);
    let _echo = lab.serve("digest", 7001);
    let _reset = lab.serve("reset", 7002);
    let _slow = lab.serve("slow", 7003);
    for (host, client) in [("10.77.4.2", "10.77.1.1"), ("fd77:4::2", "fd77:1::1")] {
        // 3 MB up; the server answers after the end of them, to a connection that is half closed.
        let said = lab.client("upload", host, 7001);
        assert_eq!(said["digest"], said["sent"], "byte for byte: {said}");
        assert_eq!(
            said["seen"], client,
            "the server sees the client's own address"
        );
        assert_eq!(
            lab.client("expect-reset", host, 7002)["reset"],
            true,
            "a reset passes"
        );
        assert_eq!(
            lab.client("expect-reset", host, 7009)["reset"],
            true,
            "nobody listens"
        );
    }
    // The far gateway itself is no server, whatever listens there.
    assert_eq!(lab.client("expect-reset", "10.77.4.1", 7001)["reset"], true);
    // A server that reads nothing for two seconds: the amount that the client can send in that time is bounded.
    let said = lab.client("fill", "10.77.4.2", 7003);
    assert!(
        said["before"].as_u64() < Some(48 << 20),
        "back-pressure: {said}"
    );
    assert_eq!(said["digest"], said["sent"], "byte for byte: {said}");
    let (near, far, mid) = lab.counters();
    println!("near: {near}\nfar: {far}\nmidnode: {mid}");
    assert_eq!(far["gateway"]["refused"], 1, "its own address");
    assert_eq!(near["gateway"]["taken"], 8);
    assert_eq!(far["gateway"]["opened"], 5);
    assert_eq!(far["gateway"]["unanswered"], 2);
    assert_eq!(near["connections"], 0);
    assert_eq!(far["connections"], 0);
    assert!(
        mid["midnode"]["data_out"].as_u64() > Some(4000),
        "over LEOTP, past the Midnode: {mid}"
    );
}

#[test]
fn a_web_server_and_many_connections() {
    let lab = lab(&["--insecure-without-key", "--max-per-client", "12"]);
    let dir = tempfile::tempdir().expect("directory");
    let mut x = 1u64;
    let bytes: Vec<u8> = (0..8_000_000u32)
        .map(|_| {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (x >> 56) as u8
        })
        .collect();
    fs::write(dir.path().join("file"), &bytes).expect("file");
    let place = dir.path().to_str().expect("UTF-8");
    let _web = lab.server.start(
        "python3",
        &[
            "-m",
            "http.server",
            "--bind",
            "10.77.4.2",
            "--directory",
            place,
            "7080",
        ],
    );
    assert!(until(|| lab.server.has_tcp(7080)));
    let get = |name: &str| {
        let copy = dir.path().join(name);
        let curl = lab.client.start(
            "curl",
            &[
                "-sS",
                "--max-time",
                "50",
                "-o",
                copy.to_str().expect("UTF-8"),
                "http://10.77.4.2:7080/file",
            ],
        );
        (curl, copy)
    };
    // Ten at the same time.
    let all: Vec<_> = (0..10).map(|i| get(&format!("copy{i}"))).collect();
    for (curl, copy) in all {
        let (ok, _) = curl.finish();
        assert!(ok, "curl");
        assert!(fs::read(copy).expect("copy") == bytes, "byte for byte");
    }
    let _hold = lab.serve("hold", 7004);
    let said = lab.client("hold-many", "10.77.4.2", 7004);
    assert_eq!(said["open"], 12, "bounded for each client: {said}");
    let (near, far, _) = lab.counters();
    assert_eq!(near["gateway"]["taken"], 22);
    assert_eq!(near["gateway"]["refused"], 8);
    assert!(far["gateway"]["to_flows_bytes"].as_u64() >= Some(80_000_000));
    println!("near: {near}\nfar: {far}");
}

#[test]
fn the_end_of_a_killed_gateway_is_a_reset_at_both_ends() {
    let lab = lab(&["--insecure-without-key", "--lost-after", "1"]);
    let _hold = lab.serve("hold", 7004);
    let args = [PEER, "expect-reset", "7004", "10.77.4.2"];
    let client = lab.client.start("python3", &args);
    let held = || {
        lab.server
            .sh("cat /proc/net/tcp6")
            .contains(":1B5C 0000000000000000FFFF000001014D0A:")
    };
    assert!(until(held), "the server has the connection, of 10.77.1.1");
    lab.far_gateway.signal("-KILL");
    assert!(until(|| !held()), "reset at the server at once");
    // The other side must find out: it asks every 5 s, and waits a second for the answer.
    let (ok, out) = client.finish();
    assert!(ok, "{out}");
    assert_eq!(json(&out)["reset"], true);
}

#[test]
fn other_destinations_and_interfaces_pass_as_they_are() {
    let near_only = ["--insecure-without-key", "--interface", "sky"];
    let lab = lab_with(&near_only, "10.77.4.64/27=");
    let _echo = lab.serve("digest", 7001);
    // 10.77.4.2 is not in the prefix; the client's interface is: the server answers without any gateway.
    let said = lab.client("upload", "10.77.4.2", 7001);
    assert_eq!(said["digest"], said["sent"], "{said}");
    lab.server.sh("ip addr add 10.77.4.66/24 dev e0");
    let said = lab.client("upload", "10.77.4.66", 7001);
    assert_eq!(said["digest"], said["sent"], "{said}");
    let (near, far, _) = lab.counters();
    assert_eq!(near["gateway"]["taken"], 1, "{near}");
    assert_eq!(far["gateway"]["opened"], 1, "{far}");
}

#[test]
fn a_gateway_without_a_key_or_an_interface_does_not_start() {
    let ns = Ns::new();
    let start = |args: &[&str]| {
        let all = [&["gateway", "--peer", "10.77.0.2"], args].concat();
        let out = ns.command(ns::LEOTP).args(all).output().expect("leotp");
        (
            out.status.code(),
            String::from_utf8_lossy(&out.stderr).into_owned(),
        )
    };
    let (code, said) = start(&[]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("--key-file"), "{said}");
    let (code, said) = start(&["--insecure-without-key", "--interface", "NOSUCH"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("NOSUCH here; there are: lo"), "{said}");
}
