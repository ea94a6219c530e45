//! `addresses`: checks that blocks are well formed, unicast, large enough, and do not overlap.

use std::fmt::Display;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::str::FromStr;

use super::no_effect;
use crate::diagnostic::Diagnostics;
use crate::model::{Addresses, Block, BlockPair, Families, Mode};
use crate::parse::Parsed;
use crate::raw::RawBlocks;
use crate::walk::Seg::{self, Key};

/// An address of either family, as a number.
trait Address: FromStr + Copy + Display + PartialEq {
    const BITS: u8;
    /// Lengths of prefixes of whole nodes' addresses, and their description.
    const NODES: (RangeInclusive<u8>, &'static str);
    const EXAMPLE: &'static str;
    fn number(self) -> u128;
    fn of(number: u128) -> Self;
    /// Returns first address and prefix length of networks whose addresses no host can have.
    fn special() -> Vec<(Self, u8, &'static str)>;
}

impl Address for Ipv4Addr {
    const BITS: u8 = 32;
    const NODES: (RangeInclusive<u8>, &'static str) = (8..=24, "/8 to /24");
    const EXAMPLE: &'static str = "an IPv4 block such as `10.0.0.0/10`";
    fn number(self) -> u128 {
        u32::from(self).into()
    }
    fn of(number: u128) -> Self {
        (number as u32).into()
    }
    fn special() -> Vec<(Self, u8, &'static str)> {
        vec![
            (Ipv4Addr::new(0, 0, 0, 0), 8, "this network"),
            (Ipv4Addr::new(127, 0, 0, 0), 8, "the host itself"),
            (Ipv4Addr::new(169, 254, 0, 0), 16, "link-local"),
            (Ipv4Addr::new(224, 0, 0, 0), 3, "multicast and reserved"),
        ]
    }
}

impl Address for Ipv6Addr {
    const BITS: u8 = 128;
    const NODES: (RangeInclusive<u8>, &'static str) = (16..=112, "/16 to /112");
    const EXAMPLE: &'static str = "an IPv6 block such as `fdc0:57e1::/64`";
    fn number(self) -> u128 {
        self.into()
    }
    fn of(number: u128) -> Self {
        number.into()
    }
    fn special() -> Vec<(Self, u8, &'static str)> {
        let at = |first| Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, 0);
        vec![
            (at(0), 8, "reserved, and the host itself"),
            (at(0xfe80), 10, "link-local"),
            (at(0xff00), 8, "multicast"),
        ]
    }
}

/// The bits behind a prefix.
fn host_bits<A: Address>(length: u8) -> u128 {
    let bits = u32::from(A::BITS - length);
    1u128.checked_shl(bits).map_or(u128::MAX, |n| n - 1)
}

fn overlap<A: Address>(a: (A, u8), b: (A, u8)) -> bool {
    let mask = !host_bits::<A>(a.1.min(b.1));
    a.0.number() & mask == b.0.number() & mask
}

/// The document and the errors of reading the blocks.
struct Reader<'a> {
    parsed: &'a Parsed,
    errors: &'a mut Diagnostics,
}

/// Returns the blocks of a lab; errors go to `errors`.
pub(super) fn resolve(
    parsed: &Parsed,
    routing: (&Mode, Families),
    errors: &mut Diagnostics,
) -> Addresses {
    let raw = &parsed.raw.addresses;
    let usual = Addresses::default();
    let mut reader = Reader { parsed, errors };
    let resolved = Addresses {
        loopback: reader.pair("loopback", &raw.loopback, usual.loopback),
        paths: reader.pair("paths", &raw.paths, usual.paths),
        links: reader.ports("links", raw.links.as_deref(), usual.links, routing),
        ground: reader.ports("ground", raw.ground.as_deref(), usual.ground, routing),
        cables: reader.ports("cables", raw.cables.as_deref(), usual.cables, routing),
        networks: reader.ports("networks", raw.networks.as_deref(), usual.networks, routing),
        management: reader
            .block(
                &[Key("addresses"), Key("management")],
                raw.management.as_deref(),
                Ipv4Addr::NODES,
            )
            .unwrap_or(usual.management),
    };
    let managed = parsed
        .raw
        .networks
        .values()
        .any(|network| network.management);
    if raw.management.is_some() && !managed {
        let path = [Key("addresses"), Key("management")];
        no_effect(parsed, reader.errors, &path, "management: true");
    }
    reader.apart(&resolved, managed);
    resolved
}

impl Reader<'_> {
    fn pair(&mut self, key: &str, raw: &RawBlocks, usual: BlockPair) -> BlockPair {
        let path = |family| [Key("addresses"), Key(key), Key(family)];
        let ipv4 = raw.ipv4.as_deref();
        let ipv6 = raw.ipv6.as_deref();
        BlockPair {
            ipv4: self
                .block(&path("ipv4"), ipv4, Ipv4Addr::NODES)
                .unwrap_or(usual.ipv4),
            ipv6: self
                .block(&path("ipv6"), ipv6, Ipv6Addr::NODES)
                .unwrap_or(usual.ipv6),
        }
    }

    fn ports(
        &mut self,
        key: &str,
        raw: Option<&str>,
        usual: Option<Block<Ipv4Addr>>,
        (mode, families): (&Mode, Families),
    ) -> Option<Block<Ipv4Addr>> {
        let path = [Key("addresses"), Key(key)];
        if raw != Some("none") {
            return self
                .block(&path, raw, (8..=30, "/8 to /30, or `none`"))
                .or(usual);
        }
        let needed = match mode {
            Mode::Computed(_) => families.ipv4,
            Mode::Daemons(_) => true,
            Mode::None => false,
        };
        if needed {
            let message = format!("`addresses.{key}: none` leaves routes without next hops");
            let error = self
                .parsed
                .error_at(&path, "bad-block", message)
                .with_reason("routes of IPv4, and all that daemons make, name the next port by its IPv4 address")
                .with_suggestion("give a block, or set `mode: none`, or `mode: computed` with `families: [ipv6]`");
            self.errors.push(error);
        }
        None
    }

    /// Returns the block written at a path; `None` if it is missing or wrong.
    fn block<A: Address>(
        &mut self,
        path: &[Seg<'_>],
        raw: Option<&str>,
        (lengths, allowed): (RangeInclusive<u8>, &'static str),
    ) -> Option<Block<A>> {
        let text = raw?;
        let parts = text.split_once('/').and_then(|(first, length)| {
            Some((first.parse::<A>().ok()?, length.parse::<u8>().ok()?))
        });
        let Some((first, length)) = parts.filter(|(_, length)| *length <= A::BITS) else {
            let message = format!("`{text}` is no block of addresses");
            let error = self.parsed.error_at(path, "bad-block", message);
            let error = error.with_suggestion(format!("write {}", A::EXAMPLE));
            self.errors.push(error);
            return None;
        };
        let span = Some(self.parsed.place(path, false));
        let network = A::of(first.number() & !host_bits::<A>(length));
        let mut sound = true;
        if network != first {
            let message = format!("`{text}` has bits behind its first {length}");
            let error = self.parsed.error_at(path, "bad-block", message);
            let error =
                error.with_suggestion(format!("`{network}/{length}` is the block it is in"));
            self.errors.push(error);
            sound = false;
        }
        if !lengths.contains(&length) {
            let message = format!("a block of /{length} is out of range");
            let error = self.parsed.error_at(path, "bad-block", message);
            self.errors
                .push(error.with_reason(format!("allowed: {allowed}")));
            sound = false;
        }
        for (special, special_length, what) in A::special() {
            if overlap((network, length), (special, special_length)) {
                let message = format!("`{text}` is not unicast");
                let error = self.parsed.error_at(path, "bad-block", message);
                let reason = format!("{special}/{special_length} is {what}");
                self.errors.push(error.with_reason(reason));
                sound = false;
            }
        }
        sound.then_some(Block {
            first,
            length,
            span,
        })
    }

    /// Checks that no two blocks overlap, except those of links, which may be the same; that of management
    /// counts if a network is `managed`.
    fn apart(&mut self, all: &Addresses, managed: bool) {
        const LINKS: [&str; 2] = ["links", "cables"];
        let v4 = [
            (vec!["loopback", "ipv4"], Some(all.loopback.ipv4)),
            (vec!["paths", "ipv4"], Some(all.paths.ipv4)),
            (vec!["links"], all.links),
            (vec!["ground"], all.ground),
            (vec!["cables"], all.cables),
            (vec!["networks"], all.networks),
            (vec!["management"], managed.then_some(all.management)),
        ];
        let v4 = v4.map(|(keys, block)| (keys, block.map(|b| (b, b.first, b.length))));
        for (i, (keys, a)) in v4.iter().enumerate() {
            for (other_keys, b) in &v4[..i] {
                let (Some(a), Some(b)) = (a, b) else { continue };
                let same = a.0 == b.0 && LINKS.contains(&keys[0]) && LINKS.contains(&other_keys[0]);
                if !same && overlap((a.1, a.2), (b.1, b.2)) {
                    self.overlapping((keys, a.0), (other_keys, b.0));
                }
            }
        }
        let (a, b) = (all.paths.ipv6, all.loopback.ipv6);
        if overlap((a.first, a.length), (b.first, b.length)) {
            self.overlapping((&["paths", "ipv6"], a), (&["loopback", "ipv6"], b));
        }
    }

    /// Reports two overlapping blocks, at the one that the file gives, or at the later if it gives both.
    fn overlapping<A: Address>(&mut self, a: (&[&str], Block<A>), b: (&[&str], Block<A>)) {
        let (own, other) = if a.1.span.is_some() { (a, b) } else { (b, a) };
        let shown = |keys: &[&str]| format!("addresses.{}", keys.join("."));
        let at: Vec<Seg<'_>> = std::iter::once("addresses")
            .chain(own.0.iter().copied())
            .map(Key)
            .collect();
        let usual = if other.1.span.is_some() {
            ""
        } else {
            ", the default"
        };
        let message = format!("{} overlaps `{}`", own.1, shown(other.0));
        let error = self.parsed.error_at(&at, "bad-block", message);
        let reason = format!("`{}` is {}{usual}", shown(other.0), other.1);
        self.errors.push(error.with_reason(reason));
    }
}
