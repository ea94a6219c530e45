//! The step loop: the plan for the next step is ready before its time, then one atomic table update.

use std::sync::Arc;
use std::time::{Duration, Instant};

use constel_drivers::{LinkHandle, PendingUpdate};
use constel_host::netlink::Batch;
use constel_link::{EdgeChange, EdgeUpdate, PortId};
use constel_routing::foresight::Told;
use constel_topology::{Delta, EdgeKind, Layout, NodeId, PortRole, Snapshot, Stepper, diff};

use crate::answers::impair;
use crate::clock::{LabClock, mono_ns};
use crate::error::EngineError;
use crate::nodes::builder::LiveNode;
use crate::nodes::wiring::Wiring;
use crate::routing::computed::{Computed, Moment, Prepared};
use crate::routing::disjoint::{Disjoint, PathsNews};
use crate::routing::oriented::Oriented;
use crate::routing::parting::{Parted, part};
use crate::watch::changes;
use crate::watch::summary::{ChangeRow, DisjointRow};

/// How often a waiting loop looks whether it should stop.
const STOP_CHECK: Duration = Duration::from_millis(20);

/// How the steps of a run went. Times in nanoseconds.
#[derive(Debug, Clone, Default)]
pub(crate) struct StepTimes {
    /// Positions, edges and delta.
    pub(crate) compute_ns: Vec<f64>,
    /// Routes and their delta.
    pub(crate) routes_ns: Vec<f64>,
    /// The link plane's own time for the table update, between two frames.
    pub(crate) update_ns: Vec<f64>,
    /// Neighbour entries and routes written to kernels.
    pub(crate) kernel_ns: Vec<f64>,
    /// How long after its lab time the table update took effect.
    pub(crate) lateness_ns: Vec<f64>,
    /// Following the paths of flows through the kernels' tables, between this step and the next.
    pub(crate) paths_ns: Vec<f64>,
    /// Edge changes.
    pub(crate) edge_changes: Vec<f64>,
    /// Route changes.
    pub(crate) route_changes: Vec<f64>,
    /// How many requests they were put into: neighbouring changes of one node go together.
    pub(crate) route_requests: Vec<f64>,
}

/// Everything that changes with time.
pub(crate) struct Steps {
    pub(crate) wiring: Arc<Wiring>,
    pub(crate) nodes: Arc<Vec<LiveNode>>,
    pub(crate) relay: Arc<LinkHandle>,
    pub(crate) clock: Arc<LabClock>,
    pub(crate) computed: Option<Computed>,
    pub(crate) stepper: Stepper,
    /// The step that is in force.
    pub(crate) current: Arc<Snapshot>,
    pub(crate) times: StepTimes,
    /// How long links that go outlive the routes over them, nanoseconds; 0 without draining.
    pub(crate) drain_ns: u64,
    /// Links of the step in force that still have to go.
    pub(crate) draining: Option<Draining>,
    /// When the kernels had all routes of the step in force (`CLOCK_MONOTONIC`).
    pub(crate) routed_at_ns: u64,
}

/// Links that no route leads over any more, and which go when what was on its way has passed.
pub(crate) struct Draining {
    gone: PendingUpdate,
    removed: Vec<(PortId, PortId)>,
}

/// A step that is ready to take effect.
pub(crate) struct Ready {
    snapshot: Arc<Snapshot>,
    pub(crate) delta: Delta,
    parted: Parted,
    routes: Option<Prepared>,
}

impl Ready {
    /// What breaks and what is mended when it takes effect.
    pub(crate) fn broken(&self, layout: &Layout, before: &Snapshot) -> Vec<ChangeRow> {
        changes::broken(layout, before, &self.snapshot)
    }
}

/// A topology of the same shape without edges, every antenna free.
fn nothing_before(first: &Snapshot) -> Snapshot {
    Snapshot {
        beams: vec![None; first.beams.len()],
        ..Snapshot::default()
    }
}

impl Steps {
    /// Makes the edges of lab time zero exist, held still: no delay glides until the clock starts.
    ///
    /// # Errors
    /// When the link plane or a kernel refuses.
    pub(crate) fn begin_held(&mut self) -> Result<(), EngineError> {
        let mut first = self.stepper.advance();
        let delta = diff(&self.wiring.lab.layout, &nothing_before(&first), &first);
        let changes = delta.changes(0).map(|change| match change {
            EdgeChange::Set {
                from,
                to,
                mut impairment,
            } => {
                impairment.delay.slope_ns_per_s = 0;
                EdgeChange::Set {
                    from,
                    to,
                    impairment,
                }
            }
            remove @ EdgeChange::Remove { .. } => remove,
        });
        self.relay.apply(
            EdgeUpdate {
                changes: changes.collect(),
            },
            None,
        )?;
        self.learn_neighbours(&delta)?;
        if let Some(computed) = &mut self.computed {
            computed.begin_knowing(&self.wiring, &first);
            let prepared = computed.prepare(&self.wiring, &first, Moment::Step);
            computed.install_first(&self.wiring, &self.nodes, prepared)?;
        }
        first.step = 0;
        self.current = Arc::new(first);
        Ok(())
    }

    /// Lets delays glide: lab time zero is `zero_mono_ns`.
    ///
    /// # Errors
    /// When the link plane refuses.
    pub(crate) fn release(&mut self, zero_mono_ns: u64) -> Result<(), EngineError> {
        let delta = diff(
            &self.wiring.lab.layout,
            &nothing_before(&self.current),
            &self.current,
        );
        let changes = delta.changes(zero_mono_ns).collect();
        self.relay
            .apply(EdgeUpdate { changes }, Some(zero_mono_ns))?;
        // Laws of time begin with lab time.
        impair::put_profiles(&self.wiring, &self.relay, zero_mono_ns)
    }

    /// Computes the next step; touches nothing but this.
    pub(crate) fn prepare(&mut self, zero_mono_ns: u64) -> Ready {
        let start = Instant::now();
        let snapshot = self.stepper.advance();
        let delta = diff(&self.wiring.lab.layout, &self.current, &snapshot);
        let layout = &self.wiring.lab.layout;
        let parted = part(layout, &snapshot, &delta, self.drain_ns, zero_mono_ns);
        self.times
            .compute_ns
            .push(start.elapsed().as_nanos() as f64);
        let edge_changes = parted.now.len() + parted.later.len();
        self.times.edge_changes.push(edge_changes as f64);
        let start = Instant::now();
        let routes = self.computed.as_mut().map(|computed| {
            computed.foresee();
            computed.prepare(&self.wiring, &snapshot, Moment::Step)
        });
        if let Some(prepared) = &routes {
            self.times.routes_ns.push(start.elapsed().as_nanos() as f64);
            self.times.route_changes.push(prepared.changes() as f64);
        }
        Ready {
            snapshot: Arc::new(snapshot),
            delta,
            parted,
            routes,
        }
    }

    /// Makes the step take effect at its time: one atomic table update, handed over now and carried out by
    /// the link plane itself, then the kernels' neighbours and routes. False when `stop` said so before.
    /// With draining, links that go leave in a second update, after the routes that lead round them; those that
    /// break go at once. Steps never overlap: one that takes longer than a step makes the next late, and
    /// draining is cut short where the next step's time has come.
    ///
    /// # Errors
    /// When the link plane or a kernel refuses.
    pub(crate) fn take_effect(
        &mut self,
        ready: Ready,
        zero_mono_ns: u64,
        mut stop: impl FnMut(Duration) -> bool,
    ) -> Result<bool, EngineError> {
        let Ready {
            snapshot,
            delta,
            parted,
            mut routes,
        } = ready;
        let t_ns = snapshot.t_ns;
        let due = zero_mono_ns + t_ns;
        let changes = parted.now;
        let pending = self.relay.submit(EdgeUpdate { changes }, Some(due))?;
        loop {
            let left = self.clock.until(t_ns).unwrap_or(STOP_CHECK);
            if left.is_zero() {
                break;
            }
            if stop(left) {
                return Ok(false);
            }
            self.route_round_failures()?;
            std::thread::sleep(
                self.clock
                    .until(t_ns)
                    .unwrap_or(STOP_CHECK)
                    .min(self.pause()),
            );
        }
        let applied = pending.wait()?;
        self.times.update_ns.push(applied.took_ns as f64);
        self.times
            .lateness_ns
            .push(applied.at_ns.saturating_sub(due) as f64);
        let start = mono_ns();
        if let (Some(computed), Some(prepared)) = (&mut self.computed, &mut routes) {
            // Failures by hand since then, or what was heard: other routes, and other routes in the kernels.
            if !computed.holds(&self.wiring, prepared) {
                *prepared = computed.prepare(&self.wiring, &snapshot, Moment::Step);
            }
            // Before the kernels, where anything may have to wait for others.
            Computed::tell_map(&self.wiring, prepared);
        }
        self.drained()?;
        self.forget_neighbours(&parted.gone)?;
        self.learn_neighbours(&delta)?;
        if let (Some(computed), Some(prepared)) = (&mut self.computed, routes) {
            let (requests, stood_ns) = computed.install(&self.wiring, &self.nodes, prepared)?;
            self.times.route_requests.push(requests as f64);
            self.routed_at_ns = stood_ns;
            computed.begin(&self.wiring, &snapshot);
        } else {
            self.routed_at_ns = mono_ns();
        }
        if !parted.later.is_empty() {
            // Counted from here: however long the kernels took, the routes came first.
            // But never beyond the step, which may be followed by one that brings a link back.
            let at = (mono_ns() + self.drain_ns).min(due + self.wiring.lab.step_ns() - 1);
            let changes = parted.later;
            self.draining = Some(Draining {
                gone: self.relay.submit(EdgeUpdate { changes }, Some(at))?,
                removed: parted.gone_later,
            });
        }
        self.times.kernel_ns.push((mono_ns() - start) as f64);
        self.current = snapshot;
        Ok(true)
    }

    /// Messages about failures, where there are any.
    pub(crate) fn told(&self) -> Option<Told> {
        let oriented = self.computed.as_ref().and_then(Computed::oriented);
        oriented.map(Oriented::told)
    }

    /// What the pairs with disjoint paths came to.
    pub(crate) fn disjoint(&self) -> Vec<DisjointRow> {
        let disjoint = self.computed.as_ref().and_then(Computed::disjoint);
        disjoint.map_or_else(Vec::new, |disjoint| disjoint.rows(&self.wiring))
    }

    /// Pairs that have more or fewer disjoint paths than when last asked.
    pub(crate) fn paths_news(&mut self) -> Vec<PathsNews> {
        let disjoint = self.computed.as_mut().and_then(Computed::disjoint_mut);
        disjoint.map_or_else(Vec::new, Disjoint::take_news)
    }

    /// How long a waiting loop may sleep: no longer than until some node handles a message.
    pub(crate) fn pause(&self) -> Duration {
        let oriented = self.computed.as_ref().and_then(Computed::oriented);
        let news = oriented.and_then(|oriented| self.clock.until(oriented.next_ns()?));
        news.unwrap_or(STOP_CHECK).min(STOP_CHECK)
    }

    /// Links failed or healed by hand, or messages heard: computed routes follow at once, not only at the next step.
    ///
    /// # Errors
    /// When a kernel refuses a route.
    pub(crate) fn route_round_failures(&mut self) -> Result<(), EngineError> {
        let Some(computed) = &mut self.computed else {
            return Ok(());
        };
        let now_ns = self.clock.now_ns().unwrap_or(0);
        if !computed.outdated(&self.wiring, &self.current, now_ns) {
            return Ok(());
        }
        let moment = Moment::Within(now_ns);
        let prepared = computed.prepare(&self.wiring, &self.current, moment);
        Computed::tell_map(&self.wiring, &prepared);
        computed.install(&self.wiring, &self.nodes, prepared)?;
        Ok(())
    }

    /// Waits until the links of the step before are gone, and forgets who was there.
    fn drained(&mut self) -> Result<(), EngineError> {
        if let Some(draining) = self.draining.take() {
            draining.gone.wait()?;
            self.forget_neighbours(&draining.removed)?;
        }
        Ok(())
    }

    /// Both ends of a ground link that went forget the far end's MAC.
    fn forget_neighbours(&self, removed: &[(PortId, PortId)]) -> Result<(), EngineError> {
        let layout = &self.wiring.lab.layout;
        let mut batch = Batch::new();
        let gone = removed
            .iter()
            .filter(|(from, _)| layout.port(*from).role == PortRole::Gsl);
        for &(from, to) in gone {
            for neighbour in self.wiring.neighbours(layout.port(from), to) {
                batch
                    .delete_neighbour(&neighbour)
                    .tolerate(rustix::io::Errno::NOENT.raw_os_error());
            }
            self.send(from, &mut batch)?;
        }
        Ok(())
    }

    /// Both ends of a ground link that comes learn the far end's MAC, so that no frame waits for ARP or
    /// neighbour discovery.
    fn learn_neighbours(&self, delta: &Delta) -> Result<(), EngineError> {
        let layout = &self.wiring.lab.layout;
        let mut batch = Batch::new();
        for edge in delta.added.iter().filter(|edge| edge.kind == EdgeKind::Gsl) {
            for neighbour in self.wiring.neighbours(layout.port(edge.from), edge.to) {
                batch.replace_neighbour(&neighbour);
            }
            self.send(edge.from, &mut batch)?;
        }
        Ok(())
    }

    fn send(&self, port: PortId, batch: &mut Batch) -> Result<(), EngineError> {
        let node: NodeId = self.wiring.lab.layout.port(port).node;
        let mut socket = self.nodes[node.index()]
            .netlink
            .lock()
            .unwrap_or_else(|e| e.into_inner());
        Ok(socket.send(batch)?)
    }
}
