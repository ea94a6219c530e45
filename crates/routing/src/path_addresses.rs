//! Addresses of disjoint paths: each end of each path has its own, so that forwarding by destination alone keeps
//! the paths of a pair apart.
//!
//! Pair `i`, path `p` (from 1), first or second node `e` (0 or 1) have the place `256 (i / 15) + 16 (i mod 15) +
//! 2 (p - 1) + e + 1` in both families: 15 pairs to a /24, never .0 or .255.

use crate::addresses::{AddressError, Loopback};
use crate::blocks::{AddressBlocks, Pair};
use constel_topology::{Layout, NodeId};
use std::net::IpAddr;

/// Most paths of a pair.
pub const MAX_PATHS: u8 = 8;

/// Addresses of one pair: both ends of its paths.
const PER_PAIR: u32 = 2 * MAX_PATHS as u32;
/// Pairs to a /24.
const PER_24: u32 = 15;

/// Two nodes with several disjoint paths between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathPair {
    /// Its name.
    pub name: String,
    /// The two nodes.
    pub ends: [NodeId; 2],
    /// How many paths are wanted, 2 to [`MAX_PATHS`].
    pub paths: u8,
}

/// One end of a path.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct PathEnd {
    /// The pair's number.
    pub pair: usize,
    /// The path's number, from 1.
    pub path: u8,
    /// Whether it is the pair's second node.
    pub second: bool,
}

impl PathEnd {
    /// The path's other end.
    #[must_use]
    pub fn other(self) -> PathEnd {
        let second = !self.second;
        PathEnd { second, ..self }
    }
}

/// The pairs of a lab, whose numbers decide all addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathAddresses {
    pairs: Vec<PathPair>,
    block: Pair,
}

impl Default for PathAddresses {
    /// No pairs.
    fn default() -> PathAddresses {
        PathAddresses {
            pairs: Vec::new(),
            block: AddressBlocks::default().paths,
        }
    }
}

impl PathAddresses {
    /// Numbers the pairs in the order given, with addresses from `block`.
    ///
    /// # Errors
    /// When there are too many for the block.
    ///
    /// # Panics
    /// When a pair has more than [`MAX_PATHS`] paths.
    pub fn new(pairs: Vec<PathPair>, block: Pair) -> Result<PathAddresses, AddressError> {
        assert!(pairs.iter().all(|pair| pair.paths <= MAX_PATHS));
        let places = block.v4.size().min(block.v6.places());
        let max = places / 256 * u64::from(PER_24);
        if pairs.len() as u64 > max {
            return Err(AddressError::Full {
                what: "pairs with disjoint paths",
                count: pairs.len(),
                max,
                block: block.v4.to_string(),
            });
        }
        Ok(PathAddresses { pairs, block })
    }

    /// The pairs by number.
    #[must_use]
    pub fn pairs(&self) -> &[PathPair] {
        &self.pairs
    }

    /// All ends, by pair and path.
    pub fn ends(&self) -> impl Iterator<Item = PathEnd> {
        self.pairs.iter().enumerate().flat_map(|(pair, row)| {
            let end = move |path, second| PathEnd { pair, path, second };
            (1..=row.paths).flat_map(move |path| [false, true].map(|second| end(path, second)))
        })
    }

    /// The ends at a node.
    pub fn of_node(&self, node: NodeId) -> impl Iterator<Item = PathEnd> {
        self.ends().filter(move |end| self.node(*end) == node)
    }

    /// Returns the node of an end.
    #[must_use]
    pub fn node(&self, end: PathEnd) -> NodeId {
        self.pairs[end.pair].ends[usize::from(end.second)]
    }

    /// An end's addresses.
    #[must_use]
    pub fn address(&self, end: PathEnd) -> Loopback {
        let pair = end.pair as u32;
        let place = (pair / PER_24) * 256
            + (pair % PER_24) * PER_PAIR
            + 2 * u32::from(end.path - 1)
            + u32::from(end.second)
            + 1;
        Loopback {
            v4: self.block.v4.at(place),
            v6: self.block.v6.at(place),
        }
    }

    /// The end that an address is of.
    #[must_use]
    pub fn end_of(&self, address: IpAddr) -> Option<PathEnd> {
        let place = self.block.place(address)?;
        let in_24 = (place % 256)
            .checked_sub(1)
            .filter(|n| *n < PER_24 * PER_PAIR)?;
        let pair = ((place / 256) * PER_24 + in_24 / PER_PAIR) as usize;
        let path = ((in_24 % PER_PAIR) / 2) as u8 + 1;
        let known = self.pairs.get(pair)?;
        (path <= known.paths).then_some(PathEnd {
            pair,
            path,
            second: in_24 % 2 == 1,
        })
    }

    /// Returns the name of an end: `london.tl.2` is London's end of path 2 of the pair `tl`.
    #[must_use]
    pub fn name(&self, layout: &Layout, end: PathEnd) -> String {
        let node = &layout.node(self.node(end)).name;
        format!("{node}.{}.{}", self.pairs[end.pair].name, end.path)
    }

    /// The ends that `london.tl.2` (one) or `london.tl` (every path's) means; none when it is no such name.
    #[must_use]
    pub fn find(&self, layout: &Layout, name: &str) -> Vec<PathEnd> {
        let called = |end: &PathEnd| {
            let full = self.name(layout, *end);
            full == name || full.rsplit_once('.').is_some_and(|(all, _)| all == name)
        };
        self.ends().filter(called).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::net::Ipv4Addr;

    #[test]
    fn every_end_has_addresses_of_its_own_that_lead_back() {
        let pair = |paths| PathPair {
            name: "p".to_owned(),
            ends: [NodeId(3), NodeId(7)],
            paths,
        };
        let pairs = (0..40).map(|i| pair(2 + (i % 7) as u8)).collect();
        let paths = PathAddresses::new(pairs, AddressBlocks::default().paths).unwrap();
        let mut seen = BTreeSet::new();
        for end in paths.ends() {
            let own = paths.address(end);
            assert!(seen.insert(own.v4) && !matches!(own.v4.octets()[3], 0 | 255));
            assert_eq!(paths.end_of(own.v4.into()), Some(end));
            assert_eq!(paths.end_of(own.v6.into()), Some(end));
            assert_eq!(
                paths.node(end.other()),
                NodeId(if end.second { 3 } else { 7 })
            );
        }
        assert_eq!(seen.len(), 2 * (0..40).map(|i| 2 + i % 7).sum::<usize>());
        assert_eq!(paths.of_node(NodeId(7)).count(), seen.len() / 2);
        let first = paths.address(PathEnd {
            pair: 0,
            path: 1,
            second: false,
        });
        assert_eq!(first.v4, Ipv4Addr::new(10, 80, 0, 1));
        assert_eq!(first.v6.to_string(), "fdc0:57e1:0:1::1");
        for stranger in [
            "10.80.0.0",
            "10.80.0.255",
            "10.80.0.5",
            "10.79.255.255",
            "10.80.9.1",
            "10.0.0.1",
            "fdc0:57e1::1",
            "fdc0:57e1:0:2::1",
        ] {
            assert_eq!(paths.end_of(stranger.parse().unwrap()), None, "{stranger}");
        }
    }

    #[test]
    fn the_block_is_not_overrun() {
        // 15 pairs to each /24 of the default /12.
        const MAX_PAIRS: usize = 4096 * 15;
        let block = AddressBlocks::default().paths;
        let pair = PathPair {
            name: "p".to_owned(),
            ends: [NodeId(0), NodeId(1)],
            paths: MAX_PATHS,
        };
        let most = vec![pair.clone(); MAX_PAIRS];
        let paths = PathAddresses::new(most, block).unwrap();
        let last = PathEnd {
            pair: MAX_PAIRS - 1,
            path: MAX_PATHS,
            second: true,
        };
        assert_eq!(paths.address(last).v4, Ipv4Addr::new(10, 95, 255, 240));
        assert_eq!(paths.end_of(paths.address(last).v4.into()), Some(last));
        assert!(PathAddresses::new(vec![pair; MAX_PAIRS + 1], block).is_err());
    }
}
