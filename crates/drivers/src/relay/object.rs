//! Loading of the BPF object, mapping of its maps, and attaching of its programs.

use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use constel_host::time_namespace::{Clock, ahead_of_kernel_ns};
use libbpf_rs::{MapCore as _, MapFlags, Object, ObjectBuilder};

use super::layout::{
    Back, Cpu, Desc, FIRST_UPLINK, Port, SHARD_PORTS, SLOT_BYTES, THREADS_MAX, ThreadValues,
};
use crate::bpf::{Aligned, BpfError, Mapped, Side};
use crate::error::Result;
use crate::ports::FIRST_PORT;

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/relay.bpf.o")));

/// Sizes of the shared memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) slots: u32,
    pub(crate) cpus: u32,
    pub(crate) threads: u32,
    pub(crate) ports: u32,
    /// Number of descriptors and of free slots per thread and CPU: a power of two.
    pub(crate) ring: u32,
}

impl Sizes {
    /// Returns the number of rings of all threads.
    fn rings(self) -> u32 {
        self.threads * self.cpus
    }
}

/// The loaded programs and their shared memory.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) slots: Mapped,
    pub(crate) descs: Mapped,
    pub(crate) free: Mapped,
    pub(crate) cpus: Mapped,
    pub(crate) ports: Mapped,
    back: Mapped,
    told: Mapped,
    /// By thread: the two pages with the positions of its ring buffer.
    wakes: Vec<(Mapped, Mapped)>,
    object: Object,
}

// SAFETY: an `Object` is a bundle of descriptors and libbpf's bookkeeping about them. After `load`
// returns nothing changes it: the methods below only read descriptor numbers.
unsafe impl Send for Loaded {}
// SAFETY: as above.
unsafe impl Sync for Loaded {}

/// The programs, by their purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    Capture,
    Trunk,
    Shard,
}

impl Program {
    fn name(self) -> &'static str {
        match self {
            Program::Capture => "cst_capture",
            Program::Trunk => "cst_trunk",
            Program::Shard => "cst_shard",
        }
    }
}

impl Loaded {
    pub(crate) fn new(sizes: Sizes) -> Result<Loaded> {
        crate::bpf::listen();
        let error = BpfError::refused("load the relay's BPF programs");
        let mut builder = ObjectBuilder::default();
        builder.name("cst").map_err(&error)?;
        let mut open = builder.open_memory(&OBJECT.0).map_err(&error)?;
        for mut map in open.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            let entries = match name.as_str() {
                "cst_slots" => sizes.slots,
                "cst_descs" | "cst_free" => sizes.rings() * sizes.ring,
                "cst_cpus" => sizes.rings(),
                "cst_ports" | "cst_back" => sizes.ports,
                _ => {
                    if name.ends_with(".rodata") {
                        set_constants(map.initial_value_mut(), sizes)?;
                    }
                    continue;
                }
            };
            map.set_max_entries(entries).map_err(&error)?;
        }
        let object = open.load().map_err(&error)?;
        let map = |name: &str, len: usize| crate::bpf::mapped(&object, name, len);
        let slots = map("cst_slots", sizes.slots as usize * SLOT_BYTES)?;
        let rings = (sizes.rings() * sizes.ring) as usize;
        let descs = map("cst_descs", rings * size_of::<Desc>())?;
        let free = map("cst_free", rings * size_of::<u64>())?;
        let cpus = map("cst_cpus", sizes.rings() as usize * size_of::<Cpu>())?;
        let ports = map("cst_ports", sizes.ports as usize * size_of::<Port>())?;
        let back = map("cst_back", sizes.ports as usize * size_of::<Back>())?;
        let told = map("cst_told", THREADS_MAX * size_of::<ThreadValues>())?;
        let page = crate::bpf::page_bytes();
        let wake = |thread: u32| -> Result<(Mapped, Mapped)> {
            let name = wake_name(thread);
            let wake = crate::bpf::map(&object, &name)?;
            // The first page has the consumer's position and may be written, the second has the producer's and may only
            // be read.
            Ok((
                Mapped::new(&name, wake.as_fd(), page, 0, true)?,
                Mapped::new(&name, wake.as_fd(), page, page as i64, false)?,
            ))
        };
        let wakes = (0..sizes.threads).map(wake).collect::<Result<_>>()?;
        Ok(Loaded {
            slots,
            descs,
            free,
            cpus,
            ports,
            back,
            told,
            wakes,
            object,
        })
    }

    /// Returns the capture program's counters of this port, which must exist.
    pub(crate) fn port(&self, port: u32) -> &Port {
        // SAFETY: `Port` is atomics, in a page-aligned mapping.
        unsafe { self.ports.shared(port as usize * size_of::<Port>()) }
    }

    /// Returns the state that the relay's threads write for this port, which must exist.
    pub(crate) fn back(&self, port: u32) -> &Back {
        // SAFETY: `Back` is atomics, in a page-aligned mapping.
        unsafe { self.back.shared(port as usize * size_of::<Back>()) }
    }

    /// Returns the values that a thread, which must exist, writes for the capture program.
    pub(crate) fn told(&self, thread: usize) -> &ThreadValues {
        // SAFETY: `ThreadValues` is atomics and padding, in a page-aligned mapping.
        unsafe { self.told.shared(thread * size_of::<ThreadValues>()) }
    }

    /// Returns the descriptor of the ring buffer on which a thread sleeps. It is valid as long as `self`.
    pub(crate) fn wake_fd(&self, thread: usize) -> Result<RawFd> {
        let map = crate::bpf::map(&self.object, &wake_name(thread as u32))?;
        Ok(map.as_fd().as_raw_fd())
    }

    /// Discards the entries that wake-ups wrote for a thread, which must exist.
    pub(crate) fn drain_wakes(&self, thread: usize) {
        let (consumer, producer) = &self.wakes[thread];
        // SAFETY: both pages of a BPF ring buffer start with a position.
        let (consumer, producer): (&AtomicU64, &AtomicU64) =
            unsafe { (consumer.shared(0), producer.shared(0)) };
        let produced = producer.load(Ordering::Acquire);
        if consumer.load(Ordering::Relaxed) != produced {
            consumer.store(produced, Ordering::Release);
        }
    }

    /// Puts an entry into a map that the programs only read.
    pub(crate) fn tell(&self, map: &str, key: &[u8], value: &[u8]) -> Result<()> {
        let map = crate::bpf::map(&self.object, map)?;
        let error = BpfError::refused("write into a BPF map");
        Ok(map.update(key, value, MapFlags::ANY).map_err(&error)?)
    }

    /// Attaches the program for interfaces of the host to one *of the calling thread's namespace*, until the descriptor
    /// closes.
    pub(crate) fn link(&self, ifindex: u32) -> Result<OwnedFd> {
        Ok(crate::bpf::link(
            &self.object,
            "cst_external",
            ifindex,
            Side::Ingress,
        )?)
    }

    /// Attaches a program to the ingress of an interface *of the calling thread's namespace*.
    ///
    /// It is attached without a link: no descriptor is kept, and the program is detached when the interface is deleted.
    pub(crate) fn attach(&self, program: Program, ifindex: u32) -> Result<()> {
        Ok(crate::bpf::attach(&self.object, program.name(), ifindex)?)
    }
}

fn set_constants(value: Option<&mut [u8]>, sizes: Sizes) -> Result<()> {
    let expected = [0, SHARD_PORTS, FIRST_UPLINK, FIRST_PORT, 0, 0, 0];
    let value = crate::bpf::constants(value, &expected)?;
    // Byte offsets of the constants in the order of their definition in relay.bpf.c; `constants` has checked the order.
    value[..4].copy_from_slice(&(sizes.ring - 1).to_ne_bytes());
    value[16..20].copy_from_slice(&sizes.cpus.to_ne_bytes());
    let ahead_ns = ahead_of_kernel_ns(Clock::Monotonic)?.cast_unsigned();
    let halves = [ahead_ns as u32, (ahead_ns >> 32) as u32];
    value[20..24].copy_from_slice(&halves[0].to_ne_bytes());
    value[24..].copy_from_slice(&halves[1].to_ne_bytes());
    Ok(())
}

fn wake_name(thread: u32) -> String {
    format!("cst_wake_{thread}")
}
