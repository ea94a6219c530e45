//! Changes inside nodes.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use constel_host::NetNs;
use constel_host::netlink::{
    Change, ChangeKind, ChangeMonitor, InstalledRoute, IpPrefix, RouteTarget, Socket,
};

use super::lab::Lab;

/// A node's own IPv4 address, as its kernel has it.
pub(crate) fn loopback(ns: &NetNs) -> Ipv4Addr {
    let addresses = Socket::open_in(ns).unwrap().addresses().unwrap();
    let own = addresses.iter().find_map(|a| match a.local.addr {
        IpAddr::V4(v4) if a.ifindex == 1 && !v4.is_loopback() => Some(v4),
        _ => None,
    });
    own.expect("a node has an address on lo")
}

/// Routes of a node's main table.
pub(crate) type Table = BTreeMap<IpPrefix, RouteTarget>;

fn table(ns: &NetNs) -> Table {
    let routes = Socket::open_in(ns).unwrap().routes().unwrap();
    let main = |route: &InstalledRoute| route.table == 254 && route.kind == 1;
    routes
        .into_iter()
        .filter(main)
        .map(|route| (route.dst, route.target))
        .collect()
}

/// Watches every node of a lab.
pub(crate) struct Watch {
    nodes: BTreeMap<String, (NetNs, ChangeMonitor, Table)>,
}

/// The changes in one node.
#[derive(Debug, Default)]
pub(crate) struct Happened {
    /// Interfaces and addresses that came, went or changed.
    pub(crate) rebuilt: Vec<Change>,
    /// Routes that went.
    pub(crate) routes_gone: Vec<IpPrefix>,
    /// Routes announced as new or replaced.
    pub(crate) routes_set: Vec<IpPrefix>,
    /// Routes that lead elsewhere than when the watch began.
    pub(crate) routes_moved: Vec<IpPrefix>,
}

impl Watch {
    /// From now on.
    pub(crate) fn begin(lab: &Lab) -> Watch {
        let open = |name: String| {
            let ns = lab.node(&name);
            let monitor = ChangeMonitor::open_in(&ns).unwrap();
            let table = table(&ns);
            (name, (ns, monitor, table))
        };
        Watch {
            nodes: lab.nodes().into_iter().map(open).collect(),
        }
    }

    /// The changes so far, node by node.
    pub(crate) fn end(self) -> BTreeMap<String, Happened> {
        let look = |(name, (ns, mut monitor, before)): (String, (NetNs, ChangeMonitor, Table))| {
            let mut happened = Happened::default();
            for change in monitor.drain().unwrap() {
                match &change.what {
                    ChangeKind::Link(_) | ChangeKind::Address(_) => happened.rebuilt.push(change),
                    ChangeKind::Route(route) if change.deleted => {
                        happened.routes_gone.push(route.dst)
                    }
                    ChangeKind::Route(route) => happened.routes_set.push(route.dst),
                    ChangeKind::Neighbour(_) => {}
                }
            }
            let after = table(&ns);
            let keys = before.keys().chain(after.keys());
            happened.routes_moved = keys
                .filter(|&dst| before.get(dst) != after.get(dst))
                .copied()
                .collect();
            happened.routes_moved.sort();
            happened.routes_moved.dedup();
            happened.routes_set.sort();
            (name, happened)
        };
        self.nodes.into_iter().map(look).collect()
    }
}
