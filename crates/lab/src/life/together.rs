//! A lab on several machines, seen from one of them: the assignment of nodes, the connection between the machines,
//! and unsupported features.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use constel_api::summary::CrossedRow;
use constel_cluster::crossing::{Counts, Crossing, Key, LabTime, Layout, Listening, Machine, Wire};
use constel_containers::image::Source;
use constel_drivers::DriverKind;
use constel_drivers::{Links, Plane};
use constel_link::PortId;
use constel_plan::{Lab, LocalNodes, Planner};
use constel_scenario::model::{Mode, OnMachineLoss, StatePlace};
use constel_topology::{Failure, FailureTarget, FailureTime, NodeId};

use crate::answers::by_hand::ManualChange;
use crate::answers::orders::ScheduledChange;
use crate::error::EngineError;
use crate::life::losses::{Change, Losses, Machines, News, loss_of};

/// This machine's part of a lab on several machines.
pub struct ClusterPart {
    /// The lab's name, which all machines' nodes receive.
    pub lab: String,
    /// This machine's number.
    pub here: usize,
    /// All machines, by number.
    pub machines: Vec<Machine>,
    /// The number of the machine that has each node, by node.
    pub machine_of: Vec<usize>,
    /// The lab's number, of which 24 bits are used.
    pub number: u32,
    /// The number of this run of the lab, the same on all its machines.
    pub session: u32,
    /// The number of threads that create this machine's nodes.
    pub workers: NonZeroU32,
    /// The time that frames leave before they are due, nanoseconds.
    pub ahead_ns: u64,
    /// The key that encrypts and authenticates frames between the machines; `None` for no encryption.
    pub key: Option<Key>,
    /// The wire from which this machine sends, and on which others reach it.
    pub wire: Wire,
    /// The common clock of all machines; the code that measures it sets it.
    pub time: LabTime,
    /// The synchronisation with the other machines.
    pub gate: Arc<dyn Gate>,
}

/// A part that is up, before its lab time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartReady {
    /// The number of nodes on this machine.
    pub nodes: usize,
    /// A fingerprint of the first step's plan, 16 hexadecimal digits, which must be equal on all machines.
    pub plan: String,
    /// The digests of the images here, by the scenario's names for them, which must be equal on all machines.
    pub images: BTreeMap<String, String>,
}

/// The synchronisation of the machines of a lab.
pub trait Gate: Send + Sync {
    /// Reports that this part is ready, and waits until all are. Returns the instant of `CLOCK_MONOTONIC` that is
    /// lab time zero.
    ///
    /// # Errors
    /// [`EngineError::Interrupted`] when `stop` is set; the reason why the lab will not start.
    fn standing(&self, part: &PartReady, stop: &AtomicBool) -> Result<u64, EngineError>;

    /// Hands over the crossing to the other machines, for example to set until when this machine may send.
    fn crossing(&self, crossing: &Arc<Crossing>);

    /// Returns the changes of the machines so far, in the order in which all machines receive them.
    fn changes(&self) -> Vec<Change>;

    /// Reports that this machine has created its share of a lost machine's nodes, without links, or why it has not.
    fn took(&self, machine: usize, failure: Option<&str>);

    /// Orders a change on all machines, at a lab time before which all receive it. The number identifies the order
    /// of this machine.
    fn order(&self, number: u64, what: &ManualChange);

    /// Returns the next change that all machines make, after the first `known` ones. Waits at most `within` for it.
    fn set_together(&self, known: usize, within: Duration) -> Option<ScheduledChange>;

    /// Returns the events between the machines that make the run untrustworthy.
    fn doubts(&self) -> Vec<String>;
}

impl fmt::Debug for ClusterPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Together")
            .field("here", &self.here)
            .field("machines", &self.machines)
            .finish_non_exhaustive()
    }
}

impl ClusterPart {
    /// Returns the nodes of this machine.
    pub(crate) fn ours(&self) -> LocalNodes {
        let has = self.machine_of.iter();
        LocalNodes::these(has.map(|machine| *machine == self.here).collect())
    }

    /// Returns the name of the machine that has this node.
    pub(crate) fn machine(&self, node: NodeId) -> &str {
        let machine = self.machine_of.get(node.index());
        let machine = machine.and_then(|number| self.machines.get(*number));
        machine.map_or("?", |machine| &machine.name)
    }

    /// Returns the lab with a failure for the nodes of each machine, if the scenario goes on after the loss of a
    /// machine.
    ///
    /// # Errors
    /// When the scenario has a failure of the same name.
    pub(crate) fn may_lose(&self, lab: Lab) -> Result<Lab, EngineError> {
        if lab.scenario.on_machine_loss == OnMachineLoss::End {
            return Ok(lab);
        }
        // Each machine becomes one failure of the topology, which begins only when the machine is reported lost.
        let failures = self.machines.iter().enumerate().map(|(number, machine)| {
            let nodes = lab.layout.nodes().iter();
            let own = nodes.filter(|node| self.machine_of[node.id.index()] == number);
            Failure {
                name: loss_of(&machine.name),
                what: FailureTarget::Nodes(own.map(|node| node.name.clone()).collect()),
                when: FailureTime::Told,
            }
        });
        // The loss of a machine without nodes has no effect.
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

    /// Opens the crossing that carries the link plane's frames for nodes of other machines. To be called before the
    /// link plane starts.
    ///
    /// # Errors
    /// When the driver cannot do it, or the machines are not valid.
    pub(crate) fn open(&self, lab: &Lab, plane: &dyn Plane) -> Result<Arc<Crossing>, EngineError> {
        let io = |source| EngineError::Io {
            what: "the socket between the machines".to_owned(),
            source,
        };
        let ports = lab.layout.ports().iter();
        // Every port has an owner: the machine of its node, to which frames for the port go.
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
        // From here on the relay hands frames for these ports to the crossing.
        plane.far(far)?;
        let crossing = Arc::new(crossing);
        // The gate limits until when this machine may send, so that it gets the crossing before the first frame.
        self.gate.crossing(&crossing);
        Ok(crossing)
    }

    /// Starts to receive frames from other machines, once the link plane runs.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(crate) fn listen(
        &self,
        crossing: Arc<Crossing>,
        links: Arc<dyn Links>,
    ) -> Result<MachineConnection, EngineError> {
        let listening = crossing.listen(links).map_err(|source| EngineError::Io {
            what: "listen for the other machines".to_owned(),
            source,
        })?;
        let names = self.machines.iter().map(|machine| machine.name.clone());
        Ok(MachineConnection {
            listening,
            crossing,
            gate: Arc::clone(&self.gate),
            machines: Machines {
                here: self.here,
                names: names.collect(),
                machine_of: self.machine_of.clone(),
            },
        })
    }
}

/// The connection between the machines, as long as the lab exists.
pub(crate) struct MachineConnection {
    listening: Listening,
    crossing: Arc<Crossing>,
    gate: Arc<dyn Gate>,
    machines: Machines,
}

impl MachineConnection {
    /// Applies new changes of the machines to the planner, before the step that begins at `next_ns` is planned:
    /// nodes of lost machines fail, and nodes that were created again return. Returns the consequences of the new
    /// changes.
    ///
    /// # Errors
    /// When it is too late for a change: the other machines have already planned with it. When the kernel's table
    /// of nodes cannot be updated.
    pub(crate) fn hear(
        &self,
        planner: &mut Planner,
        next_ns: u64,
        known: &mut Losses,
    ) -> Result<News, EngineError> {
        let changes = self.gate.changes();
        let news = known.hear(&changes, &self.machines, planner, next_ns)?;
        let layout = &planner.blueprint().lab.layout;
        for (machine, nodes) in news.back.iter().flat_map(|back| &back.nodes) {
            let ports = nodes.iter().flat_map(|node| layout.ports_of(*node));
            let ports: Vec<PortId> = ports.map(|port| port.id).collect();
            // Frames go to the new machine before the planner restores the links.
            self.crossing.give(&ports, *machine)?;
        }
        Ok(news)
    }

    /// Reports that this machine has created its share of a lost machine's nodes, or why it has not.
    pub(crate) fn took(&self, machine: usize, failure: Option<&str>) {
        self.gate.took(machine, failure);
    }

    /// Returns this machine's number.
    pub(crate) fn here(&self) -> usize {
        self.machines.here
    }

    /// Returns the name of a machine.
    pub(crate) fn name(&self, machine: usize) -> &str {
        &self.machines.names[machine]
    }

    /// Returns the counts so far.
    pub(crate) fn counts(&self) -> Counts {
        self.listening.counts()
    }

    /// Returns the frames that arrived from each of the other machines since these counts.
    pub(crate) fn crossed(&self, before: &Counts) -> Vec<CrossedRow> {
        crossed(&self.counts(), before)
    }

    /// Describes everything that makes the run untrustworthy, each with the machine at fault. Frames `before` lab
    /// time, while the machines came up one after the other, do not count.
    pub(crate) fn wrong(&self, before: &Counts) -> Vec<String> {
        let mut wrong = self.gate.doubts();
        wrong.extend(crossed_badly(&self.counts(), before));
        wrong
    }
}

/// Returns the frames that crossed from each of the other machines between two counts.
fn crossed(now: &Counts, before: &Counts) -> Vec<CrossedRow> {
    let rows = now.from.iter().map(|(machine, from)| {
        let known = before.from.iter().find(|(other, _)| other == machine);
        let known = known.map(|(_, counts)| *counts).unwrap_or_default();
        CrossedRow {
            from: machine.clone(),
            arrived: from.arrived - known.arrived,
            // Frames that were missing in the earlier count may have arrived since.
            lost: from.lost.saturating_sub(known.lost),
            refused: from.refused - known.refused,
            copies: from.copies - known.copies,
            late: from.late - known.late,
        }
    });
    rows.collect()
}

/// Describes frames between the machines that the emulator lost, refused or delayed.
fn crossed_badly(now: &Counts, before: &Counts) -> Vec<String> {
    let mut wrong = Vec::new();
    // Frames to lost machines have a counter of their own, and are not part of this one.
    let unsent = now.unsent - before.unsent;
    if unsent > 0 {
        wrong.push(format!("{unsent} frames for other machines were not sent"));
    }
    for (row, (_, from)) in crossed(now, before).iter().zip(&now.from) {
        let CrossedRow {
            from: machine,
            arrived,
            lost,
            refused,
            late,
            ..
        } = row;
        if *lost > 0 {
            wrong.push(format!(
                "{lost} of {} frames from machine {machine} were lost between the machines",
                arrived + lost
            ));
        }
        if *refused > 0 {
            wrong.push(format!(
                "{refused} datagrams from the address of machine {machine} were refused: forged, of another run, or for nodes that are \
                 elsewhere; without `--insecure` they cannot be forged"
            ));
        }
        // A few late frames are part of the link plane's lateness statistics, like all others.
        if late * 100 > *arrived {
            wrong.push(format!(
                "{late} of {arrived} frames from machine {machine} came after their instant, the latest by {:.3} ms: their \
                 edges are shorter than the path between the machines, or one of these had no time for them",
                from.latest_ns as f64 / 1e6
            ));
        }
    }
    wrong
}

/// Returns the reasons why a lab cannot be on several machines, each with a remedy.
#[must_use]
pub fn not_on_several(lab: &Lab) -> Vec<String> {
    let scenario = &lab.scenario;
    let mut why = Vec::new();
    let computed = match &scenario.routing.mode {
        Mode::Computed(computed) => Some(computed),
        Mode::Daemons(_) | Mode::None => None,
    };
    // All reasons are collected, so that a user sees everything at once.
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
        lab.containers().any(|(_, one)| !one.mounts.is_empty()),
        "`mounts` of nodes: folders of the host are another machine's elsewhere; leave them out",
    );
    says(
        lab.containers()
            .any(|(_, one)| one.state == StatePlace::Disk),
        "`state: disk`: what nodes write is not fetched from other machines; leave it out, and use `constel cp`",
    );
    says(
        scenario.hosts.iter().any(|host| host.attach.is_some()),
        "`attach`: interfaces of the machine are for labs on one; leave it out",
    );
    says(
        !scenario.mounts.is_empty(),
        "`mounts`: folders of the host are another machine's elsewhere; leave them out",
    );
    let midnodes = scenario.transport.leotp.as_ref();
    says(
        midnodes.is_some_and(|midnodes| midnodes.gateways.is_some()),
        "`transport.leotp.gateways`: the two share a key that does not leave a machine; leave them out",
    );
    why.extend(not_brought(lab));
    why.extend(not_moved(lab));
    why
}

/// Describes images that are files of one machine, which other machines do not have.
fn not_brought(lab: &Lab) -> impl Iterator<Item = String> {
    let images = lab.scenario.images.iter().filter(|image| {
        let source = image.source.as_deref();
        let source = source.and_then(|source| source.parse::<Source>().ok());
        // With a digest, each machine can check that it has the same image.
        let is_file = source.is_some_and(|source| source.path().is_some());
        is_file && image.digest.is_none()
    });
    images.map(|image| {
        let name = &image.name;
        format!(
            "`images.{name}.source`: a file of one machine; `constel image import` it on each, and give its `digest`, or use the name \
             that it has there"
        )
    })
}

/// Describes why nodes of a lost machine cannot be created again on others, if the scenario asks for that.
fn not_moved(lab: &Lab) -> Vec<String> {
    let scenario = &lab.scenario;
    if scenario.on_machine_loss != OnMachineLoss::Move {
        return Vec::new();
    }
    // Each entry: whether the scenario uses the feature, and why such nodes cannot start again elsewhere.
    let refused = [
        (
            matches!(scenario.routing.mode, Mode::Daemons(_)),
            "routing daemons are not restarted on another machine; use `routing: {mode: computed}`, or `continue`",
        ),
        (
            lab.containers().next().is_some(),
            "programs of containers are not restarted on another machine; use `continue`",
        ),
        (
            scenario.transport != Default::default(),
            "midnodes and proxies are not restarted on another machine; leave `transport` out, or use `continue`",
        ),
        (
            lab.forwarders().next().is_some(),
            "satellites that only forward are not restarted on another machine; use `continue`",
        ),
        (
            !scenario.information.is_empty(),
            "nodes that are created again get no information; leave `information` out, or use `continue`",
        ),
        (
            !lab.channels().is_empty(),
            "the state of a shared medium is gone with its machine; use `continue`",
        ),
        (
            scenario.sampling.is_some(),
            "`sample` is written where nodes were at first; leave it out, or use `continue`",
        ),
    ];
    let refused = refused.into_iter().filter(|(is_so, _)| *is_so);
    refused
        .map(|(_, what)| format!("`on_machine_loss: move`: {what}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{blueprint, computed_iridium, lab, on_two_machines, shipped};
    use constel_cluster::underlay::CrossingCounts;

    #[test]
    fn what_no_lab_on_several_machines_does_is_refused_with_what_to_do() {
        let refused = |text: &str| not_on_several(&lab(text));
        let text = computed_iridium();
        // Flows of all kinds may go from machine to machine, and daemons may make the routes.
        let (sky, _) = text.split_once("traffic:").unwrap();
        let images = format!(
            "images: {{box: {{digest: 'sha256:{0}'}}, file: {{source: 'rootfs:f.tar', digest: 'sha256:{0}'}}}}\n\
             nodes: {{stations: {{image: box}}, overrides: [{{nodes: [tokyo], set: {{image: file}}}}]}}\n",
            "00".repeat(32)
        );
        let forward = format!("{sky}nodes: {{satellites: {{runtime: forward}}}}\n");
        for text in [
            text.clone(),
            shipped("iridium"),
            format!("{sky}{images}information: [{{}}]\n"),
            forward,
        ] {
            assert_eq!(refused(&text), [""; 0]);
        }
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
                "`mounts` of nodes",
                sky.replace(
                    "routing:",
                    "nodes: {stations: {image: box, mounts: [{host: /srv, at: /srv}]}}\nrouting:",
                ),
            ),
            (
                "`transport.leotp.gateways`",
                sky.replace(
                    "ground:\n",
                    "ground:\n  hosts: {server: {latitude: 35 deg, longitude: 139 deg}, client: {latitude: -12 deg, longitude: -77 deg}}\n  \
                     cables: [{from: server, to: tokyo, delay: 1 ms, link: {rate: 1 Gbit/s}}, \
                     {from: client, to: lima, delay: 1 ms, link: {rate: 1 Gbit/s}}]\n",
                ) + "transport: {leotp: {gateways: [tokyo, lima], satellites: 100 %}}\n",
            ),
            (
                "`state: disk`",
                sky.replace(
                    "routing:",
                    "nodes: {stations: {image: box, state: disk}}\nrouting:",
                ),
            ),
            (
                "`images.box.source`",
                sky.replace(
                    "routing:",
                    "images: {box: {source: 'rootfs:box.tar'}}\nnodes: {stations: {image: box}}\nrouting:",
                ),
            ),
            (
                "`on_machine_loss: move`: routing daemons",
                format!("{}on_machine_loss: move\n", shipped("iridium")),
            ),
            (
                "`on_machine_loss: move`: midnodes and proxies",
                format!("{sky}transport: {{leotp: {{satellites: 100 %}}}}\non_machine_loss: move\n"),
            ),
            (
                "`on_machine_loss: move`: satellites that only forward",
                sky.replace(
                    "routing:",
                    "nodes: {satellites: {runtime: forward}}\non_machine_loss: move\nrouting:",
                ),
            ),
            (
                "`on_machine_loss: move`: programs of containers",
                sky.replace(
                    "routing:",
                    "nodes: {stations: {image: box}}\non_machine_loss: move\nrouting:",
                ),
            ),
            (
                "`on_machine_loss: move`: nodes that are created again get no information",
                format!("{sky}information: [{{}}]\non_machine_loss: move\n"),
            ),
            (
                "`on_machine_loss: move`: `sample`",
                format!("{sky}sample: {{edges: [tokyo]}}\non_machine_loss: move\n"),
            ),
        ] {
            let refused = refused(&text);
            assert!(
                refused.len() == 1 && refused[0].starts_with(key),
                "{key}: {refused:?}"
            );
        }
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
        // Frames lost while the machines came up do not count.
        assert_eq!(crossed_badly(&from(3, 1_000, 9), &from(3, 0, 0)), [""; 0]);
        let lost = crossed_badly(&from(5, 1_000, 0), &from(3, 0, 0));
        assert!(
            lost[0].contains("2 of 1002 frames from machine b were lost"),
            "{lost:?}"
        );
        // Forged datagrams are refused, and always reported.
        let mut forged = from(0, 1_000, 0);
        forged.from[0].1.refused = 7;
        let said = crossed_badly(&forged, &from(0, 1_000, 0)).join("; ");
        assert!(
            said.contains("7 datagrams from the address of machine b were refused"),
            "{said}"
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
