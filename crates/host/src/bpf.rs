//! Which BPF objects the kernel holds: ours are named `cst_*`, owned by descriptors, and must be
//! gone soon after their owner.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Names of all our BPF programs and maps start with this.
pub const PREFIX: &str = "cst_";

/// Kinds of BPF objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObjectKind {
    /// A program.
    Program,
    /// A map.
    Map,
    /// A link: an attached program. Links have no name of their own.
    Link,
}

/// A BPF object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BpfObject {
    /// Kind.
    pub kind: ObjectKind,
    /// The kernel's number, never used twice.
    pub id: u32,
    /// Name (of a link: its program's).
    pub name: String,
}

// Commands of bpf(2), in the order of the kernel's `enum bpf_cmd`.
const PROG_GET_NEXT_ID: i32 = 11;
const MAP_GET_NEXT_ID: i32 = 12;
const PROG_GET_FD_BY_ID: i32 = 13;
const MAP_GET_FD_BY_ID: i32 = 14;
const OBJ_GET_INFO_BY_FD: i32 = 15;
const LINK_GET_FD_BY_ID: i32 = 30;
const LINK_GET_NEXT_ID: i32 = 31;

/// All BPF objects of the host, sorted.
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN`; `ENOSYS` on a kernel without BPF.
pub fn objects() -> Result<Vec<BpfObject>> {
    let mut out = Vec::new();
    for (kind, next, open) in [
        (ObjectKind::Program, PROG_GET_NEXT_ID, PROG_GET_FD_BY_ID),
        (ObjectKind::Map, MAP_GET_NEXT_ID, MAP_GET_FD_BY_ID),
        (ObjectKind::Link, LINK_GET_NEXT_ID, LINK_GET_FD_BY_ID),
    ] {
        let mut id = 0;
        while let Some(found) = next_id(next, id)? {
            id = found;
            // It may be gone by now.
            if let Some(fd) = open_id(open, id)? {
                out.push(BpfObject {
                    kind,
                    id,
                    name: name_of(kind, &fd)?,
                });
            }
        }
    }
    out.sort();
    Ok(out)
}

/// Our BPF objects, of all labs, by name.
pub fn ours() -> Result<Vec<BpfObject>> {
    Ok(objects()?
        .into_iter()
        .filter(|o| o.name.starts_with(PREFIX))
        .collect())
}

/// Waits until none of the objects exists any more: the kernel frees them a little after the last
/// descriptor closes. Returns those that still exist after `timeout`.
pub fn wait_gone(objects_: &[BpfObject], timeout: Duration) -> Result<Vec<BpfObject>> {
    let end = Instant::now() + timeout;
    loop {
        let now = objects()?;
        let left: Vec<_> = objects_
            .iter()
            .filter(|o| now.contains(o))
            .cloned()
            .collect();
        if left.is_empty() || Instant::now() >= end {
            return Ok(left);
        }
        // There is no event for this.
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn bpf(cmd: i32, attr: &mut [u64; 16]) -> std::io::Result<i32> {
    // SAFETY: `attr` is a live, writable and zero-padded block larger than what these commands
    // use; pointers in it refer to live memory of the stated length.
    let r = unsafe { libc::syscall(libc::SYS_bpf, cmd, attr.as_mut_ptr(), size_of_val(attr)) };
    if r < 0 {
        Err(std::io::Error::last_os_error())
    } else {
        Ok(r as i32)
    }
}

fn next_id(cmd: i32, after: u32) -> Result<Option<u32>> {
    // struct { u32 start_id; u32 next_id; u32 open_flags; }
    let mut attr = [0u64; 16];
    attr[0] = pack(after, 0);
    match bpf(cmd, &mut attr) {
        Ok(_) => Ok(Some(unpack(attr[0]).1)),
        Err(e) if e.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        Err(e) => Err(Error::os("list BPF objects", e)),
    }
}

fn open_id(cmd: i32, id: u32) -> Result<Option<OwnedFd>> {
    let mut attr = [0u64; 16];
    attr[0] = pack(id, 0);
    match bpf(cmd, &mut attr) {
        // SAFETY: a descriptor that the kernel has just opened for us.
        Ok(fd) => Ok(Some(unsafe { OwnedFd::from_raw_fd(fd) })),
        Err(e) if e.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        Err(e) => Err(Error::os(format!("open BPF object {id}"), e)),
    }
}

fn name_of(kind: ObjectKind, fd: &OwnedFd) -> Result<String> {
    // struct { u32 bpf_fd; u32 info_len; u64 info; }; the kernel fills as much as we have room for.
    let mut info = [0u8; 256];
    let mut attr = [0u64; 16];
    attr[0] = pack(fd.as_raw_fd() as u32, info.len() as u32);
    attr[1] = info.as_mut_ptr() as u64;
    bpf(OBJ_GET_INFO_BY_FD, &mut attr).map_err(|e| Error::os("describe a BPF object", e))?;
    // Offsets of `name[16]` in struct bpf_prog_info and bpf_map_info (fixed: both are ABI).
    let at = match kind {
        ObjectKind::Program => 64,
        ObjectKind::Map => 24,
        ObjectKind::Link => {
            let program = u32::from_ne_bytes(info[8..12].try_into().expect("4 bytes"));
            return match open_id(PROG_GET_FD_BY_ID, program)? {
                Some(p) => name_of(ObjectKind::Program, &p),
                None => Ok(String::new()),
            };
        }
    };
    let name = info[at..at + 16]
        .split(|&b| b == 0)
        .next()
        .unwrap_or_default();
    Ok(String::from_utf8_lossy(name).into_owned())
}

/// Two neighbouring `u32` fields in one word, in memory order.
fn pack(first: u32, second: u32) -> u64 {
    let mut b = [0; 8];
    b[..4].copy_from_slice(&first.to_ne_bytes());
    b[4..].copy_from_slice(&second.to_ne_bytes());
    u64::from_ne_bytes(b)
}

fn unpack(word: u64) -> (u32, u32) {
    let b = word.to_ne_bytes();
    let half = |i: usize| u32::from_ne_bytes(b[i..i + 4].try_into().expect("4 bytes"));
    (half(0), half(4))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a one-element array map of that name.
    fn map(name: &str) -> OwnedFd {
        let mut attr = [0u64; 16];
        attr[0] = pack(2, 4); // BPF_MAP_TYPE_ARRAY, key size
        attr[1] = pack(4, 1); // value size, entries
        // map_flags@16 inner_map_fd@20 numa_node@24 map_name@28
        let bytes: &mut [u8] = &mut [0u8; 16];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        let mut raw: Vec<u8> = attr.iter().flat_map(|w| w.to_ne_bytes()).collect();
        raw[28..44].copy_from_slice(bytes);
        for (w, b) in attr.iter_mut().zip(raw.chunks(8)) {
            *w = u64::from_ne_bytes(b.try_into().unwrap());
        }
        let fd = bpf(0, &mut attr).unwrap();
        // SAFETY: just opened.
        unsafe { OwnedFd::from_raw_fd(fd) }
    }

    #[test]
    fn ours_are_seen_and_seen_to_go() {
        let fd = map("cst_unit_test");
        let mine: Vec<_> = ours()
            .unwrap()
            .into_iter()
            .filter(|o| o.name == "cst_unit_test")
            .collect();
        assert_eq!(mine.len(), 1);
        assert_eq!(mine[0].kind, ObjectKind::Map);
        assert_eq!(wait_gone(&mine, Duration::from_millis(20)).unwrap(), mine);
        drop(fd);
        assert_eq!(wait_gone(&mine, Duration::from_secs(10)).unwrap(), []);
    }
}
