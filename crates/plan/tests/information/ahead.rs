//! The documents that look ahead, against a walk through the steps.

use std::collections::BTreeSet;

use constel_link::PortId;
use constel_plan::Lab;
use constel_plan::information::{Contacts, Foresight, Scope, Stamp};
use constel_topology::NodeId;

use crate::given::{Given, lab};

const SKY: &str = "\
constellations:
  k:
    walker: {pattern: star, altitude: 780 km, inclination: 86.4 deg, satellites: 66, planes: 6, phasing: 2}
    isl: {pattern: plus-grid, polar_cutoff: 60 deg, link: {rate: 10 Mbit/s}}
    gsl: {min_elevation: 10 deg, handover: {outage: 400 ms}, link: {rate: 10 Mbit/s}}
ground:
  stations:
    london: {latitude: 51.5 deg, longitude: -0.1 deg}
    lagos: {latitude: 6.5 deg, longitude: 3.4 deg}
step: 1 s
failures:
  - {name: storm, nodes: [k-p00-s00], at: 5 s}
";

const S: u64 = 1_000_000_000;

fn stamp(t_ns: u64) -> Stamp {
    Stamp { revision: 1, t_ns }
}

/// The links that carry frames at an instant, by the names of their ends.
fn at(contacts: &Contacts, t_ns: u64) -> BTreeSet<String> {
    let there = contacts.contacts.iter();
    let there = there.filter(|c| c.from_ns <= t_ns && c.to_ns.is_none_or(|to_ns| t_ns < to_ns));
    there
        .map(|c| format!("{}/{} {}/{}", c.a, c.a_port, c.b, c.b_port))
        .collect()
}

fn end(lab: &Lab, port: PortId) -> String {
    let port = lab.layout.port(port);
    format!("{}/{}", lab.layout.node(port.node).name, port.name())
}

#[test]
fn contacts_and_positions_are_those_of_the_steps() {
    let lab = lab(SKY, &Given::default()).unwrap();
    let all: Vec<NodeId> = lab.layout.nodes().iter().map(|node| node.id).collect();
    let mut foresight = Foresight::new(&lab, 240 * S, all.clone());
    let mut stepper = lab.stepper().foreseen();
    let (mut changes, mut last) = (0, BTreeSet::new());
    for step in 0..500_u64 {
        let t_ns = step * S;
        if step % 100 == 0 {
            foresight.advance(t_ns);
        }
        let contacts = foresight.contacts(None, stamp(t_ns));
        assert!(
            contacts.to_ns >= t_ns + 240 * S,
            "it looks as far ahead as was asked"
        );
        let snapshot = stepper.advance();
        // In the middle of the step, when the outages of handovers are over.
        let middle_ns = t_ns + S / 2;
        let edges = snapshot.edges.iter();
        let edges = edges.filter(|e| e.from < e.to && e.usable_at(middle_ns));
        let names = edges.map(|e| format!("{} {}", end(&lab, e.from), end(&lab, e.to)));
        let there: BTreeSet<String> = names.collect();
        assert_eq!(at(&contacts, middle_ns), there, "{step} s");
        changes += usize::from(there != last);
        last = there;
        let orbit = foresight.orbit(Scope::All, &all, stamp(t_ns));
        assert_eq!((orbit.every_ns, orbit.nodes.len()), (2 * S, all.len()));
        for (track, position) in orbit.nodes.iter().zip(&snapshot.positions_itrf_m) {
            let place = track.places.iter().find(|place| place.t_ns == t_ns);
            assert_eq!(place.is_some(), step % 2 == 0, "every second step");
            assert!(place.is_none_or(|place| place.itrf_m == position.to_array()));
        }
    }
    assert!(changes > 5, "links come and go");
    // The past is forgotten, but for contacts in progress and the position before.
    let contacts = foresight.contacts(None, stamp(0)).contacts;
    assert!(
        contacts
            .iter()
            .all(|c| c.to_ns.is_none_or(|to_ns| to_ns > 400 * S))
    );
    let orbit = foresight.orbit(Scope::All, &all[..1], stamp(0));
    assert_eq!(orbit.nodes[0].places[0].t_ns, 400 * S);
}

#[test]
fn failures_are_not_foreseen_and_a_node_has_its_own_links() {
    let lab = lab(SKY, &Given::default()).unwrap();
    let broken = lab.layout.find("k-p00-s00").unwrap().id;
    assert!(lab.stepper().at_step(5).broken.node(broken).is_some());
    let foresight = Foresight::new(&lab, 60 * S, vec![broken]);
    let own = foresight.contacts(Some(broken), stamp(0));
    assert_eq!(own.scope, Scope::Neighbourhood);
    assert!(!at(&own, 20 * S).is_empty(), "the failure is not foreseen");
    let name = "k-p00-s00";
    assert!(own.contacts.iter().all(|c| c.a == name || c.b == name));
    let all = foresight.contacts(None, stamp(0)).contacts;
    let of_it = all.iter().filter(|c| c.a == name || c.b == name);
    assert_eq!(of_it.count(), own.contacts.len());
    let orbit = foresight.orbit(Scope::Neighbourhood, &[broken], stamp(0));
    assert_eq!(orbit.nodes[0].node, name);
}
