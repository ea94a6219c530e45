//! Runs targets in processes of their own, and watches them.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::param::clock_ticks_per_second;
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

use crate::Args;
use crate::mutate::Mutator;
use crate::targets::Target;

/// Maximum memory that a target may map, bytes.
const MOST_MEMORY_BYTES: u64 = 2 << 30;
/// Maximum processor time of one input of at most 256 KiB. Wall-clock time is not used, because targets run beside other work.
const LONGEST: Duration = Duration::from_secs(10);
/// A target that waits uses no processor time; it is ended after this time without progress.
const STANDS_STILL: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The progress of a working process: numbers in a file, because the process may end in any way.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    /// The number of the current input.
    number: u64,
    accepted: u64,
    slowest_ns: u64,
}

impl Progress {
    fn write(&self, to: &File) -> std::io::Result<()> {
        let words = [self.number, self.accepted, self.slowest_ns];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        to.write_all_at(&bytes, 0)
    }

    fn read(from: &File) -> Self {
        let mut words = [0; 3];
        for (place, word) in words.iter_mut().enumerate() {
            let mut bytes = [0; 8];
            // The file is still empty: nothing has been done yet.
            if from.read_exact_at(&mut bytes, place as u64 * 8).is_ok() {
                *word = u64::from_le_bytes(bytes);
            }
        }
        let [number, accepted, slowest_ns] = words;
        Self {
            number,
            accepted,
            slowest_ns,
        }
    }
}

/// Returns the processor time of this process.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Returns the processor time of another process from the kernel, in steps of 10 ms.
fn cpu_time_of(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The program's name comes before these fields and may contain anything.
    let fields = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace();
    let ticks: u64 = fields
        .skip(11)
        .take(2)
        .filter_map(|t| t.parse::<u64>().ok())
        .sum();
    Duration::from_millis(ticks * 1000 / clock_ticks_per_second().max(1))
}

/// Runs one target in this process for a given processor time.
pub(crate) fn work(
    target: &Target,
    seed: u64,
    seconds: u64,
    progress: &Path,
) -> anyhow::Result<()> {
    let limit = Rlimit {
        current: Some(MOST_MEMORY_BYTES),
        maximum: Some(MOST_MEMORY_BYTES),
    };
    setrlimit(Resource::As, limit)?;
    let told = File::options().write(true).open(progress)?;
    let seeds = (target.seeds)();
    let mutator = Mutator::new(target.name, seed, &seeds);
    let until = cpu_time() + Duration::from_secs(seconds);
    let mut done = Progress::default();
    while cpu_time() < until {
        done.write(&told)?;
        let input = mutator.input(done.number);
        let begun = cpu_time();
        done.accepted += u64::from((target.run)(&input));
        let took = cpu_time() - begun;
        done.slowest_ns = done.slowest_ns.max(took.as_nanos() as u64);
        done.number += 1;
    }
    done.write(&told)?;
    Ok(())
}

/// Runs all targets, several in parallel; returns the number of targets that failed.
pub(crate) fn all(targets: &[&Target], args: &Args) -> anyhow::Result<usize> {
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get());
    let jobs = args
        .jobs
        .unwrap_or(processors)
        .clamp(1, targets.len().max(1));
    let (next, found) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let wrong = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match watched(target, args) {
                        Ok(true) => {}
                        Ok(false) => drop(found.fetch_add(1, Ordering::Relaxed)),
                        Err(error) => {
                            wrong
                                .lock()
                                .unwrap_or_else(|e| e.into_inner())
                                .get_or_insert(error);
                        }
                    }
                }
            });
        }
    });
    match wrong.into_inner().unwrap_or_else(|e| e.into_inner()) {
        Some(error) => Err(error),
        None => Ok(found.into_inner()),
    }
}

/// Runs a target in a process of its own; returns whether it found no failure.
fn watched(target: &Target, args: &Args) -> anyhow::Result<bool> {
    let progress = tempfile::NamedTempFile::new()?;
    let mut child = Command::new(std::env::current_exe()?)
        .arg(target.name)
        .args(["--seconds", &args.seconds.to_string()])
        .args(["--seed", &args.seed.to_string()])
        .arg("--progress")
        .arg(progress.path())
        .stdin(Stdio::null())
        .spawn()
        .context("start a target's process")?;
    let pid = child.id();
    let (mut last, mut since, mut spent) = (0, Instant::now(), Duration::ZERO);
    let ended = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        let now = Progress::read(progress.as_file()).number;
        if now != last {
            (last, since, spent) = (now, Instant::now(), cpu_time_of(pid));
        }
        let took = cpu_time_of(pid).saturating_sub(spent);
        if took > LONGEST || since.elapsed() > STANDS_STILL {
            child.kill()?;
            child.wait()?;
            break None;
        }
        std::thread::sleep(LOOK_EVERY);
    };
    let done = Progress::read(progress.as_file());
    if ended.is_some_and(|status| status.success()) {
        let share = done.accepted as f64 * 100.0 / done.number.max(1) as f64;
        println!(
            "{:<22} {:>9} inputs, {share:5.1} % accepted, slowest {:.3} s",
            target.name,
            done.number,
            done.slowest_ns as f64 / 1e9
        );
        return Ok(true);
    }
    let file = keep(target, args, done.number)?;
    println!(
        "{:<22} FOUND: {} at input {}: {}; again: tools/fuzz {} --input {}",
        target.name,
        how(ended),
        done.number,
        file.display(),
        target.name,
        file.display()
    );
    Ok(false)
}

fn how(ended: Option<ExitStatus>) -> String {
    match ended {
        None => format!("no end after {} s", LONGEST.as_secs()),
        Some(status) => match status.signal() {
            Some(signal) => {
                format!("signal {signal} (memory beyond {MOST_MEMORY_BYTES} bytes, or a stack)")
            }
            None => "a panic".to_owned(),
        },
    }
}

/// Writes the input to a file, from which it can be run again.
fn keep(target: &Target, args: &Args, number: u64) -> anyhow::Result<PathBuf> {
    let seeds = (target.seeds)();
    let input = Mutator::new(target.name, args.seed, &seeds).input(number);
    std::fs::create_dir_all(&args.found)?;
    let file = args
        .found
        .join(format!("{}-{}-{number}", target.name, args.seed));
    std::fs::write(&file, input)?;
    Ok(file)
}
