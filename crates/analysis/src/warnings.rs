//! Warnings about valid scenarios that are probably mistakes.

use std::collections::BTreeSet;

use constel_plan::{Lab, is_square};
use constel_scenario::model::{Law, Medium};
use constel_topology::{Layout, NodeId, Snapshot, why};

use crate::coverage::FlowCover;
use crate::forest::Forest;

/// Returns warnings about a scenario that cannot do what its author probably means: laser links of which none
/// is ever up at the start, no nodes on the ground, and those of `flows` whose ends nothing joins.
#[must_use]
pub fn warnings(lab: &Lab, flows: &[FlowCover]) -> Vec<String> {
    let layout = &lab.layout;
    let first = lab.stepper().advance();
    let mut found = Vec::new();
    found.extend(no_lasers(layout, &first));
    if layout.endpoints().next().is_none() && layout.satellite_count() > 0 {
        found.push(
            "there are no ground stations: add them under `ground`, so that something can send and receive"
                .to_owned(),
        );
    }
    found.extend(squares_with_holes(lab, &first));
    let mut islands = None;
    for flow in flows.iter().filter(|f| f.path_ratio == Some(0.0)) {
        let ends = [&flow.from, &flow.to].map(|name| layout.find(name).map(|node| node.id));
        if let [Some(from), Some(to)] = ends {
            let islands = islands.get_or_insert_with(|| Islands::of(layout, &first));
            found.extend(islands.apart(layout, &flow.flow, from, to));
        }
    }
    found
}

/// Networks with a matrix of delays in which cells are empty: packets between two such members go over others.
fn squares_with_holes(lab: &Lab, first: &Snapshot) -> Vec<String> {
    let layout = &lab.layout;
    let mut found = Vec::new();
    for network in &lab.scenario.networks {
        let (Medium::Links { law, .. } | Medium::Shared { law, .. }) = &network.medium else {
            continue;
        };
        let Law::Matrix(file) = law else {
            continue;
        };
        let specs = &layout.spec().networks;
        let Some(place) = specs
            .iter()
            .position(|spec| spec.name == network.name.as_str())
        else {
            continue;
        };
        if !is_square(file, &specs[place].members) {
            continue;
        }
        let ports = layout.network_ports(place);
        let (mut holes, mut example) = (0_usize, None);
        for from in ports {
            let to: BTreeSet<_> = first.edges_from(*from).iter().map(|edge| edge.to).collect();
            for to in ports
                .iter()
                .filter(|port| *port != from && !to.contains(port))
            {
                holes += 1;
                example.get_or_insert([*from, *to]);
            }
        }
        if let Some(example) = example {
            let [from, to] = example.map(|port| &layout.node(layout.port(port).node).name);
            let pairs = ports.len() * (ports.len() - 1);
            found.push(format!(
                "network {}: {holes} of {pairs} pairs of members have no edge, as their cells in the matrix are empty, the first \
                 {from} to {to}: what is sent between them goes over other members where routes lead there",
                network.name
            ));
        }
    }
    found
}

/// Laser links that the scenario requires, and none of which is up at the start.
fn no_lasers(layout: &Layout, first: &Snapshot) -> Option<String> {
    let links = layout.isl_links();
    let up = |port| !first.edges_from(port).is_empty();
    let one = links.first()?;
    if links.iter().any(|link| up(link.a)) {
        return None;
    }
    let [a, b] = [one.a, one.b].map(|port| layout.port(port).node);
    let name = |node: NodeId| &layout.node(node).name;
    Some(format!(
        "none of the {} laser links is up at 0 s, for example {} - {}: {}",
        links.len(),
        name(a),
        name(b),
        why(layout, first, a, b).describe(layout)
    ))
}

/// Satellites, gateways and hosts that links could ever join, whatever the sky is, and the satellites that
/// stations use at the start.
struct Islands<'a> {
    first: &'a Snapshot,
    joined: Forest,
}

impl<'a> Islands<'a> {
    fn of(layout: &Layout, first: &'a Snapshot) -> Self {
        let mut joined = Forest::default();
        joined.part(layout.nodes().len());
        let at = |port| layout.port(port).node.index();
        for link in layout.isl_links() {
            joined.join(at(link.a), at(link.b));
        }
        for cable in layout.cables() {
            joined.join(at(cable.a), at(cable.b));
        }
        for port in layout.ports() {
            for peer in layout.network_peers(port.id) {
                joined.join(at(port.id), at(peer));
            }
        }
        // Other stations do not forward.
        for station in layout.stations().filter(|s| layout.is_transit(s.id)) {
            for satellite in served(layout, station.id) {
                joined.join(station.id.index(), satellite);
            }
        }
        Self { first, joined }
    }

    /// The satellites that a node uses at the start.
    fn uses(&self, layout: &Layout, node: NodeId) -> Vec<NodeId> {
        let edges = layout.ports_of(node).iter();
        let far = edges.flat_map(|port| self.first.edges_from(port.id));
        let nodes = far.map(|edge| layout.port(edge.to).node);
        nodes
            .filter(|node| node.index() < layout.satellite_count())
            .collect()
    }

    /// The islands that a node is on at the start.
    fn reach(&mut self, layout: &Layout, node: NodeId) -> BTreeSet<u32> {
        let used = self.uses(layout, node);
        let all = std::iter::once(node).chain(used);
        all.map(|at| self.joined.root(at.index())).collect()
    }

    /// Returns the reason why a flow has no path, if the satellites that its ends use can never be joined.
    fn apart(&mut self, layout: &Layout, flow: &str, from: NodeId, to: NodeId) -> Option<String> {
        let reach = [from, to].map(|node| self.reach(layout, node));
        let used = [from, to].map(|node| self.uses(layout, node));
        // An end without a usable satellite has its own warning.
        if !reach[0].is_disjoint(&reach[1]) || used.iter().any(Vec::is_empty) {
            return None;
        }
        let name = |node: NodeId| layout.node(node).name.as_str();
        let [a, b] = [(from, &used[0]), (to, &used[1])].map(|(node, used)| {
            let used: Vec<_> = used.iter().map(|satellite| name(*satellite)).collect();
            format!("{} uses {}", name(node), used.join(", "))
        });
        Some(format!(
            "{flow}: at 0 s {a} and {b}, and nothing joins their shells: `cross_shell` links would, or a station with \
             `gateway: true`"
        ))
    }
}

/// Places of constellations that a station has a terminal for.
fn served_constellations(layout: &Layout, node: NodeId) -> impl Iterator<Item = usize> {
    let station = node.index().checked_sub(layout.satellite_count());
    let station = station.filter(|station| *station < layout.spec().stations.len());
    let all = 0..layout.spec().constellations.len();
    all.filter(move |place| {
        station.is_some_and(|station| layout.lowest_mask_deg(station, *place).is_some())
    })
}

/// Places in the node table of the satellites that a station may ever use.
fn served(layout: &Layout, node: NodeId) -> impl Iterator<Item = usize> {
    served_constellations(layout, node).flat_map(|place| {
        let satellites = layout.nodes()[..layout.satellite_count()].iter();
        let own = satellites.filter(move |satellite| {
            satellite
                .seat
                .is_some_and(|seat| usize::from(seat.constellation) == place)
        });
        own.map(|satellite| satellite.id.index())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Coverage;
    use constel_scenario::{DiskFiles, parse, resolve};

    fn found(constellations: &str, more: &str) -> Vec<String> {
        let text = format!(
            "constel: 1\nname: w\nseed: 1\nstart: 2026-01-01T00:00:00Z\nduration: 60 s\nstep: 10 s\nconstellations:\n{constellations}\n{more}"
        );
        let parsed = parse("w.yaml", &text).unwrap_or_else(|e| panic!("{e}"));
        let scenario =
            resolve(&parsed, &DiskFiles::beside("w.yaml")).unwrap_or_else(|e| panic!("{e}"));
        let lab = Lab::new(scenario).unwrap();
        let sky = Coverage::bounded(&lab, 1).unwrap();
        warnings(&lab, &sky.flows)
    }

    fn shell(name: &str, planes: u32, per_plane: u32) -> String {
        format!(
            "  {name}: {{walker: {{pattern: delta, inclination: 53 deg, satellites: {}, planes: {planes}, phasing: 1, \
             altitude: 1200 km}}, isl: {{pattern: plus-grid, link: {{rate: 1 Gbit/s}}}}, gsl: {{min_elevation: 10 deg, \
             link: {{rate: 1 Gbit/s}}}}}}\n",
            planes * per_plane
        )
    }

    #[test]
    fn satellites_too_far_apart_and_nobody_below() {
        let few = found(&shell("few", 4, 4), "");
        assert_eq!(few.len(), 2, "{few:?}");
        assert!(
            few[0].starts_with("none of the 32 laser links is up at 0 s"),
            "{few:?}"
        );
        assert!(few[0].contains("line of sight"), "{few:?}");
        assert!(few[1].contains("no ground stations"), "{few:?}");
        assert_eq!(
            found(
                &shell("many", 12, 12),
                "ground: {stations: {a: {latitude: 0 deg, longitude: 0 deg}}}"
            ),
            [""; 0]
        );
    }

    #[test]
    fn stations_on_shells_that_nothing_joins() {
        let two = shell("one", 12, 12) + &shell("two", 12, 12);
        let ground = |extra: &str| {
            format!(
                "ground:\n  stations:\n    a: {{latitude: 10 deg, longitude: 0 deg, terminals: [{{constellations: [one]}}]}}\n    \
                 b: {{latitude: 20 deg, longitude: 9 deg, terminals: [{{constellations: [two]}}]}}\n{extra}traffic:\n  - {{name: f, at: 0 s, for: 30 s, ping: \
                 {{from: a, to: b}}}}\n"
            )
        };
        let apart = found(&two, &ground(""));
        assert_eq!(apart.len(), 1, "{apart:?}");
        assert!(apart[0].starts_with("f: at 0 s a uses one-"), "{apart:?}");
        assert!(
            apart[0].contains(" and b uses two-") && apart[0].contains("gateway"),
            "{apart:?}"
        );
        let joined = found(
            &two,
            &ground("    c: {latitude: 15 deg, longitude: 5 deg, gateway: true}\n"),
        );
        assert_eq!(joined, [""; 0]);
    }
}
