//! Joining of frames of a TCP stream that are due at the same moment into one super-frame.
//!
//! Network cards do this with frames that arrive directly one after the other ("generic receive offload"), for the same
//! reason: a node receives a super-frame at the cost of one frame, or of two. Frames are joined only if cutting up the
//! super-frame would restore them bit by bit. They have passed their edge one by one, each with its own delay, place in
//! the queue and loss; none leaves before it is due.

use constel_link::packet::{fold, words_sum};

use super::gso::{IP, IPV4, TCP, TCP_CHECK, TYPE, finish, get, put, sequence};
use super::gso_out::Form;
use super::layout::ADDRESSES;

/// Largest headers: Ethernet, IPv6 or IPv4 without options, TCP with all possible options.
pub(crate) const HEADERS_MAX: usize = ADDRESSES + 2 + 40 + 60;
/// IP's length field has 16 bits.
const BYTES_MAX: usize = 65_535;
const IPV6: [u8; 2] = [0x86, 0xdd];
const DO_NOT_FRAGMENT: u16 = 0x4000;
const ACK: u8 = 0x10;
const PSH: u8 = 0x08;

/// Headers of a TCP frame with data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    /// The headers without the fields that differ from frame to frame of a stream.
    common: [u8; HEADERS_MAX],
    ipv4: bool,
    tcp_at: usize,
    headers: usize,
    payload: usize,
    id: u16,
    sequence: u32,
    pushes: bool,
}

impl Segment {
    /// Reads the headers from the first bytes of a frame of `len`, in which TCP begins at `tcp_at`. Returns `None` for
    /// a frame that cannot be part of a super-frame: only data frames with ACK, and optionally PSH, can.
    pub(crate) fn read(start: &[u8; HEADERS_MAX], len: usize, tcp_at: usize) -> Option<Segment> {
        let ipv4 = start[TYPE..IP] == IPV4;
        let ip_len = if ipv4 { 20 } else { 40 };
        if tcp_at != IP + ip_len || len < tcp_at + 20 {
            return None;
        }
        let plain = if ipv4 {
            // Version 4 and a header of five words: with options, the frames of a super-frame could not be restored
            // exactly.
            start[IP] == 0x45
                && start[IP + 9] == TCP
                && get(start, IP + 6) & !DO_NOT_FRAGMENT == 0
                && usize::from(get(start, IP + 2)) == len - IP
                // The kernel computes a new checksum for each segment, which would repair a damaged one.
                && fold(words_sum(&start[IP..tcp_at])) == 0xffff
        } else {
            start[TYPE..IP] == IPV6
                && start[IP] >> 4 == 6
                && start[IP + 6] == TCP
                && usize::from(get(start, IP + 4)) == len - IP - ip_len
        };
        let headers = tcp_at + usize::from(start[tcp_at + 12] >> 4) * 4;
        let flags = start[tcp_at + 13];
        // SYN, FIN, RST, URG and the ECN flags concern one segment, and cutting would repeat or lose them.
        if !plain || flags & !PSH != ACK || headers < tcp_at + 20 || headers >= len {
            return None;
        }
        // These fields differ between the frames of a super-frame and are compared on their own, or computed.
        let mut common = *start;
        let id = if ipv4 { get(start, IP + 4) } else { 0 };
        let varying: &[usize] = if ipv4 { &[2, 4, 10] } else { &[4] };
        varying.iter().for_each(|at| put(&mut common, IP + at, 0));
        for at in [4, 6, usize::from(TCP_CHECK)] {
            put(&mut common, tcp_at + at, 0);
        }
        common[tcp_at + 13] = ACK;
        Some(Segment {
            common,
            ipv4,
            tcp_at,
            headers,
            payload: len - headers,
            id,
            sequence: sequence(start, tcp_at),
            pushes: flags & PSH != 0,
        })
    }
}

/// Frames joined so far, at least one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Joined {
    first: Segment,
    frames: u16,
    payload: usize,
    /// Whether the last frame was pushed, or shorter than the first: no other may follow.
    ended: bool,
    pushes: bool,
}

impl Joined {
    pub(crate) fn new(first: Segment) -> Joined {
        Joined {
            first,
            frames: 1,
            payload: first.payload,
            ended: first.pushes,
            pushes: first.pushes,
        }
    }

    /// Joins the next frame. Returns false if it does not continue the others.
    pub(crate) fn take(&mut self, next: &Segment) -> bool {
        // The kernel cuts with rising sequence numbers and, in IPv4, rising identifications: only such frames restore
        // exactly.
        let first = &self.first;
        let follows = next.sequence == first.sequence.wrapping_add(self.payload as u32)
            && (!first.ipv4 || next.id == first.id.wrapping_add(self.frames));
        let same = next.headers == first.headers
            && next.common[..next.headers] == first.common[..first.headers];
        let fits = next.payload <= first.payload
            && first.headers - IP + self.payload + next.payload <= BYTES_MAX;
        if self.ended || !follows || !same || !fits {
            return false;
        }
        self.frames += 1;
        self.payload += next.payload;
        self.pushes = next.pushes;
        // The kernel cuts into equal parts: only the last segment may be shorter, and only it has the PSH flag.
        self.ended = next.pushes || next.payload < first.payload;
        true
    }

    /// Returns the headers of the super-frame, and their length.
    pub(crate) fn headers(&self) -> ([u8; HEADERS_MAX], usize) {
        let first = &self.first;
        let mut out = first.common;
        let len = first.headers + self.payload;
        if self.pushes {
            out[first.tcp_at + 13] |= PSH;
        }
        let (id, sequence) = (first.id, first.sequence);
        finish(&mut out, first.ipv4, first.tcp_at, len, id, sequence);
        (out, first.headers)
    }

    /// Returns the number of frames.
    pub(crate) fn frames(&self) -> u16 {
        self.frames
    }

    /// Returns the fields that the kernel needs to cut the super-frame up.
    pub(crate) fn form(&self) -> Form {
        Form {
            ipv4: self.first.ipv4,
            cwr: false,
            headers: self.first.headers,
            segment: self.first.payload as u16,
            csum_start: self.first.tcp_at as u16,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::relay::gso::{cut, frames, headers};
    use proptest::prelude::*;

    /// A super-frame as a node would send it, and the offset of its TCP header.
    fn gso(ipv4: bool, options: usize, payload: usize, pushes: bool) -> (Vec<u8>, usize) {
        let mut bytes = vec![1; ADDRESSES];
        if ipv4 {
            bytes.extend(IPV4);
            bytes.extend([0x45, 0, 0, 0, 0xff, 0xff, 0x40, 0, 64, TCP, 0, 0]);
            bytes.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        } else {
            bytes.extend(IPV6);
            bytes.extend([0x60, 0, 0, 0, 0, 0, TCP, 64]);
            bytes.extend((0..32).map(|n| n as u8));
        }
        let tcp_at = bytes.len();
        let mut tcp = vec![7; 20 + 4 * options];
        tcp[12] = ((5 + options) as u8) << 4;
        tcp[13] = ACK | if pushes { PSH } else { 0 };
        bytes.extend(tcp);
        bytes.extend((0..payload).map(|n| n as u8));
        let (len, sequence) = (bytes.len(), 0xffff_f000);
        finish(&mut bytes, ipv4, tcp_at, len, 0xfffe, sequence);
        (bytes, tcp_at)
    }

    fn read(frame: &[u8], tcp_at: usize) -> Option<Segment> {
        let mut start = [0; HEADERS_MAX];
        let len = frame.len().min(HEADERS_MAX);
        start[..len].copy_from_slice(&frame[..len]);
        Segment::read(&start, frame.len(), tcp_at)
    }

    /// Number `n` of a stream, of 1,400 bytes each.
    pub(crate) fn segment(n: u32) -> Segment {
        let (bytes, tcp_at) = gso(true, 3, 1400, false);
        let mut segment = read(&bytes, tcp_at).unwrap();
        segment.sequence = segment.sequence.wrapping_add(1400 * n);
        segment.id = segment.id.wrapping_add(n as u16);
        segment
    }

    fn cut_up(bytes: &[u8], tcp_at: usize, segment: usize) -> Vec<Vec<u8>> {
        let h = headers(bytes, tcp_at, false).unwrap();
        (0..frames(bytes.len(), h.len, segment))
            .map(|n| {
                let mut out = vec![0; 2048];
                let len = cut(bytes, h, tcp_at, segment, n, &mut out);
                out.truncate(len);
                out
            })
            .collect()
    }

    proptest! {
        /// The frames that a GSO frame is cut up into, when joined, are the GSO frame again.
        #[test]
        fn joining_undoes_cutting(
            ipv4: bool, options in 0usize..=10, segment in 1usize..1400, payload in 1usize..20_000, pushes: bool,
        ) {
            let (bytes, tcp_at) = gso(ipv4, options, payload, pushes);
            let all = cut_up(&bytes, tcp_at, segment);
            let mut joined = Joined::new(read(&all[0], tcp_at).unwrap());
            for next in &all[1..] {
                prop_assert!(joined.take(&read(next, tcp_at).unwrap()));
            }
            let (out, len) = joined.headers();
            prop_assert_eq!(&out[..len], &bytes[..len]);
            prop_assert_eq!(usize::from(joined.form().segment), segment.min(payload));
            // No frame follows a pushed or a short one.
            let mut more = bytes.clone();
            let (all, sequence) = (more.len(), 0xffff_f000u32.wrapping_add(payload as u32));
            let id = 0xfffe_u16.wrapping_add(joined.frames);
            finish(&mut more, ipv4, tcp_at, all, id, sequence);
            let more = &cut_up(&more, tcp_at, segment)[0];
            let open = !pushes && (payload <= segment || payload % segment == 0);
            prop_assert_eq!(joined.take(&read(more, tcp_at).unwrap()), open);
        }

        /// A frame with one changed bit in its headers is not joined, or the super-frame stands for it.
        #[test]
        fn what_differs_stays_apart(ipv4: bool, bit in 0usize..66 * 8) {
            let (bytes, tcp_at) = gso(ipv4, 3, 3000, false);
            let all = cut_up(&bytes, tcp_at, 1000);
            let mut next = all[1].clone();
            next[bit / 8] ^= 1 << (bit % 8);
            let mut joined = Joined::new(read(&all[0], tcp_at).unwrap());
            let taken = read(&next, tcp_at).is_some_and(|next| joined.take(&next));
            let check = tcp_at + 16..tcp_at + 18;
            let push = bit == (tcp_at + 13) * 8 + 3;
            // TCP's checksum is completed later, and a pushed frame ends the super-frame.
            prop_assert_eq!(taken, check.contains(&(bit / 8)) || push);
        }
    }

    #[test]
    fn too_long_for_one() {
        let mut joined = Joined::new(segment(0));
        let count = (1..).take_while(|&n| joined.take(&segment(n))).count() + 1;
        assert_eq!(count, (BYTES_MAX - 52) / 1400);
    }
}
