//! LEOTP packets on the wire (paper, section IV.B and Table I, widened).
//!
//! Network byte order. All packets begin with the same 10 bytes:
//!
//! | offset | bytes | field                                |
//! |-------:|------:|--------------------------------------|
//! |      0 |     1 | version 3 (high 4 bits), type (low 4) |
//! |      1 |     1 | flags                                |
//! |      2 |     8 | flow id                              |
//!
//! An Interest has 46 bytes. After these follow range start and end (exclusive, 8 bytes each),
//! sender's clock (ns, 8), send rate (bit/s, 8), the Requester's tag (2) and the number of
//! padding bytes that follow (2).
//!
//! Data has a short header, because every link carries it with every packet. The range start
//! follows, in 4 bytes or, from 4 GiB on, in 8; the range ends where the datagram does. A flag
//! shows whether the measurement ([`Timing`], 12 bytes) is present: time queued (2), tag of the
//! Interest behind the OWD (2), sender's clock (4) and Interest OWD (4), both in units of 64 ns
//! modulo 2^32. So a Data header has 14 to 30 bytes. A VPH is a Data header with the range's end
//! (8).
//!
//! Beyond the paper's 15-byte header this one supports flows beyond 4 GiB, rates beyond 65,535
//! units, timestamps finer than 1 us, and the Interest's one-way delay as a field of its own
//! instead of folded into the timestamp.

use thiserror::Error;

mod data;

pub use data::{DATA_HEADER_MAX, DataHeader, Timing, data_header_len};

/// The default UDP port. Not registered with IANA.
pub const DEFAULT_PORT: u16 = 5047;
/// Protocol version written and accepted.
pub const VERSION: u8 = 3;
/// Bytes of an Interest without padding.
pub const INTEREST_LEN: usize = 46;
/// Bytes at the beginning of all packets.
const COMMON_LEN: usize = 10;
/// Start of the range space that holds a flow's [metadata record](crate::Meta)
/// instead of its bytes. A flow's own bytes are `[0, 2^62)`.
pub const META_BASE: u64 = 1 << 62;
/// Largest payload a Data packet may carry, byte: a UDP datagram over IPv4.
pub const MAX_PAYLOAD: usize = 65_507 - DATA_HEADER_MAX;
/// Clocks of Data and VPH are counted in units of 2^6 ns.
const CLOCK_SHIFT: u32 = 6;
/// Clocks of Data and VPH wrap around after 2^38 ns, 275 s.
const CLOCK_BITS: u32 = 32 + CLOCK_SHIFT;
/// The time after which clocks in Data and VPH wrap around, ns.
pub const CLOCK_PERIOD_NS: u64 = 1 << CLOCK_BITS;
/// Resolution of the time queued, us.
const QUEUED_STEP_US: u32 = 64;
/// Time queued that means "this, longer, or not known", us.
pub const MAX_QUEUED_US: u32 = QUEUED_STEP_US * u16::MAX as u32;
/// Lowest send rate that an Interest may request, bit/s.
pub const MIN_RATE_BPS: u64 = 10_000;
/// Highest send rate that an Interest may request, bit/s.
pub const MAX_RATE_BPS: u64 = 100_000_000_000;

/// Data: `end` is the end of the flow.
pub const FLAG_FIN: u8 = 0x01;
/// Interest: requests again bytes believed lost. Data: answers such an Interest.
pub const FLAG_RTX: u8 = 0x02;
/// Interest: do not answer from caches, and forget their bytes of this range.
pub const FLAG_FRESH: u8 = 0x04;
/// Interest: timestamp and rate are not new; the Responder keeps its values. For nodes that
/// repair losses but leave congestion control to the endpoints.
pub const FLAG_BARE: u8 = 0x10;
/// Interest: the Requester accepts [`Timing`] in only some of the Data packets.
pub const FLAG_SPARSE: u8 = 0x20;
/// Data, VPH: the Interest OWD field holds a measurement. Only with [`FLAG_TIMED`].
pub const FLAG_OWD: u8 = 0x08;
/// Data, VPH: [`Timing`] is present.
pub const FLAG_TIMED: u8 = 0x40;
/// Data, VPH: the range's start has 8 bytes, because it does not fit 4.
pub const FLAG_WIDE: u8 = 0x80;

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
    /// Returns a range; `None` when `end < start`.
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
    /// The requested flow.
    pub flow: u64,
    /// The requested bytes. Empty: the Interest only carries a new rate.
    pub range: Range,
    /// Requester's clock when the packet left, ns.
    pub timestamp: u64,
    /// Rate that the Responder of this hop must use, bit/s, in
    /// [`MIN_RATE_BPS`]..=[`MAX_RATE_BPS`].
    pub rate_bps: u64,
    /// See [`FLAG_RTX`].
    pub rtx: bool,
    /// See [`FLAG_FRESH`].
    pub fresh: bool,
    /// See [`FLAG_BARE`].
    pub bare: bool,
    /// See [`FLAG_SPARSE`].
    pub sparse: bool,
    /// The name of the Requester's clock: the Interest OWD of a Data packet is valid only for the
    /// node whose tag comes back with it.
    pub tag: u16,
    /// Padding bytes after the header; they allow a larger answer under a Responder's
    /// amplification bound.
    pub padding: u16,
}

/// A parsed packet, borrowing its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packet<'a> {
    /// A request.
    Interest(Interest),
    /// Bytes of a flow.
    Data(DataHeader, &'a [u8]),
    /// A notice that an upstream node has detected the loss of these bytes and repairs it
    /// (section III.B).
    Vph(DataHeader),
}

/// Why a datagram is not a LEOTP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum WireError {
    /// Shorter than the header, or than the length in the header.
    #[error("packet of {have} bytes is shorter than the {need} it must have")]
    Short {
        /// Bytes present.
        have: usize,
        /// Bytes required.
        need: usize,
    },
    /// Longer than the length in the header.
    #[error("{0} bytes follow the packet")]
    Trailing(usize),
    /// A version that this node does not support.
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
    /// A range's start in 8 bytes that fits 4.
    #[error("range start {0} is in the long field and fits the short one")]
    Wide(u64),
}

/// End of the space of ranges: the metadata space is as long as the data space.
const SPACE_END: u64 = META_BASE << 1;

/// Returns a difference of clocks that were sent on the wire, ns: the value nearest to zero among
/// those that are equal modulo 2^38 ns, so between -137 and 137 s.
pub const fn clock_difference(ns: u64) -> i64 {
    // Shifting the 38 bits to the top and back extends their sign.
    (ns << (64 - CLOCK_BITS)) as i64 >> (64 - CLOCK_BITS)
}

const fn to_clock(ns: u64) -> u32 {
    (ns >> CLOCK_SHIFT) as u32
}

fn u16_at(b: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([b[at], b[at + 1]])
}

fn u32_at(b: &[u8], at: usize) -> u32 {
    let mut v = [0; 4];
    v.copy_from_slice(&b[at..at + 4]);
    u32::from_be_bytes(v)
}

fn u64_at(b: &[u8], at: usize) -> u64 {
    let mut v = [0; 8];
    v.copy_from_slice(&b[at..at + 8]);
    u64::from_be_bytes(v)
}

/// Reads a clock in ns from its 32 bits.
fn clock_at(b: &[u8], at: usize) -> u64 {
    u64::from(u32_at(b, at)) << CLOCK_SHIFT
}

/// Checks that a datagram has at least `need` bytes.
const fn at_least(b: &[u8], need: usize) -> Result<(), WireError> {
    if b.len() < need {
        let have = b.len();
        return Err(WireError::Short { have, need });
    }
    Ok(())
}

/// Checks that a datagram of `have` bytes has exactly `need`.
const fn exactly(have: usize, need: usize) -> Result<(), WireError> {
    if have < need {
        Err(WireError::Short { have, need })
    } else if have > need {
        Err(WireError::Trailing(have - need))
    } else {
        Ok(())
    }
}

/// Checks that a range is in the data space or in the metadata space, not across.
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
    /// Parses one datagram. Every field is checked before it is used; any input gives a packet or
    /// an error, never a panic.
    ///
    /// # Errors
    /// The first violation of the format.
    pub fn parse(b: &'a [u8]) -> Result<Self, WireError> {
        // Table I, with a version and flags in front.
        at_least(b, COMMON_LEN)?;
        let version = b[0] >> 4;
        if version != VERSION {
            return Err(WireError::Version(version));
        }
        let (kind, flags) = (b[0] & 0x0f, b[1]);
        let allowed = match kind {
            TYPE_INTEREST => FLAG_RTX | FLAG_FRESH | FLAG_BARE | FLAG_SPARSE,
            TYPE_DATA => FLAG_FIN | FLAG_RTX | FLAG_OWD | FLAG_TIMED | FLAG_WIDE,
            TYPE_VPH => FLAG_OWD | FLAG_TIMED | FLAG_WIDE,
            other => return Err(WireError::Type(other)),
        };
        // Unknown flags are an error, so that later versions can use them. An OWD is part of the
        // timing.
        if flags & !allowed != 0 || flags & (FLAG_OWD | FLAG_TIMED) == FLAG_OWD {
            return Err(WireError::Flags(flags));
        }
        match kind {
            TYPE_INTEREST => Ok(Packet::Interest(Interest::parse(b, flags)?)),
            TYPE_VPH => {
                // A VPH has the byte range of a hole (section III.B) and no payload.
                let (header, at) = DataHeader::parse(b, flags)?;
                exactly(b.len(), at + 8)?;
                let range = checked_range(header.range.start, u64_at(b, at))?;
                if range.is_empty() {
                    return Err(WireError::Nothing);
                }
                Ok(Packet::Vph(DataHeader { range, ..header }))
            }
            _ => {
                let (header, at) = DataHeader::parse(b, flags)?;
                // The payload's length gives the range's end: Table I's `length` field is not
                // needed.
                let payload = &b[at..];
                if payload.len() > MAX_PAYLOAD {
                    return Err(WireError::Trailing(payload.len() - MAX_PAYLOAD));
                }
                let start = header.range.start;
                let range = checked_range(start, start.saturating_add(payload.len() as u64))?;
                // Only a Data packet that announces the flow's end may have no bytes.
                if range.is_empty() && !header.fin {
                    return Err(WireError::Nothing);
                }
                Ok(Packet::Data(DataHeader { range, ..header }, payload))
            }
        }
    }
}

/// Appends the bytes at the beginning of all packets.
fn put_common(out: &mut Vec<u8>, kind: u8, flags: u8, flow: u64) {
    out.extend_from_slice(&[VERSION << 4 | kind, flags]);
    out.extend_from_slice(&flow.to_be_bytes());
}

/// Returns the sum of the flags that are set.
fn flags(set: &[(bool, u8)]) -> u8 {
    set.iter().filter(|(on, _)| *on).map(|(_, flag)| flag).sum()
}

impl Interest {
    /// Parses an Interest that begins with these flags.
    fn parse(b: &[u8], flags: u8) -> Result<Self, WireError> {
        at_least(b, INTEREST_LEN)?;
        // The padding must be present: its length pays for a larger answer.
        let padding = u16_at(b, 44);
        exactly(b.len(), INTEREST_LEN + usize::from(padding))?;
        let rate_bps = u64_at(b, 34);
        if !(MIN_RATE_BPS..=MAX_RATE_BPS).contains(&rate_bps) {
            return Err(WireError::Rate(rate_bps));
        }
        Ok(Self {
            flow: u64_at(b, 2),
            range: checked_range(u64_at(b, 10), u64_at(b, 18))?,
            timestamp: u64_at(b, 26),
            rate_bps,
            rtx: flags & FLAG_RTX != 0,
            fresh: flags & FLAG_FRESH != 0,
            bare: flags & FLAG_BARE != 0,
            sparse: flags & FLAG_SPARSE != 0,
            tag: u16_at(b, 42),
            padding,
        })
    }

    /// Appends the packet to `out`. A rate outside the field's span is set to its nearest end,
    /// because the protocol defines the span, not the caller.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let flags = flags(&[
            (self.rtx, FLAG_RTX),
            (self.fresh, FLAG_FRESH),
            (self.bare, FLAG_BARE),
            (self.sparse, FLAG_SPARSE),
        ]);
        let rate = self.rate_bps.clamp(MIN_RATE_BPS, MAX_RATE_BPS);
        out.reserve(INTEREST_LEN + usize::from(self.padding));
        put_common(out, TYPE_INTEREST, flags, self.flow);
        for v in [self.range.start, self.range.end, self.timestamp, rate] {
            out.extend_from_slice(&v.to_be_bytes());
        }
        out.extend_from_slice(&self.tag.to_be_bytes());
        out.extend_from_slice(&self.padding.to_be_bytes());
        out.resize(out.len() + usize::from(self.padding), 0);
    }
}

#[cfg(test)]
mod tests;
