//! Generated configurations, word for word: `tests/golden/*.conf`. `CONSTEL_BLESS=1 cargo test -p constel-routing
//! --test daemons` writes them again; read the diff before committing it.

use crate::common;

use common::OSPF;
use constel_orbit::WalkerKind;
use constel_routing::daemons::{
    Bfd, Context, Protocol, Served, Software, Spec, System, Templates, contexts, serving_within,
};
use constel_routing::{AddressBlocks, AddressPlan, Areas, Grouping};
use constel_topology::NodeId;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Contexts of the first satellite and of the first station of a small lab.
fn of_both(spec: &Spec) -> Vec<Context> {
    let mut stepper = common::lab(WalkerKind::Delta, (24, 4, 1), 60.0, 780.0, common::cities());
    let layout = stepper.layout().clone();
    let plan = AddressPlan::new(&layout, &AddressBlocks::default()).unwrap();
    let serving = serving_within(&mut stepper, 600, &|| true).unwrap();
    let (satellite, station) = (NodeId(0), NodeId(layout.satellite_count() as u32));
    let none = BTreeSet::new();
    let of = |node, satellites| contexts(&layout, &plan, spec, None, node, satellites).unwrap();
    let mut both = of(satellite, &none);
    both.extend(of(station, &serving[0]));
    both
}

/// The last station and its host are another system's. Contexts of a satellite that the station uses, of one that it does not,
/// of the first station and the host behind it, which are the satellites' system's, and of the last station.
fn between_systems(spec: &Spec, in_areas: bool) -> Vec<Context> {
    let mut stepper = common::with_hosts();
    let layout = stepper.layout().clone();
    let areas = in_areas.then(|| Areas::new(&layout, Grouping::Planes(2)).unwrap());
    let plan = match &areas {
        Some(areas) => AddressPlan::in_blocks(&layout, &AddressBlocks::default(), areas),
        None => AddressPlan::new(&layout, &AddressBlocks::default()),
    };
    let plan = plan.unwrap();
    let mut serving = serving_within(&mut stepper, 60, &|| true).unwrap();
    let first = NodeId(layout.satellite_count() as u32);
    let last = NodeId(first.0 + serving.len() as u32 - 1);
    let used = serving[0].first().unwrap().1;
    let uplinks = Served::from([(layout.gsl_port(last), used)]);
    *serving.last_mut().unwrap() = uplinks.clone();
    let system = |asn, nodes: &[NodeId]| System {
        asn,
        nodes: nodes.iter().copied().collect(),
        reflectors: BTreeSet::new(),
    };
    let id = |name: &str| layout.find(name).unwrap().id;
    let mut others = vec![last, id("server")];
    if spec.software == Software::Frr {
        // Some stations of the satellites' system and some of another are more than FRR can do.
        others.extend((first.0..last.0).map(NodeId).chain([id("user")]));
    }
    let spec = Spec {
        systems: vec![system(65001, &[]), system(65002, &others)],
        ..spec.clone()
    };
    let spec = spec.with_uplinks(&layout, &serving);
    assert!(spec.speaks(&layout, used) && spec.speaks(&layout, last));
    let unused = (0..first.0).map(NodeId).find(|n| !spec.speaks(&layout, *n));
    let none = Served::new();
    let nodes = [
        (used, &none),
        (unused.unwrap(), &none),
        (first, &serving[0]),
        (id("user"), &none),
        (last, &uplinks),
    ];
    let of = |(node, satellites)| {
        contexts(&layout, &plan, &spec, areas.as_ref(), node, satellites).unwrap()
    };
    nodes.into_iter().flat_map(of).collect()
}

#[test]
fn configurations_between_systems_read_as_agreed() {
    let frr = Spec {
        software: Software::Frr,
        ipv6: false,
        ..OSPF
    };
    let both = Spec {
        ipv6: true,
        ..frr.clone()
    };
    let cases = [
        ("bird-uplinks", OSPF, false),
        ("bird-uplinks-areas", OSPF, true),
        ("frr-uplinks", frr, false),
        ("frr-uplinks-both", both, false),
    ];
    let of = |(name, spec, in_areas): (&'static str, Spec, bool)| {
        (name, between_systems(&spec, in_areas))
    };
    agree(cases.map(of));
}

#[test]
fn every_configuration_reads_as_agreed() {
    let bfd = Some(Bfd {
        interval_ms: 300,
        multiplier: 3,
    });
    let frr = Software::Frr;
    let cases = [
        ("bird-ospf", OSPF),
        (
            "bird-ospf-v4-bfd",
            Spec {
                ipv6: false,
                bfd,
                kernel_events: false,
                ..OSPF
            },
        ),
        (
            "bird-babel",
            Spec {
                protocol: Protocol::Babel,
                ..OSPF
            },
        ),
        (
            "frr-ospf",
            Spec {
                software: frr,
                bfd,
                ..OSPF
            },
        ),
        (
            "frr-isis",
            Spec {
                software: frr,
                protocol: Protocol::Isis,
                ..OSPF
            },
        ),
    ];
    agree(cases.map(|(name, spec)| (name, of_both(&spec))));
}

/// The shipped templates make the goldens of these.
fn agree<const N: usize>(cases: [(&str, Vec<Context>); N]) {
    let bless = std::env::var_os("CONSTEL_BLESS").is_some();
    let templates = Templates::new(None).unwrap();
    let mut differing = Vec::new();
    for (case, contexts) in cases {
        let mut text = String::new();
        for context in contexts {
            text += &format!("==== {} of {}\n", context.program, context.node.name);
            text += &templates.render(&context).unwrap();
        }
        let golden = Path::new("tests/golden").join(format!("{case}.conf"));
        if bless {
            fs::write(&golden, &text).unwrap();
        } else if fs::read_to_string(&golden).unwrap_or_default() != text {
            differing.push(format!("{case}:\n{text}"));
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

#[test]
fn border_routers_speak_bgp_with_their_neighbours() {
    let stepper = common::with_hosts();
    let layout = stepper.layout().clone();
    let plan = AddressPlan::new(&layout, &AddressBlocks::default()).unwrap();
    let id = |name: &str| layout.find(name).unwrap().id;
    let only = |asn, nodes: &[&str], reflectors: &[&str]| System {
        asn,
        nodes: nodes.iter().map(|n| id(n)).collect(),
        reflectors: reflectors.iter().map(|n| id(n)).collect(),
    };
    let (first, last) = (
        common::cities()[0].name.clone(),
        common::cities().pop().unwrap().name,
    );
    let reflector = common::cities()[1].name.clone();
    let none = BTreeSet::new();
    let templates = Templates::new(None).unwrap();
    let bird = [
        "as 65001;",
        "as 65002;",
        "multihop;",
        "next hop self;",
        "direct;",
    ];
    let frr = [
        "router bgp 65001",
        "router bgp 65002",
        "remote-as 65002",
        "redistribute bgp",
        "next-hop-self",
    ];
    for (software, wanted) in [(Software::Bird, bird), (Software::Frr, frr)] {
        let spec = |reflectors: &[&str]| Spec {
            software,
            systems: vec![
                only(65001, &[], reflectors),
                only(65002, &["user"], &[]),
                only(65003, &["server"], &[]),
            ],
            ..OSPF
        };
        let meshed = spec(&[]);
        let speakers = meshed.speakers(&layout);
        let expected = [&*first, &*last, "user", "server"].map(id);
        assert_eq!(speakers, BTreeSet::from(expected));
        let mut text = String::new();
        for node in [&*first, "user"] {
            for context in contexts(&layout, &plan, &meshed, None, id(node), &none).unwrap() {
                text += &format!("==== {} of {node}\n", context.program);
                text += &templates.render(&context).unwrap();
            }
        }
        for part in wanted {
            assert!(text.contains(part), "{part} missing in\n{text}");
        }
        // With a reflector, border routers talk to it alone, and it to both of them.
        let reflected = spec(&[&reflector]);
        let inside = |node: &str| -> Vec<(String, bool)> {
            let all = contexts(&layout, &plan, &reflected, None, id(node), &none).unwrap();
            let bgp = all[0].bgp.clone().unwrap();
            let inside = bgp.neighbors.iter().filter(|n| !n.external);
            inside.map(|n| (n.node.clone(), n.client)).collect()
        };
        assert_eq!(inside(&first), [(reflector.clone(), false)]);
        let mut both = [(first.clone(), true), (last.clone(), true)];
        both.sort_by_key(|(name, _)| id(name));
        assert_eq!(inside(&reflector), both);
    }
}

#[test]
fn a_users_template_takes_the_place_of_all_and_can_include_the_shipped() {
    let text = "{% if program == \"bird\" %}{% include \"bird.conf.j2\" %}{% endif %}# {{ ports | length }} ports\n";
    let mine = Templates::new(Some(("mine.j2", text))).unwrap();
    let context = &of_both(&OSPF)[0];
    let shipped = Templates::new(None).unwrap().render(context).unwrap();
    let ports = context.ports.len();
    assert_eq!(
        mine.render(context).unwrap(),
        format!("{shipped}# {ports} ports\n")
    );
}

#[test]
fn a_templates_error_has_its_place() {
    let broken = Templates::new(Some(("mine.j2", "fine\n{% if %}\n"))).unwrap_err();
    assert_eq!(
        (broken.template.as_str(), broken.line),
        ("mine.j2", Some(2))
    );
    let missing = Templates::new(Some(("mine.j2", "\n\n{{ node.colour.rgb }}\n"))).unwrap();
    let error = missing.render(&of_both(&OSPF)[0]).unwrap_err();
    assert_eq!(
        (error.template.as_str(), error.line),
        ("mine.j2", Some(3)),
        "{error}"
    );
}

#[test]
fn wrong_asks_are_refused() {
    let layout = common::lab(WalkerKind::Delta, (3, 1, 0), 60.0, 780.0, common::cities())
        .layout()
        .clone();
    let plan = AddressPlan::new(&layout, &AddressBlocks::default()).unwrap();
    let spec = Spec {
        protocol: Protocol::Isis,
        hello_s: 0,
        dead_s: 1,
        isl_cost: 0,
        ipv4: false,
        ipv6: false,
        ..OSPF
    };
    let listed: Served = [(layout.gsl_port(NodeId(4)), NodeId(3))].into();
    let errors = contexts(&layout, &plan, &spec, None, NodeId(4), &listed).unwrap_err();
    let text: Vec<String> = errors.iter().map(ToString::to_string).collect();
    for part in [
        "hello time in seconds is 0",
        "ISL cost is 0",
        "IPv4 or IPv6",
        "not speak IS-IS",
        "`london` is no satellite",
    ] {
        assert!(
            text.iter().any(|t| t.contains(part)),
            "{part} missing in {text:?}"
        );
    }
    let short = Spec {
        hello_s: 3,
        dead_s: 5,
        ..OSPF
    };
    assert!(
        short.check().unwrap_err()[0]
            .to_string()
            .contains("at least 6")
    );
}

/// Each terminal's port knows the satellites of its own operator, and nothing passes a user of both.
#[test]
fn terminals_of_two_operators_are_ports_with_neighbours_of_their_own() {
    let mut stepper = common::two_operators();
    let layout = stepper.layout().clone();
    let plan = AddressPlan::new(&layout, &AddressBlocks::default()).unwrap();
    let serving = serving_within(&mut stepper, 300, &|| true).unwrap();
    let templates = Templates::new(None).unwrap();
    let text = |name: &str, place: usize, spec: &Spec| -> String {
        let node = layout.find(name).unwrap().id;
        let contexts = contexts(&layout, &plan, spec, None, node, &serving[place]).unwrap();
        for context in &contexts {
            for (port, operator) in [("gsl0", "low-"), ("gsl1", "high-")] {
                let row = context.ports.iter().find(|row| row.name == port).unwrap();
                assert!(row.peers.len() > 1, "{name} {port}");
                assert!(row.peers.iter().all(|peer| peer.node.starts_with(operator)));
            }
        }
        let rendered = contexts.iter().map(|c| templates.render(c).unwrap());
        rendered.collect()
    };
    let frr = Software::Frr;
    let cases = [
        (OSPF, "stub router yes;", 2),
        (
            Spec {
                software: frr,
                ..OSPF
            },
            "max-metric router-lsa administrative",
            1,
        ),
        (
            Spec {
                software: frr,
                ..OSPF
            },
            "stub-router administrative",
            1,
        ),
        (
            Spec {
                software: frr,
                protocol: Protocol::Isis,
                ..OSPF
            },
            "set-overload-bit",
            1,
        ),
    ];
    for (spec, words, count) in cases {
        assert_eq!(
            text("user", 0, &spec).matches(words).count(),
            count,
            "{words}"
        );
        assert_eq!(
            text("gateway", 1, &spec).matches(words).count(),
            0,
            "{words}"
        );
    }
    let babel = Spec {
        protocol: Protocol::Babel,
        ..OSPF
    };
    let (user, gateway) = (text("user", 0, &babel), text("gateway", 1, &babel));
    assert!(!user.contains("export where source = RTS_BABEL"));
    assert_eq!(
        gateway.matches("export where source = RTS_BABEL").count(),
        2
    );
}
