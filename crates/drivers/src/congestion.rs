//! TCP Hybla, Westwood+ and Vegas, written from their papers as BPF programs, for kernels without such modules.
//!
//! [`provide`] gives the kernel a congestion control that it lacks. Programs then choose it like any other: by socket
//! (`TCP_CONGESTION`, `iperf3 -C hybla`) or by namespace (`net.ipv4.tcp_congestion_control`). It stays while any
//! process holds a [`Provided`]. Several labs share one: the kernel counts the holders, and nothing is left after
//! `kill -9`. Connections that still use it when the last holder ends keep it until they end.

use std::ffi::OsStr;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use libbpf_rs::query::{LinkInfoIter, LinkTypeInfo, MapInfoIter};
use libbpf_rs::{Link, MapCore, MapType, ObjectBuilder};
use rustix::net::{AddressFamily, SocketType, socket, sockopt};

use crate::bpf::Aligned;

static HYBLA: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/hybla.bpf.o")));
static WESTWOOD: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/westwood.bpf.o")));
static VEGAS: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/vegas.bpf.o")));

/// Names of the congestion controls that can be provided.
pub const NAMES: [&str; 3] = ["hybla", "vegas", "westwood"];

/// Why a congestion control cannot be provided.
#[derive(Debug, thiserror::Error)]
pub enum CongestionError {
    /// The name is not in [`NAMES`].
    #[error("Constel has no congestion control '{0}'")]
    Unknown(String),
    /// The kernel refuses it.
    #[error("the kernel does not take the congestion control '{name}': {source}{said}")]
    Refused {
        /// Name of the congestion control.
        name: String,
        /// The kernel's error.
        source: libbpf_rs::Error,
        /// The last messages of libbpf.
        said: String,
    },
}

/// Keeps a congestion control in the kernel.
#[derive(Debug)]
pub struct Provided(#[expect(dead_code, reason = "held so that the kernel keeps it")] Holds);

#[derive(Debug)]
enum Holds {
    /// The kernel has it by itself.
    Nothing,
    /// Loaded here.
    Own(#[expect(dead_code, reason = "held")] Link),
    /// Loaded by another process and held with it.
    Shared(#[expect(dead_code, reason = "held")] OwnedFd),
}

// SAFETY: a `Link` is a descriptor and libbpf's bookkeeping about it; nothing is called on it until it is dropped,
// which happens on one thread.
#[allow(unsafe_code, reason = "see above")]
unsafe impl Send for Provided {}

/// Returns whether the kernel has a congestion control of this name. The result is true where this cannot be found out:
/// the first connection then fails with the kernel's error.
pub fn kernel_has(name: &str) -> bool {
    let Ok(socket) = socket(AddressFamily::INET, SocketType::STREAM, None) else {
        return true;
    };
    sockopt::set_tcp_congestion(&socket, name) != Err(rustix::io::Errno::NOENT)
}

/// Makes the congestion control `name` available in the kernel while the result lives.
///
/// # Errors
/// Names that are not in [`NAMES`]; kernels without BPF struct_ops or type information; missing rights.
pub fn provide(name: &str) -> Result<Provided, CongestionError> {
    let object = match name {
        "hybla" => &HYBLA.0,
        "westwood" => &WESTWOOD.0,
        "vegas" => &VEGAS.0,
        _ => return Err(CongestionError::Unknown(name.to_owned())),
    };
    // Another process may load or drop it between the search for its link and our own attempt.
    let mut tries = 0;
    loop {
        if let Some(link) = loaded_by_another(name) {
            return Ok(Provided(Holds::Shared(link)));
        }
        tries += 1;
        match load(name, object) {
            Ok(link) => return Ok(Provided(Holds::Own(link))),
            Err(source) if source.kind() == libbpf_rs::ErrorKind::AlreadyExists => {
                if tries >= 10 {
                    // No process holds a link to it and it does not go away: it is built into the kernel.
                    return Ok(Provided(Holds::Nothing));
                }
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            // A kernel may have it built in and take no such programs, as that of virtual time.
            Err(_) if kernel_has(name) => return Ok(Provided(Holds::Nothing)),
            Err(source) => {
                return Err(CongestionError::Refused {
                    name: name.to_owned(),
                    source,
                    said: crate::bpf::last_messages(),
                });
            }
        }
    }
}

fn load(name: &str, object: &[u8]) -> libbpf_rs::Result<Link> {
    crate::bpf::listen();
    let mut object = ObjectBuilder::default()
        .name("cst")?
        .open_memory(object)?
        .load()?;
    let mut maps = object.maps_mut();
    let mut map = maps
        .find(|map| map.name() == OsStr::new(&format!("cst_{name}")))
        .ok_or_else(|| libbpf_rs::Error::from(std::io::Error::other("no such struct_ops")))?;
    // The link holds the map, and with it the programs: the object may go.
    map.attach_struct_ops()
}

/// The link that registers our congestion control of this name, if some process has loaded it.
fn loaded_by_another(name: &str) -> Option<OwnedFd> {
    let wanted = format!("cst_{name}");
    let ids: Vec<u32> = MapInfoIter::default()
        .filter(|map| map.ty == MapType::StructOps && map.name.as_bytes() == wanted.as_bytes())
        .map(|map| map.id)
        .collect();
    let link = LinkInfoIter::default().find(|link| match &link.info {
        LinkTypeInfo::StructOps(ops) => ids.contains(&ops.map_id),
        _ => false,
    })?;
    open_link(link.id)
}

#[allow(unsafe_code, reason = "libbpf-rs opens links by path only")]
fn open_link(id: u32) -> Option<OwnedFd> {
    // SAFETY: a plain system call without pointers.
    let fd = unsafe { libbpf_sys::bpf_link_get_fd_by_id(id) };
    if fd < 0 {
        return None;
    }
    // SAFETY: the call above has just returned this descriptor; it has no other owner.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}
