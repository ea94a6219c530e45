//! Resources that the processes of a node use, as its cgroups count them.

use std::fs;
use std::path::{Path, PathBuf};

/// Resources that a node's processes have used, or use now. `None`: this host does not count it for the node's groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time since the group was created, also of ended processes, nanoseconds.
    pub cpu_ns: Option<u64>,
    /// Memory now, bytes: of processes, of their files in memory, of the page cache that they filled, and of the kernel
    /// on their behalf.
    pub memory_bytes: Option<u64>,
    /// Bytes read from block devices since the group was created. Only the controller `io` of cgroup2 counts it: newer
    /// kernels count in cgroup v1 only for groups with a limit of I/O.
    pub read_bytes: Option<u64>,
    /// Bytes written to block devices, as `read_bytes`.
    pub written_bytes: Option<u64>,
    /// Processes and threads now.
    pub processes: Option<u64>,
}

impl Usage {
    /// Reads the usage from the groups of a node, which are in different hierarchies. The first group that counts a
    /// resource is the one for it. The root of a hierarchy counts the whole host and is skipped: engines leave programs
    /// there in hierarchies that they do not use.
    #[must_use]
    pub fn of(groups: &[PathBuf]) -> Self {
        let below = || groups.iter().filter(|group| !is_root(group));
        let first = |read: &dyn Fn(&Path) -> Option<u64>| below().find_map(|group| read(group));
        Self {
            cpu_ns: first(&|group| {
                let unified = keyed(group, "cpu.stat", "usage_usec").map(|us| us * 1_000);
                unified.or_else(|| number(group, "cpuacct.usage"))
            }),
            memory_bytes: first(&|group| {
                let unified = number(group, "memory.current");
                unified.or_else(|| number(group, "memory.usage_in_bytes"))
            }),
            read_bytes: first(&|group| of_devices(group, "rbytes=")),
            written_bytes: first(&|group| of_devices(group, "wbytes=")),
            processes: first(&|group| number(group, "pids.current")),
        }
    }
}

/// Whether a group is the root of a hierarchy, by the files that only a root has, or lacks.
fn is_root(group: &Path) -> bool {
    let has = |file| group.join(file).exists();
    has("release_agent") || (has("cgroup.controllers") && !has("cgroup.type"))
}

fn number(group: &Path, file: &str) -> Option<u64> {
    let text = fs::read_to_string(group.join(file)).ok()?;
    text.trim().parse().ok()
}

/// Returns the value of a line `KEY VALUE`.
fn keyed(group: &Path, file: &str, key: &str) -> Option<u64> {
    let text = fs::read_to_string(group.join(file)).ok()?;
    let mut pairs = text.lines().filter_map(|line| line.split_once(' '));
    pairs.find(|(own, _)| *own == key)?.1.trim().parse().ok()
}

/// Sums a key of `io.stat` over all devices. A group without any I/O has an empty file.
fn of_devices(group: &Path, key: &str) -> Option<u64> {
    let text = fs::read_to_string(group.join("io.stat")).ok()?;
    let words = text.split_ascii_whitespace();
    let values = words.filter_map(|word| word.strip_prefix(key)?.parse::<u64>().ok());
    Some(values.fold(0, u64::saturating_add))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_read_and_nothing_is_invented() {
        let dir = tempfile::tempdir().unwrap();
        let group = |name: &str, files: &[(&str, &str)]| {
            let path = dir.path().join(name);
            fs::create_dir(&path).unwrap();
            for (file, text) in files {
                fs::write(path.join(file), text).unwrap();
            }
            path
        };
        let io =
            "254:0 rbytes=4096 wbytes=100 rios=1 wios=1\n254:16 rbytes=1 wbytes=28 rios=1 wios=2\n";
        let unified = group(
            "unified",
            &[
                ("cpu.stat", "usage_usec 12\nuser_usec 7\n"),
                ("memory.current", "8192\n"),
                ("io.stat", io),
                ("pids.current", "3\n"),
            ],
        );
        let all = Usage {
            cpu_ns: Some(12_000),
            memory_bytes: Some(8_192),
            read_bytes: Some(4_097),
            written_bytes: Some(128),
            processes: Some(3),
        };
        assert_eq!(Usage::of(&[unified]), all);
        // As on a hybrid host: controllers in cgroup v1, processor time in cgroup2.
        let memory = group("memory", &[("memory.usage_in_bytes", "5\n")]);
        let pids = group("pids", &[("pids.current", "1\n")]);
        let plain = group("plain", &[("cpu.stat", "usage_usec 1\n")]);
        let some = Usage {
            cpu_ns: Some(1_000),
            memory_bytes: Some(5),
            processes: Some(1),
            ..Usage::default()
        };
        assert_eq!(Usage::of(&[memory, pids, plain]), some);
        let idle = group("idle", &[("io.stat", ""), ("cpuacct.usage", "9\n")]);
        let none = Usage {
            cpu_ns: Some(9),
            read_bytes: Some(0),
            written_bytes: Some(0),
            ..Usage::default()
        };
        assert_eq!(Usage::of(&[idle]), none);
        let root = group("root", &[("release_agent", ""), ("pids.current", "4000\n")]);
        let gone = dir.path().join("gone");
        assert_eq!(Usage::of(&[root, gone]), Usage::default());
    }
}
