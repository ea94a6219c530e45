//! The actions of a running lab at the request of other processes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, channel};

use constel_api::answers::{
    Applied, Capturing, CommandSent, Confinement, DelaysSet, LinkSet, MemberSet, NodeAccess,
    NodesSet, PolicyJoined, RoutesAfter, StationsSet, UserFileSet,
};
use constel_api::{
    ApiError, ApplyOrder, CaptureOrder, CaptureSource, ErrorCode, EventData, LabWriter, NodeChange,
    PolicyOrder, PolicySeat, SetLink, StationChange,
};
use constel_plan::Blueprint;
use constel_scenario::model::{USER_FILE_BYTES, is_user_file_name};
use constel_topology::NodeId;

use super::by_hand::{Delays, ManualChange, MemberMove};
use super::view::{Held, View, failed, find};
use super::{capture, delays};
use crate::information::{Informant, News};

/// The largest command for the programs of a node, bytes of JSON: two of this size fit into the node's event file.
const COMMAND_BYTES: usize = 16 << 10;

impl LabWriter for View {
    fn capture(
        &self,
        order: &CaptureOrder,
    ) -> Result<(Capturing, Box<dyn CaptureSource>), ApiError> {
        // Only the plan and the link plane are kept by the capture: a lab can only go down when its nodes are no
        // longer held.
        let Held { kernels, links, .. } = self.held()?;
        let blueprint = &kernels.blueprint;
        capture::capture(blueprint, links.as_ref(), order, |name| {
            find(blueprint, name)
        })
    }

    fn policy(&self, order: &PolicyOrder) -> Result<(PolicyJoined, Arc<dyn PolicySeat>), ApiError> {
        if self.orders.is_some() {
            let error = "a live policy needs a lab on one machine: others would plan without it";
            return Err(ApiError::new(ErrorCode::Unsupported, error));
        }
        // No node is held while the policy is connected: a lab can only go down when its nodes are no longer held.
        let blueprint = Arc::clone(&self.held()?.kernels.blueprint);
        let (joined, seat) = self.policy.join(order, &blueprint, &self.clock)?;
        let (policy, within_ns) = (order.name.clone(), joined.within_ns);
        let happened = EventData::PolicyJoined { policy, within_ns };
        self.log.emit(self.t_ns(), happened);
        Ok((joined, seat))
    }

    fn set_link(&self, order: &SetLink) -> Result<LinkSet, ApiError> {
        // No node is held during the wait for routes: a lab can only go down when its nodes are no longer held.
        if order.for_ns.is_some() {
            self.may_end_by_itself()?;
        }
        let what = ManualChange::Link(Box::new(self.impairing(&self.held()?, order)?));
        let (mut answer, version) = self.everywhere(&what)?.link()?;
        answer.routes = match version {
            Some(_) if !order.wait => RoutesAfter::NotAwaited,
            version => self.routes_after(version, answer.at_mono_ns),
        };
        Ok(answer)
    }

    fn set_nodes(
        &self,
        nodes: &[String],
        change: NodeChange,
        wait: bool,
    ) -> Result<NodesSet, ApiError> {
        self.change_nodes(nodes, change, wait)
    }

    fn apply(&self, order: &ApplyOrder) -> Result<Applied, ApiError> {
        self.apply_scenario(order)
    }

    fn set_station(
        &self,
        stations: &[String],
        change: &StationChange,
    ) -> Result<StationsSet, ApiError> {
        self.change_stations(stations, change)
    }

    fn set_member(&self, network: &str, node: &str, joined: bool) -> Result<MemberSet, ApiError> {
        // No node is held during the wait for routes: a lab can only go down when its nodes are no longer held.
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
                    "'{name}' has no port in '{network}'; `members` of the scenario lists the nodes that have one, and `away` those that join later"
                );
                return Err(ApiError::new(ErrorCode::BadName, error));
            };
            MemberMove {
                network: network.to_owned(),
                node: name,
                port: *port,
                joined,
            }
        };
        let node = moving.node.clone();
        let moved = self.everywhere(&ManualChange::Member(moving))?.member()?;
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
        // On one machine the matrix need not be copied into an order.
        if self.orders.is_none() {
            return self.put_delays(place, delays_ns, None);
        }
        let delays = Delays {
            network: place,
            delays_ns: delays_ns.map(<[_]>::to_vec),
        };
        self.everywhere(&ManualChange::Delays(delays))?.delays()
    }

    fn enter(&self, node: &str) -> Result<NodeAccess, ApiError> {
        let kernels = self.with(|live| live.kernels.clone());
        let kernels = kernels.ok_or_else(ApiError::coming_up)?;
        let id = find(&kernels.blueprint, node)?;
        let groups = self.with(|live| live.groups.clone());
        let name = &kernels.blueprint.lab.layout.node(id).name;
        if self.nodes.word(id) == Some("removed") {
            let error = format!("node '{name}' was removed: `constel node add` brings it back");
            return Err(ApiError::new(ErrorCode::BadValue, error));
        }
        kernels.entered(id);
        let door = kernels.node(id).door(name);
        let door = door.map_err(|error| failed(&error.into()))?;
        let cgroups = groups.map(|of| of.paths(name)).unwrap_or_default();
        let Some(inner) = door.inner else {
            return Ok(NodeAccess::Netns {
                node: name.clone(),
                netns: door.netns,
                mounts: door.mounts,
                pids: door.pids,
                cgroups,
            });
        };
        let confinement = inner.confinement;
        // The containers of an engine are in cgroups that the engine created.
        let cgroups = match inner.cgroups.is_empty() {
            true => cgroups,
            false => inner.cgroups,
        };
        let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        let env = inner.env.into_iter();
        Ok(NodeAccess::Oci {
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
        // The informant's thread owns the files; it reports the result over the channel.
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
        let what = EventData::UserFile {
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
        let what = EventData::Command {
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

impl View {
    /// Returns the informant, and the node of that name, which must receive information.
    ///
    /// # Errors
    /// [`ErrorCode::NodeNotFound`], [`ErrorCode::NoInformation`], [`ErrorCode::ComingUp`].
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
                    "the node '{name}' gets no information: the scenario's `information` does not include it"
                );
                Err(ApiError::new(ErrorCode::NoInformation, error))
            }
        }
    }
}

/// Returns the index of a network, by its name.
///
/// # Errors
/// [`ErrorCode::BadName`], with the names of all networks.
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

/// Waits for the result of a message to the informant.
fn answered<T>(done: &Receiver<Result<T, String>>) -> Result<T, ApiError> {
    // The channel closes without an answer when the lab ends.
    let done = done.recv().map_err(|_| ApiError::coming_up())?;
    done.map_err(|error| ApiError::new(ErrorCode::Failed, error))
}
