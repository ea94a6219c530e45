//! Ground links by radio, weather and recordings; satellites that only relay; satellites in the shadow.

use crate::common;

use common::*;
use constel_link::Loss;
use constel_orbit::sun::{Shadow, shadow};
use constel_topology::radio::{Budget, Carrier, Gases, Waveform};
use constel_topology::{
    Down, Failure, FailureTarget, FailureTime, GSL, Layout, LinkReason, NodeId, Radio, Rain,
    Recorded, Recording, Sky, Snapshot, Spec, Station, Stepper, why,
};
use std::num::NonZeroU64;
use std::sync::Arc;

fn carrier(frequency_ghz: f64) -> Carrier {
    Carrier {
        budget: Budget {
            eirp_dbw: 34.0,
            g_over_t_db_per_k: 9.0,
            frequency_hz: frequency_ghz * 1e9,
            bandwidth_hz: 240e6,
            other_losses_db: 1.0,
        },
        roll_off: 0.2,
        system_temperature_k: Some(200.0),
        tilt_rad: std::f64::consts::FRAC_PI_4,
        gases: Some(Gases::new(frequency_ghz, 7.5)),
        waveform: Waveform::DvbS2,
        margin_db: 0.5,
    }
}

fn shell1(change: impl FnOnce(&mut Spec)) -> (Arc<Layout>, Stepper) {
    let shells = vec![starlink_shell1()];
    let mut spec = spec(&shells, cities());
    spec.constellations[0].min_elevation_deg = 25.0;
    spec.constellations[0].gsl_class.rate_bps = NonZeroU64::new(900_000_000);
    change(&mut spec);
    let sky = sky(shells);
    let layout = Arc::new(Layout::new(spec, &*sky).unwrap());
    let stepper = Stepper::new(layout.clone(), sky);
    (layout, stepper)
}

fn station(layout: &Layout, name: &str) -> NodeId {
    layout.find(name).unwrap().id
}

/// Rates of a station's link, up and down.
fn rates(layout: &Layout, snapshot: &Snapshot, station: NodeId) -> Option<[u64; 2]> {
    let port = layout.gsl_port(station);
    let up = snapshot.edges_from(port).first()?;
    let down = snapshot.edge(up.to, port)?;
    Some([up, down].map(|e| e.impairment.rate_bps.unwrap().get()))
}

#[test]
fn rain_fades_links_and_why_says_so() {
    let rain = |t_s: u64, mm_per_h| Rain {
        t_ns: t_s * SECOND,
        mm_per_h,
    };
    let (layout, mut stepper) = shell1(|spec| {
        spec.constellations[0].radio = Some(Radio {
            up: carrier(14.25),
            down: carrier(11.7),
        });
        spec.stations[0].rain = vec![rain(10, 30.0), rain(20, 0.0)];
    });
    let london = station(&layout, "london");
    let (mut dry, mut wet) = (Vec::new(), Vec::new());
    for step in 0..30 {
        let snapshot = stepper.at_step(step);
        let Some([up, down]) = rates(&layout, &snapshot, london) else {
            continue;
        };
        assert!(up <= 900_000_000 && down <= 900_000_000);
        let told = why(&layout, &snapshot, london, snapshot.serving[0].unwrap());
        let LinkReason::Up {
            radio: Some(signals),
            ..
        } = told
        else {
            panic!("{told:?}");
        };
        let words = told.describe(&layout);
        // The edge's rate equals that of the text.
        let said = signals.down.carried.unwrap().rate_bps as u64;
        assert_eq!(down, said.min(900_000_000), "{words}");
        if (10..20).contains(&step) {
            assert!(
                words.contains("rain 30.0 mm/h") && words.contains("rain fade"),
                "{words}"
            );
            wet.push(down);
        } else {
            assert!(
                !words.contains("rain") && words.contains("gases"),
                "{words}"
            );
            dry.push(down);
        }
    }
    assert!(dry.len() > 15 && wet.len() > 5);
    assert!(wet.iter().max() < dry.iter().min(), "{wet:?} {dry:?}");
}

#[test]
fn a_link_that_does_not_close_is_none() {
    let (layout, mut stepper) = shell1(|spec| {
        let weak = |mut c: Carrier| {
            c.budget.eirp_dbw = 16.5;
            c
        };
        spec.constellations[0].radio = Some(Radio {
            up: weak(carrier(14.25)),
            down: carrier(11.7),
        });
        spec.stations[0].rain = vec![Rain {
            t_ns: 0,
            mm_per_h: 100.0,
        }];
    });
    let snapshot = stepper.advance();
    assert_eq!(snapshot.serving[0], None);
    let london = station(&layout, "london");
    let reasons: Vec<LinkReason> = (0..layout.satellite_count())
        .map(|s| why(&layout, &snapshot, london, NodeId(s as u32)))
        .collect();
    let up_fails = reasons.iter().find(|w| {
        matches!(
            w,
            LinkReason::Down(Down::NoMargin {
                to_ground: false,
                ..
            })
        )
    });
    let words = up_fails.unwrap().describe(&layout);
    assert!(
        words.contains("the radio link up does not close: C/N"),
        "{words}"
    );
    // Without rain, the same carriers work.
    assert!(snapshot.serving[2].is_some());
}

#[test]
fn recordings_lie_over_whatever_link_there_is() {
    let point = |t_s: u64, mbit: u64, loss_ratio, extra_delay_ns| Recorded {
        t_ns: t_s * SECOND,
        up_bps: NonZeroU64::new(mbit * 1_000_000),
        down_bps: None,
        loss_ratio,
        extra_delay_ns,
    };
    let (layout, mut stepper) = shell1(|spec| {
        spec.stations[0].recording = Recording {
            points: vec![point(0, 7, 0.0, 0), point(2, 9, 0.25, 5_000_000)],
            repeat_ns: 4 * SECOND,
        };
    });
    let (_, mut plain) = shell1(|_| {});
    let london = station(&layout, "london");
    let port = layout.gsl_port(london);
    for step in 0..12 {
        let (snapshot, bare) = (stepper.at_step(step), plain.at_step(step));
        let (own, without) = (snapshot.edges_from(port)[0], bare.edges_from(port)[0]);
        let [up, down] = rates(&layout, &snapshot, london).unwrap();
        let late = step % 4 >= 2;
        assert_eq!(up, if late { 9_000_000 } else { 7_000_000 });
        assert_eq!(down, 900_000_000);
        let extra = own.impairment.delay.delay_ns - without.impairment.delay.delay_ns;
        assert_eq!(extra, if late { 5_000_000 } else { 0 });
        let lossy = own.impairment.loss == Loss::Bernoulli { loss_ratio: 0.25 };
        assert_eq!(lossy, late);
        // No other station has it.
        let tokyo = layout.gsl_port(station(&layout, "tokyo"));
        assert_eq!(snapshot.edges_from(tokyo), bare.edges_from(tokyo));
    }
}

#[test]
fn links_share_what_a_satellite_can_carry() {
    // Three stations beside each other have one satellite; a fourth, far away, another one.
    let (layout, mut stepper) = shell1(|spec| {
        spec.stations = ["a", "b", "c"].map(|n| crowd(n, 48.0)).to_vec();
        spec.stations.push(crowd("far", -30.0));
        spec.constellations[0].capacity_bps = NonZeroU64::new(1_000_000_000);
    });
    let snapshot = stepper.advance();
    let rate = |name: &str| rates(&layout, &snapshot, station(&layout, name)).unwrap();
    for name in ["a", "b", "c"] {
        assert_eq!(rate(name), [333_333_333; 2]);
    }
    // Alone, its link's own rate is the limit.
    assert_eq!(rate("far"), [900_000_000; 2]);
    // With one beam a satellite, stations have one each, and nothing to share.
    let (layout, mut stepper) = shell1(|spec| {
        spec.stations = ["a", "b", "c"].map(|n| crowd(n, 48.0)).to_vec();
        spec.constellations[0].capacity_bps = NonZeroU64::new(500_000_000);
        spec.constellations[0].beams = std::num::NonZeroU32::new(1);
    });
    let snapshot = stepper.advance();
    for name in ["a", "b", "c"] {
        let own = rates(&layout, &snapshot, station(&layout, name));
        assert_eq!(own, Some([500_000_000; 2]));
    }
}

/// One of some stations at the same place.
fn crowd(name: &str, latitude_deg: f64) -> Station {
    Station {
        name: name.to_owned(),
        latitude_deg,
        ..Station::default()
    }
}

#[test]
fn users_of_bent_pipes_use_what_a_feeder_uses() {
    let (layout, mut stepper) = shell1(|spec| {
        spec.constellations[0].isl = constel_topology::IslPattern::None;
        spec.constellations[0].bent_pipe = true;
        // A feeder near London, and no station near the others.
        let mut feeder = common::station("feeder", 50.2, -5.1);
        feeder.feeder = true;
        feeder.terminals[0].antennas = 4;
        spec.stations.push(feeder);
    });
    let (london, tokyo) = (station(&layout, "london"), station(&layout, "tokyo"));
    let feeder = layout.gsl_port(station(&layout, "feeder"));
    let mut served = 0;
    for step in 0..120 {
        let snapshot = stepper.at_step(step);
        assert!(snapshot.edges.iter().all(|e| e.class == &GSL));
        let fed: Vec<_> = snapshot.edges_from(feeder).iter().map(|e| e.to).collect();
        assert!(fed.len() <= 4 && !fed.is_empty());
        for edge in snapshot.edges_from(layout.gsl_port(london)) {
            assert!(fed.contains(&edge.to));
            served += 1;
        }
        assert_eq!(snapshot.edges_from(layout.gsl_port(tokyo)), []);
        let told = (0..layout.satellite_count())
            .map(|s| why(&layout, &snapshot, tokyo, NodeId(s as u32)))
            .find(|w| *w == LinkReason::Down(Down::NoFeeder));
        assert!(told.is_some());
    }
    assert!(served > 100, "{served}");
}

#[test]
fn satellites_in_the_shadow_rest() {
    let shells = vec![iridium()];
    let eclipse = |duty| Failure {
        name: "dark".to_owned(),
        what: FailureTarget::Eclipse {
            constellation: 0,
            duty,
            period_ns: 60 * SECOND,
        },
        when: FailureTime::Scheduled {
            from_ns: 0,
            until_ns: None,
        },
    };
    let run = |duty: f64| {
        let shells = vec![iridium()];
        let mut spec = spec(&shells, cities());
        spec.failures = vec![eclipse(duty)];
        let sky = sky(shells);
        let layout = Arc::new(Layout::new(spec, &*sky).unwrap());
        Stepper::new(layout, sky)
    };
    let sky = sky(shells);
    let (mut never, mut half) = (run(0.0), run(0.5));
    let (mut dark, mut resting) = (0, 0);
    for step in (0..6000).step_by(7) {
        let sun = sky.sun_itrf_m(step * SECOND).unwrap();
        let (a, b) = (never.at_step(step), half.at_step(step));
        for s in 0..66 {
            let umbra = shadow(a.positions_itrf_m[s], sun) == Shadow::Umbra;
            assert_eq!(a.broken.node(NodeId(s as u32)).is_some(), umbra);
            dark += u32::from(umbra);
            let rests = b.broken.node(NodeId(s as u32)).is_some();
            assert!(umbra || !rests);
            resting += u32::from(rests);
        }
        for edge in &a.edges {
            let node = a.broken.node(never.layout().port(edge.from).node);
            assert_eq!(node, None);
        }
    }
    // Low orbits are in the umbra for about a third of the time at most.
    assert!(dark > 66 * 857 / 10 && dark < 66 * 857 * 2 / 5, "{dark}");
    let share = f64::from(resting) / f64::from(dark);
    assert!((share - 0.5).abs() < 0.02, "{share}");
}
