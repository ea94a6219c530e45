//! Notifications for threads that wait for news, so that they need not poll.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, Weak};

use rustix::event::{EventfdFlags, eventfd};

/// The notifications of all waiting threads.
#[derive(Debug, Default)]
pub(crate) struct Bells(Mutex<Vec<Weak<OwnedFd>>>);

impl Bells {
    /// A bell of one's own, which can be read when it has rung; it has already, as there may be news from before.
    ///
    /// # Errors
    /// When descriptors are short.
    pub(crate) fn bell(&self) -> io::Result<Arc<OwnedFd>> {
        let bell = Arc::new(eventfd(1, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let mut all = self.0.lock().unwrap_or_else(|e| e.into_inner());
        all.push(Arc::downgrade(&bell));
        Ok(bell)
    }

    pub(crate) fn ring(&self) {
        let mut all = self.0.lock().unwrap_or_else(|e| e.into_inner());
        all.retain(|bell| {
            let bell = bell.upgrade();
            // One that is full can be read already.
            bell.is_some_and(|bell| {
                let _ = rustix::io::write(&*bell, &1u64.to_ne_bytes());
                true
            })
        });
    }
}

/// Stills a bell until it rings again.
pub(crate) fn still(bell: &OwnedFd) {
    let _ = rustix::io::read(bell, &mut [0; 8]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rings(bell: &OwnedFd) -> bool {
        rustix::io::read(bell, &mut [0; 8]).is_ok()
    }

    #[test]
    fn a_bell_rings_at_first_and_with_the_others_until_it_is_stilled() {
        let bells = Bells::default();
        let [one, other] = [(); 2].map(|()| bells.bell().unwrap());
        assert!(rings(&one) && rings(&other));
        assert!(!rings(&one));
        bells.ring();
        bells.ring();
        still(&one);
        assert!(!rings(&one) && rings(&other));
        // A waiter that has left is not notified.
        drop(one);
        bells.ring();
        assert!(rings(&other));
        assert_eq!(bells.0.lock().unwrap().len(), 1);
    }
}
