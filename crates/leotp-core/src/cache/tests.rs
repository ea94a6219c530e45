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

/// A store in memory that loses every third requested block.
#[derive(Default)]
struct Flaky(HashMap<BlockKey, StoredBlock>, u64);

impl BlockStore for Flaky {
    fn piece(&self, key: BlockKey) -> Option<(u16, u16)> {
        self.0.get(&key).map(|block| block.piece)
    }
    fn get(&mut self, key: BlockKey) -> Option<StoredBlock> {
        self.1 += 1;
        if self.1.is_multiple_of(3) {
            self.0.remove(&key);
        }
        self.0.get(&key).cloned()
    }
    fn put(&mut self, key: BlockKey, piece: (u16, u16), bytes: &[u8]) -> bool {
        let bytes = bytes.into();
        self.0.insert(key, StoredBlock { piece, bytes });
        true
    }
    fn forget(&mut self, key: BlockKey) {
        self.0.remove(&key);
    }
}

#[test]
fn what_memory_gives_up_is_served_from_the_store_and_counted_apart() {
    let mut c = Cache::new(2 * BLOCK).with_store(Box::new(Flaky::default()));
    let data: Vec<u8> = (0..4 * BLOCK).map(|i| (i / 7) as u8).collect();
    c.store(1, 0, &data);
    assert_eq!(
        (c.stats().evicted_blocks, c.stats().disk_stored_blocks),
        (2, 2)
    );
    let all = Range {
        start: 0,
        end: 4 * BLOCK,
    };
    assert_eq!(c.missing(1, all), []);
    let (mut out, first) = (
        vec![],
        Range {
            start: 0,
            end: 2 * BLOCK,
        },
    );
    assert_eq!(c.read(1, first, &mut out), 2 * BLOCK);
    assert_eq!(out, data[..2 * BLOCK as usize]);
    assert_eq!(
        (c.stats().hit_bytes, c.stats().disk_hit_bytes),
        (2 * BLOCK, 2 * BLOCK)
    );
    c.read(1, first, &mut out);
    assert_eq!(
        (c.stats().hit_bytes, c.stats().disk_hit_bytes),
        (4 * BLOCK, 2 * BLOCK)
    );
    c.flush();
    c.forget(1, all);
    assert_eq!(c.missing(1, all), [all]);
}

proptest! {
    #[test]
    fn never_serves_a_byte_it_was_not_given(ops in proptest::collection::vec((0u64..3, 0u64..20_000, 1usize..3000), 1..80), blocks in 1u64..8, second: bool) {
        // Byte value = f(flow, position): whatever is read must match.
        let byte = |f: u64, p: u64| (f * 131 + p * 7 + p / 256) as u8;
        let mut c = Cache::new(blocks * BLOCK);
        if second {
            c = c.with_store(Box::new(Flaky::default()));
        }
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
                if second {
                    // Blocks that are brought back make other blocks go.
                    continue;
                }
                let gap = c.missing(g, r);
                prop_assert_eq!(gap.first().map_or(r.end, |m| m.start), r.start + got);
                prop_assert_eq!(c.next_stored(g, r), if got > 0 { Some(s) } else { gap.first().map(|m| m.end).filter(|e| *e < r.end) });
            }
            prop_assert!(c.used_bytes() <= blocks * BLOCK);
        }
    }
}
