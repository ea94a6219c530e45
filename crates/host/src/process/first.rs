//! Setup of a container by its first process, in its namespaces: the host name, `/proc`, and its hidden or read-only
//! parts. System calls on static strings only, because its memory is the engine's.

use std::ffi::{CStr, c_ulong, c_void};
use std::ptr;

use super::errno;

const PROTECTED: c_ulong = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;

/// Files of `/proc` and `/sys` with information about the whole machine, which appear empty.
const EMPTY_FILES: [&CStr; 8] = [
    c"/proc/interrupts",
    c"/proc/kcore",
    c"/proc/keys",
    c"/proc/latency_stats",
    c"/proc/timer_list",
    c"/proc/timer_stats",
    c"/proc/sched_debug",
    c"/proc/kpagecount",
];

/// Folders with such information.
const EMPTY_FOLDERS: [&CStr; 5] = [
    c"/proc/acpi",
    c"/proc/asound",
    c"/proc/scsi",
    c"/sys/firmware",
    c"/sys/devices/virtual/powercap",
];

/// Parts of `/proc` that are read-only.
const READ_ONLY: [&CStr; 5] = [
    c"/proc/bus",
    c"/proc/fs",
    c"/proc/irq",
    c"/proc/sys",
    c"/proc/sysrq-trigger",
];

/// In the child, which is in the container's mount namespace and has a process namespace of its own.
pub(super) fn set_up(hostname: &CStr) -> Result<(), (&'static str, i32)> {
    let own = libc::CLONE_NEWUTS | libc::CLONE_NEWIPC;
    // SAFETY: a system call on a number.
    ok(unsafe { libc::unshare(own) }, "make namespaces")?;
    // SAFETY: system calls on strings that are live.
    unsafe {
        let named = libc::sethostname(hostname.as_ptr(), hostname.to_bytes().len());
        ok(named, "set the name of the machine")?;
        // This `/proc` is of the parent's process namespace.
        libc::umount2(c"/proc".as_ptr(), libc::MNT_DETACH);
    }
    mount(Some(c"proc"), c"/proc", c"proc", PROTECTED, None).map_err(|e| ("mount /proc", e))?;
    // POSIX queues belong to the namespace of the mounting process. Kernels without them do not have such a folder.
    let _ = mount(Some(c"mqueue"), c"/dev/mqueue", c"mqueue", PROTECTED, None);
    for path in READ_ONLY {
        let again = libc::MS_BIND | libc::MS_REMOUNT | libc::MS_RDONLY | PROTECTED;
        let bound = mount(Some(path), path, c"", libc::MS_BIND, None)
            .and_then(|()| mount(None, path, c"", again, None));
        unless_absent(bound).map_err(|e| ("protect files of /proc", e))?;
    }
    for path in EMPTY_FILES {
        let bound = mount(Some(c"/dev/null"), path, c"", libc::MS_BIND, None);
        unless_absent(bound).map_err(|e| ("hide files of /proc", e))?;
    }
    for path in EMPTY_FOLDERS {
        let flags = PROTECTED | libc::MS_RDONLY;
        let nothing = Some(c"size=0,nr_inodes=2");
        let hidden = mount(Some(c"tmpfs"), path, c"tmpfs", flags, nothing);
        unless_absent(hidden).map_err(|e| ("hide folders of /proc and /sys", e))?;
    }
    Ok(())
}

fn mount(
    source: Option<&CStr>,
    target: &CStr,
    kind: &CStr,
    flags: c_ulong,
    options: Option<&CStr>,
) -> Result<(), i32> {
    let pointer = |text: Option<&CStr>| text.map_or(ptr::null(), CStr::as_ptr);
    let options = pointer(options).cast::<c_void>();
    // SAFETY: all strings are live.
    let done = unsafe {
        libc::mount(
            pointer(source),
            target.as_ptr(),
            kind.as_ptr(),
            flags,
            options,
        )
    };
    ok(done, ()).map_err(|((), errno)| errno)
}

fn ok<T>(done: i32, what: T) -> Result<(), (T, i32)> {
    match done {
        0.. => Ok(()),
        _ => Err((what, errno())),
    }
}

/// Paths that this kernel does not have need not be hidden.
fn unless_absent(done: Result<(), i32>) -> Result<(), i32> {
    match done {
        Err(libc::ENOENT | libc::ENOTDIR) => Ok(()),
        other => other,
    }
}
