//! Other users of the processors: on a busy host, the slowest of many probes measures the host.

use std::fs;
use std::time::Instant;

/// Processor time so far: of everybody, and of those that belong to the test. Ticks of 10 ms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    at: Instant,
    all: u64,
    ours: u64,
}

impl Load {
    /// Now; `constel` is the process of the lab.
    pub(crate) fn now(constel: u32) -> Load {
        let text = fs::read_to_string("/proc/stat").unwrap();
        let cpu = text.lines().next().unwrap();
        // user, nice, system, and what a hypervisor took. Interrupts are left out: carrying frames is our own
        // doing, and so is resting.
        let fields = cpu.split_ascii_whitespace().skip(1);
        let all = [0, 1, 2, 7]
            .map(|n| fields.clone().nth(n).unwrap_or("0"))
            .into_iter();
        Load {
            at: Instant::now(),
            all: all.map(|n| n.parse::<u64>().unwrap()).sum(),
            ours: used(constel) + used(std::process::id()),
        }
    }

    /// Cores used by others since then, on average.
    pub(crate) fn others_since(self, constel: u32) -> f64 {
        let now = Load::now(constel);
        let ticks = (now.all - self.all).saturating_sub(now.ours - self.ours);
        ticks as f64 / 100.0 / (now.at - self.at).as_secs_f64()
    }
}

/// Fields 14 to 17 of `/proc/PID/stat`: user and system time, and those of children waited for.
fn used(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let fields = after_name.split_ascii_whitespace().skip(11).take(4);
    fields.map(|n| n.parse::<u64>().unwrap_or(0)).sum()
}
