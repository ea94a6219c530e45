//! The classifier against the plainest one there can be, which reads bytes by itself: 100,000 random frames, 256 random
//! rules.

use constel_link::rules::{
    Action, Classifier, Direction, Head, Interface, Match, Prefix, Rule, Rules, TrafficClass, Vlan,
    shadowed,
};

/// SplitMix64.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

const MACS: [[u8; 6]; 4] = [
    [2, 0, 0, 0, 0, 1],
    [2, 0, 0, 0, 0, 2],
    [2, 0, 0, 0, 1, 0],
    [0xff; 6],
];
const PORTS: [u16; 8] = [0, 22, 53, 80, 443, 5000, 5004, 65535];
const PROTOCOLS: [u8; 5] = [1, 6, 17, 58, 132];
const CLASSES: [u8; 6] = [0, 1, 0x28, 0xb8, 0xbb, 0xff];
const VLANS: [u16; 4] = [0, 1, 7, 4095];

fn address4(draws: &mut Draws) -> [u8; 4] {
    [
        10,
        draws.below(3) as u8,
        draws.below(2) as u8,
        draws.below(4) as u8,
    ]
}

fn address6(draws: &mut Draws) -> [u8; 16] {
    let mut address = [0; 16];
    address[..4].copy_from_slice(&[0x20, 1, 0xd, 0xb8]);
    address[5] = draws.below(3) as u8;
    address[15] = draws.below(4) as u8;
    address
}

/// Any frame: of IP or not, tagged or not, whole, in fragments or cut short.
fn frame(draws: &mut Draws) -> Vec<u8> {
    let mut frame = Vec::new();
    frame.extend(draws.of(&MACS));
    frame.extend(draws.of(&MACS));
    for _ in 0..draws.below(4).saturating_sub(1) {
        frame.extend(draws.of(&[[0x81, 0x00], [0x88, 0xa8]]));
        let tag = draws.of(&VLANS) | (draws.below(8) as u16) << 13;
        frame.extend(tag.to_be_bytes());
    }
    let ports = [
        draws.of(&PORTS).to_be_bytes(),
        draws.of(&PORTS).to_be_bytes(),
    ]
    .concat();
    match draws.below(8) {
        0 => frame.extend([0x08, 0x06, 0, 1, 8, 0]),
        1 => frame.extend([0x88, 0xb5, 1, 2, 3]),
        2..=4 => {
            let options = draws.below(3) as u8;
            frame.extend([0x08, 0x00, 0x45 + options, draws.of(&CLASSES), 0, 60, 0, 0]);
            let fragment: u16 = draws.of(&[0, 0, 0, 0x4000, 0x2000, 0x2001, 7]);
            frame.extend(fragment.to_be_bytes());
            frame.extend([64, draws.of(&PROTOCOLS), 0, 0]);
            frame.extend(address4(draws));
            frame.extend(address4(draws));
            frame.extend(vec![0xee; 4 * usize::from(options)]);
            frame.extend(ports);
        }
        _ => {
            let class = draws.of(&CLASSES);
            frame.extend([0x86, 0xdd, 0x60 | class >> 4, class << 4, 0, 0, 0, 20]);
            let transport = draws.of(&PROTOCOLS);
            let extensions = draws.below(4);
            frame.extend([
                if extensions == 3 {
                    44
                } else if extensions > 0 {
                    60
                } else {
                    transport
                },
                64,
            ]);
            frame.extend(address6(draws));
            frame.extend(address6(draws));
            match extensions {
                0 => {}
                3 => frame.extend([transport, 0, 0, draws.of(&[0, 1, 8]), 0, 0, 0, 0]),
                n => {
                    for left in (0..n).rev() {
                        let next = if left > 0 { 60 } else { transport };
                        frame.extend([next, 0, 1, 4, 0, 0, 0, 0]);
                    }
                }
            }
            frame.extend(ports);
        }
    }
    frame.extend([0; 8]);
    if draws.one_in(10) {
        let at = 12 + draws.below(frame.len() as u64 - 11) as usize;
        frame.truncate(at);
    }
    frame
}

fn prefix(draws: &mut Draws) -> Prefix {
    let six = draws.one_in(2);
    let (address, length) = if six {
        (address6(draws).into(), draws.of(&[0, 32, 48, 64, 128]))
    } else {
        (address4(draws).into(), draws.of(&[0, 8, 16, 24, 30, 32]))
    };
    Prefix::new(address, length).unwrap_or_else(|error| match error {
        constel_link::rules::PrefixError::NotFirst(first) => Prefix::new(first, length).unwrap(),
        other => panic!("{other}"),
    })
}

fn rule(draws: &mut Draws, number: usize) -> Rule {
    let mut matching = Match::default();
    // Many fields at once would never be met; none at all would end the list.
    for _ in 0..1 + draws.below(3) {
        let two = 1 + draws.below(2);
        for _ in 0..two {
            match draws.below(11) {
                0 => matching.src.push(prefix(draws)),
                1 => matching.dst.push(prefix(draws)),
                2 => matching.protocol.push(draws.of(&PROTOCOLS)),
                3 | 4 => {
                    let (a, b) = (draws.of(&PORTS), draws.of(&PORTS));
                    let range = if draws.one_in(2) {
                        a..=a
                    } else {
                        a.min(b)..=a.max(b)
                    };
                    if draws.one_in(2) {
                        matching.sport.push(range);
                    } else {
                        matching.dport.push(range);
                    }
                }
                5 => matching.class.push(if draws.one_in(2) {
                    TrafficClass::Dscp(draws.of(&CLASSES) >> 2)
                } else {
                    TrafficClass::Whole(draws.of(&CLASSES))
                }),
                6 => matching.vlan.push(if draws.one_in(3) {
                    Vlan::Untagged
                } else {
                    Vlan::Id(draws.of(&VLANS))
                }),
                7 => matching.mac.push(draws.of(&MACS)),
                8 => matching.smac.push(draws.of(&MACS)),
                9 => matching.dmac.push(draws.of(&MACS)),
                _ => matching
                    .ethertype
                    .push(draws.of(&[0x800, 0x806, 0x86dd, 0x88b5, 0x8100, 0])),
            }
        }
    }
    let action = |draws: &mut Draws| (!draws.one_in(4)).then_some(Action::Pass);
    Rule {
        name: format!("rule-{number}"),
        matching,
        forward: action(draws),
        reverse: action(draws),
    }
}

/// One frame against one rule, from bytes, a field at a time.
fn plainly(matching: &Match, frame: &[u8], reverse: bool) -> bool {
    let at = |n: usize| frame.get(n).copied();
    let word = |n: usize| Some(u16::from_be_bytes([at(n)?, at(n + 1)?]));
    let (mut vlan, mut kind_at) = (None, 12);
    if matches!(word(12), Some(0x8100 | 0x88a8)) && word(14).is_some() {
        vlan = word(14).map(|tag| tag & 0xfff);
        kind_at = 16;
    }
    let kind = word(kind_at).unwrap_or(0);
    let ip = kind_at + 2;
    let v4 = kind == 0x800 && frame.len() >= ip + 20 && frame[ip] >> 4 == 4;
    let v6 = kind == 0x86dd && frame.len() >= ip + 40 && frame[ip] >> 4 == 6;
    let mut transport = None;
    let (mut src, mut dst, mut protocol, mut class) = (None, None, None, None);
    if v4 {
        let quad =
            |n: usize| std::net::IpAddr::from(<[u8; 4]>::try_from(&frame[n..n + 4]).unwrap());
        (src, dst) = (Some(quad(ip + 12)), Some(quad(ip + 16)));
        (protocol, class) = (at(ip + 9), at(ip + 1));
        let first = (u16::from(frame[ip + 6]) << 8 | u16::from(frame[ip + 7])) & 0x1fff == 0;
        transport = first.then_some(ip + 4 * usize::from(frame[ip] & 15));
    }
    if v6 {
        let long =
            |n: usize| std::net::IpAddr::from(<[u8; 16]>::try_from(&frame[n..n + 16]).unwrap());
        (src, dst) = (Some(long(ip + 8)), Some(long(ip + 24)));
        class = Some(frame[ip] << 4 | frame[ip + 1] >> 4);
        let (mut next, mut n) = (frame[ip + 6], ip + 40);
        transport = Some(0);
        // The frames above have extensions of eight bytes.
        while matches!(next, 44 | 60) {
            let whole = at(n + if next == 44 { 3 } else { 1 }).is_some();
            let (Some(after), true) = (at(n), whole) else {
                transport = None;
                break;
            };
            if next == 44 && word(n + 2).is_none_or(|w| w >= 8) {
                next = after;
                transport = None;
                break;
            }
            (next, n) = (after, n + 8);
        }
        transport = transport.map(|_| n);
        protocol = Some(next);
    }
    let with_ports = matches!(protocol, Some(6 | 17 | 33 | 132 | 136));
    let ports = transport
        .filter(|_| with_ports)
        .and_then(|t| Some((word(t)?, word(t + 2)?)));
    let (smac, dmac) = (&frame[6..12], &frame[..6]);
    let swap = |a, b| if reverse { (b, a) } else { (a, b) };
    let (want_src, want_dst) = swap(&matching.src, &matching.dst);
    let (want_smac, want_dmac) = swap2(&matching.smac, &matching.dmac, reverse);
    let (want_sport, want_dport) = if reverse {
        (&matching.dport, &matching.sport)
    } else {
        (&matching.sport, &matching.dport)
    };
    let address = |want: &Vec<Prefix>, of: Option<std::net::IpAddr>| {
        want.is_empty() || of.is_some_and(|of| want.iter().any(|p| inside(p, of)))
    };
    let mac = |want: &Vec<[u8; 6]>, of: &[u8]| want.is_empty() || want.iter().any(|m| m == of);
    let port = |want: &Vec<std::ops::RangeInclusive<u16>>, of: Option<u16>| {
        want.is_empty()
            || of.is_some_and(|of| want.iter().any(|r| *r.start() <= of && of <= *r.end()))
    };
    address(want_src, src)
        && address(want_dst, dst)
        && (matching.protocol.is_empty()
            || protocol.is_some_and(|p| matching.protocol.contains(&p)))
        && port(want_sport, ports.map(|p| p.0))
        && port(want_dport, ports.map(|p| p.1))
        && (matching.class.is_empty()
            || class.is_some_and(|class| {
                matching.class.iter().any(|want| match want {
                    TrafficClass::Dscp(dscp) => class >> 2 == *dscp,
                    TrafficClass::Whole(whole) => class == *whole,
                })
            }))
        && (matching.vlan.is_empty()
            || matching.vlan.iter().any(|want| match want {
                Vlan::Untagged => vlan.is_none(),
                Vlan::Id(id) => vlan == Some(*id),
            }))
        && (mac(&matching.mac, smac) || mac(&matching.mac, dmac))
        && mac(want_smac, smac)
        && mac(want_dmac, dmac)
        && (matching.ethertype.is_empty() || matching.ethertype.contains(&kind))
}

type Macs<'a> = &'a Vec<[u8; 6]>;

fn swap2<'a>(a: Macs<'a>, b: Macs<'a>, reverse: bool) -> (Macs<'a>, Macs<'a>) {
    if reverse { (b, a) } else { (a, b) }
}

/// By the prefix as it is written, bit by bit.
fn inside(prefix: &Prefix, of: std::net::IpAddr) -> bool {
    let text = prefix.to_string();
    let (first, length) = text
        .split_once('/')
        .map_or((text.as_str(), None), |(f, l)| (f, Some(l)));
    let bytes = |of: std::net::IpAddr| match of {
        std::net::IpAddr::V4(of) => of.octets().to_vec(),
        std::net::IpAddr::V6(of) => of.octets().to_vec(),
    };
    let (first, of) = (bytes(first.parse().unwrap()), bytes(of));
    let length = length.map_or(first.len() * 8, |l| l.parse().unwrap());
    first.len() == of.len()
        && (0..length).all(|bit| (first[bit / 8] ^ of[bit / 8]) >> (7 - bit % 8) & 1 == 0)
}

fn plain_first(rules: &Rules, frame: &[u8], direction: Direction) -> Option<usize> {
    rules.iter().position(|rule| {
        rule.action(direction).is_some()
            && plainly(&rule.matching, frame, direction == Direction::Reverse)
    })
}

fn compare(seed: u64, rules: usize, frames: usize) {
    let mut draws = Draws(seed);
    let rules = Rules::new((0..rules).map(|n| rule(&mut draws, n)).collect()).unwrap();
    let classifiers =
        Direction::BOTH.map(|direction| (direction, Classifier::new(&rules, direction)));
    let mut hits = vec![0u32; rules.len()];
    let mut none = 0;
    for n in 0..frames {
        let frame = frame(&mut draws);
        let head = Head::read(&frame);
        for (direction, classifier) in &classifiers {
            let found = classifier.find(&head);
            let plain = plain_first(&rules, &frame, *direction);
            assert_eq!(
                found, plain,
                "seed {seed}, frame {n} {direction:?}: {frame:02x?}"
            );
            match found {
                Some(place) => hits[place] += 1,
                None => none += 1,
            }
        }
    }
    // The comparison is worth something only where many rules are met, and none is as well.
    let met = hits.iter().filter(|hits| **hits > 0).count();
    assert!(
        rules.len() < 60 || (met > 15 && (rules.len() != 256 || none > 0)),
        "{met} of {} rules met, {none} times none",
        rules.len()
    );
    for shadow in shadowed(&rules) {
        let rule = rules.get(shadow.rule).unwrap();
        let one_way = [Direction::Forward, Direction::Reverse].iter().all(|d| {
            rule.action(*d).is_none()
                || shadowed(&rules)
                    .iter()
                    .any(|s| s.rule == shadow.rule && s.direction == *d)
        });
        assert!(
            shadow.by < shadow.rule && (!one_way || hits[shadow.rule] == 0),
            "{shadow:?}"
        );
    }
}

#[test]
fn it_agrees_with_the_plainest_one() {
    compare(19, 256, 100_000);
}

#[test]
fn it_agrees_with_few_rules_and_with_many() {
    for (seed, rules) in [
        (1, 1),
        (2, 2),
        (3, 63),
        (4, 64),
        (5, 65),
        (6, 129),
        (7, 600),
    ] {
        compare(seed, rules, 3_000);
    }
}

#[test]
fn as_many_rules_as_can_be_are_told_apart() {
    // Every rule one address: the last of 4,096 is as well found as the first.
    let rules = (0..4096u32).map(|n| Rule {
        name: format!("rule-{n}"),
        matching: Match {
            src: vec![Prefix::new(std::net::Ipv4Addr::from(0x0a00_0000 + n).into(), 32).unwrap()],
            ..Match::default()
        },
        forward: Some(Action::Pass),
        reverse: None,
    });
    let rules = Rules::new(rules.collect()).unwrap();
    let classifier = Classifier::new(&rules, Direction::Forward);
    let mut frame = [0u8; 40];
    frame[12..15].copy_from_slice(&[8, 0, 0x45]);
    for n in [0u32, 1, 63, 64, 4095, 4096] {
        frame[26..30].copy_from_slice(&(0x0a00_0000 + n).to_be_bytes());
        let expected = (n < 4096).then_some(n as usize);
        assert_eq!(classifier.find(&Head::read(&frame)), expected);
    }
    assert!(shadowed(&rules).is_empty());
    let one_more = rules.into_inner().into_iter().cycle().take(4097).collect();
    assert!(Rules::new(one_more).is_err());
}

#[test]
fn what_an_earlier_rule_takes_is_shadowed() {
    let rule = |name: &str, matching: Match, reverse: bool| Rule {
        name: name.into(),
        matching,
        forward: Some(Action::Pass),
        reverse: reverse.then_some(Action::Drop),
    };
    let src = |text: &str| Match {
        src: vec![text.parse().unwrap()],
        ..Match::default()
    };
    let rules = Rules::new(vec![
        rule("wide", src("10.0.0.0/8"), false),
        rule("inside", src("10.1.0.0/16"), true),
        rule("beside", src("11.0.0.0/8"), true),
        rule("all", Match::default(), true),
        rule(
            "after",
            Match {
                vlan: vec![Vlan::Id(3)],
                ..Match::default()
            },
            true,
        ),
    ])
    .unwrap();
    let found: Vec<_> = shadowed(&rules)
        .iter()
        .map(|s| (s.rule, s.by, s.direction))
        .collect();
    let (forward, reverse) = (Direction::Forward, Direction::Reverse);
    assert_eq!(found, [(1, 0, forward), (4, 3, forward), (4, 3, reverse)]);
}

#[test]
fn interfaces_change_places_in_reverse() {
    let at = |name: &str| Interface::named(name).unwrap();
    let rule = |name: &str, matching: Match| Rule {
        name: name.into(),
        matching,
        forward: Some(Action::Drop),
        reverse: Some(Action::Drop),
    };
    let from_a = Match {
        input: vec![at("a")],
        ..Match::default()
    };
    let to_b = Match {
        output: vec![at("b"), at("c")],
        ..Match::default()
    };
    let rules = Rules::new(vec![rule("from-a", from_a), rule("to-b", to_b)]).unwrap();
    let frame = |input: Option<&str>, output: Option<&str>| Head {
        input: input.map(at),
        output: output.map(at),
        ..Head::read(&[0; 60])
    };
    let cases = [
        (frame(Some("a"), Some("b")), Some(0), None),
        (frame(Some("d"), Some("b")), Some(1), None),
        (frame(Some("b"), Some("a")), None, Some(0)),
        (frame(Some("c"), Some("d")), None, Some(1)),
        (frame(Some("d"), None), None, None),
        (frame(None, Some("c")), Some(1), None),
    ];
    for (head, forward, reverse) in cases {
        for (direction, wanted) in [(Direction::Forward, forward), (Direction::Reverse, reverse)] {
            let found = Classifier::new(&rules, direction).find(&head);
            assert_eq!(found, wanted, "{direction:?} {head:?}");
            let first = rules
                .iter()
                .position(|rule| rule.matching.seen(direction).takes(&head));
            assert_eq!(found, first);
        }
    }
    let names = ["a".to_owned(), "b".to_owned()];
    let odd = rules.odd_interfaces(&names, false);
    assert_eq!(
        (odd.len(), odd[0].rule, odd[0].key, odd[0].interface),
        (1, 1, "out", at("c"))
    );
    let odd = rules.odd_interfaces(&names, true);
    assert_eq!((odd.len(), odd[0].key), (2, "in"), "a router does not know");
}
