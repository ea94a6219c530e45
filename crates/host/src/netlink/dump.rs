//! Typed dumps of a namespace's objects.

use super::parse::{
    Address, Conf, InstalledRoute, LinkCounters, LinkInfo, Neighbour, QdiscInfo, RTM_GETNETCONF,
    RTM_GETSTATS, RTM_NEWNETCONF, RTM_NEWSTATS, STATS_LINK_64_ONLY, address, conf, link,
    link_counters, neighbour, qdisc, route,
};
use super::socket::Socket;
use crate::error::{Error, Result};

impl Socket {
    /// Returns all interfaces of the namespace.
    ///
    /// # Errors
    /// [`Error::Os`](crate::Error::Os) when the kernel does not answer, [`Error::Protocol`](crate::Error::Protocol)
    /// when its answer is not valid.
    pub fn links(&mut self) -> Result<Vec<LinkInfo>> {
        // Statistics would be most of an answer and are not needed here: RTEXT_FILTER_SKIP_STATS.
        let mut body = vec![0u8; 16];
        body.extend(8u16.to_ne_bytes());
        body.extend(libc::IFLA_EXT_MASK.to_ne_bytes());
        body.extend(8u32.to_ne_bytes());
        self.dump("list interfaces", libc::RTM_GETLINK, &body, |kind, p| {
            Ok((kind == libc::RTM_NEWLINK).then(|| link(p)).flatten())
        })
    }

    /// Returns the counters of all interfaces of the namespace. No other state is read, so it may be called often.
    ///
    /// # Errors
    /// [`Error::Os`](crate::Error::Os) when the kernel does not answer, [`Error::Protocol`](crate::Error::Protocol)
    /// when its answer is not valid.
    pub fn link_counters(&mut self) -> Result<Vec<LinkCounters>> {
        let mut body = [0u8; 12];
        body[8..].copy_from_slice(&STATS_LINK_64_ONLY.to_ne_bytes());
        self.dump("read counters", RTM_GETSTATS, &body, |kind, p| {
            Ok((kind == RTM_NEWSTATS).then(|| link_counters(p)).flatten())
        })
    }

    /// Returns the interface of that name, if there is one.
    ///
    /// # Errors
    /// [`Error::Os`](crate::Error::Os) when the kernel does not answer, [`Error::Protocol`](crate::Error::Protocol)
    /// when its answer is not valid.
    pub fn link_named(&mut self, name: &str) -> Result<Option<LinkInfo>> {
        Ok(self.links()?.into_iter().find(|l| l.name == name))
    }

    /// Returns all addresses, IPv4 and IPv6.
    ///
    /// # Errors
    /// [`Error::Os`](crate::Error::Os) when the kernel does not answer, [`Error::Protocol`](crate::Error::Protocol)
    /// when its answer is not valid.
    pub fn addresses(&mut self) -> Result<Vec<Address>> {
        self.dump("list addresses", libc::RTM_GETADDR, &[0; 8], |kind, p| {
            Ok((kind == libc::RTM_NEWADDR).then(|| address(p)).flatten())
        })
    }

    /// Returns all routes of all tables, IPv4 and IPv6, without cached exceptions.
    ///
    /// # Errors
    /// [`Error::Os`](crate::Error::Os) when the kernel does not answer, [`Error::Protocol`](crate::Error::Protocol)
    /// when its answer is not valid.
    pub fn routes(&mut self) -> Result<Vec<InstalledRoute>> {
        let mut all = Vec::new();
        for family in [libc::AF_INET, libc::AF_INET6] {
            let mut body = [0u8; 12];
            body[0] = family as u8;
            all.extend(
                self.dump("list routes", libc::RTM_GETROUTE, &body, |kind, p| {
                    Ok((kind == libc::RTM_NEWROUTE).then(|| route(p)).flatten())
                })?,
            );
        }
        Ok(all)
    }

    /// Returns all neighbour entries, IPv4 and IPv6.
    ///
    /// # Errors
    /// [`Error::Os`](crate::Error::Os) when the kernel does not answer, [`Error::Protocol`](crate::Error::Protocol)
    /// when its answer is not valid.
    pub fn neighbours(&mut self) -> Result<Vec<Neighbour>> {
        self.dump(
            "list neighbours",
            libc::RTM_GETNEIGH,
            &[0; 12],
            |kind, p| Ok((kind == libc::RTM_NEWNEIGH).then(|| neighbour(p)).flatten()),
        )
    }

    /// Returns the settings of IPv4 or IPv6 for the namespace as a whole (`conf/all`) and for each interface.
    ///
    /// # Errors
    /// [`Error::Os`](crate::Error::Os) when the kernel does not answer, [`Error::Protocol`](crate::Error::Protocol)
    /// when its answer is not valid.
    pub fn confs(&mut self, ipv4: bool) -> Result<Vec<Conf>> {
        let family = if ipv4 { libc::AF_INET } else { libc::AF_INET6 };
        let body = [family as u8, 0, 0, 0];
        self.dump("read forwarding", RTM_GETNETCONF, &body, |kind, p| {
            Ok((kind == RTM_NEWNETCONF).then(|| conf(p)).flatten())
        })
    }

    /// Returns whether the namespace as a whole (`conf/all`) forwards IPv4 or IPv6.
    ///
    /// # Errors
    /// As [`Socket::confs`].
    pub fn forwards(&mut self, ipv4: bool) -> Result<bool> {
        forwards(&self.confs(ipv4)?)
    }

    /// Returns all queueing disciplines, except the built-in ones that the kernel does not list.
    ///
    /// # Errors
    /// [`Error::Os`](crate::Error::Os) when the kernel does not answer, [`Error::Protocol`](crate::Error::Protocol)
    /// when its answer is not valid.
    pub fn qdiscs(&mut self) -> Result<Vec<QdiscInfo>> {
        self.dump(
            "list queueing disciplines",
            libc::RTM_GETQDISC,
            &[0; 20],
            |kind, p| Ok((kind == libc::RTM_NEWQDISC).then(|| qdisc(p)).flatten()),
        )
    }
}

/// Returns whether the namespace as a whole forwards.
pub(super) fn forwards(confs: &[Conf]) -> Result<bool> {
    let mut all = confs.iter().filter(|conf| conf.ifindex.is_none());
    let all = all.next().ok_or_else(|| Error::Protocol {
        what: "read forwarding".into(),
        detail: "no settings of the namespace as a whole".into(),
    })?;
    Ok(all.forwards)
}
