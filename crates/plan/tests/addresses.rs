//! Blocks of addresses of the user's own.

use constel_plan::{Blueprint, Lab};
use constel_scenario::{DiskFiles, parse, resolve};
use proptest::prelude::*;

fn lab(addresses: &str, stations: usize) -> Result<Lab, String> {
    let mut text = "constel: 1
name: blocks
start: 2026-11-21T00:00:00Z
duration: 30 s
constellations:
  sat:
    walker: {pattern: delta, inclination: 60 deg, satellites: 12, planes: 2, phasing: 0, altitude: 1400 km}
    isl: {pattern: plus-grid, link: {rate: 100 Mbit/s}}
    gsl: {min_elevation: 5 deg, link: {rate: 100 Mbit/s}}
ground:
  stations:
    west: {latitude: -48 deg, longitude: 148 deg}
"
    .to_owned();
    for station in 0..stations {
        text += &format!("    station-{station}: {{latitude: 0 deg, longitude: 0 deg}}\n");
    }
    text += "  cables:\n    - {from: west, to: station-0, delay: 1 ms, link: {rate: 1 Gbit/s}}\n";
    text += addresses;
    let parsed = parse("blocks.yaml", &text).map_err(|e| e.to_string())?;
    let scenario = resolve(&parsed, &DiskFiles::beside("blocks.yaml"));
    Lab::new(scenario.map_err(|e| e.to_string())?).map_err(|e| e.to_string())
}

const OWN: &str = "addresses:
  loopback: {ipv4: 172.16.0.0/16, ipv6: \"2001:db8::/96\"}
  links: 192.168.0.0/24
  ground: 198.18.0.0/15
  cables: 192.168.7.0/30
routing: {mode: computed}
";

#[test]
fn every_address_is_of_its_block_and_leads_back() {
    let blueprint = Blueprint::new(lab(OWN, 2).unwrap()).unwrap();
    let (plan, layout) = (&blueprint.addresses, &blueprint.lab.layout);
    for node in layout.nodes() {
        let own = plan.loopback(node.id);
        assert_eq!(own.v4.octets()[..2], [172, 16]);
        assert_eq!(own.v6.segments()[..2], [0x2001, 0xdb8]);
        assert_eq!(plan.node_of(own.v4.into()), Some(node.id));
        assert_eq!(plan.node_of(own.v6.into()), Some(node.id));
    }
    let mut seen = std::collections::BTreeSet::new();
    for port in layout.ports() {
        let Some((v4, length)) = plan.port(port.id).v4 else {
            continue;
        };
        let (start, expected): (&[u8], u8) = match port.class.name {
            "isl" => (&[192, 168, 0], 31),
            "gsl" => (&[198, 18], 15),
            _ => (&[192, 168, 7], 31),
        };
        assert!(
            v4.octets().starts_with(start) && length == expected,
            "{v4}/{length}"
        );
        assert!(seen.insert(v4));
        assert_eq!(plan.port_of(v4.into()), Some(port.id));
    }
    assert!(seen.len() > 30);
}

#[test]
fn a_block_that_is_too_small_is_named_where_it_stands() {
    let small = OWN
        .replace("172.16.0.0/16", "172.16.0.0/24")
        .replace("198.18.0.0/15", "198.18.0.0/29");
    let error = lab(&small, 300).err().unwrap();
    assert!(error.contains("at: addresses.loopback.ipv4"), "{error}");
    assert!(
        error.contains("loopbacks do not fit 172.16.0.0/24: at most 254"),
        "{error}"
    );
    assert!(error.contains("at: addresses.ground"), "{error}");
}

#[test]
fn ports_without_addresses_have_link_local_ones_only() {
    let none = "addresses: {links: none, ground: none, cables: none}\nrouting: {mode: none}\n";
    let blueprint = Blueprint::new(lab(none, 1).unwrap()).unwrap();
    for port in blueprint.lab.layout.ports() {
        let own = blueprint.addresses.port(port.id);
        assert_eq!(own.v4, None);
        assert_eq!(
            blueprint.addresses.port_of(own.v6_link_local.into()),
            Some(port.id)
        );
    }
}

proptest! {
    #[test]
    fn overlapping_blocks_are_refused_and_others_are_not(
        first in 1u32..127, second in 1u32..127, third in 0u32..4, length in 8u8..16,
    ) {
        let block = |high: u32, next: u32| {
            let number = (high << 24 | next << 16) & (u32::MAX << (32 - length));
            (number, format!("{}/{length}", std::net::Ipv4Addr::from(number)))
        };
        let (a, b) = (block(first, third), block(second, 0));
        let text = format!("addresses: {{loopback: {{ipv4: {}}}, ground: {}}}\n", a.1, b.1);
        let size = 1u64 << (32 - length);
        let apart = |a: u32, b: u32, size: u64, other: u64| {
            u64::from(a) + size <= u64::from(b) || u64::from(b) + other <= u64::from(a)
        };
        let links = apart(a.0, 0x0a80_0000, size, 1 << 23) && apart(b.0, 0x0a80_0000, size, 1 << 23);
        let paths = apart(a.0, 0x0a50_0000, size, 1 << 20) && apart(b.0, 0x0a50_0000, size, 1 << 20);
        let fine = apart(a.0, b.0, size, size) && links && paths;
        prop_assert_eq!(lab(&text, 1).is_ok(), fine, "{}", text);
    }
}
