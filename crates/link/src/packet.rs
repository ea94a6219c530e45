//! Fields of a frame that queue disciplines use: the flow by IPv4 and IPv6 5-tuple, and the ECN field (RFC 3168), which
//! is the only field that is written.
//!
//! All functions take a frame from behind its two Ethernet addresses: up to two VLAN tags, EtherType, payload. In
//! truncated frames the missing fields count as absent.

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const VLAN_TAGS: [u16; 2] = [0x8100, 0x88a8];
const MAX_VLAN_TAGS: usize = 2;
/// IPv6 extension headers skipped before the transport header.
const MAX_EXTENSIONS: usize = 8;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION_OPTIONS: u8 = 60;
/// TCP, UDP, DCCP, SCTP, UDP-Lite: their headers begin with two ports.
const WITH_PORTS: [u8; 5] = [6, 17, 33, 132, 136];

/// The ECN field's value "congestion experienced".
const CE: u8 = 0b11;

/// Properties of a frame that a queue discipline uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traits {
    /// Equal for frames of the same flow: a hash of addresses, protocol and ports. Fragments are hashed without ports,
    /// so that all fragments of a packet stay together. Frames that are not IP form one flow for each EtherType.
    pub flow: u64,
    /// Whether the packet's sender supports ECN: it can be marked instead of dropped.
    pub ecn_capable: bool,
}

/// Position and kind of the network header.
enum Network {
    V4(usize),
    V6(usize),
    Other(u16),
}

fn word(frame: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]))
}

fn network(frame: &[u8]) -> Network {
    let mut at = 0;
    let mut kind = word(frame, at).unwrap_or(0);
    for _ in 0..MAX_VLAN_TAGS {
        if !VLAN_TAGS.contains(&kind) {
            break;
        }
        at += 4;
        kind = word(frame, at).unwrap_or(0);
    }
    let header = at + 2;
    match kind {
        ETHERTYPE_IPV4 if frame.len() >= header + 20 && frame[header] >> 4 == 4 => {
            Network::V4(header)
        }
        ETHERTYPE_IPV6 if frame.len() >= header + 40 && frame[header] >> 4 == 6 => {
            Network::V6(header)
        }
        other => Network::Other(other),
    }
}

/// Returns the traits of a frame.
#[must_use]
pub fn traits(frame: &[u8]) -> Traits {
    let mut hash = Hash(0);
    let ecn = match network(frame) {
        Network::V4(at) => {
            hash.bytes(&frame[at + 12..at + 20]);
            let protocol = frame[at + 9];
            let header = usize::from(frame[at] & 0xf) * 4;
            // A fragment: more fragments follow, or it is not the first one.
            let whole = word(frame, at + 6).is_some_and(|w| w & 0x3fff == 0);
            hash.transport(frame, protocol, whole.then_some(at + header));
            frame[at + 1] & CE
        }
        Network::V6(at) => {
            hash.bytes(&frame[at + 8..at + 40]);
            let (protocol, transport) = behind_extensions(frame, at);
            hash.transport(frame, protocol, transport);
            // The traffic class begins in the middle of the first byte, so its ECN bits are in the upper half of the
            // second.
            (frame[at + 1] >> 4) & CE
        }
        Network::Other(kind) => {
            hash.bytes(&kind.to_be_bytes());
            0
        }
    };
    Traits {
        flow: hash.0,
        // 0 is the only codepoint of senders without ECN (RFC 3168, section 5).
        ecn_capable: ecn != 0,
    }
}

/// Returns the transport protocol of an IPv6 packet, and the position of its header unless the packet is a fragment.
fn behind_extensions(frame: &[u8], network: usize) -> (u8, Option<usize>) {
    let mut protocol = frame[network + 6];
    let mut at = network + 40;
    let mut whole = true;
    for _ in 0..MAX_EXTENSIONS {
        let length = match protocol {
            HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS => match frame.get(at + 1) {
                Some(&units) => 8 + usize::from(units) * 8,
                None => return (protocol, None),
            },
            FRAGMENT => {
                // Offset and more-fragments flag; the two bits between them are reserved.
                whole = word(frame, at + 2).is_some_and(|w| w & 0xfff9 == 0);
                8
            }
            _ => return (protocol, whole.then_some(at)),
        };
        match frame.get(at) {
            Some(&next) => protocol = next,
            None => return (protocol, None),
        }
        at += length;
    }
    (protocol, None)
}

/// Returns the sum of the 16-bit words of up to 128 KiB, for [`fold`]. An odd byte at the end counts as the high byte
/// of a word (RFC 1071).
#[must_use]
#[inline]
pub fn words_sum(bytes: &[u8]) -> u32 {
    let (pairs, odd) = bytes.as_chunks();
    let words = pairs
        .iter()
        .map(|pair| u32::from(u16::from_be_bytes(*pair)));
    let last = odd.first().map_or(0, |byte| u32::from(*byte) << 8);
    words.sum::<u32>() + last
}

/// Folds a sum of words to 16 bits in one's complement (RFC 1071). An Internet checksum is its complement.
#[must_use]
#[inline]
pub fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Sets the ECN field of an IP packet to "congestion experienced" and updates the IPv4 header's checksum (RFC 1624).
/// Other frames are not changed. Returns whether the frame is marked now.
pub fn mark_ce(frame: &mut [u8]) -> bool {
    match network(frame) {
        Network::V4(at) => {
            let first = |frame: &[u8]| u16::from_be_bytes([frame[at], frame[at + 1]]);
            let old = first(frame);
            frame[at + 1] |= CE;
            let new = first(frame);
            let check = u16::from_be_bytes([frame[at + 10], frame[at + 11]]);
            // RFC 1624, equation 3: HC' = ~(~HC + ~m + m').
            let sum = fold(u32::from(!check) + u32::from(!old) + u32::from(new));
            frame[at + 10..at + 12].copy_from_slice(&(!sum).to_be_bytes());
            true
        }
        Network::V6(at) => {
            // IPv6 has no header checksum.
            frame[at + 1] |= CE << 4;
            true
        }
        Network::Other(_) => false,
    }
}

/// A hash that multiplies and folds eight bytes at a time.
struct Hash(u64);

impl Hash {
    fn word(&mut self, word: u64) {
        let wide = u128::from(self.0 ^ word ^ 0x9e37_79b9_7f4a_7c15)
            * u128::from(0xd134_2543_de82_ef95_u64);
        self.0 = (wide >> 64) as u64 ^ wide as u64;
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_be_bytes(word));
        }
    }

    fn transport(&mut self, frame: &[u8], protocol: u8, at: Option<usize>) {
        let ports = at
            .filter(|_| WITH_PORTS.contains(&protocol))
            .and_then(|at| Some((word(frame, at)?, word(frame, at + 2)?)));
        let (from, to) = ports.unwrap_or((0, 0));
        self.word(u64::from(protocol) << 32 | u64::from(from) << 16 | u64::from(to));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An IPv4 header with a right checksum, UDP from 1000 to 2000 behind it.
    fn v4(ecn: u8, fragment: u16) -> Vec<u8> {
        let mut p = vec![0x08, 0x00, 0x45, 0xb8 | ecn, 0, 28, 0x12, 0x34];
        p.extend(fragment.to_be_bytes());
        p.extend([64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        let check = !sum(&p[2..22]);
        p[12..14].copy_from_slice(&check.to_be_bytes());
        p.extend([0x03, 0xe8, 0x07, 0xd0, 0, 8, 0, 0]);
        p
    }

    fn v6(ecn: u8, next: u8, rest: &[u8]) -> Vec<u8> {
        let mut p = vec![
            0x86,
            0xdd,
            0x60 | 0x0b,
            0x80 | ecn << 4,
            1,
            2,
            0,
            8,
            next,
            64,
        ];
        p.extend([1; 16]);
        p.extend([2; 16]);
        p.extend(rest);
        p
    }

    const UDP: [u8; 8] = [0x03, 0xe8, 0x07, 0xd0, 0, 8, 0, 0];

    /// RFC 1071.
    fn sum(bytes: &[u8]) -> u16 {
        let words = bytes
            .chunks(2)
            .map(|w| u32::from(w[0]) << 8 | u32::from(w[1]));
        let mut sum: u32 = words.sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    #[test]
    fn marks_keep_the_checksum_right_and_touch_nothing_else() {
        for ecn in 0..4 {
            let mut p = v4(ecn, 0);
            let before = p.clone();
            assert_eq!(traits(&p).ecn_capable, ecn != 0);
            assert!(mark_ce(&mut p));
            assert_eq!(p[3], 0xbb);
            assert_eq!(sum(&p[2..22]), 0xffff, "a right header sums up to all ones");
            p[3] = before[3];
            p[12..14].copy_from_slice(&before[12..14]);
            assert_eq!(p, before);
            let mut p = v6(ecn, 17, &UDP);
            assert_eq!(traits(&p).ecn_capable, ecn != 0);
            assert!(mark_ce(&mut p));
            assert_eq!(p, v6(3, 17, &UDP));
        }
        let mut arp = vec![0x08, 0x06, 0, 1];
        assert!(!mark_ce(&mut arp));
        assert_eq!(arp, [0x08, 0x06, 0, 1]);
    }

    #[test]
    fn flows_are_told_apart_by_the_five_tuple_and_nothing_else() {
        let base = v4(0, 0);
        let flow = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut p = base.clone();
            change(&mut p);
            traits(&p).flow
        };
        let own = traits(&base).flow;
        for (at, differs) in [(3, false), (6, false), (10, false), (11, true), (14, true)] {
            assert_eq!(flow(&|p| p[at] ^= 4) != own, differs, "byte {at}");
        }
        for at in [17, 21, 22, 25] {
            assert_ne!(flow(&|p| p[at] ^= 1), own, "byte {at}");
        }
        assert_eq!(flow(&|p| p.push(9)), own, "payload");
        // Behind a tag it is the same flow.
        let tagged = [&[0x81, 0x00, 0, 7], &base[..]].concat();
        assert_eq!(traits(&tagged).flow, own);
    }

    #[test]
    fn fragments_stay_together() {
        let first = traits(&v4(0, 0x2000)).flow;
        let last = traits(&v4(0, 0x00b9)).flow;
        assert_eq!(first, last);
        assert_ne!(
            first,
            traits(&v4(0, 0x4000)).flow,
            "do not fragment is no fragment"
        );
        let fragment = |more: u8| {
            let mut rest = vec![17, 0, 0, more, 0, 0, 0, 1];
            rest.extend(UDP);
            traits(&v6(0, FRAGMENT, &rest)).flow
        };
        assert_eq!(fragment(1), fragment(9));
        assert_eq!(
            fragment(0),
            traits(&v6(0, 17, &UDP)).flow,
            "an atomic fragment"
        );
    }

    #[test]
    fn extension_headers_are_looked_through() {
        let mut rest = vec![DESTINATION_OPTIONS, 0, 1, 4, 0, 0, 0, 0];
        rest.extend([17, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        rest.extend(UDP);
        assert_eq!(
            traits(&v6(0, HOP_BY_HOP, &rest)).flow,
            traits(&v6(0, 17, &UDP)).flow
        );
    }

    proptest! {
        /// For all bytes: no panic, and marking changes only the ECN field and a checksum.
        #[test]
        fn any_bytes_will_do(
            kind in prop_oneof![Just([8u8, 0]), Just([0x86, 0xdd]), Just([0x81, 0]), any::<[u8; 2]>()],
            first in prop_oneof![Just(0x45u8), Just(0x60), any::<u8>()],
            rest in prop::collection::vec(any::<u8>(), 0..120),
        ) {
            let mut p = [&kind[..], &[first], &rest].concat();
            let before = p.clone();
            let traits_before = traits(&p);
            let marked = mark_ce(&mut p);
            let changed = p.iter().zip(&before).filter(|(a, b)| a != b).count();
            prop_assert!(changed <= 3);
            prop_assert!(marked || changed == 0);
            prop_assert_eq!(traits(&p).flow, traits_before.flow);
            prop_assert_eq!(traits(&p).ecn_capable, marked);
        }
    }
}
