//! What the kernel must do for a transparent Midnode (section IV.A): hand
//! passing LEOTP packets to our socket without changing them.
//!
//! * An nftables table `leotp_<name>` of our own, in the `inet` family, with a
//!   prerouting chain that gives UDP from or to the port to our socket (TPROXY)
//!   and marks it. The table is created with the owner flag: the kernel
//!   removes it when our netlink socket closes, even after `kill -9`.
//! * A routing rule "mark -> table" and in that table "everything is local", for
//!   IPv4 and IPv6. They are removed on drop; after `kill -9` they stay until
//!   the next start with the same mark, and do nothing without the mark.

use super::RunError;
use super::netlink::{ACK, APPEND, CREATE, EXCL, Msg, Netlink, REQUEST};
use std::io;

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

/// Redirection of one port, undone on drop.
#[derive(Debug)]
pub(crate) struct Redirect {
    /// Owns the table.
    _nft: Netlink,
    route: Netlink,
    mark: u32,
    table: u32,
}

impl Redirect {
    /// Redirects UDP packets from or to `port` to the transparent sockets bound
    /// to `to_port`. `name` completes the table's name.
    pub(crate) fn install(
        name: &str,
        port: u16,
        to_port: u16,
        mark: u32,
        table: u32,
    ) -> Result<Self, RunError> {
        let mut nft =
            Netlink::open(libc::NETLINK_NETFILTER).map_err(RunError::io("open nftables"))?;
        let name = format!("leotp_{name}");
        nft.ask(ruleset(&name, port, to_port, mark))
            .map_err(RunError::io(format!("create nftables table {name}")))?;
        let mut route =
            Netlink::open(libc::NETLINK_ROUTE).map_err(RunError::io("open rtnetlink"))?;
        for family in [IPV4, IPV6] {
            for add in [
                rule(family, mark, table, true),
                local_route(family, table, true),
            ] {
                match route.ask(vec![add]) {
                    Err(e) if e.raw_os_error() == Some(libc::EEXIST) => {}
                    // A kernel without IPv6 has nothing to redirect there.
                    Err(e)
                        if family == IPV6
                            && matches!(
                                e.raw_os_error(),
                                Some(libc::EAFNOSUPPORT | libc::EOPNOTSUPP)
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

fn ruleset(name: &str, port: u16, to_port: u16, mark: u32) -> Vec<Msg> {
    let inet = nfgen(INET, 0);
    let mut table = Msg::new(NEWTABLE, REQUEST | ACK | CREATE | EXCL, &inet);
    table.string(1, name).be32(2, TABLE_OWNER);
    let mut chain = Msg::new(NEWCHAIN, REQUEST | ACK | CREATE, &inet);
    chain.string(1, name).string(3, "prerouting").nest(4, |m| {
        m.be32(1, 0).be32(2, MANGLE as u32);
    });
    chain.be32(5, 1).string(7, "filter");
    let mut out = vec![Msg::new(BATCH_BEGIN, REQUEST, &nfgen(0, 10)), table, chain];
    for family in [IPV4, IPV6] {
        // Source port at offset 0 of the UDP header, destination port at 2.
        for offset in [0, 2] {
            let mut r = Msg::new(NEWRULE, REQUEST | ACK | CREATE | APPEND, &inet);
            r.string(1, name)
                .string(2, "prerouting")
                .nest(4, |m| expressions(m, family, offset, port, to_port, mark));
            out.push(r);
        }
    }
    out.push(Msg::new(BATCH_END, REQUEST, &nfgen(0, 10)));
    out
}

fn expr(m: &mut Msg, name: &str, f: impl FnOnce(&mut Msg)) {
    m.nest(1, |m| {
        m.string(1, name).nest(2, f);
    });
}

/// `meta nfproto F udp sport|dport P tproxy F to :T meta mark set M accept`
fn expressions(m: &mut Msg, family: u8, offset: u32, port: u16, to_port: u16, mark: u32) {
    const REG: u32 = 1;
    const META_MARK: u32 = 3;
    const META_NFPROTO: u32 = 15;
    const META_L4PROTO: u32 = 16;
    let load = |m: &mut Msg, key: u32| {
        expr(m, "meta", |m| {
            m.be32(1, REG).be32(2, key);
        });
    };
    let equal = |m: &mut Msg, value: &[u8]| {
        expr(m, "cmp", |m| {
            m.be32(1, REG).be32(2, 0).nest(3, |m| {
                m.attr(1, value);
            });
        });
    };
    let set = |m: &mut Msg, value: &[u8]| {
        expr(m, "immediate", |m| {
            m.be32(1, REG).nest(2, |m| {
                m.attr(1, value);
            });
        });
    };
    load(m, META_NFPROTO);
    equal(m, &[family]);
    load(m, META_L4PROTO);
    equal(m, &[libc::IPPROTO_UDP as u8]);
    expr(m, "payload", |m| {
        m.be32(1, REG).be32(2, 2).be32(3, offset).be32(4, 2);
    });
    equal(m, &port.to_be_bytes());
    set(m, &to_port.to_be_bytes());
    expr(m, "tproxy", |m| {
        m.be32(1, u32::from(family)).be32(3, REG);
    });
    set(m, &mark.to_ne_bytes());
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

const RTPROT_STATIC: u8 = 4;
/// Of the routing rule; before `main`, after `local`.
const PRIORITY: u32 = 19_525;

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
    // A priority of its own makes the rule one and the same at every start.
    m.attr(6, &PRIORITY.to_ne_bytes());
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

/// Whether `e` says that the kernel or our rights lack something.
pub(crate) fn is_permission(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::EPERM | libc::EACCES))
}
