//! Nodes that a lost machine had are made here, beside lab time: a thread makes them, and the steps take them in when they are gone
//! everywhere.

use std::cell::RefCell;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Scope;
use std::time::Instant;

use constel_api::Happening;
use constel_host::claim::RuntimeDir;
use constel_host::globals::Owner;
use constel_host::rcu::Expedited;
use constel_link::PortId;
use constel_runtime::Node;
use constel_topology::NodeId;

use crate::error::EngineError;
use crate::life::bring_up::{Fabric, write_namespaces};
use crate::life::lab_time::LabTime;
use crate::life::losses::Wanted;
use crate::life::observed::Observed;
use crate::life::together::Together;
use crate::nodes::builder::Builder;
use crate::nodes::ports::PortMaker;
use crate::progress::{Progress, Stage};
use crate::routing::machine::Machine;
use crate::routing::steps::Steps;
use crate::traffic::late::Come;

/// What makes nodes here in lab time.
pub(crate) struct Moving {
    wanted: Sender<Wanted>,
    made: Receiver<Made>,
    /// What runs flows of nodes that have come.
    flows: Sender<Come>,
    /// Those that are not gone everywhere yet.
    early: RefCell<Vec<Made>>,
}

/// Nodes, each with its number.
type Nodes = Vec<(NodeId, Box<dyn Node>)>;

/// Nodes that were made, without links.
struct Made {
    wanted: Wanted,
    nodes: Result<Nodes, EngineError>,
    took_s: f64,
}

/// Nodes that this machine has from now on, or why it has not.
pub(crate) struct Taken {
    /// Of this machine, which is lost.
    pub(crate) machine: usize,
    /// Why they could not be made.
    pub(crate) failure: Option<String>,
    /// For people.
    pub(crate) said: String,
}

impl Moving {
    /// Starts the thread, which ends when this is dropped. `together` is this machine's part.
    pub(crate) fn begin<'s>(
        scope: &'s Scope<'s, '_>,
        fabric: &'s Fabric,
        ports: &'s dyn PortMaker,
        together: &'s Together,
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
            // As when the lab comes up: attaching programs waits for grace periods.
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

    /// Has nodes made.
    pub(crate) fn want(&self, wanted: Wanted) {
        // The thread ends after this.
        let _ = self.wanted.send(wanted);
    }

    /// Has the flows of nodes run that are here and have links soon.
    pub(crate) fn run_flows(&self, come: Come) {
        // As above.
        let _ = self.flows.send(come);
    }

    /// Takes in what was made and is gone everywhere by the step that began at `now_ns`: from here on these nodes are this machine's.
    /// To be called by who carries out steps, between two of them.
    ///
    /// # Errors
    /// When the link plane has stopped, or what others are told of nodes cannot be written.
    pub(crate) fn take_in(&self, fabric: &Fabric, now_ns: u64) -> Result<Vec<Taken>, EngineError> {
        let mut early = self.early.borrow_mut();
        early.extend(self.made.try_iter());
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
    /// Nodes of machines that are lost go with the step that all others let them go with; those that some of the others made anew
    /// come back in the same way.
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
                between.took(machine, None);
                let nodes = self.fabric.kernels.count();
                self.count.map_or(Ok(()), |count| count(nodes))?;
            }
        }
        Ok(())
    }

    /// Says who has nodes that have their links again.
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
                    Happening::NodesMoved {
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
