//! Steps through time: positions, decisions, edges. Reuses its buffers and remembers only what decisions need.

use crate::geometry::slope_ns_per_s;
use crate::layout::Layout;
use crate::node::NodeId;
use crate::policy::{Candidate, Choice, Policy, built_in};
use crate::sky::{NoPosition, Sky};
use crate::snapshot::{Edge, EdgeKind, Snapshot};
use crate::spec::LinkClass;
use crate::visible::{CapIndex, Viewpoint};
use crate::why::{isl_state, sin_sq_cutoff};
use constel_link::{Delay, Impairment, Loss, PortId, QueueLimit};
use constel_orbit::{DVec3, light_time_ns};
use std::sync::Arc;

/// Produces one [`Snapshot`] after another.
///
/// A step's snapshot is a pure function of (layout, sky, policy, step number): [`Stepper::at_step`] computed
/// from scratch equals stepping there from 0.
pub struct Stepper {
    layout: Arc<Layout>,
    sky: Arc<dyn Sky>,
    policy: Arc<dyn Policy>,
    next_step: u64,
    /// Positions of all nodes at the start of `next_step`, if already known.
    now: Located,
    now_known: bool,
    /// Positions at its end.
    later: Located,
    /// Satellite of each station in the step before `next_step`.
    serving: Vec<Option<NodeId>>,
    /// When each station's link comes up; 0 when it is.
    up_from: Vec<u64>,
    /// False until stations have chosen once: a first choice is no change.
    started: bool,
    views: Vec<Viewpoint>,
    /// Per constellation and station: sine of the mask, and the mask in degrees.
    masks: Vec<Vec<(f64, f64)>>,
    cutoffs: Vec<f64>,
    indexes: Vec<CapIndex>,
    candidates: Vec<Candidate>,
}

/// Where all nodes are at an instant.
#[derive(Debug, Default)]
struct Located {
    positions: Vec<DVec3>,
    lost: Vec<NoPosition>,
}

impl Located {
    fn locate(&mut self, layout: &Layout, sky: &dyn Sky, t_ns: u64) {
        self.lost = sky.positions_itrf_m(t_ns, &mut self.positions);
        assert_eq!(
            self.positions.len(),
            layout.satellite_count(),
            "a sky must place every satellite"
        );
        self.positions
            .extend(layout.sites().iter().map(|s| s.position_itrf_m));
    }
}

impl Stepper {
    /// Starts at step 0 with the policy the spec names.
    #[must_use]
    pub fn new(layout: Arc<Layout>, sky: Arc<dyn Sky>) -> Stepper {
        let policy = Arc::from(built_in(layout.spec().gsl.policy));
        Stepper::with_policy(layout, sky, policy)
    }

    /// Starts at step 0 with a policy of the caller's.
    #[must_use]
    pub fn with_policy(layout: Arc<Layout>, sky: Arc<dyn Sky>, policy: Arc<dyn Policy>) -> Stepper {
        let stations = layout.sites().len();
        let constellations = layout.spec().constellations.len();
        let mask = |station, constellation| {
            let mask_deg = layout.mask_deg(station, constellation);
            (mask_deg.to_radians().sin(), mask_deg)
        };
        let masks = (0..constellations)
            .map(|k| (0..stations).map(|s| mask(s, k)).collect())
            .collect();
        let cutoff = |link| sin_sq_cutoff(layout.grid_of(link).polar_cutoff_deg);
        Stepper {
            next_step: 0,
            now: Located::default(),
            now_known: false,
            later: Located::default(),
            serving: vec![None; stations],
            up_from: vec![0; stations],
            started: false,
            views: layout
                .sites()
                .iter()
                .map(|s| Viewpoint::new(s.position_itrf_m))
                .collect(),
            masks,
            cutoffs: layout.isl_links().iter().map(cutoff).collect(),
            indexes: vec![CapIndex::default(); constellations],
            candidates: Vec::new(),
            layout,
            sky,
            policy,
        }
    }

    /// What is stepped through.
    #[must_use]
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// The step the next call of [`advance`](Stepper::advance) computes.
    #[must_use]
    pub fn next_step(&self) -> u64 {
        self.next_step
    }

    /// The step that is running at `t_ns` after the start of the lab.
    #[must_use]
    pub fn step_at(&self, t_ns: u64) -> u64 {
        t_ns / self.layout.spec().step_ns
    }

    /// Goes to `step`, whatever was computed before, and computes it.
    #[must_use]
    pub fn at_step(&mut self, step: u64) -> Snapshot {
        let spec = self.layout.spec();
        // What happened longer ago than an outage lasts has no effect on a memoryless policy's step.
        let look_back = if self.policy.memoryless() {
            spec.gsl.outage_ns.div_ceil(spec.step_ns)
        } else {
            step
        };
        self.next_step = step.saturating_sub(look_back);
        self.now_known = false;
        self.started = false;
        self.serving.fill(None);
        self.up_from.fill(0);
        while self.next_step < step {
            self.locate_now();
            self.decide();
            self.next_step += 1;
            self.now_known = false;
        }
        self.advance()
    }

    /// Computes the next step.
    #[must_use]
    pub fn advance(&mut self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        self.advance_into(&mut snapshot);
        snapshot
    }

    /// Computes the next step into a snapshot whose memory is reused.
    pub fn advance_into(&mut self, snapshot: &mut Snapshot) {
        self.locate_now();
        let step_ns = self.layout.spec().step_ns;
        let t_ns = self.next_step * step_ns;
        self.later.locate(&self.layout, &*self.sky, t_ns + step_ns);
        self.decide();
        snapshot.step = self.next_step;
        snapshot.t_ns = t_ns;
        snapshot.positions_itrf_m.clone_from(&self.now.positions);
        snapshot.lost.clone_from(&self.now.lost);
        snapshot.serving.clone_from(&self.serving);
        snapshot.edges.clear();
        self.isl_edges(t_ns, &mut snapshot.edges);
        self.gsl_edges(t_ns, &mut snapshot.edges);
        snapshot.edges.sort_unstable_by_key(|e| (e.from, e.to));
        std::mem::swap(&mut self.now, &mut self.later);
        self.now_known = true;
        self.next_step += 1;
    }

    fn locate_now(&mut self) {
        if !self.now_known {
            let t_ns = self.next_step * self.layout.spec().step_ns;
            self.now.locate(&self.layout, &*self.sky, t_ns);
            self.now_known = true;
        }
    }

    /// Lets every station choose, from the positions in `now`.
    fn decide(&mut self) {
        let layout = &self.layout;
        let spec = layout.spec();
        let t_ns = self.next_step * spec.step_ns;
        if self.views.is_empty() {
            return;
        }
        for (k, index) in self.indexes.iter_mut().enumerate() {
            index.rebuild(&self.now.positions[layout.satellites_of(k)]);
        }
        for (station, site) in layout.sites().iter().enumerate() {
            let up = site.up_itrf();
            self.candidates.clear();
            for (k, index) in self.indexes.iter().enumerate() {
                let first = layout.satellites_of(k).start;
                let (sin_mask, mask_deg) = self.masks[k][station];
                index.candidates(&self.views[station], mask_deg, |i| {
                    let away = self.now.positions[first + i] - site.position_itrf_m;
                    let range_m = away.length();
                    let height_m = away.dot(up);
                    // False for a satellite without a position.
                    if height_m >= sin_mask * range_m && layout.serves_ground(first + i) {
                        self.candidates.push(Candidate {
                            satellite: NodeId((first + i) as u32),
                            range_m,
                            sin_elevation: height_m / range_m,
                        });
                    }
                });
            }
            self.candidates.sort_unstable_by_key(|c| c.satellite);
            let before = self.serving[station];
            let chosen = self.policy.choose(&Choice {
                step: self.next_step,
                station: layout.station_node(station),
                serving: before,
                candidates: &self.candidates,
            });
            self.serving[station] = chosen;
            if self.started && chosen != before && spec.gsl.outage_ns > 0 {
                self.up_from[station] = t_ns + spec.gsl.outage_ns;
            } else if self.up_from[station] <= t_ns {
                self.up_from[station] = 0;
            }
        }
        self.started = true;
    }

    fn isl_edges(&self, t_ns: u64, edges: &mut Vec<Edge>) {
        for (link, cutoff) in self.layout.isl_links().iter().zip(&self.cutoffs) {
            let state = isl_state(&self.layout, link, *cutoff, &self.now.positions);
            let Ok(range_m) = state else { continue };
            let constellation = &self.layout.spec().constellations[usize::from(link.constellation)];
            let at = Place {
                ends: (link.a, link.b),
                t_ns,
                range_m,
                up_from_ns: 0,
            };
            self.push_both(&at, EdgeKind::Isl, &constellation.isl_class, edges);
        }
    }

    fn gsl_edges(&self, t_ns: u64, edges: &mut Vec<Edge>) {
        for (station, serving) in self.serving.iter().enumerate() {
            let Some(satellite) = *serving else { continue };
            let node = self.layout.station_node(station);
            let Some(seat) = self.layout.node(satellite).seat else {
                continue;
            };
            let constellation = &self.layout.spec().constellations[usize::from(seat.constellation)];
            let positions = &self.now.positions;
            let at = Place {
                ends: (self.layout.gsl_port(node), self.layout.gsl_port(satellite)),
                t_ns,
                range_m: positions[node.index()].distance(positions[satellite.index()]),
                up_from_ns: self.up_from[station],
            };
            self.push_both(&at, EdgeKind::Gsl, &constellation.gsl_class, edges);
        }
    }

    fn push_both(&self, at: &Place, kind: EdgeKind, class: &LinkClass, edges: &mut Vec<Edge>) {
        let (a, b) = at.ends;
        let later = |p: PortId| self.later.positions[self.layout.port(p).node.index()];
        let from_ns = light_time_ns(at.range_m);
        let later_m = later(a).distance(later(b));
        // An orbit that ends within this step: the delay stays, the edge goes at the next.
        let to_ns = if later_m.is_nan() {
            from_ns
        } else {
            light_time_ns(later_m)
        };
        let step_ns = self.layout.spec().step_ns;
        let impairment = Impairment {
            delay: Delay {
                t0_ns: at.t_ns,
                delay_ns: from_ns,
                slope_ns_per_s: slope_ns_per_s(from_ns, to_ns, step_ns),
            },
            rate_bps: class.rate_bps,
            queue: QueueLimit {
                bytes: class.queue_bytes,
            },
            loss: if class.loss_ratio > 0.0 {
                Loss::Bernoulli {
                    loss_ratio: class.loss_ratio,
                }
            } else {
                Loss::None
            },
            up_from_ns: at.up_from_ns,
        };
        edges.push(Edge {
            from: a,
            to: b,
            kind,
            impairment,
        });
        edges.push(Edge {
            from: b,
            to: a,
            kind,
            impairment,
        });
    }
}

/// A link to be made: which ports, when, how long.
struct Place {
    ends: (PortId, PortId),
    t_ns: u64,
    range_m: f64,
    up_from_ns: u64,
}
