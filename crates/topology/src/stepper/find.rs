//! The satellites that terminals can use in a step.

use super::Stepper;
use super::walk::Near;
use crate::beams::Found;
use crate::ground::{Flight, Watcher, remaining_s};
use crate::node::NodeId;
use crate::visible::Window;

impl Stepper {
    /// Finds the satellites that each station can use.
    pub(super) fn find(&mut self) {
        let layout = &self.layout;
        let spec = layout.spec();
        let t_ns = self.next_step * spec.step_ns;
        let near = self.near.as_ref().map(Near::satellites);
        if near.is_none() {
            for (k, index) in self.indexes.iter_mut().enumerate() {
                index.rebuild(&self.now.positions[layout.satellites_of(k)]);
            }
        }
        for (rule, ahead) in spec.rules.iter().zip(&mut self.ahead) {
            if rule.keeps_old() {
                let end_ns = t_ns + rule.outage_ns + spec.step_ns;
                ahead.locate(layout, &*self.sky, end_ns, near);
            }
        }
        self.flights.clear();
        let wants = self.policies.iter().any(|policy| policy.wants_remaining());
        let any = wants || self.tells_remaining;
        if any && near.is_none() {
            let step_s = spec.step_ns as f64 / 1e9;
            let ways = self.now.positions.iter().zip(&self.later.positions);
            let ways = ways.take(layout.satellite_count());
            self.flights
                .extend(ways.map(|(now, later)| Flight::new(*now, *later, step_s)));
        }
        for (station, fixed) in spec.stations.iter().enumerate() {
            if !fixed.track.is_empty() {
                self.watchers[station] = Watcher::new(layout, station, t_ns);
            }
        }
        self.beams.found.clear();
        self.beams.found_starts.clear();
        self.beams.found_starts.push(0);
        for terminal in 0..self.layout.terminals().len() {
            let station = self.layout.terminals()[terminal].station;
            let node = self.layout.station_node(station);
            if self.broken.node(node).is_none() {
                self.find_for(terminal);
            }
            self.beams.found_starts.push(self.beams.found.len());
        }
    }

    /// Finds the satellites that a terminal of a working station can use; `terminal` is its index among all.
    fn find_for(&mut self, terminal: usize) {
        let layout = &self.layout;
        let spec = layout.spec();
        let t_ns = self.next_step * spec.step_ns;
        let laid = &layout.terminals()[terminal];
        let (station, rule) = (laid.station, &spec.rules[laid.rule]);
        let moves = !spec.stations[station].track.is_empty();
        let watcher = &self.watchers[station];
        let site = watcher.site.position_itrf_m;
        let foresees = rule.keeps_old();
        let end_ns = t_ns + rule.outage_ns + spec.step_ns;
        let moved = (foresees && moves).then(|| Watcher::new(layout, station, end_ns));
        let later = foresees.then(|| moved.as_ref().unwrap_or(watcher));
        let ahead = &self.ahead[laid.rule].positions;
        let counts = self.tells_remaining || self.policies[laid.rule].wants_remaining();
        let step_s = spec.step_ns as f64 / 1e9;
        for (k, index) in self.indexes.iter_mut().enumerate() {
            let Some((sin_mask, mask_deg)) = layout.mask(terminal, k) else {
                continue;
            };
            let range = layout.satellites_of(k);
            let offset = range.start;
            let flights = self.flights.get(range.clone()).unwrap_or_default();
            let (starts, ends) = (&self.now.positions, &self.later.positions);
            let window = &mut self.windows[terminal * spec.constellations.len() + k];
            if moves {
                *window = Window::default();
            }
            let look = |i: usize| {
                // Many are below the mask: the cheap test first.
                let sight = watcher.sight(starts[offset + i]);
                if sight.seen.sin_elevation < sin_mask {
                    return;
                }
                let satellite = NodeId((offset + i) as u32);
                let one = (k, satellite);
                let Ok(seen) = watcher.test_one_of(layout, terminal, one, sight, t_ns) else {
                    return;
                };
                if self.broken.node(satellite).is_some() {
                    return;
                }
                // With few satellites, each terminal computes their motion itself.
                let flight = counts.then(|| {
                    let anew = || Flight::new(starts[offset + i], ends[offset + i], step_s);
                    flights.get(i).copied().unwrap_or_else(anew)
                });
                let remaining_s = flight.map_or(f64::INFINITY, |f| remaining_s(site, &f, sin_mask));
                let leaving = later.is_some_and(|w| {
                    let sight = w.sight(ahead[offset + i]);
                    w.test_one_of(layout, terminal, one, sight, end_ns).is_err()
                });
                self.beams.found.push(Found {
                    satellite,
                    seen,
                    remaining_s,
                    leaving,
                });
            };
            match &self.near {
                None => index.candidates(window, site, mask_deg, look),
                Some(near) => near.of(terminal, range).for_each(look),
            }
        }
    }
}
