//! A namespace's network stack as one value, as far as a lab configures it.

use std::net::IpAddr;

use super::dump::forwards;
use super::filters::{self, Filter};
use super::parse::{Address, Conf, LinkInfo, Neighbour, QdiscInfo};
use super::rule::{RULE_HEADER, Rule};
use super::socket::Socket;
use super::types::IpPrefix;
use crate::error::Result;
use crate::netns::NetNs;

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

impl Stack {
    /// Adds the packet filters of the namespace, which the stack must be of.
    ///
    /// # Errors
    /// [`Error::Os`](crate::Error::Os) when the namespace cannot be entered or the kernel does not answer,
    /// [`Error::Protocol`](crate::Error::Protocol) when the filters changed during each of many tries.
    pub fn add_filters(&mut self, ns: &NetNs) -> Result<()> {
        let _inside = ns.enter()?;
        self.filters = filters::all(self.links.iter().map(|link| link.ifindex))?;
        Ok(())
    }

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
