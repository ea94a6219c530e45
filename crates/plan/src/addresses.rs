//! The blocks that a scenario's addresses are taken from.

use constel_routing::AddressBlocks;

use crate::lab::Lab;

/// The scenario's blocks of addresses.
pub fn address_blocks(_lab: &Lab) -> AddressBlocks {
    AddressBlocks::default()
}
