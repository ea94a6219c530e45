//! The Sun and the Earth's shadow against skyfield; `oracle/sun_oracle.py` writes its numbers.

use constel_orbit::sun::{Shadow, shadow, sun_itrf_m};
use constel_orbit::{DVec3, Satellite, positions_itrf_m, tle};
use constel_units::{TimeSpan, Utc};
use serde::Deserialize;

#[derive(Deserialize)]
struct Oracle {
    start: Utc,
    seconds: i64,
    suns: Vec<Sun>,
    passes: Vec<Pass>,
}

#[derive(Deserialize)]
struct Sun {
    utc: Utc,
    sun_itrf_m: [f64; 3],
}

#[derive(Deserialize)]
struct Pass {
    line1: String,
    line2: String,
    lit_at_0: bool,
    changes_s: Vec<i64>,
}

fn oracle() -> Oracle {
    serde_json::from_str(include_str!("data/sun.json")).unwrap()
}

#[test]
fn the_sun_stands_where_skyfield_sees_it() {
    let (mut worst_deg, mut worst_ratio) = (0.0_f64, 0.0_f64);
    for o in oracle().suns {
        let (own, theirs) = (sun_itrf_m(o.utc), DVec3::from_array(o.sun_itrf_m));
        worst_deg = worst_deg.max(own.angle_between(theirs).to_degrees());
        worst_ratio = worst_ratio.max((own.length() / theirs.length() - 1.0).abs());
    }
    println!("largest difference: {worst_deg} deg, {worst_ratio} of the distance");
    assert!(worst_deg < 0.02 && worst_ratio < 2e-4);
}

#[test]
fn satellites_enter_and_leave_the_shadow_when_skyfield_says() {
    let oracle = oracle();
    let (mut changes, mut longest_penumbra_s) = (0, 0);
    for pass in &oracle.passes {
        let set = tle::parse(format!("{}\n{}\n", pass.line1, pass.line2)).unwrap();
        let satellites = [Satellite::from_elements(&set[0]).unwrap()];
        let (mut at, mut penumbra_s) = (Vec::new(), 0);
        let mut lit = pass.lit_at_0;
        for second in 0..oracle.seconds {
            if pass.changes_s.contains(&second) {
                lit = !lit;
                changes += 1;
            }
            let utc = oracle.start + TimeSpan::from_ns(second * 1_000_000_000);
            assert!(positions_itrf_m(&satellites, utc, &mut at).is_empty());
            let own = shadow(at[0], sun_itrf_m(utc));
            // The Earth's flattening moves a shadow's edge by up to 21 km, 3 s of flight and more where it is
            // crossed at a slant; the penumbra lies around the line to the Sun's centre.
            let near = pass.changes_s.iter().any(|c| (c - second).abs() <= 15);
            penumbra_s = if own == Shadow::Penumbra {
                penumbra_s + 1
            } else {
                0
            };
            longest_penumbra_s = longest_penumbra_s.max(penumbra_s);
            match own {
                Shadow::Sunlit => assert!(lit || near, "{} at {second} s", pass.line1),
                Shadow::Umbra => assert!(!lit || near, "{} at {second} s", pass.line1),
                Shadow::Penumbra => assert!(near, "{} at {second} s", pass.line1),
            }
        }
    }
    println!("{changes} entries and exits; longest penumbra {longest_penumbra_s} s");
    assert!(changes >= 10);
}
