//! The satellites of one station over a part of the interval.

use constel_orbit::{Geodetic, Site};
use constel_topology::{NodeId, Snapshot};

use constel_plan::Lab;

/// A station's tally.
#[derive(Clone, Default)]
pub(super) struct Station {
    pub(super) dark_ns: u64,
    pub(super) longest_ns: u64,
    /// The stretch of darkness that reaches to the last sample's end.
    pub(super) tail_ns: u64,
    /// The stretch that began with the part.
    pub(super) head_ns: u64,
    /// False once there was light.
    pub(super) dark_so_far: bool,
    pub(super) first_dark_ns: Option<u64>,
    pub(super) handovers: u64,
    pub(super) in_view: (u32, u64, u32),
    pub(super) counted: u64,
    pub(super) first: Vec<NodeId>,
    pub(super) last: Vec<NodeId>,
}

impl Station {
    pub(super) fn darken(&mut self, t_ns: u64, dark_ns: u64, length_ns: u64) {
        if dark_ns > 0 {
            self.first_dark_ns = self.first_dark_ns.or(Some(t_ns));
            self.dark_ns += dark_ns;
            self.tail_ns += dark_ns;
            self.longest_ns = self.longest_ns.max(self.tail_ns);
        }
        if self.dark_so_far {
            self.head_ns += dark_ns;
        }
        if dark_ns < length_ns {
            self.dark_so_far = false;
            self.tail_ns = 0;
        }
    }

    pub(super) fn join(&mut self, later: Self) {
        self.dark_ns += later.dark_ns;
        self.longest_ns = self
            .longest_ns
            .max(later.longest_ns)
            .max(self.tail_ns + later.head_ns);
        self.tail_ns = if later.dark_so_far {
            self.tail_ns + later.tail_ns
        } else {
            later.tail_ns
        };
        if self.dark_so_far {
            self.head_ns += later.head_ns;
        }
        self.dark_so_far &= later.dark_so_far;
        self.first_dark_ns = self.first_dark_ns.or(later.first_dark_ns);
        self.handovers += later.handovers + u64::from(self.last != later.first);
        self.last = later.last;
        if later.counted > 0 {
            let (mine, theirs) = (self.in_view, later.in_view);
            self.in_view = match self.counted {
                0 => theirs,
                _ => (
                    mine.0.min(theirs.0),
                    mine.1 + theirs.1,
                    mine.2.max(theirs.2),
                ),
            };
            self.counted += later.counted;
        }
    }

    /// Counts the satellites above the mask.
    pub(super) fn count(
        &mut self,
        lab: &Lab,
        s: usize,
        position: constel_orbit::DVec3,
        snapshot: &Snapshot,
    ) {
        let spec = lab.layout.spec();
        let site = Site::new(&Geodetic::from_itrf_m(position));
        let mut positions = snapshot.positions_itrf_m.as_slice();
        let mut seen = 0;
        for (k, constellation) in spec.constellations.iter().enumerate() {
            let (here, later) = positions.split_at(constellation.satellites.len());
            positions = later;
            let Some(mask_deg) = lab.layout.lowest_mask_deg(s, k) else {
                continue;
            };
            let sin_mask = mask_deg.to_radians().sin();
            // False for a satellite without a position.
            let above = |(satellite, p): &(&constel_topology::Satellite, &constel_orbit::DVec3)| {
                constellation.ground.has(satellite.shell) && site.sin_elevation(**p) >= sin_mask
            };
            seen += constellation
                .satellites
                .iter()
                .zip(here)
                .filter(above)
                .count() as u32;
        }
        let (least, sum, most) = if self.counted == 0 {
            (seen, 0, seen)
        } else {
            self.in_view
        };
        self.in_view = (least.min(seen), sum + u64::from(seen), most.max(seen));
        self.counted += 1;
    }
}
