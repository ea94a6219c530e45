//! Access of terminals: the profile of their links, and their places in time.

use std::sync::Arc;

use constel_link::access::EdgeAccess;
use constel_link::{Effects, PortId};
use constel_scenario::model;
use constel_topology::{GslAccess, Layout};
use constel_units::Utc;

use crate::ground::profile_of;

const MINUTE_NS: i64 = 60_000_000_000;
const HOUR_NS: f64 = 3.6e12;
const DAY_NS: i64 = 86_400_000_000_000;
/// Degrees of longitude by which local mean solar time is an hour later.
const DEG_PER_HOUR: f64 = 15.0;

/// Returns the access of links to the ground, and adds its profile; `None` if links have no access. The profile gets its
/// terminals by [`placed`].
pub(crate) fn of_links(gsl: &model::Gsl, profiles: &mut Vec<Effects>) -> Option<GslAccess> {
    let parts = Arc::new(gsl.access.clone()?);
    let effects = Effects {
        access: Some(EdgeAccess {
            parts: Arc::clone(&parts),
            minute_ns: 0,
            terminals: Arc::default(),
        }),
        ..gsl.link.effects.clone()
    };
    let profile = profile_of(&effects, profiles);
    Some(GslAccess { parts, profile })
}

/// Returns the profiles with the first full minute of UTC at or after lab time zero, and the local mean solar time of each
/// terminal then. Stations that move keep the time of their first place.
pub(crate) fn placed(mut profiles: Vec<Effects>, start: Utc, layout: &Layout) -> Vec<Effects> {
    let start_ns = start.unix_ns();
    let minute_ns = (MINUTE_NS - start_ns.rem_euclid(MINUTE_NS)) % MINUTE_NS;
    let day_ns = (start_ns + minute_ns).rem_euclid(DAY_NS);
    let stations = &layout.spec().stations;
    let rows = layout.terminals().iter().map(|terminal| {
        let longitude_deg = stations[terminal.station].longitude_deg;
        let hour = day_ns as f64 / HOUR_NS + longitude_deg / DEG_PER_HOUR;
        (terminal.port, hour.rem_euclid(24.0))
    });
    let mut rows: Vec<(PortId, f64)> = rows.collect();
    rows.sort_unstable_by_key(|row| row.0);
    let terminals: Arc<[_]> = rows.into();
    for access in profiles
        .iter_mut()
        .filter_map(|effects| effects.access.as_mut())
    {
        access.minute_ns = minute_ns.unsigned_abs();
        access.terminals = Arc::clone(&terminals);
    }
    profiles
}
