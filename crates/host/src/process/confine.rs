//! Rights of a container's program: its user, its capabilities, and the system calls it may make.
//!
//! Everything is prepared before there is a child. The child applies it with system calls only, between `vfork` and
//! `exec`. It does not use the C library's functions for users and groups, which would change those of the calling
//! process.

use std::ffi::{c_int, c_long};

use serde::{Deserialize, Serialize};

use super::errno;
use super::{deaf, filter, seccomp};

/// A capability, by the kernel's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capability(pub u8);

#[allow(missing_docs, reason = "capabilities(7) says what each is")]
impl Capability {
    pub const CHOWN: Self = Self(0);
    pub const DAC_OVERRIDE: Self = Self(1);
    pub const DAC_READ_SEARCH: Self = Self(2);
    pub const FOWNER: Self = Self(3);
    pub const FSETID: Self = Self(4);
    pub const KILL: Self = Self(5);
    pub const SETGID: Self = Self(6);
    pub const SETUID: Self = Self(7);
    pub const SETPCAP: Self = Self(8);
    pub const NET_BIND_SERVICE: Self = Self(10);
    pub const NET_RAW: Self = Self(13);
    pub const SYS_MODULE: Self = Self(16);
    pub const SYS_RAWIO: Self = Self(17);
    pub const SYS_CHROOT: Self = Self(18);
    pub const SYS_PTRACE: Self = Self(19);
    pub const SYS_PACCT: Self = Self(20);
    pub const SYS_ADMIN: Self = Self(21);
    pub const SYS_BOOT: Self = Self(22);
    pub const SYS_NICE: Self = Self(23);
    pub const SYS_TIME: Self = Self(25);
    pub const SYS_TTY_CONFIG: Self = Self(26);
    pub const AUDIT_WRITE: Self = Self(29);
    pub const SETFCAP: Self = Self(31);
    pub const SYSLOG: Self = Self(34);
    pub const PERFMON: Self = Self(38);
    pub const BPF: Self = Self(39);
}

/// The highest number that a capability can have: the kernel keeps them in 64 bits.
const LAST: u8 = 63;

/// A set of capabilities: bit N is capability N.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CapabilitySet(pub u64);

impl CapabilitySet {
    /// Returns the set of these capabilities.
    pub fn of(all: impl IntoIterator<Item = Capability>) -> Self {
        Self(all.into_iter().fold(0, |set, one| set | 1 << one.0))
    }

    /// Returns the default set of container engines, without `MKNOD`: no other mechanism limits the devices that a node
    /// may open.
    #[must_use]
    pub fn default_of_containers() -> Self {
        use Capability as C;
        Self::of([
            C::CHOWN,
            C::DAC_OVERRIDE,
            C::FOWNER,
            C::FSETID,
            C::KILL,
            C::SETGID,
            C::SETUID,
            C::SETPCAP,
            C::NET_BIND_SERVICE,
            C::NET_RAW,
            C::SYS_CHROOT,
            C::AUDIT_WRITE,
            C::SETFCAP,
        ])
    }

    /// Returns whether the set has this capability.
    #[must_use]
    pub fn has(self, one: Capability) -> bool {
        self.0 & (1 << one.0) != 0
    }
}

/// Rights of a program, and its user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// User id.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// Further groups.
    pub groups: Vec<u32>,
    /// Maximum set for it and the programs that it executes. Root has all of them.
    pub capabilities: CapabilitySet,
    /// Those of them that a user other than root has too.
    pub ambient: CapabilitySet,
    /// Whether system calls that reach beyond a container are refused.
    pub filtered: bool,
    /// Whether executing a file cannot add rights: neither by `setuid` nor by file capabilities.
    pub no_new_privileges: bool,
    /// Whether it receives no announcements of the kernel: binding a netlink socket fails.
    pub deaf: bool,
}

/// Step at which the child failed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Bounds,
    Filter,
    Groups,
    User,
    Capabilities,
    Privileges,
}

impl Step {
    /// Returns a description of the failed step.
    pub(super) fn words(self) -> &'static str {
        match self {
            Step::Bounds => "limit the capabilities of",
            Step::Filter => "filter the system calls of",
            Step::Groups => "set the groups of",
            Step::User => "set the user of",
            Step::Capabilities => "set the capabilities of",
            Step::Privileges => "forbid new privileges to",
        }
    }
}

/// A prepared confinement.
pub(super) struct Prepared {
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
    bounds: u64,
    /// Capabilities between now and `exec`, which determine those after it.
    own: u64,
    ambient: u64,
    filter: Vec<libc::sock_filter>,
    no_new_privileges: bool,
    deaf: bool,
}

/// The kernel's `struct __user_cap_header_struct`; capabilities are split into halves.
#[repr(C)]
struct Header {
    version: u32,
    pid: c_int,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Half {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// `_LINUX_CAPABILITY_VERSION_3`
const VERSION: u32 = 0x2008_0522;

impl Prepared {
    pub(super) fn new(confinement: &Confinement) -> Self {
        let bounds = confinement.capabilities.0;
        // At `exec`, root gets the whole bounding set.
        let (own, ambient) = match confinement.uid {
            0 => (bounds, 0),
            _ => {
                let ambient = bounds & confinement.ambient.0;
                (ambient, ambient)
            }
        };
        Self {
            uid: confinement.uid,
            gid: confinement.gid,
            groups: confinement.groups.clone(),
            bounds,
            own,
            ambient,
            filter: match confinement.filtered {
                true => seccomp::filter(confinement.capabilities),
                false => Vec::new(),
            },
            no_new_privileges: confinement.no_new_privileges,
            deaf: confinement.deaf,
        }
    }

    /// In the child, which has been root so far: applies the confinement. System calls only.
    pub(super) fn take_on(&self) -> Result<(), (Step, i32)> {
        // Until it executes, its memory is the engine's: a process with the same reduced rights must not be able to
        // read it. The engine keeps this setting too, which does not restrict root.
        let closed = [libc::PR_SET_DUMPABLE as usize, 0, 0];
        call(libc::SYS_prctl, closed).map_err(|errno| (Step::Privileges, errno))?;
        for number in 0..=LAST {
            if self.bounds & (1 << number) != 0 {
                continue;
            }
            let done = call(
                libc::SYS_prctl,
                [libc::PR_CAPBSET_DROP as usize, number.into(), 0],
            );
            match done {
                Ok(()) => {}
                // The kernel does not have further capabilities.
                Err(libc::EINVAL) => break,
                Err(errno) => return Err((Step::Bounds, errno)),
            }
        }
        // While it may still install a filter without giving up new privileges.
        if self.deaf {
            deaf::enter().map_err(|errno| (Step::Filter, errno))?;
        }
        if !self.filter.is_empty() {
            filter::take_on(&self.filter).map_err(|errno| (Step::Filter, errno))?;
        }
        let groups = [self.groups.len(), self.groups.as_ptr() as usize, 0];
        call(libc::SYS_setgroups, groups).map_err(|errno| (Step::Groups, errno))?;
        let [uid, gid] = [self.uid as usize, self.gid as usize];
        call(libc::SYS_setresgid, [gid; 3]).map_err(|errno| (Step::Groups, errno))?;
        let keep = [libc::PR_SET_KEEPCAPS as usize, 1, 0];
        call(libc::SYS_prctl, keep).map_err(|errno| (Step::User, errno))?;
        call(libc::SYS_setresuid, [uid; 3]).map_err(|errno| (Step::User, errno))?;
        self.set_capabilities()
            .map_err(|errno| (Step::Capabilities, errno))?;
        if self.no_new_privileges {
            // The kernel checks five arguments: the last two must be 0.
            let never = [libc::PR_SET_NO_NEW_PRIVS as usize, 1, 0];
            call(libc::SYS_prctl, never).map_err(|errno| (Step::Privileges, errno))?;
        }
        Ok(())
    }

    fn set_capabilities(&self) -> Result<(), i32> {
        let header = Header {
            version: VERSION,
            pid: 0,
        };
        let half = |shift: u32| {
            let own = (self.own >> shift) as u32;
            Half {
                effective: own,
                permitted: own,
                inheritable: (self.ambient >> shift) as u32,
            }
        };
        let halves = [half(0), half(32)];
        let set = [&raw const header as usize, halves.as_ptr() as usize, 0];
        call(libc::SYS_capset, set)?;
        for number in (0..=LAST).filter(|number| self.ambient & (1 << number) != 0) {
            let raise = [
                libc::PR_CAP_AMBIENT as usize,
                libc::PR_CAP_AMBIENT_RAISE as usize,
                number.into(),
            ];
            call(libc::SYS_prctl, raise)?;
        }
        Ok(())
    }
}

/// Makes a system call whose further arguments are 0; the error is its error number.
fn call(number: c_long, [a, b, c]: [usize; 3]) -> Result<(), i32> {
    let none = 0usize;
    // SAFETY: pointers among the arguments refer to values that outlive the call, and the calls of this file do not
    // write to memory.
    let done = unsafe { libc::syscall(number, a, b, c, none, none) };
    if done < 0 {
        return Err(errno());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_has_the_bounds_others_what_they_were_given() {
        let asked = Confinement {
            uid: 0,
            gid: 0,
            groups: Vec::new(),
            capabilities: CapabilitySet::of([Capability::CHOWN, Capability::NET_RAW]),
            ambient: CapabilitySet::of([Capability::NET_RAW, Capability::SYS_ADMIN]),
            filtered: false,
            no_new_privileges: true,
            deaf: false,
        };
        let root = Prepared::new(&asked);
        assert_eq!((root.own, root.ambient), (1 | 1 << 13, 0));
        let other = Prepared::new(&Confinement { uid: 7, ..asked });
        assert_eq!((other.own, other.ambient), (1 << 13, 1 << 13));
        assert!(other.filter.is_empty());
    }
}
