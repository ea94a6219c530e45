//! Bring-up and take-down of a shell's worth of nodes, next to `ip -batch` doing the same, in one
//! run. Ignored by default: `cargo test --release -p constel-host --test bench_bringup -- --ignored
//! --nocapture`. Size: `CONSTEL_BENCH_NODES` (default 1584), ports per node 5 (four ISLs, a GSL).

use std::fmt::Write as _;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use constel_host::NetNs;
use constel_host::claim::RuntimeDir;
use constel_host::globals::Owner;
use constel_host::netlink::{AddressSpec, Batch, IpPrefix, Mac, Socket, VethEnd};
use constel_host::rcu::Expedited;
use constel_host::template::{NodeTemplate, ROUTER, SWITCH};

const PORTS: usize = 5;
/// Host ends per switch namespace: the kernel's device table has 256 buckets per namespace.
const SHARD: usize = 400;

struct Figures {
    what: &'static str,
    nodes: Duration,
    links: Duration,
    configure: Duration,
    down: Duration,
}

impl Figures {
    fn up(&self) -> Duration {
        self.nodes + self.links + self.configure
    }

    fn print(&self) {
        println!(
            "{:>20}: up {:>7.2?} (nodes {:.2?}, links {:.2?}, configure {:.2?}), down {:.2?}",
            self.what,
            self.up(),
            self.nodes,
            self.links,
            self.configure,
            self.down
        );
    }
}

fn addresses(node: usize, port: usize) -> [IpPrefix; 2] {
    let n = (node * PORTS + port) as u32;
    let v4 = std::net::Ipv4Addr::from(0x0a00_0000 + n);
    let v6 = std::net::Ipv6Addr::from(0xfd00_u128 << 112 | u128::from(n) << 64 | 1);
    [
        IpPrefix::new(v4.into(), 32).unwrap(),
        IpPrefix::new(v6.into(), 64).unwrap(),
    ]
}

fn mac(node: usize, port: usize, end: u8) -> Mac {
    let n = ((node * PORTS + port) as u32).to_be_bytes();
    Mac([2, end, n[0], n[1], n[2], n[3]])
}

/// Every node a namespace with all router settings; `PORTS` veth pairs each, the far ends in
/// switch namespaces; both ends up, IPv4 and IPv6 addresses on the node ends.
fn ours(nodes: usize) -> Figures {
    // The host's own journals: other labs of this machine share the switches.
    let globals = RuntimeDir::default().globals();
    let owner = Owner::current("bench-bringup").unwrap();
    let expedited = Expedited::hold(&globals, &owner).unwrap();
    let t = Instant::now();
    let router = NodeTemplate::prepare(ROUTER).unwrap();
    let switch = NodeTemplate::prepare(SWITCH).unwrap();
    let created = router.create(nodes, &globals, &owner).unwrap();
    assert_eq!(created.inherited, nodes);
    let sats = created.nodes;
    let shards = switch
        .create((nodes * PORTS).div_ceil(SHARD), &globals, &owner)
        .unwrap()
        .nodes;
    let t_nodes = t.elapsed();

    let t = Instant::now();
    let per_shard = SHARD / PORTS;
    let work: Vec<_> = sats.chunks(per_shard).zip(&shards).enumerate().collect();
    let workers = thread::available_parallelism().unwrap().get();
    thread::scope(|s| {
        for w in 0..workers {
            let work = &work;
            s.spawn(move || {
                let mut batch = Batch::new();
                for (i, (part, shard)) in work.iter().skip(w).step_by(workers) {
                    shard.enter_for_good().unwrap();
                    let mut socket = Socket::open().unwrap();
                    for (j, sat) in part.iter().enumerate() {
                        let node = i * per_shard + j;
                        for port in 0..PORTS {
                            // Unique over all shards, so that the relay can distinguish ports.
                            let ifindex = (100 + node * PORTS + port) as u32;
                            let first = VethEnd {
                                name: &format!("h{ifindex}"),
                                ifindex: Some(ifindex),
                                mac: Some(mac(node, port, 1)),
                                up: true,
                                ..VethEnd::default()
                            };
                            let second = VethEnd {
                                name: &format!("p{port}"),
                                ifindex: Some(64 + port as u32),
                                mac: Some(mac(node, port, 0)),
                                netns: Some(sat.fd()),
                                ..VethEnd::default()
                            };
                            batch.create_veth(&first, &second).unwrap();
                        }
                    }
                    socket.send(&mut batch).unwrap();
                }
            });
        }
    });
    let t_links = t.elapsed();

    let t = Instant::now();
    let sockets: Vec<Socket> = thread::scope(|s| {
        let share = nodes.div_ceil(workers);
        let handles: Vec<_> = sats
            .chunks(share)
            .enumerate()
            .map(|(w, part)| {
                s.spawn(move || {
                    let mut batch = Batch::new();
                    part.iter()
                        .enumerate()
                        .map(|(j, sat)| {
                            sat.enter_for_good().unwrap();
                            let mut socket = Socket::open().unwrap();
                            batch.link_up(1);
                            for port in 0..PORTS {
                                let ifindex = 10 + port as u32;
                                batch.link_up(ifindex);
                                for a in addresses(w * share + j, port) {
                                    batch.add_address(&AddressSpec::new(ifindex, a));
                                }
                            }
                            socket.send(&mut batch).unwrap();
                            socket
                        })
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        handles
            .into_iter()
            .flat_map(|h| h.join().unwrap())
            .collect()
    });
    let t_configure = t.elapsed();

    let sentinel = Sentinel::new();
    let t = Instant::now();
    drop(sockets);
    drop(sats);
    drop(shards);
    sentinel.wait();
    let down = t.elapsed();
    expedited.finish().unwrap();
    Figures {
        what: "constel-host",
        nodes: t_nodes,
        links: t_links,
        configure: t_configure,
        down,
    }
}

/// Makes them by `ip -batch`: named namespaces, pairs made in place, no router settings.
fn ip_batch(nodes: usize) -> Figures {
    let name = |n: usize| format!("cstb{n}");
    let shard = |s: usize| format!("cstbs{s}");
    let shards = (nodes * PORTS).div_ceil(SHARD);
    let mut add = String::new();
    (0..nodes).for_each(|n| writeln!(add, "netns add {}", name(n)).unwrap());
    (0..shards).for_each(|s| writeln!(add, "netns add {}", shard(s)).unwrap());
    let nodes_time = run_batch(None, &add);
    let t = Instant::now();
    for s in 0..shards {
        let mut text = String::new();
        for n in (s * SHARD / PORTS..(s + 1) * SHARD / PORTS).take_while(|n| *n < nodes) {
            for p in 0..PORTS {
                let i = 100 + n * PORTS + p;
                let (m0, m1) = (mac(n, p, 0), mac(n, p, 1));
                writeln!(
                    text,
                    "link add h{i} index {i} address {m1} numtxqueues 1 numrxqueues 1 up type veth \
                     peer name p{p} index {} address {m0} numtxqueues 1 numrxqueues 1 netns {}",
                    10 + p,
                    name(n)
                )
                .unwrap();
            }
        }
        run_batch(Some(&shard(s)), &text);
    }
    let links = t.elapsed();
    let t = Instant::now();
    for n in 0..nodes {
        let mut text = "link set lo up\n".to_owned();
        for p in 0..PORTS {
            writeln!(text, "link set p{p} up").unwrap();
            for a in addresses(n, p) {
                writeln!(text, "addr add {a} dev p{p}").unwrap();
            }
        }
        run_batch(Some(&name(n)), &text);
    }
    let configure = t.elapsed();
    let sentinel = Sentinel::new();
    let t = Instant::now();
    let mut del = String::new();
    (0..nodes).for_each(|n| writeln!(del, "netns del {}", name(n)).unwrap());
    (0..shards).for_each(|s| writeln!(del, "netns del {}", shard(s)).unwrap());
    run_batch(None, &del);
    sentinel.wait();
    let down = t.elapsed();
    Figures {
        what: "ip -batch",
        nodes: nodes_time,
        links,
        configure,
        down,
    }
}

fn run_batch(ns: Option<&str>, text: &str) -> Duration {
    let t = Instant::now();
    let mut cmd = Command::new("ip");
    if let Some(ns) = ns {
        cmd.args(["-n", ns]);
    }
    let mut child = cmd
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), text.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    t.elapsed()
}

/// Reports when the kernel has torn down the namespaces given up so far. It does so in the
/// background, in the order of giving up, devices of a batch of namespaces together: when the
/// device of a namespace that is given up last has gone, so have all others.
struct Sentinel {
    ours: NetNs,
    last: NetNs,
}

impl Sentinel {
    fn new() -> Sentinel {
        let (ours, last) = (NetNs::new().unwrap(), NetNs::new().unwrap());
        let mut batch = Batch::new();
        let first = VethEnd {
            name: "here",
            ..VethEnd::default()
        };
        let second = VethEnd {
            name: "there",
            netns: Some(last.fd()),
            ..VethEnd::default()
        };
        batch.create_veth(&first, &second).unwrap();
        Socket::open_in(&ours).unwrap().send(&mut batch).unwrap();
        Sentinel { ours, last }
    }

    fn wait(self) {
        let mut socket = Socket::open_in(&self.ours).unwrap();
        drop(self.last);
        let end = Instant::now() + Duration::from_secs(300);
        while socket.link_named("here").unwrap().is_some() {
            assert!(
                Instant::now() < end,
                "the kernel does not tear down namespaces"
            );
            thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
#[ignore = "a benchmark: takes a minute and wants a quiet machine"]
fn bring_up_next_to_ip_batch() {
    let nodes = std::env::var("CONSTEL_BENCH_NODES").map_or(1584, |n| n.parse().expect("a number"));
    println!("{nodes} nodes, {} veth pairs", nodes * PORTS);
    let a = ours(nodes);
    a.print();
    if std::env::var_os("CONSTEL_BENCH_ALONE").is_some() {
        return;
    }
    let b = ip_batch(nodes);
    b.print();
    println!(
        "ratio: up {:.2}, down {:.2}",
        a.up().as_secs_f64() / b.up().as_secs_f64(),
        a.down.as_secs_f64() / b.down.as_secs_f64()
    );
    drop(NetNs::new());
}
