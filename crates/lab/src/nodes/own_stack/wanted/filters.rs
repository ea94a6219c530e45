//! Switches and things of a node's own that drop its packets, or change their order: reported, and left.

use constel_host::netlink::{Conf, Filter, LinkInfo, QdiscInfo, Rule, Stack};
use leotp_core::{REDIRECTION_PRIORITY, REDIRECTION_TABLE};

use super::{Cure, Finding, Origin, Wanted, WantedLink};

/// `TC_H_ROOT` and `TC_H_INGRESS` (also that of `clsact`) of the kernel's `pkt_sched.h`.
pub(super) const ROOT: u32 = 0xffff_ffff;
const INGRESS: u32 = 0xffff_fff1;

/// Kinds of interfaces that take frames from the interface below them.
const TAKING: [&str; 4] = ["macvlan", "macvtap", "ipvlan", "ipvtap"];

impl Wanted {
    fn own_ports(&self) -> impl Iterator<Item = &WantedLink> {
        let links = self.links.iter();
        links.filter(|link| link.origin != Origin::Kernel)
    }

    /// Returns whether a rule redirects packets to programs of the scenario: Midnodes, gateways, proxies.
    pub(super) fn redirects(&self, rule: &Rule) -> bool {
        self.redirected && rule.priority == REDIRECTION_PRIORITY
    }

    /// Finds switched-off forwarding, and checks of source addresses. A node decides about both itself.
    pub(super) fn switches(&self, stack: &Stack, found: &mut Vec<Finding>) {
        let mut differs = |about: String, words: String| {
            found.push(Finding {
                about,
                words,
                cure: Cure::Node,
            });
        };
        let forwarding = ["IPv4", "IPv6"].into_iter().zip(stack.forwards);
        for ((family, now), wanted) in forwarding.zip(self.forwards) {
            if wanted && !now {
                differs(
                    format!("forwarding {family}"),
                    format!("it does not forward {family}"),
                );
            }
        }
        // The kernel forwards IPv6 by the switch of the whole namespace alone, and checks no sources of it.
        if !self.forwards[0] {
            return;
        }
        let whole = stack.ipv4.iter().find(|conf| conf.ifindex.is_none());
        let checks = whole.map_or(0, |conf| conf.rp_filter);
        if checks > 0 {
            differs(
                "rp_filter".to_owned(),
                format!("it drops packets by their source (rp_filter {checks})"),
            );
        }
        for link in self.own_ports() {
            let of_link = |conf: &&Conf| conf.ifindex == Some(link.ifindex);
            let Some(conf) = stack.ipv4.iter().find(of_link) else {
                continue;
            };
            let (index, name) = (link.ifindex, &link.name);
            // The switch of the whole namespace sets that of each interface.
            if stack.forwards[0] && !conf.forwards {
                differs(
                    format!("forwarding IPv4 {index}"),
                    format!("{name} does not forward IPv4"),
                );
            }
            // The stricter of the two settings holds.
            if conf.rp_filter > checks {
                differs(
                    format!("rp_filter {index}"),
                    format!(
                        "{name} drops packets by their source (rp_filter {})",
                        conf.rp_filter
                    ),
                );
            }
        }
    }

    /// Finds queueing disciplines, and filters beside them.
    pub(super) fn own_qdiscs(&self, stack: &Stack, found: &mut Vec<Finding>) {
        for link in self.own_ports() {
            let own = stack.qdiscs.iter();
            for qdisc in own.filter(|qdisc| qdisc.ifindex == link.ifindex) {
                let (name, QdiscInfo { kind, parent, .. }) = (&link.name, qdisc);
                let words = match *parent {
                    // `noqueue` is the kernel's default for veth.
                    ROOT if kind != "noqueue" => {
                        format!("{name} has a queueing discipline of the node's own: {kind}")
                    }
                    INGRESS => format!("{name} has traffic filters of the node's own: {kind}"),
                    _ => continue,
                };
                found.push(Finding {
                    about: format!("qdisc {} {parent:x}", link.ifindex),
                    words,
                    cure: Cure::Node,
                });
            }
        }
    }

    /// Finds packet filters, programs at interfaces, and interfaces that take frames from a port.
    pub(super) fn own_filters(&self, stack: &Stack, found: &mut Vec<Finding>) {
        let filters = stack.filters.iter().filter_map(|filter| match filter {
            Filter::Table { name, .. }
                if self.redirected && name.starts_with(REDIRECTION_TABLE) =>
            {
                None
            }
            Filter::Programs { ifindex, count } => {
                let link = self.own_ports().find(|link| link.ifindex == *ifindex)?;
                let ours = usize::from(self.by_map && matches!(link.origin, Origin::Port(_)));
                let own = count.checked_sub(ours).filter(|own| *own > 0)?;
                Some((
                    format!("programs {ifindex}"),
                    format!(
                        "{} passes its frames to BPF programs of the node's own: {own}",
                        link.name
                    ),
                ))
            }
            filter => Some((
                // The number of policies may change.
                match filter {
                    Filter::Policies(_) => "IPsec".to_owned(),
                    table => table.to_string(),
                },
                format!("it has a packet filter: {filter}"),
            )),
        });
        let takes = |above: &LinkInfo, link: &WantedLink| {
            let kind = above.kind.as_deref().filter(|kind| TAKING.contains(kind))?;
            let here = above.peer_netnsid.is_none() && above.peer_ifindex == Some(link.ifindex);
            here.then(|| {
                (
                    format!("taken {} {}", link.ifindex, above.ifindex),
                    format!("{} passes frames to {} ({kind})", link.name, above.name),
                )
            })
        };
        let above = stack.links.iter();
        let taken =
            above.flat_map(|above| self.own_ports().filter_map(move |link| takes(above, link)));
        found.extend(filters.chain(taken).map(|(about, words)| Finding {
            about,
            words,
            cure: Cure::Node,
        }));
    }
}
