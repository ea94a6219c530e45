//! Raw Ethernet between the machines: the socket, and the BPF programs that write and check addresses
//! (`bpf/crossing.bpf.c`).
//!
//! The egress program is attached to the interface by a BPF link, and the ingress program is the socket's own
//! filter. The kernel removes both when this process ends, however it ends.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use constel_drivers::bpf::{Aligned, BpfError, Result, Side};
use constel_host::ethernet::{EthernetSocket, Filter, Interface};
use constel_link::PortId;
use libbpf_rs::{MapCore, MapFlags, MapHandle, Object, ObjectBuilder};

use crate::crossing::OpenError;
use crate::crossing::machines::Machines;
use crate::underlay::{ETHER_TYPE, Endpoint};

static OBJECT: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/crossing.bpf.o")));

#[derive(Debug)]
pub(crate) struct Ethernet {
    socket: EthernetSocket,
    strangers: MapHandle,
    /// The machine that has each port's node, by port.
    owners: MapHandle,
    /// The link of the egress program on the interface.
    _leaves: OwnedFd,
    /// The ingress program. The socket keeps it as well, but `/proc` lists it for no process. Without this descriptor
    /// `constel clean` would count it as a remainder of a dead lab.
    _arrives: OwnedFd,
}

impl Ethernet {
    /// Opens the socket and attaches the programs to an interface of the calling thread's namespace.
    pub(crate) fn open(
        interface: &Interface,
        lab: u32,
        machines: &Machines,
    ) -> Result<Self, OpenError> {
        let object = load(lab, machines)?;
        let arrives = constel_drivers::bpf::program(&object, "cst_arrive")?;
        let filter = Filter::Program(arrives.as_fd());
        // The filter runs in the kernel, so frames of other labs never wake this process.
        let socket = EthernetSocket::open(interface.ifindex, ETHER_TYPE, filter)?;
        let arrives = arrives.as_fd().try_clone_to_owned()?;
        let keep = |map: &str| {
            let kept = MapHandle::try_from(&constel_drivers::bpf::map(&object, map)?);
            kept.map_err(BpfError::refused("keep a map of the programs"))
        };
        Ok(Self {
            socket,
            strangers: keep("cst_strangers")?,
            owners: keep("cst_owners")?,
            _leaves: constel_drivers::bpf::link(
                &object,
                "cst_leave",
                interface.ifindex,
                Side::Egress,
            )?,
            _arrives: arrives,
        })
    }

    /// Records that a port's node is on another machine from now on.
    pub(crate) fn give(&self, port: PortId, machine: usize) -> Result<(), OpenError> {
        let (port, machine) = (port.0.to_ne_bytes(), (machine as u32).to_ne_bytes());
        let told = self.owners.update(&port, &machine, MapFlags::ANY);
        Ok(told.map_err(BpfError::refused("give the programs a node's machine"))?)
    }

    pub(crate) fn strangers(&self) -> u64 {
        let found = self.strangers.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY);
        let bytes = found.ok().flatten().and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u64::from_ne_bytes)
    }
}

impl AsFd for Ethernet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Loads the programs and fills their maps: the machine of each port, and the address of each machine.
fn load(lab: u32, machines: &Machines) -> Result<Object> {
    constel_drivers::bpf::listen();
    let error = BpfError::refused("load the programs for raw Ethernet between machines");
    let mut builder = ObjectBuilder::default();
    builder.name("cst_cross").map_err(&error)?;
    let mut open = builder.open_memory(&OBJECT.0).map_err(&error)?;
    let owners: Vec<usize> = machines.owners().collect();
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        match name.as_str() {
            "cst_owners" => map.set_max_entries(owners.len().max(1) as u32),
            "cst_machines" => map.set_max_entries(machines.count() as u32),
            // Constants must be set before the programs are loaded: the verifier then removes the code that they
            // exclude.
            _ if name.ends_with(".rodata") => {
                let value = constel_drivers::bpf::constants(map.initial_value_mut(), &[0, 1, 0])?;
                let constants = [u32::from(ETHER_TYPE), lab, machines.here() as u32];
                for (at, constant) in value.chunks_exact_mut(4).zip(constants) {
                    at.copy_from_slice(&constant.to_ne_bytes());
                }
                Ok(())
            }
            _ => Ok(()),
        }
        .map_err(&error)?;
    }
    let object = open.load().map_err(&error)?;
    let put = |map: &str, key: usize, value: &[u8]| {
        let told = constel_drivers::bpf::map(&object, map)?;
        let told = told.update(&(key as u32).to_ne_bytes(), value, MapFlags::ANY);
        told.map_err(BpfError::refused(
            "give the programs the machines' addresses",
        ))
    };
    // Before the programs are attached, so that no frame finds an empty map.
    for (port, owner) in owners.iter().enumerate() {
        put("cst_owners", port, &(*owner as u32).to_ne_bytes())?;
    }
    for machine in 0..machines.count() {
        let mut value = [0; 8];
        if let Endpoint::Ethernet(address) = machines.endpoint(machine) {
            value[..6].copy_from_slice(&address);
        }
        put("cst_machines", machine, &value)?;
    }
    Ok(object)
}
