//! The end that answers.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::packet::Head;
use crate::stamped::{Stamped, mono_ns};

/// What whoever starts it may wait for: a line of its begins so.
pub const LISTENING: &str = "listening on";

/// How often it looks whether to stop, nanoseconds.
const LOOK_NS: u64 = 500_000_000;

/// Answers every probe that comes to this address until `stop` is set; `ready` is called once it listens.
///
/// # Errors
/// When the address cannot be bound, or the socket fails.
pub fn answer(
    at: SocketAddr,
    stop: &AtomicBool,
    ready: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    let mut socket = Stamped::bind(at)?;
    ready()?;
    let mut buffer = vec![0; usize::from(u16::MAX)];
    while !stop.load(Ordering::Acquire) {
        socket.wait(LOOK_NS)?;
        while let Some(came) = socket.take(&mut buffer)? {
            let datagram = &mut buffer[..came.length];
            let Some(head) = Head::read(datagram) else {
                continue;
            };
            let held_ns = mono_ns().saturating_sub(came.at_ns);
            let answer = Head {
                // The most that can be said: an answer that is later than that is late all the same, and not lost.
                held_ns: u32::try_from(held_ns).unwrap_or(u32::MAX),
                arrived_ns: came.at_ns,
                ..head
            };
            answer.write(datagram);
            // Without a way back the answer is lost, as it would be later on the way.
            drop(socket.socket().send_to(datagram, came.from));
        }
    }
    Ok(())
}
