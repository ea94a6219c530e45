//! Waiting of the relay's thread: it sleeps while no frame is due, and spins just before one is.
//!
//! The duration of a wake-up depends on the machine and its load, so the thread wakes ahead of time by a *lead* that
//! adapts to observed wake-ups. The kernel stops a real-time thread that never sleeps for 50 ms each second, and the
//! thread starves the kernel's own threads of its CPU. So it rests in gaps between frames, now and then even without a
//! gap, and gives up real-time priority for the rest of a second in which it ran too long.
//!
//! If a task that ran during a rest kept the processor for long, the thread is [relieved](crate::relay::shifts) by another one
//! instead of resting, if there is one.
//!
//! With a *grain* the thread works differently: while frames are inside, it wakes at whole multiples of the grain,
//! takes in captured frames, sends the due ones, and sleeps again. Frames that become due in that time wait for the
//! next multiple: otherwise a busy thread would find a frame each time it checks, and never sleep.
//!
//! In virtual time the clock waits for each thread, so a sleep ends at its instant. The lead is then what the thread itself takes from
//! there to the frame, because each turn of a spin advances the clock by one reading, at the cost of a system call. It owes no rests.

use constel_link::Nanos;

/// The thread of the host that runs a thread of the relay.
pub(crate) trait Host {
    /// Returns the time, on the clock of all instants.
    fn now_ns(&self) -> Nanos;

    /// Returns the thread's CPU time.
    fn cpu_ns(&self) -> Nanos;

    /// Gives the thread real-time priority, or takes it away. Returns false if the kernel does not allow it.
    fn set_real_time(&self, wanted: bool) -> bool;
}

/// Scheduling of the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Nice -20, normal scheduling.
    Nice,
    /// `SCHED_FIFO` if the kernel allows it, otherwise as [`Priority::Nice`].
    RealTime,
}

/// After this time without sleep, a gap between frames is used for a rest...
const SPIN_NS: Nanos = 150_000;
/// ...of up to this length and half of the gap: the other half is for waking up...
const REST_NS: Nanos = 40_000;
/// ...unless the rest would be shorter than this.
const REST_MIN_NS: Nanos = 8_000;
/// In each period of this length...
const PERIOD_NS: Nanos = 300_000;
/// ...this much sleep is owed to other tasks: more than the twentieth of the time that the kernel requires for them,
/// and short enough to delay no frame by much.
const RELIEF_NS: i64 = 21_000;
/// Maximum owed after a long period.
const OWED_MAX_NS: i64 = 500_000;
/// Sleep beyond the amount owed counts for later, up to this limit: so no other task waits for longer than some 15 ms,
/// including another lab's relay. A task that runs during a rest may take longer than the rest: a kernel without
/// preemption first finishes a system call, or a batch of interrupts' work. If that time did not count, a busy thread
/// would lose as much by every rest.
const AHEAD_MAX_NS: i64 = 1_000_000;
/// When a sleep ends later than this, rests are expensive on this host...
const HELD_UP_NS: Nanos = 300_000;
/// ...and the thread is relieved instead, for this long...
const RELIEVED_NS: Nanos = 10_000_000_000;
/// ...whenever this much is owed: after some 4 ms of work.
const RELIEF_OWED_NS: i64 = 14 * RELIEF_NS;
/// When this much is owed, no other thread has relieved it: it rests anyway.
const UNRELIEVED_NS: i64 = 21 * RELIEF_NS;
/// If a frame is due, a rest is postponed until there is a gap, unless more than this is owed.
const PUT_OFF_MAX_NS: i64 = 3 * RELIEF_NS;
/// A gap must be longer than a rest by this, because waking up takes time.
const WAKE_NS: Nanos = 10_000;
/// Real-time running per [`WINDOW_NS`], if rests do not suffice; the kernel's limit is 950 ms per second.
const RT_PER_WINDOW_NS: Nanos = 940_000_000;
const WINDOW_NS: Nanos = 1_000_000_000;

const LEAD_MIN_NS: Nanos = 40_000;
const LEAD_MAX_NS: Nanos = 200_000;
/// The lead on a clock that waits for the thread: between the end of a sleep and the frame it reads the clock some ten times, which
/// takes 256 ns each.
const EXACT_LEAD_NS: Nanos = 10_000;
/// Step of the lead, which settles where 1 of 500 wake-ups is late: steps of +500 and -1.
const LEAD_STEP_NS: Nanos = 40;
/// A wake-up is in time if this much of the lead is left.
const LEAD_MARGIN_NS: Nanos = 5_000;

/// Plan until the next event is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    Spin,
    /// Sleep until then, or until a frame comes in.
    Sleep {
        until: Nanos,
    },
    /// Sleep until then, even if frames come in: they wait for longer anyway, or are as late as with any overdue rest.
    Rest {
        until: Nanos,
    },
}

/// Time owed to other tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overdue {
    /// A rest, until then.
    Rest { until: Nanos },
    /// Another thread must continue the work.
    Relief,
}

/// The waiting strategy.
#[derive(Debug)]
pub(crate) struct Waiting {
    priority: Priority,
    lead_ns: Nanos,
    /// Frames leave at whole multiples of this; 0: at their own times.
    grain_ns: Nanos,
    /// Whether sleeps end at their instant, because the clock waits for the thread.
    exact: bool,
    /// Whether the kernel permits real-time scheduling.
    real_time: bool,
    /// Whether it is in use at the moment.
    in_real_time: bool,
    last_sleep_ns: Nanos,
    /// Sleep owed to other tasks as of `account`; negative after more sleep than owed.
    owed_ns: i64,
    account: Since,
    /// Whether a rest was postponed: the next gap is used for it.
    put_off: bool,
    window: Since,
    /// Whether there is a thread that can relieve this one.
    relief: bool,
    /// Whether the calling thread does the work.
    at_work: bool,
    /// Until when the thread is relieved instead of resting.
    relieved_until_ns: Nanos,
    /// CPU time of the thread when it took over the work, and total CPU time of the work when a thread last left it.
    began_cpu_ns: Nanos,
    left_cpu_ns: Nanos,
}

/// Start of a period, and the thread's CPU time then.
#[derive(Clone, Copy, Debug, Default)]
struct Since {
    from_ns: Nanos,
    cpu_ns: Nanos,
}

impl Waiting {
    pub(crate) fn new(
        priority: Priority,
        lead_ns: Nanos,
        grain_ns: Nanos,
        relief: bool,
    ) -> Waiting {
        Waiting {
            priority,
            lead_ns: lead_ns.clamp(LEAD_MIN_NS, LEAD_MAX_NS),
            grain_ns,
            exact: false,
            real_time: false,
            in_real_time: false,
            last_sleep_ns: 0,
            owed_ns: 0,
            account: Since::default(),
            put_off: false,
            window: Since::default(),
            relief,
            at_work: false,
            relieved_until_ns: 0,
            began_cpu_ns: 0,
            left_cpu_ns: 0,
        }
    }

    /// Returns the strategy on a clock that waits for the thread, if `clock_waits`: the lead is as short as can be.
    pub(crate) fn on_clock(self, clock_waits: bool) -> Waiting {
        if !clock_waits {
            return self;
        }
        Waiting {
            exact: true,
            lead_ns: EXACT_LEAD_NS,
            ..self
        }
    }

    /// Returns whether sleeps end at their instant, because the clock waits for the thread.
    pub(crate) fn is_exact(&self) -> bool {
        self.exact
    }

    /// Called when this thread of the host, which was set up, takes over. The time in which it did not work
    /// belonged to other tasks, so no sleep is owed.
    pub(crate) fn enter(&mut self, host: &impl Host) {
        if self.priority == Priority::RealTime {
            self.real_time = host.set_real_time(true);
            self.in_real_time = self.real_time;
        }
        self.last_sleep_ns = host.now_ns();
        self.window = Since {
            from_ns: self.last_sleep_ns,
            cpu_ns: host.cpu_ns(),
        };
        self.account = self.window;
        self.began_cpu_ns = self.window.cpu_ns;
        self.owed_ns = 0;
        self.put_off = false;
        self.at_work = true;
    }

    /// Called when the thread leaves the work: another may take over, and this one must be ready when it is called.
    pub(crate) fn leave(&mut self, host: &impl Host) {
        self.left_cpu_ns = self.cpu_ns(host);
        self.at_work = false;
        if self.real_time && !self.in_real_time {
            host.set_real_time(true);
        }
    }

    /// Called when this thread of the host, which [left](Waiting::leave), has the work again because no other took over.
    pub(crate) fn come_back(&mut self, host: &impl Host) {
        self.began_cpu_ns = host.cpu_ns();
        self.in_real_time = self.real_time;
        self.at_work = true;
    }

    /// Returns whether there is a thread that can relieve this one.
    pub(crate) fn may_be_relieved(&self) -> bool {
        self.relief
    }

    /// Sets whether there is a thread that can relieve this one.
    pub(crate) fn relieve(&mut self, relief: bool) {
        self.relief = relief;
    }

    /// Returns the CPU time that the work has taken on all threads; called by the thread that does it. The CPU time for
    /// a guest counts as the thread's own.
    pub(crate) fn cpu_ns(&self, host: &impl Host) -> Nanos {
        if !self.at_work {
            return self.left_cpu_ns;
        }
        self.left_cpu_ns + host.cpu_ns() - self.began_cpu_ns
    }

    /// Returns whether sleeps are expensive, and there is another thread to alternate with.
    pub(crate) fn relieved(&self, now: Nanos) -> bool {
        self.relief && now < self.relieved_until_ns
    }

    /// Must be called every turn: keeps the thread from monopolizing its CPU. Returns the overdue action. Sleep is
    /// measured by CPU time: the time spent on falling asleep and being woken at once is not sleep. `due` returns when
    /// the next frame is due.
    pub(crate) fn pace(
        &mut self,
        now: Nanos,
        host: &impl Host,
        due: impl FnOnce() -> Nanos,
    ) -> Option<Overdue> {
        let period = now.saturating_sub(self.account.from_ns);
        if self.exact || !self.real_time || period < PERIOD_NS {
            return None;
        }
        let start = Since {
            from_ns: now,
            cpu_ns: host.cpu_ns(),
        };
        if now.saturating_sub(self.window.from_ns) >= WINDOW_NS {
            self.window = start;
            if !self.in_real_time {
                self.in_real_time = host.set_real_time(true);
            }
        } else if self.in_real_time && start.cpu_ns - self.window.cpu_ns > RT_PER_WINDOW_NS {
            self.in_real_time = !host.set_real_time(false);
        }
        // Sleep is the wall-clock time that the thread did not spend on the CPU, whether it slept or was preempted.
        let rested = period.saturating_sub(start.cpu_ns - self.account.cpu_ns);
        self.account = start;
        let signed = |ns: Nanos| i64::try_from(ns).unwrap_or(i64::MAX);
        let share = signed(period).saturating_mul(RELIEF_NS) / signed(PERIOD_NS);
        self.owed_ns = self
            .owed_ns
            .saturating_add(share)
            .saturating_sub(signed(rested))
            .clamp(-AHEAD_MAX_NS, OWED_MAX_NS);
        let owed = Nanos::try_from(self.owed_ns).unwrap_or(0);
        if !self.in_real_time || owed <= REST_MIN_NS {
            return None;
        }
        if self.relieved(now) && self.owed_ns < UNRELIEVED_NS {
            return (self.owed_ns >= RELIEF_OWED_NS).then_some(Overdue::Relief);
        }
        // There is a gap before the next frame: rest for all that is owed.
        if due().saturating_sub(now) > owed + WAKE_NS {
            return Some(Overdue::Rest { until: now + owed });
        }
        // No gap: postpone the rest, or if too much is owed, rest for a part of it now.
        self.put_off = self.owed_ns < PUT_OFF_MAX_NS;
        let rest = (self.owed_ns - PUT_OFF_MAX_NS).max(RELIEF_NS);
        (!self.put_off).then_some(Overdue::Rest {
            until: now + rest as Nanos,
        })
    }

    /// Returns whether a turn that found work is followed by another at once. With a grain this is so only if the turn
    /// cannot have taken in all frames that it saw.
    pub(crate) fn goes_on(&self, found: bool, left_some: impl FnOnce() -> bool) -> bool {
        found && (self.grain_ns == 0 || left_some())
    }

    /// Returns the plan when the next event is due at `due` and work of length `before` must precede it.
    pub(crate) fn plan(&self, now: Nanos, due: Nanos, before: Nanos) -> Plan {
        if self.grain_ns > 0 && due > now - now % self.grain_ns {
            // Frames that come in during the sleep still have their delay before them. Only the first frame after
            // silence must wake the thread.
            return if due == Nanos::MAX {
                Plan::Sleep { until: due }
            } else {
                Plan::Rest {
                    until: (now / self.grain_ns + 1) * self.grain_ns,
                }
            };
        }
        let until = due.saturating_sub(self.lead_ns + before);
        if until > now {
            return Plan::Sleep { until };
        }
        let spun = now.saturating_sub(self.last_sleep_ns) > SPIN_NS;
        if self.in_real_time && (spun || self.put_off) && !self.relieved(now) {
            let rest = (due.saturating_sub(now) / 2).min(REST_NS);
            if rest >= REST_MIN_NS {
                return Plan::Rest { until: now + rest };
            }
        }
        Plan::Spin
    }

    /// Records the end of a sleep until `until`.
    pub(crate) fn slept(&mut self, until: Nanos, now: Nanos) {
        self.last_sleep_ns = now;
        self.put_off = false;
        if self.exact {
            return;
        }
        if let Some(late_ns) = now.checked_sub(until) {
            self.learn(late_ns);
            if late_ns > HELD_UP_NS {
                self.held_up(now);
            }
        }
    }

    /// Records that a task which ran during a rest kept the processor for long.
    pub(crate) fn held_up(&mut self, now: Nanos) {
        self.relieved_until_ns = now + RELIEVED_NS;
    }

    // An asymmetric step as in quantile estimation: the lead rises by 500 steps on a late wake-up and falls by 1
    // otherwise, so it settles where 1 in about 500 is late.
    fn learn(&mut self, late_ns: Nanos) {
        let step = if late_ns + LEAD_MARGIN_NS > self.lead_ns {
            self.lead_ns + 500 * LEAD_STEP_NS
        } else {
            self.lead_ns - LEAD_STEP_NS
        };
        self.lead_ns = step.clamp(LEAD_MIN_NS, LEAD_MAX_NS);
    }

    /// Returns the present lead.
    pub(crate) fn lead_ns(&self) -> Nanos {
        self.lead_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A host whose clocks the test sets. It allows everything.
    #[derive(Default)]
    struct Virtual {
        now_ns: Cell<Nanos>,
        cpu_ns: Cell<Nanos>,
    }

    impl Host for Virtual {
        fn now_ns(&self) -> Nanos {
            self.now_ns.get()
        }

        fn cpu_ns(&self) -> Nanos {
            self.cpu_ns.get()
        }

        fn set_real_time(&self, _: bool) -> bool {
            true
        }
    }

    /// A host on which the thread has used this much CPU time.
    fn used(cpu_ns: Nanos) -> Virtual {
        let host = Virtual::default();
        host.cpu_ns.set(cpu_ns);
        host
    }

    fn waiting() -> Waiting {
        let mut w = Waiting::new(Priority::RealTime, 80_000, 0, false);
        w.real_time = true;
        w.in_real_time = true;
        w
    }

    #[test]
    fn sleeps_until_the_lead_and_spins_after() {
        let w = Waiting::new(Priority::Nice, 80_000, 0, false);
        assert_eq!(
            w.plan(1000, Nanos::MAX, 0),
            Plan::Sleep {
                until: Nanos::MAX - 80_000
            }
        );
        assert_eq!(w.plan(1000, 100_000, 0), Plan::Sleep { until: 20_000 });
        assert_eq!(w.plan(1000, 100_000, 5_000), Plan::Sleep { until: 15_000 });
        assert_eq!(w.plan(20_000, 100_000, 0), Plan::Spin);
        assert_eq!(
            w.plan(50_000_000, 50_000_100, 0),
            Plan::Spin,
            "no rests without real time"
        );
    }

    #[test]
    fn on_a_clock_that_waits_it_sleeps_until_the_frame_and_never_rests() {
        let mut w = Waiting::new(Priority::RealTime, 80_000, 0, true).on_clock(true);
        let host = Virtual::default();
        w.enter(&host);
        let due = 50_000;
        let until = due - EXACT_LEAD_NS;
        assert_eq!(w.plan(0, due, 0), Plan::Sleep { until });
        assert_eq!(w.plan(until, due, 0), Plan::Spin, "it reads the clock");
        // A late end of a sleep is that of work that takes virtual time, such as readings of the clock.
        w.slept(1, 1 + 2 * HELD_UP_NS);
        assert_eq!(w.lead_ns(), EXACT_LEAD_NS);
        assert!(!w.relieved(1 + 2 * HELD_UP_NS));
        host.cpu_ns.set(40 * WINDOW_NS);
        assert_eq!(w.pace(40 * WINDOW_NS, &host, || Nanos::MAX), None);
        let real = waiting().on_clock(false);
        assert_eq!(real.lead_ns(), 80_000);
    }

    #[test]
    fn rests_in_gaps_and_in_the_end_without() {
        let mut w = waiting();
        let now = SPIN_NS + 1;
        assert_eq!(w.plan(now, now + 10_000, 0), Plan::Spin, "too close");
        let rest = |until| Plan::Rest { until };
        assert_eq!(
            w.plan(now, now + 35_000, 0),
            rest(now + 17_500),
            "half of it"
        );
        let lead = w.lead_ns();
        w.lead_ns = 200_000;
        assert_eq!(w.plan(now, now + 199_000, 0), rest(now + REST_NS));
        w.lead_ns = lead;
        w.last_sleep_ns = now;
        assert_eq!(w.plan(now, now + 35_000, 0), Plan::Spin, "slept just now");
        w.put_off = true;
        assert_eq!(w.plan(now, now + 35_000, 0), rest(now + 17_500), "owed");
    }

    #[test]
    fn work_is_counted_whoever_comes_back_to_it() {
        let mut w = Waiting::new(Priority::Nice, 80_000, 0, true);
        let (first, second) = (used(100), used(7_000));
        w.enter(&first);
        first.cpu_ns.set(1_100);
        assert_eq!(w.cpu_ns(&first), 1_000);
        w.leave(&first);
        first.cpu_ns.set(5_000);
        assert_eq!(w.cpu_ns(&first), 1_000, "another thread's work");
        w.come_back(&first);
        first.cpu_ns.set(5_500);
        assert_eq!(w.cpu_ns(&first), 1_500, "its own again");
        w.leave(&first);
        w.enter(&second);
        assert_eq!(w.cpu_ns(&second), 1_500, "as others had before");
        second.cpu_ns.set(7_001);
        assert_eq!(w.cpu_ns(&second), 1_501);
    }

    #[test]
    fn real_time_ends_after_too_much_of_a_second_and_returns_with_the_next() {
        let mut w = Waiting::new(Priority::RealTime, 80_000, 0, false);
        let host = Virtual::default();
        w.enter(&host);
        let mut in_real_time = |now: Nanos| {
            host.cpu_ns.set(now);
            w.pace(now, &host, || now);
            w.in_real_time
        };
        assert!(in_real_time(RT_PER_WINDOW_NS));
        assert!(!in_real_time(RT_PER_WINDOW_NS + PERIOD_NS));
        assert!(!in_real_time(WINDOW_NS - 1));
        assert!(in_real_time(WINDOW_NS + PERIOD_NS));
    }

    const NONE: Vec<Nanos> = Vec::new();

    /// Returns the rests of a thread that works period after period and sleeps for `slept` in each; `busy`: frames are due all
    /// the time.
    fn rests(slept: Nanos, busy: bool, periods: u64) -> Vec<Nanos> {
        let mut w = waiting();
        let (mut now, mut cpu) = (0, 0);
        let mut rests = Vec::new();
        for _ in 0..periods {
            now += PERIOD_NS;
            cpu += PERIOD_NS - slept;
            let due = if busy { now } else { Nanos::MAX };
            if let Some(Overdue::Rest { until }) = w.pace(now, &used(cpu), || due) {
                rests.push(until - now);
                now = until;
            }
        }
        rests
    }

    #[test]
    fn what_is_owed_is_rested() {
        let mut w = waiting();
        assert_eq!(w.pace(1, &used(0), || unreachable!()), None, "not yet");
        let relief = RELIEF_NS as Nanos;
        assert_eq!(rests(0, false, 3)[0], relief);
        assert_eq!(rests(relief, false, 100), NONE, "enough by itself");
        assert_eq!(
            rests(relief - 10_000, false, 1),
            [10_000],
            "what is missing"
        );
        // All the time: a share of all time that the kernel is content with, give or take one rest.
        for busy in [false, true] {
            let (taken, periods) = (rests(0, busy, 1000), 1000 * PERIOD_NS);
            let all: Nanos = taken.iter().sum();
            assert!(all > (periods + all) * 65 / 1000, "{all}");
            assert!(
                taken.iter().all(|&rest| rest <= relief + 2_000),
                "{taken:?}"
            );
        }
    }

    #[test]
    fn where_something_is_due_a_rest_waits_for_a_gap() {
        let relief = RELIEF_NS as Nanos;
        assert_eq!(rests(0, true, 2), NONE, "put off");
        assert_eq!(rests(0, true, 3), [relief], "but not for ever");
        assert_eq!(rests(relief / 2, true, 5), NONE, "owes less");
        let mut w = waiting();
        let one = PERIOD_NS;
        assert_eq!(w.pace(one, &used(one), || one + relief), None);
        assert!(w.put_off);
        // A period as long as many, all of it work.
        let due = || 0;
        let (now, cpu) = (11 * one, 11 * one);
        let until = now + 8 * relief;
        assert_eq!(w.pace(now, &used(cpu), due), Some(Overdue::Rest { until }));
        // Asleep for long: that counts for later, but not for ever.
        let (now, cpu) = (now + 1000 * one, cpu);
        assert_eq!(w.pace(now, &used(cpu), due), None);
        assert_eq!(w.owed_ns, -AHEAD_MAX_NS);
    }

    /// If a task keeps the processor for long during a rest, the next rest is due only after that time is worked off.
    #[test]
    fn a_rest_that_took_long_is_all_that_is_owed_for_long() {
        let mut w = waiting();
        let (mut now, mut cpu, mut away) = (0, 0, 0);
        for _ in 0..3000 {
            now += PERIOD_NS;
            cpu += PERIOD_NS;
            if w.pace(now, &used(cpu), || now).is_some() {
                now += 900_000;
                away += 900_000;
            }
        }
        assert!((60..80).contains(&(away * 1000 / now)), "{away} of {now}");
    }

    /// A thread with constant work on a host where a rest takes a millisecond calls for relief, and rests if none comes.
    #[test]
    fn who_is_held_up_is_relieved() {
        let mut w = waiting();
        w.relief = true;
        let mut asks = |held_up: bool, periods: u64| {
            w.owed_ns = 0;
            let base = w.account.from_ns;
            w.relieved_until_ns = if held_up { Nanos::MAX } else { 0 };
            let asked = |n| {
                let now = base + n * PERIOD_NS;
                w.pace(now, &used(now), || now).map(|overdue| (n, overdue))
            };
            let asked: Vec<_> = (1..=periods).filter_map(asked).collect();
            asked
        };
        let relief: Vec<_> = (14..=20).map(|n| (n, Overdue::Relief)).collect();
        assert_eq!(asks(true, 20), relief, "none before 4 ms of work");
        let first = |asked: Vec<(u64, Overdue)>| asked.first().map(|(n, _)| *n);
        assert_eq!(first(asks(false, 13)), Some(3), "rests as ever");
        let nobody = asks(true, 21).pop();
        assert!(
            matches!(nobody, Some((21, Overdue::Rest { .. }))),
            "{nobody:?}"
        );
        // Gaps are not for resting then.
        let now = w.last_sleep_ns + SPIN_NS + 1;
        w.relieved_until_ns = now + 1;
        assert_eq!(w.plan(now, now + 35_000, 0), Plan::Spin);
        w.relieved_until_ns = now;
        assert!(matches!(w.plan(now, now + 35_000, 0), Plan::Rest { .. }));
    }

    #[test]
    fn with_a_grain_it_wakes_at_whole_multiples_while_frames_are_inside() {
        let w = Waiting::new(Priority::RealTime, 80_000, 500_000, false);
        let rest = |until| Plan::Rest { until };
        assert_eq!(w.plan(1_000_001, 1_000_002, 55_000), rest(1_500_000));
        assert_eq!(
            w.plan(1_500_000, 9_000_000, 0),
            rest(2_000_000),
            "for what comes in"
        );
        let silence = Plan::Sleep { until: Nanos::MAX };
        assert_eq!(w.plan(1_000_001, Nanos::MAX, 0), silence);
        assert_eq!(
            w.plan(1_499_999, 1_000_001, 0),
            rest(1_500_000),
            "due since, and for the next"
        );
        assert_eq!(w.plan(1_000_001, 1_000_000, 0), Plan::Spin, "due");
    }

    #[test]
    fn with_a_grain_what_a_turn_found_is_no_reason_for_another() {
        let with = |grain_ns| Waiting::new(Priority::RealTime, 80_000, grain_ns, false);
        let goes_on = |grain_ns, found, left_some| with(grain_ns).goes_on(found, || left_some);
        assert!(goes_on(0, true, false) && !goes_on(0, false, true));
        assert!(!goes_on(500_000, true, false) && !goes_on(500_000, false, true));
        assert!(goes_on(500_000, true, true), "the rings are not empty");
    }

    #[test]
    fn who_wakes_late_is_held_up() {
        let mut w = waiting();
        w.relief = true;
        w.slept(1_000_000, 1_000_000 + HELD_UP_NS);
        assert!(!w.relieved(2_000_000));
        w.slept(2_000_000, 2_000_001 + HELD_UP_NS);
        assert!(w.relieved(2_000_001 + HELD_UP_NS));
        assert!(!w.relieved(2_000_001 + HELD_UP_NS + RELIEVED_NS));
    }

    #[test]
    fn the_lead_follows_late_wake_ups() {
        let mut w = Waiting::new(Priority::Nice, 80_000, 0, false);
        w.learn(90_000);
        assert_eq!(w.lead_ns(), 100_000);
        (0..10).for_each(|_| w.learn(1_000_000));
        assert_eq!(w.lead_ns(), LEAD_MAX_NS);
        (0..10_000).for_each(|_| w.learn(3_000));
        assert_eq!(w.lead_ns(), LEAD_MIN_NS);
    }
}
