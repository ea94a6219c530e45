//! The sky of a lab: computed orbits, and objects whose positions are given.

use constel_exchange::ephemeris::Ephemeris;
use constel_orbit::sun::sun_itrf_m;
use constel_orbit::{DVec3, Satellite, positions_itrf_m, some_positions_itrf_m};
use constel_topology::{NoPosition, Sky};
use constel_units::{TimeSpan, Utc};

/// The positions of a constellation's satellites.
#[derive(Debug, Clone)]
pub(crate) enum Orbits {
    /// Orbits from elements, of a Walker pattern or a catalogue.
    Computed(Vec<Satellite>),
    /// An ephemeris for each object.
    Given(Vec<Ephemeris>),
}

impl Orbits {
    fn count(&self) -> usize {
        match self {
            Orbits::Computed(satellites) => satellites.len(),
            Orbits::Given(objects) => objects.len(),
        }
    }
}

/// All constellations of a lab, in order.
#[derive(Debug, Clone)]
pub(crate) struct LabSky {
    start: Utc,
    parts: Vec<Orbits>,
}

impl LabSky {
    /// Creates the sky of a lab that starts at `start`. Neighbouring constellations with computed orbits are
    /// joined, so that a step computes them in one batch.
    pub(crate) fn new(start: Utc, constellations: Vec<Orbits>) -> Self {
        let mut parts: Vec<Orbits> = Vec::new();
        for next in constellations {
            match (parts.last_mut(), next) {
                (Some(Orbits::Computed(have)), Orbits::Computed(more)) => have.extend(more),
                (_, next) => parts.push(next),
            }
        }
        Self { start, parts }
    }

    fn utc_at(&self, t_ns: u64) -> Utc {
        // A lab's time is far below 292 years.
        self.start + TimeSpan::from_ns(t_ns as i64)
    }
}

impl Sky for LabSky {
    fn count(&self) -> usize {
        self.parts.iter().map(Orbits::count).sum()
    }

    fn positions_itrf_m(&self, t_ns: u64, out: &mut Vec<DVec3>) -> Vec<NoPosition> {
        let at = self.utc_at(t_ns);
        let lost = |satellite: usize, reason: String| NoPosition {
            satellite,
            t_ns,
            reason,
        };
        if let [Orbits::Computed(all)] = &self.parts[..] {
            let failures = positions_itrf_m(all, at, out).into_iter();
            return failures
                .map(|f| lost(f.index, f.error.to_string()))
                .collect();
        }
        out.clear();
        let (mut none, mut some) = (Vec::new(), Vec::new());
        for part in &self.parts {
            let first = out.len();
            match part {
                Orbits::Computed(satellites) => {
                    let failures = positions_itrf_m(satellites, at, &mut some).into_iter();
                    none.extend(failures.map(|f| lost(first + f.index, f.error.to_string())));
                    out.append(&mut some);
                }
                Orbits::Given(objects) => {
                    for object in objects {
                        match object.position_itrf_m(at) {
                            Ok(position) => out.push(position),
                            Err(outside) => {
                                none.push(lost(out.len(), outside.to_string()));
                                out.push(DVec3::NAN);
                            }
                        }
                    }
                }
            }
        }
        none
    }

    fn some_positions_itrf_m(&self, t_ns: u64, some: &[usize], out: &mut Vec<DVec3>) {
        let at = self.utc_at(t_ns);
        if let [Orbits::Computed(all)] = &self.parts[..] {
            some_positions_itrf_m(all, at, some, out);
            return;
        }
        out.clear();
        let mut part_of_all = Vec::new();
        for part in &self.parts {
            let (first, end) = (out.len(), out.len() + part.count());
            let here = some.partition_point(|i| *i < first)..some.partition_point(|i| *i < end);
            match part {
                Orbits::Computed(satellites) => {
                    let own: Vec<usize> = some[here].iter().map(|i| i - first).collect();
                    some_positions_itrf_m(satellites, at, &own, &mut part_of_all);
                    out.append(&mut part_of_all);
                }
                Orbits::Given(objects) => {
                    out.resize(end, DVec3::NAN);
                    for &i in &some[here] {
                        out[i] = objects[i - first].position_itrf_m(at).unwrap_or(DVec3::NAN);
                    }
                }
            }
        }
    }

    fn is_interrupted(&self, satellite: usize, from_ns: u64, to_ns: u64) -> bool {
        let mut first = 0;
        for part in &self.parts {
            if let (Orbits::Given(objects), Some(own)) = (part, satellite.checked_sub(first))
                && let Some(object) = objects.get(own)
            {
                let (from, to) = (self.utc_at(from_ns), self.utc_at(to_ns));
                return object
                    .holes()
                    .iter()
                    .any(|hole| hole.0 < to && hole.1 > from);
            }
            first += part.count();
        }
        false
    }

    fn sun_itrf_m(&self, t_ns: u64) -> Option<DVec3> {
        Some(sun_itrf_m(self.utc_at(t_ns)))
    }
}
