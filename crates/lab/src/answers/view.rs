//! The answers of a running lab to requests from other processes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use constel_api::answers::{
    BriefEffects, EdgeShown, Forwarding, LabRow, LabState, LinkShown, Loads, ManagementShown,
    NetworkShown, NodeForwarding, NodeShown, NodeUsage, Paths, Routes, ScenarioShown, Shown,
};
use constel_api::{ApiError, ErrorCode, LabReader, Subscription};
use constel_drivers::relay::TransitCounts;
use constel_drivers::{DriverError, Links};
use constel_host::cgroup::usage::Usage;
use constel_link::transit::Cause;
use constel_link::{EffectsChange, PortId};
use constel_plan::{AbsentMembers, Blueprint, ManualEffects};
use constel_topology::{Effort, NodeId, Snapshot, StepRefusal, why};

use crate::answers::by_hand::Ending;
use crate::answers::inspect::{self, PathDestination};
use crate::answers::members;
use crate::answers::node_states::NodesByHand;
use crate::answers::orders::Orders;
use crate::answers::steering::Steering;
use crate::answers::{catalogued_in, impair, loads, named};
use crate::clock::{LabClock, mono_ns};
use crate::error::EngineError;
use crate::failed::Failed;
use crate::information::{Informant, News};
use crate::nodes::cgroups::Cgroups;
use crate::nodes::kernels::Kernels;
use crate::nodes::usage::of_node;
use crate::policy::PolicyDoor;
use crate::watch::event_log::EventLog;

/// The parts of the lab that answers need. They appear as the lab comes up.
#[derive(Default)]
pub(crate) struct Live {
    pub(crate) kernels: Option<Arc<Kernels>>,
    pub(crate) links: Option<Arc<dyn Links>>,
    pub(crate) snapshot: Option<Arc<Snapshot>>,
    /// The blueprint from which `snapshot` was computed; failures, policies and kinds of links in it change with the scenario.
    pub(crate) blueprint: Option<Arc<Blueprint>>,
    /// The informant, if some nodes receive information.
    pub(crate) informant: Option<Arc<Informant>>,
    /// The cgroups of programs.
    pub(crate) groups: Option<Arc<Cgroups>>,
    pub(crate) state: LabState,
    pub(crate) scenario: String,
}

/// The lab as its socket sees it.
pub(crate) struct View {
    pub(crate) lab: String,
    /// The scenario, and its changes while the lab runs.
    pub(crate) steering: Steering,
    /// Locked for moments only, and never during a request to a kernel or the link plane, because the step loop
    /// also takes it.
    pub(crate) live: Mutex<Live>,
    pub(crate) clock: Arc<LabClock>,
    pub(crate) log: Arc<EventLog>,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) failed: Arc<Failed>,
    /// The effects that were set by command; locked while the link plane applies a change of them.
    pub(crate) by_hand: Mutex<ManualEffects>,
    /// The members that are absent from their networks; locked while one joins or leaves.
    pub(crate) away: Mutex<AbsentMembers>,
    /// The nodes that were failed, stopped or paused by command.
    pub(crate) nodes: Arc<NodesByHand>,
    /// The program that decides for the lab, if there is one.
    pub(crate) policy: PolicyDoor,
    /// The changes of links by command that end by themselves.
    pub(crate) endings: Mutex<Vec<Ending>>,
    /// The common changes of all machines, if there are several.
    pub(crate) orders: Option<Orders>,
}

/// The parts of the lab at one moment, taken out of the lock.
pub(super) struct Held {
    pub(super) kernels: Arc<Kernels>,
    pub(super) links: Arc<dyn Links>,
    pub(super) snapshot: Arc<Snapshot>,
    /// The blueprint from which `snapshot` was computed.
    pub(super) blueprint: Arc<Blueprint>,
}

impl View {
    pub(super) fn with<T>(&self, f: impl FnOnce(&Live) -> T) -> T {
        f(&self.live.lock().unwrap_or_else(|e| e.into_inner()))
    }

    pub(crate) fn change(&self, f: impl FnOnce(&mut Live)) {
        f(&mut self.live.lock().unwrap_or_else(|e| e.into_inner()));
    }

    /// Returns the topology in force, if there is one.
    pub(crate) fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.with(|live| live.snapshot.clone())
    }

    /// Sends a message to the informant, if there is one.
    pub(crate) fn inform(&self, news: impl FnOnce() -> News) {
        if let Some(informant) = self.with(|live| live.informant.clone()) {
            informant.tell(news());
        }
    }

    /// Returns the first error in informing nodes, if any.
    pub(crate) fn information_error(&self) -> Option<String> {
        self.with(|live| live.informant.clone())?.problem()
    }

    fn by_hand(&self) -> MutexGuard<'_, ManualEffects> {
        self.by_hand.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Applies changes in the link plane that `plan` derives from the present effects, and records them. Returns
    /// the other result of `plan`, and when the changes took effect, by the machine's clock.
    ///
    /// # Errors
    /// When `plan` or the link plane refuses: nothing was changed.
    pub(super) fn change_by_hand<T, E: From<DriverError>>(
        &self,
        links: &dyn Links,
        plan: impl FnOnce(&ManualEffects) -> Result<(T, Vec<EffectsChange>), E>,
    ) -> Result<(T, u64), E> {
        let mut by_hand = self.by_hand();
        let (rest, changes) = plan(&by_hand)?;
        // Without changes the link plane is not interrupted.
        let at_mono_ns = match changes.is_empty() {
            true => mono_ns(),
            false => links.apply_effects(changes.clone())?,
        };
        changes
            .into_iter()
            .for_each(|change| by_hand.record(change));
        Ok((rest, at_mono_ns))
    }

    /// Returns a step's topology with all changes by command. Answers about paths, links and networks use it.
    pub(super) fn in_force(&self, blueprint: &Blueprint, step: &Arc<Snapshot>) -> Arc<Snapshot> {
        self.by_hand().over(&blueprint.lab.profiles, step)
    }

    pub(super) fn held(&self) -> Result<Held, ApiError> {
        self.with(|live| {
            Some(Held {
                kernels: live.kernels.clone()?,
                links: live.links.clone()?,
                snapshot: live.snapshot.clone()?,
                blueprint: live.blueprint.clone()?,
            })
        })
        .ok_or_else(ApiError::coming_up)
    }

    fn row(&self, live: &Live) -> LabRow {
        // The snapshot is the scenario's: it still has links failed by command, which carry no frames.
        let failed = self.failed.now();
        let up = |snapshot: &Snapshot| {
            let edges = snapshot.edges.iter();
            edges
                .filter(|edge| !failed.contains((edge.from, edge.to)))
                .count()
        };
        LabRow {
            lab: self.lab.clone(),
            state: live.state,
            scenario: live.scenario.clone(),
            pid: std::process::id(),
            nodes: live.kernels.as_ref().map_or(0, |kernels| kernels.count()),
            edges: live.snapshot.as_deref().map_or(0, up),
            t_ns: self.clock.now_ns(),
        }
    }

    /// Returns the topology of the step at lab time `at_ns`, computed without holding any node.
    ///
    /// # Errors
    /// When the lab is going down or the client no longer waits; [`ErrorCode::TooFar`].
    fn sky_at(
        &self,
        blueprint: &Blueprint,
        at_ns: u64,
        wanted: &(dyn Fn() -> bool + Sync),
    ) -> Result<Snapshot, ApiError> {
        let wanted = || !self.stop.load(Ordering::Acquire) && wanted();
        let mut effort = Effort::new(Effort::QUESTION, &wanted);
        let step = at_ns / blueprint.lab.step_ns();
        let mut stepper = blueprint.lab.stepper();
        stepper.point(self.steering.lock().pointed.clone());
        self.policy.apply(&mut stepper);
        let found = stepper.try_step(step, &mut effort);
        found.map_err(|error| match error {
            StepRefusal::Unwanted => ApiError::coming_up(),
            far => ApiError::new(ErrorCode::TooFar, far.to_string()),
        })
    }

    pub(super) fn t_ns(&self) -> Option<i64> {
        self.clock.now_ns().and_then(|t| i64::try_from(t).ok())
    }

    /// Returns one direction of a link.
    ///
    /// # Errors
    /// When the link plane has stopped.
    fn edge(&self, held: &Held, from: PortId, to: PortId) -> Result<EdgeShown, ApiError> {
        let layout = &held.blueprint.lab.layout;
        let end = |port: PortId| {
            let port = layout.port(port);
            format!("{}/{}", layout.node(port.node).name, port.name())
        };
        let links = &held.links;
        let failed = |error| impair::refusal(&error);
        let effects = links.effects(from, to).map_err(failed)?.in_force;
        let impairment = held.snapshot.edge(from, to).map(|edge| &edge.impairment);
        let now_ns = self.clock.now_ns().unwrap_or(0);
        // The present values are the scenario's, overridden by the effects.
        let in_force = impairment.map(|impairment| effects.over(impairment));
        let delay = in_force.map(|impairment| impairment.delay);
        Ok(EdgeShown {
            from: end(from),
            to: end(to),
            delay_ns: delay.map(|delay| delay.at(now_ns)),
            slope_ns_per_s: delay.map(|delay| delay.slope_ns_per_s),
            rate_bps: in_force.and_then(|impairment| impairment.rate_bps.map(u64::from)),
            queue_bytes: in_force.map(|impairment| impairment.queue.bytes),
            loss: impairment.map(|impairment| impairment.loss),
            effects: BriefEffects::of(&effects),
            counters: links.edge_stats(from, to).map_err(failed)?,
            dropped_share: links.dropped_share(from).map_err(failed)?,
        })
    }
}

fn usage_of(used: Usage) -> NodeUsage {
    NodeUsage {
        cpu_ns: used.cpu_ns,
        memory_bytes: used.memory_bytes,
        read_bytes: used.read_bytes,
        written_bytes: used.written_bytes,
        processes: used.processes,
    }
}

fn forwarding_of(counts: &TransitCounts) -> Forwarding {
    let dropped = Cause::ALL.into_iter().filter_map(|cause| {
        let count = counts.dropped_for(cause);
        (count > 0).then(|| (cause.word().to_owned(), count))
    });
    Forwarding {
        forwarded: counts.forwarded,
        answered: counts.answered,
        dropped: dropped.collect(),
    }
}

impl LabReader for View {
    fn state(&self) -> LabRow {
        self.with(|live| self.row(live))
    }

    fn show(&self) -> Shown {
        // The parts are taken out of the lock first: requests to the link plane below must not hold up the step
        // loop.
        let (lab, kernels, snapshot, links, groups) = self.with(|live| {
            let (kernels, snapshot) = (live.kernels.clone(), live.snapshot.clone());
            let (links, groups) = (live.links.clone(), live.groups.clone());
            (self.row(live), kernels, snapshot, links, groups)
        });
        let management = kernels.as_ref().and_then(|kernels| {
            let lab = &kernels.blueprint.lab;
            lab.management(&self.lab)
        });
        let has_members = kernels
            .as_ref()
            .is_some_and(|kernels| kernels.has_members());
        let forwarding = links.as_ref().filter(|_| has_members);
        let forwarding = forwarding.and_then(|links| links.all_transit().ok());
        let node_list = kernels.zip(snapshot).map(|(kernels, snapshot)| {
            let blueprint = self.with(|live| live.blueprint.clone());
            let blueprint = blueprint.as_ref().unwrap_or(&kernels.blueprint);
            let layout = &blueprint.lab.layout;
            let snapshot = self.in_force(blueprint, &snapshot);
            let edges_from = |port: &constel_topology::Port| snapshot.edges_from(port.id).len();
            let row = |node: &constel_topology::Node| {
                let own = blueprint.addresses.loopback(node.id);
                let entry = blueprint.lab.catalogue.of(node.id);
                NodeShown {
                    name: node.name.clone(),
                    kind: node.class.name.to_owned(),
                    catalogue_name: entry.and_then(|entry| entry.catalogue_name.clone()),
                    norad_id: entry.and_then(|entry| entry.norad_id),
                    ipv4: own.v4,
                    ipv6: own.v6,
                    links: layout.ports_of(node.id).iter().map(edges_from).sum(),
                    management: management.as_ref().and_then(|own| own.of(node.id)),
                    forwarding: kernels.member(node.id).and_then(|member| {
                        let counts = forwarding.as_ref()?.get(member as usize)?;
                        Some(forwarding_of(counts))
                    }),
                    state: self.nodes.word(node.id).map(str::to_owned),
                    usage: groups.as_ref().and_then(|groups| {
                        let used = of_node(groups, &kernels, node.id)?;
                        Some(usage_of(used))
                    }),
                }
            };
            layout.nodes().iter().map(row).collect()
        });
        Shown {
            lab,
            node_list,
            management: management.map(|own| ManagementShown {
                subnet: own.subnet.to_string(),
                interface: own.interface,
                host: own.host,
            }),
            relay: links.and_then(|links| links.snapshot().ok()),
        }
    }

    fn scenario(&self) -> Result<ScenarioShown, ApiError> {
        Ok(self.steering.lock().shown.clone())
    }

    fn link(&self, a: &str, b: &str) -> Result<LinkShown, ApiError> {
        let held = self.held()?;
        let (layout, snapshot) = (&held.blueprint.lab.layout, &held.snapshot);
        let blueprint = &held.blueprint;
        let (a_id, b_id) = (find(blueprint, a)?, find(blueprint, b)?);
        let (mut edges, mut ends, mut failed_ns) = (Vec::new(), Vec::new(), Vec::new());
        // Both directions are listed, because effects may be set on one of them only.
        for (from, to) in [(a_id, b_id), (b_id, a_id)] {
            let ports = layout.ports_of(from).iter();
            for edge in ports.flat_map(|port| snapshot.edges_from(port.id)) {
                if layout.port(edge.to).node == to {
                    edges.push(self.edge(&held, edge.from, edge.to)?);
                    ends.push((edge.from, edge.to));
                    failed_ns.push(self.failed.since_ns((edge.from, edge.to)));
                }
            }
        }
        // A link counts as down only if all its edges are failed.
        let all: Option<Vec<u64>> = failed_ns.into_iter().collect();
        let failed_ns = all.and_then(|all| all.into_iter().max());
        let mut why = why(layout, snapshot, a_id, b_id).describe(layout);
        let away = self.away.lock().unwrap_or_else(|e| e.into_inner());
        let absent = away.why_down(layout, &ends);
        drop(away);
        if let Some(absent) = absent {
            why = format!("{absent}; else {why}");
        } else if let Some(failed_ns) = failed_ns {
            // The geometric reason follows, because it holds again once the link is repaired.
            let t_s = failed_ns as f64 / 1e9;
            why = format!("down: failed by hand at t = {t_s:.3} s; else {why}");
        }
        let [a, b] = [a_id, b_id].map(|node| layout.node(node).name.clone());
        let mut forwarding = Vec::new();
        // Only nodes without a stack have forwarding counters in the link plane.
        for (node, name) in [(a_id, &a), (b_id, &b)] {
            let Some(member) = held.kernels.member(node) else {
                continue;
            };
            let counts = held.links.transit(member);
            if let Some(counts) = counts.map_err(|error| impair::refusal(&error))? {
                forwarding.push(NodeForwarding {
                    node: name.clone(),
                    forwarding: forwarding_of(&counts),
                });
            }
        }
        Ok(LinkShown {
            forwarding,
            catalogued: catalogued_in(&blueprint.lab, [a.as_str(), b.as_str()]),
            a,
            b,
            up: !edges.is_empty() && failed_ns.is_none(),
            why,
            edges,
            t_ns: self.clock.now_ns(),
        })
    }

    fn loads(&self) -> Result<Loads, ApiError> {
        // Only the link plane is held: a lab can only go down when its nodes are no longer held.
        let links = self.held()?.links;
        loads::loads(links.as_ref(), self.clock.now_ns()).map_err(|error| impair::refusal(&error))
    }

    fn routes(&self, node: &str) -> Result<Routes, ApiError> {
        let held = self.held()?;
        let id = find(&held.blueprint, node)?;
        let t_ns = self.clock.now_ns();
        inspect::routes(&held.kernels, id, t_ns).map_err(|error| failed(&error))
    }

    fn path(
        &self,
        from: &str,
        to: &str,
        at_ns: Option<u64>,
        wanted: &(dyn Fn() -> bool + Sync),
    ) -> Result<Paths, ApiError> {
        let blueprint = Arc::clone(&self.held()?.blueprint);
        let blueprint = blueprint.as_ref();
        let from = find(blueprint, from)?;
        let goal = find_goal(blueprint, from, to)?;
        // The topology of another time may take seconds to compute, during which no node may be held.
        let then = at_ns.map(|at_ns| self.sky_at(blueprint, at_ns, wanted));
        let then = then.transpose()?;
        // The nodes are held only now, for as long as the kernels take to answer, because the lab cannot go down
        // before.
        let Held {
            kernels,
            mut snapshot,
            ..
        } = self.held()?;
        // A held clock stays at the snapshot's time.
        let now_ns = self.clock.now_ns().map_or(snapshot.t_ns, |t| {
            // The next step's edges are in force a moment before this view has them, so that the time is limited to
            // the end of the step.
            t.min(snapshot.t_ns + blueprint.lab.step_ns())
        });
        let t_ns = at_ns.unwrap_or(now_ns);
        if let Some(then) = then {
            snapshot = Arc::new(then);
        }
        let snapshot = self.in_force(blueprint, &snapshot);
        let times = inspect::Times {
            edges_ns: t_ns,
            tables_ns: now_ns,
        };
        inspect::path(&kernels, &snapshot, (from, &goal), times).map_err(|error| failed(&error))
    }

    fn networks(&self) -> Result<Vec<NetworkShown>, ApiError> {
        let held = self.held()?;
        let away = self.away.lock().unwrap_or_else(|e| e.into_inner());
        let blueprint = &held.blueprint;
        let snapshot = self.in_force(blueprint, &held.snapshot);
        Ok(members::shown(&away, blueprint, &snapshot))
    }

    fn follow(&self) -> Subscription {
        self.log.follow()
    }
}

/// Returns the error for a kernel that did not answer.
pub(super) fn failed(error: &EngineError) -> ApiError {
    ApiError::new(ErrorCode::Failed, error.to_string())
}

/// Returns the node of that name or catalogue name; otherwise the error has the nearest name.
pub(super) fn find(blueprint: &Blueprint, name: &str) -> Result<NodeId, ApiError> {
    named(&blueprint.lab, name)
}

/// Returns the node of that name, or the ends of disjoint paths: one as `london.tl.2`, or all of a pair as
/// `london.tl`.
fn find_goal(blueprint: &Blueprint, from: NodeId, name: &str) -> Result<PathDestination, ApiError> {
    let (layout, paths) = (&blueprint.lab.layout, blueprint.addresses.paths());
    let ends = paths.find(layout, name);
    let Some(first) = ends.first().copied() else {
        return find(blueprint, name).map(|node| PathDestination {
            node,
            name: blueprint.lab.layout.node(node).name.clone(),
            paths: Vec::new(),
        });
    };
    // Disjoint paths exist only between the two nodes of their pair.
    let other = paths.node(first.other());
    if other != from {
        let (from, other) = (&layout.node(from).name, &layout.node(other).name);
        let error = format!(
            "no path of the pair leads from '{from}' to '{name}': ask for those from '{other}'"
        );
        return Err(ApiError::new(ErrorCode::NoPath, error));
    }
    Ok(PathDestination {
        node: paths.node(first),
        name: name.to_owned(),
        paths: ends,
    })
}
