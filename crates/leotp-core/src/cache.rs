//! The in-network cache (section IV.A): blocks of 4,096 consecutive bytes, found by one hash
//! lookup, replaced least recently used first, bounded in bytes and shared by all flows of a
//! node. Blocks evicted from memory may go to a [`BlockStore`], which is larger and slower.

use crate::table::Recency;
use crate::wire::Range;
use std::collections::HashMap;

/// Bytes per block.
pub const BLOCK_BYTES: usize = 4096;
pub(crate) const BLOCK: u64 = BLOCK_BYTES as u64;
/// The number of separate pieces that one block may hold; a packet that would make more is not
/// stored. In-order packets make one piece, each repaired loss at most one more.
const PIECES: usize = 6;

/// Counters of the cache since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct CacheStats {
    /// Bytes stored.
    pub stored_bytes: u64,
    /// Bytes served.
    pub hit_bytes: u64,
    /// Bytes of these that were fetched from the store, each counted once.
    pub disk_hit_bytes: u64,
    /// Blocks handed to the store.
    pub disk_stored_blocks: u64,
    /// Blocks that the store refused.
    pub disk_refused_blocks: u64,
    /// Blocks that the store listed but could not return.
    pub disk_lost_blocks: u64,
    /// Blocks evicted for newer ones.
    pub evicted_blocks: u64,
    /// Parts of packets that were not stored because their block had too many pieces.
    pub refused: u64,
}

/// Name of a block: its flow, as [`Cache`] names it, and its number in the flow.
pub type BlockKey = (u64, u64);

/// A block as it was put into a [`BlockStore`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredBlock {
    /// The known bytes of the block, from and to.
    pub piece: (u16, u16),
    /// [`BLOCK_BYTES`] bytes.
    pub bytes: Box<[u8]>,
}

/// A second place for blocks, such as a disk. It returns the block that was put last or nothing.
pub trait BlockStore: Send {
    /// Returns the known bytes of a block by its index, without reading; `None` if it does not
    /// have the block, which is then not requested.
    fn piece(&self, key: BlockKey) -> Option<(u16, u16)>;
    /// Returns the block. After `None` the store no longer has it.
    fn get(&mut self, key: BlockKey) -> Option<StoredBlock>;
    /// Stores [`BLOCK_BYTES`] bytes of which a piece is known, and replaces the block under this
    /// key. Returns whether that was possible.
    fn put(&mut self, key: BlockKey, piece: (u16, u16), bytes: &[u8]) -> bool;
    /// Removes a block.
    fn forget(&mut self, key: BlockKey);
}

struct Block {
    key: BlockKey,
    /// Sorted, disjoint, non-adjacent pieces `[from, to)` of the block.
    pieces: [(u16, u16); PIECES],
    used: u8,
    /// The number of bytes that have been fetched from the store and not been served since.
    fetched: u16,
    bytes: Box<[u8]>,
}

/// Cache of flow bytes. Flows are named by a `u64` of the caller's choosing: a
/// Midnode derives it from the Producer's address and the flow id together, so
/// one Producer's data never answers for another's.
pub struct Cache {
    index: HashMap<BlockKey, u32>,
    slab: Vec<Block>,
    free: Vec<u32>,
    recency: Recency,
    max_blocks: usize,
    store: Option<Box<dyn BlockStore>>,
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
    /// Creates a cache of at most `bytes`, rounded down to whole blocks; less than one block
    /// means no cache.
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
            store: None,
            stats: CacheStats::default(),
        }
    }

    /// Returns the cache with a second place for blocks that do not fit.
    #[must_use]
    pub fn with_store(mut self, store: Box<dyn BlockStore>) -> Self {
        self.store = Some(store);
        self
    }

    /// Puts all blocks in memory into the store.
    pub fn flush(&mut self) {
        let all: Vec<u32> = self.index.values().copied().collect();
        all.into_iter().for_each(|i| self.keep(i));
    }

    /// Puts a block into the store, unless the store has as much of it.
    fn keep(&mut self, i: u32) {
        let Some(store) = &mut self.store else { return };
        let block = &self.slab[i as usize];
        // Blocks with holes are few, and not worth space in a file.
        let &[piece] = block.pieces() else { return };
        if store.piece(block.key).is_some_and(|has| covers(has, piece)) {
            return;
        }
        if store.put(block.key, piece, &block.bytes) {
            self.stats.disk_stored_blocks += 1;
        } else {
            self.stats.disk_refused_blocks += 1;
        }
    }

    /// Loads a block from the store into memory.
    fn bring(&mut self, key: BlockKey) -> Option<u32> {
        let store = self.store.as_mut().filter(|_| self.max_blocks > 0)?;
        store.piece(key)?;
        let Some(StoredBlock { piece, bytes }) = store.get(key) else {
            self.stats.disk_lost_blocks += 1;
            return None;
        };
        let i = self.block_for(key);
        let block = &mut self.slab[i as usize];
        block.bytes.copy_from_slice(&bytes);
        block.add_piece(piece.0, piece.1);
        // These bytes count as `disk_hit_bytes` when they are served, not now: they may never be.
        block.fetched = piece.1.saturating_sub(piece.0);
        Some(i)
    }

    /// Returns the known bytes of a block, in memory or in the store.
    fn pieces_of(&self, key: BlockKey) -> Vec<(u16, u16)> {
        if let Some(&i) = self.index.get(&key) {
            return self.slab[i as usize].pieces().to_vec();
        }
        // With `max_blocks` 0 there is no cache, and the store is not used either.
        let store = self.store.as_ref().filter(|_| self.max_blocks > 0);
        store
            .and_then(|store| store.piece(key))
            .into_iter()
            .collect()
    }

    /// Returns the counters.
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

    fn block_for(&mut self, key: BlockKey) -> u32 {
        if let Some(&i) = self.index.get(&key) {
            self.recency.touch(i);
            return i;
        }
        // LRU replacement (section IV.A). The victim moves to the store, if there is one.
        if self.index.len() >= self.max_blocks
            && let Some(victim) = self.recency.oldest()
        {
            self.keep(victim);
            self.drop_block(victim);
            self.stats.evicted_blocks += 1;
        }
        // Freed slots are used again, so the slab never exceeds `max_blocks`.
        let i = match self.free.pop() {
            Some(i) => i,
            None => {
                let empty = Block {
                    key,
                    pieces: [(0, 0); PIECES],
                    used: 0,
                    fetched: 0,
                    bytes: vec![0; BLOCK as usize].into_boxed_slice(),
                };
                self.slab.push(empty);
                (self.slab.len() - 1) as u32
            }
        };
        let b = &mut self.slab[i as usize];
        (b.key, b.used, b.fetched) = (key, 0, 0);
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
        // A segment of 1,400 bytes spans at most two blocks, so a packet needs one or two lookups
        // (section IV.A: O(1) time).
        while !payload.is_empty() {
            let from = (at % BLOCK) as usize;
            let n = payload.len().min(BLOCK as usize - from);
            let key = (flow, at / BLOCK);
            // Bytes that the store has already need not displace a block in memory.
            let stored = self.store.as_ref().and_then(|store| store.piece(key));
            let known = stored.is_some_and(|has| covers(has, (from as u16, (from + n) as u16)));
            if known && !self.index.contains_key(&key) {
                payload = &payload[n..];
                at += n as u64;
                continue;
            }
            let i = self.block_for(key);
            let b = &mut self.slab[i as usize];
            // `add_piece` is false when the block has too many holes; a later repair fetches
            // these bytes from upstream.
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
        // The run may cross blocks, but stops at the first byte that is not stored: the caller
        // answers an Interest with contiguous Data.
        let mut at = r.start;
        while at < r.end {
            let key = (flow, at / BLOCK);
            let in_memory = self.index.get(&key).copied();
            let Some(i) = in_memory.or_else(|| self.bring(key)) else {
                break;
            };
            let from = (at % BLOCK) as u16;
            let b = &mut self.slab[i as usize];
            // Pieces are disjoint, so at most one contains `from`.
            let Some(&(_, to)) = b.pieces().iter().find(|p| p.0 <= from && from < p.1) else {
                break;
            };
            let to = u64::from(to).min(u64::from(from) + r.end - at) as usize;
            out.extend_from_slice(&b.bytes[usize::from(from)..to]);
            let n = (to - usize::from(from)) as u64;
            at += n;
            let fetched = b.fetched.min(n as u16);
            b.fetched -= fetched;
            self.stats.disk_hit_bytes += u64::from(fetched);
            self.recency.touch(i);
            // The piece ends inside the block, so the run ends here.
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
            // `pieces_of` leaves blocks in the store where they are: this is a question, not a
            // read.
            let from = (at % BLOCK) as u16;
            let pieces = self.pieces_of((flow, at / BLOCK));
            if let Some(p) = pieces.iter().find(|p| p.1 > from) {
                let hit = at - u64::from(from) + u64::from(p.0.max(from));
                return (hit < r.end).then_some(hit);
            }
            at = (at / BLOCK + 1) * BLOCK;
        }
        None
    }

    /// The parts of `r` that are not stored.
    pub fn missing(&self, flow: u64, r: Range) -> Vec<Range> {
        // Start with the whole range and cut out every stored piece.
        let mut gaps = super::RangeSet::new();
        gaps.insert(r);
        for block in r.start / BLOCK..=(r.end.max(1) - 1) / BLOCK {
            for p in self.pieces_of((flow, block)) {
                let start = block * BLOCK + u64::from(p.0);
                gaps.remove(Range {
                    start,
                    end: block * BLOCK + u64::from(p.1),
                });
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
            if let Some(store) = &mut self.store {
                store.forget((flow, block));
            }
        }
    }
}

/// Whether one piece has all of another.
fn covers(has: (u16, u16), wanted: (u16, u16)) -> bool {
    has.0 <= wanted.0 && wanted.1 <= has.1
}

impl Block {
    fn pieces(&self) -> &[(u16, u16)] {
        &self.pieces[..usize::from(self.used)]
    }

    /// Merges `[from, to)` into the pieces; `false` when there is no room.
    fn add_piece(&mut self, mut from: u16, mut to: u16) -> bool {
        let mut kept = [(0, 0); PIECES + 1];
        let mut n = 0;
        // A piece that overlaps or touches the new one is merged into it; the others are kept.
        for &(a, b) in self.pieces() {
            if b < from || a > to {
                kept[n] = (a, b);
                n += 1;
            } else {
                (from, to) = (from.min(a), to.max(b));
            }
        }
        // The caller treats the packet as not stored; it must not displace known pieces.
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
mod tests;
