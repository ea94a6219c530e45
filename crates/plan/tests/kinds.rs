//! A kind of node, a kind of link and a medium that exist in this file alone: they get ports, addresses, edges, plan
//! output, routes and step plans, and nothing outside this file knows them.

use std::net::Ipv4Addr;
use std::sync::Arc;

use constel_plan::{Blueprint, Document, FailedEdges, Lab, Planner};
use constel_topology::{
    Access, Addressing, EdgeClass, Host, Law, Layout, LinkClass, LinkReason, Medium, Moment,
    Network, NetworkEdge, NodeClass, Span, Transit, why,
};
use constel_units::TimeSpan;

static BUOY: NodeClass = NodeClass {
    name: "buoy",
    flies: false,
    transit: Transit::Always,
    endpoint: true,
    access: Access::None,
    cables: 0,
};

static SONAR: EdgeClass = EdgeClass {
    name: "sonar",
    span: Span::Ground,
    ports: &["son0", "son1"],
    medium: Medium {
        name: "water",
        several: true,
        made: true,
    },
    addressing: Addressing::SharedSubnet,
    ipv4_block: Some((Ipv4Addr::new(172, 20, 0, 0), 16)),
};

/// Sound reaches the next member in each direction; from the second second on also the first from the last.
#[derive(Debug)]
struct Water;

impl Law for Water {
    fn edges(&self, moment: &Moment<'_>, edges: &mut Vec<NetworkEdge>) {
        let members = moment.now_itrf_m.len();
        for from in 0..members {
            let to = (from + 1) % members;
            if to == 0 && moment.t_ns < 2_000_000_000 {
                continue;
            }
            let range_m = moment.now_itrf_m[from].distance(moment.now_itrf_m[to]);
            let delay_ns = (range_m / 1500.0 * 1e9) as u64;
            for (from, to) in [(from, to), (to, from)] {
                edges.push(NetworkEdge {
                    from,
                    to,
                    delay_ns,
                    later_delay_ns: delay_ns,
                    class: LinkClass {
                        queue_bytes: 10_000,
                        ..LinkClass::default()
                    },
                });
            }
        }
    }
}

/// The shipped Iridium with computed routing, three buoys, and a network of them and a station.
fn lab() -> Lab {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/iridium.yaml");
    let shipped = std::fs::read_to_string(path).unwrap();
    let text = shipped
        .replace("mode: bird", "mode: computed")
        .replace("  ospf: {hello: 1 s, dead: 4 s}\n", "");
    let parsed = constel_scenario::parse(path, &text).unwrap();
    let files = constel_scenario::DiskFiles::beside(path);
    let lab = Lab::new(constel_scenario::resolve(&parsed, &files).unwrap()).unwrap();
    let mut spec = lab.layout.spec().clone();
    let buoy = |n: usize| Host {
        name: format!("buoy-{n}"),
        class: &BUOY,
        latitude_deg: 40.0,
        longitude_deg: -40.0 + 0.01 * n as f64,
        altitude_m: 0.0,
        attach: None,
    };
    spec.hosts.extend((0..3).map(buoy));
    let station = spec.stations[0].name.clone();
    spec.networks.push(Network {
        name: "sea".to_owned(),
        ports: &SONAR,
        members: vec![
            "buoy-0".to_owned(),
            "buoy-1".to_owned(),
            "buoy-2".to_owned(),
            station,
        ],
        mtu_bytes: 1500,
        law: Arc::new(Water),
    });
    let layout = Arc::new(Layout::new(spec, lab.sky.as_ref()).unwrap());
    Lab { layout, ..lab }
}

#[test]
fn kinds_of_this_file_are_laid_out_addressed_and_printed() {
    let lab = lab();
    let buoy = lab.layout.find("buoy-1").unwrap().id;
    let document = Document::at(&lab, TimeSpan::from_ns(0)).unwrap();
    let printed = document.nodes.iter().find(|n| n.name == "buoy-1").unwrap();
    assert_eq!((printed.kind, &printed.ports[..]), ("buoy", &["son0"][..]));
    let sonar = document.edges.iter().filter(|e| e.kind == "sonar");
    assert_eq!(sonar.count(), 6);
    let later = Document::at(&lab, TimeSpan::from_ns(3_000_000_000)).unwrap();
    let sonar = later.edges.iter().filter(|e| e.kind == "sonar");
    assert_eq!(sonar.count(), 8);
    let snapshot = lab.stepper().at_step(0);
    let next = lab.layout.find("buoy-2").unwrap().id;
    let LinkReason::Up { delay_ns, .. } = why(&lab.layout, &snapshot, buoy, next) else {
        panic!("{:?}", why(&lab.layout, &snapshot, buoy, next));
    };
    // 0.01 degrees of longitude at 40 degrees north are 854 m.
    assert!((560_000_000..580_000_000).contains(&delay_ns), "{delay_ns}");

    let blueprint = Blueprint::new(lab).unwrap();
    let setup = blueprint.setup(buoy);
    assert_eq!(setup.loopback.len(), 2);
    // Ports are numbered by node, and the station comes before hosts.
    let own = Ipv4Addr::new(172, 20, 0, 3);
    assert_eq!(setup.ports[0].address, Some((own.into(), 16)));
    let port = blueprint.lab.layout.ports_of(buoy)[0].id;
    assert_eq!(blueprint.addresses.port_of(own.into()), Some(port));
}

#[test]
fn steps_and_routes_are_planned_over_kinds_of_this_file() {
    let blueprint = Arc::new(Blueprint::new(lab()).unwrap());
    let layout = Arc::clone(&blueprint.lab.layout);
    let port = |name: &str| layout.ports_of(layout.find(name).unwrap().id)[0].id;
    let (first, second) = (port("buoy-0"), port("buoy-1"));
    let far = layout.find("buoy-2").unwrap().id;
    let mut planner = Planner::new(Arc::clone(&blueprint));
    let planned = planner.first(&FailedEdges::default());
    let plan = &planned.plan;
    let learnt = |from, to| {
        let ends = |a: &&constel_plan::Adjacency| (a.port, a.far_port) == (from, to);
        plan.learn.iter().any(|a| ends(&a))
    };
    assert!(learnt(first, second) && learnt(second, first));
    assert!(!learnt(first, port("buoy-2")));
    // Over water to the next but one.
    let route = plan.routes.rows.iter().find(|row| {
        row.node == layout.port(first).node && row.goal == constel_plan::RouteDestination::Node(far)
    });
    assert_eq!(route.map(|row| row.hop.port), Some(first));
    let text = serde_json::to_string(plan).unwrap();
    assert_eq!(
        &serde_json::from_str::<constel_plan::StepPlan>(&text).unwrap(),
        plan
    );
}
