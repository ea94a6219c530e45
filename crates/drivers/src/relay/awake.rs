//! Keeps the host's processors from deep sleep while frames are under way.
//!
//! A processor that slept comes back with cold caches; in a virtual machine it was given away altogether, and its
//! translations of memory are gone too. Every passage through a node after a pause then takes twice as long. The
//! kernel takes such wishes at `/dev/cpu_dma_latency` (its documentation: `power/pm_qos_interface.rst`), for all
//! processors, for as long as the file is open: it needs no cleaning up after us, however we end.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};

use constel_link::Nanos;

/// Without frames for this long the processors may sleep as they like: more than a ping's usual second.
const SILENCE_NS: Nanos = 2_000_000_000;
/// The kernel's value for "no wish", microseconds.
const ANY_LATENCY_US: i32 = 2_000_000_000;
/// Wakes from `C1` on processors of today, and keeps the caches.
const LIGHT_SLEEP_US: i32 = 2;

const WISHES: &str = "/dev/cpu_dma_latency";
const DRIVER: &str = "/sys/devices/system/cpu/cpuidle/current_driver";

/// Whether processors are kept awake, and for how long they have been.
#[derive(Debug)]
pub(crate) struct Awake {
    /// `None` where the host has no such file, or not for us.
    wishes: Option<File>,
    latency_us: i32,
    last_frame_ns: Nanos,
    /// Since when, while they are.
    since_ns: Option<Nanos>,
    before_ns: Nanos,
}

impl Awake {
    /// As the host allows; nothing is wished for yet.
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

    /// Frames come or go.
    pub(crate) fn frames(&mut self, now: Nanos) {
        self.last_frame_ns = now;
        if self.since_ns.is_none() && self.wish(self.latency_us) {
            self.since_ns = Some(now);
        }
    }

    /// When to look next whether there has been silence.
    pub(crate) fn until(&self) -> Nanos {
        match self.since_ns {
            Some(_) => self.last_frame_ns.saturating_add(SILENCE_NS),
            None => Nanos::MAX,
        }
    }

    /// Lets the processors sleep when there has been silence.
    pub(crate) fn look(&mut self, now: Nanos) {
        if now >= self.until() && self.wish(ANY_LATENCY_US) {
            self.before_ns = self.total_ns(now);
            self.since_ns = None;
        }
    }

    /// For how long they were kept awake.
    pub(crate) fn total_ns(&self, now: Nanos) -> Nanos {
        let since = self.since_ns.map_or(0, |since| now.saturating_sub(since));
        self.before_ns + since
    }

    /// A host that does not listen is not asked again.
    fn wish(&mut self, latency_us: i32) -> bool {
        let Some(file) = &mut self.wishes else {
            return false;
        };
        let done = file.write_all(&latency_us.to_ne_bytes()).is_ok();
        if !done {
            self.wishes = None;
            self.since_ns = None;
        }
        done
    }
}

/// Opening the file is a wish already, for no sleep at all: it is taken back at once.
fn wishes() -> Option<File> {
    let open = || -> io::Result<File> {
        let mut file = OpenOptions::new().write(true).open(WISHES)?;
        file.write_all(&ANY_LATENCY_US.to_ne_bytes())?;
        Ok(file)
    };
    open().ok()
}

/// Under a hypervisor every sleep gives the processor away, so there it is none at all.
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
