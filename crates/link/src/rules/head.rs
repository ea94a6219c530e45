//! Fields of a frame that rules match.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::rules::interface::Interface;

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const VLAN_TAGS: [u16; 2] = [0x8100, 0x88a8];
/// IPv6 extension headers skipped before the transport header.
const MAX_EXTENSIONS: usize = 8;
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION_OPTIONS: u8 = 60;
/// TCP, UDP, DCCP, SCTP, UDP-Lite: their headers begin with two ports.
pub(crate) const WITH_PORTS: [u8; 5] = [6, 17, 33, 132, 136];

/// Fields of a frame that rules match: behind one VLAN tag, and no deeper. Truncated fields are absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Interface at which it came in; `None` if unknown. Not read from the frame.
    pub input: Option<Interface>,
    /// Interface at which it goes out; `None` if there are several.
    pub output: Option<Interface>,
    /// Source address of Ethernet.
    pub smac: [u8; 6],
    /// Destination address of Ethernet.
    pub dmac: [u8; 6],
    /// VLAN of the outermost tag (802.1Q or 802.1ad), if there is one; 0 if the tag carries only a priority.
    pub vlan: Option<u16>,
    /// EtherType, behind that tag. Below 1,536 it is the length of an IEEE 802.3 frame.
    pub ethertype: u16,
    /// Fields of the IP packet, if it is one.
    pub ip: Option<Ip>,
    /// Source and destination port of TCP, UDP, DCCP, SCTP and UDP-Lite. Absent in all fragments of a packet except the
    /// first.
    pub ports: Option<(u16, u16)>,
}

/// Fields of an IP packet that rules match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip {
    /// Source.
    pub src: IpAddr,
    /// Destination.
    pub dst: IpAddr,
    /// Protocol; in IPv6 the header behind extensions.
    pub protocol: u8,
    /// Traffic class (in IPv4: type of service): DSCP in the upper six bits.
    pub class: u8,
}

fn word(frame: &[u8], at: usize) -> Option<u16> {
    let bytes = frame.get(at..at + 2)?;
    Some(u16::from_be_bytes([bytes[0], bytes[1]]))
}

impl Head {
    /// Reads a frame from its first byte on.
    #[must_use]
    pub fn read(frame: &[u8]) -> Head {
        let mac = |at: usize| {
            let bytes = frame.get(at..at + 6);
            bytes.map_or([0; 6], |bytes| std::array::from_fn(|n| bytes[n]))
        };
        Head::behind(mac(6), mac(0), frame.get(12..).unwrap_or_default())
    }

    /// Reads a frame whose addresses are stored elsewhere: `rest` begins with its VLAN tag or EtherType.
    #[must_use]
    pub fn behind(smac: [u8; 6], dmac: [u8; 6], rest: &[u8]) -> Head {
        let outer = word(rest, 0).unwrap_or(0);
        // The upper four bits of a tag are priority and drop eligibility (IEEE 802.1Q).
        let (vlan, kind_at) = match word(rest, 2) {
            Some(tag) if VLAN_TAGS.contains(&outer) => (Some(tag & 0xfff), 4),
            _ => (None, 0),
        };
        let ethertype = word(rest, kind_at).unwrap_or(0);
        let packet = rest.get(kind_at + 2..).unwrap_or_default();
        let (ip, ports) = match ethertype {
            IPV4 => ipv4(packet),
            IPV6 => ipv6(packet),
            _ => (None, None),
        };
        Head {
            input: None,
            output: None,
            smac,
            dmac,
            vlan,
            ethertype,
            ip,
            ports,
        }
    }
}

fn ports_at(packet: &[u8], protocol: u8, at: usize) -> Option<(u16, u16)> {
    if !WITH_PORTS.contains(&protocol) {
        return None;
    }
    Some((word(packet, at)?, word(packet, at + 2)?))
}

fn ipv4(packet: &[u8]) -> (Option<Ip>, Option<(u16, u16)>) {
    if packet.len() < 20 || packet[0] >> 4 != 4 {
        return (None, None);
    }
    let address = |at: usize| -> IpAddr {
        Ipv4Addr::new(packet[at], packet[at + 1], packet[at + 2], packet[at + 3]).into()
    };
    let ip = Ip {
        src: address(12),
        dst: address(16),
        protocol: packet[9],
        class: packet[1],
    };
    // Only the offset counts: the first fragment has the transport header, whether or not more fragments follow.
    let first = word(packet, 6).is_some_and(|w| w & 0x1fff == 0);
    let header = usize::from(packet[0] & 0xf) * 4;
    let ports = (first && header >= 20).then(|| ports_at(packet, ip.protocol, header));
    (Some(ip), ports.flatten())
}

fn ipv6(packet: &[u8]) -> (Option<Ip>, Option<(u16, u16)>) {
    if packet.len() < 40 || packet[0] >> 4 != 6 {
        return (None, None);
    }
    let address = |at: usize| -> IpAddr {
        let bytes: [u8; 16] = std::array::from_fn(|n| packet[at + n]);
        Ipv6Addr::from(bytes).into()
    };
    let (protocol, transport) = behind_extensions(packet);
    let ip = Ip {
        src: address(8),
        dst: address(24),
        protocol,
        class: packet[0] << 4 | packet[1] >> 4,
    };
    let ports = transport.and_then(|at| ports_at(packet, protocol, at));
    (Some(ip), ports)
}

/// Returns the protocol behind the extension headers, and the position of its header if this packet has it.
fn behind_extensions(packet: &[u8]) -> (u8, Option<usize>) {
    let (mut protocol, mut at) = (packet[6], 40);
    let mut first = true;
    for _ in 0..MAX_EXTENSIONS {
        let length = match protocol {
            HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS => match packet.get(at + 1) {
                Some(&units) => 8 + usize::from(units) * 8,
                None => return (protocol, None),
            },
            FRAGMENT => match word(packet, at + 2) {
                Some(offset) => {
                    first &= offset & 0xfff8 == 0;
                    8
                }
                None => return (protocol, None),
            },
            _ => return (protocol, first.then_some(at)),
        };
        match packet.get(at) {
            Some(&next) => protocol = next,
            None => return (protocol, None),
        }
        at += length;
        if !first {
            // The bytes that follow are from the middle of a packet, not a header.
            return (protocol, None);
        }
    }
    (protocol, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn udp4() -> Vec<u8> {
        let mut f = vec![0u8; 60];
        f[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
        f[12..14].copy_from_slice(&[8, 0]);
        f[14] = 0x45;
        f[15] = 0xb8;
        f[23] = 17;
        f[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        f[34..38].copy_from_slice(&[0x13, 0x88, 0, 53]);
        f
    }

    fn tagged(frame: &[u8], tag: [u8; 4]) -> Vec<u8> {
        [&frame[..12], &tag, &frame[12..]].concat()
    }

    #[test]
    fn a_datagram_is_read() {
        let head = Head::read(&udp4());
        assert_eq!((head.dmac[5], head.smac[5]), (1, 2));
        assert_eq!((head.vlan, head.ethertype), (None, 0x800));
        let ip = head.ip.unwrap();
        assert_eq!((ip.protocol, ip.class), (17, 0xb8));
        assert_eq!(ip.src, IpAddr::from([10, 0, 0, 1]));
        assert_eq!(head.ports, Some((5000, 53)));
    }

    #[test]
    fn one_tag_is_looked_through_and_no_second() {
        let once = tagged(&udp4(), [0x81, 0, 0xa0, 7]);
        let head = Head::read(&once);
        assert_eq!((head.vlan, head.ports), (Some(7), Some((5000, 53))));
        let twice = tagged(&once, [0x88, 0xa8, 0, 9]);
        let head = Head::read(&twice);
        assert_eq!(
            (head.vlan, head.ethertype, head.ip),
            (Some(9), 0x8100, None)
        );
    }

    #[test]
    fn only_the_first_fragment_has_ports() {
        let mut frame = udp4();
        frame[20] = 0x20;
        assert_eq!(
            Head::read(&frame).ports,
            Some((5000, 53)),
            "the first of several"
        );
        frame[21] = 1;
        assert_eq!(Head::read(&frame).ports, None);
        assert_eq!(Head::read(&frame).ip.unwrap().protocol, 17);
    }

    #[test]
    fn ipv6_is_read_behind_its_extensions() {
        let mut f = vec![0u8; 14 + 40 + 8 + 8 + 8];
        f[12..14].copy_from_slice(&[0x86, 0xdd]);
        f[14] = 0x6b;
        f[15] = 0x80;
        f[20] = HOP_BY_HOP;
        f[54] = FRAGMENT;
        f[62] = 6;
        f[70..74].copy_from_slice(&[0, 80, 0, 81]);
        let head = Head::read(&f);
        assert_eq!(head.ip.unwrap().class, 0xb8);
        assert_eq!((head.ip.unwrap().protocol, head.ports), (6, Some((80, 81))));
        f[65] = 8;
        let head = Head::read(&f);
        assert_eq!((head.ip.unwrap().protocol, head.ports), (6, None));
    }

    #[test]
    fn frames_cut_anywhere_are_read_without_what_is_missing() {
        for frame in [udp4(), tagged(&udp4(), [0x81, 0, 0, 7])] {
            for len in 0..frame.len() {
                let head = Head::read(&frame[..len]);
                assert!(head.ip.is_some() || head.ports.is_none());
            }
        }
    }
}
