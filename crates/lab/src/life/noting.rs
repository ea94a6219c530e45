//! The rows of the summary and the events that lab time records.

use constel_api::EventData;
use constel_api::summary::ChangeKind;
use constel_measure::verdict::SoftwareFailure;
use constel_topology::{Handover, NodeId};

use crate::answers::node_states::BY_HAND;
use crate::error::EngineError;
use crate::life::lab_time::LabTime;
use crate::life::observed::{ContainerEnd, Observed};
use crate::nodes::containers;
use crate::routing::daemons::{DaemonIncident, Daemons, Incident};
use crate::routing::machine::Machine;
use crate::routing::steps::Steps;
use crate::watch::changes::Baseline;
use crate::watch::summary::{ChangeRow, HandoverRow};

impl LabTime<'_> {
    /// Returns how long after the step's time its routes were installed. Kernels acknowledge each route that
    /// Constel computes. With daemons or messages, only sampling finds the time, and this returns `None`.
    fn stood_after_ns(&self, steps: &Steps<Machine>) -> Option<u64> {
        let due_ns = self.clock.zero_mono_ns()? + steps.current().t_ns;
        let told = steps.planner.routes_follow_the_plan();
        told.then(|| steps.routed_at_ns.saturating_sub(due_ns))
    }

    pub(super) fn note_broken(
        &self,
        mut change: ChangeRow,
        steps: &Steps<Machine>,
        before: Option<Baseline>,
        seen: &mut Observed,
    ) {
        let t_ns = steps.current().t_ns;
        self.log.emit(Some(t_ns as i64), happening(&change));
        // A change whose time is not known yet is watched until routes have converged.
        change.converged_after_ns = self.stood_after_ns(steps);
        seen.change(change, 0, before);
    }

    pub(super) fn note_handover(
        &self,
        handover: &Handover,
        steps: &Steps<Machine>,
        before: Option<Baseline>,
        seen: &mut Observed,
    ) {
        let t_ns = steps.current().t_ns;
        let layout = &self.fabric.blueprint.lab.layout;
        let name = |id: NodeId| layout.node(id).name.clone();
        // The port is named only if the station has several antennas.
        let several = layout.access_ports(handover.station).len() > 1;
        let port = several.then(|| layout.port(handover.port).name().to_owned());
        let station = name(handover.station);
        let (from, to) = (handover.from.map(name), handover.to.map(name));
        self.log.emit(
            Some(t_ns as i64),
            EventData::Handover {
                station: station.clone(),
                from: from.clone(),
                to: to.clone(),
                port: port.clone(),
            },
        );
        self.progress.say(&format!(
            "t = {:>4} s  {station}: {} -> {}",
            t_ns / 1_000_000_000,
            from.as_deref().unwrap_or("dark"),
            to.as_deref().unwrap_or("dark")
        ));
        seen.paths.handover(handover.station, t_ns);
        let row = HandoverRow {
            t_ns,
            station,
            from,
            to,
            port,
            converged_after_ns: self.stood_after_ns(steps),
            lost_probes: None,
            control: None,
        };
        seen.handover(row, before);
    }

    /// Logs the pairs whose number of disjoint paths changed.
    pub(super) fn log_paths(&self, steps: &mut Steps<Machine>) {
        let pairs = self.fabric.blueprint.addresses.paths().pairs();
        // The planner is ahead of lab time, so the news carry the time of their step.
        for news in steps.planner.take_paths_news() {
            let pair = &pairs[news.pair];
            let layout = &self.fabric.blueprint.lab.layout;
            self.log.emit(
                Some(news.t_ns as i64),
                EventData::DisjointPaths {
                    pair: pair.name.to_string(),
                    between: pair.ends.map(|end| layout.node(end).name.clone()),
                    found: news.found,
                    requested: usize::from(pair.paths),
                },
            );
        }
    }

    /// Logs an incident of a daemon. Returns a failure if the daemon will not be restarted.
    pub(super) fn tell(&self, t_ns: Option<i64>, incident: &Incident) -> Option<SoftwareFailure> {
        let (node, program) = (incident.node.clone(), incident.program.to_owned());
        match &incident.what {
            DaemonIncident::Died { how, again_in } => {
                // An end with a later restart is an event, but no failure of the lab's software.
                let failure = again_in.is_none().then(|| SoftwareFailure {
                    node: node.clone(),
                    flow: None,
                    reason: format!("{program} in {node} ended: {how}"),
                });
                self.log.emit(
                    t_ns,
                    EventData::DaemonDied {
                        node,
                        program,
                        how: how.clone(),
                        again_in_s: again_in.map(|wait| wait.as_secs_f64()),
                    },
                );
                failure
            }
            DaemonIncident::Restarted => {
                self.log
                    .emit(t_ns, EventData::DaemonRestarted { node, program });
                None
            }
        }
    }

    /// Logs the incidents of containers. Returns the containers that ended.
    pub(super) fn watch_containers(&self) -> Result<Vec<ContainerEnd>, EngineError> {
        let mut ends = Vec::new();
        for incident in self.containers.borrow_mut().watch()? {
            let t_ns = self.clock.now_ns().map(|t| t as i64);
            let id = incident.node;
            let node = self.fabric.blueprint.lab.layout.node(id).name.clone();
            let happening = match incident.what {
                containers::ContainerIncident::Restarted => EventData::ContainerRestarted { node },
                containers::ContainerIncident::Healthy => EventData::ContainerHealthy { node },
                containers::ContainerIncident::Unhealthy { how } => {
                    EventData::ContainerUnhealthy { node, how }
                }
                containers::ContainerIncident::Ended {
                    how,
                    again_in,
                    failed,
                } => {
                    ends.push(ContainerEnd {
                        node: id,
                        t_ns: self.clock.now_ns().unwrap_or(0),
                        failure: failed.then(|| SoftwareFailure {
                            node: node.clone(),
                            flow: None,
                            reason: format!("the program of {node} ended: {how}"),
                        }),
                        how: how.clone(),
                    });
                    EventData::ContainerEnded {
                        node,
                        how,
                        again_in_s: again_in.map(|wait| wait.as_secs_f64()),
                    }
                }
            };
            self.log.emit(t_ns, happening);
        }
        Ok(ends)
    }

    /// Logs changes that programs in nodes made to the nodes' stacks, and restores ports that they removed.
    pub(super) fn changes_of_stacks(&self) {
        let kernels = &self.fabric.kernels;
        // Ports are created first, so that the next comparison can restore the addresses on them.
        kernels.make_ports_again(self.ports, self.fabric.management.as_ref());
        for found in kernels.own_stacks.take_news() {
            let node = self.fabric.blueprint.lab.layout.node(found.node);
            // Changes before lab time zero get a negative time.
            let zero_ns = self.clock.zero_mono_ns();
            self.log.emit(
                zero_ns.map(|zero_ns| found.at_ns as i64 - zero_ns as i64),
                EventData::StackChanged {
                    node: node.name.clone(),
                    changed: found.changed,
                    restored: found.restored,
                    left: found.left,
                },
            );
        }
    }

    /// Records links and nodes that were failed or repaired by command.
    pub(super) fn changes_by_hand(
        &self,
        daemons: &Daemons,
        seen: &mut Observed,
    ) -> Result<(), EngineError> {
        for change in self.view.failed.take_changes() {
            let before = self.baseline(daemons)?;
            // The time is that of the change itself, so that the convergence time starts there.
            let row = ChangeRow {
                t_ns: change.t_ns,
                kind: change.kind,
                cause: BY_HAND.to_owned(),
                objects: change.objects,
                converged_after_ns: None,
                lost_probes: None,
                control: None,
            };
            seen.change(row, 0, before);
        }
        Ok(())
    }
}

/// Converts the beginning or the end of a scenario's failure to an event.
fn happening(change: &ChangeRow) -> EventData {
    let (cause, objects) = (change.cause.clone(), change.objects.clone());
    match change.kind {
        ChangeKind::Repair => EventData::Repair { cause, objects },
        _ => EventData::Failure { cause, objects },
    }
}

impl Incident {
    /// Returns the row for the end of a daemon.
    pub(super) fn row(&self, t_ns: u64) -> ChangeRow {
        let how = match &self.what {
            DaemonIncident::Died { how, .. } => how.clone(),
            DaemonIncident::Restarted => String::new(),
        };
        ChangeRow {
            t_ns,
            kind: ChangeKind::DaemonDied,
            cause: how,
            objects: vec![format!("{} in {}", self.program, self.node)],
            converged_after_ns: None,
            lost_probes: None,
            control: None,
        }
    }
}
