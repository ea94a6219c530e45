//! A thread of the relay: it receives frames by shared memory, passes them through the edge table, and sends them by
//! AF_XDP. There is one thread, or several that divide the nodes among them ([`super::across`]).

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

/// With more frames than this in the rings, or older ones, they are emptied before edges that are behind get their
/// turn...
const RINGS_LONG: u32 = 512;
const RINGS_OLD_NS: Nanos = 200_000;
/// ...at most this many times [`INTAKE`](super::intake::INTAKE).
pub(super) const INTAKES_PER_TURN: u32 = 16;
/// A frame is stamped a moment before it is visible. Younger ones wait for the next turn, so that frames of two CPUs
/// are merged in the right order.
pub(super) const SETTLE_NS: Nanos = 300;

pub(crate) struct Thread {
    /// Number among the relay's threads.
    pub(crate) number: usize,
    pub(crate) loaded: Arc<Loaded>,
    /// Rings to the other threads, if there are any.
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
    /// Whether frames of TCP streams that are due together are joined.
    pub(crate) gro: bool,
    /// Deduction of the time of nodes' stacks, if it is enabled.
    pub(crate) passed: Option<Passed>,
    /// Another of the relay's threads, run by the same thread of the host.
    pub(crate) guest: Option<Box<Thread>>,
    /// Load measurement of a thread that can be a guest, or have one.
    pub(crate) apart: Option<Apart>,
    pub(crate) state: State,
}

/// Runs one of the host's threads for a relay thread, number `me` of `shifts` if there are two. The first one has the
/// `work` at first.
pub(super) fn serve(
    me: usize,
    shifts: Option<&Shifts<Box<Thread>>>,
    priority: Priority,
    work: Option<Box<Thread>>,
) {
    sched::set_up(priority);
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
        let asleep = self.state.asleep.take();
        if let Some(asleep) = asleep {
            self.woke(asleep);
        }
        // Another thread of the host did the work before. If this one takes over during a sleep, the other was held up.
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
            // The due time is computed only if a rest is owed, because it costs a search in the table.
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

    /// Called when the calling thread takes over the work of another.
    fn take_over(&mut self, here: &HostThread<'_>) {
        self.state.at_work = Some(here.me);
        self.waiting.enter();
        self.state.stalls.enter(here.schedstat.clone());
        self.told_of_host_thread();
    }

    /// Writes for the capture program which of the host's threads delivers frames to nodes.
    pub(super) fn told_of_host_thread(&self) {
        // SAFETY: plain system call.
        let tid = unsafe { libc::gettid() };
        let told = self.loaded.told(self.number);
        told.thread.store(tid as u64, Ordering::Relaxed);
        if let Some(guest) = &self.guest {
            guest.told_of_host_thread();
        }
    }

    /// Runs a turn of this thread, and of its guest if it has one.
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

    /// Returns the number of frames that the last turn saw but did not take.
    fn left_in_rings(&self) -> u32 {
        let guest = self.guest.as_ref().map_or(0, |guest| guest.rings.waiting());
        self.rings.waiting().max(guest)
    }

    /// Takes in captured frames and sends due ones. Returns whether there may be more to do at once.
    pub(super) fn turn(&mut self, now: Nanos) -> bool {
        self.rings.look();
        // The newest frames are left for the next turn: another CPU may be about to publish an older one.
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
        // The rings are served in order of arrival; frames in the table get fair turns. A node that fills the rings
        // must not delay frames that are due on other edges.
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

    /// Sends due frames while other threads are not ready for a change at this instant.
    fn meanwhile(&mut self, now: Nanos, at_ns: Nanos) -> bool {
        let before = at_ns.saturating_sub(1);
        // The events of the channels before the change are not affected by it.
        self.air.advance(before, &mut self.table, &mut self.pool);
        self.send_due(now);
        if let Some(across) = &mut self.across {
            across.knock();
        }
        // Another relay thread may have to run on this processor.
        std::thread::yield_now();
        true
    }

    /// Handles the commands of this thread and of its guest. Returns false when the thread must stop.
    fn attend_if_asked(&mut self) -> bool {
        let guest = self.guest.as_mut();
        let goes_on = guest.is_none_or(|guest| guest.attend_if_asked());
        goes_on && (!self.signals.attention.load(Ordering::Relaxed) || self.attend())
    }

    /// Handles all commands. Returns false when the thread must stop.
    fn attend(&mut self) -> bool {
        // The flag is cleared before the commands are read: a command sent later sets it again.
        self.signals.attention.store(false, Ordering::SeqCst);
        self.signals.bell.hear();
        if self.signals.stop.load(Ordering::SeqCst) {
            return false;
        }
        while let Ok(command) = self.commands.try_recv() {
            self.handle_command(command);
        }
        true
    }
}
