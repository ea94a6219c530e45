//! The names of the plan's addresses, for users and for `/etc/hosts`.

use super::AddressPlan;
use constel_topology::Layout;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// One line of [`AddressPlan::rows`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressRow {
    /// Node name.
    pub node: String,
    /// Interface name in the node; `lo` for loopbacks.
    pub interface: &'static str,
    /// Ethernet address; `None` for loopbacks.
    pub mac: Option<[u8; 6]>,
    /// IPv4 address and prefix length.
    pub v4: Option<(Ipv4Addr, u8)>,
    /// IPv6 address and prefix length.
    pub v6: (Ipv6Addr, u8),
}

impl AddressPlan {
    /// Every address of the plan, loopbacks first within each node.
    #[must_use]
    pub fn rows(&self, layout: &Layout) -> Vec<AddressRow> {
        let mut rows = Vec::new();
        for node in layout.nodes() {
            let own = self.loopback(node.id);
            let further = self.paths.of_node(node.id);
            for own in std::iter::once(own).chain(further.map(|end| self.paths.address(end))) {
                rows.push(AddressRow {
                    node: node.name.clone(),
                    interface: "lo",
                    mac: None,
                    v4: Some((own.v4, 32)),
                    v6: (own.v6, 128),
                });
            }
            for port in layout.ports_of(node.id) {
                let addresses = self.port(port.id);
                rows.push(AddressRow {
                    node: node.name.clone(),
                    interface: port.name(),
                    mac: Some(addresses.mac),
                    v4: addresses.v4,
                    v6: (addresses.v6_link_local, 64),
                });
            }
        }
        rows
    }

    /// [`rows`](AddressPlan::rows) as a text table.
    #[must_use]
    pub fn table(&self, layout: &Layout) -> String {
        let rows = self.rows(layout);
        let width = rows
            .iter()
            .map(|r| r.node.chars().count())
            .max()
            .unwrap_or(0)
            .max(4);
        let mut text = String::new();
        let _ = writeln!(
            text,
            "{:width$}  {:4}  {:17}  {:18}  ipv6",
            "node", "port", "mac", "ipv4"
        );
        for r in rows {
            let mac = r
                .mac
                .map_or_else(String::new, constel_link::rules::words::mac_text);
            let v4 =
                r.v4.map_or_else(String::new, |(a, len)| format!("{a}/{len}"));
            let (v6, len) = r.v6;
            let _ = writeln!(
                text,
                "{:width$}  {:4}  {mac:17}  {v4:18}  {v6}/{len}",
                r.node, r.interface
            );
        }
        text
    }

    /// Returns the name of an address: its node, or its node, pair and path.
    #[must_use]
    pub fn name_of(&self, layout: &Layout, address: IpAddr) -> Option<String> {
        if let Some(end) = self.paths.end_of(address) {
            return Some(self.paths.name(layout, end));
        }
        Some(layout.node(self.node_of(address)?).name.clone())
    }

    /// Lines for `/etc/hosts`: every node's name at its loopbacks, and those of the ends of disjoint paths.
    #[must_use]
    pub fn hosts(&self, layout: &Layout) -> String {
        let mut text = String::new();
        let nodes = layout.nodes().iter();
        let nodes = nodes.map(|node| (self.loopback(node.id), node.name.clone()));
        let ends = self.paths.ends();
        let ends = ends.map(|end| (self.paths.address(end), self.paths.name(layout, end)));
        for (own, name) in nodes.chain(ends) {
            let _ = writeln!(text, "{} {name}\n{} {name}", own.v4, own.v6);
        }
        text
    }
}
