//! Edges between members in reach of each other.

use std::num::NonZeroU64;

use constel_orbit::{DVec3, EARTH_EQUATORIAL_RADIUS_M, light_time_ns, line_of_sight};
use constel_scenario::model::RangeStep;
use constel_topology::radio::Carrier;
use constel_topology::{Law, LinkClass, Moment, NetworkEdge};

/// The law of members that see each other up to a distance.
#[derive(Debug)]
pub(crate) struct Range {
    pub(crate) most_m: f64,
    /// The height above which the line of sight must stay, unless an end is lower.
    pub(crate) atmosphere_m: f64,
    /// The properties of edges that are shorter than the first step.
    pub(crate) class: LinkClass,
    /// The steps, nearest first.
    pub(crate) steps: Vec<Step>,
    /// The radio that determines rate and loss in place of `steps`.
    pub(crate) radio: Option<Carrier>,
}

/// The rate and the loss beyond a distance.
#[derive(Debug)]
pub(crate) struct Step {
    beyond_m: f64,
    rate_bps: Option<NonZeroU64>,
    loss_ratio: f64,
}

impl Step {
    pub(crate) fn of(step: &RangeStep) -> Self {
        Self {
            beyond_m: step.beyond.m(),
            rate_bps: NonZeroU64::new(step.rate.bps()),
            loss_ratio: step.loss.get(),
        }
    }
}

impl Range {
    /// Returns the properties of an edge of this length; `None` if there is no edge.
    fn class_at(&self, range_m: f64) -> Option<LinkClass> {
        if let Some(radio) = &self.radio {
            let carried = radio.in_space(range_m)?;
            // At least 1 bit/s, and far below the largest u64.
            let rate_bps = NonZeroU64::new(carried.rate_bps as u64)?;
            let most = self.class.rate_bps;
            return Some(LinkClass {
                rate_bps: Some(most.map_or(rate_bps, |most| most.min(rate_bps))),
                loss_ratio: 1.0 - (1.0 - self.class.loss_ratio) * (1.0 - carried.loss_ratio),
                ..self.class
            });
        }
        let reached = self.steps.partition_point(|s| s.beyond_m <= range_m);
        Some(match reached.checked_sub(1) {
            None => self.class,
            Some(step) => LinkClass {
                rate_bps: self.steps[step].rate_bps,
                loss_ratio: self.steps[step].loss_ratio,
                ..self.class
            },
        })
    }

    /// Returns whether two points see each other. A point on the ground is below the sphere at high latitudes; the
    /// line must then not be above the sphere.
    fn see(&self, a: DVec3, b: DVec3) -> bool {
        let lower_m = a.length().min(b.length()) - EARTH_EQUATORIAL_RADIUS_M;
        line_of_sight(a, b, self.atmosphere_m.min(lower_m - 1.0))
    }
}

impl Law for Range {
    fn edges(&self, moment: &Moment<'_>, edges: &mut Vec<NetworkEdge>) {
        let (now, later) = (moment.now_itrf_m, moment.later_itrf_m);
        for a in 0..now.len() {
            for b in a + 1..now.len() {
                let range_m = now[a].distance(now[b]);
                // A missing position is NaN, and so within no range.
                let near = range_m <= self.most_m;
                if !near || !self.see(now[a], now[b]) {
                    continue;
                }
                let later_m = later[a].distance(later[b]);
                let later_m = if later_m.is_nan() { range_m } else { later_m };
                let Some(class) = self.class_at(range_m) else {
                    continue;
                };
                for (from, to) in [(a, b), (b, a)] {
                    edges.push(NetworkEdge {
                        from,
                        to,
                        delay_ns: light_time_ns(range_m),
                        later_delay_ns: light_time_ns(later_m),
                        class,
                    });
                }
            }
        }
    }
}
