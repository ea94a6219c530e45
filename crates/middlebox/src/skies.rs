//! The skies of a box's rules, on the clock of its edges.

use constel_api::answers::ViaShown;
use constel_link::rules::{Action, Direction, Via};
use constel_link::{Impairment, Nanos};
use constel_units::Utc;

use crate::sky::{Sky, Stretch};

/// The seconds of a sky begin with those of UTC.
const SECOND_NS: i64 = 1_000_000_000;

/// One sky, which rules with the same path share.
struct Flight {
    via: Via,
    sky: Sky,
    /// The instant at which it began.
    epoch_ns: Nanos,
    now: Stretch,
    /// The next second, computed in advance. `None` from the moment it comes into force until the following one is
    /// computed.
    next: Option<Stretch>,
}

/// A sky whose next second has begun.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Passed {
    pub(crate) via: Via,
    /// The satellites before and after, for each end whose satellite changed.
    pub(crate) handovers: [Option<[Option<String>; 2]>; 2],
}

/// All skies of a box.
#[derive(Default)]
pub(crate) struct Skies(Vec<Flight>);

impl Skies {
    /// Starts this sky now, when the wall clock shows `wall_ns` of UTC, unless it has already started.
    ///
    /// # Errors
    /// A description, when there is no such sky.
    pub(crate) fn begin(&mut self, via: &Via, now: Nanos, wall_ns: i64) -> Result<(), String> {
        if self.find(via).is_some() {
            return Ok(());
        }
        let start_ns = via.at_unix_ns.unwrap_or(wall_ns);
        // Constellation schedulers change satellites at whole seconds.
        let into_second_ns = start_ns.rem_euclid(SECOND_NS);
        let mut sky = Sky::new(via, Utc::from_unix_ns(start_ns - into_second_ns))?;
        self.0.push(Flight {
            via: via.clone(),
            epoch_ns: now.saturating_sub(into_second_ns.unsigned_abs()),
            now: sky.second(),
            next: None,
            sky,
        });
        Ok(())
    }

    fn find(&self, via: &Via) -> Option<&Flight> {
        self.0.iter().find(|flight| flight.via == *via)
    }

    /// Removes the skies that are not wanted.
    pub(crate) fn retain(&mut self, wanted: impl Fn(&Via) -> bool) {
        self.0.retain(|flight| wanted(&flight.via));
    }

    /// Returns the impairment of a rule's edge from now on, until its sky has [passed](Skies::pass) to the next
    /// second.
    pub(crate) fn impairment(&self, action: &Action, direction: Direction) -> Impairment {
        let base = action.impairment();
        match action.via().and_then(|via| self.find(via)) {
            Some(flight) => flight.now.impairment(base, direction, flight.epoch_ns),
            None => base,
        }
    }

    /// Computes the next second of every sky, which takes some milliseconds each.
    pub(crate) fn prepare(&mut self) {
        for flight in &mut self.0 {
            let sky = &mut flight.sky;
            flight.next.get_or_insert_with(|| sky.second());
        }
    }

    /// Moves each sky whose next second has begun to that second, if it is [ready](Skies::prepare). Returns those
    /// that moved. A sky that is late by more than a second catches up by one second per call.
    pub(crate) fn pass(&mut self, now: Nanos) -> Vec<Passed> {
        let mut passed = Vec::new();
        for flight in &mut self.0 {
            let epoch_ns = flight.epoch_ns;
            let due = |next: &mut Stretch| epoch_ns + next.t_ns <= now;
            let Some(next) = flight.next.take_if(due) else {
                continue;
            };
            let before = std::mem::replace(&mut flight.now, next);
            let (old, new) = (before.serving(), flight.now.serving());
            let handover = |end: usize| {
                let both = [old[end], new[end]];
                (old[end] != new[end]).then(|| both.map(|name| name.map(str::to_owned)))
            };
            passed.push(Passed {
                via: flight.via.clone(),
                handovers: [handover(0), handover(1)],
            });
        }
        passed
    }

    /// Returns the satellites and the delay of a path at the moment.
    pub(crate) fn shown(&self, via: &Via, direction: Direction, now: Nanos) -> Option<ViaShown> {
        let flight = self.find(via)?;
        let way = flight.now.way(direction);
        let on_edge = flight
            .now
            .impairment(Impairment::delay_only(0), direction, flight.epoch_ns);
        Some(ViaShown {
            delay_ns: way.map(|_| on_edge.delay.at(now)),
            satellites: way.map_or_else(Vec::new, |way| way.satellites.clone()),
            radio_bps: way.and_then(|way| way.rate_bps).map(u64::from),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use constel_link::rules::{GroundPoint, Path};

    const S: u64 = 1_000_000_000;

    /// From London to New York.
    fn starlink() -> Via {
        Via {
            sky: "starlink-shell1".into(),
            orbital_slot_deg: None,
            from: GroundPoint {
                latitude_deg: 51.5,
                longitude_deg: -0.1,
            },
            to: GroundPoint {
                latitude_deg: 40.7,
                longitude_deg: -74.0,
            },
            at_unix_ns: None,
            min_elevation_deg: 25.0,
            outage_ns: 0,
            radio: None,
            rain_mm_per_h: [0.0; 2],
        }
    }

    fn along(via: &Via) -> Action {
        Action::Path(Box::new(Path {
            impairment: Impairment::delay_only(0),
            via: Some(via.clone()),
            effects: constel_link::Effects::default(),
        }))
    }

    #[test]
    fn seconds_of_a_sky_are_those_of_utc_and_a_late_look_misses_none() {
        let via = starlink();
        let action = along(&via);
        let mut skies = Skies::default();
        // 2026-11-21T00:00:10.250Z, at second 100 of the edges' clock.
        let wall_ns = 1_795_219_210_250_000_000;
        skies.begin(&via, 100 * S, wall_ns).unwrap();
        let starts = |skies: &Skies| skies.impairment(&action, Direction::Forward).delay.t0_ns;
        let first = 100 * S - S / 4;
        assert_eq!(starts(&skies), first);
        assert!(skies.pass(first + S).is_empty(), "it is not ready");
        skies.prepare();
        assert!(skies.pass(first + S - 1).is_empty(), "it is not time");
        assert_eq!(skies.pass(first + S)[0].handovers, [None, None]);
        assert_eq!(starts(&skies), first + S);
        // After a minute without a call, the seconds are passed one by one, each with its own handovers.
        let late = first + 61 * S + S / 2;
        let mut handovers = Vec::new();
        for second in 2..=61 {
            skies.prepare();
            let passed = skies.pass(late);
            assert_eq!(starts(&skies), first + second * S);
            let changed = passed.iter().any(|passed| passed.handovers != [None, None]);
            handovers.extend(changed.then_some(second));
        }
        skies.prepare();
        assert!(skies.pass(late).is_empty());
        // The scheduler changes at seconds 12, 27, 42 and 57 of a minute, and this began at second 10.
        assert!(!handovers.is_empty());
        assert!(
            handovers.iter().all(|second| second % 15 == 2),
            "{handovers:?}"
        );
        let shown = skies.shown(&via, Direction::Forward, late).unwrap();
        assert!(shown.delay_ns.is_some() && !shown.satellites.is_empty());
        skies.retain(|_| false);
        assert_eq!(skies.shown(&via, Direction::Forward, late), None);
    }
}
