//! Can the sky do what the scenario requires? Per station the time without a link, per flow the share of its
//! time with a path.

mod station;

use constel_routing::{Graph, GroundTransit};
use constel_topology::{NodeId, Snapshot, Span};
use constel_units::TimeSpan;
use serde::Serialize;
use std::cell::OnceCell;

use crate::forest::Forest;
use crate::interval::{Interval, IntervalError};
use constel_plan::Lab;
use station::Station;

/// Coverage of stations and paths of flows over an interval. A sample stands for the time until the next one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Coverage {
    /// Lab time of the first sample, seconds.
    pub from_s: f64,
    /// Lab time of the end, seconds.
    pub to_s: f64,
    /// Time between two samples, seconds.
    pub every_s: f64,
    /// The number of samples.
    pub samples: u64,
    /// Every ground station, in node order.
    pub stations: Vec<StationCover>,
    /// Every flow between two nodes, in the scenario's order.
    pub flows: Vec<FlowCover>,
}

/// One station.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StationCover {
    /// Its name.
    pub station: String,
    /// Time without a usable ground link, seconds: no satellite above the mask, or the outage of a handover.
    pub dark_s: f64,
    /// The longest stretch of it, seconds.
    pub longest_dark_s: f64,
    /// Lab time at which it is first dark, seconds; null when it never is.
    pub first_dark_s: Option<f64>,
    /// Changes of its satellites from one sample to the next.
    pub handovers: u64,
    /// Fewest satellites above the mask; null unless requested.
    pub in_view_min: Option<u32>,
    /// Mean number of satellites above the mask.
    pub in_view_mean: Option<f64>,
    /// Most satellites above the mask.
    pub in_view_max: Option<u32>,
}

/// One flow.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FlowCover {
    /// Its name.
    pub flow: String,
    /// One end.
    pub from: String,
    /// The other.
    pub to: String,
    /// The flow's time within the interval, seconds.
    pub requested_s: f64,
    /// The part of that time in which there is a path, seconds.
    pub path_s: f64,
    /// `path_s / requested_s`; null when no part of the flow's time is within the interval.
    pub path_ratio: Option<f64>,
    /// Lab time at which it first has no path, seconds.
    pub first_without_s: Option<f64>,
}

impl Coverage {
    /// Samples `interval` with up to `threads` threads; their number does not change the result. With
    /// `count_in_view` it also counts the satellites above each station's mask, which tests every satellite for
    /// every station.
    pub fn new(lab: &Lab, interval: Interval, count_in_view: bool, threads: usize) -> Self {
        let parts = interval.fold(
            lab,
            threads,
            || CoveragePart::new(lab),
            |part, sample, snapshot| part.look(lab, &interval, sample, snapshot, count_in_view),
        );
        let mut parts = parts.into_iter();
        let mut all = parts.next().unwrap_or_else(|| CoveragePart::new(lab));
        parts.for_each(|part| all.join(part));
        all.finish(lab, interval)
    }

    /// Samples the whole duration of the scenario at a bounded cost (of the order of a second): every step of a
    /// short one, else samples spread evenly over it. If a sample needs many steps before it (policies with
    /// memory, long outages), only the first steps are sampled. [`Coverage::samples`] and the times show what
    /// was sampled.
    ///
    /// # Errors
    /// None for a scenario that was checked.
    pub fn bounded(lab: &Lab, threads: usize) -> Result<Self, IntervalError> {
        let spec = lab.layout.spec();
        let steps = (lab.scenario.duration.ns().unsigned_abs() / spec.step_ns).max(1);
        // The cost of a step, in satellites: positions of all satellites, and a search of visible satellites
        // for all stations.
        let cost_of_step = (lab.layout.satellite_count() + 20 * spec.stations.len()) as u64;
        let budget = (1_200_000 / cost_of_step.max(1)).clamp(40, 600);
        let step = lab.scenario.step;
        // Jumping to a sample also computes the steps it can depend on.
        let samples = lab
            .stepper()
            .look_back()
            .map_or(0, |steps| budget / (2 + steps));
        let (end, every) = if steps <= budget {
            (steps, 1)
        } else if samples >= 8 {
            (steps, steps.div_ceil(samples))
        } else {
            (budget, 1)
        };
        let span = |steps: u64| TimeSpan::from_ns(step.ns().saturating_mul(steps as i64));
        let interval = Interval::new(lab, span(0), span(end), Some(span(every)))?;
        Ok(Self::new(lab, interval, false, threads))
    }
}

#[derive(Clone, Copy, Default)]
struct FlowTally {
    asked_ns: u64,
    path_ns: u64,
    first_without_ns: Option<u64>,
}

/// A flow's ends and time.
struct RequestedFlow {
    ends: (NodeId, NodeId),
    /// The number of disjoint paths between the ends, of which the flow needs the last; `None`: any path is
    /// sufficient.
    path: Option<u8>,
    from_ns: u64,
    to_ns: u64,
}

struct CoveragePart {
    samples: u64,
    stations: Vec<Station>,
    asked: Vec<Option<RequestedFlow>>,
    flows: Vec<FlowTally>,
    /// Nodes that reach each other; of stations only those that forward.
    joined: Forest,
    /// When the station's first link of the sample is usable; `u64::MAX` if none is.
    lit_from: Vec<u64>,
    linked: Vec<Vec<NodeId>>,
}

impl CoveragePart {
    fn new(lab: &Lab) -> Self {
        let stations = lab.layout.nodes().len() - lab.layout.satellite_count();
        let asked: Vec<_> = lab
            .scenario
            .traffic
            .iter()
            .map(|flow| asked(lab, flow))
            .collect();
        Self {
            samples: 0,
            stations: vec![
                Station {
                    dark_so_far: true,
                    ..Station::default()
                };
                stations
            ],
            flows: vec![FlowTally::default(); asked.len()],
            asked,
            joined: Forest::default(),
            lit_from: Vec::new(),
            linked: vec![Vec::new(); stations],
        }
    }

    fn look(
        &mut self,
        lab: &Lab,
        interval: &Interval,
        sample: u64,
        snapshot: &Snapshot,
        count: bool,
    ) {
        let (t_ns, end_ns) = (snapshot.t_ns, interval.end_of(sample));
        self.connect(lab, snapshot, end_ns);
        let satellites = lab.layout.satellite_count();
        for (s, station) in self.stations.iter_mut().enumerate() {
            let dark_ns = self.lit_from[s].clamp(t_ns, end_ns) - t_ns;
            station.darken(t_ns, dark_ns, end_ns - t_ns);
            if self.samples == 0 {
                station.first.clone_from(&self.linked[s]);
            } else if station.last != self.linked[s] {
                station.handovers += 1;
            }
            station.last.clone_from(&self.linked[s]);
            if count {
                station.count(lab, s, snapshot.positions_itrf_m[satellites + s], snapshot);
            }
        }
        // Computed only if a flow needs it.
        let graph = OnceCell::new();
        let graph =
            || graph.get_or_init(|| Graph::new(&lab.layout, snapshot, GroundTransit::Never));
        for f in 0..self.asked.len() {
            let Some(asked) = &self.asked[f] else {
                continue;
            };
            let (from_ns, to_ns) = (asked.from_ns.max(t_ns), asked.to_ns.min(end_ns));
            if from_ns >= to_ns {
                continue;
            }
            let (a, b) = asked.ends;
            let wanted = asked.path.map_or(0, usize::from);
            let path_from_ns = if wanted > 0 && graph().disjoint(a, b, wanted).len() < wanted {
                to_ns
            } else {
                self.path_from(satellites, a, b).clamp(from_ns, to_ns)
            };
            let flow = &mut self.flows[f];
            flow.asked_ns += to_ns - from_ns;
            flow.path_ns += to_ns - path_from_ns;
            if path_from_ns > from_ns {
                flow.first_without_ns = flow.first_without_ns.or(Some(from_ns));
            }
        }
        self.samples += 1;
    }

    /// Finds the pairs with a path in this sample.
    fn connect(&mut self, lab: &Lab, snapshot: &Snapshot, end_ns: u64) {
        let satellites = lab.layout.satellite_count();
        self.joined.part(lab.layout.nodes().len());
        self.lit_from.clear();
        self.lit_from.resize(self.stations.len(), u64::MAX);
        self.linked.iter_mut().for_each(Vec::clear);
        for edge in snapshot.edges.iter().filter(|e| e.from < e.to) {
            let up_from_ns = edge.impairment.up_from_ns;
            let (a, b) = (
                lab.layout.port(edge.from).node,
                lab.layout.port(edge.to).node,
            );
            if edge.class.span == Span::Access {
                let (satellite, ground) = if a.index() < satellites {
                    (a, b)
                } else {
                    (b, a)
                };
                let Some(s) = ground.index().checked_sub(satellites) else {
                    continue;
                };
                self.linked[s].push(satellite);
                self.lit_from[s] = self.lit_from[s].min(up_from_ns);
            }
            if up_from_ns < end_ns && lab.layout.is_transit(a) && lab.layout.is_transit(b) {
                self.joined.join(a.index(), b.index());
            }
        }
    }

    /// Returns the time in the sample from which there is a path; `u64::MAX` for never. Ends that do not
    /// forward are reached from the satellites that they are linked with.
    fn path_from(&mut self, satellites: usize, a: NodeId, b: NodeId) -> u64 {
        let mut roots = |node: NodeId| {
            let linked = node.index().checked_sub(satellites);
            let mut seats = linked.map_or_else(Vec::new, |s| self.linked[s].clone());
            seats.push(node);
            seats
                .into_iter()
                .map(|n| self.joined.root(n.index()))
                .collect::<Vec<_>>()
        };
        let (of_a, of_b) = (roots(a), roots(b));
        if !of_a.iter().any(|r| of_b.contains(r)) {
            return u64::MAX;
        }
        // An end without a link to a satellite has a cable.
        let lit = |node: NodeId| {
            let linked = node.index().checked_sub(satellites);
            linked
                .filter(|&s| !self.linked[s].is_empty())
                .map_or(0, |s| self.lit_from[s])
        };
        lit(a).max(lit(b))
    }

    /// Merges the next part into this one.
    fn join(&mut self, later: Self) {
        self.samples += later.samples;
        for (mine, theirs) in self.stations.iter_mut().zip(later.stations) {
            mine.join(theirs);
        }
        for (mine, theirs) in self.flows.iter_mut().zip(later.flows) {
            mine.asked_ns += theirs.asked_ns;
            mine.path_ns += theirs.path_ns;
            mine.first_without_ns = mine.first_without_ns.or(theirs.first_without_ns);
        }
    }

    fn finish(self, lab: &Lab, interval: Interval) -> Coverage {
        let s = |ns: u64| ns as f64 / 1e9;
        let stations = lab
            .layout
            .stations()
            .zip(self.stations)
            .map(|(node, tally)| {
                let counted = tally.counted > 0;
                StationCover {
                    station: node.name.clone(),
                    dark_s: s(tally.dark_ns),
                    longest_dark_s: s(tally.longest_ns),
                    first_dark_s: tally.first_dark_ns.map(s),
                    handovers: tally.handovers,
                    in_view_min: counted.then_some(tally.in_view.0),
                    in_view_mean: counted.then(|| tally.in_view.1 as f64 / tally.counted as f64),
                    in_view_max: counted.then_some(tally.in_view.2),
                }
            });
        let flows = lab
            .scenario
            .traffic
            .iter()
            .zip(&self.asked)
            .zip(&self.flows)
            .filter_map(|((flow, asked), tally)| {
                asked.as_ref()?;
                let (from, to) = flow.action.way()?;
                Some(FlowCover {
                    flow: flow.name.to_string(),
                    from: from.to_string(),
                    to: to.to_string(),
                    requested_s: s(tally.asked_ns),
                    path_s: s(tally.path_ns),
                    path_ratio: (tally.asked_ns > 0)
                        .then(|| tally.path_ns as f64 / tally.asked_ns as f64),
                    first_without_s: tally.first_without_ns.map(s),
                })
            });
        Coverage {
            from_s: s(interval.from_ns()),
            to_s: s(interval.to_ns()),
            every_s: s(interval.every_ns()),
            samples: self.samples,
            stations: stations.collect(),
            flows: flows.collect(),
        }
    }
}

/// The ends of a flow that has two.
fn asked(lab: &Lab, flow: &constel_scenario::model::Flow) -> Option<RequestedFlow> {
    let (from, to) = flow.action.way()?;
    let node = |name: &constel_scenario::model::Name| Some(lab.layout.find(name.as_str())?.id);
    Some(RequestedFlow {
        ends: (node(from)?, node(&to.node)?),
        path: to.path.as_ref().map(|path| path.number),
        from_ns: flow.at.ns().unsigned_abs(),
        to_ns: flow.end().ns().unsigned_abs(),
    })
}
