//! Packet filters of a namespace: what may drop or change packets before and after routing.
//!
//! Each kind has an interface of its own to list filters (nftables, the older iptables, IPsec, BPF), which does not exist
//! on every kernel. An interface that is missing has no filters.

use std::fmt;
use std::fs;

use super::socket::Socket;
use super::stack::Stack;
use super::wire::{attributes, text};
use crate::bpf;
use crate::error::{Error, Result};
use crate::netns::NetNs;

/// From the kernel's `nf_tables.h`: `NFNL_SUBSYS_NFTABLES`, and messages of it.
const NFTABLES: u16 = 10 << 8;
const NFT_MSG_NEWCHAIN: u16 = NFTABLES | 3;
const NFT_MSG_GETCHAIN: u16 = NFTABLES | 4;
/// Announced at the end of each change of a namespace's nftables.
pub(super) const NFT_MSG_NEWGEN: u16 = NFTABLES | 15;
const NFTA_CHAIN_TABLE: u16 = 1;
const NFTA_CHAIN_HOOK: u16 = 4;
const NFTA_CHAIN_POLICY: u16 = 5;
const NFTA_CHAIN_USE: u16 = 6;
/// `NF_ACCEPT`.
const ACCEPT: u32 = 1;
/// Size of `struct nfgenmsg`.
const NFTABLES_HEADER: usize = 4;

/// From the kernel's `xfrm.h`.
const XFRM_MSG_NEWPOLICY: u16 = 0x13;
const XFRM_MSG_GETPOLICY: u16 = 0x15;
/// Size of `struct xfrm_userpolicy_id`.
const POLICY_ID: usize = 64;

/// Tables of the older iptables that are in use, by its programs.
const OLD_TABLES: [(&str, &str); 3] = [
    ("iptables", "/proc/thread-self/net/ip_tables_names"),
    ("ip6tables", "/proc/thread-self/net/ip6_tables_names"),
    ("arptables", "/proc/thread-self/net/arp_tables_names"),
];

/// A filter, or a group of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Filter {
    /// A table of rules that are in force.
    Table {
        /// The table's kind: `nftables inet`, `iptables`, ...
        kind: String,
        /// The table's name.
        name: String,
    },
    /// IPsec policies.
    Policies(usize),
    /// BPF programs that an interface passes its frames to (tcx), in both directions.
    Programs {
        /// The interface.
        ifindex: u32,
        /// The number of programs.
        count: usize,
    },
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Filter::Table { kind, name } => write!(f, "{kind} {name}"),
            Filter::Policies(count) => write!(f, "IPsec, {count} policies"),
            Filter::Programs { ifindex, count } => {
                write!(f, "{count} BPF programs at interface {ifindex}")
            }
        }
    }
}

impl Stack {
    /// Adds the packet filters of the namespace, which the stack must be of.
    ///
    /// # Errors
    /// [`Error::Os`] when the namespace cannot be entered or the kernel does not answer, [`Error::Protocol`] when the
    /// filters changed during each of many tries.
    pub fn add_filters(&mut self, ns: &NetNs) -> Result<()> {
        let _inside = ns.enter()?;
        self.filters = tables()?;
        self.filters.extend(old_tables());
        let policies = policies()?;
        if policies > 0 {
            self.filters.push(Filter::Policies(policies));
        }
        for link in &self.links {
            let count = bpf::programs_at(link.ifindex);
            if count > 0 {
                self.filters.push(Filter::Programs {
                    ifindex: link.ifindex,
                    count,
                });
            }
        }
        Ok(())
    }
}

/// Returns the tables of nftables that may drop or change packets: with a chain at a hook of the kernel that has rules,
/// or a policy other than accepting.
fn tables() -> Result<Vec<Filter>> {
    let listed = Socket::open_to(libc::NETLINK_NETFILTER).and_then(|mut socket| {
        let body = [0; NFTABLES_HEADER];
        socket.dump("list nftables", NFT_MSG_GETCHAIN, &body, |kind, p| {
            Ok((kind == NFT_MSG_NEWCHAIN).then(|| table(p)).flatten())
        })
    });
    let mut tables = match listed {
        // Rules that change all the time hide no other difference of the stack.
        Err(Error::Protocol { .. }) => vec![Filter::Table {
            kind: "nftables".to_owned(),
            name: "(changes too fast to be read)".to_owned(),
        }],
        listed => if_there_is(listed)?,
    };
    tables.sort();
    tables.dedup();
    Ok(tables)
}

/// Returns the table of a chain (`nfgenmsg` and its attributes), if the chain may drop or change packets.
fn table(p: &[u8]) -> Option<Filter> {
    let family = match i32::from(*p.first()?) {
        1 => "inet",
        libc::AF_INET => "ip",
        3 => "arp",
        5 => "netdev",
        libc::AF_BRIDGE => "bridge",
        libc::AF_INET6 => "ip6",
        _ => "?",
    };
    let (mut name, mut at_hook, mut policy, mut rules) = (None, false, ACCEPT, 0);
    for (kind, value) in attributes(p.get(NFTABLES_HEADER..)?) {
        // nftables has numbers in network order.
        let number = value.first_chunk().map(|n| u32::from_be_bytes(*n));
        match kind {
            NFTA_CHAIN_TABLE => name = Some(text(value)),
            NFTA_CHAIN_HOOK => at_hook = true,
            NFTA_CHAIN_POLICY => policy = number?,
            NFTA_CHAIN_USE => rules = number?,
            _ => {}
        }
    }
    (at_hook && (policy != ACCEPT || rules > 0)).then_some(Filter::Table {
        kind: format!("nftables {family}"),
        name: name?,
    })
}

/// Returns the tables of the older iptables that the calling thread's namespace uses.
fn old_tables() -> Vec<Filter> {
    let of = |(kind, file): (&str, &str)| {
        let names = fs::read_to_string(file).unwrap_or_default();
        let table = |name: &str| Filter::Table {
            kind: kind.to_owned(),
            name: name.to_owned(),
        };
        names.lines().map(table).collect::<Vec<_>>()
    };
    OLD_TABLES.into_iter().flat_map(of).collect()
}

/// Returns the number of IPsec policies.
fn policies() -> Result<usize> {
    let listed = Socket::open_to(libc::NETLINK_XFRM).and_then(|mut socket| {
        let body = [0; POLICY_ID];
        socket.dump(
            "list IPsec policies",
            XFRM_MSG_GETPOLICY,
            &body,
            |kind, _| Ok((kind == XFRM_MSG_NEWPOLICY).then_some(())),
        )
    });
    Ok(if_there_is(listed)?.len())
}

/// Returns an empty list if this kernel has no such interface, or does not allow its use.
fn if_there_is<T>(listed: Result<Vec<T>>) -> Result<Vec<T>> {
    let missing = |error: &Error| {
        matches!(
            error.errno(),
            Some(
                libc::EPROTONOSUPPORT
                    | libc::EINVAL
                    | libc::EOPNOTSUPP
                    | libc::ENOENT
                    | libc::EPERM
            )
        )
    };
    match listed {
        Err(error) if missing(&error) => Ok(Vec::new()),
        listed => listed,
    }
}
