//! A Midnode's cache on disk: one file of slots, each a block with its header, found by an index in memory.
//!
//! Every slot has a description of its content and the content's hash, so a slot is either right
//! or ignored: one that was cut off while it was written, or that has changed since, is never
//! served. There is no log and nothing to repair; a file that was left at any moment is read as
//! it is. Blocks are written when memory gives them up, and when the Midnode ends in order.

use super::RunError;
use super::sys::lock_file;
use crate::core::{BLOCK_BYTES, BlockKey, BlockStore, StoredBlock};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// The header of a slot, before its block: magic, key, piece, hash of the block, hash of the
/// header.
const HEADER: usize = 72;
/// A slot with its block, byte.
pub const SLOT_BYTES: u64 = HEADER as u64 + BLOCK_BYTES as u64;
const MAGIC: &[u8; 8] = b"LEOTPb01";
/// Name of the file in its folder.
const FILE: &str = "blocks";

struct Slot {
    key: BlockKey,
    piece: (u16, u16),
    /// Used since the hand last passed.
    used: bool,
}

/// Blocks in a file of bounded size.
pub struct DiskCache {
    file: File,
    index: HashMap<BlockKey, u32>,
    /// The slots written so far: an empty cache takes no memory, however large it may become.
    slots: Vec<Option<Slot>>,
    /// The largest number of slots.
    most: usize,
    /// The next slot to be examined for a new block (the clock algorithm).
    hand: usize,
    /// The number of bytes that are still written, and none after them: it simulates a process
    /// that dies.
    #[cfg(test)]
    lives_for: Option<usize>,
}

impl std::fmt::Debug for DiskCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DiskCache")
            .field("blocks", &self.index.len())
            .field("slots", &self.most)
            .finish_non_exhaustive()
    }
}

impl DiskCache {
    /// Opens the cache in `dir`, which is created if it does not exist, of at most `bytes`. It
    /// contains the blocks of an earlier cache of at least this size; blocks beyond the size are
    /// cut off.
    ///
    /// # Errors
    /// A size of less than one slot, a folder that another process uses, or the kernel's error.
    pub fn open(dir: &Path, bytes: u64) -> Result<Self, RunError> {
        let slots = usize::try_from(bytes / SLOT_BYTES).unwrap_or(usize::MAX);
        if slots == 0 || slots > u32::MAX as usize {
            return Err(RunError::Options(format!(
                "a cache on disk has {SLOT_BYTES} bytes to 16 TiB"
            )));
        }
        let at = dir.join(FILE);
        let open = || -> io::Result<File> {
            std::fs::create_dir_all(dir)?;
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false);
            options.mode(0o600).open(&at)
        };
        let file = open().map_err(RunError::io(format!("open {}", at.display())))?;
        if !lock_file(&file).map_err(RunError::io(format!("lock {}", at.display())))? {
            return Err(RunError::Options(format!(
                "{} is another process's cache",
                at.display()
            )));
        }
        let mut cache = Self {
            file,
            index: HashMap::new(),
            slots: Vec::new(),
            most: slots,
            hand: 0,
            #[cfg(test)]
            lives_for: None,
        };
        cache
            .read_headers()
            .map_err(RunError::io(format!("read {}", at.display())))?;
        Ok(cache)
    }

    /// Reads the headers of all slots; blocks are checked against them when they are requested.
    fn read_headers(&mut self) -> io::Result<()> {
        let most = self.most as u64 * SLOT_BYTES;
        if self.file.metadata()?.len() > most {
            self.file.set_len(most)?;
        }
        let written = (self.file.metadata()?.len() / SLOT_BYTES) as usize;
        self.slots.resize_with(written, || None);
        for i in 0..written {
            let mut header = [0; HEADER];
            self.file
                .read_exact_at(&mut header, i as u64 * SLOT_BYTES)?;
            let Some((key, piece, _)) = parse(&header) else {
                // A header that was cut off is erased. A later write to this slot, cut off as
                // well, could otherwise restore the missing bytes, and with them an old block.
                if header != [0; HEADER] {
                    self.erase(i as u32);
                }
                continue;
            };
            // A block is written over where it was: of two that say they are it, neither is believed.
            if let Some(other) = self.drop_slot(key) {
                self.erase(other);
                self.erase(i as u32);
                continue;
            }
            self.index.insert(key, i as u32);
            self.slots[i] = Some(Slot {
                key,
                piece,
                used: false,
            });
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8], slot: u32) -> io::Result<()> {
        let at = u64::from(slot) * SLOT_BYTES;
        #[cfg(test)]
        if let Some(left) = &mut self.lives_for {
            let n = bytes.len().min(*left);
            *left -= n;
            self.file.write_all_at(&bytes[..n], at)?;
            return if n == bytes.len() {
                Ok(())
            } else {
                Err(io::ErrorKind::BrokenPipe.into())
            };
        }
        self.file.write_all_at(bytes, at)
    }

    /// A slot for a new block: a free one, or one that has not been used for the longest, about.
    fn free_slot(&mut self) -> u32 {
        if self.slots.len() < self.most {
            self.slots.push(None);
            return (self.slots.len() - 1) as u32;
        }
        loop {
            let i = self.hand;
            self.hand = (self.hand + 1) % self.slots.len();
            match &mut self.slots[i] {
                None => return i as u32,
                Some(slot) if slot.used => slot.used = false,
                Some(slot) => {
                    let key = slot.key;
                    self.index.remove(&key);
                    self.slots[i] = None;
                    return i as u32;
                }
            }
        }
    }

    /// Makes a slot's header invalid.
    fn erase(&mut self, slot: u32) {
        // After an error the slot still has a block that some node once sent; a Consumer's digest
        // judges it.
        let _ = self.write(&[0; HEADER], slot);
    }

    fn drop_slot(&mut self, key: BlockKey) -> Option<u32> {
        let i = self.index.remove(&key)?;
        self.slots[i as usize] = None;
        Some(i)
    }
}

impl BlockStore for DiskCache {
    fn piece(&self, key: BlockKey) -> Option<(u16, u16)> {
        let slot = self.slots[*self.index.get(&key)? as usize].as_ref()?;
        Some(slot.piece)
    }

    fn get(&mut self, key: BlockKey) -> Option<StoredBlock> {
        let i = *self.index.get(&key)?;
        let mut all = vec![0; SLOT_BYTES as usize];
        let read = self.file.read_exact_at(&mut all, u64::from(i) * SLOT_BYTES);
        let (header, bytes) = all.split_first_chunk::<HEADER>()?;
        let said = parse(header).filter(|(at, ..)| *at == key);
        match (read, said) {
            (Ok(()), Some((_, piece, hash))) if *blake3::hash(bytes).as_bytes() == hash => {
                if let Some(slot) = &mut self.slots[i as usize] {
                    slot.used = true;
                }
                Some(StoredBlock {
                    piece,
                    bytes: bytes.into(),
                })
            }
            _ => {
                // The block is not the one that was written: it is dropped, for the next start
                // too.
                self.forget(key);
                None
            }
        }
    }

    fn put(&mut self, key: BlockKey, piece: (u16, u16), bytes: &[u8]) -> bool {
        let i = self.drop_slot(key).unwrap_or_else(|| self.free_slot());
        let mut all = header(key, piece, bytes).to_vec();
        all.extend_from_slice(bytes);
        if self.write(&all, i).is_err() {
            // The next start must not find what was here before.
            self.erase(i);
            return false;
        }
        self.index.insert(key, i);
        self.slots[i as usize] = Some(Slot {
            key,
            piece,
            used: false,
        });
        true
    }

    fn forget(&mut self, key: BlockKey) {
        if let Some(i) = self.drop_slot(key) {
            self.erase(i);
        }
    }
}

fn header(key: BlockKey, (from, to): (u16, u16), bytes: &[u8]) -> [u8; HEADER] {
    let mut h = [0; HEADER];
    h[..8].copy_from_slice(MAGIC);
    h[8..16].copy_from_slice(&key.0.to_be_bytes());
    h[16..24].copy_from_slice(&key.1.to_be_bytes());
    h[24..26].copy_from_slice(&from.to_be_bytes());
    h[26..28].copy_from_slice(&to.to_be_bytes());
    h[32..64].copy_from_slice(blake3::hash(bytes).as_bytes());
    let own = blake3::hash(&h[..64]);
    h[64..].copy_from_slice(&own.as_bytes()[..8]);
    h
}

/// Key, piece and the block's hash; `None`: this is no header.
fn parse(h: &[u8; HEADER]) -> Option<(BlockKey, (u16, u16), [u8; 32])> {
    let number = |at: usize| h[at..at + 8].try_into().map(u64::from_be_bytes).ok();
    let short = |at: usize| h[at..at + 2].try_into().map(u16::from_be_bytes).ok();
    let whole = h[..8] == *MAGIC && blake3::hash(&h[..64]).as_bytes()[..8] == h[64..];
    let piece = (short(24)?, short(26)?);
    let fits = piece.0 < piece.1 && usize::from(piece.1) <= BLOCK_BYTES;
    (whole && fits).then_some(())?;
    Some(((number(8)?, number(16)?), piece, h[32..64].try_into().ok()?))
}

#[cfg(test)]
mod tests;
