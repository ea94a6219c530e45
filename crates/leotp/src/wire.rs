//! LEOTP packets on the wire (paper, section IV.B and Table I, widened).
//!
//! Network byte order. The first 22 bytes are the same in all packets:
//!
//! | offset | bytes | Interest        | Data              | VPH               |
//! |-------:|------:|-----------------|-------------------|-------------------|
//! |      0 |     1 | version 2 (high 4 bits), type (low 4 bits)           |||
//! |      1 |     1 | flags                                                |||
//! |      2 |     2 | padding bytes   | time queued, 64 us units            ||
//! |      4 |     2 | Requester's tag | tag of the Interest behind the OWD   ||
//! |      6 |     8 | flow id                                              |||
//! |     14 |     8 | range start, byte                                    |||
//!
//! An Interest has 46 bytes: then come range end (exclusive, 8 bytes), sender's clock
//! (ns, 8) and send rate (bit/s, 8). Data has 30 before its payload, because what every
//! packet carries is what every link pays for: sender's clock (4) and Interest OWD (4),
//! both in units of 64 ns modulo 2^32; the range ends where the datagram does. A VPH is
//! a Data header with the range's end (8): 38 bytes.
//!
//! What the paper's 15-byte header could not say and this one can: flows beyond
//! 4 GiB, rates beyond 65,535 units, timestamps finer than 1 us, and the Interest's
//! one-way delay as a field of its own instead of folded into the timestamp.

#![forbid(unsafe_code)]

use thiserror::Error;

/// Protocol version written and accepted.
pub const VERSION: u8 = 2;
/// Bytes of an Interest without padding.
pub const INTEREST_LEN: usize = 46;
/// Bytes of a Data packet before its payload.
pub const DATA_HEADER_LEN: usize = 30;
/// Bytes of a Void Packet Header.
pub const VPH_LEN: usize = 38;
/// Bytes that all packets begin with.
const COMMON_LEN: usize = 22;
/// Start of the range space that holds a flow's [metadata record](crate::core::Meta)
/// instead of its bytes. A flow's own bytes are `[0, 2^62)`.
pub const META_BASE: u64 = 1 << 62;
/// Largest payload a Data packet may carry, byte: a UDP datagram over IPv4.
pub const MAX_PAYLOAD: usize = 65_507 - DATA_HEADER_LEN;
/// Clocks of Data and VPH are counted in units of 2^6 ns.
const CLOCK_SHIFT: u32 = 6;
/// They come round after 2^38 ns, 275 s.
const CLOCK_BITS: u32 = 32 + CLOCK_SHIFT;
/// Resolution of the time queued, us.
const QUEUED_STEP_US: u32 = 64;
/// Time queued that means "this or longer", us.
pub const MAX_QUEUED_US: u32 = QUEUED_STEP_US * u16::MAX as u32;
/// Lowest send rate an Interest may ask for, bit/s.
pub const MIN_RATE_BPS: u64 = 10_000;
/// Highest send rate an Interest may ask for, bit/s.
pub const MAX_RATE_BPS: u64 = 100_000_000_000;

/// Data: `end` is the end of the flow.
pub const FLAG_FIN: u8 = 0x01;
/// Interest: asks again for bytes believed lost. Data: answers such an Interest.
pub const FLAG_RTX: u8 = 0x02;
/// Interest: do not answer from caches, and forget what they hold of this range.
pub const FLAG_FRESH: u8 = 0x04;
/// Interest: timestamp and rate are no news; the Responder keeps what it has.
/// For nodes that repair losses but leave congestion control to the endpoints.
pub const FLAG_BARE: u8 = 0x10;
/// Data, VPH: the Interest OWD field holds a measurement.
pub const FLAG_OWD: u8 = 0x08;

const TYPE_INTEREST: u8 = 1;
const TYPE_DATA: u8 = 2;
const TYPE_VPH: u8 = 3;

/// A half-open range of bytes of a flow, `start <= end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Range {
    /// First byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
}

impl Range {
    /// A range; `None` when `end < start`.
    pub const fn new(start: u64, end: u64) -> Option<Self> {
        if end < start {
            None
        } else {
            Some(Self { start, end })
        }
    }

    /// Bytes in the range.
    pub const fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Whether the range holds no byte.
    pub const fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Whether both ranges share a byte.
    pub const fn overlaps(&self, other: &Self) -> bool {
        self.start < other.end && other.start < self.end
    }

    /// Whether the range lies in the metadata space.
    pub const fn is_meta(&self) -> bool {
        self.start >= META_BASE
    }
}

/// A request for a range of a flow, and the rate at which to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interest {
    /// Flow asked for.
    pub flow: u64,
    /// Bytes asked for. Empty: nothing is asked, only the rate is news.
    pub range: Range,
    /// Requester's clock when the packet left, ns.
    pub timestamp: u64,
    /// Rate the Responder of this hop shall keep, bit/s,
    /// in [`MIN_RATE_BPS`]..=[`MAX_RATE_BPS`].
    pub rate_bps: u64,
    /// See [`FLAG_RTX`].
    pub rtx: bool,
    /// See [`FLAG_FRESH`].
    pub fresh: bool,
    /// See [`FLAG_BARE`].
    pub bare: bool,
    /// Names the Requester's clock: a Data packet's Interest OWD is only for the
    /// node whose tag comes back with it.
    pub tag: u16,
    /// Padding bytes after the header; they buy a larger answer under a
    /// Responder's amplification bound.
    pub padding: u16,
}

/// The header of a Data packet or, without payload, of a Void Packet Header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataHeader {
    /// Flow the bytes belong to.
    pub flow: u64,
    /// Data: the bytes carried. VPH: the bytes found missing upstream.
    pub range: Range,
    /// Responder's clock when the packet left, ns; on the wire in steps of 64 ns,
    /// modulo 2^38 ns (see [`clock_difference`]).
    pub timestamp: u64,
    /// One-way delay of this hop's latest Interest as the Responder saw it, ns,
    /// including the (cancelling) offset of the two clocks; on the wire as the timestamp.
    pub interest_owd: Option<i64>,
    /// Tag of the Interest that `interest_owd` belongs to.
    pub tag: u16,
    /// Time the request and its answer have waited in LEOTP nodes (not links)
    /// so far, us; on the wire in steps of 64 us up to 4.19 s.
    pub queued_us: u32,
    /// `range.end` is the end of the flow.
    pub fin: bool,
    /// The packet repairs a loss.
    pub rtx: bool,
}

/// A parsed packet, borrowing its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packet<'a> {
    /// A request.
    Interest(Interest),
    /// Bytes of a flow.
    Data(DataHeader, &'a [u8]),
    /// Notice that an upstream node has seen these bytes missing and repairs
    /// the loss (section III.B).
    Vph(DataHeader),
}

/// Why a datagram is not a LEOTP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum WireError {
    /// Shorter than the header, or than the header says.
    #[error("packet of {have} bytes is shorter than the {need} it must have")]
    Short {
        /// Bytes present.
        have: usize,
        /// Bytes required.
        need: usize,
    },
    /// Longer than the header says.
    #[error("{0} bytes follow the packet")]
    Trailing(usize),
    /// A version this node does not speak.
    #[error("version {0} is not spoken here")]
    Version(u8),
    /// Neither Interest, Data nor VPH.
    #[error("packet type {0} does not exist")]
    Type(u8),
    /// A flag that does not belong to this type of packet, or no flag at all.
    #[error("flags {0:#04x} do not belong to this type of packet")]
    Flags(u8),
    /// End before start, or an end beyond the space of ranges.
    #[error("range [{0}, {1}) is not a range")]
    Range(u64, u64),
    /// Neither bytes nor the end of the flow.
    #[error("a packet about no bytes at all")]
    Nothing,
    /// A rate outside the field's span.
    #[error("send rate {0} bit/s is outside 10 kbit/s to 100 Gbit/s")]
    Rate(u64),
    /// A field that must be zero is not.
    #[error("reserved field is not zero")]
    Reserved,
}

/// End of the space of ranges: the metadata space is as long as the data space.
const SPACE_END: u64 = META_BASE << 1;

/// A difference of clocks that have been on the wire, ns: the one nearest to zero of
/// those that are the same modulo 2^38 ns, so between -137 and 137 s.
pub const fn clock_difference(ns: u64) -> i64 {
    (ns << (64 - CLOCK_BITS)) as i64 >> (64 - CLOCK_BITS)
}

const fn to_clock(ns: u64) -> u32 {
    (ns >> CLOCK_SHIFT) as u32
}

fn u64_at(b: &[u8], at: usize) -> u64 {
    let mut v = [0; 8];
    v.copy_from_slice(&b[at..at + 8]);
    u64::from_be_bytes(v)
}

/// A clock in ns, from its 32 bits.
fn clock_at(b: &[u8], at: usize) -> u64 {
    let mut v = [0; 4];
    v.copy_from_slice(&b[at..at + 4]);
    u64::from(u32::from_be_bytes(v)) << CLOCK_SHIFT
}

/// A datagram of `have` bytes that must have `need`.
const fn exactly(have: usize, need: usize) -> Result<(), WireError> {
    if have < need {
        Err(WireError::Short { have, need })
    } else if have > need {
        Err(WireError::Trailing(have - need))
    } else {
        Ok(())
    }
}

/// A range lies in the data space or in the metadata space, not across.
fn checked_range(start: u64, end: u64) -> Result<Range, WireError> {
    let bad = WireError::Range(start, end);
    let range = Range::new(start, end).ok_or(bad)?;
    let most = if range.is_meta() {
        SPACE_END
    } else {
        META_BASE
    };
    if end <= most { Ok(range) } else { Err(bad) }
}

impl<'a> Packet<'a> {
    /// Parses one datagram. Every byte is checked before it is believed; any
    /// input gives a packet or an error, never a panic.
    pub fn parse(b: &'a [u8]) -> Result<Self, WireError> {
        let short = |need| WireError::Short {
            have: b.len(),
            need,
        };
        if b.len() < COMMON_LEN {
            return Err(short(COMMON_LEN));
        }
        let version = b[0] >> 4;
        if version != VERSION {
            return Err(WireError::Version(version));
        }
        let (kind, flags) = (b[0] & 0x0f, b[1]);
        let (allowed, need) = match kind {
            TYPE_INTEREST => (FLAG_RTX | FLAG_FRESH | FLAG_BARE, INTEREST_LEN),
            TYPE_DATA => (FLAG_FIN | FLAG_RTX | FLAG_OWD, DATA_HEADER_LEN),
            TYPE_VPH => (FLAG_OWD, VPH_LEN),
            other => return Err(WireError::Type(other)),
        };
        if flags & !allowed != 0 {
            return Err(WireError::Flags(flags));
        }
        if b.len() < need {
            return Err(short(need));
        }
        let second = u16::from_be_bytes([b[2], b[3]]);
        let tag = u16::from_be_bytes([b[4], b[5]]);
        let (flow, start) = (u64_at(b, 6), u64_at(b, 14));
        if kind == TYPE_INTEREST {
            exactly(b.len(), INTEREST_LEN + usize::from(second))?;
            let rate_bps = u64_at(b, 38);
            if !(MIN_RATE_BPS..=MAX_RATE_BPS).contains(&rate_bps) {
                return Err(WireError::Rate(rate_bps));
            }
            return Ok(Packet::Interest(Interest {
                flow,
                range: checked_range(start, u64_at(b, 22))?,
                timestamp: u64_at(b, 30),
                rate_bps,
                rtx: flags & FLAG_RTX != 0,
                fresh: flags & FLAG_FRESH != 0,
                bare: flags & FLAG_BARE != 0,
                tag,
                padding: second,
            }));
        }
        let (owd, measured) = (clock_at(b, 26), flags & FLAG_OWD != 0);
        if !measured && owd != 0 {
            return Err(WireError::Reserved);
        }
        let header = |range| DataHeader {
            flow,
            range,
            timestamp: clock_at(b, 22),
            interest_owd: measured.then_some(clock_difference(owd)),
            tag,
            queued_us: u32::from(second) * QUEUED_STEP_US,
            fin: flags & FLAG_FIN != 0,
            rtx: flags & FLAG_RTX != 0,
        };
        if kind == TYPE_VPH {
            exactly(b.len(), VPH_LEN)?;
            let range = checked_range(start, u64_at(b, 30))?;
            return if range.is_empty() {
                Err(WireError::Nothing)
            } else {
                Ok(Packet::Vph(header(range)))
            };
        }
        let payload = &b[DATA_HEADER_LEN..];
        if payload.len() > MAX_PAYLOAD {
            return Err(WireError::Trailing(payload.len() - MAX_PAYLOAD));
        }
        let range = checked_range(start, start.saturating_add(payload.len() as u64))?;
        // Only "the flow ends here" may be said without bytes.
        if range.is_empty() && flags & FLAG_FIN == 0 {
            return Err(WireError::Nothing);
        }
        Ok(Packet::Data(header(range), payload))
    }
}

/// The bytes that all packets begin with. `second`: padding or time queued.
fn put_common(out: &mut Vec<u8>, kind: u8, flags: u8, second: u16, tag: u16, words: [u64; 2]) {
    out.extend_from_slice(&[VERSION << 4 | kind, flags]);
    out.extend_from_slice(&second.to_be_bytes());
    out.extend_from_slice(&tag.to_be_bytes());
    for v in words {
        out.extend_from_slice(&v.to_be_bytes());
    }
}

impl Interest {
    /// Appends the packet to `out`. A rate outside the field's span is brought
    /// to its nearest end, because the span is the protocol's, not the caller's.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let flags = (if self.rtx { FLAG_RTX } else { 0 })
            | (if self.fresh { FLAG_FRESH } else { 0 })
            | (if self.bare { FLAG_BARE } else { 0 });
        let rate = self.rate_bps.clamp(MIN_RATE_BPS, MAX_RATE_BPS);
        out.reserve(INTEREST_LEN + usize::from(self.padding));
        let words = [self.flow, self.range.start];
        put_common(out, TYPE_INTEREST, flags, self.padding, self.tag, words);
        for v in [self.range.end, self.timestamp, rate] {
            out.extend_from_slice(&v.to_be_bytes());
        }
        out.resize(out.len() + usize::from(self.padding), 0);
    }
}

impl DataHeader {
    fn flags(&self) -> u8 {
        (if self.fin { FLAG_FIN } else { 0 })
            | (if self.rtx { FLAG_RTX } else { 0 })
            | (if self.interest_owd.is_some() {
                FLAG_OWD
            } else {
                0
            })
    }

    fn put(&self, kind: u8, flags: u8, out: &mut Vec<u8>) {
        let queued = u16::try_from(self.queued_us / QUEUED_STEP_US).unwrap_or(u16::MAX);
        let words = [self.flow, self.range.start];
        put_common(out, kind, flags, queued, self.tag, words);
        let owd = self.interest_owd.unwrap_or(0) as u64;
        for v in [self.timestamp, owd] {
            out.extend_from_slice(&to_clock(v).to_be_bytes());
        }
    }

    /// Appends a Data packet. The range must be as long as the payload and the
    /// payload at most [`MAX_PAYLOAD`]; state machines guarantee both.
    pub fn encode_data(&self, payload: &[u8], out: &mut Vec<u8>) {
        debug_assert_eq!(self.range.len(), payload.len() as u64);
        out.reserve(DATA_HEADER_LEN + payload.len());
        self.put(TYPE_DATA, self.flags(), out);
        out.extend_from_slice(payload);
    }

    /// Appends a Void Packet Header for the range.
    pub fn encode_vph(&self, out: &mut Vec<u8>) {
        out.reserve(VPH_LEN);
        self.put(TYPE_VPH, self.flags() & FLAG_OWD, out);
        out.extend_from_slice(&self.range.end.to_be_bytes());
    }
}

#[cfg(test)]
mod tests;
