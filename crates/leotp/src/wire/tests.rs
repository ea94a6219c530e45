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
    fn near_valid_bytes_parse_or_err(mut b in proptest::collection::vec(any::<u8>(), 48..120), t in 0u8..6) {
        b[0] = 0x10 | t;
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
    fn data_round_trip(flow: u64, start in 0..META_BASE - 2000, p in proptest::collection::vec(any::<u8>(), 1..1500), ts: u64, owd: Option<i64>, tag: u16, queued: u16,
            fin: bool, rtx: bool) {
        let h = DataHeader { flow, range: Range { start, end: start + p.len() as u64 }, timestamp: ts, interest_owd: owd, tag, queued_us: u32::from(queued) * 64, fin, rtx };
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
