//! The machines of a lab, and which of them has each port.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use constel_link::PortId;

use crate::crossing::Layout;
use crate::underlay::{Cipher, Endpoint, Key, MachineTransport, PortOwner};

/// A machine of the lab.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// The name.
    pub name: String,
    /// The address at which it listens and from which it sends.
    pub address: Endpoint,
    /// The token with which it proves that it may send for its nodes.
    pub token: u32,
}

/// The reason why machines are not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// A number that no machine has.
    #[error("there is no machine {number} among {machines}")]
    NoMachine {
        /// The number.
        number: usize,
        /// The number of machines.
        machines: usize,
    },
    /// Two machines listen at the same address.
    #[error("machines {0} and {1} are both at {2}")]
    SamePlace(String, String, Endpoint),
    /// A machine's address belongs to another transport.
    #[error("machine {0} is at {1}, where {by} does not go", by = .2.as_str())]
    OtherCarriage(String, Endpoint, MachineTransport),
}

/// All machines of the lab.
#[derive(Debug)]
pub(crate) struct Machines {
    here: usize,
    machines: Vec<Machine>,
    is_lost: Vec<AtomicBool>,
    /// The machine of each port's node, by port. When a machine is lost and a node moves, all machines set the new
    /// owner before any frame is sent for that node.
    owners: Vec<AtomicUsize>,
    session: u32,
    key: Option<Key>,
}

impl Machines {
    pub(crate) fn new(layout: Layout, transport: MachineTransport) -> Result<Self, LayoutError> {
        let Layout {
            here,
            machines,
            owners,
            session,
            key,
            ..
        } = layout;
        let is_none = |number: &usize| *number >= machines.len();
        // Later code indexes machines by these numbers without a test.
        let wrong = owners.iter().copied().chain([here]).find(is_none);
        if let Some(number) = wrong {
            let machines = machines.len();
            return Err(LayoutError::NoMachine { number, machines });
        }
        for (number, one) in machines.iter().enumerate() {
            let mut others = machines[..number].iter();
            // Frames are attributed to a machine by the address that they come from.
            if let Some(other) = others.find(|other| one.address.is_at(other.address)) {
                let names = (other.name.clone(), one.name.clone());
                return Err(LayoutError::SamePlace(names.0, names.1, one.address));
            }
            if one.address.transport() != transport {
                return Err(LayoutError::OtherCarriage(
                    one.name.clone(),
                    one.address,
                    transport,
                ));
            }
        }
        Ok(Self {
            here,
            is_lost: machines.iter().map(|_| AtomicBool::new(false)).collect(),
            machines,
            owners: owners.into_iter().map(AtomicUsize::new).collect(),
            session,
            key,
        })
    }

    /// This machine's number.
    pub(crate) fn here(&self) -> usize {
        self.here
    }

    /// Returns the number of the machine that has each port's node, by port.
    pub(crate) fn owners(&self) -> impl Iterator<Item = usize> {
        let owners = self.owners.iter();
        owners.map(|owner| owner.load(Ordering::Acquire))
    }

    fn owner(&self, port: PortId) -> Option<usize> {
        let owner = self.owners.get(port.0 as usize)?;
        Some(owner.load(Ordering::Acquire))
    }

    /// Records that a port's node is on another machine from now on. Unknown ports are ignored.
    pub(crate) fn give(&self, port: PortId, machine: usize) -> Result<(), LayoutError> {
        let machines = self.machines.len();
        if machine >= machines {
            let number = machine;
            return Err(LayoutError::NoMachine { number, machines });
        }
        if let Some(owner) = self.owners.get(port.0 as usize) {
            owner.store(machine, Ordering::Release);
        }
        Ok(())
    }

    pub(crate) fn endpoint(&self, machine: usize) -> Endpoint {
        self.machines[machine].address
    }

    /// Returns the number of this run of the lab.
    pub(crate) fn session(&self) -> u32 {
        self.session
    }

    /// Returns the cipher that seals frames from this machine to another; `None` without a key.
    pub(crate) fn cipher_to(&self, machine: usize) -> Option<Cipher> {
        let key = self.key.as_ref()?;
        Some(Cipher::new(key, self.here, machine, self.session))
    }

    /// Returns the cipher that opens frames from another machine; `None` without a key.
    pub(crate) fn cipher_from(&self, machine: usize) -> Option<Cipher> {
        let key = self.key.as_ref()?;
        Some(Cipher::new(key, machine, self.here, self.session))
    }

    /// Returns the ports whose nodes are on other machines.
    pub(crate) fn far_ports(&self) -> Vec<PortId> {
        let ports = (0..).map(PortId).zip(self.owners());
        ports
            .filter(|(_, owner)| *owner != self.here)
            .map(|(port, _)| port)
            .collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.machines.len()
    }

    pub(crate) fn name(&self, machine: usize) -> &str {
        &self.machines[machine].name
    }

    /// Returns the token with which this machine sends.
    pub(crate) fn own_token(&self) -> u32 {
        self.machines[self.here].token
    }

    /// Returns the other machine to which frames for this port go, unless it is lost, and its address.
    pub(crate) fn way_to(&self, port: PortId) -> Option<(usize, Endpoint)> {
        let owner = self.owner(port)?;
        (owner != self.here && !self.has_lost(owner)).then(|| (owner, self.machines[owner].address))
    }

    /// Returns whether the machine that has this port is lost.
    pub(crate) fn is_of_lost(&self, port: PortId) -> bool {
        let owner = self.owner(port);
        owner.is_some_and(|owner| owner != self.here && self.has_lost(owner))
    }

    /// Returns the other machine that sends from this address.
    pub(crate) fn at(&self, address: Endpoint) -> Option<usize> {
        let mut others = self.machines.iter().enumerate();
        let found = others.find(|(_, machine)| machine.address.is_at(address))?;
        // A datagram with this machine's own address was reflected or forged.
        (found.0 != self.here).then_some(found.0)
    }

    /// Returns the owner of this port, as the receiver needs it.
    pub(crate) fn whose(&self, port: PortId) -> PortOwner {
        match self.owner(port) {
            Some(owner) if owner == self.here => PortOwner::Ours,
            // Frames of a lost machine may still arrive. The nodes have no owner until others create them again.
            Some(owner) if !self.has_lost(owner) => {
                PortOwner::Machine(owner, self.machines[owner].token)
            }
            _ => PortOwner::Nobody,
        }
    }

    fn has_lost(&self, machine: usize) -> bool {
        self.is_lost[machine].load(Ordering::Acquire)
    }

    pub(crate) fn lose(&self, machine: usize) -> bool {
        let there = machine < self.machines.len() && machine != self.here;
        if there {
            self.is_lost[machine].store(true, Ordering::Release);
        }
        there
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16) -> Endpoint {
        Endpoint::Udp(([10, 0, 0, 1], port).into())
    }

    fn machine(name: &str, port: u16) -> Machine {
        Machine {
            name: name.to_owned(),
            address: at(port),
            token: u32::from(port),
        }
    }

    fn layout(machines: Vec<Machine>, owners: Vec<usize>) -> Layout {
        Layout {
            lab: 1,
            session: 1,
            here: 0,
            machines,
            owners,
            ahead_ns: 0,
            key: None,
        }
    }

    fn told(layout: Layout) -> Result<Machines, LayoutError> {
        Machines::new(layout, MachineTransport::Udp)
    }

    #[test]
    fn ports_are_ours_theirs_or_nobodys() {
        let machines = vec![machine("a", 1), machine("b", 2), machine("c", 3)];
        let known = told(layout(machines, vec![0, 1, 2, 1])).unwrap();
        assert_eq!(known.far_ports(), [1, 2, 3].map(PortId));
        assert_eq!(known.whose(PortId(0)), PortOwner::Ours);
        assert_eq!(known.whose(PortId(1)), PortOwner::Machine(1, 2));
        assert_eq!(known.whose(PortId(4)), PortOwner::Nobody);
        assert_eq!(known.way_to(PortId(2)), Some((2, at(3))));
        assert_eq!(
            (known.way_to(PortId(0)), known.way_to(PortId(4))),
            (None, None)
        );
        assert_eq!(
            (known.at(at(3)), known.at(at(1)), known.at(at(9))),
            (Some(2), None, None)
        );
        assert!(known.lose(1) && !known.lose(0) && !known.lose(3));
        assert_eq!(
            (known.whose(PortId(1)), known.way_to(PortId(3))),
            (PortOwner::Nobody, None)
        );
        assert_eq!(known.whose(PortId(2)), PortOwner::Machine(2, 3));
        assert!(known.is_of_lost(PortId(3)) && !known.is_of_lost(PortId(2)));
    }

    #[test]
    fn what_was_a_lost_machines_is_anothers_and_only_his() {
        let machines = vec![machine("a", 1), machine("b", 2), machine("c", 3)];
        let known = told(layout(machines, vec![0, 1, 1, 2])).unwrap();
        assert!(known.lose(1));
        known.give(PortId(1), 0).unwrap();
        known.give(PortId(2), 2).unwrap();
        known.give(PortId(9), 2).unwrap();
        assert_eq!(known.whose(PortId(1)), PortOwner::Ours);
        assert_eq!(known.whose(PortId(2)), PortOwner::Machine(2, 3));
        assert_eq!(known.way_to(PortId(1)), None);
        assert_eq!(known.way_to(PortId(2)), Some((2, at(3))));
        assert!(!known.is_of_lost(PortId(2)));
        assert!(known.give(PortId(1), 3).is_err());
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let two = || vec![machine("a", 1), machine("b", 2)];
        let none = LayoutError::NoMachine {
            number: 2,
            machines: 2,
        };
        assert_eq!(told(layout(two(), vec![0, 2])).unwrap_err(), none);
        let beyond = Layout {
            here: 2,
            ..layout(two(), vec![])
        };
        assert_eq!(told(beyond).unwrap_err(), none);
        let twice = vec![machine("a", 1), machine("b", 1)];
        let wrong = told(layout(twice, vec![])).unwrap_err();
        assert_eq!(wrong.to_string(), "machines a and b are both at 10.0.0.1:1");
        let other = Machines::new(layout(two(), vec![]), MachineTransport::Ethernet);
        let other = other.unwrap_err().to_string();
        assert!(other.contains("where ethernet does not go"), "{other}");
    }
}
