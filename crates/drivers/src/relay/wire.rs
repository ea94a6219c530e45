//! Ports that are interfaces of local nodes. They have a host end, a place in the memory shared with the programs, and
//! a number in the tag that names a frame's port. Ports of nodes without a stack have none of these.

use constel_link::PortId;

use super::layout::PORTS_MAX;
use crate::error::{DriverError, Result};

/// Numbers of the ports that are interfaces, counted without the other ports.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wires {
    /// By number; empty: the number is the port's own.
    ports: Vec<PortId>,
    /// By port: its number; [`NONE`]: it has none.
    of: Vec<u32>,
}

const NONE: u32 = u32::MAX;

impl Wires {
    /// Numbers all of `ports` ports except those for which `without` returns true.
    pub(crate) fn new(ports: u32, without: impl Fn(PortId) -> bool) -> Wires {
        let mut wires = Wires::default();
        for port in (0..ports).map(PortId) {
            if without(port) {
                wires.of.push(NONE);
            } else {
                wires.of.push(wires.ports.len() as u32);
                wires.ports.push(port);
            }
        }
        wires
    }

    /// Returns the number of interfaces among `ports` ports.
    ///
    /// # Errors
    /// When the number is 0, or larger than a tag can hold.
    pub(crate) fn count(&self, ports: u32) -> Result<u32> {
        let count = if self.of.is_empty() {
            ports
        } else {
            self.ports.len() as u32
        };
        if count == 0 || count > PORTS_MAX {
            let text = format!("{count} ports of nodes: must be 1 to {PORTS_MAX}");
            return Err(DriverError::Config(text));
        }
        Ok(count)
    }

    /// Returns the number of slot accounts for `ports` ports: frames from other machines may have a port that is not an
    /// interface.
    ///
    /// # Errors
    /// As [`Wires::count`].
    pub(crate) fn accounts(&self, ports: u32) -> Result<u32> {
        Ok(self.count(ports)? + u32::from(!self.of.is_empty()))
    }

    /// Returns the account of a port: its number, or the common account of all ports without a number.
    #[inline]
    pub(crate) fn account(&self, port: PortId) -> u32 {
        self.of(port).unwrap_or(self.ports.len() as u32)
    }

    /// Returns the port of an account; `None`: it is the account of ports without a number.
    pub(crate) fn of_account(&self, account: u32) -> Option<PortId> {
        let alone = self.of.is_empty() || (account as usize) < self.ports.len();
        alone.then(|| self.port(account))
    }

    /// Returns the port of a number.
    #[inline]
    pub(crate) fn port(&self, wire: u32) -> PortId {
        let port = self.ports.get(wire as usize).copied();
        port.unwrap_or(PortId(wire))
    }

    /// Returns the number of a port; `None`: it is not an interface.
    #[inline]
    pub(crate) fn of(&self, port: PortId) -> Option<u32> {
        match self.of.get(port.0 as usize) {
            Some(&NONE) => None,
            Some(&wire) => Some(wire),
            None => Some(port.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_skip_what_is_no_interface() {
        let all = Wires::default();
        assert_eq!((all.port(7), all.of(PortId(7))), (PortId(7), Some(7)));
        assert_eq!(all.count(9).unwrap(), 9);
        assert!(all.count(PORTS_MAX + 1).is_err());
        let some = Wires::new(100_000, |port| port.0 < 99_990 && port.0 != 5);
        assert_eq!(some.count(100_000).unwrap(), 11);
        assert_eq!(some.of(PortId(4)), None);
        assert_eq!((all.accounts(9).unwrap(), all.account(PortId(7))), (9, 7));
        assert_eq!(all.of_account(7), Some(PortId(7)));
        assert_eq!(some.accounts(100_000).unwrap(), 12);
        assert_eq!(some.account(PortId(4)), 11);
        let ports = [11, 10].map(|account| some.of_account(account));
        assert_eq!(ports, [None, Some(PortId(99_999))]);
        for (wire, port) in [(0, 5), (1, 99_990), (10, 99_999)] {
            assert_eq!(some.of(PortId(port)), Some(wire));
            assert_eq!(some.port(wire), PortId(port));
        }
    }
}
