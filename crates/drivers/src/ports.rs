//! Interface indexes of ports' host ends, common to all drivers.

use constel_link::PortId;

/// Index of port 0's host end.
pub(crate) const FIRST_PORT: u32 = 1000;

/// Returns the index that the host end of a port must have.
#[must_use]
pub const fn host_ifindex(port: PortId) -> u32 {
    FIRST_PORT + port.0
}
