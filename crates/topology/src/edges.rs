//! The edges of a step, in order, from who is linked with whom.

use crate::geometry::slope_ns_per_s;
use crate::layout::Layout;
use crate::node::NodeId;
use crate::node::PortRole;
use crate::snapshot::{Edge, EdgeKind};
use crate::spec::{Cable, LinkClass};
use constel_link::{Delay, Impairment, Loss, PortId, QueueLimit};
use constel_orbit::{DVec3, light_time_ns};

/// Where nodes are in a step.
pub(crate) struct Scene<'a> {
    pub(crate) layout: &'a Layout,
    /// At its start.
    pub(crate) now: &'a [DVec3],
    /// At its end.
    pub(crate) later: &'a [DVec3],
    pub(crate) t_ns: u64,
}

/// Memory for the edges of a step, reused.
#[derive(Debug, Default)]
pub(crate) struct Drafts {
    /// Of each port with one neighbour at most, lasers and ends of cables: what its edge does to frames; `None`
    /// without one.
    single: Vec<Option<Impairment>>,
    /// Edges of ground links.
    ground: Vec<Edge>,
}

/// A ground link.
pub(crate) struct GroundEdges {
    pub(crate) station: NodeId,
    pub(crate) satellite: NodeId,
    pub(crate) up_from_ns: u64,
    /// From the ground up, and down.
    pub(crate) classes: [LinkClass; 2],
}

impl Drafts {
    /// Begins a step.
    pub(crate) fn clear(&mut self, layout: &Layout) {
        self.single.clear();
        self.single.resize(layout.ports().len(), None);
        self.ground.clear();
    }

    /// Adds a laser link.
    pub(crate) fn laser(
        &mut self,
        scene: &Scene<'_>,
        (a, b): (PortId, PortId),
        up_from_ns: u64,
        class: &LinkClass,
    ) {
        let ends = [a, b].map(|p| scene.layout.port(p).node);
        let impairment = scene.impairment(scene.light_ns(ends), up_from_ns, class);
        self.single[a.0 as usize] = Some(impairment);
        self.single[b.0 as usize] = Some(impairment);
    }

    /// Adds a cable.
    pub(crate) fn cable(&mut self, scene: &Scene<'_>, (a, b): (PortId, PortId), cable: &Cable) {
        let delay = (cable.delay_ns, cable.delay_ns);
        let impairment = scene.impairment(delay, 0, &cable.class);
        self.single[a.0 as usize] = Some(impairment);
        self.single[b.0 as usize] = Some(impairment);
    }

    /// Adds a ground link.
    pub(crate) fn ground(&mut self, scene: &Scene<'_>, link: &GroundEdges) {
        let light_ns = scene.light_ns([link.station, link.satellite]);
        let (ground, sky) = (
            scene.layout.gsl_port(link.station),
            scene.layout.gsl_port(link.satellite),
        );
        let ways = [(ground, sky), (sky, ground)];
        for ((from, to), class) in ways.into_iter().zip(&link.classes) {
            self.ground.push(Edge {
                from,
                to,
                kind: EdgeKind::Gsl,
                impairment: scene.impairment(light_ns, link.up_from_ns, class),
            });
        }
    }

    /// All edges in order of (from, to). Laser ports and ends of cables have one edge at most, so that their order
    /// is that of the ports; only ground links need sorting.
    pub(crate) fn finish(&mut self, layout: &Layout, edges: &mut Vec<Edge>) {
        self.ground.sort_unstable_by_key(|e| (e.from, e.to));
        let mut ground = self.ground.iter().copied().peekable();
        let ports = (0u32..).map(PortId).zip(&self.single);
        for (from, impairment) in ports.filter_map(|(p, i)| Some((p, (*i)?))) {
            edges.extend(std::iter::from_fn(|| ground.next_if(|e| e.from < from)));
            if let Some(to) = layout.far_port(from) {
                let cable = layout.port(from).role == PortRole::Cable;
                edges.push(Edge {
                    from,
                    to,
                    kind: if cable {
                        EdgeKind::Cable
                    } else {
                        EdgeKind::Isl
                    },
                    impairment,
                });
            }
        }
        edges.extend(ground);
    }
}

impl Scene<'_> {
    /// Light times at the start of the step and at its end, ns.
    fn light_ns(&self, [a, b]: [NodeId; 2]) -> (u64, u64) {
        let (a, b) = (a.index(), b.index());
        let from_ns = light_time_ns(self.now[a].distance(self.now[b]));
        let later_m = self.later[a].distance(self.later[b]);
        // An orbit that ends within this step: the delay stays, the edge goes at the next.
        let to_ns = if later_m.is_nan() {
            from_ns
        } else {
            light_time_ns(later_m)
        };
        (from_ns, to_ns)
    }

    fn impairment(
        &self,
        (from_ns, to_ns): (u64, u64),
        up_from_ns: u64,
        class: &LinkClass,
    ) -> Impairment {
        Impairment {
            delay: Delay {
                t0_ns: self.t_ns,
                delay_ns: from_ns + class.extra_delay_ns,
                slope_ns_per_s: slope_ns_per_s(from_ns, to_ns, self.layout.spec().step_ns),
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
            profile: class.profile,
        }
    }
}
