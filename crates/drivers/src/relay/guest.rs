//! A thread of the relay that is the guest of another one, and leaves it when there is too much work for both: see
//! [`Apart`].

use constel_link::Nanos;

use super::sched::Apart;
use super::shifts::Shifts;
use super::this_thread::ThisThread;
use super::thread::Thread;
use crate::clock::mono_ns;

impl Thread {
    /// Runs a turn of the guest, if there is one. Returns whether there may be more work at once.
    pub(super) fn turn_of_guest(&mut self) -> bool {
        let Some(guest) = &mut self.guest else {
            return false;
        };
        // One thread of the host runs both, so their stalls are the same and are recorded in one place.
        let (own, other) = (&mut self.data.state, &mut guest.data.state);
        std::mem::swap(&mut own.stalls, &mut other.stalls);
        let busy = guest.data.turn(mono_ns());
        let (own, other) = (&mut self.data.state, &mut guest.data.state);
        std::mem::swap(&mut own.stalls, &mut other.stalls);
        own.warm_up.sent_by(&other.warm_up);
        own.worked |= std::mem::take(&mut other.worked);
        busy
    }

    /// Measures the first thread's load. The guest is sent away if there is too much work for both, and taken back when
    /// it returns.
    pub(super) fn look_after_guest(&mut self, now: Nanos, me: usize, shifts: &Shifts<Box<Thread>>) {
        let apart = self.sched.apart.as_mut();
        let too_much = apart.is_some_and(|apart| apart.is_too_much(now));
        if self.guest.is_some() {
            if too_much {
                shifts.call(me);
            }
        } else if let Some(guest) = shifts.take_back() {
            guest.told_of_host_thread();
            self.guest = Some(guest);
            self.sched.waiting.relieve(true);
        }
    }

    /// Called when another thread of the host has arrived: the guest moves there, if it should. Returns false if all of
    /// the work should move instead.
    pub(super) fn part(&mut self, me: usize, shifts: &Shifts<Box<Thread>>) -> bool {
        let wanted = self.sched.apart.as_ref().is_some_and(Apart::wants_to_part);
        let Some(mut guest) = self.guest.take_if(|_| wanted) else {
            return false;
        };
        let now = mono_ns();
        let change = |guest: &mut Thread, with: fn(&mut Apart, Nanos)| {
            if let Some(apart) = &mut guest.sched.apart {
                with(apart, now);
            }
        };
        change(&mut guest, Apart::begins);
        self.guest = shifts.give(me, guest);
        // The other thread may have gone back to sleep. Then the guest stays here.
        match &mut self.guest {
            Some(guest) => change(guest, Apart::ends),
            None => self.sched.waiting.relieve(false),
        }
        true
    }

    /// Measures the load of the last thread while it is apart. Returns whether it should go back.
    pub(super) fn is_to_go_back(&mut self, now: Nanos) -> bool {
        let apart = self.sched.apart.as_mut();
        apart.is_some_and(|apart| apart.is_little(now))
    }

    /// Makes the last thread a guest again.
    pub(super) fn go_back(mut self: Box<Self>, shifts: &Shifts<Box<Thread>>) {
        self.sched.goes_back(&ThisThread);
        let first = self.control.first.clone();
        // The first thread is woken only now, when it finds the guest.
        shifts.bring_back(self);
        if let Some(first) = first {
            first.ring();
        }
    }
}
