//! LEOTP packets on the wire (paper, section IV.B and Table I, widened).
//!
//! Every packet starts with one 48-byte header in network byte order:
//!
//! | offset | bytes | Interest        | Data              | VPH               |
//! |-------:|------:|-----------------|-------------------|-------------------|
//! |      0 |     1 | version 1 (high 4 bits), type (low 4 bits)           |||
//! |      1 |     1 | flags                                                |||
//! |      2 |     2 | padding bytes   | payload bytes     | 0                 |
//! |      4 |     2 | 0               | time queued, 64 us units            ||
//! |      6 |     2 | Requester's tag | tag of the Interest behind the OWD   ||
//! |      8 |     8 | flow id                                              |||
//! |     16 |     8 | range start, byte                                    |||
//! |     24 |     8 | range end (exclusive), byte                          |||
//! |     32 |     8 | sender's clock, ns                                   |||
//! |     40 |     8 | send rate, bit/s| Interest OWD, ns  | Interest OWD, ns  |
//!
//! What the paper's 15-byte header could not say and this one can: flows beyond
//! 4 GiB, rates beyond 65,535 units, timestamps of 1 ns, and the Interest's
//! one-way delay as a field of its own instead of folded into the timestamp.

#![forbid(unsafe_code)]

use thiserror::Error;

/// Protocol version written and accepted.
pub const VERSION: u8 = 1;
/// Bytes of the header that starts every packet.
pub const HEADER_LEN: usize = 48;
/// Start of the range space that holds a flow's [metadata record](crate::core::Meta)
/// instead of its bytes. A flow's own bytes are `[0, 2^62)`.
pub const META_BASE: u64 = 1 << 62;
/// Largest payload a Data packet may carry, byte: a UDP datagram over IPv4.
pub const MAX_PAYLOAD: usize = 65_507 - HEADER_LEN;
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
    /// Responder's clock when the packet left, ns.
    pub timestamp: u64,
    /// One-way delay of this hop's latest Interest as the Responder saw it, ns,
    /// including the (cancelling) offset of the two clocks.
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
    /// Range and payload disagree, or an empty packet that says nothing.
    #[error("range of {range} bytes but payload of {payload}")]
    Length {
        /// Bytes named by the range.
        range: u64,
        /// Bytes carried.
        payload: usize,
    },
    /// A rate outside the field's span.
    #[error("send rate {0} bit/s is outside 10 kbit/s to 100 Gbit/s")]
    Rate(u64),
    /// A field that must be zero is not.
    #[error("reserved field is not zero")]
    Reserved,
}

/// End of the space of ranges: the metadata space is as long as the data space.
const SPACE_END: u64 = META_BASE << 1;

fn u64_at(b: &[u8], at: usize) -> u64 {
    let mut v = [0; 8];
    v.copy_from_slice(&b[at..at + 8]);
    u64::from_be_bytes(v)
}

impl<'a> Packet<'a> {
    /// Parses one datagram. Every byte is checked before it is believed; any
    /// input gives a packet or an error, never a panic.
    pub fn parse(b: &'a [u8]) -> Result<Self, WireError> {
        if b.len() < HEADER_LEN {
            return Err(WireError::Short {
                have: b.len(),
                need: HEADER_LEN,
            });
        }
        let version = b[0] >> 4;
        if version != VERSION {
            return Err(WireError::Version(version));
        }
        let (kind, flags) = (b[0] & 0x0f, b[1]);
        let length = usize::from(u16::from_be_bytes([b[2], b[3]]));
        let queued = u16::from_be_bytes([b[4], b[5]]);
        let tag = u16::from_be_bytes([b[6], b[7]]);
        let flow = u64_at(b, 8);
        let (start, end) = (u64_at(b, 16), u64_at(b, 24));
        let (timestamp, last) = (u64_at(b, 32), u64_at(b, 40));
        let allowed = match kind {
            TYPE_INTEREST => FLAG_RTX | FLAG_FRESH | FLAG_BARE,
            TYPE_DATA => FLAG_FIN | FLAG_RTX | FLAG_OWD,
            TYPE_VPH => FLAG_OWD,
            other => return Err(WireError::Type(other)),
        };
        if flags & !allowed != 0 {
            return Err(WireError::Flags(flags));
        }
        let range = Range::new(start, end).ok_or(WireError::Range(start, end))?;
        // A range lies in the data space or in the metadata space, not across.
        let fits = if range.is_meta() {
            end <= SPACE_END
        } else {
            end <= META_BASE
        };
        if !fits {
            return Err(WireError::Range(start, end));
        }
        let need = HEADER_LEN + length;
        if b.len() < need {
            return Err(WireError::Short {
                have: b.len(),
                need,
            });
        }
        if b.len() > need {
            return Err(WireError::Trailing(b.len() - need));
        }
        if kind == TYPE_INTEREST {
            if queued != 0 {
                return Err(WireError::Reserved);
            }
            if !(MIN_RATE_BPS..=MAX_RATE_BPS).contains(&last) {
                return Err(WireError::Rate(last));
            }
            return Ok(Packet::Interest(Interest {
                flow,
                range,
                timestamp,
                rate_bps: last,
                rtx: flags & FLAG_RTX != 0,
                fresh: flags & FLAG_FRESH != 0,
                bare: flags & FLAG_BARE != 0,
                tag,
                padding: length as u16,
            }));
        }
        let owd = flags & FLAG_OWD != 0;
        if !owd && last != 0 {
            return Err(WireError::Reserved);
        }
        let header = DataHeader {
            flow,
            range,
            timestamp,
            interest_owd: owd.then_some(last as i64),
            tag,
            queued_us: u32::from(queued) * QUEUED_STEP_US,
            fin: flags & FLAG_FIN != 0,
            rtx: flags & FLAG_RTX != 0,
        };
        let wrong = WireError::Length {
            range: range.len(),
            payload: length,
        };
        if kind == TYPE_VPH {
            return if length == 0 && !range.is_empty() {
                Ok(Packet::Vph(header))
            } else {
                Err(wrong)
            };
        }
        // Only "the flow ends here" may be said without bytes.
        if range.len() != length as u64 || (range.is_empty() && !header.fin) {
            return Err(wrong);
        }
        Ok(Packet::Data(header, &b[HEADER_LEN..]))
    }
}

/// `words`: flow, range start, range end, timestamp, last field.
fn put_header(
    out: &mut Vec<u8>,
    kind: u8,
    flags: u8,
    length: u16,
    queued_tag: (u16, u16),
    words: [u64; 5],
) {
    out.reserve(HEADER_LEN + usize::from(length));
    out.extend_from_slice(&[VERSION << 4 | kind, flags]);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&queued_tag.0.to_be_bytes());
    out.extend_from_slice(&queued_tag.1.to_be_bytes());
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
        let words = [
            self.flow,
            self.range.start,
            self.range.end,
            self.timestamp,
            rate,
        ];
        put_header(
            out,
            TYPE_INTEREST,
            flags,
            self.padding,
            (0, self.tag),
            words,
        );
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

    fn queued_tag(&self) -> (u16, u16) {
        (
            u16::try_from(self.queued_us / QUEUED_STEP_US).unwrap_or(u16::MAX),
            self.tag,
        )
    }

    fn words(&self) -> [u64; 5] {
        let owd = self.interest_owd.unwrap_or(0) as u64;
        [
            self.flow,
            self.range.start,
            self.range.end,
            self.timestamp,
            owd,
        ]
    }

    /// Appends a Data packet. The range must be as long as the payload and the
    /// payload at most [`MAX_PAYLOAD`]; state machines guarantee both.
    pub fn encode_data(&self, payload: &[u8], out: &mut Vec<u8>) {
        debug_assert_eq!(self.range.len(), payload.len() as u64);
        put_header(
            out,
            TYPE_DATA,
            self.flags(),
            payload.len() as u16,
            self.queued_tag(),
            self.words(),
        );
        out.extend_from_slice(payload);
    }

    /// Appends a Void Packet Header for the range.
    pub fn encode_vph(&self, out: &mut Vec<u8>) {
        put_header(
            out,
            TYPE_VPH,
            self.flags() & FLAG_OWD,
            0,
            self.queued_tag(),
            self.words(),
        );
    }
}

#[cfg(test)]
mod tests;
