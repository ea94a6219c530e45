//! Loading the BPF object, mapping its maps, attaching its programs.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Mutex;

use libbpf_rs::{MapCore, Object, ObjectBuilder, PrintLevel};

use super::layout::{Back, Cpu, Desc, FIRST_UPLINK, Port, SHARD_PORTS, SLOT_BYTES};
use super::mapped::Mapped;
use crate::bpf::{self, Aligned};
use crate::error::{DriverError, Result};
use crate::ports::FIRST_PORT;

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/relay.bpf.o")));

/// What libbpf had to say lately.
static MESSAGES: Mutex<String> = Mutex::new(String::new());

fn remember(level: PrintLevel, message: String) {
    if level == PrintLevel::Warn
        && let Ok(mut messages) = MESSAGES.lock()
        && messages.len() < 16_384
    {
        messages.push_str(&message);
    }
}

pub(crate) fn bpf_error(what: &str, source: libbpf_rs::Error) -> DriverError {
    let said = MESSAGES
        .lock()
        .map(|mut m| std::mem::take(&mut *m))
        .unwrap_or_default();
    // A verifier's log is long; what it objects to comes last.
    let lines: Vec<&str> = said.trim().lines().collect();
    let said = lines[lines.len().saturating_sub(12)..].join("\n");
    let detail = if said.is_empty() {
        String::new()
    } else {
        format!(": {said}")
    };
    DriverError::Bpf {
        what: what.into(),
        source,
        detail,
    }
}

/// Sizes of the shared memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) slots: u32,
    pub(crate) cpus: u32,
    pub(crate) ports: u32,
    /// Descriptors and free slots per CPU: a power of two.
    pub(crate) ring: u32,
}

/// The loaded programs and their shared memory.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) slots: Mapped,
    pub(crate) descs: Mapped,
    pub(crate) free: Mapped,
    pub(crate) cpus: Mapped,
    pub(crate) ports: Mapped,
    pub(crate) back: Mapped,
    pub(crate) share: Mapped,
    pub(crate) asleep: Mapped,
    pub(crate) wake_consumer: Mapped,
    pub(crate) wake_producer: Mapped,
    object: Object,
}

// SAFETY: an `Object` is a bundle of descriptors and libbpf's bookkeeping about them. After `load`
// returns nothing changes it: the methods below only read descriptor numbers.
unsafe impl Send for Loaded {}
// SAFETY: as above.
unsafe impl Sync for Loaded {}

/// The programs, by what they do.
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
        libbpf_rs::set_print(Some((PrintLevel::Warn, remember)));
        let error = |e| bpf_error("load the relay's BPF programs", e);
        let mut builder = ObjectBuilder::default();
        builder.name("cst").map_err(error)?;
        let mut open = builder.open_memory(&OBJECT.0).map_err(error)?;
        for mut map in open.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            let entries = match name.as_str() {
                "cst_slots" => sizes.slots,
                "cst_descs" | "cst_free" => sizes.cpus * sizes.ring,
                "cst_cpus" => sizes.cpus,
                "cst_ports" | "cst_back" => sizes.ports,
                _ => {
                    if name.ends_with(".rodata") {
                        set_constants(map.initial_value_mut(), sizes)?;
                    }
                    continue;
                }
            };
            map.set_max_entries(entries).map_err(error)?;
        }
        let object = open.load().map_err(error)?;
        let map = |name: &str, len: usize| {
            let map = find_map(&object, name)?;
            let page = page_bytes();
            Mapped::new(name, map.as_fd(), len.next_multiple_of(page), 0, true)
        };
        let slots = map("cst_slots", sizes.slots as usize * SLOT_BYTES)?;
        let rings = (sizes.cpus * sizes.ring) as usize;
        let descs = map("cst_descs", rings * size_of::<Desc>())?;
        let free = map("cst_free", rings * size_of::<u64>())?;
        let cpus = map("cst_cpus", sizes.cpus as usize * size_of::<Cpu>())?;
        let ports = map("cst_ports", sizes.ports as usize * size_of::<Port>())?;
        let back = map("cst_back", sizes.ports as usize * size_of::<Back>())?;
        let share = map("cst_share", size_of::<u64>())?;
        let asleep = map("cst_asleep", size_of::<u64>())?;
        let page = page_bytes();
        let wake = find_map(&object, "cst_wake")?;
        let wake_consumer = Mapped::new("cst_wake", wake.as_fd(), page, 0, true)?;
        let wake_producer = Mapped::new("cst_wake", wake.as_fd(), page, page as i64, false)?;
        Ok(Loaded {
            slots,
            descs,
            free,
            cpus,
            ports,
            back,
            share,
            asleep,
            wake_consumer,
            wake_producer,
            object,
        })
    }

    /// What the capture program counts of this port, which must exist.
    pub(crate) fn port(&self, port: u32) -> &Port {
        // SAFETY: `Port` is atomics, in a page-aligned mapping.
        unsafe { self.ports.shared(port as usize * size_of::<Port>()) }
    }

    /// The ring buffer to sleep on. The descriptor lives as long as `self`.
    pub(crate) fn wake_fd(&self) -> Result<RawFd> {
        Ok(find_map(&self.object, "cst_wake")?.as_fd().as_raw_fd())
    }

    /// Attach a program to the ingress of an interface *of the calling thread's namespace*.
    ///
    /// Attached without a link: no descriptor is kept, and the program goes with the interface.
    pub(crate) fn attach(&self, program: Program, ifindex: u32) -> Result<()> {
        let name = program.name();
        let found = self
            .object
            .progs()
            .find(|p| p.name() == name)
            .ok_or_else(|| DriverError::Config(format!("the BPF object has no program {name}")))?;
        let fd = found.as_fd();
        attach_tcx(fd, ifindex).map_err(|source| DriverError::Os {
            what: format!("attach {name} to interface {ifindex}"),
            source,
        })
    }
}

pub(crate) fn attach_tcx(program: BorrowedFd<'_>, ifindex: u32) -> std::io::Result<()> {
    let target =
        i32::try_from(ifindex).map_err(|_| std::io::Error::from_raw_os_error(libc::ENODEV))?;
    // SAFETY: plain descriptor and index; no options are passed.
    let result = unsafe {
        libbpf_sys::bpf_prog_attach_opts(
            program.as_raw_fd(),
            target,
            libbpf_sys::BPF_TCX_INGRESS,
            std::ptr::null(),
        )
    };
    if result < 0 {
        Err(std::io::Error::from_raw_os_error(-result))
    } else {
        Ok(())
    }
}

fn find_map<'a>(object: &'a Object, name: &str) -> Result<libbpf_rs::Map<'a>> {
    object
        .maps()
        .find(|m| m.name() == name)
        .ok_or_else(|| DriverError::Config(format!("the BPF object has no map {name}")))
}

fn set_constants(value: Option<&mut [u8]>, sizes: Sizes) -> Result<()> {
    let expected = [0, SHARD_PORTS, FIRST_UPLINK, FIRST_PORT];
    let Some(value) = bpf::constants(value, &expected) else {
        return Err(DriverError::Config(
            "the BPF object's constants are not those expected".into(),
        ));
    };
    value[..4].copy_from_slice(&(sizes.ring - 1).to_ne_bytes());
    Ok(())
}

pub(crate) fn page_bytes() -> usize {
    // SAFETY: no pointers are involved.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}
