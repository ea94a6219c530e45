//! The MTU of a link is that of its ports, and packets of that size pass whole.

use crate::support;

use constel_host::netlink::Socket;
use support::host::Host;
use support::lab::Lab;
use support::{constel, scenario, stdout};

#[test]
fn the_largest_packets_of_every_link_pass_and_no_larger_ones() {
    let _host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let text = "constel: 1
name: mtu
start: 2026-11-21T00:00:00Z
duration: 60 s
ground:
  hosts:
    a: {latitude: 0 deg, longitude: 0 deg}
    b: {latitude: 0 deg, longitude: 1 deg}
    c: {latitude: 0 deg, longitude: 2 deg}
  cables:
    - {from: a, to: b, delay: 1 ms, link: {rate: 1 Gbit/s, mtu: 1998 B}}
    - {from: b, to: c, delay: 1 ms, link: {rate: 1 Gbit/s, mtu: 1280 B}}
links: {driver: relay}
";
    let file = scenario::write(dir.path(), "mtu.yaml", text);
    let lab = Lab::up("mtu", &file, dir.path(), &["--no-traffic"]);
    let links = Socket::open_in(&lab.node("b")).unwrap().links().unwrap();
    let mtu = |name: &str| links.iter().find(|l| l.name == name).unwrap().mtu;
    assert_eq!((mtu("eth0"), mtu("eth1")), (1998, 1280));
    // Headers of IP and ICMP are 28 bytes.
    let ping = |to: &str, payload: &str| {
        let command = [
            "ping", "-4", "-n", "-c", "2", "-W", "2", "-M", "do", "-s", payload, to,
        ];
        let begin = ["exec", &lab.name, "a", "--"];
        stdout(&constel(begin.into_iter().chain(command)))
    };
    assert!(ping("b", "1970").contains(" 0% packet loss"));
    assert!(ping("c", "1252").contains(" 0% packet loss"));
    assert!(ping("c", "1253").contains(" 100% packet loss"));
}
