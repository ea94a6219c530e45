//! Conditions of a match as ranges of numbers per field, for the classifier and for the detection of shadowed rules.

use std::ops::RangeInclusive;

use crate::rules::interface::Interface;
use crate::rules::matching::{Match, Vlan};
use crate::rules::prefix::Prefix;

/// A field of a frame. Each field has its own numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Input,
    Output,
    Src4,
    Src6,
    Dst4,
    Dst6,
    Protocol,
    Sport,
    Dport,
    Class,
    Vlan,
    Mac,
    Smac,
    Dmac,
    Ethertype,
}

impl Field {
    pub(crate) const ALL: [Field; 15] = [
        Field::Input,
        Field::Output,
        Field::Src4,
        Field::Src6,
        Field::Dst4,
        Field::Dst6,
        Field::Protocol,
        Field::Sport,
        Field::Dport,
        Field::Class,
        Field::Vlan,
        Field::Mac,
        Field::Smac,
        Field::Dmac,
        Field::Ethertype,
    ];

    /// Returns the greatest number of the field.
    pub(crate) const fn max(self) -> u128 {
        match self {
            Field::Src4 | Field::Dst4 => u32::MAX as u128,
            Field::Input | Field::Output | Field::Src6 | Field::Dst6 => u128::MAX,
            Field::Protocol | Field::Class => 0xff,
            Field::Sport | Field::Dport | Field::Ethertype => 0xffff,
            // One more than the VLANs, for frames without a tag.
            Field::Vlan => UNTAGGED as u128,
            Field::Mac | Field::Smac | Field::Dmac => 0xffff_ffff_ffff,
        }
    }
}

/// Number of "no tag" among VLANs.
pub(crate) const UNTAGGED: u16 = 0x1000;

/// Condition of a match on one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Every value matches, even if the frame does not have the field.
    Any,
    /// These numbers match, in rising order and disjoint; the list may be empty.
    Ranges(Vec<RangeInclusive<u128>>),
}

impl Wanted {
    /// Returns whether this condition matches everything that `other` matches.
    pub(crate) fn covers(&self, other: &Wanted) -> bool {
        match (self, other) {
            (Wanted::Any, _) => true,
            (Wanted::Ranges(_), Wanted::Any) => false,
            (Wanted::Ranges(mine), Wanted::Ranges(others)) => others.iter().all(|inner| {
                // One outer range is enough: ranges that overlap or adjoin were merged.
                mine.iter()
                    .any(|outer| outer.start() <= inner.start() && inner.end() <= outer.end())
            }),
        }
    }
}

pub(crate) fn mac_number(mac: [u8; 6]) -> u64 {
    mac.into_iter().fold(0, |n, byte| n << 8 | u64::from(byte))
}

fn merged(mut ranges: Vec<RangeInclusive<u128>>) -> Wanted {
    // Sorted by their starts, a range can only overlap or adjoin the last merged one.
    ranges.sort_by_key(|range| *range.start());
    let mut merged: Vec<RangeInclusive<u128>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if *range.start() <= last.end().saturating_add(1) => {
                *last = *last.start()..=(*last.end()).max(*range.end());
            }
            _ => merged.push(range),
        }
    }
    Wanted::Ranges(merged)
}

fn list<T>(of: &[T], range: impl Fn(&T) -> RangeInclusive<u128>) -> Wanted {
    if of.is_empty() {
        return Wanted::Any;
    }
    merged(of.iter().map(range).collect())
}

fn one(number: impl Into<u128>) -> RangeInclusive<u128> {
    let number = number.into();
    number..=number
}

fn addresses(of: &[Prefix], ipv4: bool) -> Wanted {
    if of.is_empty() {
        return Wanted::Any;
    }
    // If only prefixes of the other family are given, the list is empty, and no frame of this family matches.
    let family = of.iter().filter(|prefix| prefix.is_ipv4() == ipv4);
    merged(family.map(Prefix::range).collect())
}

impl Match {
    /// Returns the condition on a field.
    pub(crate) fn wanted(&self, field: Field) -> Wanted {
        let ports = |of: &[RangeInclusive<u16>]| {
            list(of, |range| {
                u128::from(*range.start())..=u128::from(*range.end())
            })
        };
        let macs = |of: &[[u8; 6]]| list(of, |mac| one(mac_number(*mac)));
        let interfaces = |of: &[Interface]| list(of, |one_of| one(one_of.number()));
        match field {
            Field::Input => interfaces(&self.input),
            Field::Output => interfaces(&self.output),
            // IPv4 and IPv6 are separate fields, so that a number never means an address of the other family.
            Field::Src4 => addresses(&self.src, true),
            Field::Src6 => addresses(&self.src, false),
            Field::Dst4 => addresses(&self.dst, true),
            Field::Dst6 => addresses(&self.dst, false),
            Field::Protocol => list(&self.protocol, |p| one(*p)),
            Field::Sport => ports(&self.sport),
            Field::Dport => ports(&self.dport),
            Field::Class => list(&self.class, |class| {
                let range = class.range();
                u128::from(*range.start())..=u128::from(*range.end())
            }),
            Field::Vlan => list(&self.vlan, |vlan| match vlan {
                Vlan::Untagged => one(UNTAGGED),
                Vlan::Id(id) => one(*id),
            }),
            Field::Mac => macs(&self.mac),
            Field::Smac => macs(&self.smac),
            Field::Dmac => macs(&self.dmac),
            Field::Ethertype => list(&self.ethertype, |kind| one(*kind)),
        }
    }
}
