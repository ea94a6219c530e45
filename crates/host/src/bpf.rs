//! BPF objects in the kernel. Ours are named `cst_*`, owned by descriptors, and must disappear soon after their owner.

use std::collections::BTreeSet;
use std::fs;
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
    /// A link, which attaches a program. Links have no name of their own.
    Link,
}

/// A BPF object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BpfObject {
    /// Kind.
    pub kind: ObjectKind,
    /// The kernel's number, never reused.
    pub id: u32,
    /// Name (for a link: that of its program).
    pub name: String,
}

// Commands of bpf(2), in the order of the kernel's `enum bpf_cmd`.
const PROG_GET_NEXT_ID: i32 = 11;
const MAP_GET_NEXT_ID: i32 = 12;
const PROG_GET_FD_BY_ID: i32 = 13;
const MAP_GET_FD_BY_ID: i32 = 14;
const OBJ_GET_INFO_BY_FD: i32 = 15;
const PROG_QUERY: i32 = 16;
const LINK_GET_FD_BY_ID: i32 = 30;
const LINK_GET_NEXT_ID: i32 = 31;
/// `BPF_TCX_INGRESS` and `BPF_TCX_EGRESS` of the kernel's `enum bpf_attach_type`.
const TCX: [u32; 2] = [46, 47];

/// Returns all BPF objects of the host, sorted.
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
            // The object may have been freed since.
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

/// Returns the BPF objects of all labs, by name.
///
/// # Errors
/// [`Error::Os`] when the kernel does not list its objects: without `CAP_SYS_ADMIN`.
pub fn ours() -> Result<Vec<BpfObject>> {
    Ok(objects()?
        .into_iter()
        .filter(|o| o.name.starts_with(PREFIX))
        .collect())
}

/// Waits until none of the objects exists any more: the kernel frees them a little after the last
/// descriptor closes. Returns those that still exist after `timeout`.
///
/// # Errors
/// As [`ours`].
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
        // The kernel has no event for this.
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the number of programs that an interface of the calling thread's namespace passes its frames to (tcx), in
/// both directions. It is 0 if there is no such interface, and where the kernel has no tcx or does not allow the query.
pub fn programs_at(ifindex: u32) -> usize {
    let count = |side| {
        // struct { u32 target_ifindex; u32 attach_type; u32 query_flags; u32 attach_flags; u64 prog_ids; u32 prog_cnt; }:
        // without room for numbers only the count is returned.
        let mut attr = [0u64; 16];
        attr[0] = pack(ifindex, side);
        match bpf(PROG_QUERY, &mut attr) {
            Ok(_) => unpack(attr[3]).0 as usize,
            Err(_) => 0,
        }
    };
    TCX.into_iter().map(count).sum()
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
        // EAGAIN: a link that another process is creating at this moment; it can be opened later.
        Err(e) if matches!(e.raw_os_error(), Some(libc::ENOENT | libc::EAGAIN)) => Ok(None),
        Err(e) => Err(Error::os(format!("open BPF object {id}"), e)),
    }
}

/// Reads the kernel's description of an object, as far as the buffer has room for it.
fn info(fd: &OwnedFd, info: &mut [u64; 32]) -> Result<()> {
    // struct { u32 bpf_fd; u32 info_len; u64 info; }
    let mut attr = [0u64; 16];
    attr[0] = pack(fd.as_raw_fd() as u32, size_of_val(info) as u32);
    attr[1] = info.as_mut_ptr() as u64;
    bpf(OBJ_GET_INFO_BY_FD, &mut attr).map_err(|e| Error::os("describe a BPF object", e))?;
    Ok(())
}

fn name_of(kind: ObjectKind, fd: &OwnedFd) -> Result<String> {
    let mut words = [0; 32];
    info(fd, &mut words)?;
    // Offsets of `name[16]` in struct bpf_prog_info and bpf_map_info (fixed: both are ABI).
    let at = match kind {
        ObjectKind::Program => 64,
        ObjectKind::Map => 24,
        ObjectKind::Link => {
            // struct bpf_link_info { u32 type; u32 id; u32 prog_id; ... }
            return match open_id(PROG_GET_FD_BY_ID, unpack(words[1]).0)? {
                Some(p) => name_of(ObjectKind::Program, &p),
                None => Ok(String::new()),
            };
        }
    };
    let bytes: Vec<u8> = words
        .iter()
        .flat_map(|w| w.to_ne_bytes())
        .skip(at)
        .take(16)
        .collect();
    let name = bytes.split(|&b| b == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(name).into_owned())
}

/// Returns the numbers of the maps that a program uses.
fn maps_of(program: u32) -> Result<Vec<u32>> {
    let Some(fd) = open_id(PROG_GET_FD_BY_ID, program)? else {
        return Ok(Vec::new());
    };
    let mut ids = [0u32; 256];
    let mut words = [0; 32];
    // In struct bpf_prog_info: u32 nr_map_ids at 52, u64 map_ids at 56.
    words[6] = pack(0, ids.len() as u32);
    words[7] = ids.as_mut_ptr() as u64;
    info(&fd, &mut words)?;
    Ok(ids[..(unpack(words[6]).1 as usize).min(ids.len())].to_vec())
}

/// Returns the objects that a living process owns: it has a descriptor of the object itself, of a link that holds the
/// program, or of a program that uses the map.
///
/// # Errors
/// [`Error::Os`] when `/proc` cannot be listed, or a program's maps cannot be read.
pub fn held() -> Result<BTreeSet<(ObjectKind, u32)>> {
    let mut out = BTreeSet::new();
    let processes = fs::read_dir("/proc").map_err(|e| Error::os("list /proc", e))?;
    for process in processes.flatten() {
        // Other entries have no such directory, and a process may have ended since.
        let Ok(fds) = fs::read_dir(process.path().join("fd")) else {
            continue;
        };
        for fd in fds.flatten() {
            let is_bpf = fs::read_link(fd.path())
                .is_ok_and(|t| t.to_string_lossy().starts_with("anon_inode:bpf"));
            if !is_bpf {
                continue;
            }
            let path = process.path().join("fdinfo").join(fd.file_name());
            let Ok(text) = fs::read_to_string(path) else {
                continue;
            };
            for line in text.lines() {
                let (key, id) = line.split_once(':').unwrap_or_default();
                let kind = match key {
                    "prog_id" => ObjectKind::Program,
                    "map_id" => ObjectKind::Map,
                    "link_id" => ObjectKind::Link,
                    _ => continue,
                };
                out.extend(id.trim().parse().ok().map(|id| (kind, id)));
            }
        }
    }
    let programs: Vec<u32> = out
        .iter()
        .filter(|(k, _)| *k == ObjectKind::Program)
        .map(|(_, id)| *id)
        .collect();
    for p in programs {
        out.extend(maps_of(p)?.into_iter().map(|m| (ObjectKind::Map, m)));
    }
    Ok(out)
}

/// Returns the BPF objects of labs that no living process owns: they belong to a dead lab and are about to be freed.
///
/// # Errors
/// As [`ours`] and [`held`].
pub fn orphans() -> Result<Vec<BpfObject>> {
    // In this order, an object that is created between the two calls is not mistaken for an orphan.
    let ours = ours()?;
    let held = held()?;
    Ok(ours
        .into_iter()
        .filter(|o| !held.contains(&(o.kind, o.id)))
        .collect())
}

/// Packs two neighbouring `u32` fields into one word, in memory order.
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
        assert!(held().unwrap().contains(&(ObjectKind::Map, mine[0].id)));
        assert!(!orphans().unwrap().contains(&mine[0]));
        assert_eq!(wait_gone(&mine, Duration::from_millis(20)).unwrap(), mine);
        drop(fd);
        assert_eq!(wait_gone(&mine, Duration::from_secs(10)).unwrap(), []);
    }
}
