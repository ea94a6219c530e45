//! The kernel's configuration for a transparent Midnode (section IV.A) or proxy: it gives passing
//! packets to our socket without changing them.
//!
//! * An nftables table `leotp_<name>` of our own, in the `inet` family, with a prerouting chain
//!   that gives packets to our socket (TPROXY) and marks them: UDP from or to the ports; TCP's
//!   first packets to the ports, and packets of our own connections. Packets of other connections
//!   pass. The table is created with the owner flag: the kernel removes it when our netlink
//!   socket closes, even after `kill -9`.
//! * A routing rule "mark -> table" and in that table "everything is local", for
//!   IPv4 and IPv6. They are removed on drop; after `kill -9` they stay until
//!   the next start with the same mark, and do nothing without the mark.

use super::RunError;
use super::netlink::{ACK, APPEND, CREATE, EXCL, Msg, Netlink, REQUEST};
use crate::core::{REDIRECTION_PRIORITY, REDIRECTION_TABLE};
use std::io;
use std::net::IpAddr;

const NFT: u16 = 10 << 8;
const NEWTABLE: u16 = NFT;
const NEWCHAIN: u16 = NFT | 3;
const NEWRULE: u16 = NFT | 6;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const INET: u8 = 1;
const TABLE_OWNER: u32 = 2;
/// Priority of `mangle`, where TPROXY belongs.
const MANGLE: i32 = -150;
const IPV4: u8 = 2;
const IPV6: u8 = 10;

/// The kind of traffic that is redirected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    /// Every datagram from or to the ports, to one socket.
    Udp,
    /// Connections to the ports, to one listener.
    Tcp,
}

/// An address and the length of a prefix.
type Prefix = (IpAddr, u8);

/// The packets that are redirected.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken<'a> {
    /// Ports, first and last.
    pub(crate) ports: (u16, u16),
    /// Only packets that arrive at these; none: at any interface.
    pub(crate) interfaces: &'a [String],
    /// Only packets to these addresses and lengths of prefixes; none: to any.
    pub(crate) destinations: &'a [Prefix],
}

/// Redirection of a range of ports to transparent sockets of this process, undone on drop.
#[derive(Debug)]
#[must_use = "the redirection ends when it is dropped"]
pub(crate) struct Redirect {
    /// Owns the table.
    _nft: Netlink,
    route: Netlink,
    mark: u32,
    table: u32,
}

impl Redirect {
    /// Redirects `taken` to the transparent sockets bound to `to_port`. `name`
    /// completes the table's name. Needs CAP_NET_ADMIN.
    ///
    /// # Errors
    /// When the kernel lacks TPROXY or rights are missing.
    pub(crate) fn install(
        name: &str,
        transport: Transport,
        taken: &Taken<'_>,
        to_port: u16,
        mark: u32,
        table: u32,
    ) -> Result<Self, RunError> {
        let mut nft =
            Netlink::open(libc::NETLINK_NETFILTER).map_err(RunError::io("open nftables"))?;
        let name = format!("{REDIRECTION_TABLE}{name}");
        nft.ask(ruleset(&name, transport, taken, to_port, mark))
            .map_err(RunError::io(format!(
                "create nftables table {name} (needs CAP_NET_ADMIN and a --name that no other in this network \
                 namespace has)"
            )))?;
        let mut route =
            Netlink::open(libc::NETLINK_ROUTE).map_err(RunError::io("open rtnetlink"))?;
        for family in [IPV4, IPV6] {
            for add in [
                rule(family, mark, table, true),
                local_route(family, table, true),
            ] {
                match route.ask(vec![add]) {
                    Err(e) if e.raw_os_error() == Some(libc::EEXIST) => {}
                    // Without IPv6 (EACCES: switched off) no IPv6 traffic needs a redirection.
                    Err(e)
                        if family == IPV6
                            && matches!(
                                e.raw_os_error(),
                                Some(libc::EAFNOSUPPORT | libc::EOPNOTSUPP | libc::EACCES)
                            ) => {}
                    other => other.map_err(RunError::io(
                        "route marked packets to this host (is lo up?)",
                    ))?,
                }
            }
        }
        Ok(Self {
            _nft: nft,
            route,
            mark,
            table,
        })
    }
}

impl Drop for Redirect {
    fn drop(&mut self) {
        for family in [IPV4, IPV6] {
            // Best effort: without the table the mark no longer occurs.
            let _ = self
                .route
                .ask(vec![rule(family, self.mark, self.table, false)]);
            let _ = self.route.ask(vec![local_route(family, self.table, false)]);
        }
    }
}

fn nfgen(family: u8, res: u16) -> [u8; 4] {
    let r = res.to_be_bytes();
    [family, 0, r[0], r[1]]
}

fn ruleset(
    name: &str,
    transport: Transport,
    taken: &Taken<'_>,
    to_port: u16,
    mark: u32,
) -> Vec<Msg> {
    let inet = nfgen(INET, 0);
    let mut table = Msg::new(NEWTABLE, REQUEST | ACK | CREATE | EXCL, &inet);
    table.string(1, name).be32(2, TABLE_OWNER);
    let mut chain = Msg::new(NEWCHAIN, REQUEST | ACK | CREATE, &inet);
    chain.string(1, name).string(3, "prerouting").nest(4, |m| {
        m.be32(1, 0).be32(2, MANGLE as u32);
    });
    chain.be32(5, 1).string(7, "filter");
    let mut out = vec![Msg::new(BATCH_BEGIN, REQUEST, &nfgen(0, 10)), table, chain];
    let mut add = |f: &mut dyn FnMut(&mut Msg)| {
        let mut r = Msg::new(NEWRULE, REQUEST | ACK | CREATE | APPEND, &inet);
        r.string(1, name).string(2, "prerouting").nest(4, f);
        out.push(r);
    };
    for family in [IPV4, IPV6] {
        let rule = Rule {
            family,
            ports: taken.ports,
            to_port,
            mark,
        };
        if transport == Transport::Tcp {
            add(&mut |m| rule.keep(m, libc::IPPROTO_TCP));
        }
        for (interface, destination) in taken.each(family) {
            let mut redirect = |protocol, which| {
                add(&mut |m| rule.redirect(m, protocol, which, interface, destination));
            };
            if transport == Transport::Udp {
                redirect(libc::IPPROTO_UDP, SOURCE);
                redirect(libc::IPPROTO_UDP, DESTINATION);
            } else {
                redirect(libc::IPPROTO_TCP, DESTINATION);
            }
        }
    }
    out.push(Msg::new(BATCH_END, REQUEST, &nfgen(0, 10)));
    out
}

/// The offsets of the ports in the headers of UDP and TCP.
const SOURCE: u32 = 0;
const DESTINATION: u32 = 2;

const REG: u32 = 1;
/// The bases of the offsets of `payload`.
const NETWORK_HEADER: u32 = 1;
const TRANSPORT_HEADER: u32 = 2;
const EQUAL: u32 = 0;
const AT_MOST: u32 = 3;
const AT_LEAST: u32 = 5;

fn expr(m: &mut Msg, name: &str, f: impl FnOnce(&mut Msg)) {
    m.nest(1, |m| {
        m.string(1, name).nest(2, f);
    });
}

fn load_meta(m: &mut Msg, key: u32) {
    expr(m, "meta", |m| {
        m.be32(1, REG).be32(2, key);
    });
}

fn compare(m: &mut Msg, op: u32, value: &[u8]) {
    expr(m, "cmp", |m| {
        m.be32(1, REG).be32(2, op).nest(3, |m| {
            m.attr(1, value);
        });
    });
}

/// `ip daddr PREFIX/LEN`
fn is_for(m: &mut Msg, prefix: IpAddr, len: u8) {
    let (offset, address) = match prefix {
        IpAddr::V4(ip) => (16, ip.octets().to_vec()),
        IpAddr::V6(ip) => (24, ip.octets().to_vec()),
    };
    let size = address.len() as u32;
    let bits = |i: usize| u32::from(len).saturating_sub(8 * i as u32).min(8);
    let mask: Vec<u8> = (0..address.len())
        .map(|i| !(0xff_u16 >> bits(i)) as u8)
        .collect();
    let wanted: Vec<u8> = address.iter().zip(&mask).map(|(a, m)| a & m).collect();
    expr(m, "payload", |m| {
        m.be32(1, REG)
            .be32(2, NETWORK_HEADER)
            .be32(3, offset)
            .be32(4, size);
    });
    keep_bits(m, &mask);
    compare(m, EQUAL, &wanted);
}

/// `tcp flags & (syn | ack) == syn`
fn is_first(m: &mut Msg) {
    const FLAGS: u32 = 13;
    const SYN: u8 = 2;
    const ACK_BIT: u8 = 16;
    expr(m, "payload", |m| {
        m.be32(1, REG)
            .be32(2, TRANSPORT_HEADER)
            .be32(3, FLAGS)
            .be32(4, 1);
    });
    keep_bits(m, &[SYN | ACK_BIT]);
    compare(m, EQUAL, &[SYN]);
}

fn keep_bits(m: &mut Msg, mask: &[u8]) {
    expr(m, "bitwise", |m| {
        m.be32(1, REG).be32(2, REG).be32(3, mask.len() as u32);
        m.nest(4, |m| {
            m.attr(1, mask);
        });
        m.nest(5, |m| {
            m.attr(1, &vec![0; mask.len()]);
        });
    });
}

fn set(m: &mut Msg, value: &[u8]) {
    expr(m, "immediate", |m| {
        m.be32(1, REG).nest(2, |m| {
            m.attr(1, value);
        });
    });
}

impl Taken<'_> {
    /// The pairs of interface and destination of this family, a rule each; `None`: any.
    fn each(&self, family: u8) -> Vec<(Option<&str>, Option<Prefix>)> {
        let of_family = |(ip, _): &&(IpAddr, u8)| ip.is_ipv4() == (family == IPV4);
        let mut to: Vec<_> = self
            .destinations
            .iter()
            .filter(of_family)
            .copied()
            .map(Some)
            .collect();
        if self.destinations.is_empty() {
            to.push(None);
        }
        let mut at: Vec<_> = self
            .interfaces
            .iter()
            .map(|name| Some(name.as_str()))
            .collect();
        if at.is_empty() {
            at.push(None);
        }
        at.iter()
            .flat_map(|at| to.iter().map(|to| (*at, *to)))
            .collect()
    }
}

/// The values that the rules of one table share.
struct Rule {
    family: u8,
    ports: (u16, u16),
    to_port: u16,
    mark: u32,
}

impl Rule {
    /// `meta nfproto F ip daddr D iifname I P sport|dport FIRST-LAST tproxy F to :T meta mark set M accept`; of TCP also
    /// `tcp flags & (syn | ack) == syn`
    fn redirect(
        &self,
        m: &mut Msg,
        protocol: i32,
        which: u32,
        interface: Option<&str>,
        destination: Option<Prefix>,
    ) {
        const META_IIFNAME: u32 = 6;
        self.protocol(m, protocol);
        if let Some((prefix, len)) = destination {
            is_for(m, prefix, len);
        }
        if let Some(interface) = interface {
            // The kernel compares names padded with zeros.
            let mut name = [0; 16];
            let len = interface.len().min(15);
            name[..len].copy_from_slice(&interface.as_bytes()[..len]);
            load_meta(m, META_IIFNAME);
            compare(m, EQUAL, &name);
        }
        expr(m, "payload", |m| {
            m.be32(1, REG)
                .be32(2, TRANSPORT_HEADER)
                .be32(3, which)
                .be32(4, 2);
        });
        compare(m, AT_LEAST, &self.ports.0.to_be_bytes());
        compare(m, AT_MOST, &self.ports.1.to_be_bytes());
        if protocol == libc::IPPROTO_TCP {
            is_first(m);
        }
        set(m, &self.to_port.to_be_bytes());
        expr(m, "tproxy", |m| {
            m.be32(1, u32::from(self.family)).be32(3, REG);
        });
        self.mark_and_accept(m);
    }

    /// `meta nfproto F P socket transparent 1 meta mark set M accept`: packets of a connection of
    /// a transparent socket stay here.
    fn keep(&self, m: &mut Msg, protocol: i32) {
        self.protocol(m, protocol);
        expr(m, "socket", |m| {
            m.be32(1, 0).be32(2, REG);
        });
        compare(m, EQUAL, &[1]);
        self.mark_and_accept(m);
    }

    fn protocol(&self, m: &mut Msg, protocol: i32) {
        const META_NFPROTO: u32 = 15;
        const META_L4PROTO: u32 = 16;
        load_meta(m, META_NFPROTO);
        compare(m, EQUAL, &[self.family]);
        load_meta(m, META_L4PROTO);
        compare(m, EQUAL, &[protocol as u8]);
    }

    fn mark_and_accept(&self, m: &mut Msg) {
        const META_MARK: u32 = 3;
        set(m, &self.mark.to_ne_bytes());
        expr(m, "meta", |m| {
            m.be32(2, META_MARK).be32(3, REG);
        });
        expr(m, "immediate", |m| {
            m.be32(1, 0).nest(2, |m| {
                m.nest(2, |m| {
                    m.be32(1, 1);
                });
            });
        });
    }
}

const RTPROT_STATIC: u8 = 4;

fn rule(family: u8, mark: u32, table: u32, add: bool) -> Msg {
    let (kind, flags) = if add {
        (libc::RTM_NEWRULE, CREATE | EXCL)
    } else {
        (libc::RTM_DELRULE, 0)
    };
    const TO_TABLE: u8 = 1;
    let mut m = Msg::new(
        kind,
        REQUEST | ACK | flags,
        &[family, 0, 0, 0, 0, 0, 0, TO_TABLE, 0, 0, 0, 0],
    );
    // A priority of its own makes the rule identical at every start.
    m.attr(6, &REDIRECTION_PRIORITY.to_ne_bytes());
    m.attr(10, &mark.to_ne_bytes())
        .attr(15, &table.to_ne_bytes());
    m
}

fn local_route(family: u8, table: u32, add: bool) -> Msg {
    let (kind, flags) = if add {
        (libc::RTM_NEWROUTE, CREATE | EXCL)
    } else {
        (libc::RTM_DELROUTE, 0)
    };
    const SCOPE_HOST: u8 = 254;
    const LOCAL: u8 = 2;
    let mut m = Msg::new(
        kind,
        REQUEST | ACK | flags,
        &[
            family,
            0,
            0,
            0,
            0,
            RTPROT_STATIC,
            SCOPE_HOST,
            LOCAL,
            0,
            0,
            0,
            0,
        ],
    );
    // lo is interface 1 in every namespace.
    m.attr(15, &table.to_ne_bytes())
        .attr(4, &1u32.to_ne_bytes());
    m
}

/// Whether `e` means that the kernel or our rights lack something.
pub(crate) fn is_permission(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::EPERM | libc::EACCES))
}
