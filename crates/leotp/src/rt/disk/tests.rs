//! The cache on disk against a small model, with processes that die in the middle of a write and files that change.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// The content of a block in its `version`: all of it follows from these.
fn content(key: BlockKey, version: u8) -> Vec<u8> {
    let byte = |i: usize| (i as u64 * 31 + key.0 * 7 + key.1 * 131 + u64::from(version) * 17) as u8;
    (0..BLOCK_BYTES).map(byte).collect()
}

#[derive(Debug, Clone)]
enum Op {
    Put(BlockKey, u8),
    Get(BlockKey),
    Forget(BlockKey),
    /// The process ends between two writes, and another begins.
    Restart,
    /// A put of which this number of bytes is written before the process dies.
    DieIn(BlockKey, u8, usize),
    /// A forgetting, the same.
    DieForgetting(BlockKey, usize),
    /// Another program changes a byte of the file, while no process has it open.
    Flip(u64, u8),
    /// The file ends here.
    Cut(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let key = || (0u64..2, 0u64..6);
    let slot = SLOT_BYTES as usize;
    prop_oneof![
        6 => (key(), 0u8..4).prop_map(|(k, v)| Op::Put(k, v)),
        6 => key().prop_map(Op::Get),
        2 => key().prop_map(Op::Forget),
        1 => Just(Op::Restart),
        2 => (key(), 0u8..4, 0..=slot).prop_map(|(k, v, n)| Op::DieIn(k, v, n)),
        1 => (key(), 0..=HEADER).prop_map(|(k, n)| Op::DieForgetting(k, n)),
        1 => (0..4 * SLOT_BYTES, 1u8..).prop_map(|(at, with)| Op::Flip(at, with)),
        1 => (0..4 * SLOT_BYTES).prop_map(Op::Cut),
    ]
}

/// The contents that may be served for each key: the last put, or, after changes that deaths cut off, also those before.
#[derive(Default)]
struct Model(BTreeMap<BlockKey, Vec<Vec<u8>>>);

impl Model {
    fn put(&mut self, key: BlockKey, bytes: Vec<u8>) {
        self.0.insert(key, vec![bytes]);
    }

    fn forget(&mut self, key: BlockKey) {
        self.0.remove(&key);
    }

    /// A change of `key` that was cut off: what may have been there may still be there, and the new one as well.
    fn cut_off(&mut self, key: BlockKey, new: Option<Vec<u8>>) {
        self.0.entry(key).or_default().extend(new);
    }

    fn allows(&self, key: BlockKey, bytes: &[u8]) -> bool {
        self.0
            .get(&key)
            .is_some_and(|known| known.iter().any(|known| known == bytes))
    }
}

fn reopen(disk: Option<DiskCache>, dir: &Path) -> DiskCache {
    drop(disk);
    DiskCache::open(dir, 4 * SLOT_BYTES).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn what_is_served_was_put_whatever_dies_and_breaks(ops in proptest::collection::vec(op(), 1..60)) {
        let dir = tempfile::tempdir().unwrap();
        let mut disk = reopen(None, dir.path());
        let mut model = Model::default();
        for op in ops {
            match op {
                Op::Put(key, version) => {
                    let bytes = content(key, version);
                    prop_assert!(disk.put(key, (0, BLOCK_BYTES as u16), &bytes));
                    let got = disk.get(key).map(|block| block.bytes.to_vec());
                    prop_assert_eq!(got.as_ref(), Some(&bytes), "what was just put is there");
                    model.put(key, bytes);
                }
                Op::Get(key) => {
                    let said = disk.piece(key).is_some();
                    match disk.get(key) {
                        Some(block) => prop_assert!(said && model.allows(key, &block.bytes), "served what was not put"),
                        None => prop_assert!(disk.piece(key).is_none()),
                    }
                }
                Op::Forget(key) => {
                    disk.forget(key);
                    model.forget(key);
                    prop_assert!(disk.get(key).is_none());
                }
                Op::Restart => disk = reopen(Some(disk), dir.path()),
                Op::DieIn(key, version, n) => {
                    disk.lives_for = Some(n);
                    disk.put(key, (0, BLOCK_BYTES as u16), &content(key, version));
                    model.cut_off(key, Some(content(key, version)));
                    disk = reopen(Some(disk), dir.path());
                }
                Op::DieForgetting(key, n) => {
                    disk.lives_for = Some(n);
                    disk.forget(key);
                    model.cut_off(key, None);
                    disk = reopen(Some(disk), dir.path());
                }
                Op::Flip(at, with) => {
                    let mut byte = [0];
                    if disk.file.read_exact_at(&mut byte, at).is_ok() {
                        disk.file.write_all_at(&[byte[0] ^ with], at).unwrap();
                    }
                    disk = reopen(Some(disk), dir.path());
                }
                Op::Cut(at) => {
                    if disk.file.metadata().unwrap().len() > at {
                        disk.file.set_len(at).unwrap();
                    }
                    disk = reopen(Some(disk), dir.path());
                }
            }
            prop_assert!(disk.file.metadata().unwrap().len() <= 4 * SLOT_BYTES, "bounded");
            prop_assert!(disk.index.len() <= 4);
        }
    }
}

#[test]
fn a_restart_finds_what_was_there_and_a_second_process_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut disk = reopen(None, dir.path());
    for block in 0..6 {
        assert!(disk.put((7, block), (0, 4096), &content((7, block), 0)));
    }
    let second = DiskCache::open(dir.path(), 4 * SLOT_BYTES)
        .unwrap_err()
        .to_string();
    assert!(second.contains("another process"), "{second}");
    let mut disk = reopen(Some(disk), dir.path());
    let there: Vec<u64> = (0..6)
        .filter(|block| disk.get((7, *block)).is_some())
        .collect();
    assert_eq!(there, [2, 3, 4, 5], "the last four of four slots");
    // A smaller cache is the beginning of the file.
    drop(disk);
    let disk = DiskCache::open(dir.path(), 2 * SLOT_BYTES + 17).unwrap();
    assert_eq!(disk.file.metadata().unwrap().len(), 2 * SLOT_BYTES);
    assert_eq!(disk.index.len(), 2);
    let refused = DiskCache::open(dir.path(), SLOT_BYTES - 1)
        .unwrap_err()
        .to_string();
    assert!(refused.contains("4168 bytes"), "{refused}");
}

#[test]
fn blocks_in_use_stay_longer_than_others() {
    let dir = tempfile::tempdir().unwrap();
    let mut disk = reopen(None, dir.path());
    for block in 0..4 {
        disk.put((1, block), (0, 4096), &content((1, block), 0));
    }
    disk.get((1, 0));
    disk.put((1, 9), (0, 4096), &content((1, 9), 0));
    assert!(disk.piece((1, 0)).is_some(), "used");
    assert!(disk.piece((1, 1)).is_none(), "not used");
}

/// The memory of a cache is that of what it holds, however large it may become.
#[test]
fn an_empty_cache_takes_no_memory() {
    let dir = tempfile::tempdir().unwrap();
    let cache = DiskCache::open(dir.path(), 200_000_000_000).unwrap();
    assert!(cache.most > 1_000_000);
    assert_eq!((cache.slots.capacity(), cache.index.capacity()), (0, 0));
    assert_eq!(cache.file.metadata().unwrap().len(), 0);
}
