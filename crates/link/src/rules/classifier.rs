//! Finding the first rule that matches a frame, independently of the number of rules.
//!
//! Each field that any rule restricts has a table: from a value to the set of rules that match it, as bits (Lakshman
//! and Stiliadis 1998). The rules that match a frame are those in the sets of all its fields. A summary of each set
//! (Baboescu and Varghese 2001) skips 64 rules at a time. With up to 4,096 rules a frame costs:
//!
//! - for each address field a binary search among the ends of the rules' blocks (14 steps for one block each);
//! - for each other field one lookup;
//! - at most one word of 64 rules for each field and summary bit.

use std::net::IpAddr;

use crate::rules::field::{Field, UNTAGGED, Wanted, mac_number};
use crate::rules::head::Head;
use crate::rules::interface::Interface;
use crate::rules::prefix::number;
use crate::rules::rule::{Direction, Rules};
use crate::rules::sets::{SetId, Sets, change};

/// Lookups per frame: one address family at a time, and `mac` separately.
const LOOKS: usize = 12;

/// Finds the first rule that matches a frame.
#[derive(Clone, Debug)]
pub struct Classifier {
    /// Places among all rules of those that have an action in this direction.
    places: Vec<u32>,
    sets: Sets,
    input: Option<Table>,
    output: Option<Table>,
    src4: Option<Table>,
    src6: Option<Table>,
    dst4: Option<Table>,
    dst6: Option<Table>,
    protocol: Option<Table>,
    sport: Option<Table>,
    dport: Option<Table>,
    class: Option<Table>,
    vlan: Option<Table>,
    mac: Option<Table>,
    smac: Option<Table>,
    dmac: Option<Table>,
    ethertype: Option<Table>,
}

/// From a field's value to the set of rules that match it.
#[derive(Clone, Debug)]
struct Table {
    /// Rules that match a frame without this field.
    absent: SetId,
    keys: Keys,
    sets: Vec<SetId>,
}

/// Index of a value's set.
#[derive(Clone, Debug)]
enum Keys {
    /// The value itself.
    Direct,
    /// Index of the last key that is not above the value.
    Words(Vec<u32>),
    Longs(Vec<u64>),
    Wide(Vec<u128>),
}

impl Table {
    fn get(&self, value: u128) -> SetId {
        let place = match &self.keys {
            Keys::Direct => value as usize,
            Keys::Words(keys) => last(keys, value as u32),
            Keys::Longs(keys) => last(keys, value as u64),
            Keys::Wide(keys) => last(keys, value),
        };
        self.sets[place]
    }
}

/// Returns the index of the last key not above the value. It exists, because the first key is 0.
fn last<K: Copy + PartialOrd>(keys: &[K], value: K) -> usize {
    keys.partition_point(|key| *key <= value) - 1
}

/// Builds the table of a field; `None` if every rule matches all of its values.
fn table(field: Field, wanted: &[Wanted], sets: &mut Sets) -> Option<Table> {
    let mut current = sets.empty();
    // Values at which a rule begins or ceases to match.
    let mut turns: Vec<(u128, usize, bool)> = Vec::new();
    let mut used = false;
    for (rule, wanted) in wanted.iter().enumerate() {
        match wanted {
            Wanted::Any => change(&mut current, rule, true),
            Wanted::Ranges(ranges) => {
                used = true;
                for range in ranges {
                    turns.push((*range.start(), rule, true));
                    if *range.end() < field.max() {
                        turns.push((*range.end() + 1, rule, false));
                    }
                }
            }
        }
    }
    if !used {
        return None;
    }
    // A sweep over the sorted turns: between two of them the set of matching rules is constant. `absent` is taken
    // before the first turn, when only rules without a condition are in the set.
    turns.sort_unstable();
    let absent = sets.keep(&current);
    let (mut keys, mut ids) = (vec![0], vec![absent]);
    for at_once in turns.chunk_by(|a, b| a.0 == b.0) {
        for &(_, rule, inside) in at_once {
            change(&mut current, rule, inside);
        }
        let id = sets.keep(&current);
        match at_once[0].0 {
            0 => ids[0] = id,
            // A turn that leaves the set unchanged needs no key.
            key if ids.last() != Some(&id) => {
                keys.push(key);
                ids.push(id);
            }
            _ => {}
        }
    }
    let (keys, sets) = match field.max() {
        max if max <= u128::from(u16::MAX) => (Keys::Direct, direct(max as usize, &keys, &ids)),
        max if max <= u128::from(u32::MAX) => {
            (Keys::Words(keys.iter().map(|k| *k as u32).collect()), ids)
        }
        max if max <= u128::from(u64::MAX) => {
            (Keys::Longs(keys.iter().map(|k| *k as u64).collect()), ids)
        }
        _ => (Keys::Wide(keys), ids),
    };
    Some(Table { absent, keys, sets })
}

/// Returns a set for each value up to the greatest.
fn direct(max: usize, keys: &[u128], ids: &[SetId]) -> Vec<SetId> {
    // A set holds up to the next key, and the last set up to the greatest value.
    let ends = keys.iter().skip(1).map(|key| *key as usize);
    let ends = ends.chain([max + 1]);
    let mut all = Vec::with_capacity(max + 1);
    for (end, id) in ends.zip(ids) {
        all.resize(end, *id);
    }
    all
}

impl Classifier {
    /// Builds a classifier for frames of one direction.
    #[must_use]
    pub fn new(rules: &Rules, direction: Direction) -> Classifier {
        let about = rules.iter().enumerate();
        let about = about.filter(|(_, rule)| rule.action(direction).is_some());
        let (places, matches): (Vec<u32>, Vec<_>) = about
            .map(|(place, rule)| (place as u32, rule.matching.seen(direction)))
            .unzip();
        let mut sets = Sets::of(places.len());
        // All tables share `sets`, which stores equal sets of rules once.
        let mut of = |field: Field| {
            let wanted: Vec<Wanted> = matches.iter().map(|m| m.wanted(field)).collect();
            table(field, &wanted, &mut sets)
        };
        let (input, output) = (of(Field::Input), of(Field::Output));
        let (src4, src6) = (of(Field::Src4), of(Field::Src6));
        let (dst4, dst6) = (of(Field::Dst4), of(Field::Dst6));
        let (protocol, class) = (of(Field::Protocol), of(Field::Class));
        let (sport, dport) = (of(Field::Sport), of(Field::Dport));
        let (vlan, ethertype) = (of(Field::Vlan), of(Field::Ethertype));
        let (mac, smac, dmac) = (of(Field::Mac), of(Field::Smac), of(Field::Dmac));
        sets.finish();
        Classifier {
            places,
            sets,
            input,
            output,
            src4,
            src6,
            dst4,
            dst6,
            protocol,
            sport,
            dport,
            class,
            vlan,
            mac,
            smac,
            dmac,
            ethertype,
        }
    }

    /// Returns the place among all rules of the first one that matches the frame.
    #[must_use]
    pub fn find(&self, head: &Head) -> Option<usize> {
        if self.places.is_empty() {
            return None;
        }
        let mut looks = FoundSets::default();
        let ip = head.ip.as_ref();
        let src = ip.map(|ip| ip.src);
        let dst = ip.map(|ip| ip.dst);
        // A frame without IP has no address; either table then gives its `absent` set.
        let family = |four, six, of: Option<IpAddr>| match of {
            Some(IpAddr::V6(_)) => six,
            _ => four,
        };
        looks.at(&self.input, head.input.map(Interface::number));
        looks.at(&self.output, head.output.map(Interface::number));
        looks.at(family(&self.src4, &self.src6, src), src.map(number));
        looks.at(family(&self.dst4, &self.dst6, dst), dst.map(number));
        looks.at(&self.protocol, ip.map(|ip| u128::from(ip.protocol)));
        looks.at(&self.class, ip.map(|ip| u128::from(ip.class)));
        looks.at(&self.sport, head.ports.map(|ports| u128::from(ports.0)));
        looks.at(&self.dport, head.ports.map(|ports| u128::from(ports.1)));
        looks.at(&self.vlan, Some(head.vlan.unwrap_or(UNTAGGED).into()));
        looks.at(&self.ethertype, Some(head.ethertype.into()));
        let macs = [head.smac, head.dmac].map(|mac| u128::from(mac_number(mac)));
        looks.at(&self.smac, Some(macs[0]));
        looks.at(&self.dmac, Some(macs[1]));
        let either = self.mac.as_ref().map(|mac| macs.map(|m| mac.get(m)));
        self.first(looks.ids(), either)
    }

    /// Returns the first rule that is in all of the sets, and in one of the two.
    fn first(&self, ids: &[SetId], either: Option<[SetId; 2]>) -> Option<usize> {
        let sets = &self.sets;
        let words = self.places.len().div_ceil(64);
        let all = if words >= 64 {
            u64::MAX
        } else {
            // One summary bit per word in use; a shift by 64 would overflow.
            (1 << words) - 1
        };
        let one_of = |of: &dyn Fn(SetId) -> u64| either.map_or(u64::MAX, |[a, b]| of(a) | of(b));
        let summaries = ids.iter().map(|id| sets.summary(*id));
        let mut left = summaries.fold(all & one_of(&|id| sets.summary(id)), |a, b| a & b);
        while left != 0 {
            let word = left.trailing_zeros() as usize;
            let bits = ids.iter().map(|id| sets.word(*id, word));
            // If no rule restricts any field, `ids` is empty and the fold keeps all bits: the first rule matches.
            let found = bits.fold(one_of(&|id| sets.word(id, word)), |a, b| a & b);
            if found != 0 {
                let rule = word * 64 + found.trailing_zeros() as usize;
                return self.places.get(rule).map(|place| *place as usize);
            }
            // Clears the lowest set bit: this word of 64 rules had no match.
            left &= left - 1;
        }
        None
    }
}

/// The sets found for a frame's fields.
#[derive(Default)]
struct FoundSets {
    ids: [SetId; LOOKS],
    count: usize,
}

impl FoundSets {
    fn at(&mut self, table: &Option<Table>, value: Option<u128>) {
        if let Some(table) = table {
            self.ids[self.count] = value.map_or(table.absent, |value| table.get(value));
            self.count += 1;
        }
    }

    fn ids(&self) -> &[SetId] {
        &self.ids[..self.count]
    }
}
