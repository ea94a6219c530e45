//! A lab on several machines, as one of them sees it: who has what, what goes between them, and what no such lab does.

use std::fmt;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use constel_crossing::{Counts, Crossing, LabTime, Layout, Listening, Machine};
use constel_drivers::DriverKind;
use constel_drivers::{Links, Plane};
use constel_plan::{Lab, Ours};
use constel_scenario::model::{Action, Flow, Mode};
use constel_topology::NodeId;

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
    /// Frames leave so much before they are due, nanoseconds.
    pub ahead_ns: u64,
    /// What other machines send to, and this one sends from.
    pub socket: UdpSocket,
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

/// Where machines wait for each other.
pub trait Gate: Send + Sync {
    /// The part stands. Waits until all do; gives the instant of `CLOCK_MONOTONIC` that is lab time zero.
    ///
    /// # Errors
    /// [`EngineError::Interrupted`] when `stop` says so; why there will be no lab.
    fn standing(&self, part: &Standing, stop: &AtomicBool) -> Result<u64, EngineError>;

    /// What is between the machines now, and may be used: until when this machine may send, for one.
    fn crossing(&self, crossing: &Arc<Crossing>);

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
        };
        let socket = self.socket.try_clone().map_err(io)?;
        let (crossing, far) = Crossing::open(socket, layout, self.time.clone())?;
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
        Ok(Between {
            listening,
            gate: Arc::clone(&self.gate),
        })
    }
}

/// What goes between the machines, as long as the lab does.
pub(crate) struct Between {
    listening: Listening,
    gate: Arc<dyn Gate>,
}

impl Between {
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

/// Why a lab cannot be on several machines: each reason with what to do. `apart` says of two nodes whether they are on
/// different machines; `flows` is the traffic that is to run.
#[must_use]
pub fn not_on_several(
    lab: &Lab,
    flows: &[Flow],
    apart: impl Fn(NodeId, NodeId) -> bool,
) -> Vec<String> {
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
        scenario.routing.mode.daemons().is_some(),
        "`routing.mode`: routing daemons are for one machine; with `computed` Constel makes the routes (--set 'routing={mode: computed}')",
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
    for flow in flows {
        let node = |name: &str| lab.layout.find(name).map(|node| node.id);
        let ends = flow.action.ends();
        let ends = ends.and_then(|(from, to)| Some((node(from.as_str())?, node(to.as_str())?)));
        let is_ping = matches!(flow.action, Action::Ping(_));
        if let Some((from, to)) = ends.filter(|(from, to)| !is_ping && apart(*from, *to)) {
            let name = |id: NodeId| &lab.layout.node(id).name;
            why.push(format!(
                "flow {}: of all flows only pings go from machine to machine; put both ends on one (--pin {}=MACHINE --pin \
                 {}=MACHINE), or say --no-traffic",
                flow.name,
                name(from),
                name(to)
            ));
        }
    }
    why
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{computed_iridium, lab, shipped};
    use constel_underlay::CrossingCounts;

    /// Why a scenario cannot be on two machines, where every other node is on the second.
    fn refused(text: &str) -> Vec<String> {
        let lab = lab(text);
        let flows = lab.scenario.traffic.clone();
        not_on_several(&lab, &flows, |a, b| a.index() % 2 != b.index() % 2)
    }

    #[test]
    fn what_no_lab_on_several_machines_does_is_refused_with_what_to_do() {
        let text = computed_iridium();
        let (sky, traffic) = text.split_once("traffic:").unwrap();
        assert_eq!(refused(sky), [""; 0]);
        // Pings may go from machine to machine, other flows may not.
        let flows = refused(&text);
        assert!(!flows.is_empty() && traffic.contains("iperf3"));
        for refusal in &flows {
            assert!(
                refusal.contains("--pin") && !refusal.contains("ping-"),
                "{refusal}"
            );
        }
        let daemons = refused(&shipped("iridium"));
        assert!(daemons[0].contains("`computed`"), "{daemons:?}");
        let netem = refused(&sky.replace("routing:", "links: {driver: netem}\nrouting:"));
        assert!(netem[0].contains("`driver`"), "{netem:?}");
        let forward = sky.replace(
            "routing:",
            "nodes: {satellites: {runtime: forward}}\nrouting:",
        );
        let forward = refused(&forward);
        assert!(forward[0].contains("`runtime: forward`"), "{forward:?}");
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
