//! The thread that listens for other machines and hands their frames to the relay.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use constel_drivers::relay::Arrival;
use constel_drivers::{Links, mono_ns};
use constel_host::datagrams::{Incoming, MOST_AT_ONCE};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::crossing::Shared;
use crate::crossing::wire::Socket;
use crate::underlay::{CrossingCounts, Endpoint, Receiver};

/// How often the thread checks whether it must end: 50 ms.
const LOOK_EVERY: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};
/// Longer than any frame with its headers: a longer datagram does not come from a lab.
const DATAGRAM_BYTES: usize = 4_096;

/// The listening thread's handle: frames from other machines reach their ports as long as it exists.
#[derive(Debug)]
pub struct Listening {
    shared: Arc<Shared>,
    received: Arc<Mutex<Vec<Receiver>>>,
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Listening {
    pub(crate) fn start(shared: Arc<Shared>, links: Arc<dyn Links>) -> io::Result<Self> {
        let receivers = 0..shared.machines.count();
        let receivers = receivers.map(|machine| {
            let cipher = shared.machines.cipher_from(machine);
            Receiver::new(shared.lab, shared.machines.session(), machine).sealed(cipher)
        });
        let received = Arc::new(Mutex::new(receivers.collect()));
        let end = Arc::new(AtomicBool::new(false));
        let listener = Listener {
            shared: Arc::clone(&shared),
            received: Arc::clone(&received),
            links,
            end: Arc::clone(&end),
        };
        let thread = std::thread::Builder::new().name("constel-crossing".to_owned());
        let thread = thread.spawn(move || listener.run())?;
        Ok(Self {
            shared,
            received,
            end,
            thread: Some(thread),
        })
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Returns the counts of each machine from which any frame was received.
    pub(crate) fn received(&self) -> Vec<(usize, CrossingCounts)> {
        let receivers = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = receivers.iter().map(Receiver::counts).enumerate();
        counts
            .filter(|(_, counts)| *counts != CrossingCounts::default())
            .collect()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Listener {
    shared: Arc<Shared>,
    received: Arc<Mutex<Vec<Receiver>>>,
    links: Arc<dyn Links>,
    end: Arc<AtomicBool>,
}

impl Listener {
    /// Runs until the handle is dropped or the relay has ended.
    fn run(&self) {
        // Real-time priority, if permitted: a frame that waits here longer than the head start leaves is late.
        constel_host::process::go_first();
        let mut incoming = Incoming::new(DATAGRAM_BYTES);
        let mut arrivals = Vec::with_capacity(MOST_AT_ONCE);
        while !self.end.load(Ordering::Acquire) {
            let mut news = [PollFd::new(&self.shared.socket, PollFlags::IN)];
            // On a timeout or a signal, only the end flag is checked.
            if !poll(&mut news, Some(&LOOK_EVERY)).is_ok_and(|count| count > 0) {
                continue;
            }
            // An ICMP error, for example because another machine's port is closed, must not end the thread.
            if incoming.receive(&self.shared.socket).is_err() {
                continue;
            }
            for (bytes, from) in incoming.received() {
                if let Some((from, datagram)) = Socket::datagram_in(bytes, from) {
                    self.judge(datagram, from, &mut arrivals);
                }
            }
            // One call for all datagrams of one wake-up, because each call is a message to the relay's thread.
            if !arrivals.is_empty() && self.links.arrive(std::mem::take(&mut arrivals)).is_err() {
                return;
            }
        }
    }

    fn judge(&self, datagram: &mut [u8], from: Endpoint, arrivals: &mut Vec<Arrival>) {
        let Shared {
            machines,
            time,
            strangers,
            ..
        } = &*self.shared;
        let Some(machine) = machines.at(from) else {
            strangers.fetch_add(1, Ordering::Relaxed);
            return;
        };
        // Read for each datagram: decrypting those before it takes time, and lateness is measured from here.
        let now_ns = time.of_own(mono_ns());
        let mut receivers = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        let due = receivers[machine].receive(datagram, now_ns, |port| machines.whose(port));
        // The receiver has already counted datagrams that it rejects.
        if let Ok(due) = due {
            arrivals.push(Arrival {
                from: due.from,
                to: due.port,
                due_ns: time.to_own(due.at_ns),
                frame: due.frame.to_vec(),
            });
        }
    }
}
