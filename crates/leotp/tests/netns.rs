//! serve -> mid -> get through three network namespaces of our own, over IPv4
//! and IPv6; the Midnode is killed in the middle and started again.
//!
//! Needs root.

use crate::ns;

use ns::{Ns, json, until};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

pub(crate) fn chain() -> (Ns, Ns, Ns) {
    let (a, m, c) = (Ns::new(), Ns::new(), Ns::new());
    for (end, name, net) in [(&a, "left", 1), (&c, "right", 2)] {
        end.link("e0", 2, &m, name, 1, net);
        end.sh(&format!(
            "ip route add default via 10.77.{net}.1 && ip -6 route add default via fd77:{net}::1"
        ));
    }
    m.sh("echo 1 > /proc/sys/net/ipv4/ip_forward; echo 1 > /proc/sys/net/ipv6/conf/all/forwarding");
    (a, m, c)
}

/// What decides whether packets reach a Midnode, for the message of a test that fails.
fn redirection(ns: &Ns) -> String {
    ns.sh(
        "(ip -6 rule; ip -6 route show table all; ip -s addr; ip -6 neigh; nft list ruleset; \
         cat /proc/net/udp /proc/net/udp6 /proc/net/snmp6) 2>&1 || true",
    )
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
    assert!(until(|| a.has_udp(5047)), "server listens");
    let slow = ["--set", "max_rate_bps=16000000"];
    let mut mid_args = vec!["mid", "--json"];
    mid_args.extend(slow);
    let first = m.relay(&mid_args);
    assert_ne!(m.sh("ip rule; ip -6 rule"), rules_before);
    assert_eq!(m.routes("19525").matches("local default").count(), 2);
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
    assert!(until(|| size() > 2_000_000), "a sixth has come");
    first.signal("-KILL");
    let then = size();
    assert!(
        until(|| size() > then + 500_000),
        "flows on without the midnode"
    );
    // The sender pauses until the second midnode is up. The end of the first, whose table the kernel takes away, and the start of the
    // second may each take a busy host as long as the rest of the flow.
    server.signal("-STOP");
    assert!(!copy.exists(), "the flow ended before the sender paused");
    drop(first);
    let second = m.relay(&mid_args);
    server.signal("-CONT");
    let (ok, out) = get.finish();
    assert!(ok, "get: {out}");
    assert_eq!(fs::read(&copy).expect("copy"), bytes, "byte-exact");
    assert!(!part.exists());
    let got = json(&out);
    println!(
        "{host}: {:.1} Mbit/s, {}",
        got["goodput_bps"].as_f64().unwrap_or(0.0) / 1e6,
        got["consumer"]
    );
    let state = redirection(&m);
    second.signal("-INT");
    let (_, out) = second.finish();
    let mid = json(&out);
    println!("second midnode: {mid}");
    assert!(
        mid["midnode"]["data_out"].as_u64() > Some(500),
        "the second midnode took its share: {mid}\n{state}"
    );
    assert_eq!(m.sh("ip rule; ip -6 rule"), rules_before, "rules removed");
    assert_eq!(m.routes("19525"), "", "routes removed");
    server.signal("-INT");
    let (_, out) = server.finish();
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

/// Two routers with Midnodes whose routes for a place lead to each other.
fn dies_in_a_loop(host: &str, family: &str) {
    let (sender, a, b) = (Ns::new(), Ns::new(), Ns::new());
    sender.link("e0", 2, &a, "left", 1, 1);
    a.link("right", 1, &b, "left", 2, 2);
    sender.sh("ip route add default via 10.77.1.1 && ip -6 route add default via fd77:1::1");
    for ns in [&a, &b] {
        ns.sh(
            "echo 1 > /proc/sys/net/ipv4/ip_forward; echo 1 > /proc/sys/net/ipv6/conf/all/forwarding; \
             for f in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 > $f; done",
        );
    }
    a.sh("ip route add 10.88.0.0/16 via 10.77.2.2; ip -6 route add fd88::/16 via fd77:2::2");
    b.sh(
        "ip route add 10.88.0.0/16 via 10.77.2.1; ip -6 route add fd88::/16 via fd77:2::1; \
         ip route add 10.77.1.0/24 via 10.77.2.1; ip -6 route add fd77:1::/64 via fd77:2::1",
    );
    let mids = [&a, &b].map(|ns| ns.relay(&["mid", "--json"]));
    // Something that is no LEOTP, and an Interest for the first 1,400 bytes of a flow.
    let script = format!(
        "import socket\n\
         s = socket.socket(socket.{family}, socket.SOCK_DGRAM)\n\
         s.sendto(b'?' * 60, ('{host}', 5047))\n\
         s.sendto(bytes([0x31, 0]) + bytes(8) + bytes(8) + (1400).to_bytes(8, 'big') + bytes(8)\n\
                  + (10**6).to_bytes(8, 'big') + bytes(4), ('{host}', 5047))\n"
    );
    sender.sh(&format!("python3 -c \"{script}\""));
    let sent = || -> u64 {
        let counters = a.sh("cat /proc/net/dev");
        let line = counters
            .lines()
            .find_map(|l| l.trim().strip_prefix("right:"));
        let field = line.and_then(|l| l.split_ascii_whitespace().nth(9));
        field.and_then(|f| f.parse().ok()).expect("counter")
    };
    let begun = until(|| sent() >= 32);
    assert!(begun, "{} packets\n{}", sent(), redirection(&a));
    // No packet moves any more.
    let (mut last, mut since) = (0, Instant::now());
    let silent = until(|| {
        let now = sent();
        if now != last {
            (last, since) = (now, Instant::now());
        }
        since.elapsed() > Duration::from_secs(1)
    });
    assert!(silent, "{last} packets and no end");
    let mut expired = 0;
    for mid in mids {
        mid.signal("-INT");
        let counters = json(&mid.finish().1);
        expired += counters["midnode"]["expired"].as_u64().expect("counter");
    }
    assert_eq!(expired, 2, "each has died of its TTL");
    // 32 times each, some together as a train, and what neighbours say to find each other.
    assert!((32..120).contains(&last), "{last} packets");
}

#[test]
fn ipv4_packets_in_a_routing_loop_die() {
    dies_in_a_loop("10.88.0.1", "AF_INET");
}

#[test]
fn ipv6_packets_in_a_routing_loop_die() {
    dies_in_a_loop("fd88::1", "AF_INET6");
}

/// A Midnode of 64 KiB of memory and a disk serves a file a second time: from its disk, after a `kill -9` and a torn file, too.
#[test]
fn a_second_consumer_is_served_from_the_disk() {
    const BYTES: u64 = 2_000_000;
    let dir = tempfile::tempdir().expect("directory");
    let p = |name: &str| dir.path().join(name).to_str().expect("UTF-8").to_owned();
    let bytes: Vec<u8> = (0..BYTES as u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    fs::write(p("file"), &bytes).expect("file");
    let (a, m, c) = chain();
    let server = a.leotp(&[
        "serve",
        &p("file"),
        "--listen",
        "0.0.0.0:5047",
        "--flow",
        "feed",
        "--json",
    ]);
    assert!(until(|| a.has_udp(5047)), "server listens");
    let (disk, cache) = (p("disk"), ["--set", "cache_bytes=65536"]);
    let start = || {
        let args = [
            "mid",
            "--json",
            "--disk-cache",
            &disk,
            "--cache-size",
            "8000000",
            cache[0],
            cache[1],
        ];
        m.relay(&args)
    };
    let get = |name: &str| {
        let (ok, out) = c
            .leotp(&["get", "10.77.1.2:5047", "feed", "-o", &p(name), "--json"])
            .finish();
        assert!(ok, "get: {out}");
        assert!(fs::read(p(name)).expect("copy") == bytes, "byte-exact");
    };
    let ended = |mid: ns::Proc| {
        mid.signal("-INT");
        json(&mid.finish().1)
    };
    let first = start();
    get("first");
    get("second");
    let said = ended(first);
    let from_disk =
        |said: &serde_json::Value| said["cache"]["disk_hit_bytes"].as_u64().unwrap_or(0);
    assert!(from_disk(&said) > BYTES / 2, "{said}");
    assert!(
        said["cache"]["hit_bytes"].as_u64() >= Some(from_disk(&said)),
        "{said}"
    );
    let killed = start();
    killed.signal("-KILL");
    drop(killed);
    // Half of a slot at the end, and a byte of a block in the middle.
    let blocks = dir.path().join("disk/blocks");
    let mut all = fs::read(&blocks).expect("blocks");
    let middle = all.len() / 2 + 500;
    all[middle] ^= 0x40;
    all.truncate(all.len() - 2000);
    fs::write(&blocks, all).expect("blocks");
    let third = start();
    get("third");
    let said = ended(third);
    assert!(from_disk(&said) > BYTES / 2, "{said}");
    assert_eq!(said["cache"]["disk_lost_blocks"], 1, "{said}");
    server.signal("-INT");
    let sent = json(&server.finish().1);
    let sent = sent["producer"]["data_bytes"].as_u64().expect("bytes");
    assert!(
        (BYTES..2 * BYTES).contains(&sent),
        "once, and what was torn: {sent}"
    );
}
