//! Two machines with a box between them, and what they send.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use constel_host::NetNs;
use constel_host::claim::LabState;
use constel_host::netlink::{AddressSpec, Batch, IpPrefix, Mac, Socket, VethEnd};
use rustix::process::{Pid, Signal};
use serde_json::Value;

use crate::middlebox::support::host::LABS;
use crate::middlebox::support::lab::state_of;
use crate::middlebox::support::{CONSTEL, constel, json, stderr, until, wait};
use crate::support::probe::keep_all;

/// Two machines, and the host of a box whose interfaces `wa` and `wb` are their cables.
pub(crate) struct Cables {
    pub(crate) host: NetNs,
    pub(crate) a: NetNs,
    pub(crate) b: NetNs,
}

pub(crate) const WIRES: [u32; 2] = [70, 71];
pub(crate) const FAR: u32 = 80;

pub(crate) fn mac(n: u8) -> Mac {
    Mac([2, 0xab, 0, 0, 0, n])
}

pub(crate) fn address(n: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 9, 0, n)
}

impl Cables {
    pub(crate) fn lay(mtu: u32) -> Cables {
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

pub(crate) fn give_address(ns: &NetNs, ifindex: u32, address: Ipv4Addr) {
    let mut batch = Batch::new();
    let prefix = IpPrefix::new(address.into(), 24).unwrap();
    batch.link_up(1).link_up(ifindex);
    batch.add_address(&AddressSpec::new(ifindex, prefix));
    Socket::open_in(ns).unwrap().send(&mut batch).unwrap();
}

/// A box that is ended with the test.
pub(crate) struct Running {
    pub(crate) name: String,
    pub(crate) child: Child,
    dir: PathBuf,
}

impl Running {
    pub(crate) fn start(
        cables: &Cables,
        name: &str,
        dir: &Path,
        rules: &str,
        flags: &[&str],
    ) -> Running {
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

    pub(crate) fn up(
        cables: &Cables,
        name: &str,
        dir: &Path,
        rules: &str,
        flags: &[&str],
    ) -> Running {
        let mut running = Running::start(cables, name, dir, rules, flags);
        until("the box is up", || {
            if let Some(status) = running.child.try_wait().unwrap() {
                panic!("it ended: {status}\n{}", running.said("stderr"));
            }
            (running.state() == Some(LabState::Running)).then_some(())
        });
        running
    }

    pub(crate) fn said(&self, what: &str) -> String {
        fs::read_to_string(self.dir.join(format!("{}.{what}", self.name))).unwrap()
    }

    pub(crate) fn state(&self) -> Option<LabState> {
        state_of(&self.name)
    }

    pub(crate) fn shown(&self) -> Value {
        json(&constel(["box", "show", &self.name, "--json"]))
    }

    pub(crate) fn did(&self, rule: &str, way: &str) -> Value {
        let shown = self.shown();
        let rules = shown["rules"].as_array().unwrap();
        let found = rules.iter().find(|shown| shown["name"] == rule).unwrap();
        found["directions"][way].clone()
    }

    pub(crate) fn ended(&mut self) -> Option<i32> {
        let status = wait(&mut self.child);
        status.expect("it ends").code()
    }

    pub(crate) fn down(mut self) -> Value {
        let output = constel(["down", &self.name]);
        assert!(output.status.success(), "{}", stderr(&output));
        self.ended();
        let text = fs::read(self.dir.join(&self.name).join("summary.json")).unwrap();
        serde_json::from_slice(&text).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        rustix::process::kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.child.try_wait().unwrap().is_none() {
            let _ = rustix::process::kill_process(Pid::from_child(&self.child), Signal::TERM);
            wait(&mut self.child);
        }
        drop(constel(["clean", &self.name]));
    }
}

/// A packet socket: frames as they are.
pub(crate) struct Raw(libc::c_int);

impl Raw {
    pub(crate) fn on(ns: &NetNs, ifindex: u32) -> Raw {
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
                keep_all(fd);
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

    pub(crate) fn send(&self, frame: &[u8]) {
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
    pub(crate) fn next(&self) -> Option<Vec<u8>> {
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

/// Waits until a datagram comes back. Single datagrams may be lost: the kernel drops them when it gives up a neighbour's address.
pub(crate) fn reach(ns: &NetNs, to: SocketAddr) {
    let socket = ns.run(|| UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
    let patience = Duration::from_millis(200);
    socket.set_read_timeout(Some(patience)).unwrap();
    until("a datagram comes back", || {
        socket.send_to(b"?", to).unwrap();
        socket.recv(&mut [0; 9]).ok()
    });
}

pub(crate) fn round_trip(ns: &NetNs, to: SocketAddr, count: usize) -> Vec<Duration> {
    let socket = ns.run(|| UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(60)))
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
pub(crate) fn echo(ns: &NetNs, at: SocketAddr) {
    let socket = ns.run(|| UdpSocket::bind(at).unwrap()).unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 2048];
        while let Ok((got, from)) = socket.recv_from(&mut buffer) {
            drop(socket.send_to(&buffer[..got], from));
        }
    });
}
