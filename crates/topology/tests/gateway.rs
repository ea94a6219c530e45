//! Gateways: one antenna for each shell, whatever is nearer in another.

use crate::common;

use common::*;
use constel_orbit::WalkerKind;
use constel_topology::{GslPolicy, GslSpec, Layout, PlainPolicy, Station, Stepper};
use proptest::prelude::*;
use std::sync::Arc;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn each_antenna_has_a_satellite_of_its_own_shell(
        shells in 1_usize..4,
        (latitude_deg, longitude_deg) in (-50.0..50.0_f64, -180.0..180.0_f64),
        outage_s in 0_u64..3,
        make_before_break in any::<bool>(),
        remembers in any::<bool>(),
    ) {
        let fleet: Vec<Shell> = (0..shells)
            .map(|k| {
                let altitude_km = 900.0 + 150.0 * k as f64;
                walker(&format!("k{k}"), WalkerKind::Delta, (200, 10, 1), 60.0, altitude_km)
            })
            .collect();
        let gateway = Station { gateway: true, ..station("gateway", latitude_deg, longitude_deg) };
        let plain = station("plain", latitude_deg, longitude_deg);
        let mut spec = spec(&fleet, vec![plain, gateway]);
        spec.rules[0] = GslSpec {
            policy: if remembers { GslPolicy::Plain(PlainPolicy::LongestVisible) } else { GslPolicy::Plain(PlainPolicy::Nearest) },
            outage_ns: outage_s * SECOND,
            make_before_break,
        };
        let sky = sky(fleet);
        let layout = Arc::new(Layout::new(spec, &*sky).unwrap());
        let (plain, gateway) = (layout.find("plain").unwrap().id, layout.find("gateway").unwrap().id);
        prop_assert!(layout.is_gateway(gateway) && !layout.is_gateway(plain));
        prop_assert_eq!((layout.beams_of(0).len(), layout.beams_of(1).len()), (1, shells));
        let mut stepper = Stepper::new(layout.clone(), sky);
        for _ in 0..120 {
            let snapshot = stepper.advance();
            let used = snapshot.beams[layout.beams_of(1)].iter().flatten();
            let mut of: Vec<u16> = used
                .map(|s| layout.node(*s).seat.unwrap().constellation)
                .collect();
            let count = of.len();
            of.sort_unstable();
            of.dedup();
            prop_assert_eq!(of.len(), count, "two antennas on one shell");
            // Twenty a plane, ten planes, a mask of a few degrees: every shell is in sight.
            prop_assert_eq!(count, shells);
        }
    }
}
