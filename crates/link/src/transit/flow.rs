//! Which flow a packet is of: what says which of several ways it takes, as Linux does it by layer 4
//! (`fib_multipath_hash_policy` 1): addresses, protocol and ports; without ports, of fragments and of what has none.

use crate::transit::table::Fold;
use std::hash::Hasher;

const TCP: u8 = 6;
const UDP: u8 = 17;

/// A packet's flow; nothing is computed before somebody asks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flow<'p> {
    /// Both addresses, one behind the other.
    pub addresses: &'p [u8],
    /// The protocol above.
    pub protocol: u8,
    /// What is behind the network's header; empty: not to be looked at.
    pub transport: &'p [u8],
}

impl Flow<'_> {
    /// The same for all packets of a flow that `node` passes on; nodes choose each by themselves.
    #[must_use]
    pub fn number(&self, node: u32) -> u64 {
        let mut fold = Fold::default();
        fold.write(self.addresses);
        fold.write_u64(u64::from(node) << 8 | u64::from(self.protocol));
        if matches!(self.protocol, TCP | UDP) && self.transport.len() >= 4 {
            fold.write(&self.transport[..4]);
        }
        fold.finish()
    }
}
