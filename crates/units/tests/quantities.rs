//! Parsing, printing and refusing quantities.

use std::time::{Duration, SystemTime};

use constel_units::*;
use proptest::prelude::*;

fn fails<T: std::str::FromStr<Err = UnitError> + std::fmt::Debug>(text: &str) -> String {
    text.parse::<T>().expect_err(text).to_string()
}

#[test]
fn parses_what_the_scenarios_say() {
    assert_eq!("550 km".parse(), Ok(Length::from_m(550_000.0)));
    assert_eq!("550km".parse(), Ok(Length::from_m(550_000.0)));
    assert_eq!(" -12.5 m ".parse(), Ok(Length::from_m(-12.5)));
    assert_eq!("53 deg".parse(), Ok(Angle::from_deg(53.0)));
    assert_eq!("53°".parse(), Ok(Angle::from_deg(53.0)));
    assert_eq!("0.9 rad".parse(), Ok(Angle::from_deg(0.9_f64.to_degrees())));
    for (text, ns) in [
        ("12 ms", 12_000_000),
        ("1.5 s", 1_500_000_000),
        ("3 min", 180_000_000_000),
        ("200 us", 200_000),
        ("200 µs", 200_000),
        ("1 h", 3_600_000_000_000),
        ("100 ns", 100),
        ("2 d", 172_800_000_000_000),
        ("0.000000001 s", 1),
        ("1e-9 s", 1),
        ("-3 ns", -3),
    ] {
        assert_eq!(text.parse(), Ok(TimeSpan::from_ns(ns)), "{text}");
    }
    // Exact in decimal; 0.1 * 1e9 in f64 would be exact by luck, 0.3 * 1e9 and 1.1 * 1e12 not.
    for (text, bps) in [
        ("0.1 Gbit/s", 100_000_000),
        ("0.3 Gbit/s", 300_000_000),
        ("1.1 Tbit/s", 1_100_000_000_000),
        ("64 kbit/s", 64_000),
        ("10Mbit/s", 10_000_000),
        ("18446744073709551615 bit/s", u64::MAX),
        ("9007.199254740993 Tbit/s", 9_007_199_254_740_993),
    ] {
        assert_eq!(text.parse(), Ok(DataRate::from_bps(bps)), "{text}");
    }
    assert_eq!("256 KiB".parse(), Ok(DataSize::from_bytes(262_144)));
    assert_eq!("10 MB".parse(), Ok(DataSize::from_bytes(10_000_000)));
    assert_eq!("0.5 KiB".parse(), Ok(DataSize::from_bytes(512)));
    assert_eq!("1500 B".parse(), Ok(DataSize::from_bytes(1500)));
    assert_eq!("0.1 %".parse(), Ratio::from_ratio(0.001));
    assert_eq!("12 ppm".parse(), Ratio::from_ratio(0.000_012));
    assert_eq!("100 %".parse(), Ratio::from_ratio(1.0));
}

#[test]
fn parses_what_radio_links_need() {
    assert_eq!("12 GHz".parse(), Ok(Frequency::from_hz(12e9)));
    assert_eq!("10.7GHz".parse(), Ok(Frequency::from_hz(10.7e9)));
    assert_eq!("240 MHz".parse(), Ok(Frequency::from_hz(240e6)));
    assert_eq!("36 dBW".parse(), Ok(Power::from_dbw(36.0)));
    assert_eq!("66 dBm".parse(), Ok(Power::from_dbw(36.0)));
    assert_eq!("-1.5 dB".parse(), Ok(Decibels::from_db(-1.5)));
    assert_eq!("9 dB/K".parse(), Ok(FigureOfMerit::from_db_per_k(9.0)));
    assert_eq!("150 K".parse(), Ok(Temperature::from_k(150.0)));
    assert_eq!("15 degC".parse(), Ok(Temperature::from_k(288.15)));
    assert_eq!("25 mm/h".parse(), Ok(RainRate::from_mm_per_h(25.0)));
    assert_eq!(Frequency::from_hz(10.7e9).to_string(), "10.7 GHz");
    assert_eq!(Frequency::from_hz(240e6).to_string(), "240 MHz");
    assert_eq!(Power::from_dbw(-3.5).to_string(), "-3.5 dBW");
    assert!(fails::<Power>("5 W").ends_with("1 W is \"0 dBW\""));
    assert!(fails::<FigureOfMerit>("9 dB").ends_with("a receiver's G/T is in \"dB/K\""));
}

#[test]
fn prints_readably() {
    assert_eq!(Length::from_m(550_000.0).to_string(), "550 km");
    assert_eq!(Length::from_m(999.5).to_string(), "999.5 m");
    assert_eq!(Length::from_m(-0.0).to_string(), "0 m");
    assert_eq!(Angle::from_deg(86.4).to_string(), "86.4 deg");
    assert_eq!(TimeSpan::from_ns(1_500_000_000).to_string(), "1500 ms");
    assert_eq!(TimeSpan::from_ns(86_400_000_000_000).to_string(), "1 d");
    assert_eq!(TimeSpan::from_ns(-1_000).to_string(), "-1 us");
    assert_eq!(DataRate::from_bps(1_500_000).to_string(), "1.5 Mbit/s");
    assert_eq!(DataRate::from_bps(0).to_string(), "0 bit/s");
    assert_eq!(DataSize::from_bytes(262_144).to_string(), "256 KiB");
    assert_eq!(Ratio::from_ratio(0.001).unwrap().to_string(), "0.1 %");
}

#[test]
fn a_unit_is_always_required() {
    for format in FORMATS.iter().filter(|format| **format != "utc") {
        for text in ["5", "0", "5 "] {
            let error = parse_format(format, text).expect_err(text);
            assert!(
                matches!(error, UnitError::MissingUnit { .. }),
                "{format} {text}: {error}"
            );
        }
    }
    assert_eq!(
        fails::<Length>("550"),
        "length \"550\" has no unit; allowed: m, km; write it like \"550 km\""
    );
}

#[test]
fn wrong_units_get_the_allowed_ones_and_a_hint() {
    assert_eq!(
        fails::<DataRate>("10 Mbps"),
        "unknown unit \"Mbps\" for data rate; allowed: bit/s, kbit/s, Mbit/s, Gbit/s, Tbit/s; \
         did you mean \"Mbit/s\"?"
    );
    assert!(fails::<DataRate>("10 MB/s").contains("multiply by 8"));
    assert!(fails::<DataRate>("10 mbit/s").ends_with("did you mean \"Mbit/s\"?"));
    assert!(fails::<DataRate>("10 MB").ends_with("\"MB\" is a unit of data size"));
    assert!(fails::<TimeSpan>("5 m").ends_with("did you mean \"min\" or \"ms\"?"));
    assert!(fails::<Length>("5 ms").ends_with("did you mean \"m\"?"));
    assert!(fails::<Length>("5 KM").ends_with("did you mean \"km\"?"));
    assert!(fails::<Angle>("5 degs").ends_with("did you mean \"deg\"?"));
    assert!(fails::<DataSize>("5 KB").contains("KiB"));
    assert!(fails::<Length>("5 parsec").ends_with("allowed: m, km"));
}

#[test]
fn nothing_is_rounded_or_clamped() {
    for (format, text) in [
        ("datarate", "0.1 bit/s"),
        ("datasize", "0.3 KiB"),
        ("timespan", "0.5 ns"),
        ("timespan", "1.0000000001 s"),
        ("utc", "2022-09-14T12:00:00.0000000001Z"),
    ] {
        let error = parse_format(format, text).expect_err(text);
        assert!(
            matches!(error, UnitError::LosesPrecision { .. }),
            "{text}: {error}"
        );
    }
    for (format, text) in [
        ("datarate", "-1 bit/s"),
        ("datarate", "18446744073709551616 bit/s"),
        ("datasize", "-1 B"),
        ("datasize", "17000000 TiB"),
        ("timespan", "300000 d"),
        ("timespan", "9223372036854775808 ns"),
        ("length", "1e306 km"),
        ("length", "1e999 m"),
        ("angle", "1e400 deg"),
        ("ratio", "100.1 %"),
        ("ratio", "-1 ppm"),
        ("frequency", "-1 Hz"),
        ("frequency", "1e308 GHz"),
        ("temperature", "-300 degC"),
        ("rainrate", "-1 mm/h"),
        ("power", "1e400 dBW"),
        ("utc", "2300-01-01T00:00:00Z"),
        ("utc", "1600-01-01T00:00:00Z"),
    ] {
        let error = parse_format(format, text).expect_err(text);
        assert!(
            matches!(error, UnitError::OutOfRange { .. }),
            "{text}: {error}"
        );
    }
    for (format, text) in [
        ("length", "NaN m"),
        ("length", "inf km"),
        ("angle", ""),
        ("ratio", "%"),
        ("length", ".5 m"),
    ] {
        let error = parse_format(format, text).expect_err(text);
        assert!(
            matches!(error, UnitError::NotANumber { .. }),
            "{text}: {error}"
        );
    }
    assert!(Ratio::from_ratio(f64::NAN).is_err());
    for seconds in [f64::NAN, f64::INFINITY, 9_223_372_036.854_776, -1e10] {
        assert!(TimeSpan::try_from_secs_f64(seconds).is_err(), "{seconds}");
    }
    assert_eq!(TimeSpan::from_secs_f64(0.1), TimeSpan::from_ns(100_000_000));
}

#[test]
fn instants() {
    for (text, ns) in [
        ("1970-01-01T00:00:00Z", 0),
        ("2000-02-29T12:00:00Z", 951_825_600_000_000_000),
        ("2022-09-14T00:00:00Z", 1_663_113_600_000_000_000),
        ("1969-12-31T23:59:59.999999999Z", -1),
        ("1677-09-21T00:12:43.145224192Z", i64::MIN),
        ("2262-04-11T23:47:16.854775807Z", i64::MAX),
    ] {
        let instant: Utc = text.parse().expect(text);
        assert_eq!(instant.unix_ns(), ns, "{text}");
        assert_eq!(instant.to_string(), text);
    }
    assert_eq!(
        "2022-09-14T00:00:00.5000000000Z".parse(),
        Ok(Utc::from_unix_ns(1_663_113_600_500_000_000))
    );
    let half: Utc = "1969-12-31T23:59:59.5000009Z".parse().unwrap();
    assert_eq!(format!("{half:.0}"), "1969-12-31T23:59:59Z");
    assert_eq!(format!("{half:.6}"), "1969-12-31T23:59:59.500000Z");
    assert_eq!(format!("{half:.20}"), "1969-12-31T23:59:59.500000900Z");
    let before = SystemTime::UNIX_EPOCH - Duration::from_nanos(499_999_100);
    assert_eq!(Utc::from(before), half);
    let late = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 40);
    assert_eq!(Utc::from(late), Utc::from_unix_ns(i64::MAX));
    for text in [
        "2022-09-14T00:00:00",
        "2022-09-14T00:00:00+00:00",
        "2022-09-14 00:00:00Z",
        "2022-02-29T00:00:00Z",
        "2022-13-01T00:00:00Z",
        "2022-00-01T00:00:00Z",
        "2022-01-00T00:00:00Z",
        "2022-01-01T24:00:00Z",
        "2016-12-31T23:59:60Z",
        "2022-01-01T00:00:00.Z",
        "2022-01-01T00:00:00.1xZ",
        "+022-01-01T00:00:00Z",
        "٢٠٢٢-01-01T00:00:00Z",
        "Z",
        "",
    ] {
        let error = text.parse::<Utc>().expect_err(text);
        assert!(
            matches!(error, UnitError::BadInstant { .. }),
            "{text}: {error}"
        );
    }
    let noon: Utc = "2022-09-14T12:00:00Z".parse().unwrap();
    assert_eq!((noon + TimeSpan::from_ns(5)) - noon, TimeSpan::from_ns(5));
    assert_eq!(
        Utc::from_unix_ns(i64::MAX).checked_add(TimeSpan::from_ns(1)),
        None
    );
}

#[test]
fn formats_and_schemas_agree() {
    fn format_of<T: schemars::JsonSchema>() -> String {
        let schema = schemars::schema_for!(T);
        assert_eq!(
            schema.get("type").and_then(|value| value.as_str()),
            Some("string")
        );
        schema
            .get("format")
            .and_then(|value| value.as_str())
            .expect("format")
            .to_owned()
    }
    let from_types = [
        format_of::<Length>(),
        format_of::<Speed>(),
        format_of::<Angle>(),
        format_of::<TimeSpan>(),
        format_of::<DataRate>(),
        format_of::<DataSize>(),
        format_of::<Ratio>(),
        format_of::<Frequency>(),
        format_of::<Power>(),
        format_of::<Decibels>(),
        format_of::<FigureOfMerit>(),
        format_of::<Temperature>(),
        format_of::<RainRate>(),
        format_of::<Utc>(),
    ];
    assert_eq!(from_types.as_slice(), FORMATS.as_slice());
    for format in FORMATS {
        assert_eq!(
            parse_format(format, format_example(format)),
            Ok(()),
            "{format}"
        );
    }
    assert!(matches!(
        parse_format("mass", "1 kg"),
        Err(UnitError::UnknownFormat { .. })
    ));
}

#[test]
fn json_is_text_with_a_unit() {
    assert_eq!(
        serde_json::to_string(&Length::from_m(550e3)).unwrap(),
        "\"550 km\""
    );
    assert_eq!(
        serde_json::from_str::<TimeSpan>("\"12 ms\"").unwrap(),
        TimeSpan::from_ns(12_000_000)
    );
    let error = serde_json::from_str::<Length>("550")
        .unwrap_err()
        .to_string();
    assert!(error.contains("length as text, like \"550 km\""), "{error}");
}

fn finite() -> impl Strategy<Value = f64> {
    any::<f64>().prop_filter("finite", |value| value.is_finite())
}

proptest! {
    #[test]
    fn length_round_trips(m in finite()) {
        let q = Length::from_m(m);
        prop_assert_eq!(q.to_string().parse(), Ok(q));
    }

    #[test]
    fn angle_round_trips(deg in finite()) {
        let q = Angle::from_deg(deg);
        prop_assert_eq!(q.to_string().parse(), Ok(q));
    }

    #[test]
    fn radio_quantities_round_trip(value in finite()) {
        let q = Power::from_dbw(value);
        prop_assert_eq!(q.to_string().parse(), Ok(q));
        let q = Frequency::from_hz(value.abs());
        prop_assert_eq!(q.to_string().parse(), Ok(q));
        let q = Temperature::from_k(value.abs());
        prop_assert_eq!(q.to_string().parse(), Ok(q));
    }

    #[test]
    fn ratio_round_trips(ratio in 0.0..=1.0f64) {
        let q = Ratio::from_ratio(ratio).unwrap();
        prop_assert_eq!(q.to_string().parse(), Ok(q));
    }

    #[test]
    fn integers_round_trip(
        ns: i64, bps: u64, bytes: u64, small in 0u64..5_000, factor in prop::sample::select(
            vec![1u64, 1000, 1024, 1_000_000, 1 << 20, 60_000_000_000])
    ) {
        let span = TimeSpan::from_ns(ns);
        prop_assert_eq!(span.to_string().parse(), Ok(span));
        let at = Utc::from_unix_ns(ns);
        prop_assert_eq!(at.to_string().parse(), Ok(at));
        for value in [bps, bytes, small * factor] {
            let rate = DataRate::from_bps(value);
            prop_assert_eq!(rate.to_string().parse(), Ok(rate));
            let size = DataSize::from_bytes(value);
            prop_assert_eq!(size.to_string().parse(), Ok(size));
        }
    }

    #[test]
    fn arbitrary_text_never_panics(text in ".{0,40}", format in prop::sample::select(FORMATS.to_vec())) {
        let _ = parse_format(format, &text);
    }

    #[test]
    fn number_like_text_never_panics(
        text in "[-+]?[0-9]{0,50}\\.?[0-9]{0,50}([eE][-+]?[0-9]{1,12})? ?(m|km|ns|d|TiB|Tbit/s|%|deg|rad|Z)?",
        format in prop::sample::select(FORMATS.to_vec())
    ) {
        let _ = parse_format(format, &text);
    }
}
