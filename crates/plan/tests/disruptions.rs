//! Networks that fall apart, are jammed, and get worse for a time.

use crate::given;

use constel_plan::Lab;
use constel_topology::{Snapshot, why};
use given::{Given, lasting};

fn lab(failures: &str) -> Result<Lab, String> {
    let text = format!(
        "spacecraft:\n  craft: {{orbit: {{altitude: 500 km, inclination: 97.4 deg}}, preset: starling}}\n\
         networks:\n  radio: {{members: [craft-*], law: {{range: 400 km}}, link: {{rate: 2 Mbit/s, queue: 32 KiB, loss: 10 %}}}}\n\
         routing: {{mode: computed}}\nfailures:\n{failures}"
    );
    lasting("30 s", &text, &Given::default())
}

fn at(lab: &Lab, t_s: u64) -> Snapshot {
    lab.stepper().at_step(t_s)
}

/// The pairs of members that have an edge, by the last digit of their names.
fn pairs(lab: &Lab, snapshot: &Snapshot) -> Vec<(u32, u32)> {
    let of = |port| lab.layout.port(port).node.0;
    snapshot
        .edges
        .iter()
        .map(|e| (of(e.from), of(e.to)))
        .collect()
}

#[test]
fn a_partition_leaves_groups_and_says_why() {
    let lab = lab("  - {name: split, at: 5 s, for: 5 s, partition: {network: radio, groups: [[craft-0, craft-1]]}}\n").unwrap();
    assert_eq!(pairs(&lab, &at(&lab, 4)).len(), 12);
    let split = at(&lab, 5);
    assert_eq!(pairs(&lab, &split), [(0, 1), (1, 0), (2, 3), (3, 2)]);
    let node = |name| lab.layout.find(name).unwrap().id;
    let reason = why(&lab.layout, &split, node("craft-0"), node("craft-2"));
    let reason = reason.describe(&lab.layout);
    assert!(reason.contains("split"), "{reason}");
    assert_eq!(pairs(&lab, &at(&lab, 10)).len(), 12);
}

#[test]
fn who_is_near_a_jammer_is_heard_and_hears_nothing() {
    // 64 km from craft to craft: the sphere reaches the two neighbours of craft 1, and itself.
    let lab = lab(
        "  - {name: noise, at: 5 s, jamming: {network: radio, node: craft-1, radius: 70 km}}\n",
    )
    .unwrap();
    assert_eq!(pairs(&lab, &at(&lab, 6)), [(0, 3), (1, 3), (2, 3)]);
    // A place that turns with the Earth is passed by.
    let place = lab_place();
    assert!(pairs(&place, &at(&place, 0)).len() < 12);
    assert_eq!(pairs(&place, &at(&place, 29)).len(), 12);
}

/// Jammed where craft 0 is at the start.
fn lab_place() -> Lab {
    let free = lab("  - {name: none, at: 29 s, nodes: [craft-0]}\n").unwrap();
    let at_m = at(&free, 0).positions_itrf_m[0];
    let place = constel_orbit::Geodetic::from_itrf_m(at_m);
    let (latitude, longitude) = (
        place.latitude_rad.to_degrees(),
        place.longitude_rad.to_degrees(),
    );
    lab(&format!(
        "  - {{name: noise, at: 0 s, jamming: {{network: radio, latitude: {latitude} deg, longitude: {longitude} deg, altitude: {} m, radius: 10 km}}}}\n",
        place.height_m
    ))
    .unwrap()
}

#[test]
fn a_disturbance_adds_loss_and_delay_to_some_edges() {
    let lab = lab("  - {name: fade, at: 5 s, disturbance: {network: radio, from: [craft-0], loss: 50 %, extra_delay: 20 ms}}\n").unwrap();
    let (before, after) = (at(&lab, 4), at(&lab, 5));
    let of = |snapshot: &Snapshot, from: u32| {
        let node = |port| lab.layout.port(port).node.0;
        let found = snapshot.edges.iter().find(|e| node(e.from) == from);
        found.unwrap().impairment
    };
    let loss = |i: &constel_link::Impairment| match i.loss {
        constel_link::Loss::Bernoulli { loss_ratio } => loss_ratio,
        _ => 0.0,
    };
    assert!((loss(&of(&before, 0)) - 0.1).abs() < 1e-12);
    assert!((loss(&of(&after, 0)) - 0.55).abs() < 1e-12);
    assert!((loss(&of(&after, 1)) - 0.1).abs() < 1e-12);
    let delay_ns = |i: &constel_link::Impairment| i.delay.delay_ns as i64;
    let more_ns = delay_ns(&of(&after, 0)) - delay_ns(&of(&before, 0));
    assert!((more_ns - 20_000_000).abs() < 10_000, "{more_ns}");
}

#[test]
fn what_is_none_is_an_error_where_it_stands() {
    for (failure, wrong) in [
        (
            "partition: {network: radio, groups: [[craft-0], [craft-9]]}",
            "no member of `radio` is called `craft-9`",
        ),
        (
            "partition: {network: radio, groups: [[craft-0], [craft-*]]}",
            "is in a group already",
        ),
        (
            "partition: {network: radio, groups: [[craft-*]]}",
            "all members of `radio` are in one group",
        ),
        (
            "disturbance: {network: radio, to: [x-*], loss: 1 %}",
            "no member of `radio` is called `x-*`",
        ),
        (
            "jamming: {network: radio, node: nobody, radius: 1 km}",
            "no node is called `nobody`",
        ),
    ] {
        let error = lab(&format!("  - {{name: f, at: 5 s, {failure}}}\n"))
            .err()
            .unwrap();
        assert!(error.contains(wrong), "{error}");
    }
}
