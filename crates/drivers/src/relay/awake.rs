//! Keeps the host's processors from deep sleep while frames are in flight.
//!
//! After deep sleep a processor starts with cold caches. In a virtual machine the hypervisor has also given it to
//! others, and its address translations are lost. Every passage through a node after a pause then takes twice as long.
//! The kernel accepts latency requests at `/dev/cpu_dma_latency` (its documentation: `power/pm_qos_interface.rst`), for
//! all processors, while the file is open: no cleanup is needed, however the process ends.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};

use constel_link::Nanos;

/// After this time without frames the processors may sleep. It is longer than the usual second between pings.
const SILENCE_NS: Nanos = 2_000_000_000;
/// The kernel's value for "no request", microseconds.
const ANY_LATENCY_US: i32 = 2_000_000_000;
/// Allows `C1` on present processors, which keeps the caches.
const LIGHT_SLEEP_US: i32 = 2;

const WISHES: &str = "/dev/cpu_dma_latency";
const DRIVER: &str = "/sys/devices/system/cpu/cpuidle/current_driver";

/// State of the latency request, and for how long it has been active.
#[derive(Debug)]
pub(crate) struct Awake {
    /// `None` if the host has no such file, or does not permit writing it.
    wishes: Option<File>,
    latency_us: i32,
    last_frame_ns: Nanos,
    /// Since when the request is active, if it is.
    since_ns: Option<Nanos>,
    before_ns: Nanos,
}

impl Awake {
    /// Prepares requests as the host allows; none is active yet.
    pub(crate) fn new() -> Awake {
        let driver = std::fs::read_to_string(DRIVER).unwrap_or_default();
        Awake::with(wishes(), latency_for(driver.trim()))
    }

    fn with(wishes: Option<File>, latency_us: i32) -> Awake {
        Awake {
            wishes,
            latency_us,
            last_frame_ns: 0,
            since_ns: None,
            before_ns: 0,
        }
    }

    /// Called when frames arrive or leave. Activates the request.
    pub(crate) fn frames(&mut self, now: Nanos) {
        self.last_frame_ns = now;
        if self.since_ns.is_none() && self.wish(self.latency_us) {
            self.since_ns = Some(now);
        }
    }

    /// Returns when to check next for a pause without frames.
    pub(crate) fn until(&self) -> Nanos {
        match self.since_ns {
            Some(_) => self.last_frame_ns.saturating_add(SILENCE_NS),
            None => Nanos::MAX,
        }
    }

    /// Ends the request after a pause without frames.
    pub(crate) fn look(&mut self, now: Nanos) {
        if now >= self.until() && self.wish(ANY_LATENCY_US) {
            self.before_ns = self.total_ns(now);
            self.since_ns = None;
        }
    }

    /// Returns for how long the processors were kept awake.
    pub(crate) fn total_ns(&self, now: Nanos) -> Nanos {
        let since = self.since_ns.map_or(0, |since| now.saturating_sub(since));
        self.before_ns + since
    }

    /// Writes a request. After a failure it is not tried again.
    fn wish(&mut self, latency_us: i32) -> bool {
        let Some(file) = &mut self.wishes else {
            return false;
        };
        // The kernel reads a binary 32-bit number of microseconds. The request lasts as long as the file is open.
        let done = file.write_all(&latency_us.to_ne_bytes()).is_ok();
        if !done {
            self.wishes = None;
            self.since_ns = None;
        }
        done
    }
}

/// Opens the file. Opening it requests that processors do not sleep at all, so that is withdrawn at once.
fn wishes() -> Option<File> {
    let open = || -> io::Result<File> {
        let mut file = OpenOptions::new().write(true).open(WISHES)?;
        file.write_all(&ANY_LATENCY_US.to_ne_bytes())?;
        Ok(file)
    };
    open().ok()
}

/// Returns the latency to request. Under a hypervisor every sleep gives the processor away, so no sleep at all is
/// allowed.
fn latency_for(driver: &str) -> i32 {
    if driver == "haltpoll" {
        0
    } else {
        LIGHT_SLEEP_US
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek};

    #[test]
    fn awake_from_the_first_frame_until_there_was_silence() {
        let mut file = tempfile::tempfile().unwrap();
        let mut awake = Awake::with(Some(file.try_clone().unwrap()), latency_for("haltpoll"));
        let mut wished = || {
            let mut bytes = Vec::new();
            file.rewind().unwrap();
            file.read_to_end(&mut bytes).unwrap();
            let (values, _) = bytes.as_chunks();
            values
                .iter()
                .map(|&v| i32::from_ne_bytes(v))
                .collect::<Vec<_>>()
        };
        assert_eq!(awake.until(), Nanos::MAX, "nothing to wait for");
        awake.frames(1000);
        awake.frames(5000);
        assert_eq!(awake.until(), 5000 + SILENCE_NS);
        awake.look(5000 + SILENCE_NS - 1);
        assert_eq!(wished(), [0], "once");
        awake.look(5000 + SILENCE_NS);
        assert_eq!(wished(), [0, ANY_LATENCY_US]);
        assert_eq!(awake.until(), Nanos::MAX);
        assert_eq!(awake.total_ns(Nanos::MAX), 4000 + SILENCE_NS);
        let again = 9 * SILENCE_NS;
        awake.frames(again);
        assert_eq!(wished(), [0, ANY_LATENCY_US, 0]);
        assert_eq!(awake.total_ns(again + 7), 4000 + SILENCE_NS + 7);
    }

    #[test]
    fn a_host_that_does_not_listen_is_left_alone() {
        let closed = tempfile::NamedTempFile::new().unwrap();
        let for_reading = File::open(closed.path()).unwrap();
        let mut awake = Awake::with(Some(for_reading), LIGHT_SLEEP_US);
        awake.frames(1000);
        assert!(awake.wishes.is_none());
        awake.frames(2000);
        assert_eq!((awake.until(), awake.total_ns(3000)), (Nanos::MAX, 0));
    }
}
