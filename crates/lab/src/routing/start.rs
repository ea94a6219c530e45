//! The rate at which daemons are started: as fast as the machine allows.
//!
//! If hundreds of daemons start at once, they exchange their first messages at the same time. None gets the
//! processor when it must answer, neighbours time out, and everything begins again. Daemons are therefore started
//! in the order of their nodes, plane by plane, and the next one only when few tasks wait for a processor. The
//! running ones have then done their present work, and adjacencies form through the constellation at the machine's
//! own pace.

use std::fs;

/// The state of the machine before a start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sight {
    /// The time, seconds.
    pub(crate) now_s: f64,
    /// The number of tasks on the whole machine that run or wait for a processor.
    pub(crate) runnable: u32,
    /// The available memory, bytes.
    pub(crate) available_bytes: u64,
}

/// The decision about a start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Decision {
    /// Start one.
    Start,
    /// Check again after this time in seconds.
    Wait(f64),
    /// Start no more: too little memory is left.
    Stop,
}

/// The time between two checks of a busy machine, seconds.
const LOOK_EVERY_S: f64 = 0.01;

/// The longest delay of a start, seconds, however busy the machine is: other programs may be the cause.
const PATIENCE_S: f64 = 0.05;

/// The decision about the next start. Pure: time and load are arguments.
#[derive(Debug)]
pub(crate) struct StartControl {
    most_runnable: u32,
    pace_s: f64,
    reserve_bytes: u64,
    /// The earliest time of the next start.
    next_s: f64,
    waiting_since_s: Option<f64>,
    waited_s: f64,
}

impl StartControl {
    /// Creates the control. At most `most_runnable` tasks may run or wait per processor, starts are at least
    /// `pace_s` apart, and `reserve_bytes` of memory stay free.
    pub(crate) fn new(
        most_runnable: u32,
        processors: u32,
        pace_s: f64,
        reserve_bytes: u64,
    ) -> Self {
        Self {
            most_runnable: most_runnable.saturating_mul(processors).max(1),
            pace_s,
            reserve_bytes,
            next_s: 0.0,
            waiting_since_s: None,
            waited_s: 0.0,
        }
    }

    /// Returns the decision for the present state.
    pub(crate) fn decide(&mut self, sight: Sight) -> Decision {
        if sight.available_bytes < self.reserve_bytes {
            return Decision::Stop;
        }
        if sight.now_s < self.next_s {
            return Decision::Wait(self.next_s - sight.now_s);
        }
        // The waiting time counts from when the pace first allowed the start.
        let since = *self.waiting_since_s.get_or_insert(sight.now_s);
        let waited = sight.now_s - since;
        if sight.runnable > self.most_runnable && waited < PATIENCE_S {
            return Decision::Wait(LOOK_EVERY_S);
        }
        self.waited_s += waited;
        self.waiting_since_s = None;
        // The time counts from the due time, so that late wake-ups do not add up; missed starts are not made up
        // for.
        self.next_s = self.next_s.max(sight.now_s - self.pace_s) + self.pace_s;
        Decision::Start
    }

    /// Returns the time for which it has delayed starts, seconds.
    pub(crate) fn waited_s(&self) -> f64 {
        self.waited_s
    }
}

/// Returns the number of tasks that run or wait for a processor, from `/proc/loadavg`; 0 when it cannot be read.
pub(crate) fn runnable() -> u32 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    parse_runnable(&text).unwrap_or(0)
}

/// Parses the fourth field, `running/all`.
fn parse_runnable(text: &str) -> Option<u32> {
    let field = text.split_ascii_whitespace().nth(3)?;
    field.split_once('/')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLENTY: u64 = 1 << 34;

    /// A machine in virtual time: each start brings `work_s` of processor time, done one task after the other.
    struct Machine {
        now_s: f64,
        processors: f64,
        backlog_s: f64,
        work_s: f64,
    }

    impl Machine {
        fn pass(&mut self, dt_s: f64) {
            self.now_s += dt_s;
            self.backlog_s = (self.backlog_s - dt_s * self.processors).max(0.0);
        }

        fn sight(&self, others: u32) -> Sight {
            Sight {
                now_s: self.now_s,
                runnable: others + (self.backlog_s / self.work_s).ceil() as u32,
                available_bytes: PLENTY,
            }
        }

        /// Starts `count`; returns when the last was started, and the most tasks there ever were.
        fn start(&mut self, control: &mut StartControl, count: u32, others: u32) -> (f64, u32) {
            let mut started = 0;
            let mut most = 0;
            while started < count {
                let sight = self.sight(others);
                most = most.max(sight.runnable);
                match control.decide(sight) {
                    Decision::Start => {
                        started += 1;
                        self.backlog_s += self.work_s;
                        self.pass(0.001);
                    }
                    Decision::Wait(s) => self.pass(s),
                    Decision::Stop => panic!("there is memory"),
                }
            }
            (self.now_s, most)
        }
    }

    fn machine(work_s: f64) -> Machine {
        Machine {
            now_s: 0.0,
            processors: 2.0,
            backlog_s: 0.0,
            work_s,
        }
    }

    #[test]
    fn the_queue_stays_short_and_the_processors_busy() {
        let mut m = machine(0.05);
        let mut control = StartControl::new(8, 2, 0.0, 1 << 29);
        let (end_s, most) = m.start(&mut control, 2000, 0);
        assert!(most <= 8 * 2 + 1, "{most}");
        // 2000 x 50 ms on two processors: 50 s, and hardly more.
        assert!((45.0..55.0).contains(&end_s), "{end_s}");
        assert!(control.waited_s() > 40.0, "{}", control.waited_s());
    }

    #[test]
    fn an_idle_machine_waits_for_nothing() {
        let mut m = machine(0.0001);
        let mut control = StartControl::new(8, 2, 0.0, 1 << 29);
        let (end_s, _) = m.start(&mut control, 1000, 0);
        assert!(end_s < 1.1 && control.waited_s() < 1e-9, "{end_s}");
    }

    #[test]
    fn others_slow_it_down_but_do_not_stop_it() {
        let mut m = machine(0.01);
        let mut control = StartControl::new(8, 2, 0.0, 1 << 29);
        let (end_s, _) = m.start(&mut control, 20, 1000);
        assert!((0.9..1.3).contains(&end_s), "{end_s}");
    }

    #[test]
    fn the_pace_is_kept_and_is_no_waiting_for_the_machine() {
        let mut m = machine(0.0001);
        let mut control = StartControl::new(8, 2, 0.02, 1 << 29);
        let (end_s, _) = m.start(&mut control, 501, 0);
        assert!((10.0..10.1).contains(&end_s), "{end_s}");
        assert!(control.waited_s() < 1e-9);
        // After a pause, no burst.
        m.pass(5.0);
        let (end_s, _) = m.start(&mut control, 51, 0);
        assert!((15.98..16.1).contains(&end_s), "{end_s}");
    }

    #[test]
    fn memory_is_kept_in_reserve() {
        let mut control = StartControl::new(8, 2, 0.0, 1 << 29);
        let sight = Sight {
            now_s: 0.0,
            runnable: 0,
            available_bytes: (1 << 29) - 1,
        };
        assert_eq!(control.decide(sight), Decision::Stop);
    }

    #[test]
    fn the_load_is_read() {
        assert_eq!(parse_runnable("4.52 2.51 1.45 7/419 2391\n"), Some(7));
        assert_eq!(parse_runnable("nonsense"), None);
        assert!(runnable() >= 1, "this test runs");
    }
}
