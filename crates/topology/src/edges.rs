//! The edges of a step, in order, computed from the links that are up.

use crate::class::{CABLE, EdgeClass, GSL, ISL};
use crate::geometry::slope_ns_per_s;
use crate::layout::{IslLink, Layout};
use crate::node::NodeId;
use crate::snapshot::Edge;
use crate::spec::NetworkEdge;
use crate::spec::{Cable, LinkClass};
use constel_link::{Delay, Impairment, Loss, PortId, QueueLimit};
use constel_orbit::{DVec3, light_time_ns};

/// The positions of nodes in a step.
pub(crate) struct Scene<'a> {
    pub(crate) layout: &'a Layout,
    /// At the step's start.
    pub(crate) now: &'a [DVec3],
    /// At its end.
    pub(crate) later: &'a [DVec3],
    pub(crate) t_ns: u64,
}

/// Memory for the edges of a step, reused.
#[derive(Debug, Default)]
pub(crate) struct Drafts {
    /// For each laser link, its delay, which is equal in both directions, and the time from which it is up;
    /// `None` for a link that is down.
    lasers: Vec<Option<(Delay, u64)>>,
    /// Edges of all other links.
    sorted: Vec<Edge>,
}

/// A ground link.
pub(crate) struct GroundEdges {
    pub(crate) station: NodeId,
    /// The port of the station's terminal.
    pub(crate) terminal: PortId,
    pub(crate) satellite: NodeId,
    pub(crate) up_from_ns: u64,
    /// From the ground up, and down.
    pub(crate) classes: [LinkClass; 2],
}

impl Drafts {
    /// Begins a step.
    pub(crate) fn clear(&mut self, layout: &Layout) {
        self.lasers.clear();
        self.lasers.resize(layout.isl_links().len(), None);
        self.sorted.clear();
    }

    /// Adds a laser link that is `range_m` long at the start of the step.
    pub(crate) fn laser(
        &mut self,
        scene: &Scene<'_>,
        link: &IslLink,
        range_m: f64,
        up_from_ns: u64,
    ) {
        let ends = [link.a, link.b].map(|p| scene.layout.node_of(p));
        let light_ns = scene.light_ns(ends, range_m);
        let delay = scene.delay(light_ns, scene.layout.laser(link).class);
        self.lasers[link.number as usize] = Some((delay, up_from_ns));
    }

    /// Adds a cable.
    pub(crate) fn cable(&mut self, scene: &Scene<'_>, (a, b): (PortId, PortId), cable: &Cable) {
        let delay = scene.delay((cable.delay_ns, cable.delay_ns), &cable.class);
        let impairment = impairment(delay, 0, &cable.class);
        for (from, to) in [(a, b), (b, a)] {
            self.sorted.push(Edge {
                from,
                to,
                class: &CABLE,
                impairment,
            });
        }
    }

    /// Adds an edge of a network, between two of its ports.
    pub(crate) fn network(
        &mut self,
        scene: &Scene<'_>,
        class: &'static EdgeClass,
        (from, to): (PortId, PortId),
        edge: &NetworkEdge,
    ) {
        let delay = scene.delay((edge.delay_ns, edge.later_delay_ns), &edge.class);
        self.sorted.push(Edge {
            from,
            to,
            class,
            impairment: impairment(delay, 0, &edge.class),
        });
    }

    /// Adds a ground link.
    pub(crate) fn ground(&mut self, scene: &Scene<'_>, link: &GroundEdges) {
        let ends = [link.station, link.satellite];
        let [station, satellite] = ends.map(|n| scene.now[n.index()]);
        let light_ns = scene.light_ns(ends, station.distance(satellite));
        let (ground, sky) = (link.terminal, scene.layout.gsl_port(link.satellite));
        let ways = [(ground, sky), (sky, ground)];
        for ((from, to), class) in ways.into_iter().zip(&link.classes) {
            self.sorted.push(Edge {
                from,
                to,
                class: &GSL,
                impairment: impairment(scene.delay(light_ns, class), link.up_from_ns, class),
            });
        }
    }

    /// All edges in order of (from, to). Laser ports have one edge at most, so that their order is that of the
    /// ports; only the others need sorting.
    pub(crate) fn finish(&mut self, scene: &Scene<'_>, edges: &mut Vec<Edge>) {
        let layout = scene.layout;
        self.sorted.sort_unstable_by_key(|e| (e.from, e.to));
        let mut others = self.sorted.iter().copied().peekable();
        for (from, link) in layout.lasers_by_port() {
            let Some((delay, up_from_ns)) = self.lasers[link.number as usize] else {
                continue;
            };
            edges.extend(std::iter::from_fn(|| others.next_if(|e| e.from < from)));
            edges.push(Edge {
                from,
                to: link.far_end(from),
                class: &ISL,
                impairment: impairment(delay, up_from_ns, layout.laser(link).class),
            });
        }
        edges.extend(others);
    }
}

impl Scene<'_> {
    /// Light times at the start of the step, when the ends are `range_m` apart, and at its end, ns.
    fn light_ns(&self, [a, b]: [NodeId; 2], range_m: f64) -> (u64, u64) {
        let from_ns = light_time_ns(range_m);
        let later_m = self.later[a.index()].distance(self.later[b.index()]);
        // An orbit that ends within this step: the delay stays, and the edge is removed at the next.
        let to_ns = if later_m.is_nan() {
            from_ns
        } else {
            light_time_ns(later_m)
        };
        (from_ns, to_ns)
    }

    fn delay(&self, (from_ns, to_ns): (u64, u64), class: &LinkClass) -> Delay {
        Delay {
            t0_ns: self.t_ns,
            delay_ns: from_ns + class.extra_delay_ns,
            slope_ns_per_s: slope_ns_per_s(from_ns, to_ns, self.layout.spec().step_ns),
        }
    }
}

fn impairment(delay: Delay, up_from_ns: u64, class: &LinkClass) -> Impairment {
    Impairment {
        delay,
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
