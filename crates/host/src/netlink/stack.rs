//! A namespace's network stack as one value, as far as a lab configures it.

use std::net::IpAddr;

use super::dump::forwards;
use super::filters::Filter;
use super::parse::{Address, Conf, LinkInfo, Neighbour, QdiscInfo};
use super::socket::Socket;
use super::types::{IpPrefix, ROUTE_PROTOCOL};
use super::wire::attributes;
use crate::error::Result;

/// From the kernel's `fib_rules.h`.
const FRA_PRIORITY: u16 = 6;
const FRA_TABLE: u16 = 15;
const FRA_PROTOCOL: u16 = 21;
const FR_ACT_TO_TBL: u8 = 1;
const RULE_HEADER: usize = 12;

/// Interfaces, addresses, neighbours, rules, queueing disciplines and packet filters of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stack {
    /// Interfaces.
    pub links: Vec<LinkInfo>,
    /// Addresses of the interfaces.
    pub addresses: Vec<Address>,
    /// Neighbour entries.
    pub neighbours: Vec<Neighbour>,
    /// Routing rules, IPv4 and IPv6.
    pub rules: Vec<Rule>,
    /// Queueing disciplines, except the built-in ones.
    pub qdiscs: Vec<QdiscInfo>,
    /// Whether it forwards IPv4, and IPv6, as a whole (`conf/all`).
    pub forwards: [bool; 2],
    /// Settings of IPv4 of each interface.
    pub ipv4: Vec<Conf>,
    /// Packet filters; only after [`Stack::add_filters`].
    pub filters: Vec<Filter>,
}

/// A routing rule: packets are looked up in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    /// Whether it is an IPv4 rule; otherwise IPv6.
    pub ipv4: bool,
    /// Priority; rules with lower numbers come first.
    pub priority: u32,
    /// The table; 0 for rules without a lookup.
    pub table: u32,
    /// Whether all packets are looked up there: no selector and no other action.
    pub plain: bool,
    /// Protocol number of the software that created it; 2: the kernel.
    pub protocol: u8,
}

impl Rule {
    /// Returns the rules that every new namespace has in a family: local addresses, the main table and, in IPv4, the
    /// default table.
    #[must_use]
    pub fn born(ipv4: bool) -> Vec<Rule> {
        let rule = |(priority, table)| Rule {
            ipv4,
            priority,
            table,
            plain: true,
            protocol: 2,
        };
        let all = [(0, 255), (32_766, 254), (32_767, 253)];
        let count = if ipv4 { 3 } else { 2 };
        all.into_iter().take(count).map(rule).collect()
    }

    /// Returns whether Constel created it.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.protocol == ROUTE_PROTOCOL
    }

    /// Returns the body of the request that adds it.
    pub(super) fn request(&self) -> Vec<u8> {
        let family = if self.ipv4 {
            libc::AF_INET
        } else {
            libc::AF_INET6
        };
        let table = u8::try_from(self.table).unwrap_or(0);
        let mut body = vec![family as u8, 0, 0, 0, table, 0, 0, FR_ACT_TO_TBL];
        body.extend([0; 4]);
        for (kind, value) in [(FRA_PRIORITY, self.priority), (FRA_TABLE, self.table)] {
            body.extend(8u16.to_ne_bytes());
            body.extend(kind.to_ne_bytes());
            body.extend(value.to_ne_bytes());
        }
        body.extend(5u16.to_ne_bytes());
        body.extend(FRA_PROTOCOL.to_ne_bytes());
        body.extend([self.protocol, 0, 0, 0]);
        body
    }

    /// Reads `fib_rule_hdr` and its attributes.
    fn parse(p: &[u8]) -> Option<Rule> {
        let header = p.get(..RULE_HEADER)?;
        let ipv4 = match i32::from(header[0]) {
            libc::AF_INET => true,
            libc::AF_INET6 => false,
            _ => return None,
        };
        // Prefix lengths, TOS and flags (inversion) select packets too.
        let mut plain =
            header[7] == FR_ACT_TO_TBL && header[1..4] == [0; 3] && header[8..12] == [0; 4];
        let (mut priority, mut table, mut protocol) = (0, u32::from(header[4]), 0);
        for (kind, value) in attributes(&p[RULE_HEADER..]) {
            let number = value.first_chunk().map(|n| u32::from_ne_bytes(*n));
            match kind {
                FRA_PRIORITY => priority = number?,
                FRA_TABLE => table = number?,
                FRA_PROTOCOL => protocol = *value.first()?,
                // Suppressors at their default values; any other attribute selects packets.
                13 | 14 if number == Some(u32::MAX) => {}
                _ => plain = false,
            }
        }
        Some(Rule {
            ipv4,
            priority,
            table,
            plain,
            protocol,
        })
    }
}

impl Stack {
    /// Returns the interface of this number.
    #[must_use]
    pub fn link(&self, ifindex: u32) -> Option<&LinkInfo> {
        self.links.iter().find(|link| link.ifindex == ifindex)
    }

    /// Returns whether an interface has this address.
    #[must_use]
    pub fn has_address(&self, ifindex: u32, prefix: IpPrefix) -> bool {
        let own = self.addresses.iter();
        own.filter(|own| own.ifindex == ifindex)
            .any(|own| own.local == prefix)
    }

    /// Returns the Ethernet address of a permanent neighbour entry of an interface.
    #[must_use]
    pub fn permanent(&self, ifindex: u32, addr: IpAddr) -> Option<super::Mac> {
        let same = |entry: &&Neighbour| {
            entry.ifindex == ifindex && entry.addr == addr && entry.state & libc::NUD_PERMANENT != 0
        };
        self.neighbours.iter().find(same)?.mac
    }
}

impl Socket {
    /// Returns the namespace's stack without its routes, which [`Socket::routes`] returns.
    ///
    /// # Errors
    /// [`Error::Os`](crate::Error::Os) when the kernel does not answer, [`Error::Protocol`](crate::Error::Protocol)
    /// when its answer is not valid, or the stack changed during each of many tries.
    pub fn stack(&mut self) -> Result<Stack> {
        let ipv4 = self.confs(true)?;
        Ok(Stack {
            links: self.links()?,
            addresses: self.addresses()?,
            neighbours: self.neighbours()?,
            rules: self.rules()?,
            qdiscs: self.qdiscs()?,
            // A kernel without IPv6 does not answer.
            forwards: [forwards(&ipv4)?, self.forwards(false).unwrap_or(false)],
            ipv4,
            filters: Vec::new(),
        })
    }

    /// Returns all routing rules, IPv4 and IPv6.
    ///
    /// # Errors
    /// As [`Socket::stack`].
    pub fn rules(&mut self) -> Result<Vec<Rule>> {
        let mut all = Vec::new();
        for family in [libc::AF_INET, libc::AF_INET6] {
            let mut body = [0; RULE_HEADER];
            body[0] = family as u8;
            all.extend(
                self.dump("list rules", libc::RTM_GETRULE, &body, |kind, p| {
                    Ok((kind == libc::RTM_NEWRULE)
                        .then(|| Rule::parse(p))
                        .flatten())
                })?,
            );
        }
        Ok(all)
    }
}
