//! Round trips, golden bytes, lies.

use super::*;
use proptest::prelude::*;

/// Ranges anywhere, and around the two places where something changes: 4 GiB and metadata.
fn range() -> impl Strategy<Value = Range> {
    prop_oneof![
        (0..META_BASE - 70_000, 0u64..60_000),
        ((1u64 << 32) - 2000..(1 << 32) + 2000, 0u64..60_000),
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
    fn near_valid_bytes_parse_or_err(mut b in proptest::collection::vec(any::<u8>(), 10..120), t in 0u8..6, narrow: bool) {
        b[0] = VERSION << 4 | t;
        b[1] &= if narrow { 0x4b } else { 0xfb };
        if let Ok(Packet::Data(h, p)) = Packet::parse(&b) {
            prop_assert_eq!(h.range.len(), p.len() as u64);
            prop_assert_eq!(b.len() - p.len(), data_header_len(h.range.start, h.timing.is_some()));
        }
    }

    #[test]
    fn interest_round_trip(flow: u64, r in range(), ts: u64, rate in MIN_RATE_BPS..=MAX_RATE_BPS, rtx: bool, fresh: bool, bare: bool, sparse: bool, tag: u16, padding in 0u16..400) {
        let i = Interest { flow, range: r, timestamp: ts, rate_bps: rate, rtx, fresh, bare, sparse, tag, padding };
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
    fn data_round_trip(flow: u64, r in range(), ts: u32, owd: Option<i32>, tag: u16, queued: u16, timed: bool, fin: bool, rtx: bool) {
        let timing = Timing { timestamp: u64::from(ts) << 6, interest_owd: owd.map(|o| i64::from(o) << 6), tag, queued_us: u32::from(queued) * 64 };
        let fin = fin || r.is_empty();
        let h = DataHeader { flow, range: r, timing: timed.then_some(timing), fin, rtx };
        let p = vec![7; r.len() as usize];
        let mut b = vec![];
        h.encode_data(&p, &mut b);
        prop_assert_eq!(Packet::parse(&b), Ok(Packet::Data(h, &p)));
        let header = data_header_len(r.start, timed);
        prop_assert_eq!(b.len() - p.len(), header);
        // A header cut short is never another packet.
        prop_assert!(Packet::parse(&b[..header - 1]).is_err());
        let v = DataHeader { fin: false, rtx: false, ..h };
        b.clear();
        v.encode_vph(&mut b);
        if r.is_empty() {
            prop_assert_eq!(Packet::parse(&b), Err(WireError::Nothing));
        } else {
            prop_assert_eq!(Packet::parse(&b), Ok(Packet::Vph(v)));
            b.push(0);
            prop_assert_eq!(Packet::parse(&b), Err(WireError::Trailing(1)));
        }
    }
}

fn hex(b: &[u8]) -> String {
    b.iter().map(|x| format!("{x:02x}")).collect()
}

/// The examples of docs/reference/leotp-wire.md.
#[test]
fn golden_bytes() {
    let flow = 0x1122_3344_5566_7788;
    let interest = Interest {
        flow,
        range: Range {
            start: 1400,
            end: 2800,
        },
        timestamp: 1_000_000_007,
        rate_bps: 20_000_000,
        rtx: true,
        fresh: false,
        bare: false,
        sparse: true,
        tag: 0xabcd,
        padding: 0,
    };
    let mut b = vec![];
    interest.encode(&mut b);
    assert_eq!(
        hex(&b),
        "312211223344556677880000000000000578\
         0000000000000af0000000003b9aca070000000001312d00abcd0000"
    );
    assert_eq!(b.len(), INTEREST_LEN);
    let short = DataHeader {
        flow,
        range: Range {
            start: 1400,
            end: 1404,
        },
        timing: None,
        fin: false,
        rtx: false,
    };
    b.clear();
    short.encode_data(b"abcd", &mut b);
    assert_eq!(hex(&b), "320011223344556677880000057861626364");
    let timed = DataHeader {
        range: Range {
            start: 1 << 32,
            end: (1 << 32) + 4,
        },
        timing: Some(Timing {
            timestamp: 640,
            interest_owd: Some(-64),
            tag: 0xabcd,
            queued_us: 192,
        }),
        fin: true,
        rtx: true,
        ..short
    };
    b.clear();
    timed.encode_data(b"abcd", &mut b);
    assert_eq!(
        hex(&b),
        "32cb112233445566778800000001000000000003abcd0000000affffffff61626364"
    );
    assert_eq!(b.len(), DATA_HEADER_MAX + 4);
    b.clear();
    short.encode_vph(&mut b);
    assert_eq!(hex(&b), "3300112233445566778800000578000000000000057c");
}

#[test]
fn lies_are_refused() {
    let h = DataHeader {
        flow: 1,
        range: Range { start: 0, end: 4 },
        timing: Some(Timing {
            timestamp: 0,
            interest_owd: None,
            tag: 0,
            queued_us: 0,
        }),
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
    assert_eq!(broken(0, 0x34), WireError::Type(4));
    assert_eq!(broken(1, FLAG_TIMED | FLAG_FRESH), WireError::Flags(0x44));
    // A measurement needs its field.
    assert_eq!(broken(1, FLAG_OWD), WireError::Flags(FLAG_OWD));
    assert_eq!(broken(25, 1), WireError::Reserved);
    assert_eq!(Packet::parse(&ok[..26]), Err(WireError::Nothing));
    assert_eq!(
        Packet::parse(&ok[..25]),
        Err(WireError::Short { have: 25, need: 26 })
    );
    let long_start = |start: u64| {
        let mut b = vec![0x32, FLAG_WIDE];
        b.extend_from_slice(&1u64.to_be_bytes());
        b.extend_from_slice(&start.to_be_bytes());
        b.extend_from_slice(b"abcd");
        Packet::parse(&b).map(|_| ())
    };
    assert_eq!(long_start(1 << 32), Ok(()));
    assert_eq!(long_start(1400), Err(WireError::Wide(1400)));
    // A range ends at the end of the metadata space.
    let end = 1 << 63;
    assert_eq!(long_start(end), Err(WireError::Range(end, end + 4)));
    assert_eq!(
        long_start(u64::MAX),
        Err(WireError::Range(u64::MAX, u64::MAX))
    );
    let mut vph = vec![];
    DataHeader { timing: None, ..h }.encode_vph(&mut vph);
    let mut backwards = vph.clone();
    (backwards[13], backwards[21]) = (9, 5);
    assert_eq!(Packet::parse(&backwards), Err(WireError::Range(9, 5)));
    backwards[13] = 5;
    assert_eq!(Packet::parse(&backwards), Err(WireError::Nothing));
    vph.push(0);
    assert_eq!(Packet::parse(&vph), Err(WireError::Trailing(1)));
}

proptest! {
    /// Differences of two clocks survive their 32 bits, at all values of the clocks.
    #[test]
    fn clocks_come_round(a: u64, difference in -137_000_000_000i64..137_000_000_000) {
        let far = |ns: u64| u64::from(to_clock(ns)) << CLOCK_SHIFT;
        let got = clock_difference(far(a.wrapping_add(difference as u64)).wrapping_sub(far(a)));
        prop_assert!((got - difference).abs() <= 64, "{got} for {difference}");
    }
}
