//! Ground links as radio and weather make them: rate, loss and delay of each direction at a moment.

use crate::ground::Watcher;
use crate::layout::Layout;
use crate::spec::{Constellation, LinkClass};
use crate::why::Down;
use constel_orbit::DVec3;
use constel_radio::{Carrier, Signal, SlantPath};
use std::num::NonZeroU64;

/// Radio of a constellation's ground links.
#[derive(Debug, Clone, PartialEq)]
pub struct Radio {
    /// From the ground to the satellite.
    pub up: Carrier,
    /// From the satellite to the ground.
    pub down: Carrier,
}

/// How hard it rains at a station from a time on, until the next entry.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rain {
    /// Nanoseconds after the start of the lab.
    pub t_ns: u64,
    /// Millimetres an hour, 0 to 500.
    pub mm_per_h: f64,
}

/// What was measured of a station's link, laid over whichever ground link it has.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Recording {
    /// In order of time, the first at 0; each holds until the next.
    pub points: Vec<Recorded>,
    /// After so many nanoseconds it begins again; 0: the last point holds for good.
    pub repeat_ns: u64,
}

/// One point of a [`Recording`].
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Recorded {
    /// Nanoseconds after the start of the lab, or of the repetition.
    pub t_ns: u64,
    /// Bits per second from the ground up, instead of what link and radio say; `None` leaves that.
    pub up_bps: Option<NonZeroU64>,
    /// Bits per second down to the ground.
    pub down_bps: Option<NonZeroU64>,
    /// Chance that a frame is lost, on top of the link's, 0..=1.
    pub loss_ratio: f64,
    /// Delay on top of the link's, ns.
    pub extra_delay_ns: u64,
}

impl Recording {
    /// What holds at `t_ns`; `None` without a recording.
    #[must_use]
    pub fn at(&self, t_ns: u64) -> Option<&Recorded> {
        let t_ns = t_ns.checked_rem(self.repeat_ns).unwrap_or(t_ns);
        let next = self.points.partition_point(|p| p.t_ns <= t_ns);
        self.points.get(next.checked_sub(1)?)
    }
}

/// Rain at `t_ns`, millimetres an hour.
pub(crate) fn rain_at(rain: &[Rain], t_ns: u64) -> f64 {
    let next = rain.partition_point(|r| r.t_ns <= t_ns);
    next.checked_sub(1).map_or(0.0, |at| rain[at].mm_per_h)
}

/// What both directions of a radio link come to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Signals {
    /// From the ground up.
    pub up: Signal,
    /// Down to the ground.
    pub down: Signal,
    /// Rain at the station.
    pub rain_mm_per_h: f64,
}

/// Where a ground link runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Path<'a> {
    pub(crate) watcher: &'a Watcher,
    /// Of the station in the spec.
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

    /// What the radio comes to; `None` for a constellation without one.
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

    /// Rate, loss and delay of the link, up and down.
    pub(crate) fn classes(&self, layout: &Layout, constellation: &Constellation) -> [LinkClass; 2] {
        let base = if constellation.gsl_steps.is_empty() {
            constellation.gsl_class
        } else {
            constellation.gsl_class_at(self.elevation_rad().to_degrees())
        };
        let mut classes = [base; 2];
        if let Some(signals) = self.signals(layout, constellation) {
            classes[0] = carried(base, &signals.up);
            classes[1] = carried(base, &signals.down);
        }
        let station = &layout.spec().stations[self.place];
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

/// A link as its class allows and its carrier carries. A carrier that does not close has no link; should it be
/// asked all the same, it keeps its class.
fn carried(class: LinkClass, signal: &Signal) -> LinkClass {
    let Some(carried) = signal.carried else {
        return class;
    };
    // At least 1 bit/s: the carrier's promise. Far below 2^63.
    let rate = NonZeroU64::new(carried.rate_bps as u64);
    LinkClass {
        rate_bps: match (class.rate_bps, rate) {
            (Some(most), Some(rate)) => Some(most.min(rate)),
            (most, rate) => rate.or(most),
        },
        loss_ratio: either(class.loss_ratio, carried.loss_ratio),
        ..class
    }
}

/// Gives each of the `links` of a satellite, of which this is one, at most an even share of what it can carry.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_begin_again() {
        let point = |t_ns, loss_ratio| Recorded {
            t_ns,
            loss_ratio,
            ..Recorded::default()
        };
        let mut recording = Recording {
            points: vec![point(0, 0.1), point(10, 0.2)],
            repeat_ns: 30,
        };
        let loss = |r: &Recording, t| r.at(t).map(|p| p.loss_ratio);
        assert_eq!(loss(&recording, 9), Some(0.1));
        assert_eq!(loss(&recording, 29), Some(0.2));
        assert_eq!(loss(&recording, 30), Some(0.1));
        assert_eq!(loss(&recording, 73), Some(0.2));
        recording.repeat_ns = 0;
        assert_eq!(loss(&recording, 1000), Some(0.2));
        assert_eq!(loss(&Recording::default(), 5), None);
    }

    #[test]
    fn rain_holds_until_the_next_entry() {
        let rain = [(5, 1.0), (9, 0.0)].map(|(t_ns, mm_per_h)| Rain { t_ns, mm_per_h });
        let at = [0, 5, 8, 9, 99].map(|t| rain_at(&rain, t));
        assert_eq!(at, [0.0, 1.0, 1.0, 0.0, 0.0]);
    }
}
