//! The in-network cache (section IV.A): blocks of 4,096 consecutive bytes,
//! found by one hash lookup, replaced least recently used first, bounded in
//! bytes and shared by all flows of a node.

use crate::table::Recency;
use crate::wire::Range;
use std::collections::HashMap;

/// Bytes per block.
pub(crate) const BLOCK: u64 = 4096;
/// Separate pieces one block may hold; a packet that would make more is not
/// stored. In-order packets make one piece, each repaired loss at most one more.
const PIECES: usize = 6;

/// What the cache has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct CacheStats {
    /// Bytes stored.
    pub stored_bytes: u64,
    /// Bytes served.
    pub hit_bytes: u64,
    /// Blocks given up for newer ones.
    pub evicted_blocks: u64,
    /// Packets' parts not stored because their block had too many pieces.
    pub refused: u64,
}

struct Block {
    key: (u64, u64),
    /// Sorted, disjoint, non-adjacent pieces `[from, to)` of the block.
    pieces: [(u16, u16); PIECES],
    used: u8,
    bytes: Box<[u8]>,
}

/// Cache of flow bytes. Flows are named by a `u64` of the caller's choosing: a
/// Midnode derives it from the Producer's address and the flow id together, so
/// one Producer's data never answers for another's.
pub struct Cache {
    index: HashMap<(u64, u64), u32>,
    slab: Vec<Block>,
    free: Vec<u32>,
    recency: Recency,
    max_blocks: usize,
    stats: CacheStats,
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache")
            .field("blocks", &self.index.len())
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}

impl Cache {
    /// A cache of at most `bytes`, rounded down to whole blocks; less than one
    /// block means no cache at all.
    pub fn new(bytes: u64) -> Self {
        let max_blocks = usize::try_from(bytes / BLOCK)
            .unwrap_or(usize::MAX)
            .min(u32::MAX as usize - 1);
        Self {
            index: HashMap::new(),
            slab: Vec::new(),
            free: Vec::new(),
            recency: Recency::default(),
            max_blocks,
            stats: CacheStats::default(),
        }
    }

    /// What has been stored, served and given up so far.
    pub const fn stats(&self) -> CacheStats {
        self.stats
    }

    /// Bytes of block memory in use.
    pub fn used_bytes(&self) -> u64 {
        self.index.len() as u64 * BLOCK
    }

    fn drop_block(&mut self, i: u32) {
        self.recency.remove(i);
        self.index.remove(&self.slab[i as usize].key);
        self.free.push(i);
    }

    fn block_for(&mut self, key: (u64, u64)) -> u32 {
        if let Some(&i) = self.index.get(&key) {
            self.recency.touch(i);
            return i;
        }
        if self.index.len() >= self.max_blocks
            && let Some(victim) = self.recency.oldest()
        {
            self.drop_block(victim);
            self.stats.evicted_blocks += 1;
        }
        let i = match self.free.pop() {
            Some(i) => i,
            None => {
                let empty = Block {
                    key,
                    pieces: [(0, 0); PIECES],
                    used: 0,
                    bytes: vec![0; BLOCK as usize].into_boxed_slice(),
                };
                self.slab.push(empty);
                (self.slab.len() - 1) as u32
            }
        };
        let b = &mut self.slab[i as usize];
        (b.key, b.used) = (key, 0);
        self.index.insert(key, i);
        self.recency.touch(i);
        i
    }

    /// Stores `payload`, which starts at byte `start` of `flow`. O(1) blocks per
    /// packet.
    pub fn store(&mut self, flow: u64, start: u64, mut payload: &[u8]) {
        if self.max_blocks == 0 {
            return;
        }
        let mut at = start;
        while !payload.is_empty() {
            let from = (at % BLOCK) as usize;
            let n = payload.len().min(BLOCK as usize - from);
            let i = self.block_for((flow, at / BLOCK));
            let b = &mut self.slab[i as usize];
            if b.add_piece(from as u16, (from + n) as u16) {
                b.bytes[from..from + n].copy_from_slice(&payload[..n]);
                self.stats.stored_bytes += n as u64;
            } else {
                self.stats.refused += 1;
            }
            payload = &payload[n..];
            at += n as u64;
        }
    }

    /// Appends the longest stored run that starts at `r.start` and ends at or
    /// before `r.end` to `out`; returns its length.
    pub fn read(&mut self, flow: u64, r: Range, out: &mut Vec<u8>) -> u64 {
        let mut at = r.start;
        while at < r.end {
            let Some(&i) = self.index.get(&(flow, at / BLOCK)) else {
                break;
            };
            let from = (at % BLOCK) as u16;
            let b = &self.slab[i as usize];
            let Some(&(_, to)) = b.pieces().iter().find(|p| p.0 <= from && from < p.1) else {
                break;
            };
            let to = u64::from(to).min(u64::from(from) + r.end - at) as usize;
            out.extend_from_slice(&b.bytes[usize::from(from)..to]);
            at += (to - usize::from(from)) as u64;
            self.recency.touch(i);
            if to < BLOCK as usize {
                break;
            }
        }
        self.stats.hit_bytes += at - r.start;
        at - r.start
    }

    /// First stored byte at or after `r.start` and before `r.end`.
    pub fn next_stored(&self, flow: u64, r: Range) -> Option<u64> {
        let mut at = r.start;
        while at < r.end {
            if let Some(&i) = self.index.get(&(flow, at / BLOCK)) {
                let from = (at % BLOCK) as u16;
                if let Some(p) = self.slab[i as usize].pieces().iter().find(|p| p.1 > from) {
                    let hit = at - u64::from(from) + u64::from(p.0.max(from));
                    return (hit < r.end).then_some(hit);
                }
            }
            at = (at / BLOCK + 1) * BLOCK;
        }
        None
    }

    /// The parts of `r` that are not stored.
    pub fn missing(&self, flow: u64, r: Range) -> Vec<Range> {
        let mut gaps = super::RangeSet::new();
        gaps.insert(r);
        for block in r.start / BLOCK..=(r.end.max(1) - 1) / BLOCK {
            if let Some(&i) = self.index.get(&(flow, block)) {
                for p in self.slab[i as usize].pieces() {
                    let start = block * BLOCK + u64::from(p.0);
                    gaps.remove(Range {
                        start,
                        end: block * BLOCK + u64::from(p.1),
                    });
                }
            }
        }
        gaps.iter().collect()
    }

    /// Forgets every block that holds a byte of `r`.
    pub fn forget(&mut self, flow: u64, r: Range) {
        if r.is_empty() {
            return;
        }
        for block in r.start / BLOCK..=(r.end - 1) / BLOCK {
            if let Some(&i) = self.index.get(&(flow, block)) {
                self.drop_block(i);
            }
        }
    }
}

impl Block {
    fn pieces(&self) -> &[(u16, u16)] {
        &self.pieces[..usize::from(self.used)]
    }

    /// Merges `[from, to)` into the pieces; `false` when there is no room.
    fn add_piece(&mut self, mut from: u16, mut to: u16) -> bool {
        let mut kept = [(0, 0); PIECES + 1];
        let mut n = 0;
        for &(a, b) in self.pieces() {
            if b < from || a > to {
                kept[n] = (a, b);
                n += 1;
            } else {
                (from, to) = (from.min(a), to.max(b));
            }
        }
        if n == PIECES {
            return false;
        }
        kept[n] = (from, to);
        kept[..=n].sort_unstable();
        self.pieces.copy_from_slice(&kept[..PIECES]);
        self.used = n as u8 + 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn packet_across_blocks_and_lru() {
        let mut c = Cache::new(2 * BLOCK);
        let data: Vec<u8> = (0..5000).map(|i| i as u8).collect();
        c.store(1, 100, &data);
        let mut out = vec![];
        assert_eq!(
            c.read(
                1,
                Range {
                    start: 100,
                    end: 5100
                },
                &mut out
            ),
            5000
        );
        assert_eq!(out, data);
        // Block 0 is the least recently used after a read of block 1.
        c.read(
            1,
            Range {
                start: 4096,
                end: 4100,
            },
            &mut out,
        );
        c.store(2, 0, b"x");
        assert_eq!(c.stats().evicted_blocks, 1);
        assert_eq!(
            c.missing(
                1,
                Range {
                    start: 100,
                    end: 5100
                }
            ),
            [Range {
                start: 100,
                end: 4096
            }]
        );
        assert!(c.used_bytes() <= 2 * BLOCK);
    }

    #[test]
    fn none_means_none() {
        let mut c = Cache::new(100);
        c.store(1, 0, &[1; 100]);
        assert_eq!(c.used_bytes(), 0);
    }

    proptest! {
        #[test]
        fn never_serves_a_byte_it_was_not_given(ops in proptest::collection::vec((0u64..3, 0u64..20_000, 1usize..3000), 1..80), blocks in 1u64..8) {
            // Byte value = f(flow, position): whatever is read must match.
            let byte = |f: u64, p: u64| (f * 131 + p * 7 + p / 256) as u8;
            let mut c = Cache::new(blocks * BLOCK);
            for (f, s, n) in ops {
                let p: Vec<u8> = (0..n as u64).map(|i| byte(f, s + i)).collect();
                c.store(f, s, &p);
                let r = Range { start: s, end: s + n as u64 };
                for g in 0..3 {
                    let mut out = vec![];
                    let got = c.read(g, r, &mut out);
                    prop_assert_eq!(out.len() as u64, got);
                    for (i, b) in out.iter().enumerate() {
                        prop_assert_eq!(*b, byte(g, s + i as u64));
                    }
                    let gap = c.missing(g, r);
                    prop_assert_eq!(gap.first().map_or(r.end, |m| m.start), r.start + got);
                    prop_assert_eq!(c.next_stored(g, r), if got > 0 { Some(s) } else { gap.first().map(|m| m.end).filter(|e| *e < r.end) });
                }
                prop_assert!(c.used_bytes() <= blocks * BLOCK);
            }
        }
    }
}
