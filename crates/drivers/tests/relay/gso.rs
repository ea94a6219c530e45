//! TCP, and super-frames: whole, cut up, refused.

use super::*;
use constel_drivers::{Links, Plane};

/// A super-frame inside of a VLAN of the node's own is cut up, and each frame has the tag.
#[test]
fn a_tagged_gso_frame_is_cut_up() {
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
    set_option(&sender, libc::SOL_PACKET, PACKET_VNET_HDR, 1i32);
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
    let stats = lab.handle.relay_stats().unwrap();
    assert_eq!(
        stats.emulator_drops.total(),
        0,
        "{:?}",
        stats.emulator_drops
    );
}

const PACKET_VNET_HDR: i32 = 15;

/// Sends a number of bytes of a known sequence and compares at the far end.
fn tcp_bulk(lab: &Lab, ip: fn(u8) -> IpAddr, bytes: usize) -> Duration {
    let listener = lab.nodes[1].run(|| TcpListener::bind((ip(2), 7002)).unwrap());
    let stream = lab.nodes[0]
        .run(|| TcpStream::connect_timeout(&SocketAddr::new(ip(2), 7002), 5 * SECOND).unwrap());
    let (mut accepted, _) = listener.accept().unwrap();
    for s in [&stream, &accepted] {
        s.set_read_timeout(Some(10 * SECOND)).unwrap();
        s.set_write_timeout(Some(10 * SECOND)).unwrap();
    }
    // Fewer frames are in flight than the relay has slots, also when it has to wait for a processor.
    set_option(&stream, libc::SOL_SOCKET, libc::SO_SNDBUF, 2_000_000i32);
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
    let stats = lab.handle.relay_stats().unwrap();
    assert_eq!(
        stats.emulator_drops.total(),
        0,
        "{:?}",
        stats.emulator_drops
    );
    // No effect here acts on single frames: they pass by the dozen.
    assert!(stats.delivered < 20_000, "{}", stats.delivered);
    every_slot_comes_back(&lab, 16_384);
}

#[test]
fn gso_frames_are_cut_up_where_an_edge_acts_on_frames() {
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
        let all = lab.handle.relay_stats().unwrap();
        assert_eq!(all.emulator_drops.total(), 0, "{:?}", all.emulator_drops);
        every_slot_comes_back(&lab, 16_384);
    }
}

/// Frames of a stream that are due together go into their node as one, unless the relay is configured otherwise; either way
/// the far end has what was sent.
#[test]
fn frames_due_together_are_joined() {
    // A loss that takes next to nothing: frames go one by one, those of a GSO frame all at one moment.
    let by_frames = Impairment {
        loss: Loss::Bernoulli { loss_ratio: 1e-12 },
        ..Impairment::delay_only(MS)
    };
    for gro in [true, false] {
        let config = RelayConfig {
            slots: 16_384,
            gro,
            ..RelayConfig::new("gro", 2, 1)
        };
        let lab = Lab::with(config, &[0, 1]);
        lab.apply(vec![set(0, 1, by_frames), set(1, 0, by_frames)]);
        let bytes = 10_000_000;
        tcp_bulk(&lab, |n| v4(n).into(), bytes);
        tcp_bulk(&lab, |n| v6(n).into(), bytes);
        let errors = lab.nodes[1].run(|| snmp("Tcp", "InCsumErrors") + snmp("Tcp", "InErrs"));
        assert_eq!(errors, 0);
        let stats = lab.handle.relay_stats().unwrap();
        let frames = stats.totals.counters.delivered;
        assert!(frames >= 2 * bytes as u64 / 1448, "{frames} single frames");
        if gro {
            assert!(stats.joined > frames / 4, "{} of {frames}", stats.joined);
            assert!(stats.injected < frames - stats.joined / 2);
        } else {
            assert_eq!((stats.joined, stats.injected), (0, frames));
        }
        assert_eq!(
            stats.emulator_drops.total(),
            0,
            "{:?}",
            stats.emulator_drops
        );
        every_slot_comes_back(&lab, 16_384);
    }
}

/// A stream of the smallest segments there can be: its super-frames stay within what the relay takes, and nothing is lost.
#[test]
fn tcp_of_tiny_segments_passes() {
    let lab = Lab::new(&[0, 1]);
    lab.apply(link(0, 1, MS));
    let listener = lab.nodes[1].run(|| TcpListener::bind((v4(2), 7004)).unwrap());
    // Accepted connections announce it to their peers.
    set_option(&listener, libc::IPPROTO_TCP, libc::TCP_MAXSEG, 88i32);
    let mut near = lab.nodes[0].run(|| TcpStream::connect((v4(2), 7004)).unwrap());
    let (mut far, _) = listener.accept().unwrap();
    far.set_read_timeout(Some(5 * SECOND)).unwrap();
    let bytes = 3_000_000;
    let sender = thread::spawn(move || near.write_all(&vec![7; bytes]).unwrap());
    let mut all = vec![0; bytes];
    far.read_exact(&mut all).unwrap();
    sender.join().unwrap();
    let stats = lab.handle.relay_stats().unwrap();
    assert_eq!(
        stats.emulator_drops.total(),
        0,
        "{:?}",
        stats.emulator_drops
    );
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
fn super_frames_of_udp_arrive_datagram_by_datagram() {
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
    let mut batch = Batch::new();
    node.veth(&mut batch, PortId(2), 0);
    Socket::open_in(relay.shard_ns(PortId(2)).unwrap())
        .unwrap()
        .send(&mut batch)
        .unwrap();
    relay.attach(&[PortId(2)]).unwrap();
    node.addresses(ETH0, 3);
    // UDP in one piece of many datagrams, the last of them short.
    let receiver = lab.nodes[1].run(|| udp(v4(2), 7003));
    let sender = node.run(|| udp(v4(3), 7003));
    set_option(&sender, libc::SOL_UDP, libc::UDP_SEGMENT, 1000i32);
    let sent: Vec<u8> = (0..9_500u32).map(|n| (n / 7) as u8).collect();
    sender.send_to(&sent, (v4(2), 7003)).unwrap();
    receiver
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    let mut got = Vec::new();
    for n in 0..10 {
        let mut datagram = [0; 2000];
        let len = receiver.recv(&mut datagram).unwrap();
        assert_eq!(len, if n == 9 { 500 } else { 1000 });
        got.extend_from_slice(&datagram[..len]);
    }
    assert_eq!(got, sent);
    assert_eq!(lab.handle.relay_stats().unwrap().emulator_drops.gso, 0);
}
