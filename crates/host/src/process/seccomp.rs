//! The system calls that programs of images may make.
//!
//! The filter refuses calls that reach beyond a container, or in which kernels had most of their vulnerabilities: other
//! namespaces, mounts, kernel modules, keys, other processes' memory, the clock, `io_uring`. A row with capabilities
//! does not apply to programs that have one of them. Calls that are newer than this table appear as not implemented, so
//! that programs use the older way. The same holds for the machine's other instruction sets (32-bit programs).
//!
//! Calls that reserve disk appear as not supported by the file system: a single one could take all free space before the
//! lab measures it. Programs write instead.
//!
//! All other calls are allowed: capabilities, namespaces and groups restrict them.

use std::mem::offset_of;

use super::confine::{Capability, CapabilitySet};
use super::filter::{ARCHITECTURE, answer, argument, jump, load};

/// The last system call of the table that is common to all machines (`file_setattr`, Linux 6.17).
const LAST_KNOWN: u32 = 469;

/// Calls without a name in libc yet; their numbers are the same on all machines.
const OPEN_TREE_ATTR: i64 = 467;

/// Terminal requests: `TIOCSTI`, and `TIOCLINUX`, which pastes.
const TYPE_AHEAD: u32 = 0x5412;
const CONSOLE: u32 = 0x541c;

/// Modes of `fallocate` that free space: `FALLOC_FL_PUNCH_HOLE`, `FALLOC_FL_COLLAPSE_RANGE`. All others reserve it.
const FREEING: u32 = 0x02 | 0x08;
/// Requests to files that do the same: `FS_IOC_RESVSP`, `FS_IOC_RESVSP64`, `FS_IOC_ZERO_RANGE`.
const RESERVING: [u32; 3] = [0x4030_5828, 0x4030_582a, 0x4030_5839];

/// Flags of `clone` that create namespaces.
const NEW_NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u32;

/// Personalities that do not affect protection: Linux, and its 32-bit variant, with and without old names.
const PERSONALITIES: [u32; 5] = [0, 0x0008, 0x2_0000, 0x2_0008, 0xffff_ffff];

/// A system call, and the capabilities of which one permits it.
type Row = (i64, &'static [Capability]);

use Capability as C;

/// Calls refused with `EPERM`.
const REFUSED: &[Row] = &[
    // Namespaces and mounts.
    (libc::SYS_mount, &[C::SYS_ADMIN]),
    (libc::SYS_umount2, &[C::SYS_ADMIN]),
    (libc::SYS_pivot_root, &[]),
    (libc::SYS_setns, &[C::SYS_ADMIN]),
    (libc::SYS_unshare, &[C::SYS_ADMIN]),
    (libc::SYS_open_tree, &[C::SYS_ADMIN]),
    (OPEN_TREE_ATTR, &[C::SYS_ADMIN]),
    (libc::SYS_move_mount, &[C::SYS_ADMIN]),
    (libc::SYS_fsopen, &[C::SYS_ADMIN]),
    (libc::SYS_fsconfig, &[C::SYS_ADMIN]),
    (libc::SYS_fsmount, &[C::SYS_ADMIN]),
    (libc::SYS_fspick, &[C::SYS_ADMIN]),
    (libc::SYS_mount_setattr, &[C::SYS_ADMIN]),
    (libc::SYS_open_by_handle_at, &[C::DAC_READ_SEARCH]),
    (libc::SYS_sethostname, &[C::SYS_ADMIN]),
    (libc::SYS_setdomainname, &[C::SYS_ADMIN]),
    // State of the kernel.
    (libc::SYS_init_module, &[C::SYS_MODULE]),
    (libc::SYS_finit_module, &[C::SYS_MODULE]),
    (libc::SYS_delete_module, &[C::SYS_MODULE]),
    (libc::SYS_kexec_load, &[]),
    (libc::SYS_kexec_file_load, &[]),
    (libc::SYS_reboot, &[C::SYS_BOOT]),
    (libc::SYS_bpf, &[C::SYS_ADMIN, C::BPF]),
    (libc::SYS_perf_event_open, &[C::SYS_ADMIN, C::PERFMON]),
    (libc::SYS_syslog, &[C::SYS_ADMIN, C::SYSLOG]),
    (libc::SYS_acct, &[C::SYS_PACCT]),
    (libc::SYS_swapon, &[]),
    (libc::SYS_swapoff, &[]),
    (libc::SYS_quotactl, &[C::SYS_ADMIN]),
    (libc::SYS_quotactl_fd, &[C::SYS_ADMIN]),
    (libc::SYS_nfsservctl, &[]),
    (libc::SYS_fanotify_init, &[C::SYS_ADMIN]),
    (libc::SYS_lookup_dcookie, &[C::SYS_ADMIN]),
    (libc::SYS_vhangup, &[C::SYS_TTY_CONFIG]),
    (libc::SYS_settimeofday, &[C::SYS_TIME]),
    (libc::SYS_clock_settime, &[C::SYS_TIME]),
    // Keys do not belong to namespaces.
    (libc::SYS_add_key, &[]),
    (libc::SYS_request_key, &[]),
    (libc::SYS_keyctl, &[]),
    // Other processes.
    (libc::SYS_kcmp, &[C::SYS_PTRACE]),
    (libc::SYS_pidfd_getfd, &[C::SYS_PTRACE]),
    (libc::SYS_process_vm_readv, &[C::SYS_PTRACE]),
    (libc::SYS_process_vm_writev, &[C::SYS_PTRACE]),
    (libc::SYS_process_madvise, &[C::SYS_PTRACE]),
    // Placement of memory.
    (libc::SYS_get_mempolicy, &[C::SYS_NICE]),
    (libc::SYS_set_mempolicy, &[C::SYS_NICE]),
    (libc::SYS_set_mempolicy_home_node, &[C::SYS_NICE]),
    (libc::SYS_mbind, &[C::SYS_NICE]),
    (libc::SYS_migrate_pages, &[]),
    (libc::SYS_move_pages, &[]),
    (libc::SYS_userfaultfd, &[]),
    (libc::SYS_io_uring_setup, &[]),
    (libc::SYS_io_uring_enter, &[]),
    (libc::SYS_io_uring_register, &[]),
];

/// Further refused calls that only this machine has.
#[cfg(target_arch = "x86_64")]
const OF_THIS_MACHINE: &[Row] = &[
    (libc::SYS_iopl, &[C::SYS_RAWIO]),
    (libc::SYS_ioperm, &[C::SYS_RAWIO]),
    (libc::SYS__sysctl, &[]),
    (libc::SYS_sysfs, &[]),
    (libc::SYS_uselib, &[]),
    (libc::SYS_ustat, &[]),
];
#[cfg(not(target_arch = "x86_64"))]
const OF_THIS_MACHINE: &[Row] = &[];

/// Returns the filter for programs with these capabilities.
pub(super) fn filter(capabilities: CapabilitySet) -> Vec<libc::sock_filter> {
    const REFUSE: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    const UNKNOWN: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
    const UNSUPPORTED: u32 = libc::SECCOMP_RET_ERRNO | libc::EOPNOTSUPP as u32;
    let mut filter = vec![
        load(offset_of!(libc::seccomp_data, arch)),
        jump(libc::BPF_JEQ, ARCHITECTURE, 1, 0),
        answer(UNKNOWN),
        load(offset_of!(libc::seccomp_data, nr)),
        jump(libc::BPF_JGT, LAST_KNOWN, 0, 1),
        answer(UNKNOWN),
    ];
    for (call, open_to) in REFUSED.iter().chain(OF_THIS_MACHINE) {
        if !open_to.iter().any(|one| capabilities.has(*one)) {
            filter.extend([jump(libc::BPF_JEQ, *call as u32, 0, 1), answer(REFUSE)]);
        }
    }
    if !capabilities.has(C::SYS_ADMIN) {
        // The flags of clone3 are in memory, which a filter cannot read; C libraries then use the older call.
        filter.extend([
            jump(libc::BPF_JEQ, libc::SYS_clone3 as u32, 0, 1),
            answer(UNKNOWN),
        ]);
        let check = [
            load(argument(0)),
            jump(libc::BPF_JSET, NEW_NAMESPACES, 0, 1),
            answer(REFUSE),
        ];
        about(&mut filter, libc::SYS_clone, &check);
    }
    // Hosts of virtual machines listen there, and these sockets are not separated by namespaces.
    let check = [
        load(argument(0)),
        jump(libc::BPF_JEQ, libc::AF_VSOCK as u32, 0, 1),
        answer(REFUSE),
    ];
    about(&mut filter, libc::SYS_socket, &check);
    let check = [
        load(argument(1)),
        jump(libc::BPF_JSET, FREEING, 1, 0),
        answer(UNSUPPORTED),
    ];
    about(&mut filter, libc::SYS_fallocate, &check);
    let mut check = vec![load(argument(1))];
    // `constel exec` lends its terminal, and no other process may insert input there.
    let requests = [TYPE_AHEAD, CONSOLE].map(|request| (request, REFUSE));
    let reserving = RESERVING.map(|request| (request, UNSUPPORTED));
    for (request, said) in requests.into_iter().chain(reserving) {
        check.extend([jump(libc::BPF_JEQ, request, 0, 1), answer(said)]);
    }
    about(&mut filter, libc::SYS_ioctl, &check);
    let mut check = vec![load(argument(0))];
    let last = PERSONALITIES.len() - 1;
    for (index, known) in PERSONALITIES.into_iter().enumerate() {
        check.push(jump(libc::BPF_JEQ, known, (last - index + 1) as u8, 0));
    }
    check.push(answer(REFUSE));
    about(&mut filter, libc::SYS_personality, &check);
    filter.push(answer(libc::SECCOMP_RET_ALLOW));
    filter
}

/// Adds a check of one call's arguments; a call that passes it is allowed.
fn about(filter: &mut Vec<libc::sock_filter>, call: i64, check: &[libc::sock_filter]) {
    let skip = (check.len() + 1) as u8;
    filter.push(jump(libc::BPF_JEQ, call as u32, 0, skip));
    filter.extend_from_slice(check);
    filter.push(answer(libc::SECCOMP_RET_ALLOW));
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;

    fn errno(value: i32) -> u32 {
        libc::SECCOMP_RET_ERRNO | value as u32
    }

    /// Runs a filter as the kernel does.
    fn run(filter: &[libc::sock_filter], arch: u32, call: u32, first: u32) -> u32 {
        let (mut at, mut value) = (0, 0);
        loop {
            let step = filter[at];
            at += 1;
            let code = u32::from(step.code);
            let holds = match code & !libc::BPF_K {
                c if c == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS => {
                    value = match step.k as usize {
                        0 => call,
                        4 => arch,
                        16 => first,
                        24 => first,
                        other => panic!("nothing is at {other}"),
                    };
                    continue;
                }
                c if c == libc::BPF_RET => return step.k,
                c if c == libc::BPF_JMP | libc::BPF_JEQ => value == step.k,
                c if c == libc::BPF_JMP | libc::BPF_JGT => value > step.k,
                c if c == libc::BPF_JMP | libc::BPF_JSET => value & step.k != 0,
                other => panic!("code {other}"),
            };
            at += usize::from(if holds { step.jt } else { step.jf });
        }
    }

    fn says(filter: &[libc::sock_filter], call: i64, first: u32) -> u32 {
        run(filter, ARCHITECTURE, call as u32, first)
    }

    #[test]
    fn calls_that_reach_out_are_refused_unless_a_capability_opens_them() {
        let plain = filter(CapabilitySet::default_of_containers());
        for call in [
            libc::SYS_mount,
            libc::SYS_bpf,
            libc::SYS_keyctl,
            libc::SYS_io_uring_setup,
            libc::SYS_reboot,
            libc::SYS_settimeofday,
        ] {
            assert_eq!(says(&plain, call, 0), errno(libc::EPERM), "call {call}");
        }
        for call in [
            libc::SYS_read,
            libc::SYS_execve,
            libc::SYS_setuid,
            libc::SYS_capset,
            libc::SYS_chroot,
            libc::SYS_ptrace,
        ] {
            assert_eq!(says(&plain, call, 0), ALLOW, "call {call}");
        }
        let admin = filter(CapabilitySet::of([Capability::SYS_ADMIN]));
        assert_eq!(says(&admin, libc::SYS_mount, 0), ALLOW);
        assert_eq!(says(&admin, libc::SYS_clone3, 0), ALLOW);
        assert_eq!(says(&admin, libc::SYS_keyctl, 0), errno(libc::EPERM));
        assert_eq!(
            says(&admin, libc::SYS_settimeofday, 0),
            errno(libc::EPERM),
            "another one's"
        );
    }

    #[test]
    fn arguments_decide_where_a_call_has_two_faces() {
        let plain = filter(CapabilitySet::default_of_containers());
        let thread = (libc::CLONE_VM | libc::CLONE_THREAD) as u32;
        assert_eq!(says(&plain, libc::SYS_clone, thread), ALLOW);
        let user = libc::CLONE_NEWUSER as u32;
        assert_eq!(says(&plain, libc::SYS_clone, user), errno(libc::EPERM));
        assert_eq!(says(&plain, libc::SYS_clone3, 0), errno(libc::ENOSYS));
        assert_eq!(says(&plain, libc::SYS_socket, libc::AF_INET as u32), ALLOW);
        let vsock = libc::AF_VSOCK as u32;
        assert_eq!(says(&plain, libc::SYS_socket, vsock), errno(libc::EPERM));
        let typed = says(&plain, libc::SYS_ioctl, TYPE_AHEAD);
        assert_eq!(typed, errno(libc::EPERM));
        let size = 0x5413;
        assert_eq!(says(&plain, libc::SYS_ioctl, size), ALLOW);
        let keep_size = libc::FALLOC_FL_KEEP_SIZE as u32;
        for mode in [0, keep_size, libc::FALLOC_FL_ZERO_RANGE as u32] {
            let said = says(&plain, libc::SYS_fallocate, mode);
            assert_eq!(said, errno(libc::EOPNOTSUPP), "mode {mode}");
        }
        let hole = keep_size | libc::FALLOC_FL_PUNCH_HOLE as u32;
        assert_eq!(says(&plain, libc::SYS_fallocate, hole), ALLOW);
        for request in RESERVING {
            let said = says(&plain, libc::SYS_ioctl, request);
            assert_eq!(said, errno(libc::EOPNOTSUPP), "{request:#x}");
        }
        for known in PERSONALITIES {
            assert_eq!(says(&plain, libc::SYS_personality, known), ALLOW, "{known}");
        }
        let no_random = 0x0004_0000;
        let said = says(&plain, libc::SYS_personality, no_random);
        assert_eq!(said, errno(libc::EPERM));
    }

    #[test]
    fn calls_of_tomorrow_and_of_other_machines_do_not_exist() {
        let plain = filter(CapabilitySet::of([Capability::SYS_ADMIN]));
        let unknown = errno(libc::ENOSYS);
        assert_eq!(says(&plain, i64::from(LAST_KNOWN) + 1, 0), unknown);
        assert_eq!(run(&plain, 0x4000_0003, libc::SYS_read as u32, 0), unknown);
        // The x32 kind of calls.
        assert_eq!(says(&plain, 0x4000_0000, 0), unknown);
    }
}
