//! Ground links as radio and weather make them: rate, loss and delay of each direction at a moment.

use crate::down::Down;
use crate::ground::Watcher;
use crate::layout::Layout;
use crate::radio::{Signal, SlantPath};
use crate::spec::{Constellation, GslAccess, LinkClass, Station, rain_at};
use constel_link::access::Direction;
use constel_orbit::DVec3;
use std::num::NonZeroU64;

/// The signals of both directions of a radio link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Signals {
    /// From the ground up.
    pub up: Signal,
    /// Down to the ground.
    pub down: Signal,
    /// Rain at the station.
    pub rain_mm_per_h: f64,
}

/// The geometry of a ground link.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Path<'a> {
    pub(crate) watcher: &'a Watcher,
    /// The station's index in the spec.
    pub(crate) place: usize,
    pub(crate) range_m: f64,
    pub(crate) sin_elevation: f64,
    pub(crate) t_ns: u64,
}

impl Path<'_> {
    /// To a satellite at `target`.
    pub(crate) fn to(watcher: &Watcher, place: usize, target: DVec3, t_ns: u64) -> Path<'_> {
        let away = target - watcher.site.position_itrf_m;
        let range_m = away.length();
        let sin_elevation = away.dot(watcher.site.up_itrf()) / range_m;
        Path {
            watcher,
            place,
            range_m,
            sin_elevation,
            t_ns,
        }
    }

    fn elevation_rad(&self) -> f64 {
        self.sin_elevation.clamp(-1.0, 1.0).asin()
    }

    /// Returns the range of the satellite divided by its height above the station's sphere.
    fn range_ratio(&self) -> f64 {
        let radius_m = self.watcher.site.position_itrf_m.length();
        let (range_m, sine) = (self.range_m, self.sin_elevation);
        // Law of cosines in the triangle of the Earth's centre, the station and the satellite.
        let square = radius_m * radius_m + range_m * range_m + 2.0 * radius_m * range_m * sine;
        range_m / (square.sqrt() - radius_m)
    }

    /// Returns the signals of the radio; `None` for a constellation without one.
    pub(crate) fn signals(
        &self,
        layout: &Layout,
        constellation: &Constellation,
    ) -> Option<Signals> {
        let radio = constellation.radio.as_ref()?;
        let station = &layout.spec().stations[self.place];
        let path = SlantPath {
            range_m: self.range_m,
            elevation_rad: self.elevation_rad(),
            latitude_rad: self.watcher.latitude_rad,
            station_m: self.watcher.height_m,
            rain_mm_per_h: rain_at(&station.rain, self.t_ns),
        };
        Some(Signals {
            up: radio.up.signal(&path, false),
            down: radio.down.signal(&path, true),
            rain_mm_per_h: path.rain_mm_per_h,
        })
    }

    /// Gives links up and down the profile of their access, and limits their rates to those of a terminal that is alone in its
    /// cell. The profile's effects take the cell's share of these.
    fn apply_access(
        &self,
        access: &GslAccess,
        (constellation, station): (&Constellation, &Station),
        classes: &mut [LinkClass; 2],
    ) {
        let factor = match (&access.parts.sky, &constellation.radio) {
            (Some(sky), None) => {
                sky.factor(self.range_ratio(), rain_at(&station.rain, self.t_ns), 0.0)
            }
            // A radio computes range and rain by itself.
            _ => 1.0,
        };
        for (class, direction) in classes.iter_mut().zip([Direction::Up, Direction::Down]) {
            class.profile = access.profile;
            if let Some(rate) = access.parts.leg(direction).rate {
                let bps = (rate.alone_bps as f64 * factor) as u64;
                class.rate_bps = lower(class.rate_bps, NonZeroU64::new(bps.max(1)));
            }
        }
    }

    /// Rate, loss and delay of the link, up and down.
    pub(crate) fn classes(&self, layout: &Layout, constellation: &Constellation) -> [LinkClass; 2] {
        let base = if constellation.gsl_steps.is_empty() {
            constellation.gsl_class
        } else {
            constellation.gsl_class_at(self.elevation_rad().to_degrees())
        };
        let mut classes = [base; 2];
        let station = &layout.spec().stations[self.place];
        // Feeders have planned links, which no other station shares.
        if let Some(access) = constellation.access.as_ref().filter(|_| !station.feeder) {
            self.apply_access(access, (constellation, station), &mut classes);
        }
        if let Some(signals) = self.signals(layout, constellation) {
            classes[0] = carried(classes[0], &signals.up);
            classes[1] = carried(classes[1], &signals.down);
        }
        if let Some(recorded) = station.recording.at(self.t_ns) {
            let rates = [recorded.up_bps, recorded.down_bps];
            for (class, rate_bps) in classes.iter_mut().zip(rates) {
                class.rate_bps = rate_bps.or(class.rate_bps);
                class.loss_ratio = either(class.loss_ratio, recorded.loss_ratio);
                class.extra_delay_ns += recorded.extra_delay_ns;
            }
        }
        classes
    }
}

/// A link as its class allows and its carrier carries. A carrier that does not close has no link; for a call
/// that comes all the same, it keeps its class.
fn carried(class: LinkClass, signal: &Signal) -> LinkClass {
    let Some(carried) = signal.carried else {
        return class;
    };
    // At least 1 bit/s: the carrier's promise. Far below 2^63.
    let rate = NonZeroU64::new(carried.rate_bps as u64);
    LinkClass {
        rate_bps: lower(class.rate_bps, rate),
        loss_ratio: either(class.loss_ratio, carried.loss_ratio),
        ..class
    }
}

/// Returns the lower one of two rates; `None` does not limit.
fn lower(a: Option<NonZeroU64>, b: Option<NonZeroU64>) -> Option<NonZeroU64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// Limits each of the `links` of a satellite, of which this is one, to an even share of the satellite's
/// capacity.
pub(crate) fn share(classes: &mut [LinkClass; 2], capacity_bps: NonZeroU64, links: u32) {
    // At least 1 bit/s.
    let part = NonZeroU64::new(capacity_bps.get() / u64::from(links.max(1)));
    let part = part.unwrap_or(NonZeroU64::MIN);
    for class in classes {
        class.rate_bps = Some(class.rate_bps.map_or(part, |rate| rate.min(part)));
    }
}

/// Chance that at least one of two independent things happens.
fn either(a: f64, b: f64) -> f64 {
    1.0 - (1.0 - a) * (1.0 - b)
}

/// Why a radio link does not close, if it does not.
pub(crate) fn closes(signals: &Signals) -> Result<(), Down> {
    for (signal, to_ground) in [(&signals.down, true), (&signals.up, false)] {
        if signal.carried.is_none() {
            return Err(Down::NoMargin {
                to_ground,
                c_n_db: signal.c_n_db,
                rain_db: signal.rain_db,
                gas_db: signal.gas_db,
            });
        }
    }
    Ok(())
}
