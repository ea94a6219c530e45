//! Learning switches: networks in which a port may have more Ethernet addresses behind it than its own.
//!
//! Ports use the addresses of [`constel_link::mac_of`]. Software may add others: VRRP's virtual address, macvlan, a
//! bridge with virtual machines, or an address set by the user. A switch learns from source addresses which port each
//! of them is behind, as in IEEE 802.1D, and sends frames for unknown addresses to all ports. A port's own address is
//! never learned elsewhere, so a node cannot take another's frames by using its address.

use std::collections::{HashMap, VecDeque};
use std::sync::{PoisonError, RwLock};

use constel_link::{PortId, is_group, mac_of, port_of_mac};

/// Maximum number of addresses that a switch keeps for one port; beyond it the oldest is dropped.
const ADDRESSES_MAX: usize = 1_024;
/// Marks a port that is on no switch.
const NONE: u16 = u16::MAX;
/// A destination that selects all edges of the port.
const ALL: [u8; 6] = [0xff; 6];

type Mac = [u8; 6];

/// The switches of a plane, shared by its threads.
#[derive(Debug, Default)]
pub(crate) struct Switches {
    /// By port: the number of its switch.
    of: Vec<u16>,
    learned: RwLock<Learned>,
}

#[derive(Debug, Default)]
struct Learned {
    /// Port of each address on a switch.
    places: HashMap<(u16, Mac), PortId>,
    /// Learned addresses of each port, the oldest first. An address that has moved to another port may still be listed.
    of_port: HashMap<PortId, VecDeque<Mac>>,
}

impl Switches {
    /// Creates switches with these ports; a port is on one at most.
    pub(crate) fn new(switches: &[Vec<PortId>]) -> Switches {
        let ports = switches.iter().flatten().map(|port| port.0 as usize + 1);
        let mut of = vec![NONE; ports.max().unwrap_or(0)];
        for (number, ports) in (0..NONE).zip(switches) {
            for port in ports {
                of[port.0 as usize] = number;
            }
        }
        Switches {
            of,
            learned: RwLock::default(),
        }
    }

    /// Returns the destination by which the edges of a frame from `from` are found: the address of the port that the
    /// frame's destination is behind, or of all ports. `source` returns the frame's source address, which is learned.
    #[inline]
    pub(crate) fn destination(
        &self,
        from: PortId,
        destination: Mac,
        source: impl FnOnce() -> Mac,
    ) -> Mac {
        match self.of.get(from.0 as usize) {
            None | Some(&NONE) => destination,
            Some(&switch) => self.steer(switch, from, destination, source()),
        }
    }

    fn steer(&self, switch: u16, from: PortId, destination: Mac, source: Mac) -> Mac {
        let is_foreign = |mac: Mac| !is_group(mac) && port_of_mac(mac).is_none();
        if is_foreign(source) {
            // The read lock suffices for almost every frame; the write lock is taken for a new or moved address only.
            let known = self.learned.read().unwrap_or_else(PoisonError::into_inner);
            let is_known = known.places.get(&(switch, source)) == Some(&from);
            drop(known);
            if !is_known {
                let mut learned = self.learned.write().unwrap_or_else(PoisonError::into_inner);
                learned.learn(switch, from, source);
            }
        }
        if !is_foreign(destination) {
            return destination;
        }
        let learned = self.learned.read().unwrap_or_else(PoisonError::into_inner);
        let place = learned.places.get(&(switch, destination));
        place.map_or(ALL, |port| mac_of(*port))
    }
}

impl Learned {
    fn learn(&mut self, switch: u16, port: PortId, mac: Mac) {
        self.places.insert((switch, mac), port);
        let own = self.of_port.entry(port).or_default();
        // An address that moved away and came back is listed already.
        own.retain(|listed| *listed != mac);
        own.push_back(mac);
        if own.len() > ADDRESSES_MAX
            && let Some(oldest) = own.pop_front()
            // The oldest address may have moved to another port, whose entry must stay.
            && self.places.get(&(switch, oldest)) == Some(&port)
        {
            self.places.remove(&(switch, oldest));
        }
    }
}

/// Sends frames with arbitrary addresses through two switches: four bytes each, for fuzz tests. Returns whether a switch steered
/// one to the port of its destination.
///
/// # Panics
/// When a frame is steered to another port than the one that its destination was last used at, or when a port keeps more than
/// 1,024 addresses.
#[must_use]
pub fn learns_addresses(script: &[u8]) -> bool {
    const PORTS: u32 = 10;
    let ports = |range: std::ops::Range<u32>| range.map(PortId).collect::<Vec<_>>();
    let switches = Switches::new(&[ports(1..4), ports(6..8)]);
    let mut last = HashMap::new();
    let mut steered = false;
    let (frames, _) = script.as_chunks::<4>();
    for &[from, kind, a, b] in frames {
        let port = PortId(u32::from(from) % PORTS);
        let address = |kind: u8, a: u8| match kind & 3 {
            0 => mac_of(PortId(u32::from(a) % PORTS)),
            1 => [0x06, 0, 0, 0, a, b],
            2 => [0x06, 0, 0, 0, 0, a & 3],
            _ => [kind, a, b, a, b, a],
        };
        let (source, destination) = (address(kind, a), address(kind >> 2, b));
        let to = switches.destination(port, destination, || source);
        let switch = match port.0 {
            1..4 => 0,
            6..8 => 1,
            _ => NONE,
        };
        let is_foreign = |mac: Mac| !is_group(mac) && port_of_mac(mac).is_none();
        if switch == NONE || !is_foreign(destination) {
            assert_eq!(to, destination, "as it was sent");
        }
        if switch == NONE {
            continue;
        }
        if is_foreign(source) {
            last.insert((switch, source), port);
        }
        if is_foreign(destination) && to != ALL {
            let place = last.get(&(switch, destination)).copied();
            assert_eq!(Some(to), place.map(mac_of), "where it was last used");
            steered = true;
        }
    }
    let learned = switches
        .learned
        .read()
        .unwrap_or_else(PoisonError::into_inner);
    let mut kept = learned.of_port.values().map(VecDeque::len);
    assert!(kept.all(|addresses| addresses <= ADDRESSES_MAX));
    assert!(learned.places.len() <= learned.of_port.len() * ADDRESSES_MAX);
    steered
}

#[cfg(test)]
mod tests {
    use super::*;

    const VRRP: Mac = [0, 0, 0x5e, 0, 1, 1];

    fn mac(n: u32) -> Mac {
        let [a, b, c, d] = n.to_be_bytes();
        [0x06, 0, a, b, c, d]
    }

    #[test]
    fn what_has_spoken_is_found_and_what_has_not_goes_to_all() {
        let ports: Vec<PortId> = (1..4).map(PortId).collect();
        let other = vec![PortId(7), PortId(8)];
        let switches = Switches::new(&[ports, other]);
        let send = |from, to, source| switches.destination(PortId(from), to, || source);
        let own = |port| mac_of(PortId(port));
        // No frame from this address has been sent yet.
        assert_eq!(send(1, VRRP, own(1)), ALL);
        assert_eq!(send(2, ALL, VRRP), ALL);
        assert_eq!(send(1, VRRP, own(1)), own(2));
        // It moves, as when the master fails.
        assert_eq!(send(3, ALL, VRRP), ALL);
        assert_eq!(send(1, VRRP, own(1)), own(3));
        // Another switch has not learned it, and a port on no switch learns none.
        assert_eq!(send(7, VRRP, own(7)), ALL);
        assert_eq!(send(9, VRRP, mac(5)), VRRP);
        // A port's own address stays with it, even if another node uses it.
        assert_eq!(send(2, ALL, own(3)), ALL);
        assert_eq!(send(1, own(3), own(1)), own(3));
    }

    #[test]
    fn a_port_that_invents_addresses_forgets_its_own_alone() {
        let switches = Switches::new(&[(0..3).map(PortId).collect()]);
        let send = |from, to, source| switches.destination(PortId(from), to, || source);
        send(0, ALL, VRRP);
        let many = 3 * ADDRESSES_MAX as u32;
        for n in 0..many {
            send(1, ALL, mac(n));
        }
        let learned = switches.learned.read().unwrap();
        assert_eq!(learned.places.len(), ADDRESSES_MAX + 1);
        assert_eq!(learned.of_port[&PortId(1)].len(), ADDRESSES_MAX);
        drop(learned);
        assert_eq!(send(2, VRRP, mac_of(PortId(2))), mac_of(PortId(0)));
        assert_eq!(send(2, mac(0), mac_of(PortId(2))), ALL);
        assert_eq!(send(2, mac(many - 1), mac_of(PortId(2))), mac_of(PortId(1)));
    }
}
