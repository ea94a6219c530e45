//! Monitor of changes in a namespace. Tests use it to prove that a handover rebuilt no object.

use std::io;
use std::time::{Duration, Instant};

use netlink_sys::{Socket as Raw, SocketAddr, protocols::NETLINK_ROUTE};

use super::parse::{self, Address, InstalledRoute, LinkInfo, Neighbour};
use super::socket::{force_buffer, set_receive_timeout, walk};
use crate::error::{Context, Error, Result};
use crate::netns::NetNs;

/// The changed object of a [`Change`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// An interface.
    Link(LinkInfo),
    /// An address.
    Address(Address),
    /// A route.
    Route(InstalledRoute),
    /// A neighbour entry.
    Neighbour(Neighbour),
}

/// One change that the kernel announced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// `true`: the object was deleted. `false`: it is new, or one of its properties is.
    pub deleted: bool,
    /// The object.
    pub what: ChangeKind,
}

/// Receives every change of interfaces, addresses, routes and neighbours of one namespace, from
/// the moment it is opened.
#[derive(Debug)]
pub struct ChangeMonitor {
    raw: Raw,
}

impl ChangeMonitor {
    /// Starts watching a namespace.
    ///
    /// # Errors
    /// [`Error::Os`](crate::Error::Os) when the namespace cannot be entered or no socket is available.
    pub fn open_in(ns: &NetNs) -> Result<ChangeMonitor> {
        ns.run(Self::open)?
    }

    fn open() -> Result<ChangeMonitor> {
        let what = || "watch a namespace for changes".to_string();
        let mut raw = Raw::new(NETLINK_ROUTE).context(what)?;
        raw.bind(&SocketAddr::new(0, 0)).context(what)?;
        force_buffer(&raw, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, 16 << 20)?;
        for group in [
            libc::RTNLGRP_LINK,
            libc::RTNLGRP_NEIGH,
            libc::RTNLGRP_IPV4_IFADDR,
            libc::RTNLGRP_IPV4_ROUTE,
            libc::RTNLGRP_IPV6_IFADDR,
            libc::RTNLGRP_IPV6_ROUTE,
        ] {
            raw.add_membership(group).context(what)?;
        }
        Ok(ChangeMonitor { raw })
    }

    /// Returns all changes announced so far and not yet read. The kernel announces a change before the request that
    /// made it returns, so there is no need to wait.
    ///
    /// # Errors
    /// `ENOBUFS` when there were more than fit: then it cannot be concluded that nothing changed.
    pub fn drain(&mut self) -> Result<Vec<Change>> {
        let mut out = Vec::new();
        while self.read(&mut out, libc::MSG_DONTWAIT)? {}
        Ok(out)
    }

    /// Waits until `wanted` accepts a change; returns every change read on the way, the accepted
    /// one last, or `None` after `timeout`.
    ///
    /// # Errors
    /// As [`ChangeMonitor::drain`].
    pub fn wait_for(
        &mut self,
        timeout: Duration,
        mut wanted: impl FnMut(&Change) -> bool,
    ) -> Result<Option<Vec<Change>>> {
        let end = Instant::now() + timeout;
        let mut all = Vec::new();
        let mut seen = 0;
        loop {
            if let Some(i) = all[seen..].iter().position(&mut wanted) {
                all.truncate(seen + i + 1);
                return Ok(Some(all));
            }
            seen = all.len();
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            // To the kernel a timeout of zero means "for ever".
            set_receive_timeout(&self.raw, left.max(Duration::from_millis(1)))?;
            self.read(&mut all, 0)?;
        }
    }

    /// Reads one datagram; `false` when none is queued.
    fn read(&mut self, out: &mut Vec<Change>, flags: i32) -> Result<bool> {
        let mut buf = Vec::with_capacity(64 * 1024);
        match self.raw.recv(&mut buf, flags) {
            Ok(_) => {}
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                return Ok(false);
            }
            Err(e) => return Err(Error::os("read announced changes", e)),
        }
        walk(&buf, &mut |msg| {
            let p = msg.payload;
            let what = match msg.kind {
                libc::RTM_NEWLINK | libc::RTM_DELLINK => parse::link(p).map(ChangeKind::Link),
                libc::RTM_NEWADDR | libc::RTM_DELADDR => parse::address(p).map(ChangeKind::Address),
                libc::RTM_NEWROUTE | libc::RTM_DELROUTE => parse::route(p).map(ChangeKind::Route),
                libc::RTM_NEWNEIGH | libc::RTM_DELNEIGH => {
                    parse::neighbour(p).map(ChangeKind::Neighbour)
                }
                _ => None,
            };
            let deleted = matches!(
                msg.kind,
                libc::RTM_DELLINK | libc::RTM_DELADDR | libc::RTM_DELROUTE | libc::RTM_DELNEIGH
            );
            out.extend(what.map(|what| Change { deleted, what }));
            Ok(())
        })?;
        Ok(true)
    }
}
