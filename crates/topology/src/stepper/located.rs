//! Positions of all nodes.

use crate::layout::Layout;
use crate::sky::{NoPosition, Sky};
use constel_orbit::DVec3;

/// The positions of all nodes at an instant.
#[derive(Debug, Default)]
pub(super) struct Located {
    pub(super) positions: Vec<DVec3>,
    pub(super) lost: Vec<NoPosition>,
}

impl Located {
    /// With `near`, only these satellites get a position, by their places.
    pub(super) fn locate(
        &mut self,
        layout: &Layout,
        sky: &dyn Sky,
        t_ns: u64,
        near: Option<&[usize]>,
    ) {
        match near {
            None => self.lost = sky.positions_itrf_m(t_ns, &mut self.positions),
            Some(near) => sky.some_positions_itrf_m(t_ns, near, &mut self.positions),
        }
        assert_eq!(
            self.positions.len(),
            layout.satellite_count(),
            "a sky must place every satellite"
        );
        let stations = 0..layout.sites().len();
        self.positions
            .extend(stations.map(|s| layout.site_at(s, t_ns).position_itrf_m));
        let hosts = layout.host_sites().iter();
        self.positions
            .extend(hosts.map(|site| site.position_itrf_m));
    }
}
