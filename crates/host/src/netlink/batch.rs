//! A batch of requests, and its results.

use netlink_packet_core::{
    NLM_F_APPEND, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkSerializable,
};
use netlink_packet_route::RouteNetlinkMessage;

use super::attrs;
use super::parse::{InstalledRoute, route};
use super::rule::Rule;
use super::types::{
    AddressSpec, FIRST_OWN_IFINDEX, LinkChange, Mac, NeighbourSpec, Route, VethEnd,
};
use crate::error::{Error, Result};

/// Length of `struct nlmsghdr`.
pub(super) const NLMSG_HDRLEN: usize = 16;

/// Requests to be sent together. They are carried out in order; one that fails does not stop those after it.
#[derive(Debug, Default)]
pub struct Batch {
    buf: Vec<u8>,
    requests: Vec<Request>,
}

/// Start of a request in the buffer, and the error number that is not reported for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) start: usize,
    pub(super) tolerated: i32,
}

/// A request's meaning, for a kernel in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decoded {
    /// A route is added or replaced.
    SetRoute(InstalledRoute),
    /// A route is deleted.
    DeleteRoute(InstalledRoute),
    /// Any other request.
    Other,
}

impl Batch {
    /// Returns an empty batch.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Returns the number of requests.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Returns whether there are no requests.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Removes all requests, keeping the memory.
    pub fn clear(&mut self) {
        self.buf.clear();
        self.requests.clear();
    }

    /// Creates a veth pair. `first` may be created up, `second` may not; explicit indexes are
    /// for both ends or only the first (see [`VethEnd`]), and at least [`FIRST_OWN_IFINDEX`].
    ///
    /// Descriptors in `netns` must stay open until the batch has been sent.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a combination that the kernel would refuse or ignore.
    pub fn create_veth(&mut self, first: &VethEnd<'_>, second: &VethEnd<'_>) -> Result<&mut Self> {
        for end in [first, second] {
            check_name(end.name)?;
        }
        if second.up {
            return Err(Error::Invalid(format!(
                "veth {}/{}: the second end cannot be created up",
                first.name, second.name
            )));
        }
        if second.ifindex.is_some() && first.ifindex.is_none() {
            return Err(Error::Invalid(format!(
                "veth {}/{}: an index for the second end needs one for the first",
                first.name, second.name
            )));
        }
        for end in [first, second] {
            end.ifindex
                .map_or(Ok(()), |index| check_index(end.name, index))?;
        }
        let msg = RouteNetlinkMessage::NewLink(attrs::veth(first, second));
        Ok(self.push(msg, NLM_F_CREATE | NLM_F_EXCL))
    }

    /// Creates a bridge, down.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an invalid name, or an index below [`FIRST_OWN_IFINDEX`].
    pub fn create_bridge(&mut self, name: &str, ifindex: u32, mac: Mac) -> Result<&mut Self> {
        check_name(name)?;
        check_index(name, ifindex)?;
        let msg = RouteNetlinkMessage::NewLink(attrs::bridge(name, ifindex, mac));
        Ok(self.push(msg, NLM_F_CREATE | NLM_F_EXCL))
    }

    /// Makes an interface a port of a bridge that exchanges frames only with the bridge itself, not with other such
    /// ports. Takes two requests.
    pub fn join_bridge_isolated(&mut self, ifindex: u32, bridge: u32) -> &mut Self {
        let join = attrs::member_of_bridge(ifindex, bridge);
        self.push(RouteNetlinkMessage::SetLink(join), 0);
        // Only a new-link request changes a bridge's settings of its ports.
        self.push(
            RouteNetlinkMessage::NewLink(attrs::isolated_port(ifindex)),
            0,
        )
    }

    /// Adds a rule: IPv4 packets that came in at an interface, or with `lo` packets that programs in this namespace
    /// send, are looked up in a table. Rules with lower priority numbers come first.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an invalid name.
    pub fn add_rule(&mut self, from: &str, table: u32, priority: u32) -> Result<&mut Self> {
        check_name(from)?;
        let msg = RouteNetlinkMessage::NewRule(attrs::rule(from, table, priority));
        Ok(self.push(msg, NLM_F_CREATE | NLM_F_EXCL))
    }

    /// Changes an existing interface. Takes two requests to set it up with a choice of
    /// `link_local`, otherwise one. Moving (`netns`) and setting up do not go together.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an invalid name or alias.
    pub fn change_link(&mut self, change: &LinkChange<'_>) -> Result<&mut Self> {
        if change.netns.is_some() && change.up.is_some() {
            return Err(Error::Invalid(format!(
                "interface {} cannot be moved and set up or down in one change",
                change.ifindex
            )));
        }
        if let Some(name) = change.name {
            check_name(name)?;
        }
        if change
            .alias
            .is_some_and(|a| a.len() > 255 || a.contains('\0'))
        {
            return Err(Error::Invalid(
                "an interface alias has at most 255 bytes".into(),
            ));
        }
        let mut change = *change;
        if change.up == Some(true) && change.link_local.is_some() {
            // In one request the kernel would first set the interface up, with a link-local address.
            let first = LinkChange { up: None, ..change };
            self.push(RouteNetlinkMessage::SetLink(attrs::link_change(&first)), 0);
            change = LinkChange {
                ifindex: change.ifindex,
                up: change.up,
                ..LinkChange::default()
            };
        }
        Ok(self.push(RouteNetlinkMessage::SetLink(attrs::link_change(&change)), 0))
    }

    /// Sets an interface up.
    pub fn link_up(&mut self, ifindex: u32) -> &mut Self {
        let c = LinkChange {
            ifindex,
            up: Some(true),
            ..LinkChange::default()
        };
        self.push(RouteNetlinkMessage::SetLink(attrs::link_change(&c)), 0)
    }

    /// Sets an interface down.
    pub fn link_down(&mut self, ifindex: u32) -> &mut Self {
        let c = LinkChange {
            ifindex,
            up: Some(false),
            ..LinkChange::default()
        };
        self.push(RouteNetlinkMessage::SetLink(attrs::link_change(&c)), 0)
    }

    /// Deletes an interface (of a veth pair: both ends).
    pub fn delete_link(&mut self, ifindex: u32) -> &mut Self {
        self.push(
            RouteNetlinkMessage::DelLink(attrs::link_by_index(ifindex)),
            0,
        )
    }

    /// Adds an address.
    pub fn add_address(&mut self, a: &AddressSpec) -> &mut Self {
        let msg = RouteNetlinkMessage::NewAddress(attrs::address(a));
        self.push(msg, NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Adds an address or replaces its properties.
    pub fn replace_address(&mut self, a: &AddressSpec) -> &mut Self {
        let msg = RouteNetlinkMessage::NewAddress(attrs::address(a));
        self.push(msg, NLM_F_CREATE | NLM_F_REPLACE)
    }

    /// Deletes an address.
    pub fn delete_address(&mut self, a: &AddressSpec) -> &mut Self {
        self.push(RouteNetlinkMessage::DelAddress(attrs::address(a)), 0)
    }

    /// Adds a route; fails with `EEXIST` if the destination and metric are taken.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) when the route mixes families; nothing is added to the batch.
    pub fn add_route(&mut self, r: &Route) -> Result<&mut Self> {
        let msg = RouteNetlinkMessage::NewRoute(attrs::route(r)?);
        Ok(self.push(msg, NLM_F_CREATE | NLM_F_EXCL))
    }

    /// Adds a route or, in one step, replaces the one with the same destination, table and metric. A lookup that holds
    /// the old route at the moment when the kernel frees it finds none (Linux 6.18: nanoseconds in IPv4, 0.2 us in
    /// IPv6).
    ///
    /// # Errors
    /// As [`Batch::add_route`].
    pub fn replace_route(&mut self, r: &Route) -> Result<&mut Self> {
        let msg = RouteNetlinkMessage::NewRoute(attrs::route(r)?);
        Ok(self.push(msg, NLM_F_CREATE | NLM_F_REPLACE))
    }

    /// Appends a route to those with the same destination and metric (IPv6: another next hop).
    ///
    /// # Errors
    /// As [`Batch::add_route`].
    pub fn append_route(&mut self, r: &Route) -> Result<&mut Self> {
        let msg = RouteNetlinkMessage::NewRoute(attrs::route(r)?);
        Ok(self.push(msg, NLM_F_CREATE | NLM_F_APPEND))
    }

    /// Deletes a route; all given properties must match.
    ///
    /// # Errors
    /// As [`Batch::add_route`].
    pub fn delete_route(&mut self, r: &Route) -> Result<&mut Self> {
        Ok(self.push(RouteNetlinkMessage::DelRoute(attrs::route(r)?), 0))
    }

    /// Adds a permanent neighbour entry, or replaces the one of that address.
    pub fn replace_neighbour(&mut self, n: &NeighbourSpec) -> &mut Self {
        let msg = RouteNetlinkMessage::NewNeighbour(attrs::neighbour(n));
        self.push(msg, NLM_F_CREATE | NLM_F_REPLACE)
    }

    /// Deletes a neighbour entry.
    pub fn delete_neighbour(&mut self, n: &NeighbourSpec) -> &mut Self {
        self.push(RouteNetlinkMessage::DelNeighbour(attrs::neighbour(n)), 0)
    }

    /// Adds one of the rules that every new namespace has: all packets of a family are looked up in `table`.
    pub fn add_born_rule(&mut self, rule: &Rule) -> &mut Self {
        self.push_bytes(
            libc::RTM_NEWRULE,
            NLM_F_CREATE | NLM_F_EXCL,
            &rule.request(),
        )
    }

    /// Adds any other request of the library, with its flags in addition to `NLM_F_REQUEST`.
    pub fn push(&mut self, msg: RouteNetlinkMessage, flags: u16) -> &mut Self {
        let start = self.buf.len();
        let len = NLMSG_HDRLEN + msg.buffer_len();
        self.buf.resize(start + len.next_multiple_of(4), 0);
        let out = &mut self.buf[start..start + len];
        out[0..4].copy_from_slice(&(len as u32).to_ne_bytes());
        out[4..6].copy_from_slice(&msg.message_type().to_ne_bytes());
        out[6..8].copy_from_slice(&(flags | NLM_F_REQUEST).to_ne_bytes());
        // The sequence number is filled in when sending; the port number stays 0 (the kernel).
        msg.serialize(&mut out[NLMSG_HDRLEN..]);
        self.requests.push(Request {
            start,
            tolerated: 0,
        });
        self
    }

    /// Adds a request of which only the bytes behind the netlink header are given.
    pub(super) fn push_bytes(&mut self, kind: u16, flags: u16, body: &[u8]) -> &mut Self {
        let start = self.buf.len();
        let len = NLMSG_HDRLEN + body.len();
        self.buf.extend((len as u32).to_ne_bytes());
        self.buf.extend(kind.to_ne_bytes());
        self.buf.extend((flags | NLM_F_REQUEST).to_ne_bytes());
        self.buf.extend([0; 8]);
        self.buf.extend(body);
        self.buf.resize(start + len.next_multiple_of(4), 0);
        self.requests.push(Request {
            start,
            tolerated: 0,
        });
        self
    }

    /// Makes this error number of the last request pass without being reported, for example `libc::ENODEV` when
    /// deleting an object that may be gone already.
    ///
    /// # Panics
    /// When the batch is empty.
    pub fn tolerate(&mut self, errno: i32) -> &mut Self {
        self.requests
            .last_mut()
            .expect("tolerate() follows a request")
            .tolerated = errno;
        self
    }

    /// Returns the requests' meanings, as far as a kernel in memory needs them.
    pub fn decoded(&self) -> impl Iterator<Item = Decoded> + '_ {
        let end_of = |i: usize| self.requests.get(i + 1).map_or(self.buf.len(), |r| r.start);
        self.requests.iter().enumerate().map(move |(i, request)| {
            let bytes = &self.buf[request.start..end_of(i)];
            let kind = u16::from_ne_bytes([bytes[4], bytes[5]]);
            let body = &bytes[NLMSG_HDRLEN..];
            match kind {
                libc::RTM_NEWROUTE => route(body).map_or(Decoded::Other, Decoded::SetRoute),
                libc::RTM_DELROUTE => route(body).map_or(Decoded::Other, Decoded::DeleteRoute),
                _ => Decoded::Other,
            }
        })
    }

    pub(super) fn parts(&mut self) -> (&mut Vec<u8>, &[Request]) {
        (&mut self.buf, &self.requests)
    }
}

/// Rejects names that the kernel would refuse with a bare EINVAL or, worse, would expand (`%d`).
fn check_name(name: &str) -> Result<()> {
    let ok = (1..=15).contains(&name.len())
        && name != "."
        && name != ".."
        && name
            .bytes()
            .all(|b| b.is_ascii_graphic() && !matches!(b, b'/' | b':' | b'%'));
    if ok {
        return Ok(());
    }
    Err(Error::Invalid(format!(
        "\"{name}\" cannot name an interface (1 to 15 visible characters without / : %)"
    )))
}

/// Rejects an interface number that one of the kernel's own devices may have. The number is free on hosts without
/// tunnel modules, so that the error would appear on other users' hosts only.
fn check_index(name: &str, ifindex: u32) -> Result<()> {
    if ifindex >= FIRST_OWN_IFINDEX {
        return Ok(());
    }
    Err(Error::Invalid(format!(
        "interface {name} cannot have number {ifindex}: numbers below {FIRST_OWN_IFINDEX} belong to the kernel's own devices"
    )))
}
