//! A stretch of lab time and the instants in it that are looked at.

use std::num::NonZeroU64;

use constel_topology::{Effort, Snapshot, StepRefusal, Stepper};
use constel_units::TimeSpan;

use constel_plan::Lab;

/// Samples of `[from, to)`, one every `every`, on step starts of the lab. Decisions (which satellite serves
/// which station, which lasers are up) are made at step starts only, so with `every` equal to the step no
/// change is missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    from_ns: u64,
    to_ns: u64,
    every: NonZeroU64,
    step_ns: u64,
}

/// Why an interval cannot be looked at.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IntervalError {
    /// Lab time starts at zero.
    #[error("lab time {0} is before the start of the lab")]
    BeforeStart(TimeSpan),
    /// The end is not after the beginning.
    #[error("the interval from {from} to {to} is empty")]
    Empty {
        /// Its beginning.
        from: TimeSpan,
        /// Its end.
        to: TimeSpan,
    },
    /// Samples lie on step starts.
    #[error("{what} is {value}, which is not a whole number of the scenario's steps of {step}")]
    OffStep {
        /// `from`, `to` or `every`.
        what: &'static str,
        /// Its value.
        value: TimeSpan,
        /// The scenario's step.
        step: TimeSpan,
    },
    /// `every` must be positive.
    #[error("samples every {0} never end")]
    NoProgress(TimeSpan),
    /// Time ends in 2262.
    #[error("lab time {0} is beyond the year 2262")]
    BeyondTime(TimeSpan),
    /// The state at its start cannot be computed within some seconds.
    #[error(transparent)]
    Unreached(#[from] StepRefusal),
}

impl Interval {
    /// Returns the interval `[from, to)` of `lab` with samples every `every` (its step if `None`). It may reach
    /// beyond the scenario's duration: a plan is a pure function of time.
    ///
    /// # Errors
    /// Times that are not on the lab's steps, or that are not an interval.
    pub fn new(
        lab: &Lab,
        from: TimeSpan,
        to: TimeSpan,
        every: Option<TimeSpan>,
    ) -> Result<Self, IntervalError> {
        let step_ns = lab.step_ns();
        let step = lab.scenario.step;
        let every = every.unwrap_or(step);
        let from_ns = u64::try_from(from.ns()).map_err(|_| IntervalError::BeforeStart(from))?;
        let to_ns = u64::try_from(to.ns()).map_err(|_| IntervalError::BeforeStart(to))?;
        let every_ns = u64::try_from(every.ns())
            .ok()
            .and_then(NonZeroU64::new)
            .ok_or(IntervalError::NoProgress(every))?;
        if to_ns <= from_ns {
            return Err(IntervalError::Empty { from, to });
        }
        for (what, value, ns) in [
            ("the beginning", from, from_ns),
            ("the end", to, to_ns),
            ("the sampling", every, every_ns.get()),
        ] {
            if ns % step_ns != 0 {
                return Err(IntervalError::OffStep { what, value, step });
            }
        }
        // One more step, because the slope of a delay needs the position at the step's end.
        let last = TimeSpan::from_ns(to.ns().saturating_add(step.ns()));
        lab.scenario
            .start
            .checked_add(last)
            .ok_or(IntervalError::BeyondTime(to))?;
        let mut stepper = lab.stepper();
        if from_ns > 0 && stepper.look_back().is_none() {
            // An interval that will be refused is refused before the first sample.
            let mut effort = Effort::new(Effort::QUESTION, &|| true);
            drop(stepper.try_step(from_ns / step_ns, &mut effort)?);
        }
        Ok(Self {
            from_ns,
            to_ns,
            every: every_ns,
            step_ns,
        })
    }

    /// First instant, nanoseconds of lab time.
    pub fn from_ns(&self) -> u64 {
        self.from_ns
    }

    /// End, nanoseconds of lab time; not part of the interval.
    pub fn to_ns(&self) -> u64 {
        self.to_ns
    }

    /// Time between two samples, nanoseconds.
    pub fn every_ns(&self) -> u64 {
        self.every.get()
    }

    /// How many samples there are, at least 1.
    pub fn samples(&self) -> u64 {
        (self.to_ns - self.from_ns).div_ceil(self.every.get())
    }

    /// Lab time of a sample.
    pub fn at(&self, sample: u64) -> u64 {
        self.from_ns + sample * self.every.get()
    }

    /// Returns the end of the time that a sample represents: the next one's time, or the end.
    pub(crate) fn end_of(&self, sample: u64) -> u64 {
        (self.at(sample) + self.every.get()).min(self.to_ns)
    }

    /// Returns the step of a sample.
    fn step(&self, sample: u64) -> u64 {
        self.at(sample) / self.step_ns
    }

    /// Shows the snapshot of every sample to `look`, in order, with the sample's number. Members of networks that start
    /// `away` have no edges.
    pub fn visit(&self, lab: &Lab, mut look: impl FnMut(u64, &Snapshot)) {
        let at_start = lab.at_start();
        self.walk(lab, 0..self.samples(), |sample, snapshot| {
            look(sample, at_start(snapshot).as_ref().unwrap_or(snapshot))
        });
    }

    /// Shows the snapshot of every sample in `samples` to `look`, in order.
    fn walk(&self, lab: &Lab, samples: std::ops::Range<u64>, mut look: impl FnMut(u64, &Snapshot)) {
        let mut stepper = lab.stepper();
        let mut scouts = true;
        if samples.is_empty() {
            return;
        }
        // Cheap if little of the past matters; the limit was checked when the interval was made.
        let mut snapshot = stepper.at_step(self.step(samples.start));
        look(samples.start, &snapshot);
        for sample in samples.start + 1..samples.end {
            let step = self.step(sample);
            // Jumping costs the steps a snapshot can depend on; stepping costs those in between.
            let between = step - stepper.next_step();
            let jumped = match stepper.look_back() {
                Some(steps) => (steps < between).then(|| stepper.at_step(step)),
                None => {
                    let jumped = scouts.then(|| scout(lab, step, between)).flatten();
                    scouts &= between < WORTH_SCOUTING || jumped.is_some();
                    jumped.map(|(there, seen)| {
                        stepper = there;
                        seen
                    })
                }
            };
            match jumped {
                Some(seen) => snapshot = seen,
                None => {
                    while stepper.next_step() <= step {
                        stepper.advance_into(&mut snapshot);
                    }
                }
            }
            look(sample, &snapshot);
        }
    }

    /// Walks the interval in up to `threads` parts at the same time, each with an accumulator of its own, and
    /// gives the accumulators in order of time. How many parts there are must not matter to the caller's result.
    /// If a step depends on all before it, there is one part. Members of networks that start `away` have no edges.
    pub(crate) fn fold<A: Send>(
        &self,
        lab: &Lab,
        threads: usize,
        new: impl Fn() -> A + Sync,
        look: impl Fn(&mut A, u64, &Snapshot) + Sync,
    ) -> Vec<A> {
        let at_start = lab.at_start();
        self.fold_changed(lab, threads, new, at_start, look)
    }

    /// Walks the interval as [`Interval::fold`] does, with another topology: `change` returns the one in place of a sample's,
    /// in which no member is absent, or `None` to keep it.
    pub(crate) fn fold_changed<A: Send>(
        &self,
        lab: &Lab,
        threads: usize,
        new: impl Fn() -> A + Sync,
        change: impl Fn(&Snapshot) -> Option<Snapshot> + Sync,
        look: impl Fn(&mut A, u64, &Snapshot) + Sync,
    ) -> Vec<A> {
        let samples = self.samples();
        // Every part but the first begins with the steps its first snapshot can depend on, and a part of a few
        // samples costs more to start than it saves.
        let least = lab.stepper().look_back().map_or(samples, |steps| {
            16.max(steps.saturating_mul(4 * self.step_ns) / self.every.get())
        });
        let parts = (samples / least.max(1)).clamp(1, threads.max(1) as u64);
        let bound = |part: u64| samples * part / parts;
        let run = |part: u64| {
            let mut state = new();
            self.walk(lab, bound(part)..bound(part + 1), |sample, snapshot| {
                let changed = change(snapshot);
                look(&mut state, sample, changed.as_ref().unwrap_or(snapshot))
            });
            state
        };
        if parts == 1 {
            return vec![run(0)];
        }
        std::thread::scope(|scope| {
            let run = &run;
            let handles: Vec<_> = (0..parts)
                .map(|part| scope.spawn(move || run(part)))
                .collect();
            let join = |handle: std::thread::ScopedJoinHandle<'_, A>| match handle.join() {
                Ok(state) => state,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            handles.into_iter().map(join).collect()
        })
    }
}

/// Fewer steps between two samples are always walked through.
const WORTH_SCOUTING: u64 = 2_000;

/// With a policy that remembers: computes a step without those before it, if that costs at most half as much as
/// walking `between` steps.
fn scout(lab: &Lab, step: u64, between: u64) -> Option<(Stepper, Snapshot)> {
    if between < WORTH_SCOUTING {
        return None;
    }
    let most = between.saturating_mul(lab.layout.satellite_count() as u64 + 1) / 2;
    let mut stepper = lab.stepper();
    let seen = stepper.try_step(step, &mut Effort::new(most, &|| true));
    Some((stepper, seen.ok()?))
}
