//! Descriptions of requests, read back from their bytes: they cost nothing unless a request fails.

use std::net::IpAddr;

use super::wire::{attributes, text};

/// Describes a request from its message bytes (with netlink header).
pub(super) fn describe(msg: &[u8]) -> String {
    let Some(kind) = msg.get(4..6).map(|k| u16::from_ne_bytes([k[0], k[1]])) else {
        return "malformed request".into();
    };
    let flags = msg
        .get(6..8)
        .map_or(0, |k| u16::from_ne_bytes([k[0], k[1]]));
    let body = msg.get(16..).unwrap_or_default();
    match kind {
        libc::RTM_NEWLINK => link("create", body),
        libc::RTM_SETLINK => link("change", body),
        libc::RTM_DELLINK => link("delete", body),
        libc::RTM_NEWADDR => address("add", body),
        libc::RTM_DELADDR => address("delete", body),
        libc::RTM_NEWROUTE if flags & libc::NLM_F_REPLACE as u16 != 0 => route("replace", body),
        libc::RTM_NEWROUTE => route("add", body),
        libc::RTM_DELROUTE => route("delete", body),
        libc::RTM_NEWNEIGH => neighbour("set", body),
        libc::RTM_DELNEIGH => neighbour("delete", body),
        libc::RTM_NEWRULE => "add a rule of routing".into(),
        libc::RTM_NEWNSID => "number a namespace".into(),
        libc::RTM_NEWQDISC..=libc::RTM_DELTFILTER => traffic_control(kind, flags, body),
        other => format!("rtnetlink request of type {other}"),
    }
}

fn traffic_control(kind: u16, flags: u16, body: &[u8]) -> String {
    let object = match kind {
        libc::RTM_NEWQDISC | libc::RTM_DELQDISC => "queueing discipline",
        libc::RTM_NEWTCLASS | libc::RTM_DELTCLASS => "class",
        _ => "filter",
    };
    let verb = match kind {
        libc::RTM_DELQDISC | libc::RTM_DELTCLASS | libc::RTM_DELTFILTER => "delete",
        _ if flags & libc::NLM_F_REPLACE as u16 != 0 => "replace",
        _ => "add",
    };
    let name = get(body.get(20..).unwrap_or_default(), 1).map(text);
    let (handle, parent) = (u32_at(body, 8), u32_at(body, 12));
    format!(
        "{verb} {object} {} {:x}:{:x} below {:x}:{:x} on interface {}",
        name.unwrap_or_default(),
        handle >> 16,
        handle & 0xffff,
        parent >> 16,
        parent & 0xffff,
        u32_at(body, 4),
    )
}

fn get(attrs: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(attrs)
        .find(|(k, _)| *k == wanted)
        .map(|(_, v)| v)
}

fn u32_at(body: &[u8], at: usize) -> u32 {
    body.get(at..at + 4)
        .map_or(0, |b| u32::from_ne_bytes(b.try_into().expect("4 bytes")))
}

fn ip(value: Option<&[u8]>) -> Option<IpAddr> {
    super::parse::ip(value?)
}

fn link(verb: &str, body: &[u8]) -> String {
    let attrs = body.get(16..).unwrap_or_default();
    let index = u32_at(body, 4);
    let name = get(attrs, libc::IFLA_IFNAME).map(text);
    if let Some(info) = get(attrs, libc::IFLA_LINKINFO) {
        let kind = get(info, 1).map(text).unwrap_or_default();
        let peer = get(info, 2)
            .and_then(|data| get(data, 1))
            .and_then(|peer| get(peer.get(16..)?, libc::IFLA_IFNAME))
            .map(|n| format!("/{}", text(n)))
            .unwrap_or_default();
        return format!("{verb} {kind} {}{peer}", name.unwrap_or_default());
    }
    let mut what = format!("{verb} interface {index}");
    if let Some(n) = name {
        what += &format!(" to name {n}");
    }
    if let Some(a) = get(attrs, libc::IFLA_IFALIAS) {
        what += &format!(" to alias \"{}\"", text(a));
    }
    if u32_at(body, 12) & libc::IFF_UP as u32 != 0 {
        what += if u32_at(body, 8) & libc::IFF_UP as u32 != 0 {
            " to up"
        } else {
            " to down"
        };
    }
    what
}

fn address(verb: &str, body: &[u8]) -> String {
    let len = body.get(1).copied().unwrap_or(0);
    let attrs = body.get(8..).unwrap_or_default();
    match ip(get(attrs, libc::IFA_LOCAL)) {
        Some(a) => format!("{verb} address {a}/{len} on interface {}", u32_at(body, 4)),
        None => format!("{verb} address on interface {}", u32_at(body, 4)),
    }
}

fn route(verb: &str, body: &[u8]) -> String {
    let len = body.get(1).copied().unwrap_or(0);
    let attrs = body.get(12..).unwrap_or_default();
    let mut what = format!("{verb} route ");
    match ip(get(attrs, libc::RTA_DST)) {
        Some(d) => what += &format!("{d}/{len}"),
        None => what += "default",
    }
    if let Some(g) = ip(get(attrs, libc::RTA_GATEWAY)) {
        what += &format!(" via {g}");
    } else if let Some(g) = get(attrs, libc::RTA_VIA).and_then(|v| ip(v.get(2..))) {
        what += &format!(" via {g}");
    }
    if let Some(oif) = get(attrs, libc::RTA_OIF) {
        what += &format!(" on interface {}", u32_at(oif, 0));
    }
    if get(attrs, libc::RTA_MULTIPATH).is_some() {
        what += " over several next hops";
    }
    what
}

fn neighbour(verb: &str, body: &[u8]) -> String {
    let attrs = body.get(12..).unwrap_or_default();
    let addr = ip(get(attrs, 1)).map(|a| a.to_string()).unwrap_or_default();
    format!("{verb} neighbour {addr} on interface {}", u32_at(body, 4))
}
