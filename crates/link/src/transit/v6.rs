//! IPv6 (RFC 8200, RFC 4443).

use std::net::{IpAddr, Ipv6Addr};

use crate::transit::icmp::{Complaint, ICMPV6, UDP, is_right, pseudo, seal};
use crate::transit::{
    AddressLocation, Cause, ETHERTYPE_IPV6, Flow, NeighbourRoute, Node, OWN_HOPS, Packet, TYPE,
    Verdict, word,
};

const HEADER: usize = 40;
/// Maximum length of an ICMP error: the minimum MTU of all links.
const COMPLAINT_BYTES: usize = 1280;
const ECHO_REQUEST: u8 = 128;
const ECHO_REPLY: u8 = 129;
const REDIRECT: u8 = 137;
/// First type that is not an error.
const FIRST_QUERY: u8 = 128;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION_OPTIONS: u8 = 60;
/// Extension headers skipped before the last header.
const MAX_EXTENSIONS: usize = 8;

const NO_ROUTE: Complaint = Complaint::new(1, 0, 0);
const NO_PORT: Complaint = Complaint::new(1, 4, 0);
const EXPIRED: Complaint = Complaint::new(3, 0, 0);
/// Unknown next header; the pointer is the offset of the next-header field.
const NO_PROTOCOL: Complaint = Complaint::new(4, 1, 6);

fn too_big(mtu_bytes: u32) -> Complaint {
    Complaint::new(2, 0, mtu_bytes)
}

#[derive(Clone, Copy)]
struct Header {
    /// Length including this header.
    total: usize,
    from: Ipv6Addr,
    to: Ipv6Addr,
    next: u8,
    hops: u8,
}

fn header(ip: &[u8], available: usize) -> Option<Header> {
    let first: &[u8; HEADER] = ip.first_chunk()?;
    // The length field of IPv6 does not include the header itself (RFC 8200, section 3).
    let total = HEADER + usize::from(word(first, 4)?);
    if first[0] >> 4 != 6 || total > available {
        return None;
    }
    let address = |at: usize| Ipv6Addr::from(std::array::from_fn::<u8, 16, _>(|n| first[at + n]));
    Some(Header {
        total,
        from: address(8),
        to: address(24),
        next: first[6],
        hops: first[7],
    })
}

fn is_link_local(address: Ipv6Addr) -> bool {
    address.segments()[0] & 0xffc0 == 0xfe80
}

/// Returns whether the address can be that of one machine, as seen from another.
fn is_somebodys(address: Ipv6Addr) -> bool {
    let none = address.is_multicast() || address.is_unspecified() || address.is_loopback();
    !none && address.to_ipv4_mapped().is_none()
}

pub(crate) fn decide(node: &mut impl Node, packet: Packet<'_>, answer: &mut Vec<u8>) -> Verdict {
    let (port, from) = (packet.port, packet.from);
    let available = packet.len.saturating_sub(TYPE);
    let Some(ip) = packet.bytes.get_mut(TYPE..) else {
        return Verdict::Drop(Cause::Malformed);
    };
    let Some(header) = header(ip, available) else {
        return Verdict::Drop(Cause::Malformed);
    };
    if !is_somebodys(header.from) || !is_somebodys(header.to) {
        return Verdict::Drop(Cause::Address);
    }
    // Path back to a neighbour that uses its link-local address.
    let neighbour = is_link_local(header.from).then_some(NeighbourRoute {
        port,
        far_port: from,
    });
    // A port's link-local address follows from its number, so the source must be that of the sending port.
    if neighbour.is_some() && node.port_of_link_local(header.from) != Some(from) {
        return Verdict::Drop(Cause::Address);
    }
    let mut asked = Unforwarded {
        node,
        header: &header,
        ip,
        neighbour,
    };
    if is_link_local(header.to) {
        let own = asked.node.port_of_link_local(header.to);
        return match own.is_some_and(|own| asked.node.has_port(own)) {
            true => asked.own(answer),
            false => Verdict::Drop(Cause::Address),
        };
    }
    let flow = Flow {
        addresses: &asked.ip[8..40],
        protocol: header.next,
        transport: &asked.ip[HEADER..],
    };
    // A packet from a link-local address must not be forwarded (RFC 4291, section 2.5.6).
    let way = match asked.node.place(header.to.into(), flow) {
        AddressLocation::Own => return asked.own(answer),
        _ if neighbour.is_some() => return Verdict::Drop(Cause::Address),
        AddressLocation::Towards(way) => way,
        AddressLocation::Nowhere => return asked.complain((NO_ROUTE, Cause::NoRoute), answer),
    };
    if header.hops <= 1 {
        return asked.complain((EXPIRED, Cause::Expired), answer);
    }
    let mtu_bytes = asked.node.mtu_bytes(way.port);
    if packet.longest > mtu_bytes as usize {
        return asked.complain((too_big(mtu_bytes), Cause::TooBig), answer);
    }
    // Only the hop limit changes: IPv6 has no header checksum.
    ip[7] -= 1;
    Verdict::Forward(way)
}

/// A packet that is not forwarded, with its node.
struct Unforwarded<'a, N> {
    node: &'a mut N,
    header: &'a Header,
    ip: &'a [u8],
    neighbour: Option<NeighbourRoute>,
}

impl<N: Node> Unforwarded<'_, N> {
    /// Returns the path of an answer from an address of the node.
    fn back(&self, from: Ipv6Addr) -> Option<NeighbourRoute> {
        let to = self.header.from;
        let addresses = [from.octets(), to.octets()];
        let flow = Flow {
            addresses: addresses.as_flattened(),
            protocol: ICMPV6,
            transport: &[],
        };
        self.neighbour
            .or_else(|| match self.node.place(to.into(), flow) {
                AddressLocation::Towards(way) => Some(way),
                AddressLocation::Own | AddressLocation::Nowhere => None,
            })
    }

    /// Handles a packet for the node itself.
    fn own(&mut self, answer: &mut Vec<u8>) -> Verdict {
        let silent = Verdict::Drop(Cause::NoProgram);
        let complaint = match self.header.next {
            ICMPV6 => return self.echo(answer).unwrap_or(silent),
            // The node does not process extension headers, so it cannot know which error would be right.
            HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION_OPTIONS => return silent,
            UDP => NO_PORT,
            _ => NO_PROTOCOL,
        };
        self.complain((complaint, Cause::NoProgram), answer)
    }

    fn echo(&self, answer: &mut Vec<u8>) -> Option<Verdict> {
        let Header {
            total, from, to, ..
        } = *self.header;
        let message = self.ip.get(HEADER..total)?;
        let sum = pseudo(from, to, message.len());
        let asks = message.len() >= 8 && message[..2] == [ECHO_REQUEST, 0];
        if !asks || !is_right(sum, message) {
            return None;
        }
        let way = self.back(to)?;
        // The node cannot fragment, so a reply that is larger than the link's MTU is not sent.
        if total > self.node.mtu_bytes(way.port) as usize {
            return None;
        }
        begin(answer, (to, from), message.len());
        let at = answer.len();
        answer.extend([ECHO_REPLY, 0, 0, 0]);
        answer.extend(&message[4..]);
        seal(answer, at, sum);
        Some(Verdict::Answer(way, None))
    }

    /// Drops the packet, and sends an ICMP error to its sender if that is allowed.
    fn complain(
        &mut self,
        (complaint, cause): (Complaint, Cause),
        answer: &mut Vec<u8>,
    ) -> Verdict {
        let silent = Verdict::Drop(cause);
        if !self.may_be_complained_about() {
            return silent;
        }
        let Some(IpAddr::V6(own)) = self.node.speaks_as(self.header.from.into()) else {
            return silent;
        };
        let Some(way) = self.back(own) else {
            return silent;
        };
        // The limit comes last: only errors that are really sent take a token.
        if !self.node.may_complain() {
            return silent;
        }
        let there = self.ip.len().min(self.header.total);
        // An error must fit into the smallest MTU that IPv6 permits (RFC 4443, section 2.4 c).
        let about = &self.ip[..there.min(COMPLAINT_BYTES - HEADER - 8)];
        let len = 8 + about.len();
        begin(answer, (own, self.header.from), len);
        let at = answer.len();
        complaint.write(about, answer);
        seal(answer, at, pseudo(own, self.header.from, len));
        Verdict::Answer(way, Some(cause))
    }

    /// Returns whether an ICMP error about the packet is allowed: not about errors, nor if the packet cannot be parsed
    /// far enough to exclude that (RFC 4443, section 2.4 e).
    fn may_be_complained_about(&self) -> bool {
        let (mut next, mut at) = (self.header.next, HEADER);
        for _ in 0..MAX_EXTENSIONS {
            let len = match next {
                ICMPV6 => {
                    let kind = self.ip.get(at).copied();
                    return kind.is_some_and(|kind| kind >= FIRST_QUERY && kind != REDIRECT);
                }
                HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS => {
                    let Some(units) = self.ip.get(at + 1) else {
                        return false;
                    };
                    // The length counts units of 8 bytes, without the first 8 (RFC 8200, section 4.3).
                    8 + usize::from(*units) * 8
                }
                FRAGMENT => {
                    // Only the first fragment contains the next header.
                    if word(self.ip, at + 2).is_none_or(|place| place & 0xfff8 != 0) {
                        return false;
                    }
                    // A fragment header has no length field; it always takes 8 bytes.
                    8
                }
                _ => return true,
            };
            let Some(following) = self.ip.get(at) else {
                return false;
            };
            next = *following;
            at += len;
        }
        false
    }
}

/// Writes EtherType and header of a packet that the node sends itself, before a message of `len` bytes.
fn begin(answer: &mut Vec<u8>, (from, to): (Ipv6Addr, Ipv6Addr), len: usize) {
    answer.clear();
    answer.extend(ETHERTYPE_IPV6);
    answer.extend([0x60, 0, 0, 0]);
    answer.extend((len as u16).to_be_bytes());
    answer.extend([ICMPV6, OWN_HOPS]);
    answer.extend(from.octets());
    answer.extend(to.octets());
}
