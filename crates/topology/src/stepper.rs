//! Steps through time: positions, decisions, edges. Reuses its buffers and remembers only what decisions need.

use crate::geometry::{delay_ns, range_m, slope_ns_per_s};
use crate::layout::Layout;
use crate::node::NodeId;
use crate::policy::{Candidate, Choice, Policy, built_in};
use crate::sky::{Sky, SkyError};
use crate::snapshot::{Edge, EdgeKind, Snapshot};
use crate::spec::LinkClass;
use crate::vec3::{V3, dot, sub};
use crate::visible::{CapIndex, Viewpoint};
use crate::why::{isl_state, sin_sq_cutoff};
use constel_link::{Delay, Impairment, Loss, PortId, QueueLimit};
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
    /// Positions of all nodes at the start of `next_step`; `false` before the first.
    now: Vec<V3>,
    now_valid: bool,
    later: Vec<V3>,
    /// Satellite of each station in the step before `next_step`; `None` at the very start.
    serving: Vec<Option<NodeId>>,
    up_from: Vec<u64>,
    started: bool,
    views: Vec<Viewpoint>,
    /// Per constellation and station: sine of the mask, and the mask in degrees.
    masks: Vec<Vec<(f64, f64)>>,
    cutoffs: Vec<f64>,
    indexes: Vec<CapIndex>,
    candidates: Vec<Candidate>,
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
        let frames = layout.station_frames();
        let stations = frames.len();
        let mut now = vec![[0.0; 3]; layout.nodes().len()];
        for (slot, frame) in now[layout.satellite_count()..].iter_mut().zip(frames) {
            *slot = frame.position;
        }
        let constellations = layout.spec().constellations.len();
        let masks = (0..constellations)
            .map(|k| {
                (0..stations)
                    .map(|s| {
                        let mask = layout.mask_deg(s, k);
                        (mask.to_radians().sin(), mask)
                    })
                    .collect()
            })
            .collect();
        let cutoffs = layout
            .isl_links()
            .iter()
            .map(|l| sin_sq_cutoff(layout.grid_of(l).polar_cutoff_deg))
            .collect();
        Stepper {
            later: now.clone(),
            now,
            now_valid: false,
            next_step: 0,
            serving: vec![None; stations],
            up_from: vec![0; stations],
            started: false,
            views: frames.iter().map(|f| Viewpoint::new(f.position)).collect(),
            masks,
            cutoffs,
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
    ///
    /// # Errors
    /// When a satellite has no position then.
    pub fn at_step(&mut self, step: u64) -> Result<Snapshot, SkyError> {
        let spec = self.layout.spec();
        // What happened longer ago than an outage lasts has no effect on a memoryless policy's step.
        let look_back = if self.policy.memoryless() {
            spec.gsl.outage_ns.div_ceil(spec.step_ns)
        } else {
            step
        };
        self.next_step = step.saturating_sub(look_back);
        self.now_valid = false;
        self.started = false;
        self.serving.fill(None);
        self.up_from.fill(0);
        while self.next_step < step {
            self.locate()?;
            self.decide();
            self.next_step += 1;
            self.now_valid = false;
        }
        self.advance()
    }

    /// Computes the next step.
    ///
    /// # Errors
    /// When a satellite has no position then, or at the step's end.
    pub fn advance(&mut self) -> Result<Snapshot, SkyError> {
        let mut snapshot = Snapshot::default();
        self.advance_into(&mut snapshot)?;
        Ok(snapshot)
    }

    /// Computes the next step into a snapshot whose memory is reused.
    ///
    /// # Errors
    /// When a satellite has no position then, or at the step's end. Nothing has changed then.
    pub fn advance_into(&mut self, snapshot: &mut Snapshot) -> Result<(), SkyError> {
        self.locate()?;
        let step_ns = self.layout.spec().step_ns;
        let t_ns = self.next_step * step_ns;
        let satellites = self.layout.satellite_count();
        self.sky
            .positions_itrf_m(t_ns + step_ns, &mut self.later[..satellites])?;
        self.decide();
        snapshot.step = self.next_step;
        snapshot.t_ns = t_ns;
        snapshot.positions_itrf_m.clone_from(&self.now);
        snapshot.serving.clone_from(&self.serving);
        snapshot.edges.clear();
        self.isl_edges(t_ns, &mut snapshot.edges);
        self.gsl_edges(t_ns, &mut snapshot.edges);
        snapshot.edges.sort_unstable_by_key(|e| (e.from, e.to));
        std::mem::swap(&mut self.now, &mut self.later);
        self.now_valid = true;
        self.next_step += 1;
        Ok(())
    }

    /// Makes `now` the positions at the start of `next_step`.
    fn locate(&mut self) -> Result<(), SkyError> {
        if !self.now_valid {
            let t_ns = self.next_step * self.layout.spec().step_ns;
            let satellites = self.layout.satellite_count();
            self.sky
                .positions_itrf_m(t_ns, &mut self.now[..satellites])?;
            self.now_valid = true;
        }
        Ok(())
    }

    /// Lets every station choose, from the positions in `now`.
    fn decide(&mut self) {
        let layout = &self.layout;
        let spec = layout.spec();
        let t_ns = self.next_step * spec.step_ns;
        for (k, index) in self.indexes.iter_mut().enumerate() {
            if !self.views.is_empty() {
                index.rebuild(&self.now[layout.satellites_of(k)]);
            }
        }
        for (station, frame) in layout.station_frames().iter().enumerate() {
            self.candidates.clear();
            for (k, index) in self.indexes.iter().enumerate() {
                let first = layout.satellites_of(k).start;
                let (sin_mask, mask_deg) = self.masks[k][station];
                index.candidates(&self.views[station], mask_deg, |i| {
                    let d = sub(self.now[first + i], frame.position);
                    let range_m = dot(d, d).sqrt();
                    let height = dot(d, frame.up);
                    if height >= sin_mask * range_m {
                        self.candidates.push(Candidate {
                            satellite: NodeId((first + i) as u32),
                            range_m,
                            sin_elevation: height / range_m,
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
            let Ok(range_m) = isl_state(&self.layout, link, *cutoff, &self.now) else {
                continue;
            };
            let class =
                &self.layout.spec().constellations[usize::from(link.constellation)].isl_class;
            let ends = (link.a, link.b);
            self.push_both(ends, EdgeKind::Isl, class, (t_ns, range_m, 0), edges);
        }
    }

    fn gsl_edges(&self, t_ns: u64, edges: &mut Vec<Edge>) {
        for (station, serving) in self.serving.iter().enumerate() {
            let Some(satellite) = *serving else { continue };
            let node = self.layout.station_node(station);
            let Some(seat) = self.layout.node(satellite).seat else {
                continue;
            };
            let class =
                &self.layout.spec().constellations[usize::from(seat.constellation)].gsl_class;
            let range_m = range_m(self.now[node.index()], self.now[satellite.index()]);
            let ends = (self.layout.gsl_port(node), self.layout.gsl_port(satellite));
            let up_from = self.up_from[station];
            self.push_both(ends, EdgeKind::Gsl, class, (t_ns, range_m, up_from), edges);
        }
    }

    fn push_both(
        &self,
        (a, b): (PortId, PortId),
        kind: EdgeKind,
        class: &LinkClass,
        (t_ns, range_now_m, up_from_ns): (u64, f64, u64),
        edges: &mut Vec<Edge>,
    ) {
        let node = |p: PortId| self.layout.port(p).node.index();
        let from_ns = delay_ns(range_now_m);
        let to_ns = delay_ns(range_m(self.later[node(a)], self.later[node(b)]));
        let step_ns = self.layout.spec().step_ns;
        let impairment = Impairment {
            delay: Delay {
                t0_ns: t_ns,
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
            up_from_ns,
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
