//! The machines of a lab: their selection, their fitness, and the placement of nodes.

use std::collections::BTreeMap;
use std::str::FromStr;

use constel_api::manifest::MachineTransportReport;
use constel_cluster::agent::labs::{LabDescription, Node, SharedEvent, agreed, order_of, running};
use constel_cluster::agent::{Row, State};
use constel_cluster::machines::{
    Division, Homes, Loads, Machine, Machines, Moved, Pin, Placement, PlacementPolicy as Dealt,
};
use constel_cluster::store::Store;
use constel_cluster::underlay::{DelayCheck, MachineTransport, OneWayDelays};
use constel_lab::not_on_several;
use constel_plan::NodeNameError;
use constel_topology::NodeId;
use serde::Serialize;

use super::between;
use super::lead::OnMachines;
use crate::error::Error;
use crate::machines::Share;
use crate::scenario::Scenario;

/// The machines of a lab, and the placement of its nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenMachines {
    /// The machines.
    pub machines: Machines,
    /// Nodes with a given machine.
    pub pins: Vec<Pin>,
    /// The placement policy for the other nodes.
    pub order: Dealt,
}

/// The comparison of the edges between two machines with the delay between the machines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MachinePair {
    /// A machine.
    pub from: String,
    /// Another one.
    pub to: String,
    /// Edges between them at lab time zero.
    pub edges: usize,
    /// The shortest delay of these, nanoseconds.
    pub shortest_ns: u64,
    /// Half of the round-trip time, nanoseconds, as far as it is known: via the machine whose clock is the reference.
    pub one_way_ns: u64,
    /// Maximum difference of the clocks, nanoseconds.
    pub clock_error_ns: u64,
    /// Number of edges that are shorter than the delay between the machines. Every frame on them is late.
    pub short_edges: usize,
}

/// A scenario on present machines.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MachineCheck {
    /// The load of each machine at lab time zero.
    pub machines: Vec<Share>,
    /// Edges at lab time zero.
    pub edges: usize,
    /// Those between nodes of different machines.
    pub crossing_edges: usize,
    /// The transport of their frames.
    pub between: MachineTransportReport,
    /// The transport of frames, for the code that creates the lab.
    #[serde(skip)]
    pub(super) transport: MachineTransport,
    /// Between which machines edges cross.
    pub machine_pairs: Vec<MachinePair>,
    /// Why it cannot be run so; empty: it can.
    pub refusals: Vec<String>,
}

impl MachineCheck {
    /// Returns the transport of frames between the machines as text for users.
    #[must_use]
    pub fn between_in_words(&self) -> String {
        between::told(&self.between)
    }
}

impl ChosenMachines {
    /// The machines of an order.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn of(order: &LabDescription) -> Result<Self, Error> {
        let wrong = |error: &dyn std::fmt::Display| Error::Undividable(error.to_string());
        let machines = order.machines.iter();
        let machine = |node: &Node| Machine::named(&node.name, node.weight, node.capacity);
        let machines = machines.map(machine).collect::<Result<_, _>>();
        let machines = Machines::new(machines.map_err(|e| wrong(&e))?).map_err(|e| wrong(&e))?;
        let pins = order.pins.iter().map(|pin| Pin::from_str(pin));
        Ok(Self {
            machines,
            pins: pins.collect::<Result<_, _>>().map_err(|e| wrong(&e))?,
            order: match order.place.as_str() {
                "round-robin" => Dealt::RoundRobin,
                "fewest-crossings" => Dealt::FewestCrossings,
                other => return Err(wrong(&format!("nodes are not dealt by {other:?}"))),
            },
        })
    }

    /// Returns the word for the placement policy.
    pub(crate) fn place_word(&self) -> &'static str {
        match self.order {
            Dealt::RoundRobin => "round-robin",
            Dealt::FewestCrossings => "fewest-crossings",
        }
    }

    /// The machines as an order has them.
    pub(crate) fn nodes(&self) -> Vec<Node> {
        let node = |machine: &Machine| Node {
            name: machine.name.clone(),
            weight: machine.weight,
            capacity: machine.capacity,
        };
        self.machines.all().iter().map(node).collect()
    }

    /// Returns the placement of the nodes.
    ///
    /// # Errors
    /// [`Error::Undividable`].
    pub(crate) fn place(&self, scenario: &Scenario) -> Result<Placement, Error> {
        let placement = Placement::new(&scenario.lab, &self.machines, &self.pins, self.order);
        placement.map_err(|error| Error::Undividable(error.to_string()))
    }

    /// Returns the machines of the nodes, which change as machines are lost.
    pub(crate) fn homes(&self, scenario: &Scenario, placement: Placement) -> Homes {
        let division = Division {
            machines: self.machines.clone(),
            pins: self.pins.clone(),
            order: self.order,
        };
        Homes::new(&scenario.lab, division, placement)
    }

    /// Selects machines of a store by their names, or all present ones, with their published weights and capacities.
    ///
    /// # Errors
    /// [`Error::Machines`] with the reason why one of them cannot run a part.
    pub fn choose(
        rows: &[Row],
        names: Option<&[String]>,
        pins: Vec<Pin>,
        order: Dealt,
    ) -> Result<Self, Error> {
        let up = rows.iter().filter(|row| row.state == State::Up);
        let names: Vec<String> = match names {
            Some(names) => names.to_vec(),
            None => up.map(|row| row.machine.clone()).collect(),
        };
        let there = || {
            let all: Vec<&str> = rows.iter().map(|row| row.machine.as_str()).collect();
            match all.is_empty() {
                true => "no machine has joined this store; `constel agent` makes one of this host"
                    .to_owned(),
                false => format!("there are {}", all.join(", ")),
            }
        };
        if names.is_empty() {
            return Err(Error::Machines(there()));
        }
        let (mut machines, mut wrong) = (Vec::new(), Vec::new());
        for name in &names {
            let Some(row) = rows.iter().find(|row| row.machine == *name) else {
                wrong.push(format!("there is no machine {name}: {}", there()));
                continue;
            };
            wrong.extend(unfit(row));
            let weight = row.weight.unwrap_or(1);
            let machine = Machine::named(name, weight, row.capacity);
            machines.push(machine.map_err(|error| Error::Machines(error.to_string()))?);
        }
        if !wrong.is_empty() {
            return Err(Error::Machines(wrong.join("\n  ")));
        }
        let machines = Machines::new(machines);
        Ok(Self {
            machines: machines.map_err(|error| Error::Machines(error.to_string()))?,
            pins,
            order,
        })
    }
}

/// Returns the reason why a machine cannot run a part, if any.
fn unfit(row: &Row) -> Option<String> {
    let (name, ours) = (&row.machine, env!("CARGO_PKG_VERSION"));
    let version = row.version.as_deref().unwrap_or("unknown");
    if row.state == State::Lost {
        return Some(format!("machine {name} is lost: start its agent again"));
    }
    if version != ours {
        return Some(format!(
            "this is Constel {ours}, and machine {name} has Constel {version}: all machines of a lab need the same version"
        ));
    }
    if row.underlay.is_none() {
        return Some(format!(
            "machine {name} listens nowhere: its agent has to be started with --underlay INTERFACE"
        ));
    }
    if row.clock_offset_ns.is_none() {
        return Some(format!(
            "the clock of machine {name} has not been compared yet: try again in some seconds"
        ));
    }
    None
}

/// Returns the machine of a lab that has a node of this name.
///
/// # Errors
/// [`Error::Machines`] if no such lab is running, [`Error::NoNode`].
pub fn machine_of(store: &dyn Store, lab: &str, node: &str) -> Result<String, Error> {
    let Some(given) = order_of(store, lab)? else {
        let led = running(store)?;
        let led: Vec<&str> = led.iter().map(|order| order.lab.as_str()).collect();
        let there = match led.is_empty() {
            true => "none is running".to_owned(),
            false => format!("there are {}", led.join(", ")),
        };
        return Err(Error::Machines(format!(
            "no lab on several machines is called '{lab}': {there}"
        )));
    };
    let asked = ChosenMachines::of(&given.order)?;
    let mut files = given.files.into_iter();
    let Some((shown, text)) = files.next() else {
        return Err(Error::Machines(format!("lab {lab} has no scenario")));
    };
    let scenario = Scenario::given(&shown, &text, files.collect())?;
    let mut homes = asked.homes(&scenario, asked.place(&scenario)?);
    let id = scenario.lab.find(node).map_err(|error| match error {
        NodeNameError::None { nearest, .. } => Error::NoNode {
            lab: lab.to_owned(),
            node: node.to_owned(),
            nearest,
        },
        several @ NodeNameError::Several { .. } => Error::Machines(several.to_string()),
    })?;
    if given.order.moves {
        let agreed = agreed(store, lab)?;
        follow(&mut homes, &asked.machines, &agreed, true);
    }
    Ok(asked.machines.all()[homes.machine_of(id)].name.clone())
}

/// The effect of a machine's loss or return on nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fate {
    /// A machine is lost, and other machines take over some of its nodes.
    Lost(usize, Moved),
    /// Nodes of a lost machine have their links again: the index of that machine, and the new machine of each node.
    Back(usize, BTreeMap<NodeId, usize>),
}

/// Applies the events that all machines follow to `homes`. Returns the effects, each with the lab time by which all machines
/// know of it. Events without an effect are left out.
pub(super) fn follow(
    homes: &mut Homes,
    machines: &Machines,
    agreed: &[SharedEvent],
    moves: bool,
) -> Vec<(Fate, u64)> {
    let place = |name: &str| machines.find(name);
    let fate = |agreed: &SharedEvent| match agreed {
        SharedEvent::Lost { machine, loss } => {
            let machine = place(machine)?;
            let moved = homes.lose(machine, moves)?;
            Some((Fate::Lost(machine, moved), loss.from_ns))
        }
        SharedEvent::Back { machine, back } => {
            let ready = back.ready.iter().filter_map(|name| place(name));
            let machine = place(machine)?;
            let nodes = homes.back(machine, &ready.collect());
            Some((Fate::Back(machine, nodes), back.from_ns))
        }
    };
    agreed.iter().filter_map(fate).collect()
}

impl Scenario {
    /// Examines the scenario on present machines: the placement, edges that are longer than the delay between the machines,
    /// the transport of frames, and features of the scenario that labs on several machines do not support. If raw Ethernet
    /// was requested, the machines exchange some test frames. The call changes no other state.
    ///
    /// # Errors
    /// [`Error::Undividable`] if pins, caps or shared media do not allow it, or an error if the store cannot be reached.
    pub fn look_on(&self, on: &OnMachines<'_>) -> Result<MachineCheck, Error> {
        let OnMachines { asked, rows, .. } = *on;
        let lab = &self.lab;
        let placement = asked.place(self)?;
        let first = lab.stepper().advance();
        let loads = Loads::at(lab, &asked.machines, &placement, &first);
        let mut refusals = not_on_several(lab);
        let machines = self.shares(loads.machines);
        for share in &machines {
            let row = rows.iter().find(|row| row.machine == share.load.machine);
            let has = row.and_then(|row| row.memory_bytes).unwrap_or(u64::MAX);
            if share.memory_bytes > has {
                refusals.push(format!(
                    "machine {} has {} MiB of memory, and its part takes about {} MiB; add a machine or lower its --weight",
                    share.load.machine,
                    has >> 20,
                    share.memory_bytes >> 20
                ));
            }
        }
        let settled = between::settle(lab, on)?;
        refusals.extend(settled.against);
        let clock = |machine: usize| {
            let name = &asked.machines.all()[machine].name;
            let row = rows.iter().find(|row| row.machine == *name);
            row.map_or((0, 0), |row| {
                let error = row.clock_error_ns.unwrap_or(0);
                (row.one_way_ns.unwrap_or(0), error)
            })
        };
        let mut ways: Vec<((usize, usize), MachinePair)> = Vec::new();
        for edge in &first.edges {
            let machine = |port| placement.machine_of(lab.layout.port(port).node);
            let ends = (machine(edge.from), machine(edge.to));
            if ends.0 == ends.1 {
                continue;
            }
            let delay_ns = edge.impairment.delay.at(0);
            let place = ways.iter().position(|(known, _)| *known == ends);
            let place = place.unwrap_or_else(|| {
                let [from, to] = [ends.0, ends.1].map(|n| asked.machines.all()[n].name.clone());
                let (a, b) = (clock(ends.0), clock(ends.1));
                ways.push((
                    ends,
                    MachinePair {
                        from,
                        to,
                        edges: 0,
                        shortest_ns: u64::MAX,
                        one_way_ns: a.0 + b.0,
                        clock_error_ns: a.1 + b.1,
                        short_edges: 0,
                    },
                ));
                ways.len() - 1
            });
            let way = &mut ways[place].1;
            way.edges += 1;
            way.shortest_ns = way.shortest_ns.min(delay_ns);
            let both_ways = OneWayDelays {
                least_ns: way.one_way_ns,
                longest_ns: way.one_way_ns,
            };
            let room = DelayCheck::of(delay_ns, both_ways, way.clock_error_ns);
            way.short_edges += usize::from(!matches!(room, DelayCheck::Hidden { .. }));
        }
        ways.sort_by_key(|(ends, _)| *ends);
        Ok(MachineCheck {
            machines,
            edges: loads.edges,
            crossing_edges: loads.crossing_edges,
            between: settled.between,
            transport: settled.transport,
            machine_pairs: ways.into_iter().map(|(_, way)| way).collect(),
            refusals,
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use constel_cluster::agent::labs::{Loss, NodesReturned};

    /// Returns 66 satellites, distributed alternately to three machines.
    pub(in crate::together) fn three_machines() -> (Scenario, ChosenMachines) {
        let text = "constel: 1\nname: t\nstart: 2026-11-21T00:00:00Z\nduration: 10 s\nconstellations:\n  \
                    i: {walker: {pattern: star, inclination: 86.4 deg, satellites: 66, planes: 6, phasing: 2, altitude: 780 km}, gsl: {min_elevation: 8.2 deg, link: {rate: 50 Mbit/s}}, \
                    isl: {pattern: plus-grid, link: {rate: 100 Mbit/s}}}\n";
        let scenario = Scenario::given("t.yaml", text.as_bytes(), Vec::new()).unwrap();
        let asked = ChosenMachines {
            machines: "a,b,c".parse().unwrap(),
            pins: Vec::new(),
            order: Dealt::RoundRobin,
        };
        (scenario, asked)
    }

    fn row(machine: &str) -> Row {
        let text = format!(
            r#"{{"machine": "{machine}", "state": "up", "weight": 2, "nodes": 0, "clock_offset_ns": 5, "version": "{}",
                "clock_error_ns": 7, "clock_by": "underlay", "clock_steps": 0, "capacity": null, "workers": 2, "cores": 2,
                "memory_bytes": 1, "load": 0.0, "underlay": "10.0.0.1:5", "host": "h", "pid": 1, "one_way_ns": 3}}"#,
            env!("CARGO_PKG_VERSION")
        );
        serde_json::from_str(&text).unwrap()
    }

    /// A request for a node goes to the machine that has it after all agreed events.
    #[test]
    fn nodes_are_asked_for_where_they_are_by_now() {
        let (scenario, asked) = three_machines();
        let (why, by) = (String::new(), "c".to_owned());
        let lost = |machine: &str| SharedEvent::Lost {
            machine: machine.to_owned(),
            loss: Loss {
                order: 1,
                from_ns: 5,
                why: why.clone(),
                by: by.clone(),
            },
        };
        let back = SharedEvent::Back {
            machine: "b".to_owned(),
            back: NodesReturned {
                order: 1,
                from_ns: 9,
                ready: vec!["a".to_owned()],
                by: by.clone(),
            },
        };
        let of = |agreed: &[SharedEvent]| {
            let mut homes = asked.homes(&scenario, asked.place(&scenario).unwrap());
            let fates = follow(&mut homes, &asked.machines, agreed, true).len();
            let nodes = scenario.lab.layout.nodes().iter();
            let of: Vec<usize> = nodes.map(|node| homes.machine_of(node.id)).collect();
            (of, fates)
        };
        // Nodes are distributed alternately, both at first and after the loss.
        let with = |of_b: &dyn Fn(usize) -> usize| {
            let of = |n: usize| if n % 3 == 1 { of_b(n / 3) } else { n % 3 };
            (0..66).map(of).collect::<Vec<usize>>()
        };
        let by_turns = |turn: usize| [0, 2][turn % 2];
        assert_eq!(of(&[]), (with(&|_| 1), 0));
        assert_eq!(of(&[lost("b"), lost("b")]), (with(&by_turns), 1));
        // The nodes that c does not create stay where they were.
        let back = of(&[lost("b"), back]);
        assert_eq!(back, (with(&|turn| [0, 1][turn % 2]), 2));
        assert_eq!(of(&[lost("b"), lost("c")]), (vec![0; 66], 2));
    }

    #[test]
    fn machines_that_cannot_take_a_part_are_named() {
        let choose = |rows: &[Row], names: Option<&[&str]>| {
            let names: Option<Vec<String>> =
                names.map(|names| names.iter().map(|&name| name.to_owned()).collect());
            ChosenMachines::choose(rows, names.as_deref(), Vec::new(), Dealt::FewestCrossings)
        };
        let all = choose(&[row("a"), row("b")], None).unwrap();
        let told: Vec<_> = all
            .machines
            .all()
            .iter()
            .map(|m| (m.name.as_str(), m.weight))
            .collect();
        assert_eq!(told, [("a", 2), ("b", 2)]);
        let lost = Row {
            state: State::Lost,
            ..row("b")
        };
        assert_eq!(
            choose(&[row("a"), lost.clone()], None)
                .unwrap()
                .machines
                .all()
                .len(),
            1
        );
        let old = Row {
            version: Some("0.0.9".to_owned()),
            ..row("b")
        };
        let deaf = Row {
            underlay: None,
            ..row("b")
        };
        let untimed = Row {
            clock_offset_ns: None,
            ..row("b")
        };
        for (other, words) in [
            (lost, "machine b is lost"),
            (old, "machine b has Constel 0.0.9"),
            (deaf, "--underlay"),
            (untimed, "the clock of machine b"),
        ] {
            let error = choose(&[row("a"), other], Some(&["a", "b"]))
                .unwrap_err()
                .to_string();
            assert!(error.contains(words), "{error}");
        }
        let error = choose(&[row("a")], Some(&["c"])).unwrap_err().to_string();
        assert!(error.contains("no machine c: there are a"), "{error}");
        let error = choose(&[], None).unwrap_err().to_string();
        assert!(error.contains("constel agent"), "{error}");
    }
}
