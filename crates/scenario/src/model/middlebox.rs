//! A scenario that is a box.

use std::net::IpAddr;

use constel_units::TimeSpan;

use super::{Name, RuleFile};

/// A box as a scenario describes it. Made by [`read_box`](crate::read_box).
#[derive(Debug, Clone, PartialEq)]
pub struct BoxScenario {
    /// Name of the scenario.
    pub name: Name,
    /// The author's words; may be empty.
    pub description: String,
    /// How long it runs; `None`: until it is stopped.
    pub duration: Option<TimeSpan>,
    /// The interfaces or machines that the box joins.
    pub ends: BoxEnds,
    /// The form in which it joins them.
    pub form: BoxForm,
    /// All frames go through it, the host's own too.
    pub exclusive: bool,
    /// The box's rules and the file that has them.
    pub rules: RuleFile,
    /// Commands in the machines, in order of their start.
    pub commands: Vec<MachineCommand>,
}

/// The ends of a box.
#[derive(Debug, Clone, PartialEq)]
pub enum BoxEnds {
    /// Interfaces of the host.
    Interfaces(Vec<String>),
    /// Machines that the lab makes.
    Machines(Vec<Machine>),
}

impl BoxEnds {
    /// The names of the interfaces, or of the machines.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        match self {
            BoxEnds::Interfaces(names) => names.clone(),
            BoxEnds::Machines(machines) => machines.iter().map(|m| m.name.to_string()).collect(),
        }
    }
}

/// The form in which a box joins its interfaces or machines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum BoxForm {
    /// Cables: between the first and the second, the third and the fourth, ... Forward is from the first of each.
    #[default]
    Pairs,
    /// A switch that learns addresses. Forward is the direction of a frame that matches a rule as written.
    Hub,
    /// A router of IP. Forward as in pairs between two, else as in a hub.
    Router(BoxRouter),
}

/// The router that a box is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BoxRouter {
    /// The router's addresses, each with its end and the length of its network.
    pub addresses: Vec<(String, IpAddr, u8)>,
    /// Routes to networks beyond the attached ones, each with its next hop.
    pub routes: Vec<(IpAddr, u8, IpAddr)>,
}

/// Most interfaces of a box, and of one that is a router.
const MOST: usize = 16;
const MOST_OF_A_ROUTER: usize = 8;

impl BoxForm {
    /// Why a box between these cannot be of this form, in words.
    #[must_use]
    pub fn refusals(&self, names: &[String]) -> Vec<String> {
        let count = names.len();
        let mut why = Vec::new();
        let most = match self {
            BoxForm::Router(_) => MOST_OF_A_ROUTER,
            BoxForm::Pairs | BoxForm::Hub => MOST,
        };
        if !(2..=most).contains(&count) {
            why.push(format!("{count} interfaces: such a box has 2 to {most}"));
        }
        match self {
            BoxForm::Pairs if count % 2 == 1 => why.push(format!(
                "{count} interfaces: without a hub or a router they are pairs, and one is left over"
            )),
            BoxForm::Pairs | BoxForm::Hub => {}
            BoxForm::Router(router) => router.refusals(names, &mut why),
        }
        why
    }
}

impl BoxRouter {
    fn refusals(&self, names: &[String], why: &mut Vec<String>) {
        for (at, address, length) in &self.addresses {
            if !names.contains(at) {
                why.push(format!(
                    "{address}/{length} is at {at}, which the box is not at"
                ));
            }
        }
        for name in names {
            if !self.addresses.iter().any(|(at, ..)| at == name) {
                why.push(format!(
                    "a router has an address at each interface, and none at {name}"
                ));
            }
        }
        for (to, length, via) in &self.routes {
            if self.way_to(*via).is_none() {
                why.push(format!(
                    "{to}/{length} via {via}: no address of the router is in its network"
                ));
            }
        }
    }

    /// Returns the end that reaches a neighbour on an attached network.
    #[must_use]
    pub fn way_to(&self, neighbour: IpAddr) -> Option<&str> {
        let found = self
            .addresses
            .iter()
            .find(|(_, own, length)| same_network(*own, neighbour, *length));
        found.map(|(at, ..)| at.as_str())
    }
}

fn same_network(a: IpAddr, b: IpAddr, length: u8) -> bool {
    let bits = |address: IpAddr| match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
        IpAddr::V6(v6) => v6.to_bits(),
    };
    let differ = bits(a) ^ bits(b);
    a.is_ipv4() == b.is_ipv4() && differ.leading_zeros() >= u32::from(length)
}

/// A machine that a lab makes: a network namespace whose `eth0` is plugged into a box.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// At most 15 characters: the interface at the box has this name.
    pub name: Name,
    /// Addresses of `eth0` with the length of their network; at least one.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Default gateways; at most one of each family.
    pub gateways: Vec<IpAddr>,
    /// Settings of its kernel below `net`, with dots.
    pub settings: Vec<(String, String)>,
}

/// A command in a machine.
#[derive(Debug, Clone, PartialEq)]
pub struct MachineCommand {
    /// The command's name, unique in the scenario.
    pub name: Name,
    /// When it starts, counted from when frames are let in.
    pub at: TimeSpan,
    /// How long it may run; `at + length` is at most the scenario's duration.
    pub length: TimeSpan,
    /// The index of the command's machine.
    pub machine: usize,
    /// Program and arguments; at least the program.
    pub command: Vec<String>,
}
