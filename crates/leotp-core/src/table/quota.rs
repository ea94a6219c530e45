//! The number of flows that each Consumer's address may have, and each IPv6 prefix.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Ipv6Addr};

/// Counts per address and, for IPv6, per /64: a host with one address of a /64 has all 2^64, so a
/// bound per address alone would be without effect.
#[derive(Debug, Clone)]
pub struct Quota {
    per_address: HashMap<IpAddr, u32>,
    per_prefix: HashMap<u64, u32>,
    max_per_address: u32,
    max_per_prefix: u32,
}

/// Returns the /64 of an IPv6 address.
fn prefix(ip: IpAddr) -> Option<u64> {
    match ip {
        IpAddr::V4(_) => None,
        IpAddr::V6(v6) => Some((Ipv6Addr::to_bits(v6) >> 64) as u64),
    }
}

fn take_one<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, u32>, key: K) {
    if let Entry::Occupied(mut e) = counts.entry(key) {
        *e.get_mut() -= 1;
        if *e.get() == 0 {
            e.remove();
        }
    }
}

impl Quota {
    /// Creates bounds for one address and for one IPv6 /64.
    pub fn new(max_per_address: u32, max_per_prefix: u32) -> Self {
        Self {
            per_address: HashMap::new(),
            per_prefix: HashMap::new(),
            max_per_address,
            max_per_prefix,
        }
    }

    fn counts(&self, ip: IpAddr) -> (u32, Option<u32>) {
        let of_prefix = prefix(ip).map(|p| self.per_prefix.get(&p).copied().unwrap_or(0));
        (self.per_address.get(&ip).copied().unwrap_or(0), of_prefix)
    }

    /// Whether `ip` may have one more flow.
    pub fn admits(&self, ip: IpAddr) -> bool {
        let (of_address, of_prefix) = self.counts(ip);
        of_address < self.max_per_address && of_prefix.is_none_or(|n| n < self.max_per_prefix)
    }

    /// Adds a flow of `ip`.
    pub fn add(&mut self, ip: IpAddr) {
        *self.per_address.entry(ip).or_insert(0) += 1;
        if let Some(p) = prefix(ip) {
            *self.per_prefix.entry(p).or_insert(0) += 1;
        }
    }

    /// Removes a flow of `ip`.
    pub fn release(&mut self, ip: IpAddr) {
        take_one(&mut self.per_address, ip);
        if let Some(p) = prefix(ip) {
            take_one(&mut self.per_prefix, p);
        }
    }

    /// Returns the share of each flow of `ip` in `bytes`, which all flows of one address have
    /// together. The bound of a /64 is larger in proportion to the number of flows that it may
    /// have.
    pub fn share(&self, ip: IpAddr, bytes: u64) -> u64 {
        let (of_address, of_prefix) = self.counts(ip);
        // An address divides its bytes evenly among its flows.
        let own = bytes / u64::from(of_address.max(1));
        let of_all = of_prefix.map_or(u64::MAX, |n| {
            let times = (self.max_per_prefix / self.max_per_address.max(1)).max(1);
            bytes.saturating_mul(u64::from(times)) / u64::from(n.max(1))
        });
        // Both bounds hold: that of the address, and that of its /64.
        own.min(of_all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_of_ipv6_is_bounded_as_an_address_is() {
        let mut q = Quota::new(4, 8);
        let v6 = |host: u16| IpAddr::from([0xfd00, 1, 2, 3, 0, 0, 0, host]);
        for host in 0..8 {
            assert!(q.admits(v6(host)));
            q.add(v6(host));
        }
        // A ninth address of the /64, and none of its neighbour.
        assert!(!q.admits(v6(8)));
        assert!(q.admits(IpAddr::from([0xfd00, 1, 2, 4, 0, 0, 0, 8])));
        // Each alone would have all; together they have twice what one address has.
        assert_eq!(q.share(v6(0), 1000), 250);
        q.release(v6(3));
        assert!(q.admits(v6(8)));
        // IPv4: by address only.
        let v4 = |host: u8| IpAddr::from([10, 0, 0, host]);
        for _ in 0..4 {
            q.add(v4(1));
        }
        assert!(!q.admits(v4(1)) && q.admits(v4(2)));
        assert_eq!(q.share(v4(1), 1000), 250);
        for _ in 0..4 {
            q.release(v4(1));
        }
        for host in [0, 1, 2, 4, 5, 6, 7] {
            q.release(v6(host));
        }
        assert!(q.per_address.is_empty() && q.per_prefix.is_empty());
    }
}
