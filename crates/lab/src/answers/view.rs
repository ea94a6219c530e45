//! What a running lab answers to questions from other processes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use constel_api::answers::{
    BriefEffects, Capturing, CommandSent, Confinement, DelaysSet, EdgeShown, Entrance, Forwarding,
    LabRow, LabState, LinkSet, LinkShown, Loads, ManagementShown, MemberSet, NetworkShown,
    NodeForwarding, NodeShown, Paths, Routes, RoutesAfter, ScenarioShown, Shown, UserFileSet,
};
use constel_api::{
    ApiError, CaptureOrder, CaptureSource, ErrorCode, Happening, LabReader, LabWriter, SetLink,
    Subscription,
};
use constel_drivers::Links;
use constel_drivers::relay::TransitCounts;
use constel_link::{Effects, PortId};
use constel_plan::{Blueprint, NotOne};
use constel_scenario::model::{USER_FILE_BYTES, is_user_file_name};
use constel_topology::{Effort, NodeId, Snapshot, Unreached, why};
use constel_transit::Cause;

use crate::answers::by_hand::{ByHand, Delays, Moving};
use crate::answers::inspect::{self, Goal};
use crate::answers::members::Away;
use crate::answers::orders::Orders;
use crate::answers::{capture, catalogued_in, delays, impair, loads};
use crate::clock::LabClock;
use crate::error::EngineError;
use crate::failed::Failed;
use crate::information::{Informant, News};
use crate::nodes::cgroups::Cgroups;
use crate::nodes::kernels::Kernels;
use crate::watch::event_log::EventLog;

/// Most bytes of what is sent to the programs of a node, as JSON: two fit into their file of events.
const COMMAND_BYTES: usize = 16 << 10;

/// What the view needs; parts appear as the lab comes up.
#[derive(Default)]
pub(crate) struct Live {
    pub(crate) kernels: Option<Arc<Kernels>>,
    pub(crate) links: Option<Arc<dyn Links>>,
    pub(crate) snapshot: Option<Arc<Snapshot>>,
    /// What tells nodes, where some ask.
    pub(crate) informant: Option<Arc<Informant>>,
    /// The groups that programs are in.
    pub(crate) groups: Option<Arc<Cgroups>>,
    pub(crate) state: LabState,
    pub(crate) scenario: String,
}

/// The lab's side of the socket.
pub(crate) struct View {
    pub(crate) lab: String,
    /// What it runs.
    pub(crate) scenario: ScenarioShown,
    /// Held for moments only, never while a kernel or the link plane is asked: the step loop takes it too.
    pub(crate) live: Mutex<Live>,
    pub(crate) clock: Arc<LabClock>,
    pub(crate) log: Arc<EventLog>,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) failed: Arc<Failed>,
    /// What was set on ports by hand; held while a port is set.
    pub(crate) on_ports: Mutex<BTreeMap<PortId, Effects>>,
    /// Members that are out of their networks; held while one comes or goes.
    pub(crate) away: Mutex<Away>,
    /// How machines make changes by hand together, where there are several.
    pub(crate) orders: Option<Orders>,
}

/// Everything of the lab at one moment, taken out of the lock.
pub(super) struct Held {
    pub(super) kernels: Arc<Kernels>,
    pub(super) links: Arc<dyn Links>,
    pub(super) snapshot: Arc<Snapshot>,
}

impl View {
    fn with<T>(&self, f: impl FnOnce(&Live) -> T) -> T {
        f(&self.live.lock().unwrap_or_else(|e| e.into_inner()))
    }

    pub(crate) fn change(&self, f: impl FnOnce(&mut Live)) {
        f(&mut self.live.lock().unwrap_or_else(|e| e.into_inner()));
    }

    /// The topology in force, if there is one.
    pub(crate) fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.with(|live| live.snapshot.clone())
    }

    /// Leaves a message for what tells nodes, where some ask.
    pub(crate) fn inform(&self, news: impl FnOnce() -> News) {
        if let Some(informant) = self.with(|live| live.informant.clone()) {
            informant.tell(news());
        }
    }

    /// The first thing that could not be told to nodes, if any.
    pub(crate) fn untold(&self) -> Option<String> {
        self.with(|live| live.informant.clone())?.problem()
    }

    pub(super) fn held(&self) -> Result<Held, ApiError> {
        self.with(|live| {
            Some(Held {
                kernels: live.kernels.clone()?,
                links: live.links.clone()?,
                snapshot: live.snapshot.clone()?,
            })
        })
        .ok_or_else(ApiError::coming_up)
    }

    fn row(&self, live: &Live) -> LabRow {
        let snapshot = live.snapshot.as_ref();
        LabRow {
            lab: self.lab.clone(),
            state: live.state,
            scenario: live.scenario.clone(),
            pid: std::process::id(),
            nodes: live.kernels.as_ref().map_or(0, |kernels| kernels.count()),
            edges: snapshot.map_or(0, |snapshot| snapshot.edges.len()),
            t_ns: self.clock.now_ns(),
        }
    }

    /// The topology of the step at lab time `at_ns`, found without holding any node.
    ///
    /// # Errors
    /// When the lab is going down or nobody waits for the answer; [`ErrorCode::TooFar`].
    fn sky_at(
        &self,
        blueprint: &Blueprint,
        at_ns: u64,
        wanted: &(dyn Fn() -> bool + Sync),
    ) -> Result<Snapshot, ApiError> {
        let wanted = || !self.stop.load(Ordering::Acquire) && wanted();
        let mut effort = Effort::new(Effort::QUESTION, &wanted);
        let step = at_ns / blueprint.lab.step_ns();
        let found = blueprint.lab.stepper().try_step(step, &mut effort);
        found.map_err(|error| match error {
            Unreached::Unwanted => ApiError::coming_up(),
            far => ApiError::new(ErrorCode::TooFar, far.to_string()),
        })
    }

    pub(super) fn t_ns(&self) -> Option<i64> {
        self.clock.now_ns().and_then(|t| i64::try_from(t).ok())
    }

    /// What tells nodes, and the node of that name, which is told.
    ///
    /// # Errors
    /// [`ErrorCode::NodeNotFound`], [`ErrorCode::NotTold`], [`ErrorCode::ComingUp`].
    fn told(&self, node: &str) -> Result<(Arc<Informant>, NodeId, String), ApiError> {
        let blueprint = Arc::clone(&self.held()?.kernels.blueprint);
        let id = find(&blueprint, node)?;
        let name = blueprint.lab.layout.node(id).name.clone();
        let informant = self.with(|live| live.informant.clone());
        let asks = |of: &Arc<Informant>| of.telling().asked(id).is_some();
        match informant.filter(asks) {
            Some(informant) => Ok((informant, id, name)),
            None => {
                let error = format!(
                    "the node '{name}' is told nothing: the scenario's `information` is not for it"
                );
                Err(ApiError::new(ErrorCode::NotTold, error))
            }
        }
    }

    /// One direction of a link.
    ///
    /// # Errors
    /// When the link plane has stopped.
    fn edge(&self, held: &Held, from: PortId, to: PortId) -> Result<EdgeShown, ApiError> {
        let layout = &held.kernels.blueprint.lab.layout;
        let end = |port: PortId| {
            let port = layout.port(port);
            format!("{}/{}", layout.node(port.node).name, port.name())
        };
        let links = &held.links;
        let failed = |error| impair::refusal(&error);
        let effects = links.effects(from, to).map_err(failed)?.in_force;
        let impairment = held.snapshot.edge(from, to).map(|edge| &edge.impairment);
        let now_ns = self.clock.now_ns().unwrap_or(0);
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

/// The place of a network, by its name.
///
/// # Errors
/// [`ErrorCode::BadName`], with those that there are.
fn network_of(blueprint: &Blueprint, network: &str) -> Result<usize, ApiError> {
    let networks = || blueprint.lab.layout.spec().networks.iter();
    let found = networks().position(|n| n.name == network);
    found.ok_or_else(|| {
        let all: Vec<&str> = networks().map(|n| n.name.as_str()).collect();
        let error = match all.is_empty() {
            true => "this lab has no networks".to_owned(),
            false => format!(
                "no network is called '{network}'; there is {}",
                all.join(", ")
            ),
        };
        ApiError::new(ErrorCode::BadName, error)
    })
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
        let (lab, kernels, snapshot, links) = self.with(|live| {
            let (kernels, snapshot) = (live.kernels.clone(), live.snapshot.clone());
            (self.row(live), kernels, snapshot, live.links.clone())
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
            let blueprint = &kernels.blueprint;
            let layout = &blueprint.lab.layout;
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
            relay: links.and_then(|links| Some(links.snapshot().ok()?.detail)),
        }
    }

    fn scenario(&self) -> Result<ScenarioShown, ApiError> {
        Ok(self.scenario.clone())
    }

    fn link(&self, a: &str, b: &str) -> Result<LinkShown, ApiError> {
        let held = self.held()?;
        let (layout, snapshot) = (&held.kernels.blueprint.lab.layout, &held.snapshot);
        let blueprint = &held.kernels.blueprint;
        let (a_id, b_id) = (find(blueprint, a)?, find(blueprint, b)?);
        let (mut edges, mut failed_ns) = (Vec::new(), Vec::new());
        for (from, to) in [(a_id, b_id), (b_id, a_id)] {
            let ports = layout.ports_of(from).iter();
            for edge in ports.flat_map(|port| snapshot.edges_from(port.id)) {
                if layout.port(edge.to).node == to {
                    edges.push(self.edge(&held, edge.from, edge.to)?);
                    failed_ns.push(self.failed.since_ns((edge.from, edge.to)));
                }
            }
        }
        // Down is a link of which nothing is left.
        let all: Option<Vec<u64>> = failed_ns.into_iter().collect();
        let failed_ns = all.and_then(|all| all.into_iter().max());
        let mut why = why(layout, snapshot, a_id, b_id).describe(layout);
        if let Some(failed_ns) = failed_ns {
            let t_s = failed_ns as f64 / 1e9;
            why = format!("down: failed by hand at t = {t_s:.3} s; else {why}");
        }
        let [a, b] = [a_id, b_id].map(|node| layout.node(node).name.clone());
        let mut forwarding = Vec::new();
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
        // Only the link plane is held: a lab goes down when nobody holds its nodes.
        let links = self.held()?.links;
        loads::loads(links.as_ref(), self.clock.now_ns()).map_err(|error| impair::refusal(&error))
    }

    fn routes(&self, node: &str) -> Result<Routes, ApiError> {
        let held = self.held()?;
        let id = find(&held.kernels.blueprint, node)?;
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
        let blueprint = Arc::clone(&self.held()?.kernels.blueprint);
        let blueprint = blueprint.as_ref();
        let from = find(blueprint, from)?;
        let goal = find_goal(blueprint, from, to)?;
        let then = at_ns.map(|at_ns| self.sky_at(blueprint, at_ns, wanted));
        let then = then.transpose()?;
        // Only now, and only as long as kernels take to answer: a lab goes down when nobody holds its nodes.
        let Held {
            kernels,
            mut snapshot,
            ..
        } = self.held()?;
        // A held clock stands at the snapshot's time.
        let now_ns = self.clock.now_ns().map_or(snapshot.t_ns, |t| {
            // The next step's edges are in force a moment before this view has them.
            t.min(snapshot.t_ns + blueprint.lab.step_ns())
        });
        let t_ns = at_ns.unwrap_or(now_ns);
        if let Some(then) = then {
            snapshot = Arc::new(then);
        }
        let times = inspect::Times {
            edges_ns: t_ns,
            tables_ns: now_ns,
        };
        inspect::path(&kernels, &snapshot, (from, &goal), times).map_err(|error| failed(&error))
    }

    fn networks(&self) -> Result<Vec<NetworkShown>, ApiError> {
        let held = self.held()?;
        let away = self.away.lock().unwrap_or_else(|e| e.into_inner());
        Ok(away.shown(&held.kernels.blueprint, &held.snapshot))
    }

    fn follow(&self) -> Subscription {
        self.log.follow()
    }
}

impl LabWriter for View {
    fn capture(
        &self,
        order: &CaptureOrder,
    ) -> Result<(Capturing, Box<dyn CaptureSource>), ApiError> {
        // Nothing of the lab but its plan is held: a lab goes down when nobody holds its nodes.
        let Held { kernels, links, .. } = self.held()?;
        let blueprint = &kernels.blueprint;
        capture::capture(blueprint, links.as_ref(), order, |name| {
            find(blueprint, name)
        })
    }

    fn set_link(&self, order: &SetLink) -> Result<LinkSet, ApiError> {
        // Nothing is held while routes are waited for: a lab goes down when nobody holds its nodes.
        let what = ByHand::Link(Box::new(self.impairing(&self.held()?, order)?));
        let (mut answer, version) = self.everywhere(&what)?.link()?;
        answer.routes = match version {
            Some(_) if !order.wait => RoutesAfter::NotAwaited,
            version => self.routes_after(version, answer.at_mono_ns),
        };
        Ok(answer)
    }

    fn set_member(&self, network: &str, node: &str, joined: bool) -> Result<MemberSet, ApiError> {
        // Nothing is held while routes are waited for: a lab goes down when nobody holds its nodes.
        let moving = {
            let held = self.held()?;
            let blueprint = &held.kernels.blueprint;
            let layout = &blueprint.lab.layout;
            let place = network_of(blueprint, network)?;
            let id = find(blueprint, node)?;
            let name = layout.node(id).name.clone();
            let ports = layout.network_ports(place);
            let Some(port) = ports.iter().find(|port| layout.port(**port).node == id) else {
                let error = format!(
                    "'{name}' has no port in '{network}'; `members` of the scenario says who has, and `away` who joins later"
                );
                return Err(ApiError::new(ErrorCode::BadName, error));
            };
            Moving {
                network: network.to_owned(),
                node: name,
                port: *port,
                joined,
            }
        };
        let node = moving.node.clone();
        let moved = self.everywhere(&ByHand::Member(moving))?.member()?;
        Ok(MemberSet {
            at_mono_ns: moved.at_mono_ns,
            network: network.to_owned(),
            node,
            joined,
            changed: moved.changed,
            routes: self.routes_after(moved.version, moved.at_mono_ns),
        })
    }

    fn set_delays(
        &self,
        network: &str,
        delays_ns: Option<&[Vec<Option<u64>>]>,
    ) -> Result<DelaysSet, ApiError> {
        let place = {
            let held = self.held()?;
            let blueprint = &held.kernels.blueprint;
            let place = network_of(blueprint, network)?;
            let (links, snapshot) = (held.links.as_ref(), &held.snapshot);
            delays::check(blueprint, links, snapshot, place, delays_ns)?;
            place
        };
        if self.orders.is_none() {
            return self.put_delays(place, delays_ns, None);
        }
        let delays = Delays {
            network: place,
            delays_ns: delays_ns.map(<[_]>::to_vec),
        };
        self.everywhere(&ByHand::Delays(delays))?.delays()
    }

    fn enter(&self, node: &str) -> Result<Entrance, ApiError> {
        let kernels = self.with(|live| live.kernels.clone());
        let kernels = kernels.ok_or_else(ApiError::coming_up)?;
        let id = find(&kernels.blueprint, node)?;
        let groups = self.with(|live| live.groups.clone());
        let name = &kernels.blueprint.lab.layout.node(id).name;
        let door = kernels.node(id).door(name);
        let door = door.map_err(|error| failed(&error.into()))?;
        let cgroups = groups.map(|of| of.paths(name)).unwrap_or_default();
        let Some(inner) = door.inner else {
            return Ok(Entrance::Netns {
                node: name.clone(),
                netns: door.netns,
                mounts: door.mounts,
                pids: door.pids,
                cgroups,
            });
        };
        let confinement = inner.confinement;
        // An engine's containers are in groups that the engine made.
        let cgroups = match inner.cgroups.is_empty() {
            true => cgroups,
            false => inner.cgroups,
        };
        let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        let env = inner.env.into_iter();
        Ok(Entrance::Oci {
            node: name.clone(),
            netns: door.netns,
            mounts: door.mounts,
            pids: door.pids,
            first: inner.first,
            cgroups,
            confinement: Confinement {
                uid: confinement.uid,
                gid: confinement.gid,
                groups: confinement.groups,
                capabilities: confinement.capabilities.0,
                ambient: confinement.ambient.0,
                filtered: confinement.filtered,
                no_new_privileges: confinement.no_new_privileges,
            },
            env: env.map(|(name, value)| (text(name), text(value))).collect(),
            workdir: inner.workdir,
        })
    }

    fn user_file(
        &self,
        node: &str,
        name: &str,
        text: Option<String>,
    ) -> Result<UserFileSet, ApiError> {
        let (informant, node, called) = self.told(node)?;
        if !is_user_file_name(name) {
            let error = format!("no file can be called '{}'", name.escape_debug());
            return Err(ApiError::new(ErrorCode::BadValue, error));
        }
        let bytes = text.as_ref().map(String::len);
        if bytes.is_some_and(|bytes| bytes > USER_FILE_BYTES) {
            let error = format!("a file has at most {USER_FILE_BYTES} bytes");
            return Err(ApiError::new(ErrorCode::BadValue, error));
        }
        let (done, put) = channel();
        let file = name.to_owned();
        let name = file.clone();
        informant.tell(News::User {
            node,
            name: file,
            text,
            done,
        });
        answered(&put)?;
        let (node, t_ns) = (called, self.t_ns());
        let what = Happening::UserFile {
            node: node.clone(),
            name: name.clone(),
            bytes,
        };
        self.log.emit(t_ns, what);
        Ok(UserFileSet { node, name, bytes })
    }

    fn command(&self, node: &str, data: serde_json::Value) -> Result<CommandSent, ApiError> {
        let (informant, node, called) = self.told(node)?;
        if data.to_string().len() > COMMAND_BYTES {
            let error = format!("a command has at most {COMMAND_BYTES} bytes");
            return Err(ApiError::new(ErrorCode::BadValue, error));
        }
        let (done, sent) = channel();
        let what = Happening::Command {
            node: called.clone(),
            data: data.clone(),
        };
        informant.tell(News::Command { node, data, done });
        let seq = answered(&sent)?;
        self.log.emit(self.t_ns(), what);
        Ok(CommandSent { node: called, seq })
    }

    fn down(&self) {
        self.stop.store(true, Ordering::Release);
    }
}

/// What came of a message to what tells nodes.
fn answered<T>(done: &Receiver<Result<T, String>>) -> Result<T, ApiError> {
    // It ends with the lab.
    let done = done.recv().map_err(|_| ApiError::coming_up())?;
    done.map_err(|error| ApiError::new(ErrorCode::Failed, error))
}

/// A kernel did not answer.
fn failed(error: &EngineError) -> ApiError {
    ApiError::new(ErrorCode::Failed, error.to_string())
}

/// The node of that name, or that a catalogue calls so; else which is nearest.
pub(super) fn find(blueprint: &Blueprint, name: &str) -> Result<NodeId, ApiError> {
    blueprint.lab.find(name).map_err(|error| match &error {
        NotOne::None { nearest, .. } => ApiError::no_node(name, nearest.as_deref()),
        NotOne::Several { .. } => ApiError::new(ErrorCode::BadName, error.to_string()),
    })
}

/// The node of that name; or the ends of disjoint paths, as `london.tl.2` or, for all of the pair's, `london.tl`.
fn find_goal(blueprint: &Blueprint, from: NodeId, name: &str) -> Result<Goal, ApiError> {
    let (layout, paths) = (&blueprint.lab.layout, blueprint.addresses.paths());
    let ends = paths.find(layout, name);
    let Some(first) = ends.first().copied() else {
        return find(blueprint, name).map(|node| Goal {
            node,
            name: blueprint.lab.layout.node(node).name.clone(),
            paths: Vec::new(),
        });
    };
    let other = paths.node(first.other());
    if other != from {
        let (from, other) = (&layout.node(from).name, &layout.node(other).name);
        let error = format!(
            "no path of the pair leads from '{from}' to '{name}': ask for those from '{other}'"
        );
        return Err(ApiError::new(ErrorCode::NoPath, error));
    }
    Ok(Goal {
        node: paths.node(first),
        name: name.to_owned(),
        paths: ends,
    })
}
