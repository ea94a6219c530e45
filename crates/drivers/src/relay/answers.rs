//! Commands of other threads to a relay thread: updates and queries.

use constel_link::{Effects, Histogram, LateFrames, Quantiles};

use super::command::{Command, PLACES_PER_TURN, Query};
use super::data_path::DataPath;
use super::instant::Change;
use super::sched::Scheduler;
use super::state::Class;
use super::stats::{EmulatorDrops, RelayStats, ThreadStats};
use super::this_thread::ThisThread;
use crate::clock::mono_ns;
use crate::update::KnownEffects;

/// Number of edges whose times are returned at a time: some 20 us of work.
const TIMES_PER_TURN: usize = 8;

impl DataPath {
    /// Handles one command of another thread; its statistics include those of the scheduler.
    pub(super) fn handle_command(&mut self, command: Command, sched: &Scheduler) {
        // The requester may have given up, so a failed reply is ignored.
        match command {
            Command::Apply {
                update,
                at_ns,
                reply,
            } => {
                let now = mono_ns();
                match at_ns.filter(|&at| at > now) {
                    Some(at_ns) => {
                        let ways = Vec::new();
                        let change = Change::Edges {
                            update,
                            ways,
                            reply,
                        };
                        self.schedule(at_ns, change);
                    }
                    None => {
                        // Frames that arrived before are looked up in the old table.
                        self.rings.look();
                        while self.intake(now) {}
                        self.apply(now, update, &reply);
                    }
                }
            }
            Command::Change(at_ns, change) => {
                if let Some(across) = &mut self.across {
                    across.instants.hear();
                }
                self.schedule(at_ns, change);
            }
            Command::Tap(tap, reply) => {
                self.pool.add_tap(tap);
                let _ = reply.try_send(());
            }
            Command::TapAlso(number, more, reply) => {
                self.pool.tap_also(number, more);
                let _ = reply.try_send(());
            }
            Command::Arrive(arrivals) => {
                for arrival in arrivals {
                    self.far.take(&arrival, &mut self.pool);
                }
            }
            Command::ComeHome(ports, reply) => {
                self.table.come_out_in_time(&ports);
                self.far.come_home(&ports);
                let _ = reply.try_send(());
            }
            Command::ApplyEffects(changes, reply) => {
                let now = mono_ns();
                // Frames that arrived before get the old effects.
                self.rings.look();
                while self.intake(now) {}
                self.apply_effects(now, &changes, &reply);
            }
            Command::LateBeyond(bound_ns) => self.state.late.beyond(bound_ns),
            Command::ClearLateness => {
                self.state.late.clear();
                self.state.lateness.clear();
                self.state.own_lateness.clear();
                if let Some(passed) = &mut self.passed {
                    passed.clear();
                }
                self.state.stalls.clear();
                for class in &mut self.state.classes {
                    class.lateness.clear();
                    class.own_lateness.clear();
                }
            }
            Command::Steer(steer, reply) => {
                // Frames that arrived before are steered by the old rules.
                let now = mono_ns();
                self.rings.look();
                while self.intake(now) {}
                let _ = reply.try_send(self.externals.steer_by(steer));
            }
            Command::ForgetTimes(ports) => self.externals.times.forget(&ports),
            Command::Classify(names, class_of) => {
                self.state.classes = names.into_iter().map(Class::new).collect();
                self.state.class_of = class_of;
            }
            Command::Query(query) => self.answer(query, sched),
        }
    }

    fn answer(&mut self, query: Query, sched: &Scheduler) {
        match query {
            Query::Transit(first, most, reply) => {
                let _ = reply.try_send(self.transit.counts(first, most));
            }
            Query::Stats(reply) => {
                let stats = self.stats(sched);
                let _ = reply.try_send(stats);
            }
            Query::Edge(from, to, reply) => {
                let _ = reply.try_send(self.table.edge_stats(from, to));
            }
            Query::Edges(start, reply) => {
                let mut edges = Vec::with_capacity(PLACES_PER_TURN);
                let more = self
                    .table
                    .stats_of_places(start, PLACES_PER_TURN, &mut edges);
                let _ = reply.try_send((edges, more));
            }
            Query::Effects(from, to, reply) => {
                let in_force = self.table.effects(from, to);
                let own = self.table.own_effects(from, to).cloned();
                let _ = reply.try_send(KnownEffects {
                    in_force: in_force.map_or_else(Effects::default, |e| (*e).clone()),
                    own: own.unwrap_or_default(),
                });
            }
            Query::Lateness(reply) => {
                let _ = reply.try_send(self.state.lateness.clone());
            }
            Query::Stalls(reply) => {
                let _ = reply.try_send(self.state.stalls.kept());
            }
            Query::LateSpells(reply) => {
                let _ = reply.try_send(self.state.late.take());
            }
            Query::Externals(reply) => {
                let _ = reply.try_send(self.externals.counts());
            }
            Query::Times(start, reply) => {
                let _ = reply.try_send(self.externals.times.some(start, TIMES_PER_TURN));
            }
            Query::Air(reply) => {
                let _ = reply.try_send(self.air.counters());
            }
            Query::Classes(reply) => {
                let _ = reply.try_send(self.state.classes.clone());
            }
        }
    }

    fn stats(&mut self, sched: &Scheduler) -> ThreadStats {
        let now = mono_ns();
        // Slots that other threads have returned are free, so they are collected before free slots are counted.
        self.pool.collect_returned();
        let sums = self.rings.sums();
        let totals = self.table.totals();
        let state = &self.state;
        // Warm-up packets pass the same sockets as frames but belong to no edge.
        let injected = state.taken.saturating_sub(state.warm_up.count());
        let stats = RelayStats {
            at_ns: now,
            totals,
            emulator_drops: EmulatorDrops {
                pool: sums.dropped_pool,
                share: sums.dropped_share + state.over_share,
                ring: sums.dropped_ring,
                gso: sums.dropped_gso,
                size: sums.dropped_size + self.far.bad_size,
                error: sums.dropped_error + self.rings.malformed,
                no_buffer: totals.counters.dropped_no_buffer
                    + state.no_slot
                    + self.air.no_copy()
                    + self.far.no_slot
                    + self.transit.no_slot,
                overload: totals.counters.dropped_overload,
                trunk: self.xsk.invalid_descs()
                    + self.externals.invalid_descs()
                    + state.gso_refused,
                // The handle adds it after all threads have replied.
                backlog: 0,
            },
            captured: sums.captured,
            before_start: sums.before_start,
            foreign: sums.foreign,
            warm_ups: sums.warmed_up,
            injected,
            delivered: sums.delivered,
            joined: state.joined,
            deducted: Quantiles::default(),
            lateness: Quantiles::default(),
            own_lateness: Quantiles::default(),
            late_frames: LateFrames::default(),
            stalls: state.stalls.sums(),
            early: state.early,
            free_slots: self.pool.free() + self.rings.handed_out(),
            threads: 1,
            cpu_ns: sched.waiting.cpu_ns(&ThisThread),
            awake_ns: state.awake.total_ns(now),
            uptime_ns: now - state.started_ns,
            sleeps: sched.sleeps(),
            trunk_stalls: state.trunk_stalls,
            refused: self.xsk.refused(),
            lead_ns: sched.waiting.lead_ns(),
            updates: state.updates,
            longest_update_ns: state.longest_update_ns,
            apart_ns: sched.apart.as_ref().map_or(0, |apart| apart.total_ns(now)),
            transit: self.transit.sums(),
        };
        ThreadStats {
            stats,
            lateness: state.lateness.clone(),
            own_lateness: state.own_lateness.clone(),
            deducted: self
                .passed
                .as_ref()
                .map_or_else(Histogram::new, |p| p.off().clone()),
        }
    }
}
