//! LEOTP packets on the wire (paper, section IV.B and Table I, widened).
//!
//! Every packet starts with one 48-byte header in network byte order:
//!
//! | offset | bytes | Interest        | Data              | VPH               |
//! |-------:|------:|-----------------|-------------------|-------------------|
//! |      0 |     1 | version 1 (high 4 bits), type (low 4 bits)           |||
//! |      1 |     1 | flags                                                |||
//! |      2 |     2 | padding bytes   | payload bytes     | 0                 |
//! |      4 |     4 | 0               | time queued, us   | time queued, us   |
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
    /// Time the request and its answer have waited in LEOTP nodes (not links)
    /// so far, us, saturating.
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
        let queued_us = u32::from_be_bytes([b[4], b[5], b[6], b[7]]);
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
            if queued_us != 0 {
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
            queued_us,
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

fn put_header(
    out: &mut Vec<u8>,
    kind: u8,
    flags: u8,
    length: u16,
    queued_us: u32,
    flow: u64,
    range: Range,
    ts: u64,
    last: u64,
) {
    out.reserve(HEADER_LEN + usize::from(length));
    out.extend_from_slice(&[VERSION << 4 | kind, flags]);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&queued_us.to_be_bytes());
    for v in [flow, range.start, range.end, ts, last] {
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
        put_header(
            out,
            TYPE_INTEREST,
            flags,
            self.padding,
            0,
            self.flow,
            self.range,
            self.timestamp,
            rate,
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

    /// Appends a Data packet. The range must be as long as the payload and the
    /// payload at most [`MAX_PAYLOAD`]; state machines guarantee both.
    pub fn encode_data(&self, payload: &[u8], out: &mut Vec<u8>) {
        debug_assert_eq!(self.range.len(), payload.len() as u64);
        let last = self.interest_owd.unwrap_or(0) as u64;
        put_header(
            out,
            TYPE_DATA,
            self.flags(),
            payload.len() as u16,
            self.queued_us,
            self.flow,
            self.range,
            self.timestamp,
            last,
        );
        out.extend_from_slice(payload);
    }

    /// Appends a Void Packet Header for the range.
    pub fn encode_vph(&self, out: &mut Vec<u8>) {
        let last = self.interest_owd.unwrap_or(0) as u64;
        put_header(
            out,
            TYPE_VPH,
            self.flags() & FLAG_OWD,
            0,
            self.queued_us,
            self.flow,
            self.range,
            self.timestamp,
            last,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range() -> impl Strategy<Value = Range> {
        prop_oneof![
            (0..META_BASE - 70_000, 0u64..60_000),
            (META_BASE..META_BASE + 9, 0u64..60_000)
        ]
        .prop_map(|(s, n)| Range {
            start: s,
            end: s + n,
        })
    }

    proptest! {
        #[test]
        fn any_bytes_parse_or_err(b in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Packet::parse(&b);
        }

        #[test]
        fn near_valid_bytes_parse_or_err(mut b in proptest::collection::vec(any::<u8>(), 48..120), t in 0u8..6) {
            b[0] = 0x10 | t;
            b[1] &= 0x0f;
            if let Ok(Packet::Data(h, p)) = Packet::parse(&b) {
                prop_assert_eq!(h.range.len(), p.len() as u64);
            }
        }

        #[test]
        fn interest_round_trip(flow: u64, r in range(), ts: u64, rate in MIN_RATE_BPS..=MAX_RATE_BPS, rtx: bool, fresh: bool, bare: bool, padding in 0u16..400) {
            let i = Interest { flow, range: r, timestamp: ts, rate_bps: rate, rtx, fresh, bare, padding };
            let mut b = vec![];
            i.encode(&mut b);
            prop_assert_eq!(Packet::parse(&b), Ok(Packet::Interest(i)));
            // One byte more or less is never accepted.
            b.push(0);
            prop_assert!(Packet::parse(&b).is_err());
            b.truncate(b.len() - 2);
            prop_assert!(Packet::parse(&b).is_err());
        }

        #[test]
        fn data_round_trip(flow: u64, start in 0..META_BASE - 2000, p in proptest::collection::vec(any::<u8>(), 1..1500), ts: u64, owd: Option<i64>, queued_us: u32, fin: bool, rtx: bool) {
            let h = DataHeader { flow, range: Range { start, end: start + p.len() as u64 }, timestamp: ts, interest_owd: owd, queued_us, fin, rtx };
            let mut b = vec![];
            h.encode_data(&p, &mut b);
            prop_assert_eq!(Packet::parse(&b), Ok(Packet::Data(h, &p)));
            let v = DataHeader { fin: false, rtx: false, ..h };
            b.clear();
            v.encode_vph(&mut b);
            prop_assert_eq!(Packet::parse(&b), Ok(Packet::Vph(v)));
        }
    }

    #[test]
    fn golden_bytes() {
        // The example of docs/reference/leotp-wire.md.
        let i = Interest {
            flow: 0x1122_3344_5566_7788,
            range: Range {
                start: 1400,
                end: 2800,
            },
            timestamp: 1_000_000_007,
            rate_bps: 20_000_000,
            rtx: true,
            fresh: false,
            bare: false,
            padding: 0,
        };
        let mut b = vec![];
        i.encode(&mut b);
        let hex: String = b.iter().map(|x| format!("{x:02x}")).collect();
        assert_eq!(
            hex,
            "1102000000000000112233445566778800000000000005780000000000000af0000000003b9aca070000000001312d00"
        );
    }

    #[test]
    fn lies_are_refused() {
        let h = DataHeader {
            flow: 1,
            range: Range { start: 0, end: 4 },
            timestamp: 0,
            interest_owd: None,
            queued_us: 0,
            fin: false,
            rtx: false,
        };
        let mut ok = vec![];
        h.encode_data(b"abcd", &mut ok);
        let broken = |at: usize, v: u8| {
            let mut b = ok.clone();
            b[at] = v;
            Packet::parse(&b).unwrap_err()
        };
        assert_eq!(broken(0, 0x22), WireError::Version(2));
        assert_eq!(broken(0, 0x14), WireError::Type(4));
        assert_eq!(broken(1, 0x04), WireError::Flags(4));
        assert_eq!(
            broken(31, 5),
            WireError::Length {
                range: 5,
                payload: 4
            }
        );
        assert_eq!(broken(24, 0xff), WireError::Range(0, 0xff00_0000_0000_0004));
        assert_eq!(broken(47, 1), WireError::Reserved);
        assert_eq!(
            Packet::parse(&ok[..51]),
            Err(WireError::Short { have: 51, need: 52 })
        );
    }
}
