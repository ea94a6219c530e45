//! Hosts and cables: ports, edges that never move, and what takes them away.

use crate::common;

use common::{SECOND, class, sky, spec, station, walker};
use constel_orbit::WalkerKind;
use constel_topology::{
    CABLE, Cable, Failure, FailureTarget, FailureTime, HOST, Host, Layout, Spec, SpecError,
    Stepper, Switched, why,
};
use std::sync::Arc;

fn host(name: &str) -> Host {
    Host {
        class: &HOST,
        name: name.to_owned(),
        latitude_deg: 51.0,
        longitude_deg: 0.0,
        altitude_m: 10.0,
        attach: None,
    }
}

fn cable(a: &str, b: &str) -> Cable {
    Cable {
        a: a.to_owned(),
        b: b.to_owned(),
        delay_ns: 2_000_000,
        class: class(),
    }
}

/// A gateway with a router behind it and a computer behind that.
fn behind(change: impl FnOnce(&mut Spec)) -> Result<Stepper, Vec<SpecError>> {
    let shells = vec![walker("sat", WalkerKind::Delta, (24, 4, 1), 60.0, 780.0)];
    let mut spec = spec(&shells, vec![station("gateway", 51.0, 0.0)]);
    spec.hosts = vec![host("router"), host("computer")];
    spec.cables = vec![cable("router", "gateway"), cable("router", "computer")];
    change(&mut spec);
    let sky = sky(shells);
    let layout = Layout::new(spec, &*sky)?;
    Ok(Stepper::new(Arc::new(layout), sky))
}

#[test]
fn cables_are_edges_that_never_move() {
    let mut stepper = behind(|_| ()).unwrap();
    let layout = Arc::clone(stepper.layout());
    let node = |name: &str| layout.find(name).unwrap();
    assert_eq!(node("router").class, &HOST);
    let names = |name: &str| -> Vec<&str> {
        layout
            .ports_of(node(name).id)
            .iter()
            .map(|p| p.name())
            .collect()
    };
    assert_eq!(names("gateway"), ["eth0", "gsl0"]);
    assert_eq!(names("router"), ["eth0", "eth1"]);
    assert_eq!(names("computer"), ["eth0"]);
    for step in [0, 1, 100] {
        let snapshot = stepper.at_step(step);
        let cables = snapshot.edges.iter().filter(|e| e.class == &CABLE);
        let mut count = 0;
        for edge in cables {
            let (from, to) = (layout.port(edge.from), layout.port(edge.to));
            assert_eq!((from.class, to.class), (&CABLE, &CABLE));
            assert_eq!(layout.far_port(edge.from), Some(edge.to));
            let delay = edge.impairment.delay;
            assert_eq!((delay.delay_ns, delay.slope_ns_per_s), (2_000_000, 0));
            count += 1;
        }
        assert_eq!(count, 4);
        let up = why(&layout, &snapshot, node("router").id, node("computer").id);
        assert!(
            up.describe(&layout).contains("up"),
            "{}",
            up.describe(&layout)
        );
    }
    let (before, after) = (stepper.at_step(3), stepper.at_step(4));
    let delta = constel_topology::diff(&layout, &before, &after);
    let moved = delta.added.iter().chain(&delta.changed);
    assert!(moved.into_iter().all(|e| e.class != &CABLE), "{delta:?}");
}

#[test]
fn a_broken_host_loses_its_cables() {
    let mut stepper = behind(|spec| {
        spec.failures = vec![Failure {
            name: "fire".to_owned(),
            what: FailureTarget::Nodes(vec!["router".to_owned()]),
            when: FailureTime::Scheduled {
                from_ns: 5 * SECOND,
                until_ns: Some(6 * SECOND),
            },
        }];
    })
    .unwrap();
    let cables = |stepper: &mut Stepper, step| {
        let snapshot = stepper.at_step(step);
        let all = snapshot.edges.iter();
        all.filter(|e| e.class == &CABLE).count()
    };
    assert_eq!([4, 5, 6].map(|s| cables(&mut stepper, s)), [4, 0, 4]);
}

#[test]
fn cables_that_cannot_be_are_refused() {
    let said = |cables: Vec<Cable>| -> Vec<String> {
        let errors = behind(|spec| spec.cables = cables).map(|_| ()).unwrap_err();
        errors.iter().map(ToString::to_string).collect()
    };
    let errors = said(vec![
        cable("router", "nowhere"),
        cable("router", "router"),
        cable("gateway", "router"),
        cable("router", "gateway"),
    ]);
    for part in [
        "`nowhere` is no station or host",
        "both ends",
        "one already",
    ] {
        assert!(
            errors.iter().any(|e| e.contains(part)),
            "{part}: {errors:?}"
        );
    }
    let many: Vec<Cable> = (0..17)
        .map(|i| cable("gateway", &format!("h{i}")))
        .collect();
    let errors = behind(|spec| {
        spec.hosts = (0..17).map(|i| host(&format!("h{i}"))).collect();
        spec.cables = many;
    })
    .map(|_| ())
    .unwrap_err();
    assert!(errors[0].to_string().contains("more than 16"), "{errors:?}");
}

#[test]
fn ports_have_the_mtu_of_their_links() {
    let stepper = behind(|spec| {
        spec.cables[0].class.mtu_bytes = 9000;
        spec.constellations[0].gsl_class.mtu_bytes = 1400;
    })
    .unwrap();
    let layout = stepper.layout();
    let mtus = |name: &str| -> Vec<u32> {
        let ports = layout.ports_of(layout.find(name).unwrap().id);
        ports.iter().map(|port| port.mtu_bytes).collect()
    };
    assert_eq!(mtus("gateway"), [9000, 1400]);
    assert_eq!(mtus("router"), [9000, 1500]);
    assert_eq!(mtus("computer"), [1500]);
    let errors = behind(|spec| spec.cables[0].class.mtu_bytes = 9001);
    assert_eq!(errors.err().map(|errors| errors.len()), Some(1));
}

#[test]
fn a_cable_is_switched_off_and_on() {
    let mut stepper = behind(|_| ()).unwrap();
    let layout = Arc::clone(stepper.layout());
    let [router, computer] = ["router", "computer"].map(|name| layout.find(name).unwrap().id);
    let [from, to] = layout
        .cable_between(router, computer)
        .map(|c| [c.a, c.b])
        .unwrap();
    for (step, up) in [(2, false), (4, true)] {
        let t_ns = step * SECOND;
        stepper.switch(Switched {
            t_ns,
            a: computer,
            b: router,
            up,
        });
    }
    for up in [true, true, false, false, true] {
        let snapshot = stepper.advance();
        assert_eq!(snapshot.edge(from, to).is_some(), up);
        let reason = why(&layout, &snapshot, router, computer).describe(&layout);
        assert_eq!(reason == "down: switched off", !up, "{reason}");
    }
    let nowhere = Switched {
        t_ns: 0,
        a: router,
        b: router,
        up: false,
    };
    let error = behind(|spec| spec.switched = vec![nowhere]).err().unwrap();
    assert_eq!(error[0].to_string(), "a switched link must join two nodes");
}
