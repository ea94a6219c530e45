//! IPv4 (RFC 791, RFC 1812).

use std::net::{IpAddr, Ipv4Addr};

use crate::packet::{fold, words_sum};

use crate::transit::icmp::{Complaint, ICMP, UDP, is_right, seal};
use crate::transit::{
    AddressLocation, Cause, ETHERTYPE_IPV4, Flow, NeighbourRoute, Node, OWN_HOPS, Packet, TYPE,
    Verdict, word,
};

/// A header without options.
const HEADER: usize = 20;
/// Maximum length of an ICMP error (RFC 1812, section 4.3.2.3).
const COMPLAINT_BYTES: usize = 576;
const ECHO_REQUEST: u8 = 8;
const ECHO_REPLY: u8 = 0;
/// ICMP types that are not errors themselves, so that errors about them are allowed (RFC 1122, section 3.2.2).
const QUERIES: [u8; 10] = [0, 8, 9, 10, 13, 14, 15, 16, 17, 18];

const NO_PROTOCOL: Complaint = Complaint::new(3, 2, 0);
const NO_PORT: Complaint = Complaint::new(3, 3, 0);
const NO_NETWORK: Complaint = Complaint::new(3, 0, 0);
const EXPIRED: Complaint = Complaint::new(11, 0, 0);

fn too_big(mtu_bytes: u32) -> Complaint {
    Complaint::new(3, 4, mtu_bytes.min(0xffff))
}

/// Fields of a header.
#[derive(Clone, Copy)]
struct Header {
    len: usize,
    total: usize,
    from: Ipv4Addr,
    to: Ipv4Addr,
    protocol: u8,
    hops: u8,
    /// Whether the do-not-fragment flag is set, and whether the packet is a fragment.
    whole: bool,
    fragment: bool,
    /// Whether it is a fragment other than the first.
    later_fragment: bool,
}

/// Parses a valid header; `available` bytes are present from it on.
fn header(ip: &[u8], available: usize) -> Option<Header> {
    let first: &[u8; HEADER] = ip.first_chunk()?;
    let len = usize::from(first[0] & 0xf) * 4;
    let total = usize::from(word(first, 2)?);
    if first[0] >> 4 != 4 || len < HEADER || total < len || total > available {
        return None;
    }
    // A correct header, with its checksum included, sums to 0xffff.
    if fold(words_sum(ip.get(..len)?)) != 0xffff {
        return None;
    }
    let flags = word(first, 6)?;
    let address = |at: usize| Ipv4Addr::new(first[at], first[at + 1], first[at + 2], first[at + 3]);
    Some(Header {
        len,
        total,
        from: address(12),
        to: address(16),
        protocol: first[9],
        hops: first[8],
        whole: flags & 0x4000 != 0,
        fragment: flags & 0x3fff != 0,
        later_fragment: flags & 0x1fff != 0,
    })
}

/// Checks that options are well formed and contain no source route.
fn options(mut options: &[u8]) -> Result<(), Cause> {
    const LOOSE_SOURCE_ROUTE: u8 = 131;
    const STRICT_SOURCE_ROUTE: u8 = 137;
    loop {
        match options {
            // 0 ends the list and 1 is padding. Both have no length byte (RFC 791, section 3.1).
            [] | [0, ..] => return Ok(()),
            [1, rest @ ..] => options = rest,
            [LOOSE_SOURCE_ROUTE | STRICT_SOURCE_ROUTE, ..] => return Err(Cause::SourceRoute),
            [_, len, ..] if *len >= 2 => {
                options = options.get(usize::from(*len)..).ok_or(Cause::Malformed)?;
            }
            _ => return Err(Cause::Malformed),
        }
    }
}

/// Returns whether the address can be that of one machine, as seen from another.
fn is_somebodys(address: Ipv4Addr) -> bool {
    let [first, ..] = address.octets();
    first != 0 && first != 127 && first < 224
}

pub(crate) fn decide(node: &mut impl Node, packet: Packet<'_>, answer: &mut Vec<u8>) -> Verdict {
    let available = packet.len.saturating_sub(TYPE);
    let Some(ip) = packet.bytes.get_mut(TYPE..) else {
        return Verdict::Drop(Cause::Malformed);
    };
    let Some(header) = header(ip, available) else {
        return Verdict::Drop(Cause::Malformed);
    };
    if header.len > HEADER
        && let Err(cause) = options(&ip[HEADER..header.len])
    {
        return Verdict::Drop(cause);
    }
    if !is_somebodys(header.from) || !is_somebodys(header.to) {
        return Verdict::Drop(Cause::Address);
    }
    let flow = Flow {
        addresses: &ip[12..20],
        protocol: header.protocol,
        // Only the first fragment contains the ports. Without them, all fragments of a packet take the same path.
        transport: if header.fragment {
            &[]
        } else {
            &ip[header.len..]
        },
    };
    let way = match node.place(header.to.into(), flow) {
        AddressLocation::Towards(way) => way,
        AddressLocation::Own => return own(node, &header, ip, answer),
        AddressLocation::Nowhere => {
            return complain(node, &header, ip, (NO_NETWORK, Cause::NoRoute), answer);
        }
    };
    if header.hops <= 1 {
        return complain(node, &header, ip, (EXPIRED, Cause::Expired), answer);
    }
    let mtu_bytes = node.mtu_bytes(way.port);
    if packet.longest > mtu_bytes as usize {
        if !header.whole {
            // Fragmentation requires a stack, which this node does not have.
            return Verdict::Drop(Cause::TooBig);
        }
        let complaint = (too_big(mtu_bytes), Cause::TooBig);
        return complain(node, &header, ip, complaint, answer);
    }
    one_hop_less(ip);
    Verdict::Forward(way)
}

/// Decrements the TTL and updates the checksum (RFC 1624).
fn one_hop_less(ip: &mut [u8]) {
    let (Some(old), Some(check)) = (word(ip, 8), word(ip, 10)) else {
        return;
    };
    // The TTL is the high byte of its 16-bit word, with the protocol as the low byte.
    let new = old - 0x100;
    // RFC 1624, equation 3: HC' = ~(~HC + ~m + m').
    let sum = fold(u32::from(!check) + u32::from(!old) + u32::from(new));
    ip[8] -= 1;
    ip[10..12].copy_from_slice(&(!sum).to_be_bytes());
}

/// Handles a packet for the node itself.
fn own(node: &mut impl Node, header: &Header, ip: &[u8], answer: &mut Vec<u8>) -> Verdict {
    let silent = Verdict::Drop(Cause::NoProgram);
    // Without reassembly a fragment cannot be answered.
    if header.fragment {
        return silent;
    }
    let complaint = match header.protocol {
        ICMP => {
            let message = ip.get(header.len..header.total);
            return message.map_or(silent, |message| {
                echo(node, header, ip[1], message, answer).unwrap_or(silent)
            });
        }
        UDP => NO_PORT,
        _ => NO_PROTOCOL,
    };
    complain(node, header, ip, (complaint, Cause::NoProgram), answer)
}

fn echo(
    node: &impl Node,
    header: &Header,
    service: u8,
    message: &[u8],
    answer: &mut Vec<u8>,
) -> Option<Verdict> {
    let asks = message.len() >= 8 && message[..2] == [ECHO_REQUEST, 0];
    if !asks || !is_right(0, message) {
        return None;
    }
    let way = back(node, (header.to, header.from))?;
    let total = HEADER + message.len();
    // The node cannot fragment, so a reply that is larger than the link's MTU is not sent.
    if total > node.mtu_bytes(way.port) as usize {
        return None;
    }
    begin(answer, (header.to, header.from), service, total);
    let at = answer.len();
    answer.extend([ECHO_REPLY, 0, 0, 0]);
    answer.extend(&message[4..]);
    seal(answer, at, 0);
    Some(Verdict::Answer(way, None))
}

/// Returns the path of an answer.
fn back(node: &impl Node, (from, to): (Ipv4Addr, Ipv4Addr)) -> Option<NeighbourRoute> {
    let addresses = [from.octets(), to.octets()];
    let flow = Flow {
        addresses: addresses.as_flattened(),
        protocol: ICMP,
        transport: &[],
    };
    match node.place(to.into(), flow) {
        AddressLocation::Towards(way) => Some(way),
        AddressLocation::Own | AddressLocation::Nowhere => None,
    }
}

/// Writes EtherType and header of a packet that the node sends itself.
fn begin(answer: &mut Vec<u8>, (from, to): (Ipv4Addr, Ipv4Addr), service: u8, total: usize) {
    const NOT_TO_BE_CUT_UP: [u8; 2] = [0x40, 0];
    answer.clear();
    answer.extend(ETHERTYPE_IPV4);
    answer.extend([0x45, service]);
    answer.extend((total as u16).to_be_bytes());
    // The identification may be 0: packets that cannot be fragmented do not need one (RFC 6864).
    answer.extend([0, 0]);
    answer.extend(NOT_TO_BE_CUT_UP);
    answer.extend([OWN_HOPS, ICMP, 0, 0]);
    answer.extend(from.octets());
    answer.extend(to.octets());
    let sum = !fold(words_sum(&answer[TYPE..]));
    answer[TYPE + 10..TYPE + 12].copy_from_slice(&sum.to_be_bytes());
}

/// Drops a packet, and sends an ICMP error to its sender if that is allowed.
fn complain(
    node: &mut impl Node,
    header: &Header,
    ip: &[u8],
    (complaint, cause): (Complaint, Cause),
    answer: &mut Vec<u8>,
) -> Verdict {
    // Precedence 6, "internetwork control", as RFC 1812, section 4.3.2.5, recommends for errors.
    const CONTROL: u8 = 0xc0;
    let silent = Verdict::Drop(cause);
    let about_a_query = || {
        let kind = ip.get(header.len);
        kind.is_some_and(|kind| QUERIES.contains(kind))
    };
    // No errors about later fragments or about ICMP errors, so that errors never cause further errors (RFC 1122,
    // section 3.2.2).
    if header.later_fragment || (header.protocol == ICMP && !about_a_query()) {
        return silent;
    }
    let Some(IpAddr::V4(own)) = node.speaks_as(header.from.into()) else {
        return silent;
    };
    let Some(way) = back(node, (own, header.from)) else {
        return silent;
    };
    // The limit comes last: only errors that are really sent take a token.
    if !node.may_complain() {
        return silent;
    }
    let most = COMPLAINT_BYTES.min(node.mtu_bytes(way.port) as usize);
    let there = ip.len().min(header.total);
    let about = &ip[..there.min(most.saturating_sub(HEADER + 8))];
    begin(
        answer,
        (own, header.from),
        CONTROL,
        HEADER + 8 + about.len(),
    );
    let at = answer.len();
    complaint.write(about, answer);
    seal(answer, at, 0);
    Verdict::Answer(way, Some(cause))
}
