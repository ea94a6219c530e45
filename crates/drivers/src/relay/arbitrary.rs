//! Super-frames of nodes with arbitrary bytes, for fuzz tests: they are cut up and joined as in a thread of the relay.

use super::gro::{HEADERS_MAX, Joined, Segment};
use super::gso::{self, TCP_CHECK, UDP_CHECK};
use super::gso_in::gso_of;
use super::layout::{Desc, FRAME_MAX, PIECE};

/// Cuts a super-frame up and joins its frames again. The input has a byte whose lowest bit selects UDP, the payload of a frame
/// and the offset of the transport header (two bytes each, big-endian), and the super-frame. Returns whether its headers are
/// valid.
///
/// # Panics
/// When the frames do not have the payload of the super-frame, when a frame does not fit into a slot, or when joined frames, cut
/// up again, are not those that were joined.
#[must_use]
pub fn reads_super_frame(bytes: &[u8]) -> bool {
    let Some((&[selector, a, b, c, d], frame)) = bytes.split_first_chunk::<5>() else {
        return false;
    };
    let slots: Vec<u32> = (0..frame.len().div_ceil(PIECE) as u32).collect();
    let desc = Desc {
        ts_ns: 0,
        slot: 0,
        ifindex: 0,
        len: slots.len() as u16,
        flags: 0,
        csum_start: u16::from_be_bytes([c, d]),
        csum_offset: match selector & 1 {
            0 => TCP_CHECK,
            _ => UDP_CHECK,
        },
        gso_len: frame.len() as u32,
        segment: u16::from_be_bytes([a, b]),
        vlan_tci: 0,
    };
    let Some(gso) = gso_of(&desc, slots, u32::MAX) else {
        return false;
    };
    let at = usize::from(gso.csum_start);
    let segment = usize::from(gso.segment).max(1);
    let first = &frame[..frame.len().min(PIECE)];
    let headers = gso::headers(first, at, gso.udp).filter(|headers| headers.fit(segment));
    let Some(headers) = headers else {
        return false;
    };
    let count = gso::frames(frame.len(), headers.len, segment);
    assert!(count as u32 <= gso.frames_max().max(1), "charged for fewer");
    let mut cut = Vec::with_capacity(count);
    let mut payload = Vec::new();
    for n in 0..count {
        let mut out = [0; FRAME_MAX];
        let len = gso::cut(frame, headers, at, segment, n, &mut out);
        payload.extend_from_slice(&out[headers.len..len]);
        cut.push(out[..len].to_vec());
    }
    assert_eq!(payload, frame[headers.len..], "all of it, in order");
    // Only frames whose checksum is TCP's are joined, whatever protocol their IP header names.
    if !gso.udp {
        join(&cut, at);
    }
    true
}

/// Joins all frames that can be joined.
fn join(frames: &[Vec<u8>], at: usize) {
    let mut joined: Option<Joined> = None;
    let mut parts: &[Vec<u8>] = &[];
    for (n, frame) in frames.iter().enumerate() {
        let mut start = [0; HEADERS_MAX];
        let known = frame.len().min(HEADERS_MAX);
        start[..known].copy_from_slice(&frame[..known]);
        let next = Segment::read(&start, frame.len(), at);
        let is_taken = joined
            .as_mut()
            .zip(next.as_ref())
            .is_some_and(|(joined, next)| joined.take(next));
        if is_taken {
            parts = &frames[n - parts.len()..=n];
        } else {
            restore(joined, parts, at);
            joined = next.map(Joined::new);
            parts = &frames[n..=n];
        }
    }
    restore(joined, parts, at);
}

/// Cuts joined frames up again.
fn restore(joined: Option<Joined>, parts: &[Vec<u8>], at: usize) {
    let Some(joined) = joined else {
        return;
    };
    assert_eq!(usize::from(joined.frames()), parts.len());
    let (headers, len) = joined.headers();
    let mut whole = headers[..len].to_vec();
    parts
        .iter()
        .for_each(|part| whole.extend_from_slice(&part[len..]));
    let Some(headers) = gso::headers(&whole, at, false) else {
        panic!("the headers of joined frames are not valid");
    };
    let segment = usize::from(joined.form().segment);
    for (n, part) in parts.iter().enumerate() {
        let mut out = [0; FRAME_MAX];
        let len = gso::cut(&whole, headers, at, segment, n, &mut out);
        assert_eq!(out[..len], part[..], "to the bit");
    }
}
