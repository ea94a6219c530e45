//! A witness of the host's hiccups: a real-time thread on every processor that asks to be woken every two
//! milliseconds and notes when it was not. Lateness up to that of the witness is not the relay's.
//! (More often would be seen by what is measured: a virtual machine's timers are dear.)

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use super::lab::mono_ns;
use super::probe::{real_time, sleep_until};

const EVERY_NS: i64 = 2_000_000;
/// Waking up takes some time always.
const LATE_NS: i64 = 400_000;

/// A span of `CLOCK_MONOTONIC` (or of lab time) in which the host did not run what wanted to run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hiccup {
    pub(crate) from_ns: i64,
    pub(crate) to_ns: i64,
}

/// How much of this span lies in hiccups; where several witnesses saw the same, it counts once.
pub(crate) fn stood_still_ns(hiccups: &[Hiccup], from_ns: i64, to_ns: i64) -> i64 {
    let mut within: Vec<(i64, i64)> = hiccups
        .iter()
        .map(|h| (h.from_ns.max(from_ns), h.to_ns.min(to_ns)))
        .filter(|(from, to)| from < to)
        .collect();
    within.sort_unstable();
    let mut counted_to = from_ns;
    let mut sum = 0;
    for (from, to) in within {
        sum += (to - from.max(counted_to)).max(0);
        counted_to = counted_to.max(to);
    }
    sum
}

/// The threads.
pub(crate) struct Witness {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Vec<Hiccup>>>,
}

impl Witness {
    /// Begins.
    pub(crate) fn begin() -> Witness {
        let stop = Arc::new(AtomicBool::new(false));
        let cpus = std::thread::available_parallelism().map_or(1, |n| n.get());
        let threads = (0..cpus)
            .map(|cpu| {
                let stop = Arc::clone(&stop);
                std::thread::spawn(move || watch(cpu, &stop))
            })
            .collect();
        Witness { stop, threads }
    }

    /// Ends, and returns the times at which the host stood still.
    pub(crate) fn end(self) -> Vec<Hiccup> {
        self.stop.store(true, Ordering::Relaxed);
        self.threads
            .into_iter()
            .flat_map(|t| t.join().unwrap())
            .collect()
    }
}

fn watch(cpu: usize, stop: &AtomicBool) -> Vec<Hiccup> {
    // SAFETY: an all-zero set is valid; the call is about the calling thread. If that processor is not allowed,
    // the thread watches on every one.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
    real_time();
    let mut hiccups = Vec::new();
    let mut due = mono_ns() + EVERY_NS;
    while !stop.load(Ordering::Relaxed) {
        sleep_until(due);
        let now = mono_ns();
        if now - due > LATE_NS {
            // It may have begun just after the wake-up before.
            hiccups.push(Hiccup {
                from_ns: due - EVERY_NS,
                to_ns: now,
            });
        }
        due = (due + EVERY_NS).max(now + EVERY_NS / 2);
    }
    hiccups
}
