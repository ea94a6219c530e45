//! Laws of choosing satellites: for every policy, capacity, number of antennas and kind of handover.

use crate::common;

use common::*;
use constel_orbit::{Geodetic, Site, WalkerKind};
use constel_topology::{
    Chosen, Down, GslPolicy, Layout, LinkReason, NodeId, Obstacle, PlainPolicy, Snapshot, Spec,
    Station, Stepper, Switched, diff, why,
};
use proptest::prelude::*;
use std::num::NonZeroU32;
use std::sync::Arc;

/// Links of a station that carry frames at the start of the step.
fn usable(layout: &Layout, snapshot: &Snapshot, station: NodeId) -> usize {
    let edges = snapshot.edges_from(layout.gsl_port(station));
    edges.iter().filter(|e| e.usable_at(snapshot.t_ns)).count()
}

/// The satellites a station sees at or above its constellation's mask.
fn in_view(layout: &Layout, snapshot: &Snapshot, station: NodeId) -> Vec<NodeId> {
    let place = &layout.spec().stations[station.index() - layout.satellite_count()];
    let site = Site::new(&Geodetic {
        latitude_rad: place.latitude_deg.to_radians(),
        longitude_rad: place.longitude_deg.to_radians(),
        height_m: place.altitude_m,
    });
    let sin_mask = layout.spec().constellations[0]
        .min_elevation_deg
        .to_radians()
        .sin();
    (0..layout.satellite_count())
        .filter(|i| site.sin_elevation(snapshot.positions_itrf_m[*i]) >= sin_mask)
        .map(|i| NodeId(i as u32))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn every_policy_keeps_the_laws(
        policy in policies(),
        (planes, slots) in (2_u32..10, 3_u32..14),
        antennas in prop::collection::vec((1_u8..4, -60.0..60.0_f64, -180.0..180.0_f64), 1..8),
        beams in prop::option::of(1_u32..4),
        outage in 0_u64..6,
        make_before_break in any::<bool>(),
        step_ns in prop::sample::select(vec![500_000_000_u64, 1_000_000_000, 3_000_000_000]),
        at in 0_u64..300,
    ) {
        let mut shell = walker("w", WalkerKind::Delta, (planes * slots, planes, 1), 53.0, 1100.0);
        shell.constellation.beams = beams.and_then(NonZeroU32::new);
        let stations: Vec<Station> = antennas
            .iter()
            .enumerate()
            .map(|(i, (count, lat, lon))| {
                let mut station = station(&format!("g{i}"), *lat, *lon);
                station.terminals[0].antennas = *count;
                station
            })
            .collect();
        let shells = vec![shell];
        let mut spec = spec(&shells, stations);
        spec.step_ns = step_ns;
        spec.rules[0].policy = policy;
        spec.rules[0].outage_ns = outage * SECOND / 2;
        spec.rules[0].make_before_break = make_before_break;
        let sky = sky(shells);
        let layout = Arc::new(Layout::new(spec, &*sky).unwrap());
        let mut stepper = Stepper::new(layout.clone(), sky.clone());
        let mut before = stepper.at_step(at);
        for _ in 0..12 {
            let snapshot = stepper.advance();
            let scratch = Stepper::new(layout.clone(), sky.clone()).at_step(snapshot.step);
            prop_assert_eq!(&scratch, &snapshot, "from scratch");
            for (i, station) in layout.spec().stations.iter().enumerate() {
                let own = &snapshot.beams[layout.beams_of(i)];
                prop_assert_eq!(own.len(), usize::from(station.terminals[0].antennas));
                prop_assert_eq!(own[0], snapshot.serving[i]);
                // No antenna has more than its satellite and the one it leaves.
                let port = layout.gsl_port(layout.find(&station.name).unwrap().id);
                let links = snapshot.edges_from(port);
                let most = own.len() * if make_before_break { 2 } else { 1 };
                prop_assert!(links.len() <= most);
                let mut ends: Vec<_> = links.iter().map(|e| e.to).collect();
                ends.dedup();
                prop_assert_eq!(ends.len(), links.len(), "one satellite, one link");
                for edge in links {
                    let satellite = layout.port(edge.to).node;
                    let station = layout.port(port).node;
                    prop_assert!(!matches!(why(&layout, &snapshot, station, satellite), LinkReason::Down(_)));
                }
            }
            for satellite in 0..layout.satellite_count() {
                let port = layout.gsl_port(NodeId(satellite as u32));
                let most = beams.map_or(usize::MAX, |b| b as usize);
                prop_assert!(snapshot.edges_from(port).len() <= most, "over capacity");
            }
            let delta = diff(&layout, &before, &snapshot);
            let moved = before.beams.iter().zip(&snapshot.beams).any(|(a, b)| a != b);
            prop_assert_eq!(moved, !delta.handovers.is_empty());
            before = snapshot;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whenever two satellites are in view that stay in view for as long as a change takes, a station
    /// that makes before it breaks has a usable link.
    #[test]
    fn make_before_break_is_never_dark(
        policy in policies().prop_filter("keeps to its slots", |p| !matches!(p, GslPolicy::Scheduler { .. })),
        (lat, lon) in (-50.0..50.0_f64, -180.0..180.0_f64),
        outage in 1_u64..8,
    ) {
        let shells = vec![starlink_shell1()];
        let mut spec = spec(&shells, vec![station("here", lat, lon)]);
        spec.rules[0].policy = policy;
        spec.rules[0].outage_ns = outage * SECOND;
        spec.rules[0].make_before_break = true;
        let sky = sky(shells);
        let layout = Arc::new(Layout::new(spec, &*sky).unwrap());
        let here = layout.find("here").unwrap().id;
        let mut stepper = Stepper::new(layout.clone(), sky);
        let snapshots: Vec<Snapshot> = (0..300).map(|_| stepper.advance()).collect();
        let views: Vec<Vec<NodeId>> =
            snapshots.iter().map(|s| in_view(&layout, s, here)).collect();
        let span = outage as usize + 1;
        let mut handovers = 0;
        let mut sound = true;
        for (i, snapshot) in snapshots.iter().enumerate().take(views.len() - span) {
            let staying = views[i].iter().filter(|s| views[i + span].contains(s)).count();
            sound &= staying >= 2;
            if sound {
                prop_assert!(usable(&layout, snapshot, here) >= 1, "dark at {} s", i);
            }
            handovers += usize::from(i > 0 && snapshots[i - 1].serving != snapshot.serving);
        }
        // The law is about changes, and no pass above 25 degrees lasts longer than 260 s.
        prop_assert!(handovers > 0);
    }
}

#[test]
fn break_before_make_is_dark_and_make_before_break_is_not() {
    let run = |make_before_break| {
        let shells = vec![starlink_shell1()];
        let mut spec = spec(&shells, vec![station("london", 51.5, -0.12)]);
        spec.rules[0].policy = GslPolicy::Plain(PlainPolicy::LongestVisible);
        spec.rules[0].outage_ns = 2 * SECOND;
        spec.rules[0].make_before_break = make_before_break;
        let sky = sky(shells);
        let layout = Arc::new(Layout::new(spec, &*sky).unwrap());
        let london = layout.find("london").unwrap().id;
        let mut stepper = Stepper::new(layout.clone(), sky);
        (0..900)
            .filter(|_| usable(&layout, &stepper.advance(), london) == 0)
            .count()
    };
    let (dark, lit) = (run(false), run(true));
    assert!(dark >= 4, "{dark}");
    assert_eq!(lit, 0);
}

/// The choices of one policy, given to a lab of another one beforehand, are those of that lab from then on.
#[test]
fn what_was_chosen_beforehand_is_used() {
    let (from, to) = (20, 80);
    let shells = vec![starlink_shell1()];
    let mut chosen = spec(&shells, cities());
    chosen.rules[0].policy = GslPolicy::Plain(PlainPolicy::LongestVisible);
    let sky = sky(shells);
    let serving = |spec: &Spec| {
        let layout = Arc::new(Layout::new(spec.clone(), &*sky).unwrap());
        let mut stepper = Stepper::new(layout, sky.clone());
        let steps = (0..100).map(|_| stepper.advance().beams);
        steps.collect::<Vec<_>>()
    };
    let longest = serving(&chosen);
    chosen.rules[0].policy = GslPolicy::Plain(PlainPolicy::Nearest);
    let nearest = serving(&chosen);
    for (place, station) in chosen.stations.iter_mut().enumerate() {
        station.choices = (from..to)
            .map(|step| Chosen {
                t_ns: step as u64 * SECOND,
                satellites: longest[step][place].into_iter().collect(),
            })
            .collect();
        station.choices.push(Chosen {
            t_ns: to as u64 * SECOND,
            satellites: Vec::new(),
        });
    }
    let both = serving(&chosen);
    assert_eq!(both[..from], nearest[..from]);
    assert_eq!(both[from..to], longest[from..to]);
    assert!(both[to..].iter().flatten().all(Option::is_none), "dark");
    assert_ne!(nearest[from..to], longest[from..to]);
    // The first of several that can be used.
    let london = longest[from][0].unwrap();
    let never = NodeId((london.0 + 792) % 1584);
    chosen.stations[0].choices = vec![Chosen {
        t_ns: 0,
        satellites: vec![never, london],
    }];
    assert_eq!(serving(&chosen)[from][0], Some(london));
    chosen.stations[0].choices[0].satellites = vec![NodeId(1584)];
    assert!(Layout::new(chosen, &*sky).is_err(), "no satellite");
}

#[test]
fn policies_differ_as_they_say() {
    let changes = |policy| {
        let shells = vec![starlink_shell1()];
        let mut spec = spec(&shells, cities());
        spec.rules[0].policy = policy;
        let sky = sky(shells);
        let layout = Arc::new(Layout::new(spec, &*sky).unwrap());
        let mut stepper = Stepper::new(layout.clone(), sky);
        let mut before = stepper.advance();
        let mut count = 0;
        for _ in 1..1200 {
            let snapshot = stepper.advance();
            count += diff(&layout, &before, &snapshot).handovers.len();
            before = snapshot;
        }
        count
    };
    let nearest = changes(GslPolicy::Plain(PlainPolicy::Nearest));
    let longest = changes(GslPolicy::Plain(PlainPolicy::LongestVisible));
    let some = changes(GslPolicy::Hysteresis { gain_deg: 10.0 });
    println!(
        "changes of 6 stations in 20 min: nearest {nearest}, hysteresis {some}, longest {longest}"
    );
    assert!(
        longest < some && some < nearest,
        "{longest} {some} {nearest}"
    );
}

#[test]
fn the_scheduler_moves_stations_at_the_start_of_slots_only() {
    let shells = vec![starlink_shell1()];
    let mut spec = spec(&shells, spread(40));
    spec.rules[0].policy = GslPolicy::Scheduler {
        period_ns: 15 * SECOND,
        phase_ns: 12 * SECOND,
    };
    let sky = sky(shells);
    let layout = Arc::new(Layout::new(spec, &*sky).unwrap());
    let mut stepper = Stepper::new(layout.clone(), sky);
    let mut before = stepper.advance();
    let mut moved = 0;
    for step in 1..200 {
        let snapshot = stepper.advance();
        let delta = diff(&layout, &before, &snapshot);
        if step % 15 == 12 {
            moved += delta.handovers.len();
        } else {
            // Within a slot a station may only lose its satellite, which was chosen to stay.
            assert!(
                delta.handovers.is_empty(),
                "step {step}: {:?}",
                delta.handovers
            );
        }
        before = snapshot;
    }
    assert!(moved > 100, "{moved}");
}

#[test]
fn obstacles_and_the_geostationary_arc_are_kept_clear() {
    let mut shell = starlink_shell1();
    shell.constellation.gso_avoidance_deg = 18.0;
    let mut nairobi = station("nairobi", -1.29, 36.82);
    // Blocked to the east, across north.
    nairobi.obstacles = vec![Obstacle {
        from_deg: 350.0,
        to_deg: 170.0,
        elevation_deg: 80.0,
    }];
    let mut stepper = stepper(vec![shell], vec![nairobi]);
    let layout = stepper.layout().clone();
    let id = layout.find("nairobi").unwrap().id;
    let (mut gso, mut blocked, mut lit) = (0, 0, 0);
    for _ in 0..300 {
        let snapshot = stepper.advance();
        lit += usize::from(snapshot.serving[0].is_some());
        for satellite in in_view(&layout, &snapshot, id) {
            let text = why(&layout, &snapshot, id, satellite).describe(&layout);
            gso += usize::from(text.contains("from the geostationary arc, within the 18 deg"));
            blocked += usize::from(text.contains("behind an obstacle 80 deg high"));
        }
    }
    // Ten satellites overhead of which nearly all fly near the arc or in the east.
    assert!(gso > 100 && blocked > 100, "{gso} {blocked}");
    assert!(lit < 300);
}

/// Decisions at run time, step by step, give the snapshots of a spec that has them beforehand.
#[test]
fn decisions_at_run_time_are_those_of_a_spec() {
    let shells = vec![starlink_shell1()];
    let mut spec = spec(&shells, cities());
    spec.rules[0].policy = GslPolicy::Plain(PlainPolicy::LongestVisible);
    let sky = sky(shells);
    let layout = Arc::new(Layout::new(spec.clone(), &*sky).unwrap());
    let mut live = Stepper::new(Arc::clone(&layout), sky.clone());
    let laser = layout.isl_links()[7];
    let [a, b] = [laser.a, laser.b].map(|port| layout.port(port).node);
    let mut seen = vec![live.advance()];
    for step in 1..40_u64 {
        let t_ns = step * SECOND;
        let candidates = live.candidates();
        assert_eq!(candidates.len(), spec.stations.len());
        // The lowest satellite, at every other station and not in every step: a choice that no rule makes.
        for (place, own) in candidates.iter().enumerate() {
            assert_eq!(
                own.serving,
                seen.last().unwrap().beams[place]
                    .into_iter()
                    .collect::<Vec<_>>()
            );
            assert!(own.satellites.iter().all(|c| c.remaining_s.is_finite()));
            let lowest = own
                .satellites
                .iter()
                .min_by(|a, b| a.sin_elevation.total_cmp(&b.sin_elevation));
            if place % 2 == 0 && step % 5 == 0 {
                let satellites: Vec<NodeId> = lowest.map(|c| c.satellite).into_iter().collect();
                live.choose(
                    own.station,
                    Chosen {
                        t_ns,
                        satellites: satellites.clone(),
                    },
                );
                spec.stations[place]
                    .choices
                    .push(Chosen { t_ns, satellites });
            }
        }
        if step % 10 == 0 {
            let switched = Switched {
                t_ns,
                a: b,
                b: a,
                up: step % 20 == 0,
            };
            live.switch(switched);
            spec.switched.push(switched);
        }
        seen.push(live.advance());
    }
    let layout = Arc::new(Layout::new(spec, &*sky).unwrap());
    let mut again = Stepper::new(Arc::clone(&layout), sky.clone());
    let replayed: Vec<_> = seen.iter().map(|_| again.advance()).collect();
    assert_eq!(replayed, seen);
    let up = |step: usize| seen[step].edge(laser.a, laser.b).is_some();
    assert_eq!(
        [9, 10, 19, 20, 30].map(up),
        [true, false, false, true, false]
    );
    let reason = why(&layout, &seen[10], a, b);
    assert_eq!(reason, LinkReason::Down(Down::SwitchedOff));
    // A step by itself equals the one on the way.
    assert_eq!(again.at_step(15), seen[15]);
}
