//! The header of Data and Void Packet Headers.

use super::{
    COMMON_LEN, FLAG_FIN, FLAG_OWD, FLAG_RTX, FLAG_TIMED, FLAG_WIDE, QUEUED_STEP_US, Range,
    TYPE_DATA, TYPE_VPH, WireError, at_least, clock_at, clock_difference, flags, put_common,
    to_clock, u16_at, u32_at, u64_at,
};

/// The largest number of bytes of a Data packet before its payload.
pub const DATA_HEADER_MAX: usize = COMMON_LEN + WIDE_LEN + TIMING_LEN;
/// Bytes of a range's start that fits the short field, and of any other.
const NARROW_LEN: usize = 4;
const WIDE_LEN: usize = 8;
/// Bytes of [`Timing`].
const TIMING_LEN: usize = 12;

/// The measurement for a Requester: the Responder's half of hopRTT (section III.C) and the waits
/// on the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Responder's clock when the packet left, ns; on the wire in steps of 64 ns,
    /// modulo 2^38 ns (see [`clock_difference`]).
    pub timestamp: u64,
    /// One-way delay of this hop's latest Interest as the Responder saw it, ns,
    /// including the (cancelling) offset of the two clocks; on the wire as the timestamp.
    pub interest_owd: Option<i64>,
    /// Tag of the Interest that `interest_owd` belongs to.
    pub tag: u16,
    /// Time that the request and its answer have waited in LEOTP nodes (not on links) so far, us;
    /// on the wire in steps of 64 us; [`MAX_QUEUED_US`](super::MAX_QUEUED_US): that, longer, or
    /// not known.
    pub queued_us: u32,
}

impl Timing {
    /// Returns the Responder's clock and the Interest's OWD, if that was measured for an Interest
    /// with this `tag`: the OWD of another node's Interest is relative to another clock.
    pub fn measured(&self, tag: u16) -> Option<(u64, i64)> {
        let owd = self.interest_owd.filter(|_| self.tag == tag)?;
        Some((self.timestamp, owd))
    }
}

/// The header of a Data packet or, without payload, of a Void Packet Header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataHeader {
    /// Flow the bytes belong to.
    pub flow: u64,
    /// Data: the bytes carried. VPH: the bytes found missing upstream.
    pub range: Range,
    /// The measurement, if this packet carries it.
    pub timing: Option<Timing>,
    /// `range.end` is the end of the flow.
    pub fin: bool,
    /// The packet repairs a loss.
    pub rtx: bool,
}

/// Whether a range that starts here needs the long field.
const fn is_wide(start: u64) -> bool {
    start > u32::MAX as u64
}

/// Bytes of a Data packet's header.
pub const fn data_header_len(start: u64, timed: bool) -> usize {
    COMMON_LEN
        + if is_wide(start) { WIDE_LEN } else { NARROW_LEN }
        + if timed { TIMING_LEN } else { 0 }
}

impl DataHeader {
    /// Parses the header of Data or a VPH with these flags. Returns the header, with an empty
    /// range, and its length.
    pub(super) fn parse(b: &[u8], flags: u8) -> Result<(Self, usize), WireError> {
        let (wide, timed) = (flags & FLAG_WIDE != 0, flags & FLAG_TIMED != 0);
        let start_len = if wide { WIDE_LEN } else { NARROW_LEN };
        let at = COMMON_LEN + start_len;
        let end = at + if timed { TIMING_LEN } else { 0 };
        at_least(b, end)?;
        let start = if wide {
            u64_at(b, COMMON_LEN)
        } else {
            u64::from(u32_at(b, COMMON_LEN))
        };
        // One encoding per value: a start that fits 4 bytes must use them.
        if wide && !is_wide(start) {
            return Err(WireError::Wide(start));
        }
        let timing = if timed {
            let (owd, measured) = (clock_at(b, at + 8), flags & FLAG_OWD != 0);
            // A field that is not in use must be zero, so that it can have a meaning later.
            if !measured && owd != 0 {
                return Err(WireError::Reserved);
            }
            Some(Timing {
                queued_us: u32::from(u16_at(b, at)) * QUEUED_STEP_US,
                tag: u16_at(b, at + 2),
                timestamp: clock_at(b, at + 4),
                interest_owd: measured.then_some(clock_difference(owd)),
            })
        } else {
            None
        };
        let header = Self {
            flow: u64_at(b, 2),
            range: Range { start, end: start },
            timing,
            fin: flags & FLAG_FIN != 0,
            rtx: flags & FLAG_RTX != 0,
        };
        Ok((header, end))
    }

    fn put(&self, kind: u8, out: &mut Vec<u8>) {
        let (start, data) = (self.range.start, kind == TYPE_DATA);
        let owd = self.timing.and_then(|t| t.interest_owd);
        // The end of the flow and repairs are properties of payload, so a VPH has neither flag.
        let flags = flags(&[
            (self.fin && data, FLAG_FIN),
            (self.rtx && data, FLAG_RTX),
            (owd.is_some(), FLAG_OWD),
            (self.timing.is_some(), FLAG_TIMED),
            (is_wide(start), FLAG_WIDE),
        ]);
        put_common(out, kind, flags, self.flow);
        if is_wide(start) {
            out.extend_from_slice(&start.to_be_bytes());
        } else {
            out.extend_from_slice(&(start as u32).to_be_bytes());
        }
        if let Some(t) = self.timing {
            // A longer wait than the field can hold is sent as "this, longer, or not known".
            let queued = u16::try_from(t.queued_us / QUEUED_STEP_US).unwrap_or(u16::MAX);
            out.extend_from_slice(&queued.to_be_bytes());
            out.extend_from_slice(&t.tag.to_be_bytes());
            // Both clocks are sent modulo 2^38 ns: a delay of one hop is far below that.
            for v in [t.timestamp, owd.unwrap_or(0) as u64] {
                out.extend_from_slice(&to_clock(v).to_be_bytes());
            }
        }
    }

    /// Appends a Data packet. The range must be as long as the payload and the
    /// payload at most [`MAX_PAYLOAD`](super::MAX_PAYLOAD); state machines guarantee both.
    pub fn encode_data(&self, payload: &[u8], out: &mut Vec<u8>) {
        debug_assert_eq!(self.range.len(), payload.len() as u64);
        out.reserve(DATA_HEADER_MAX + payload.len());
        self.put(TYPE_DATA, out);
        out.extend_from_slice(payload);
    }

    /// Appends a Void Packet Header for the range.
    pub fn encode_vph(&self, out: &mut Vec<u8>) {
        out.reserve(DATA_HEADER_MAX + 8);
        self.put(TYPE_VPH, out);
        out.extend_from_slice(&self.range.end.to_be_bytes());
    }
}
