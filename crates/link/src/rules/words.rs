//! Names of numbers in frames, and parsers of the values in rule files.

use std::ops::RangeInclusive;

use crate::rules::matching::{TrafficClass, Vlan};

/// Protocols of IP by name.
pub const PROTOCOLS: [(&str, u8); 14] = [
    ("icmp", 1),
    ("igmp", 2),
    ("ipip", 4),
    ("tcp", 6),
    ("udp", 17),
    ("dccp", 33),
    ("ipv6", 41),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("icmpv6", 58),
    ("ospf", 89),
    ("sctp", 132),
    ("udplite", 136),
];

/// EtherTypes by name.
pub const ETHERTYPES: [(&str, u16); 9] = [
    ("ipv4", 0x0800),
    ("arp", 0x0806),
    ("vlan", 0x8100),
    ("ipv6", 0x86dd),
    ("mpls", 0x8847),
    ("pppoe", 0x8864),
    ("qinq", 0x88a8),
    ("lldp", 0x88cc),
    ("ptp", 0x88f7),
];

/// DSCPs by name, in addition to `cs0` to `cs7` and `af11` to `af43`.
const DSCPS: [(&str, u8); 4] = [("be", 0), ("le", 1), ("va", 44), ("ef", 46)];

fn named<T: Copy>(table: &[(&str, T)], text: &str) -> Option<T> {
    let found = table.iter().find(|(name, _)| *name == text);
    found.map(|(_, number)| *number)
}

/// Parses a number, in decimal or as `0x...`.
fn unsigned(text: &str) -> Option<u64> {
    let plain = |text: &str, radix| {
        // `from_str_radix` alone would also accept a sign.
        let digits = !text.is_empty() && text.chars().all(|c| c.is_digit(radix));
        digits.then(|| u64::from_str_radix(text, radix).ok())?
    };
    match text.strip_prefix("0x") {
        Some(hex) => plain(hex, 16),
        None => plain(text, 10),
    }
}

/// Parses a protocol: a name of [`PROTOCOLS`], or 0 to 255.
#[must_use]
pub fn protocol(text: &str) -> Option<u8> {
    named(&PROTOCOLS, text).or_else(|| unsigned(text)?.try_into().ok())
}

/// Parses an EtherType: a name of [`ETHERTYPES`], or a number up to 0xffff.
#[must_use]
pub fn ethertype(text: &str) -> Option<u16> {
    named(&ETHERTYPES, text).or_else(|| unsigned(text)?.try_into().ok())
}

/// Parses a DSCP: `ef`, `cs0` to `cs7`, `af11` to `af43`, `be`, `le`, `va`, or 0 to 63.
#[must_use]
pub fn dscp(text: &str) -> Option<TrafficClass> {
    let digit = |text: &str, at: usize, within: RangeInclusive<u8>| {
        let digit = text.as_bytes().get(at)?.checked_sub(b'0')?;
        within.contains(&digit).then_some(digit)
    };
    // RFC 2474: class selector n is n << 3. RFC 2597: AFxy is x << 3 | y << 1.
    let number = if let Some(class) = text.strip_prefix("cs").filter(|t| t.len() == 1) {
        digit(class, 0, 0..=7)? << 3
    } else if let Some(class) = text.strip_prefix("af").filter(|t| t.len() == 2) {
        digit(class, 0, 1..=4)? << 3 | digit(class, 1, 1..=3)? << 1
    } else {
        let plain = || u8::try_from(unsigned(text)?).ok().filter(|n| *n < 64);
        named(&DSCPS, text).or_else(plain)?
    };
    Some(TrafficClass::Dscp(number))
}

/// Parses a complete traffic class: 0 to 255.
#[must_use]
pub fn traffic_class(text: &str) -> Option<TrafficClass> {
    let number = unsigned(text)?.try_into().ok()?;
    Some(TrafficClass::Whole(number))
}

/// Parses a VLAN: `untagged`, or 0 to 4,095.
#[must_use]
pub fn vlan(text: &str) -> Option<Vlan> {
    if text == "untagged" {
        return Some(Vlan::Untagged);
    }
    let id = unsigned(text)?.try_into().ok()?;
    (id <= 4095).then_some(Vlan::Id(id))
}

/// Parses an address of Ethernet: `02:00:00:00:00:01`.
#[must_use]
pub fn mac(text: &str) -> Option<[u8; 6]> {
    let mut mac = [0; 6];
    let mut parts = text.split([':', '-']);
    for byte in &mut mac {
        let part = parts.next()?;
        let hex = part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit());
        *byte = hex.then(|| u8::from_str_radix(part, 16).ok())??;
    }
    parts.next().is_none().then_some(mac)
}

/// Parses a port, or a range: `443`, `5000-5010`.
#[must_use]
pub fn ports(text: &str) -> Option<RangeInclusive<u16>> {
    let port = |text: &str| u16::try_from(unsigned(text)?).ok();
    match text.split_once('-') {
        None => port(text).map(|port| port..=port),
        Some((first, last)) => {
            let (first, last) = (port(first)?, port(last)?);
            (first <= last).then_some(first..=last)
        }
    }
}

/// Formats an address of Ethernet.
#[must_use]
pub fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read() {
        assert_eq!(
            (protocol("tcp"), protocol("50"), protocol("0x11")),
            (Some(6), Some(50), Some(17))
        );
        assert_eq!(
            (protocol("256"), protocol("-1"), protocol("")),
            (None, None, None)
        );
        assert_eq!(
            (ethertype("arp"), ethertype("0x88b5")),
            (Some(0x806), Some(0x88b5))
        );
        assert_eq!(dscp("ef"), Some(TrafficClass::Dscp(46)));
        assert_eq!(dscp("cs6"), Some(TrafficClass::Dscp(48)));
        assert_eq!(dscp("af41"), Some(TrafficClass::Dscp(34)));
        for wrong in ["af44", "cs8", "64", "af", "cs", "ef "] {
            assert_eq!(dscp(wrong), None, "{wrong}");
        }
        assert_eq!(
            (vlan("untagged"), vlan("7"), vlan("4096")),
            (Some(Vlan::Untagged), Some(Vlan::Id(7)), None)
        );
        assert_eq!(mac("02:00:00:00:00:fF"), Some([2, 0, 0, 0, 0, 255]));
        for wrong in [
            "02:00:00:00:00",
            "02:00:00:00:00:1",
            "02:00:00:00:00:01:02",
            "x2:00:00:00:00:01",
        ] {
            assert_eq!(mac(wrong), None, "{wrong}");
        }
        assert_eq!((ports("443"), ports("1-2")), (Some(443..=443), Some(1..=2)));
        for wrong in ["2-1", "65536", "1-", "-1", "a"] {
            assert_eq!(ports(wrong), None, "{wrong}");
        }
        assert_eq!(TrafficClass::Dscp(46).range(), 184..=187);
    }
}
