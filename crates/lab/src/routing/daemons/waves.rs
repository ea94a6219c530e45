//! The start of many daemons: a few at a time, in order, as fast as the machine allows.
//!
//! A start waits until the new process executes its program, and that process waits for a processor behind all
//! daemons that have work. Started one after the other, daemons would wait for each of these queues in turn;
//! several at a time wait together.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use constel_host::limits::memory_bytes;
use constel_host::process::Child;
use constel_host::threads::results_of;

use super::crew::Key;
use crate::error::EngineError;
use crate::progress::Stage;
use crate::routing::limit::Limit;
use crate::routing::start::{Decision, Sight, StartControl, runnable};

/// The number of simultaneous starts, per processor.
const AT_ONCE: usize = 2;

/// A running daemon, and the time of its start.
pub(super) type Started = (Key, Child, Instant);

/// Waves of starts. Each begins when the one before is complete.
pub(super) struct Waves<'a> {
    turns: Mutex<StartControl>,
    started: Mutex<Vec<Started>>,
    stage: &'a Stage<'a>,
    stopped: &'a AtomicBool,
    limit: Option<&'a Limit>,
    began: Instant,
}

impl<'a> Waves<'a> {
    /// Creates the state before any start.
    pub(super) fn new(
        control: StartControl,
        stage: &'a Stage<'a>,
        stopped: &'a AtomicBool,
        limit: Option<&'a Limit>,
    ) -> Self {
        Self {
            turns: Mutex::new(control),
            started: Mutex::default(),
            stage,
            stopped,
            limit,
            began: Instant::now(),
        }
    }

    /// Starts all daemons of a wave with `start`.
    ///
    /// # Errors
    /// The error of the first start that failed; no more are begun then.
    pub(super) fn start(
        &self,
        wave: &[Key],
        start: impl Fn(Key) -> Result<Child, EngineError> + Sync,
    ) -> Result<(), EngineError> {
        let failed = AtomicBool::new(false);
        let queue = Mutex::new(wave.iter().copied());
        let hand = || -> Result<(), EngineError> {
            loop {
                // The lock is held during the wait: its owner has the next turn.
                let mut turns = self.turns.lock().unwrap_or_else(|e| e.into_inner());
                if failed.load(Ordering::Acquire) {
                    return Ok(());
                }
                let next = queue.lock().unwrap_or_else(|e| e.into_inner()).next();
                let Some(key) = next else { return Ok(()) };
                self.wait_for_turn(&mut turns)?;
                drop(turns);
                let child = start(key)?;
                let mut started = self.started.lock().unwrap_or_else(|e| e.into_inner());
                started.push((key, child, Instant::now()));
                self.stage.reach(started.len() as u64);
            }
        };
        thread::scope(|scope| {
            let watched = || {
                let done = hand();
                // The flag stops the other threads before their next start.
                failed.fetch_or(done.is_err(), Ordering::AcqRel);
                done
            };
            // There are more threads than processors, because most of them wait for new processes to execute their
            // programs.
            let hands: Vec<_> = (0..AT_ONCE * processors())
                .map(|_| scope.spawn(watched))
                .collect();
            results_of(hands).into_iter().collect()
        })
    }

    fn count(&self) -> usize {
        let started = self.started.lock().unwrap_or_else(|e| e.into_inner());
        started.len()
    }

    /// Returns the time for which starts were delayed because the machine was busy, seconds.
    pub(super) fn held_back_s(&self) -> f64 {
        let turns = self.turns.lock().unwrap_or_else(|e| e.into_inner());
        turns.waited_s()
    }

    /// Returns all running daemons.
    pub(super) fn started(self) -> Vec<Started> {
        self.started.into_inner().unwrap_or_else(|e| e.into_inner())
    }

    /// Waits until the machine can run one more daemon.
    fn wait_for_turn(&self, control: &mut StartControl) -> Result<(), EngineError> {
        loop {
            if self.stopped.load(Ordering::Acquire) {
                return Err(EngineError::Interrupted);
            }
            if let Some(limit) = self.limit {
                limit.check(|| format!("only {} daemons are started", self.count()))?;
            }
            // Read at each turn: the memory of the daemons that were just started shows only later.
            let sight = Sight {
                now_s: self.began.elapsed().as_secs_f64(),
                runnable: runnable(),
                available_bytes: memory_bytes("MemAvailable:").unwrap_or(u64::MAX),
            };
            match control.decide(sight) {
                Decision::Start => return Ok(()),
                Decision::Wait(s) => thread::sleep(Duration::from_secs_f64(s)),
                Decision::Stop => {
                    let started = self.count();
                    return Err(EngineError::Unable {
                        what: format!(
                            "after {started} daemons, only {} MiB of memory are left",
                            sight.available_bytes >> 20
                        ),
                        remedy: "use a smaller constellation, or areas (`routing.ospf.areas`)"
                            .to_owned(),
                    });
                }
            }
        }
    }
}

/// Returns the number of processors of this machine.
pub(super) fn processors() -> usize {
    thread::available_parallelism().map_or(1, |n| n.get())
}
