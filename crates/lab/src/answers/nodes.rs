//! Nodes that users fail, stop, pause or remove by command.
//!
//! Links of a failed node are cut at once, as `link fail` does. From the next step that is planned on, the node is failed in
//! the topology as by a failure of the scenario, so that stations choose other satellites. Programs are stopped and started by
//! the step loop, which supervises them, at the [`Order`]s of this module.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use constel_api::answers::{NodesSet, RoutesAfter};
use constel_api::{ApiError, ErrorCode, EventData, NodeChange};
use constel_host::process::signal_members;
use constel_link::Effects;
use constel_plan::EdgeEnds;
use constel_scenario::model::{Action, Flow, Name};
use constel_topology::NodeId;
use rustix::process::Signal;

use super::impair;
use super::node_states::{BY_HAND, Order};
use super::view::{Held, View, find};
use crate::clock::mono_ns;
use crate::failed::Change;
use crate::information::News;
use constel_api::summary::ChangeKind;

/// How often a request that waits for the step loop checks whether the lab ends.
const LOOK: Duration = Duration::from_millis(50);

/// The time in which everything that supervises programs of a node notices that the node is down, before its processes are
/// killed: otherwise their ends would count as failures. It is many times the interval of the loops.
const NOTICE: Duration = Duration::from_millis(200);

impl View {
    /// Carries out a change of nodes.
    ///
    /// # Errors
    /// As [`constel_api::LabWriter::set_nodes`].
    pub(super) fn change_nodes(
        &self,
        names: &[String],
        change: NodeChange,
        wait: bool,
    ) -> Result<NodesSet, ApiError> {
        if self.orders.is_some() {
            let error = "nodes of a lab on several machines cannot be changed by hand; `link fail` takes `--store`";
            return Err(ApiError::new(ErrorCode::Unsupported, error.to_owned()));
        }
        if self.clock.zero_mono_ns().is_none() {
            return Err(ApiError::coming_up());
        }
        let (nodes, unchanged) = self.chosen(names, change)?;
        let mut answer = NodesSet {
            change,
            nodes: self.names(&nodes)?,
            unchanged: self.names(&unchanged)?,
            at_mono_ns: mono_ns(),
            links_from_ns: None,
            processes: 0,
            routes: RoutesAfter::Untouched,
        };
        if nodes.is_empty() {
            return Ok(answer);
        }
        let mut version = None;
        match change {
            NodeChange::Fail => (answer.at_mono_ns, version) = self.fail_nodes(&nodes)?,
            NodeChange::Heal => answer.links_from_ns = Some(self.heal_nodes(&nodes)?),
            NodeChange::Stop => {
                (answer.at_mono_ns, version) = self.fail_nodes(&nodes)?;
                answer.processes = self.end_programs(&nodes)?;
            }
            NodeChange::Remove => {
                self.end_flows_of(&answer.nodes);
                (answer.at_mono_ns, version) = self.fail_nodes(&nodes)?;
                answer.processes = self.end_programs(&nodes)?;
                self.nodes.lock().removed.extend(&nodes);
            }
            NodeChange::Start | NodeChange::Add => {
                self.start_programs(&nodes)?;
                self.nodes
                    .lock()
                    .removed
                    .retain(|node| !nodes.contains(node));
                answer.links_from_ns = Some(self.heal_nodes(&nodes)?);
            }
            NodeChange::Restart => {
                answer.processes = self.end_programs(&nodes)?;
                self.start_programs(&nodes)?;
            }
            NodeChange::Pause => {
                answer.processes = self.signal(&nodes, Signal::STOP)?;
                self.nodes.lock().paused.extend(&nodes);
            }
            NodeChange::Resume => {
                answer.processes = self.signal(&nodes, Signal::CONT)?;
                self.nodes
                    .lock()
                    .paused
                    .retain(|node| !nodes.contains(node));
            }
        }
        let nodes = answer.nodes.clone();
        self.log
            .emit(self.t_ns(), EventData::NodesSet { change, nodes });
        answer.routes = match version {
            Some(_) if !wait => RoutesAfter::NotAwaited,
            version => self.routes_after(version, answer.at_mono_ns),
        };
        Ok(answer)
    }

    /// Divides the named nodes into those that a change has an effect on, and the others. Each is listed once.
    fn chosen(
        &self,
        names: &[String],
        change: NodeChange,
    ) -> Result<(Vec<NodeId>, Vec<NodeId>), ApiError> {
        let blueprint = self.held()?.kernels.blueprint.clone();
        let (mut nodes, mut unchanged) = (Vec::new(), Vec::new());
        for name in names {
            let node = find(&blueprint, name)?;
            let changes = self.nodes.changes(node, change);
            let list = match changes {
                Ok(true) => &mut nodes,
                Ok(false) => &mut unchanged,
                Err(why) => {
                    let name = &blueprint.lab.layout.node(node).name;
                    let error = format!("node '{name}' {why}");
                    return Err(ApiError::new(ErrorCode::BadValue, error));
                }
            };
            if !list.contains(&node) {
                list.push(node);
            }
        }
        Ok((nodes, unchanged))
    }

    fn names(&self, nodes: &[NodeId]) -> Result<Vec<String>, ApiError> {
        let layout = self.held()?.kernels.blueprint.lab.layout.clone();
        let name = |node: &NodeId| layout.node(*node).name.clone();
        Ok(nodes.iter().map(name).collect())
    }

    /// Fails nodes: cuts their links, and has them failed in the topology from the next step on. Nodes that are failed already
    /// stay so. Returns when the links were cut, and the version of the list of failed edges if that changed.
    fn fail_nodes(&self, nodes: &[NodeId]) -> Result<(u64, Option<u64>), ApiError> {
        let new: Vec<NodeId> = {
            let mut inner = self.nodes.lock();
            let new = nodes.iter().filter(|node| !inner.failed.contains_key(node));
            let new: Vec<NodeId> = new.copied().collect();
            new.iter()
                .for_each(|node| drop(inner.failed.insert(*node, Vec::new())));
            new
        };
        let done = self.cut(&new).inspect_err(|_| {
            let mut inner = self.nodes.lock();
            inner.failed.retain(|node, _| !new.contains(node));
        })?;
        let objects = self.names(&new)?;
        if objects.is_empty() {
            return Ok(done);
        }
        let mut inner = self.nodes.lock();
        inner.unplanned.extend(&new);
        inner.plans.push((new, true));
        drop(inner);
        self.note(ChangeKind::Failure, objects.clone());
        let cause = BY_HAND.to_owned();
        self.log
            .emit(self.t_ns(), EventData::Failure { cause, objects });
        Ok(done)
    }

    /// Records a change of nodes for the summary, which then has the time until routes have converged.
    fn note(&self, kind: ChangeKind, objects: Vec<String>) {
        let t_ns = self.clock.now_ns().unwrap_or(0);
        self.failed.note(Change {
            t_ns,
            kind,
            objects,
        });
    }

    /// Cuts the present links of failed nodes, as far as these are not down by command yet.
    ///
    /// # Errors
    /// When the link plane refuses: nothing was changed.
    pub(crate) fn cut(&self, nodes: &[NodeId]) -> Result<(u64, Option<u64>), ApiError> {
        if nodes.is_empty() {
            return Ok((mono_ns(), None));
        }
        let Held {
            kernels,
            links,
            snapshot,
            ..
        } = self.held()?;
        let layout = &kernels.blueprint.lab.layout;
        let own = |port| Some(layout.port(port).node).filter(|node| nodes.contains(node));
        let failed = self.failed.now();
        let mut of: BTreeMap<NodeId, Vec<EdgeEnds>> = BTreeMap::new();
        for edge in &snapshot.edges {
            let ends = (edge.from, edge.to);
            if let Some(node) = own(ends.0).or_else(|| own(ends.1))
                && !failed.contains(ends)
            {
                of.entry(node).or_default().push(ends);
            }
        }
        let edges: Vec<EdgeEnds> = of.values().flatten().copied().collect();
        let done = self.set_down(links.as_ref(), &edges, true)?;
        let mut healed = Vec::new();
        {
            let mut inner = self.nodes.lock();
            for (node, edges) in of {
                match inner.failed.get_mut(&node) {
                    Some(cut) => cut.extend(edges),
                    None => healed.extend(edges),
                }
            }
        }
        // Another request healed their nodes at the same time.
        if !healed.is_empty() {
            self.set_down(links.as_ref(), &healed, false)?;
        }
        Ok(done)
    }

    /// Takes edges down or up by command, at one instant.
    fn set_down(
        &self,
        links: &dyn constel_drivers::Links,
        edges: &[EdgeEnds],
        down: bool,
    ) -> Result<(u64, Option<u64>), ApiError> {
        let zero_ns = self.clock.zero_mono_ns().unwrap_or_else(mono_ns);
        let patch = Effects::failed(down);
        let mut away = self.away.lock().unwrap_or_else(|e| e.into_inner());
        let changed = self.change_by_hand(links, |_| {
            let (_, changes) = impair::on_edges(links, (edges, &away), (&patch, false), zero_ns)?;
            Ok::<_, constel_drivers::DriverError>(((), changes))
        });
        let ((), at_mono_ns) = changed.map_err(|error| impair::refusal(&error))?;
        let t_ns = self.clock.now_ns().unwrap_or(0);
        edges.iter().for_each(|edge| away.set_failed(*edge, down));
        // Edges of absent members are in the list already.
        let listed = edges
            .iter()
            .filter(|edge| away.failed_by_hand(**edge).is_none());
        let version = self
            .failed
            .set_edges(t_ns, listed.map(|edge| (*edge, down)));
        drop(away);
        if version.is_some() {
            self.inform(|| News::Failed);
        }
        Ok((at_mono_ns, version))
    }

    /// Heals failed nodes. Returns the lab time by which their links are there again.
    fn heal_nodes(&self, nodes: &[NodeId]) -> Result<u64, ApiError> {
        let Held { kernels, links, .. } = self.held()?;
        let (layout, step_ns) = (
            &kernels.blueprint.lab.layout,
            kernels.blueprint.lab.step_ns(),
        );
        let mut inner = self.nodes.lock();
        let mut edges: Vec<EdgeEnds> = Vec::new();
        for node in nodes {
            edges.extend(inner.failed.remove(node).into_iter().flatten());
        }
        // A link to a node that is still failed stays cut for that one.
        edges.retain(|&(from, to)| {
            let mut ends = [from, to].into_iter().map(|port| layout.port(port).node);
            let Some(other) = ends.find(|end| inner.failed.contains_key(end)) else {
                return true;
            };
            inner.failed.entry(other).or_default().push((from, to));
            false
        });
        // Nodes that the topology never had as failed have their links at once.
        let (at_once, later): (Vec<NodeId>, Vec<NodeId>) = nodes
            .iter()
            .copied()
            .partition(|node| inner.unplanned.remove(node));
        inner.plans.push((nodes.to_vec(), false));
        drop(inner);
        self.set_down(links.as_ref(), &edges, false)?;
        let objects = self.names(&at_once)?;
        if !objects.is_empty() {
            self.note(ChangeKind::Repair, objects.clone());
            let cause = BY_HAND.to_owned();
            self.log
                .emit(self.t_ns(), EventData::Repair { cause, objects });
        }
        let now_ns = self.clock.now_ns().unwrap_or(0);
        Ok(match later.is_empty() {
            true => now_ns,
            // The next step may be planned already.
            false => (now_ns / step_ns + 2) * step_ns,
        })
    }

    /// Ends the flows with an end in one of these nodes, so that their clients are not failed software.
    fn end_flows_of(&self, nodes: &[String]) {
        let in_them = |name: &Name| nodes.iter().any(|node| node == name.as_str());
        let ends = |flow: &Flow| match (&flow.action, flow.action.ends()) {
            (Action::Run(run), _) => in_them(&run.node),
            (_, Some((from, to))) => in_them(from) || in_them(to),
            _ => false,
        };
        let flows = self.steering.lock().past.flows.clone();
        let ended = || flows.iter().filter(|flow| ends(flow));
        let names = || ended().map(|flow| flow.name.to_string());
        self.nodes.end_flows(names());
        self.steering.unfollow(names());
    }

    /// Kills all processes in nodes, and has nothing start there. Returns their number.
    fn end_programs(&self, nodes: &[NodeId]) -> Result<usize, ApiError> {
        // Paused programs must run to end in good order, before the others are killed.
        let present = self.signal(nodes, Signal::CONT)?;
        {
            let mut inner = self.nodes.lock();
            inner.stopped.extend(nodes);
            inner.paused.retain(|node| !nodes.contains(node));
        }
        self.order(nodes, false)?;
        std::thread::sleep(NOTICE);
        Ok(present.max(self.signal(nodes, Signal::KILL)?))
    }

    /// Has the programs of stopped nodes start again.
    fn start_programs(&self, nodes: &[NodeId]) -> Result<(), ApiError> {
        // The ends of killed programs must be known before they start again.
        std::thread::sleep(NOTICE);
        self.order(nodes, true)?;
        self.nodes
            .lock()
            .stopped
            .retain(|node| !nodes.contains(node));
        Ok(())
    }

    /// Gives the step loop an order, and waits until it is carried out. No node is held during the wait.
    fn order(&self, nodes: &[NodeId], starts: bool) -> Result<(), ApiError> {
        let (done, answer) = sync_channel(1);
        self.nodes.lock().orders.push(Order {
            nodes: nodes.to_vec(),
            starts,
            done,
        });
        loop {
            match answer.recv_timeout(LOOK) {
                Ok(done) => return done.map_err(|error| ApiError::new(ErrorCode::Failed, error)),
                Err(RecvTimeoutError::Timeout) if !self.stop.load(Ordering::Acquire) => {}
                Err(_) => return Err(ApiError::coming_up()),
            }
        }
    }

    /// Signals all processes in nodes. Returns their number.
    fn signal(&self, nodes: &[NodeId], signal: Signal) -> Result<usize, ApiError> {
        let paths: Vec<PathBuf> = {
            let kernels = self.held()?.kernels;
            // A node without a stack has no processes.
            let here = nodes.iter().filter(|node| kernels.member(**node).is_none());
            here.map(|node| kernels.node(*node).netns_path()).collect()
        };
        let mut count = 0;
        for path in paths {
            let signalled = signal_members(&path, signal);
            count +=
                signalled.map_err(|error| ApiError::new(ErrorCode::Failed, error.to_string()))?;
        }
        Ok(count)
    }
}
