//! Warnings about valid scenarios that are probably mistakes.

use std::collections::{BTreeMap, BTreeSet};

use constel_link::{DriverKind, PortId};
use constel_plan::{Lab, is_square};
use constel_scenario::Scenario;
use constel_scenario::model::{Law, Medium};
use constel_topology::{Layout, NodeId, Snapshot, why};

use crate::coverage::FlowCover;
use crate::forest::Forest;

/// Returns warnings about a scenario that probably does not do what its author means. Causes are laser links that are all
/// down at the start, a missing ground, jitter above the delay of links, switches that learn no addresses, and `flows`
/// whose ends are not joined.
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
    found.extend(jitter_above_delays(lab, &first));
    let driver = lab.scenario.driver.kind();
    found.extend(driver.and_then(|driver| switches_that_do_not_learn(&lab.scenario, driver)));
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

/// Returns a warning about switched networks if the driver's switches learn no addresses.
#[must_use]
pub fn switches_that_do_not_learn(scenario: &Scenario, driver: DriverKind) -> Option<String> {
    let switched = scenario.networks.iter();
    let mut switched = switched.filter(|network| network.medium == Medium::Switched);
    let first = switched.next().filter(|_| driver != DriverKind::Relay)?;
    let others = match switched.count() {
        0 => String::new(),
        n => format!(" and {n} other networks"),
    };
    Some(format!(
        "network {}{others}: with driver {driver} a switch knows one Ethernet address a port, that of the member's interface: frames \
         to further addresses (VRRP, a bridge or macvlan in the node) are lost; driver relay learns 1,024 a port",
        first.name
    ))
}

/// Links whose delay follows from positions, and whose jitter is larger than the delay: a warning for each kind of link, with
/// the least delay at the start. (Links of a fixed delay are refused.)
fn jitter_above_delays(lab: &Lab, first: &Snapshot) -> Vec<String> {
    let layout = &lab.layout;
    let networks = &layout.spec().networks;
    let ports = (0..networks.len()).flat_map(|place| {
        let ports = layout.network_ports(place).iter();
        ports.map(move |port| (*port, place))
    });
    let network_of: BTreeMap<PortId, usize> = ports.collect();
    let constellations = &lab.scenario.constellations;
    // By the kind of link and its profile: the least delay, its ends, and the reason.
    let mut least: BTreeMap<(String, u16), (u64, String)> = BTreeMap::new();
    for edge in &first.edges {
        let number = usize::from(edge.impairment.profile);
        let profile = number.checked_sub(1).and_then(|at| lab.profiles.get(at));
        // A recording of delays replaces those of geometry.
        let jitter = profile.filter(|p| p.delay_ns.is_none());
        let Some(jitter) = jitter.and_then(|p| p.jitter.as_ref()) else {
            continue;
        };
        let delay_ns = edge.impairment.delay.delay_ns;
        let Err(why) = jitter.fits(delay_ns) else {
            continue;
        };
        let [from, to] = [edge.from, edge.to].map(|port| layout.node(layout.port(port).node));
        let kind = match network_of.get(&edge.from) {
            Some(place) => format!("network {}", networks[*place].name),
            None => {
                let mut kind = edge.class.name.to_owned();
                let seats = [from.seat, to.seat].into_iter().flatten();
                let places: BTreeSet<u16> = seats.map(|seat| seat.constellation).collect();
                for place in places {
                    kind += &format!(" of {}", constellations[usize::from(place)].name);
                }
                kind
            }
        };
        let text = format!("{kind}: at 0 s, {} to {}, {why}", from.name, to.name);
        let known = least.entry((kind, edge.impairment.profile));
        let known = known.or_insert_with(|| (delay_ns, text.clone()));
        if delay_ns < known.0 {
            *known = (delay_ns, text);
        }
    }
    least.into_values().map(|(_, text)| text).collect()
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

    /// A law of each kind of link whose delay follows from positions, each with jitter of several forms.
    #[test]
    fn jitter_above_the_delay_of_moving_links_is_told_once_a_kind() {
        let ground = "ground: {stations: {a: {latitude: 0 deg, longitude: 0 deg}, b: {latitude: 10 deg, longitude: 10 deg}}}\n";
        let sky = |isl: &str, gsl: &str| {
            shell("many", 12, 12)
                .replacen(
                    "link: {rate: 1 Gbit/s}",
                    &format!("link: {{rate: 1 Gbit/s{isl}}}"),
                    1,
                )
                .replace(
                    "10 deg, link: {rate: 1 Gbit/s}",
                    &format!("10 deg, link: {{rate: 1 Gbit/s{gsl}}}"),
                )
        };
        let large = ", jitter: {uniform: 200 ms}";
        let normal = ", jitter: {normal: 100 ms}";
        let small = ", jitter: {normal: 100 us}";
        assert_eq!(found(&sky(small, small), ground), [""; 0]);
        for jitter in [large, normal] {
            let lasers = found(&sky(jitter, ""), ground);
            assert_eq!(lasers.len(), 1, "{lasers:?}");
            assert!(
                lasers[0].starts_with("isl of many: at 0 s, many-"),
                "{lasers:?}"
            );
            assert!(
                lasers[0].contains("jitter takes up to 200 ms off a delay of "),
                "{lasers:?}"
            );
            let both = found(&sky(jitter, jitter), ground);
            assert_eq!(both.len(), 2, "{both:?}");
            assert!(both[0].starts_with("gsl of many: "), "{both:?}");
        }
        // Two satellites of a plane, 3,900 km apart; and stations on paths over the constellation.
        let networks = |members: &str, law: &str, link: &str| {
            format!(
                "{ground}networks: {{n: {{members: [{members}], law: {{{law}}}, link: {{rate: 1 Mbit/s{link}}}}}}}\n"
            )
        };
        let many = shell("many", 12, 12);
        for (members, law) in [
            ("many-p00-s00, many-p00-s01", "range: 5000 km"),
            ("a, b", "over: many"),
        ] {
            let of = |link: &str| {
                let mut told = found(&many, &networks(members, law, link));
                told.retain(|text| text.contains("jitter"));
                told
            };
            for jitter in [large, normal] {
                let told = of(jitter);
                assert_eq!(told.len(), 1, "{law}: {told:?}");
                assert!(
                    told[0].starts_with("network n: at 0 s, "),
                    "{law}: {told:?}"
                );
            }
            assert_eq!(of(small), [""; 0], "{law}");
            // An extra delay that is long enough leaves room.
            assert_eq!(
                of(", jitter: {uniform: 200 ms}, extra_delay: 300 ms"),
                [""; 0],
                "{law}"
            );
        }
    }

    #[test]
    fn switches_learn_with_the_relay_alone() {
        let with = |driver: &str, medium: &str| {
            let more = format!(
                "ground: {{hosts: {{h: {{count: 3, latitude: 0 deg, longitude: 0 deg}}}}}}\nnetworks: {{lan: {{members: [h-*], {medium}}}}}\n\
                 links: {{driver: {driver}}}\n"
            );
            let told = found(&shell("many", 12, 12), &more);
            told.iter()
                .filter(|text| text.contains("one Ethernet address a port"))
                .count()
        };
        for (driver, count) in [("edt", 1), ("netem", 1), ("relay", 0), ("auto", 0)] {
            assert_eq!(with(driver, "medium: switched"), count, "{driver}");
            let mesh = "law: {range: 10 km}, link: {rate: 1 Mbit/s}";
            assert_eq!(with(driver, mesh), 0, "{driver}");
        }
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
