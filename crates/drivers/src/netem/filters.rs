//! Filters and actions that direct frames from port to port, in the layout of the kernel's headers.

use constel_host::netlink::{Attributes, Tc, handle};
use constel_link::{PortId, mac_of};

use crate::ports::host_ifindex;

use super::{EdgeObjects, FIRST_SERVED, FIRST_SERVICE};

/// Priorities: the first filter that matches decides. The filter of each edge for groups has its own priority.
const UNICAST: u16 = 1;
const ONLY: u16 = 2;
const GROUPS: u16 = 10;
const REST: u16 = 0xffff;

const TCA_FLOWER_ACT: u16 = 3;
const TCA_FLOWER_KEY_ETH_DST: u16 = 4;
const TCA_FLOWER_KEY_ETH_DST_MASK: u16 = 5;
const TCA_MATCHALL_ACT: u16 = 2;
const TCA_FW_ACT: u16 = 4;

const TCA_ACT_KIND: u16 = 1;
const TCA_ACT_OPTIONS: u16 = 2;
const TCA_SKBEDIT_PARMS: u16 = 2;
const TCA_SKBEDIT_PRIORITY: u16 = 3;
const TCA_SKBEDIT_MARK: u16 = 5;
const TCA_MIRRED_PARMS: u16 = 2;
const TCA_GACT_PARMS: u16 = 2;

const TC_ACT_UNSPEC: i32 = -1;
const TC_ACT_SHOT: i32 = 2;
const TC_ACT_PIPE: i32 = 3;
const TC_ACT_STOLEN: i32 = 4;
const TCA_EGRESS_REDIR: i32 = 1;
const TCA_EGRESS_MIRROR: i32 = 2;

/// Returns `struct tc_gen` (index, capabilities, action, references, bindings), followed by the action's own fields.
fn parameters(action: i32, rest: &[i32]) -> Vec<u8> {
    let words = [0, 0, action, 0, 0].into_iter().chain(rest.iter().copied());
    words.flat_map(i32::to_ne_bytes).collect()
}

fn action(kind: &str, options: Attributes) -> Attributes {
    Attributes::default()
        .text(TCA_ACT_KIND, kind)
        .nest(TCA_ACT_OPTIONS, options)
}

/// Returns actions that mark a frame, set its class, and send it by an interface: the frame itself, or a copy.
fn onwards(mark: u32, class: u32, ifindex: u32, copy: bool) -> Attributes {
    let edit = Attributes::default()
        .put(TCA_SKBEDIT_PARMS, &parameters(TC_ACT_PIPE, &[]))
        .u32(TCA_SKBEDIT_PRIORITY, class)
        .u32(TCA_SKBEDIT_MARK, mark);
    let (how, then) = if copy {
        // The original continues with the next filter.
        (TCA_EGRESS_MIRROR, TC_ACT_UNSPEC)
    } else {
        (TCA_EGRESS_REDIR, TC_ACT_STOLEN)
    };
    let send = parameters(then, &[how, ifindex as i32]);
    let send = Attributes::default().put(TCA_MIRRED_PARMS, &send);
    Attributes::default()
        .nest(1, action("skbedit", edit))
        .nest(2, action("mirred", send))
}

/// Returns the first hop from the near port: to the service pair, or directly to the far port if the edge has no rate.
fn first_leg(way: &EdgeObjects, copy: bool) -> Attributes {
    match way.service.filter(|_| way.served.is_some()) {
        Some(minor) => onwards(way.mark, handle(1, minor), FIRST_SERVICE + way.edge.0, copy),
        None => onwards(
            way.mark,
            handle(1, way.line),
            host_ifindex(PortId(way.edge.1)),
            copy,
        ),
    }
}

fn filter(
    ifindex: u32,
    priority: u16,
    handle: u32,
    kind: &'static str,
    options: Option<Attributes>,
) -> Tc<'static> {
    Tc {
        ifindex,
        handle,
        parent: Tc::INGRESS,
        info: Tc::all_protocols(priority),
        kind,
        options,
    }
}

/// Returns the filter for the far port's address. Without options (`with` false) it identifies the filter to delete;
/// the same holds below.
pub(super) fn unicast(way: &EdgeObjects, with: bool) -> Tc<'static> {
    let options = with.then(|| {
        Attributes::default()
            .put(TCA_FLOWER_KEY_ETH_DST, &mac_of(PortId(way.edge.1)))
            .put(TCA_FLOWER_KEY_ETH_DST_MASK, &[0xff; 6])
            .nest(TCA_FLOWER_ACT, first_leg(way, false))
    });
    filter(
        host_ifindex(PortId(way.edge.0)),
        UNICAST,
        way.mark,
        "flower",
        options,
    )
}

/// Returns the filter that copies frames for any group address.
pub(super) fn group(way: &EdgeObjects, with: bool) -> Tc<'static> {
    // The lowest bit of the first byte marks group addresses, so the address is its own mask.
    const GROUP: [u8; 6] = [1, 0, 0, 0, 0, 0];
    let options = with.then(|| {
        Attributes::default()
            .put(TCA_FLOWER_KEY_ETH_DST, &GROUP)
            .put(TCA_FLOWER_KEY_ETH_DST_MASK, &GROUP)
            .nest(TCA_FLOWER_ACT, first_leg(way, true))
    });
    // Line classes of one port's edges are on different interfaces and may be equal, but marks are unique.
    let priority = GROUPS + (way.mark % u32::from(REST - GROUPS - 1)) as u16;
    filter(
        host_ifindex(PortId(way.edge.0)),
        priority,
        way.mark,
        "flower",
        options,
    )
}

/// Returns the filter for all frames of a port with one edge.
pub(super) fn only(way: &EdgeObjects, with: bool) -> Tc<'static> {
    let options = with.then(|| Attributes::default().nest(TCA_MATCHALL_ACT, first_leg(way, false)));
    filter(
        host_ifindex(PortId(way.edge.0)),
        ONLY,
        1,
        "matchall",
        options,
    )
}

/// Returns the filter that sends served frames on to the far port.
pub(super) fn served(way: &EdgeObjects) -> Tc<'static> {
    let onwards = onwards(
        way.mark,
        handle(1, way.line),
        host_ifindex(PortId(way.edge.1)),
        false,
    );
    let options = Attributes::default().nest(TCA_FW_ACT, onwards);
    filter(
        FIRST_SERVED + way.edge.0,
        UNICAST,
        way.mark,
        "fw",
        Some(options),
    )
}

/// Returns the filter that drops frames without an edge.
pub(super) fn drop_the_rest(ifindex: u32) -> Tc<'static> {
    let drop = Attributes::default().put(TCA_GACT_PARMS, &parameters(TC_ACT_SHOT, &[]));
    let actions = Attributes::default().nest(1, action("gact", drop));
    let options = Attributes::default().nest(TCA_MATCHALL_ACT, actions);
    filter(ifindex, REST, 1, "matchall", Some(options))
}
