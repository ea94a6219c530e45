//! Two machines in one process, each with a relay of its own and nodes in namespaces, and between them a way of our making: by UDP, and as
//! raw Ethernet.

#[path = "../../../drivers/tests/support/mod.rs"]
mod support;
mod way;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use constel_cluster::crossing::{
    Counts, Crossing, Key, LabTime, Layout, Listening, Machine, MachineTransport,
};
use constel_cluster::underlay::{CrossingCounts, Label, pack};
use constel_drivers::relay::{Relay, RelayConfig};
use constel_drivers::{Links, Plane};
use constel_host::bpf;
use constel_link::{EdgeUpdate, Impairment, PortId, mac_of};
use support::*;
use way::{Fate, Way};

/// Head start, where a test does not have its own: longer than its way takes.
const AHEAD_NS: u64 = 2 * MS;
/// An EtherType without a protocol: experimental (IEEE 802).
const ODD: u16 = 0x88b5;
/// Delays are measured: one lab at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Machine `a` has ports 0, 2 and 3, and `b` port 1. Node number n, from 1 on, has port n - 1.
const OWNERS: [usize; 4] = [0, 1, 0, 0];

/// Each test by both.
macro_rules! by_both {
    ($($name:ident)*) => {
        mod by_udp {
            $(#[test] fn $name() { super::$name(super::MachineTransport::Udp); })*
        }
        mod by_ethernet {
            $(#[test] fn $name() { super::$name(super::MachineTransport::Ethernet); })*
        }
    };
}

by_both! {
    the_way_is_hidden_in_the_edge
    an_edge_shorter_than_the_way_is_counted
    any_frame_arrives_byte_for_byte_and_no_other
    a_stream_crosses_whole
    several_threads_of_the_relay_are_as_one
    what_the_way_does_is_told
    sealed_frames_cannot_be_read_changed_or_made_on_the_way
    strangers_and_who_is_lost_reach_nobody
    nothing_is_sent_when_the_time_for_it_is_over
    a_port_changes_sides_in_one_instant
    what_a_lost_machine_had_comes_here
}

/// A label that is refused only for its source, or because its datagram is not sealed.
const LABEL: Label = Label {
    lab: 42,
    from: PortId(0),
    to: PortId(1),
    sequence: u32::MAX / 4,
    token: 7,
    session: 1,
    due_ns: 0,
};

struct Side {
    lab: Lab,
    crossing: Crossing,
    listening: Listening,
}

struct Pair {
    sides: [Side; 2],
    way: Way,
}

impl Pair {
    fn new(by: MachineTransport, fate: impl Fn(u64) -> Fate + Send + Sync + 'static) -> Self {
        Self::ahead(by, AHEAD_NS, fate)
    }

    fn ahead(
        by: MachineTransport,
        ahead_ns: u64,
        fate: impl Fn(u64) -> Fate + Send + Sync + 'static,
    ) -> Self {
        Self::with(by, None, 1, ahead_ns, fate)
    }

    /// The number of the relays' threads. With two, port 3 is the second one's, and all others are the first one's. `key`: what frames are
    /// sealed with.
    fn with(
        by: MachineTransport,
        key: Option<Key>,
        threads: usize,
        ahead_ns: u64,
        fate: impl Fn(u64) -> Fate + Send + Sync + 'static,
    ) -> Self {
        let (way, wires) = Way::open(by, fate);
        let mut wires = wires.into_iter();
        let sides = [0, 1].map(|here| {
            // Each sees the other where the way begins.
            let at = |machine: usize| match machine == here {
                true => way.end(here),
                false => way.seen_from(here),
            };
            let machine = |number: usize| Machine {
                name: ["a", "b"][number].to_owned(),
                address: at(number),
                token: 7,
            };
            let layout = Layout {
                lab: 42,
                session: 1,
                here,
                machines: vec![machine(0), machine(1)],
                owners: OWNERS.to_vec(),
                ahead_ns,
                key: key.clone(),
            };
            // An hour from this machine's own clock.
            let time = LabTime::new(3_600_000_000_000);
            let wire = wires.next().unwrap();
            let (crossing, far) = way.within(|| Crossing::open(wire, layout, time).unwrap());
            let ours: Vec<u32> = (0..4).filter(|p| OWNERS[*p as usize] == here).collect();
            let config = RelayConfig {
                slots: 16_384,
                threads,
                ..RelayConfig::new("crossing", 4, 1)
            };
            let relay = Relay::new(config).unwrap();
            relay.far(far).unwrap();
            let nodes = ours.iter().map(|&port| {
                let node = Node::new();
                node.port(&relay, PortId(port), 0, port as u8 + 1);
                node
            });
            let nodes = nodes.collect();
            let handle = relay.start_relay().unwrap();
            let listening = crossing.listen(Arc::new(handle.clone())).unwrap();
            let lab = Lab {
                relay,
                handle,
                nodes,
            };
            Side {
                lab,
                crossing,
                listening,
            }
        });
        Self { sides, way }
    }

    /// The link between both machines: each has the edge that its frames take.
    fn link(&self, impairment: Impairment) {
        for (here, (from, to)) in [(0, 1), (1, 0)].into_iter().enumerate() {
            self.sides[here].lab.apply(vec![set(from, to, impairment)]);
        }
    }

    fn near(&self) -> &Node {
        &self.sides[0].lab.nodes[0]
    }

    fn far(&self) -> &Node {
        &self.sides[1].lab.nodes[0]
    }

    fn counts(&self, here: usize) -> (Counts, CrossingCounts) {
        let counts = self.sides[here].listening.counts();
        let from = counts.from.first().map(|(_, from)| *from);
        (counts, from.unwrap_or_default())
    }
}

/// `constel clean` waits for the programs of dead labs, which are those that no process has.
#[test]
fn the_programs_of_a_living_crossing_are_no_dead_labs() {
    let _alone = ALONE.lock();
    let _pair = Pair::new(MachineTransport::Ethernet, |_| Fate::After(Duration::ZERO));
    // Those of other tests may be about to go.
    let orphans = bpf::orphans().unwrap();
    assert_eq!(
        bpf::wait_gone(&orphans, Duration::from_secs(60)).unwrap(),
        []
    );
}

fn udp(node: &Node, n: u8) -> UdpSocket {
    let socket = node.run(|| UdpSocket::bind((v4(n), 7_000)).unwrap());
    socket
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    stamp(&socket);
    socket
}

/// One-way times of `count` datagrams, one each 2 ms, in order of size.
fn one_way(from: (&Node, u8), to: (&Node, u8), count: usize) -> Vec<u64> {
    let (near, far) = (udp(from.0, from.1), udp(to.0, to.1));
    let mut times = Vec::with_capacity(count);
    // The first one waits until addresses are resolved.
    for number in 0..=count {
        let sent = real_ns();
        near.send_to(&[7; 100], (v4(to.1), 7_000)).unwrap();
        let (_, at) = receive(&far, &mut [0; 256]).expect("the datagram arrives");
        if number > 0 {
            times.push(at - sent);
        }
        thread::sleep(Duration::from_millis(2));
    }
    times.sort_unstable();
    times
}

fn the_way_is_hidden_in_the_edge(by: MachineTransport) {
    const EDGE_NS: u64 = 10 * MS;
    const AHEAD_NS: u64 = 8 * MS;
    let _alone = ALONE.lock();
    for way_us in [100, 1_000, 5_000] {
        let way = Duration::from_micros(way_us);
        let pair = Pair::ahead(by, AHEAD_NS, move |_| Fate::After(way));
        pair.link(Impairment::delay_only(EDGE_NS));
        let a = &pair.sides[0].lab;
        a.apply(link(2, 3, EDGE_NS));
        let crossing = one_way((pair.near(), 1), (pair.far(), 2), 200);
        let local = one_way((&a.nodes[1], 3), (&a.nodes[2], 4), 200);
        let error = |times: &[u64], per_cent: usize| times[times.len() * per_cent / 100] - EDGE_NS;
        let told = [50, 99].map(|p| (p, error(&crossing, p) / 1_000, error(&local, p) / 1_000));
        for (p, crossing, local) in told {
            eprintln!(
                "way {way_us} us, p{p} beyond the delay: {crossing} us crossing, {local} us local"
            );
        }
        assert!(crossing[0] >= EDGE_NS, "{} ns: early", crossing[0]);
        // A busy machine makes many of both late, and not the quickest. Were the way added, it would be to all that cross.
        let least_ns = crossing[0].saturating_sub(local[0]);
        assert!(least_ns < MS / 2, "{least_ns} ns beyond the local one");
        let (counts, from) = pair.counts(1);
        assert!(from.arrived > 200 && from.lost == 0, "{from:?}");
        assert_eq!((counts.unsent, counts.strangers, from.refused), (0, 0, 0));
        let longest_wait_ns = AHEAD_NS - way_us * 1_000;
        assert!(from.least_wait_ns < Some(longest_wait_ns), "{from:?}");
    }
}

fn an_edge_shorter_than_the_way_is_counted(by: MachineTransport) {
    let _alone = ALONE.lock();
    let pair = Pair::new(by, |_| Fate::After(Duration::from_millis(3)));
    pair.link(Impairment::delay_only(MS));
    let times = one_way((pair.near(), 1), (pair.far(), 2), 20);
    assert!(times[0] >= 3 * MS, "{times:?}: no sooner than the way is");
    let (_, from) = pair.counts(1);
    assert!(from.arrived > 20 && from.late == from.arrived, "{from:?}");
    assert!(from.latest_ns >= 2 * MS, "{from:?}");
}

fn any_frame_arrives_byte_for_byte_and_no_other(by: MachineTransport) {
    let _alone = ALONE.lock();
    let pair = Pair::new(by, |_| Fate::After(Duration::ZERO));
    pair.link(Impairment::delay_only(3 * MS));
    let payload: Vec<u8> = (0..1_500).map(|i| (i * 7) as u8).collect();
    let (near, far) = (mac_of(PortId(0)), mac_of(PortId(1)));
    let tagged = [&[0xa0, 100][..], &ODD.to_be_bytes(), &payload[..60]].concat();
    let cases = [
        frame(far, near, ODD, &payload),
        // The shortest there can be.
        frame(far, near, ODD, b"xy"),
        frame([0xff; 6], near, ODD, &payload[..100]),
        // IS-IS: length instead of a type, then LLC; a multicast address.
        frame([1, 0x80, 0xc2, 0, 0, 0x14], near, 100, &payload[..100]),
        // A source that lies.
        frame(far, mac_of(PortId(77)), ODD, &payload[..64]),
        // A VLAN tag of the node's own: the kernel shows it apart.
        frame(far, near, 0x8100, &tagged),
    ];
    let receiver = pair.far().run(|| Raw::new(libc::ETH_P_ALL as u16));
    let sender = pair.near().run(|| Raw::new(libc::ETH_P_ALL as u16));
    for case in &cases {
        sender.send(case);
        let shown = match case[12..14] {
            [0x81, 0x00] => [&case[..12], &case[16..]].concat(),
            _ => case.clone(),
        };
        let mut frames = std::iter::from_fn(|| receiver.next()).map(|(got, _)| got);
        let got = frames.find(|got| got[6..14] == shown[6..14]);
        assert_eq!(got.as_ref(), Some(&shown), "{case:02x?}");
    }
    let stats = pair.sides[1].lab.handle.relay_stats().unwrap();
    assert_eq!(stats.emulator_drops.total(), 0, "{stats:?}");
}

/// Super-frames are cut up where they cross; every byte of a stream comes, in order.
fn a_stream_crosses_whole(by: MachineTransport) {
    let _alone = ALONE.lock();
    let pair = Pair::new(by, |_| Fate::After(Duration::ZERO));
    pair.link(Impairment::delay_only(3 * MS));
    stream_whole(&pair, pair.near());
    let (counts, from) = pair.counts(1);
    assert_eq!((from.refused, from.copies, counts.unsent), (0, 0, 0));
}

/// Frames that one thread takes in go to the other machine by the thread that sends there, and frames from there are delivered
/// by the thread that has their node.
fn several_threads_of_the_relay_are_as_one(by: MachineTransport) {
    if Relay::threads_max() < 2 {
        eprintln!("SKIPPED: this machine has one processor");
        return;
    }
    let _alone = ALONE.lock();
    const EDGE_NS: u64 = 10 * MS;
    let pair = Pair::with(by, None, 2, 8 * MS, |_| {
        Fate::After(Duration::from_millis(1))
    });
    pair.link(Impairment::delay_only(EDGE_NS));
    let fourth = Impairment::delay_only(EDGE_NS);
    pair.sides[0].lab.apply(vec![set(3, 1, fourth)]);
    pair.sides[1].lab.apply(vec![set(1, 3, fourth)]);
    let node = &pair.sides[0].lab.nodes[2];
    for (from, to) in [
        ((pair.near(), 1), (pair.far(), 2)),
        ((node, 4), (pair.far(), 2)),
        ((pair.far(), 2), (node, 4)),
    ] {
        let times = one_way(from, to, 50);
        assert!(times[0] >= EDGE_NS, "{} ns: early", times[0]);
        assert!(times[0] < EDGE_NS + MS, "{times:?}: the way is added");
    }
    stream_whole(&pair, node);
    for here in [0, 1] {
        let (counts, from) = pair.counts(here);
        assert_eq!(
            (from.refused, from.copies, from.lost),
            (0, 0, 0),
            "{from:?}"
        );
        assert_eq!((counts.unsent, counts.strangers), (0, 0));
        let stats = pair.sides[here].lab.handle.relay_stats().unwrap();
        assert_eq!(stats.emulator_drops.total(), 0, "{stats:?}");
    }
}

/// A stream from a node of the first machine to that of the second.
fn stream_whole(pair: &Pair, near: &Node) {
    const BYTES: usize = 4 << 20;
    let listener = pair.far().run(|| TcpListener::bind((v4(2), 80)).unwrap());
    let reading = thread::spawn(move || {
        let mut bytes = Vec::new();
        listener
            .accept()
            .unwrap()
            .0
            .read_to_end(&mut bytes)
            .unwrap();
        bytes
    });
    let mut stream = near.run(|| TcpStream::connect((v4(2), 80)).unwrap());
    let bytes: Vec<u8> = (0..BYTES).map(|i| (i * 31 / 7) as u8).collect();
    stream.write_all(&bytes).unwrap();
    drop(stream);
    assert!(reading.join().unwrap() == bytes);
    let (_, from) = pair.counts(1);
    assert!(from.arrived as usize > BYTES / 1_500, "{from:?}");
}

/// Lost, doubled and delayed datagrams are counted, and no node gets a frame twice.
fn what_the_way_does_is_told(by: MachineTransport) {
    let _alone = ALONE.lock();
    let pair = Pair::ahead(by, 45 * MS, |number| match number % 10 {
        3 => Fate::Lost,
        6 => Fate::Twice,
        8 => Fate::After(Duration::from_millis(5)),
        _ => Fate::After(Duration::ZERO),
    });
    pair.link(Impairment::delay_only(50 * MS));
    let receiver = pair.far().run(|| Raw::new(ODD));
    let sender = pair.near().run(|| Raw::new(0));
    stay_on_one_processor();
    const FRAMES: u16 = 500;
    for number in 0..FRAMES {
        let payload = [&number.to_be_bytes()[..], &[0; 60]].concat();
        sender.send(&frame(mac_of(PortId(1)), mac_of(PortId(0)), ODD, &payload));
        thread::sleep(Duration::from_micros(300));
    }
    let (got_from, lost) = eventually("all have come that do", || {
        // The number of sent datagrams is read last: otherwise one in flight would make up for one that was lost after the sample.
        let lost = pair.way.lost();
        let (_, from) = pair.counts(1);
        let (counts, _) = pair.counts(0);
        (counts.sent == from.arrived + lost).then_some((from, lost))
    });
    receiver.timeout(Duration::from_millis(200));
    let got = std::iter::from_fn(|| receiver.next());
    let numbers: Vec<u16> = got
        .map(|(got, _)| u16::from_be_bytes([got[14], got[15]]))
        .collect();
    let once: BTreeSet<u16> = numbers.iter().copied().collect();
    assert_eq!(once.len(), numbers.len(), "{numbers:?}");
    // Those that others overtook had plenty of time, unless the machine stood still.
    assert!(
        got_from.late > 0 || numbers.is_sorted(),
        "{got_from:?}, {numbers:?}"
    );
    assert!(lost >= 40 && numbers.len() < usize::from(FRAMES));
    // Losses at the very end are not detected.
    assert!(lost - got_from.lost <= 1, "{lost}, {got_from:?}");
    assert!(
        got_from.copies >= 40 && got_from.reordered > 0,
        "{got_from:?}"
    );
    assert_eq!(got_from.refused, 0);
}

fn sealed_frames_cannot_be_read_changed_or_made_on_the_way(by: MachineTransport) {
    const FRAMES: u16 = 200;
    const WORDS: &[u8] = b"nobody else is to read this, or to write it";
    let _alone = ALONE.lock();
    let key = Some(Key::new([3; 32]));
    let pair = Pair::with(by, key, 1, AHEAD_NS, |number| match number % 10 {
        3 => Fate::Changed,
        _ => Fate::After(Duration::ZERO),
    });
    pair.link(Impairment::delay_only(3 * MS));
    let receiver = pair.far().run(|| Raw::new(ODD));
    let sender = pair.near().run(|| Raw::new(0));
    for number in 0..FRAMES {
        let payload = [&number.to_be_bytes()[..], WORDS].concat();
        sender.send(&frame(mac_of(PortId(1)), mac_of(PortId(0)), ODD, &payload));
        thread::sleep(Duration::from_micros(300));
    }
    let refused = eventually("all have come", || {
        let (_, from) = pair.counts(1);
        let (counts, _) = pair.counts(0);
        (counts.sent == from.arrived + from.refused).then_some(from.refused)
    });
    assert!(refused >= 20 && refused == pair.way.changed(), "{refused}");
    assert!(!pair.way.saw(&WORDS[..8]));
    receiver.timeout(Duration::from_millis(200));
    let got: Vec<Vec<u8>> = std::iter::from_fn(|| receiver.next())
        .map(|(got, _)| got)
        .collect();
    assert!(got.iter().all(|got| &got[16..] == WORDS));
    assert!(got.len() as u64 >= u64::from(FRAMES) - refused && got.len() < usize::from(FRAMES));
    // An attacker that can send from the other machine's address, and has everything but the key.
    let mut forged = Vec::new();
    pack(
        &LABEL,
        &frame(mac_of(PortId(1)), mac_of(PortId(0)), ODD, WORDS),
        &mut forged,
    );
    pair.way.forge(1, &forged);
    eventually("it is refused", || {
        (pair.counts(1).1.refused > refused).then_some(())
    });
    assert_eq!(receiver.next(), None);
}

fn strangers_and_who_is_lost_reach_nobody(by: MachineTransport) {
    let _alone = ALONE.lock();
    let pair = Pair::new(by, |_| Fate::After(Duration::ZERO));
    pair.link(Impairment::delay_only(3 * MS));
    assert_eq!(one_way((pair.near(), 1), (pair.far(), 2), 1).len(), 1);
    // An attacker that has everything but the address from which the other one sends.
    let mut right = Vec::new();
    pack(
        &LABEL,
        &frame([0xff; 6], mac_of(PortId(0)), ODD, &[7; 60]),
        &mut right,
    );
    pair.way.stranger(1, &right);
    eventually("the stranger is counted", || {
        (pair.counts(1).0.strangers == 1).then_some(())
    });

    let refused = pair.counts(1).1.refused;
    assert!(pair.sides[1].crossing.lose(0));
    let receiver = pair.far().run(|| Raw::new(ODD));
    let sender = pair.near().run(|| Raw::new(0));
    sender.send(&frame(mac_of(PortId(1)), mac_of(PortId(0)), ODD, &[7; 60]));
    eventually("the frame is refused", || {
        (pair.counts(1).1.refused > refused).then_some(())
    });
    receiver.timeout(Duration::from_millis(50));
    assert_eq!(receiver.next(), None);
    // Nor does anything go there.
    let before = pair.counts(1).0;
    let back = pair.far().run(|| Raw::new(0));
    back.send(&frame(mac_of(PortId(0)), mac_of(PortId(1)), ODD, &[7; 60]));
    eventually("what is for a lost machine is counted", || {
        let now = pair.counts(1).0;
        (now.to_lost > before.to_lost && now.sent == before.sent).then_some(())
    });
}

/// A machine whose lease is over sends nothing for nodes that may be another's by then.
fn nothing_is_sent_when_the_time_for_it_is_over(by: MachineTransport) {
    let _alone = ALONE.lock();
    let pair = Pair::new(by, |_| Fate::After(Duration::from_micros(100)));
    pair.link(Impairment::delay_only(MS));
    let sender = pair.near().run(|| Raw::new(0));
    let send = || sender.send(&frame(mac_of(PortId(1)), mac_of(PortId(0)), ODD, &[7; 60]));
    let sent = |more: bool| {
        let before = pair.counts(0).0;
        send();
        eventually("the frame is counted", || {
            let now = pair.counts(0).0;
            let done = match more {
                true => now.sent > before.sent,
                false => now.unsent > before.unsent && now.sent == before.sent,
            };
            done.then_some(())
        });
    };
    sent(true);
    pair.sides[0].crossing.may_send_until(1);
    sent(false);
    pair.sides[0].crossing.may_send_until(u64::MAX);
    sent(true);
}

/// An edge that moves from a port here to one that is far: one switch, and what is on its way arrives.
fn a_port_changes_sides_in_one_instant(by: MachineTransport) {
    let _alone = ALONE.lock();
    let pair = Pair::new(by, |_| Fate::After(Duration::from_micros(500)));
    let a = &pair.sides[0].lab;
    a.apply(vec![set(0, 2, Impairment::delay_only(4 * MS))]);
    let here = a.nodes[1].run(|| Raw::new(ODD));
    let there = pair.far().run(|| Raw::new(ODD));
    let sender = pair.near().run(|| Raw::new(0));
    stay_on_one_processor();
    const FRAMES: u16 = 300;
    let began = Instant::now();
    for number in 0..FRAMES {
        if number == FRAMES / 2 {
            let changes = vec![remove(0, 2), set(0, 1, Impairment::delay_only(4 * MS))];
            a.handle.apply(EdgeUpdate { changes }, None).unwrap();
        }
        // A broadcast: every node at the end of an edge receives it.
        let payload = [&number.to_be_bytes()[..], &[0; 60]].concat();
        sender.send(&frame([0xff; 6], mac_of(PortId(0)), ODD, &payload));
        let next = began + Duration::from_millis(1) * u32::from(number + 1);
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    for raw in [&here, &there] {
        raw.timeout(Duration::from_millis(200));
    }
    let numbers = |raw: &Raw| -> Vec<u16> {
        let got = std::iter::from_fn(|| raw.next());
        got.map(|(got, _)| u16::from_be_bytes([got[14], got[15]]))
            .collect()
    };
    let half: Vec<u16> = (0..FRAMES / 2).collect();
    assert_eq!(numbers(&here), half);
    let rest: Vec<u16> = (FRAMES / 2..FRAMES).collect();
    assert_eq!(numbers(&there), rest);
}

/// The node of a lost machine is created again, on a port that was far: frames reach it and come from it, each when it is due. Frames that
/// the lost machine still sends for it reach no node.
fn what_a_lost_machine_had_comes_here(by: MachineTransport) {
    let _alone = ALONE.lock();
    let pair = Pair::new(by, |_| Fate::After(Duration::ZERO));
    let delay = Impairment::delay_only(3 * MS);
    pair.link(delay);
    assert_eq!(one_way((pair.near(), 1), (pair.far(), 2), 1).len(), 1);
    let Side { lab, crossing, .. } = &pair.sides[0];
    assert!(crossing.lose(1));
    lab.apply(vec![remove(0, 1)]);
    let node = Node::new();
    node.port(&lab.relay, PortId(1), 0, 2);
    lab.handle.come_home(&[PortId(1)]).unwrap();
    crossing.give(&[PortId(1)], 0).unwrap();
    lab.apply(vec![set(0, 1, delay), set(1, 0, delay)]);
    let times = [
        one_way((pair.near(), 1), (&node, 2), 20),
        one_way((&node, 2), (pair.near(), 1), 20),
    ];
    for times in times {
        // Later ones are the machine's own delay.
        assert!((3 * MS..5 * MS).contains(&times[0]), "{times:?}");
    }
    let refused = pair.counts(0).1.refused;
    let receiver = pair.near().run(|| Raw::new(ODD));
    // By raw Ethernet it does not come as far as the socket.
    let strangers = pair.counts(0).0.strangers;
    let back = pair.far().run(|| Raw::new(0));
    back.send(&frame(mac_of(PortId(0)), mac_of(PortId(1)), ODD, &[7; 60]));
    eventually("what the lost machine sends is refused", || {
        let (counts, from) = pair.counts(0);
        (from.refused > refused || counts.strangers > strangers).then_some(())
    });
    receiver.timeout(Duration::from_millis(50));
    assert_eq!(receiver.next(), None);
}
