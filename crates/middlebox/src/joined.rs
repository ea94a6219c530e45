//! The forwarding between the interfaces of a box: where a frame leaves that arrived at one of them, and whether
//! rules apply to it.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use constel_link::Nanos;
use constel_link::rules::{Direction, Head};

/// The number of stations that a hub remembers. Beyond it, those without frames for the longest time are forgotten.
const STATIONS: usize = 4096;
/// A station that sent no frame for this long may be at another interface.
const REMEMBERED_NS: Nanos = 300_000_000_000;
const ARP: u16 = 0x0806;
const ICMPV6: u8 = 58;
/// The ICMPv6 types of neighbour discovery, from router solicitation to redirect.
const DISCOVERY: std::ops::RangeInclusive<u8> = 133..=137;
const IPV6_HEADER: usize = 40;

/// The part of the box that decides about a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BoxPart {
    /// The rules: in a known direction, or in either direction, by their matches.
    Rules(Option<Direction>),
    /// The box's router: the frame is for it, or was sent by it.
    Routers,
}

/// The forwarding of a box.
#[derive(Debug)]
pub(crate) enum Joined {
    Pairs,
    Hub(Mutex<Stations>),
    /// A router: the number of the box's interfaces, which are followed by those of the router, and the router's
    /// addresses.
    Router(u8, HashSet<IpAddr>),
}

impl Joined {
    /// Returns the interface at which a frame leaves that arrived at `at`, and the part that decides about it. A
    /// result equal to `at` means every other interface. `None`: the destination is on the side where the frame
    /// arrived. `rest` is the frame after its Ethernet addresses.
    pub(crate) fn way(
        &self,
        now: Nanos,
        at: u8,
        head: &Head,
        rest: &[u8],
    ) -> Option<(u8, BoxPart)> {
        Some(match self {
            Joined::Pairs => (at ^ 1, BoxPart::Rules(Some(of_pair(at)))),
            Joined::Hub(stations) => {
                let mut stations = stations.lock().unwrap_or_else(PoisonError::into_inner);
                (stations.way(now, at, head)?, BoxPart::Rules(None))
            }
            Joined::Router(count, _) if at < *count => (at + count, BoxPart::Routers),
            Joined::Router(count, own) => {
                let out = at - count;
                let whose = if says_itself(own, head, rest) {
                    BoxPart::Routers
                } else {
                    // With two interfaces, the forward direction leaves at the second.
                    BoxPart::Rules((*count == 2).then(|| of_pair(out ^ 1)))
                };
                (out, whose)
            }
        })
    }

    /// Creates a hub that has not yet seen a frame.
    pub(crate) fn hub() -> Joined {
        Joined::Hub(Mutex::default())
    }
}

/// Returns the direction of frames that arrive at an interface of a pair.
fn of_pair(at: u8) -> Direction {
    match at % 2 {
        0 => Direction::Forward,
        _ => Direction::Reverse,
    }
}

/// Returns whether a router sent this frame itself and did not forward it: its source is an address of the router,
/// or one that no router forwards (link-local or unspecified).
fn says_itself(own: &HashSet<IpAddr>, head: &Head, rest: &[u8]) -> bool {
    let Some(ip) = head.ip else {
        return head.ethertype == ARP;
    };
    let IpAddr::V6(src) = ip.src else {
        return own.contains(&ip.src);
    };
    // The ICMPv6 type follows the EtherType and the fixed header of IPv6.
    let kind = rest.get(2 + IPV6_HEADER);
    let discovers = ip.protocol == ICMPV6 && head.vlan.is_none();
    own.contains(&ip.src)
        || src.is_unicast_link_local()
        || src.is_unspecified()
        || (discovers && kind.is_some_and(|kind| DISCOVERY.contains(kind)))
}

/// The interface at which each station was last seen, and when.
#[derive(Debug, Default)]
pub(crate) struct Stations(HashMap<(Option<u16>, [u8; 6]), (u8, Nanos)>);

impl Stations {
    /// Learns the sender's interface and returns the interface of the destination. The result `at` means every
    /// other interface; `None` means that the destination is at the interface where the frame arrived.
    fn way(&mut self, now: Nanos, at: u8, head: &Head) -> Option<u8> {
        // The least significant bit of the first byte marks a group address, which no station has as its own.
        if head.smac[0] & 1 == 0 {
            if self.0.len() >= STATIONS && !self.0.contains_key(&(head.vlan, head.smac)) {
                self.forget_half();
            }
            self.0.insert((head.vlan, head.smac), (at, now));
        }
        if head.dmac[0] & 1 == 1 {
            return Some(at);
        }
        let known = self.0.get(&(head.vlan, head.dmac));
        let known = known.filter(|(_, heard)| now.saturating_sub(*heard) < REMEMBERED_NS);
        match known {
            Some((there, _)) => (*there != at).then_some(*there),
            None => Some(at),
        }
    }

    fn forget_half(&mut self) {
        let mut heard: Vec<Nanos> = self.0.values().map(|(_, heard)| *heard).collect();
        let middle = heard.len() / 2;
        let (_, middle, _) = heard.select_nth_unstable(middle);
        let middle = *middle;
        self.0.retain(|_, (_, heard)| *heard > middle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(from: u8, to: u8) -> Head {
        let mac = |n: u8| {
            if n == 255 {
                [255; 6]
            } else {
                [2, 0, 0, 0, 0, n]
            }
        };
        Head::behind(mac(from), mac(to), &[0x88, 0xb5])
    }

    #[test]
    fn pairs_have_a_far_end_each() {
        let way = |at| Joined::Pairs.way(0, at, &head(1, 2), &[]).unwrap();
        assert_eq!(way(0), (1, BoxPart::Rules(Some(Direction::Forward))));
        assert_eq!(way(1), (0, BoxPart::Rules(Some(Direction::Reverse))));
        assert_eq!(way(4), (5, BoxPart::Rules(Some(Direction::Forward))));
    }

    #[test]
    fn a_hub_learns_who_is_where_and_forgets() {
        let hub = Joined::hub();
        let way = |now, at, from, to| {
            let found = hub.way(now, at, &head(from, to), &[]);
            found.map(|(out, _)| out)
        };
        assert_eq!(way(1, 0, 1, 2), Some(0), "nobody knows 2: everywhere");
        assert_eq!(way(2, 2, 2, 1), Some(0));
        assert_eq!(way(3, 0, 1, 2), Some(2));
        assert_eq!(way(3, 2, 3, 2), None, "they hear each other already");
        assert_eq!(way(4, 1, 2, 1), Some(0), "2 has moved");
        assert_eq!(way(5, 0, 1, 2), Some(1));
        assert_eq!(way(6, 0, 1, 255), Some(0), "everybody");
        let later = 5 + REMEMBERED_NS;
        assert_eq!(way(later, 0, 1, 2), Some(0), "2 said nothing for long");
        // This holds for any number of stations.
        let Joined::Hub(stations) = &hub else {
            panic!()
        };
        let mut stations = stations.lock().unwrap();
        for n in 0..10_000u32 {
            let mut smac = [2, 1, 0, 0, 0, 0];
            smac[2..].copy_from_slice(&n.to_be_bytes());
            let _ = stations.way(u64::from(n), 0, &Head { smac, ..head(1, 2) });
        }
        assert!(stations.0.len() <= STATIONS);
        assert!(
            stations
                .0
                .keys()
                .any(|(_, mac)| mac[2..] == 9_999u32.to_be_bytes())
        );
    }

    #[test]
    fn rules_are_about_what_a_router_passes_on() {
        let own: IpAddr = "10.0.0.254".parse().unwrap();
        let router = Joined::Router(2, HashSet::from([own]));
        let way = |at, head: &Head, rest: &[u8]| router.way(0, at, head, rest).unwrap();
        assert_eq!(way(1, &head(1, 2), &[]), (3, BoxPart::Routers));
        let packet = |src: [u8; 4]| {
            let mut rest = vec![0x08, 0x00, 0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0];
            rest.extend(src);
            rest.extend([10, 0, 1, 1]);
            let head = Head::behind([2; 6], [4; 6], &rest);
            way(3, &head, &rest)
        };
        assert_eq!(packet([10, 0, 0, 254]), (1, BoxPart::Routers));
        assert_eq!(
            packet([10, 0, 0, 1]),
            (1, BoxPart::Rules(Some(Direction::Forward)))
        );
        let arp = Head::behind([2; 6], [255; 6], &[0x08, 0x06]);
        assert_eq!(way(2, &arp, &[0x08, 0x06]), (0, BoxPart::Routers));
        let solicitation = |from: u8, kind: u8| {
            let mut rest = vec![0x86, 0xdd, 0x60, 0, 0, 0, 0, 24, 58, 255];
            rest.extend([0xfe, from, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
            rest.extend([0xff; 16]);
            rest.extend([kind, 0]);
            let head = Head::behind([2; 6], [4; 6], &rest);
            way(2, &head, &rest).1
        };
        assert_eq!(
            solicitation(0x80, 143),
            BoxPart::Routers,
            "of the link only"
        );
        assert_eq!(solicitation(0xd0, 135), BoxPart::Routers);
        assert_eq!(
            solicitation(0xd0, 128),
            BoxPart::Rules(Some(Direction::Reverse))
        );
    }
}
