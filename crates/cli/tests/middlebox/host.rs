//! Effects on the host: its interfaces and connections are as before, and harmful requests are refused.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::time::Duration;

use constel_host::NetNs;
use constel_host::claim::LabState;
use constel_host::netlink::{Batch, LinkChange, Socket, VethEnd};
use rustix::process::Signal;

use crate::middlebox::cables::{
    Cables, FAR, Raw, Running, WIRES, address, echo, give_address, reach,
};
use crate::middlebox::draws::{draws, frame};
use crate::middlebox::support::host::{Host, LABS};
use crate::middlebox::support::{CONSTEL, constel, stderr, until};

/// A host's interfaces as it shows them, and the programs on them.
fn picture(ns: &NetNs) -> String {
    let mut socket = Socket::open_in(ns).unwrap();
    let mut links = socket.links().unwrap();
    for link in &mut links {
        // Changes with what the far end does.
        link.carrier = true;
    }
    let addresses = socket.addresses().unwrap();
    let routes = socket.routes().unwrap();
    let qdiscs = socket.qdiscs().unwrap();
    let promiscuity = ns
        .run(|| {
            Command::new("ip")
                .args(["-d", "link", "show"])
                .output()
                .unwrap()
        })
        .unwrap();
    let features = ns
        .run(|| {
            Command::new("ip")
                .args(["-d", "-j", "link"])
                .output()
                .unwrap()
                .stdout
        })
        .unwrap();
    format!(
        "{links:#?}{addresses:#?}{routes:#?}{qdiscs:#?}{}{}",
        String::from_utf8_lossy(&promiscuity.stdout),
        String::from_utf8_lossy(&features),
    )
}

#[test]
fn kill9_under_load_leaves_the_interfaces_as_they_were() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let cables = Cables::lay(1500);
    give_address(&cables.host, WIRES[0], address(9));
    echo(&cables.host, SocketAddr::from((address(9), 7)));
    reach(&cables.a, SocketAddr::from((address(9), 7)));
    std::thread::sleep(Duration::from_secs(2));
    let before = picture(&cables.host);
    let rules = "rules: [{both: {delay: 20 ms, loss: 1 %}}]\n";
    let mut running = Running::up(&cables, "kill", dir.path(), rules, &[]);
    assert_ne!(
        picture(&cables.host),
        before,
        "it is promiscuous while it runs"
    );
    let near = Raw::on(&cables.a, FAR);
    let mut draw = draws(3);
    for n in 0..20_000 {
        near.send(&frame(n, &mut draw));
        if n == 15_000 {
            running.signal(Signal::KILL);
        }
    }
    running.ended();
    assert_eq!(running.state(), Some(LabState::Dead));
    until("the interfaces are as before", || {
        (picture(&cables.host) == before).then_some(())
    });
    // And the host is reached as before.
    reach(&cables.a, SocketAddr::from((address(9), 7)));
    let cleaned = constel(["clean", &running.name]);
    assert!(cleaned.status.success(), "{}", stderr(&cleaned));
    drop(running);
    drop(cables);
    host.assert_as_before("after kill -9");
}

#[test]
fn the_hosts_own_connection_survives_a_rule_that_drops_everything() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let cables = Cables::lay(1500);
    give_address(&cables.host, WIRES[0], address(9));
    let listener = cables
        .host
        .run(|| TcpListener::bind((address(9), 22)).unwrap())
        .unwrap();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            std::thread::spawn(move || {
                let mut byte = [0];
                while stream.read_exact(&mut byte).is_ok() && stream.write_all(&byte).is_ok() {}
            });
        }
    });
    let dial = || {
        cables
            .a
            .run(|| TcpStream::connect((address(9), 22)).unwrap())
            .unwrap()
    };
    let mut session = dial();
    session
        .set_read_timeout(Some(Duration::from_secs(3)))
        .unwrap();
    let mut says = move || {
        session.write_all(b"x").unwrap();
        session.read_exact(&mut [0]).unwrap();
    };
    says();
    let running = Running::up(
        &cables,
        "shared",
        dir.path(),
        "rules: [{both: drop}]\n",
        &[],
    );
    echo(&cables.b, SocketAddr::from((address(2), 7)));
    for _ in 0..20 {
        says();
        std::thread::sleep(Duration::from_millis(20));
    }
    // New ones too, after the neighbours have forgotten each other.
    let forget = |ns: &NetNs, of: &str| {
        let args = ["neigh", "flush", "dev", of];
        ns.run(|| Command::new("ip").args(args).status().unwrap())
            .unwrap();
    };
    forget(&cables.a, "eth0");
    forget(&cables.host, "wa");
    drop(dial());
    // And what is not the host's does go by the rule.
    let socket = cables
        .a
        .run(|| UdpSocket::bind("0.0.0.0:0").unwrap())
        .unwrap();
    socket
        .set_read_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    socket.send_to(b"?", (address(2), 7)).unwrap();
    assert!(
        socket.recv(&mut [0; 9]).is_err(),
        "the rule drops everything"
    );
    assert!(running.did("rule-1", "forward")["drops"].as_u64().unwrap() > 0);
    running.down();
    drop(cables);
    host.assert_as_before("after the box");
}

#[test]
fn an_unconfirmed_box_takes_itself_down_and_a_confirmed_one_stays() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let cables = Cables::lay(1500);
    give_address(&cables.host, WIRES[0], address(9));
    let rules = "rules: [{both: drop}]\n";
    let flags = ["--exclusive", "--confirm-within", "2s"];
    let mut running = Running::up(&cables, "revert", dir.path(), rules, &flags);
    echo(&cables.host, SocketAddr::from((address(9), 7)));
    let socket = cables
        .a
        .run(|| UdpSocket::bind("0.0.0.0:0").unwrap())
        .unwrap();
    socket
        .set_read_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    socket.send_to(b"?", (address(9), 7)).unwrap();
    assert!(
        socket.recv(&mut [0; 9]).is_err(),
        "exclusive: the host hears nothing"
    );
    assert_eq!(running.ended(), Some(1), "{}", running.said("stderr"));
    assert!(
        running.said("stderr").contains("was not confirmed"),
        "{}",
        running.said("stderr")
    );
    reach(&cables.a, SocketAddr::from((address(9), 7)));
    drop(running);

    let mut running = Running::up(&cables, "confirm", dir.path(), rules, &flags);
    assert!(constel(["box", "confirm", &running.name]).status.success());
    std::thread::sleep(Duration::from_secs(3));
    assert!(running.child.try_wait().unwrap().is_none(), "it goes on");
    running.down();
    drop(cables);
    host.assert_as_before("after the boxes");
}

#[test]
fn what_would_harm_the_host_is_refused_before_anything_is_done() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let refused = |cables: &Cables, flags: &[&str]| {
        let mut running = Running::start(cables, "refused", dir.path(), "rules: []\n", flags);
        assert_eq!(running.ended(), Some(5), "{}", running.said("stderr"));
        running.said("stderr")
    };
    let cables = Cables::lay(9000);
    let said = refused(&cables, &[]);
    assert_eq!(said.lines().count(), 2, "{said}");
    assert!(
        said.contains("wa has an MTU of 9000 bytes, and a box carries at most 1998"),
        "{said}"
    );

    drop(cables);

    let cables = Cables::lay(1500);
    give_address(&cables.host, WIRES[0], address(9));
    let said = refused(&cables, &["--exclusive"]);
    assert!(
        said.contains("wa has the address 10.9.0.9, and --exclusive would cut the host off"),
        "{said}"
    );
    let mut batch = Batch::new();
    let down = LinkChange {
        ifindex: WIRES[1],
        up: Some(false),
        ..LinkChange::default()
    };
    batch.change_link(&down).unwrap();
    Socket::open_in(&cables.host)
        .unwrap()
        .send(&mut batch)
        .unwrap();
    let said = refused(&cables, &[]);
    assert!(
        said.contains("wb is down; `ip link set wb up` brings it up"),
        "{said}"
    );

    // Another box stands there.
    let taken = Cables::lay(1500);
    let place = tempfile::tempdir().unwrap();
    let first = Running::up(&taken, "first", place.path(), "rules: []\n", &[]);
    let mut second = Running::start(&taken, "second", place.path(), "rules: []\n", &[]);
    assert_eq!(second.ended(), Some(5), "{}", second.said("stderr"));
    let said = second.said("stderr");
    assert!(
        said.contains("wa is in use: another box") && said.contains("constel list"),
        "{said}"
    );
    first.down();
    drop(taken);

    // Both cables end at one machine, which bridges them.
    let looped = Cables::lay(1500);
    let ip = |ns: &NetNs, words: &str| {
        let args: Vec<&str> = words.split(' ').collect();
        let status = ns
            .run(|| Command::new("ip").args(&args).status().unwrap())
            .unwrap();
        assert!(status.success(), "ip {words}");
    };
    ip(&looped.host, "link add br0 type bridge");
    ip(&looped.host, "link set br0 up");
    let near = VethEnd {
        name: "wc",
        ifindex: Some(72),
        ..VethEnd::default()
    };
    let far = VethEnd {
        name: "wd",
        ifindex: Some(73),
        ..VethEnd::default()
    };
    let other = VethEnd {
        name: "we",
        ifindex: Some(74),
        ..VethEnd::default()
    };
    let last = VethEnd {
        name: "wf",
        ifindex: Some(75),
        ..VethEnd::default()
    };
    let mut batch = Batch::new();
    batch.create_veth(&near, &far).unwrap();
    batch.create_veth(&other, &last).unwrap();
    for ifindex in 72..=75 {
        batch.link_up(ifindex);
    }
    Socket::open_in(&looped.host)
        .unwrap()
        .send(&mut batch)
        .unwrap();
    ip(&looped.host, "link set wd master br0");
    ip(&looped.host, "link set wf master br0");
    let mut command = Command::new(CONSTEL);
    command.args(["box", "wc", "we", "--name", &format!("{LABS}loop")]);
    command.arg("--results").arg(dir.path().join("loop"));
    let output = looped.host.run(move || command.output().unwrap()).unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("a frame sent on wc came back on we"),
        "{}",
        stderr(&output)
    );
    let mut command = Command::new(CONSTEL);
    command.args(["box", "wd", "wf", "--name", &format!("{LABS}loop")]);
    command.arg("--results").arg(dir.path().join("loop"));
    let output = looped.host.run(move || command.output().unwrap()).unwrap();
    assert!(
        stderr(&output).contains("wd is part of br0"),
        "{}",
        stderr(&output)
    );
    drop((cables, looped));
    host.assert_as_before("after refusals");
}
