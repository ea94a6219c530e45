//! Loading the BPF object and reading its maps.

use std::os::fd::{AsFd, AsRawFd};

use constel_host::netlink::{Attributes, Tc};
use libbpf_rs::{MapCore, MapFlags, Object, ObjectBuilder};

use crate::bpf::{Aligned, BpfError, Mapped};
use crate::error::Result;

use super::layout::{Counts, FIRST_TRUNK};
use crate::ports::FIRST_PORT;

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/edt.bpf.o")));

/// Attributes of the kernel's `pkt_cls.h`.
const TCA_BPF_FD: u16 = 6;
const TCA_BPF_NAME: u16 = 7;
const TCA_BPF_FLAGS: u16 = 8;
const TCA_BPF_FLAG_ACT_DIRECT: u32 = 1;

/// The programs, by their purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    Steer,
    Depart,
    Arrive,
}

impl Program {
    fn name(self) -> &'static str {
        match self {
            Program::Steer => "cst_steer",
            Program::Depart => "cst_depart",
            Program::Arrive => "cst_arrive",
        }
    }
}

/// The loaded programs and maps.
#[derive(Debug)]
pub(super) struct Programs {
    object: Object,
}

// SAFETY: an `Object` is a bundle of descriptors and libbpf's bookkeeping about them. After `load` returns nothing
// changes it: the methods below only use descriptors.
unsafe impl Send for Programs {}
// SAFETY: as above.
unsafe impl Sync for Programs {}

impl Programs {
    pub(super) fn load(ports: u32, edges: u32, trunks: u32) -> Result<Programs> {
        crate::bpf::listen();
        let error = BpfError::refused("load the edt driver's BPF programs");
        let mut builder = ObjectBuilder::default();
        builder.name("cst_edt").map_err(&error)?;
        let mut open = builder.open_memory(&OBJECT.0).map_err(&error)?;
        for mut map in open.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            // Parameters and lists have two banks each; states and index are shared by both.
            let entries = match name.as_str() {
                "edt_params" => 2 * edges,
                "edt_ports" => 2 * ports,
                "edt_state" | "edt_index" => edges,
                _ => {
                    if name.ends_with(".rodata") {
                        set_constants(map.initial_value_mut(), trunks)?;
                    }
                    continue;
                }
            };
            map.set_max_entries(entries).map_err(&error)?;
        }
        let object = open.load().map_err(&error)?;
        Ok(Programs { object })
    }

    pub(super) fn map(&self, name: &str) -> Result<libbpf_rs::Map<'_>> {
        Ok(crate::bpf::map(&self.object, name)?)
    }

    /// Maps the memory of an array.
    pub(super) fn mapped(&self, name: &str, bytes: usize) -> Result<Mapped> {
        Ok(crate::bpf::mapped(&self.object, name, bytes)?)
    }

    /// Returns the filter that runs this program on an interface's frames. It is deleted together with the interface.
    pub(super) fn filter(
        &self,
        program: Program,
        ifindex: u32,
        parent: u32,
    ) -> Result<Tc<'static>> {
        let name = program.name();
        let fd = crate::bpf::program(&self.object, name)?.as_fd().as_raw_fd() as u32;
        let options = Attributes::default()
            .u32(TCA_BPF_FD, fd)
            .text(TCA_BPF_NAME, name)
            .u32(TCA_BPF_FLAGS, TCA_BPF_FLAG_ACT_DIRECT);
        Ok(Tc {
            ifindex,
            handle: 1,
            parent,
            info: Tc::all_protocols(1),
            kind: "bpf",
            options: Some(options),
        })
    }

    /// Returns the counters of each CPU.
    pub(super) fn counts(&self) -> Result<Vec<Counts>> {
        let what = "read the edt driver's counters";
        let map = self.map("edt_counts")?;
        let found = map
            .lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(BpfError::refused(what))?;
        let all = found.unwrap_or_default();
        Ok(all
            .iter()
            .filter_map(|bytes| from_bytes::<Counts>(bytes))
            .collect())
    }
}

/// Copies a value of integers from bytes; every bit pattern is valid for these types.
pub(super) fn from_bytes<T: Copy>(bytes: &[u8]) -> Option<T> {
    // SAFETY: `T` is one of layout.rs, which consist of integers only; the length is checked.
    (bytes.len() >= size_of::<T>()).then(|| unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

fn set_constants(value: Option<&mut [u8]>, trunks: u32) -> Result<()> {
    let value = crate::bpf::constants(value, &[0, FIRST_TRUNK, FIRST_PORT])?;
    // The number of trunks is a power of two, so one less is its mask.
    value[..4].copy_from_slice(&(trunks - 1).to_ne_bytes());
    Ok(())
}
