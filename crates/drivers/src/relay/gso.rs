//! GSO frames: super-frames of TCP and UDP, which stand for many frames that the sender's kernel has not cut up yet.
//!
//! A GSO frame passes as one over an edge that treats all of its frames equally and serves them in negligible time;
//! cutting it up and joining the frames again would cost ten times as much. For every other edge it is cut up here, and
//! UDP's in any case, as the kernel would have done just before the node's interface, so that rate, queue, loss and all
//! other effects act on frames.

use constel_link::packet::{fold, words_sum};

use super::layout::{ADDRESSES, FRAME_MAX};

/// A GSO frame in its slots.
#[derive(Clone, Debug)]
pub(crate) struct GsoFrame {
    /// The slots of its pieces.
    pub(crate) slots: Vec<u32>,
    /// Length in bytes, including the Ethernet header.
    pub(crate) len: u32,
    /// Payload of each frame except the last.
    pub(crate) segment: u16,
    /// Whether it is UDP's, not TCP's.
    pub(crate) udp: bool,
    /// Offset of the header of TCP or UDP.
    pub(crate) csum_start: u16,
    /// VLAN tag set by the node, which is not part of the bytes.
    pub(crate) vlan_tci: Option<u16>,
}

/// Offset of the checksum in TCP's header.
pub(crate) const TCP_CHECK: u16 = 16;
/// Offset of the checksum in UDP's header.
pub(crate) const UDP_CHECK: u16 = 6;

/// Largest number of frames in a super-frame of a node's TCP (`gso_max_segs` of its interfaces). With frames of the
/// usual sizes TCP makes no more in any case. A super-frame of many more frames is refused: cutting it up would delay
/// other nodes' frames.
pub const GSO_MAX_SEGS: u32 = 128;

/// Smallest headers of a TCP super-frame.
const HEADERS_MIN: u32 = 54;
/// Smallest headers of a UDP super-frame.
const UDP_HEADERS_MIN: u32 = 42;

impl GsoFrame {
    /// Returns the number of frames it may be cut up into, as the capture program counts them.
    pub(crate) fn frames_max(&self) -> u32 {
        let headers = if self.udp {
            UDP_HEADERS_MIN
        } else {
            HEADERS_MIN
        };
        let payload = self.len.saturating_sub(headers);
        payload.div_ceil(u32::from(self.segment).max(1))
    }
}

pub(crate) const TYPE: usize = ADDRESSES;
pub(crate) const IP: usize = ADDRESSES + 2;
pub(crate) const IPV4: [u8; 2] = [0x08, 0x00];
pub(crate) const TCP: u8 = 6;
const UDP: u8 = 17;
const UDP_HEADER: usize = 8;
const FIN_PSH: u8 = 0x09;
const CWR: u8 = 0x80;

/// Fields of a GSO frame's headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Headers {
    pub(crate) ipv4: bool,
    /// Whether it is UDP's, not TCP's.
    pub(crate) udp: bool,
    /// Length of all headers together.
    pub(crate) len: usize,
    /// Whether the first frame reports that the congestion window was reduced.
    pub(crate) cwr: bool,
}

impl Headers {
    /// Returns whether frames with these headers and a payload of `segment` bytes fit into slots.
    pub(crate) fn fit(self, segment: usize) -> bool {
        self.len + segment <= FRAME_MAX
    }
}

/// Reads the headers from the first bytes of a GSO frame; the header of TCP or UDP begins at `at`. Returns `None` when
/// they are not valid.
pub(crate) fn headers(start: &[u8], at: usize, udp: bool) -> Option<Headers> {
    let ipv4 = start.get(TYPE..IP)? == IPV4;
    let least = IP + if ipv4 { 20 } else { 40 };
    let (len, cwr) = if udp {
        (at + UDP_HEADER, false)
    } else {
        let flags = *start.get(at + 13)?;
        let own = usize::from(start.get(at + 12)? >> 4) * 4;
        if own < 20 {
            return None;
        }
        (at + own, flags & CWR != 0)
    };
    let whole = at >= least && len <= start.len();
    whole.then_some(Headers {
        ipv4,
        udp,
        len,
        cwr,
    })
}

/// Returns the number of frames in a GSO frame.
pub(crate) fn frames(len: usize, headers: usize, segment: usize) -> usize {
    len.saturating_sub(headers).div_ceil(segment.max(1)).max(1)
}

/// Writes frame `n` of the GSO frame into `out`, and returns its length. The checksum of TCP or UDP is left to be
/// completed, as the kernel leaves it: the field holds the sum of the pseudo header.
pub(crate) fn cut(
    gso: &[u8],
    headers: Headers,
    at: usize,
    segment: usize,
    n: usize,
    out: &mut [u8],
) -> usize {
    let from = headers.len + n * segment;
    let to = (from + segment).min(gso.len());
    let last = to == gso.len();
    let len = headers.len + to - from;
    out[..headers.len].copy_from_slice(&gso[..headers.len]);
    out[headers.len..len].copy_from_slice(&gso[from..to]);
    // As when the kernel cuts, identifications rise by one from frame to frame. IPv6 has none and ignores the number.
    let id = get(gso, IP + 4).wrapping_add(n as u16);
    if headers.udp {
        put(out, at + 4, (len - at) as u16);
        let pseudo = finish_ip(out, headers.ipv4, at, len, id) + u32::from(UDP);
        put(out, at + usize::from(UDP_CHECK), fold(pseudo));
        return len;
    }
    let sequence = sequence(gso, at).wrapping_add((n * segment) as u32);
    finish(out, headers.ipv4, at, len, id, sequence);
    // FIN and PSH belong to the end of the data: only the last frame keeps them. CWR is a single event: only the first
    // keeps it (RFC 3168).
    if !last {
        out[at + 13] &= !FIN_PSH;
    }
    if n > 0 {
        out[at + 13] &= !CWR;
    }
    len
}

/// Returns the sequence number of a frame.
pub(crate) fn sequence(frame: &[u8], tcp_at: usize) -> u32 {
    u32::from(get(frame, tcp_at + 4)) << 16 | u32::from(get(frame, tcp_at + 6))
}

/// Writes the header fields that depend on the length and position of a frame of `len` bytes: length, identification
/// (of IPv4) and checksum of IP, TCP's sequence number, and in place of its checksum the sum of the pseudo header.
pub(crate) fn finish(
    headers: &mut [u8],
    ipv4: bool,
    tcp_at: usize,
    len: usize,
    id: u16,
    sequence: u32,
) {
    put(headers, tcp_at + 4, (sequence >> 16) as u16);
    put(headers, tcp_at + 6, sequence as u16);
    let pseudo = finish_ip(headers, ipv4, tcp_at, len, id) + u32::from(TCP);
    put(headers, tcp_at + usize::from(TCP_CHECK), fold(pseudo));
}

/// Writes IP's fields. Returns the sum of the pseudo header without the protocol.
fn finish_ip(headers: &mut [u8], ipv4: bool, at: usize, len: usize, id: u16) -> u32 {
    let addresses = if ipv4 {
        put(headers, IP + 2, (len - IP) as u16);
        put(headers, IP + 4, id);
        put(headers, IP + 10, 0);
        let check = !fold(words_sum(&headers[IP..at]));
        put(headers, IP + 10, check);
        IP + 12..IP + 20
    } else {
        // IPv6's length field does not include its own header, and there is no checksum of the header.
        put(headers, IP + 4, (len - IP - 40) as u16);
        IP + 8..IP + 40
    };
    words_sum(&headers[addresses]) + (len - at) as u32
}

pub(crate) fn get(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn put(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gso(ipv4: bool, payload: usize) -> (Vec<u8>, usize) {
        let mut bytes = vec![1; ADDRESSES];
        bytes.extend(if ipv4 { [0x08, 0x00] } else { [0x86, 0xdd] });
        if ipv4 {
            let mut ip = vec![0x45, 0, 0, 0, 0xff, 0xff, 0x40, 0, 64, TCP, 0, 0];
            ip.extend([10, 0, 0, 1, 10, 0, 0, 2]);
            bytes.extend(ip);
        } else {
            let mut ip = vec![0x60, 0, 0, 0, 0, 0, TCP, 64];
            ip.extend((0..32).map(|n| n as u8));
            bytes.extend(ip);
        }
        let tcp_at = bytes.len();
        let mut tcp = vec![0; 32];
        tcp[4..8].copy_from_slice(&0xffff_ff00u32.to_be_bytes());
        tcp[12] = 8 << 4;
        tcp[13] = 0x10 | FIN_PSH | CWR;
        bytes.extend(tcp);
        bytes.extend((0..payload).map(|n| n as u8));
        (bytes, tcp_at)
    }

    #[test]
    fn the_frames_are_the_gso_frame() {
        for ipv4 in [true, false] {
            let (bytes, tcp_at) = gso(ipv4, 3001);
            let h = headers(&bytes, tcp_at, false).unwrap();
            assert_eq!((h.ipv4, h.len, h.cwr), (ipv4, tcp_at + 32, true));
            let count = frames(bytes.len(), h.len, 1448);
            assert_eq!(count, 3);
            let mut payload = Vec::new();
            for n in 0..count {
                let mut out = vec![0; 2000];
                let len = cut(&bytes, h, tcp_at, 1448, n, &mut out);
                let last = n == 2;
                assert_eq!(len, h.len + if last { 105 } else { 1448 });
                payload.extend_from_slice(&out[h.len..len]);
                let flags = out[tcp_at + 13];
                assert_eq!(flags & FIN_PSH != 0, last, "only the last ends anything");
                assert_eq!(flags & CWR != 0, n == 0, "only the first reduces");
                let seq = u32::from_be_bytes(out[tcp_at + 4..tcp_at + 8].try_into().unwrap());
                assert_eq!(seq, 0xffff_ff00u32.wrapping_add(n as u32 * 1448));
                if ipv4 {
                    assert_eq!(usize::from(get(&out, IP + 2)), len - IP);
                    assert_eq!(get(&out, IP + 4), 0xffffu16.wrapping_add(n as u16));
                    // RFC 1071: the sum over a good header is all ones.
                    assert_eq!(fold(words_sum(&out[IP..tcp_at])), 0xffff);
                } else {
                    assert_eq!(usize::from(get(&out, IP + 4)), len - tcp_at);
                }
                let addresses = if ipv4 {
                    IP + 12..IP + 20
                } else {
                    IP + 8..IP + 40
                };
                let by_hand = words_sum(&out[addresses]) + 6 + (len - tcp_at) as u32;
                assert_eq!(get(&out, tcp_at + 16), fold(by_hand));
            }
            assert_eq!(payload, bytes[h.len..]);
        }
    }

    #[test]
    fn datagrams_of_a_super_frame_are_whole_ones() {
        for ipv4 in [true, false] {
            let (mut bytes, at) = gso(ipv4, 0);
            bytes.truncate(at);
            bytes[if ipv4 { IP + 9 } else { IP + 6 }] = UDP;
            bytes.extend([0x13, 0x88, 0x13, 0x89, 0xff, 0xff, 7, 7]);
            bytes.extend((0..2500).map(|n| n as u8));
            let h = headers(&bytes, at, true).unwrap();
            assert_eq!((h.len, frames(bytes.len(), h.len, 1200)), (at + 8, 3));
            let mut payload = Vec::new();
            for n in 0..3 {
                let mut out = vec![0; 2000];
                let len = cut(&bytes, h, at, 1200, n, &mut out);
                assert_eq!(len, h.len + if n == 2 { 100 } else { 1200 });
                assert_eq!(out[at..at + 4], bytes[at..at + 4], "the same ports");
                assert_eq!(usize::from(get(&out, at + 4)), len - at);
                payload.extend_from_slice(&out[h.len..len]);
                let addresses = if ipv4 {
                    assert_eq!(usize::from(get(&out, IP + 2)), len - IP);
                    assert_eq!(fold(words_sum(&out[IP..at])), 0xffff);
                    IP + 12..IP + 20
                } else {
                    assert_eq!(usize::from(get(&out, IP + 4)), len - at);
                    IP + 8..IP + 40
                };
                let by_hand = words_sum(&out[addresses]) + 17 + (len - at) as u32;
                assert_eq!(get(&out, at + 6), fold(by_hand));
            }
            assert_eq!(payload, bytes[h.len..]);
            assert_eq!(headers(&bytes[..at + 7], at, true), None);
        }
    }

    #[test]
    fn a_gso_frame_is_charged_for_what_it_may_take() {
        let frames_max = |len, segment| {
            let gso = GsoFrame {
                slots: Vec::new(),
                len,
                segment,
                udp: false,
                csum_start: 34,
                vlan_tci: None,
            };
            gso.frames_max()
        };
        assert_eq!(frames_max(65_000, 1448), 45);
        assert_eq!(frames_max(65_000, 1), 64_946);
        assert_eq!(frames_max(40, 0), 0);
        // No fewer than the frames it is cut up into.
        for payload in [1, 1448, 1449, 64_000] {
            let (bytes, tcp_at) = gso(true, payload);
            let h = headers(&bytes, tcp_at, false).unwrap();
            let count = frames(bytes.len(), h.len, 536);
            assert!(frames_max(bytes.len() as u32, 536) >= count as u32);
        }
    }

    #[test]
    fn nonsense_is_no_gso_frame() {
        let (bytes, tcp_at) = gso(true, 100);
        assert_eq!(headers(&bytes[..tcp_at + 10], tcp_at, false), None);
        assert_eq!(headers(&bytes, 20, false), None, "inside of the IP header");
        let mut short = bytes.clone();
        short[tcp_at + 12] = 0x40;
        assert_eq!(headers(&short, tcp_at, false), None);
        assert_eq!(frames(100, 60, 0), 40);
        assert_eq!(frames(60, 60, 1448), 1);
    }
}
