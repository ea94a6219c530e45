//! The MAC address of a port contains its number, so that a unicast frame names its far port.
//!
//! Only the *destination* is ever read from a frame. The sender follows from the interface that captured the frame,
//! because software in a node can write any source address.

use crate::types::PortId;

/// First three bytes of every port's address: locally administered, unicast.
pub const MAC_PREFIX: [u8; 3] = [0x02, 0xc5, 0x00];

/// Largest port number that has an address (24 bits).
pub const MAX_PORT: PortId = PortId(0x00ff_ffff);

/// Returns the address of a port: `02:c5:00` and the port number in three bytes, big-endian.
///
/// # Panics
/// When the port is above [`MAX_PORT`].
#[must_use]
#[inline]
pub fn mac_of(port: PortId) -> [u8; 6] {
    assert!(
        port <= MAX_PORT,
        "{port} has no MAC address: ports end at {}",
        MAX_PORT.0
    );
    let [_, a, b, c] = port.0.to_be_bytes();
    [MAC_PREFIX[0], MAC_PREFIX[1], MAC_PREFIX[2], a, b, c]
}

/// Returns the port of an address, or `None` if the address does not have the lab's prefix.
#[must_use]
#[inline]
pub fn port_of_mac(mac: [u8; 6]) -> Option<PortId> {
    let [p0, p1, p2, a, b, c] = mac;
    ([p0, p1, p2] == MAC_PREFIX).then(|| PortId(u32::from_be_bytes([0, a, b, c])))
}

/// Returns true for multicast and broadcast addresses (the group bit).
#[must_use]
#[inline]
pub fn is_group(mac: [u8; 6]) -> bool {
    mac[0] & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for port in [0, 1, 255, 256, 65_535, 65_536, MAX_PORT.0] {
            let mac = mac_of(PortId(port));
            assert_eq!(port_of_mac(mac), Some(PortId(port)));
            assert!(!is_group(mac));
            assert_eq!(mac[0] & 2, 2, "locally administered");
        }
        assert_eq!(mac_of(PortId(0x01_02_03)), [0x02, 0xc5, 0, 1, 2, 3]);
        assert_eq!(port_of_mac([0x02, 0xc5, 1, 0, 0, 0]), None);
        assert!(is_group([0xff; 6]));
        assert!(is_group([0x01, 0, 0x5e, 0, 0, 5]));
    }

    #[test]
    #[should_panic(expected = "no MAC address")]
    fn beyond_the_end() {
        let _ = mac_of(PortId(MAX_PORT.0 + 1));
    }
}
