//! How often kernels' tables are looked at: looks cost processor time that the lab's nodes need.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::clock::thread_cpu;

/// How soon an end is noticed.
const TICK: Duration = Duration::from_millis(20);

/// Looks that cost at most a share of a core. What counts is the processor time they take: on a busy machine the time that
/// passes is mostly others'.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// From the beginning of a look to that of the next, at least.
    pub(crate) every: Duration,
    /// So many times what a look took is its thread at rest.
    pub(crate) share: u32,
}

/// A look that has begun.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begun {
    at: Instant,
    cpu: Duration,
}

impl Begun {
    /// Now, by the calling thread.
    pub(crate) fn now() -> Begun {
        Begun {
            at: Instant::now(),
            cpu: thread_cpu(),
        }
    }
}

impl Pace {
    /// When the next look is, after one that the calling thread began and is done with.
    pub(crate) fn next(self, look: Begun) -> Instant {
        let rest = (thread_cpu() - look.cpu) * self.share;
        (look.at + self.every).max(Instant::now() + rest)
    }

    /// Looks again and again until `stop`.
    ///
    /// # Errors
    /// That of a look; then there are no more.
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
                std::thread::sleep(TICK);
            }
        }
        Ok(())
    }
}

/// Looks between other things that have their time.
#[derive(Debug)]
pub(crate) struct Looks {
    pace: Pace,
    next: Option<Instant>,
    /// The longest one took so long.
    longest: Duration,
}

impl Looks {
    /// None yet.
    pub(crate) fn new(pace: Pace) -> Looks {
        Looks {
            pace,
            next: None,
            longest: Duration::ZERO,
        }
    }

    /// Whether it is time for the next one.
    pub(crate) fn due(&self) -> bool {
        self.next.is_none_or(|next| Instant::now() >= next)
    }

    /// Whether a look, with some margin, is over before `left` is.
    pub(crate) fn fits(&self, left: Duration) -> bool {
        left > self.longest * 2 + Duration::from_millis(5)
    }

    /// One is done.
    pub(crate) fn done(&mut self, look: Begun) {
        self.longest = self.longest.max(look.at.elapsed());
        self.next = Some(self.pace.next(look));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses so much of the calling thread's processor time.
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
        // Time in which the thread did not run costs nothing.
        let asleep = Begun::now();
        std::thread::sleep(Duration::from_millis(60));
        assert!(pace.next(asleep) < Instant::now() + Duration::from_millis(60));
    }

    #[test]
    fn between_other_things_there_must_be_time_for_a_look() {
        let mut looks = Looks::new(Pace {
            every: Duration::from_secs(60),
            share: 1,
        });
        assert!(looks.due() && looks.fits(Duration::from_millis(6)));
        let look = Begun::now();
        std::thread::sleep(Duration::from_millis(10));
        looks.done(look);
        assert!(!looks.due());
        assert!(!looks.fits(Duration::from_millis(25)));
        assert!(looks.fits(Duration::from_secs(1)));
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
