//! A lab on several machines, as one of them sees it: who has what, what goes between them, and what no such lab does.

use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use constel_crossing::{Counts, Crossing, Key, LabTime, Layout, Listening, Machine, Wire};
use constel_drivers::DriverKind;
use constel_drivers::{Links, Plane};
use constel_plan::{Lab, Ours, Planner};
use constel_scenario::model::{Mode, OnMachineLoss};
use constel_topology::{Failure, FailureTarget, FailureTime, NodeId};

use crate::error::EngineError;

/// This machine's part of a lab on several.
pub struct Together {
    /// This machine's number.
    pub here: usize,
    /// All machines, by number.
    pub machines: Vec<Machine>,
    /// The number of the machine that has each node, by node.
    pub machine_of: Vec<usize>,
    /// The lab's number, of which 24 bits are used.
    pub number: u32,
    /// Which life of this machine it is: larger than all before.
    pub session: u32,
    /// Threads that make this machine's nodes.
    pub workers: NonZeroU32,
    /// Frames leave so much before they are due, nanoseconds.
    pub ahead_ns: u64,
    /// What frames between the machines are sealed with; `None`: they are not.
    pub key: Option<Key>,
    /// Where other machines send to, and this one sends from.
    pub wire: Wire,
    /// The clock that all machines have in common; whoever measures it sets it.
    pub time: LabTime,
    /// Where machines wait for each other.
    pub gate: Arc<dyn Gate>,
}

/// A part that is up, before its lab time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Nodes that are here.
    pub nodes: usize,
    /// What all machines must have planned alike, in 16 hexadecimal digits: the first step's plan.
    pub plan: String,
}

/// A machine that the lab goes on without: what all of its machines were told, with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    /// The machine's number.
    pub machine: usize,
    /// Lab time by which all others know of it, nanoseconds.
    pub from_ns: u64,
}

impl Loss {
    /// From when on the machine's nodes have no links, lab time, nanoseconds: the first step that is planned after all others know.
    /// A step is planned when the one before it has begun.
    #[must_use]
    pub fn gone_ns(&self, step_ns: u64) -> u64 {
        (self.from_ns.div_ceil(step_ns) + 1) * step_ns
    }
}

/// What a lab calls the failure that takes a lost machine's nodes out.
fn loss_of(machine: &str) -> String {
    format!("loss of machine {machine}")
}

/// Where machines wait for each other.
pub trait Gate: Send + Sync {
    /// The part stands. Waits until all do; gives the instant of `CLOCK_MONOTONIC` that is lab time zero.
    ///
    /// # Errors
    /// [`EngineError::Interrupted`] when `stop` says so; why there will be no lab.
    fn standing(&self, part: &Standing, stop: &AtomicBool) -> Result<u64, EngineError>;

    /// What is between the machines now, and may be used: until when this machine may send, for one.
    fn crossing(&self, crossing: &Arc<Crossing>);

    /// The machines that are lost.
    fn losses(&self) -> Vec<Loss>;

    /// What has happened between the machines that makes the figures untrustworthy.
    fn doubts(&self) -> Vec<String>;
}

impl fmt::Debug for Together {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Together")
            .field("here", &self.here)
            .field("machines", &self.machines)
            .finish_non_exhaustive()
    }
}

impl Together {
    /// The nodes that are here.
    pub(crate) fn ours(&self) -> Ours {
        let has = self.machine_of.iter();
        Ours::these(has.map(|machine| *machine == self.here).collect())
    }

    /// The name of the machine that has this node.
    pub(crate) fn machine(&self, node: NodeId) -> &str {
        let machine = self.machine_of.get(node.index());
        let machine = machine.and_then(|number| self.machines.get(*number));
        machine.map_or("?", |machine| &machine.name)
    }

    /// The lab, where the nodes of each machine may fail together if the scenario goes on without machines that are lost.
    ///
    /// # Errors
    /// When the scenario has a failure of the same name.
    pub(crate) fn may_lose(&self, lab: Lab) -> Result<Lab, EngineError> {
        if lab.scenario.on_machine_loss != OnMachineLoss::Continue {
            return Ok(lab);
        }
        let failures = self.machines.iter().enumerate().map(|(number, machine)| {
            let nodes = lab.layout.nodes().iter();
            let own = nodes.filter(|node| self.machine_of[node.id.index()] == number);
            Failure {
                name: loss_of(&machine.name),
                what: FailureTarget::Nodes(own.map(|node| node.name.clone()).collect()),
                when: FailureTime::Told,
            }
        });
        // A machine without nodes takes nothing with it.
        let failures = failures.filter(|failure| failure.what != FailureTarget::Nodes(Vec::new()));
        let layout = lab.layout.with_failures(failures.collect());
        let layout = layout.map_err(|errors| {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            EngineError::Apart(errors.join("; "))
        })?;
        Ok(Lab {
            layout: Arc::new(layout),
            ..lab
        })
    }

    /// Has the link plane's frames for other machines' nodes carried there. Before it starts.
    ///
    /// # Errors
    /// When the driver cannot, or the machines cannot be.
    pub(crate) fn open(&self, lab: &Lab, plane: &dyn Plane) -> Result<Arc<Crossing>, EngineError> {
        let io = |source| EngineError::Io {
            what: "the socket between the machines".to_owned(),
            source,
        };
        let ports = lab.layout.ports().iter();
        let layout = Layout {
            lab: self.number,
            session: self.session,
            here: self.here,
            machines: self.machines.clone(),
            owners: ports
                .map(|port| self.machine_of[port.node.index()])
                .collect(),
            ahead_ns: self.ahead_ns,
            key: self.key.clone(),
        };
        let wire = self.wire.try_clone().map_err(io)?;
        let (crossing, far) = Crossing::open(wire, layout, self.time.clone())?;
        plane.far(far)?;
        let crossing = Arc::new(crossing);
        self.gate.crossing(&crossing);
        Ok(crossing)
    }

    /// Takes in what comes from other machines, once the link plane runs.
    ///
    /// # Errors
    /// When there can be no thread.
    pub(crate) fn listen(
        &self,
        crossing: Arc<Crossing>,
        links: Arc<dyn Links>,
    ) -> Result<Between, EngineError> {
        let listening = crossing.listen(links).map_err(|source| EngineError::Io {
            what: "listen for the other machines".to_owned(),
            source,
        })?;
        let machines = self.machines.iter();
        Ok(Between {
            listening,
            gate: Arc::clone(&self.gate),
            machines: machines.map(|machine| machine.name.clone()).collect(),
        })
    }
}

/// What goes between the machines, as long as the lab does.
pub(crate) struct Between {
    listening: Listening,
    gate: Arc<dyn Gate>,
    /// Their names, by number.
    machines: Vec<String>,
}

impl Between {
    /// Has the nodes of lost machines fail, before the step that begins at `next_ns` is planned. `known` are those of which that was
    /// done. Says whose nodes go, and from when on.
    ///
    /// # Errors
    /// When it is too late for one: the others have planned without it.
    pub(crate) fn lose(
        &self,
        planner: &mut Planner,
        next_ns: u64,
        known: &mut BTreeSet<usize>,
    ) -> Result<Vec<String>, EngineError> {
        lose(&self.gate.losses(), &self.machines, planner, next_ns, known)
    }

    /// What has crossed so far.
    pub(crate) fn counts(&self) -> Counts {
        self.listening.counts()
    }

    /// What makes the figures untrustworthy, in words, each with the machine at fault. What had crossed `before` lab time, while
    /// machines came up one after the other, does not count.
    pub(crate) fn wrong(&self, before: &Counts) -> Vec<String> {
        let mut wrong = self.gate.doubts();
        wrong.extend(crossed_badly(&self.counts(), before));
        wrong
    }
}

fn lose(
    losses: &[Loss],
    machines: &[String],
    planner: &mut Planner,
    next_ns: u64,
    known: &mut BTreeSet<usize>,
) -> Result<Vec<String>, EngineError> {
    let step_ns = planner.blueprint().lab.step_ns();
    let mut said = Vec::new();
    for loss in losses {
        if !known.insert(loss.machine) {
            continue;
        }
        let (name, gone_ns) = (&machines[loss.machine], loss.gone_ns(step_ns));
        if gone_ns < next_ns {
            return Err(EngineError::Apart(format!(
                "it heard of the {} when the others had planned without it: the store is too slow, or the machine too busy",
                loss_of(name)
            )));
        }
        planner.fail_from(&loss_of(name), gone_ns);
        said.push(format!(
            "machine {name} is lost: the lab goes on without its nodes, from lab time {} s on",
            gone_ns as f64 / 1e9
        ));
    }
    Ok(said)
}

/// What became of frames between the machines that nobody asked for.
fn crossed_badly(now: &Counts, before: &Counts) -> Vec<String> {
    let mut wrong = Vec::new();
    let unsent = now.unsent - before.unsent;
    if unsent > 0 {
        wrong.push(format!("{unsent} frames for other machines were not sent"));
    }
    for (machine, from) in &now.from {
        let known = before.from.iter().find(|(other, _)| other == machine);
        let known = known.map(|(_, counts)| *counts).unwrap_or_default();
        // What was missed may have come since.
        let lost = from.lost.saturating_sub(known.lost);
        let (arrived, late) = (from.arrived - known.arrived, from.late - known.late);
        if lost > 0 {
            wrong.push(format!(
                "{lost} of {} frames from machine {machine} were lost on the way between the machines",
                arrived + lost
            ));
        }
        // A single one that came late is in the lateness of the link plane, as every other.
        if late * 100 > arrived {
            wrong.push(format!(
                "{late} of {arrived} frames from machine {machine} came after their instant, the latest by {:.3} ms: their \
                 edges are shorter than the way between the machines, or one of these had no time for them",
                from.latest_ns as f64 / 1e6
            ));
        }
    }
    wrong
}

/// Why a lab cannot be on several machines: each reason with what to do.
#[must_use]
pub fn not_on_several(lab: &Lab) -> Vec<String> {
    let scenario = &lab.scenario;
    let mut why = Vec::new();
    let computed = match &scenario.routing.mode {
        Mode::Computed(computed) => Some(computed),
        Mode::Daemons(_) | Mode::None => None,
    };
    let mut says = |wrong: bool, text: &str| {
        if wrong {
            why.push(text.to_owned());
        }
    };
    let driver = scenario.driver.kind();
    says(
        driver.is_some_and(|kind| kind != DriverKind::Relay),
        "`driver`: only the relay carries frames between machines; leave it out or write `relay`",
    );
    says(
        computed.is_some_and(|routing| routing.reaction.is_some()),
        "`routing.reaction`: messages about failures are not sent between machines; leave it out",
    );
    says(
        computed.is_some_and(|routing| !routing.disjoint.is_empty()),
        "`routing.disjoint`: disjoint paths are for one machine; leave them out",
    );
    says(
        !scenario.networks.is_empty(),
        "`networks`: their members are on one machine only; run the scenario on one",
    );
    says(
        lab.containers().next().is_some(),
        "`nodes`: containers are for one machine; run the scenario there",
    );
    says(
        lab.forwarders().next().is_some(),
        "`runtime: forward`: satellites that only forward are for one machine; run the scenario there, or give them stacks",
    );
    says(
        scenario.hosts.iter().any(|host| host.attach.is_some()),
        "`attach`: interfaces of the machine are for labs on one; leave it out",
    );
    says(
        !scenario.information.is_empty(),
        "`information`: nodes are told on one machine only; leave it out",
    );
    says(
        !scenario.mounts.is_empty(),
        "`mounts`: folders of the host are another machine's elsewhere; leave them out",
    );
    says(
        scenario.transport != Default::default(),
        "`transport`: midnodes and proxies are for one machine; leave it out",
    );
    why
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{blueprint, computed_iridium, lab, on_two_machines, shipped};
    use constel_plan::{Blueprint, FailedEdges};
    use constel_underlay::CrossingCounts;

    #[test]
    fn what_no_lab_on_several_machines_does_is_refused_with_what_to_do() {
        let refused = |text: &str| not_on_several(&lab(text));
        let text = computed_iridium();
        // Flows of all kinds may go from machine to machine, and daemons may make the routes.
        for text in [text.clone(), shipped("iridium")] {
            assert_eq!(refused(&text), [""; 0]);
        }
        let (sky, _) = text.split_once("traffic:").unwrap();
        for (key, text) in [
            (
                "`driver`",
                sky.replace("routing:", "links: {driver: netem}\nrouting:"),
            ),
            (
                "`routing.reaction`",
                sky.replace(
                    "mode: computed",
                    "mode: computed\n  reaction: {detect: 2 s, processing: 1 ms}",
                ),
            ),
            (
                "`runtime: forward`",
                sky.replace(
                    "routing:",
                    "nodes: {satellites: {runtime: forward}}\nrouting:",
                ),
            ),
            ("`information`", format!("{sky}information: [{{}}]\n")),
        ] {
            let refused = refused(&text);
            assert!(
                refused.len() == 1 && refused[0].starts_with(key),
                "{key}: {refused:?}"
            );
        }
    }

    /// A planner of a lab that goes on without machines that are lost, and the number of nodes that each of two has.
    fn going_on() -> (Planner, Vec<String>) {
        let blueprint = blueprint(&format!(
            "{}on_machine_loss: continue\n",
            computed_iridium()
        ));
        let together = on_two_machines(&blueprint);
        let names = together.machines.iter().map(|m| m.name.clone()).collect();
        let lab = together.may_lose(blueprint.lab).unwrap();
        let blueprint = Blueprint::new(lab).unwrap_or_else(|e| panic!("{e}"));
        (Planner::new(Arc::new(blueprint)), names)
    }

    /// The plans of so many steps; the loss is heard of before the step that begins then is planned, in seconds.
    fn plans(loss: Option<(Loss, u64)>, steps: u64) -> Result<Vec<(Vec<u8>, usize)>, EngineError> {
        let (mut planner, names) = going_on();
        let failed = FailedEdges::default();
        let first = planner.first(&failed);
        planner.installed(first, &failed);
        let mut known = BTreeSet::new();
        let mut plans = Vec::new();
        for step in 1..=steps {
            let next_ns = planner.current().t_ns + planner.blueprint().lab.step_ns();
            let heard = loss.filter(|(_, heard_s)| step >= *heard_s);
            let losses: Vec<Loss> = heard.into_iter().map(|(loss, _)| loss).collect();
            let said = lose(&losses, &names, &mut planner, next_ns, &mut known)?;
            let told = loss.is_some_and(|(_, heard_s)| step == heard_s);
            assert_eq!(said.len(), usize::from(told), "said once: {said:?}");
            let mut next = planner.advance();
            planner.route(&mut next, &failed);
            let text = serde_json::to_vec(&next.plan).unwrap();
            let layout = &planner.blueprint().lab.layout;
            let theirs = |port| layout.port(port).node.index() % 2 == 1;
            let edges = next.snapshot.edges.iter();
            let left = edges.filter(|edge| theirs(edge.from) || theirs(edge.to));
            plans.push((text, left.count()));
            planner.installed(next, &failed);
        }
        Ok(plans)
    }

    #[test]
    fn all_others_plan_without_a_lost_machine_from_the_same_step_on() {
        let loss = Loss {
            machine: 1,
            from_ns: 2_300_000_000,
        };
        assert_eq!(loss.gone_ns(1_000_000_000), 4_000_000_000);
        let calm = plans(None, 7).unwrap();
        let soon = plans(Some((loss, 1)), 7).unwrap();
        let last = plans(Some((loss, 4)), 7).unwrap();
        assert_eq!(soon, last, "whenever each has heard of it");
        assert_eq!(soon[..3], calm[..3], "nothing changes before");
        assert!(calm[3..].iter().all(|(_, left)| *left > 100));
        assert!(soon[3..].iter().all(|(_, left)| *left == 0));
        let late = plans(Some((loss, 5)), 7).unwrap_err().to_string();
        assert!(late.contains("loss of machine other"), "{late}");
    }

    #[test]
    fn a_lab_that_ends_with_a_machine_has_no_failure_of_it() {
        let blueprint = blueprint(&computed_iridium());
        let together = on_two_machines(&blueprint);
        let lab = together.may_lose(blueprint.lab).unwrap();
        assert_eq!(lab.layout.spec().failures, []);
    }

    #[test]
    fn what_went_wrong_on_the_way_names_the_machine() {
        let from = |lost, arrived, late| Counts {
            from: vec![(
                "b".to_owned(),
                CrossingCounts {
                    arrived,
                    lost,
                    late,
                    latest_ns: 2_500_000,
                    ..CrossingCounts::default()
                },
            )],
            ..Counts::default()
        };
        // What was lost while the machines came up is none of lab time's.
        assert_eq!(crossed_badly(&from(3, 1_000, 9), &from(3, 0, 0)), [""; 0]);
        let lost = crossed_badly(&from(5, 1_000, 0), &from(3, 0, 0));
        assert!(
            lost[0].contains("2 of 1002 frames from machine b were lost"),
            "{lost:?}"
        );
        let late = crossed_badly(&from(0, 1_000, 11), &from(0, 0, 0));
        assert!(late[0].contains("the latest by 2.500 ms"), "{late:?}");
        let unsent = Counts {
            unsent: 4,
            ..Counts::default()
        };
        assert!(crossed_badly(&unsent, &Counts::default())[0].contains("4 frames"));
    }
}
