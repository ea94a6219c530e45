//! Frames of all kinds arrive as they were sent, after the delay.

use super::*;
use constel_drivers::Links;

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
    let stats = lab.handle.relay_stats().unwrap();
    assert_eq!(
        (stats.early, stats.emulator_drops.total()),
        (0, 0),
        "{stats:?}"
    );
    assert!(stats.lateness.count >= 8);
}

/// The way is warmed before a lone frame is due, and no node and no count sees how.
#[test]
fn lone_frames_are_warmed_up_for_unseen() {
    let lab = Lab::new(&[0, 1]);
    lab.apply(link(0, 1, 5 * MS));
    let receiver = lab.nodes[1].run(|| Raw::new(libc::ETH_P_ALL as u16));
    receiver.timeout(Duration::from_millis(200));
    let sender = lab.nodes[0].run(|| Raw::new(0));
    let lone = frame(mac_of(PortId(1)), mac_of(PortId(0)), ODD, &[7; 60]);
    // Now and then the thread wakes up too late for it.
    eventually("a warm_up comes to its end", || {
        sender.send(&lone);
        thread::sleep(Duration::from_millis(10));
        (lab.handle.relay_stats().unwrap().warm_ups > 0).then_some(())
    });
    let stats = eventually("all is delivered", || {
        let stats = lab.handle.relay_stats().unwrap();
        (stats.totals.held == 0 && stats.emulator_drops.backlog == 0).then_some(stats)
    });
    let c = stats.totals.counters;
    assert_eq!(
        (c.delivered, c.delivered),
        (stats.injected, stats.delivered)
    );
    assert_eq!(
        (stats.emulator_drops.total(), stats.foreign),
        (0, 0),
        "{stats:?}"
    );
    every_slot_comes_back(&lab, 16_384);
    let warm_up_node = [0x02, 0xc5, 0xff, 0x01];
    let strange = std::iter::from_fn(|| receiver.next())
        .find(|(got, _)| got[..4] == warm_up_node || got[6..10] == warm_up_node);
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
    assert_eq!(lab.handle.relay_stats().unwrap().emulator_drops.total(), 0);
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
    assert_eq!(lab.handle.relay_stats().unwrap().early, 0);
}
