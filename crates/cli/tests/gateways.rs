//! TCP gateways of a scenario: connections between ordinary programs go over LEOTP and arrive byte for byte, also when a
//! gateway is killed. Needs root.

use crate::support;

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use serde_json::Value;
use support::host::Host;
use support::lab::Lab;
use support::netns::loopback;
use support::until;

const SCENARIO: &str = "\
constel: 1
name: gateways
seed: 3
start: 2026-11-21T05:14:00Z
duration: 60 s
constellations:
  iridium:
    preset: iridium
    isl: {pattern: plus-grid, seam: false, polar_cutoff: 60 deg, max_range: 6000 km, link: {rate: 100 Mbit/s, queue: 1 MiB}}
    gsl: {min_elevation: 8.2 deg, policy: nearest, link: {rate: 20 Mbit/s, queue: 512 KiB, loss: 0.5 %}}
ground:
  stations:
    tokyo: {latitude: 35.7 deg, longitude: 139.7 deg}
    delhi: {latitude: 28.6 deg, longitude: 77.2 deg}
  hosts:
    desk: {latitude: 35.7 deg, longitude: 139.8 deg}
    shop: {latitude: 28.6 deg, longitude: 77.3 deg}
  cables:
    - {from: desk, to: tokyo, delay: 100 us, link: {rate: 1 Gbit/s}}
    - {from: delhi, to: shop, delay: 100 us, link: {rate: 1 Gbit/s}}
routing: {families: [ipv4, ipv6]}
transport:
  leotp: {satellites: 50 %, gateways: [tokyo, delhi], variant: beyond, set: [cache_bytes=4194304]}
traffic:
  - {name: v6, at: 500 ms, for: 3 s, tcp: {from: shop, to: desk, size: 500 kB, family: ipv6}}
";

const PATIENCE: Duration = Duration::from_secs(20);
const EACH_BYTES: usize = 40_000;
const MANY: u8 = 50;

/// The bytes that the server sends to the client of `id`.
fn content(id: u8) -> Vec<u8> {
    let mut x = u64::from(id) + 1;
    let byte = |_| {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (x >> 56) as u8
    };
    (0..EACH_BYTES).map(byte).collect()
}

/// A server in `shop`: it answers each `id` with its content, `255` with content for ever.
fn serve(lab: &Lab) -> SocketAddr {
    let shop = lab.node("shop");
    let address = IpAddr::from(loopback(&shop));
    let listener = shop
        .run(|| TcpListener::bind((address, 0)).unwrap())
        .unwrap();
    let goal = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || {
                let mut stream = stream.unwrap();
                let mut id = [0];
                stream.read_exact(&mut id).unwrap();
                let all = content(id[0]);
                while stream.write_all(&all).is_ok() && id[0] == 255 {}
            });
        }
    });
    goal
}

fn connect(lab: &Lab, goal: SocketAddr, id: u8) -> TcpStream {
    try_connect(lab, goal, id, PATIENCE).unwrap()
}

fn try_connect(lab: &Lab, goal: SocketAddr, id: u8, within: Duration) -> io::Result<TcpStream> {
    let connect = move || TcpStream::connect_timeout(&goal, within);
    let mut stream = lab.node("desk").run(connect).unwrap()?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(&[id])?;
    Ok(stream)
}

/// The gateway's process in a node.
fn gateway(lab: &Lab, node: &str) -> Pid {
    let paths: Value =
        serde_json::from_slice(&fs::read(lab.dir().join("netns.json")).unwrap()).unwrap();
    let inode = |path: String| fs::metadata(path).map(|m| m.ino()).ok();
    let wanted = inode(paths[node].as_str().unwrap().to_owned());
    let key = lab.dir().join("n/gateways.key");
    let all = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let pid: i32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let words = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let words = String::from_utf8_lossy(&words).into_owned();
        let ours = words.split('\0').any(|word| word == key.to_str().unwrap());
        (ours && inode(format!("/proc/{pid}/ns/net")) == wanted).then_some(pid)
    });
    let all: Vec<i32> = all.collect();
    assert_eq!(all.len(), 1, "the gateway in {node}");
    Pid::from_raw(all[0]).unwrap()
}

#[test]
fn unmodified_programs_use_leotp_and_see_the_end_of_a_gateway_as_a_reset() {
    let _host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let file = support::scenario::write(dir.path(), "gateways", SCENARIO);
    let mut lab = Lab::up("gateways", &file, dir.path(), &[]);
    let key = fs::metadata(lab.dir().join("n/gateways.key")).unwrap();
    assert_eq!((key.mode() & 0o777, key.len()), (0o600, 64));

    let goal = serve(&lab);
    thread::scope(|scope| {
        for id in 0..MANY {
            let lab = &lab;
            scope.spawn(move || {
                let mut all = Vec::new();
                connect(lab, goal, id).read_to_end(&mut all).unwrap();
                assert!(all == content(id), "byte for byte, and the end after them");
            });
        }
    });

    // The scenario's own flow, over IPv6, is over too.
    let v6 = || {
        let text = fs::read_to_string(lab.results.join("flows/v6.out")).unwrap_or_default();
        text.contains('}').then_some(())
    };
    until("the flow over IPv6 has ended", v6);

    // A download whose gateway is killed: the received bytes are right, and its end is an error.
    let mut endless = connect(&lab, goal, 255);
    let expected = content(255);
    let mut got = vec![0; EACH_BYTES];
    endless.read_exact(&mut got).unwrap();
    assert!(got == expected);
    rustix::process::kill_process(gateway(&lab, "tokyo"), Signal::KILL).unwrap();
    let mut at = 0;
    let error = loop {
        match endless.read(&mut got) {
            Ok(0) => panic!("the end of a killed gateway is no end of a stream"),
            Ok(n) => {
                let right = (0..n).all(|i| got[i] == expected[(at + i) % EACH_BYTES]);
                assert!(right, "no byte wrong");
                at += n;
            }
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
    // Without it the way is free for TCP from end to end: as soon as the kernel has put away all that the process had, which it does
    // piece by piece. A client in between is accepted by a socket that is about to be closed, and sees a reset or no answer.
    let direct = || {
        let mut stream = try_connect(&lab, goal, 7, Duration::from_secs(2)).ok()?;
        let mut all = Vec::new();
        stream.read_to_end(&mut all).ok()?;
        Some(all)
    };
    assert!(until("a connection without the gateway", direct) == content(7));

    let status = lab.interrupt();
    assert!(
        matches!(status.code(), Some(0 | 3 | 130)),
        "{status}: {}",
        lab.stderr()
    );
    let summary = lab.summary();
    let row = &summary["transport"][0];
    assert_eq!(row["kind"], "leotp-gateway");
    assert_eq!(row["nodes"], serde_json::json!(["tokyo", "delhi"]));
    let far = fs::read_to_string(lab.results.join("transport/leotp-gateway-delhi.log")).unwrap();
    let far: Value = serde_json::from_str(far.lines().last().unwrap()).unwrap();
    // One more over IPv6, whose client closes it when it has enough: with or without what is still on its way, so that it ends or is
    // reset; one endless one.
    let count = |of: &str| far["gateway"][of].as_u64().unwrap();
    assert_eq!(count("opened"), u64::from(MANY) + 2, "{far}");
    let ended = u64::from(MANY)..=u64::from(MANY) + 1;
    assert!(ended.contains(&count("ended")), "{far}");
    let carried = far["gateway"]["to_flows_bytes"].as_u64().unwrap();
    assert!(
        carried > u64::from(MANY) * EACH_BYTES as u64 + 500_000,
        "{far}"
    );
    let mids = fs::read_dir(lab.results.join("transport")).unwrap();
    let helped = mids.filter_map(|entry| {
        let text = fs::read_to_string(entry.ok()?.path()).ok()?;
        let last: Value = serde_json::from_str(text.lines().last()?).ok()?;
        last["midnode"]["data_out"].as_u64()
    });
    assert!(helped.sum::<u64>() > 1000, "past Midnodes");
}
