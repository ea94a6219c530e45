//! Edges in the kernel's memory: slots with parameters in two banks, lists of each port's edges, and the epoch that
//! selects the active bank.

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use constel_link::EdgeCounters;
use libbpf_rs::{MapCore, MapFlags};

use crate::bpf::{BpfError, Mapped};
use crate::error::{DriverError, Result};
use crate::ledger::{Edge, Ledger};

use super::layout::{EPOCH_AT, Params, Port, SHARED_BYTES, State, TAI_AT};
use super::programs::{Programs, from_bytes};

/// Slots read by one system call.
const BATCH: u32 = 4096;

#[derive(Clone, Copy, Debug)]
struct EdgeSlot {
    slot: u32,
    /// Number of lives begun.
    lives: u32,
    /// Index in its port's list, while the edge exists.
    position: Option<u32>,
}

/// The edges, and the changes not yet written to the kernel's memory.
#[derive(Debug)]
pub(super) struct Table {
    programs: Arc<Programs>,
    seed: u64,
    params: Mapped,
    ports: Mapped,
    shared: Mapped,
    /// Desired contents of each slot, for both banks.
    wanted: Vec<Params>,
    /// Edge of each slot in use.
    owners: Vec<Edge>,
    places: HashMap<Edge, EdgeSlot>,
    /// Existing edges of each port, by slot.
    lists: Vec<Vec<u32>>,
    /// Removed edges that still have slots, the oldest first. Their slots are reused when no slot is unused.
    gone: std::collections::VecDeque<Edge>,
    /// Numbers of lives and flows begun, over all edges.
    lives: u32,
    flows: u32,
    /// Counters of edges whose slots were reused.
    past: EdgeCounters,
    existing: usize,
    epoch: u32,
    updates: u64,
    dirty_slots: Vec<u32>,
    dirty_ports: Vec<u32>,
    /// Whether the last update is in force but not yet written to the other bank.
    unsettled: bool,
}

impl Table {
    pub(super) fn new(
        programs: &Arc<Programs>,
        ports: u32,
        edges: u32,
        seed: u64,
    ) -> Result<Table> {
        let params = programs.mapped("edt_params", 2 * edges as usize * size_of::<Params>())?;
        let port_map = programs.mapped("edt_ports", 2 * ports as usize * size_of::<Port>())?;
        let shared = programs.mapped("edt_shared", SHARED_BYTES)?;
        let table = Table {
            programs: programs.clone(),
            seed,
            params,
            ports: port_map,
            shared,
            wanted: vec![Params::default(); edges as usize],
            owners: Vec::new(),
            places: HashMap::new(),
            lists: vec![Vec::new(); ports as usize],
            gone: std::collections::VecDeque::new(),
            lives: 0,
            flows: 0,
            past: EdgeCounters::default(),
            existing: 0,
            epoch: 0,
            updates: 0,
            dirty_slots: Vec::new(),
            dirty_ports: Vec::new(),
            unsettled: false,
        };
        table.write_clocks();
        Ok(table)
    }

    pub(super) fn updates(&self) -> u64 {
        self.updates
    }

    /// Writes the difference of `CLOCK_TAI` and `CLOCK_REALTIME`, which is a whole number of seconds that a system
    /// administrator may change.
    pub(super) fn write_clocks(&self) {
        let read = |clock| {
            let mut t = libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            // SAFETY: a local.
            unsafe { libc::clock_gettime(clock, &raw mut t) };
            t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
        };
        let seconds = (read(libc::CLOCK_TAI) - read(libc::CLOCK_REALTIME)).round() as u64;
        // SAFETY: the map holds a u64 there, aligned.
        let at = unsafe { self.shared.shared::<AtomicU64>(TAI_AT) };
        at.store(seconds * 1_000_000_000, Ordering::Relaxed);
    }

    pub(super) fn room(&self, wanted: usize) -> Result<()> {
        let room = self.wanted.len();
        if self.existing + wanted > room {
            return Err(DriverError::Full { wanted, room });
        }
        Ok(())
    }

    /// Writes the new parameters of these edges into the inactive bank.
    pub(super) fn prepare(&mut self, ledger: &Ledger, edges: &[Edge]) -> Result<()> {
        // If the previous update could not be settled, the inactive bank does not contain it yet.
        if self.unsettled {
            self.settle()?;
        }
        let mut fresh = Vec::new();
        for &edge in edges {
            match ledger.edge(edge) {
                Some((base, effects)) => {
                    let slot = self.open(edge, &mut fresh)?;
                    self.wanted[slot as usize].set(edge.1, base, &effects);
                    self.dirty_slots.push(slot);
                }
                None => self.close(edge),
            }
        }
        // From here on programs find the new slots, but in the active bank these edges do not exist.
        self.add_to_index(&fresh)?;
        // The lowest bit of the epoch selects the active bank.
        self.write((self.epoch + 1) & 1);
        Ok(())
    }

    /// Puts everything prepared into force, by one store.
    pub(super) fn commit(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
        self.updates += 1;
        self.unsettled = true;
        // SAFETY: the map holds a u32 there, aligned.
        let at = unsafe { self.shared.shared::<AtomicU32>(EPOCH_AT) };
        // SeqCst, so that no program sees the epoch before the bank's contents.
        at.store(self.epoch, Ordering::SeqCst);
    }

    /// Updates the other bank, after all programs that may still read it have ended.
    pub(super) fn settle(&mut self) -> Result<()> {
        grace_period()?;
        self.write((self.epoch + 1) & 1);
        self.dirty_slots.clear();
        self.dirty_ports.clear();
        self.unsettled = false;
        Ok(())
    }

    /// Returns the slot of an edge that is to exist.
    fn open(&mut self, edge: Edge, fresh: &mut Vec<(Edge, u32)>) -> Result<u32> {
        let place = match self.places.get(&edge) {
            Some(place) => *place,
            None => {
                let slot = self.take_slot(edge)?;
                fresh.push((edge, slot));
                // Flow and life 0 mean "none" to the programs, so counting skips it.
                self.flows = self.flows.wrapping_add(1).max(1);
                self.wanted[slot as usize] = Params::new(self.flows);
                EdgeSlot {
                    slot,
                    lives: 0,
                    position: None,
                }
            }
        };
        if place.position.is_some() {
            return Ok(place.slot);
        }
        self.lives = self.lives.wrapping_add(1).max(1);
        self.wanted[place.slot as usize].begin(self.lives, self.seed, edge, place.lives);
        let position = self.lists[edge.0 as usize].len() as u32;
        self.lists[edge.0 as usize].push(place.slot);
        // The entry before the new one now points to it.
        self.relink(edge.0, [position.checked_sub(1), Some(position)]);
        self.existing += 1;
        let place = EdgeSlot {
            lives: place.lives + 1,
            position: Some(position),
            ..place
        };
        self.places.insert(edge, place);
        Ok(place.slot)
    }

    fn close(&mut self, edge: Edge) {
        let Some(place) = self.places.get_mut(&edge) else {
            return;
        };
        let Some(position) = place.position.take() else {
            return;
        };
        let slot = place.slot;
        self.wanted[slot as usize].end();
        self.wanted[slot as usize].next = 0;
        self.dirty_slots.push(slot);
        let list = &mut self.lists[edge.0 as usize];
        list.swap_remove(position as usize);
        let last = (list.len() as u32).checked_sub(1);
        if let Some(&moved) = list.get(position as usize)
            && let Some(place) = self.places.get_mut(&self.owners[moved as usize])
        {
            place.position = Some(position);
        }
        self.relink(edge.0, [position.checked_sub(1), Some(position), last]);
        self.existing -= 1;
        self.gone.push_back(edge);
    }

    /// Rewrites the successor of the entries at these positions, and the head of the port's list.
    fn relink<const N: usize>(&mut self, port: u32, positions: [Option<u32>; N]) {
        let list = &self.lists[port as usize];
        for position in positions.into_iter().flatten() {
            if let Some(&slot) = list.get(position as usize) {
                // Slots are stored plus one: 0 ends the list.
                self.wanted[slot as usize].next =
                    list.get(position as usize + 1).map_or(0, |next| next + 1);
                self.dirty_slots.push(slot);
            }
        }
        self.dirty_ports.push(port);
    }

    fn take_slot(&mut self, edge: Edge) -> Result<u32> {
        let unused = self.owners.len();
        if unused < self.wanted.len() {
            self.owners.push(edge);
            return Ok(unused as u32);
        }
        while let Some(old) = self.gone.pop_front() {
            // The edge may have been added again since, or be in this list twice.
            let Some(place) = self
                .places
                .get(&old)
                .filter(|place| place.position.is_none())
                .copied()
            else {
                continue;
            };
            self.places.remove(&old);
            let key = key_of(old);
            let index = self.programs.map("edt_index")?;
            index
                .delete(&key)
                .map_err(BpfError::refused("forget an edge"))?;
            self.state(place.slot)?.add_to(&mut self.past);
            // The counters of the old edge are kept in `past`, so the slot starts from zero for the new one.
            let states = self.programs.map("edt_state")?;
            let nothing = [0u8; size_of::<State>()];
            states
                .update(&place.slot.to_ne_bytes(), &nothing, MapFlags::LOCK)
                .map_err(BpfError::refused("clear an edge's slot"))?;
            self.owners[place.slot as usize] = edge;
            return Ok(place.slot);
        }
        Err(DriverError::Full {
            wanted: 1,
            room: self.wanted.len(),
        })
    }

    fn add_to_index(&self, fresh: &[(Edge, u32)]) -> Result<()> {
        if fresh.is_empty() {
            return Ok(());
        }
        let index = self.programs.map("edt_index")?;
        let keys: Vec<u8> = fresh.iter().flat_map(|(edge, _)| key_of(*edge)).collect();
        let values: Vec<u8> = fresh
            .iter()
            .flat_map(|(_, slot)| slot.to_ne_bytes())
            .collect();
        let added = index.update_batch(
            &keys,
            &values,
            fresh.len() as u32,
            MapFlags::ANY,
            MapFlags::ANY,
        );
        Ok(added.map_err(BpfError::refused("add edges to the index"))?)
    }

    /// Writes the changes into a bank that no program reads.
    fn write(&mut self, bank: u32) {
        self.dirty_slots.sort_unstable();
        self.dirty_slots.dedup();
        self.dirty_ports.sort_unstable();
        self.dirty_ports.dedup();
        for &slot in &self.dirty_slots {
            let offset = (2 * slot + bank) as usize * size_of::<Params>();
            let at = self
                .params
                .ptr(offset, size_of::<Params>())
                .cast::<Params>();
            // SAFETY: inside the mapping, aligned as entries of the map are, and no program reads this bank: the
            // epoch names the other one, and a grace period has passed since it named this one.
            unsafe { at.write_volatile(self.wanted[slot as usize]) };
        }
        for &port in &self.dirty_ports {
            let list = &self.lists[port as usize];
            let value = Port {
                first: list.first().map_or(0, |slot| slot + 1),
                edges: list.len() as u32,
            };
            let offset = (2 * port + bank) as usize * size_of::<Port>();
            let at = self.ports.ptr(offset, size_of::<Port>()).cast::<Port>();
            // SAFETY: as above.
            unsafe { at.write_volatile(value) };
        }
    }

    fn state(&self, slot: u32) -> Result<State> {
        let what = "read an edge's counters";
        let states = self.programs.map("edt_state")?;
        let found = states
            .lookup(&slot.to_ne_bytes(), MapFlags::LOCK)
            .map_err(BpfError::refused(what))?;
        Ok(found
            .and_then(|bytes| from_bytes(&bytes))
            .unwrap_or_default())
    }

    /// Returns counters and state of an edge that exists or has existed.
    pub(super) fn edge(&self, edge: Edge) -> Result<Option<(EdgeCounters, State)>> {
        let Some(place) = self.places.get(&edge) else {
            return Ok(None);
        };
        let state = self.state(place.slot)?;
        let mut counters = EdgeCounters::default();
        state.add_to(&mut counters);
        Ok(Some((counters, state)))
    }

    /// Adds the counters of all edges to `sum`.
    pub(super) fn add_all(&self, sum: &mut EdgeCounters) -> Result<()> {
        sum.add(&self.past);
        let states = self.programs.map("edt_state")?;
        let used = self.owners.len() as u32;
        let mut keys = vec![0u32; BATCH as usize];
        let mut values = vec![State::default(); BATCH as usize];
        let (mut at, mut done) = (0u32, 0u32);
        while done < used {
            let mut count = BATCH.min(used - done);
            let (before, first) = (at, done == 0);
            let opts = libbpf_sys::bpf_map_batch_opts {
                sz: size_of::<libbpf_sys::bpf_map_batch_opts>() as u64,
                elem_flags: libbpf_sys::BPF_F_LOCK.into(),
                flags: 0,
            };
            // SAFETY: all pointers are to locals with room for `count` keys and values.
            let result = unsafe {
                libbpf_sys::bpf_map_lookup_batch(
                    states.as_fd().as_raw_fd(),
                    // Without a previous position the kernel begins at the start of the map.
                    if first {
                        std::ptr::null_mut()
                    } else {
                        (&raw const before).cast_mut().cast()
                    },
                    (&raw mut at).cast(),
                    keys.as_mut_ptr().cast(),
                    values.as_mut_ptr().cast(),
                    &raw mut count,
                    &raw const opts,
                )
            };
            // ENOENT marks the last batch, which is valid.
            if result < 0 && result != -libc::ENOENT || count == 0 {
                return Err(DriverError::last_os("read the edges' counters"));
            }
            for state in &values[..count as usize] {
                state.add_to(sum);
            }
            done += count;
        }
        Ok(())
    }
}

fn key_of((from, to): Edge) -> [u8; 8] {
    let mut key = [0; 8];
    key[..4].copy_from_slice(&from.to_ne_bytes());
    key[4..].copy_from_slice(&to.to_ne_bytes());
    key
}

/// Waits until every program that runs now has ended.
fn grace_period() -> Result<()> {
    // BPF programs at tc run with preemption disabled or inside RCU; a global membarrier waits for an RCU grace period.
    const MEMBARRIER_CMD_GLOBAL: libc::c_int = 1;
    // SAFETY: no pointers.
    let result = unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) };
    if result < 0 {
        return Err(DriverError::last_os(
            "wait for BPF programs to end (membarrier)",
        ));
    }
    Ok(())
}
