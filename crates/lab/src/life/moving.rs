//! The creation of a lost machine's nodes on this machine, in parallel to lab time: a thread creates them, and the
//! steps take them in once they have disappeared everywhere.

use std::cell::RefCell;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Scope;
use std::time::Instant;

use constel_api::EventData;
use constel_containers::runtime::Node;
use constel_host::claim::RuntimeDir;
use constel_host::globals::Owner;
use constel_host::rcu::Expedited;
use constel_link::PortId;
use constel_topology::NodeId;

use crate::error::EngineError;
use crate::life::bring_up::{Fabric, write_namespaces};
use crate::life::lab_time::LabTime;
use crate::life::losses::Wanted;
use crate::life::observed::Observed;
use crate::life::together::ClusterPart;
use crate::nodes::builder::Builder;
use crate::nodes::ports::PortMaker;
use crate::progress::{Progress, Stage};
use crate::routing::machine::Machine;
use crate::routing::steps::Steps;
use crate::traffic::late::Come;

/// The thread that creates nodes during lab time.
pub(crate) struct NodeCreator {
    wanted: Sender<Wanted>,
    made: Receiver<Made>,
    /// The channel to the thread that runs flows of nodes that moved here.
    flows: Sender<Come>,
    /// The nodes that have not disappeared everywhere yet.
    early: RefCell<Vec<Made>>,
}

/// Nodes with their numbers.
type Nodes = Vec<(NodeId, Box<dyn Node>)>;

/// Nodes that were created, without links.
struct Made {
    wanted: Wanted,
    nodes: Result<Nodes, EngineError>,
    took_s: f64,
}

/// Nodes that this machine has from now on, or the reason why it does not.
pub(crate) struct Taken {
    /// The lost machine.
    pub(crate) machine: usize,
    /// The reason why they could not be created.
    pub(crate) failure: Option<String>,
    /// A message for the user.
    pub(crate) said: String,
}

impl NodeCreator {
    /// Starts the thread, which ends when this is dropped. `together` is this machine's part. Returns `None` if
    /// nodes do not move.
    pub(crate) fn begin<'s>(
        scope: &'s Scope<'s, '_>,
        fabric: &'s Fabric,
        ports: &'s dyn PortMaker,
        together: &'s ClusterPart,
        (owner, progress): (Owner, &'s dyn Progress),
        flows: Sender<Come>,
    ) -> Option<Self> {
        let runtime = fabric.runtime.as_deref()?;
        let (wanted, orders) = channel::<Wanted>();
        let (give, made) = channel();
        let make = move |nodes: &[NodeId]| {
            let builder = Builder {
                blueprint: &fabric.blueprint,
                runtime,
                ports,
                management: None,
                stackless: None,
                together: Some(together),
            };
            let stage = Stage::begin(progress, "nodes of a lost machine", nodes.len() as u64);
            let numbers: Vec<usize> = nodes.iter().map(|node| node.index()).collect();
            // As at bring-up: attaching programs waits for RCU grace periods.
            let expedited = Expedited::hold(&RuntimeDir::default().globals(), &owner)?;
            let made = builder.make(&numbers, &stage);
            expedited.finish()?;
            let made = made?.into_iter();
            let made = made.map(|(number, node)| (NodeId(number as u32), node));
            Ok(made.collect())
        };
        scope.spawn(move || {
            for wanted in orders {
                let began = Instant::now();
                let nodes = make(&wanted.nodes);
                let took_s = began.elapsed().as_secs_f64();
                let made = Made {
                    wanted,
                    nodes,
                    took_s,
                };
                if give.send(made).is_err() {
                    break;
                }
            }
        });
        Some(Self {
            wanted,
            made,
            flows,
            early: RefCell::default(),
        })
    }

    /// Orders the creation of nodes.
    pub(crate) fn want(&self, wanted: Wanted) {
        // An error means that the thread has ended; the lab is then ending too.
        let _ = self.wanted.send(wanted);
    }

    /// Orders the flows of nodes that are here and have links soon.
    pub(crate) fn run_flows(&self, come: Come) {
        // As above.
        let _ = self.flows.send(come);
    }

    /// Takes in the nodes that were created and have disappeared everywhere by the step that began at `now_ns`:
    /// from here on they belong to this machine. The step loop must call it between two steps.
    ///
    /// # Errors
    /// When the link plane has stopped, or the list of namespaces cannot be written.
    pub(crate) fn take_in(&self, fabric: &Fabric, now_ns: u64) -> Result<Vec<Taken>, EngineError> {
        let mut early = self.early.borrow_mut();
        early.extend(self.made.try_iter());
        // Nodes that still exist for other machines wait until all have removed them.
        let (ready, rest) = early
            .drain(..)
            .partition(|made| made.wanted.gone_ns <= now_ns);
        *early = rest;
        let ready: Vec<Made> = ready;
        ready.into_iter().map(|made| taken(made, fabric)).collect()
    }
}

fn taken(made: Made, fabric: &Fabric) -> Result<Taken, EngineError> {
    let Made {
        wanted,
        nodes,
        took_s,
    } = made;
    let (machine, count) = (wanted.machine, wanted.nodes.len());
    let nodes = match nodes {
        Ok(nodes) => nodes,
        Err(error) => {
            return Ok(Taken {
                machine,
                said: format!("{count} nodes of a lost machine cannot be made here: {error}"),
                failure: Some(error.to_string()),
            });
        }
    };
    let layout = &fabric.blueprint.lab.layout;
    let ports = wanted.nodes.iter().flat_map(|node| layout.ports_of(*node));
    let ports: Vec<PortId> = ports.map(|port| port.id).collect();
    // First the link plane delivers these ports' frames here, then the nodes count as this machine's.
    fabric.handle.come_home(&ports)?;
    fabric.kernels.take_in(nodes);
    write_namespaces(&fabric.launcher)?;
    Ok(Taken {
        machine,
        failure: None,
        said: format!("{count} nodes of a lost machine are made here, in {took_s:.2} s"),
    })
}

impl LabTime<'_> {
    /// Handles lost machines: their nodes disappear with the step in which all other machines remove them. Nodes
    /// that other machines created again return in the same way.
    pub(crate) fn lose_machines(
        &self,
        steps: &mut Steps<Machine>,
        seen: &mut Observed,
    ) -> Result<(), EngineError> {
        let Some(between) = &self.fabric.between else {
            return Ok(());
        };
        let now_ns = steps.current().t_ns;
        let next_ns = now_ns + self.fabric.blueprint.lab.step_ns();
        let news = between.hear(&mut steps.planner, next_ns, &mut seen.lost)?;
        news.said.iter().for_each(|text| self.progress.say(text));
        // This machine then knows which machine has a node, for requests about it.
        for (machine, nodes) in news.back.iter().flat_map(|back| &back.nodes) {
            let name = between.name(*machine);
            let kernels = &self.fabric.kernels;
            nodes.iter().for_each(|node| kernels.goes_to(*node, name));
        }
        let Some(moving) = &self.moving else {
            seen.coming.extend(news.back);
            return Ok(());
        };
        for back in &news.back {
            if let Some(nodes) = back.nodes.get(&between.here()) {
                let (nodes, back_ns) = (nodes.clone(), back.away_ns.1);
                moving.run_flows(Come { nodes, back_ns });
            }
        }
        seen.coming.extend(news.back);
        news.wanted.into_iter().for_each(|nodes| moving.want(nodes));
        for taken in moving.take_in(self.fabric, now_ns)? {
            let Taken {
                machine,
                failure,
                said,
            } = taken;
            self.progress.say(&said);
            if let Some(failure) = &failure {
                seen.fail(said);
                between.took(machine, Some(failure));
            } else {
                // The count of nodes in the lab's record is updated for `constel list`.
                between.took(machine, None);
                let nodes = self.fabric.kernels.count();
                self.count.map_or(Ok(()), |count| count(nodes))?;
            }
        }
        Ok(())
    }

    /// Logs the moves of nodes whose links have returned.
    pub(crate) fn note_moved(&self, t_ns: u64, seen: &mut Observed) {
        let Some(between) = &self.fabric.between else {
            return;
        };
        let layout = &self.fabric.blueprint.lab.layout;
        seen.coming.retain(|back| {
            if back.away_ns.1 > t_ns {
                return true;
            }
            for (machine, nodes) in &back.nodes {
                let names = nodes.iter().map(|node| layout.node(*node).name.clone());
                self.log.emit(
                    Some(t_ns as i64),
                    EventData::NodesMoved {
                        from: between.name(back.machine).to_owned(),
                        to: between.name(*machine).to_owned(),
                        nodes: names.collect(),
                        away_s: back.away().as_secs_f64(),
                    },
                );
            }
            false
        });
    }
}
