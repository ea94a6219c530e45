//! Frames that a hostile node may send.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "a module of a test and of a bench; each uses its own part"
)]

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};

use constel_host::netlink::LinkChange;
use constel_link::packet::{fold, words_sum};
use constel_link::{Impairment, Loss, PortId, mac_of};

use crate::support::*;

/// Ports 0 and 1: the victim's link. Port 2: the hostile node's, with an edge to each of the neighbours.
pub const HOSTILE: u32 = 2;
pub const NEIGHBOURS: std::ops::Range<u32> = 3..7;
pub const DELAY_NS: u64 = 10 * MS;

const PACKET_VNET_HDR: i32 = 15;
pub const ODD: u16 = 0x88b5;

/// Actions of the hostile node, as fast as it can.
pub enum What {
    /// Sends these, one after the other, with a virtio header before each or without.
    Frames { vnet: bool, frames: Vec<Vec<u8>> },
    /// Joins and leaves multicast groups.
    Joins,
}

pub struct Attack {
    pub name: &'static str,
    pub what: What,
    /// The node's edges act on single frames, so that super-frames are cut up.
    pub by_frames: bool,
}

/// A generator of test data: xorshift64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn neighbour(n: u32) -> [u8; 6] {
    mac_of(PortId(NEIGHBOURS.start + n % NEIGHBOURS.len() as u32))
}

fn me() -> [u8; 6] {
    mac_of(PortId(HOSTILE))
}

/// `struct virtio_net_hdr`.
fn vnet(flags: u8, kind: u8, fields: [u16; 4]) -> Vec<u8> {
    let mut header = vec![flags, kind];
    fields.iter().for_each(|f| header.extend(f.to_ne_bytes()));
    header
}

/// A TCP frame over IPv4 of this length in all.
fn tcp(len: usize) -> Vec<u8> {
    let mut ip = vec![0x45, 0, 0, 0, 0, 7, 0x40, 0, 64, 6, 0, 0];
    ip[2..4].copy_from_slice(&((len - 14).min(65_535) as u16).to_be_bytes());
    ip.extend([10, 0, 0, 3, 10, 0, 0, 4]);
    let mut tcp = vec![0; 20];
    tcp[12] = 5 << 4;
    tcp[13] = 0x18;
    let mut bytes = frame(neighbour(0), me(), 0x0800, &[ip, tcp].concat());
    bytes.resize(len, 0x55);
    bytes
}

fn super_frame(kind: u8, segment: u16, len: usize) -> Vec<u8> {
    [vnet(1, kind, [54, segment, 34, 16]), tcp(len)].concat()
}

fn odd_super_frames() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for segment in [2, 7, 40, 536, 1448, 1999, 9000, 65_535] {
        // TCP over IPv4, with ECN, over IPv6, UDP in fragments, UDP in datagrams, none.
        for kind in [1, 0x81, 4, 3, 5, 0] {
            frames.push(super_frame(kind, segment, 30_000));
            frames.push(super_frame(kind, segment, 1_400));
        }
    }
    // Headers that claim to be longer than the frame, or to be elsewhere.
    for fields in [
        [60_000, 1448, 34, 16],
        [0, 1448, 0, 16],
        [54, 1448, 29_000, 16],
    ] {
        frames.push([vnet(1, 1, fields), tcp(30_000)].concat());
    }
    let mut header_less = tcp(30_000);
    // TCP's header ends beyond the first 2 KiB, or is shorter than any.
    header_less[46] = 0xff;
    frames.push([vnet(1, 1, [54, 1448, 34, 16]), header_less.clone()].concat());
    header_less[46] = 0;
    frames.push([vnet(1, 1, [54, 1448, 34, 16]), header_less].concat());
    frames
}

fn odd_checksums() -> Vec<Vec<u8>> {
    let places = [
        (0, 0),
        (0, 12),
        (12, 0),
        (34, 16),
        (98, 0),
        (98, 1),
        (34, 60_000),
        (60_000, 0),
    ];
    places
        .iter()
        .map(|&(start, offset)| [vnet(1, 0, [0, 0, start, offset]), tcp(100)].concat())
        .collect()
}

fn tiny() -> Vec<Vec<u8>> {
    let with = |payload: usize| frame(neighbour(0), me(), ODD, &vec![1; payload]);
    [0, 1, 2, 3, 46].map(with).into()
}

fn arp_storm(random: &mut Random) -> Vec<Vec<u8>> {
    let mut one = |n: u32| {
        let [.., a, b, c] = random.next().to_be_bytes();
        let mut arp = vec![0, 1, 8, 0, 6, 4, 0, 1];
        arp.extend([2, 0, 0, a, b, c]);
        arp.extend([10, a, b, c]);
        arp.extend([0; 6]);
        // Each of the neighbours gets a request for its own address.
        arp.extend([
            10,
            0,
            0,
            (NEIGHBOURS.start + n % NEIGHBOURS.len() as u32 + 1) as u8,
        ]);
        let to = if n.is_multiple_of(2) {
            [0xff; 6]
        } else {
            neighbour(n)
        };
        frame(to, me(), 0x0806, &arp)
    };
    (0..4096).map(&mut one).collect()
}

/// An ICMPv6 message from `from` to a group, with the hop-by-hop option that MLD wants.
fn icmp6(from: [u8; 16], group: [u8; 16], alert: bool, mut message: Vec<u8>) -> Vec<u8> {
    let pseudo = words_sum(&from) + words_sum(&group) + message.len() as u32 + 58;
    let check = !fold(pseudo + words_sum(&message));
    message[2..4].copy_from_slice(&check.to_be_bytes());
    let options: &[u8] = if alert {
        &[58, 0, 5, 2, 0, 0, 1, 0]
    } else {
        &[]
    };
    let mut ip = vec![0x60, 0, 0, 0];
    ip.extend(((message.len() + options.len()) as u16).to_be_bytes());
    ip.extend([if alert { 0 } else { 58 }, if alert { 1 } else { 255 }]);
    ip.extend(from);
    ip.extend(group);
    let mac = [0x33, 0x33, group[12], group[13], group[14], group[15]];
    frame(mac, me(), 0x86dd, &[&ip, options, &message].concat())
}

fn nd_storm(random: &mut Random) -> Vec<Vec<u8>> {
    let mut one = |n: u32| {
        let [.., a, b, c] = random.next().to_be_bytes();
        let mut from = v6(0).octets();
        from[13..].copy_from_slice(&[a, b, c]);
        let target = v6((NEIGHBOURS.start + n % NEIGHBOURS.len() as u32 + 1) as u8).octets();
        let mut group = [0; 16];
        group[..2].copy_from_slice(&[0xff, 2]);
        group[11..13].copy_from_slice(&[1, 0xff]);
        group[13..].copy_from_slice(&target[13..]);
        let mut message = vec![135, 0, 0, 0, 0, 0, 0, 0];
        message.extend(target);
        message.extend([1, 1, 2, 0, 0, a, b, c]);
        icmp6(from, group, false, message)
    };
    (0..4096).map(&mut one).collect()
}

fn vlan_stacks() -> Vec<Vec<u8>> {
    let stack = |tags: usize| {
        let kinds: [[u8; 2]; 2] = [[0x81, 0x00], [0x88, 0xa8]];
        let mut bytes = [neighbour(0), me()].concat();
        for n in 0..tags {
            bytes.extend(kinds[(n + tags) % 2]);
            bytes.extend((n as u16 & 0xfff).to_be_bytes());
        }
        bytes.extend(ODD.to_be_bytes());
        bytes.extend([0; 46]);
        bytes
    };
    [1, 2, 3, 8, 100, 360].map(stack).into()
}

fn oversize() -> Vec<Vec<u8>> {
    let of = |len: usize| frame(neighbour(0), me(), ODD, &vec![2; len - 14]);
    [1515, 1519, 2012, 2013, 2048, 9000, 60_000].map(of).into()
}

fn reports(random: &mut Random) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for n in 0..1024u32 {
        let [.., a, b, c] = random.next().to_be_bytes();
        if n.is_multiple_of(2) {
            let mut igmp = vec![0x22, 0, 0, 0, 0, 0, 0, 180];
            (0..180u8).for_each(|r| igmp.extend([4, 0, 0, 0, 230, r, a, b]));
            let check = !fold(words_sum(&igmp));
            igmp[2..4].copy_from_slice(&check.to_be_bytes());
            let mut ip = vec![0x46, 0xc0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0];
            ip[2..4].copy_from_slice(&((24 + igmp.len()) as u16).to_be_bytes());
            ip.extend([10, 0, 0, 3, 224, 0, 0, 22, 0x94, 4, 0, 0]);
            let check = !fold(words_sum(&ip));
            ip[10..12].copy_from_slice(&check.to_be_bytes());
            frames.push(frame(
                [1, 0, 0x5e, 0, 0, 22],
                me(),
                0x0800,
                &[ip, igmp].concat(),
            ));
        } else {
            let mut mld = vec![143, 0, 0, 0, 0, 0, 0, 60];
            for r in 0..60u8 {
                mld.extend([4, 0, 0, 0, 0xff, 5]);
                mld.extend([0; 10]);
                mld.extend([a, b, c, r]);
            }
            let mut from = [0; 16];
            from[..2].copy_from_slice(&[0xfe, 0x80]);
            from[15] = 3;
            let mut all = [0; 16];
            all[..2].copy_from_slice(&[0xff, 2]);
            all[15] = 22;
            frames.push(icmp6(from, all, true, mld));
        }
    }
    frames
}

/// Everything at hand.
pub fn attacks() -> Vec<Attack> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let of = |name, vnet, frames| Attack {
        name,
        what: What::Frames { vnet, frames },
        by_frames: false,
    };
    let cut = |name, frames| Attack {
        by_frames: true,
        ..of(name, true, frames)
    };
    let of_one_byte = || vec![super_frame(1, 1, 65_000)];
    // As many frames as are allowed, and as short.
    let of_most = || {
        vec![
            super_frame(1, 60, 54 + 60 * 128),
            super_frame(1, 500, 64_000),
        ]
    };
    vec![
        of("super-frames of 1 byte", true, of_one_byte()),
        cut("the same, to be cut up", of_one_byte()),
        of("super-frames of 128 frames", true, of_most()),
        cut("the same, to be cut up", of_most()),
        cut("odd super-frames", odd_super_frames()),
        of("odd checksums", true, odd_checksums()),
        of("tiny frames", false, tiny()),
        of("ARP storm", false, arp_storm(&mut random)),
        of("ND storm", false, nd_storm(&mut random)),
        of("VLAN stacks", false, vlan_stacks()),
        of("oversize frames", false, oversize()),
        of("IGMP and MLD reports", false, reports(&mut random)),
        Attack {
            name: "multicast joins",
            what: What::Joins,
            by_frames: false,
        },
    ]
}

/// A node's means of attack.
pub struct Hostile {
    plain: Raw,
    vnet: Raw,
    socket: UdpSocket,
    address: Ipv4Addr,
}

impl Hostile {
    /// Frames of a node with address `10.0.0.n`, on its first interface.
    pub fn new(node: &Node, n: u8) -> Hostile {
        node.netlink(|batch| {
            batch
                .change_link(&LinkChange {
                    ifindex: ETH0,
                    mtu: Some(65_535),
                    ..LinkChange::default()
                })
                .unwrap();
        });
        node.run(|| {
            std::fs::write("/proc/sys/net/ipv4/igmp_max_memberships", "100000").unwrap();
            // For sending only: nothing comes in, and what goes out is taken for what it says it is.
            let vnet = Raw::new(0);
            set_option(&vnet, libc::SOL_PACKET, PACKET_VNET_HDR, 1i32);
            Hostile {
                plain: Raw::new(0),
                vnet,
                socket: UdpSocket::bind((v4(n), 0)).unwrap(),
                address: v4(n),
            }
        })
    }

    /// Goes on until the test ends it; returns the number of frames sent.
    pub fn attack(&self, what: &What, stop: &AtomicBool) -> u64 {
        let mut done = 0;
        match what {
            What::Frames { vnet, frames } => {
                let raw = if *vnet { &self.vnet } else { &self.plain };
                for bytes in frames.iter().cycle() {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    done += u64::from(raw.try_send(bytes));
                }
            }
            What::Joins => {
                let group = |n: u64| Ipv4Addr::new(230, 1, (n >> 8) as u8, n as u8);
                let groups = 1000;
                while !stop.load(Ordering::Relaxed) {
                    if done >= groups {
                        let oldest = group(done % groups);
                        let _ = self.socket.leave_multicast_v4(&oldest, &self.address);
                    }
                    let new = group(done % groups);
                    self.socket.join_multicast_v4(&new, &self.address).unwrap();
                    done += 1;
                }
                for n in done.saturating_sub(groups)..done {
                    let _ = self
                        .socket
                        .leave_multicast_v4(&group(n % groups), &self.address);
                }
            }
        }
        done
    }
}

/// Stops an attack however the test ends.
pub struct Stop<'a>(pub &'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Edges of the hostile port to each of its neighbours, and of the victim's link.
pub fn edges(by_frames: bool) -> Vec<constel_link::EdgeChange> {
    // A loss that takes next to nothing: super-frames are cut up for it.
    let loss = if by_frames {
        Loss::Bernoulli { loss_ratio: 1e-12 }
    } else {
        Loss::None
    };
    let hostile = Impairment {
        loss,
        ..Impairment::delay_only(DELAY_NS)
    };
    NEIGHBOURS
        .flat_map(|to| [set(HOSTILE, to, hostile), set(to, HOSTILE, hostile)])
        .chain(link(0, 1, DELAY_NS))
        .collect()
}
