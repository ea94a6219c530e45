//! Radio, weather and recordings of ground links.

use crate::radio::Carrier;
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

/// Measurements of a station's link, applied to its ground link to any satellite.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Recording {
    /// In order of time, the first at 0; each holds until the next.
    pub points: Vec<Recorded>,
    /// The period in nanoseconds after which it begins again; 0: the last point holds for good.
    pub repeat_ns: u64,
}

/// One point of a [`Recording`].
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Recorded {
    /// Nanoseconds after the start of the lab, or of the repetition.
    pub t_ns: u64,
    /// Bits per second from the ground up, instead of the rate of link and radio; `None` keeps that.
    pub up_bps: Option<NonZeroU64>,
    /// Bits per second down to the ground.
    pub down_bps: Option<NonZeroU64>,
    /// Chance that a frame is lost, on top of the link's, 0..=1.
    pub loss_ratio: f64,
    /// Delay on top of the link's, ns.
    pub extra_delay_ns: u64,
}

impl Recording {
    /// Returns the values that hold at `t_ns`; `None` without a recording.
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
