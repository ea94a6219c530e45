//! Two threads of the host that alternate at one piece of work, each on another processor.
//!
//! A real-time thread must let other tasks run now and then, and such a task may keep the processor for milliseconds: a
//! kernel without preemption first finishes a system call. It is unlikely that two threads are held up at once:
//!
//! - A thread that has worked for long *calls* the other to another processor, and works on until that one is there.
//!   The work never waits, and both processors are free for other tasks half of the time.
//! - A thread that sleeps until an instant *lays the work down*. If it does not return to it in time, the other one
//!   takes it.
//!
//! The work's memory is in the caches of one processor, so it changes hands only in these cases.
//!
//! The called thread may be [given](Shifts::give) a part of the work instead of all of it, and [brings it
//! back](Shifts::bring_back) some time later: see [`Apart`](super::sched::Apart).

use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use constel_link::Nanos;

use super::bell::{self, Alarm, Bell};
use crate::clock::mono_ns;

/// No thread was called.
const IDLE: u32 = 0;
/// The other thread was called.
const CALLED: u32 = 1;
/// The other thread has arrived and spins until it gets the work.
const HERE: u32 = 2;
/// The work was left for the other thread.
const HANDED: u32 = 3;
/// The work is done.
const OVER: u32 = 4;

/// A called thread that does not get the work within this time goes back to sleep.
const PATIENCE_NS: Nanos = 2_000_000;

/// Time in which the thread that laid the work down may return to it: longer than waking up takes.
const GRACE_NS: Nanos = 150_000;

/// State shared by the two threads.
#[derive(Debug)]
pub(crate) struct Shifts<W> {
    state: AtomicU32,
    laid: Mutex<Option<Laid<W>>>,
    /// A part of the work that was given away and brought back, and whether there is one.
    back: Mutex<Option<W>>,
    is_back: AtomicBool,
    /// Fires when the other thread may take the work that was laid down.
    alarm: Alarm,
    /// Wake each thread for all other reasons.
    bells: [Bell; 2],
    /// The kernel's thread numbers, once the threads run.
    tids: [OnceLock<libc::pid_t>; 2],
    /// Processors on which they may run.
    allowed: libc::cpu_set_t,
    /// The processor from which the waiting thread is excluded; -1: none.
    kept_from: AtomicI32,
}

/// Work that no thread has at the moment.
#[derive(Debug)]
struct Laid<W> {
    work: W,
    /// The thread that laid it down.
    by: usize,
    /// From when on the other one may take it.
    due_ns: Nanos,
    /// Whether it is a part of the work, whose owner continues with the rest.
    is_part: bool,
}

/// Descriptors whose readability ends a sleep early.
pub(crate) type News = [Option<RawFd>; 4];

/// Reason why a shift has ended.
#[derive(Debug)]
pub(crate) enum Ended<W> {
    /// All work is done.
    Over,
    /// The other thread [is here](Shifts::is_here).
    HandOver(W),
    /// The work was a part, and was [brought back](Shifts::bring_back).
    BroughtBack,
    /// There is no work until then, or until one of these descriptors is readable.
    Asleep(W, Nanos, News),
}

impl<W> Shifts<W> {
    /// Creates the state for threads that may run on the processors of the calling one.
    ///
    /// # Errors
    /// The kernel has no more descriptors.
    pub(crate) fn new() -> io::Result<Shifts<W>> {
        // SAFETY: plain old data.
        let mut allowed: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: about the calling thread, with a local of the size given. If it fails, the set is empty and no thread
        // is moved.
        unsafe { libc::sched_getaffinity(0, size_of_val(&allowed), &raw mut allowed) };
        Ok(Shifts {
            state: AtomicU32::new(IDLE),
            laid: Mutex::new(None),
            back: Mutex::new(None),
            is_back: AtomicBool::new(false),
            alarm: Alarm::new()?,
            bells: [Bell::new()?, Bell::new()?],
            tids: [OnceLock::new(), OnceLock::new()],
            allowed,
            kept_from: AtomicI32::new(-1),
        })
    }

    /// Works in shifts as thread `me` (0 or 1) until the work is done. Thread 0 has the work at first, the other one
    /// has `None`.
    pub(crate) fn serve(&self, me: usize, first: Option<W>, mut shift: impl FnMut(W) -> Ended<W>) {
        // However this function ends, the other thread must not wait for ever.
        let _end = End { shifts: self, me };
        // SAFETY: plain system call.
        let _ = self.tids[me].set(unsafe { libc::gettid() });
        let mut work = first.or_else(|| self.wait(me));
        while let Some(mine) = work {
            work = match shift(mine) {
                Ended::Over => return,
                Ended::HandOver(mine) => self.hand_over(me, mine, false).or_else(|| self.wait(me)),
                Ended::BroughtBack => self.wait(me),
                Ended::Asleep(mine, until, news) => {
                    self.sleep(me, mine, until, news).or_else(|| self.wait(me))
                }
            };
        }
    }

    /// Calls the other thread to a processor other than this thread's. Does nothing if it was called before, or does
    /// not run yet.
    pub(crate) fn call(&self, me: usize) {
        if self.tids[1 - me].get().is_none() {
            return;
        }
        let called = self.change(IDLE, CALLED);
        if called.is_ok() {
            self.keep_apart(me);
            self.bells[1 - me].ring();
        }
    }

    /// Returns whether the other thread was called, and waits for the work.
    #[inline]
    pub(crate) fn is_here(&self) -> bool {
        self.state.load(Ordering::Relaxed) == HERE
    }

    /// Cancels the call. Returns false if the other thread is here already.
    #[inline]
    pub(crate) fn call_off(&self) -> bool {
        match self.state.load(Ordering::Relaxed) {
            CALLED => self.change(CALLED, IDLE) != Err(HERE),
            state => state != HERE,
        }
    }

    /// Gives the other thread, which [is here](Shifts::is_here), a part of the work. Returns the part if the other
    /// thread has gone back to sleep. While it has the part, it cannot be called, and the work must not be laid down.
    pub(crate) fn give(&self, me: usize, part: W) -> Option<W> {
        self.hand_over(me, part, true)
    }

    /// Brings back the part of the work that the calling thread was given, for its owner to take.
    pub(crate) fn bring_back(&self, part: W) {
        *lock(&self.back) = Some(part);
        self.is_back.store(true, Ordering::Release);
    }

    /// Takes the part of the work that was brought back, once.
    #[inline]
    pub(crate) fn take_back(&self) -> Option<W> {
        // This is called every turn, so the lock is taken only if the flag is set.
        if !self.is_back.load(Ordering::Relaxed) {
            return None;
        }
        self.is_back.store(false, Ordering::Relaxed);
        lock(&self.back).take()
    }

    fn change(&self, from: u32, to: u32) -> Result<u32, u32> {
        self.state
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
    }

    /// Excludes the waiting thread from the processor of the calling thread `me`.
    fn keep_apart(&self, me: usize) {
        // SAFETY: plain system call.
        let cpu = unsafe { libc::sched_getcpu() };
        if self.kept_from.swap(cpu, Ordering::AcqRel) == cpu {
            return;
        }
        let mut elsewhere = self.allowed;
        if let Ok(cpu) = usize::try_from(cpu) {
            // SAFETY: within the set, as the kernel ran us there.
            unsafe { libc::CPU_CLR(cpu, &mut elsewhere) };
        }
        if let Some(other) = self.tids[1 - me].get() {
            confine(*other, &elsewhere);
        }
    }

    /// Leaves the work for the other thread. Returns the work if the other thread has gone back to sleep.
    fn hand_over(&self, me: usize, work: W, is_part: bool) -> Option<W> {
        // The work is laid down first: the other thread takes it as soon as it sees the state HANDED.
        *self.laid() = Some(Laid {
            work,
            by: me,
            due_ns: Nanos::MAX,
            is_part,
        });
        match self.change(HERE, HANDED) {
            Ok(_) => None,
            Err(_) => self.take(me),
        }
    }

    /// Lays the work down until then. Returns the work, unless the other thread has taken it.
    fn sleep(&self, me: usize, work: W, until: Nanos, news: News) -> Option<W> {
        self.keep_apart(me);
        let due_ns = until.saturating_add(GRACE_NS);
        let mut laid = self.laid();
        *laid = Some(Laid {
            work,
            by: me,
            due_ns,
            is_part: false,
        });
        // The alarm is set under the lock, so that it always matches the work that is laid down.
        self.alarm.set(due_ns);
        drop(laid);
        let [a, b, c, d] = news;
        bell::sleep([a, b, c, d, Some(self.bells[me].fd())], until);
        let work = self.take(me);
        if work.is_some() {
            // The other thread need not wake to find no work.
            self.alarm.set(Nanos::MAX);
        }
        work
    }

    /// Waits until there is work for the calling thread, or all is done.
    fn wait(&self, me: usize) -> Option<W> {
        loop {
            let work = match self.state.load(Ordering::Acquire) {
                OVER => return None,
                CALLED => self.come(me),
                _ => self.take_due(me),
            };
            if work.is_some() {
                return work;
            }
            let bell = &self.bells[me];
            bell::sleep([Some(self.alarm.fd()), Some(bell.fd())], Nanos::MAX);
            bell.hear();
        }
    }

    fn come(&self, me: usize) -> Option<W> {
        self.change(CALLED, HERE).ok()?;
        let since = mono_ns();
        while self.state.load(Ordering::Acquire) == HERE {
            std::hint::spin_loop();
            if mono_ns().saturating_sub(since) > PATIENCE_NS {
                // If the work was left at the same instant, the state is HANDED by now, and this change fails.
                let _ = self.change(HERE, IDLE);
            }
        }
        self.change(HANDED, IDLE).ok()?;
        let handed = self.laid().take();
        handed.map(|laid| self.taken(me, laid))
    }

    /// Takes the work that the calling thread laid down, if it is still there.
    fn take(&self, me: usize) -> Option<W> {
        let own = self.laid().take_if(|laid| laid.by == me);
        own.map(|laid| laid.work)
    }

    /// Takes the work that the other thread laid down, once it is due. Reads the alarm, so that it does not fire again.
    fn take_due(&self, me: usize) -> Option<W> {
        let mut laid = self.laid();
        self.alarm.hear();
        let now = mono_ns();
        let due = laid.take_if(|laid| laid.due_ns <= now);
        if let Some(laid) = &*laid {
            self.alarm.set(laid.due_ns);
        }
        drop(laid);
        due.map(|laid| self.taken(me, laid))
    }

    fn taken(&self, me: usize, laid: Laid<W>) -> W {
        // From here on this thread runs on any allowed processor.
        confine(0, &self.allowed);
        self.kept_from.store(-1, Ordering::Release);
        if !laid.is_part {
            self.keep_apart(me);
        }
        laid.work
    }

    fn laid(&self) -> MutexGuard<'_, Option<Laid<W>>> {
        lock(&self.laid)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Actions of a thread at its end.
struct End<'a, W> {
    shifts: &'a Shifts<W>,
    me: usize,
}

impl<W> Drop for End<'_, W> {
    fn drop(&mut self) {
        self.shifts.state.store(OVER, Ordering::Release);
        self.shifts.bells[1 - self.me].ring();
    }
}

/// Restricts a thread to processors. If the kernel refuses, the thread stays where it may run.
fn confine(tid: libc::pid_t, to: &libc::cpu_set_t) {
    // SAFETY: about a thread of ours, with a set of the size given.
    unsafe { libc::sched_setaffinity(tid, size_of_val(to), to) };
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    /// The thread and the processor of each turn.
    type Turns = Vec<(usize, i32)>;

    /// Runs both threads for `count` turns: `end` ends a turn.
    fn turns(
        count: usize,
        end: impl Fn(usize, &Shifts<Turns>, Turns) -> Ended<Turns> + Send + Sync + 'static,
    ) -> Turns {
        let (shifts, end) = (Arc::new(Shifts::new().unwrap()), Arc::new(end));
        let (send, done) = channel();
        let run = |me: usize, first: Option<Turns>| {
            let (shifts, end, send) = (shifts.clone(), end.clone(), send.clone());
            thread::spawn(move || {
                shifts.serve(me, first, |mut turns| {
                    // SAFETY: plain system call.
                    turns.push((me, unsafe { libc::sched_getcpu() }));
                    if turns.len() == count {
                        send.send(turns).unwrap();
                        return Ended::Over;
                    }
                    end(me, &shifts, turns)
                });
            })
        };
        let threads = [run(0, Some(Turns::new())), run(1, None)];
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        done.recv().unwrap()
    }

    fn changes<T: PartialEq>(turns: &Turns, of: impl Fn(&(usize, i32)) -> T) -> usize {
        let pairs = turns.windows(2);
        pairs.filter(|pair| of(&pair[0]) != of(&pair[1])).count()
    }

    #[test]
    fn who_is_called_goes_on_elsewhere() {
        let several = thread::available_parallelism().is_ok_and(|n| n.get() > 1);
        let turns = turns(200, |me, shifts, turns| {
            while !shifts.is_here() {
                shifts.call(me);
                std::hint::spin_loop();
            }
            Ended::HandOver(turns)
        });
        // One who waited for too long is gone when the work is handed over, and it is had once more.
        assert!(changes(&turns, |turn| turn.0) > 150, "{turns:?}");
        assert!(
            changes(&turns, |turn| turn.1) > 100 || !several,
            "{turns:?}"
        );
    }

    #[test]
    fn work_laid_down_is_had_again_at_its_time() {
        let due = Arc::new(Mutex::new(0));
        let turns = turns(300, {
            let due = due.clone();
            move |_, _, turns| {
                let mut due = due.lock().unwrap();
                let now = mono_ns();
                assert!(now >= *due, "{now} before {due}");
                *due = now + 400_000;
                Ended::Asleep(turns, *due, [None; 4])
            }
        });
        assert_eq!(turns.len(), 300);
    }

    /// The first one sleeps for a minute while its work is due, as if it were kept from its processor.
    #[test]
    fn who_does_not_come_back_loses_the_work() {
        let shifts = Arc::new(Shifts::new().unwrap());
        let other = thread::spawn({
            let shifts = shifts.clone();
            move || {
                let mut had = 0;
                shifts.serve(1, None, |work: u32| {
                    had = work;
                    Ended::Over
                });
                had
            }
        });
        let at_ns = mono_ns();
        *shifts.laid() = Some(Laid {
            work: 7,
            by: 0,
            due_ns: at_ns + 20_000_000,
            is_part: false,
        });
        shifts.alarm.set(at_ns + 20_000_000);
        assert_eq!(other.join().unwrap(), 7);
        assert!(mono_ns() - at_ns >= 20_000_000);
        assert_eq!(shifts.take(0), None);
    }

    /// The first one keeps a part of the work for itself while the other one does the rest, time and again.
    #[test]
    fn a_part_that_is_given_away_is_brought_back() {
        const TIMES: u32 = 50;
        let shifts = Arc::new(Shifts::<u32>::new().unwrap());
        let other = thread::spawn({
            let shifts = shifts.clone();
            move || {
                let own = shifts.clone();
                shifts.serve(1, None, |part| {
                    own.bring_back(part + 1);
                    Ended::BroughtBack
                });
            }
        });
        shifts.serve(0, Some(0), |mut work| {
            while work < TIMES {
                assert_eq!(shifts.take_back(), None, "once");
                while !shifts.is_here() {
                    shifts.call(0);
                    std::hint::spin_loop();
                }
                if shifts.give(0, work).is_some() {
                    continue;
                }
                work = loop {
                    if let Some(part) = shifts.take_back() {
                        break part;
                    }
                    std::hint::spin_loop();
                };
            }
            assert_eq!(work, TIMES);
            Ended::Over
        });
        other.join().unwrap();
    }

    #[test]
    fn news_end_a_sleep() {
        let news = Bell::new().unwrap();
        news.ring();
        let fd = news.fd();
        let from = mono_ns();
        let turns = turns(20, move |_, _, turns| {
            Ended::Asleep(
                turns,
                mono_ns() + 60_000_000_000,
                [Some(fd), None, None, None],
            )
        });
        assert_eq!(turns.len(), 20);
        assert!(mono_ns() - from < 30_000_000_000);
    }

    #[test]
    fn who_is_called_off_stays_away_and_the_end_wakes_all() {
        let shifts = Arc::new(Shifts::new().unwrap());
        let other = thread::spawn({
            let shifts = shifts.clone();
            move || shifts.serve(1, None, |_: u32| unreachable!("it was never handed over"))
        });
        shifts.serve(0, Some(7), |work| {
            for _ in 0..1000 {
                shifts.call(0);
                shifts.call_off();
            }
            assert_eq!(work, 7);
            Ended::Over
        });
        other.join().unwrap();
    }

    #[test]
    fn a_panic_of_one_ends_the_other() {
        let shifts = Arc::new(Shifts::new().unwrap());
        let other = thread::spawn({
            let shifts = shifts.clone();
            move || shifts.serve(1, None, |work: u32| Ended::HandOver(work))
        });
        let one = thread::spawn(move || {
            shifts.serve(0, Some(1), |_| std::panic::resume_unwind(Box::new(())));
        });
        assert!(one.join().is_err());
        other.join().unwrap();
    }
}
