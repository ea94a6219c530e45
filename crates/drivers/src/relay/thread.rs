//! A thread of the relay: frames in by shared memory, through the edge table, out by AF_XDP. There is one, or several that
//! divide the nodes among them ([`super::across`]).

use std::fs::File;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;

use constel_link::{EdgeTable, Nanos};

use super::across::Across;
use super::air::Air;
use super::apart::Apart;
use super::command::{Command, Signals};
use super::external::Externals;
use super::far::Far;
use super::gso_out::GsoSender;
use super::layout::SlotRef;
use super::object::Loaded;
use super::passed::Passed;
use super::pool::Pool;
use super::rings::Rings;
use super::sched::{self, Overdue, Priority, Waiting};
use super::shifts::{Ended, Shifts};
use super::stalls;
use super::state::State;
use super::switches::Switches;
use super::transit::Transit;
use super::waits::pressing;
use super::wire::Wires;
use super::xsk::Xsk;
use crate::clock::{mono_ns, thread_cpu_ns};

/// With more frames than this in the rings, or older ones, they are emptied before it is the turn of edges that are
/// behind...
const RINGS_LONG: u32 = 512;
const RINGS_OLD_NS: Nanos = 200_000;
/// ...for so many times [`INTAKE`](super::intake::INTAKE) at most.
pub(super) const INTAKES_PER_TURN: u32 = 16;
/// A frame is stamped a moment before it can be seen; younger ones wait for the next look, so that
/// two CPUs' frames are merged in the right order.
pub(super) const SETTLE_NS: Nanos = 300;

pub(crate) struct Thread {
    /// Its number among the relay's threads.
    pub(crate) number: usize,
    pub(crate) loaded: Arc<Loaded>,
    /// The others, if there are any.
    pub(crate) across: Option<Box<Across>>,
    pub(crate) rings: Rings,
    pub(crate) pool: Pool,
    pub(crate) table: EdgeTable<SlotRef>,
    pub(crate) xsk: Xsk,
    pub(crate) externals: Externals,
    pub(crate) air: Air,
    pub(crate) far: Far,
    pub(crate) transit: Transit,
    pub(crate) wires: Arc<Wires>,
    pub(crate) switches: Arc<Switches>,
    pub(crate) gso_out: GsoSender,
    pub(crate) signals: Arc<Signals>,
    pub(crate) commands: Receiver<Command>,
    pub(crate) wake_fd: RawFd,
    pub(crate) waiting: Waiting,
    /// Frames of TCP streams that are due together go as one.
    pub(crate) gro: bool,
    /// Where what nodes' stacks take is taken off.
    pub(crate) passed: Option<Passed>,
    /// Another of the relay's threads that the same one of the host's serves.
    pub(crate) guest: Option<Box<Thread>>,
    /// Of one that can be a guest, or have one.
    pub(crate) apart: Option<Apart>,
    pub(crate) state: State,
}

/// One of the host's threads that are a thread of the relay, number `me` of `shifts` if there are two. `work` is with the
/// first one at first.
pub(super) fn serve(
    me: usize,
    shifts: Option<&Shifts<Box<Thread>>>,
    priority: Priority,
    work: Option<Box<Thread>>,
) {
    sched::set_up(priority);
    let here = Place {
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
pub(super) struct Place<'s> {
    me: usize,
    shifts: Option<&'s Shifts<Box<Thread>>>,
    /// What the kernel tells of it.
    schedstat: Option<Arc<File>>,
}

impl Place<'_> {
    /// Nobody is to come while this one sleeps; false where it is here already.
    pub(super) fn call_off(&self) -> bool {
        self.shifts.is_none_or(Shifts::call_off)
    }
}

impl Thread {
    /// Runs until told to stop, or until another one may go on.
    fn run(mut self: Box<Self>, here: &Place<'_>) -> Ended<Box<Thread>> {
        let asleep = self.state.asleep.take();
        if let Some(asleep) = asleep {
            self.woke(asleep);
        }
        if self.state.at_work != Some(here.me) {
            if asleep.is_some() {
                self.waiting.held_up(mono_ns());
            }
            self.take_over(here);
        } else {
            self.waiting.come_back();
        }
        loop {
            if let Some(shifts) = here.shifts
                && shifts.is_here()
                && !self.part(here.me, shifts)
            {
                self.waiting.leave();
                return Ended::HandOver(self);
            }
            let now = mono_ns();
            self.state.stalls.look(now);
            if let (Some(apart), Some(shifts)) = (&self.apart, here.shifts) {
                if !apart.is_last() {
                    self.look_after_guest(now, here.me, shifts);
                } else if self.is_to_go_back(now) {
                    self.go_back(shifts);
                    return Ended::BroughtBack;
                }
            }
            let (table, guest) = (&mut self.table, self.guest.as_mut());
            let due = || {
                let own = pressing(table, &self.air, &self.far, &self.state);
                own.min(guest.map_or(Nanos::MAX, |guest| {
                    pressing(&mut guest.table, &guest.air, &guest.far, &guest.state)
                }))
            };
            let overdue = self.waiting.pace(now, thread_cpu_ns, due);
            match (overdue, here.shifts) {
                (Some(Overdue::Relief), Some(shifts)) => shifts.call(here.me),
                (Some(Overdue::Rest { until }), _) if here.call_off() => {
                    self.sleep(until, true);
                }
                _ => (),
            }
            let took = self.turns(now);
            let more = self.waiting.goes_on(took, || self.left_in_rings());
            if !self.attend_if_asked() {
                return Ended::Over;
            }
            if !more && let Some((until, news)) = self.wait(here) {
                self.waiting.leave();
                return Ended::Asleep(self, until, news);
            }
        }
    }

    /// The calling thread goes on with the work of another.
    fn take_over(&mut self, here: &Place<'_>) {
        self.state.at_work = Some(here.me);
        self.waiting.enter();
        self.state.stalls.enter(here.schedstat.clone());
        self.told_of_host_thread();
    }

    /// Tells the capture program which of the host's threads hands frames to nodes.
    pub(super) fn told_of_host_thread(&self) {
        // SAFETY: plain system call.
        let tid = unsafe { libc::gettid() };
        let told = self.loaded.told(self.number);
        told.thread.store(tid as u64, Ordering::Relaxed);
        if let Some(guest) = &self.guest {
            guest.told_of_host_thread();
        }
    }

    /// A turn of this thread, and of its guest if it has one.
    fn turns(&mut self, now: Nanos) -> bool {
        let took = self.turn(now);
        if self.apart.is_none() {
            return took;
        }
        let took = self.turn_of_guest() || took;
        if let Some(apart) = &mut self.apart
            && (std::mem::take(&mut self.state.worked) || took)
        {
            apart.worked(mono_ns().saturating_sub(now));
        }
        took
    }

    /// Frames that the last turn saw and left.
    fn left_in_rings(&self) -> u32 {
        let guest = self.guest.as_ref().map_or(0, |guest| guest.rings.waiting());
        self.rings.waiting().max(guest)
    }

    /// Take in what has arrived, send what is due. True when there may be more to do at once.
    pub(super) fn turn(&mut self, now: Nanos) -> bool {
        self.rings.look();
        let settled = now.saturating_sub(SETTLE_NS);
        let mut busy = false;
        // Updates take effect between the frames that arrived before and after their instant.
        while let Some(first) = self.state.scheduled.front()
            && first.at_ns <= settled
        {
            let at_ns = first.at_ns;
            if self.across.is_some() {
                if !self.change_together(at_ns) {
                    return self.meanwhile(now, at_ns);
                }
                busy = true;
                continue;
            }
            while self.intake(at_ns.saturating_sub(1)) {
                self.send_due(mono_ns());
            }
            if let Some(first) = self.state.scheduled.pop_front() {
                self.make(first, true);
            }
            busy = true;
        }
        busy |= self.intake(settled);
        busy |= self.take_handed();
        // The rings are first come, first served; what is in the table gets its fair turn. Whoever fills the rings does
        // not hold up those that are due on other edges.
        let (old, mut now) = (now.saturating_sub(RINGS_OLD_NS), now);
        for _ in 0..INTAKES_PER_TURN {
            let long = self.rings.waiting() > RINGS_LONG;
            let long = long || self.rings.oldest().is_some_and(|ts| ts < old);
            if !long || !self.intake(settled) {
                break;
            }
            now = mono_ns();
            self.send_punctual(now);
        }
        busy |= self.air.advance(settled, &mut self.table, &mut self.pool);
        busy |= self.send_arrived(now);
        busy |= self.send_due(now);
        if let Some(across) = &mut self.across {
            across.knock();
        }
        busy
    }

    /// While other threads are not as far as a change at this instant, what is due is sent all the same.
    fn meanwhile(&mut self, now: Nanos, at_ns: Nanos) -> bool {
        let before = at_ns.saturating_sub(1);
        self.air.advance(before, &mut self.table, &mut self.pool);
        self.send_due(now);
        if let Some(across) = &mut self.across {
            across.knock();
        }
        // Another one may have to run where we do.
        std::thread::yield_now();
        true
    }

    /// Treats what is asked of this thread and of its guest. False when it is time to stop.
    fn attend_if_asked(&mut self) -> bool {
        let guest = self.guest.as_mut();
        let goes_on = guest.is_none_or(|guest| guest.attend_if_asked());
        goes_on && (!self.signals.attention.load(Ordering::Relaxed) || self.attend())
    }

    /// Treat all commands. False when it is time to stop.
    fn attend(&mut self) -> bool {
        self.signals.attention.store(false, Ordering::SeqCst);
        self.signals.bell.hear();
        if self.signals.stop.load(Ordering::SeqCst) {
            return false;
        }
        while let Ok(command) = self.commands.try_recv() {
            self.treat(command);
        }
        true
    }
}
