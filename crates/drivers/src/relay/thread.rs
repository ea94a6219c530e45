//! A thread of the relay: a [data path](DataPath), a [scheduler](Scheduler) that decides when it works and sleeps, and a
//! [control side](Control). There is one thread, or several that divide the nodes among them ([`super::across`]).

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use constel_link::Nanos;

use super::control::Control;
use super::data_path::DataPath;
use super::intake::INTAKE;
use super::sched::{Overdue, Priority, Scheduler};
use super::shifts::{Ended, Shifts};
use super::stalls;
use super::this_thread::{self, ThisThread};
use crate::clock::mono_ns;

pub(crate) struct Thread {
    /// Number among the relay's threads.
    pub(super) number: usize,
    pub(super) data: DataPath,
    pub(super) sched: Scheduler,
    pub(super) control: Control,
    /// Another of the relay's threads, run by the same thread of the host.
    pub(super) guest: Option<Box<Thread>>,
}

/// Runs one of the host's threads for a relay thread, number `me` of `shifts` if there are two. The first one has the
/// `work` at first.
pub(super) fn serve(
    me: usize,
    shifts: Option<&Shifts<Box<Thread>>>,
    priority: Priority,
    work: Option<Box<Thread>>,
) {
    this_thread::set_up(priority);
    let here = HostThread {
        me,
        shifts,
        schedstat: stalls::schedstat(),
    };
    match (shifts, work) {
        (Some(shifts), work) => shifts.serve(me, work, |thread| thread.run(&here)),
        (None, Some(thread)) => drop(thread.run(&here)),
        (None, None) => (),
    }
}

/// One of the host's threads.
pub(super) struct HostThread<'s> {
    me: usize,
    shifts: Option<&'s Shifts<Box<Thread>>>,
    /// The kernel's scheduling statistics of it.
    schedstat: Option<Arc<File>>,
}

impl HostThread<'_> {
    /// Cancels a call, so that the other thread does not come while this one sleeps. Returns false if it is here
    /// already.
    pub(super) fn call_off(&self) -> bool {
        self.shifts.is_none_or(Shifts::call_off)
    }
}

impl Thread {
    /// Runs until it must stop, or until another thread may continue.
    fn run(mut self: Box<Self>, here: &HostThread<'_>) -> Ended<Box<Thread>> {
        let asleep = self.sched.ended_sleep();
        if let Some(asleep) = asleep {
            self.woke(asleep);
        }
        if self.sched.begins(here.me, asleep.is_some(), &ThisThread) {
            let stalls = &mut self.data.state.stalls;
            stalls.enter(here.schedstat.clone());
            self.told_of_host_thread();
        }
        loop {
            if let Some(shifts) = here.shifts
                && shifts.is_here()
                && !self.part(here.me, shifts)
            {
                self.sched.waiting.leave(&ThisThread);
                return Ended::HandOver(self);
            }
            let now = mono_ns();
            self.data.state.stalls.look(now);
            if let (Some(apart), Some(shifts)) = (&self.sched.apart, here.shifts) {
                if !apart.is_last() {
                    self.look_after_guest(now, here.me, shifts);
                } else if self.is_to_go_back(now) {
                    self.go_back(shifts);
                    return Ended::BroughtBack;
                }
            }
            let (data, guest) = (&mut self.data, self.guest.as_mut());
            let due = || {
                let own = data.pressing();
                own.min(guest.map_or(Nanos::MAX, |guest| guest.data.pressing()))
            };
            // The due time is computed only if a rest is owed, because it costs a search in the table.
            let overdue = self.sched.waiting.pace(now, &ThisThread, due);
            match (overdue, here.shifts) {
                (Some(Overdue::Relief), Some(shifts)) => shifts.call(here.me),
                (Some(Overdue::Rest { until }), _) if here.call_off() => {
                    self.sleep(until, true);
                }
                _ => (),
            }
            let took = self.turns(now);
            let more = self.sched.waiting.goes_on(took, || self.left_some());
            if !self.attend_if_asked() {
                return Ended::Over;
            }
            if !more && let Some((until, news)) = self.wait(here) {
                self.sched.waiting.leave(&ThisThread);
                return Ended::Asleep(self, until, news);
            }
        }
    }

    /// Writes for the capture program which of the host's threads delivers frames to nodes.
    pub(super) fn told_of_host_thread(&self) {
        // SAFETY: plain system call.
        let tid = unsafe { libc::gettid() };
        let told = self.data.loaded.told(self.number);
        told.thread.store(tid as u64, Ordering::Relaxed);
        if let Some(guest) = &self.guest {
            guest.told_of_host_thread();
        }
    }

    /// Runs a turn of this thread, and of its guest if it has one.
    fn turns(&mut self, now: Nanos) -> bool {
        let took = self.data.turn(now);
        if self.sched.apart.is_none() {
            return took;
        }
        let took = self.turn_of_guest() || took;
        if let Some(apart) = &mut self.sched.apart
            && (std::mem::take(&mut self.data.state.worked) || took)
        {
            apart.worked(mono_ns().saturating_sub(now));
        }
        took
    }

    /// Returns whether the last turn saw more frames than it can have taken in.
    fn left_some(&self) -> bool {
        let waiting = |thread: &Thread| thread.data.rings.waiting();
        let guest = self.guest.as_deref().map_or(0, waiting);
        waiting(self).max(guest) >= INTAKE as u32
    }

    /// Handles the commands of this thread and of its guest. Returns false when the thread must stop.
    fn attend_if_asked(&mut self) -> bool {
        let guest = self.guest.as_mut();
        let goes_on = guest.is_none_or(|guest| guest.attend_if_asked());
        goes_on && self.control.attend_if_asked(&mut self.data, &self.sched)
    }
}
