//! Facts about this machine from `/proc`.

use std::fs;
use std::thread::available_parallelism;

use constel_host::limits::memory_bytes;

/// Returns the number of processors that this process may use.
pub(crate) fn cores() -> u32 {
    available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX))
}

/// Returns the total memory in bytes, or 0 if it cannot be read.
pub(crate) fn memory() -> u64 {
    memory_bytes("MemTotal:").unwrap_or(0)
}

/// Returns the host name.
#[must_use]
pub fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// Returns the load average of the last minute: tasks that ran or waited.
pub(crate) fn load() -> f64 {
    load_of(&fs::read_to_string("/proc/loadavg").unwrap_or_default())
}

fn load_of(text: &str) -> f64 {
    let first = text.split_ascii_whitespace().next();
    first.and_then(|number| number.parse().ok()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_the_means_is_taken() {
        assert_eq!(load_of("0.52 0.58 0.59 1/467 12345\n"), 0.52);
        assert_eq!(load_of(""), 0.0);
    }

    #[test]
    fn this_machine_has_something() {
        assert!(cores() >= 1 && memory() > 1 << 20 && !host_name().is_empty());
    }
}
