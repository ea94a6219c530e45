//! Map from two ports to their edge.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Multiply-and-fold hashing of the 64-bit edge key. The maps are only looked up or, for statistics, sorted, so their
/// order is never visible.
#[derive(Clone, Default, Debug)]
pub(super) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.write_u64(u64::from(b));
        }
    }
    fn write_u64(&mut self, key: u64) {
        // As for addresses: the halves are combined, because the product's low bits alone would not depend on the key's
        // high bits.
        let wide = u128::from(self.0 ^ key ^ 0x243f_6a88_85a3_08d3)
            * u128::from(0x9e37_79b9_7f4a_7c15_u64);
        self.0 = (wide >> 64) as u64 ^ wide as u64;
    }
}

pub(super) type KeyMap<V> = HashMap<u64, V, BuildHasherDefault<KeyHasher>>;

/// Returns the key of the edge from one port to another.
pub(super) fn key(from: u32, to: u32) -> u64 {
    (u64::from(from) << 32) | u64::from(to)
}
