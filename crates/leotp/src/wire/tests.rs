//! Round trips, golden bytes, lies.

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
    fn near_valid_bytes_parse_or_err(mut b in proptest::collection::vec(any::<u8>(), 22..120), t in 0u8..6) {
        b[0] = VERSION << 4 | t;
        b[1] &= 0x0f;
        if let Ok(Packet::Data(h, p)) = Packet::parse(&b) {
            prop_assert_eq!(h.range.len(), p.len() as u64);
        }
    }

    #[test]
    fn interest_round_trip(flow: u64, r in range(), ts: u64, rate in MIN_RATE_BPS..=MAX_RATE_BPS, rtx: bool, fresh: bool, bare: bool, tag: u16, padding in 0u16..400) {
        let i = Interest { flow, range: r, timestamp: ts, rate_bps: rate, rtx, fresh, bare, tag, padding };
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
    fn data_round_trip(flow: u64, start in 0..META_BASE - 2000, p in proptest::collection::vec(any::<u8>(), 1..1500), ts: u32, owd: Option<i32>, tag: u16, queued: u16,
            fin: bool, rtx: bool) {
        let h = DataHeader { flow, range: Range { start, end: start + p.len() as u64 }, timestamp: u64::from(ts) << 6, interest_owd: owd.map(|o| i64::from(o) << 6), tag, queued_us: u32::from(queued) * 64, fin, rtx };
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
        tag: 0,
        padding: 0,
    };
    let mut b = vec![];
    i.encode(&mut b);
    let hex: String = b.iter().map(|x| format!("{x:02x}")).collect();
    assert_eq!(
        hex,
        "21020000000011223344556677880000000000000578\
         0000000000000af0000000003b9aca070000000001312d00"
    );
}

#[test]
fn lies_are_refused() {
    let h = DataHeader {
        flow: 1,
        range: Range { start: 0, end: 4 },
        timestamp: 0,
        interest_owd: None,
        tag: 0,
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
    assert_eq!(broken(0, 0x12), WireError::Version(1));
    assert_eq!(broken(0, 0x24), WireError::Type(4));
    assert_eq!(broken(1, 0x04), WireError::Flags(4));
    assert_eq!(broken(29, 1), WireError::Reserved);
    // Where the metadata space ends, a range does as well.
    assert_eq!(broken(14, 0x80), WireError::Range(1 << 63, (1 << 63) + 4));
    assert_eq!(
        Packet::parse(&ok[..29]),
        Err(WireError::Short { have: 29, need: 30 })
    );
    assert_eq!(Packet::parse(&ok[..30]), Err(WireError::Nothing));
    let mut vph = vec![];
    h.encode_vph(&mut vph);
    assert_eq!(vph.len(), VPH_LEN);
    let mut backwards = vph.clone();
    (backwards[21], backwards[37]) = (9, 5);
    assert_eq!(Packet::parse(&backwards), Err(WireError::Range(9, 5)));
    backwards[21] = 5;
    assert_eq!(Packet::parse(&backwards), Err(WireError::Nothing));
    vph.push(0);
    assert_eq!(Packet::parse(&vph), Err(WireError::Trailing(1)));
}

proptest! {
    /// What two clocks say of each other survives their 32 bits, wherever the clocks stand.
    #[test]
    fn clocks_come_round(a: u64, difference in -137_000_000_000i64..137_000_000_000) {
        let far = |ns: u64| u64::from(to_clock(ns)) << CLOCK_SHIFT;
        let got = clock_difference(far(a.wrapping_add(difference as u64)).wrapping_sub(far(a)));
        prop_assert!((got - difference).abs() <= 64, "{got} for {difference}");
    }
}
