//! `constel box`, between veths of namespaces that stand for two machines' cables.

mod support;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use constel_host::NetNs;
use constel_host::claim::{LabName, LabState, RuntimeDir};
use constel_host::netlink::{AddressSpec, Batch, IpPrefix, LinkChange, Mac, Socket, VethEnd};
use constel_rules::Head;
use constel_scenario::{DiskFiles, read_rules};
use rustix::process::{Pid, Signal};
use serde_json::Value;
use support::host::{Host, LABS};
use support::{CONSTEL, constel, json, stderr, until, wait};

/// Two machines, and the host of a box whose interfaces `wa` and `wb` are their cables.
struct Cables {
    host: NetNs,
    a: NetNs,
    b: NetNs,
}

const WIRES: [u32; 2] = [10, 11];
const FAR: u32 = 20;

fn mac(n: u8) -> Mac {
    Mac([2, 0xab, 0, 0, 0, n])
}

fn address(n: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 9, 0, n)
}

impl Cables {
    fn lay(mtu: u32) -> Cables {
        let [host, a, b] = [(); 3].map(|()| NetNs::new().unwrap());
        // Machines that say nothing of their own accord: what is counted is what the test sent.
        for ns in [&host, &a, &b] {
            let silent = || fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
            ns.run(silent).unwrap().unwrap();
        }
        for (n, (name, far)) in (0u8..).zip([("wa", &a), ("wb", &b)]) {
            let near = VethEnd {
                name,
                ifindex: Some(WIRES[usize::from(n)]),
                mac: Some(mac(10 + n)),
                mtu: Some(mtu),
                ..VethEnd::default()
            };
            let end = VethEnd {
                name: "eth0",
                netns: Some(far.fd()),
                ifindex: Some(FAR),
                mac: Some(mac(1 + n)),
                mtu: Some(mtu),
                ..VethEnd::default()
            };
            let mut batch = Batch::new();
            batch.create_veth(&near, &end).unwrap();
            batch.link_up(WIRES[usize::from(n)]);
            Socket::open_in(&host).unwrap().send(&mut batch).unwrap();
            give_address(far, FAR, address(1 + n));
        }
        Cables { host, a, b }
    }
}

fn give_address(ns: &NetNs, ifindex: u32, address: Ipv4Addr) {
    let mut batch = Batch::new();
    let prefix = IpPrefix::new(address.into(), 24).unwrap();
    batch.link_up(1).link_up(ifindex);
    batch.add_address(&AddressSpec::new(ifindex, prefix));
    Socket::open_in(ns).unwrap().send(&mut batch).unwrap();
}

/// A box that is ended with the test.
struct Running {
    name: String,
    child: Child,
    dir: PathBuf,
}

impl Running {
    fn start(cables: &Cables, name: &str, dir: &Path, rules: &str, flags: &[&str]) -> Running {
        let name = format!("{LABS}{name}");
        let file = dir.join(format!("{name}.yaml"));
        fs::write(&file, rules).unwrap();
        let out = |what: &str| fs::File::create(dir.join(format!("{name}.{what}"))).unwrap();
        let mut command = Command::new(CONSTEL);
        command
            .args(["box", "wa", "wb", "--name", &name, "--rules"])
            .arg(&file)
            .arg("--results")
            .arg(dir.join(&name))
            .args(flags)
            .env_remove("SSH_CONNECTION")
            .stdin(Stdio::null())
            .stdout(out("stdout"))
            .stderr(out("stderr"));
        let child = cables.host.run(move || command.spawn().unwrap()).unwrap();
        Running {
            name,
            child,
            dir: dir.to_owned(),
        }
    }

    fn up(cables: &Cables, name: &str, dir: &Path, rules: &str, flags: &[&str]) -> Running {
        let mut running = Running::start(cables, name, dir, rules, flags);
        until(Duration::from_secs(30), "the box is up", || {
            if let Some(status) = running.child.try_wait().unwrap() {
                panic!("it ended: {status}\n{}", running.said("stderr"));
            }
            (running.state() == Some(LabState::Running)).then_some(())
        });
        running
    }

    fn said(&self, what: &str) -> String {
        fs::read_to_string(self.dir.join(format!("{}.{what}", self.name))).unwrap()
    }

    fn state(&self) -> Option<LabState> {
        let name: LabName = self.name.parse().unwrap();
        RuntimeDir::default()
            .find(&name)
            .unwrap()
            .map(|lab| lab.state)
    }

    fn shown(&self) -> Value {
        json(&constel(["box", "show", &self.name, "--json"]))
    }

    fn did(&self, rule: &str, way: &str) -> Value {
        let shown = self.shown();
        let rules = shown["rules"].as_array().unwrap();
        let found = rules.iter().find(|shown| shown["name"] == rule).unwrap();
        found["ways"][way].clone()
    }

    fn ended(&mut self) -> Option<i32> {
        let status = wait(&mut self.child, Duration::from_secs(20));
        status.expect("it ends").code()
    }

    fn down(mut self) -> Value {
        let output = constel(["down", &self.name]);
        assert!(output.status.success(), "{}", stderr(&output));
        self.ended();
        let text = fs::read(self.dir.join(&self.name).join("summary.json")).unwrap();
        serde_json::from_slice(&text).unwrap()
    }

    fn signal(&self, signal: Signal) {
        rustix::process::kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.child.try_wait().unwrap().is_none() {
            let _ = rustix::process::kill_process(Pid::from_child(&self.child), Signal::TERM);
            wait(&mut self.child, Duration::from_secs(10));
        }
        drop(constel(["clean", &self.name]));
    }
}

/// A packet socket: frames as they are.
struct Raw(libc::c_int);

impl Raw {
    fn on(ns: &NetNs, ifindex: u32) -> Raw {
        ns.run(|| {
            let all = (libc::ETH_P_ALL as u16).to_be();
            // SAFETY: plain system calls; `address` is a live sockaddr_ll of the stated length.
            unsafe {
                let fd = libc::socket(
                    libc::AF_PACKET,
                    libc::SOCK_RAW | libc::SOCK_NONBLOCK,
                    all.into(),
                );
                assert!(fd >= 0);
                let room = 64 << 20;
                libc::setsockopt(
                    fd,
                    libc::SOL_SOCKET,
                    libc::SO_RCVBUFFORCE,
                    (&raw const room).cast(),
                    4,
                );
                let mut address: libc::sockaddr_ll = std::mem::zeroed();
                address.sll_family = libc::AF_PACKET as u16;
                address.sll_protocol = all;
                address.sll_ifindex = ifindex as i32;
                let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
                assert_eq!(libc::bind(fd, (&raw const address).cast(), len), 0);
                Raw(fd)
            }
        })
        .unwrap()
    }

    fn send(&self, frame: &[u8]) {
        loop {
            // SAFETY: as many bytes as there are.
            let sent = unsafe { libc::send(self.0, frame.as_ptr().cast(), frame.len(), 0) };
            if sent == frame.len() as isize {
                return;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    /// The next frame that came in, without those that this end sent.
    fn next(&self) -> Option<Vec<u8>> {
        loop {
            let mut frame = vec![0; 4096];
            // SAFETY: pointers and lengths describe `frame` and `from`.
            let (got, kind) = unsafe {
                let mut from: libc::sockaddr_ll = std::mem::zeroed();
                let mut len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
                let got = libc::recvfrom(
                    self.0,
                    frame.as_mut_ptr().cast(),
                    frame.len(),
                    libc::MSG_DONTWAIT,
                    (&raw mut from).cast(),
                    &raw mut len,
                );
                (got, from.sll_pkttype)
            };
            let got = usize::try_from(got).ok()?;
            if kind != 4 {
                frame.truncate(got);
                return Some(frame);
            }
        }
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // SAFETY: ours, and closed once.
        unsafe { libc::close(self.0) };
    }
}

fn round_trip(ns: &NetNs, to: SocketAddr, count: usize) -> Vec<Duration> {
    let socket = ns.run(|| UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(3)))
        .unwrap();
    (0..count)
        .map(|_| {
            let begin = Instant::now();
            socket.send_to(b"?", to).unwrap();
            socket.recv(&mut [0; 9]).unwrap();
            begin.elapsed()
        })
        .collect()
}

/// Sends back what comes in, until the process ends.
fn echo(ns: &NetNs, at: SocketAddr) {
    let socket = ns.run(|| UdpSocket::bind(at).unwrap()).unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 2048];
        while let Ok((got, from)) = socket.recv_from(&mut buffer) {
            drop(socket.send_to(&buffer[..got], from));
        }
    });
}

/// Random, and the same each time.
fn draws(mut seed: u64) -> impl FnMut(u64) -> u64 {
    move |below| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    }
}

/// A rule of a few keys that frames of [`frame`] may meet.
fn rule(n: usize, draw: &mut impl FnMut(u64) -> u64) -> String {
    let mut keys = Vec::new();
    let family = draw(2);
    let mut seen = Vec::new();
    for _ in 0..1 + draw(3) {
        let key = draw(6);
        if seen.contains(&key) {
            continue;
        }
        seen.push(key);
        keys.push(match key {
            0 if family == 0 => format!("src: 10.{}.{}.0/24", draw(4), draw(4)),
            0 => format!("src: \"2001:db8:{}::/48\"", draw(4)),
            1 => format!(
                "dport: {}",
                ["53", "80-90", "443", "[5000, 5004]"][draw(4) as usize]
            ),
            2 => format!("dscp: {}", ["ef", "af41", "0", "cs3"][draw(4) as usize]),
            3 => format!(
                "vlan: {}",
                ["untagged", "7", "[7, 9]", "100"][draw(4) as usize]
            ),
            4 => format!("smac: \"02:01:00:00:00:0{}\"", draw(5)),
            _ => format!("protocol: {}", ["udp", "tcp", "sctp"][draw(3) as usize]),
        });
    }
    let action = ["pass", "pass", "drop", "{loss: 100 %}"][draw(4) as usize];
    format!(
        "- {{name: r{n}, match: {{{}}}, both: {action}}}\n",
        keys.join(", ")
    )
}

/// Any frame for a machine that is not there, with its number at the end.
fn frame(n: u32, draw: &mut impl FnMut(u64) -> u64) -> Vec<u8> {
    let mut frame = vec![2, 9, 9, 9, 9, 9];
    frame.extend([2, 1, 0, 0, 0, draw(5) as u8]);
    if draw(2) == 0 {
        frame.extend([0x81, 0]);
        frame.extend((draw(2) as u16 * 2 + 7).to_be_bytes());
    }
    let class = [0xb8, 0x88, 0, 0x60][draw(4) as usize];
    let protocol = [17, 6, 132, 47][draw(4) as usize];
    let port = [53u16, 80, 85, 443, 5000, 5004, 9][draw(7) as usize];
    match draw(5) {
        0 => frame.extend([0x88, 0xb6]),
        1 | 2 => {
            frame.extend([
                0x86,
                0xdd,
                0x60 | class >> 4,
                class << 4,
                0,
                0,
                0,
                24,
                protocol,
                9,
            ]);
            for _ in 0..2 {
                frame.extend([0x20, 1, 0x0d, 0xb8, 0, draw(4) as u8]);
                frame.extend([0; 10]);
            }
        }
        _ => {
            frame.extend([8, 0, 0x45, class, 0, 44, 0, 0, 0, 0, 9, protocol, 0, 0]);
            for _ in 0..2 {
                frame.extend([10, draw(4) as u8, draw(4) as u8, 1]);
            }
        }
    }
    frame.extend(999u16.to_be_bytes());
    frame.extend(port.to_be_bytes());
    frame.extend([0; 16]);
    frame.extend(n.to_be_bytes());
    frame
}

#[test]
fn counters_of_256_rules_are_those_of_a_capture() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let cables = Cables::lay(1500);
    let mut draw = draws(7);
    let rules: String = (0..256).map(|n| rule(n, &mut draw)).collect();
    let rules = format!("rules:\n{rules}");
    let read = read_rules("box", rules.as_bytes(), &DiskFiles::in_folder(".")).unwrap();
    let (near, far) = (Raw::on(&cables.a, FAR), Raw::on(&cables.b, FAR));
    let running = Running::up(&cables, "count", dir.path(), &rules, &[]);
    while far.next().is_some() {}

    let (mut expected, mut passed) = (vec![(0u64, 0u64); 257], Vec::new());
    let mut seen = Vec::new();
    for n in 0..20_000u32 {
        let frame = frame(n, &mut draw);
        let head = Head::read(&frame);
        let place = read
            .rules
            .iter()
            .position(|rule| rule.matching.takes(&head));
        let count = &mut expected[place.unwrap_or(256)];
        *count = (count.0 + 1, count.1 + frame.len() as u64);
        let action = place.and_then(|place| read.rules.get(place)?.forward.clone());
        if action.is_none_or(|action| action == constel_rules::Action::Pass) {
            passed.push((place, frame.clone()));
        }
        near.send(&frame);
        // As fast as a machine with other things to do takes it in.
        if n % 64 == 0 {
            std::thread::sleep(Duration::from_millis(2));
            seen.extend(std::iter::from_fn(|| far.next()));
        }
    }
    until(Duration::from_secs(20), "all have come", || {
        seen.extend(std::iter::from_fn(|| far.next()));
        let ours = |frame: &&Vec<u8>| frame.starts_with(&[2, 9, 9, 9, 9, 9]);
        (seen.iter().filter(ours).count() >= passed.len()).then_some(())
    });
    // The machines' own multicast goes over the cables as well.
    seen.retain(|frame| frame.starts_with(&[2, 9, 9, 9, 9, 9]));
    // A capture shows a tag that the interface took out of the frame as no tag.
    let untagged = |frame: &Vec<u8>| match frame[12..14] {
        [0x81, 0] => [&frame[..12], &frame[16..]].concat(),
        _ => frame.clone(),
    };
    let number = |frame: &Vec<u8>| u32::from_be_bytes(*frame.last_chunk().unwrap());
    let rule_of: HashMap<u32, Option<usize>> =
        passed.iter().map(|(rule, f)| (number(f), *rule)).collect();
    let by_rule = |frames: &mut dyn Iterator<Item = Vec<u8>>| {
        let mut rules: BTreeMap<Option<usize>, Vec<Vec<u8>>> = BTreeMap::new();
        for frame in frames {
            let rule = rule_of
                .get(&number(&frame))
                .expect("no frame arrives that was to be dropped");
            rules.entry(*rule).or_default().push(frame);
        }
        rules
    };
    let wanted = by_rule(&mut passed.iter().map(|(_, frame)| untagged(frame)));
    let got = by_rule(&mut seen.iter().map(untagged));
    assert!(
        got == wanted,
        "those of each rule arrive as they were sent, in their order"
    );

    let shown = running.shown();
    let count = |did: &Value| {
        (
            did["frames"].as_u64().unwrap(),
            did["bytes"].as_u64().unwrap(),
        )
    };
    let mut met = 0;
    for (n, rule) in shown["rules"].as_array().unwrap().iter().enumerate() {
        assert_eq!(count(&rule["ways"]["forward"]), expected[n], "rule r{n}");
        met += usize::from(expected[n].0 > 0);
    }
    assert_eq!(
        count(&shown["unmatched"]["forward"]),
        expected[256],
        "no rule"
    );
    assert!(met > 20, "{met} rules met");
    let summary = running.down();
    assert_eq!(summary["relay"]["unintended"]["pool"], 0);
    drop(cables);
    host.assert_as_before("after the box");
}

#[test]
fn delays_are_those_of_the_rules_and_changes_touch_no_other() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let cables = Cables::lay(1500);
    let rules = "rules:\n- {name: slow, match: {protocol: udp, dport: 7000}, both: {delay: 30 ms}}\n\
                 - {name: other, match: {protocol: udp, dport: 7001}, both: {delay: 1 ms}}\n";
    let running = Running::up(&cables, "live", dir.path(), rules, &[]);
    for port in [7000, 7001] {
        echo(&cables.b, SocketAddr::from((address(2), port)));
    }
    let to = |port| SocketAddr::from((address(2), port));
    let mut slow = round_trip(&cables.a, to(7000), 20);
    slow.sort();
    // A machine with other things to do adds to most; nothing is early.
    assert!(slow[0] >= Duration::from_millis(60), "{slow:?}");
    assert!(slow[0] < Duration::from_millis(63), "{slow:?}");
    // The answers come by the same rule in the other direction.
    assert_eq!(running.did("slow", "forward")["frames"], 20);
    assert_eq!(running.did("slow", "reverse")["frames"], 20);

    // One rule is changed over and over; none of the other's frames is lost or late.
    let socket = cables
        .a
        .run(|| UdpSocket::bind("0.0.0.0:0").unwrap())
        .unwrap();
    socket.set_nonblocking(true).unwrap();
    let (mut sent, mut came) = (0u32, 0u32);
    let take = |came: &mut u32| {
        while socket.recv(&mut [0; 9]).is_ok() {
            *came += 1
        }
    };
    for n in 0..40 {
        let rule = format!(
            "{{match: {{protocol: udp, dport: 7000}}, both: {{delay: {} ms}}}}",
            5 + n % 7
        );
        let mut change = Command::new(CONSTEL);
        change.args(["box", "edit", &running.name, "slow", &rule]);
        let mut change = change.stdout(Stdio::null()).spawn().unwrap();
        while change.try_wait().unwrap().is_none() {
            // Not more than the sockets hold, should the one that answers not run for a while.
            if sent - came < 100 {
                socket.send_to(b"x", to(7001)).unwrap();
                sent += 1;
            }
            take(&mut came);
            std::thread::sleep(Duration::from_micros(300));
        }
        assert!(change.wait().unwrap().success());
    }
    until(
        Duration::from_secs(5),
        "every frame of the other rule came back",
        || {
            take(&mut came);
            (came == sent).then_some(())
        },
    );
    let other = running.did("other", "forward");
    assert_eq!(
        (&other["frames"], &other["drops"]),
        (&sent.into(), &0.into())
    );
    // The counters of the rule are those of all its forms.
    assert_eq!(running.did("slow", "forward")["frames"], 20);
    let fast = round_trip(&cables.a, to(7000), 3);
    assert!(
        fast.iter().all(|rtt| *rtt < Duration::from_millis(30)),
        "{fast:?}"
    );

    let names = |output| json(&output)["rules"].clone();
    let add = constel([
        "box",
        "add",
        &running.name,
        "{name: new, both: drop}",
        "--at",
        "1",
        "--json",
    ]);
    assert_eq!(names(add), serde_json::json!(["new", "slow", "other"]));
    let moved = constel(["box", "move", &running.name, "new", "--at", "3", "--json"]);
    assert_eq!(names(moved), serde_json::json!(["slow", "other", "new"]));
    let gone = constel(["box", "remove", &running.name, "new", "--json"]);
    assert_eq!(names(gone), serde_json::json!(["slow", "other"]));
    let wrong = constel(["box", "remove", &running.name, "slwo"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        stderr(&wrong).contains("nearest is 'slow'"),
        "{}",
        stderr(&wrong)
    );
    // What is exported is read as the same.
    let exported = constel(["box", "export", &running.name]);
    let again = read_rules("exported", &exported.stdout, &DiskFiles::in_folder(".")).unwrap();
    assert_eq!(again.rules.len(), 2);
    let replaced = dir.path().join("exported.yaml");
    fs::write(&replaced, &exported.stdout).unwrap();
    let replaced = constel([
        "box",
        "replace",
        &running.name,
        "--rules",
        replaced.to_str().unwrap(),
        "--json",
    ]);
    assert_eq!(names(replaced), serde_json::json!(["slow", "other"]));
    assert_eq!(
        running.did("other", "forward")["frames"],
        sent,
        "the same rule keeps its counters"
    );
    running.down();
    drop(cables);
    host.assert_as_before("after the box");
}

/// What a host shows of its interfaces, and whose programs are on them.
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
    round_trip(&cables.a, SocketAddr::from((address(9), 7)), 3);
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
    until(
        Duration::from_secs(5),
        "the interfaces are as before",
        || (picture(&cables.host) == before).then_some(()),
    );
    // And the host is reached as before.
    round_trip(&cables.a, SocketAddr::from((address(9), 7)), 3);
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
        running.said("stderr").contains("nobody confirmed"),
        "{}",
        running.said("stderr")
    );
    round_trip(&cables.a, SocketAddr::from((address(9), 7)), 1);
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
        ifindex: Some(12),
        ..VethEnd::default()
    };
    let far = VethEnd {
        name: "wd",
        ifindex: Some(13),
        ..VethEnd::default()
    };
    let other = VethEnd {
        name: "we",
        ifindex: Some(14),
        ..VethEnd::default()
    };
    let last = VethEnd {
        name: "wf",
        ifindex: Some(15),
        ..VethEnd::default()
    };
    let mut batch = Batch::new();
    batch.create_veth(&near, &far).unwrap();
    batch.create_veth(&other, &last).unwrap();
    for ifindex in 12..=15 {
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

#[test]
fn rows_of_nist_net_become_rules() {
    let dir = tempfile::tempdir().unwrap();
    let rows = dir.path().join("rows");
    fs::write(
        &rows,
        "cnistnet -a 10.0.0.1 10.0.1.1 --delay 300 --drop 0.01/0.5\n",
    )
    .unwrap();
    let output = constel(["box", "import", rows.to_str().unwrap()]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("the correlation of --drop is left out"));
    let rules = dir.path().join("rules.yaml");
    fs::write(&rules, &output.stdout).unwrap();
    let checked = json(&constel([
        "box",
        "check",
        rules.to_str().unwrap(),
        "--json",
    ]));
    assert_eq!(checked, serde_json::json!({"rules": 2, "warnings": []}));
    fs::write(&rows, "10.0.0.1 --delay 3\n").unwrap();
    let output = constel(["box", "import", rows.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(4));
}

const MACHINES: &str = "constel: 1
name: NAME
duration: 8 s
box:
  machines:
  - {name: near, addresses: [10.31.0.1/24, 2001:db8::1/64], settings: {net.ipv4.tcp_no_metrics_save: 1}}
  - {name: far, addresses: [10.31.0.2/24, 2001:db8::2/64]}
  rules:
  - {name: asked, match: {protocol: [icmp, icmpv6]}, forward: {delay: 30 ms}, reverse: {delay: 40 ms}}
traffic:
- {name: fails, at: 0 s, for: 5 s, run: {node: far, command: [cat, /no/such/file]}}
- {name: waits, at: 0 s, for: 2 s, run: {node: far, command: [sleep, '30']}}
- {name: four, at: 1 s, for: 6 s, run: {node: near, command: [ping, -n, -c, '4', -i, '0.3', far]}}
- {name: six, at: 1 s, for: 6 s, run: {node: near, command: [ping, -n, -c, '3', -i, '0.3', 'far']}}
";

#[test]
fn a_scenario_makes_the_machines_of_its_box_and_takes_them_away() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let name = format!("{LABS}machines");
    let file = dir.path().join("box.yaml");
    fs::write(&file, MACHINES.replace("NAME", &name)).unwrap();
    let file = file.to_str().unwrap();
    let checked = json(&constel(["check", file, "--json"]));
    assert_eq!(checked["flows"], 4, "{checked}");
    let results = dir.path().join("results");
    let start = |results: &Path| {
        Command::new(CONSTEL)
            .args(["run", file, "--results"])
            .arg(results)
            .stdin(Stdio::null())
            .stdout(fs::File::create(dir.path().join("stdout")).unwrap())
            .stderr(fs::File::create(dir.path().join("stderr")).unwrap())
            .spawn()
            .unwrap()
    };
    let said = |what: &str| fs::read_to_string(dir.path().join(what)).unwrap();
    let lab: LabName = name.parse().unwrap();
    let up = |child: &mut Child| {
        until(Duration::from_secs(30), "the box is up", || {
            if let Some(status) = child.try_wait().unwrap() {
                panic!("it ended: {status}\n{}", said("stderr"));
            }
            let found = RuntimeDir::default().find(&lab).unwrap();
            (found?.state == LabState::Running).then_some(())
        });
    };
    let mut child = start(&results);
    up(&mut child);
    let entered = constel([
        "exec", &name, "near", "--", "ip", "-o", "address", "show", "eth0",
    ]);
    let text = String::from_utf8_lossy(&entered.stdout).into_owned();
    assert!(text.contains("10.31.0.1/24"), "{text}{}", stderr(&entered));
    assert_eq!(
        constel(["exec", &name, "nobody", "--", "true"])
            .status
            .code(),
        Some(2)
    );
    let status = wait(&mut child, Duration::from_secs(40)).expect("it ends");
    assert!(matches!(status.code(), Some(0 | 3)), "{}", said("stderr"));
    let summary: Value =
        serde_json::from_slice(&fs::read(results.join("summary.json")).unwrap()).unwrap();
    assert_eq!(summary["size"]["nodes"], 2);
    let flow = |name: &str| {
        let flows = summary["flows"].as_array().unwrap();
        flows
            .iter()
            .find(|flow| flow["name"] == name)
            .unwrap()
            .clone()
    };
    assert_eq!(flow("four")["status"], "ok", "{}", flow("four"));
    assert_eq!(flow("waits")["status"], "ok", "its time was over");
    assert_eq!(flow("fails")["status"], "failed");
    assert!(
        flow("fails")["reason"]
            .as_str()
            .unwrap()
            .contains("No such file"),
        "{}",
        flow("fails")
    );
    let pinged = fs::read_to_string(results.join("flows/four.out")).unwrap();
    let times = pinged.lines().filter_map(|line| {
        let (_, time) = line.split_once("time=")?;
        time.split(' ').next()?.parse::<f64>().ok()
    });
    let times: Vec<f64> = times.collect();
    assert_eq!(times.len(), 4, "{pinged}");
    assert!(times.iter().all(|ms| *ms >= 70.0), "{times:?}");
    assert!(results.join("scenario.yaml").exists());
    host.assert_as_before("after a box of machines");

    let mut child = start(&dir.path().join("killed"));
    up(&mut child);
    rustix::process::kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    wait(&mut child, Duration::from_secs(10));
    let cleaned = constel(["clean", &name]);
    assert!(cleaned.status.success(), "{}", stderr(&cleaned));
    host.assert_as_before("after a box of machines that was killed");
}

const SKY: &str = "constel: 1
name: NAME
duration: 20 s
box:
  machines:
  - {name: london, addresses: [10.32.0.1/24]}
  - {name: new-york, addresses: [10.32.0.2/24]}
  rules:
  - name: geo
    match: {protocol: icmp, dscp: ef}
    both: {via: {constellation: geo, orbital_slot: -27.5 deg, from: {latitude: 51.5 deg, longitude: -0.1 deg}, to: {latitude: 40.7 deg, longitude: -74 deg}}}
  - name: starlink
    match: {protocol: icmp}
    both: {via: {constellation: starlink-shell1, from: {latitude: 51.5 deg, longitude: -0.1 deg}, to: {latitude: 40.7 deg, longitude: -74 deg}, at: 2026-11-21T00:00:08Z}}
traffic:
- {name: geo, at: 1 s, for: 15 s, run: {node: london, command: [ping, -n, -Q, '184', -c, '10', -i, '0.5', new-york]}}
- {name: starlink, at: 1 s, for: 19 s, run: {node: london, command: [ping, -n, -c, '80', -i, '0.2', new-york]}}
";

/// The round trips that ping saw, milliseconds.
fn round_trips(results: &Path, flow: &str) -> Vec<f64> {
    let text = fs::read_to_string(results.join(format!("flows/{flow}.out"))).unwrap();
    let times = text.lines().filter_map(|line| {
        let (_, time) = line.split_once("time=")?;
        time.split(' ').next()?.parse::<f64>().ok()
    });
    times.collect()
}

#[test]
fn paths_of_rules_lead_through_the_sky_and_their_ends_hand_over() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let name = format!("{LABS}sky");
    let file = dir.path().join("box.yaml");
    fs::write(&file, SKY.replace("NAME", &name)).unwrap();
    let results = dir.path().join("results");
    let output = constel([
        "run",
        file.to_str().unwrap(),
        "--results",
        results.to_str().unwrap(),
    ]);
    let code = output.status.code();
    assert!(matches!(code, Some(0 | 3)), "{}", stderr(&output));
    // Up and down twice; a host with other things to do adds, and nothing is early.
    let geo = round_trips(&results, "geo");
    assert_eq!(geo.len(), 10, "{geo:?}");
    assert!(geo.iter().all(|ms| (477.0..700.0).contains(ms)), "{geo:?}");
    let leo = round_trips(&results, "starlink");
    assert!(leo.len() > 70, "{leo:?}");
    assert!(
        leo.iter().all(|ms| *ms > 2.0 * 18.5),
        "faster than light: {leo:?}"
    );
    let events = fs::read_to_string(results.join("events.ndjson")).unwrap();
    let events = events
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let handovers: Vec<Value> = events.filter(|event| event["kind"] == "handover").collect();
    assert!(!handovers.is_empty(), "the scheduler's slot begins at 12 s");
    for handover in &handovers {
        let end = handover["station"].as_str().unwrap();
        assert!(
            ["starlink/from", "starlink/to"].contains(&end),
            "{handover}"
        );
        let t_s = handover["t_ns"].as_u64().unwrap() as f64 / 1e9;
        // The sky begins with the rules, a moment before frames are let in.
        let in_time = [4.0, 19.0].iter().any(|slot| (t_s - slot).abs() < 0.5);
        assert!(in_time, "{handover}");
    }
    host.assert_as_before("after a box under the sky");
}
