//! Information for nodes, from plans.

use std::sync::Arc;

use constel_plan::information::{Change, NodeInformation, Scope, Stamp, changes};
use constel_plan::{Blueprint, Lab, LocalNodes};
use constel_scenario::{DiskFiles, parse, resolve};
use constel_topology::{NodeId, Snapshot};

fn iridium(information: &str) -> Arc<Blueprint> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/iridium.yaml");
    let text = std::fs::read_to_string(path).unwrap() + "\n" + information;
    let parsed = parse(path, &text).unwrap_or_else(|e| panic!("{e}"));
    let scenario = resolve(&parsed, &DiskFiles::beside(path)).unwrap_or_else(|e| panic!("{e}"));
    let lab = Lab::new(scenario).unwrap_or_else(|e| panic!("{e}"));
    Arc::new(Blueprint::new(lab).unwrap_or_else(|e| panic!("{e}")))
}

fn id(blueprint: &Blueprint, name: &str) -> NodeId {
    blueprint.lab.layout.find(name).unwrap().id
}

const FIRST: Stamp = Stamp {
    revision: 1,
    t_ns: 0,
};

#[test]
fn nobody_is_told_unless_it_asks() {
    assert!(NodeInformation::new(&iridium(""), &LocalNodes::all()).is_none());
    let text =
        "information:\n  - {classes: [ground]}\n  - {nodes: ['iridium-p00-s0?'], topology: all}\n";
    let blueprint = iridium(text);
    let telling = NodeInformation::new(&blueprint, &LocalNodes::all()).unwrap();
    let layout = &blueprint.lab.layout;
    let names: Vec<&str> = telling
        .asking()
        .map(|node| layout.node(node).name.as_str())
        .collect();
    let satellites = names
        .iter()
        .filter(|name| name.starts_with("iridium-p00-s0"));
    assert_eq!(satellites.count(), 10, "{names:?}");
    assert!(names.contains(&"tokyo") && !names.contains(&"iridium-p01-s00"));
    let scope = |name: &str| telling.asked(id(&blueprint, name)).map(|asked| asked.scope);
    assert_eq!(scope("tokyo"), Some(Scope::Neighbourhood));
    assert_eq!(scope("iridium-p00-s03"), Some(Scope::All));
    assert_eq!(scope("iridium-p00-s10"), None);
}

#[test]
fn later_entries_add_and_replace() {
    let text = "information:\n  - {topology: all, user: [{name: a, text: '1'}, {name: b, text: '2'}]}\n  \
                - {nodes: [tokyo], topology: neighbourhood, user: [{name: b, text: '3'}]}\n";
    let blueprint = iridium(text);
    let telling = NodeInformation::new(&blueprint, &LocalNodes::all()).unwrap();
    let tokyo = telling.asked(id(&blueprint, "tokyo")).unwrap();
    assert_eq!(tokyo.scope, Scope::Neighbourhood);
    let user: Vec<_> = tokyo
        .user
        .iter()
        .map(|(k, v)| (k.as_str(), v.as_str()))
        .collect();
    assert_eq!(user, [("a", "1"), ("b", "3")]);
    assert_eq!(telling.asking().count(), blueprint.lab.layout.nodes().len());
}

#[test]
fn peers_agree_with_the_plan() {
    let blueprint = iridium("information: [{}]\n");
    let telling = NodeInformation::new(&blueprint, &LocalNodes::all()).unwrap();
    let snapshot = blueprint.lab.stepper().advance();
    let layout = &blueprint.lab.layout;
    let mut links = 0;
    for node in layout.nodes() {
        let own = telling.node(node.id, "x");
        assert_eq!(
            (own.name.as_str(), own.number),
            (node.name.as_str(), node.id.0)
        );
        assert_eq!(own.seat.is_some(), node.class.flies);
        let ports = telling.ports(node.id).ports;
        let peers = telling.peers(node.id, &snapshot, FIRST).peers;
        links += peers.len();
        for peer in &peers {
            let port = ports.iter().find(|port| port.name == peer.port).unwrap();
            // Each knows the other by what the other says of itself.
            let far = id(&blueprint, &peer.node);
            let far_ports = telling.ports(far).ports;
            let far_port = far_ports.iter().find(|p| p.name == peer.far.port).unwrap();
            assert_eq!((&far_port.mac, &far_port.kind), (&peer.far.mac, &port.kind));
            assert_eq!(far_port.ipv6_link_local, peer.far.ipv6_link_local);
            let address = far_port
                .ipv4
                .as_deref()
                .and_then(|text| text.split('/').next());
            assert_eq!(address.map(|a| a.parse().unwrap()), peer.far.ipv4);
            let back = telling.peers(far, &snapshot, FIRST).peers;
            assert!(
                back.iter()
                    .any(|p| p.node == node.name && p.port == peer.far.port)
            );
        }
        let near = telling.neighbourhood(node.id, &snapshot, FIRST);
        assert_eq!(near.links.len(), peers.len());
        let live = telling.links(node.id, &snapshot, 0).links;
        assert!(live.len() == peers.len() && live.iter().all(|link| link.delay_ns > 0));
    }
    assert_eq!(links, snapshot.edges.len());
    let whole = telling.whole(&snapshot, FIRST);
    assert_eq!(whole.links.len() * 2, snapshot.edges.len());
    assert_eq!(whole.nodes.len(), layout.nodes().len());
}

#[test]
fn changes_are_those_of_the_nodes_concerned() {
    let blueprint = iridium("information: [{}]\n");
    let layout = &blueprint.lab.layout;
    let mut stepper = blueprint.lab.stepper();
    let mut before = stepper.advance();
    let (mut told, mut steps) = (0, 0);
    for _ in 0..600 {
        let after = stepper.advance();
        let found = changes(layout, &before, &after);
        told += found.len();
        steps += usize::from(!found.is_empty());
        for node in layout.nodes() {
            let far = |snapshot: &Snapshot| -> Vec<_> {
                let ports = layout.ports_of(node.id).iter();
                let edges = ports.flat_map(|port| snapshot.edges_from(port.id));
                edges.map(|edge| (edge.from, edge.to)).collect()
            };
            let (old, new) = (far(&before), far(&after));
            type Ends = (constel_link::PortId, constel_link::PortId);
            let only = |a: &[Ends], b: &[Ends]| -> Vec<Ends> {
                a.iter().filter(|x| !b.contains(x)).copied().collect()
            };
            let expected = Change {
                added: only(&new, &old),
                removed: only(&old, &new),
            };
            assert_eq!(found.get(&node.id).cloned().unwrap_or_default(), expected);
        }
        before = after;
    }
    // The sky moved, and most nodes had no change at most steps.
    assert!(steps > 3, "{steps}");
    assert!(told < 600 * layout.nodes().len() / 20, "{told}");
}

#[test]
fn documents_have_the_form_that_the_schema_names() {
    let blueprint = iridium("information: [{nodes: [tokyo]}]\n");
    let telling = NodeInformation::new(&blueprint, &LocalNodes::all()).unwrap();
    let tokyo = id(&blueprint, "tokyo");
    let snapshot = blueprint.lab.stepper().advance();
    let text = serde_json::to_string(&telling.peers(tokyo, &snapshot, FIRST)).unwrap();
    assert!(
        text.starts_with(
            r#"{"version":1,"revision":1,"t_ns":0,"peers":[{"port":"gsl0","node":"iridium-"#
        ),
        "{text}"
    );
    assert_eq!(
        serde_json::from_str::<constel_plan::information::Peers>(&text).unwrap(),
        telling.peers(tokyo, &snapshot, FIRST)
    );
}
