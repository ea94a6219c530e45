//! The flow of a packet, which determines its path among several equal ones. Linux hashes layer 4 in the same way
//! (`fib_multipath_hash_policy` 1): addresses, protocol and ports; fragments and protocols without ports by addresses
//! and protocol only.

use crate::transit::table::Fold;
use std::hash::Hasher;

const TCP: u8 = 6;
const UDP: u8 = 17;

/// A packet's flow. The hash is computed on demand.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flow<'p> {
    /// Both addresses, one behind the other.
    pub addresses: &'p [u8],
    /// The protocol above IP.
    pub protocol: u8,
    /// Bytes behind the network header; empty if they must not be used.
    pub transport: &'p [u8],
}

impl Flow<'_> {
    /// Returns a number that is equal for all packets of a flow that `node` forwards. Each node chooses independently
    /// of the others.
    #[must_use]
    pub fn number(&self, node: u32) -> u64 {
        let mut fold = Fold::default();
        fold.write(self.addresses);
        fold.write_u64(u64::from(node) << 8 | u64::from(self.protocol));
        // The headers of TCP and UDP begin with the two ports.
        if matches!(self.protocol, TCP | UDP) && self.transport.len() >= 4 {
            fold.write(&self.transport[..4]);
        }
        fold.finish()
    }
}
