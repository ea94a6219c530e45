//! Sleep of the thread: until when, and what ends it early; [`super::sched`] decides whether to sleep.

use constel_link::Nanos;

use super::bell;
use super::data_path::DataPath;
use super::rings::Rings;
use super::sched::{Asleep, Outlook, Plan};
use super::shifts::News;
use super::thread::{HostThread, Thread};
use super::warm_up;
use crate::clock::mono_ns;

impl Thread {
    /// Waits if there is no work: spins if a frame is due soon, otherwise sleeps. If two threads alternate, returns the
    /// end of the sleep and the descriptors that end it early.
    pub(super) fn wait(&mut self, here: &HostThread<'_>) -> Option<(Nanos, News)> {
        let now = mono_ns();
        self.data.state.awake.look(now);
        let mut due = self.data.next_due();
        if let Some(guest) = &mut self.guest {
            guest.data.state.awake.look(now);
            due = due.min(guest.data.next_due());
        }
        let warm_up = &self.data.state.warm_up;
        // In virtual time a cold path takes no longer than a warm one.
        let before = match self.sched.waiting.is_exact() {
            true => 0,
            false => warm_up.time(due),
        };
        let (until, rest) = match self.sched.waiting.plan(now, due, before) {
            Plan::Spin if warm_up.worth_it(now, due) && self.data.pending() == 0 => {
                let data = &mut self.data;
                warm_up::queue(&mut data.xsk, &data.loaded.slots);
                data.flush();
                data.state.warm_up.done(mono_ns());
                return None;
            }
            Plan::Spin => {
                std::hint::spin_loop();
                return None;
            }
            // A thread that is here already takes over, and sleeps itself.
            _ if !here.call_off() => return None,
            Plan::Sleep { until } => {
                let outlook = self.outlook();
                self.sched.sleep_until(now, until, outlook)
            }
            Plan::Rest { until } => (until, true),
        };
        if until < Nanos::MAX && self.sched.waiting.relieved(now) {
            return Some((until, self.fall_asleep(until, rest)?));
        }
        self.sleep(until, rest);
        None
    }

    fn outlook(&self) -> Outlook {
        let guest = self.guest.as_deref().map(|guest| &guest.data);
        let are_scarce = |data: &DataPath| data.pool.homes.are_scarce();
        Outlook {
            silence_ns: self.data.state.awake.until(),
            guest_silence_ns: guest.map(|data| data.state.awake.until()),
            scarce: are_scarce(&self.data) || guest.is_some_and(are_scarce),
            took_in_ns: self.data.state.took_in_ns,
        }
    }

    /// Sleeps until then, or until a frame or command comes in; a `rest` is not ended by frames.
    pub(super) fn sleep(&mut self, until: Nanos, rest: bool) {
        let news = self.fall_asleep(until, rest);
        if let Some((news, asleep)) = news.zip(self.sched.ended_sleep()) {
            bell::sleep(news, until);
            self.woke(asleep);
        }
    }

    /// Returns the descriptors that end a sleep before its time; `None` if there is a reason not to sleep.
    fn fall_asleep(&mut self, until: Nanos, rest: bool) -> Option<News> {
        let mut stays = self.stays_awake(rest);
        if let Some(guest) = &mut self.guest {
            stays |= guest.stays_awake(rest);
        }
        if stays {
            self.wake_up();
            return None;
        }
        self.sched.falls_asleep(mono_ns(), until);
        let news = |thread: &Thread| {
            let wake = (!rest).then_some(thread.data.wake_fd);
            [wake, Some(thread.control.signals.bell.fd())]
        };
        let [wake, bell] = news(self);
        let [theirs, their_bell] = self.guest.as_deref().map_or([None; 2], news);
        Some([wake, bell, theirs, their_bell])
    }

    /// Announces the sleep. Returns whether there is a reason not to sleep; reasons that arise after the call end the
    /// sleep.
    fn stays_awake(&mut self, rest: bool) -> bool {
        let data = &mut self.data;
        let news = !rest && (data.rings.fall_asleep() || data.has_news());
        news || self.control.has_news()
    }

    fn wake_up(&self) {
        self.data.rings.wake_up();
        if let Some(guest) = &self.guest {
            guest.data.rings.wake_up();
        }
    }

    /// Records the end of a sleep.
    pub(super) fn woke(&mut self, asleep: Asleep) {
        let now = mono_ns();
        self.sched.waiting.slept(asleep.until_ns, now);
        // A wake-up before the end was caused by a frame: its arrival is the instant at which the thread should have
        // woken.
        let wanted = if now >= asleep.until_ns {
            asleep.until_ns
        } else {
            let oldest = |rings: &mut Rings| {
                rings.look();
                rings.oldest().unwrap_or(Nanos::MAX)
            };
            let own = oldest(&mut self.data.rings).min(asleep.until_ns);
            let guest = self.guest.as_mut();
            own.min(guest.map_or(Nanos::MAX, |guest| oldest(&mut guest.data.rings)))
        };
        let stalls = &mut self.data.state.stalls;
        stalls.woke(asleep.start_ns, wanted, now);
        self.wake_up();
    }
}
