//! Frames of every kind through the relay, between real namespaces.

mod support;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use constel_drivers::relay::{Relay, RelayConfig, RelayError, mono_ns};
use constel_host::netlink::{Batch, Mac, Socket, VethEnd};
use constel_link::{
    ChangeError, EdgeUpdate, Effects, EffectsChange, Impairment, Loss, LossLaw, PortId, QueueLimit,
    mac_of,
};
use support::*;

const SECOND: Duration = Duration::from_secs(1);
const BROADCAST: [u8; 6] = [0xff; 6];
/// An EtherType that is nobody's: experimental (IEEE 802).
const ODD: u16 = 0x88b5;

fn udp(ip: impl Into<IpAddr>, port: u16) -> UdpSocket {
    let socket = UdpSocket::bind((ip.into(), port)).unwrap();
    socket.set_read_timeout(Some(2 * SECOND)).unwrap();
    socket
}

/// One datagram each way; gives the one-way time of the first, by the kernel's receive stamp.
fn one_way(lab: &Lab, from: usize, to: usize, ip: fn(u8) -> IpAddr, size: usize) -> u64 {
    let far = lab.nodes[to].run(|| udp(ip(to as u8 + 1), 7000));
    stamp(&far);
    let near = lab.nodes[from].run(|| udp(ip(from as u8 + 1), 7000));
    let payload: Vec<u8> = (0..size).map(|i| i as u8).collect();
    let sent = real_ns();
    near.send_to(&payload, (ip(to as u8 + 1), 7000)).unwrap();
    let mut buffer = [0; 2048];
    let (len, at) = receive(&far, &mut buffer).expect("the datagram arrives");
    assert_eq!(buffer[..len], payload);
    at - sent
}

#[test]
fn ipv4_and_ipv6_take_the_delay_and_arp_as_well() {
    let lab = Lab::new(&[0, 1]);
    lab.apply(link(0, 1, 5 * MS));
    for ip in [|n| v4(n).into(), |n| v6(n).into()] {
        let first = one_way(&lab, 0, 1, ip, 100);
        assert!(
            first >= 15 * MS,
            "{first}: request, answer and datagram, each 5 ms"
        );
        let known = one_way(&lab, 0, 1, ip, 100);
        assert!((5 * MS..7 * MS).contains(&known), "{known}");
    }
    let stats = lab.handle.snapshot().unwrap();
    assert_eq!((stats.early, stats.unintended.total()), (0, 0), "{stats:?}");
    assert!(stats.lateness.count >= 8);
}

/// The way is warmed before a lone frame is due, and no node and no count sees how.
#[test]
fn lone_frames_are_rehearsed_unseen() {
    let lab = Lab::new(&[0, 1]);
    lab.apply(link(0, 1, 5 * MS));
    let free_slots = lab.handle.snapshot().unwrap().free_slots;
    let receiver = lab.nodes[1].run(|| Raw::new(libc::ETH_P_ALL as u16));
    receiver.timeout(Duration::from_millis(200));
    let sender = lab.nodes[0].run(|| Raw::new(0));
    let lone = frame(mac_of(PortId(1)), mac_of(PortId(0)), ODD, &[7; 60]);
    // Now and then the thread wakes up too late for it.
    eventually("a rehearsal comes to its end", || {
        sender.send(&lone);
        thread::sleep(Duration::from_millis(10));
        (lab.handle.snapshot().unwrap().rehearsals > 0).then_some(())
    });
    let stats = eventually("all is delivered", || {
        let stats = lab.handle.snapshot().unwrap();
        (stats.totals.held == 0 && stats.unintended.backlog == 0).then_some(stats)
    });
    let c = stats.totals.counters;
    assert_eq!(
        (c.delivered, c.delivered),
        (stats.injected, stats.delivered)
    );
    assert_eq!(
        (stats.unintended.total(), stats.foreign),
        (0, 0),
        "{stats:?}"
    );
    assert_eq!(stats.free_slots, free_slots);
    let decoy = [0x02, 0xc5, 0xff, 0x01];
    let strange = std::iter::from_fn(|| receiver.next())
        .find(|(got, _)| got[..4] == decoy || got[6..10] == decoy);
    assert_eq!(strange, None);
}

#[test]
fn full_mtu_and_fragments() {
    let lab = Lab::new(&[0, 1]);
    lab.apply(link(0, 1, MS));
    assert_eq!(
        one_way(&lab, 0, 1, |n| v4(n).into(), 1472) / (10 * MS),
        0,
        "1500 bytes of IP"
    );
    one_way(&lab, 0, 1, |n| v6(n).into(), 1452);
    one_way(&lab, 0, 1, |n| v4(n).into(), 2000);
    assert_eq!(lab.handle.snapshot().unwrap().unintended.total(), 0);
}

#[test]
fn any_frame_arrives_byte_for_byte() {
    let lab = Lab::new(&[0, 1]);
    lab.apply(link(0, 1, MS));
    let payload: Vec<u8> = (0..1500).map(|i| (i * 7) as u8).collect();
    let (near, far) = (mac_of(PortId(0)), mac_of(PortId(1)));
    let cases = [
        frame(far, near, ODD, &payload),
        frame(far, near, ODD, &payload[..46]),
        // The shortest there can be; real Ethernet would have padded it.
        frame(far, near, ODD, b"xy"),
        frame(BROADCAST, near, ODD, &payload[..100]),
        // IS-IS: length instead of a type, then LLC; a multicast address.
        frame([0x01, 0x80, 0xc2, 0, 0, 0x14], near, 100, &payload[..100]),
        // A source that lies: the port is known from the interface.
        frame(far, mac_of(PortId(77)), ODD, &payload[..64]),
        // Not our address scheme at all; the only edge takes it.
        frame([2, 0, 0, 0, 0, 1], near, ODD, &payload[..64]),
    ];
    let receiver = lab.nodes[1].run(|| Raw::new(libc::ETH_P_ALL as u16));
    let sender = lab.nodes[0].run(|| Raw::new(libc::ETH_P_ALL as u16));
    for case in &cases {
        sender.send(case);
        let got = std::iter::from_fn(|| receiver.next())
            .map(|(got, _)| got)
            .find(|got| got[6..12] == case[6..12] && got[12..14] == case[12..14])
            .unwrap_or_else(|| panic!("{case:02x?} does not arrive"));
        assert_eq!(&got, case);
    }
}

#[test]
fn a_vlan_tag_of_the_nodes_own_is_kept() {
    let lab = Lab::new(&[0, 1]);
    lab.apply(link(0, 1, MS));
    // Priority 5, VLAN 100, then an odd type.
    let tagged = [&[0x81, 0, 0xa0, 100][..], &ODD.to_be_bytes(), &[42; 60]].concat();
    let whole = [&mac_of(PortId(1))[..], &mac_of(PortId(0)), &tagged].concat();
    let receiver = lab.nodes[1].run(|| Raw::new(libc::ETH_P_ALL as u16));
    show_tags(&receiver);
    lab.nodes[0]
        .run(|| Raw::new(libc::ETH_P_ALL as u16))
        .send(&whole);
    let (got, tci) = std::iter::from_fn(|| Some(receive_with_tag(&receiver)))
        .take(20)
        .find(|(got, _)| got.len() > 14 && got[12..14] == ODD.to_be_bytes())
        .expect("the tagged frame arrives");
    assert_eq!(tci, Some(0xa064));
    assert_eq!(got[14..], [42; 60]);
    assert_eq!(
        lab.handle
            .edge_stats(PortId(0), PortId(1))
            .unwrap()
            .unwrap()
            .held,
        0
    );
}

/// A super-frame inside of a VLAN of the node's own is cut up, and each frame has the tag.
#[test]
fn a_tagged_train_is_cut_up() {
    let lab = Lab::new(&[0, 1]);
    lab.apply(link(0, 1, MS));
    let receiver = lab.nodes[1].run(|| Raw::new(libc::ETH_P_ALL as u16));
    show_tags(&receiver);
    let payload: Vec<u8> = (0..3001u32).map(|n| n as u8).collect();
    let total = (20 + 20 + payload.len()) as u16;
    let mut ip = vec![0x45, 0, 0, 0, 0, 7, 0x40, 0, 64, 6, 0, 0];
    ip[2..4].copy_from_slice(&total.to_be_bytes());
    ip.extend([10, 0, 0, 1, 10, 0, 0, 2]);
    let mut tcp = vec![0; 20];
    tcp[12] = 5 << 4;
    tcp[13] = 0x18;
    let tag = [0x81, 0, 0xa0, 100, 0x08, 0];
    let addresses = [mac_of(PortId(1)), mac_of(PortId(0))].concat();
    let whole = [&addresses[..], &tag, &ip, &tcp, &payload].concat();
    // `struct virtio_net_hdr`: the checksum is to be completed; TCP over IPv4 in pieces of 1448 bytes.
    let mut header = vec![1u8, 1];
    for field in [58u16, 1448, 38, 16] {
        header.extend(field.to_ne_bytes());
    }
    let sender = lab.nodes[0].run(|| Raw::new(libc::ETH_P_ALL as u16));
    packet_option(&sender, PACKET_VNET_HDR);
    sender.send(&[header, whole].concat());
    let mut got = Vec::new();
    while got.len() < payload.len() {
        let (frame, tci) = receive_with_tag(&receiver);
        assert!(!frame.is_empty(), "{} of 3001 bytes came", got.len());
        if frame.len() > 54 && frame[26..34] == [10, 0, 0, 1, 10, 0, 0, 2] {
            assert_eq!(tci, Some(0xa064));
            let sequence = u32::from_be_bytes(frame[38..42].try_into().unwrap());
            assert_eq!(sequence as usize, got.len(), "in order");
            assert!(frame.len() <= 14 + 40 + 1448);
            got.extend_from_slice(&frame[54..]);
        }
    }
    assert_eq!(got, payload);
    let stats = lab.handle.snapshot().unwrap();
    assert_eq!(stats.unintended.total(), 0, "{:?}", stats.unintended);
}

const PACKET_VNET_HDR: i32 = 15;

fn packet_option(socket: &Raw, option: i32) {
    let one = 1i32;
    // SAFETY: pointer and length describe a local.
    let set = unsafe {
        let fd = socket.as_raw_fd();
        libc::setsockopt(fd, libc::SOL_PACKET, option, (&raw const one).cast(), 4)
    };
    assert_eq!(set, 0);
}

/// The kernel shows a tag apart from the frame.
fn show_tags(receiver: &Raw) {
    packet_option(receiver, libc::PACKET_AUXDATA);
}

/// A frame without its tag, and the tag.
fn receive_with_tag(raw: &Raw) -> (Vec<u8>, Option<u16>) {
    let mut buffer = vec![0u8; 2048];
    let mut control = [0u64; 16];
    let mut iov = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: 2048,
    };
    // SAFETY: pointers to locals; walks what the kernel wrote.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut iov;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control);
        let len = libc::recvmsg(raw.as_raw_fd(), &raw mut message, 0);
        assert!(len > 0, "nothing arrived");
        buffer.truncate(len as usize);
        let mut tag = None;
        let mut c = libc::CMSG_FIRSTHDR(&raw const message);
        while !c.is_null() {
            if (*c).cmsg_level == libc::SOL_PACKET && (*c).cmsg_type == libc::PACKET_AUXDATA {
                let aux = libc::CMSG_DATA(c)
                    .cast::<libc::tpacket_auxdata>()
                    .read_unaligned();
                if aux.tp_status & libc::TP_STATUS_VLAN_VALID != 0 {
                    tag = Some(aux.tp_vlan_tci);
                }
            }
            c = libc::CMSG_NXTHDR(&raw const message, c);
        }
        (buffer, tag)
    }
}

#[test]
fn multicast_group() {
    let lab = Lab::new(&[0, 1]);
    lab.apply(link(0, 1, MS));
    let group = "239.1.2.3".parse().unwrap();
    let receiver = lab.nodes[1].run(|| {
        let socket = udp([0, 0, 0, 0], 7001);
        socket.join_multicast_v4(&group, &v4(2)).unwrap();
        socket
    });
    lab.nodes[0]
        .run(|| udp(v4(1), 7001))
        .send_to(b"all", (group, 7001))
        .unwrap();
    let mut buffer = [0; 16];
    let (len, from) = receiver.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..len], from.ip()), (&b"all"[..], v4(1).into()));
}

/// Send so many bytes of a known sequence and compare at the far end.
fn tcp_bulk(lab: &Lab, ip: fn(u8) -> IpAddr, bytes: usize) -> Duration {
    let listener = lab.nodes[1].run(|| TcpListener::bind((ip(2), 7002)).unwrap());
    let stream = lab.nodes[0]
        .run(|| TcpStream::connect_timeout(&SocketAddr::new(ip(2), 7002), 5 * SECOND).unwrap());
    let (mut accepted, _) = listener.accept().unwrap();
    for s in [&stream, &accepted] {
        s.set_read_timeout(Some(10 * SECOND)).unwrap();
        s.set_write_timeout(Some(10 * SECOND)).unwrap();
    }
    let start = Instant::now();
    let sender = thread::spawn(move || {
        let mut stream = stream;
        let mut hash = DefaultHasher::new();
        let mut sent = 0;
        let mut chunk = vec![0u8; 60_000];
        while sent < bytes {
            let n = chunk.len().min(bytes - sent);
            for (i, byte) in chunk[..n].iter_mut().enumerate() {
                *byte = ((sent + i) as u64)
                    .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                    .to_be_bytes()[0];
            }
            hash.write(&chunk[..n]);
            stream.write_all(&chunk[..n]).unwrap();
            sent += n;
        }
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        hash.finish()
    });
    let mut all = Vec::with_capacity(bytes);
    accepted.read_to_end(&mut all).unwrap();
    let took = start.elapsed();
    let mut hash = DefaultHasher::new();
    // Hashed in the same pieces as they were sent.
    all.chunks(60_000).for_each(|c| hash.write(c));
    assert_eq!((all.len(), hash.finish()), (bytes, sender.join().unwrap()));
    took
}

#[test]
fn tcp_bulk_transfer_has_good_checksums() {
    let lab = Lab::new(&[0, 1]);
    lab.apply(link(0, 1, MS));
    tcp_bulk(&lab, |n| v4(n).into(), 30_000_000);
    tcp_bulk(&lab, |n| v6(n).into(), 30_000_000);
    let errors = lab.nodes[1].run(|| snmp("Tcp", "InCsumErrors") + snmp("Tcp", "InErrs"));
    assert_eq!(errors, 0);
    let stats = lab.handle.snapshot().unwrap();
    assert_eq!(stats.unintended.total(), 0, "{:?}", stats.unintended);
    // Nothing here acts on single frames: they pass by the dozen.
    assert!(stats.delivered < 20_000, "{}", stats.delivered);
    let free = eventually("all is delivered", || {
        let s = lab.handle.snapshot().unwrap();
        (s.totals.held == 0).then_some(s.free_slots)
    });
    assert_eq!(free, 16_384, "no slot gets lost");
}

#[test]
fn trains_are_cut_up_where_an_edge_acts_on_frames() {
    let slow = Impairment {
        rate_bps: NonZeroU64::new(500_000_000),
        queue: QueueLimit { bytes: 2_000_000 },
        ..Impairment::delay_only(MS)
    };
    let lossy = Impairment {
        loss: Loss::Bernoulli { loss_ratio: 0.001 },
        ..Impairment::delay_only(MS)
    };
    for impairment in [slow, lossy] {
        let lab = Lab::new(&[0, 1]);
        lab.apply(vec![
            set(0, 1, impairment),
            set(1, 0, Impairment::delay_only(MS)),
        ]);
        let bytes = 10_000_000;
        tcp_bulk(&lab, |n| v4(n).into(), bytes);
        tcp_bulk(&lab, |n| v6(n).into(), bytes);
        let errors = lab.nodes[1].run(|| snmp("Tcp", "InCsumErrors") + snmp("Tcp", "InErrs"));
        assert_eq!(errors, 0);
        let stats = lab
            .handle
            .edge_stats(PortId(0), PortId(1))
            .unwrap()
            .unwrap();
        let frames = stats.counters.offered as usize;
        assert!(frames >= 2 * bytes / 1448, "{frames} single frames");
        let mean = stats.counters.offered_bytes as usize / frames;
        assert!(mean <= 1514, "{mean} bytes");
        let all = lab.handle.snapshot().unwrap();
        assert_eq!(all.unintended.total(), 0, "{:?}", all.unintended);
        let free = eventually("all is delivered", || {
            let s = lab.handle.snapshot().unwrap();
            (s.totals.held == 0).then_some(s.free_slots)
        });
        assert_eq!(free, 16_384, "no slot gets lost");
    }
}

#[test]
fn rate_holds_tcp_back() {
    let lab = Lab::new(&[0, 1]);
    let slow = Impairment {
        rate_bps: NonZeroU64::new(50_000_000),
        queue: QueueLimit { bytes: 200_000 },
        ..Impairment::delay_only(MS)
    };
    lab.apply(vec![set(0, 1, slow), set(1, 0, Impairment::delay_only(MS))]);
    let took = tcp_bulk(&lab, |n| v4(n).into(), 5_000_000);
    // 5 MB of data in frames of 1514 bytes with 1448 of data: 41.8 Mbit.
    assert!(took >= Duration::from_millis(830), "{took:?}");
    assert!(took < Duration::from_millis(1500), "{took:?}");
}

#[test]
fn two_shards() {
    let lab = Lab::new(&[3, 401, 799]);
    assert_ne!(
        lab.relay.shard_ns(PortId(3)).unwrap().inode().unwrap(),
        lab.relay.shard_ns(PortId(401)).unwrap().inode().unwrap()
    );
    let mut changes = link(3, 401, MS);
    changes.extend(link(3, 799, 2 * MS));
    lab.apply(changes);
    for (to, at_least) in [(1, MS), (2, 2 * MS)] {
        one_way(&lab, 0, to, |n| v4(n).into(), 1472);
        let known = one_way(&lab, 0, to, |n| v4(n).into(), 1472);
        assert!((at_least..at_least + 2 * MS).contains(&known), "{known}");
    }
}

#[test]
fn a_port_with_several_edges() {
    let lab = Lab::new(&[0, 1, 2, 3]);
    let delay = Impairment::delay_only(MS);
    lab.apply(vec![
        set(0, 1, delay),
        set(0, 2, delay),
        set(1, 0, delay),
        set(2, 0, delay),
    ]);
    let receivers: Vec<Raw> = (1..4).map(|n| lab.nodes[n].run(|| Raw::new(ODD))).collect();
    receivers
        .iter()
        .for_each(|r| r.timeout(Duration::from_millis(200)));
    let sender = lab.nodes[0].run(|| Raw::new(ODD));
    let send = |to: [u8; 6], n: u8| sender.send(&frame(to, mac_of(PortId(0)), ODD, &[n; 50]));
    send(mac_of(PortId(2)), 1);
    send(BROADCAST, 2);
    send(mac_of(PortId(3)), 3);
    send([2, 9, 9, 9, 9, 9], 4);
    let got: Vec<Vec<u8>> = receivers
        .iter()
        .map(|r| {
            std::iter::from_fn(|| r.next())
                .map(|(f, _)| f[14])
                .collect()
        })
        .collect();
    assert_eq!(got, [vec![2], vec![1, 2], vec![]]);
    let stats = lab.handle.snapshot().unwrap();
    assert!(
        stats.totals.dropped_no_edge >= 2,
        "two of ours, and perhaps the nodes' own"
    );
}

#[test]
fn without_an_edge_nothing_arrives() {
    let lab = Lab::new(&[0, 1]);
    let receiver = lab.nodes[1].run(|| Raw::new(ODD));
    receiver.timeout(Duration::from_millis(200));
    let sender = lab.nodes[0].run(|| Raw::new(ODD));
    for to in [mac_of(PortId(1)), BROADCAST] {
        sender.send(&frame(to, mac_of(PortId(0)), ODD, &[1; 50]));
    }
    assert_eq!(receiver.next(), None);
    assert!(lab.handle.snapshot().unwrap().totals.dropped_no_edge >= 2);
    // One direction only: the other stays shut.
    lab.apply(vec![set(1, 0, Impairment::delay_only(MS))]);
    sender.send(&frame(BROADCAST, mac_of(PortId(0)), ODD, &[1; 50]));
    assert_eq!(receiver.next(), None);
}

#[test]
fn two_relays_do_not_see_each_other() {
    let (a, b) = (Lab::new(&[0, 1]), Lab::new(&[0, 1]));
    a.apply(link(0, 1, MS));
    b.apply(link(0, 1, MS));
    let receivers = [&a, &b].map(|lab| lab.nodes[1].run(|| Raw::new(ODD)));
    for (lab, n) in [(&a, 1), (&b, 2)] {
        let sender = lab.nodes[0].run(|| Raw::new(ODD));
        sender.send(&frame(BROADCAST, mac_of(PortId(0)), ODD, &[n; 50]));
    }
    for (receiver, n) in receivers.iter().zip([1, 2]) {
        assert_eq!(receiver.next().unwrap().0[14], n);
        receiver.timeout(Duration::from_millis(100));
        assert_eq!(receiver.next(), None);
    }
}

#[test]
fn handover_is_one_instant_and_touches_no_interface() {
    let lab = Lab::new(&[0, 1, 2]);
    lab.apply(link(0, 1, 3 * MS));
    let links = || {
        lab.nodes
            .iter()
            .map(|n| n.run(link_state))
            .collect::<Vec<_>>()
    };
    let before = links();
    let receivers = [1, 2].map(|n| lab.nodes[n].run(|| Raw::new(ODD)));
    let (stop, stopped) = mpsc::channel::<()>();
    let sender = lab.nodes[0].run(|| Raw::new(ODD));
    let sending = thread::spawn(move || {
        let mut sent = Vec::new();
        let mut next = Instant::now();
        while stopped.try_recv().is_err() {
            let n = sent.len() as u32;
            let payload = [&n.to_be_bytes()[..], &[0; 50]].concat();
            let before = mono_ns();
            sender.send(&frame(BROADCAST, mac_of(PortId(0)), ODD, &payload));
            sent.push((before, mono_ns()));
            next += Duration::from_micros(200);
            while Instant::now() < next {
                thread::yield_now();
            }
        }
        sent
    });
    thread::sleep(Duration::from_millis(100));
    let mut changes = vec![remove(0, 1), remove(1, 0)];
    changes.extend(link(0, 2, 3 * MS));
    let at = mono_ns() + 100 * MS;
    let applied = lab.handle.apply(EdgeUpdate { changes }, Some(at)).unwrap();
    assert_eq!(applied.at_ns, at);
    assert_eq!((applied.changes.added, applied.changes.removed), (2, 2));
    thread::sleep(Duration::from_millis(100));
    stop.send(()).unwrap();
    let sent = sending.join().unwrap();
    let mut arrived = BTreeMap::new();
    for (i, receiver) in receivers.iter().enumerate() {
        receiver.timeout(Duration::from_millis(100));
        while let Some((f, _)) = receiver.next() {
            let n = u32::from_be_bytes(f[14..18].try_into().unwrap());
            assert_eq!(arrived.insert(n, i), None, "frame {n} arrived twice");
        }
    }
    assert_eq!(
        arrived.len(),
        sent.len(),
        "none lost: those in flight arrived"
    );
    for (n, (before, after)) in sent.iter().enumerate() {
        // Captured between `before` and `after`: only a frame in whose send the instant fell may
        // have gone either way.
        if *after < at {
            assert_eq!(
                arrived[&(n as u32)],
                0,
                "frame {n}, {} ns before",
                at - after
            );
        } else if *before >= at {
            assert_eq!(
                arrived[&(n as u32)],
                1,
                "frame {n}, {} ns after",
                before - at
            );
        }
    }
    assert!(arrived.values().any(|&i| i == 0) && arrived.values().any(|&i| i == 1));
    assert_eq!(links(), before);
}

/// Everything the kernel says about the node's interfaces.
fn link_state() -> String {
    let mut socket = constel_host::netlink::Socket::open().unwrap();
    socket
        .links()
        .unwrap()
        .iter()
        .map(|l| format!("{l:?}\n"))
        .collect()
}

#[test]
fn bad_updates_change_nothing() {
    let lab = Lab::new(&[0, 1]);
    lab.apply(link(0, 1, MS));
    let changes = vec![remove(0, 1), set(0, 9, Impairment::delay_only(1))];
    let error = lab.handle.apply(EdgeUpdate { changes }, None).unwrap_err();
    let RelayError::Update(error) = error else {
        panic!("{error}")
    };
    assert!(matches!(
        error.errors[..],
        [ChangeError::NoSuchPort {
            port: PortId(9),
            ..
        }]
    ));
    let changes = vec![remove(0, 1), remove(1, 0)];
    lab.handle
        .apply(
            EdgeUpdate {
                changes: changes.clone(),
            },
            None,
        )
        .unwrap();
    let error = lab.handle.apply(EdgeUpdate { changes }, None).unwrap_err();
    assert!(error.to_string().contains("does not exist"), "{error}");
    assert_eq!(lab.handle.all_edges().unwrap(), []);
    lab.handle.stop();
    assert!(matches!(lab.handle.snapshot(), Err(RelayError::Stopped)));
    let update = EdgeUpdate {
        changes: link(0, 1, MS),
    };
    assert!(matches!(
        lab.handle.apply(update, None),
        Err(RelayError::Stopped)
    ));
}

#[test]
fn configuration_that_cannot_be() {
    let ports = |ports| RelayConfig::new("x", ports, 1);
    let slots = |slots| RelayConfig { slots, ..ports(1) };
    for bad in [ports(0), ports(65_537), slots(0), slots(1000), slots(3000)] {
        let error = Relay::new(bad.clone()).unwrap_err();
        assert!(matches!(error, RelayError::Config(_)), "{bad:?}: {error}");
    }
}

#[test]
fn super_frames_are_counted_not_silent() {
    let lab = Lab::with(
        RelayConfig {
            slots: 16_384,
            ..RelayConfig::new("gso", 3, 1)
        },
        &[0, 1],
    );
    lab.apply(link(2, 1, MS));
    // A second port, made without the care of `plug`.
    let relay = &lab.relay;
    let node = Node::new();
    let host = VethEnd {
        name: "h2",
        ifindex: Some(relay.host_ifindex(PortId(2))),
        up: true,
        ..VethEnd::default()
    };
    let end = VethEnd {
        name: "eth0",
        netns: Some(node.ns.fd()),
        ifindex: Some(ETH0),
        mac: Some(Mac(mac_of(PortId(2)))),
        ..VethEnd::default()
    };
    let mut batch = Batch::new();
    batch.create_veth(&host, &end).unwrap();
    Socket::open_in(relay.shard_ns(PortId(2)).unwrap())
        .unwrap()
        .send(&mut batch)
        .unwrap();
    relay.attach(&[PortId(2)]).unwrap();
    node.addresses(ETH0, 3);
    // UDP in one piece of many datagrams, as with UDP_SEGMENT (103).
    let sender = node.run(|| udp(v4(3), 7003));
    let segment: libc::c_int = 1000;
    // SAFETY: pointer and length describe a local.
    let set = unsafe {
        libc::setsockopt(
            sender.as_raw_fd(),
            libc::SOL_UDP,
            103,
            (&raw const segment).cast(),
            size_of_val(&segment) as u32,
        )
    };
    assert_eq!(set, 0);
    sender.send_to(&[0; 10_000], (v4(2), 7003)).unwrap();
    eventually("a super-frame is dropped and counted", || {
        (lab.handle.snapshot().unwrap().unintended.gso > 0).then_some(())
    });
}

#[test]
fn loss_is_the_scenarios_and_counted() {
    let lab = Lab::new(&[0, 1]);
    let lossy = Impairment {
        loss: Loss::Bernoulli { loss_ratio: 0.5 },
        ..Impairment::delay_only(MS)
    };
    lab.apply(vec![set(0, 1, lossy)]);
    let receiver = lab.nodes[1].run(|| Raw::new(ODD));
    receiver.timeout(Duration::from_millis(200));
    let sender = lab.nodes[0].run(|| Raw::new(ODD));
    for n in 0..200u8 {
        sender.send(&frame(BROADCAST, mac_of(PortId(0)), ODD, &[n; 50]));
    }
    let got = std::iter::from_fn(|| receiver.next()).count();
    let edge = lab
        .handle
        .edge_stats(PortId(0), PortId(1))
        .unwrap()
        .unwrap()
        .counters;
    assert!((60..140).contains(&got), "{got} of 200");
    assert_eq!(edge.offered, edge.delivered + edge.dropped_loss);
    assert!(edge.delivered >= got as u64);
    assert_eq!(lab.handle.snapshot().unwrap().unintended.total(), 0);
}

#[test]
fn effects_are_real_in_packets() {
    let lab = Lab::new(&[0, 1]);
    lab.apply(link(0, 1, MS));
    let (from, to) = (PortId(0), PortId(1));
    let set = |effects: Effects| {
        let effects = Some(effects);
        let change = EffectsChange::Edge { from, to, effects };
        lab.handle.apply_effects(vec![change]).unwrap();
    };
    let pattern = |frames| Some(LossLaw::Pattern { frames });
    set(Effects {
        loss: pattern(vec![(3, 3), (5, 6)]),
        ..Effects::default()
    });
    let receiver = lab.nodes[1].run(|| Raw::new(ODD));
    receiver.timeout(Duration::from_millis(200));
    let sender = lab.nodes[0].run(|| Raw::new(ODD));
    let before = lab.handle.edge_stats(from, to).unwrap().unwrap().counters;
    let payload = |n| [n; 50];
    for n in 1..=8u8 {
        sender.send(&frame(BROADCAST, mac_of(from), ODD, &payload(n)));
    }
    let got = std::iter::from_fn(|| receiver.next()).count();
    let after = lab.handle.edge_stats(from, to).unwrap().unwrap().counters;
    // The nodes' own chatter may be among the frames counted.
    assert_eq!(after.dropped_loss - before.dropped_loss, 3);
    assert!(got >= 5, "{got}");
    set(Effects {
        duplicate_ratio: Some(1.0),
        corrupt_ratio: Some(1.0),
        ..Effects::default()
    });
    sender.send(&frame(BROADCAST, mac_of(from), ODD, &payload(0)));
    let got: Vec<Vec<u8>> = std::iter::from_fn(|| receiver.next())
        .map(|(bytes, _)| bytes)
        .collect();
    assert_eq!(got.len(), 2);
    assert_eq!(got[0], got[1], "a copy is a copy");
    let flipped: u32 = got[0][14..].iter().map(|b| b.count_ones()).sum();
    assert_eq!(flipped, 1);
    // A step of the topology leaves them; taken away, all is as planned.
    lab.apply(link(0, 1, 2 * MS));
    let known = lab.handle.effects(from, to).unwrap();
    assert_eq!(known.in_force, known.own);
    assert_eq!(known.own.corrupt_ratio, Some(1.0));
    let effects = None;
    let change = EffectsChange::Edge { from, to, effects };
    lab.handle.apply_effects(vec![change]).unwrap();
    assert!(lab.handle.effects(from, to).unwrap().in_force.is_empty());
}

#[test]
fn corruption_is_seen_by_checksums() {
    let lab = Lab::new(&[0, 1]);
    lab.apply(link(0, 1, MS));
    one_way(&lab, 0, 1, |n| v4(n).into(), 1);
    let effects = Some(Effects {
        corrupt_ratio: Some(1.0),
        ..Effects::default()
    });
    let port = PortId(0);
    let change = EffectsChange::Port { port, effects };
    lab.handle.apply_effects(vec![change]).unwrap();
    let receiver = lab.nodes[1].run(|| udp(v4(2), 7005));
    receiver
        .set_read_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    let sender = lab.nodes[0].run(|| udp(v4(1), 7005));
    for _ in 0..50 {
        // 1,000 zeros: nearly every flip is in the payload.
        sender.send_to(&[0; 1000], (v4(2), 7005)).unwrap();
    }
    let mut buffer = [0; 2000];
    assert!(receiver.recv(&mut buffer).is_err(), "no damaged datagram");
    let edge = lab
        .handle
        .edge_stats(PortId(0), PortId(1))
        .unwrap()
        .unwrap();
    assert!(edge.counters.corrupted >= 50);
}

#[test]
fn an_idle_relay_sleeps() {
    let lab = Lab::new(&[0, 1]);
    lab.apply(link(0, 1, MS));
    // Let the nodes' own start-up chatter pass.
    thread::sleep(2 * SECOND);
    let before = lab.handle.snapshot().unwrap();
    thread::sleep(2 * SECOND);
    let after = lab.handle.snapshot().unwrap();
    let share = (after.cpu_ns - before.cpu_ns) as f64 / (after.at_ns - before.at_ns) as f64;
    assert!(share < 0.005, "{:.3} % of a core", share * 100.0);
}

#[test]
fn many_frames_at_a_thousand_per_second_are_never_early() {
    let lab = Lab::new(&[0, 1]);
    lab.apply(link(0, 1, 5 * MS));
    one_way(&lab, 0, 1, |n| v4(n).into(), 10);
    let receiver = lab.nodes[1].run(|| udp(v4(2), 7004));
    stamp(&receiver);
    let sender = lab.nodes[0].run(|| udp(v4(1), 7004));
    sender.connect((v4(2), 7004)).unwrap();
    let sending = thread::spawn(move || {
        for _ in 0..1000 {
            sender.send(&real_ns().to_be_bytes()).unwrap();
            thread::sleep(Duration::from_micros(900));
        }
    });
    let mut errors: Vec<i64> = (0..1000)
        .map(|_| {
            let mut buffer = [0; 64];
            let (_, at) = receive(&receiver, &mut buffer).expect("none is lost");
            let sent = u64::from_be_bytes(buffer[..8].try_into().unwrap());
            at as i64 - sent as i64 - 5 * MS as i64
        })
        .collect();
    sending.join().unwrap();
    errors.sort_unstable();
    assert!(errors[0] > 0, "{} ns early", -errors[0]);
    let median = errors[500];
    assert!(
        median < 1_000_000,
        "{median} ns late in the median: this machine is overloaded"
    );
    assert_eq!(lab.handle.snapshot().unwrap().early, 0);
}

#[test]
fn a_relay_that_was_never_started_goes_as_well() {
    let config = RelayConfig {
        slots: 1024,
        ..RelayConfig::new("idle", 1, 1)
    };
    let relay = Relay::new(config).unwrap();
    let node = Node::new();
    node.port(&relay, PortId(0), 0, 1);
    drop(node);
    // The node is gone, and its port with it: attaching again must say so.
    eventually("the host end goes with the node", || {
        relay.attach(&[PortId(0)]).err()
    });
}

#[test]
fn under_churn_every_frame_and_every_slot_is_accounted_for() {
    const SLOTS: u32 = 8192;
    let config = RelayConfig {
        slots: SLOTS,
        ..RelayConfig::new("churn", 4, 1)
    };
    let lab = Lab::with(config, &[0, 1, 2, 3]);
    let slow = Impairment {
        rate_bps: NonZeroU64::new(20_000_000),
        queue: QueueLimit { bytes: 3000 },
        loss: Loss::Bernoulli { loss_ratio: 0.1 },
        ..Impairment::delay_only(MS)
    };
    let (stop, stopped) = mpsc::channel::<()>();
    let sender = lab.nodes[0].run(|| Raw::new(ODD));
    let sending = thread::spawn(move || {
        let mut n = 0u32;
        while stopped.try_recv().is_err() {
            let to = if n.is_multiple_of(3) {
                BROADCAST
            } else {
                mac_of(PortId(1 + n % 3))
            };
            sender.send(&frame(to, mac_of(PortId(0)), ODD, &[n as u8; 300]));
            n += 1;
            if n.is_multiple_of(20) {
                thread::sleep(Duration::from_micros(300));
            }
        }
    });
    for n in 0..400u32 {
        let to = 1 + n % 3;
        let there = lab.handle.edge_stats(PortId(0), PortId(to)).unwrap();
        let there = there.is_some_and(|e| e.impairment.is_some());
        let change = match (there, n % 4) {
            (true, 0) => remove(0, to),
            (_, 1) => set(0, to, slow),
            _ => set(0, to, Impairment::delay_only(u64::from(n % 5) * MS)),
        };
        lab.apply(vec![change]);
        thread::sleep(Duration::from_millis(1));
    }
    stop.send(()).unwrap();
    sending.join().unwrap();
    let end = eventually("all is delivered", || {
        let stats = lab.handle.snapshot().unwrap();
        let done = stats.totals.held == 0 && stats.unintended.backlog == 0;
        done.then_some(stats)
    });
    let c = end.totals.counters;
    assert_eq!(c.offered, c.delivered + c.dropped());
    assert_eq!((c.delivered, c.delivered), (end.injected, end.delivered));
    assert!(
        c.dropped_loss > 0 && c.dropped_queue > 0 && c.delivered > 1000,
        "{c:?}"
    );
    assert_eq!(
        (end.unintended.total(), end.foreign, end.early),
        (0, 0, 0),
        "{end:?}"
    );
    assert_eq!(end.free_slots, SLOTS as usize, "no slot is lost");
    let edges = lab.handle.all_edges().unwrap();
    assert_eq!(edges.len(), end.totals.edges);
}

/// A port that floods an edge with a long delay comes to hold its share of the slots, and no more; another port's
/// frames all arrive meanwhile.
#[test]
fn a_port_that_floods_leaves_slots_to_the_others() {
    let config = RelayConfig {
        slots: 4096,
        ..RelayConfig::new("test", 4, 1)
    };
    let lab = Lab::with(config, &[0, 1, 2, 3]);
    // What is sent stays inside for a second.
    lab.apply([link(0, 1, 1000 * MS), link(2, 3, MS)].concat());
    let flood = lab.nodes[0].run(|| Raw::new(0x88b5));
    let frame_a = frame(mac_of(PortId(1)), mac_of(PortId(0)), 0x88b5, &[1; 100]);
    let sent = 8000;
    let start = std::time::Instant::now();
    (0..sent).for_each(|_| flood.send(&frame_a));
    assert!(
        start.elapsed() < Duration::from_millis(900),
        "all inside at the same time"
    );
    let stats = lab.handle.snapshot().unwrap();
    let held = stats.totals.held as u64;
    assert!(
        stats.unintended.share > 0 && stats.unintended.pool == 0,
        "{stats:?}"
    );
    // The node's kernel may have had a word of its own with its neighbours.
    let known = held + stats.unintended.total();
    assert!((sent..sent + 10).contains(&known), "{known} of {sent}");
    assert!((1000..4096 - 64).contains(&held), "{held}");
    let lost_at = |port| lab.handle.dropped_share(PortId(port)).unwrap();
    assert_eq!(lost_at(0), stats.unintended.share, "counted at the port");
    assert_eq!(lost_at(2), 0);
    assert!(lab.handle.dropped_share(PortId(4)).is_err());

    let victim = lab.nodes[2].run(|| Raw::new(0x88b5));
    let receiver = lab.nodes[3].run(|| Raw::new(0x88b5));
    let frame_b = frame(mac_of(PortId(3)), mac_of(PortId(2)), 0x88b5, &[2; 100]);
    for _ in 0..200 {
        flood.send(&frame_a);
        victim.send(&frame_b);
    }
    for n in 0..200 {
        assert!(receiver.next().is_some(), "frame {n} of the quiet port");
    }
    // All come back, and the port may send again.
    let all_free = eventually("the flood is over", || {
        let s = lab.handle.snapshot().unwrap();
        (s.totals.held == 0).then_some(s.free_slots)
    });
    assert_eq!(all_free, 4096);
    let before = lab.handle.snapshot().unwrap().unintended.share;
    (0..200).for_each(|_| flood.send(&frame_a));
    let later = lab.handle.snapshot().unwrap();
    assert_eq!(later.unintended.share, before);
}

/// More ports flood than the relay has time for: it sheds their frames, not another's, and stays below the share of
/// real time beyond which the kernel stops it for 50 ms in each second.
#[test]
fn floods_neither_drop_nor_delay_anothers_frames() {
    const FLOODS: u32 = 8;
    let ports: Vec<u32> = (0..2 + 2 * FLOODS).collect();
    let lab = Lab::new(&ports);
    let limited = Impairment {
        rate_bps: NonZeroU64::new(1_000_000),
        queue: QueueLimit { bytes: 10_000 },
        ..Impairment::delay_only(MS)
    };
    let floods = (1..=FLOODS).map(|n| set(2 * n, 2 * n + 1, limited));
    lab.apply(floods.chain(link(0, 1, 10 * MS)).collect());
    let classes = vec!["victim".to_owned(), "flood".to_owned()];
    let class_of = ports.iter().map(|&port| u8::from(port > 1)).collect();
    lab.handle.classify(classes, class_of).unwrap();

    let stop = AtomicBool::new(false);
    let (sent, arrived) = thread::scope(|scope| {
        for n in 1..=FLOODS {
            let (stop, lab) = (&stop, &lab);
            scope.spawn(move || {
                let flood = lab.nodes[2 * n as usize].run(|| Raw::new(ODD));
                let to = mac_of(PortId(2 * n + 1));
                let bytes = frame(to, mac_of(PortId(2 * n)), ODD, &[1; 86]);
                while !stop.load(Ordering::Relaxed) {
                    flood.try_send(&bytes);
                }
            });
        }
        let victim = lab.nodes[0].run(|| Raw::new(ODD));
        let receiver = lab.nodes[1].run(|| Raw::new(ODD));
        roomy(&receiver);
        let bytes = frame(mac_of(PortId(1)), mac_of(PortId(0)), ODD, &[2; 100]);
        let start = Instant::now();
        let mut sent = 0;
        while start.elapsed() < 2 * SECOND {
            victim.send(&bytes);
            sent += 1;
            thread::sleep(Duration::from_millis(2));
        }
        stop.store(true, Ordering::Relaxed);
        let arrived = std::iter::from_fn(|| receiver.next()).take(sent);
        (sent, arrived.count())
    });
    let stats = lab.handle.snapshot().unwrap();
    assert_eq!(arrived, sent, "{stats:?}");
    let lost = stats.unintended;
    assert_eq!(
        (lost.pool, lost.ring),
        (0, 0),
        "only its own share: {lost:?}"
    );
    assert_eq!(lab.handle.dropped_share(PortId(0)).unwrap(), 0);
    let late = lab.handle.lateness_by_class().unwrap()[0].lateness;
    // Stopped for 50 ms in each second, it would be 45 ms.
    assert!(late.p99_ns < 30 * MS, "{late:?}");
}

#[test]
fn lateness_is_kept_by_class() {
    let lab = Lab::new(&[0, 1, 2, 3]);
    lab.apply([link(0, 1, MS), link(2, 3, MS)].concat());
    let names = vec!["a".to_owned(), "b".to_owned()];
    assert!(
        lab.handle.classify(names.clone(), vec![2]).is_err(),
        "no such class"
    );
    lab.handle.classify(names, vec![0, 0, 1, 1]).unwrap();
    for (from, to, count) in [(0, 1, 30u32), (2, 3, 50)] {
        let sender = lab.nodes[from].run(|| Raw::new(0x88b5));
        let receiver = lab.nodes[to].run(|| Raw::new(0x88b5));
        let (a, b) = (PortId(from as u32), PortId(to as u32));
        for _ in 0..count {
            sender.send(&frame(mac_of(b), mac_of(a), 0x88b5, &[0; 60]));
            receiver.next().unwrap();
        }
    }
    let classes = lab.handle.lateness_by_class().unwrap();
    let counts: Vec<_> = classes
        .iter()
        .map(|c| (c.class.as_str(), c.lateness.count))
        .collect();
    let all = lab.handle.snapshot().unwrap().lateness.count;
    assert!(counts[0].1 >= 30 && counts[1].1 >= 50, "{counts:?}");
    assert!(counts.iter().map(|c| c.1).sum::<u64>() <= all);
    for class in classes {
        assert!(class.own_lateness.max_ns <= class.lateness.max_ns);
    }
}

/// Everything on one processor: the relay's thread must let those run that send and receive, and
/// still nothing is early or lost.
#[test]
fn one_processor_is_enough() {
    let bound = std::thread::spawn(|| {
        // SAFETY: an all-zero set is valid; the call is about the calling thread, and threads that
        // it starts (the relay's) inherit it.
        let result = unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(0, &mut set);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
        };
        assert_eq!(result, 0);
        let lab = Lab::new(&[0, 1]);
        lab.apply(link(0, 1, 2 * MS));
        let sender = lab.nodes[0].run(|| Raw::new(0x88b5));
        let receiver = lab.nodes[1].run(|| Raw::new(0x88b5));
        let bytes = frame(mac_of(PortId(1)), mac_of(PortId(0)), 0x88b5, &[0; 100]);
        let count = 3000;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..count {
                    sender.send(&bytes);
                    if n % 10 == 9 {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
            });
            for n in 0..count {
                assert!(receiver.next().is_some(), "frame {n}");
            }
        });
        lab.handle.snapshot().unwrap()
    });
    let stats = bound.join().unwrap();
    assert_eq!(stats.early, 0);
    assert_eq!(stats.unintended.total(), 0, "{stats:?}");
    // Generous: other tests run at the same time.
    assert!(stats.own_lateness.p50_ns < 500_000, "{stats:?}");
}
