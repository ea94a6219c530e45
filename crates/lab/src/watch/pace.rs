//! The intervals at which kernels' tables are sampled: sampling costs processor time that the lab's nodes need.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use constel_host::clock::polling;

use crate::clock::thread_cpu;

/// How often the end is checked.
const TICK: Duration = Duration::from_millis(20);

/// A sampling interval that costs at most a share of a core. The processor time counts: on a busy machine most of
/// the elapsed time belongs to other programs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// The minimum time from the beginning of a sample to that of the next.
    pub(crate) every: Duration,
    /// The ratio between the thread's rest after a sample and the processor time of the sample.
    pub(crate) share: u32,
}

/// A sample that has begun.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begun {
    at: Instant,
    cpu: Duration,
}

impl Begun {
    /// Returns the present time of the calling thread.
    pub(crate) fn now() -> Begun {
        Begun {
            at: Instant::now(),
            cpu: thread_cpu(),
        }
    }
}

impl Pace {
    /// Returns the time of the next sample, after one that the calling thread began and has finished.
    pub(crate) fn next(self, look: Begun) -> Instant {
        // The rest is proportional to the processor time and counts from now; the interval counts from the
        // beginning of the sample.
        let rest = (thread_cpu() - look.cpu) * self.share;
        (look.at + self.every).max(Instant::now() + rest)
    }

    /// Samples again and again until `stop` is set.
    ///
    /// # Errors
    /// The error of a sample; then there are no more.
    pub(crate) fn repeat<E>(
        self,
        stop: &AtomicBool,
        mut look: impl FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        while !stop.load(Ordering::Acquire) {
            let begun = Begun::now();
            look()?;
            let next = self.next(begun);
            while Instant::now() < next && !stop.load(Ordering::Acquire) {
                std::thread::sleep(polling(TICK));
            }
        }
        Ok(())
    }
}

/// Samples between other work that has fixed times.
#[derive(Debug)]
pub(crate) struct SampleTimes {
    pace: Pace,
    next: Option<Instant>,
    /// The duration of the longest sample.
    longest: Duration,
}

impl SampleTimes {
    /// Creates the state before the first sample.
    pub(crate) fn new(pace: Pace) -> SampleTimes {
        SampleTimes {
            pace,
            next: None,
            longest: Duration::ZERO,
        }
    }

    /// Returns whether the next sample is due.
    pub(crate) fn due(&self) -> bool {
        self.next.is_none_or(|next| Instant::now() >= next)
    }

    /// Returns whether a sample, with some margin, would end within `left`.
    pub(crate) fn fits(&self, left: Duration) -> bool {
        // A sample may take twice as long as the longest so far.
        left > self.longest * 2 + Duration::from_millis(5)
    }

    /// Records the end of a sample.
    pub(crate) fn done(&mut self, look: Begun) {
        self.longest = self.longest.max(look.at.elapsed());
        self.next = Some(self.pace.next(look));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses this much processor time of the calling thread.
    fn work(time: Duration) {
        let until = thread_cpu() + time;
        while thread_cpu() < until {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn what_costs_much_is_looked_at_seldom() {
        let pace = Pace {
            every: Duration::from_millis(5),
            share: 10,
        };
        let cheap = Begun::now();
        assert!(pace.next(cheap) >= cheap.at + pace.every);
        let dear = Begun::now();
        work(Duration::from_millis(3));
        assert!(pace.next(dear) >= dear.at + Duration::from_millis(33));
        // Time in which the thread did not run does not count.
        let asleep = Begun::now();
        std::thread::sleep(Duration::from_millis(60));
        assert!(pace.next(asleep) < Instant::now() + Duration::from_millis(60));
    }

    #[test]
    fn between_other_things_there_must_be_time_for_a_look() {
        let mut looks = SampleTimes::new(Pace {
            every: Duration::from_secs(60),
            share: 1,
        });
        assert!(looks.due() && looks.fits(Duration::from_millis(6)));
        let look = Begun::now();
        std::thread::sleep(Duration::from_millis(10));
        looks.done(look);
        assert!(!looks.due());
        assert!(!looks.fits(Duration::from_millis(25)));
        assert!(looks.fits(Duration::from_secs(600)));
    }

    #[test]
    fn looks_end_with_the_stop_or_the_first_error() {
        let pace = Pace {
            every: Duration::from_millis(1),
            share: 1,
        };
        let stop = AtomicBool::new(false);
        let mut looks = 0;
        let ended: Result<(), ()> = pace.repeat(&stop, || {
            looks += 1;
            stop.store(looks == 3, Ordering::Release);
            Ok(())
        });
        assert_eq!((ended, looks), (Ok(()), 3));
        let wrong = pace.repeat(&AtomicBool::new(false), || Err("wrong"));
        assert_eq!(wrong, Err("wrong"));
    }
}
